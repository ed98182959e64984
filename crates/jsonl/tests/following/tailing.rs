//! What is written is tailed: across rotations, while it grows, behind a crash, and once only.

use crate::support::*;
use jsonl::{JsonlError, Step, Tailer, Writer};
use serde_json::json;
use std::fs;
use std::io::Write as _;

#[tokio::test]
async fn what_is_written_across_rotations_is_tailed_in_order() {
    let dir = scratch();
    let mut options = writer_options(dir.path());
    options.max_file_size = 100;
    let writer = Writer::open(options).expect("opens");
    for number in 0..50 {
        match number % 3 {
            0 => writer.write_record(&json!({"n": number})).await,
            1 => writer.write_line(format!("{{\"n\":{number}}}")).await,
            _ => writer.write_line(format!("{{\"n\":{number}}}\n")).await,
        }
        .expect("writes");
    }
    writer.close().await.expect("closes");
    assert!(segments(dir.path()).len() > 3);
    let mut tailer = Tailer::open(tailer_options(dir.path(), 7)).expect("opens");
    let batches = batches(&mut tailer, 50).await;
    assert!(batches.iter().all(|batch| batch.len() <= 7));
    assert!(batches.concat().into_iter().eq(0..50));
    // Whoever has only zstd reads it too.
    let texts = segments(dir.path()).into_iter().map(|path| zstdcat(&path));
    assert_eq!(texts.collect::<String>().lines().count(), 50);
}

#[tokio::test]
async fn a_closed_writer_has_finished_its_segment_and_writes_no_more() {
    let dir = scratch();
    let writer = Writer::open(writer_options(&dir.path().join("made/for/it"))).expect("opens");
    let clone = writer.clone();
    writer.write_line("1").await.expect("writes");
    let path = segments(&dir.path().join("made/for/it")).remove(0);
    assert!(!fs::metadata(&path).expect("is there").permissions().readonly());
    writer.close().await.expect("closes");
    assert!(fs::metadata(&path).expect("is there").permissions().readonly());
    assert_eq!(zstdcat(&path), "1\n");
    assert!(matches!(clone.write_line("2").await, Err(JsonlError::Closed)));
    clone.close().await.expect("again");
    // Nothing was written, so there is no file.
    let empty = dir.path().join("empty");
    Writer::open(writer_options(&empty)).expect("opens").close().await.expect("closes");
    assert!(segments(&empty).is_empty());
}

#[tokio::test]
async fn a_writer_whose_last_handle_is_dropped_finishes_its_segment() {
    let dir = scratch();
    let writer = Writer::open(writer_options(dir.path())).expect("opens");
    writer.write_line("{\"n\":0}").await.expect("writes");
    let path = segments(dir.path()).remove(0);
    let file = fs::File::open(&path).expect("opens");
    assert!(file.try_lock_shared().is_err(), "a segment is locked while it is written");
    drop(writer);
    // Until the thread has let go of it.
    file.lock_shared().expect("locks");
    assert!(fs::metadata(&path).expect("is there").permissions().readonly());
}

#[tokio::test]
async fn a_line_is_refused_at_bound_plus_one() {
    let dir = scratch();
    let options = config::JsonlWriterOptions { max_record_size: LINE_MAX, ..writer_options(dir.path()) };
    let writer = Writer::open(options).expect("opens");
    let mut line = vec![b' '; LINE_MAX - 2];
    line.push(b'1');
    writer.write_line(line.clone()).await.expect("writes");
    line.push(b'1');
    let refused = writer.write_line(line).await;
    assert!(matches!(refused, Err(JsonlError::WriteTooLong { octets, .. }) if octets == LINE_MAX + 1));
    writer.close().await.expect("closes");
    let mut tailer = Tailer::open(tailer_options(dir.path(), 1)).expect("opens");
    let batches = tailer.next(all).await.expect("sound").expect("open");
    assert_eq!(*batches[0].records()[0], 1);
    let one_less = config::JsonlTailerOptions { max_line_size: LINE_MAX - 1, ..tailer_options(dir.path(), 1) };
    let read = Tailer::open(one_less).expect("opens").next(all).await;
    assert!(matches!(read, Err(JsonlError::ReadTooLong { line: 1, octets_max, .. }) if octets_max == LINE_MAX - 1));
}

