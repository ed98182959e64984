//! kill -9 in the middle of everything that an operator or another node can change over HTTP: a row for each, and no endpoint without.
//!
//! A row says what is there before, what is asked, and what must be so when the server has been killed at a moment and started again:
//! what was answered holds, what was not is one of the two, messages that were taken are here, and mail is taken and tried.
//! What orders do under kills message by message, and in the log, is in `killed_orders.rs`; injection is in `idempotency.rs` and
//! `bulk.rs`.

use e2e::http;
use e2e::kumod::Launch;
use e2e::parcel::parcel;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::{LATER, SOON, eventually, until};
use e2e::victim::{Killed, MESSAGES, MOMENTS, Moment, Victim, nobody};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// An endpoint that changes something.
struct Row {
    method: &'static str,
    path: &'static str,
    /// When the server is killed.
    moments: &'static [Moment],
    /// Where its mail goes: nowhere, or to a server that takes an hour for each.
    is_slow: bool,
    /// What is there before, and what is asked.
    scene: fn(&Victim, &Row, usize) -> Scene,
    /// What must be so after the restart.
    check: fn(&Victim, &Row, &Scene, &Killed),
}

/// What a request meets.
#[derive(Default)]
struct Scene {
    domain: String,
    ids: BTreeSet<String>,
    /// The order or the arrival that is there.
    before: Value,
    media_type: &'static str,
    content: Vec<u8>,
}

impl Row {
    const fn of_order(method: &'static str, path: &'static str, scene: SceneOf, check: Check) -> Row {
        Row { method, path, moments: &MOMENTS, is_slow: false, scene, check }
    }

    const fn other(path: &'static str, scene: SceneOf, check: Check) -> Row {
        Row { method: "POST", path, moments: &OTHERS, is_slow: false, scene, check }
    }

    fn gives(&self) -> bool {
        self.method == "POST"
    }

    /// Orders that are over when all that was there was looked at.
    fn is_over_by_itself(&self) -> bool {
        [FLUSH, REBIND, XFER].contains(&self.path)
    }

    /// Each moment, one after the other, on one disk.
    fn play(&self) {
        let (method, path) = (self.method, self.path);
        let other = Scratch::new();
        let slow = self.is_slow.then(|| Sink::start(&other, "slow", &["--delay-ms", "3600000"]));
        let mut victim = Victim::new(|_| slow.as_ref().map_or(nobody(), |sink| sink.address));
        let bystanders: Vec<String> = (0..3).map(|number| victim.submit(&format!("r{number}@stays.test"))).collect();
        let mut heard = 0;
        for (round, moment) in self.moments.iter().copied().enumerate() {
            println!("{method} {path}: {moment:?}");
            let scene = (self.scene)(&victim, self, round);
            if method == "POST" {
                victim.await_no_end();
            }
            let mut killed = victim.killed_at(moment, method, path, (scene.media_type, &scene.content));
            // It may be over when it is to be taken back.
            if self.gives() || !self.is_over_by_itself() {
                killed = killed.when_planned();
                assert_eq!(killed.answer.is_some(), moment.is_after_the_answer(), "200, when there is an answer");
            }
            heard += usize::from(killed.answer.is_some());
            victim.relay.await_recovered(SOON);
            (self.check)(&victim, self, &scene, &killed);
            are_here(&victim, &bystanders);
            let late = victim.submit(&format!("late@serves{round}.test"));
            if !self.is_slow {
                await_tried(&victim, &late);
            }
        }
        println!("{method} {path}: {heard} answers with 200");
        // A flush changes nothing on disk but its own end, and may be quicker than who takes it back.
        assert!(heard > 0 || (method, path) == ("DELETE", FLUSH), "{method} {path}: it came too late each time");
        victim.relay.stop();
    }
}

type SceneOf = fn(&Victim, &Row, usize) -> Scene;
type Check = fn(&Victim, &Row, &Scene, &Killed);

