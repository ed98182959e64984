//! Log segments as consumers meet them: zstd, one JSON object a line, read-only when complete.

use config::{LocalLogs, PerRecord, RecordKey};
use record::{LogRecord, RecordType, Response, Timestamp};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use telemetry::{LogWriter, Offered};

fn record(number: u16) -> LogRecord {
    let at = Timestamp::from_unix_seconds(1_795_000_000);
    let mut record = LogRecord::new(RecordType::Delivery, at, at, Response::from_text(250, "2.0.0 ok"));
    record.num_attempts = number;
    record
}

fn options(dir: &Path) -> LocalLogs {
    LocalLogs { log_dir: dir.to_owned(), ..LocalLogs::default() }
}

/// What is not hidden, oldest first.
fn segments(dir: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(dir).expect("a directory").map(|e| e.expect("an entry").path());
    let hidden = |p: &PathBuf| p.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b"."));
    let mut paths: Vec<_> = paths.filter(|p| !hidden(p)).collect();
    paths.sort();
    paths
}

/// Every record of every segment, in order; asserts that each segment is complete.
fn read_all(dir: &Path) -> Vec<u64> {
    let mut numbers = Vec::new();
    for path in segments(dir) {
        assert!(fs::metadata(&path).expect("exists").permissions().readonly(), "{} is writable", path.display());
        let text = zstd::decode_all(&fs::read(&path).expect("readable")[..]).expect("a whole zstd stream");
        for line in String::from_utf8(text).expect("UTF-8").lines() {
            let json: serde_json::Value = serde_json::from_str(line).expect("one JSON object a line");
            assert_eq!(json["type"], "Delivery");
            numbers.push(json["num_attempts"].as_u64().expect("a number"));
        }
    }
    numbers
}

#[test]
fn every_record_is_in_a_complete_segment_after_close() {
    let dir = tempfile::tempdir().expect("scratch");
    let log = LogWriter::open(options(dir.path())).expect("opens");
    (0..1000).for_each(|n| log.log(&record(n)));
    log.close();
    assert_eq!(read_all(dir.path()), (0..1000).collect::<Vec<_>>());
}

#[test]
fn a_record_that_finds_its_logger_full_is_told_and_logged_all_the_same() {
    for (back_pressure, offered) in [(10_000, Offered::Queued), (0, Offered::Full)] {
        let dir = tempfile::tempdir().expect("scratch");
        let log = LogWriter::open(LocalLogs { back_pressure, ..options(dir.path()) }).expect("opens");
        assert_eq!([1, 2].map(|n| log.offer(&record(n))), [offered; 2]);
        log.close();
        assert_eq!(read_all(dir.path()), [1, 2]);
    }
}

#[test]
fn a_record_that_is_too_long_is_told_and_nowhere() {
    let dir = tempfile::tempdir().expect("scratch");
    let lengths = [1, 20].map(|n| {
        let mut line = Vec::new();
        record(n).write_json_line(&mut line);
        line.len()
    });
    assert_eq!(lengths[1], lengths[0] + 1, "in its number");
    let log = LogWriter::open(LocalLogs { max_record_size: lengths[0], ..options(dir.path()) }).expect("opens");
    let offered = [1, 20, 2].map(|n| log.offer(&record(n)));
    assert_eq!(offered, [Offered::Queued, Offered::TooLarge, Offered::Queued]);
    log.close();
    assert_eq!(read_all(dir.path()), [1, 2]);
}

/// What one is writing is no leftover to another, and each ends by itself.
#[test]
fn loggers_of_one_directory_leave_each_other_alone() {
    let dir = tempfile::tempdir().expect("scratch");
    let is_complete = |path: &PathBuf| fs::metadata(path).expect("exists").permissions().readonly();
    let leftover = dir.path().join("20201121-000000.000000000");
    fs::write(&leftover, zstd::encode_all(&b""[..], 0).expect("zstd")).expect("writes");
    let first = LogWriter::open(options(dir.path())).expect("opens");
    assert!(is_complete(&leftover));
    first.log(&record(0));
    let written = || fs::metadata(segments(dir.path()).last().expect("one")).expect("exists").len() > 0;
    await_that("a record", || segments(dir.path()).len() == 2 && written());
    let second = LogWriter::open(options(dir.path())).expect("opens");
    let segment = segments(dir.path()).pop().expect("two");
    assert!(!is_complete(&segment), "it is being written");
    first.log(&record(1));
    first.retire();
    await_that("the end", || first.is_over());
    assert!(is_complete(&segment) && !second.is_over());
    second.log(&record(2));
    second.close();
    assert_eq!(read_all(dir.path()), [0, 1, 2]);
    // It has ended before.
    first.close();
}

