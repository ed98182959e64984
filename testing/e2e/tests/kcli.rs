//! `kcli` against a running server: what it prints is what scripts of KumoMTA's users expect, what it says would change
//! something does.

use e2e::http;
use e2e::kumod::{Kumod, Launch, policy_file, program};
use e2e::process::{Finished, run};
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::{LATER, SOON, eventually, until};
use e2e::wire::Client;
use serde_json::{Value, json};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};

/// The failures of all ready queues.
const FAILED: &str = "total_messages_transfail{service=\"smtp_client\"}";

/// `kcli WORDS`, asked of this server by the environment.
fn kcli(relay: &Kumod, words: &[&str]) -> Finished {
    let launch = Launch::verb("kcli").env("KUMO_KCLI_ENDPOINT", format!("http://{}", relay.http()));
    words.iter().fold(launch, |launch, word| launch.arg(*word)).run()
}

/// What it wrote to stdout; it must have gone well.
fn good(relay: &Kumod, words: &[&str]) -> String {
    kcli(relay, words).success().stdout
}

fn json(relay: &Kumod, words: &[&str]) -> Value {
    let text = good(relay, words);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{words:?}: {error}: {text}"))
}

/// The command that `why` says would change it, as words behind `kcli`.
fn advice(why: &str, verb: &str) -> Vec<String> {
    let line = why.lines().find_map(|line| line.strip_prefix(&format!("  kcli {verb} ")));
    let line = line.unwrap_or_else(|| panic!("no kcli {verb} in:\n{why}"));
    [verb].into_iter().chain(line.split(' ')).map(str::to_owned).collect()
}