const ROWS: [Row; 23] = [
    Row::of_order("POST", BOUNCE, an_order, bounces_or_not),
    Row::of_order("DELETE", BOUNCE, a_withdrawal, bounces_or_not),
    Row::of_order("POST", SUSPEND, an_order, suspends_or_not),
    Row::of_order("DELETE", SUSPEND, a_withdrawal, suspends_or_not),
    Row::of_order("POST", SUSPEND_READY, an_order, suspends_or_not),
    Row::of_order("DELETE", SUSPEND_READY, a_withdrawal, suspends_or_not),
    Row::of_order("POST", HOLD, an_order, holds_or_not),
    Row::of_order("DELETE", HOLD, a_withdrawal, holds_or_not),
    Row::of_order("POST", FLUSH, an_order, flushes_or_not),
    Row::of_order("DELETE", FLUSH, a_withdrawal, flushes_or_not),
    Row::of_order("POST", REBIND, an_order, moves_or_not),
    Row::of_order("DELETE", REBIND, a_withdrawal, moves_or_not),
    Row::of_order("POST", XFER, an_order, moves_or_not),
    Row::of_order("DELETE", XFER, a_withdrawal, moves_or_not),
    Row::of_order("POST", CANCEL, a_way_back, moves_or_not),
    Row { is_slow: true, ..Row::other(ABORT, a_connection, keeps_all) },
    Row::other(BUMP, nothing_but_mail, begins_anew),
    Row::other(FILTER, nothing_but_mail, keeps_all),
    Row::other(COMPACT, nothing_but_mail, keeps_all),
    Row::other(INJECT, a_parcel, is_kept_or_not),
    Row::other(RELEASE, an_arrival, is_released_or_not),
    Row::other(DROP, an_arrival, is_dropped_or_not),
    Row::other(FORGET, a_released_one, is_here_known_or_not),
];

fn play(paths: &[&str]) {
    let rows: Vec<&Row> = ROWS.iter().filter(|row| paths.contains(&row.path)).collect();
    assert!(rows.len() >= paths.len(), "a row for each of {paths:?}");
    rows.into_iter().for_each(Row::play);
}

#[test]
fn orders_that_stand() {
    play(&STANDING);
}

#[test]
fn orders_that_end_by_themselves() {
    play(&PASSING);
}

#[test]
fn upkeep_and_connections() {
    play(&UPKEEP);
}

#[test]
fn messages_of_other_nodes() {
    play(&ARRIVING);
}

/// A new endpoint is not forgotten here.
#[test]
fn everything_that_changes_something_has_its_row() {
    let scratch = Scratch::new();
    let relay = Launch::relay(&scratch, nobody()).start();
    let document: Value = serde_json::from_str(&http::get(relay.http(), "/api-docs/openapi.json").1).expect("JSON");
    relay.stop();
    let mut told = BTreeSet::new();
    for (path, of_path) in document["paths"].as_object().expect("paths") {
        let methods = of_path.as_object().expect("methods").keys().filter(|method| METHODS.contains(&method.as_str()));
        told.extend(methods.map(|method| (method.to_ascii_uppercase(), path.clone())));
    }
    let named = |method: &str, path: &str| (method.to_owned(), path.to_owned());
    let injection = INJECTION.map(|path| named("POST", path));
    let rows: BTreeSet<_> = ROWS.iter().map(|row| named(row.method, row.path)).chain(injection).collect();
    assert_eq!(told, rows, "on the left what the document has, on the right what is killed");
    let played: BTreeSet<&str> = [&STANDING[..], &PASSING, &UPKEEP, &ARRIVING].concat().into_iter().collect();
    assert_eq!(played, ROWS.iter().map(|row| row.path).collect(), "and each is played");
}

fn domain(row: &Row, round: usize) -> String {
    format!("{}{round}.test", row.method.to_ascii_lowercase())
}

/// Where it would be moved.
fn other_queue(row: &Row, round: usize) -> String {
    if row.path == REBIND { format!("moved{round}.test") } else { format!("{}.xfer.kumomta.internal", node(round)) }
}

/// A node that is not there.
fn node(round: usize) -> String {
    format!("http://127.0.0.{}:1", round + 1)
}

fn json_of(body: &Value) -> (&'static str, Vec<u8>) {
    ("application/json", body.to_string().into_bytes())
}

fn await_tried(victim: &Victim, id: &str) {
    until(SOON, "mail that is tried", || (victim.inspect(id)["why"] == "LoggedTransientFailure").then_some(()));
}

