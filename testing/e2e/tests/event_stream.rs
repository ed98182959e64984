//! Event streams: what a log's segments hold is posted in signed batches, or asked for with a cursor; nothing is missing whatever
//! the receiver does, and whoever is killed.

use e2e::event_receiver::{EventReceiver, SECRET};
use e2e::http;
use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::logs::Logs;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::traffic::Traffic;
use e2e::until::{LATER, SOON, until};
use e2e::wire::submit_until_cut;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A server, and where its mail goes.
struct Setup {
    scratch: Scratch,
    sink: Sink,
}

impl Setup {
    fn new() -> Setup {
        let scratch = Scratch::new();
        let sink = Sink::start(&scratch, "sink", &[]);
        scratch.write("streams", "");
        scratch.write("key", format!("{SECRET}\n"));
        Setup { scratch, sink }
    }

    /// A stream's options in Lua.
    fn stream(&self, name: &str, url: &str, more: &str) -> String {
        let key = self.scratch.join("key");
        format!("{{ name = '{name}', url = '{url}', secret = '{}', {more} }},", key.display())
    }

    /// The streams from now on, once the policy is read.
    fn streams(&self, streams: &[String]) {
        self.scratch.write("streams", streams.join("\n"));
    }

    fn launch(&self) -> Launch {
        Launch::policy(policy_file("event_stream.lua"))
            .env("EVENTS_DIR", self.scratch.path())
            .env("EVENTS_SINK", self.sink.address.to_string())
    }

    /// Mail of which each message leaves two records.
    fn send(&self, node: &Kumod, name: &str, count: usize) {
        Traffic::send(&self.scratch, name, node.smtp(), count, &[]);
        node.await_empty(LATER);
    }

    /// A receiver to which the stream `crm` has sent six records of three messages; the server is gone again.
    fn told_of_three(&self) -> EventReceiver {
        let receiver = EventReceiver::start(&self.scratch, "receiver", "ok");
        self.streams(&[self.stream("crm", &receiver.url(), SMALL)]);
        let node = self.launch().start();
        self.send(&node, "first", 3);
        receiver.await_records(6, LATER);
        node.stop();
        receiver
    }

    fn logged(&self) -> Vec<Value> {
        Logs::new(self.scratch.join("logs")).records()
    }
}

/// Small batches, soon; everything there is.
const SMALL: &str = "batch_size = 25, max_batch_latency = '100ms', timeout = '5s', from = 'start'";

fn pull(node: &Kumod, query: &str) -> Value {
    let (status, text) = http::get(node.http(), &format!("/api/admin/events/v1?{query}"));
    assert_eq!(status, 200, "{query}: {text}");
    serde_json::from_str(&text).expect("JSON")
}

fn events(answer: &Value) -> Vec<Value> {
    answer["events"].as_array().expect("a list").clone()
}

fn next(answer: &Value) -> String {
    answer["next"].as_str().expect("a cursor").to_owned()
}

#[test]
fn every_record_arrives_in_order_whatever_the_receiver_does() {
    let setup = Setup::new();
    let receiver = EventReceiver::start(&setup.scratch, "receiver", "500,hang,ok,cut,close,ok,move,503,ok,ok");
    setup.streams(&[setup.stream("crm", &receiver.url(), &format!("{SMALL}, headers = {{ ['X-Test'] = 'yes' }}"))]);
    let node = setup.launch().start();
    setup.send(&node, "traffic", 150);
    receiver.await_records(300, LATER);
    node.await_metric("postrider_event_stream_records_total{stream=\"crm\"}", 300.0, LATER);
    until(LATER, "level", || {
        (node.metric("postrider_event_stream_behind_seconds{stream=\"crm\"}") == 0.0).then_some(())
    });
    assert_eq!(node.metric("postrider_event_stream_failures_total{stream=\"crm\"}"), 6.0);
    assert_eq!(node.metric("postrider_event_stream_gaps_total{stream=\"crm\"}"), 0.0);
    node.stop();
    assert!(receiver.records() == setup.logged(), "all that was logged, in order");
    let requests = receiver.requests();
    let count = |became: &str| requests.iter().filter(|request| request["became"] == became).count();
    assert_eq!(["500", "hang", "cut", "close", "move", "503"].map(count), [1; 6]);
    assert!(requests.iter().all(|request| request["stream"] == "crm" && request["x"] == "yes"));
    assert!(requests.iter().all(|request| request["records"].as_array().is_some_and(|all| all.len() <= 25)));
    let checkpoint = fs::read_to_string(setup.scratch.join("logs/.event-stream-crm")).expect("a checkpoint");
    assert!(checkpoint.starts_with("{\"version\":1,\"file\":\"") && !checkpoint.contains("sending"), "{checkpoint}");
}

