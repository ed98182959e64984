//! A log whose disk takes nothing, and a logger that is to drop records then (`when_full = 'Drop'`): mail goes on.

use e2e::http;
use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::logs::Logs;
use e2e::mount::Tmpfs;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::traffic::Traffic;
use e2e::until::{LATER, until};
use std::fs;
use std::path::PathBuf;

#[test]
fn mail_goes_on_and_what_was_dropped_is_told() {
    let scratch = Scratch::new();
    let (sink, disk) = (Sink::start(&scratch, "sink", &[]), Tmpfs::mount(&scratch, "logs", "size=4m"));
    scratch.write("streams", "");
    let options = "when_full = 'Drop', back_pressure = 20";
    let node = Launch::policy(policy_file("event_stream.lua"))
        .env("EVENTS_DIR", scratch.path())
        .env("EVENTS_SINK", sink.address.to_string())
        .env("EVENTS_LOGS", options)
        .start();
    let log_dir = disk.path().display();
    let mut fillers = Vec::new();
    let mut sent = 0;
    until(LATER, "records that are dropped", || {
        // What the log's reserve was, too.
        fillers.push(fill(&disk, fillers.len()));
        Traffic::send(&scratch, &format!("part-{}", fillers.len()), node.smtp(), 30, &[]);
        sent += 30;
        node.await_empty(LATER);
        (readiness(&node).1 == format!("OK\ndegraded: log_dir {log_dir}: records are dropped")).then_some(())
    });
    assert_eq!(readiness(&node).0, 200);
    assert_eq!(http::get(node.http(), "/api/check-liveness/v1"), (200, "OK".to_owned()));
    sink.await_arrivals(sent, LATER);
    let counted = node.metric(&format!("postrider_log_records_dropped_total{{logger=\"dir-{log_dir}\"}}"));
    assert_eq!(node.metric(&format!("log_submit_full{{logger=\"dir-{log_dir}\"}}")), counted);
    let stderr = node.process.stderr();
    assert!(stderr.contains(": 20 records wait to be written: those that come are dropped"), "{stderr}");

    fillers.iter().for_each(|filler| fs::remove_file(filler).expect("a file of ours"));
    until(LATER, "room", || (readiness(&node).1 == "OK").then_some(()));
    Traffic::send(&scratch, "last", node.smtp(), 5, &[]);
    sent += 5;
    node.await_empty(LATER);
    let stderr = node.stop().stderr;
    let said = stderr.lines().filter_map(|line| line.split_once("there is room for records again; "));
    let said =
        said.map(|(_, rest)| rest.split(' ').next().and_then(|count| count.parse::<usize>().ok()).expect("a number"));
    let dropped: usize = said.sum();
    assert!(dropped > 0 && dropped as f64 == counted, "{dropped} are told, {counted} were counted");
    assert_eq!(Logs::new(disk.path()).records().len() + dropped, 2 * sent, "of each message two");
}

fn readiness(node: &Kumod) -> (u16, String) {
    http::get(node.http(), "/api/check-readiness/v1")
}

/// Takes all the room that is left.
fn fill(disk: &Tmpfs, number: usize) -> PathBuf {
    let path = disk.path().join(format!(".filler-{number}"));
    // It takes what there is room for, then fails.
    _ = fs::write(&path, vec![7; 4 << 20]);
    path
}
