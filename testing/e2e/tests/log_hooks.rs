//! Log records as messages: `kumo.configure_log_hook`, `should_enqueue_log_record` and `policy-extras.log_hooks`, to a web server
//! and in batches; and what loggers keep of a message, by name, template and `filter_event`.

use e2e::kumod::{Launch, policy_file};
use e2e::logs::Logs;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::{LATER, until};
use e2e::web_server::WebServer;
use e2e::wire::{Client, submit_until_cut};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

fn launch(scratch: &Scratch, hooks: SocketAddr, sink: SocketAddr) -> Launch {
    Launch::policy(policy_file("log_hooks.lua"))
        .env("HOOKS_DIR", scratch.path())
        .env("HOOKS_URL", format!("http://{hooks}/hook"))
        .env("HOOKS_SINK", sink.to_string())
}

fn submit(node: SocketAddr, from: &str, to: &str) {
    let mut client = Client::connect(node);
    client.expect("EHLO client.test", 250);
    client.expect(&format!("MAIL FROM:<{from}>"), 250);
    client.expect(&format!("RCPT TO:<{to}>"), 250);
    client.expect("DATA", 354);
    assert_eq!(client.say("Subject: gr\u{fc}n\r\nX-A: 1\r\nx-a: 2\r\n\r\nbody\r\n.").code, 250);
}

/// What the spool never takes is dropped and said; what comes with it is not.
#[test]
fn a_record_that_cannot_be_kept_holds_up_no_other() {
    let scratch = Scratch::new();
    let (web, sink) = (WebServer::start(None), Sink::start(&scratch, "sink", &[]));
    let node = launch(&scratch, web.http, sink.address).env("HOOKS_SPOOL", "LocalDisk").start();
    for from in ["user@a.test", "huge@a.test", "other@a.test"] {
        submit(node.smtp(), from, "one@b.test");
    }
    let of = |from: &str| web.posted().iter().filter(|(_, line)| line.contains(from)).count();
    until(LATER, "all records of others", || (of("user@a.test") == 2 && of("other@a.test") == 2).then_some(()));
    until(LATER, "the end of these", || {
        let dropped = node.process.stderr().matches("is dropped: 552 5.3.4").count();
        (dropped == 2).then_some(())
    });
    node.await_empty(LATER);
    node.stop();
    assert_eq!(of("huge@a.test"), 0);
}

/// The hook has all the records it may hold while it is asked about one, and mail waits for such a hook.
#[test]
fn policy_that_is_asked_about_a_record_may_send_mail() {
    let scratch = Scratch::new();
    let (web, sink) = (WebServer::start(None), Sink::start(&scratch, "sink", &[]));
    let node = launch(&scratch, web.http, sink.address).env("HOOKS_ROOM", "1").start();
    let begun = Instant::now();
    submit(node.smtp(), "echo@a.test", "one@b.test");
    let both = sink.await_arrivals(2, LATER);
    let echoed = both.iter().any(|arrival| arrival.recipients == ["echoed@b.test"]);
    assert!(echoed && begun.elapsed() >= Duration::from_secs(4), "{both:?} after {:?}", begun.elapsed());
    until(LATER, "both records", || (web.posted().len() == 2).then_some(()));
    node.stop();
}

#[test]
fn records_become_messages() {
    let scratch = Scratch::new();
    let (web, sink) = (WebServer::start(None), Sink::start(&scratch, "sink", &[]));
    let node = launch(&scratch, web.http, sink.address).start();
    submit(node.smtp(), "user@a.test", "one@b.test");
    submit(node.smtp(), "quiet@a.test", "two@b.test");
    let mut refused = Client::connect(node.smtp());
    refused.expect("EHLO client.test", 250);
    refused.expect("MAIL FROM:<user@a.test>", 250);
    refused.expect("RCPT TO:<refused@b.test>", 550);
    let seen = until(LATER, "three records", || Some(web.posted()).filter(|posted| posted.len() >= 3));
    let lines = until(LATER, "two lines", || {
        let lines = std::fs::read_to_string(scratch.join("lines")).unwrap_or_default();
        (lines.lines().count() >= 2).then_some(lines)
    });
    node.await_empty(LATER);
    node.stop();

    let mut lines: Vec<&str> = lines.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["quiet@a.test two@b.test 250", "user@a.test one@b.test 250"], "by template");
    assert_eq!(web.posted().len(), 3, "no record about a record");
    assert!(seen.iter().all(|(kind, line)| kind == "application/json" && line.ends_with("}\n")), "{seen:?}");
    let records: Vec<Value> = seen.iter().map(|(_, line)| serde_json::from_str(line).expect("JSON")).collect();
    let of = |kind: &str| records.iter().find(|r| r["type"] == kind).unwrap_or_else(|| panic!("no {kind}"));
    let (reception, delivery, rejection) = (of("Reception"), of("Delivery"), of("Rejection"));
    assert_eq!(reception["recipient"], "one@b.test");
    assert_eq!((&delivery["id"], &delivery["meta"]), (&reception["id"], &json!({"tenant": "acme"})));
    assert_eq!(delivery["headers"], json!({"Subject": "gr\u{fc}n", "X-A": ["1", "2"]}));
    assert_eq!((&rejection["recipient"], &rejection["response"]["code"]), (&"refused@b.test".into(), &550.into()));

    let logged = Logs::new(scratch.join("logs"));
    assert_eq!(logged.of_type("Rejection"), [json!({"type": "Rejection", "code": 550})], "by template");
    let to_hooks = |record: &&Value| record["reception_protocol"] == "LogRecord";
    let deliveries = logged.of_type("Delivery");
    assert_eq!(deliveries.iter().filter(to_hooks).count(), 5, "each record to its hook");
    assert!(deliveries.iter().filter(to_hooks).all(|r| r["meta"]["queue"] == r["queue"]), "{deliveries:#?}");
    let own = deliveries.iter().find(|r| r["id"] == delivery["id"]).expect("logged");
    assert_eq!((&own["headers"], &own["meta"]), (&json!({"X-A": ["1", "2"]}), &json!({})), "each logger its own");
    assert_eq!(logged.of_type("Reception").len(), 2, "nobody sent those of hooks");
}

