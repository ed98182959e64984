//! Messages of an earlier run come back from the spool; one that does not read is set aside and stops nobody.

mod support;

use engine::pressure::Pressure;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use support::{Report, ToNext, send, start, until};
use tokio::sync::mpsc;

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_does_not_read_is_set_aside_and_the_others_are_delivered() {
    let dirs = [tempfile::tempdir().expect("scratch"), tempfile::tempdir().expect("scratch")];
    // Nobody listens there: what is accepted waits.
    let away = Arc::new(ToNext { next: ([127, 0, 0, 1], 1).into() });
    let (first, address) = start(away, dirs[0].path()).await;
    for subject in ["one", "two", "three"] {
        let answers = send(address, &format!("Subject: {subject}\r\n\r\nx\r\n.\r\n")).await;
        assert!(answers.contains("\n250 OK ids="), "{answers}");
    }
    first.drain(Duration::from_secs(10)).await;
    damage(&dirs[0].path().join("spool"), b"Subject: two", b"Subject: tVo");

    let (seen, mut arrivals) = mpsc::unbounded_channel();
    let (last, last_address) = start(Arc::new(Report { seen }), dirs[1].path()).await;
    let (again, _) = start(Arc::new(ToNext { next: last_address }), dirs[0].path()).await;
    let mut subjects = Vec::new();
    for _ in 0..2 {
        let arrival = tokio::time::timeout(Duration::from_secs(30), arrivals.recv()).await;
        let (_, data) = arrival.expect("in time").expect("open");
        let text = String::from_utf8_lossy(&data).into_owned();
        subjects.push(text.split("Subject: ").nth(1).and_then(|t| t.lines().next()).unwrap_or_default().to_owned());
    }
    subjects.sort();
    assert_eq!(subjects, ["one", "three"]);
    let set_aside = || again.metrics().spool_set_aside.get();
    until("the damaged one is counted", || set_aside() > 0).await;
    assert_eq!(set_aside(), 1);
    again.drain(Duration::from_secs(10)).await;
    last.drain(Duration::from_secs(10)).await;
    assert!(!holders(&dirs[0].path().join("spool"), b"Subject: tVo").is_empty(), "its octets are kept");
    assert_eq!(set_aside(), 1, "once");
}

/// From the first moment: listeners are open before the task runs that brings messages back.
#[tokio::test]
async fn messages_of_earlier_runs_are_on_their_way_from_the_start() {
    let dir = tempfile::tempdir().expect("scratch");
    let away = Arc::new(ToNext { next: ([127, 0, 0, 1], 1).into() });
    let engine = support::engine(away, dir.path(), Vec::new(), Pressure::unlimited());
    let are_on_their_way = || engine.metrics().spool_recovering.get() == 1;
    assert!(are_on_their_way() && engine.is_recovering(), "no task has run yet");
    until("all are back", || !are_on_their_way()).await;
    assert!(!engine.is_recovering());
    engine.drain(Duration::from_secs(10)).await;
}

/// Replaces octets in every file below `dir` that has them.
fn damage(dir: &Path, old: &[u8], new: &[u8]) {
    let files = holders(dir, old);
    assert!(!files.is_empty(), "the message is in the spool");
    for file in files {
        let mut octets = fs::read(&file).expect("it was read before");
        while let Some(at) = octets.windows(old.len()).position(|w| w == old) {
            octets[at..at + new.len()].copy_from_slice(new);
        }
        fs::write(&file, octets).expect("a file of the test");
    }
}

/// The files below `dir` that hold these octets.
fn holders(dir: &Path, octets: &[u8]) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let (dirs, files): (Vec<PathBuf>, Vec<PathBuf>) = entries.partition(|path| path.is_dir());
    let holds = |file: &PathBuf| fs::read(file).is_ok_and(|all| all.windows(octets.len()).any(|w| w == octets));
    files.into_iter().filter(holds).chain(dirs.iter().flat_map(|dir| holders(dir, octets))).collect()
}
