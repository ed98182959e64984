//! Consumers and their checkpoints: who gets which record, and what comes again.

use crate::support::*;
use config::{JsonlConsumerOptions, JsonlMultiTailerOptions, JsonlTailerOptions};
use jsonl::{JsonlError, Step, Tailer, Writer};
use serde_json::json;
use std::fs;
use std::path::Path;

fn remembering(dir: &Path, size: usize) -> JsonlTailerOptions {
    JsonlTailerOptions { checkpoint_name: Some("mine".to_owned()), ..tailer_options(dir, size) }
}

fn consumer(name: &str, size: usize) -> JsonlConsumerOptions {
    let max_batch_latency = std::time::Duration::from_millis(20).into();
    let checkpoint_name = Some(format!("of-{name}"));
    JsonlConsumerOptions { name: name.to_owned(), max_batch_size: size, max_batch_latency, checkpoint_name }
}

fn multi(dir: &Path, consumers: Vec<JsonlConsumerOptions>) -> Tailer {
    let options = JsonlMultiTailerOptions { directory: dir.to_owned(), consumers, ..multi_defaults() };
    Tailer::open_multi(options).expect("opens")
}

fn multi_defaults() -> JsonlMultiTailerOptions {
    JsonlMultiTailerOptions::from(JsonlTailerOptions::default())
}

#[tokio::test]
async fn a_tailer_begins_behind_what_was_committed() {
    let dir = scratch();
    fs::write(dir.path().join("a"), packed(0..5)).expect("writes");
    finish(&dir.path().join("a"));
    fs::write(dir.path().join("b"), packed(5..12)).expect("writes");
    let mut read = Vec::new();
    // Each opens anew, reads two batches and commits the first: the second comes again.
    while read.len() < 12 {
        let mut tailer = Tailer::open(remembering(dir.path(), 3)).expect("opens");
        let mut first = tailer.next(all).await.expect("sound").expect("open").remove(0);
        let second = batches(&mut tailer, usize::from(read.len() < 9)).await;
        read.extend(numbers(&first));
        first.commit().await.expect("writes");
        if let Some(second) = second.first() {
            assert_eq!(second[0], read.len() as u64);
        }
    }
    assert!(read.into_iter().eq(0..12));
}

#[tokio::test]
async fn what_is_not_committed_comes_again() {
    let dir = scratch();
    fs::write(dir.path().join("a"), packed(0..5)).expect("writes");
    for _ in 0..2 {
        let mut tailer = Tailer::open(remembering(dir.path(), 5)).expect("opens");
        assert!(batches(&mut tailer, 5).await.concat().into_iter().eq(0..5));
    }
    assert!(!dir.path().join(".mine").exists());
}

#[tokio::test]
async fn a_committed_batch_is_empty_has_no_name_and_is_committed_once() {
    let dir = scratch();
    fs::write(dir.path().join("a"), packed(0..1)).expect("writes");
    let mut tailer = Tailer::open(remembering(dir.path(), 1)).expect("opens");
    let mut batch = tailer.next(all).await.expect("sound").expect("open").remove(0);
    assert_eq!((batch.consumer_name(), batch.records().len()), ("default", 1));
    tailer.closer().close();
    batch.commit().await.expect("closing does not forbid it");
    assert_eq!((batch.consumer_name(), batch.records().len()), ("", 0));
    assert!(matches!(batch.commit().await, Err(JsonlError::Committed)));
    let text = fs::read_to_string(dir.path().join(".mine")).expect("readable");
    assert_eq!(text, "{\"version\":1,\"file\":\"a\",\"line\":1}\n");
}

#[tokio::test]
async fn a_commit_that_failed_may_be_tried_again() {
    let dir = scratch();
    fs::write(dir.path().join("a"), packed(0..1)).expect("writes");
    let mut tailer = Tailer::open(remembering(dir.path(), 1)).expect("opens");
    let mut batch = tailer.next(all).await.expect("sound").expect("open").remove(0);
    fs::create_dir(dir.path().join(".mine.new")).expect("in the way");
    assert!(matches!(batch.commit().await, Err(JsonlError::Checkpoint { .. })));
    assert_eq!(numbers(&batch), [0]);
    fs::remove_dir(dir.path().join(".mine.new")).expect("out of the way");
    batch.commit().await.expect("writes");
}

#[tokio::test]
async fn a_segment_that_is_gone_is_passed() {
    let dir = scratch();
    fs::write(dir.path().join("b"), packed(0..5)).expect("writes");
    fs::write(dir.path().join(".mine"), "{\"version\":1,\"file\":\"a\",\"line\":3}\n").expect("writes");
    let mut tailer = Tailer::open(remembering(dir.path(), 5)).expect("opens");
    assert!(batches(&mut tailer, 5).await.concat().into_iter().eq(0..5));
}

#[tokio::test]
async fn much_is_passed_over_to_get_behind_a_checkpoint() {
    let dir = scratch();
    let count = 300_000;
    fs::write(dir.path().join("a"), packed(0..count + 1)).expect("writes");
    let text = format!("{{\"version\":1,\"file\":\"a\",\"line\":{count}}}\n");
    fs::write(dir.path().join(".mine"), text).expect("writes");
    let mut tailer = Tailer::open(remembering(dir.path(), 1)).expect("opens");
    assert_eq!(batches(&mut tailer, 1).await, [[count]]);
}

