//! `postrider spool` and `postrider selftest` as an operator runs them: on the spool of a running server, after a kill,
//! and on a directory that is none.

use e2e::http;
use e2e::kumod::Launch;
use e2e::process::Finished;
use e2e::scratch::Scratch;
use e2e::until::{LATER, SOON};
use e2e::wire::Client;
use serde_json::json;
use std::fs;
use std::path::Path;

fn serve(state: &Path) -> Launch {
    Launch::verb("serve").arg("--listen").arg("127.0.0.1:0").arg("--http").arg("127.0.0.1:0").arg("--state").arg(state)
}

/// A verb on the spool below `state`.
fn spool(state: &Path, words: &[&str]) -> Finished {
    let launch = Launch::verb("spool").arg("--spool").arg(state.join("spool"));
    words.iter().fold(launch, |launch, word| launch.arg(*word)).run()
}

#[test]
fn a_running_and_a_killed_server_s_spool_can_be_read() {
    let scratch = Scratch::new();
    let state = scratch.join("state");
    let mut server = serve(&state).start();
    for number in 0..3 {
        let reply =
            Client::connect(server.smtp()).submit("a@source.test", "one@target.test", &format!("mail {number}"));
        assert_eq!(reply.code, 250);
    }
    let looked = spool(&state, &["verify"]).success();
    assert!(looked.stdout.contains(&format!("in use by pid {}", server.process.pid())), "{}", looked.stdout);
    assert!(
        looked.stdout.trim_end().ends_with("sound") && looked.stdout.contains("3 messages alive"),
        "{}",
        looked.stdout
    );
    let listed = spool(&state, &["list", "--long"]).success().stdout;
    assert_eq!(listed.matches("target.test").count(), 6, "queue and recipient: {listed}");
    let order = json!({"reason": "wait", "domain": "target.test", "duration": "1h"});
    http::json(server.http(), "POST", "/api/admin/suspend/v1", &order);
    server.process.kill();
    assert_eq!(spool(&state, &["list"]).success().stdout.lines().count(), 4);
    let id = listed.lines().nth(1).expect("a message").split(' ').next().expect("an id").to_owned();
    let content = spool(&state, &["cat", &id]).success().stdout;
    assert!(content.contains("mail 0") && content.contains("\nReceived: from client.test"), "{content}");
    let to = scratch.join("saved");
    spool(&state, &["export", "--all", "--to", to.to_str().expect("text")]).success();
    // What a test takes down of stdout is lines.
    let saved = fs::read_to_string(to.join(format!("{id}.eml"))).expect("there");
    let plain = |text: &str| text.replace("\r\n", "\n").trim_end().to_owned();
    assert_eq!(plain(&saved), plain(&content));
    let new = scratch.join("other/spool");
    let salvaged = spool(&state, &["salvage", "--into", new.to_str().expect("text")]).success().stdout;
    assert!(salvaged.contains("1 standing orders came along"), "{salvaged}");
    let server = serve(&scratch.join("other")).start();
    server.await_metric("message_count", 3.0, SOON);
    let (_, orders) = http::get(server.http(), "/api/admin/suspend/v1");
    assert!(orders.contains("target.test"), "what is held stays held: {orders}");
    server.stop();
}

#[test]
fn exit_codes_tell_damage_from_what_cannot_be_looked_at() {
    let scratch = Scratch::new();
    let state = scratch.join("state");
    assert_eq!(spool(&state, &["verify"]).status.code(), Some(2), "not there");
    let server = serve(&state).start();
    for _ in 0..2 {
        assert_eq!(Client::connect(server.smtp()).submit("a@source.test", "one@target.test", "mail").code, 250);
    }
    server.stop();
    assert_eq!(spool(&state, &["verify"]).status.code(), Some(0));
    let segment = state.join("spool/seg-00000001");
    let mut octets = fs::read(&segment).expect("reads");
    octets[20] ^= 1;
    fs::write(&segment, octets).expect("writes");
    let looked = spool(&state, &["verify"]);
    assert_eq!(looked.status.code(), Some(1), "{}", looked.stdout);
    assert!(looked.stdout.contains("seg-00000001 at octet 0: the header page does not read"), "{}", looked.stdout);
}

#[test]
fn the_self_test_runs_on_this_disk() {
    let tested = self_test(&[]);
    assert!(tested.stdout.trim_end().ends_with("PASSED"), "{}{}", tested.stdout, tested.stderr);
}

#[test]
fn the_self_test_sees_a_disk_that_lies() {
    let tested = self_test(&["--control"]);
    // The real run does not follow: it is for the control alone.
    assert!(!tested.stdout.contains("PASSED"), "{}", tested.stdout);
    let control = tested.stdout.lines().find(|line| line.starts_with("control")).expect("a line about the control");
    let words: Vec<&str> = control.split_whitespace().collect();
    let lost = words.windows(3).find(|three| three[1..] == ["messages", "lost"]).expect("what was lost")[0];
    assert!(lost.parse::<u64>().expect("a number") > 0, "{control}");
}

/// A short run; it must leave nothing behind.
fn self_test(words: &[&str]) -> Finished {
    let scratch = Scratch::new();
    let launch = Launch::verb("selftest").arg("--power-cut").arg("--dir").arg(scratch.path());
    let launch = launch.arg("--messages").arg("1000").arg("--cuts").arg("50");
    let tested = words.iter().fold(launch, |launch, word| launch.arg(*word)).spawn().finish(LATER).success();
    let left = fs::read_dir(scratch.path()).expect("there").count();
    assert_eq!(left, 0, "files left behind");
    tested
}
