//! Streams of requests over HTTP: `POST /api/inject/bulk/v1`, an answer for each line.

use e2e::http;
use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::peers;
use e2e::process::run;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::{LATER, SOON, until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

const BULK: &str = "/api/inject/bulk/v1";
const NDJSON: &str = "application/x-ndjson";

fn launch(scratch: &Scratch) -> Launch {
    Launch::policy(policy_file("injection.lua")).env("INJECT_DIR", scratch.path())
}

fn line(recipients: &[&str]) -> Value {
    let recipients: Value = recipients.iter().map(|email| json!({"email": email})).collect();
    json!({
        "envelope_sender": "s@from.test",
        "recipients": recipients,
        "content": "Subject: hello\r\nFrom: a@from.test\r\n\r\nFor {{ email }}.\r\n",
    })
}

/// Status and answers to a whole body.
fn bulk(node: &Kumod, body: &str) -> (u16, Vec<Value>) {
    let (status, text) = http::send(node.http(), "POST", BULK, NDJSON, body);
    (status, answers(&unchunked(&text)))
}

fn answers(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
}

/// The octets in the chunks of a body.
fn unchunked(body: &str) -> String {
    let (mut rest, mut text) = (body, String::new());
    while let Some((size, more)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap_or_else(|error| panic!("{size:?}: {error}"));
        text += &more[..size];
        rest = &more[size + 2..];
    }
    text
}

/// A stream that is written and read as the test wants it.
struct Stream {
    socket: TcpStream,
    answers: BufReader<TcpStream>,
}

impl Stream {
    fn open(node: &Kumod) -> Stream {
        let mut socket = TcpStream::connect(node.http()).expect("connects");
        socket.set_read_timeout(Some(LATER)).expect("a time limit");
        let head =
            format!("POST {BULK} HTTP/1.1\r\nHost: x\r\nContent-Type: {NDJSON}\r\nTransfer-Encoding: chunked\r\n\r\n");
        socket.write_all(head.as_bytes()).expect("writes");
        let mut answers = BufReader::new(socket.try_clone().expect("a second handle"));
        let mut status = String::new();
        answers.read_line(&mut status).expect("a status");
        assert!(status.starts_with("HTTP/1.1 200"), "{status}");
        Stream { socket, answers }
    }

    fn say(&mut self, text: &str) {
        write!(self.socket, "{:x}\r\n{text}\r\n", text.len()).expect("writes");
    }

    /// The next answer; none at the end.
    fn hear(&mut self) -> Option<Value> {
        loop {
            let mut line = String::new();
            if self.answers.read_line(&mut line).expect("reads") == 0 {
                return None;
            }
            if line.starts_with('{') {
                return Some(serde_json::from_str(&line).expect("JSON"));
            }
        }
    }
}

fn relay(scratch: &Scratch, sink: &Sink) -> Launch {
    Launch::relay(scratch, sink.address)
}

#[test]
fn each_line_has_its_answer_in_order() {
    let scratch = Scratch::new();
    let node = launch(&scratch).env("INJECT_HTTP", "request_body_limit = 3000").start();
    let mut later = line(&["dan@to.test"]);
    later["deferred_generation"] = json!(true);
    let mut wrong = line(&["x@to.test"]);
    wrong["recipients"][0]["email"] = json!(7);
    let mut long = line(&["x@to.test"]);
    long["content"] = json!("x".repeat(3000));
    let mut template = line(&["x@to.test"]);
    template["content"] = json!("{{ open");
    let lines = [
        line(&["ann@to.test", "bob@to.test"]).to_string(),
        String::new(),
        line(&["refused@to.test", "cid@to.test", "nowhere@to.test"]).to_string(),
        wrong.to_string(),
        "{\"half\":".to_owned(),
        long.to_string(),
        template.to_string(),
        later.to_string(),
        " \r".to_owned(),
        line(&["eve@to.test"]).to_string(),
    ];
    let (status, answers) = bulk(&node, &lines.join("\n"));
    assert_eq!(status, 200);
    let numbers: Vec<u64> = answers.iter().filter_map(|answer| answer["line"].as_u64()).collect();
    assert_eq!(numbers, [1, 3, 4, 5, 6, 7, 8, 10], "empty lines are counted and not answered: {answers:?}");
    let none = json!([]);
    let done = |line: u64, count: u64| json!({"line": line, "success_count": count, "fail_count": 0, "failed_recipients": none, "errors": none});
    assert_eq!(answers[0], done(1, 2));
    assert_eq!(
        answers[1],
        json!({"line": 3, "success_count": 2, "fail_count": 1, "failed_recipients": ["refused@to.test"],
               "errors": ["refused@to.test: 550 5.7.1 not you"]})
    );
    assert_eq!((&answers[2]["status"], &answers[2]["pointer"]), (&json!(422), &json!("/recipients/0/email")));
    assert!(answers[2]["error"].as_str().is_some_and(|text| text.contains('7')), "{}", answers[2]);
    assert_eq!(answers[3]["status"], 400);
    assert_eq!(answers[4]["status"], 413);
    assert!(answers[4]["error"].as_str().is_some_and(|text| text.contains("request_body_limit")), "{}", answers[4]);
    assert_eq!((&answers[5]["status"], &answers[5]["pointer"]), (&json!(422), &json!("/content")));
    assert_eq!((&answers[6], &answers[7]), (&done(8, 0), &done(10, 1)), "what is made later is not counted");
    let mail = scratch.join("mail");
    let users: BTreeSet<&str> = ["ann", "bob", "cid", "dan", "eve"].into();
    until(LATER, "all of them", || users.iter().all(|user| mail.join(user).join("new").exists()).then_some(()));
    node.await_empty(LATER);
    assert!(!mail.join("x").exists(), "nothing is taken of a line that is wrong");
    assert_eq!(node.metric("total_messages_received{service=\"http_listener\"}"), 8.0);
    node.stop();
}

#[test]
fn what_is_no_stream_of_requests_is_refused_at_once() {
    let scratch = Scratch::new();
    let node = launch(&scratch).start();
    let body = line(&["ann@to.test"]).to_string();
    assert_eq!(http::send(node.http(), "POST", BULK, "application/json", &body).0, 415);
    let fields = [("Content-Type", NDJSON), ("Content-Encoding", "br")];
    assert_eq!(http::send_with(node.http(), "POST", BULK, &fields, body.as_bytes()).0, 415);
    let fields = [("Content-Type", NDJSON), ("Content-Encoding", "gzip")];
    let (status, text) = http::send_with(node.http(), "POST", BULK, &fields, body.as_bytes());
    let told = answers(&unchunked(&text));
    assert_eq!((status, told.len()), (200, 1), "{text}");
    assert_eq!((&told[0]["line"], &told[0]["status"], &told[0]["end"]), (&json!(1), &json!(400), &json!(true)));
    let fields = [("Content-Type", NDJSON), ("Authorization", "Basic YW5uOndyb25n")];
    assert_eq!(http::send_with(node.http(), "POST", BULK, &fields, body.as_bytes()).0, 401);
    assert_eq!(bulk(&node, ""), (200, Vec::new()));
    node.stop();
}

#[test]
fn clients_of_others_stream() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let node = relay(&scratch, &sink).start();
    let lines: String = (0..2000).map(|n| format!("{}\n", line(&[&format!("p{n}@to.test")]))).collect();
    let file = scratch.join("lines");
    std::fs::write(&file, &lines).expect("writes");
    let mut python = peers::script("bulk_client.py");
    python.arg(node.http().to_string()).arg(BULK).arg(&file);
    let told = run("bulk_client.py", python, LATER).success().stdout;
    assert!(told.starts_with("200 application/x-ndjson\n"), "{told}");
    let sums = |text: &str| answers(text).iter().filter_map(|answer| answer["success_count"].as_u64()).sum::<u64>();
    assert_eq!(sums(told.split_once('\n').expect("a status").1), 2000);
    let mut curl = Command::new("curl");
    curl.args(["-sS", "-N", "-H", "Expect:", "-H", "Content-Type: application/x-ndjson", "--data-binary"]);
    curl.arg(format!("@{}", file.display())).arg(format!("http://{}{BULK}", node.http()));
    assert_eq!(sums(&run("curl", curl, LATER).success().stdout), 2000);
    let arrived = sink.await_arrivals(4000, LATER);
    assert_eq!(arrived.len(), 4000);
    let mut gzip = Command::new("gzip");
    gzip.arg(&file);
    run("gzip", gzip, LATER).success();
    let mut curl = Command::new("curl");
    curl.args([
        "-sS",
        "-N",
        "-H",
        "Expect:",
        "-H",
        "Content-Type: application/x-ndjson",
        "-H",
        "Content-Encoding: gzip",
    ]);
    curl.arg("--data-binary").arg(format!("@{}.gz", file.display())).arg(format!("http://{}{BULK}", node.http()));
    assert_eq!(sums(&run("curl", curl, LATER).success().stdout), 2000);
    assert_eq!(sink.await_arrivals(6000, LATER).len(), 6000);
    let commits = node.metric("postrider_spool_commits");
    assert!(commits < 3000.0, "lines share commits: {commits} for 6000");
    node.stop();
}

