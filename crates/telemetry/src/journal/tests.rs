//! Tests of the journal: what a kill leaves, at any octet, becomes a segment, and nothing of it twice.

use super::*;
use crate::LogWriter;
use crate::ring::{ENTRY_HEAD, RING_START, UNIT, room_for_head, seal};
use config::LocalLogs;
use record::{LogRecord, RecordType, Response, Timestamp};
use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

fn owner() -> Owner {
    Owner { prefix: "p-".to_owned(), suffix: ".zst".to_owned(), header: b"head\n".to_vec(), level: 0 }
}

fn line(number: u64) -> Vec<u8> {
    format!("line {number}{}\n", "x".repeat(number as usize % 90)).into_bytes()
}

/// Puts lines in; where the next one begins.
fn put(journal: &mut Ring, mut at: u64, numbers: impl IntoIterator<Item = u64>) -> u64 {
    for number in numbers {
        let line = line(number);
        let mut entry = Vec::new();
        room_for_head(&mut entry);
        entry.extend_from_slice(&line);
        seal(&mut entry);
        journal.put(at, &mut entry);
        at += line.len() as u64;
    }
    at
}

/// What all segments of a directory say, in the order of their names, each as far as it reads.
fn texts(dir: &Path) -> Vec<String> {
    let mut paths: Vec<PathBuf> = fs::read_dir(dir).expect("there").flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| !path.file_name().expect("a name").as_encoded_bytes().starts_with(b"."));
    paths.sort();
    let text = |path: &PathBuf| {
        let mut text = Vec::new();
        let file = File::open(path).expect("there");
        // One that was cut ends with an error, behind what there is.
        _ = zstd::stream::read::Decoder::new(file).expect("zstd").read_to_end(&mut text);
        String::from_utf8(text).expect("text")
    };
    paths.iter().map(text).collect()
}

fn journals(dir: &Path) -> usize {
    let names = fs::read_dir(dir).expect("there").flatten().map(|entry| entry.file_name());
    names.filter(|name| name.as_encoded_bytes().starts_with(NAME.as_bytes())).count()
}

fn joined(header: &str, numbers: impl IntoIterator<Item = u64>) -> String {
    let lines = numbers.into_iter().flat_map(line).collect();
    header.to_owned() + &String::from_utf8(lines).expect("text")
}

#[test]
fn what_no_segment_has_becomes_one() {
    let dir = tempfile::tempdir().expect("scratch");
    let (mut journal, notes) = create(dir.path(), &owner(), 64 << 10).expect("room");
    put(&mut journal, 0, 0..20);
    assert_eq!(recover(dir.path()).expect("reads"), 0, "it is in use");
    drop((journal, notes));
    assert_eq!(recover(dir.path()).expect("reads"), 20);
    assert_eq!(texts(dir.path()), [joined("head\n", 0..20)]);
    assert_eq!((recover(dir.path()).expect("reads"), journals(dir.path())), (0, 0));
    let names = fs::read_dir(dir.path()).expect("there").flatten();
    for entry in names {
        let name = entry.file_name().into_string().expect("text");
        assert!(name.starts_with("p-2") && name.ends_with(".zst"), "{name}");
        assert!(entry.metadata().expect("there").permissions().readonly(), "it is complete");
    }
}

/// Wherever the process dies within a write to the segment, each line is there once, but for one that was cut.
#[test]
fn what_a_segment_has_is_not_doubled() {
    let dir = tempfile::tempdir().expect("scratch");
    let (first, second) = (0..30, 30..60);
    let (mut journal, notes) = create(dir.path(), &owner(), 64 << 10).expect("room");
    let mut segment =
        Segment::create(dir.path(), ("p-", ".zst"), 0, OffsetDateTime::UNIX_EPOCH, &mut None).expect("a segment");
    // Behind another frame.
    segment.write(b"before\n").expect("written");
    segment.end_frame().expect("written");
    segment.write(b"head\n").expect("written");
    let at = put(&mut journal, 0, first.clone());
    segment.write(&first.flat_map(line).collect::<Vec<u8>>()).expect("written");
    let name = segment.path().file_name().expect("a name").to_string_lossy().into_owned();
    let (frame_start, frame_octets) = (segment.frame_start(), segment.frame_bytes());
    let short = fs::metadata(segment.path()).expect("there").len();
    put(&mut journal, at, second.clone());
    notes.note(&Note { at, segment: name.clone(), frame_start, frame_octets });
    segment.write(&second.flat_map(line).collect::<Vec<u8>>()).expect("written");
    let whole = fs::read(segment.path()).expect("there");
    assert!(whole.len() as u64 > short);
    let journal_path = files_of(dir.path(), NAME).expect("there").pop().expect("a journal");
    let expected: Vec<Vec<u8>> = (0..60).map(line).collect();
    let mut doubled = 0;
    for length in short as usize..=whole.len() {
        let copy = tempfile::tempdir().expect("scratch");
        fs::write(copy.path().join(&name), &whole[..length]).expect("written");
        fs::copy(&journal_path, copy.path().join(journal_path.file_name().expect("a name"))).expect("copied");
        let recovered = recover(copy.path()).expect("reads");
        let text = texts(copy.path()).concat();
        for line in &expected {
            let line = std::str::from_utf8(line).expect("text");
            let times = text.matches(line).count();
            assert!(times >= 1, "{line} of {length} octets");
            doubled += times - 1;
        }
        assert!(length < whole.len() || recovered == 0, "all were written, {recovered} were not seen");
        assert!(length > short as usize || recovered == 30, "none was written, {recovered} were found");
    }
    assert_eq!(doubled, 0);
}

