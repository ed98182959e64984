//! Tests of lines that are kept: wherever a kill or a torn write cuts the file, what is whole in it comes back, in order, and what was
//! done with does not.

use super::*;
use crate::ring::{ENTRY_HEAD, RING_START, UNIT};
use std::fs;
use std::path::PathBuf;

fn line(number: usize) -> Vec<u8> {
    KeptLines::line(|out| out.extend_from_slice(text(number).as_bytes()))
}

fn text(number: usize) -> String {
    format!("line {number}{}\n", "x".repeat(number % 150))
}

fn put(kept: &mut KeptLines, numbers: impl IntoIterator<Item = usize>) -> Vec<Until> {
    numbers.into_iter().map(|number| kept.put(&mut line(number)).expect("room")).collect()
}

fn kept(dir: &Path, name: &str, octets: u64) -> KeptLines {
    KeptLines::of_octets(dir, name, name.to_owned(), octets).expect("room")
}

fn files(dir: &Path) -> Vec<PathBuf> {
    files_of(dir, NAME).expect("there")
}

fn left(dir: &Path) -> Vec<LeftLines> {
    LeftLines::all_in(dir).expect("reads")
}

fn texts(lines: &mut LeftLines) -> Vec<String> {
    lines.read().expect("reads").into_iter().map(|(_, line)| String::from_utf8(line).expect("text")).collect()
}

#[test]
fn what_was_not_done_with_comes_back_to_its_owner_oldest_first() {
    let dir = tempfile::tempdir().expect("scratch");
    let (mut b, mut a, none) =
        (kept(dir.path(), "b", 1 << 16), kept(dir.path(), "a", 1 << 16), kept(dir.path(), "c", 1 << 16));
    let until = put(&mut b, 0..20);
    put(&mut a, 100..103);
    b.done(until[4]);
    assert!(left(dir.path()).is_empty() && files(dir.path()).len() == 3, "they are in use");
    drop((a, b, none));
    let mut found = left(dir.path());
    assert_eq!(files(dir.path()).len(), 2, "one had nothing");
    assert_eq!(found.iter().map(|lines| (lines.name(), lines.count())).collect::<Vec<_>>(), [("b", 15), ("a", 3)]);
    assert!(left(dir.path()).is_empty(), "each is somebody's now");
    assert_eq!(texts(&mut found[0]), (5..20).map(text).collect::<Vec<_>>());
    assert_eq!(texts(&mut found[1]), (100..103).map(text).collect::<Vec<_>>());
}

#[test]
fn what_is_worked_off_again_goes_line_by_line() {
    let dir = tempfile::tempdir().expect("scratch");
    let mut first = kept(dir.path(), "a", 1 << 16);
    put(&mut first, 0..10);
    drop(first);
    let mut found = left(dir.path()).remove(0);
    let lines = found.read().expect("reads");
    found.done(lines[6].0).expect("noted");
    drop(found);
    // Killed once more.
    let mut found = left(dir.path()).remove(0);
    let lines = found.read().expect("reads");
    assert_eq!(lines.iter().map(|(_, line)| line.clone()).collect::<Vec<_>>(), [7, 8, 9].map(|n| text(n).into_bytes()));
    found.done(lines[2].0).expect("noted");
    assert!(files(dir.path()).is_empty(), "all are done with");
}

#[test]
fn what_ended_well_leaves_nothing() {
    let dir = tempfile::tempdir().expect("scratch");
    let mut a = kept(dir.path(), "a", 1 << 16);
    put(&mut a, 0..10);
    a.remove().expect("removed");
    assert!(files(dir.path()).is_empty() && left(dir.path()).is_empty());
}

/// Each line is written when the one before it is, at most: a file that ends anywhere has all before that.
#[test]
fn a_file_that_is_cut_at_any_octet_has_what_is_before_the_cut() {
    let dir = tempfile::tempdir().expect("scratch");
    let mut a = kept(dir.path(), "a", 4 << 10);
    put(&mut a, 0..10);
    let path = files(dir.path()).remove(0);
    let octets = fs::read(&path).expect("there");
    drop(a);
    let mut ends = Vec::new();
    for number in 0..10 {
        let start = ends.last().map_or(RING_START, |end: &u64| end.next_multiple_of(UNIT));
        ends.push(start + (ENTRY_HEAD + text(number).len()) as u64);
    }
    for length in RING_START - 3..=ends[9] + 1 {
        fs::write(&path, &octets[..length as usize]).expect("written");
        let whole = ends.iter().filter(|end| **end <= length).count();
        let found = left(dir.path()).pop().map(|mut lines| texts(&mut lines)).unwrap_or_default();
        assert_eq!(found, (0..whole).map(text).collect::<Vec<_>>(), "{length} octets");
    }
}

