//! Log hooks whose broker is killed and comes back while mail flows, or whose relay is: every record of every message that was
//! accepted is with the broker in the end, and mail waits for nobody. And what a record costs that goes in large batches.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use e2e::event_receiver::EventReceiver;
use e2e::http;
use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::ledger;
use e2e::logs::Logs;
use e2e::nats::RunningNats;
use e2e::port::free_port;
use e2e::rabbitmq::RunningRabbit;
use e2e::redis::RunningRedis;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::traffic::Traffic;
use e2e::until::{LATER, SOON, until};
use e2e::web_server::WebServer;
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

const SUSPEND: &str = "/api/admin/suspend/v1";
/// Where records wait.
const QUEUE: &str = "events.log_hook";

/// A broker that can be killed.
trait Broker {
    /// As the policy calls it, and where it is.
    fn place(&self) -> (&'static str, SocketAddr);
    fn kill(&mut self);
    /// On the same port, with what it had.
    fn come_back(&mut self, scratch: &Scratch);
    /// All that it has, in the order in which it came.
    fn lines(&self) -> Vec<String>;
}

impl Broker for RunningRabbit {
    fn place(&self) -> (&'static str, SocketAddr) {
        ("amqp", self.address)
    }

    fn kill(&mut self) {
        self.process.kill();
    }

    fn come_back(&mut self, _: &Scratch) {
        self.start_again();
    }

    fn lines(&self) -> Vec<String> {
        self.take("events").iter().map(payload).collect()
    }
}

impl Broker for RunningNats {
    fn place(&self) -> (&'static str, SocketAddr) {
        ("nats", self.address)
    }

    fn kill(&mut self) {
        self.process.kill();
    }

    fn come_back(&mut self, scratch: &Scratch) {
        *self = RunningNats::start_on(scratch, self.address);
    }

    fn lines(&self) -> Vec<String> {
        self.read("EVENTS").iter().map(payload).collect()
    }
}

impl Broker for RunningRedis {
    fn place(&self) -> (&'static str, SocketAddr) {
        ("redis", self.address)
    }

    fn kill(&mut self) {
        self.process.kill();
    }

    fn come_back(&mut self, scratch: &Scratch) {
        *self = RunningRedis::start_kept(scratch, self.address);
    }

    /// Of an entry there are three lines, and one for the end of the record's: its id, the field's name, the record.
    fn lines(&self) -> Vec<String> {
        let stream = self.ask(&["XRANGE", "events", "-", "+"]);
        stream.lines().filter(|line| line.starts_with('{')).map(str::to_owned).collect()
    }
}

impl Broker for WebServer {
    fn place(&self) -> (&'static str, SocketAddr) {
        ("webhook", self.http)
    }

    fn kill(&mut self) {
        self.process.kill();
    }

    fn come_back(&mut self, scratch: &Scratch) {
        *self = WebServer::start_on(scratch, self.http.port());
    }

    fn lines(&self) -> Vec<String> {
        self.posted().iter().flat_map(|(_, text)| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
    }
}

/// The payload of a message that a peer has written down.
fn payload(message: &Value) -> String {
    let octets = BASE64_STANDARD.decode(message["payload"].as_str().expect("base64")).expect("base64");
    String::from_utf8(octets).expect("text")
}

/// A relay whose hook has a broker, and where its mail goes.
struct Stage {
    scratch: Scratch,
    sink: Sink,
}

impl Stage {
    fn new() -> Stage {
        let scratch = Scratch::new();
        let sink = Sink::start(&scratch, "sink", &[]);
        Stage { scratch, sink }
    }

    fn launch(&self) -> Launch {
        Launch::policy(policy_file("broker_outages.lua"))
            .env("OUTAGE_DIR", self.scratch.join("relay"))
            .env("OUTAGE_SINK", self.sink.address.to_string())
            .env("OUTAGE_LISTEN", format!("127.0.0.1:{}", free_port()))
    }

