//! kill -9 while an order is given, carried out or taken back: what was answered holds after the restart, what was not is one of the
//! two, the server says which, and no message is lost or in two places.
//!
//! The moment of death is the random thing (`TORTURE_SEED` repeats a run): a request is written, and some moment later the server
//! is gone, answered or not.

use e2e::http;
use e2e::kumod::{Kumod, Launch};
use e2e::logs::Logs;
use e2e::port::free_port;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::torture::seed;
use e2e::until::{LATER, SOON, until};
use e2e::wire::Client;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const BOUNCE: &str = "/api/admin/bounce/v1";
const SUSPEND: &str = "/api/admin/suspend/v1";
const SUSPEND_READY: &str = "/api/admin/suspend-ready-q/v1";
const REBIND: &str = "/api/admin/rebind/v1";
const XFER: &str = "/api/admin/xfer/v1";
const CANCEL: &str = "/api/admin/xfer/cancel/v1";
const SCHED: &str = "/api/admin/inspect-sched-q/v1";
const MESSAGE: &str = "/api/admin/inspect-message/v1";

/// A relay that is killed again and again, with its disk.
struct Victim {
    scratch: Scratch,
    launch: Launch,
    relay: Kumod,
    random: fastrand::Rng,
    answered: usize,
    kills: usize,
}

impl Victim {
    fn new(to: impl FnOnce(&Scratch) -> SocketAddr) -> Victim {
        let scratch = Scratch::new();
        let launch = Launch::relay(&scratch, to(&scratch)).env("RELAY_RETRY", "1h");
        let relay = launch.start();
        Victim { scratch, launch, relay, random: fastrand::Rng::with_seed(seed()), answered: 0, kills: 0 }
    }

    /// Asks, kills, and starts again; the JSON or text of the answer, when there was a whole one with 200.
    fn killed_while(&mut self, method: &str, path: &str, body: &Value) -> Option<Value> {
        let server = self.relay.http();
        let body = body.to_string();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect(server).expect("a server");
        stream.write_all(request.as_bytes()).expect("written");
        let hearing = std::thread::spawn(move || {
            let mut answer = String::new();
            // The end comes as an error now and then: what was read before counts.
            let _ = stream.read_to_string(&mut answer);
            answer
        });
        // Half of them within the first tenth: giving an order takes a millisecond, carrying it out some more.
        let share = self.random.f64().powi(3);
        std::thread::sleep(KILLED_WITHIN.mul_f64(share));
        self.relay.process.kill();
        let answer = hearing.join().expect("it reads");
        self.relay = self.launch.start();
        self.kills += 1;
        let heard = heard(&answer);
        self.answered += usize::from(heard.is_some());
        heard
    }

    fn submit(&self, to: &str) -> String {
        let reply = Client::connect(self.relay.smtp()).submit("a@source.test", to, "an order");
        assert_eq!(reply.code, 250, "{reply:?}");
        reply.lines[0].split("ids=").nth(1).expect("an id").trim().to_owned()
    }

    /// Ids of messages that a queue is answered for.
    fn fill(&self, domain: &str) -> BTreeSet<String> {
        (0..MESSAGES).map(|number| self.submit(&format!("r{number}@{domain}"))).collect()
    }

    fn orders(&self, path: &str) -> Vec<Value> {
        serde_json::from_str(&http::get(self.relay.http(), path).1).expect("a list")
    }

    fn is_listed(&self, path: &str, of: (&str, &str)) -> Option<Value> {
        self.orders(path).into_iter().find(|order| order[of.0] == of.1)
    }

    /// The messages of a queue, once all of earlier runs are back.
    fn queued(&self, name: &str) -> BTreeSet<String> {
        until(SOON, "what was here", || (self.relay.metric("postrider_spool_recovering") == 0.0).then_some(()));
        let (status, text) = http::get(self.relay.http(), &format!("{SCHED}?queue_name={name}"));
        let queue: Value = if status == 200 { serde_json::from_str(&text).expect("JSON") } else { Value::Null };
        let messages = queue["messages"].as_array().into_iter().flatten();
        messages.map(|message| message["id"].as_str().expect("an id").to_owned()).collect()
    }

    fn inspect(&self, id: &str) -> Value {
        let (status, text) = http::get(self.relay.http(), &format!("{MESSAGE}?id={id}"));
        if status == 200 { serde_json::from_str(&text).expect("JSON") } else { Value::Null }
    }

    /// Takes an order back, as it should be.
    fn withdraw(&self, path: &str, id: &Value) {
        let body = json!({"id": id}).to_string();
        assert_eq!(http::send(self.relay.http(), "DELETE", path, "application/json", &body).0, 200);
    }

    fn give(&self, path: &str, order: &Value) -> Value {
        http::json(self.relay.http(), "POST", path, order)
    }