#[tokio::test]
async fn a_checkpoint_that_is_none_is_an_error() {
    let dir = scratch();
    fs::write(dir.path().join(".mine"), "a 3").expect("writes");
    assert!(matches!(Tailer::open(remembering(dir.path(), 5)), Err(JsonlError::Checkpoint { .. })));
}

#[tokio::test]
async fn tail_begins_behind_what_is_there_and_a_checkpoint_matters_more() {
    let dir = scratch();
    let writer = Writer::open(writer_options(dir.path())).expect("opens");
    fs::write(dir.path().join("0"), packed(0..3)).expect("writes");
    for number in 3..5 {
        writer.write_record(&json!({"n": number})).await.expect("writes");
    }
    let options = JsonlTailerOptions { tail: true, ..remembering(dir.path(), 1) };
    let mut tailer = Tailer::open(options.clone()).expect("opens");
    for number in 5..8 {
        writer.write_record(&json!({"n": number})).await.expect("writes");
    }
    let mut batch = tailer.next(all).await.expect("sound").expect("open").remove(0);
    assert_eq!(numbers(&batch), [5]);
    batch.commit().await.expect("writes");
    let mut tailer = Tailer::open(options).expect("opens");
    assert_eq!(batches(&mut tailer, 2).await, [[6], [7]]);
    writer.close().await.expect("closes");
    // Where nothing is, everything is new.
    let empty = scratch();
    let options = JsonlTailerOptions { tail: true, ..tailer_options(empty.path(), 1) };
    let mut tailer = Tailer::open(options).expect("opens");
    fs::write(empty.path().join("a"), packed(0..1)).expect("writes");
    assert_eq!(batches(&mut tailer, 1).await, [[0]]);
}

#[tokio::test]
async fn each_consumer_gets_what_its_filter_keeps_in_batches_of_its_own() {
    let dir = scratch();
    fs::write(dir.path().join("a"), packed(0..100)).expect("writes");
    let mut tailer = multi(dir.path(), vec![consumer("even", 10), consumer("tens", 3), consumer("none", 1)]);
    let filter = |number: usize, record: &serde_json::Value| {
        let n = record["n"].as_u64().expect("a number");
        Ok::<_, JsonlError>([n.is_multiple_of(2), n.is_multiple_of(10), false][number])
    };
    let (mut even, mut tens) = (Vec::new(), Vec::new());
    while even.len() < 50 || tens.len() < 10 {
        for mut batch in tailer.next(filter).await.expect("sound").expect("open") {
            match batch.consumer_name() {
                "even" => {
                    assert_eq!(batch.records().len(), 10);
                    even.extend(numbers(&batch));
                }
                name => {
                    assert_eq!(name, "tens");
                    assert!(batch.records().len() <= 3);
                    tens.extend(numbers(&batch));
                    batch.commit().await.expect("writes");
                }
            }
        }
    }
    assert!(even.into_iter().eq((0..100).step_by(2)) && tens.into_iter().eq((0..100).step_by(10)));
    // Only one has committed: it is asked about nothing it had, the others about everything.
    let mut tailer = multi(dir.path(), vec![consumer("even", 10), consumer("tens", 3)]);
    for n in 0..100 {
        let Ok(Step::Record(offered)) = tailer.step().await else { panic!("a record") };
        assert_eq!(offered.record["n"], n);
        // The last of its batches stands for what it was asked about when that was given out.
        assert!(offered.consumers == [0] || n > 90, "{n}: {:?}", offered.consumers);
        tailer.decide(&[]);
    }
}

#[tokio::test]
async fn several_batches_that_are_ready_come_in_one_step() {
    let dir = scratch();
    fs::write(dir.path().join("a"), packed(0..4)).expect("writes");
    let mut tailer = multi(dir.path(), vec![consumer("one", 2), consumer("two", 2)]);
    let batches = tailer.next(all).await.expect("sound").expect("open");
    let names: Vec<&str> = batches.iter().map(jsonl::Batch::consumer_name).collect();
    assert_eq!((names, numbers(&batches[0])), (vec!["one", "two"], vec![0, 1]));
}

#[tokio::test]
async fn a_record_is_offered_until_it_is_decided_so_a_filter_may_fail() {
    let dir = scratch();
    fs::write(dir.path().join("a"), packed(0..2)).expect("writes");
    let mut tailer = Tailer::open(tailer_options(dir.path(), 2)).expect("opens");
    let mut asked = Vec::new();
    let failing = |_: usize, record: &serde_json::Value| {
        asked.push(record["n"].as_u64().expect("a number"));
        match asked.len() {
            2 => Err(JsonlError::Closed),
            _ => Ok(true),
        }
    };
    assert!(matches!(tailer.next(failing).await, Err(JsonlError::Closed)));
    assert_eq!(asked, [0, 1]);
    assert_eq!(batches(&mut tailer, 2).await, [[0, 1]]);
}

#[tokio::test]
async fn a_cancelled_step_loses_nothing() {
    let dir = scratch();
    fs::write(dir.path().join("a"), packed(0..2500)).expect("writes");
    let mut tailer = Tailer::open(tailer_options(dir.path(), 1)).expect("opens");
    let mut read = Vec::new();
    while read.len() < 2500 {
        tokio::select! {
            biased;
            batches = tailer.next(all) => {
                read.extend(batches.expect("sound").expect("open").iter().flat_map(numbers));
            }
            () = tokio::task::yield_now() => {}
        }
    }
    assert!(read.into_iter().eq(0..2500));
}
