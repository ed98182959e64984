//! The benchmarks run, each on a few messages: what they measure is not looked at, only that nothing was lost on the way.

use e2e::scratch::Scratch;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn programs() -> PathBuf {
    let daemon = PathBuf::from(std::env::var_os("POSTRIDER_BIN").expect("POSTRIDER_BIN names the program"));
    daemon.parent().map(Path::to_path_buf).expect("a folder")
}

/// Runs a verb on little; what it printed.
fn measured(arguments: &[&str]) -> String {
    let work = Scratch::new();
    let mut bench = Command::new(programs().join("postrider-bench"));
    bench.args(arguments).arg("--work").arg(work.path()).env_remove("PEERS");
    let output = bench.stdin(Stdio::null()).output().expect("runs");
    let (said, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{arguments:?}: {said}{wrong}");
    said.into_owned()
}

fn bin() -> String {
    programs().display().to_string()
}

#[test]
fn what_others_publish_is_done_again() {
    let said = measured(&["kumomta", "--messages", "2000", "--runs", "1", "--only", "10 KB", "--bin", &bin()]);
    for row in ["10 KB unsigned, 2000 connections", "10 KB RSA", "10 KB Ed25519", "10 KB discarded"] {
        assert!(said.contains(row), "no {row:?} in {said}");
    }
    let intact = said.matches(" 0/0/0 ").count();
    assert_eq!(intact, 3, "ledgers of what is relayed: {said}");
    let said = measured(&["postfix1997", "--quick", "--runs", "1", "--bin", &bin()]);
    assert_eq!(said.matches(" 0/0/0 ").count(), 12, "relays and local deliveries: {said}");
    assert!(said.contains("1000 recipients, singly") && said.contains("into one Maildir"), "{said}");
}

#[test]
fn scaling_and_contention_are_measured() {
    for part in ["cores", "queues", "latency"] {
        let said = measured(&["scaling", "--quick", "--runs", "1", "--only", part, "--bin", &bin()]);
        let expected = match part {
            "cores" => "1/w /s",
            "queues" => "1000 queues",
            _ => "sustained",
        };
        assert!(said.contains(expected), "{part}: {said}");
    }
    let said = measured(&["contention", "--messages", "200", "--runs", "1", "--bin", &bin()]);
    for expected in ["10 KB, 1 worker threads", "per 1000 messages", "a message id, 1 threads"] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
}

#[test]
fn a_production_policy_is_compared_with_a_plain_one() {
    let folder = programs();
    let work = Scratch::new();
    let daemon = folder.join("postrider");
    let mut bench = Command::new(folder.join("postrider-bench"));
    bench.args(["compare", "--production", "--pairs", "1", "--messages", "500", "--connections", "10", "--a"]);
    bench.arg(&daemon).arg("--b").arg(&daemon).arg("--work").arg(work.path());
    let output = bench.stdin(Stdio::null()).output().expect("runs");
    let (said, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{wrong}");
    assert!(said.contains("production policy, 10 connections: CPU per message"), "{said}");
}
