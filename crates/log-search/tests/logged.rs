//! What a logger wrote is found again: by id, by recipient, by sender, in finished segments and in the one being written.

use config::LocalLogs;
use log_search::{Asked, Cursor, Place, receptions, timeline};
use record::{LogRecord, Recipients, RecordType, Response, Timestamp};
use std::fs;
use std::path::{Path, PathBuf};
use telemetry::{Blocks, LogWriter, index_name};
use time::OffsetDateTime;

const BEGIN: i64 = 1_790_000_000;

fn place(dir: &Path) -> Vec<Place> {
    vec![Place { dir: dir.to_owned(), pattern: "[0-9]*-[0-9]*.[0-9]*".to_owned() }]
}

fn writer(dir: &Path, max_file_size: u64) -> LogWriter {
    LogWriter::open(LocalLogs { log_dir: dir.to_owned(), max_file_size, ..LocalLogs::default() }).expect("opens")
}

fn id(number: usize) -> String {
    format!("{number:032x}")
}

fn record(kind: RecordType, number: usize, seconds: i64) -> LogRecord {
    let at = |seconds| Timestamp::from_unix_seconds(BEGIN + seconds);
    let mut record = LogRecord::new(
        kind,
        at(seconds),
        at(0),
        Response::new(250, None, format!("number {number} {}", "x".repeat(300))),
    );
    record.id = id(number);
    record.sender = format!("s{}@shop.test", number % 3);
    record.recipient = Recipients(vec![format!("R{}@Example.test", number % 1000)]);
    record.queue = "example.test".into();
    record
}

/// A log of many segments and frames: each message received, and delivered some thousand messages later.
fn log(dir: &Path, count: usize) -> LogWriter {
    let log = writer(dir, 6 << 20);
    for number in 0..count {
        log.log(&record(RecordType::Reception, number, number as i64));
        if let Some(before) = number.checked_sub(5000) {
            log.log(&record(RecordType::Delivery, before, number as i64));
        }
    }
    log
}

fn names(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir)
        .expect("readable")
        .map(|entry| entry.expect("entry").file_name().into_string().expect("text"));
    let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    names
}

fn index(dir: &Path, segment: &str) -> PathBuf {
    dir.join(index_name(segment))
}

/// Waits until the writer has written what it was given.
fn settled(dir: &Path, number: usize) {
    let wanted = id(number);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while std::time::Instant::now() < until {
        if !timeline(&place(dir), &wanted, None).expect("readable").records.is_empty() {
            return;
        }
        std::thread::yield_now();
    }
    panic!("message {number} is not found");
}

#[test]
fn a_timeline_has_every_record_of_its_message() {
    let dir = tempfile::tempdir().expect("scratch");
    let log = log(dir.path(), 30_000);
    let kinds = |number: usize| -> Vec<(String, i64)> {
        let told = timeline(&place(dir.path()), &id(number), None).expect("readable");
        assert!(told.unread.is_empty() && !told.is_cut);
        told.records.iter().map(|record| (record.kind.clone(), record.at.unix_timestamp() - BEGIN)).collect()
    };
    settled(dir.path(), 29_999);
    let whole = |number: i64| vec![("Reception".to_owned(), number), ("Delivery".to_owned(), number + 5000)];
    for number in [0, 1, 2345, 7000, 15_000, 24_999] {
        assert_eq!(kinds(number as usize), whole(number), "{number}, the last segment is open");
    }
    assert_eq!(kinds(29_999), [("Reception".to_owned(), 29_999)]);
    assert_eq!(kinds(40_000), []);
    log.close();
    assert!(names(dir.path()).len() > 3, "several segments");
    for number in [0, 7000, 24_999] {
        assert_eq!(kinds(number as usize), whole(number), "{number}, all are finished");
    }
}

