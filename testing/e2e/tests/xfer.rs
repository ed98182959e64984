//! Mail that goes from one node to another: once each, whatever is killed on the way.

use e2e::http;
use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::logs::Logs;
use e2e::parcel::{ORIGINAL, parcel};
use e2e::port::free_port;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::{LATER, SOON, until};
use e2e::wire::Client;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

const XFER: &str = "/api/admin/xfer/v1";
const CANCEL: &str = "/api/admin/xfer/cancel/v1";
const SUSPEND: &str = "/api/admin/suspend/v1";
const SCHED: &str = "/api/admin/inspect-sched-q/v1";
const INJECT: &str = "/api/xfer/inject/v1";
const RELEASE: &str = "/api/xfer/release/v1";
const DROP: &str = "/api/xfer/drop/v1";
const FORGET: &str = "/api/xfer/forget/v1";
const OVERVIEW: &str = "/api/admin/overview/v1";
const ARRIVALS: &str = "/api/xfer/arrivals/v1";
const BOUNCE: &str = "/api/admin/bounce/v1";
const FLUSH: &str = "/api/admin/flush/v1";
const ORIGIN: &str = "0c0c0c0c-0c0c-0c0c-0c0c-0c0c0c0c0c0c/0e0e0e0e0e0e11ee8e0e0e0e0e0e0e0e/";

/// A node that comes back where it was.
struct Node {
    name: &'static str,
    http: SocketAddr,
    launch: Launch,
}

impl Node {
    fn new(scratch: &Scratch, name: &'static str, to: SocketAddr) -> Node {
        let number = ["one", "other", "third"].iter().position(|n| *n == name).expect("a name");
        let http = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let launch = Launch::policy(policy_file("xfer.lua"))
            .env("XFER_DIR", scratch.join(name))
            .env("XFER_TO", to.to_string())
            .env("XFER_HTTP", http.to_string())
            .env("KUMO_NODE_ID", format!("00000000-0000-4000-8000-{:0>12}", number));
        Node { name, http, launch }
    }

    fn kind(mut self, kind: &str) -> Node {
        self.launch = self.launch.env("XFER_KIND", kind);
        self
    }

    fn url(&self) -> String {
        format!("http://{}", self.http)
    }

    fn queue(&self) -> String {
        format!("{}.xfer.kumomta.internal", self.url())
    }

    fn logs(&self, scratch: &Scratch) -> Logs {
        Logs::new(scratch.join(self.name).join("logs"))
    }
}

fn submit(node: &Kumod, to: &str) {
    let reply = Client::connect(node.smtp()).submit("a@source.test", to, "a transfer");
    assert_eq!(reply.code, 250, "{reply:?}");
}

fn submit_for(node: &Kumod, to: &str, target: &str) {
    let mut client = Client::connect(node.smtp());
    client.begin("a@source.test", to);
    let reply = client.say(&format!("From: <a@source.test>\r\nX-Node: {target}\r\n\r\nHello.\r\n."));
    assert_eq!(reply.code, 250, "{reply:?}");
}

fn suspend(node: &Kumod) -> Value {
    let order = json!({"domain": "x.test", "reason": "test", "duration": "1 hour"});
    http::json(node.http(), "POST", SUSPEND, &order)["id"].clone()
}

fn resume(node: &Kumod, id: &Value) {
    let body = json!({"id": id}).to_string();
    assert_eq!(http::send(node.http(), "DELETE", SUSPEND, "application/json", &body).0, 200);
}

fn queued(node: &Kumod, name: &str) -> Vec<Value> {
    let (status, text) = http::get(node.http(), &format!("{SCHED}?queue_name={name}"));
    let listed: Value = if status == 200 { serde_json::from_str(&text).expect("JSON") } else { Value::Null };
    listed["messages"].as_array().cloned().unwrap_or_default()
}

/// What is in a node's spool, with notes about messages that were there.
fn spooled(node: &Kumod) -> u64 {
    let overview: Value = serde_json::from_str(&http::get(node.http(), OVERVIEW).1).expect("JSON");
    overview["spool"]["messages"].as_u64().unwrap_or_else(|| panic!("a number: {overview}"))
}

fn recipients(sink: &Sink, count: usize) -> Vec<String> {
    let mut all: Vec<String> = sink.await_arrivals(count, LATER).into_iter().flat_map(|a| a.recipients).collect();
    all.sort();
    all
}

