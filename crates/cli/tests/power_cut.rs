//! The power-cut test itself: a short run passes, a lying disk is found out, and a state that is wrong can be seen again.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The text and the exit code.
fn run(arguments: &[&str], dir: &Path) -> (String, u8) {
    let mut all: Vec<OsString> = ["postrider selftest", "--power-cut", "--dir"].map(OsString::from).to_vec();
    all.push(dir.into());
    all.extend(arguments.iter().map(OsString::from));
    let mut out = Vec::new();
    let defaults = cli::Defaults { spool_dir: PathBuf::from("no such place"), queue_of: |_, _| String::new() };
    let code = cli::selftest_to(all, defaults, &mut out).expect("runs");
    (String::from_utf8_lossy(&out).into_owned(), code)
}

/// The number behind a word.
fn number(text: &str, word: &str) -> u64 {
    let (_, rest) = text.split_once(word).unwrap_or_else(|| panic!("no `{word}` in {text}"));
    let digits: String = rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("no number behind `{word}` in {text}"))
}

#[test]
fn a_few_hundred_cuts_lose_nothing() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let (text, code) = run(&["--messages", "4000", "--cuts", "200", "--seed", "7"], dir.path());
    assert!(code == 0 && text.ends_with("PASSED\n"), "{text}");
    assert_eq!(number(&text, "power cuts"), 200, "{text}");
    assert!(number(&text, "commits, ") > 5, "segments are released: {text}");
    assert!(number(&text, "released, ") > 1000, "survivors are moved: {text}");
    assert!(number(&text, "states rebuilt, ") > 20, "commits are torn: {text}");
    assert!(number(&text, "each compared; ") > 10_000, "much is promised: {text}");
    assert!(text.contains("file system   ") && text.contains("sync          p50 "), "{text}");
    assert_eq!(std::fs::read_dir(dir.path()).expect("lists").count(), 0, "nothing is left behind: {text}");
}

#[test]
fn a_disk_that_lies_is_found_out() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let (text, code) = run(&["--messages", "2000", "--cuts", "40", "--seed", "8", "--control"], dir.path());
    assert_eq!(code, 0, "{text}");
    assert!(number(&text, "states, ") > 100, "messages are lost: {text}");
}
