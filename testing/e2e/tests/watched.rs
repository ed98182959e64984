//! SMTP sessions that somebody watches: `kcli trace-smtp-server` and `trace-smtp-client`, and the websockets behind them.

use e2e::http;
use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::process::Process;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::{LATER, SOON, until};
use e2e::wire::Client;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

/// What somebody who watches has been shown, from some moment on.
struct Watcher(Process);

impl Watcher {
    fn start(relay: &Kumod, words: &[&str]) -> Watcher {
        let launch = Launch::verb("kcli").env("KUMO_KCLI_ENDPOINT", format!("http://{}", relay.http())).arg("--json");
        Watcher(words.iter().fold(launch, |launch, word| launch.arg(*word)).spawn())
    }

    fn events(&self) -> Vec<Value> {
        let text = self.0.stdout();
        text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
    }

    /// Does something over and over until the watcher has seen a session end, which he cannot before the server knows of him.
    fn await_session(&mut self, mut act: impl FnMut()) -> Vec<Value> {
        until(LATER, "a session that is over", || {
            act();
            (!self.0.is_running()).then_some(())
        });
        // What it wrote last may be on its way.
        self.0.finish(SOON);
        self.events()
    }
}

fn submit(relay: &Kumod, to: &str) {
    let reply = Client::connect(relay.smtp()).submit("ann@source.test", to, "watched");
    assert_eq!(reply.code, 250, "{reply:?}");
}

/// What was read or written, in order.
fn said(events: &[Value], kind: &str) -> String {
    events.iter().filter_map(|event| event["payload"][kind].as_str()).collect()
}

#[test]
fn a_clients_session_is_shown_from_its_first_word_to_the_last() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let relay = Launch::relay(&scratch, sink.address).start();
    let mut watcher = Watcher::start(&relay, &["trace-smtp-server", "--only-new", "--only-one"]);
    let events = watcher.await_session(|| {
        let mut client = Client::connect(relay.smtp());
        client.expect("EHLO watched.test", 250);
        client.say("AUTH PLAIN AGFubgBzZWNyZXQ=");
        client.expect("MAIL FROM:<ann@source.test>", 250);
        client.expect("RCPT TO:<bob@target.test>", 250);
        client.expect("DATA", 354);
        client.expect("Subject: watched\r\n\r\nhi\r\n.", 250);
        client.expect("QUIT", 221);
    });
    let payloads: Vec<&Value> = events.iter().map(|event| &event["payload"]).collect();
    assert_eq!((payloads[0], payloads[payloads.len() - 1]), (&json!("Connected"), &json!("Closed")), "{payloads:#?}");
    let (read, written) = (said(&events, "Read"), said(&events, "Write"));
    assert!(read.contains("EHLO watched.test\r\n") && read.contains("\r\nhi\r\n.\r\n"), "{read}");
    assert!(read.contains("AUTH PLAIN (hidden)\r\n"), "{read}");
    assert!(written.starts_with("220 ") && written.contains("\r\n354 "), "{written}");
    let fate = payloads.iter().find_map(|payload| payload.get("MessageDisposition")).expect("what becomes of it");
    assert_eq!((&fate["recipient"], &fate["will_enqueue"]), (&json!("bob@target.test"), &json!(true)), "{fate}");
    assert_eq!(fate["queue"], json!("target.test"));
    assert!(events.iter().all(|event| event["conn_meta"]["received_from"].is_string()), "{events:#?}");
    assert!(!watcher.0.stdout().contains("AGFubgBzZWNyZXQ="), "a password");
    relay.stop();
}

#[test]
fn a_session_of_ours_is_shown_with_its_message() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let relay = Launch::relay(&scratch, sink.address).start();
    let watcher = Watcher::start(&relay, &["trace-smtp-client", "--domain", "a.test"]);
    let events = until(LATER, "a message to a.test", || {
        submit(&relay, "bob@b.test");
        submit(&relay, "bob@a.test");
        let events = watcher.events();
        // The first may have begun before anybody watched.
        events.iter().any(|event| event["payload"] == "MessageObtained").then_some(())?;
        said(&events, "Read").contains("250").then_some(())?;
        said(&events, "Write").contains("RCPT TO:<bob@a.test>").then_some(events)
    });
    let of_message = events.iter().find(|event| event["payload"] == "MessageObtained").expect("a message");
    let meta = &of_message["conn_meta"];
    for (name, value) in [("domain", "a.test"), ("sender", "ann@source.test"), ("recipient", "bob@a.test")] {
        assert_eq!(meta[name], value, "{meta}");
    }
    assert!(
        meta["id"].is_string() && meta["ready_queue_name"].is_string() && meta["mx_address"] == "127.0.0.1",
        "{meta}"
    );
    assert!(!watcher.0.stdout().contains("bob@b.test"), "another domain: {}", watcher.0.stdout());
    relay.stop();
}