    /// Says what was met, and stops.
    fn end(self, met: &BTreeMap<String, usize>) {
        println!("{} kills, {} answered before; met: {met:?}", self.kills, self.answered);
        self.relay.stop();
    }
}

/// Of a whole answer with 200 the JSON, or the text.
fn heard(answer: &str) -> Option<Value> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let is_whole =
        head.to_ascii_lowercase().lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    let is_good = head.starts_with("HTTP/1.1 200") && is_whole == Some(body.len());
    is_good.then(|| serde_json::from_str(body).unwrap_or_else(|_| json!(body)))
}

fn nobody() -> SocketAddr {
    "127.0.0.1:1".parse().expect("an address")
}

fn note(met: &mut BTreeMap<String, usize>, what: impl Into<String>) {
    *met.entry(what.into()).or_default() += 1;
}

/// Recipients of a domain that arrived, with how often.
fn arrived(sink: &Sink, domain: &str) -> BTreeMap<String, usize> {
    let mut arrived = BTreeMap::new();
    let all = sink.arrivals().into_iter().flat_map(|arrival| arrival.recipients);
    all.filter(|to| to.ends_with(&format!("@{domain}"))).for_each(|to| *arrived.entry(to).or_default() += 1);
    arrived
}

/// Ids of messages that were bounced by an order, as the log has them.
fn bounced(victim: &Victim) -> BTreeSet<String> {
    let records = Logs::new(victim.scratch.join("relay/logs")).of_type("AdminBounce");
    records.iter().map(|record| record["id"].as_str().expect("an id").to_owned()).collect()
}

#[test]
fn a_bounce_is_given_or_not_and_each_message_ends_or_stays() {
    let mut victim = Victim::new(|_| nobody());
    let (mut met, mut expected) = (BTreeMap::new(), BTreeSet::new());
    for round in 0..ROUNDS {
        let domain = format!("given{round}.test");
        let ids = victim.fill(&domain);
        let order = json!({"domain": domain, "reason": "a test", "duration": "1 hour"});
        let answer = victim.killed_while("POST", BOUNCE, &order);
        match (answer, victim.is_listed(BOUNCE, ("domain", &domain))) {
            (Some(given), listed) => {
                assert_eq!(listed.expect("what was answered is in force")["id"], given["id"]);
                note(&mut met, "given, answered");
                expected.extend(ids);
            }
            (None, Some(_)) => {
                note(&mut met, "given, not answered");
                expected.extend(ids);
            }
            (None, None) => {
                note(&mut met, "not given");
                // Some are on their way back from a try that failed.
                until(SOON, "nothing was done", || (victim.queued(&domain) == ids).then_some(()));
            }
        }
    }
    until(LATER, "all that were to end", || expected.iter().all(|id| victim.inspect(id).is_null()).then_some(()));
    // And no others: what is counted is a moment behind.
    victim.relay.await_metric("message_count", (ROUNDS * MESSAGES - expected.len()) as f64, SOON);
    // What a killed process had not written is not in the log; nothing else is.
    let told = bounced(&victim);
    assert!(told.is_subset(&expected), "a record about a message that stays: {told:?}");
    note(&mut met, format!("{} records of {} that ended", told.len(), expected.len()));
    victim.end(&met);
}

#[test]
fn a_bounce_that_is_taken_back_ends_some_and_loses_none() {
    let mut victim = Victim::new(|_| nobody());
    let (mut met, mut bystanders) = (BTreeMap::new(), Vec::new());
    for round in 0..ROUNDS {
        let domain = format!("taken{round}.test");
        let ids = victim.fill(&domain);
        bystanders.push(victim.submit(&format!("stays@other{round}.test")));
        let order = json!({"domain": domain, "reason": "a mistake", "duration": "1 hour"});
        let given = victim.give(BOUNCE, &order);
        let answer = victim.killed_while("DELETE", BOUNCE, &json!({"id": given["id"]}));
        let listed = victim.is_listed(BOUNCE, ("domain", &domain));
        if answer.is_some() {
            assert_eq!(listed, None, "what was answered is gone");
        }
        if let Some(order) = listed {
            note(&mut met, "still in force");
            until(LATER, "its end for all", || ids.iter().all(|id| victim.inspect(id).is_null()).then_some(()));
            victim.withdraw(BOUNCE, &order["id"]);
        } else {
            let here = victim.queued(&domain);
            assert!(here.is_subset(&ids), "{here:?}");
            let saved = match here.len() {
                0 => "none was saved",
                MESSAGES => "all were saved",
                _ => "some were saved",
            };
            note(&mut met, format!("taken back, {}: {saved}", word(answer.is_some(), "answered")));
            // From now on mail to them goes its way.
            let late = victim.submit(&format!("late@{domain}"));
            until(SOON, "one that is tried", || {
                (victim.inspect(&late)["why"] == "LoggedTransientFailure").then_some(())
            });
        }
    }
    let lost: Vec<&String> = bystanders.iter().filter(|id| victim.inspect(id).is_null()).collect();
    assert!(lost.is_empty(), "what no order was about: {lost:?}");
    victim.end(&met);
}

