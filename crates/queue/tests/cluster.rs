//! Rates and limits that a cluster counts: questions, answers, waiting for them, and going on alone.

mod support;

use clock::Duration;
use queue::{ClusterRates, ConnKey, Effect, Take, Why};
use serde_json::json;
use support::{Rig, config, path, route};

const ROOMY: u64 = 1_000_000;

fn cluster() -> Rig {
    let mut rig = Rig::new();
    rig.core.join_cluster(0.5);
    rig
}

/// A queue `x.test` by way of `a`.
fn one(queue: serde_json::Value, of_path: serde_json::Value) -> Rig {
    let mut rig = cluster();
    rig.routed("x.test", config(queue), route(&[("a", 1)], &path(of_path), ROOMY));
    rig
}

/// Rates, how many, when it was asked, and whether who is refused waits.
type Question = (ClusterRates, u64, clock::Instant, bool);

/// The questions for grants since the last call; other effects are kept.
fn questions(rig: &mut Rig) -> Vec<Question> {
    let mut asked = Vec::new();
    for effect in rig.drain() {
        match effect {
            Effect::Grant { of, count, waits, asked_at } => asked.push((of, count, asked_at, waits)),
            other => rig.effects.push(other),
        }
    }
    asked
}

fn names(question: &Question) -> Vec<&str> {
    question.0.rates().iter().map(|(name, _)| &**name).collect()
}

fn answer(rig: &mut Rig, (of, _, asked_at, _): &Question, count: u64, wait: Duration) {
    rig.core.granted(rig.now, of, *asked_at, count, wait);
}

/// Connections asked for since the last call, and whether they ask for leases.
fn opened(rig: &mut Rig) -> Vec<(ConnKey, bool)> {
    let mut opened = Vec::new();
    for effect in rig.drain() {
        match effect {
            Effect::Open(opening) => opened.push((opening.conn, opening.asks)),
            other => rig.effects.push(other),
        }
    }
    opened
}

fn woken(rig: &mut Rig) -> usize {
    rig.drain().iter().filter(|effect| matches!(effect, Effect::Wake(_))).count()
}

/// A path on which only what is tested is counted.
fn free(mut more: serde_json::Value) -> serde_json::Value {
    if more["connection_limit"].is_null() {
        more["connection_limit"] = json!("local:32");
    }
    more
}

#[test]
fn messages_go_by_grants_and_no_further_and_the_answer_wakes_who_waits() {
    let named = json!({"all": "100/s"});
    let mut rig = one(json!({}), free(json!({"max_message_rate": "10/s", "additional_message_rate_throttles": named})));
    rig.admit("x.test", 20);
    let (conn, _) = opened(&mut rig)[0];
    assert!(matches!(rig.core.take(rig.now, conn), Take::After(_)));
    let question = questions(&mut rig).remove(0);
    assert_eq!(names(&question), ["kumomta.max_message_rate.a:10:10:1", "all:100:100:1"], "all at once");
    assert!(matches!(rig.core.take(rig.now, conn), Take::After(_)));
    assert!(questions(&mut rig).is_empty(), "one question at a time");
    answer(&mut rig, &question, 2, Duration::from_millis(300));
    assert_eq!(woken(&mut rig), 1);
    assert!(rig.deliver(conn) && rig.deliver(conn) && !rig.deliver(conn), "two were granted");
    assert!(questions(&mut rig).is_empty(), "nothing is to be had for 300 ms");
    rig.pass(Duration::from_millis(400));
    let question = questions(&mut rig).remove(0);
    answer(&mut rig, &question, 4, Duration::ZERO);
    rig.pass(Duration::from_millis(300));
    assert!(!rig.deliver(conn), "what was not spent in time is lost");
}

#[test]
fn local_rates_and_limits_ask_nobody() {
    let local = json!({"max_message_rate": "local:2/s", "max_connection_rate": "local:9/s", "connection_limit": "local:3",
        "additional_connection_limits": {"all": "local:2"}, "aggressive_connection_opening": true, "source_selection_rate": "local:9/s"});
    let mut rig = one(json!({"max_message_rate": "local:9/s"}), local);
    rig.admit("x.test", 5);
    let opened = opened(&mut rig);
    assert!(opened.len() == 2 && opened.iter().all(|(_, asks)| !asks));
    assert!(rig.deliver(opened[0].0) && rig.deliver(opened[0].0) && !rig.deliver(opened[0].0));
    assert!(questions(&mut rig).is_empty());
}

