//! A server that is killed with SIGKILL while an operator asks something of it, and started again on the same disk.
//!
//! The moments of death are chosen ([`Moment`]): `preload/killed.c` kills the server beside the rename that makes an order stand, or when
//! it is about to answer; the others come from here. In: a request and a moment. Out: what was heard of it, and a server that serves again.

use crate::http;
use crate::kumod::{Kumod, Launch};
use crate::logs::Logs;
use crate::preload;
use crate::scratch::Scratch;
use crate::until::{LATER, SOON, until};
use crate::wire::Client;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;

/// When the server is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Before the list that the order changes has its name: the order is nowhere.
    BeforeDisk,
    /// When it has, and nobody was told: the order is on disk alone.
    OnDisk,
    /// When the answer is there.
    Answered,
    /// When something of it was done as well.
    Underway,
    /// When the request is written and nothing is known of what becomes of it.
    Asked,
    /// When all was done and the answer is about to be written.
    Unheard,
}

/// Those of a request that changes the list of orders. The last leaves the order whole to the process that is not killed any more.
pub const MOMENTS: [Moment; 4] = [Moment::BeforeDisk, Moment::Answered, Moment::Underway, Moment::OnDisk];

impl Moment {
    /// What tells `preload/killed.c`.
    fn switch(self) -> &'static str {
        match self {
            Moment::BeforeDisk => "b",
            Moment::OnDisk => "a",
            Moment::Unheard => "w",
            Moment::Answered | Moment::Underway | Moment::Asked => NEVER,
        }
    }

    /// Who asked has heard of it.
    pub fn is_after_the_answer(self) -> bool {
        matches!(self, Moment::Answered | Moment::Underway)
    }
}

/// What came of a request that was cut short.
#[derive(Debug)]
pub struct Killed {
    /// When it was to be killed.
    pub moment: Moment,
    /// The JSON or text of a whole answer with 200.
    pub answer: Option<Value>,
    /// There was a whole answer, whatever it said.
    pub is_answered: bool,
}

impl Killed {
    /// The kill came when it was to come.
    pub fn when_planned(self) -> Killed {
        assert_eq!(self.is_answered, self.moment.is_after_the_answer(), "{:?}", self.moment);
        self
    }
}

/// A relay that is killed again and again, with its disk.
#[derive(Debug)]
pub struct Victim {
    /// Its disk is `relay` of it.
    pub scratch: Scratch,
    /// As it runs now.
    pub relay: Kumod,
    switch: PathBuf,
    launch: Launch,
    before: usize,
    after: usize,
    /// Messages whose order was in force when its process was killed.
    cut: BTreeSet<String>,
}

impl Victim {
    /// A relay to an address, with retries an hour apart.
    pub fn new(to: impl FnOnce(&Scratch) -> SocketAddr) -> Victim {
        let scratch = Scratch::new();
        let switch = scratch.write("killed", NEVER);
        let library = preload::library(&scratch, "killed");
        let launch = Launch::relay(&scratch, to(&scratch)).env("RELAY_RETRY", "1h");
        let launch = launch.env("LD_PRELOAD", library).env("KILLED_FILE", &switch);
        let relay = launch.start();
        Victim { scratch, relay, switch, launch, before: 0, after: 0, cut: BTreeSet::new() }
    }

    /// Asks by JSON, kills, and starts again.
    pub fn killed_while(&mut self, moment: Moment, method: &str, path: &str, body: &Value) -> Killed {
        if method == "POST" {
            self.await_no_end();
        }
        self.killed_at(moment, method, path, ("application/json", body.to_string().as_bytes()))
    }

    /// The same with content of any type, whatever leaves the list of orders meanwhile.
    pub fn killed_at(&mut self, moment: Moment, method: &str, path: &str, content: (&str, &[u8])) -> Killed {
        let server = self.relay.http();
        let (media_type, body) = content;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\nContent-Type: {media_type}\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        fs::write(&self.switch, moment.switch()).expect("armed");
        let mut answer = String::new();
        // The end comes as an error now and then, and so may the begin: what was read before counts.
        if let Ok(mut stream) = TcpStream::connect(server) {
            stream.set_read_timeout(Some(LATER)).expect("a timeout");
            _ = stream.write_all(&[head.as_bytes(), body].concat());
            if moment != Moment::Asked {
                _ = stream.read_to_string(&mut answer);
            }
        }
        let is_answered = whole(&answer).is_some();
        let heard = heard(&answer);
        if let Some(given) = heard.as_ref().filter(|_| moment == Moment::Underway && method == "POST") {
            self.await_begin(path, &given["id"]);
        }
        self.relay.process.kill();
        fs::write(&self.switch, NEVER).expect("disarmed");
        self.relay = self.launch.start();
        *(if is_answered { &mut self.after } else { &mut self.before }) += 1;
        Killed { moment, answer: heard, is_answered }
    }

    /// Waits until something of an order was done, where it does something, or all of it.
    fn await_begin(&self, path: &str, id: &Value) {
        let path = if path == CANCEL { XFER } else { path };
        until(LATER, "the begin of its work", || {
            let orders = self.orders(path);
            let done = orders.iter().find(|order| order["id"] == *id).map(|order| &order["total_bounced"]);
            done.is_none_or(|done| done.is_null() || done.as_u64() > Some(0)).then_some(())
        });
    }

