//! Requests and messages with a key: carried out once, whatever is sent again, and whatever is killed.

use e2e::http;
use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::peers;
use e2e::process::run;
use e2e::scratch::Scratch;
use e2e::until::{LATER, SOON, until};
use e2e::wire::{Client, Reply};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

const INJECT: &str = "/api/inject/v1";
const BULK: &str = "/api/inject/bulk/v1";

fn launch(scratch: &Scratch) -> Launch {
    Launch::policy(policy_file("injection.lua"))
        .env("INJECT_DIR", scratch.path())
        .env("INJECT_ESMTP", "idempotency_window = '1h'")
}

fn request(users: &[&str]) -> Value {
    let recipients: Value = users.iter().map(|user| json!({"email": format!("{user}@to.test")})).collect();
    json!({"envelope_sender": "s@from.test", "recipients": recipients, "content": "Subject: hello\r\n\r\nhello\r\n"})
}

fn keyed(node: &Kumod, key: &str, body: &Value) -> (u16, String) {
    let fields = [("Content-Type", "application/json"), ("Idempotency-Key", key)];
    http::send_with(node.http(), "POST", INJECT, &fields, body.to_string().as_bytes())
}

/// The answers to a whole stream.
fn bulk(node: &Kumod, lines: &[Value]) -> Vec<Value> {
    let body: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let (status, text) = http::send(node.http(), "POST", BULK, "application/x-ndjson", &body);
    assert_eq!(status, 200, "{text}");
    text.lines().filter(|line| line.starts_with('{')).map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn smtp(node: &Kumod, key: &str, user: &str, text: &str) -> Reply {
    let mut client = Client::connect(node.smtp());
    client.begin("a@from.test", &format!("{user}@to.test"));
    client.say(&format!("Idempotency-Key: {key}\r\nSubject: x\r\n\r\n{text}\r\n."))
}

/// Lets all mail wait, over restarts too: what is delivered just before a kill may be delivered again. Returns the order's id.
fn suspend(node: &Kumod) -> Value {
    let order = json!({"reason": "to be counted", "duration": "1h"});
    json!({"id": http::json(node.http(), "POST", "/api/admin/suspend/v1", &order)["id"]})
}

/// Lets it go, and waits until all of it has arrived.
fn resume(node: &Kumod, id: &Value) {
    http::send(node.http(), "DELETE", "/api/admin/suspend/v1", "application/json", &id.to_string());
    node.await_empty(LATER);
}

/// How many messages each user has.
fn mail(scratch: &Scratch) -> BTreeMap<String, usize> {
    let users = std::fs::read_dir(scratch.join("mail")).into_iter().flatten().map(|entry| entry.expect("an entry"));
    let count = |path: std::path::PathBuf| std::fs::read_dir(path.join("new")).map_or(0, Iterator::count);
    users.map(|user| (user.file_name().into_string().expect("text"), count(user.path()))).collect()
}

#[test]
fn the_same_request_has_the_same_answer_and_is_carried_out_once() {
    for kind in ["RocksDB", "LocalDisk"] {
        let scratch = Scratch::new();
        let launch = launch(&scratch).env("INJECT_KIND", kind);
        let mut node = launch.start();
        let order = suspend(&node);
        let body = request(&["ann", "refused", "bob"]);
        let first = keyed(&node, "k1", &body);
        assert_eq!(first.0, 200);
        let outcome: Value = serde_json::from_str(&first.1).expect("JSON");
        assert_eq!((&outcome["success_count"], &outcome["fail_count"]), (&json!(2), &json!(1)));
        assert_eq!(keyed(&node, "k1", &body), first);
        let (status, text) = keyed(&node, "k1", &request(&["cid"]));
        assert!(status == 409 && text.contains("idempotency key was used for another request"), "{status} {text}");
        assert_eq!(keyed(&node, "k2", &request(&["cid"])).0, 200);
        node.process.kill();
        let node = launch.start();
        assert_eq!(keyed(&node, "k1", &body), first, "{kind}: known after a kill");
        assert_eq!(keyed(&node, "k1", &request(&["cid"])).0, 409);
        resume(&node, &order);
        let expected: BTreeMap<String, usize> = ["ann", "bob", "cid"].map(|user| (user.to_owned(), 1)).into();
        assert_eq!(mail(&scratch), expected, "{kind}");
        assert_eq!(node.metric("postrider_idempotency_keys"), 2.0);
        node.stop();
    }
}

#[test]
fn what_a_key_must_be() {
    let scratch = Scratch::new();
    let node = launch(&scratch).start();
    let body = request(&["ann"]);
    for key in ["", &"x".repeat(256)] {
        let (status, text) = keyed(&node, key, &body);
        assert!(status == 422 && text.contains("1 to 255"), "{status} {text}");
    }
    let mut member = body.clone();
    member["idempotency_key"] = json!("one");
    assert_eq!(keyed(&node, "other", &member).0, 400, "two keys");
    let fields = [("Content-Type", "application/json"), ("Idempotency-Key", "a"), ("Idempotency-Key", "b")];
    assert_eq!(http::send_with(node.http(), "POST", INJECT, &fields, body.to_string().as_bytes()).0, 400);
    for member in ["deferred_spool", "deferred_generation"] {
        let mut body = body.clone();
        body[member] = json!(true);
        let (status, text) = keyed(&node, "a", &body);
        assert!(status == 422 && text.contains(&format!("/{member}: true: expected false")), "{status} {text}");
    }
    let many: Vec<String> = (0..4097).map(|n| format!("u{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let (status, text) = keyed(&node, "a", &request(&many));
    assert!(status == 422 && text.contains("at most 4096"), "{status} {text}");
    // Of what was refused nothing is remembered: the key is free for what is right.
    assert_eq!(keyed(&node, "a", &request(&["refused"])).0, 200);
    assert_eq!(node.metric("postrider_idempotency_keys"), 0.0);
    assert_eq!(keyed(&node, "a", &request(&many[..4096])).0, 200);
    assert_eq!(node.metric("postrider_idempotency_keys"), 1.0);
    node.stop();
    let closed = Scratch::new();
    let node = launch(&closed).env("INJECT_HTTP", "idempotency_window = '0s'").start();
    let (status, text) = keyed(&node, "a", &body);
    assert!(status == 422 && text.contains("idempotency_window is 0"), "{status} {text}");
    node.stop();
}

#[test]
fn keys_belong_to_who_is_proven_or_to_an_address() {
    let scratch = Scratch::new();
    let node = launch(&scratch).start();
    let ask = |credentials: Option<&str>, user: &str| {
        let authorization = credentials.map(|text| format!("Basic {text}"));
        let mut fields = vec![("Content-Type", "application/json"), ("Idempotency-Key", "same")];
        fields.extend(authorization.as_deref().map(|text| ("Authorization", text)));
        http::send_with(node.http(), "POST", INJECT, &fields, request(&[user]).to_string().as_bytes()).0
    };
    assert_eq!(ask(None, "ann"), 200);
    assert_eq!(ask(Some("YW5uOnNlY3JldA=="), "bob"), 200, "ann's own key");
    assert_eq!(ask(Some("aW5mbzo="), "cid"), 200, "somebody's own key");
    assert_eq!(ask(Some("aW5mbzo="), "bob"), 409);
    assert_eq!(smtp(&node, "same", "dan", "hello").code, 250, "and so is that of a client over SMTP");
    node.await_empty(LATER);
    assert_eq!(mail(&scratch).len(), 4);
    node.stop();
}

#[test]
fn who_comes_second_waits_and_has_the_answer() {
    let scratch = Scratch::new();
    // A request takes half a second for its recipients.
    let node = launch(&scratch).env("INJECT_RATE", "20/s,max_burst=1").start();
    let body = request(&["a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9"]);
    let answers: Vec<(u16, String)> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..8).map(|_| scope.spawn(|| keyed(&node, "one", &body))).collect();
        clients.into_iter().map(|client| client.join().expect("no panic")).collect()
    });
    assert!(answers.iter().all(|answer| *answer == answers[0] && answer.0 == 200), "{answers:?}");
    node.await_empty(LATER);
    assert!(mail(&scratch).values().all(|count| *count == 1), "{:?}", mail(&scratch));
    assert_eq!(mail(&scratch).len(), 10);
    node.stop();
}

