//! kill -9: whatever was answered 250 arrives, and what is known about it survives.

use e2e::kumod::{Launch, policy_file};
use e2e::ledger::balance;
use e2e::logs::Logs;
use e2e::port::free_port;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::traffic::Traffic;
use e2e::until::{LATER, SOON, until};
use e2e::wire::Client;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

#[test]
fn nothing_acknowledged_is_lost_in_twenty_kills_under_load() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let port = free_port();
    let launch = Launch::relay(&scratch, sink.address).env("RELAY_PORT", port.to_string());
    let mut relay = launch.start();
    let options = |size| ["--reconnect-forever", "--duration", "300", "--concurrency", "10", "--body-size", size];
    let generators = [
        Traffic::start(&scratch, "small", relay.smtp(), &options("2k")),
        Traffic::start(&scratch, "large", relay.smtp(), &options("10k")),
    ];
    let begun = Instant::now();
    for round in 0..KILLS {
        // Early rounds die with little in hand, later ones in full flight; never at the same count twice.
        let after = fastrand::u32(1..=50 + 40 * round);
        relay.await_metric("total_messages_received{service=\"esmtp_listener\"}", f64::from(after), SOON);
        relay.process.kill();
        relay = launch.start();
    }
    println!("{KILLS} kills in {:?}", begun.elapsed());
    let acknowledged: Vec<String> = generators.into_iter().flat_map(Traffic::stop).collect();
    assert!(acknowledged.len() > KILLS as usize * 20, "only {} messages were sent", acknowledged.len());
    let mut last = None;
    until(LATER, "every acknowledged message at the sink", || {
        let now = balance(&acknowledged, &sink.arrivals());
        let done = now.lost.is_empty();
        if done || last.as_ref() != Some(&now.lost.len()) {
            last = Some(now.lost.len());
            println!("{} acknowledged, {} missing, {} doubled", now.acknowledged, now.lost.len(), now.duplicates);
        }
        done.then_some(())
    });
    relay.await_empty(SOON);
    let balance = balance(&acknowledged, &sink.arrivals());
    println!("{} acknowledged, none lost, {} doubled", balance.acknowledged, balance.duplicates);
    assert_eq!(balance.damaged, Vec::<String>::new(), "arrived damaged");
    let most = DUPLICATES_PER_KILL_MAX * KILLS as usize;
    assert!(balance.duplicates <= most, "{} duplicates in {KILLS} kills, at most {most} expected", balance.duplicates);
    relay.stop();
}

#[test]
fn attempts_and_due_times_survive_a_kill() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &["--fail-rate", "100", "--fail-code", "451"]);
    let launch = Launch::policy(policy_file("retry.lua"))
        .env("RETRY_DIR", scratch.join("retry"))
        .env("RETRY_TO", sink.address.to_string())
        .env("RETRY_EVERY", format!("{}s", RETRY.as_secs()));
    let logs = Logs::new(scratch.join("retry/logs"));
    let failures = |attempts: u64| move |r: &Value| r["type"] == "TransientFailure" && r["num_attempts"] == attempts;

    let mut server = launch.start();
    // Spread over time, each waiting for the outcome of the one before: their due times are apart.
    for number in 0..SPREAD {
        let reply =
            Client::connect(server.smtp()).submit("a@source.test", &format!("{number}@target.test"), "patience");
        assert_eq!(reply.code, 250);
        logs.await_records("a first failure", number + 1, SOON, failures(0));
    }
    let first = times(&logs.await_records("first failures", SPREAD, SOON, failures(0)));
    server.process.kill();
    let restarted = Instant::now();
    let server = launch.start();
    assert_eq!(server.metric("message_count"), SPREAD as f64, "messages found in the spool");

    let second = times(&logs.await_records("second failures", SPREAD, LATER, failures(1)));
    let repeated = times(&logs.await_records("first failures again", SPREAD, SOON, failures(0)));
    assert_eq!(first, repeated, "the first attempt was forgotten and made again");
    for (id, at) in &first {
        let waited = second.get(id).unwrap_or_else(|| panic!("{id} was not tried again")) - at;
        let wanted = RETRY.as_secs_f64();
        assert!((wanted - 0.5..wanted + 2.0).contains(&waited), "{id} was tried again after {waited} s");
    }
    let spread = |times: &BTreeMap<String, f64>| {
        let (low, high) = times.values().fold((f64::MAX, f64::MIN), |(low, high), at| (low.min(*at), high.max(*at)));
        high - low
    };
    assert!(spread(&second) > spread(&first) / 2.0, "tried again all at once: {second:?} after {first:?}");
    println!("restart to last retry: {:?}", restarted.elapsed());
    assert_eq!(server.metric("message_count"), SPREAD as f64);
    server.stop();
}

/// Unix seconds of each message's record.
fn times(records: &[Value]) -> BTreeMap<String, f64> {
    let of = |record: &Value| {
        let id = record["id"].as_str().unwrap_or_default().to_owned();
        // `timestamp` has whole seconds, `event_time` the same moment with its fraction.
        let whole = record["timestamp"].as_f64().unwrap_or_else(|| panic!("timestamp: {record}"));
        let text = record["event_time"].as_str().unwrap_or_else(|| panic!("event_time: {record}"));
        let fraction = text.split_once('.').map_or("0", |(_, digits)| digits.trim_end_matches('Z'));
        (id, whole + format!("0.{fraction}").parse::<f64>().unwrap_or_else(|e| panic!("{text}: {e}")))
    };
    records.iter().map(of).collect()
}

const KILLS: u32 = 20;
/// What a crash may repeat: deliveries answered whose marks were not yet synced.
const DUPLICATES_PER_KILL_MAX: usize = 50;
/// Messages whose due times lie apart.
const SPREAD: usize = 3;
/// Their retry interval: longer than the test needs from the first message to the restart.
const RETRY: Duration = Duration::from_secs(8);