fn follow_advice(relay: &Kumod, words: &[String]) -> String {
    good(relay, &words.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Sends a message; its id.
fn submit(relay: &Kumod, to: &str) -> String {
    let reply = Client::connect(relay.smtp()).submit("a@source.test", to, "asked about");
    assert_eq!(reply.code, 250, "{reply:?}");
    reply.lines[0].split("ids=").nth(1).expect("an id").trim().to_owned()
}

fn nobody() -> SocketAddr {
    "127.0.0.1:1".parse().expect("an address")
}

/// A server whose mail waits an hour for its second attempt.
fn stuck(scratch: &Scratch) -> Kumod {
    Launch::relay(scratch, nobody()).env("RELAY_RETRY", "1h").start()
}

#[test]
fn a_bounce_is_given_listed_and_taken_back() {
    let scratch = Scratch::new();
    let relay = stuck(&scratch);
    (0..3).for_each(|n| _ = submit(&relay, &format!("r{n}@gone.test")));
    submit(&relay, "one@stays.test");
    relay.await_metric(FAILED, 4.0, LATER);
    let given = kcli(&relay, &["bounce", "--domain", "gone.test", "--reason", "wrong list"]).success();
    let id = given.stdout.clone();
    assert!(id.len() == 36 && id.bytes().all(|o| o.is_ascii_hexdigit() || o == b'-'), "the id alone: {id:?}");
    assert!(given.stderr.contains("goes on by itself"), "{}", given.stderr);
    let row = until(SOON, "three bounced", || {
        let list = good(&relay, &["bounce-list"]);
        list.lines().find(|line| line.starts_with(&id) && line.contains("  3  domain=gone.test")).map(str::to_owned)
    });
    assert!(row.contains("wrong list") && row.contains("4m"), "{row}");
    assert_eq!(json(&relay, &["bounce-list", "--json"])[0]["bounced"], json!({"gone.test": 3}));
    until(SOON, "one left", || (relay.metric("message_count") == 1.0).then_some(()));
    assert_eq!(good(&relay, &["bounce-cancel", "--id", &id]), format!("removed {id}"));
    assert_eq!(good(&relay, &["bounce-list"]), "ID  REASON  REMAIN  BOUNCED  CRITERIA");
    let again = kcli(&relay, &["bounce-cancel", "--id", &id]);
    assert_eq!(again.status.code(), Some(1), "{again:?}");
    assert!(again.stderr.contains(&format!("404: no such entry: {id}")), "{}", again.stderr);
    relay.stop();
}

#[test]
fn a_suspended_queue_says_why_and_how_to_go_on() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let relay = Launch::relay(&scratch, sink.address).start();
    let words = ["suspend", "--domain", "s.test", "--reason", "maintenance", "--duration", "1h"];
    let id = json(&relay, &words)["id"].as_str().expect("an id").to_owned();
    let message = submit(&relay, "one@s.test");
    let why = until(SOON, "a suspended queue", || {
        let why = good(&relay, &["why", "s.test"]);
        why.contains("(ReadyQueueWasSuspended)").then_some(why)
    });
    assert!(why.starts_with("scheduled queue s.test\n"), "{why}");
    assert!(why.contains("suspended by an order: maintenance") && why.contains("(in 59m"), "{why}");
    let of_message = good(&relay, &["why", &message]);
    assert!(of_message.contains("(ReadyQueueWasSuspended)"), "{of_message}");
    assert_eq!(json(&relay, &["suspend-list"])[0]["reason"], "maintenance");
    let undo = advice(&of_message, "suspend-cancel");
    assert_eq!(undo, ["suspend-cancel", "--id", &id]);
    assert_eq!(follow_advice(&relay, &undo), format!("removed {id}"));
    sink.await_arrivals(1, SOON);
    relay.await_recovered(SOON);
    let gone = until(SOON, "a message that has ended", || {
        let why = kcli(&relay, &["why", &message]);
        (why.status.code() == Some(1)).then_some(why)
    });
    assert!(gone.stderr.contains(&format!("there is no message {message}")), "{}", gone.stderr);
    relay.stop();
}

#[test]
fn a_message_that_waits_for_its_retry_is_flushed_and_held_as_why_says() {
    let scratch = Scratch::new();
    let relay = stuck(&scratch);
    let id = submit(&relay, "one@a.test");
    relay.await_metric(FAILED, 1.0, LATER);
    let why = |code: &str| {
        until(SOON, code, || {
            let why = good(&relay, &["why", &id]);
            why.contains(&format!("({code})")).then_some(why)
        })
    };
    let waits = why("LoggedTransientFailure");
    // An hour, and half a minute more or less.
    assert!(waits.contains("attempts    1") && ["(in 59m", "(in 1h"].iter().any(|at| waits.contains(at)), "{waits}");
    let mut flush = advice(&waits, "flush");
    flush.truncate(5);
    assert_eq!(flush, ["flush", "--message", &id, "--reason", "WHY"]);
    follow_advice(&relay, &flush);
    relay.await_metric(FAILED, 2.0, SOON);

    let given = kcli(&relay, &["hold", "--message", &id, "--reason", "evidence"]).success();
    let held = why("HeldByOrder");
    assert!(held.contains("held by an order: evidence"), "{held}");
    let list = good(&relay, &["hold-list"]);
    assert!(list.lines().any(|line| line.starts_with(&given.stdout) && line.contains("for ever")), "{list}");
    let release = advice(&held, "hold-cancel");
    assert_eq!(follow_advice(&relay, &release), format!("removed {}", given.stdout));
    why("LoggedTransientFailure");
    let all = json(&relay, &["why", &id, "--json"]);
    assert_eq!((&all[0]["of"]["message"]["id"], &all[0]["of"]["message"]["state"]), (&json!(id), &json!("waiting")));
    relay.stop();
}

#[test]
fn messages_queues_ways_and_connections_are_looked_into() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "slow", &["--delay-ms", "60000"]);
    let mut relay = Launch::relay(&scratch, sink.address).start();
    let ready = json(&relay, &["resolve-egress-path", "a.test", "--json"])["queue_name"].clone();
    let ready = ready.as_str().expect("a name");
    let way = good(&relay, &["resolve-egress-path", "a.test"]);
    assert!(way.contains(ready) && way.contains("max_concurrent_dispatchers     100"), "{way}");
    assert!(good(&relay, &["resolve-egress-path", "a.test", "--config"]).contains("max_ready = 100000"));
    let id = submit(&relay, "one@a.test");
    sink.await_arrivals(1, SOON);

    let message = json(&relay, &["inspect-message", &id, "--want-body"]);
    assert_eq!(message["message"]["recipient"], "one@a.test");
    assert!(message["message"]["data"].as_str().is_some_and(|data| data.contains("Subject: asked about")), "{message}");
    assert_eq!(json(&relay, &["inspect-message", &id])["message"]["data"], Value::Null);
    let missing = kcli(&relay, &["inspect-sched-q", "b.test"]);
    assert!(missing.stderr.contains("404: no such queue: b.test"), "{}", missing.stderr);
    let queue = good(&relay, &["inspect-ready-q", ready, "--connections", "--config", "--sched-q"]);
    assert!(queue.contains("DeliveringMessage") && queue.contains("max_ready = 100000"), "{queue}");
    assert!(queue.ends_with("Scheduled queues:\na.test"), "{queue}");
    let why = good(&relay, &["why", ready]);
    assert!(why.contains("1 connections of 100 allowed (1 DeliveringMessage)"), "{why}");

    let session = json(&relay, &["inspect-ready-q", ready, "--json"])["dispatchers"][0]["session_id"].clone();
    let session = session.as_str().expect("an id");
    assert_eq!(good(&relay, &["abort-ready-q-conn", ready, session]), format!("aborted {session}"));
    relay.await_metric(FAILED, 1.0, SOON);
    let queue = json(&relay, &["inspect-sched-q", "a.test", "--limit", "1"]);
    assert_eq!((&queue["num_scheduled"], &queue["messages"][0]["id"]), (&json!(1), &json!(id)));
    relay.process.kill();
}