#[test]
fn lines_of_a_stream_have_keys() {
    let scratch = Scratch::new();
    let node = launch(&scratch).start();
    let line = |user: &str, key: &str| {
        let mut line = request(&[user]);
        line["idempotency_key"] = json!(key);
        line
    };
    let mut put_off = line("gil", "g");
    put_off["deferred_generation"] = json!(true);
    let lines = [line("ann", "a"), line("ann", "a"), line("bob", "a"), request(&["cid"]), line("dan", "d"), put_off];
    let first = bulk(&node, &lines);
    assert_eq!(first.len(), 6, "{first:?}");
    assert_eq!((&first[0]["success_count"], &first[0]["replayed"]), (&json!(1), &Value::Null));
    assert_eq!((&first[1]["success_count"], &first[1]["replayed"]), (&json!(1), &json!(true)));
    assert_eq!((&first[2]["status"], &first[4]["success_count"]), (&json!(409), &json!(1)));
    assert_eq!((&first[5]["status"], &first[5]["pointer"]), (&json!(422), &json!("/deferred_generation")));
    let second = bulk(&node, &lines);
    let replayed: Vec<bool> = second.iter().map(|answer| answer["replayed"] == true).collect();
    assert_eq!(replayed, [true, true, false, false, true, false]);
    node.await_empty(LATER);
    let expected: BTreeMap<String, usize> = [("ann", 1), ("cid", 2), ("dan", 1)].map(|(u, n)| (u.to_owned(), n)).into();
    assert_eq!(mail(&scratch), expected);
    node.stop();
}

