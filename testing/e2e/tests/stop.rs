//! SIGTERM drains, a second one stops now, and neither loses anything.

use e2e::http;
use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::ledger::balance;
use e2e::port::free_port;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::traffic::Traffic;
use e2e::until::{LATER, SOON, until};
use e2e::wire::Client;
use nix::sys::signal::Signal;
use std::net::{TcpListener, UdpSocket};
use std::time::{Duration, Instant};

#[test]
fn idle_clients_do_not_hold_up_the_end() {
    let scratch = Scratch::new();
    // Nobody listens there: what is accepted waits.
    let away = "127.0.0.1:1".parse().expect("an address");
    // With one core the first 64 sessions share their threads with deliveries, the others have threads of their own.
    let launch = Launch::relay(&scratch, away).env("RELAY_RETRY", "1s").env("KUMO_AVAILABLE_PARALLELISM", "1");
    let mut relay = launch.start();
    let ids = Traffic::send(&scratch, "made", relay.smtp(), 300, &["--concurrency", "5"]);
    let mut idle: Vec<Client> = (0..100).map(|_| Client::connect(relay.smtp())).collect();
    let mut in_transaction = Client::connect(relay.smtp());
    in_transaction.expect("EHLO client.test", 250);
    in_transaction.expect("MAIL FROM:<a@source.test>", 250);
    let mut in_data = Client::connect(relay.smtp());
    in_data.begin("a@source.test", "never@target.test");
    in_data.send("Subject: never finished\r\n");

    let (_, dump) = http::get(relay.http(), "/api/admin/task-dump?timeout=1");
    let carried = dump.split("tasks of the crowd of sessions: ").nth(1).and_then(|rest| rest.split(' ').next());
    assert!(carried.and_then(|count| count.parse().ok()).is_some_and(|count: usize| count >= 38), "{dump}");

    stop_within_limit(&mut relay);
    for client in idle.iter_mut().chain([&mut in_transaction]) {
        let goodbye = client.try_reply().expect("a word before the end");
        assert_eq!((goodbye.code, goodbye.text().contains("4.3.2")), (421, true), "{goodbye:?}");
    }

    let sink = Sink::start(&scratch, "sink", &[]);
    let relay = Launch::relay(&scratch, sink.address).env("RELAY_RETRY", "1s").start();
    sink.await_arrivals(ids.len(), LATER);
    relay.await_empty(SOON);
    let balance = balance(&ids, &sink.arrivals());
    assert_eq!((balance.lost, balance.damaged, balance.duplicates), (Vec::new(), Vec::new(), 0));
    assert_eq!(sink.arrivals().len(), ids.len(), "the message never finished was delivered");
    relay.stop();
}

#[test]
fn stopped_under_load_nothing_is_lost_or_doubled() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let port = free_port();
    let launch = Launch::relay(&scratch, sink.address).env("RELAY_PORT", port.to_string()).env("RELAY_RETRY", "1s");
    let mut relay = launch.start();
    let options = ["--reconnect-forever", "--duration", "300", "--concurrency", "20", "--body-size", "4k"];
    let traffic = Traffic::start(&scratch, "made", relay.smtp(), &options);
    for _ in 0..STOPS {
        relay.await_metric("total_messages_received{service=\"esmtp_listener\"}", 200.0, SOON);
        stop_within_limit(&mut relay);
        relay = launch.start();
    }
    let ids = traffic.stop();
    until(LATER, "every acknowledged message at the sink", || {
        balance(&ids, &sink.arrivals()).lost.is_empty().then_some(())
    });
    relay.await_empty(LATER);
    let balance = balance(&ids, &sink.arrivals());
    assert_eq!((balance.damaged, balance.duplicates), (Vec::new(), 0), "of {} messages", balance.acknowledged);
    relay.stop();
}

