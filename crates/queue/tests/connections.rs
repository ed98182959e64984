//! Connections: how many, when the next one, who is woken, and what comes back.

mod support;

use clock::Duration;
use config::EgressPath;
use queue::{Effect, Ending, Take};
use smtp_wire::Reply;
use support::{Rig, config, path, route};

const ROOMY: u64 = 1_000_000;

fn rig(settings: serde_json::Value) -> Rig {
    let mut rig = Rig::new();
    rig.routed("d.test", config(serde_json::json!({})), route(&[("a", 1)], &path(settings), ROOMY));
    rig
}

#[test]
fn connections_grow_with_the_queue_as_kumomta_has_it() {
    for (limit, table) in [
        (32, &[(1, 1), (2, 2), (3, 3), (4, 3), (10, 7), (20, 12), (64, 25), (128, 31), (256, 32)][..]),
        (1, &[(1, 1), (100, 1)]),
        (2, &[(1, 1), (2, 1), (256, 2)]),
        (100, &[(1, 1), (2, 2), (5, 5), (30, 30), (50, 69)]),
    ] {
        for (messages, connections) in table {
            let mut rig = rig(serde_json::json!({"connection_limit": limit}));
            rig.admit("d.test", *messages);
            let expected = (*connections).min(*messages);
            assert_eq!(rig.opened().len(), expected, "limit {limit}, {messages} messages");
        }
    }
}

#[test]
fn openings_keep_their_rate() {
    let mut rig = rig(serde_json::json!({"max_connection_rate": "2/s"}));
    rig.admit("d.test", 200);
    assert_eq!(rig.opened().len(), 2, "the burst");
    rig.pass(Duration::from_secs(5));
    assert!((9..=10).contains(&rig.opened().len()), "two a second for five seconds, at most a tick late");
}

#[test]
fn a_connection_that_breaks_is_opened_anew_at_that_rate() {
    let mut rig = rig(serde_json::json!({"max_connection_rate": "3/min", "connection_limit": 1}));
    rig.admit("d.test", 200);
    let conn = rig.opened()[0];
    assert!(rig.deliver(conn) && rig.core.may_reconnect(rig.now, conn) && rig.core.may_reconnect(rig.now, conn));
    assert!(!rig.core.may_reconnect(rig.now, conn), "three, the first one counts");
    rig.core.connection_ended(rig.now, conn);
    assert!(rig.opened().is_empty());
    rig.pass(Duration::from_secs(21));
    assert_eq!(rig.opened().len(), 1, "when it is time");
}

#[test]
fn who_is_let_go_of_before_anything_was_taken_does_not_come_back_at_once() {
    let mut rig = rig(serde_json::json!({"max_message_rate": "30/min,max_burst=1", "connection_limit": 1}));
    rig.admit("d.test", 3);
    let first = rig.opened()[0];
    assert!(rig.deliver(first));
    rig.core.connection_ended(rig.now, first);
    let second = rig.opened()[0];
    assert!(matches!(rig.core.take(rig.now, second), Take::After(_)));
    rig.core.connection_ended(rig.now, second);
    assert!(rig.opened().is_empty(), "the server closes whoever is idle");
    rig.pass(Duration::from_millis(1_100));
    assert_eq!(rig.opened().len(), 1);
}

#[test]
fn a_message_wakes_the_connection_that_is_idle_longest() {
    let mut rig = rig(serde_json::json!({}));
    rig.admit("d.test", 2);
    let conns = rig.opened();
    for conn in [conns[1], conns[0], conns[1], conns[0]] {
        rig.deliver(conn);
    }
    rig.admit("d.test", 2);
    let conn_of = |e| match e {
        Effect::Wake(conn) => conn,
        other => panic!("{other:?}"),
    };
    let woken: Vec<_> = rig.drain().into_iter().map(conn_of).collect();
    assert_eq!(woken, [conns[1], conns[0]], "both, in the order in which they became idle");
}

#[test]
fn the_path_rate_says_how_long_to_wait() {
    let mut rig = rig(serde_json::json!({"max_message_rate": "3/s"}));
    rig.admit("d.test", 9);
    let conn = rig.opened()[0];
    for _ in 0..3 {
        assert!(rig.deliver(conn), "the burst");
    }
    assert_eq!(rig.core.delayed_by_rate(), 0);
    let Take::After(wait) = rig.core.take(rig.now, conn) else { panic!("the burst is used up") };
    assert!(wait > Duration::ZERO && wait <= Duration::from_micros(333_334), "{wait:?}");
    assert!(matches!(rig.core.take_more(rig.now, conn), Take::After(_)), "it is early");
    assert_eq!(rig.core.delayed_by_rate(), 1, "one message waits, whoever asks for it and how often");
    rig.now = rig.now.after(wait);
    assert!(rig.take(conn).is_some(), "who sat the wait out is served");
    assert_eq!(rig.core.delayed_by_rate(), 1);
    assert!(matches!(rig.core.take(rig.now, conn), Take::After(_)));
    assert_eq!(rig.core.delayed_by_rate(), 2, "the next waits as well");
}

#[test]
fn what_is_given_back_goes_first_and_needs_no_room() {
    let mut rig = rig(serde_json::json!({"max_ready": 2}));
    let ids = rig.admit("d.test", 4);
    let conn = rig.opened()[0];
    let first = rig.take(conn).expect("a message");
    assert_eq!(first.message.id, ids[0]);
    assert_eq!(rig.ready()[0].1, 2, "its place was given to the next in line");
    rig.core.give_back(rig.now, conn, first);
    assert_eq!(rig.ready()[0].1, 3, "what was inside comes back inside");
    let order: Vec<_> = std::iter::from_fn(|| rig.take(conn)).map(|q| q.message.id).collect();
    assert_eq!(order, ids);
}