/// Every filter of `trace client`: what it lets through, and where two messages differ in it, that it keeps the other one back.
#[test]
fn a_filter_shows_what_it_names() {
    let scratch = Scratch::new();
    let sinks = ["good", "other"].map(|name| Sink::start(&scratch, name, &[]));
    let relay = Launch::policy(policy_file("console.lua"))
        .env("CONSOLE_DIR", scratch.join("relay"))
        .env("CONSOLE_GOOD", sinks[0].address.to_string())
        .env("CONSOLE_REFUSES", sinks[1].address.to_string())
        .start();
    let send = |from: &str, to: &str, tenant: &str, campaign: &str, way: &str| {
        let mut client = Client::connect(relay.smtp());
        client.expect("EHLO watched.test", 250);
        client.expect(&format!("MAIL FROM:<{from}>"), 250);
        client.expect(&format!("RCPT TO:<{to}>"), 250);
        client.expect("DATA", 354);
        let fields = format!("X-Tenant: {tenant}\r\nX-Campaign: {campaign}\r\nX-Routing_domain: {way}");
        client.expect(&format!("{fields}\r\n\r\nhi\r\n."), 250);
    };
    let both = [
        ("--source", "127.0.0.0/8"),
        ("--mx-addr", "127.0.0.1"),
        ("--egress-pool", "shared"),
        ("--egress-source", "ip-1"),
    ];
    let of_one = [
        ("--mx-host", "mx.good.test"),
        ("--domain", "good.test"),
        ("--routing-domain", "good-way.test"),
        ("--campaign", "spring"),
        ("--tenant", "shop"),
        ("--mail-from", "ann@source.test"),
        ("--rcpt-to", "bob@good.test"),
        ("--ready-queue", "ip-1->mx_list:mx.good.test@smtp_client"),
    ];
    let watch =
        |(flag, value): &(&'static str, &str)| (*flag, Watcher::start(&relay, &["trace", "client", flag, value]));
    let watchers: Vec<_> = both.iter().chain(&of_one).map(watch).collect();
    let sees = |watcher: &Watcher, to: &str| said(&watcher.events(), "Write").contains(&format!("RCPT TO:<{to}>"));
    until(LATER, "all see the first", || {
        send("ann@source.test", "bob@good.test", "shop", "spring", "good-way.test");
        send("eve@elsewhere.test", "eve@other.test", "press", "autumn", "other-way.test");
        let (of_both, _) = watchers.split_at(both.len());
        let see_all = |whom: &[(_, Watcher)], to| whom.iter().all(|(_, watcher)| sees(watcher, to));
        (see_all(&watchers, "bob@good.test") && see_all(of_both, "eve@other.test")).then_some(())
    });
    let others: Vec<&str> =
        watchers.iter().filter(|(_, watcher)| sees(watcher, "eve@other.test")).map(|(flag, _)| *flag).collect();
    assert_eq!(others, both.map(|(flag, _)| flag), "what both messages have in common");
    relay.stop();
}

#[test]
fn who_comes_in_the_middle_of_a_message_is_told_whose_it_is_or_nothing() {
    let scratch = Scratch::new();
    let (answer, holds) = mpsc::channel();
    let (server, reached) = holding("bob@b.test", holds);
    let relay = Launch::relay(&scratch, server).start();
    submit(&relay, "bob@b.test");
    reached.recv_timeout(SOON).expect("a session that waits for its answer");
    let words = |domain| ["trace-smtp-client", "--domain", domain];
    let (others, own) = (Watcher::start(&relay, &words("a.test")), Watcher::start(&relay, &words("b.test")));
    until(LATER, "both watch", || {
        submit(&relay, "bob@a.test");
        submit(&relay, "ann@b.test");
        [&others, &own].iter().all(|watcher| !watcher.events().is_empty()).then_some(())
    });
    answer.send(()).expect("it waits");
    let reply = until(SOON, "the answer", || {
        own.events()
            .into_iter()
            .find(|event| event["conn_meta"]["recipient"] == "bob@b.test" && event["payload"]["Read"].is_string())
    });
    assert_eq!(reply["payload"]["Read"], "250 at last\r\n", "{reply}");
    let session = &reply["conn_meta"]["id"];
    until(SOON, "the end of the session", || {
        own.events()
            .iter()
            .any(|event| event["conn_meta"]["id"] == *session && event["payload"] == "Closed")
            .then_some(())
    });
    relay.stop();
    let seen = others.events();
    let strange =
        seen.iter().find(|event| event["conn_meta"]["id"] == *session && event["conn_meta"]["domain"] != "a.test");
    assert_eq!(strange, None, "of another domain");
    assert!(
        !others.0.stdout().contains("b.test") && !others.0.stdout().contains("at last"),
        "another domain: {}",
        others.0.stdout()
    );
}

/// A server that answers everybody but for this recipient, whom it lets wait, and says when it does.
fn holding(recipient: &'static str, answer: mpsc::Receiver<()>) -> (SocketAddr, mpsc::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
    let address = listener.local_addr().expect("an address");
    let (reaches, reached) = mpsc::channel();
    let answer = Arc::new(Mutex::new((reaches, answer)));
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let answer = answer.clone();
            // It ends with its connection, whose other end is the relay's.
            thread::spawn(move || serve(&stream, recipient, &answer));
        }
    });
    (address, reached)
}