/// Messages that were tried once and wait for an hour.
fn waiting(victim: &Victim, domain: &str, count: usize) -> BTreeSet<String> {
    let recipients: Vec<Value> = (0..count).map(|n| json!({"email": format!("r{n}@{domain}")})).collect();
    let asked = json!({"envelope_sender": "a@source.test", "content": "Subject: x\r\n\r\nHello.\r\n", "recipients": recipients});
    assert_eq!(http::json(victim.relay.http(), "POST", INJECTION[0], &asked)["success_count"], json!(count));
    until(LATER, "all of them", || {
        let ids = victim.queued(domain);
        let is_tried = |id: &String| victim.inspect(id)["why"] == "LoggedTransientFailure";
        (ids.len() == count && ids.iter().all(is_tried)).then_some(ids)
    })
}

/// What an order of this row says.
fn order(row: &Row, domain: &str, round: usize) -> Value {
    let mut order = json!({"domain": domain, "reason": "a test"});
    match row.path {
        SUSPEND_READY => order = json!({"name": READY, "reason": "a test", "duration": "1 hour"}),
        REBIND => order["data"] = json!({"queue": other_queue(row, round)}),
        XFER => order["target"] = json!(node(round)),
        FLUSH => {}
        _ => order["duration"] = json!("1 hour"),
    }
    order
}

fn an_order(victim: &Victim, row: &Row, round: usize) -> Scene {
    let domain = domain(row, round);
    let ids = waiting(victim, &domain, MESSAGES);
    let (media_type, content) = json_of(&order(row, &domain, round));
    Scene { domain, ids, media_type, content, ..Scene::default() }
}

fn a_withdrawal(victim: &Victim, row: &Row, round: usize) -> Scene {
    let domain = domain(row, round);
    // So many that it is not over before it is taken back, if it is over by itself.
    let ids = waiting(victim, &domain, if row.is_over_by_itself() { MANY } else { MESSAGES });
    let before = victim.give(row.path, &order(row, &domain, round));
    if row.path == HOLD {
        await_held(victim, &ids);
    }
    let (media_type, content) = json_of(&json!({"id": before["id"]}));
    Scene { domain, ids, before, media_type, content }
}

fn a_way_back(victim: &Victim, row: &Row, round: usize) -> Scene {
    let domain = domain(row, round);
    let ids = waiting(victim, &domain, MESSAGES);
    let away = other_queue(row, round);
    victim.give(XFER, &json!({"domain": domain, "reason": "we move", "target": node(round)}));
    until(SOON, "all of them on their way", || (victim.queued(&away) == ids).then_some(()));
    victim.await_no_end();
    let (media_type, content) = json_of(&json!({"queue_name": away, "reason": "a change of mind"}));
    Scene { domain, ids, media_type, content, ..Scene::default() }
}

fn a_connection(victim: &Victim, row: &Row, round: usize) -> Scene {
    let domain = domain(row, round);
    let ids = victim.fill(&domain);
    let path = format!("{READY_QUEUES}?queue_name={}", READY.replace('>', "%3E"));
    let session = until(SOON, "a delivery", || {
        let (status, text) = http::get(victim.relay.http(), &path);
        let ready: Value = serde_json::from_str(&text).ok().filter(|_| status == 200)?;
        let dispatcher = &ready["dispatchers"][0];
        (dispatcher["phase"] == "DeliveringMessage").then(|| dispatcher["session_id"].clone())
    });
    let (media_type, content) = json_of(&json!({"queue_name": READY, "session_id": session}));
    Scene { domain, ids, media_type, content, ..Scene::default() }
}

fn nothing_but_mail(victim: &Victim, row: &Row, round: usize) -> Scene {
    let domain = domain(row, round);
    let ids = waiting(victim, &domain, MESSAGES);
    let (media_type, content) = match row.path {
        FILTER => json_of(&json!({"filter": "debug"})),
        COMPACT => json_of(&json!({"name": "data"})),
        _ => ("text/plain", Vec::new()),
    };
    Scene { domain, ids, media_type, content, ..Scene::default() }
}

fn a_parcel(_: &Victim, _: &Row, round: usize) -> Scene {
    Scene { media_type: OCTETS, content: parcel(round as u8), ..Scene::default() }
}

