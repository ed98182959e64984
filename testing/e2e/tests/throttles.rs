//! Throttles of scripts: on one node, and shared by two nodes by way of a real Redis that goes and comes back.

use e2e::certificate::Authority;
use e2e::http;
use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::logs::Logs;
use e2e::redis::RunningRedis;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::{LATER, SOON, until};
use e2e::wire::Client;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

fn launch(scratch: &Scratch, node: &str, to: SocketAddr) -> Launch {
    let launch = Launch::policy(policy_file("throttles.lua"));
    launch.env("THROTTLES_DIR", scratch.join(node)).env("THROTTLES_TO", to.to_string())
}

fn nobody() -> SocketAddr {
    "127.0.0.1:1".parse().expect("an address")
}

/// How many of `tries` MAIL commands the node takes, each in a session of its own.
fn taken(node: &Kumod, tries: usize) -> usize {
    let takes = |_: &usize| {
        let mut client = Client::connect(node.smtp());
        client.say("EHLO client.test");
        let reply = client.say("MAIL FROM:<a@source.test>");
        assert!(reply.code == 250 || reply.text().contains("4.7.1 throttled"), "{reply:?}");
        reply.code == 250
    };
    (0..tries).filter(takes).count()
}

fn submit(node: &Kumod, to: &str) {
    let mut client = Client::connect(node.smtp());
    client.begin("a@source.test", to);
    let reply = client.say("From: <a@source.test>\r\nSubject: x\r\n\r\nHello.\r\n.");
    assert_eq!(reply.code, 250, "{reply:?}");
}

#[test]
fn two_nodes_share_a_throttle_while_redis_is_there_and_each_has_its_share_while_not() {
    let scratch = Scratch::new();
    let mut redis = RunningRedis::start(&scratch);
    let node = |name: &str| {
        let launch = launch(&scratch, name, nobody()).env("THROTTLES_MAIL", "20/d").env("THROTTLES_SHARE", "0.75");
        launch.env("THROTTLES_REDIS", redis.url()).start()
    };
    let (one, other) = (node("one"), node("other"));
    assert_eq!((taken(&one, 4), taken(&other, 4)), (4, 4));
    assert_eq!((taken(&one, 20), taken(&other, 20)), (12, 0), "twenty for both");

    redis.process.kill();
    // Their share of twenty is fifteen; what each took by way of Redis counts: one took sixteen, the other four.
    let began = Instant::now();
    assert_eq!((taken(&one, 20), taken(&other, 20)), (0, 11));
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}: everybody waited for what is away", began.elapsed());
    one.process
        .await_stderr("that Redis is away", SOON, |l| l.contains("75% of each throttle by itself").then_some(()));

    // It has forgotten everything: twenty more, found out by themselves and shared again.
    let _back = RunningRedis::start_on(&scratch, redis.address);
    let first = until(SOON, "a hit by way of Redis", || (taken(&one, 1) == 1).then_some(1));
    one.process.await_stderr("that Redis is back", SOON, |line| line.contains("shared again").then_some(()));
    let mut others = 0;
    until(SOON, "the other's hits by way of Redis", || {
        others += taken(&other, 1);
        (others > 0).then_some(())
    });
    let rest = taken(&one, 40) + taken(&other, 40);
    assert_eq!(first + others + rest, 20);
    one.stop();
    other.stop();
}

#[test]
fn local_throttles_stay_local_and_a_server_that_is_not_there_is_said_at_the_start() {
    let scratch = Scratch::new();
    let redis = RunningRedis::start(&scratch);
    let node = |name: &str| {
        let launch = launch(&scratch, name, nobody()).env("THROTTLES_MAIL", "local:3/d");
        launch.env("THROTTLES_REDIS", redis.url()).start()
    };
    let (one, other) = (node("one"), node("other"));
    assert_eq!((taken(&one, 5), taken(&other, 5)), (3, 3));

    let finished = launch(&scratch, "third", nobody()).env("THROTTLES_REDIS", "redis://127.0.0.1:1/").run();
    assert!(!finished.status.success() && finished.stderr.contains("redis throttles: redis://127.0.0.1:1/"));
}

