//! What a log record costs: `cargo run --release -p telemetry --example record_bench`.
//!
//! The real logger, with its index, its thread and its files in a temporary folder. CPU of the whole process a record: its line, the
//! compression, the writing. Each record has an id, recipient and queue of its own, as compression lives on what repeats. A bare one has
//! the fields of any delivery; a full one also those of TLS and of our source, eight names of metadata and three header fields. What
//! it takes to make up such a record is measured by itself and taken off. Also what a hook pays so that a kill takes no record. With
//! a journal records come at the rate of a busy server.

use config::LocalLogs;
use nix::time::{ClockId, clock_gettime};
use record::{EnhancedCode, LogRecord, Recipients, RecordType, Response, Timestamp};
use serde_json::json;
use std::time::{Duration, Instant};
use telemetry::{KeptLines, LogWriter};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let kinds = [("bare", bare as fn(u64) -> LogRecord), ("full", full)];
    for (name, make) in kinds {
        let mut all: Vec<f64> = (0..RUNS).map(|_| kept_us_per_record(make)).collect::<Result<_, _>>()?;
        all.sort_by(f64::total_cmp);
        println!(
            "{RECORDS} {name} records that wait for a hook, {RUNS} runs: {:.2} us of CPU each to keep them (from {:.2} to {:.2})",
            all[RUNS / 2],
            all[0],
            all[RUNS - 1]
        );
    }
    for ((name, make), journal) in kinds.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let mut all: Vec<f64> = (0..RUNS).map(|_| cpu_us_per_record(make, journal)).collect::<Result<_, _>>()?;
        all.sort_by(f64::total_cmp);
        let octets = serde_json::to_string(&make(1))?.len();
        println!(
            "{RECORDS} {name} records of {octets} octets, journal {journal}, {RUNS} runs: {:.2} us of CPU each (from {:.2} to {:.2})",
            all[RUNS / 2],
            all[0],
            all[RUNS - 1]
        );
    }
    Ok(())
}

fn cpu_us_per_record(make: fn(u64) -> LogRecord, journal: bool) -> Result<f64, Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let options = json!({"log_dir": folder.path(), "journal": journal});
    let options: LocalLogs = config::parse("kumo.configure_local_logs", options)?;
    let log = LogWriter::open(options)?;
    let begun = cpu_us()?;
    each(journal, |number| _ = std::hint::black_box(make(number)));
    let before = cpu_us()?;
    each(journal, |number| {
        while log.is_full() {
            std::thread::yield_now();
        }
        log.log(&make(number));
    });
    // With all that its thread has left to do.
    log.close();
    Ok((cpu_us()? - before - (before - begun)) / RECORDS as f64)
}

/// What it takes to keep a record where a kill leaves it until its hook has worked it off, 64 at a time.
fn kept_us_per_record(make: fn(u64) -> LogRecord) -> Result<f64, Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let begun = cpu_us()?;
    each(true, |number| _ = std::hint::black_box(make(number)));
    let before = cpu_us()?;
    let mut kept = KeptLines::create(folder.path(), "bench", String::new())?;
    each(true, |number| {
        let record = make(number);
        let until = kept.put(&mut KeptLines::line(|out| record.write_json_line(out)));
        if number % 64 == 63 {
            kept.done(until.expect("room"));
        }
    });
    kept.remove()?;
    Ok((cpu_us()? - before - (before - begun)) / RECORDS as f64)
}

/// Paced, no faster than a busy server: else a journal has no room, and costs nothing.
fn each(is_paced: bool, mut each: impl FnMut(u64)) {
    let begun = Instant::now();
    for number in 0..RECORDS {
        if is_paced && number % AT_ONCE == 0 {
            let due = Duration::from_secs(number) / RECORDS_PER_S;
            std::thread::sleep(due.saturating_sub(begun.elapsed()));
        }
        each(number);
    }
}

fn full(number: u64) -> LogRecord {
    let mut record = bare(number);
    record.tls_cipher = Some("TLS13_AES_256_GCM_SHA384".into());
    record.tls_protocol_version = Some("TLSv1.3".into());
    record.egress_pool = Some("shared".into());
    record.egress_source = Some(format!("ip-{}", number % 16).into());
    for name in 0..8 {
        record.meta.insert(format!("x_meta_{name}"), json!(format!("value {name} of {}", number % 1000)));
    }
    for name in ["Subject", "X-Campaign", "Message-Id"] {
        record.headers.insert(name.to_owned(), json!(format!("{name} of message {number}")));
    }
    record
}

fn bare(number: u64) -> LogRecord {
    let at = Timestamp::from_unix_seconds(1_790_000_000 + i64::try_from(number / 20_000).unwrap_or_default());
    let reply =
        Response::new(250, Some(EnhancedCode::new(2, 0, 0)), format!("ok, queued as {:x}", number * 2_654_435_761));
    let mut record = LogRecord::new(RecordType::Delivery, at, at, reply);
    record.id = format!("{:032x}", u128::from(number) * 0x9E37_79B9_7F4A_7C15);
    record.sender = "newsletter@from.test".to_owned();
    record.recipient = Recipients(vec![format!("user{number}@to{}.test", number % 50)]);
    record.queue = format!("tenant@to{}.test", number % 50).into();
    record.site = format!("unspecified->mx.to{}.test@smtp_client", number % 50).into();
    record
}

/// Of the process, user and system.
fn cpu_us() -> Result<f64, nix::Error> {
    let used = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?;
    Ok(used.tv_sec() as f64 * 1e6 + used.tv_nsec() as f64 / 1e3)
}

const RECORDS: u64 = 200_000;
/// How many come a second, and how many of them at once.
const RECORDS_PER_S: u32 = 40_000;
const AT_ONCE: u64 = 40;
const RUNS: usize = 5;