#[test]
fn an_order_sends_mail_to_another_node_which_delivers_it() {
    for kind in ["RocksDB", "LocalDisk"] {
        let scratch = Scratch::new();
        let sink = Sink::start(&scratch, "sink", &[]);
        let (one, other) =
            (Node::new(&scratch, "one", sink.address).kind(kind), Node::new(&scratch, "other", sink.address));
        let (a, b) = (one.launch.start(), other.launch.start());
        let suspended = suspend(&a);
        (0..3).for_each(|n| submit(&a, &format!("r{n}@x.test")));
        until(SOON, "three that wait", || (queued(&a, "shop@x.test").len() == 3).then_some(()));
        let order = json!({"domain": "x.test", "reason": "we move", "target": format!("{}/", other.url())});
        assert_eq!(http::json(a.http(), "POST", XFER, &order)["messages"], 3);
        assert_eq!(recipients(&sink, 3), ["r0@x.test", "r1@x.test", "r2@x.test"]);
        until(SOON, "nothing left", || (a.metric("message_count") == 0.0).then_some(()));
        until(SOON, "the end of the order", || (http::get(a.http(), XFER).1 == "[]").then_some(()));
        // Who is suspended here is not there.
        resume(&a, &suspended);

        let left = one.logs(&scratch).await_type("XferOut", 3, LATER);
        let came = other.logs(&scratch).await_type("XferIn", 3, LATER);
        let mut ids: Vec<String> =
            came.iter().map(|r| format!("new id is {}", r["id"].as_str().expect("an id"))).collect();
        let mut told: Vec<&str> = left.iter().filter_map(|r| r["response"]["content"].as_str()).collect();
        ids.sort();
        told.sort_unstable();
        assert_eq!(told, ids);
        assert_eq!((&left[0]["queue"], &left[0]["delivery_protocol"]), (&json!(other.queue()), &json!("xfer")));
        let site = format!("unspecified->{}@xfer", other.queue());
        assert_eq!(left[0]["site"], json!(site));
        let first = &came[0];
        assert_eq!((&first["queue"], &first["meta"]["x_came"]), (&json!("shop@x.test"), &json!(true)));
        assert_eq!((&first["delivery_protocol"], &first["meta"]["tenant"]), (&json!("xfer"), &json!("shop")));
        let moved = one.logs(&scratch).of_type("AdminRebind");
        let text = format!("Rebound from shop@x.test to {}: we move", other.queue());
        assert_eq!((moved.len(), &moved[0]["response"]["content"]), (3, &json!(text)));
        assert_eq!(a.metric("total_messages_delivered{service=\"xfer\"}"), 3.0);
        // Once the session ends, nobody will ask again, and nothing is kept of them.
        until(LATER, "an empty spool", || (spooled(&b) == 0).then_some(()));
        a.stop();
        b.stop();
        assert_eq!(recipients(&sink, 3).len(), 3, "once each");
    }
}

#[test]
fn mail_for_a_node_that_is_not_there_waits_says_why_and_comes_back() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let (one, other) = (Node::new(&scratch, "one", sink.address), Node::new(&scratch, "other", sink.address));
    let mut a = one.launch.start();
    let suspended = suspend(&a);
    (0..2).for_each(|n| submit(&a, &format!("r{n}@x.test")));
    until(SOON, "two that wait", || (queued(&a, "shop@x.test").len() == 2).then_some(()));
    let order = json!({"domain": "x.test", "reason": "r", "target": other.url()});
    http::json(a.http(), "POST", XFER, &order);
    one.logs(&scratch).await_type("TransientFailure", 2, LATER);
    a.process.kill();
    let a = one.launch.start();
    until(LATER, "two in the queue of the other", || (queued(&a, &other.queue()).len() == 2).then_some(()));

    let cancel = |name: &str| {
        let body = json!({"queue_name": name, "reason": "stay"}).to_string();
        http::send(a.http(), "POST", CANCEL, "application/json", &body)
    };
    let (status, text) = cancel("shop@x.test");
    assert!(status == 400 && text.contains("shop@x.test"), "{status} {text}");
    assert_eq!(cancel("http://nobody.test.xfer.kumomta.internal").0, 404);
    assert_eq!(cancel(&other.queue()).0, 200);
    let back = until(LATER, "two that came back", || Some(queued(&a, "shop@x.test")).filter(|q| q.len() == 2));
    assert_eq!(
        (&back[0]["message"]["num_attempts"], &back[0]["message"]["meta"]["tenant"]),
        (&json!(0), &json!("shop"))
    );
    resume(&a, &suspended);
    assert_eq!(recipients(&sink, 2), ["r0@x.test", "r1@x.test"]);
    for wrong in ["b.test", "http://", "http://u@b.test"] {
        let order = json!({"reason": "r", "target": wrong}).to_string();
        let (status, text) = http::send(a.http(), "POST", XFER, "application/json", &order);
        assert!(status == 400 && text.contains(wrong) && text.contains("expected"), "{status} {text}");
    }
    a.stop();
}

