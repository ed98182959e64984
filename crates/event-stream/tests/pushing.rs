//! Streams over real files and a receiver of a few lines: what a batch is after a crash, and what stopping leaves.

use config::EventStream;
use event_stream::EventStreams;
use net::tls::Connectors;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use telemetry::Metrics;

/// A request: batch id and body.
type Posted = (String, Value);

/// Takes what is posted with the answers given, then with 200.
fn receiver(answers: &'static [&'static str]) -> (SocketAddr, Receiver<Posted>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (sender, posted) = channel();
    std::thread::spawn(move || {
        let mut answers = answers.iter();
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.expect("a connection"));
            if sender.send(request(&mut reader)).is_err() {
                return;
            }
            let status = answers.next().copied().unwrap_or("200 OK");
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            // Whoever asked may have gone.
            _ = reader.get_mut().write_all(answer.as_bytes());
        }
    });
    (address, posted)
}

fn request(reader: &mut BufReader<TcpStream>) -> Posted {
    let (mut length, mut id) = (0, String::new());
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a line");
        match line.trim_end().split_once(": ").map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())) {
            Some((name, value)) if name == "content-length" => length = value.parse().expect("a number"),
            Some((name, value)) if name == "postrider-batch-id" => id = value,
            None if line.trim_end().is_empty() => break,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    (id, serde_json::from_slice(&body).expect("JSON"))
}

fn segment(dir: &Path, name: &str, numbers: std::ops::Range<u32>) {
    let text: String = numbers.map(|n| format!("{{\"n\":{n}}}\n")).collect();
    fs::write(dir.join(name), zstd::encode_all(text.as_bytes(), 1).expect("encodes")).expect("writes");
    fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o444)).expect("read-only");
}

fn options(dir: &Path, to: SocketAddr, more: &Value) -> EventStream {
    let mut options = json!({"name": "s", "log_dir": dir, "url": format!("http://{to}/"), "from": "start", "max_batch_latency": "10ms"});
    options.as_object_mut().expect("a table").extend(more.as_object().expect("a table").clone());
    config::parse("kumo.configure_event_stream", options).expect("sound")
}

fn start(options: &EventStream) -> EventStreams {
    let connectors = Connectors::new(None).expect("TLS");
    let streams = EventStreams::new(Metrics::new().expect("a registry"), connectors);
    let change = streams.prepare(std::slice::from_ref(options), &[]).expect("sound");
    streams.change(change);
    streams
}

fn numbers(body: &Value) -> Vec<u64> {
    body.as_array().expect("a list").iter().map(|record| record["n"].as_u64().expect("a number")).collect()
}

const PATIENCE: Duration = Duration::from_secs(20);
const FIRST: &str = "20261125-030000.000000001";
const SECOND: &str = "20261125-030000.000000002";

#[test]
fn after_a_crash_the_batch_in_hand_comes_again_as_it_was() {
    for (batch_size, expected) in [
        (5, vec![vec![1, 2, 3, 4], vec![5, 6, 7, 8]]),
        // Somebody has made batches smaller, as they were too large for the receiver.
        (3, vec![vec![1, 2, 3], vec![4, 5, 6], vec![7, 8]]),
    ] {
        let dir = tempfile::tempdir().expect("scratch");
        segment(dir.path(), FIRST, 0..3);
        segment(dir.path(), SECOND, 3..9);
        let checkpoint = dir.path().join(".event-stream-s");
        let text = json!({"version": 1, "file": FIRST, "line": 1, "sending": {"file": SECOND, "line": 2}});
        fs::write(&checkpoint, text.to_string()).expect("written");
        let (to, posted) = receiver(&[]);
        let streams = start(&options(dir.path(), to, &json!({"batch_size": batch_size})));
        let taken = || numbers(&posted.recv_timeout(PATIENCE).expect("a batch").1);
        let bodies: Vec<Vec<u64>> = expected.iter().map(|_| taken()).collect();
        assert_eq!(bodies, expected);
        streams.close();
        assert_eq!(
            fs::read_to_string(&checkpoint).expect("there"),
            format!("{{\"version\":1,\"file\":\"{SECOND}\",\"line\":6}}\n")
        );
    }
}