/// What a writer of one test writes.
const LINE_MAX: usize = 1000;

#[tokio::test]
async fn records_come_while_their_segment_grows_and_new_segments_come() {
    let dir = scratch();
    let mut options = writer_options(dir.path());
    options.max_file_size = 60;
    let writer = Writer::open(options).expect("opens");
    let mut tailer = Tailer::open(tailer_options(dir.path(), 1)).expect("opens");
    for number in 0..20 {
        // The tailer waits before there is anything.
        let (read, written) = tokio::join!(batches(&mut tailer, 1), async {
            tokio::task::yield_now().await;
            writer.write_record(&json!({"n": number})).await
        });
        written.expect("writes");
        assert_eq!(read, [[number]]);
    }
}

#[tokio::test]
async fn looking_again_does_without_notices() {
    let dir = scratch();
    let writer = Writer::open(writer_options(dir.path())).expect("opens");
    let mut options = tailer_options(dir.path(), 1);
    options.poll_watcher = Some(std::time::Duration::from_millis(1).into());
    let mut tailer = Tailer::open(options).expect("opens");
    for number in 0..5 {
        let record = json!({"n": number});
        let (read, written) = tokio::join!(batches(&mut tailer, 1), writer.write_record(&record));
        written.expect("writes");
        assert_eq!(read, [[number]]);
    }
}

#[tokio::test]
async fn half_of_a_line_waits_for_the_other() {
    let dir = scratch();
    let path = dir.path().join("a");
    let mut encoder = zstd::Encoder::new(fs::File::create(&path).expect("creates"), 3).expect("zstd");
    encoder.write_all(b"{\"n\":0}\n{\"n\"").expect("writes");
    encoder.flush().expect("flushes");
    let mut tailer = Tailer::open(tailer_options(dir.path(), 1)).expect("opens");
    assert_eq!(batches(&mut tailer, 1).await, [[0]]);
    let mut next = std::pin::pin!(batches(&mut tailer, 1));
    assert!(std::future::poll_fn(|cx| std::task::Poll::Ready(next.as_mut().poll(cx).is_pending())).await);
    encoder.write_all(b":1}\n").expect("writes");
    encoder.flush().expect("flushes");
    assert_eq!(next.await, [[1]]);
}