#[test]
fn a_line_does_not_wait_for_the_next() {
    let scratch = Scratch::new();
    let node = launch(&scratch).start();
    let mut stream = Stream::open(&node);
    for number in 1..=3_u64 {
        stream.say(&format!("{}\n", line(&[&format!("u{number}@to.test")])));
        let answer = stream.hear().expect("an answer while the stream is open");
        assert_eq!((&answer["line"], &answer["success_count"]), (&json!(number), &json!(1)));
    }
    node.stop();
}

#[test]
fn a_line_for_more_recipients_than_a_commit_holds_has_one_answer() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let node = relay(&scratch, &sink).start();
    let emails: Vec<String> = (0..1000).map(|n| format!("u{n}@to.test")).collect();
    let emails: Vec<&str> = emails.iter().map(String::as_str).collect();
    let body = format!("{}\n{}\n", line(&emails), line(&["last@to.test"]));
    let (_, answers) = bulk(&node, &body);
    let counts: Vec<&Value> = answers.iter().map(|answer| &answer["success_count"]).collect();
    assert_eq!(counts, [1000, 1]);
    let all = sink.await_arrivals(1001, LATER);
    let distinct: BTreeSet<&String> = all.iter().flat_map(|arrival| &arrival.recipients).collect();
    assert_eq!((all.len(), distinct.len()), (1001, 1001));
    node.stop();
}

