//! The benchmarks run, each on a few messages: what they measure is not looked at, only that nothing was lost on the way.

use e2e::scratch::Scratch;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn programs() -> PathBuf {
    let daemon = PathBuf::from(std::env::var_os("POSTRIDER_BIN").expect("POSTRIDER_BIN names the program"));
    daemon.parent().map(Path::to_path_buf).expect("a folder")
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
