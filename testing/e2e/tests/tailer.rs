//! `tailer` on the logs of a server, and through a kill: nothing is missing, and at most a batch comes twice.

use e2e::kumod::Launch;
use e2e::scratch::Scratch;
use e2e::until::{LATER, SOON, until};
use e2e::wire::Client;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Records of a test whose tailer is killed; fewer than lines are kept of a process.
const RECORDS: usize = 15_000;
const BATCH: usize = 5;
/// Batches that are printed before it is killed: about a tenth of a second's.
const SOME: usize = 100;
/// Kills until one is early enough.
const KILLS_MAX: usize = 5;

fn tailer(words: &[&str], dir: &Path) -> Launch {
    words.iter().fold(Launch::verb("tailer"), |launch, word| launch.arg(*word)).arg(dir)
}

fn records(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// A segment that is over.
fn segment(path: &Path, numbers: std::ops::Range<usize>) {
    let text: String = numbers.map(|n| format!("{{\"n\":{n}}}\n")).collect();
    fs::write(path, zstd::encode_all(text.as_bytes(), 1).expect("encodes")).expect("writes");
    fs::set_permissions(path, fs::Permissions::from_mode(0o444)).expect("read-only");
}

/// Where a tailer was killed before it had printed all there was, and what it had printed; nothing if it was too late for that.
fn killed_under_way(words: &[&str]) -> Option<(Scratch, Vec<Value>)> {
    let scratch = Scratch::new();
    let dir = scratch.folder("logs");
    segment(&dir.join("20261125-033000.000000001"), 0..RECORDS / 2);
    segment(&dir.join("20261125-033000.000000002"), RECORDS / 2..RECORDS);
    // What is no segment is no obstacle: a log for people that lies there, too, before and behind them.
    ["1", "kumod-diagnostics.2026-11-25"].iter().for_each(|name| fs::write(dir.join(name), "").expect("writes"));
    let mut first = tailer(words, &dir).spawn();
    until(SOON, "some batches", || (first.stdout().lines().count() >= SOME * BATCH).then_some(()));
    first.kill();
    let first = first.finish(SOON).stdout;
    // The kill may have cut a line.
    let before: Vec<Value> = first.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert!(before.len() >= SOME * BATCH, "{}", before.len());
    (before.len() < RECORDS).then_some((scratch, before))
}

#[test]
fn a_kill_repeats_at_most_the_last_batch() {
    let batch = BATCH.to_string();
    let words = ["--batch-size", batch.as_str(), "--checkpoint", "mine"];
    let (scratch, before) = (0..KILLS_MAX).find_map(|_| killed_under_way(&words)).expect("a kill under way");
    let dir = scratch.join("logs");
    assert!(before.iter().enumerate().all(|(n, record)| record["n"] == n), "in order");

    let second = tailer(&[&words[..], &["--no-follow"]].concat(), &dir).run().success().stdout;
    let after = records(&second);
    let begin = after[0]["n"].as_u64().expect("a number") as usize;
    assert!(begin <= before.len(), "{begin} after {}: some are missing", before.len());
    assert!(before.len() - begin <= BATCH, "{begin} after {}: more than a batch again", before.len());
    assert!(begin > 0, "the checkpoint was kept");
    assert!(after.iter().enumerate().all(|(at, record)| record["n"] == begin + at), "in order");
    assert_eq!(after.len(), RECORDS - begin, "to the end");
    let third = tailer(&[&words[..], &["--no-follow"]].concat(), &dir).run().success();
    assert_eq!(third.stdout, "");
}

#[test]
fn what_a_server_logs_is_followed_and_filtered() {
    let scratch = Scratch::new();
    let relay = Launch::relay(&scratch, "127.0.0.1:1".parse().expect("an address")).env("RELAY_RETRY", "1h").start();
    let logs = scratch.join("relay/logs");
    let follows = tailer(&["--type", "Reception,TransientFailure", "--recipient", "*@A.test"], &logs).spawn();
    let mut ids = Vec::new();
    for to in ["one@a.test", "one@b.test"] {
        let reply = Client::connect(relay.smtp()).submit("s@source.test", to, "logged");
        ids.push(reply.lines[0].split("ids=").nth(1).expect("an id").trim().to_owned());
    }
    relay.await_metric("total_messages_transfail{service=\"smtp_client\"}", 2.0, LATER);
    relay.stop();
    // The segment is over with the server.
    let found = until(SOON, "two records about one message", || {
        let found = records(&follows.stdout());
        (found.len() >= 2).then_some(found)
    });
    let seen: Vec<(&Value, &Value)> = found.iter().map(|record| (&record["type"], &record["id"])).collect();
    assert_eq!(
        seen,
        [
            (&Value::from("Reception"), &Value::from(ids[0].as_str())),
            (&Value::from("TransientFailure"), &Value::from(ids[0].as_str())),
        ]
    );
    let of = |words: &[&str]| records(&tailer(&[words, &["--no-follow"]].concat(), &logs).run().success().stdout);
    let all = of(&[]);
    assert_eq!(all.len(), 4, "{all:?}");
    assert_eq!(of(&["--id", &ids[1]]).len(), 2);
    assert_eq!((of(&["--queue", "b.test", "--type", "reception"]).len(), of(&["--sender", "nobody@*"]).len()), (1, 0));
    assert!(!logs.join(".tailer-checkpoint").exists(), "filters and --no-follow remember nothing");
    let wrong = tailer(&["--type", "Sent"], &logs).run();
    assert!(
        wrong.status.code() == Some(1) && wrong.stderr.contains("--type \"Sent\": expected one of Reception"),
        "{wrong:?}"
    );
}