#[test]
fn whoever_is_killed_nothing_is_missing() {
    let setup = Setup::new();
    let slow = ["--pause", "1"];
    let mut receiver = EventReceiver::with(&setup.scratch, "receiver", &slow);
    setup.streams(&[setup.stream("crm", &receiver.url(), SMALL)]);
    let mut node = setup.launch().start();
    setup.send(&node, "first", 200);
    receiver.await_requests(3, LATER);
    node.process.kill();
    assert!(receiver.records().len() < 400, "it was killed under way");
    let node = setup.launch().start();
    receiver.await_requests(6, LATER);
    // Killed with a request in hand that it has written down and not answered.
    receiver.process.kill();
    let at = receiver.requests().len();
    let receiver = receiver.again(&setup.scratch, "receiver", "ok,hang");
    receiver.await_requests(at + 2, LATER);
    assert_eq!(receiver.requests().last().expect("a request")["became"], "hang");
    let receiver = receiver.again(&setup.scratch, "receiver", "");
    setup.send(&node, "second", 50);
    let all = receiver.await_records(500, LATER);
    node.stop();
    let logged = setup.logged();
    assert!(receiver.records() == logged, "{} came of {} that were logged", all.len(), logged.len());
}

/// Kills between any two steps of a message: what a client or a server was told of is in the log, and the stream tells it.
#[test]
fn whenever_it_is_killed_what_came_and_went_is_told() {
    let setup = Setup::new();
    let receiver = EventReceiver::start(&setup.scratch, "receiver", "");
    setup.streams(&[setup.stream("crm", &receiver.url(), SMALL)]);
    let mut accepted = Vec::new();
    for round in 0..KILLS {
        let mut node = setup.launch().start();
        let arrived = setup.sink.arrivals().len();
        let peer = node.smtp();
        let clients: Vec<_> =
            (0..3).map(|client| thread::spawn(move || submit_until_cut(peer, &format!("k{round}c{client}")))).collect();
        setup.sink.await_arrivals(arrived + 25, LATER);
        node.process.kill();
        clients.into_iter().for_each(|client| accepted.extend(client.join().expect("a client")));
    }
    let node = setup.launch().start();
    node.await_empty(LATER);
    node.stop();
    // All segments are complete, and read on.
    let logged = setup.logged();
    let node = setup.launch().start();
    receiver.await_records(logged.len(), LATER);
    node.stop();
    let heard = receiver.records();
    let differs = heard.iter().zip(&logged).position(|(heard, logged)| heard != logged);
    let around = differs.map(|at| (&heard[at..], &logged[at..]));
    let around = around.map(|(heard, logged)| [heard, logged].map(|some| some.iter().take(3).collect::<Vec<_>>()));
    assert!(heard == logged, "{} records of {}: {around:#?}", heard.len(), logged.len());
    let told = |kind: &str| -> BTreeSet<String> {
        let records = logged.iter().filter(|record| record["type"] == kind);
        records.map(|record| record["recipient"].as_str().expect("one").to_owned()).collect()
    };
    let (came, went) = (told("Reception"), told("Delivery"));
    let missing = |told: &BTreeSet<String>| accepted.iter().filter(|one| !told.contains(*one)).count();
    assert!(accepted.len() > 20 * KILLS, "{} were accepted", accepted.len());
    assert_eq!((missing(&came), missing(&went)), (0, 0), "of {} that were accepted", accepted.len());
    let arrivals = setup.sink.arrivals();
    let arrived: BTreeSet<_> = arrivals.iter().flat_map(|arrival| arrival.recipients.clone()).collect();
    let untold: Vec<_> = arrived.iter().filter(|one| !went.contains(*one)).collect();
    assert!(untold.is_empty(), "delivered, and no record says so: {untold:?}");
    // A kill may double deliveries, and no more than these.
    let deliveries = logged.iter().filter(|record| record["type"] == "Delivery").count();
    assert!(deliveries <= arrivals.len(), "{deliveries} records of {} deliveries", arrivals.len());
}

