//! A log directory on a file system that is really full: the reserve keeps the log going.

use config::{LocalLogs, WhenFull};
use record::{LogRecord, RecordType, Response, Timestamp};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use telemetry::{LogWriter, Offered};

/// A small file system in memory, unmounted at the end.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// `None` when this user may not mount; where everything has to be proved that is a failure.
    fn mount(options: &str) -> Option<SmallDisk> {
        let dir = tempfile::tempdir().expect("scratch");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(dir.path()).output();
        match mount {
            Ok(output) if output.status.success() => Some(SmallDisk(dir)),
            why => {
                assert!(std::env::var_os("CI").is_none(), "a tmpfs cannot be mounted: {why:?}");
                eprintln!("NOT TESTED: a tmpfs cannot be mounted (root can): {why:?}");
                None
            }
        }
    }

    /// Takes all the room there is.
    fn fill(&self) -> PathBuf {
        let path = self.0.path().join("filler");
        let mut file = File::create(&path).expect("creates");
        for size in [1 << 20, 4096, 1] {
            while file.write_all(&vec![7; size]).is_ok() {}
        }
        path
    }

    fn reserve(&self) -> PathBuf {
        self.0.path().join("log/.postrider-reserve")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let done = Command::new("umount").arg("-l").arg(self.0.path()).status();
        assert!(done.is_ok_and(|s| s.success()) || std::thread::panicking(), "cannot unmount {:?}", self.0.path());
    }
}

fn record(number: u16) -> LogRecord {
    let at = Timestamp::from_unix_seconds(1_795_000_000);
    // Text that does not compress to nothing: the records shall need room.
    let mixed = |n: u64| (u64::from(number) * 8 + n).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ n;
    let text: String = (0..8).map(|n| format!("{:016x}", mixed(n).wrapping_mul(0xbf58_476d_1ce4_e5b9))).collect();
    let mut record = LogRecord::new(RecordType::Delivery, at, at, Response::from_text(250, &text));
    record.num_attempts = number;
    record
}

/// The numbers of the records in all segments, in order.
fn read_all(dir: &Path) -> Vec<u64> {
    let paths = fs::read_dir(dir).expect("a directory").map(|e| e.expect("an entry").path());
    let hidden = |p: &PathBuf| p.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b"."));
    let mut paths: Vec<_> = paths.filter(|p| !hidden(p)).collect();
    paths.sort();
    let text = paths.iter().map(|p| zstd::decode_all(File::open(p).expect("readable")).expect("a whole zstd stream"));
    let text = String::from_utf8(text.flatten().collect()).expect("UTF-8");
    let number = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("JSON")["num_attempts"].as_u64();
    text.lines().map(|line| number(line).expect("a number")).collect()
}

fn open(disk: &SmallDisk) -> LogWriter {
    LogWriter::open(LocalLogs { log_dir: disk.0.path().join("log"), journal: Some(true), ..LocalLogs::default() })
        .expect("opens")
}

#[test]
fn the_log_goes_on_when_its_disk_is_full_and_the_reserve_comes_back() {
    let Some(disk) = SmallDisk::mount("size=16m") else { return };
    let log = open(&disk);
    let reserve = fs::metadata(disk.reserve()).expect("a reserve was made");
    assert_eq!(reserve.len(), (16 << 20) / 64);
    (0..100).for_each(|n| log.log(&record(n)));
    let filler = disk.fill();
    (100..1000).for_each(|n| log.log(&record(n)));
    log.close();
    assert!(!disk.reserve().exists(), "the disk was not full: nothing is proved");
    assert_eq!(read_all(&disk.0.path().join("log")), (0..1000).collect::<Vec<_>>());

    let log = open(&disk);
    assert!(!disk.reserve().exists(), "a reserve was made without room for it twice over");
    fs::remove_file(filler).expect("removes");
    let deadline = Instant::now() + Duration::from_secs(20);
    while !disk.reserve().exists() {
        assert!(Instant::now() < deadline, "the reserve does not come back");
        std::thread::yield_now();
    }
    log.close();
}