fn serve(stream: &TcpStream, recipient: &str, answer: &Mutex<(mpsc::Sender<()>, mpsc::Receiver<()>)>) -> Option<()> {
    let (mut out, mut lines) = (stream, BufReader::new(stream).lines());
    let mut say = |text: &str| out.write_all(format!("{text}\r\n").as_bytes()).ok();
    say("220 holding.test")?;
    while let Some(Ok(line)) = lines.next() {
        match line.get(..4)? {
            "DATA" => {
                say("354 go ahead")?;
                lines.by_ref().map_while(Result::ok).find(|line| line == ".")?;
                say("250 taken")?;
            }
            "RCPT" if line.contains(recipient) => {
                let (reaches, answer) = &*answer.lock().ok()?;
                reaches.send(()).ok()?;
                answer.recv().ok()?;
                say("250 at last")?;
                // And no more: the session ends with that message.
                lines.next()?.ok()?;
                say("421 closing")?;
                return None;
            }
            _ => say("250 ok")?,
        }
    }
    Some(())
}

#[test]
fn a_host_that_cannot_be_reached_is_shown() {
    let scratch = Scratch::new();
    let relay = Launch::relay(&scratch, "127.0.0.1:1".parse().expect("an address")).env("RELAY_RETRY", "1h").start();
    let watcher = Watcher::start(&relay, &["trace-smtp-client"]);
    let event = until(LATER, "what went wrong", || {
        submit(&relay, "bob@gone.test");
        watcher.events().into_iter().find(|event| event["payload"]["Diagnostic"]["level"] == "ERROR")
    });
    let text = event["payload"]["Diagnostic"]["message"].as_str().expect("text");
    assert!(text.starts_with("no connection: ") && event["conn_meta"]["mx_address"] == "127.0.0.1", "{event}");
    relay.stop();
}

#[test]
fn who_watches_must_be_trusted_and_say_what_he_wants() {
    let scratch = Scratch::new();
    let relay = Launch::relay(&scratch, "127.0.0.1:1".parse().expect("an address")).start();
    let (status, body) = http::get(relay.http(), "/api/admin/trace-smtp-server/v1");
    assert!((400..500).contains(&status), "no websocket: {status} {body}");
    // A page in the browser of somebody who is trusted.
    let asks = "GET /api/admin/trace-smtp-server/v1 HTTP/1.1\r\nHost: mail.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    for (origin, status) in [("", "101"), ("Origin: http://elsewhere.test\r\n", "403")] {
        let mut page = TcpStream::connect(relay.http()).expect("connects");
        page.write_all(format!("{asks}{origin}\r\n").as_bytes()).expect("written");
        let mut answer = [0; 12];
        page.read_exact(&mut answer).expect("an answer");
        assert_eq!(answer, format!("HTTP/1.1 {status}").as_bytes(), "{}", String::from_utf8_lossy(&answer));
    }
    let words = ["trace-smtp-client", "--mx-addr", "192.0.2.0/33"];
    let launch = Launch::verb("kcli").env("KUMO_KCLI_ENDPOINT", format!("http://{}", relay.http()));
    let refused = words.iter().fold(launch, |launch, word| launch.arg(*word)).run();
    assert!(!refused.status.success() && refused.stderr.contains("192.0.2.0/33"), "{refused:?}");
    // Where nobody is trusted nobody watches.
    let text = format!(
        "local kumo = require 'kumo'\nkumo.on('init', function()\n\
         kumo.define_spool {{ name = 'data', path = '{0}/data' }}\nkumo.define_spool {{ name = 'meta', path = '{0}/meta' }}\n\
         kumo.start_http_listener {{ listen = '127.0.0.1:0', trusted_hosts = {{ '192.0.2.1' }} }}\nend)\n",
        scratch.path().display()
    );
    let closed = Launch::policy(scratch.write("policy.lua", text)).start();
    let stranger = Watcher::start(&closed, &["trace-smtp-server"]).0.finish(SOON);
    assert!(!stranger.status.success(), "{stranger:?}");
    closed.stop();
    relay.stop();
}