#[test]
fn an_octet_that_is_wrong_costs_its_line_at_most() {
    let dir = tempfile::tempdir().expect("scratch");
    let mut a = kept(dir.path(), "a", 4 << 10);
    let until = put(&mut a, 0..6);
    a.done(until[1]);
    let path = files(dir.path()).remove(0);
    let octets = fs::read(&path).expect("there");
    drop(a);
    let of_ring = RING_START as usize..RING_START as usize + 6 * 2 * UNIT as usize;
    // What is wrong in the note brings lines twice, and takes none.
    for at in (0..512).chain(of_ring) {
        let mut octets = octets.clone();
        octets[at] ^= 0x5a;
        fs::write(&path, octets).expect("written");
        let found = left(dir.path()).pop().map(|mut lines| texts(&mut lines)).unwrap_or_default();
        let missing = (2..6).filter(|number| !found.contains(&text(*number))).count();
        assert!(missing <= usize::from(at >= 512), "octet {at}: {found:?}");
        assert!(found.iter().all(|line| (0..6).any(|number| *line == text(number))), "octet {at}: {found:?}");
    }
}

#[test]
fn lines_of_nobody_who_is_known_stay_where_they_are() {
    let dir = tempfile::tempdir().expect("scratch");
    let mut a = kept(dir.path(), "a", 4 << 10);
    put(&mut a, 0..6);
    let path = files(dir.path()).remove(0);
    let octets = fs::read(&path).expect("there");
    drop(a);
    for at in [512, 519, 520, 521] {
        let mut octets = octets.clone();
        octets[at] ^= 0x5a;
        fs::write(&path, octets).expect("written");
        assert!(left(dir.path()).is_empty() && path.exists(), "octet {at}");
    }
    // A copy is nobody's either.
    let copy = path.with_extension("bak");
    fs::rename(&path, &copy).expect("renamed");
    assert!(left(dir.path()).is_empty() && copy.exists());
    fs::write(&path, &octets).expect("written");
    assert_eq!(left(dir.path()).len(), 1);
    fs::write(&path, vec![0; 65 << 20]).expect("written");
    assert!(left(dir.path()).is_empty() && path.exists(), "too long");
}

/// The file as a kill leaves it at any time: the ring goes round many times.
#[test]
fn at_any_time_all_that_waits_is_there() {
    let dir = tempfile::tempdir().expect("scratch");
    let mut a = kept(dir.path(), "a", 8 << 10);
    let path = files(dir.path()).remove(0);
    let mut waiting = std::collections::VecDeque::new();
    for number in 0..300 {
        waiting.push_back((number, a.put(&mut line(number)).expect("room")));
        // In batches, as hooks work them off.
        if waiting.len() > 16 {
            let done = waiting.drain(..7).next_back().expect("seven");
            a.done(done.1);
        }
        let copy = tempfile::tempdir().expect("scratch");
        fs::copy(&path, copy.path().join(path.file_name().expect("a name"))).expect("copied");
        let found = texts(&mut left(copy.path()).remove(0));
        assert_eq!(found, waiting.iter().map(|(number, _)| text(*number)).collect::<Vec<_>>());
    }
}

#[test]
fn what_has_no_room_is_left_out_and_what_comes_later_is_not() {
    let dir = tempfile::tempdir().expect("scratch");
    let mut a = kept(dir.path(), "a", 4 << 10);
    let until: Vec<_> = (0..100).map(|number| a.put(&mut line(number))).collect();
    let kept = until.iter().take_while(|until| until.is_some()).count();
    assert!((1..100).contains(&kept), "{kept} had room");
    a.done(until[kept - 1].expect("kept"));
    put(&mut a, 200..203);
    drop(a);
    assert_eq!(texts(&mut left(dir.path()).remove(0)), (200..203).map(text).collect::<Vec<_>>());
}

#[test]
fn what_is_none_of_them_is_no_obstacle() {
    let dir = tempfile::tempdir().expect("scratch");
    for (number, octets) in [(0, &b""[..]), (1, &[0xff; 600]), (2, &[0; 80_000])] {
        fs::write(dir.path().join(format!("{NAME}{number}")), octets).expect("written");
    }
    assert!(left(dir.path()).is_empty() && files(dir.path()).is_empty());
}
