//! Policy is asked before a message becomes ready: once each time, fairly, and nobody is forgotten.

mod support;

use clock::Duration;
use config::EgressPath;
use queue::{Effect, Ending, Queued, Why};
use support::{Rig, config, path, route};

const ROOMY: u64 = 1_000_000;

fn rig(limits: serde_json::Value) -> Rig {
    let mut rig = Rig::new();
    rig.core.ask_before_ready(true);
    rig.routed("d.test", config(limits), route(&[("a", 1)], &EgressPath::default(), ROOMY));
    rig
}

fn asks(rig: &mut Rig) -> usize {
    let (asks, others): (Vec<Effect>, _) = rig.drain().into_iter().partition(|e| matches!(e, Effect::Ask));
    rig.effects = others;
    asks.len()
}

fn take(rig: &mut Rig) -> Option<Queued> {
    rig.core.take_asking(rig.now)
}

#[test]
fn nothing_is_ready_unasked_and_who_passed_is_ready_once() {
    let mut rig = rig(serde_json::json!({}));
    let ids = rig.admit("d.test", 2);
    assert!(rig.ready().iter().all(|(_, count)| *count == 0));
    assert_eq!(asks(&mut rig), 1, "one asker for one queue");
    let first = take(&mut rig).expect("the first");
    let second = take(&mut rig).expect("the second, while the first is asked about");
    assert_eq!([first.message.id, second.message.id], ids[..]);
    assert!(take(&mut rig).is_none());
    rig.core.passed(rig.now, first);
    rig.core.passed(rig.now, second);
    assert_eq!(rig.ready(), [("a".to_owned(), 2)]);
    assert_eq!(rig.core.footprint().out, 2);
    let conn = rig.opened()[0];
    assert!(rig.deliver(conn) && rig.deliver(conn));
    assert_eq!((rig.core.footprint().out, rig.core.census().count()), (0, 0));
}

#[test]
fn who_is_held_back_waits_uncounted_and_is_asked_about_again() {
    let mut rig = rig(serde_json::json!({}));
    let id = rig.admit("d.test", 1)[0];
    let queued = take(&mut rig).expect("asked");
    let due = rig.now.wall + Duration::from_secs(90);
    rig.core.held_back(rig.now, queued, due);
    let (listed, _) = rig.core.list_waiting("d.test", 9, 0);
    assert_eq!(listed[0].wait.why, Why::ThrottledByThrottleInsertReadyQueue);
    assert_eq!((listed[0].wait.until, listed[0].message.attempts), (Some(due), 0));
    asks(&mut rig);
    rig.pass(Duration::from_secs(89));
    assert_eq!(asks(&mut rig), 0, "not before its time");
    rig.pass(Duration::from_secs(2));
    let again = take(&mut rig).expect("asked about again");
    assert_eq!(again.message.id, id);
    rig.core.passed(rig.now, again);
    assert_eq!(rig.ready(), [("a".to_owned(), 1)]);
    assert_eq!(rig.core.footprint().caught, 0);
}

#[test]
fn who_got_no_answer_waits_uncounted_for_the_next_question() {
    let mut rig = rig(serde_json::json!({}));
    let id = rig.admit("d.test", 1)[0];
    let queued = take(&mut rig).expect("asked");
    rig.core.unanswered(rig.now, queued);
    let (listed, _) = rig.core.list_waiting("d.test", 9, 0);
    assert_eq!((listed[0].wait.why, listed[0].message.attempts), (Why::FailedToInsertIntoReadyQueue, 0));
    rig.pass(Duration::from_secs(61));
    let again = take(&mut rig).expect("asked about again");
    assert_eq!(again.message.id, id);
    rig.core.passed(rig.now, again);
    assert_eq!((rig.ready(), rig.core.footprint().caught), (vec![("a".to_owned(), 1)], 0));
}

#[test]
fn who_would_be_too_old_by_then_ends() {
    let mut rig = rig(serde_json::json!({"max_age": "1h"}));
    rig.admit("d.test", 1);
    let queued = take(&mut rig).expect("asked");
    let (due, later) = (queued.message.due, rig.now.wall + Duration::from_secs(3600));
    assert!(rig.core.ends_before(rig.now, &queued, later) && !rig.core.ends_before(rig.now, &queued, rig.now.wall));
    rig.core.held_back(rig.now, queued, later);
    let endings = rig.endings();
    let [(queued, Ending::Expired)] = &endings[..] else { panic!("{endings:?}") };
    assert_eq!(queued.message.due, due, "nothing is to be noted of the time");
}