#[test]
fn who_reads_no_answers_is_not_read_from() {
    let scratch = Scratch::new();
    let node = launch(&scratch).start();
    let mut stream = Stream::open(&node);
    stream.socket.set_write_timeout(Some(Duration::from_secs(2))).expect("a time limit");
    // Answers that are long, for lines that are short: each for recipients who have no message.
    let many: Vec<String> = (0..60).map(|n| format!("no address {n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let text = format!("{}\n", line(&many)).repeat(100);
    let chunk = format!("{:x}\r\n{text}\r\n", text.len());
    let mut said = 0_u64;
    let refused = loop {
        match stream.socket.write_all(chunk.as_bytes()) {
            Ok(()) => said += 100,
            Err(error) => break error,
        }
        assert!(said < 1_000_000, "all of it is read though nobody hears the answers");
    };
    assert!(matches!(refused.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut), "{refused}");
    // Whoever hears them again goes on.
    let heard = (0..said / 2).map(|_| stream.hear().expect("an answer")).last().expect("some");
    assert_eq!(heard["line"], said / 2);
    node.stop();
}

#[test]
fn what_was_answered_is_queued_and_half_a_line_is_not() {
    let scratch = Scratch::new();
    let node = launch(&scratch).start();
    let mut stream = Stream::open(&node);
    stream.say(&format!("{}\n", line(&["ann@to.test"])));
    assert_eq!(stream.hear().expect("an answer")["success_count"], 1);
    // All of a line but its end: what follows may have been cut off.
    stream.say(&line(&["bob@to.test"]).to_string());
    drop(stream);
    until(LATER, "mail for ann", || scratch.join("mail/ann/new").exists().then_some(()));
    let mut next = Stream::open(&node);
    next.say(&format!("{}\n", line(&["cid@to.test"])));
    next.hear().expect("an answer");
    node.await_empty(LATER);
    assert!(!scratch.join("mail/bob").exists());
    node.stop();
}

#[test]
fn the_end_of_the_program_is_said() {
    let scratch = Scratch::new();
    let mut node = launch(&scratch).start();
    let mut stream = Stream::open(&node);
    stream.say(&format!("{}\n\n", line(&["ann@to.test"])));
    assert_eq!(stream.hear().expect("an answer")["success_count"], 1);
    node.process.signal(Signal::SIGTERM);
    let last = stream.hear().expect("a last answer");
    assert_eq!(last, json!({"line": 2, "status": 503, "error": "shutting down", "end": true}));
    assert_eq!(stream.hear(), None);
    node.process.finish(SOON).success();
}

#[test]
fn a_full_disk_is_said_and_nothing_is_half_taken() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let disk = e2e::mount::Tmpfs::mount(&scratch, "small", "size=64m");
    let node =
        relay(&scratch, &sink).env("RELAY_DIR", disk.path().join("relay")).env("RELAY_TO", "127.0.0.1:1").start();
    let mut stream = Stream::open(&node);
    let mut big = line(&["ann@to.test"]);
    big["content"] = json!(format!("Subject: big\r\n\r\n{}", "0123456789\r\n".repeat(40_000)));
    let (mut taken, mut refused) = (0_u64, None);
    for _ in 0..400 {
        stream.say(&format!("{big}\n"));
        let answer = stream.hear().expect("an answer");
        match answer["success_count"].as_u64() {
            Some(count) => taken += count,
            None => {
                refused = Some(answer);
                break;
            }
        }
    }
    let refused = refused.expect("the disk has an end");
    assert_eq!(refused["status"], 503, "{refused}");
    assert_eq!(node.metric("message_count"), taken as f64, "what was answered, and no more");
    // What comes then ends the stream, if this did not.
    if refused["end"] != true {
        let text = format!("{big}\n");
        let heard = until(LATER, "the end of the stream", || {
            // It may have ended meanwhile.
            write!(stream.socket, "{:x}\r\n{text}\r\n", text.len()).ok();
            stream.hear().filter(|answer| answer["end"] == true)
        });
        assert!(heard["error"].as_str().is_some_and(|why| why.contains("storage") || why.contains("spool")), "{heard}");
    }
    let (status, text) = http::send(node.http(), "POST", BULK, NDJSON, "");
    assert_eq!(status, 503, "{text}");
    drop(node);
}

#[test]
fn lines_are_taken_no_faster_than_they_may() {
    let scratch = Scratch::new();
    let node = launch(&scratch).env("INJECT_RATE", "10/s,max_burst=1").start();
    let began = std::time::Instant::now();
    let lines: String = (0..6).map(|n| format!("{}\n", line(&[&format!("u{n}@to.test")]))).collect();
    assert_eq!(bulk(&node, &lines).1.len(), 6);
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(480), "five waits of a tenth of a second took {took:?}");
    node.stop();
}