#[test]
fn redis_over_tls_must_show_a_certificate_that_is_trusted() {
    let scratch = Scratch::new();
    let authority = Authority::make(&scratch);
    let redis = RunningRedis::start_tls(&scratch, &authority.issue(&scratch, &["localhost"]));
    let node = |name: &str| {
        let launch = launch(&scratch, name, nobody()).env("THROTTLES_MAIL", "3/d");
        launch.env("THROTTLES_REDIS", redis.url())
    };
    let trusting = |name: &str| node(name).env("SSL_CERT_FILE", &authority.own.certificate).start();
    let (one, other) = (trusting("one"), trusting("other"));
    assert_eq!((taken(&one, 2), taken(&other, 5)), (2, 1));
    let finished = node("third").run();
    assert!(
        !finished.status.success() && finished.stderr.contains("redis throttles: rediss://localhost:"),
        "{}",
        finished.stderr
    );
    assert!(finished.stderr.to_lowercase().contains("certificate"), "{}", finished.stderr);
}

#[test]
fn messages_go_back_before_the_ready_queue_uncounted_and_say_why_and_until_when() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let begin = || launch(&scratch, "node", sink.address).env("THROTTLES_READY", "2/h").start();
    let mut node = begin();
    (0..3).for_each(|n| submit(&node, &format!("u{n}@a.test")));
    submit(&node, "u@b.test");
    sink.await_arrivals(3, SOON);
    let held = |node: &Kumod| -> Option<Value> {
        let url = "/api/admin/inspect-sched-q/v1?queue_name=a.test&want_body=false";
        let (_, text) = http::get(node.http(), url);
        // Not JSON while there is no such queue: just after a start.
        let found: Value = serde_json::from_str(&text).ok()?;
        found["messages"].get(0).filter(|message| message["until"].is_string()).cloned()
    };
    let message = until(SOON, "the third message", || held(&node));
    assert_eq!(message["why"], "ThrottledByThrottleInsertReadyQueue", "{message}");
    let logs = Logs::new(scratch.join("node/logs"));
    let delayed = logs.await_type("Delayed", 1, LATER);
    let text = delayed[0]["response"]["content"].as_str().unwrap_or_default().to_owned();
    assert!(text.starts_with("Context: ThrottledByThrottleInsertReadyQueue. Next due in "), "{text}");
    assert_eq!((&delayed[0]["num_attempts"], &delayed[0]["response"]["code"]), (&json!(0), &json!(400)));
    node.await_metric("delayed_due_to_throttle_insert_ready{queue=\"total\"}", 1.0, SOON);

    // The time is on disk.
    node.process.kill();
    let node = begin();
    let again = until(SOON, "the message after the kill", || held(&node));
    assert_eq!(again["until"], message["until"]);
    node.stop();
}

#[test]
fn sleepers_do_not_keep_others_from_their_turn() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    // The first may hold its thread; from then on nobody does.
    let node = launch(&scratch, "node", sink.address).env("THROTTLES_SLEEP", "1/2s").start();
    submit(&node, "first@a.test");
    std::thread::scope(|threads| {
        let sleepers: Vec<_> = (0..3)
            .map(|n| {
                let node = &node;
                threads.spawn(move || {
                    let mut client = Client::connect(node.smtp());
                    client.say("EHLO client.test");
                    client.say("MAIL FROM:<a@source.test>");
                    client.say(&format!("RCPT TO:<u{n}@a.test>")).code
                })
            })
            .collect();
        let began = Instant::now();
        let mut client = Client::connect(node.smtp());
        assert_eq!(client.say("EHLO client.test").code, 250);
        (0..20).for_each(|_| assert_eq!(client.say("NOOP").code, 250));
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        assert!(sleepers.iter().all(|sleeper| !sleeper.is_finished()), "served while they sleep");
        sleepers.into_iter().for_each(|sleeper| assert_eq!(sleeper.join().expect("no panic"), 250));
    });
    node.stop();
}
