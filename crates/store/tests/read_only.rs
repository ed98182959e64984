//! An onlooker of a real directory: of a dead spool and of one in use, and of what is none.

mod letter;

use letter::sealed;
use spool::inspect;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};
use store::{Options, ReadOnlyDir, StoreError};

/// Names, lengths and times of change of everything in a directory.
fn snapshot(dir: &Path) -> BTreeMap<String, (u64, SystemTime)> {
    let entries = fs::read_dir(dir).expect("lists").map(|e| e.expect("an entry"));
    let facts = |e: fs::DirEntry| {
        let metadata = e.metadata().expect("there");
        (e.file_name().to_string_lossy().into_owned(), (metadata.len(), metadata.modified().expect("a time")))
    };
    entries.map(facts).collect()
}

#[tokio::test]
async fn looking_needs_no_lock_and_changes_nothing() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let (spool, _) = store::open(dir.path(), Options::default()).expect("opens");
    let groups = vec![vec![sealed(1, 10)], vec![sealed(2, 100_000)]];
    let _ = spool.append(groups).await.expect("durable");
    spool.flush().await.expect("quiet");
    let onlooker = ReadOnlyDir::open(dir.path()).expect("a spool");
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let before = snapshot(dir.path());
        assert_eq!(onlooker.holder(), Some(format!("pid {}", std::process::id())));
        let seen = inspect(&onlooker, |_, _| "q".to_owned()).expect("looks");
        assert_eq!(seen.messages.iter().map(|m| m.id.as_bytes()[0]).collect::<Vec<_>>(), [1, 2]);
        assert!(seen.is_sound());
        // The spool fills spare files for a while; after that nobody changes anything.
        if snapshot(dir.path()) == before {
            break;
        }
        assert!(Instant::now() < end, "something changes whenever somebody looks");
    }
    spool.close().await.expect("ends well");
    drop(spool);
    assert_eq!(onlooker.holder(), None, "the lock is given back");
    assert_eq!(inspect(&onlooker, |_, _| "q".to_owned()).expect("looks").messages.len(), 2);
}

#[test]
fn what_is_no_spool_is_said_to_be_none() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let error = ReadOnlyDir::open(dir.path()).expect_err("empty");
    assert!(matches!(error, StoreError::NotASpool { hint: None, .. }), "{error}");
    let inner = dir.path().join("spool");
    drop(store::FileDisk::open(&inner).expect("made"));
    let text = ReadOnlyDir::open(dir.path()).expect_err("the directory above").to_string();
    assert!(text.contains(&inner.display().to_string()) && !text.contains('\n'), "{text}");
    ReadOnlyDir::open(&inner).expect("an empty spool is one");
    let text = ReadOnlyDir::open(&dir.path().join("none")).expect_err("not there").to_string();
    assert!(text.contains("No such file"), "{text}");
}