#[test]
fn a_message_that_is_being_sent_comes_back_when_that_has_failed() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let one = Node::new(&scratch, "one", sink.address);
    let a = one.launch.start();
    let mute = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", mute.local_addr().expect("an address"));
    submit_for(&a, "sent@x.test", &url);
    let (mut stream, _) = mute.accept().expect("a connection");
    read_http(&mut stream).expect("the message");

    let cancel = json!({"queue_name": format!("{url}.xfer.kumomta.internal"), "reason": "stay"});
    assert_eq!(http::json(a.http(), "POST", CANCEL, &cancel)["messages"], 1);
    let listed: Value = serde_json::from_str(&http::get(a.http(), XFER).1).expect("JSON");
    assert_eq!((listed.as_array().map(Vec::len), &listed[0]["under_way"]), (Some(1), &json!(true)), "{listed}");
    // Whoever tries again is refused.
    drop((mute, stream));
    assert_eq!(recipients(&sink, 1), ["sent@x.test"]);
    let moved = one.logs(&scratch).await_type("AdminRebind", 1, LATER);
    assert_eq!(moved.len(), 1, "{moved:?}");
    until(SOON, "the end of the order", || (http::get(a.http(), XFER).1.trim() == "[]").then_some(()));
    a.stop();
}

#[test]
fn policy_sends_mail_to_another_node_and_takes_it_back() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let (one, other) = (Node::new(&scratch, "one", sink.address), Node::new(&scratch, "other", sink.address));
    let third = Node::new(&scratch, "third", sink.address);
    let third = Node { launch: third.launch.env("XFER_REQUEUE", other.url()), ..third };
    let (a, b, c) = (one.launch.start(), other.launch.start(), third.launch.start());
    // Until then it takes nothing, which is a failure too.
    b.await_recovered(LATER);
    submit_for(&a, "there@x.test", &other.url());
    submit_for(&a, "back@x.test", &other.url());
    submit_for(&a, "refused@x.test", &other.url());
    submit(&c, "failed@x.test");
    assert_eq!(recipients(&sink, 3), ["back@x.test", "failed@x.test", "there@x.test"]);
    let came = other.logs(&scratch).await_type("XferIn", 2, LATER);
    let named = |who: &str| came.iter().find(|r| r["recipient"] == who).cloned().expect("it came");
    assert_eq!(
        (&named("there@x.test")["num_attempts"], &named("failed@x.test")["num_attempts"]),
        (&json!(0), &json!(0))
    );
    let moved = third.logs(&scratch).await_type("AdminRebind", 1, LATER);
    assert!(moved[0]["response"]["content"].as_str().is_some_and(|t| t.ends_with(": it failed here")), "{moved:?}");
    let failed = one.logs(&scratch).await_type("TransientFailure", 1, LATER);
    let text = failed[0]["response"]["content"].as_str().expect("text");
    assert!(failed[0]["recipient"] == "refused@x.test" && text.contains("550 not here"), "{text}");
    for node in [a, b, c] {
        node.stop();
    }
}