#[test]
fn a_name_server_that_is_silent_does_not_hold_up_the_end() {
    let scratch = Scratch::new();
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let mut server = Launch::policy(policy_file("mx.lua"))
        .env("MX_DIR", scratch.join("mx"))
        .env("MX_PORT", "1")
        .env("POSTRIDER_RESOLVERS", silent.local_addr().expect("its address").to_string())
        .start();
    assert_eq!(Client::connect(server.smtp()).submit("a@source.test", "one@target.test", "where to").code, 250);
    silent.set_read_timeout(Some(SOON)).expect("a timeout can be set");
    silent.recv(&mut [0; 512]).expect("a question");
    stop_within_limit(&mut server);
}

#[test]
fn a_host_that_says_nothing_does_not_hold_up_the_end() {
    let scratch = Scratch::new();
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("its address");
    let mut relay = Launch::relay(&scratch, address).env("RELAY_RETRY", "1s").start();
    assert_eq!(Client::connect(relay.smtp()).submit("a@source.test", "one@target.test", "hello?").code, 250);
    // Connected, and waiting for a banner: no message is in hand yet.
    let (connection, _) = silent.accept().expect("a connection");
    stop_within_limit(&mut relay);
    drop(connection);
    let sink = Sink::start(&scratch, "sink", &[]);
    let relay = Launch::relay(&scratch, sink.address).env("RELAY_RETRY", "1s").start();
    assert_eq!(sink.await_arrivals(1, SOON)[0].recipients, ["one@target.test"]);
    relay.stop();
}

#[test]
fn a_second_signal_stops_now() {
    let scratch = Scratch::new();
    // The answer to the final dot comes after longer than this test takes: a delivery stays in hand.
    let slow = Sink::start(&scratch, "slow", &["--delay-ms", "60000"]);
    let launch = |to| Launch::relay(&scratch, to).env("RELAY_RETRY", "1s");
    let mut relay = launch(slow.address).start();
    assert_eq!(Client::connect(relay.smtp()).submit("a@source.test", "one@target.test", "in hand").code, 250);
    slow.await_arrivals(1, SOON);
    relay.process.signal(Signal::SIGTERM);
    relay.process.await_stderr("`stopping`", SOON, |line| line.contains("stopping").then_some(()));
    assert!(relay.process.is_running(), "a delivery in hand was not waited for");
    let probe = |path: &str| http::get(relay.http(), path);
    until(SOON, "the end to be told", || (probe("/api/check-readiness/v1").0 == 503).then_some(()));
    for path in ["/api/check-readiness/v1", "/api/check-liveness/v1"] {
        assert_eq!(probe(path), (503, "shutting down".to_owned()), "{path}");
    }
    let order = http::send(relay.http(), "POST", "/api/admin/suspend/v1", "application/json", r#"{"reason": "late"}"#);
    assert_eq!(order, (503, "Error: shutting down\n".to_owned()));
    let begun = Instant::now();
    relay.process.signal(Signal::SIGTERM);
    relay.process.finish(SOON);
    assert!(begun.elapsed() < NOW_MAX, "took {:?}", begun.elapsed());

    // Whether it was delivered nobody knows: it is sent again.
    let sink = Sink::start(&scratch, "sink", &[]);
    let relay = launch(sink.address).start();
    assert_eq!(sink.await_arrivals(1, SOON)[0].recipients, ["one@target.test"]);
    relay.stop();
}

#[test]
fn a_signal_during_the_start_is_a_clean_end_too() {
    let scratch = Scratch::new();
    let away = "127.0.0.1:1".parse().expect("an address");
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        for _ in 0..10 {
            let mut relay = Launch::relay(&scratch, away).start();
            relay.process.signal(signal);
            relay.process.finish(SOON).success();
        }
    }
}

fn stop_within_limit(server: &mut Kumod) {
    let begun = Instant::now();
    server.process.signal(Signal::SIGTERM);
    server.process.finish(SOON).success();
    assert!(begun.elapsed() < STOP_MAX, "the end took {:?}", begun.elapsed());
}

const STOP_MAX: Duration = Duration::from_secs(3);
const NOW_MAX: Duration = Duration::from_secs(1);
const STOPS: usize = 5;