/// Nobody announces it.
fn await_that(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(std::time::Instant::now() < deadline, "{what} did not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn segments_end_at_their_size_and_no_record_is_lost_beyond_back_pressure() {
    let dir = tempfile::tempdir().expect("scratch");
    let mut options = options(dir.path());
    options.max_file_size = 10_000;
    options.back_pressure = 10;
    let log = LogWriter::open(options).expect("opens");
    (0..500).for_each(|n| log.log(&record(n)));
    log.close();
    assert_eq!(read_all(dir.path()), (0..500).collect::<Vec<_>>());
    assert!(segments(dir.path()).len() > 5, "one segment holds more than its size");
}

#[test]
fn a_segment_ends_at_its_time_without_further_records() {
    let dir = tempfile::tempdir().expect("scratch");
    let mut options = options(dir.path());
    options.max_segment_duration = Some(config::Duration::from(Duration::from_millis(50)));
    let log = LogWriter::open(options).expect("opens");
    log.log(&record(1));
    let complete = || {
        let mut entries = fs::read_dir(dir.path()).expect("a directory").map(|e| e.expect("an entry"));
        entries.any(|e| e.metadata().expect("exists").permissions().readonly())
    };
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while !complete() {
        assert!(std::time::Instant::now() < deadline, "the segment never ends");
        std::thread::yield_now();
    }
    log.close();
    assert_eq!(read_all(dir.path()), [1]);
}

#[test]
fn a_directory_that_goes_while_it_is_written_is_made_anew() {
    let dir = tempfile::tempdir().expect("scratch");
    let (logs, moved) = (dir.path().join("logs"), dir.path().join("moved"));
    let log = LogWriter::open(options(&logs)).expect("opens");
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    // It is a record that has it look.
    let await_segment = |number| {
        let mut next = std::time::Instant::now();
        while !logs.is_dir() || segments(&logs).is_empty() {
            let now = std::time::Instant::now();
            assert!(now < deadline, "no segment of record {number}");
            if now >= next {
                log.log(&record(number));
                next = now + Duration::from_millis(10);
            }
            std::thread::yield_now();
        }
    };
    await_segment(1);
    fs::rename(&logs, &moved).expect("moved");
    await_segment(2);
    log.close();
    let kept = read_all(&logs);
    assert!(kept.ends_with(&[2]) && !segments(&moved).is_empty(), "{kept:?}");
}

#[test]
fn leftovers_of_an_earlier_process_are_marked_complete() {
    let dir = tempfile::tempdir().expect("scratch");
    let leftover = dir.path().join("20260101-000000.000000001");
    let checkpoint = dir.path().join(".tailer-checkpoint");
    fs::write(&leftover, b"").expect("writes");
    fs::write(&checkpoint, b"").expect("writes");
    LogWriter::open(options(dir.path())).expect("opens").close();
    assert!(fs::metadata(&leftover).expect("kept").permissions().readonly());
    assert!(!fs::metadata(&checkpoint).expect("kept").permissions().readonly(), "a consumer's checkpoint was touched");
}

#[test]
fn a_file_in_the_place_of_the_directory_is_named() {
    let dir = tempfile::tempdir().expect("scratch");
    let path = dir.path().join("log");
    fs::write(&path, b"").expect("writes");
    let error = LogWriter::open(options(&path)).err().expect("cannot open").to_string();
    assert!(error.starts_with(&format!("log_dir `{}`", path.display())), "{error}");
}

#[test]
fn types_have_directories_suffixes_and_headers_of_their_own() {
    let dir = tempfile::tempdir().expect("scratch");
    let bounces = dir.path().join("bounces");
    let entry = |log_dir: Option<&Path>, suffix: Option<&str>, header: &str| PerRecord {
        log_dir: log_dir.map(Path::to_owned),
        suffix: suffix.map(str::to_owned),
        segment_header: header.to_owned(),
        template: Some("{{ type }}".to_owned()),
        ..PerRecord::default()
    };
    let mut options = options(dir.path());
    options.max_file_size = 30;
    options.per_record = BTreeMap::from([
        (RecordKey::Bounce, entry(Some(&bounces), None, "type")),
        (RecordKey::Expiration, entry(Some(&bounces), None, "")),
        (RecordKey::Any, entry(None, Some(".all"), "")),
    ]);
    let log = LogWriter::open(options).expect("opens");
    let kinds = [RecordType::Bounce, RecordType::Delivery, RecordType::Expiration];
    for kind in (0..30).map(|n| kinds[n % 3]) {
        log.log(&LogRecord { kind, ..record(0) });
    }
    log.close();
    let text = |path: &PathBuf| {
        String::from_utf8(zstd::decode_all(&fs::read(path).expect("reads")[..]).expect("zstd")).expect("text")
    };
    let own = segments(&bounces);
    assert!(own.len() > 3, "{own:?}");
    let texts: Vec<String> = own.iter().map(text).collect();
    assert!(texts.iter().all(|text| text.starts_with("type\n") && text.len() < 30 + 5 + 11), "{texts:?}");
    let all: String = texts.concat();
    let lines: Vec<&str> = all.lines().filter(|line| *line != "type").collect();
    assert_eq!(lines, [["Bounce", "Expiration"]; 10].concat());
    let rest: Vec<PathBuf> = segments(dir.path()).into_iter().filter(|path| path.is_file()).collect();
    assert!(rest.iter().all(|path| path.to_string_lossy().ends_with(".all")), "{rest:?}");
    assert_eq!(rest.iter().map(text).collect::<String>(), "Delivery\n".repeat(10));
}