#[test]
fn a_filter_decides_what_a_logger_keeps() {
    let scratch = Scratch::new();
    let (web, sink) = (WebServer::start(None), Sink::start(&scratch, "sink", &[]));
    let node = launch(&scratch, web.http, sink.address).start();
    for from in ["unlogged@a.test", "broken@a.test", "user@a.test"] {
        submit(node.smtp(), from, "one@b.test");
    }
    node.process.await_stderr("the filter's failure", LATER, |line| {
        (line.contains("record is not logged") && line.contains("no opinion")).then_some(())
    });
    until(LATER, "six records", || (web.posted().len() >= 6).then_some(()));
    node.stop();
    let logs = Logs::new(scratch.join("logs"));
    for kind in ["Reception", "Delivery"] {
        let senders: Vec<Value> = logs.of_type(kind).iter().map(|r| r["sender"].clone()).collect();
        assert!(senders.contains(&"user@a.test".into()) && !senders.contains(&"unlogged@a.test".into()), "{senders:?}");
        assert!(!senders.contains(&"broken@a.test".into()), "{senders:?}");
    }
}

/// What hooks made is mail like any other: it survives a kill, and goes on when somebody takes it.
#[test]
fn records_wait_for_who_takes_them() {
    let scratch = Scratch::new();
    let (web, sink) = (WebServer::start(None), Sink::start(&scratch, "sink", &[]));
    let launch = launch(&scratch, web.http, sink.address);
    let mut node = launch.clone().env("HOOKS_BROKEN", "1").start();
    for number in 0..20 {
        submit(node.smtp(), "user@a.test", &format!("r{number}@b.test"));
    }
    until(LATER, "forty records", || (web.posted().len() >= 40).then_some(()));
    // All that nobody takes, and nothing else.
    until(LATER, "twenty messages", || (node.metric("message_count") == 20.0).then_some(()));
    node.process.kill();
    drop(node);
    assert!(!scratch.join("lines").exists());
    let node = launch.start();
    until(LATER, "twenty lines", || {
        let lines = std::fs::read_to_string(scratch.join("lines")).unwrap_or_default();
        (lines.lines().count() >= 20).then_some(())
    });
    node.await_empty(LATER);
    node.stop();
}

/// A clean end works off what waits, which is much where policy takes its time.
#[test]
fn a_stop_loses_no_record() {
    let scratch = Scratch::new();
    let (web, sink) = (WebServer::start(None), Sink::start(&scratch, "sink", &[]));
    let launch = launch(&scratch, web.http, sink.address);
    let node = launch.clone().env("HOOKS_SLOW", "1").start();
    for number in 0..50 {
        submit(node.smtp(), "user@a.test", &format!("r{number}@b.test"));
    }
    node.stop();
    assert_eq!(std::fs::read_to_string(scratch.join("ended")).expect("shutdown_logging"), "yes");
    assert_eq!(kept_files(&scratch), 0, "nothing waits");
    let node = launch.start();
    until(LATER, "fifty receptions", || (receptions(&web).len() == 50).then_some(()));
    node.await_empty(LATER);
    node.stop();
    assert!(told(&web).values().all(|times| *times == 1), "{:?}", told(&web));
}