fn an_arrival(victim: &Victim, _: &Row, round: usize) -> Scene {
    victim.relay.await_recovered(SOON);
    let before = keep(victim, &parcel(round as u8));
    let (media_type, content) = json_of(&about(&before));
    Scene { before, media_type, content, ..Scene::default() }
}

fn a_released_one(victim: &Victim, row: &Row, round: usize) -> Scene {
    let scene = an_arrival(victim, row, round);
    assert_eq!(state(victim, RELEASE, &scene.before), "released");
    let (media_type, content) = json_of(&json!({"origins": [scene.before["origin"]]}));
    Scene { media_type, content, ..scene }
}

/// The order of a scene as it is listed, after what was asked was killed: it is there when the disk had it.
fn order_in_force(victim: &Victim, row: &Row, scene: &Scene, killed: &Killed) -> Option<Value> {
    let of = if row.path == SUSPEND_READY { ("name", READY) } else { ("domain", &*scene.domain) };
    let listed = victim.is_listed(row.path, of);
    let was_early = killed.moment == Moment::BeforeDisk;
    assert_eq!(listed.is_some(), row.gives() != was_early, "what is on disk is in force, and nothing else: {killed:?}");
    if let (Some(listed), Some(given)) = (&listed, killed.answer.as_ref().filter(|_| row.gives())) {
        assert_eq!(listed["id"], given["id"], "what was answered is in force");
    }
    listed
}

fn all_are_here(victim: &Victim, scene: &Scene) {
    are_here(victim, &scene.ids);
}

/// One that moves while it is looked for may be missed once, not for long.
fn are_here<'a>(victim: &Victim, ids: impl IntoIterator<Item = &'a String>) {
    let mut missed: Vec<&String> = ids.into_iter().collect();
    eventually(SOON, || {
        missed.retain(|id| victim.inspect(id).is_null());
        missed.is_empty().then_some(())
    });
    assert!(missed.is_empty(), "{missed:?} are lost");
}

fn bounces_or_not(victim: &Victim, row: &Row, scene: &Scene, killed: &Killed) {
    match order_in_force(victim, row, scene, killed) {
        Some(order) => {
            let are_gone = || scene.ids.iter().all(|id| victim.inspect(id).is_null());
            until(LATER, "the end of all", || are_gone().then_some(()));
            victim.withdraw(row.path, &order["id"]);
        }
        // Of one that was in force some are over.
        None if row.gives() => all_are_here(victim, scene),
        None => {}
    }
    await_tried(victim, &victim.submit(&format!("late@{}", scene.domain)));
}

fn suspends_or_not(victim: &Victim, row: &Row, scene: &Scene, killed: &Killed) {
    all_are_here(victim, scene);
    let order = order_in_force(victim, row, scene, killed);
    let late = victim.submit(&format!("late@{}", scene.domain));
    if let Some(order) = order {
        until(SOON, "mail that it holds", || (victim.inspect(&late)["order"] == order["id"]).then_some(()));
        assert_eq!(victim.inspect(&late)["why"], "ReadyQueueWasSuspended");
        victim.withdraw(row.path, &order["id"]);
    }
    await_tried(victim, &late);
}

fn await_held(victim: &Victim, ids: &BTreeSet<String>) {
    let is_held = |id: &String| victim.inspect(id)["state"] == "held";
    until(SOON, "all of them held", || ids.iter().all(is_held).then_some(()));
}

fn holds_or_not(victim: &Victim, row: &Row, scene: &Scene, killed: &Killed) {
    all_are_here(victim, scene);
    if let Some(order) = order_in_force(victim, row, scene, killed) {
        await_held(victim, &scene.ids);
        victim.withdraw(row.path, &order["id"]);
    }
    let is_free = |id: &String| victim.inspect(id)["why"] == "LoggedTransientFailure";
    until(SOON, "none of them held", || scene.ids.iter().all(is_free).then_some(()));
}