#[test]
fn a_rebinding_says_nothing_on_stdout_and_moves_the_mail() {
    let scratch = Scratch::new();
    let relay = stuck(&scratch);
    for domain in ["old.test", "new.test"] {
        good(&relay, &["suspend", "--domain", domain, "--reason", "maintenance"]);
    }
    submit(&relay, "one@old.test");
    let words =
        ["rebind", "--domain", "old.test", "--reason", "they moved", "--data", r#"{"queue": "x", "why": "test"}"#];
    let given = kcli(&relay, &[&words[..], &["--set", "queue=new.test"]].concat()).success();
    assert_eq!(given.stdout, "");
    assert!(given.stderr.contains("Moving 1 messages goes on by itself"), "{}", given.stderr);
    let moved = until(SOON, "a message in the other queue", || {
        let queue: Value = serde_json::from_str(&kcli(&relay, &["inspect-sched-q", "new.test"]).stdout).ok()?;
        (queue["messages"].as_array().is_some_and(|all| all.len() == 1)).then_some(queue)
    });
    assert_eq!(moved["messages"][0]["message"]["meta"]["why"], "test", "{moved}");
    until(SOON, "no rebinding", || (good(&relay, &["rebind-list"]).lines().count() == 1).then_some(()));
    relay.stop();
}

#[test]
fn a_transfer_brings_mail_to_the_other_node() {
    let (scratch, other) = (Scratch::new(), Scratch::new());
    let sink = Sink::start(&scratch, "sink", &[]);
    let relay = stuck(&scratch);
    let target =
        Launch::relay(&other, sink.address).env("KUMO_NODE_ID", "00000000-0000-4000-8000-000000000002").start();
    // Not tried here: a transfer keeps the time of the next attempt.
    good(&relay, &["suspend", "--domain", "x.test", "--reason", "maintenance"]);
    submit(&relay, "one@x.test");
    relay.await_metric("scheduled_count_total", 1.0, LATER);
    let url = format!("http://{}", target.http());
    let words = ["xfer", "--queue", "x.test", "--reason", "maintenance", "--target", &url];
    let given = kcli(&relay, &words).success();
    assert!(given.stdout.is_empty() && given.stderr.contains("Transferring 1 messages"), "{given:?}");
    assert_eq!(sink.await_arrivals(1, LATER)[0].recipients, ["one@x.test"]);
    relay.await_empty(SOON);
    let refused = kcli(&relay, &["xfer-cancel", "x.test", "--reason", "a change of mind"]);
    assert!(refused.stderr.contains("400: /queue_name: \"x.test\""), "{}", refused.stderr);
    target.stop();
    relay.stop();
}

#[test]
fn summaries_list_every_queue_and_site() {
    let scratch = Scratch::new();
    let relay = stuck(&scratch);
    (0..2).for_each(|n| _ = submit(&relay, &format!("r{n}@a.test")));
    submit(&relay, "one@b.test");
    relay.await_metric(FAILED, 3.0, LATER);
    let words = ["suspend", "--domain", "b.test", "--reason", "maintenance"];
    good(&relay, &words);
    let summary = good(&relay, &["queue-summary", "--by-volume"]);
    let rows: Vec<Vec<&str>> = summary.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["SITE", "SOURCE", "PROTO", "D", "T", "C", "Q"], "{summary}");
    assert_eq!(rows[1][..5], ["mx_list:sink.test", "unspecified", "smtp_client", "0", "3"], "{summary}");
    assert_eq!(
        rows[3..],
        [vec!["SCHEDULED", "QUEUE", "COUNT"], vec!["a.test", "2"], vec!["b.test", "1", "suspended:", "maintenance"],],
        "{summary}"
    );
    let all = json(&relay, &["queue-summary", "--json", "--domain", "b.test"]);
    assert_eq!((&all["scheduled"][0]["name"], &all["ready"][0]["transfail"]), (&json!("b.test"), &json!(3.0)));
    let providers = good(&relay, &["provider-summary", "--show-domains"]);
    let row: Vec<&str> = providers.lines().nth(1).expect("a provider").split_whitespace().collect();
    assert_eq!((row[0], row[2], &row[6..]), ("mx_list:sink.test", "3", &["a.test", "b.test"][..]), "{providers}");
    let of_domain = good(&relay, &["why", "B.TEST"]);
    assert!(of_domain.starts_with("scheduled queue b.test\n"), "found by its domain: {of_domain}");
    relay.stop();
}