/// Times a server is killed.
const KILLS: usize = 8;

#[test]
fn a_replay_begins_at_its_time_and_has_the_types_that_are_wanted() {
    let setup = Setup::new();
    let node = setup.launch().start();
    setup.send(&node, "before", 5);
    node.stop();
    let seconds = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let time = setup.logged().iter().filter_map(|record| record["timestamp"].as_u64()).max().expect("records") + 1;
    until(SOON, "another second", || (seconds() >= time).then_some(()));
    let receiver = EventReceiver::start(&setup.scratch, "receiver", "");
    let text = time::OffsetDateTime::from_unix_timestamp(time as i64).expect("a time");
    let text = text.format(&time::format_description::well_known::Rfc3339).expect("a text");
    let more = format!("from = '{text}', types = {{ 'Delivery' }}, format = 'ndjson', max_batch_latency = '100ms'");
    setup.streams(&[setup.stream("replay", &receiver.url(), &more)]);
    let node = setup.launch().start();
    setup.send(&node, "behind", 7);
    let records = receiver.await_records(7, LATER);
    let answer = pull(&node, &format!("from={text}&types=Reception&wait=10"));
    node.stop();
    let late = |kind: &str| -> Vec<Value> {
        let logged = setup.logged().into_iter();
        logged.filter(|record| record["type"] == kind && record["timestamp"].as_u64() >= Some(time)).collect()
    };
    assert_eq!((records.len(), &records), (7, &late("Delivery")));
    assert_eq!(events(&answer), late("Reception"));
    assert!(setup.logged().len() == 24, "there were others before");
}

#[test]
fn a_cursor_outlives_restarts_and_segments_and_what_is_gone_is_said() {
    let setup = Setup::new();
    let node = setup.launch().start();
    let begin = pull(&node, "");
    assert_eq!(events(&begin), [Value::Null; 0], "from the end on");
    setup.send(&node, "first", 10);
    let mut seen = Vec::new();
    let mut cursor = next(&begin);
    let mut ask_until = |node: &Kumod, end: usize| {
        until(LATER, "events", || {
            let answer = pull(node, &format!("cursor={cursor}&limit=7&wait=5"));
            assert!(events(&answer).len() <= 7);
            seen.extend(events(&answer));
            cursor = next(&answer);
            (seen.len() >= end).then_some(())
        });
        (seen.clone(), cursor.clone())
    };
    ask_until(&node, 13);
    node.stop();
    let node = setup.launch().start();
    ask_until(&node, 20);
    // Into another segment, which the next record begins.
    setup.send(&node, "second", 10);
    let (seen, cursor) = ask_until(&node, 40);
    let asked = Instant::now();
    assert_eq!(events(&pull(&node, &format!("cursor={cursor}&wait=1"))), [Value::Null; 0]);
    assert!(asked.elapsed() >= Duration::from_secs(1), "it waited");
    node.stop();
    assert!(seen == setup.logged(), "{} of {}", seen.len(), setup.logged().len());

    // Retention removes what is finished; a cursor from before is told so.
    let node = setup.launch().env("EVENTS_LOGS", "retain_bytes = 0").start();
    until(SOON, "no segments", || setup.logged().is_empty().then_some(()));
    setup.send(&node, "third", 1);
    let (status, text) = until(LATER, "a new segment", || {
        let answer = http::get(node.http(), &format!("/api/admin/events/v1?cursor={}", next(&begin)));
        let gone = http::get(node.http(), &format!("/api/admin/events/v1?cursor={cursor}"));
        assert_eq!(answer.0, 200, "that of the empty log is before all: {}", answer.1);
        (gone.0 == 410).then_some(gone)
    });
    let gone: Value = serde_json::from_str(&text).expect("JSON");
    assert!(status == 410 && gone["error"].as_str().is_some_and(|text| text.contains("is gone")), "{gone}");
    let rest = pull(&node, &format!("cursor={}&wait=10", gone["oldest"].as_str().expect("a cursor")));
    assert_eq!(events(&rest)[0]["type"], "Reception", "{rest}");
    for (query, says) in [
        ("cursor=x", "invalid cursor"),
        ("limit=0", "invalid limit 0"),
        ("types=X", "invalid type"),
        ("log_dir=/etc", "expected one of those that are written"),
    ] {
        let (status, text) = http::get(node.http(), &format!("/api/admin/events/v1?{query}"));
        assert!(status == 422 && text.contains(says), "{query}: {status} {text}");
    }
    node.stop();
}