#[test]
fn a_queue_waits_for_the_answer_and_asks_only_when_there_is_a_way() {
    let mut rig = one(json!({"max_message_rate": "60/m,max_burst=9"}), free(json!({"max_ready": 2})));
    rig.admit("x.test", 5);
    assert_eq!(rig.ready(), [("a".into(), 0)]);
    let question = questions(&mut rig).remove(0);
    assert_eq!(names(&question), ["kumomta.queue_message_rate.x.test:60:9:60"]);
    answer(&mut rig, &question, 3, Duration::ZERO);
    assert_eq!(rig.ready(), [("a".into(), 2)], "no more room");
    rig.pass(Duration::from_secs(1));
    assert!(questions(&mut rig).is_empty(), "a grant would be lost");
    let (conn, _) = opened(&mut rig)[0];
    assert!(rig.deliver(conn));
    let question = questions(&mut rig).remove(0);
    answer(&mut rig, &question, 0, Duration::from_secs(30));
    let listed = rig.core.list(rig.now, "x.test", 1).expect("a queue").remove(0);
    assert_eq!(listed.wait.why, Why::MessageRateThrottle);
    assert_eq!(listed.wait.until, Some(rig.now.wall + Duration::from_secs(30)));
    rig.pass(Duration::from_secs(31));
    let question = questions(&mut rig).remove(0);
    answer(&mut rig, &question, 9, Duration::ZERO);
    assert_eq!(rig.ready(), [("a".into(), 2)]);
    assert_eq!(rig.core.footprint().caught, 0);
}

#[test]
fn a_queue_that_finds_no_room_asks_for_no_grant() {
    let mut rig = one(json!({"max_message_rate": "60/m,max_burst=9"}), free(json!({"max_ready": 2})));
    rig.admit("x.test", 5);
    let question = questions(&mut rig).remove(0);
    answer(&mut rig, &question, 2, Duration::ZERO);
    assert_eq!(rig.ready(), [("a".into(), 2)], "no grant is left, and no room");
    rig.admit("x.test", 1);
    assert!(questions(&mut rig).is_empty(), "it would be lost");
    let (conn, _) = opened(&mut rig)[0];
    assert!(rig.deliver(conn));
    assert_eq!(questions(&mut rig).len(), 1, "there is room");
}

#[test]
fn a_source_that_has_to_be_asked_for_is_a_way_and_comes_behind_the_queues_rate() {
    let mut rig = one(json!({"max_message_rate": "60/m,max_burst=9"}), free(json!({"source_selection_rate": "2/h"})));
    rig.admit("x.test", 1);
    for name in ["kumomta.queue_message_rate.x.test:", "kumomta.source_selection_rate."] {
        assert_eq!(rig.ready(), [("a".into(), 0)]);
        let question = questions(&mut rig).remove(0);
        assert!(names(&question)[0].starts_with(name), "{name}: {:?}", names(&question));
        assert_eq!(question.3, name.contains("queue"), "that a source may not be chosen is an answer");
        answer(&mut rig, &question, 1, Duration::ZERO);
    }
    assert_eq!(rig.ready(), [("a".into(), 1)]);
}

#[test]
fn a_source_is_asked_for_in_its_turn_and_a_refusal_gives_the_turn_to_the_next() {
    let mut rig = cluster();
    let mut ways = route(&[("a", 1), ("b", 1)], &path(free(json!({}))), ROOMY);
    ways.legs[0].2.path = path(free(json!({"source_selection_rate": "2/h"}))).into();
    rig.routed("x.test", config(json!({})), ways);
    let mut turns = Vec::new();
    for _ in 0..4 {
        rig.admit("x.test", 1);
        for question in questions(&mut rig) {
            assert_eq!(rig.ready().iter().map(|(_, count)| count).sum::<usize>(), turns.len(), "nobody goes unasked");
            answer(&mut rig, &question, 1, Duration::ZERO);
        }
        turns.push(rig.ready()[0].1);
        rig.pass(Duration::from_secs(1));
    }
    assert_eq!(turns.last(), Some(&2), "every other message, by grants: {turns:?}");
    rig.admit("x.test", 3);
    let question = questions(&mut rig).remove(0);
    assert!(!question.3, "whoever goes another way takes no place in line");
    answer(&mut rig, &question, 0, Duration::from_secs(1800));
    assert_eq!(rig.ready(), [("a".into(), 2), ("b".into(), 5)], "b has what a may not");
}