#[test]
fn a_message_over_smtp_is_accepted_once_where_the_listener_looks_at_its_key() {
    let scratch = Scratch::new();
    let launch = launch(&scratch);
    let mut node = launch.start();
    let order = suspend(&node);
    let first = smtp(&node, "k", "ann", "hello");
    assert_eq!(first.code, 250);
    assert_eq!(smtp(&node, "k", "ann", "hello"), first, "the same id");
    let other = smtp(&node, "k", "ann", "something else");
    assert!(other.code == 550 && other.lines[0].starts_with("5.7.1 the idempotency key"), "{other:?}");
    let cid = smtp(&node, "k", "cid", "hello");
    assert!(
        cid.code == 250 && cid != first,
        "the other recipients of a message, in a transaction of their own: {cid:?}"
    );
    let bad = smtp(&node, "", "ann", "hello");
    assert!(bad.code == 550 && bad.lines[0].contains("1 to 255"), "{bad:?}");
    assert_eq!(Client::connect(node.smtp()).submit("a@from.test", "bob@to.test", "no key").code, 250);
    assert_eq!(Client::connect(node.smtp()).submit("a@from.test", "bob@to.test", "no key").code, 250);
    node.process.kill();
    let node = launch.start();
    assert_eq!(smtp(&node, "k", "ann", "hello"), first, "the same id after a kill");
    resume(&node, &order);
    assert_eq!(
        mail(&scratch),
        [("ann", 1), ("bob", 2), ("cid", 1)].map(|(user, count)| (user.to_owned(), count)).into()
    );
    let path =
        std::fs::read_dir(scratch.join("mail/ann/new")).expect("a folder").next().expect("one").expect("an entry");
    let text = std::fs::read_to_string(path.path()).expect("a message");
    assert!(!text.contains("Idempotency-Key"), "it is nobody else's business: {text}");
    node.stop();
    // Without the option a key of a stranger suppresses nothing.
    let scratch = Scratch::new();
    let node = launch.env("INJECT_DIR", scratch.path()).env("INJECT_ESMTP", "").start();
    for _ in 0..2 {
        assert_eq!(smtp(&node, "k", "ann", "hello").code, 250);
    }
    node.await_empty(LATER);
    assert_eq!(mail(&scratch)["ann"], 2);
    node.stop();
}