    fn with(&self, broker: &dyn Broker) -> Launch {
        let (kind, at) = broker.place();
        self.launch().env("OUTAGE_KIND", kind).env("OUTAGE_AT", at.to_string())
    }

    /// Mail that does not end by itself.
    fn flow(&self, node: &Kumod) -> Traffic {
        let options = ["--duration", "10m", "--throttle", "20/s", "--concurrency", "2", "--reconnect-forever"];
        Traffic::start(&self.scratch, "flow", node.smtp(), &options)
    }

    /// Messages accepted, and those delivered.
    fn counts(&self) -> [usize; 2] {
        [ledger::acknowledged(&self.scratch.join("flow.ledger")).len(), self.sink.arrivals().len()]
    }

    /// Waits until so many more were accepted, and so many delivered.
    fn await_more(&self, count: usize, when: &str) {
        let before = self.counts();
        until(LATER, &format!("mail {when}"), || {
            let now = self.counts();
            (now[0] >= before[0] + count && now[1] >= before[1] + count).then_some(())
        });
    }

    /// What the relay's logs say of records that the broker did not take at once: whose they are, and which.
    fn put_off(&self) -> BTreeSet<Name> {
        let failed = Logs::new(self.scratch.join("relay/logs")).of_type("TransientFailure").into_iter();
        failed.map(|failure| name_of(&failure["meta"]["log_record"])).collect()
    }
}

/// The id that the generator gave a record's message, and its type.
type Name = (String, String);

fn name_of(record: &Value) -> Name {
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{record}")).to_owned();
    (text(&record["headers"]["X-Postrider-Id"]), text(&record["type"]))
}

/// What a broker was told: of each record where it first came, and when its event was.
struct Told(HashMap<Name, (usize, OffsetDateTime)>);

impl Told {
    fn of(broker: &dyn Broker) -> Told {
        let mut told = HashMap::new();
        for (place, line) in broker.lines().iter().enumerate() {
            let record: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            let time = OffsetDateTime::parse(record["event_time"].as_str().expect("a text"), &Rfc3339).expect("a time");
            told.entry(name_of(&record)).or_insert((place, time));
        }
        Told(told)
    }

    /// Records of which nothing came.
    fn missing<'a>(&self, names: impl IntoIterator<Item = &'a Name>) -> Vec<&'a Name> {
        names.into_iter().filter(|name| !self.0.contains_key(*name)).collect()
    }

    /// Messages that came and went in another order than that, by this measure.
    fn overtaken<'a, T: PartialOrd>(
        &self,
        ids: &'a [String],
        measure: impl Fn(&(usize, OffsetDateTime)) -> T,
    ) -> Vec<&'a String> {
        let of = |id: &str, kind: &str| self.0.get(&(id.to_owned(), kind.to_owned())).map(&measure);
        ids.iter().filter(|id| of(id, "Delivery") < of(id, "Reception")).collect()
    }
}

/// What is to be told of messages.
fn names(ids: &[String]) -> Vec<Name> {
    ids.iter().flat_map(|id| ["Reception", "Delivery"].map(|kind| (id.clone(), kind.to_owned()))).collect()
}

const NOTHING: Name = (String::new(), String::new());
/// Of records that the hook's broker took, and of attempts that failed.
const TAKEN: &str = "total_messages_delivered{service=\"lua\"}";
const FAILED: &str = "total_messages_transfail{service=\"lua\"}";