#[test]
fn a_batch_that_was_not_taken_comes_again_and_one_that_was_does_not() {
    let dir = tempfile::tempdir().expect("scratch");
    segment(dir.path(), FIRST, 0..2);
    let (to, posted) = receiver(&["200 OK", "500 No", "204 Yes"]);
    let options = options(dir.path(), to, &json!({"batch_size": 1}));
    let streams = start(&options);
    let all: Vec<Posted> = (0..3).map(|_| posted.recv_timeout(PATIENCE).expect("a batch")).collect();
    assert_eq!(all.iter().map(|(_, body)| numbers(body)[0]).collect::<Vec<_>>(), [0, 1, 1]);
    assert!(all[0].0 != all[1].0 && all[1] == all[2], "{all:?}");
    streams.close();
    segment(dir.path(), SECOND, 2..3);
    let streams = start(&options);
    assert_eq!(numbers(&posted.recv_timeout(PATIENCE).expect("a batch").1), [2], "where it was");
    streams.close();
}

#[test]
fn a_replay_that_is_cut_off_goes_on_as_it_was() {
    let dir = tempfile::tempdir().expect("scratch");
    let line = |n: u32, time: u32| format!("{{\"n\":{n},\"timestamp\":{time}}}\n");
    let text: String = [(0, 10), (1, 20), (2, 10), (3, 30)].into_iter().map(|(n, time)| line(n, time)).collect();
    fs::write(dir.path().join(FIRST), zstd::encode_all(text.as_bytes(), 1).expect("encodes")).expect("writes");
    let (to, posted) = receiver(&["500 No"]);
    let options = options(dir.path(), to, &json!({"from": "1970-01-01T00:00:20Z", "batch_size": 2}));
    let streams = start(&options);
    let first = posted.recv_timeout(PATIENCE).expect("a batch");
    streams.close();
    let streams = start(&options);
    let again = posted.recv_timeout(PATIENCE).expect("a batch");
    assert_eq!((numbers(&first.1), &first), (vec![1, 2], &again), "nothing of before its time");
    assert_eq!(numbers(&posted.recv_timeout(PATIENCE).expect("a batch").1), [3]);
    streams.close();
}

#[test]
fn the_end_where_a_stream_began_is_remembered() {
    let dir = tempfile::tempdir().expect("scratch");
    segment(dir.path(), FIRST, 0..2);
    let (to, posted) = receiver(&[]);
    let options = options(dir.path(), to, &json!({"from": "end"}));
    start(&options).close();
    // Not running it sees nothing of this.
    segment(dir.path(), SECOND, 2..4);
    let streams = start(&options);
    assert_eq!(numbers(&posted.recv_timeout(PATIENCE).expect("a batch").1), [2, 3]);
    streams.close();
}

#[test]
fn what_cannot_work_is_said_beforehand_and_changes_nothing() {
    let dir = tempfile::tempdir().expect("scratch");
    let (to, _posted) = receiver(&[]);
    let good = options(dir.path(), to, &json!({}));
    let streams = start(&good);
    fs::write(dir.path().join(".event-stream-bad"), "{}").expect("written");
    for (more, says) in [
        (json!({"log_dir": "/nowhere/at/all"}), "log_dir `/nowhere/at/all`: expected a directory"),
        (json!({"checkpoint_dir": "/nowhere/at/all"}), "checkpoint_dir `/nowhere/at/all`"),
        (json!({"name": "bad"}), "/.event-stream-bad`: "),
        (json!({"secret": "/nowhere/at/all"}), "cannot read `/nowhere/at/all`"),
    ] {
        let wrong = options(dir.path(), to, &more);
        let error = streams.prepare(&[good.clone(), wrong], &[]).err().expect("refused");
        assert!(error.starts_with("kumo.configure_event_stream `") && error.contains(says), "{error}");
    }
    streams.close();
}