#[test]
fn a_key_is_free_when_its_window_ends() {
    let scratch = Scratch::new();
    let launch = launch(&scratch).env("INJECT_HTTP", "idempotency_window = '8s'");
    let node = launch.start();
    assert_eq!(keyed(&node, "k", &request(&["ann"])).0, 200);
    assert_eq!(keyed(&node, "k", &request(&["bob"])).0, 409);
    until(SOON, "the end of the window", || (keyed(&node, "k", &request(&["bob"])).0 == 200).then_some(()));
    until(SOON, "no record", || (node.metric("postrider_idempotency_keys") == 0.0).then_some(()));
    node.await_empty(LATER);
    node.stop();
    let node = launch.start();
    node.await_recovered(LATER);
    assert_eq!(node.metric("postrider_idempotency_keys"), 0.0, "nothing of it is left in the spool");
    assert_eq!(mail(&scratch), [("ann".to_owned(), 1), ("bob".to_owned(), 1)].into());
    node.stop();
}

#[test]
fn clients_of_others_send_again() {
    let scratch = Scratch::new();
    let node = launch(&scratch).start();
    let mut python = peers::script("keyed_client.py");
    python.arg(node.http().to_string()).args([INJECT, "from-python", "3", &request(&["ann"]).to_string()]);
    let told = run("keyed_client.py", python, LATER).success().stdout;
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines[0].starts_with("200 None {") && lines[1].starts_with("200 true {"), "{told}");
    assert_eq!((lines[1], lines[0].split_once('{').map(|p| p.1)), (lines[2], lines[1].split_once('{').map(|p| p.1)));
    node.await_empty(LATER);
    assert_eq!(mail(&scratch), [("ann".to_owned(), 1)].into());
    node.stop();
}

#[test]
fn records_are_no_mail_to_the_tools_either() {
    let scratch = Scratch::new();
    let mut node = launch(&scratch).start();
    assert_eq!(keyed(&node, "k", &request(&["ann"])).0, 200);
    node.await_empty(LATER);
    node.process.kill();
    let spool = |words: &[&str]| {
        let verb = Launch::verb("spool").arg("--spool").arg(scratch.join("data"));
        words.iter().fold(verb, |verb, word| verb.arg(*word)).run().success().stdout
    };
    assert!(spool(&["verify"]).trim_end().ends_with("sound"));
    let listed = spool(&["list", "--long"]);
    assert!(listed.contains("answered-request@generator.kumomta.internal"), "{listed}");
}

/// Letters that are sent until they are answered, by clients of every kind, while the server is killed again and again.
#[test]
fn nothing_is_lost_or_doubled_however_it_is_killed() {
    for (kind, kills) in [("RocksDB", KILLS), ("LocalDisk", KILLS / 2)] {
        let scratch = Scratch::new();
        let launch = launch(&scratch).env("INJECT_KIND", kind);
        let mut node = launch.start();
        let order = suspend(&node);
        let stage = Arc::new(Stage {
            at: Mutex::new((node.http(), node.smtp())),
            moved: Condvar::new(),
            answered: AtomicUsize::new(0),
            replayed: AtomicUsize::new(0),
            left: AtomicUsize::new(1),
        });
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let stage = stage.clone();
                std::thread::spawn(move || stage.send_letters(number))
            })
            .collect();
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..kills {
            let enough = stage.answered.load(Ordering::SeqCst) + random.usize(1..=60);
            until(LATER, "answers", || (stage.answered.load(Ordering::SeqCst) >= enough).then_some(()));
            node.process.kill();
            node = launch.start();
            *stage.at.lock().expect("no panic") = (node.http(), node.smtp());
            stage.moved.notify_all();
        }
        stage.left.store(0, Ordering::SeqCst);
        let sent: Vec<(String, usize)> =
            clients.into_iter().flat_map(|client| client.join().expect("no panic")).collect();
        let again: usize = sent.iter().map(|(_, times)| times - 1).sum();
        let replayed = stage.replayed.load(Ordering::SeqCst);
        println!(
            "{kind}: {} letters, {kills} kills, {again} times tried again, {replayed} of them done before",
            sent.len()
        );
        assert!(again >= kills, "kills hit nothing: {again}");
        node.await_recovered(LATER);
        assert_eq!(node.metric("message_count"), sent.len() as f64, "{kind}: what was answered is queued, once");
        resume(&node, &order);
        let arrived = mail(&scratch);
        let doubled: Vec<_> = arrived.iter().filter(|(_, count)| **count != 1).collect();
        let lost: Vec<_> = sent.iter().filter(|(user, _)| !arrived.contains_key(user)).collect();
        assert!(doubled.is_empty() && lost.is_empty(), "{kind}: doubled {doubled:?}, lost {lost:?}");
        assert_eq!(arrived.len(), sent.len());
        node.stop();
    }
}