/// The broker is killed in the middle of the stream, and comes back.
fn survives(stage: &Stage, broker: &mut dyn Broker) {
    let node = stage.with(broker).start();
    let flow = stage.flow(&node);
    node.await_metric(TAKEN, 60.0, LATER);
    broker.kill();
    node.await_metric(FAILED, 10.0, LATER);
    let taken = node.metric(TAKEN);
    stage.await_more(60, "while nobody takes records");
    assert_eq!(node.metric(TAKEN), taken, "there is no broker");
    broker.come_back(&stage.scratch);
    stage.await_more(20, "behind the outage");
    let ids = flow.stop();
    drained(&node, 2.0 * ids.len() as f64);
    node.await_empty(LATER);
    let arrivals = stage.sink.await_arrivals(ids.len(), SOON);
    node.stop();

    assert_eq!(ledger::balance(&ids, &arrivals).lost, [""; 0], "of {} messages", ids.len());
    let (told, put_off, names) = (Told::of(broker), stage.put_off(), names(&ids));
    assert!(put_off.len() >= 10, "{put_off:?}");
    assert_eq!(told.missing(&names), [&NOTHING; 0], "of {} messages", ids.len());
    assert_eq!(told.overtaken(&ids, |(_, time)| *time), [""; 0], "times say what came first");
    let at_once: Vec<String> = ids.iter().filter(|id| !put_off.iter().any(|(late, _)| late == *id)).cloned().collect();
    assert!(at_once.len() >= 10, "{at_once:?}");
    assert_eq!(told.overtaken(&at_once, |(place, _)| *place), [""; 0], "none of their records was put off");
}

/// So many records were taken; as long as some are it is waited for the others.
fn drained(node: &Kumod, records: f64) {
    let mut taken = node.metric(TAKEN);
    while taken < records {
        taken = until(LATER, "more records", || Some(node.metric(TAKEN)).filter(|now| *now > taken));
    }
}

#[test]
fn rabbitmq_is_told_everything_once_it_is_back() {
    let stage = Stage::new();
    let mut rabbit = RunningRabbit::start(&stage.scratch, None);
    rabbit.declare("events", None);
    survives(&stage, &mut rabbit);
}

#[test]
fn jetstream_is_told_everything_once_it_is_back() {
    let stage = Stage::new();
    let mut nats = RunningNats::start(&stage.scratch);
    nats.stream("EVENTS", "events");
    survives(&stage, &mut nats);
}

#[test]
fn redis_is_told_everything_once_it_is_back() {
    let stage = Stage::new();
    let mut redis = RunningRedis::start_kept(&stage.scratch, SocketAddr::from(([127, 0, 0, 1], free_port())));
    survives(&stage, &mut redis);
}

#[test]
fn a_web_server_is_told_everything_once_it_is_back() {
    let stage = Stage::new();
    let mut web = WebServer::start_on(&stage.scratch, free_port());
    survives(&stage, &mut web);
}

#[test]
fn what_waits_for_a_broker_outlives_the_relay() {
    let stage = Stage::new();
    let mut redis = RunningRedis::start_kept(&stage.scratch, SocketAddr::from(([127, 0, 0, 1], free_port())));
    let launch = stage.with(&redis);
    let mut node = launch.start();
    let flow = stage.flow(&node);
    node.await_metric(TAKEN, 20.0, LATER);
    redis.process.kill();
    until(LATER, "records that wait", || (stage.put_off().len() >= 60).then_some(()));
    stage.await_more(5, "while nobody takes records");
    node.process.kill();
    let waiting = stage.put_off();
    let node = launch.start();
    stage.await_more(20, "of the next life");
    redis.come_back(&stage.scratch);
    let ids = flow.stop();
    let later = Traffic::send(&stage.scratch, "later", node.smtp(), 20, &[]);
    until(LATER, "what waited, and what came later", || {
        let told = Told::of(&redis);
        (told.missing(&waiting).is_empty() && told.missing(&names(&later)).is_empty()).then_some(())
    });
    node.await_empty(LATER);
    // What the kill doubles counts once.
    until(SOON, "all that was accepted", || {
        ledger::balance(&ids, &stage.sink.arrivals()).lost.is_empty().then_some(())
    });
    node.stop();
    // A crash loses records that were not queued yet: few, since they become durable as fast as mail does.
    let (lost, all) = (Told::of(&redis).missing(&names(&ids)).len(), 2 * ids.len());
    println!("{} records waited when the relay was killed; {lost} of {all} are lost", waiting.len());
}