#[test]
fn who_passed_and_finds_no_room_is_not_asked_about_again() {
    let mut rig = Rig::new();
    rig.core.ask_before_ready(true);
    let narrow = path(serde_json::json!({"max_ready": 1, "connection_limit": 1}));
    for name in ["x.test", "y.test"] {
        rig.routed(name, config(serde_json::json!({})), route(&[("a", 1)], &narrow, ROOMY));
        rig.admit(name, 1);
    }
    let (one, other) = (take(&mut rig).expect("x"), take(&mut rig).expect("y"));
    rig.core.passed(rig.now, one);
    rig.core.passed(rig.now, other);
    assert_eq!(rig.ready(), [("a".to_owned(), 1)], "room for one");
    let conn = rig.opened()[0];
    assert!(rig.deliver(conn), "the first");
    assert!(take(&mut rig).is_none(), "the other has its answer");
    assert!(rig.deliver(conn), "and was called when there was room");
    // The next time is another promotion.
    let queued = {
        rig.admit("x.test", 1);
        take(&mut rig).expect("asked")
    };
    rig.core.passed(rig.now, queued);
    let taken = rig.take(conn).expect("ready");
    rig.core.retry(rig.now, taken, Duration::from_secs(5));
    rig.pass(Duration::from_secs(6));
    assert!(take(&mut rig).is_some(), "asked about at each promotion");
}

#[test]
fn nobody_is_asked_about_who_could_not_go_and_all_go_in_the_end() {
    let mut rig = Rig::new();
    rig.core.ask_before_ready(true);
    let narrow = path(serde_json::json!({"max_ready": 2, "connection_limit": 1}));
    for name in ["x.test", "y.test", "z.test"] {
        rig.routed(name, config(serde_json::json!({})), route(&[("a", 1)], &narrow, ROOMY));
        rig.admit(name, 20);
    }
    let (mut conn, mut delivered, mut questions) = (None, 0, 0);
    for _ in 0..1_000 {
        while let Some(queued) = take(&mut rig) {
            questions += 1;
            rig.core.passed(rig.now, queued);
        }
        conn = conn.or_else(|| rig.opened().first().copied());
        let Some(conn) = conn else { break };
        assert!(questions <= delivered + 8, "{questions} asked about, {delivered} delivered");
        delivered += usize::from(rig.deliver(conn));
    }
    assert_eq!((delivered, questions), (60, 60));
    assert_eq!((rig.core.census().count(), rig.core.footprint().caught), (0, 0));
}

#[test]
fn policy_is_not_asked_while_there_is_no_room() {
    let mut rig = Rig::new();
    rig.core.ask_before_ready(true);
    let narrow = path(serde_json::json!({"max_ready": 1, "connection_limit": 1}));
    for name in ["x.test", "y.test"] {
        rig.routed(name, config(serde_json::json!({})), route(&[("a", 1)], &narrow, ROOMY));
    }
    rig.admit("x.test", 1);
    let first = take(&mut rig).expect("there is room");
    rig.core.passed(rig.now, first);
    asks(&mut rig);
    rig.admit("y.test", 1);
    assert_eq!(asks(&mut rig), 0, "nobody is called");
    assert!(take(&mut rig).is_none(), "and who comes is not asked");
    let conn = rig.opened()[0];
    assert!(rig.deliver(conn));
    assert_eq!(asks(&mut rig), 1, "there is room");
    assert!(take(&mut rig).is_some());
}

#[test]
fn policy_is_not_asked_while_no_source_may_be_chosen() {
    let mut rig = Rig::new();
    rig.core.ask_before_ready(true);
    let seldom = path(serde_json::json!({"source_selection_rate": "1/h"}));
    rig.routed("d.test", config(serde_json::json!({})), route(&[("a", 1)], &seldom, ROOMY));
    rig.admit("d.test", 2);
    let first = take(&mut rig).expect("the source may be chosen");
    rig.core.passed(rig.now, first);
    assert_eq!(rig.ready(), [("a".to_owned(), 1)]);
    asks(&mut rig);
    assert!(take(&mut rig).is_none(), "there is room, and no source");
    rig.pass(Duration::from_secs(3601));
    assert!(take(&mut rig).is_some(), "once more");
}

#[test]
fn a_rate_is_asked_before_policy() {
    let mut rig = rig(serde_json::json!({"max_message_rate": "1/h"}));
    rig.admit("d.test", 2);
    let queued = take(&mut rig).expect("the first");
    rig.core.passed(rig.now, queued);
    while let Some(queued) = take(&mut rig) {
        rig.core.passed(rig.now, queued);
    }
    assert_eq!(rig.ready(), [("a".to_owned(), 1)], "the rate holds");
    rig.pass(Duration::from_secs(3601));
    while let Some(queued) = take(&mut rig) {
        rig.core.passed(rig.now, queued);
    }
    assert_eq!(rig.ready(), [("a".to_owned(), 2)]);
}