fn flushes_or_not(victim: &Victim, row: &Row, scene: &Scene, killed: &Killed) {
    until(LATER, "no flush", || victim.orders(FLUSH).is_empty().then_some(()));
    let tries = |id: &String| {
        let message = victim.inspect(id);
        let is_waiting = message["why"] == "LoggedTransientFailure";
        message["message"]["num_attempts"].as_u64().filter(|_| is_waiting)
    };
    if row.gives() && killed.moment == Moment::OnDisk {
        // By this order, or by itself where the kill came before its first try was on disk; attempts tell the two apart no more.
        victim.relay.await_metric(PUT_OFF, scene.ids.len() as f64, LATER);
    }
    let all: Vec<u64> = until(LATER, &format!("tries after {:?}", killed.moment), || {
        scene.ids.iter().map(tries).collect::<Option<_>>()
    });
    let again = all.iter().filter(|times| **times >= 2).count();
    println!("{again} of {} were tried again", all.len());
    // That a message is due is not on disk: of a flush that was over when it was killed, however many had had their try.
    let may_be_tried = !row.gives() || killed.moment != Moment::BeforeDisk;
    assert!(may_be_tried || again == 0, "what was not on disk was not done: {all:?}");
}

fn moves_or_not(victim: &Victim, row: &Row, scene: &Scene, killed: &Killed) {
    // A way back is listed as the way.
    let list = if row.path == CANCEL { XFER } else { row.path };
    until(LATER, "no order", || victim.orders(list).is_empty().then_some(()));
    let round = MOMENTS.iter().position(|moment| *moment == killed.moment).expect("one of them");
    let away = other_queue(row, round);
    let queues: Vec<String> = until(LATER, "each of them in a queue", || {
        let queue = |id: &String| victim.inspect(id)["queue_name"].as_str().map(str::to_owned);
        scene.ids.iter().map(queue).collect()
    });
    let are_away = queues.iter().filter(|queue| **queue == away).count();
    let are_home = queues.iter().filter(|queue| **queue == scene.domain).count();
    assert_eq!(are_away + are_home, scene.ids.len(), "each in one of two: {queues:?}");
    let before = if row.path == CANCEL { are_away } else { are_home };
    match (row.gives(), killed.moment) {
        (true, Moment::BeforeDisk) => assert_eq!(before, scene.ids.len(), "what was not on disk was not done"),
        (true, _) => assert_eq!(before, 0, "what was on disk was done"),
        (false, _) => println!("{before} of {} had stayed", scene.ids.len()),
    }
}

fn keeps_all(victim: &Victim, _: &Row, scene: &Scene, _: &Killed) {
    all_are_here(victim, scene);
}

fn begins_anew(victim: &Victim, _: &Row, scene: &Scene, _: &Killed) {
    all_are_here(victim, scene);
    let overview: Value = serde_json::from_str(&http::get(victim.relay.http(), OVERVIEW).1).expect("JSON");
    let epochs: Vec<&Value> = overview["epochs"].as_array().expect("a list").iter().map(|one| &one["number"]).collect();
    assert_eq!(epochs, [&json!(0)], "the first of this run");
}

/// Which arrival.
fn about(kept: &Value) -> Value {
    json!({"origin": kept["origin"], "node": kept["node"]})
}

fn keep(victim: &Victim, parcel: &[u8]) -> Value {
    let (status, text) = http::send_octets(victim.relay.http(), "POST", INJECT, OCTETS, parcel);
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).expect("JSON")
}

fn state(victim: &Victim, path: &str, kept: &Value) -> Value {
    http::json(victim.relay.http(), "POST", path, &about(kept))["state"].clone()
}

/// What was done before the answer was to be written is done.
fn is_done(killed: &Killed) -> bool {
    killed.moment != Moment::Asked
}

fn is_kept_or_not(victim: &Victim, _: &Row, scene: &Scene, killed: &Killed) {
    let arrivals = victim.orders(ARRIVALS);
    assert!(if is_done(killed) { arrivals.len() == 1 } else { arrivals.len() < 2 }, "{killed:?}: {arrivals:?}");
    if let Some(given) = &killed.answer {
        assert_eq!(arrivals[0]["id"], given["id"]);
    }
    // The other node says it again.
    let kept = keep(victim, &scene.content);
    let again = victim.orders(ARRIVALS);
    assert_eq!((again.len(), &again[0]["id"]), (1, &kept["id"]));
    assert!(arrivals.iter().all(|before| before["id"] == kept["id"]), "the same: {arrivals:?} {kept}");
    assert_eq!(state(victim, DROP, &kept), "dropped", "it was there");
}

