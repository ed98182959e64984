//! `Lines`: where reading begins, what it tells of segments that are gone, and where it stands.

use jsonl::{Begin, Lines, Position, Read};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

fn segment(dir: &Path, name: &str, lines: &str) {
    let path = dir.join(name);
    fs::write(&path, zstd::encode_all(lines.as_bytes(), 1).expect("encodes")).expect("writes");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).expect("read-only");
}

fn written(dir: &Path, name: &str, at: SystemTime) {
    let path = dir.join(name);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("writable");
    fs::File::options().write(true).open(&path).expect("opens").set_modified(at).expect("a time");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).expect("read-only");
}

fn at(file: &str, line: u64) -> Position {
    Position { file: file.into(), line }
}

/// All lines there are now, each with its place.
fn rest(lines: &mut Lines) -> Vec<String> {
    let mut found = Vec::new();
    loop {
        match lines.step().expect("readable") {
            Read::End => return found,
            Read::Passed => {}
            Read::Fault(fault) => panic!("{fault}"),
            Read::Line(at) => {
                found.push(format!("{}:{} {}", at.file, at.line, String::from_utf8_lossy(lines.text())));
                assert_eq!(lines.at(), at);
            }
        }
    }
}

#[test]
fn reading_begins_where_it_is_told() {
    let dir = tempfile::tempdir().expect("scratch");
    let open = |begin| Lines::open(dir.path(), "[a-z]", begin).expect("opens");
    assert_eq!(open(Begin::End).at(), Position::before_all());
    segment(dir.path(), "a", "1\n2\n");
    segment(dir.path(), "b", "3\n\n4");
    segment(dir.path(), "other", "5\n");
    let all = ["a:1 1", "a:2 2", "b:1 3", "b:3 4"];
    assert_eq!(rest(&mut open(Begin::Start)), all);
    assert_eq!(rest(&mut open(Begin::Behind(Position::before_all()))), all);
    assert_eq!(rest(&mut open(Begin::Behind(at("a", 1)))), all[1..]);
    assert_eq!(rest(&mut open(Begin::Behind(at("b", 0)))), all[2..]);
    let mut end = open(Begin::End);
    assert_eq!(end.at(), at("b", 3));
    segment(dir.path(), "c", "6\n");
    assert_eq!(rest(&mut end), ["c:1 6"]);
    let now = SystemTime::now();
    written(dir.path(), "a", now - Duration::from_secs(100));
    assert_eq!(rest(&mut open(Begin::Since(now - Duration::from_secs(100)))).len(), 5);
    assert_eq!(rest(&mut open(Begin::Since(now - Duration::from_secs(99)))), ["b:1 3", "b:3 4", "c:1 6"]);
    assert_eq!(rest(&mut open(Begin::Since(now + Duration::from_secs(100)))), ["c:1 6"], "all ended before");
}

#[test]
fn segments_that_are_gone_are_told() {
    let dir = tempfile::tempdir().expect("scratch");
    let open = |begin| Lines::open(dir.path(), "*", begin).expect("opens");
    for name in ["a", "b", "c", "d"] {
        segment(dir.path(), name, "1\n");
    }
    let mut lines = open(Begin::Start);
    while !matches!(lines.step().expect("readable"), Read::Line(_)) {}
    lines.look_ahead().expect("looks");
    fs::remove_file(dir.path().join("b")).expect("removed");
    assert_eq!(
        (rest(&mut lines), lines.take_gap().as_deref()),
        (vec!["c:1 1".to_owned(), "d:1 1".to_owned()], Some("b"))
    );
    assert_eq!(lines.take_gap(), None, "told once");
    // Where it was to go on.
    let mut lines = open(Begin::Behind(at("b", 1)));
    assert_eq!((rest(&mut lines).len(), lines.take_gap().as_deref()), (2, Some("b")));
    // What was read to its end may go.
    let mut lines = open(Begin::Behind(at("c", 1)));
    assert_eq!((rest(&mut lines).len(), lines.take_gap()), (1, None));
    fs::remove_file(dir.path().join("d")).expect("removed");
    segment(dir.path(), "e", "2\n");
    assert_eq!((rest(&mut lines), lines.take_gap()), (vec!["e:1 2".to_owned()], None));
    assert_eq!(lines.oldest().expect("reads").as_deref(), Some("a"));
}