#[test]
fn it_is_kcli_under_that_name_and_says_what_is_wrong() {
    let scratch = Scratch::new();
    let relay = stuck(&scratch);
    let link = scratch.join("kcli");
    std::os::unix::fs::symlink(program().get_program(), &link).expect("a link");
    let named = |endpoint: &str, words: &[&str]| {
        let mut command = std::process::Command::new(&link);
        command.args(["--endpoint", endpoint]).args(words).env("KUMO_KCLI_ENDPOINT", "http://127.0.0.1:1");
        run("kcli", command, SOON)
    };
    let here = format!("http://{}", relay.http());
    assert_eq!(named(&here, &["suspend-list"]).success().stdout, "[]");
    let refused = named(&here, &["bounce", "--reason", "r"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(refused.stderr.contains("--everything") && refused.stdout.is_empty(), "{refused:?}");
    let lost = named("http://127.0.0.1:1", &["suspend-list"]);
    assert_eq!(lost.status.code(), Some(1));
    assert!(lost.stderr.starts_with("error: no answer from http://127.0.0.1:1"), "{}", lost.stderr);
    let top = named(&here, &["top"]);
    assert!(top.stderr.contains("top needs a terminal") && top.status.code() == Some(1), "{top:?}");
    relay.stop();
}

/// A server with `why.lua`, and whom it sends to.
struct Waiting {
    scratch: Scratch,
    relay: Kumod,
    later: Sink,
    mute: TcpListener,
    _to: Sink,
}

impl Waiting {
    fn start(more: &[(&str, &str)]) -> Waiting {
        let scratch = Scratch::new();
        let to = Sink::start(&scratch, "to", &[]);
        let later = Sink::start(&scratch, "later", &["--fail-rate", "100", "--hostname", "later.example"]);
        let mute = TcpListener::bind("127.0.0.1:0").expect("a port");
        let launch = Launch::policy(policy_file("why.lua"))
            .env("WHY_DIR", scratch.join("why"))
            .env("WHY_TO", to.address.to_string())
            .env("WHY_LATER", later.address.to_string())
            .env("WHY_MUTE", mute.local_addr().expect("an address").to_string());
        let relay = more.iter().fold(launch, |launch, (name, value)| launch.env(name, *value)).start();
        Waiting { scratch, relay, later, mute, _to: to }
    }

    /// What `why` says once it says all of this.
    fn why(&self, what: &str, says: &[&str]) -> String {
        let mut last = String::new();
        let found = eventually(LATER, || {
            last = kcli(&self.relay, &["why", what]).stdout;
            says.iter().all(|words| last.contains(words)).then_some(())
        });
        assert!(found.is_some(), "{says:?} in why {what}:\n{last}");
        last
    }
}

#[test]
fn why_names_the_last_reply_and_the_host_that_gave_it() {
    let waiting = Waiting::start(&[]);
    let id = submit(&waiting.relay, "one@later.test");
    let port = waiting.later.address.port();
    let host = format!("from mx.later.test (127.0.0.1:{port})");
    let host = [host.as_str(), "from mx.later.test (127.0.0.1)"];
    let why = waiting.why(&id, &["(LoggedTransientFailure)", "  last reply  451 "]);
    let reply = why.lines().find(|line| line.contains("last reply")).expect("a line");
    assert!(
        host.iter().any(|host| reply.contains(host)) && reply.contains(" ago)") || reply.contains("(now)"),
        "{reply}"
    );
    assert!(why.contains("\n  expires     ") && why.contains("(in 1day 23h") && why.contains("by max_age\n"), "{why}");
    let of_queue = waiting.why("later.test", &["last reply  451 ", "by max_age"]);
    assert!(of_queue.starts_with("scheduled queue later.test\n"), "{of_queue}");
    let all = json(&waiting.relay, &["why", &id, "--json"]);
    assert_eq!(all[0]["replies"][0]["response"]["code"], 451, "{all}");
    assert_eq!(all[0]["replies"][0]["peer_address"]["name"], "mx.later.test", "{all}");
    waiting.relay.stop();

    // Without a log the server remembers what each ready queue's destination refused last.
    let unlogged = Waiting::start(&[("WHY_UNLOGGED", "1")]);
    let id = submit(&unlogged.relay, "one@later.test");
    let why = unlogged.why(&id, &["(LoggedTransientFailure)", "  refused     451 "]);
    assert!(why.contains("to mail of later.test") && !why.contains("last reply"), "{why}");
    unlogged.relay.stop();
}

#[test]
fn why_names_the_limit_that_binds_and_who_shares_it() {
    let waiting = Waiting::start(&[]);
    for to in ["one@a.test", "one@b.test", "two@b.test"] {
        submit(&waiting.relay, to);
    }
    let shared = "limit       additional_message_rate_throttles \"big-mailbox\": 1/h,max_burst=1; used by 2 ready queues: \
        unspecified->mx_list:mx.a.test@smtp_client, unspecified->mx_list:mx.b.test@smtp_client\n";
    let why = waiting.why("b.test", &["(MessageRateThrottle)", shared]);
    assert!(why.contains("until ") && why.contains("(in 59m"), "{why}");

    for number in 0..3 {
        submit(&waiting.relay, &format!("r{number}@full.test"));
    }
    waiting.why("full.test", &["(ReadyQueueWasFull)", "limit       max_ready: 1, 1 of them taken\n"]);
    let full = "ready_full{service=\"smtp_client:unspecified->mx_list:mx.full.test@smtp_client\"}";
    waiting.relay.await_metric(full, 1.0, SOON);
    assert_eq!(waiting.relay.metric("ready_full{service=\"smtp_client\"}"), waiting.relay.metric(full));
    let queue = json(&waiting.relay, &["inspect-sched-q", "full.test"]);
    let limits: Vec<&Value> = queue["messages"].as_array().expect("messages").iter().map(|m| &m["limit"]).collect();
    assert!(limits.iter().any(|limit| limit["option"] == "max_ready" && limit["shared_by_total"] == 0), "{queue}");
    let config = &queue["queue_config"];
    assert_eq!((&config["max_age"], &config["retry_interval"]), (&json!("2days"), &json!("1h")), "{config}");
    assert_eq!(queue["delayed_metric"], queue["num_scheduled"]);
    let first = json(&waiting.relay, &["inspect-sched-q", "full.test", "--limit", "1"]);
    assert_eq!((&queue["is_cut"], &first["is_cut"]), (&json!(false), &json!(true)), "{first}");
    let changed = queue["last_changed"].as_str().expect("a time");
    assert!(changed <= queue["now"].as_str().expect("a time") && changed > "2026", "{queue}");
    drop(waiting.mute);
    waiting.relay.stop();
}

#[test]
fn why_tells_the_order_that_holds_from_others_about_the_same_mail() {
    let scratch = Scratch::new();
    let relay = stuck(&scratch);
    let given = |words: &[&str]| {
        let all = json(&relay, words);
        all["id"].as_str().expect("an id").to_owned()
    };
    let short = given(&["suspend", "--domain", "o.test", "--reason", "short", "--duration", "5m"]);
    let long = given(&["suspend", "--queue", "o.test", "--reason", "long", "--duration", "2h"]);
    let id = submit(&relay, "one@o.test");
    let why = until(SOON, "a message that is held", || {
        let why = good(&relay, &["why", &id]);
        why.contains("(ReadyQueueWasSuspended)").then_some(why)
    });
    assert!(
        why.contains(&format!("held by     suspended by an order: long (order {long}, for another 1h 59m")),
        "{why}"
    );
    assert!(why.contains(&format!("order       suspended by an order: short (order {short}, for another 4m")), "{why}");
    for id in [&short, &long] {
        assert!(
            why.contains(&format!("\n  kcli suspend-cancel --id {id}\n")) || why.ends_with(&format!("--id {id}")),
            "{why}"
        );
    }
    let held = kcli(&relay, &["hold", "--message", &id, "--reason", "evidence"]).success().stdout;
    let why = until(SOON, "a message that is held for ever", || {
        let why = good(&relay, &["why", &id]);
        why.contains("(HeldByOrder)").then_some(why)
    });
    let line = format!("held by     held by an order: evidence (order {held}, until it is taken back)");
    assert!(why.contains(&line), "{why}");
    relay.stop();
}

#[test]
fn memory_and_tasks_are_told_in_few_words_and_without_secrets() {
    let waiting = Waiting::start(&[]);
    submit(&waiting.relay, "one@full.test");
    let ready = "unspecified->mx_list:mx.full.test@smtp_client";
    waiting.relay.await_metric(&format!("connection_count{{service=\"smtp_client:{ready}\"}}"), 1.0, LATER);
    assert_eq!(good(&waiting.relay, &["check-readiness"]), "OK");
    let memory = good(&waiting.relay, &["memory-stats"]);
    let number = |name: &str| {
        let line = memory.lines().find_map(|line| line.trim().strip_prefix(name)?.trim().parse::<u64>().ok());
        line.unwrap_or_else(|| panic!("{name} in {memory}"))
    };
    assert!(number("resident_bytes ") > 1 << 20 && number("used_bytes") > 1 << 20, "{memory}");
    assert_eq!((number("messages"), number("scheduled_queues"), number("connections_out")), (1, 1, 1), "{memory}");
    assert!(memory.contains("there is enough"), "{memory}");

    let begun = std::time::Instant::now();
    let dump = good(&waiting.relay, &["task-dump", "--timeout", "1"]);
    assert!(begun.elapsed() < std::time::Duration::from_secs(5), "{:?}", begun.elapsed());
    for words in [
        "threads: ",
        "spool-writer ",
        "writes and syncs the spool",
        "tasks of the runtime: ",
        "tasks of the crowd of sessions: ",
        "1 AttemptingConnection",
    ] {
        assert!(dump.contains(words), "{words} in {dump}");
    }
    let longest = dump.lines().last().expect("a line");
    assert!(
        longest.contains(" s AttemptingConnection") && longest.contains(ready) && longest.contains("127.0.0.1"),
        "{dump}"
    );
    let session = json(&waiting.relay, &["inspect-ready-q", ready, "--json"])["dispatchers"][0]["session_id"].clone();
    assert!(longest.ends_with(&format!("session {}", session.as_str().expect("an id"))), "{dump}");
    for secret in ["hunter2", "one@", "a@source.test", "key_data"] {
        assert!(!dump.contains(secret) && !memory.contains(secret), "{secret}");
    }
    assert!(dump.lines().count() < 80 && dump.len() < 16_000, "{dump}");
    let refused = kcli(&waiting.relay, &["task-dump", "--timeout", "61"]);
    assert!(refused.stderr.contains("expected seconds from 1 to 60"), "{}", refused.stderr);
    drop((waiting.mute, waiting.scratch.path()));
    waiting.relay.stop();
}

#[test]
fn one_asks_for_memory_or_tasks_at_a_time() {
    let scratch = Scratch::new();
    let relay = Launch::relay(&scratch, nobody()).start();
    let server = relay.http();
    let is_met = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let dumping = scope.spawn(|| {
            // Not for ever, should no refusal come.
            let end = std::time::Instant::now() + LATER;
            while std::time::Instant::now() < end {
                let (status, text) = http::get(server, "/api/admin/task-dump?timeout=5");
                // The other question may be answered at this moment.
                assert!(status == 200 || status == 503, "{status} {text}");
                if is_met.load(Ordering::SeqCst) {
                    break;
                }
            }
        });
        // A dump looks on for a second.
        until(LATER, "a refusal while a dump is made", || {
            let (status, text) = http::get(server, "/api/admin/memory/stats");
            assert!(status == 200 || (status == 503 && text.contains("one at a time")), "{status} {text}");
            (status == 503).then(|| is_met.store(true, Ordering::SeqCst))
        });
        dumping.join().expect("it ends");
    });
    assert_eq!(http::get(server, "/api/admin/memory/stats").0, 200, "and then again");
    relay.stop();
}

#[test]
fn what_the_server_says_itself_is_not_called_a_reply() {
    let scratch = Scratch::new();
    let relay = Launch::relay(&scratch, nobody()).env("RELAY_RETRY", "1h").start();
    let id = submit(&relay, "one@gone.test");
    for what in [id.as_str(), "gone.test"] {
        let mut last = String::new();
        let found = eventually(LATER, || {
            last = kcli(&relay, &["why", what]).stdout;
            let line = last.lines().find(|line| line.trim_start().starts_with("own reply "))?;
            line.contains("KumoMTA internal: ").then_some(())
        });
        assert!(found.is_some() && !last.contains("last reply"), "why {what}:\n{last}");
    }
    relay.stop();
}