#[test]
fn whatever_is_killed_each_message_arrives_once() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let (one, other) = (Node::new(&scratch, "one", sink.address), Node::new(&scratch, "other", sink.address));
    let (mut a, mut b) = (one.launch.start(), other.launch.start());
    // Neither delivers: a kill may double what is on its way to a sink, and that is not what this is about.
    let (_, suspended) = (suspend(&a), suspend(&b));
    let mut all = 0;
    let order = json!({"domain": "x.test", "reason": "kill", "target": other.url()});
    let target = "total_messages_delivered{service=\"xfer\"}";
    let (mut kills, mut midway) = (0, 0);
    loop {
        let left = a.metric("message_count");
        if left == 0.0 && midway >= MIDWAY {
            break;
        }
        assert!(kills < 100, "{left} are left after {kills} kills, {midway} of them midway");
        let before = a.metric(target);
        if left == 0.0 {
            // What goes over may be gone before a kill: then there is more of it.
            (all..all + MESSAGES).for_each(|n| submit(&a, &format!("r{n}@x.test")));
            all += MESSAGES;
            http::json(a.http(), "POST", XFER, &order);
        }
        // Some have gone over, or nothing goes: a flush makes what failed go again.
        until(LATER, "some that go over", || {
            let flush = json!({"queue_names": [other.queue()], "reason": "go"});
            http::json(a.http(), "POST", FLUSH, &flush);
            (a.metric(target) >= before + A_FEW || a.metric("message_count") == 0.0).then_some(())
        });
        kills += 1;
        midway += u32::from(a.metric("message_count") > 0.0);
        match kills % 2 {
            1 => {
                a.process.kill();
                a = one.launch.start();
                a.await_recovered(LATER);
            }
            _ => {
                b.process.kill();
                b = other.launch.start();
            }
        }
    }
    until(LATER, "all there", || (b.metric("scheduled_count_total") == all as f64).then_some(()));
    assert_eq!(http::get(b.http(), ARRIVALS).1, "[]", "nobody waits for a sender");
    resume(&b, &suspended);
    let mut expected: Vec<String> = (0..all).map(|n| format!("r{n}@x.test")).collect();
    expected.sort();
    assert_eq!(recipients(&sink, all), expected);
    until(SOON, "the end", || (b.metric("message_count") == 0.0).then_some(()));
    a.stop();
    b.stop();
    assert_eq!(recipients(&sink, all), expected, "once each");
}

/// What becomes of requests on their way from one node to the other.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// Of this path they do not arrive.
    Request(&'static str),
    /// Of this path nobody hears the answer.
    Answer(&'static str),
    /// Of this path they stay on the line.
    Silence(&'static str),
}

/// A bad line to a node: it closes the connection at the fault, or says nothing.
struct Line {
    address: SocketAddr,
    fault: Arc<Mutex<Fault>>,
}

impl Line {
    fn to(node: SocketAddr) -> Line {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let (address, fault) = (listener.local_addr().expect("an address"), Arc::new(Mutex::new(Fault::None)));
        let faults = fault.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let faults = faults.clone();
                std::thread::spawn(move || carry(client, node, &faults));
            }
        });
        Line { address, fault }
    }

    fn set(&self, fault: Fault) {
        *self.fault.lock().expect("no panic") = fault;
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn queue(&self) -> String {
        format!("{}.xfer.kumomta.internal", self.url())
    }
}

/// Requests of one client, each with a connection of its own to the node; `None` at the end.
fn carry(mut client: TcpStream, node: SocketAddr, fault: &Mutex<Fault>) -> Option<()> {
    loop {
        let request = read_http(&mut client)?;
        let path = String::from_utf8_lossy(&request).split(' ').nth(1)?.to_owned();
        let fault = *fault.lock().expect("no panic");
        if matches!(fault, Fault::Request(of) if of == path) {
            return None;
        }
        if matches!(fault, Fault::Silence(of) if of == path) {
            // Until who asked hangs up.
            std::io::copy(&mut client, &mut std::io::sink()).ok()?;
            return None;
        }
        let mut server = TcpStream::connect(node).ok()?;
        server.write_all(&request).ok()?;
        let answer = read_http(&mut server)?;
        if matches!(fault, Fault::Answer(of) if of == path) {
            return None;
        }
        client.write_all(&answer).ok()?;
    }
}

/// A head and as much content as it says.
fn read_http(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut octets = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        if let Some(end) = octets.windows(4).position(|w| w == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&octets[..end]).to_lowercase();
            let length =
                head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
            if octets.len() >= end + 4 + length.unwrap_or(0) {
                return Some(octets);
            }
        }
        match stream.read(&mut buffer).ok()? {
            0 => return None,
            count => octets.extend_from_slice(&buffer[..count]),
        }
    }
}

