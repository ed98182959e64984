//! `custom_lua` against the whole program: connection objects of a script, what they answer, and how long they live.

use e2e::http;
use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::logs::Logs;
use e2e::scratch::Scratch;
use e2e::until::{LATER, SOON, until};
use e2e::wire::Client;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

const SITE: &str = "unspecified->a.test@lua:make.carrier";
const ONE_BY_ONE: &str = "custom_lua = { constructor = 'make.carrier' }";

struct Setup {
    scratch: Scratch,
    launch: Launch,
}

impl Setup {
    fn new(protocol: &str, path: &str) -> Setup {
        let scratch = Scratch::new();
        scratch.folder("received");
        let launch = Launch::policy(policy_file("carry.lua"))
            .env("CARRY_DIR", scratch.path())
            .env("CARRY_PROTOCOL", protocol)
            .env("CARRY_QUEUE", "retry_interval = '1s', max_retry_interval = '1s'")
            .env("CARRY_PATH", path);
        Setup { scratch, launch }
    }

    fn env(mut self, name: &str, value: &str) -> Setup {
        self.launch = self.launch.env(name, value);
        self
    }

    /// What the script wrote down, a list of words a call.
    fn calls(&self, what: &str) -> Vec<Vec<String>> {
        let text = std::fs::read_to_string(self.scratch.join("calls")).unwrap_or_default();
        let words = text.lines().map(|line| line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        words.filter(|words| words[0] == what).collect()
    }

    fn await_calls(&self, what: &str, count: usize) -> Vec<Vec<String>> {
        until(SOON, &format!("{count} calls of {what}"), || {
            let calls = self.calls(what);
            (calls.len() >= count).then_some(calls)
        })
    }

    fn await_records(&self, kind: &str, count: usize) -> Vec<Value> {
        let logs = Logs::new(self.scratch.join("logs"));
        logs.await_type(kind, count, LATER)
    }
}

/// The only ready queue, which is there a moment after a message was accepted.
fn inspect(node: &Kumod) -> Value {
    let url = format!("/api/admin/inspect-ready-q/v1?queue_name={}", SITE.replace('>', "%3E"));
    until(SOON, "the ready queue", || {
        let (status, text) = http::get(node.http(), &url);
        (status == 200).then(|| serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}")))
    })
}

/// Waits until the only session holds something and waits for more, and nothing else is ready.
fn await_gathering(node: &Kumod) {
    until(SOON, "a session that gathers", || {
        let ready = inspect(node);
        assert_eq!(ready["protocol"], "lua");
        let batch = &ready["dispatchers"][0]["phase"]["AccumulatingBatch"];
        let gathers = batch["have"].as_u64().is_some_and(|have| have > 0 && Some(have) < batch["want"].as_u64());
        (gathers && ready["state"]["ready_count"] == 0).then_some(())
    });
}

fn await_ready(node: &Kumod, count: usize) {
    until(SOON, &format!("{count} messages that wait"), || {
        (inspect(node)["state"]["ready_count"] == count).then_some(())
    });
}

fn submit(node: &Kumod, to: &str, subject: &str) {
    let reply = Client::connect(node.smtp()).submit("from@source.test", to, subject);
    assert_eq!(reply.code, 250, "{reply:?}");
}

#[test]
fn a_session_keeps_its_object_and_its_deliveries_are_logged_as_lua() {
    let setup = Setup::new(ONE_BY_ONE, "connection_limit = 1, idle_timeout = '1s'");
    // The second is there before the first is done: a session that has nothing to do ends.
    let hold = setup.scratch.write("hold", "");
    let node = setup.launch.start();
    submit(&node, "one@a.test", "s1");
    setup.await_calls("begin", 1);
    let mut client = Client::connect(node.smtp());
    client.expect("EHLO client.test", 250);
    client.expect("MAIL FROM:<from@source.test>", 250);
    client.expect("RCPT TO:<two@a.test>", 250);
    client.expect("RCPT TO:<three@a.test>", 250);
    client.expect("DATA", 354);
    client.expect("From: <from@source.test>\r\nSubject: s2\r\n\r\nHello.\r\n.", 250);
    await_ready(&node, 1);
    std::fs::remove_file(hold).expect("it goes");

    let made = setup.await_calls("make", 1);
    assert_eq!(made[0][2..], ["a.test", "shop", "nil"]);
    assert_eq!(setup.await_calls("close", 1)[0][1], made[0][1]);
    let sent: Vec<_> = setup.calls("send").into_iter().map(|call| call[1..].join(" ")).collect();
    let session = &made[0][1];
    assert_eq!(sent, [format!("{session} s1 1"), format!("{session} s2 2")], "one call for two recipients");
    assert_eq!(setup.calls("kept")[0][1], "false", "a message is not the script's after its call");
    let closing = |line: &str| (line.contains("make.carrier: close") && line.contains("closing is hard")).then_some(());
    node.process.await_stderr("the error of close", SOON, closing);

    let records = setup.await_records("Delivery", 2);
    for (record, recipient, number) in
        [(&records[0], json!("one@a.test"), 1), (&records[1], json!(["two@a.test", "three@a.test"]), 2)]
    {
        let response = &record["response"];
        assert_eq!((&response["code"], &response["enhanced_code"]), (&json!(200), &Value::Null), "{record}");
        let text = response["content"].as_str().expect("a text");
        assert!(text.starts_with(&format!("2.5.0 number {number} ")) && text.ends_with("of its session"), "{text}");
        assert_eq!((&record["delivery_protocol"], &record["site"]), (&json!("Lua"), &json!(SITE)));
        assert_eq!((&record["peer_address"], &record["recipient"]), (&Value::Null, &recipient));
        assert_eq!(record["queue"], "shop@a.test");
        assert_eq!(record["session_id"], records[0]["session_id"]);
    }
    assert_eq!(node.metric("total_messages_delivered{service=\"lua\"}"), 3.0);
    assert_eq!(node.metric(&format!("total_messages_delivered{{service=\"lua:{SITE}\"}}")), 3.0);
    assert_eq!(node.metric("total_connection_count{service=\"lua\"}"), 1.0);
    assert_eq!(node.metric("connection_count{service=\"smtp_client\"}"), 0.0);
    let (_, resolved) = http::get(node.http(), "/api/admin/resolve-egress-path/v1?domain=a.test");
    assert_eq!(serde_json::from_str::<Value>(&resolved).expect("JSON")["queue_name"], SITE);
    node.stop();
}

#[test]
fn rejections_are_verdicts_and_errors_end_the_session() {
    let setup = Setup::new(ONE_BY_ONE, "connection_limit = 1, idle_timeout = '20s'");
    let node = setup.launch.start();
    for to in ["later", "never", "bye", "broken", "mute", "fine"] {
        submit(&node, &format!("{to}@a.test"), to);
        until(SOON, to, || setup.calls("send").iter().any(|call| call[2] == to).then_some(()));
    }
    let never = setup.await_records("Bounce", 1).remove(0);
    assert_eq!((&never["response"]["code"], &never["recipient"]), (&json!(550), &json!("never@a.test")));
    assert_eq!((&never["response"]["content"], &never["delivery_protocol"]), (&json!("never"), &json!("Lua")));
    setup.await_records("Delivery", 1);
    for (to, code, text) in [
        ("later", 451, "later"),
        ("bye", 421, "bye"),
        ("broken", 400, "oops"),
        ("mute", 400, "send returned a nil: expected a string"),
    ] {
        let failed = |record: &Value| {
            record["type"] == "TransientFailure" && record["recipient"] == format!("{to}@a.test").as_str()
        };
        // They are tried again and again.
        let records = Logs::new(setup.scratch.join("logs")).await_records(to, 2, LATER, failed);
        assert_eq!(records[0]["response"]["code"], code, "{}", records[0]);
        let content = records[0]["response"]["content"].as_str().expect("a text");
        assert!(content.contains(text) && !content.contains("traceback"), "{content}");
        assert_eq!((&records[0]["num_attempts"], &records[1]["num_attempts"]), (&json!(0), &json!(1)));
    }
    // Which sessions ended after which message.
    let text = std::fs::read_to_string(setup.scratch.join("calls")).expect("calls");
    let calls: Vec<Vec<&str>> = text.lines().map(|line| line.split(' ').collect()).collect();
    for (at, call) in calls.iter().enumerate().filter(|(_, call)| call[0] == "send") {
        let Some(next) = calls[at + 1..].iter().find(|next| next[1] == call[1]) else { continue };
        let ends = ["bye", "broken", "mute"].contains(&call[2]);
        assert_eq!(next[0] == "close", ends, "{call:?}, then {next:?}");
    }
    node.stop();
}

#[test]
fn batches_wait_for_more_and_share_their_verdict() {
    let options = "constructor = 'make.carrier', batch_size = 3, max_batch_latency = '3s'";
    let setup = Setup::new(&format!("custom_lua = {{ {options} }}"), "connection_limit = 1, idle_timeout = '20s'");
    let node = setup.launch.start();
    let began = Instant::now();
    ["b1", "b2", "b3"].into_iter().for_each(|subject| submit(&node, "one@a.test", subject));
    setup.await_calls("batch", 1);
    assert!(began.elapsed() < Duration::from_millis(2900), "{:?}: a full batch waits for nothing", began.elapsed());

    submit(&node, "one@a.test", "b4");
    await_gathering(&node);
    submit(&node, "later@a.test", "b5");
    let batches = setup.await_calls("batch", 2);
    assert!(began.elapsed() >= Duration::from_secs(3), "the second waits for its third");
    assert_eq!(
        (&batches[0][2..], &batches[1][2..]),
        (&["b1", "b2", "b3"].map(String::from)[..], &["b4", "b5"].map(String::from)[..])
    );
    assert_eq!(batches[0][1], batches[1][1], "one session");
    let delivered = setup.await_records("Delivery", 3);
    assert!(delivered.iter().all(|record| record["response"]["content"] == "batch 1"), "{delivered:?}");
    let failed: BTreeSet<String> =
        setup.await_records("TransientFailure", 2).iter().map(|record| record["recipient"].to_string()).collect();
    assert_eq!(failed, BTreeSet::from(["\"later@a.test\"".to_owned(), "\"one@a.test\"".to_owned()]));
    node.stop();
}

#[test]
fn enough_messages_go_without_waiting_and_take_along_what_is_there() {
    let options = "constructor = 'make.carrier', batch_size = 10, min_batch_size = 3, max_batch_latency = '10 minutes'";
    let setup = Setup::new(&format!("custom_lua = {{ {options} }}"), "connection_limit = 1, idle_timeout = '20s'");
    let hold = setup.scratch.write("hold", "");
    let node = setup.launch.start();
    let mail = |numbers: std::ops::RangeInclusive<u32>| numbers.map(|n| format!("m{n}")).collect::<Vec<String>>();
    let submit_all = |numbers| mail(numbers).iter().for_each(|subject| submit(&node, "one@a.test", subject));
    submit_all(1..=2);
    await_gathering(&node);
    assert!(setup.calls("begin").is_empty(), "two are not enough");
    submit_all(3..=3);
    setup.await_calls("begin", 1);
    submit_all(4..=15);
    await_ready(&node, 12);
    std::fs::remove_file(hold).expect("it goes");
    let batches = setup.await_calls("batch", 2);
    assert_eq!((&batches[0][2..], &batches[1][2..]), (&mail(1..=3)[..], &mail(4..=13)[..]));
    await_gathering(&node);
    submit_all(16..=16);
    assert_eq!(setup.await_calls("batch", 3)[2][2..], mail(14..=16)[..]);
    setup.await_records("Delivery", 16);
    node.stop();
}

#[test]
fn a_batch_of_64_mib_is_full() {
    let options = "constructor = 'make.carrier', batch_size = 10, max_batch_latency = '10 minutes'";
    let setup = Setup::new(&format!("custom_lua = {{ {options} }}"), "connection_limit = 1, idle_timeout = '20s'");
    let node = setup.launch.start();
    // Seventeen MiB: three are less than 64, four are more.
    let line = format!("{}\r\n", "x".repeat(70));
    let body = line.repeat((17 << 20) / line.len() + 1);
    for number in 1..=4 {
        assert!(setup.calls("begin").is_empty(), "{} in the batch", number - 1);
        let mut client = Client::connect(node.smtp());
        client.begin("from@source.test", "one@a.test");
        client.expect(&format!("Subject: m{number}\r\n\r\n{body}."), 250);
        if number < 4 {
            await_gathering(&node);
        }
    }
    assert_eq!(setup.await_calls("batch", 1)[0][2..], ["m1", "m2", "m3", "m4"]);
    setup.await_records("Delivery", 4);
    node.stop();
}

#[test]
fn there_are_as_many_sessions_as_the_script_bears() {
    let path = "concurrency_feedback = { initial = 2, increase = 2 }, connection_limit = 20, \
        aggressive_connection_opening = true, idle_timeout = '20s'";
    let setup = Setup::new(ONE_BY_ONE, path);
    let node = setup.launch.start();
    let sessions = || inspect(&node)["dispatchers"].as_array().expect("a list").len();
    let hold = setup.scratch.write("hold", "");
    (0..20).for_each(|n| submit(&node, "one@a.test", &format!("s{n}")));
    setup.await_calls("begin", 2);
    await_ready(&node, 18);
    assert_eq!(sessions(), 2, "before the first delivery");
    std::fs::remove_file(&hold).expect("it goes");
    setup.await_calls("send", 20);
    setup.await_records("Delivery", 20);
    // Twenty deliveries open the window from 2 to 9.
    std::fs::write(&hold, "").expect("it comes back");
    (0..40).for_each(|n| submit(&node, "one@a.test", &format!("t{n}")));
    setup.await_calls("begin", 20 + 9);
    await_ready(&node, 40 - 9);
    assert_eq!(sessions(), 9, "behind twenty deliveries");
    std::fs::remove_file(&hold).expect("it goes");
    setup.await_records("Delivery", 60);
    node.stop();
}

#[test]
fn a_script_that_takes_nothing_is_given_up_for_a_while() {
    for (to, is_broken) in [("one@a.test", true), ("later@a.test", false)] {
        let feedback = "{ initial = 2, failures_before_suspension = 3, suspension = '1 hour' }";
        let setup = Setup::new(ONE_BY_ONE, &format!("concurrency_feedback = {feedback}"));
        if is_broken {
            setup.scratch.write("broken", "");
        }
        let node = setup.launch.start();
        (0..50).for_each(|n| submit(&node, to, &format!("s{n}")));
        let queue = "/api/admin/inspect-sched-q/v1?queue_name=shop@a.test&limit=50";
        until(SOON, "a destination that is given up", || {
            let (_, text) = http::get(node.http(), queue);
            let queue: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
            let messages = queue["messages"].as_array().expect("a list");
            let untried =
                |message: &&Value| message["why"] == "DestinationIsDead" && message["message"]["num_attempts"] == 0;
            (messages.len() == 50 && messages.iter().filter(untried).count() >= 40).then_some(())
        });
        let tried = node.metric("total_messages_transfail{service=\"lua\"}");
        assert!((4.0..=10.0).contains(&tried), "{to}: two sessions, then one at a time, three times more: {tried}");
        node.stop();
    }
}

#[test]
fn a_constructor_that_fails_is_a_failure_to_connect() {
    let setup = Setup::new(ONE_BY_ONE, "");
    let broken = setup.scratch.write("broken", "");
    let node = setup.launch.start();
    submit(&node, "one@a.test", "s1");
    let failed = setup.await_records("TransientFailure", 1).remove(0);
    assert_eq!(failed["response"]["code"], 400);
    let text = failed["response"]["content"].as_str().expect("a text");
    assert!(text.contains("make.carrier") && text.contains("nobody is there"), "{text}");
    std::fs::remove_file(broken).expect("it goes");
    setup.await_records("Delivery", 1);
    node.stop();

    let unknown = Setup::new("custom_lua = { constructor = 'nowhere' }", "");
    let node = unknown.launch.start();
    submit(&node, "one@a.test", "s1");
    let failed = unknown.await_records("TransientFailure", 1).remove(0);
    let text = failed["response"]["content"].as_str().expect("a text");
    assert!(text.contains("event nowhere has not been registered"), "{text}");
    node.stop();
}

#[test]
fn sessions_are_limited_like_connections_and_sleep_without_a_thread() {
    let setup =
        Setup::new(ONE_BY_ONE, "connection_limit = 20, max_deliveries_per_connection = 2").env("CARRY_SLEEP", "1");
    let node = setup.launch.start();
    let began = Instant::now();
    (0..40).for_each(|n| submit(&node, "one@a.test", &format!("s{n}")));
    setup.await_calls("send", 40);
    // More sleepers than threads; one after the other they would take 40 s.
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    let text = std::fs::read_to_string(setup.scratch.join("calls")).expect("calls");
    let (mut under_way, mut most) = (0, 0);
    for line in text.lines() {
        under_way += i32::from(line.starts_with("begin ")) - i32::from(line.starts_with("send "));
        most = most.max(under_way);
    }
    assert!((3..=20).contains(&most), "{most} at the same time");
    setup.await_records("Delivery", 40);
    for session in setup.calls("make") {
        let sends = setup.calls("send").iter().filter(|send| send[1] == session[1]).count();
        assert!(sends <= 2, "{sends} by {session:?}");
    }
    node.stop();
}

#[test]
fn a_call_without_end_is_ended_by_the_watchdog_and_by_the_stop() {
    let path = "dispatcher_progress_watchdog_timeout = '1s', system_shutdown_timeout = '1s'";
    let setup = Setup::new(ONE_BY_ONE, path).env("CARRY_SLEEP", "600");
    let node = setup.launch.start();
    submit(&node, "one@a.test", "s1");
    let failed = setup.await_records("TransientFailure", 1).remove(0);
    assert_eq!(failed["response"]["code"], 451);
    assert_eq!(failed["response"]["enhanced_code"], json!({"class": 4, "subject": 4, "detail": 1}));
    node.await_metric("dispatcher_watchdog_aborted_total{service=\"lua\"}", 1.0, SOON);
    setup.await_calls("close", 1);
    setup.await_calls("begin", 2);
    let began = Instant::now();
    node.stop();
    assert!(began.elapsed() < Duration::from_secs(9), "{:?}", began.elapsed());

    // And it is there still.
    let node = setup.launch.clone().env("CARRY_SLEEP", "0").start();
    setup.await_records("Delivery", 1);
    node.stop();
}

#[test]
fn an_operator_ends_a_session_in_the_middle_of_a_call() {
    let setup = Setup::new(ONE_BY_ONE, "").env("CARRY_SLEEP", "600");
    let node = setup.launch.start();
    submit(&node, "one@a.test", "s1");
    setup.await_calls("begin", 1);
    let session_id = &inspect(&node)["dispatchers"][0]["session_id"];
    let body = json!({ "queue_name": SITE, "session_id": session_id }).to_string();
    let (status, text) = http::send(node.http(), "POST", "/api/admin/abort-ready-q-conn/v1", "application/json", &body);
    assert_eq!(status, 200, "{text}");
    let failed = setup.await_records("TransientFailure", 1).remove(0);
    let text = failed["response"]["content"].as_str().expect("a text");
    assert!(text.contains("an administrator ended the connection"), "{text}");
    drop(node);
}

#[test]
fn a_kill_loses_nothing() {
    let options = "constructor = 'make.carrier', batch_size = 5, max_batch_latency = '100ms'";
    let path = "connection_limit = 3, idle_timeout = '1s'";
    let setup = Setup::new(&format!("custom_lua = {{ {options} }}"), path).env("CARRY_SLEEP", "1");
    let hold = setup.scratch.write("hold", "");
    let mut node = setup.launch.start();
    (0..100).for_each(|n| submit(&node, "one@a.test", &format!("k{n}")));
    std::fs::remove_file(hold).expect("it goes");
    setup.await_calls("batch", 3);
    node.process.kill();
    let before = setup.calls("batch").len();
    assert!(before < 20, "{before}: the kill came too late to prove anything");

    let node = setup.launch.clone().env("CARRY_SLEEP", "0").start();
    // An empty server is no sign: so it is too, while it still reads its spool.
    let all: BTreeSet<String> = (0..100).map(|n| format!("k{n}")).collect();
    until(LATER, "all of them", || {
        let delivered: BTreeSet<String> =
            setup.calls("batch").into_iter().flat_map(|call| call[2..].to_vec()).collect();
        (delivered == all).then_some(())
    });
    node.await_empty(LATER);
    node.stop();
}