#[test]
fn the_ring_goes_round_and_what_waits_is_not_written_over() {
    let dir = tempfile::tempdir().expect("scratch");
    let (mut journal, notes) = create(dir.path(), &owner(), 8 << 10).expect("room");
    let mut at = 0;
    // Each batch is noted as written, and a few lines of the next follow.
    for batch in 0..100 {
        at = put(&mut journal, at, batch * 20..batch * 20 + 20);
        notes.note(&Note { at, ..Note::default() });
        journal.free(journal.used());
    }
    at = put(&mut journal, at, 5000..5010);
    // Many more than there is room for.
    put(&mut journal, at, 6000..7000);
    drop((journal, notes));
    let found = recover(dir.path()).expect("reads");
    assert!((50..90).contains(&found), "{found} lines of a ring of 8 KiB");
    let texts = texts(dir.path());
    assert!(texts[0].starts_with(&joined("head\n", 5000..5010)), "{texts:?}");
    assert_eq!(texts[0].lines().count(), found + 1);
}

#[test]
fn a_line_that_is_torn_is_left_out_and_others_are_not() {
    let dir = tempfile::tempdir().expect("scratch");
    let (mut journal, notes) = create(dir.path(), &owner(), 8 << 10).expect("room");
    put(&mut journal, 0, 0..3);
    let second = RING_START + UNIT + ENTRY_HEAD as u64 + 2;
    drop((journal, notes));
    let path = files_of(dir.path(), NAME).expect("there").pop().expect("a journal");
    let file = fs::OpenOptions::new().write(true).open(path).expect("there");
    file.write_all_at(b"?", second).expect("written");
    drop(file);
    assert_eq!(recover(dir.path()).expect("reads"), 2);
    assert_eq!(texts(dir.path()), [joined("head\n", [0, 2])]);
}

#[test]
fn what_is_no_journal_is_none() {
    let dir = tempfile::tempdir().expect("scratch");
    for (number, octets) in [(0, &b""[..]), (1, &[0xff; 600]), (2, &[0; 80_000])] {
        let mut file = File::create(dir.path().join(format!("{NAME}{number}"))).expect("created");
        file.write_all(octets).expect("written");
    }
    assert_eq!((recover(dir.path()).expect("reads"), journals(dir.path())), (0, 0));
    assert!(texts(dir.path()).is_empty());
}

fn record(number: u64) -> LogRecord {
    let now = Timestamp::from_unix_micros(1);
    let mut record = LogRecord::new(RecordType::Delivery, now, now, Response::new(250, None, "OK"));
    record.id = format!("id-{number}-");
    record
}

/// The files of a process that is killed at any time, one moment after another.
#[test]
fn a_logger_that_is_killed_has_each_record() {
    let dir = tempfile::tempdir().expect("scratch");
    let options = LocalLogs { log_dir: dir.path().to_owned(), journal: Some(true), ..LocalLogs::default() };
    let log = LogWriter::open(options.clone()).expect("opens");
    let mut recovered = 0;
    for number in 0..120 {
        log.log(&record(number));
        let copy = tempfile::tempdir().expect("scratch");
        // What points to the segment comes first: the segment goes on.
        let mut names: Vec<_> =
            fs::read_dir(dir.path()).expect("there").flatten().map(|entry| entry.file_name()).collect();
        names.retain(|name| !name.as_encoded_bytes().starts_with(b".postrider-reserve"));
        names.sort();
        for name in names {
            fs::copy(dir.path().join(&name), copy.path().join(&name)).expect("copied");
        }
        let next = LogWriter::open(LocalLogs { log_dir: copy.path().to_owned(), ..options.clone() }).expect("opens");
        next.close();
        let text = texts(copy.path());
        recovered += text.len().saturating_sub(1);
        let text = text.concat();
        for number in 0..=number {
            assert_eq!(text.matches(&format!("id-{number}-")).count(), 1, "record {number}: {text}");
        }
        assert_eq!(journals(copy.path()), 0);
    }
    assert!(recovered > 0, "nothing was ever recovered");
    log.close();
    assert_eq!(journals(dir.path()), 0, "what ended well leaves none");
    assert_eq!(texts(dir.path()).concat().lines().count(), 120);
}