#[test]
fn on_a_bad_line_each_message_ends_in_one_place() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let (one, other) = (Node::new(&scratch, "one", sink.address), Node::new(&scratch, "other", sink.address));
    let (mut a, b) = (one.launch.start(), other.launch.start());
    // Until then it takes nothing, which is a failure too.
    b.await_recovered(LATER);
    let line = Line::to(other.http);
    let waits = |a: &Kumod, failed: usize| {
        one.logs(&scratch).await_type("TransientFailure", failed, LATER);
        until(SOON, "it waits", || (queued(a, &line.queue()).len() == 1).then_some(()));
    };
    let flush = |a: &Kumod| {
        let order = json!({"queue_names": [line.queue()], "reason": "go"});
        until(LATER, "it goes", || {
            http::json(a.http(), "POST", FLUSH, &order);
            (a.is_recovered() && a.metric("message_count") == 0.0).then_some(())
        });
    };
    let bounce = |a: &Kumod| {
        let order = json!({"queue_names": [line.queue()], "reason": "no", "duration": "0s"});
        http::json(a.http(), "POST", BOUNCE, &order);
        until(LATER, "its end", || (a.metric("message_count") == 0.0).then_some(()));
    };
    let arrivals = || http::get(b.http(), ARRIVALS).1 != "[]";

    // Nobody hears that it arrived: it arrives once, also when the sender dies meanwhile.
    line.set(Fault::Answer(INJECT));
    submit_for(&a, "inject@x.test", &line.url());
    waits(&a, 1);
    assert!(arrivals());
    a.process.kill();
    a = one.launch.start();
    line.set(Fault::None);
    flush(&a);
    assert_eq!(recipients(&sink, 1), ["inject@x.test"]);

    // It is handed over and not let go: only the other node may deliver it, whatever is ordered and killed here.
    line.set(Fault::Request(RELEASE));
    submit_for(&a, "release@x.test", &line.url());
    waits(&a, 2);
    let cancel = json!({"queue_name": line.queue(), "reason": "stay"});
    http::json(a.http(), "POST", CANCEL, &cancel);
    a.process.await_stderr("a refusal", SOON, |l| l.contains("is about to be told to deliver it").then_some(()));
    a.process.kill();
    a = one.launch.start();
    line.set(Fault::None);
    flush(&a);
    assert_eq!(recipients(&sink, 2), ["inject@x.test", "release@x.test"]);

    // A bounce takes it back first.
    line.set(Fault::Request(RELEASE));
    submit_for(&a, "bounced@x.test", &line.url());
    one.logs(&scratch).await_type("TransientFailure", 3, LATER);
    assert!(arrivals());
    bounce(&a);
    one.logs(&scratch)
        .await_records("its end", 1, LATER, |r| r["type"] == "AdminBounce" && r["recipient"] == "bounced@x.test");
    assert!(!arrivals());

    // What cannot be taken back any more is not bounced.
    line.set(Fault::Answer(RELEASE));
    submit_for(&a, "gone@x.test", &line.url());
    one.logs(&scratch).await_type("TransientFailure", 4, LATER);
    assert_eq!(recipients(&sink, 3), ["gone@x.test", "inject@x.test", "release@x.test"]);
    bounce(&a);
    let left = one.logs(&scratch).await_type("XferOut", 3, LATER);
    assert!(left.iter().any(|r| r["recipient"] == "gone@x.test"), "{left:?}");
    assert_eq!(one.logs(&scratch).of_type("AdminBounce").len(), 1);
    a.stop();
    b.stop();
    assert_eq!(recipients(&sink, 3).len(), 3, "once each");
}

/// Damages the file of a message.
fn damage(messages: &Path, id: &str) {
    let folders = std::fs::read_dir(messages).expect("reads").flatten();
    let file = folders.map(|folder| folder.path().join(id)).find(|file| file.exists()).expect("it is there");
    let content = std::fs::read_to_string(&file).expect("reads");
    assert!(content.contains("\r\nHello.\r\n"), "{content}");
    std::fs::write(&file, content.replace("\r\nHello.\r\n", "\r\nJello.\r\n")).expect("writes");
}