#[test]
fn strangers_are_told_nothing() {
    let setup = Setup::new();
    let node = setup.launch().env("EVENTS_HTTP", "trusted_hosts = { '192.0.2.1' }").start();
    let (status, text) = http::get(node.http(), "/api/admin/events/v1?from=start");
    assert_eq!(status, 401, "{text}");
    assert!(text.contains("not in trusted_hosts") && !text.contains("events\":"), "{text}");
    node.stop();
}

#[test]
fn a_segment_that_was_removed_is_said_and_the_rest_arrives() {
    let setup = Setup::new();
    let receiver = setup.told_of_three();
    let streams = fs::read_to_string(setup.scratch.join("streams")).expect("what told_of_three wrote");
    // The stream comes when the segment is gone: one that has it open has read it to its end, and misses nothing.
    setup.streams(&[]);
    let node = setup.launch().env("EVENTS_LOGS", "retain_bytes = 0").start();
    until(SOON, "no segments", || setup.logged().is_empty().then_some(()));
    setup.streams(&[streams]);
    assert_eq!(http::send(node.http(), "POST", "/api/admin/bump-config-epoch", "application/json", "").0, 200);
    setup.send(&node, "second", 3);
    node.process.await_stderr("the gap", LATER, |line| {
        (line.contains("event stream `crm`") && line.contains("was removed before it was read")).then_some(())
    });
    assert_eq!(node.metric("postrider_event_stream_gaps_total{stream=\"crm\"}"), 1.0);
    let all = receiver.await_records(12, LATER);
    node.stop();
    assert_eq!(&all[6..], setup.logged(), "all that is there");
}

#[test]
fn nothing_is_missing_when_the_clock_was_set_back() {
    let setup = Setup::new();
    let receiver = setup.told_of_three();
    // As if that had been written by a clock that was years ahead.
    let logs = setup.scratch.join("logs");
    let last = Logs::new(&logs).segments().pop().expect("a segment");
    fs::rename(last, logs.join("20991231-235959.000000000")).expect("renamed");
    setup.streams(&[setup.stream("again", &receiver.url(), SMALL)]);
    let node = setup.launch().start();
    receiver.await_records(12, LATER);
    setup.send(&node, "second", 3);
    let all = receiver.await_records(18, LATER);
    node.stop();
    assert_eq!(&all[12..], &setup.logged()[6..], "what came behind it");
}

