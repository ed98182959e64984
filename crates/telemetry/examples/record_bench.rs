//! What a log record costs: `cargo run --release -p telemetry --example record_bench`.
//!
//! The real logger, with its index, its thread and its files in a temporary folder. CPU of the whole process a record: its line, the
//! compression, the writing. Each record has an id, recipient and queue of its own, as compression lives on what repeats.

use config::LocalLogs;
use nix::time::{ClockId, clock_gettime};
use record::{EnhancedCode, LogRecord, Recipients, RecordType, Response, Timestamp};
use serde_json::json;
use telemetry::LogWriter;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut all: Vec<f64> = (0..RUNS).map(|_| cpu_us_per_record()).collect::<Result<_, _>>()?;
    all.sort_by(f64::total_cmp);
    println!(
        "{RECORDS} records, {RUNS} runs: {:.2} us of CPU each (from {:.2} to {:.2})",
        all[RUNS / 2],
        all[0],
        all[RUNS - 1]
    );
    Ok(())
}

fn cpu_us_per_record() -> Result<f64, Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let options: LocalLogs = config::parse("kumo.configure_local_logs", json!({"log_dir": folder.path()}))?;
    let log = LogWriter::open(options)?;
    let before = cpu_us()?;
    for number in 0..RECORDS {
        while log.is_full() {
            std::thread::yield_now();
        }
        log.log(&record(number));
    }
    // With all that its thread has left to do.
    log.close();
    Ok((cpu_us()? - before) / RECORDS as f64)
}

fn record(number: u64) -> LogRecord {
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

const RECORDS: u64 = 500_000;
const RUNS: usize = 5;