fn is_released_or_not(victim: &Victim, _: &Row, scene: &Scene, killed: &Killed) {
    let id = scene.before["id"].as_str().expect("an id");
    let is_here = victim.orders(ARRIVALS).is_empty();
    if is_here {
        are_here(victim, [&id.to_owned()]);
    } else {
        assert_eq!(victim.inspect(id), Value::Null, "in one place: {killed:?}");
    }
    assert!(is_here || !is_done(killed), "{killed:?}");
    assert_eq!(state(victim, RELEASE, &scene.before), "released");
    assert_eq!(state(victim, DROP, &scene.before), "released", "what is let go is not forgotten");
    await_tried(victim, id);
}

fn is_dropped_or_not(victim: &Victim, _: &Row, scene: &Scene, killed: &Killed) {
    let arrivals = victim.orders(ARRIVALS).len();
    assert!(arrivals == 0 || !is_done(killed), "{killed:?}");
    assert_eq!(state(victim, DROP, &scene.before), "dropped");
    assert_eq!(state(victim, RELEASE, &scene.before), "dropped", "what was forgotten is not delivered");
    assert_eq!(victim.inspect(scene.before["id"].as_str().expect("an id")), Value::Null);
}

/// The message is its own; what is forgotten need not be at once.
fn is_here_known_or_not(victim: &Victim, _: &Row, scene: &Scene, _: &Killed) {
    let id = scene.before["id"].as_str().expect("an id");
    are_here(victim, [&id.to_owned()]);
    let known = state(victim, DROP, &scene.before);
    assert!(known == "released" || known == "unknown", "{known}");
    await_tried(victim, id);
}

const BOUNCE: &str = "/api/admin/bounce/v1";
const SUSPEND: &str = "/api/admin/suspend/v1";
const SUSPEND_READY: &str = "/api/admin/suspend-ready-q/v1";
const HOLD: &str = "/api/admin/hold/v1";
const FLUSH: &str = "/api/admin/flush/v1";
const REBIND: &str = "/api/admin/rebind/v1";
const XFER: &str = "/api/admin/xfer/v1";
const CANCEL: &str = "/api/admin/xfer/cancel/v1";
const ABORT: &str = "/api/admin/abort-ready-q-conn/v1";
const BUMP: &str = "/api/admin/bump-config-epoch";
const FILTER: &str = "/api/admin/set_diagnostic_log_filter/v1";
const COMPACT: &str = "/api/admin/spool-compact/v1";
const INJECT: &str = "/api/xfer/inject/v1";
const RELEASE: &str = "/api/xfer/release/v1";
const DROP: &str = "/api/xfer/drop/v1";
const ARRIVALS: &str = "/api/xfer/arrivals/v1";
const READY_QUEUES: &str = "/api/admin/inspect-ready-q/v1";
const OVERVIEW: &str = "/api/admin/overview/v1";
/// What has tests of its own under kills.
const INJECTION: [&str; 2] = ["/api/inject/v1", "/api/inject/bulk/v1"];
const STANDING: [&str; 4] = [BOUNCE, SUSPEND, SUSPEND_READY, HOLD];
const PASSING: [&str; 4] = [FLUSH, REBIND, XFER, CANCEL];
const UPKEEP: [&str; 4] = [ABORT, BUMP, FILTER, COMPACT];
const FORGET: &str = "/api/xfer/forget/v1";
const ARRIVING: [&str; 4] = [INJECT, RELEASE, DROP, FORGET];
/// Methods that change something.
const METHODS: [&str; 4] = ["post", "put", "patch", "delete"];
/// Of what is no order.
const OTHERS: [Moment; 3] = [Moment::Asked, Moment::Unheard, Moment::Answered];
const OCTETS: &str = "application/octet-stream";
const PUT_OFF: &str = "total_messages_transfail{service=\"smtp_client\"}";
/// The ready queue that all mail goes to.
const READY: &str = "unspecified->mx_list:sink.test@smtp_client";
/// Messages of an order that is to take a while.
const MANY: usize = 200;