#[test]
fn every_frame_is_indexed_when_the_log_ends_and_holds_what_its_index_says() {
    let dir = tempfile::tempdir().expect("scratch");
    log(dir.path(), 20_000).close();
    let mut frames = 0;
    for name in names(dir.path()) {
        let octets = fs::read(index(dir.path(), &name)).expect("an index");
        let mut blocks = Blocks::of(&octets);
        frames += blocks.by_ref().count();
        assert_eq!(blocks.end(), fs::metadata(dir.path().join(&name)).expect("there").len(), "{name}");
    }
    assert!(frames >= 5, "{frames} frames");
    let text =
        |name: &String| zstd::decode_all(&fs::read(dir.path().join(name)).expect("readable")[..]).expect("whole");
    let lines: usize =
        names(dir.path()).iter().map(|name| text(name).iter().filter(|octet| **octet == b'\n').count()).sum();
    assert_eq!(lines, 20_000 + 15_000, "nothing is lost between frames");
}

#[test]
fn without_an_index_segments_are_read_and_a_damaged_one_is_named() {
    let dir = tempfile::tempdir().expect("scratch");
    log(dir.path(), 12_000).close();
    let all = names(dir.path());
    for name in &all {
        fs::remove_file(index(dir.path(), name)).expect("removes");
    }
    let told = timeline(&place(dir.path()), &id(3000), None).expect("readable");
    assert_eq!((told.records.len(), told.unread.len()), (2, 0));
    let path = dir.path().join(&all[0]);
    fs::remove_file(&path).expect("removes");
    fs::write(&path, "no zstd").expect("writes");
    let told = timeline(&place(dir.path()), &id(3000), None).expect("readable");
    assert_eq!(told.unread, all[..1]);
    assert_eq!(told.records.len(), 1, "its delivery stands in another one");
}

#[test]
fn logs_of_before_a_message_was_made_are_not_read() {
    let dir = tempfile::tempdir().expect("scratch");
    log(dir.path(), 12_000).close();
    let told = timeline(&place(dir.path()), &id(77), Some(OffsetDateTime::now_utc() + time::Duration::days(1)))
        .expect("readable");
    assert_eq!(told.records.len(), 0, "only the last segment is looked at, which has nothing of it");
    let told = timeline(&place(dir.path()), &id(77), Some(OffsetDateTime::now_utc())).expect("readable");
    assert_eq!(told.records.len(), 2, "clocks differ by minutes");
}

/// All pages of a search, each at most `limit` long.
fn pages(dir: &Path, recipient: Option<&str>, sender: Option<&str>, limit: usize) -> Vec<String> {
    let (mut found, mut before) = (Vec::new(), None::<Cursor>);
    for _ in 0..100_000 {
        let asked = Asked { recipient: recipient.map(str::to_owned), sender: sender.map(str::to_owned), limit, before };
        let told = receptions(&place(dir), &asked).expect("readable");
        assert!(told.found.len() <= limit && told.unread.is_empty());
        found.extend(told.found.into_iter().map(|reception| reception.id));
        let Some(next) = told.next else { return found };
        before = Some(next.to_string().parse().expect("ours"));
    }
    panic!("no end");
}

#[test]
fn a_recipients_messages_come_once_each_the_newest_first_in_pages_of_any_size() {
    let dir = tempfile::tempdir().expect("scratch");
    let log = log(dir.path(), 20_000);
    settled(dir.path(), 19_999);
    let of =
        |wanted: &dyn Fn(usize) -> bool| -> Vec<String> { (0..20_000).rev().filter(|n| wanted(*n)).map(id).collect() };
    for limit in [1, 3, 7, 1000] {
        assert_eq!(pages(dir.path(), Some("r7@example.test"), None, limit), of(&|n| n % 1000 == 7), "{limit}");
    }
    let both = of(&|n| n % 1000 == 7 && n % 3 == 1);
    assert_eq!(pages(dir.path(), Some("R7@example.test"), Some("S1@shop.test"), 2), both);
    assert_eq!(pages(dir.path(), None, Some("s2@shop.test"), 500), of(&|n| n % 3 == 2));
    assert_eq!(pages(dir.path(), Some("nobody@example.test"), None, 5), Vec::<String>::new());
    log.close();
    assert_eq!(pages(dir.path(), Some("r7@example.test"), None, 4), of(&|n| n % 1000 == 7));
}