/// Whatever the other node has lost of what it was handed, its sender delivers.
#[test]
fn what_the_other_node_does_not_have_is_sent_again() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let (one, other) = (Node::new(&scratch, "one", sink.address), Node::new(&scratch, "other", sink.address));
    let other = other.kind("LocalDisk");
    let (mut a, mut b) = (one.launch.start(), other.launch.start());
    b.await_recovered(LATER);
    let line = Line::to(other.http);
    let handed = |a: &Kumod, to: &str| {
        line.set(Fault::Request(RELEASE));
        submit_for(a, to, &line.url());
        let failed = |r: &Value| r["type"] == "TransientFailure" && r["recipient"] == to;
        one.logs(&scratch).await_records("it is handed over", 1, LATER, failed);
    };
    let again = |a: &Kumod, to: &str, because: &str| {
        line.set(Fault::None);
        until(LATER, "its end", || {
            let order = json!({"queue_names": [line.queue()], "reason": "go"});
            http::json(a.http(), "POST", FLUSH, &order);
            (a.metric("message_count") == 0.0).then_some(())
        });
        let says = |r: &Value| r["recipient"] == to && r["response"]["content"].to_string().contains(because);
        one.logs(&scratch).await_records("why it was sent again", 1, LATER, says);
    };

    // It was taken back, and nobody heard that; then the order to bounce it is withdrawn.
    handed(&a, "taken@x.test");
    line.set(Fault::Answer(DROP));
    let order = json!({"queue_names": [line.queue()], "reason": "no", "duration": "1h"});
    let id = http::json(a.http(), "POST", BOUNCE, &order)["id"].clone();
    a.process.await_stderr("it cannot end", LATER, |l| l.contains("cannot end while").then_some(()));
    until(SOON, "it is forgotten", || (http::get(b.http(), ARRIVALS).1 == "[]").then_some(()));
    let body = json!({"id": id}).to_string();
    assert_eq!(http::send(a.http(), "DELETE", BOUNCE, "application/json", &body).0, 200);
    for node in [&mut a, &mut b] {
        node.process.kill();
    }
    (a, b) = (one.launch.start(), other.launch.start());
    b.await_recovered(LATER);
    a.await_recovered(LATER);
    again(&a, "taken@x.test", "(Dropped)");
    assert_eq!(recipients(&sink, 1), ["taken@x.test"]);

    // It does not read.
    handed(&a, "damaged@x.test");
    let arrivals: Value = serde_json::from_str(&http::get(b.http(), ARRIVALS).1).expect("JSON");
    damage(&scratch.join("other/data/msg"), arrivals[0]["id"].as_str().expect("an id"));
    again(&a, "damaged@x.test", "(Dropped)");
    assert_eq!(recipients(&sink, 2), ["damaged@x.test", "taken@x.test"]);
    assert_eq!(http::get(b.http(), ARRIVALS).1, "[]");

    // Its disk is lost.
    handed(&a, "lost@x.test");
    b.process.kill();
    std::fs::remove_dir_all(scratch.join("other")).expect("its directory");
    b = other.launch.start();
    b.await_recovered(LATER);
    again(&a, "lost@x.test", "(Unknown)");
    assert_eq!(recipients(&sink, 3), ["damaged@x.test", "lost@x.test", "taken@x.test"]);

    // It is gone for good.
    handed(&a, "gone@x.test");
    let cancel = json!({"queue_name": line.queue(), "reason": "it is gone", "node_is_gone": true});
    assert_eq!(http::json(a.http(), "POST", CANCEL, &cancel)["messages"], 1);
    assert_eq!(recipients(&sink, 4), ["damaged@x.test", "gone@x.test", "lost@x.test", "taken@x.test"]);
    assert_eq!(http::get(b.http(), ARRIVALS).1.matches("origin").count(), 1, "nobody releases it");
    a.stop();
    b.stop();
    assert_eq!(recipients(&sink, 4).len(), 4, "once each");
}