/// Nor does the next program tell what the one before has told.
#[test]
fn a_hot_restart_tells_each_record_once() {
    let scratch = Scratch::new();
    let (web, sink) = (WebServer::start(None), Sink::start(&scratch, "sink", &[]));
    let node = launch(&scratch, web.http, sink.address).env("HOOKS_SLOW", "1").start();
    let submit = |numbers: Range<usize>| {
        numbers.for_each(|number| submit(node.smtp(), "user@a.test", &format!("r{number}@b.test")));
    };
    submit(0..30);
    node.process.signal(Signal::SIGUSR2);
    let begun = || node.process.stderr().matches("initialization complete").count();
    until(LATER, "the other program", || (begun() == 2).then_some(()));
    submit(30..40);
    until(LATER, "a reception and a delivery of each", || (told(&web).len() == 80).then_some(()));
    node.await_empty(LATER);
    node.stop();
    assert!(told(&web).values().all(|times| *times == 1), "{:?}", told(&web));
    assert_eq!(kept_files(&scratch), 0);
}

/// Kills between any two steps of a message: what a client or a server was told of, each hook hears of, whether it is slow or not.
#[test]
fn whenever_it_is_killed_each_hook_hears_what_came_and_went() {
    let scratch = Scratch::new();
    let (web, sink) = (WebServer::start(None), Sink::start(&scratch, "sink", &[]));
    let launch = launch(&scratch, web.http, sink.address);
    let mut accepted = Vec::new();
    for round in 0..KILLS {
        let slow = launch.clone().env("HOOKS_SLOW", "1");
        let mut node = if round % 2 == 0 { slow.start() } else { launch.start() };
        let arrived = sink.arrivals().len();
        let peer = node.smtp();
        let clients: Vec<_> =
            (0..3).map(|client| thread::spawn(move || submit_until_cut(peer, &format!("k{round}c{client}")))).collect();
        sink.await_arrivals(arrived + 25, LATER);
        node.process.kill();
        clients.into_iter().for_each(|client| accepted.extend(client.join().expect("a client")));
    }
    let node = launch.start();
    node.await_recovered(LATER);
    node.await_empty(LATER);
    // What waits for hooks to be asked is worked off.
    node.stop();
    let node = launch.start();
    node.await_empty(LATER);
    node.stop();
    let of = |kind: &str| -> BTreeSet<String> {
        told(&web).into_keys().filter(|(_, of, _)| of == kind).map(|(_, _, recipient)| recipient).collect()
    };
    let lines = std::fs::read_to_string(scratch.join("lines")).expect("lines");
    let lines: BTreeSet<String> = lines.lines().filter_map(|line| Some(line.split(' ').nth(1)?.to_owned())).collect();
    let arrived: BTreeSet<String> = sink.arrivals().into_iter().flat_map(|arrival| arrival.recipients).collect();
    let missing = |told: &BTreeSet<String>, of: &BTreeSet<String>| of.difference(told).cloned().collect::<Vec<_>>();
    let came: BTreeSet<String> = accepted.into_iter().collect();
    assert!(came.len() > 20 * KILLS, "{} were accepted", came.len());
    let none = Vec::<String>::new();
    assert_eq!(missing(&of("Reception"), &came), none, "of {} that were accepted", came.len());
    assert_eq!(missing(&of("Delivery"), &arrived), none, "of {} that were delivered, by the slow hook", arrived.len());
    assert_eq!(missing(&lines, &arrived), none, "of {} that were delivered, by the fast hook", arrived.len());
    assert_eq!(kept_files(&scratch), 0, "nothing waits");
}

/// Times a server is killed.
const KILLS: usize = 8;

/// What was posted, by id, type and recipient, and how often.
fn told(web: &WebServer) -> BTreeMap<(String, String, String), usize> {
    let mut times = BTreeMap::new();
    for (_, line) in web.posted() {
        let record: Value = serde_json::from_str(&line).expect("JSON");
        let [id, kind, recipient] = ["id", "type", "recipient"].map(|name| record[name].as_str().unwrap_or_default());
        *times.entry((id.to_owned(), kind.to_owned(), recipient.to_owned())).or_default() += 1;
    }
    times
}

/// Files of records that wait for hooks.
fn kept_files(scratch: &Scratch) -> usize {
    let names = std::fs::read_dir(scratch.join("data")).expect("the spool").flatten().map(|entry| entry.file_name());
    names.filter(|name| name.to_string_lossy().starts_with(".postrider-kept-")).count()
}

/// The recipients of the receptions that were posted, once each.
fn receptions(web: &WebServer) -> BTreeSet<String> {
    let records = web.posted().into_iter().map(|(_, line)| serde_json::from_str::<Value>(&line).expect("JSON"));
    records.filter(|r| r["type"] == "Reception").map(|r| r["recipient"].to_string()).collect()
}