#[test]
fn a_connection_opens_with_leases_one_after_the_other_and_the_rate_counts_opened_ones() {
    let mut rig = one(json!({}), json!({"connection_limit": 3, "max_connection_rate": "local:2/h,max_burst=2"}));
    rig.admit("x.test", 40);
    let first = opened(&mut rig);
    assert!(first.len() == 1 && first[0].1);
    rig.core.lease_refused(rig.now, first[0].0, Duration::from_millis(500));
    assert!(opened(&mut rig).is_empty());
    assert_eq!(rig.core.limited(rig.now)[0].1.connections.as_ref().expect("limited").context, "connection_limit: 3");
    let listed = rig.core.list(rig.now, "x.test", 1).expect("a queue").remove(0);
    assert_eq!(listed.wait.why, Why::ConnectionLimit);
    rig.pass(Duration::from_millis(600));
    let (conn, _) = opened(&mut rig).remove(0);
    assert!(rig.core.leased(rig.now, conn));
    let (second, _) = opened(&mut rig).remove(0);
    assert!(rig.core.leased(rig.now, second), "who was refused did not count");
    assert!(opened(&mut rig).is_empty(), "the rate");
    rig.core.lease_lost(conn);
    assert!(matches!(rig.core.take(rig.now, conn), Take::Close));
    assert!(rig.deliver(second));
}

#[test]
fn a_rate_of_connections_is_asked_for_with_the_leases_and_a_refusal_of_either_uses_up_nothing() {
    let mut rig = one(json!({}), json!({"connection_limit": 3, "max_connection_rate": "2/h"}));
    rig.admit("x.test", 40);
    let next = |rig: &mut Rig| {
        assert!(questions(rig).is_empty(), "no grant is asked for ahead");
        let mut opened = Vec::new();
        for effect in rig.drain() {
            if let Effect::Open(opening) = effect {
                let rates = opening.rates.as_ref().map(|rates| rates.rates()[0].0.to_string());
                assert_eq!(rates.as_deref(), Some("a-connection-rate:2:2:3600"));
                opened.push(opening.conn);
            }
        }
        opened
    };
    let conn = next(&mut rig)[0];
    rig.core.lease_refused(rig.now, conn, Duration::from_millis(300));
    rig.pass(Duration::from_millis(400));
    let conn = next(&mut rig)[0];
    let refused_at = rig.now.wall;
    rig.core.rate_refused(rig.now, conn, Duration::from_secs(900));
    assert!(next(&mut rig).is_empty());
    let listed = rig.core.list(rig.now, "x.test", 1).expect("a queue").remove(0);
    assert_eq!(listed.wait.why, Why::ConnectionRateThrottle);
    assert_eq!(listed.wait.until, Some(refused_at + Duration::from_secs(900)));
    let limited = rig.core.limited(rig.now)[0].1.connection_rate.clone().expect("limited");
    assert_eq!((limited.context.as_str(), limited.since), ("max_connection_rate: 2/h", refused_at));
    rig.pass(Duration::from_secs(899));
    assert!(next(&mut rig).is_empty(), "what is known is not asked");
    rig.pass(Duration::from_secs(2));
    let conn = next(&mut rig)[0];
    rig.core.lease_refused(rig.now, conn, Duration::from_millis(300));
    rig.pass(Duration::from_millis(400));
    let conn = next(&mut rig)[0];
    let refused_at = rig.now.wall;
    rig.core.rate_refused(rig.now, conn, Duration::from_secs(1));
    let limited = rig.core.limited(rig.now)[0].1.connection_rate.clone().expect("limited");
    assert_eq!(limited.since, refused_at, "between them it was the limit");
    rig.pass(Duration::from_secs(2));
    let conn = next(&mut rig)[0];
    // Redis took its time: what it has counted is good all the same.
    rig.pass(Duration::from_secs(1));
    assert!(rig.core.leased(rig.now, conn));
    assert!(rig.deliver(conn));
    let second = next(&mut rig)[0];
    assert!(rig.core.limited(rig.now).iter().all(|(_, limits)| limits.connection_rate.is_none()));
    assert!(rig.core.leased(rig.now, second));
    rig.core.connection_ended(rig.now, conn);
    rig.core.connection_failed(rig.now, second, smtp_wire::Reply::new(451, "nobody"));
    rig.pass(Duration::from_secs(120));
    let conn = next(&mut rig)[0];
    rig.core.rate_refused(rig.now, conn, Duration::from_secs(900));
    let listed = rig.core.list(rig.now, "x.test", 1).expect("a queue").remove(0);
    assert_eq!(listed.wait.why, Why::ConnectionRateThrottle, "not the failure: that is long over");
    assert_eq!(rig.core.footprint().caught, 0);
}