#[test]
fn a_log_that_is_to_drop_what_it_has_no_room_for_never_is_full_and_loses_nothing_else() {
    const BACK_PRESSURE: usize = 50;
    let Some(disk) = SmallDisk::mount("size=4m") else { return };
    let log_dir = disk.0.path().join("log");
    let options =
        LocalLogs { log_dir, back_pressure: BACK_PRESSURE, when_full: WhenFull::Drop, ..LocalLogs::default() };
    let log = LogWriter::open(options).expect("opens");
    let (mut queued, mut fillers) = (Vec::new(), 0);
    let mut number = 0;
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        // The reserve is given up meanwhile.
        let filler = disk.fill();
        let had_room = fs::metadata(&filler).expect("there").len() > 0;
        fs::rename(filler, disk.0.path().join(format!("filler-{fillers}"))).expect("renamed");
        fillers += 1;
        if log.is_dropping() && !had_room && !disk.reserve().exists() {
            break;
        }
        assert!(Instant::now() < deadline, "it has room and room");
        for _ in 0..BACK_PRESSURE {
            match log.offer(&record(number)) {
                Offered::Queued => queued.push(u64::from(number)),
                Offered::Dropped => {}
                Offered::Full | Offered::TooLarge => panic!("it drops"),
            }
            number += 1;
        }
        assert!(!log.is_full());
        std::thread::yield_now();
    }
    let mut dropped = 0;
    for _ in 0..100 {
        match log.offer(&record(number)) {
            Offered::Dropped => dropped += 1,
            // The last octets of the disk took a batch.
            _ => queued.push(u64::from(number)),
        }
        number += 1;
    }
    assert!(dropped > 0);
    (0..fillers).for_each(|n| fs::remove_file(disk.0.path().join(format!("filler-{n}"))).expect("removes"));
    let deadline = Instant::now() + Duration::from_secs(20);
    while log.is_dropping() {
        assert!(Instant::now() < deadline, "it still drops");
        std::thread::yield_now();
    }
    assert_eq!(log.offer(&record(number)), Offered::Queued);
    queued.push(u64::from(number));
    log.close();
    assert_eq!(read_all(&disk.0.path().join("log")), queued);
}

#[test]
fn refusals_give_way_in_a_full_log_and_what_is_about_messages_does_not() {
    const BACK_PRESSURE: u16 = 50;
    let Some(disk) = SmallDisk::mount("size=4m") else { return };
    let log_dir = disk.0.path().join("log");
    let log = LogWriter::open(LocalLogs { log_dir, back_pressure: BACK_PRESSURE.into(), ..LocalLogs::default() })
        .expect("opens");
    let (mut number, mut fillers) = (0, 0);
    let deadline = Instant::now() + Duration::from_secs(20);
    while !log.is_full() {
        assert!(Instant::now() < deadline, "it has room and room");
        // The reserve is given up meanwhile.
        fs::rename(disk.fill(), disk.0.path().join(format!("filler-{fillers}"))).expect("renamed");
        fillers += 1;
        (number..number + BACK_PRESSURE).for_each(|n| log.log(&record(n)));
        number += BACK_PRESSURE;
        std::thread::yield_now();
    }
    let refusal = LogRecord { kind: RecordType::Rejection, ..record(u16::MAX) };
    let refused: Vec<Offered> = (0..1000).map(|_| log.offer(&refusal)).collect();
    assert!(refused.contains(&Offered::Dropped), "{refused:?}");
    // The thread may have taken all that waited between two of these.
    let held = refused.iter().filter(|offered| **offered != Offered::Dropped).count();
    assert!(held <= 2 * usize::from(BACK_PRESSURE), "{held} refusals wait");
    assert!(!log.is_dropping(), "it does so by choice only");
    assert_ne!(log.offer(&record(number)), Offered::Dropped);
    (0..fillers).for_each(|n| fs::remove_file(disk.0.path().join(format!("filler-{n}"))).expect("removes"));
    log.close();
    let written = read_all(&disk.0.path().join("log"));
    let messages: Vec<u64> = written.into_iter().filter(|n| *n < u64::from(u16::MAX)).collect();
    assert_eq!(messages, (0..=u64::from(number)).collect::<Vec<_>>());
}

#[test]
fn a_segment_can_be_begun_when_inodes_are_out() {
    // One for the file system itself, one each for log directory, journal, reserve and filler.
    let Some(disk) = SmallDisk::mount("size=16m,nr_inodes=5") else { return };
    let log = open(&disk);
    assert!(disk.reserve().exists());
    File::create(disk.0.path().join("filler")).expect("the last inode");
    assert!(File::create(disk.0.path().join("one too many")).is_err(), "inodes are not out: nothing is proved");
    log.log(&record(1));
    log.close();
    assert_eq!(read_all(&disk.0.path().join("log")), [1]);
}