/// No index knows of it.
#[test]
fn the_null_senders_messages_are_found_wherever_they_are() {
    let dir = tempfile::tempdir().expect("scratch");
    let log = writer(dir.path(), u64::MAX);
    for number in 0..20_000 {
        let mut record = record(RecordType::Reception, number, 0);
        if number % 9_000 == 0 {
            record.sender = String::new();
        }
        log.log(&record);
    }
    log.close();
    assert_eq!(pages(dir.path(), None, Some(""), 2), [18_000, 9_000, 0].map(id));
}

#[test]
fn a_page_goes_on_where_the_last_ended_though_the_log_grew() {
    let dir = tempfile::tempdir().expect("scratch");
    let log = writer(dir.path(), u64::MAX);
    (0..100).for_each(|number| log.log(&record(RecordType::Reception, number, 0)));
    settled(dir.path(), 99);
    let asked = |before| Asked { sender: Some("s1@shop.test".to_owned()), limit: 10, before, ..Asked::default() };
    let first = receptions(&place(dir.path()), &asked(None)).expect("readable");
    (100..10_000).for_each(|number| log.log(&record(RecordType::Reception, number, 0)));
    settled(dir.path(), 9999);
    let second = receptions(&place(dir.path()), &asked(first.next)).expect("readable");
    let ids = |found: &[log_search::Reception]| found.iter().map(|reception| reception.id.clone()).collect::<Vec<_>>();
    let wanted: Vec<String> = (0..100).rev().filter(|number| number % 3 == 1).map(id).collect();
    assert_eq!([ids(&first.found), ids(&second.found)].concat(), wanted[..20]);
    log.close();
}

#[test]
fn what_came_from_another_node_is_found_too() {
    let dir = tempfile::tempdir().expect("scratch");
    let log = writer(dir.path(), u64::MAX);
    log.log(&record(RecordType::Reception, 1, 0));
    log.log(&record(RecordType::XferIn, 4, 1));
    log.log(&record(RecordType::XferOut, 7, 2));
    settled(dir.path(), 7);
    assert_eq!(pages(dir.path(), None, Some("s1@shop.test"), 9), [id(4), id(1)]);
    let told = timeline(&place(dir.path()), &id(4), None).expect("readable");
    assert_eq!(told.records.iter().find_map(|record| record.reception()).map(|received| received.id), Some(id(4)));
    log.close();
}

#[test]
fn what_became_of_messages_is_their_last_end() {
    let dir = tempfile::tempdir().expect("scratch");
    let log = writer(dir.path(), u64::MAX);
    for (kind, number, seconds) in [
        (RecordType::Reception, 1, 0),
        (RecordType::TransientFailure, 1, 1),
        (RecordType::Bounce, 1, 3),
        (RecordType::Delivery, 1, 2),
        (RecordType::OOB, 1, 4),
        (RecordType::Reception, 2, 0),
        (RecordType::TransientFailure, 2, 9),
        (RecordType::Expiration, 3, 9),
    ] {
        log.log(&record(kind, number, seconds));
    }
    settled(dir.path(), 3);
    let at = OffsetDateTime::now_utc();
    let ids = [1, 2, 3, 4].map(|number| (id(number), at));
    let (ends, unread) = log_search::ends(&place(dir.path()), &ids).expect("readable");
    assert!(unread.is_empty());
    let told: Vec<(&str, &str)> = ends.iter().map(|(id, end)| (id.as_str(), end.kind.as_str())).collect();
    assert_eq!(told, [(id(1).as_str(), "Bounce"), (id(3).as_str(), "Expiration")]);
    log.close();
}

#[test]
fn what_was_found_before_a_damaged_place_is_told() {
    let dir = tempfile::tempdir().expect("scratch");
    log(dir.path(), 3000).close();
    let name = names(dir.path()).pop().expect("a segment");
    fs::remove_file(index(dir.path(), &name)).expect("removes");
    let path = dir.path().join(&name);
    let mut octets = fs::read(&path).expect("readable");
    // The tail of a file whose last octets never came to the disk.
    let len = octets.len();
    octets[len - 1000..].fill(0);
    fs::remove_file(&path).expect("removes");
    fs::write(&path, octets).expect("writes");
    let asked = Asked { recipient: Some("r7@example.test".to_owned()), limit: 10, ..Asked::default() };
    let told = receptions(&place(dir.path()), &asked).expect("readable");
    assert_eq!((told.unread, told.found.is_empty()), (vec![name], false));
}