#[test]
fn every_answered_line_survives_a_kill() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let launch = relay(&scratch, &sink);
    let mut answered = BTreeSet::new();
    for round in 0..5 {
        let mut node = launch.start();
        let mut stream = Stream::open(&node);
        let mut writing = stream.socket.try_clone().expect("a second handle");
        let writer = std::thread::spawn(move || {
            for number in 1..=100_000_u64 {
                let text = format!("{}\n", line(&[&format!("r{round}n{number}@to.test")]));
                // The server dies on the way.
                if write!(writing, "{:x}\r\n{text}\r\n", text.len()).is_err() {
                    return;
                }
            }
        });
        for _ in 0..500 + 333 * round {
            let answer = stream.hear().expect("an answer");
            assert_eq!(answer["success_count"], 1, "{answer}");
            answered.insert(format!("r{round}n{}@to.test", answer["line"]));
        }
        node.process.kill();
        // What was on its way counts as well.
        let mut rest = String::new();
        let _: Result<usize, _> = stream.answers.read_to_string(&mut rest);
        let whole = rest.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        for answer in whole.filter(|answer| answer["success_count"] == 1) {
            answered.insert(format!("r{round}n{}@to.test", answer["line"]));
        }
        writer.join().expect("no panic");
    }
    let node = launch.start();
    node.await_recovered(LATER);
    node.await_empty(LATER);
    let missing = || {
        let arrived: BTreeSet<String> = sink.arrivals().into_iter().flat_map(|arrival| arrival.recipients).collect();
        answered.difference(&arrived).count()
    };
    until(SOON, &format!("all {} at the sink", answered.len()), || (missing() == 0).then_some(()));
    node.stop();
}

#[test]
fn only_so_many_streams_are_open_at_once() {
    let scratch = Scratch::new();
    let node = launch(&scratch).start();
    let streams: Vec<Stream> = (0..256).map(|_| Stream::open(&node)).collect();
    let (status, text) = http::send(node.http(), "POST", BULK, NDJSON, "");
    assert!(status == 503 && text.contains("256"), "{status} {text}");
    drop(streams);
    until(SOON, "room for another", || (http::send(node.http(), "POST", BULK, NDJSON, "").0 == 200).then_some(()));
    node.stop();
}
