//! A spool of an earlier version is taken over; one of a later version is refused, named, and left as it is.

use e2e::kumod::Launch;
use e2e::logs::Logs;
use e2e::scratch::Scratch;
use e2e::torture::Stage;
use e2e::until::SOON;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

#[test]
fn mail_in_a_segment_of_version_1_is_taken_over() {
    let scratch = Scratch::new();
    let launch = launch(&scratch);
    scratch.folder("data");
    scratch.write("data/seg-00000001", golden());
    takes_over_golden_mail(&scratch, &launch);
}

#[test]
fn a_segment_of_a_later_version_stops_the_start_and_nothing_is_touched() {
    let scratch = Scratch::new();
    let launch = launch(&scratch);
    scratch.folder("data/corrupt");
    scratch.write("data/lock", "");
    scratch.write("data/seg-00000001", golden());
    let later = scratch.write("data/seg-00000002", later(2));
    let before = files(&scratch.join("data"));

    let finished = launch.run();
    assert!(!finished.status.success(), "{finished:?}");
    for fact in ["seg-00000002", "version 99", "knows up to"] {
        assert!(finished.stderr.contains(fact), "{fact} in {}", finished.stderr);
    }
    assert!(!finished.stderr.contains("initialization complete"), "it served: {}", finished.stderr);
    assert_eq!(files(&scratch.join("data")), before, "it changed the spool it refused");

    // The operator goes back, or takes the segment away: the rest is as it was.
    std::fs::remove_file(later).expect("a file of ours");
    takes_over_golden_mail(&scratch, &launch);
}

#[test]
fn message_files_of_a_later_version_stop_the_start_and_nothing_is_touched() {
    let scratch = Scratch::new();
    let launch = launch(&scratch).env("TORTURE_KIND", "LocalDisk");
    // What an earlier life left: folders and a version of its own.
    launch.start().stop();
    let version = scratch.join("data/msg/version");
    let own = std::fs::read_to_string(&version).expect("the version of message files");
    std::fs::write(&version, own.replace("version 2", "version 99")).expect("a file of ours");
    let before = files(&scratch.join("data"));

    let finished = launch.run();
    assert!(!finished.status.success(), "{finished:?}");
    for fact in ["msg/version", "version 99", "knows up to"] {
        assert!(finished.stderr.contains(fact), "{fact} in {}", finished.stderr);
    }
    assert_eq!(files(&scratch.join("data")), before, "it changed the spool it refused");
    std::fs::write(&version, own).expect("a file of ours");
    launch.start().stop();
}

#[test]
fn a_message_file_of_version_1_is_moved_and_taken_over() {
    let scratch = Scratch::new();
    let launch = launch(&scratch).env("TORTURE_KIND", "LocalDisk");
    let golden = golden_of("v1-message-file");
    let id = "0000000000000005a5a5a5a5a5a5a5a5";
    let octets: Vec<u8> = (0..16).map(|at| u8::from_str_radix(&id[2 * at..][..2], 16).expect("hex")).collect();
    let folder = format!("data/msg/{:02x}", crc32(&octets) % 64);
    scratch.folder(&folder);
    scratch.write(&format!("{folder}/{id}"), &golden);
    scratch.write(&format!("{folder}/{id}.new.0123456789abcdef"), "a message that was being written");
    let version = scratch.write("data/msg/version", "postrider message files, version 1\n");

    let server = launch.start();
    // It is older than mail may become; recipients 0 and 2 were done.
    let records = Logs::new(scratch.join("logs")).await_type("Expiration", 1, SOON);
    assert_eq!(records.iter().flat_map(recipients).collect::<Vec<_>>(), ["r1.5@example.com"]);
    server.stop();
    assert_eq!(std::fs::read_to_string(version).expect("there"), "postrider message files, version 2\n");
    let left: Vec<PathBuf> = files(&scratch.join("data/msg")).into_keys().filter(|path| path.is_file()).collect();
    assert_eq!(left, [scratch.join("data/msg/version")]);
}

fn launch(scratch: &Scratch) -> Launch {
    Stage::without_receiver(scratch.path(), 0).launch
}

/// What the golden segment holds is older than mail may become: its fate is in the log, recipient by recipient.
fn takes_over_golden_mail(scratch: &Scratch, launch: &Launch) {
    let server = launch.start();
    let logs = Logs::new(scratch.join("logs"));
    let records = logs.await_type("Expiration", 2, SOON);
    let found: BTreeSet<String> = records.iter().flat_map(recipients).collect();
    // Message 2 was removed, recipients 0 and 64 of message 3 were done.
    let third = (1..70).filter(|number| *number != 64).map(|number| format!("r{number}.3@example.com"));
    let expected: BTreeSet<String> = third.chain(["r0.1@example.com".into(), "r1.1@example.com".into()]).collect();
    assert_eq!(found, expected);
    assert_eq!(server.metric("message_count"), 0.0);
    server.stop();
}

fn recipients(record: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("recipient: {record}")).to_owned();
    record["recipient"]
        .as_array()
        .map_or_else(|| vec![text(&record["recipient"])], |all| all.iter().map(text).collect())
}

fn golden() -> Vec<u8> {
    golden_of("v1-segment.bin")
}

fn golden_of(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/spool/tests/golden").join(name);
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The golden segment as a later version would begin it (docs/spool-format.md, section 2).
fn later(sequence: u32) -> Vec<u8> {
    let mut octets = golden();
    octets[8..12].copy_from_slice(&99u32.to_le_bytes());
    octets[12..16].copy_from_slice(&sequence.to_le_bytes());
    let sum = crc32(&octets[..60]);
    octets[60..64].copy_from_slice(&sum.to_le_bytes());
    octets
}

/// CRC-32 as in zip.
fn crc32(octets: &[u8]) -> u32 {
    let step = |sum: u32, _| (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg());
    !octets.iter().fold(!0, |sum, octet| (0..8).fold(sum ^ u32::from(*octet), step))
}

/// All files below a folder with their content. The lock's content is the last process id.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.insert(path.clone(), Vec::new());
            found.extend(files(&path));
        } else {
            let is_lock = path.file_name().is_some_and(|name| name == "lock");
            let content = if is_lock { Vec::new() } else { std::fs::read(&path).expect("a file of the spool") };
            found.insert(path, content);
        }
    }
    found
}

#[test]
fn the_sum_is_the_one_in_golden_headers() {
    let golden = golden();
    assert_eq!(crc32(&golden[..60]).to_le_bytes(), golden[60..64]);
}
