//! `postrider init` asks for what it was not given.

use std::ffi::OsString;
use std::path::Path;

fn run(dir: &Path, flags: &[&str], answers: &str) -> Result<String, String> {
    let mut arguments: Vec<OsString> = ["init", "--dir"].map(OsString::from).into();
    arguments.push(dir.join("policy").into());
    arguments.extend(flags.iter().map(OsString::from));
    let mut out = Vec::new();
    cli::init_to(arguments, &mut answers.as_bytes(), &mut out).map_err(|error| format!("{error:#}"))?;
    Ok(String::from_utf8(out).expect("text"))
}

#[test]
fn what_is_not_given_is_asked_for_and_an_empty_line_is_the_proposal() {
    let dir = tempfile::tempdir().expect("scratch");
    let text = run(dir.path(), &["--domains", ""], "mx.test\n\n192.0.2.7\n").expect("written");
    assert!(text.contains("written:\n"), "{text}");
    let read = |name: &str| std::fs::read_to_string(dir.path().join("policy").join(name)).expect("a file");
    assert!(read("init.lua").contains("hostname = 'mx.test',"));
    assert!(read("init.lua").contains("relay_hosts = { '127.0.0.1', '::1' },"));
    assert!(read("sources.toml").contains("source_address = \"192.0.2.7\""));
    assert!(!dir.path().join("policy/dkim").exists(), "nobody's mail is signed");
}

#[test]
fn an_input_that_ends_writes_nothing() {
    let dir = tempfile::tempdir().expect("scratch");
    let error = run(dir.path(), &[], "mx.test\n").expect_err("three answers are missing");
    assert!(error.contains("--yes"), "{error}");
    assert!(!dir.path().join("policy").exists());
}
