//! Real files: the lock, file systems without `O_DIRECT`, modes and names.

mod letter;

use letter::sealed;
use spool::{Disk, FileName, Page};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use store::{FileDisk, Options, StoreError};

#[test]
fn a_spool_in_use_names_the_lock_and_its_holder() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let held = FileDisk::open(dir.path()).expect("free");
    let error = FileDisk::open(dir.path()).map(|_| ()).expect_err("taken");
    let text = error.to_string();
    assert!(matches!(error, StoreError::InUse { .. }), "{text}");
    assert!(text.contains(&dir.path().join("lock").display().to_string()), "{text}");
    assert!(text.contains(&format!("pid {}", std::process::id())) && !text.contains('\n'), "{text}");
    drop(held);
    FileDisk::open(dir.path()).map(|_| ()).expect("free again");
}

#[test]
fn a_place_that_is_no_directory_is_one_clear_line() {
    let file = tempfile::NamedTempFile::new().expect("a scratch file");
    let text = FileDisk::open(file.path()).map(|_| ()).expect_err("a file").to_string();
    assert!(text.contains(&file.path().display().to_string()) && !text.contains('\n'), "{text}");
}

#[tokio::test]
async fn a_file_system_in_memory_serves_too() {
    if !Path::new("/dev/shm").is_dir() {
        return;
    }
    let dir = tempfile::tempdir_in("/dev/shm").expect("a scratch directory");
    append_and_reopen(dir.path()).await;
}

#[tokio::test]
async fn the_usual_file_system_serves() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    append_and_reopen(dir.path()).await;
    let mode = |path: &Path| path.metadata().expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(&dir.path().join("seg-00000001")), 0o600);
    assert_eq!(mode(&dir.path().join("corrupt")), 0o700);
}

async fn append_and_reopen(dir: &Path) {
    let (spool, recovering) = store::open(dir, Options::default()).expect("opens");
    assert!(recovering.all().await.expect("recovers").0.is_empty());
    spool.append(vec![vec![sealed(1, 10)]]).await.expect("durable");
    let large = spool.append(vec![vec![sealed(2, 3_000_000)]]).await.expect("durable");
    let place = large.durable[0].place();
    let read = spool.load(large.sealed[0].id, place).await.expect("reads");
    assert!(read.head == large.sealed[0].head && read.body == large.sealed[0].body);
    spool.close().await.expect("ends well");
    let again = spool.append(vec![vec![sealed(3, 10)]]).await.map(|_| ());
    assert_eq!(again, Err(spool::SpoolError::Closed));
    drop(spool);
    let (spool, recovering) = store::open(dir, Options::default()).expect("opens again");
    let (messages, _) = recovering.all().await.expect("recovers");
    let ids: Vec<_> = messages.iter().map(|m| m.id.as_bytes()[0]).collect();
    assert_eq!(ids, [1, 2]);
    spool.close().await.expect("ends well");
}

#[test]
fn buffered_writes_are_the_same_calls_without_o_direct() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let mut disk = FileDisk::open_buffered(dir.path()).expect("free");
    assert!(!disk.is_direct());
    exercise(&mut disk);
}

#[test]
fn the_disk_keeps_its_contract() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let mut disk = FileDisk::open(dir.path()).expect("free");
    exercise(&mut disk);
}

/// Every call once, and what it promises.
fn exercise(disk: &mut FileDisk) {
    let (spare, segment, aside) = (FileName::Spare(7), FileName::Segment(0xabc), FileName::Aside(0xabc, 0));
    disk.create(spare).expect("creates");
    disk.write_at(spare, 2, &Page::zeros(3)).expect("writes behind the end");
    disk.sync(spare).expect("syncs");
    disk.rename(spare, segment).expect("renames");
    disk.write_at(segment, 0, &Page::zeros(1)).expect("writes under the new name");
    disk.sync(segment).expect("syncs");
    let listed = disk.list().expect("lists");
    assert_eq!(listed.iter().map(|f| (f.name, f.octets)).collect::<Vec<_>>(), [(segment, 5 * 4096)]);
    let reader = disk.reader();
    let mut pages = Page::zeros(4);
    assert_eq!(reader.read_at(segment, 3, &mut pages).expect("reads"), 2 * 4096, "short at the end only");
    assert_eq!(reader.read_at(segment, 9, &mut pages).expect("reads"), 0);
    disk.rename(segment, aside).expect("sets aside");
    let gone = reader.read_at(segment, 0, &mut pages).expect_err("renamed");
    assert_eq!(gone.kind(), std::io::ErrorKind::NotFound);
    assert_eq!(disk.list().expect("lists")[0].name, aside);
    disk.remove(aside).expect("removes");
    assert_eq!(disk.remove(aside).expect_err("removed").kind(), std::io::ErrorKind::NotFound);
    assert!(disk.list().expect("lists").is_empty());
}