/// What clients share while the server comes and goes.
struct Stage {
    at: Mutex<(SocketAddr, SocketAddr)>,
    /// When that is elsewhere.
    moved: Condvar,
    answered: AtomicUsize,
    /// Answers over HTTP that were those of an earlier try.
    replayed: AtomicUsize,
    /// 0 when no new letter is begun.
    left: AtomicUsize,
}

impl Stage {
    /// Letters one after the other, each sent until it is answered; how often each was, not counting when nobody was there.
    fn send_letters(&self, client: usize) -> Vec<(String, usize)> {
        let mut sent = Vec::new();
        for number in 0.. {
            if self.left.load(Ordering::SeqCst) == 0 {
                break;
            }
            let user = format!("c{client}n{number}");
            let mut times = 1;
            while let Some(is_there) = self.what_failed(client, &user) {
                times += usize::from(is_there);
            }
            self.answered.fetch_add(1, Ordering::SeqCst);
            sent.push((user, times));
        }
        sent
    }

    /// Sends a letter. `None` when it was answered; else whether somebody took the connection.
    fn what_failed(&self, client: usize, user: &str) -> Option<bool> {
        let (http, smtp) = *self.at.lock().expect("no panic");
        let Ok(stream) = TcpStream::connect(if client % 3 == 2 { smtp } else { http }) else {
            // It is on its way up again, on other ports.
            let at = self.at.lock().expect("no panic");
            let (_at, waited) = self.moved.wait_timeout_while(at, LATER, |at| *at == (http, smtp)).expect("no panic");
            assert!(!waited.timed_out(), "nobody listens at {http} and {smtp}, and nowhere else");
            return Some(false);
        };
        stream.set_read_timeout(Some(LATER)).expect("a socket");
        let text = match client % 3 {
            0 => exchange(stream, &post(INJECT, "application/json", user, &request(&[user]).to_string())),
            1 => {
                let mut line = request(&[user]);
                line["idempotency_key"] = json!(user);
                exchange(stream, &post(BULK, "application/x-ndjson", user, &format!("{line}\n")))
            }
            _ => return submitted(stream, user).is_none().then_some(true),
        };
        let is_replayed = ["idempotency-replayed: true", "\"replayed\":true"].iter().any(|mark| text.contains(mark));
        self.replayed.fetch_add(usize::from(is_replayed), Ordering::SeqCst);
        (!text.contains("\"success_count\":1")).then_some(true)
    }
}

fn post(path: &str, content_type: &str, key: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: {content_type}\r\nIdempotency-Key: {key}\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
}

/// A message over SMTP; none when something goes wrong on the way.
fn submitted(stream: TcpStream, user: &str) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut expect = |said: &str, wanted: &str| {
        reader.get_mut().write_all(said.as_bytes()).ok()?;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|octets| *octets > 0)?;
            if line.as_bytes().get(3) != Some(&b'-') {
                return line.starts_with(wanted).then_some(());
            }
        }
    };
    expect("", "220")?;
    expect("EHLO x\r\n", "250")?;
    expect("MAIL FROM:<a@from.test>\r\n", "250")?;
    expect(&format!("RCPT TO:<{user}@to.test>\r\n"), "250")?;
    expect("DATA\r\n", "354")?;
    expect(&format!("Idempotency-Key: {user}\r\nSubject: x\r\n\r\nhello\r\n.\r\n"), "250 OK ids=")
}

/// What is heard until the other side ends it; whatever goes wrong, what was heard until then.
fn exchange(mut stream: TcpStream, said: &str) -> String {
    let (mut heard, mut buffer) = (Vec::new(), [0; 4096]);
    if stream.write_all(said.as_bytes()).is_ok() {
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            heard.extend_from_slice(&buffer[..count]);
        }
    }
    String::from_utf8_lossy(&heard).into_owned()
}

/// Of the server with a log; half of it with message files.
const KILLS: usize = 24;
/// Clients at once, a third of each kind.
const CLIENTS: usize = 9;