/// Such mail cannot end before the other node answers; all else that ends or fails does not wait for that.
#[test]
fn what_cannot_end_now_holds_up_nobody() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let (one, other) = (Node::new(&scratch, "one", sink.address), Node::new(&scratch, "other", sink.address));
    let (a, b) = (one.launch.clone().env("XFER_REQUEUE", "none").start(), other.launch.start());
    b.await_recovered(LATER);
    let line = Line::to(other.http);
    line.set(Fault::Request(RELEASE));
    (0..20).for_each(|n| submit_for(&a, &format!("r{n}@x.test"), &line.url()));
    one.logs(&scratch).await_type("TransientFailure", 20, LATER);
    line.set(Fault::Request(DROP));
    let order = json!({"queue_names": [line.queue()], "reason": "no", "duration": "1h"});
    let id = http::json(a.http(), "POST", BOUNCE, &order)["id"].clone();
    let cannot = || a.process.stderr().matches("cannot end while").count();
    until(LATER, "all were asked for", || (cannot() >= 20).then_some(()));
    let (begun, before) = (Instant::now(), cannot());

    // Another order, and mail to a host that is not there.
    submit(&a, "dead@y.test");
    let failed = |r: &Value| r["type"] == "TransientFailure" && r["recipient"] == "dead@y.test";
    one.logs(&scratch).await_records("its failure", 1, LATER, failed);
    let order = json!({"domain": "y.test", "reason": "no", "duration": "0s"});
    http::json(a.http(), "POST", BOUNCE, &order);
    one.logs(&scratch).await_records("its end", 1, LATER, |r| r["type"] == "AdminBounce");
    until(LATER, "another try", || (cannot() > before).then_some(()));
    // Each has a turn in three seconds or so; where it went round and round it was some hundred times a second.
    let most = 20 * (begun.elapsed().as_secs() as usize + 2);
    assert!(cannot() - before <= most, "{} tries, and {most} may be", cannot() - before);
    let (_, listed) = http::get(a.http(), BOUNCE);
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    let state = listed.as_array().expect("orders").iter().find(|state| state["id"] == id).expect("in force");
    assert_eq!(state["total_bounced"], 20, "each counts once: {state}");

    line.set(Fault::None);
    until(LATER, "their end", || (a.metric("message_count") == 0.0).then_some(()));
    assert_eq!(one.logs(&scratch).await_type("AdminBounce", 21, LATER).len(), 21);
    assert_eq!(http::get(b.http(), ARRIVALS).1, "[]");
    a.stop();
    b.stop();
    assert!(sink.arrivals().is_empty());
}

/// It is asked once in half a minute; other orders have the settlers meanwhile.
#[test]
fn a_node_that_says_nothing_holds_up_nobody() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let (one, other) = (Node::new(&scratch, "one", sink.address), Node::new(&scratch, "other", sink.address));
    let (a, b) = (one.launch.clone().env("XFER_REQUEUE", "none").start(), other.launch.start());
    b.await_recovered(LATER);
    let line = Line::to(other.http);
    line.set(Fault::Request(RELEASE));
    (0..20).for_each(|n| submit_for(&a, &format!("r{n}@x.test"), &line.url()));
    (0..100).for_each(|_| submit(&a, "dead@y.test"));
    one.logs(&scratch).await_type("TransientFailure", 120, LATER);
    line.set(Fault::Silence(DROP));
    let order = json!({"queue_names": [line.queue()], "reason": "no", "duration": "1h"});
    http::json(a.http(), "POST", BOUNCE, &order);
    until(LATER, "a wait in vain", || a.process.stderr().contains("no answer within").then_some(()));
    let order = json!({"domain": "y.test", "reason": "no", "duration": "0s"});
    http::json(a.http(), "POST", BOUNCE, &order);
    one.logs(&scratch).await_records("their ends", 100, LATER, |r| r["type"] == "AdminBounce");

    line.set(Fault::None);
    until(LATER * 2, "the end of the others", || (a.metric("message_count") == 0.0).then_some(()));
    assert_eq!(one.logs(&scratch).await_type("AdminBounce", 120, LATER).len(), 120);
    assert_eq!(http::get(b.http(), ARRIVALS).1, "[]");
    a.stop();
    b.stop();
    assert!(sink.arrivals().is_empty());
}