    /// Waits until no order is in the list on disk that leaves it by itself: its end would be taken for the next one's begin.
    pub fn await_no_end(&self) {
        let list = self.scratch.join("relay/data/orders.json");
        until(LATER, "the end of orders on disk", || {
            let text = fs::read_to_string(&list).unwrap_or_default();
            ["\"flush\"", "\"rebind\"", "\"xfer\"", "\"cancel_xfer\""]
                .iter()
                .all(|kind| !text.contains(kind))
                .then_some(())
        });
    }

    /// An order about these was in force when the process was killed.
    pub fn cut_short(&mut self, ids: &BTreeSet<String>) {
        self.cut.extend(ids.iter().cloned());
    }

    /// Brings it a message; its id.
    pub fn submit(&self, to: &str) -> String {
        let reply = Client::connect(self.relay.smtp()).submit("a@source.test", to, "an order");
        assert_eq!(reply.code, 250, "{reply:?}");
        reply.lines[0].split("ids=").nth(1).expect("an id").trim().to_owned()
    }

    /// Ids of messages that a queue is answered for.
    pub fn fill(&self, domain: &str) -> BTreeSet<String> {
        (0..MESSAGES).map(|number| self.submit(&format!("r{number}@{domain}"))).collect()
    }

    /// The orders that this path lists.
    pub fn orders(&self, path: &str) -> Vec<Value> {
        serde_json::from_str(&http::get(self.relay.http(), path).1).expect("a list")
    }

    /// The order of these that has such a value.
    pub fn is_listed(&self, path: &str, of: (&str, &str)) -> Option<Value> {
        self.orders(path).into_iter().find(|order| order[of.0] == of.1)
    }

    /// The messages of a queue, once all of earlier runs are back.
    pub fn queued(&self, name: &str) -> BTreeSet<String> {
        self.relay.await_recovered(SOON);
        let (status, text) = http::get(self.relay.http(), &format!("{SCHED}?queue_name={name}&limit=1000"));
        let queue: Value = if status == 200 { serde_json::from_str(&text).expect("JSON") } else { Value::Null };
        let messages = queue["messages"].as_array().into_iter().flatten();
        messages.map(|message| message["id"].as_str().expect("an id").to_owned()).collect()
    }

    /// A message; null when it is not here, which nobody says before all of earlier runs are back.
    pub fn inspect(&self, id: &str) -> Value {
        let ask = || match http::get(self.relay.http(), &format!("{MESSAGE}?id={id}")) {
            (200, text) => Some(serde_json::from_str(&text).expect("JSON")),
            (404, _) => Some(Value::Null),
            (503, _) => None,
            (status, text) => panic!("{id}: {status} {text}"),
        };
        until(SOON, "whether a message is here", ask)
    }

    /// Takes an order back, as it should be.
    pub fn withdraw(&self, path: &str, id: &Value) {
        let body = json!({"id": id}).to_string();
        assert_eq!(http::send(self.relay.http(), "DELETE", path, "application/json", &body).0, 200);
    }

    /// Gives an order, as it should be; the answer.
    pub fn give(&self, path: &str, order: &Value) -> Value {
        http::json(self.relay.http(), "POST", path, order)
    }

    /// Says what was met, and stops. Kills came before answers and after them, and what the log says was done to a message, by records of
    /// this type, was done once.
    pub fn end(self, met: &BTreeMap<String, usize>, done: &str) {
        let (before, after) = (self.before, self.after);
        println!("{before} kills before the answer, {after} after it; met: {met:?}");
        assert!(before > 0 && after > 0, "kills on either side: {before} before the answer, {after} after it");
        self.relay.stop();
        let mut times: BTreeMap<String, usize> = BTreeMap::new();
        for record in Logs::new(self.scratch.join("relay/logs")).of_type(done) {
            *times.entry(record["id"].as_str().expect("an id").to_owned()).or_default() += 1;
        }
        assert!(!times.is_empty(), "no {done} at all");
        for (id, times) in times {
            let most = 1 + usize::from(self.cut.contains(&id));
            assert!(times <= most, "{id}: {times} records {done}, expected at most {most}");
        }
    }
}

/// The head and the body of a whole answer.
fn whole(answer: &str) -> Option<(&str, &str)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let length =
        head.to_ascii_lowercase().lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    (length == Some(body.len())).then_some((head, body))
}

/// Of a whole answer with 200 the JSON, or the text.
fn heard(answer: &str) -> Option<Value> {
    let (_, body) = whole(answer).filter(|(head, _)| head.starts_with("HTTP/1.1 200"))?;
    Some(serde_json::from_str(body).unwrap_or_else(|_| json!(body)))
}

/// Where no server is.
pub fn nobody() -> SocketAddr {
    "127.0.0.1:1".parse().expect("an address")
}

const XFER: &str = "/api/admin/xfer/v1";
const CANCEL: &str = "/api/admin/xfer/cancel/v1";
const SCHED: &str = "/api/admin/inspect-sched-q/v1";
const MESSAGE: &str = "/api/admin/inspect-message/v1";
/// Messages of a queue that is filled.
pub const MESSAGES: usize = 12;
/// What never arms `preload/killed.c`.
const NEVER: &str = "-";