/// Prints what telling of mail costs that is told of in large batches.
#[test]
fn throughput() {
    const MESSAGES: usize = 2_000;
    let stage = Stage::new();
    let receiver = EventReceiver::with(&stage.scratch, "receiver", &["--count"]);
    let relay = |name: &str, launch: Launch, records: u64| {
        let node = launch.env("OUTAGE_DIR", stage.scratch.join(name)).start();
        let before = cpu_of(&node);
        let begun = Instant::now();
        Traffic::send(&stage.scratch, &format!("{name}-flow"), node.smtp(), MESSAGES, &[]);
        until(LATER, "all records", || (receiver.count() >= records).then_some(()));
        node.await_empty(LATER);
        let taken = (begun.elapsed(), cpu_of(&node) - before);
        node.stop();
        taken
    };
    let launch = stage.launch().env("OUTAGE_BATCH", "1000");
    let (_, without) = relay("without", launch.clone(), 0);
    let hooked = launch.env("OUTAGE_KIND", "webhook").env("OUTAGE_AT", receiver.address.to_string());
    let records = 2 * MESSAGES;
    let (took, with) = relay("with", hooked, records as u64);
    assert!(receiver.count() >= records as u64, "each at least once");
    let micros = |time: Duration| time.as_secs_f64() * 1e6 / records as f64;
    println!(
        "{records} records of {MESSAGES} messages in {:.0} requests: {:.0} records/s, {:.1} us of the relay's CPU a record ({:.1} with its share of the mail, {:.1} without a hook)",
        requests(&stage.scratch.join("with/logs")),
        records as f64 / took.as_secs_f64(),
        micros(with) - micros(without),
        micros(with),
        micros(without)
    );
}

/// Prints how fast what has piled up goes once its receiver takes it, over several connections.
#[test]
fn draining() {
    const MESSAGES: usize = 10_000;
    let stage = Stage::new();
    let receiver = EventReceiver::with(&stage.scratch, "receiver", &["--count"]);
    let launch = stage.launch().env("OUTAGE_BATCH", "1000").env("OUTAGE_CONNECTIONS", "4");
    let node = launch.env("OUTAGE_KIND", "webhook").env("OUTAGE_AT", receiver.address.to_string()).start();
    let held = http::json(node.http(), "POST", SUSPEND, &json!({"domain": QUEUE, "reason": "piling up"}));
    Traffic::send(&stage.scratch, "flow", node.smtp(), MESSAGES, &[]);
    let records = 2 * MESSAGES as u64;
    node.await_metric(&format!("scheduled_count{{queue=\"{QUEUE}\"}}"), records as f64, LATER);
    assert_eq!(receiver.count(), 0, "it is suspended");
    let before = cpu_of(&node);
    let begun = Instant::now();
    let (status, answer) =
        http::send(node.http(), "DELETE", SUSPEND, "application/json", &json!({"id": held["id"]}).to_string());
    assert_eq!(status, 200, "{answer}");
    until(LATER, "all records", || (receiver.count() >= records).then_some(()));
    let took = begun.elapsed();
    node.await_empty(LATER);
    let cpu = cpu_of(&node) - before;
    node.stop();
    println!(
        "{records} records that waited: {:.0} records/s, {:.1} us of the relay's CPU a record",
        records as f64 / took.as_secs_f64(),
        cpu.as_secs_f64() * 1e6 / records as f64
    );
}

/// How many lists records went in: each is logged with the length of its list.
fn requests(logs: &Path) -> f64 {
    let delivered =
        Logs::new(logs).of_type("Delivery").into_iter().filter(|record| record["delivery_protocol"] == "Lua");
    let length = |record: Value| record["response"]["content"].as_str().and_then(|text| text.parse::<f64>().ok());
    delivered.map(|record| 1.0 / length(record).expect("a length")).sum()
}

/// What a process took of the processor so far, in ticks of a hundredth of a second.
fn cpu_of(node: &Kumod) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{}/stat", node.process.pid())).expect("it runs");
    let (_, rest) = stat.split_once(") ").expect("behind its name");
    let ticks = rest.split(' ').skip(11).take(2).map(|field| field.parse::<u64>().expect("ticks"));
    Duration::from_millis(ticks.sum::<u64>() * 10)
}