#[test]
fn streams_follow_the_policy() {
    let setup = Setup::new();
    let (one, two) = (EventReceiver::start(&setup.scratch, "one", ""), EventReceiver::start(&setup.scratch, "two", ""));
    let streams = [setup.stream("one", &one.url(), SMALL), setup.stream("two", &two.url(), SMALL)];
    setup.streams(&streams[..1]);
    let node = setup.launch().start();
    let bump = || http::send(node.http(), "POST", "/api/admin/bump-config-epoch", "application/json", "");
    let begun = |name: &str| node.process.stderr().matches(&format!("event stream `{name}`: begins")).count();
    setup.send(&node, "first", 5);
    one.await_records(10, LATER);
    setup.streams(&streams);
    assert_eq!(bump().0, 200);
    two.await_records(10, LATER);
    assert_eq!((begun("one"), begun("two")), (1, 1), "the first went on undisturbed");
    // One that is wrong changes nothing.
    setup.streams(&[setup.stream("two", "ftp://a.test/", "")]);
    let (status, text) = bump();
    assert!(status == 500 && text.contains("invalid url \"ftp://a.test/\""), "{status} {text}");
    setup.send(&node, "second", 5);
    one.await_records(20, LATER);
    two.await_records(20, LATER);
    // One goes, the other has another receiver and goes on where it was.
    let three = EventReceiver::start(&setup.scratch, "three", "");
    setup.streams(&[setup.stream("two", &three.url(), SMALL)]);
    assert_eq!(bump().0, 200);
    setup.send(&node, "third", 5);
    three.await_records(10, LATER);
    node.stop();
    assert_eq!((one.records().len(), two.records().len()), (20, 20));
    assert!(three.records() == setup.logged()[20..], "what two did not take");
}

#[test]
fn a_receiver_that_hangs_holds_up_neither_mail_nor_the_end() {
    let setup = Setup::new();
    let receiver = EventReceiver::start(&setup.scratch, "receiver", "hang,hang");
    setup.streams(&[setup.stream(
        "crm",
        &receiver.url(),
        "from = 'start', timeout = '10m', max_batch_latency = '100ms'",
    )]);
    let mut node = setup.launch().start();
    setup.send(&node, "mail", 20);
    receiver.await_requests(1, LATER);
    let begun = Instant::now();
    node.process.signal(Signal::SIGTERM);
    node.process.finish(SOON).success();
    assert!(begun.elapsed() < Duration::from_secs(10), "it ended after {:?}", begun.elapsed());
    // The same batch comes again.
    let node = setup.launch().start();
    receiver.await_requests(2, LATER);
    let requests = receiver.requests();
    assert_eq!(requests[0]["batch"], requests[1]["batch"]);
    assert_eq!(requests[0]["records"], requests[1]["records"]);
    drop(node);
}

#[test]
fn a_policy_is_checked_and_says_what_streams_do() {
    let setup = Setup::new();
    let check = |stream: &str| {
        setup.scratch.write("streams", stream);
        setup.launch().arg("--validate").run()
    };
    let good = check(
        "{ name = 'crm', url = 'https://a.test/in', secret = { key_data = 's3cret' }, headers = { Authorization = 'Bearer t0ken' } }",
    );
    let text = good.success().stdout;
    assert!(
        text.contains("kumo.configure_event_stream `crm`: ") && text.contains("posted to https://a.test\n"),
        "{text}"
    );
    assert!(
        text.contains("\"Authorization\":\"(given)\"") && !text.contains("s3cret") && !text.contains("t0ken"),
        "{text}"
    );
    let elsewhere = check("{ name = 'crm', url = 'https://a.test/in', suffix = '-none' }").success().stdout;
    assert!(elsewhere.contains("warning: configure_event_stream `crm`: no logger writes to"), "{elsewhere}");
    for (stream, says) in [
        ("{ name = 'a', url = 'https://a.test/', urll = 'x' }", "urll"),
        ("{ name = 'a/b', url = 'https://a.test/' }", "invalid name \"a/b\""),
        ("{ name = 'a', url = 'a.test' }", "invalid url \"a.test\": expected http://HOST"),
        ("{ name = 'a', url = 'https://a.test/', timeout = 'soon' }", "soon"),
        ("{ name = 'a', url = 'https://a.test/', types = { 'Sent' } }", "Sent"),
        ("{ name = 'a', url = 'https://a.test/', secret = '/nowhere' }", "secret: cannot read `/nowhere`"),
        ("{ name = 'a', url = 'https://a.test/', headers = { ['Postrider-Cursor'] = 'x' } }", "Postrider-Cursor"),
        ("{ name = 'a', url = 'https://a.test/' }, { name = 'a', url = 'https://b.test/' }", "configured before"),
    ] {
        let refused = check(stream);
        assert!(!refused.status.success() && refused.stderr.contains(says), "{stream}: {}", refused.stderr);
    }
}