#[test]
fn what_is_given_back_wakes_whoever_is_idle() {
    let mut rig = rig(serde_json::json!({}));
    rig.admit("d.test", 2);
    let conns = rig.opened();
    let queued = rig.take(conns[0]).expect("a message");
    while rig.deliver(conns[1]) {}
    rig.core.give_back(rig.now, conns[0], queued);
    assert!(matches!(rig.drain()[..], [Effect::Wake(conn)] if conn == conns[1]));
}

#[test]
fn an_idle_connection_may_leave_unless_it_was_promised_a_message() {
    let mut rig = rig(serde_json::json!({}));
    rig.admit("d.test", 1);
    let conn = rig.opened()[0];
    assert!(rig.deliver(conn) && !rig.deliver(conn));
    assert!(rig.core.leave_idle(conn));
    rig.admit("d.test", 1);
    assert!(rig.drain().is_empty(), "who left is not woken, and counts as a connection until it ends");
    assert!(rig.deliver(conn) && !rig.deliver(conn));
    rig.admit("d.test", 1);
    assert!(matches!(rig.drain()[..], [Effect::Wake(_)]));
    assert!(!rig.core.leave_idle(conn), "it was woken");
    assert!(rig.deliver(conn));
}

#[test]
fn what_is_given_back_to_nobody_waits_for_a_new_way() {
    let mut rig = rig(serde_json::json!({}));
    rig.admit("d.test", 1);
    let conn = rig.opened()[0];
    let queued = rig.take(conn).expect("a message");
    rig.core.connection_ended(rig.now, conn);
    rig.pass(Duration::from_secs(720));
    assert_eq!(rig.core.footprint().ready_queues, 0);
    rig.core.give_back(rig.now, conn, queued);
    let size = rig.core.footprint();
    assert_eq!((size.out, rig.core.census().count()), (0, 1), "in the scheduled queue, and counted as out no longer");
    assert!(rig.drain().iter().any(|e| matches!(e, Effect::Route { .. })));
}

#[test]
fn one_failed_connection_costs_one_message_and_many_cost_all() {
    let mut rig = rig(serde_json::json!({"consecutive_connection_failures_before_delay": 2, "connection_limit": 1}));
    rig.admit("d.test", 10);
    let mut lost = Vec::new();
    for _ in 0..3 {
        rig.pass(Duration::from_secs(2));
        let conn = rig.opened()[0];
        rig.core.connection_failed(rig.now, conn, Reply::new(400, "no host"));
        let untried = rig.endings();
        lost.push(untried.len());
        for (queued, ending) in untried {
            let Ending::Undeliverable(failure) = ending else { panic!("{ending:?}") };
            assert_eq!(failure.reply.code, if lost.len() < 3 { 400 } else { 451 });
            rig.core.forget(rig.now.mono, &queued);
        }
    }
    assert_eq!(lost, [1, 1, 8]);
}

#[test]
fn attempts_to_connect_are_spaced_out() {
    let mut rig = rig(serde_json::json!({"connection_limit": 1}));
    rig.admit("d.test", 30);
    let mut attempts = 0;
    for _ in 0..10_000 {
        for conn in rig.opened() {
            attempts += 1;
            rig.core.connection_failed(rig.now, conn, Reply::new(400, "no host"));
        }
        rig.effects.clear();
        rig.pass(Duration::from_millis(1));
    }
    assert!((12..=22).contains(&attempts), "{attempts} in ten seconds: 20 ms, doubling, a second at most");
}

#[test]
fn a_site_that_fails_settles_what_is_ready_and_calls_the_next() {
    let mut rig = rig(serde_json::json!({"max_ready": 3, "connection_limit": 1}));
    rig.admit("d.test", 5);
    let conn = rig.opened()[0];
    rig.core.site_failed(rig.now, conn, Reply::new(550, "5.4.4 prohibited"));
    assert_eq!(rig.endings().len(), 3);
    let effects = rig.drain();
    assert!(effects.iter().any(|e| matches!(e, Effect::Open(_))), "the two that waited get a connection");
    assert_eq!(rig.ready()[0].1, 2);
}

#[test]
fn a_connection_that_ends_is_replaced_while_there_is_work() {
    let mut rig = rig(serde_json::json!({"connection_limit": 1}));
    rig.admit("d.test", 2);
    let first = rig.opened()[0];
    assert!(rig.deliver(first), "a message");
    rig.core.connection_ended(rig.now, first);
    let second = rig.opened();
    assert_eq!(second.len(), 1);
    assert!(rig.deliver(second[0]), "the other");
    rig.core.connection_ended(rig.now, second[0]);
    assert!(rig.opened().is_empty(), "no work, no connection");
}

#[test]
fn raised_limits_count_at_once() {
    let mut rig = Rig::new();
    let narrow = path(serde_json::json!({"connection_limit": 1, "max_ready": 1}));
    let key = rig.routed("d.test", config(serde_json::json!({})), route(&[("a", 1)], &narrow, ROOMY));
    rig.admit("d.test", 64);
    assert_eq!((rig.opened().len(), rig.ready()[0].1), (1, 1));
    rig.core.routed(rig.now, key, route(&[("a", 1)], &EgressPath::default(), ROOMY));
    assert_eq!(rig.ready()[0].1, 64);
    assert!(rig.opened().len() >= 20);
}