#[tokio::test]
async fn a_frame_torn_by_a_crash_holds_up_nobody_once_there_is_a_later_segment() {
    for cut in [1, 5, 30] {
        let dir = scratch();
        let torn = dir.path().join("20260101-000000.000000000");
        let texts: Vec<String> = (0..1000).map(|n| format!("{{\"n\":{n}}}\n")).collect();
        let mut packed = flushed(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        packed.truncate(packed.len() - cut);
        fs::write(&torn, packed).expect("writes");
        let mut tailer = Tailer::open(tailer_options(dir.path(), 1)).expect("opens");
        let first = batches(&mut tailer, 1).await;
        let writer = Writer::open(writer_options(dir.path())).expect("opens");
        writer.write_record(&json!({"n": 5000})).await.expect("writes");
        // Some of the last block may be lost, and then the later segment comes.
        let mut read = first.concat();
        while read.last() != Some(&5000) {
            read.extend(batches(&mut tailer, 1).await.concat());
        }
        read.pop();
        assert!(read.len() > 900 && read.len() < 1000, "cut {cut}: {}", read.len());
        let count = read.len() as u64;
        assert!(read.into_iter().eq(0..count), "cut {cut}");
    }
}

#[tokio::test]
async fn a_torn_frame_that_is_read_only_is_over() {
    let dir = scratch();
    let torn = dir.path().join("a");
    fs::write(&torn, flushed(&["{\"n\":0}\n{\"n\":1}\n{\"n\""])).expect("writes");
    finish(&torn);
    fs::write(dir.path().join("b"), packed(2..3)).expect("writes");
    let mut tailer = Tailer::open(tailer_options(dir.path(), 1)).expect("opens");
    assert!(batches(&mut tailer, 3).await.concat().into_iter().eq(0..3));
}

#[tokio::test]
async fn of_two_writers_side_by_side_neither_is_taken_for_dead() {
    let dir = scratch();
    let [first, second] = [".one", ".two"].map(|suffix| {
        let mut options = writer_options(dir.path());
        options.suffix = Some(suffix.to_owned());
        Writer::open(options).expect("opens")
    });
    first.write_record(&json!({"n": 0})).await.expect("writes");
    second.write_record(&json!({"n": 2})).await.expect("writes");
    let mut tailer = Tailer::open(tailer_options(dir.path(), 1)).expect("opens");
    assert_eq!(batches(&mut tailer, 1).await, [[0]]);
    // The tailer looks for more, and then the first writer goes on.
    let (read, ()) = tokio::join!(batches(&mut tailer, 2), async {
        first.write_record(&json!({"n": 1})).await.expect("writes");
        first.close().await.expect("closes");
        tokio::task::yield_now().await;
    });
    assert_eq!(read.concat(), [1, 2]);
    second.close().await.expect("closes");
}

#[tokio::test]
async fn the_last_line_of_a_finished_segment_may_lack_its_newline() {
    let dir = scratch();
    let path = dir.path().join("a");
    fs::write(&path, zstd::encode_all(&b"{\"n\":0}\n\n  \n{\"n\":1}"[..], 3).expect("zstd")).expect("writes");
    finish(&path);
    let mut tailer = Tailer::open(tailer_options(dir.path(), 1)).expect("opens");
    assert_eq!(batches(&mut tailer, 2).await.concat(), [0, 1]);
}

#[tokio::test]
async fn what_is_not_json_is_named_behind_what_came_before_and_does_not_end_the_tailer() {
    let dir = scratch();
    let text = "{\"n\":0}\n{\"n\":1}\nnot json\n{\"n\":2}\n";
    fs::write(dir.path().join("a"), zstd::encode_all(text.as_bytes(), 3).expect("zstd")).expect("writes");
    fs::write(dir.path().join("b"), "plain").expect("writes");
    fs::write(dir.path().join("c"), packed(3..4)).expect("writes");
    let mut tailer = Tailer::open(tailer_options(dir.path(), 100)).expect("opens");
    assert_eq!(batches(&mut tailer, 2).await, [[0, 1]]);
    let error = tailer.next(all).await.expect_err("a fault");
    assert!(matches!(&error, JsonlError::NotJson { file, line: 3, .. } if file.ends_with("a")), "{error}");
    assert_eq!(batches(&mut tailer, 1).await, [[2]]);
    let error = tailer.next(all).await.expect_err("a fault");
    assert!(matches!(&error, JsonlError::Damaged { file, line: 0, .. } if file.ends_with("b")), "{error}");
    assert_eq!(batches(&mut tailer, 1).await, [[3]]);
}

#[tokio::test]
async fn only_names_that_match_and_are_not_hidden_are_segments() {
    let dir = scratch();
    for (name, number) in [("a.log", 0), ("b.txt", 1), (".c.log", 2), ("d.log", 3)] {
        fs::write(dir.path().join(name), packed(number..number + 1)).expect("writes");
    }
    fs::create_dir(dir.path().join("e.log")).expect("makes");
    let mut options = tailer_options(dir.path(), 1);
    options.pattern = "*.log".to_owned();
    let mut tailer = Tailer::open(options.clone()).expect("opens");
    assert_eq!(batches(&mut tailer, 2).await, [[0], [3]]);
    options.pattern = "[".to_owned();
    assert!(matches!(Tailer::open(options), Err(JsonlError::Pattern { .. })));
    let none = tailer_options(&dir.path().join("none"), 1);
    assert!(matches!(Tailer::open(none), Err(JsonlError::Directory { .. })));
}

#[tokio::test]
async fn closing_wakes_who_waits_and_drops_what_is_in_no_batch() {
    let dir = scratch();
    fs::write(dir.path().join("a"), packed(0..3)).expect("writes");
    let mut options = tailer_options(dir.path(), 100);
    options.max_batch_latency = config::Duration::from_hours(1);
    options.checkpoint_name = Some("mine".to_owned());
    let mut tailer = Tailer::open(options).expect("opens");
    let closer = tailer.closer();
    let mut seen = 0;
    let end = tailer.next(|_, _| {
        seen += 1;
        if seen == 3 {
            // It waits for the hour's end by then.
            let closer = closer.clone();
            tokio::spawn(async move { closer.close() });
        }
        Ok::<_, JsonlError>(true)
    });
    let end = tokio::time::timeout(PATIENCE, end).await.expect("it is woken");
    assert!(end.expect("sound").is_none());
    assert!(matches!(tailer.step().await, Ok(Step::Closed)));
    assert!(!dir.path().join(".mine").exists());
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_not_full_comes_when_its_time_is_over() {
    let dir = scratch();
    fs::write(dir.path().join("a"), packed(0..3)).expect("writes");
    let mut options = tailer_options(dir.path(), 100);
    options.max_batch_latency = config::Duration::from_secs(7);
    let mut tailer = Tailer::open(options).expect("opens");
    let begun = tokio::time::Instant::now();
    assert_eq!(batches(&mut tailer, 3).await, [[0, 1, 2]]);
    let took = begun.elapsed();
    assert!((7..8).contains(&took.as_secs()), "{took:?}");
}

#[test]
fn a_step_may_be_taken_by_any_thread() {
    fn is_send<T: Send>(_: &T) {}
    let dir = scratch();
    let mut tailer = Tailer::open(tailer_options(dir.path(), 1)).expect("opens");
    is_send(&tailer.step());
    is_send(&tailer.closer());
}

#[tokio::test]
async fn what_is_there_is_given_out_and_then_nothing() {
    let dir = scratch();
    for (name, numbers) in [("1", 0..3), ("2", 3..5)] {
        fs::write(dir.path().join(name), packed(numbers)).expect("writes");
        finish(&dir.path().join(name));
    }
    let mut tailer = Tailer::open(tailer_options(dir.path(), 2)).expect("opens");
    let mut found = Vec::new();
    while let Some(step) = tailer.step_now().await.expect("sound") {
        match step {
            jsonl::Step::Record(offered) => tailer.decide(&offered.consumers),
            jsonl::Step::Batches(batches) => found.extend(batches.iter().map(numbers)),
            jsonl::Step::Closed => panic!("nobody closed it"),
        }
    }
    assert_eq!(found, [vec![0, 1], vec![2, 3], vec![4]], "the last one is not full");
    assert!(tailer.step_now().await.expect("sound").is_none(), "still nothing");
}

#[tokio::test]
async fn the_newest_segment_is_begun_at_its_beginning() {
    let dir = scratch();
    let mut none = Tailer::open_at_newest(tailer_options(dir.path(), 10)).expect("an empty directory will do");
    for (name, numbers) in [("1", 0..3), ("2", 3..5)] {
        fs::write(dir.path().join(name), packed(numbers)).expect("writes");
        finish(&dir.path().join(name));
    }
    let mut newest = Tailer::open_at_newest(tailer_options(dir.path(), 10)).expect("opens");
    assert_eq!(batches(&mut newest, 2).await.concat(), [3, 4]);
    assert_eq!(batches(&mut none, 5).await.concat(), [0, 1, 2, 3, 4], "all that came since");
}
