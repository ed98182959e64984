//! What the program writes about its command lines: help, manual pages and completions, read as their readers do.
//!
//! Where who formats pages is installed, he is asked too; what he says is a failure.

use crate::process::{Finished, run};
use crate::until::SOON;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

/// The long options that a help lists.
pub fn long_options(help: &str) -> BTreeSet<String> {
    let names = help.lines().filter_map(|line| {
        let line = line.trim_start();
        let line = match line.as_bytes() {
            [b'-', _, b',', b' ', ..] => &line[4..],
            _ => line,
        };
        let end = line.find(|c: char| c != '-' && !c.is_ascii_alphanumeric()).unwrap_or(line.len());
        line.starts_with("--").then(|| line[..end].to_owned())
    });
    names.collect()
}

/// Whether a program is installed.
pub fn installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").expect("a path");
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// A shell without the settings of whoever runs the tests.
pub fn shell(words: &[&str]) -> Finished {
    let mut command = Command::new(words[0]);
    // What its user is used to is not to be seen.
    let kept = std::env::var_os("PATH").map(|path| ("PATH".into(), path));
    let own = [("LC_ALL", "C.UTF-8"), ("TERM", "dumb"), ("HOME", "/nonexistent")]
        .map(|(name, value)| (name.into(), value.into()));
    let all: Vec<(OsString, OsString)> = kept.into_iter().chain(own).collect();
    command.args(&words[1..]).env_clear().envs(all);
    run(words[0], command, SOON)
}

/// Roff without its escapes.
pub fn plain(page: &str) -> String {
    ["\\fB", "\\fI", "\\fR"]
        .iter()
        .fold(page.replace("\\-", "-").replace("\\*(Aq", "'"), |page, font| page.replace(font, ""))
}

/// The requests that manual pages are made of, a heading first, and no escape that is none.
pub fn assert_sound(name: &str, page: &str) {
    let title = name.strip_suffix(".1").unwrap_or_else(|| panic!("{name} is of no section"));
    let requests: Vec<&str> = page.lines().filter(|line| line.starts_with('.')).collect();
    let at = |request: &str| requests.iter().position(|line| line.starts_with(request));
    assert!(at(&format!(".TH {title} 1")).is_some(), "{name}: {requests:?}");
    assert!(at(".TH") < at(".SH NAME") && at(".SH NAME") < at(".SH SYNOPSIS"), "{name}: {requests:?}");
    for line in page.lines() {
        let request = line.split(' ').next().unwrap_or_default();
        let known = [".TH", ".SH", ".TP", ".PP", ".RS", ".RE", ".IP", ".br", ".ie", ".el"];
        assert!(!request.starts_with(['.', '\'']) || known.contains(&request), "{name}: {line}");
        let mut escapes = line.split('\\').skip(1);
        assert!(
            escapes.all(|rest| ["-", "fB", "fI", "fR", "*(Aq", "n(.g", "(aq", "(bu", "&"]
                .iter()
                .any(|known| rest.starts_with(known))),
            "{name}: {line}"
        );
    }
}

/// Who formats pages has nothing to say about it.
pub fn assert_formatted(page: &Path) {
    let page = page.to_str().expect("text");
    for (name, words) in [
        ("groff", &["groff", "-man", "-ww", "-Tutf8", "-z", page][..]),
        ("man", &["man", "--warnings", "-l", page]),
        ("mandoc", &["mandoc", "-T", "lint", "-W", "warning", page]),
    ] {
        if installed(name) {
            let Finished { stderr, stdout, .. } = shell(words).success();
            assert_eq!(stderr, "", "{name} {page}");
            assert!(name != "mandoc" || stdout.is_empty(), "{stdout}");
        }
    }
}