/// A suspension, of whichever kind, under kills: `about` is its criterion, `mail` to whom mail is that it holds.
fn suspension_under_kills(
    path: &str,
    criterion: &str,
    about: impl Fn(usize) -> String,
    domain: impl Fn(usize) -> String,
) {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let mut victim = Victim::new(|_| sink.address);
    let mut met = BTreeMap::new();
    for round in 0..ROUNDS {
        let (about, domain) = (about(round), domain(round));
        let order = json!({criterion: about, "reason": "a test", "duration": "1 hour"});
        let answer = victim.killed_while("POST", path, &order);
        let listed = victim.is_listed(path, (criterion, &about));
        if let Some(given) = &answer {
            assert_eq!(listed.as_ref().expect("what was answered is in force")["id"], given["id"]);
        }
        note(&mut met, format!("{}, {}", word(listed.is_some(), "given"), word(answer.is_some(), "answered")));
        let held = victim.submit(&format!("held@{domain}"));
        let Some(order) = listed else {
            until(SOON, "delivery", || (arrived(&sink, &domain).len() == 1).then_some(()));
            continue;
        };
        until(SOON, "it says what holds it", || {
            let message = victim.inspect(&held);
            (message["why"] == "ReadyQueueWasSuspended" && message["order"] == order["id"]).then_some(())
        });
        let answer = victim.killed_while("DELETE", path, &json!({"id": order["id"]}));
        let listed = victim.is_listed(path, (criterion, &about));
        note(&mut met, format!("{} taken back, {}", word(listed.is_none(), "was"), word(answer.is_some(), "answered")));
        if let Some(order) = listed {
            assert_eq!(answer, None, "what was answered is gone");
            let message =
                until(SOON, "a message that is back", || Some(victim.inspect(&held)).filter(|m| !m.is_null()));
            assert_eq!((&message["order"], arrived(&sink, &domain).len()), (&order["id"], 0), "it still holds");
            victim.withdraw(path, &order["id"]);
        }
        until(LATER, "delivery after all", || (arrived(&sink, &domain).len() == 1).then_some(()));
    }
    until(SOON, "an empty server", || (victim.relay.metric("message_count") == 0.0).then_some(()));
    victim.end(&met);
}

fn word(is_so: bool, word: &str) -> String {
    if is_so { word.to_owned() } else { format!("not {word}") }
}

#[test]
fn a_suspension_holds_or_does_not_and_says_so() {
    let domain = |round: usize| format!("s{round}.test");
    suspension_under_kills(SUSPEND, "domain", domain, domain);
}

#[test]
fn a_suspended_ready_queue_holds_or_does_not_and_says_so() {
    suspension_under_kills(
        SUSPEND_READY,
        "name",
        |_| "unspecified->mx_list:sink.test@smtp_client".to_owned(),
        |round| format!("q{round}.test"),
    );
}

#[test]
fn a_rebinding_leaves_each_message_in_one_queue() {
    let mut victim = Victim::new(|_| nobody());
    let mut met = BTreeMap::new();
    for round in 0..ROUNDS * 2 {
        let (old, new) = (format!("old{round}.test"), format!("new{round}.test"));
        for domain in [&old, &new] {
            victim.give(SUSPEND, &json!({"domain": domain, "reason": "it stays where it is", "duration": "1 hour"}));
        }
        let ids = victim.fill(&old);
        let order = json!({"domain": old, "reason": "they moved", "data": {"queue": new}});
        let is_given = round % 2 == 0;
        let answer = match is_given {
            true => victim.killed_while("POST", REBIND, &order),
            false => {
                let given = victim.give(REBIND, &order);
                victim.killed_while("DELETE", REBIND, &json!({"id": given["id"]}))
            }
        };
        until(LATER, "no rebinding under way", || victim.is_listed(REBIND, ("domain", &old)).is_none().then_some(()));
        let (left, moved) = until(SOON, "all of them", || {
            let (left, moved) = (victim.queued(&old), victim.queued(&new));
            (left.len() + moved.len() == MESSAGES).then_some((left, moved))
        });
        assert!(left.is_disjoint(&moved) && left.union(&moved).eq(&ids), "each in one place: {left:?} {moved:?}");
        match (is_given, answer) {
            (true, Some(_)) => assert_eq!(moved, ids, "what was answered was done"),
            (true, None) => assert!(left.is_empty() || moved.is_empty(), "done or not begun: {left:?} {moved:?}"),
            // However far it was.
            (false, _) => {}
        }
        let kind = if is_given { "given" } else { "taken back" };
        let how = match (left.len(), moved.len()) {
            (MESSAGES, _) => "none had moved",
            (_, MESSAGES) => "all moved",
            _ => "some had moved",
        };
        note(&mut met, format!("{kind}: {how}"));
    }
    // No message is lost.
    victim.relay.await_metric("message_count", (ROUNDS * 2 * MESSAGES) as f64, SOON);
    victim.end(&met);
}