#[test]
fn what_another_node_says_twice_counts_once_and_over_kills() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let other = Node::new(&scratch, "other", sink.address);
    let mut b = other.launch.start();
    // As a sender does: a node that starts answers 503 until it knows what it has.
    let inject = |b: &Kumod, parcel: &[u8]| {
        until(LATER, "an id", || {
            let (status, text) = http::send_octets(b.http(), "POST", INJECT, "application/octet-stream", parcel);
            assert!(status == 200 || (status == 503 && text.contains("waiting for spool startup")), "{status} {text}");
            serde_json::from_str::<Value>(&text).ok()
        })
    };
    let about = |b: &Kumod, path: &str, kept: &Value| {
        http::json(b.http(), "POST", path, &json!({"origin": kept["origin"], "node": kept["node"]}))["state"].clone()
    };
    let first = inject(&b, &parcel(ORIGINAL));
    assert!(first["origin"].as_str().is_some_and(|origin| origin.starts_with(ORIGIN)), "{first}");
    assert_eq!(inject(&b, &parcel(ORIGINAL)), first);
    b.process.kill();
    b = other.launch.start();
    assert_eq!(inject(&b, &parcel(ORIGINAL)), first, "it was on disk");
    let listed: Value = serde_json::from_str(&http::get(b.http(), ARRIVALS).1).expect("JSON");
    let expected = (&first["id"], &first["origin"], &json!(22));
    assert_eq!((&listed[0]["id"], &listed[0]["origin"], &listed[0]["size"]), expected);
    assert_eq!((b.metric("postrider_xfer_arrivals"), b.metric("message_count")), (1.0, 0.0));

    assert_eq!([DROP, DROP, RELEASE].map(|path| about(&b, path, &first)), ["dropped"; 3]);
    b.process.kill();
    b = other.launch.start();
    b.await_recovered(LATER);
    assert_eq!([RELEASE, DROP].map(|path| about(&b, path, &first)), ["dropped"; 2]);
    assert_eq!(about(&b, RELEASE, &json!({"origin": "somebody's", "node": null})), "unknown");
    // Another content of the same message is another arrival.
    let changed = [&parcel(ORIGINAL)[..], b"More.\r\n"].concat();
    let (old, next) = (inject(&b, &parcel(ORIGINAL)), inject(&b, &changed));
    assert!(old["id"] != next["id"] && old["id"] != first["id"]);
    let elsewhere = json!({"origin": next["origin"], "node": "somebody"}).to_string();
    for path in [RELEASE, DROP] {
        let (status, text) = http::send(b.http(), "POST", path, "application/json", &elsewhere);
        assert!(status == 409 && text.contains("expected that to which"), "{status} {text}");
    }
    assert_eq!([RELEASE, RELEASE, DROP].map(|path| about(&b, path, &next)), ["released"; 3]);
    assert_eq!(recipients(&sink, 1), ["r@x.test"]);
    // That is known until its sender says that it is not needed; then it would be a new one.
    until(SOON, "its end", || (b.metric("message_count") == 0.0).then_some(()));
    // A kill may take the record, as long as that is not written.
    let delivered = other.logs(&scratch).await_type("Delivery", 1, LATER);
    assert_eq!((&delivered[0]["id"], &delivered[0]["num_attempts"]), (&next["id"], &json!(7)));
    b.process.kill();
    b = other.launch.start();
    b.await_recovered(LATER);
    assert_eq!((inject(&b, &changed), about(&b, DROP, &next)), (next.clone(), json!("released")));
    let origins = json!({"origins": [next["origin"], old["origin"], "somebody's"]});
    assert_eq!(http::json(b.http(), "POST", FORGET, &origins), json!({}));
    for _ in 0..2 {
        assert_eq!(about(&b, DROP, &next), "unknown");
        b.stop();
        b = other.launch.start();
        b.await_recovered(LATER);
    }
    assert_eq!(about(&b, RELEASE, &old), "released", "it waited for its sender yet");
    assert_eq!(recipients(&sink, 2), ["r@x.test", "r@x.test"]);

    let mut own = parcel(ORIGINAL);
    own[17..33].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0x40, 0, 0x80, 0, 0, 0, 0, 0, 0, 0x01]);
    for (octets, expected) in
        [(&own[..], "another"), (b"nonsense", "postrider-xfer-1"), (&parcel(ORIGINAL)[..60], "ends early")]
    {
        let (status, text) = http::send_octets(b.http(), "POST", INJECT, "application/octet-stream", octets);
        assert!(status == 400 && text.contains(expected), "{status} {text}");
    }
    b.stop();
    assert_eq!(recipients(&sink, 2).len(), 2);
}

/// Mail that goes over while nodes are killed, at a time.
const MESSAGES: usize = 300;

/// So many of them go over before the next kill at least, so that it comes to an end.
const A_FEW: f64 = 6.0;
/// So many kills hit mail that is under way.
const MIDWAY: u32 = 4;
