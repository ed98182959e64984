//! A limit that is raised counts at once: nobody waits for what the old one had said.

mod support;

use clock::Duration;
use config::QueueConfig;
use queue::{Effect, QueueKey, SourceFault, Take, Why};
use std::sync::Arc;
use support::{Rig, config, failure, leg, path, route};

const FRESH: u64 = 1_000_000;

fn parsed(json: serde_json::Value) -> QueueConfig {
    config::parse("kumo.make_queue_config", json).expect("sound")
}

/// Three messages on a path that lets one through an hour; the first is out.
fn slow_path() -> (Rig, QueueKey) {
    let mut rig = Rig::new();
    let slow = path(serde_json::json!({"max_message_rate": "1/h"}));
    let key = rig.routed("x.test", config(serde_json::json!({})), route(&[("a", 1)], &slow, FRESH));
    rig.admit("x.test", 3);
    for (at, conn) in rig.opened().into_iter().enumerate() {
        assert_eq!(rig.deliver(conn), at == 0);
        rig.core.connection_ended(rig.now, conn);
    }
    rig.pass(Duration::from_secs(5));
    assert!(rig.opened().is_empty());
    (rig, key)
}

#[test]
fn a_path_whose_rate_is_raised_opens_at_once() {
    let (mut rig, key) = slow_path();
    let fast = path(serde_json::json!({"max_message_rate": "1000/s"}));
    rig.core.routed(rig.now, key, route(&[("a", 1)], &fast, FRESH));
    let conns = rig.opened();
    assert!(!conns.is_empty());
    assert!(rig.deliver(conns[0]));
}

#[test]
fn a_path_that_stays_as_it_is_waits_on_and_says_for_what() {
    let (mut rig, key) = slow_path();
    let slow = path(serde_json::json!({"max_message_rate": "1/h"}));
    rig.core.routed(rig.now, key, route(&[("a", 1)], &slow, FRESH));
    assert!(rig.opened().is_empty());
    let listed = rig.core.list(rig.now, "x.test", 9).expect("known");
    assert!(listed.iter().all(|listed| listed.wait.why == Why::MessageRateThrottle), "{listed:?}");
}

#[test]
fn a_path_whose_pause_is_one_for_failures_keeps_it() {
    let mut rig = Rig::new();
    let path = path(serde_json::json!({"connection_limit": 1}));
    let key = rig.routed("x.test", config(serde_json::json!({})), route(&[("a", 1)], &path, FRESH));
    rig.admit("x.test", 3);
    let conn = rig.opened()[0];
    rig.core.connection_failed(rig.now, conn, failure(451).reply);
    rig.core.routed(rig.now, key, route(&[("a", 1)], &path, FRESH));
    assert!(rig.opened().is_empty());
    rig.pass(Duration::from_secs(2));
    assert_eq!(rig.opened().len(), 1);
}

#[test]
fn a_queue_whose_rate_is_raised_goes_on_at_once_and_policy_is_asked_meanwhile() {
    let mut rig = Rig::new();
    let slow: QueueConfig = parsed(serde_json::json!({"max_message_rate": "1/h", "refresh_interval": "60s"}));
    let key = rig.routed("x.test", slow.clone(), route(&[("a", 1)], &path(serde_json::json!({})), FRESH));
    rig.admit("x.test", 3);
    rig.drain();
    let mut asked = 0;
    for _ in 0..10 {
        rig.pass(Duration::from_secs(60));
        if rig.drain().iter().any(|effect| matches!(effect, Effect::Configure { .. })) {
            asked += 1;
            rig.core.configured(rig.now, key, Arc::new(slow.clone()));
        }
    }
    assert!((9..=10).contains(&asked), "{asked}");
    assert_eq!(rig.core.scheduled_in("x.test"), 2);
    rig.core.configured(rig.now, key, Arc::new(config(serde_json::json!({"max_message_rate": "1000/s"}))));
    assert_eq!(rig.core.scheduled_in("x.test"), 0);
}

#[test]
fn a_queue_without_a_route_is_not_asked_about_before_its_time() {
    let mut rig = Rig::new();
    let config = parsed(serde_json::json!({"refresh_interval": "10s"}));
    let key = rig.core.queue(rig.now.mono, "x.test");
    rig.core.configured(rig.now, key, Arc::new(config));
    rig.admit("x.test", 1);
    rig.core.unroutable(rig.now, key, failure(451));
    rig.drain();
    rig.admit("x.test", 1);
    rig.pass(Duration::from_secs(50));
    assert!(!rig.drain().iter().any(|effect| matches!(effect, Effect::Route { .. } | Effect::Configure { .. })));
}

#[test]
fn a_connection_that_is_woken_once_too_often_is_promised_nothing_more() {
    let mut rig = Rig::new();
    let path = path(serde_json::json!({"connection_limit": 2, "aggressive_connection_opening": true}));
    rig.routed("x.test", config(serde_json::json!({})), route(&[("a", 1)], &path, FRESH));
    rig.admit("x.test", 2);
    let conns = rig.opened();
    assert_eq!(conns.len(), 2);
    conns.iter().for_each(|conn| assert!(rig.deliver(*conn)));
    let [one, other] = [conns[0], conns[1]];
    // Both are idle, and the one is woken for nothing.
    conns.iter().for_each(|conn| assert!(matches!(rig.core.take(rig.now, *conn), Take::Idle)));
    rig.admit("x.test", 1);
    let woken = |rig: &mut Rig| -> Vec<_> {
        let of = |effect| if let Effect::Wake(conn) = effect { Some(conn) } else { None };
        rig.drain().into_iter().filter_map(of).collect()
    };
    assert_eq!(woken(&mut rig), [one], "it is promised to the first");
    assert!(matches!(rig.core.take(rig.now, other), Take::Message(_)), "and the other has it");
    rig.admit("x.test", 1);
    assert!(!woken(&mut rig).contains(&other), "who has one in hand is promised none");
}

#[test]
fn a_source_that_rests_costs_each_failure_its_own_queue() {
    let mut rig = Rig::new();
    let source =
        serde_json::json!({"name": "s", "suspend_when_unplumbed": {"trigger": "Immediate", "duration": "10m"}});
    let source = Arc::new(config::parse("kumo.make_egress_source", source).expect("sound"));
    let path = path(serde_json::json!({}));
    for number in 0..3000 {
        let (name, mut leg) = (format!("d{number}.test"), leg(&path));
        leg.source = Arc::clone(&source);
        let route =
            queue::Route { legs: vec![(format!("s->{name}").into(), 1, leg)], fresh_for: Duration::from_secs(FRESH) };
        rig.routed(&name, config(serde_json::json!({})), route);
        rig.admit(&name, 1);
    }
    let conns = rig.opened();
    assert_eq!(conns.len(), 3000);
    let begins =
        conns.iter().filter(|conn| rig.core.source_failed(rig.now, **conn, SourceFault::Unplumbed, failure(451).reply));
    assert_eq!(begins.count(), 1);
    let mut ticks = 0;
    while rig.core.deadline() <= rig.now.mono {
        rig.core.tick(rig.now);
        ticks += 1;
    }
    // 3000 queues that are empty and 3000 that failed, some thousand a visit; it was once all of them for each that failed.
    assert!(ticks < 20, "{ticks}");
    assert_eq!(rig.core.counts().out, 0);
}
