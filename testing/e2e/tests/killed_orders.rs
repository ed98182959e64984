//! kill -9 while an order is given, carried out or taken back: what was answered holds after the restart, what was not is one of the
//! two, the server says which, and no message is lost or in two places.
//!
//! The moments of death are chosen, and each comes in every test ([`Moment`]): before the order is on disk, when it is and nobody has
//! heard of it (`preload/killed.c` kills the server beside the rename that makes an order stand), when it was just answered, and when it is
//! being carried out. So kills fall on either side of the answer, and each test counts them.
//!
//! What is done to a message is done once, and in the log once: `AdminBounce`, `AdminRebind`, `XferOut`, `Delivery`. But what a kill cuts
//! short may be done again, as [docs/states.md](../../../docs/states.md) says ("Settled per recipient"): of a message whose order was in
//! force in the process that died there may be one record more, written before the spool knew; of no other message.

use e2e::kumod::Launch;
use e2e::logs::Logs;
use e2e::port::free_port;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::{LATER, SOON, until};
use e2e::victim::{Killed, MESSAGES, MOMENTS, Moment, Victim, nobody};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

const BOUNCE: &str = "/api/admin/bounce/v1";
const SUSPEND: &str = "/api/admin/suspend/v1";
const SUSPEND_READY: &str = "/api/admin/suspend-ready-q/v1";
const REBIND: &str = "/api/admin/rebind/v1";
const XFER: &str = "/api/admin/xfer/v1";
const CANCEL: &str = "/api/admin/xfer/cancel/v1";

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
        let moment = MOMENTS[round % MOMENTS.len()];
        let Killed { answer, is_answered, .. } = victim.killed_while(moment, "POST", BOUNCE, &order).when_planned();
        let listed = victim.is_listed(BOUNCE, ("domain", &domain));
        assert_eq!(listed.is_some(), moment != Moment::BeforeDisk, "what is on disk is in force: {moment:?}");
        note(&mut met, format!("{}, {}", word(listed.is_some(), "given"), word(is_answered, "answered")));
        let Some(order) = listed else {
            // Some are on their way back from a try that failed.
            until(SOON, "nothing was done", || (victim.queued(&domain) == ids).then_some(()));
            continue;
        };
        if is_answered {
            assert_eq!(answer.expect("a good answer")["id"], order["id"], "what was answered is in force");
            victim.cut_short(&ids);
        }
        // The next kill is not to cut it short.
        until(LATER, "the end of all", || ids.iter().all(|id| victim.inspect(id).is_null()).then_some(()));
        expected.extend(ids);
    }
    // And no others: what is counted is a moment behind.
    victim.relay.await_metric("message_count", (ROUNDS * MESSAGES - expected.len()) as f64, SOON);
    // What a killed process had not written is not in the log; nothing else is.
    let told = bounced(&victim);
    assert!(told.is_subset(&expected), "a record about a message that stays: {told:?}");
    note(&mut met, format!("{} records of {} that ended", told.len(), expected.len()));
    victim.end(&met, "AdminBounce");
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
        let moment = MOMENTS[round % MOMENTS.len()];
        let killed = victim.killed_while(moment, "DELETE", BOUNCE, &json!({"id": given["id"]})).when_planned();
        victim.cut_short(&ids);
        let (answer, listed) = (killed.answer, victim.is_listed(BOUNCE, ("domain", &domain)));
        assert_eq!(listed.is_some(), moment == Moment::BeforeDisk, "what is not on disk any more is gone: {moment:?}");
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
    // One that nobody cuts short, and so is in the log.
    let ids = victim.fill("last.test");
    victim.give(BOUNCE, &json!({"domain": "last.test", "reason": "the end", "duration": "1 hour"}));
    until(LATER, "the end of all", || ids.iter().all(|id| victim.inspect(id).is_null()).then_some(()));
    victim.end(&met, "AdminBounce");
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
    let (mut met, mut back) = (BTreeMap::new(), MOMENTS.iter().copied().cycle());
    for round in 0..ROUNDS {
        let (about, domain) = (about(round), domain(round));
        let order = json!({criterion: about, "reason": "a test", "duration": "1 hour"});
        let moment = MOMENTS[round % MOMENTS.len()];
        let answer = victim.killed_while(moment, "POST", path, &order).when_planned().answer;
        let listed = victim.is_listed(path, (criterion, &about));
        assert_eq!(listed.is_some(), moment != Moment::BeforeDisk, "what is on disk is in force: {moment:?}");
        if let Some(given) = &answer {
            assert_eq!(listed.as_ref().expect("what was answered is in force")["id"], given["id"]);
        }
        note(&mut met, format!("{}, {}", word(listed.is_some(), "given"), word(answer.is_some(), "answered")));
        let held = victim.submit(&format!("held@{domain}"));
        // The next kill may come while it is delivered.
        victim.cut_short(&BTreeSet::from([held.clone()]));
        let Some(order) = listed else {
            until(SOON, "delivery", || (arrived(&sink, &domain).len() == 1).then_some(()));
            continue;
        };
        until(SOON, "it says what holds it", || {
            let message = victim.inspect(&held);
            (message["why"] == "ReadyQueueWasSuspended" && message["order"] == order["id"]).then_some(())
        });
        let moment = back.next().expect("it goes round");
        let answer = victim.killed_while(moment, "DELETE", path, &json!({"id": order["id"]})).when_planned().answer;
        let listed = victim.is_listed(path, (criterion, &about));
        assert_eq!(listed.is_some(), moment == Moment::BeforeDisk, "what is not on disk any more is gone: {moment:?}");
        note(&mut met, format!("{} taken back, {}", word(listed.is_none(), "was"), word(answer.is_some(), "answered")));
        if let Some(order) = listed {
            assert_eq!(answer, None, "what was answered is gone");
            // It is back in its scheduled queue first, and meets what holds it at its ready queue.
            until(SOON, "a message that is held again", || {
                (victim.inspect(&held)["order"] == order["id"]).then_some(())
            });
            assert_eq!(arrived(&sink, &domain).len(), 0, "it still holds");
            victim.withdraw(path, &order["id"]);
        }
        until(LATER, "delivery after all", || (arrived(&sink, &domain).len() == 1).then_some(()));
    }
    // One whose delivery nobody cuts short, and so is in the log.
    victim.submit("last@end.test");
    until(SOON, "the last one", || (arrived(&sink, "end.test").len() == 1).then_some(()));
    until(SOON, "an empty server", || (victim.relay.metric("message_count") == 0.0).then_some(()));
    victim.end(&met, "Delivery");
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
        let (is_given, moment) = (round % 2 == 0, MOMENTS[round / 2 % MOMENTS.len()]);
        let killed = match is_given {
            true => victim.killed_while(moment, "POST", REBIND, &order).when_planned(),
            false => {
                let given = victim.give(REBIND, &order);
                // It may end at any moment, which changes the list on disk, and then there is nothing to take back.
                victim.killed_while(moment, "DELETE", REBIND, &json!({"id": given["id"]}))
            }
        };
        if !is_given || killed.is_answered {
            victim.cut_short(&ids);
        }
        until(LATER, "no rebinding under way", || victim.is_listed(REBIND, ("domain", &old)).is_none().then_some(()));
        let (left, moved) = until(SOON, "all of them", || {
            let (left, moved) = (victim.queued(&old), victim.queued(&new));
            (left.len() + moved.len() == MESSAGES).then_some((left, moved))
        });
        assert!(left.is_disjoint(&moved) && left.union(&moved).eq(&ids), "each in one place: {left:?} {moved:?}");
        match (is_given, moment) {
            (true, Moment::BeforeDisk) => assert_eq!(left, ids, "what was not on disk was not done"),
            (true, _) => assert_eq!(moved, ids, "what was on disk was done"),
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
    // Some that nobody cuts short, and so are in the log.
    victim.give(SUSPEND, &json!({"domain": "last.test", "reason": "it stays where it is", "duration": "1 hour"}));
    let ids = victim.fill("last.test");
    victim.give(REBIND, &json!({"domain": "last.test", "reason": "they moved", "data": {"queue": "moved.test"}}));
    until(LATER, "all of them moved", || (victim.queued("moved.test") == ids).then_some(()));
    victim.end(&met, "AdminRebind");
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
        let moment = MOMENTS[round % MOMENTS.len()];
        let killed = victim.killed_while(moment, "POST", XFER, &order).when_planned();
        if killed.is_answered {
            victim.cut_short(&ids);
        }
        let done = |victim: &Victim| victim.is_listed(XFER, ("domain", &domain)).is_none();
        until(LATER, "no order to transfer", || done(&victim).then_some(()));
        let left = victim.queued(&domain);
        match moment {
            Moment::BeforeDisk => assert_eq!(left, ids, "what was not on disk was not done"),
            _ => assert!(left.is_empty(), "what was on disk was done: {left:?}"),
        }
        note(&mut met, format!("{}, {}", word(left.is_empty(), "given"), word(killed.is_answered, "answered")));
        if !left.is_empty() {
            victim.give(XFER, &order);
        }
        until(LATER, "all of them at the sink", || (arrived(&sink, &domain).len() == MESSAGES).then_some(()));
        // The next kill is not to cut this one short.
        until(LATER, "nothing left here", || (victim.relay.metric("message_count") == 0.0).then_some(()));
    }
    until(LATER, "nothing left there", || (target.metric("message_count") == 0.0).then_some(()));
    for round in 0..ROUNDS {
        let arrived = arrived(&sink, &format!("x{round}.test"));
        assert!(arrived.values().all(|times| *times == 1), "once each: {arrived:?}");
    }
    assert_eq!(target.metric("postrider_xfer_arrivals"), 0.0, "nobody waits to be let go");
    victim.end(&met, "XferOut");
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
        let moment = MOMENTS[round % MOMENTS.len()];
        let killed = victim.killed_while(moment, "POST", CANCEL, &order).when_planned();
        // An order that is under way goes on by itself.
        until(LATER, "no order to transfer", || victim.orders(XFER).is_empty().then_some(()));
        let (home, still) = until(LATER, "all of them", || {
            let (home, still) = (victim.queued(&domain), victim.queued(&away));
            (home.union(&still).count() == MESSAGES).then_some((home, still))
        });
        assert!(home.is_disjoint(&still), "in two places: {home:?} {still:?}");
        match moment {
            Moment::BeforeDisk => assert_eq!(still, ids, "what was not on disk was not done"),
            _ => assert_eq!(home, ids, "what was on disk was done"),
        }
        note(&mut met, format!("{}, {}", word(still.is_empty(), "taken back"), word(killed.is_answered, "answered")));
        if !still.is_empty() {
            victim.give(CANCEL, &order);
        }
        victim.withdraw(SUSPEND, &suspended["id"]);
        until(LATER, "delivery from here", || (arrived(&sink, &domain).len() == MESSAGES).then_some(()));
        let arrived = arrived(&sink, &domain);
        assert!(arrived.values().all(|times| *times == 1), "once each: {arrived:?}");
        // The next kill is not to cut this one short.
        until(LATER, "nothing left here", || (victim.relay.metric("message_count") == 0.0).then_some(()));
    }
    victim.end(&met, "Delivery");
}

/// Each moment twice, and the last of them last.
const ROUNDS: usize = 2 * MOMENTS.len();