/// Prints how fast a log is read and posted, and what of the processor it takes.
#[test]
fn throughput() {
    const RECORDS: usize = 200_000;
    let setup = Setup::new();
    let node = setup.launch().start();
    setup.send(&node, "one", 1);
    node.stop();
    let delivery = setup.logged().into_iter().find(|record| record["type"] == "Delivery").expect("logged");
    fs::remove_dir_all(setup.scratch.join("logs")).expect("removed");
    let dir = setup.scratch.folder("logs");
    let line = format!("{delivery}\n");
    for part in 0..4 {
        segment(&dir.join(format!("20261125-03000{part}.000000000")), &line.repeat(RECORDS / 4));
    }
    let receiver = EventReceiver::with(&setup.scratch, "receiver", &["--count"]);
    setup.streams(&[setup.stream("bench", &receiver.url(), "from = 'start'")]);
    let begun = Instant::now();
    let node = setup.launch().start();
    until(Duration::from_secs(300), "all records", || (receiver.count() >= RECORDS as u64).then_some(()));
    let took = begun.elapsed();
    let cpu = thread_cpu(node.process.pid(), "event stream");
    println!(
        "{RECORDS} records of {} octets: {:.0} records/s from the start of the program on, {:.2} us of CPU a record (thread `event stream`)",
        line.len() - 1,
        RECORDS as f64 / took.as_secs_f64(),
        cpu.as_secs_f64() * 1e6 / RECORDS as f64
    );
    node.stop();
    assert_eq!(receiver.count(), RECORDS as u64, "each once");
}

/// A segment that is over.
fn segment(path: &Path, text: &str) {
    fs::write(path, zstd::encode_all(text.as_bytes(), 3).expect("encodes")).expect("writes");
    fs::set_permissions(path, fs::Permissions::from_mode(0o444)).expect("read-only");
}

/// What a thread took of the processor, in ticks of a hundredth of a second.
fn thread_cpu(pid: u32, name: &str) -> Duration {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("threads");
    let stats = threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("stat")).ok());
    let ticks = stats.filter_map(|stat| {
        let (head, rest) = stat.split_once(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        head.ends_with(&format!("({name}"))
            .then(|| fields[11].parse::<u64>().ok()?.checked_add(fields[12].parse().ok()?))?
    });
    Duration::from_millis(ticks.sum::<u64>() * 10)
}

#[test]
fn what_is_not_json_is_passed_over_and_counted() {
    let setup = Setup::new();
    let receiver = EventReceiver::start(&setup.scratch, "receiver", "");
    setup.streams(&[setup.stream("crm", &receiver.url(), SMALL)]);
    let template = "per_record = { Reception = { template = 'came in' }, Any = {} }";
    let node = setup.launch().env("EVENTS_LOGS", template).start();
    setup.send(&node, "mail", 3);
    let records = receiver.await_records(3, LATER);
    node.await_metric("postrider_event_stream_gaps_total{stream=\"crm\"}", 3.0, LATER);
    assert!(records.iter().all(|record| record["type"] == "Delivery"), "{records:?}");
    let answer = pull(&node, "from=start&wait=5");
    assert_eq!((&answer["skipped"], events(&answer).len()), (&json!(3), 3));
    node.stop();
}