#[test]
fn a_transfer_delivers_each_message_once() {
    let other = Scratch::new();
    let sink = Sink::start(&other, "sink", &[]);
    let node = "00000000-0000-4000-8000-000000000002";
    let target = Launch::relay(&other, sink.address).env("KUMO_NODE_ID", node).start();
    let url = format!("http://{}", target.http());
    let mut victim = Victim::new(|_| nobody());
    let mut met = BTreeMap::new();
    for round in 0..ROUNDS {
        let domain = format!("x{round}.test");
        // Here it would stay.
        victim.give(SUSPEND, &json!({"domain": domain, "reason": "it leaves", "duration": "1 hour"}));
        let ids = victim.fill(&domain);
        let order = json!({"domain": domain, "reason": "we move", "target": url});
        let answer = victim.killed_while("POST", XFER, &order);
        let done = |victim: &Victim| victim.is_listed(XFER, ("domain", &domain)).is_none();
        until(LATER, "no order to transfer", || done(&victim).then_some(()));
        let left = victim.queued(&domain);
        match answer {
            Some(_) => assert!(left.is_empty(), "what was answered was done: {left:?}"),
            None => assert!(left.is_empty() || left == ids, "done or not begun: {left:?}"),
        }
        note(&mut met, format!("{}, {}", word(left.is_empty(), "given"), word(answer.is_some(), "answered")));
        if !left.is_empty() {
            victim.give(XFER, &order);
        }
        until(LATER, "all of them at the sink", || (arrived(&sink, &domain).len() == MESSAGES).then_some(()));
    }
    until(LATER, "nothing left here", || (victim.relay.metric("message_count") == 0.0).then_some(()));
    until(LATER, "nothing left there", || (target.metric("message_count") == 0.0).then_some(()));
    for round in 0..ROUNDS {
        let arrived = arrived(&sink, &format!("x{round}.test"));
        assert!(arrived.values().all(|times| *times == 1), "once each: {arrived:?}");
    }
    assert_eq!(target.metric("postrider_xfer_arrivals"), 0.0, "nobody waits to be let go");
    victim.end(&met);
    target.stop();
}

#[test]
fn a_transfer_that_is_taken_back_leaves_each_message_in_one_queue() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let mut victim = Victim::new(|_| sink.address);
    let mut met = BTreeMap::new();
    for round in 0..ROUNDS {
        let domain = format!("y{round}.test");
        let url = format!("http://127.0.0.1:{}", free_port());
        let away = format!("{url}.xfer.kumomta.internal");
        let suspended = victim.give(SUSPEND, &json!({"domain": domain, "reason": "not yet", "duration": "1 hour"}));
        let ids = victim.fill(&domain);
        victim.give(XFER, &json!({"domain": domain, "reason": "we move", "target": url}));
        until(SOON, "all of them on their way", || (victim.queued(&away) == ids).then_some(()));
        let order = json!({"queue_name": away, "reason": "a change of mind"});
        let answer = victim.killed_while("POST", CANCEL, &order);
        // An order that is under way goes on by itself.
        until(LATER, "no order to transfer", || victim.orders(XFER).is_empty().then_some(()));
        let (home, still) = until(LATER, "all of them", || {
            let (home, still) = (victim.queued(&domain), victim.queued(&away));
            (home.union(&still).count() == MESSAGES).then_some((home, still))
        });
        assert!(home.is_disjoint(&still), "in two places: {home:?} {still:?}");
        match answer {
            Some(_) => assert_eq!(home, ids, "what was answered was done"),
            None => assert!(home.is_empty() || still.is_empty(), "done or not begun: {home:?} {still:?}"),
        }
        note(&mut met, format!("{}, {}", word(still.is_empty(), "taken back"), word(answer.is_some(), "answered")));
        if !still.is_empty() {
            victim.give(CANCEL, &order);
        }
        victim.withdraw(SUSPEND, &suspended["id"]);
        until(LATER, "delivery from here", || (arrived(&sink, &domain).len() == MESSAGES).then_some(()));
        let arrived = arrived(&sink, &domain);
        assert!(arrived.values().all(|times| *times == 1), "once each: {arrived:?}");
    }
    victim.end(&met);
}

/// Kills of each kind.
const ROUNDS: usize = 6;
/// Messages of a round.
const MESSAGES: usize = 12;
/// How long after the request the server is gone at the latest.
const KILLED_WITHIN: Duration = Duration::from_millis(60);