/// Connections asked for since the last call whose rate is asked for with their leases, and all others.
fn opened_by_rate(rig: &mut Rig) -> (Vec<ConnKey>, Vec<ConnKey>) {
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for effect in rig.drain() {
        match effect {
            Effect::Open(opening) if opening.rates.is_some() => with.push(opening.conn),
            Effect::Open(opening) => without.push(opening.conn),
            other => rig.effects.push(other),
        }
    }
    (with, without)
}

#[test]
fn a_long_wait_for_a_rate_of_connections_ends_when_the_rate_changes_or_this_node_goes_by_its_share() {
    let limits = |rate: &str| json!({"connection_limit": 3, "max_connection_rate": rate});
    let mut rig = one(json!({}), limits("1/d"));
    rig.admit("x.test", 9);
    let refuse = |rig: &mut Rig| {
        let (with, _) = opened_by_rate(rig);
        rig.core.rate_refused(rig.now, with[0], Duration::from_secs(40_000));
        assert!(opened_by_rate(rig).0.is_empty());
    };
    refuse(&mut rig);
    rig.core.set_away(rig.now, true);
    // Others have noticed by then.
    rig.pass(Duration::from_secs(5));
    let (_, by_share) = opened_by_rate(&mut rig);
    assert!(rig.core.leased(rig.now, by_share[0]), "its share admits one");
    rig.core.connection_ended(rig.now, by_share[0]);
    assert_eq!(opened_by_rate(&mut rig), (vec![], vec![]), "and that was it");
    rig.core.set_away(rig.now, false);
    assert!(questions(&mut rig).is_empty(), "no grant that nobody will use");
    refuse(&mut rig);
    // An operator allows more.
    rig.routed("x.test", config(json!({})), route(&[("a", 1)], &path(limits("2/d")), ROOMY));
    let (with, _) = opened_by_rate(&mut rig);
    assert!(rig.core.leased(rig.now, with[0]) && rig.deliver(with[0]));
    assert_eq!(rig.core.footprint().caught, 0);
}

#[test]
fn alone_a_node_keeps_to_its_share_and_comes_back() {
    let mut rig = one(
        json!({}),
        json!({"connection_limit": 4, "max_message_rate": "10/s,max_burst=2",
        "aggressive_connection_opening": true}),
    );
    rig.admit("x.test", 60);
    let mut conns = Vec::new();
    while let Some((conn, true)) = opened(&mut rig).pop() {
        assert!(rig.core.leased(rig.now, conn));
        conns.push(conn);
    }
    assert_eq!(conns.len(), 4);
    assert!(!rig.deliver(conns[0]));
    let lost = questions(&mut rig).remove(0);
    rig.core.set_away(rig.now, true);
    answer(&mut rig, &lost, 50, Duration::ZERO);
    let closed: Vec<ConnKey> =
        conns.iter().copied().filter(|c| matches!(rig.core.take(rig.now, *c), Take::Close)).collect();
    assert_eq!(closed.len(), 4, "all see that there are too many");
    rig.core.connection_ended(rig.now, closed[0]);
    rig.core.connection_ended(rig.now, closed[1]);
    assert!(opened(&mut rig).is_empty());
    let sent = |rig: &mut Rig, span_ms: u64| -> usize {
        let mut sent = 0;
        for _ in 0..span_ms / 50 {
            sent += (0..9).filter(|_| rig.deliver(closed[2])).count();
            rig.pass(Duration::from_millis(50));
        }
        sent
    };
    let count = sent(&mut rig, 4000);
    assert!((18..=22).contains(&count), "five a second: {count}");
    rig.core.connection_ended(rig.now, closed[3]);
    rig.pass(Duration::from_millis(300));
    let (conn, asks) = opened(&mut rig).remove(0);
    assert!(!asks && opened(&mut rig).is_empty(), "its share is two, by itself");
    // Others have more than they may: Redis, which is back, said so.
    rig.core.lease_refused(rig.now, conn, Duration::from_millis(500));
    rig.admit("x.test", 1);
    assert!(opened(&mut rig).is_empty(), "not before it may try again");
    rig.pass(Duration::from_millis(600));
    let (conn, _) = opened(&mut rig).remove(0);
    assert!(rig.core.leased(rig.now, conn));
    rig.core.set_away(rig.now, false);
    assert!(matches!(opened(&mut rig)[..], [(_, true)]), "the cluster is asked again");
    assert!(!rig.deliver(closed[2]));
    assert_eq!(questions(&mut rig).len(), 1);
    assert_eq!(rig.core.footprint().caught, 0);
}
