//! What operators are told of ready queues: what limits them, since when, and who feeds them.

mod support;

use clock::Duration;
use serde_json::json;
use support::{Rig, config, path, route};

const ROOMY: u64 = 1_000_000;

fn limited(rig: &Rig) -> Vec<(String, Option<String>, Option<String>)> {
    let context = |limited: Option<queue::Limited>| limited.map(|limited| limited.context);
    let all = rig.core.limited(rig.now).into_iter();
    all.map(|(name, of)| (name.to_string(), context(of.connections), context(of.connection_rate))).collect()
}

#[test]
fn a_shared_limit_is_named_while_it_holds_back() {
    let mut rig = Rig::new();
    let path = path(json!({"additional_connection_limits": {"shared": 1}}));
    for (queue, leg) in [("x.test", "a"), ("y.test", "b")] {
        rig.routed(queue, config(json!({})), route(&[(leg, 1)], &path, ROOMY));
    }
    rig.admit("x.test", 1);
    let conn = rig.opened()[0];
    assert_eq!(limited(&rig), []);
    rig.pass(Duration::from_secs(3));
    rig.admit("y.test", 1);
    let since = rig.now.wall;
    rig.pass(Duration::from_secs(5));
    let expected = ("b".to_owned(), Some("additional_connection_limits: shared: 1".to_owned()), None);
    assert_eq!(limited(&rig), [expected]);
    let view = rig.core.ready_view(rig.now, "b").expect("a ready queue");
    assert_eq!(view.limits.connections.map(|limited| limited.since), Some(since));
    assert_eq!((view.messages, view.connections.len()), (1, 0));
    assert!(rig.deliver(conn));
    rig.core.connection_ended(rig.now, conn);
    assert_eq!(limited(&rig), []);
    let opened = rig.opened();
    assert_eq!(rig.core.connections_named("b"), Some(opened));
    assert_eq!((rig.core.connections_named("a"), rig.core.connections_named("c")), (Some(Vec::new()), None));
}

#[test]
fn a_connection_rate_is_told_until_it_lets_the_next_one_open() {
    let mut rig = Rig::new();
    let path = path(json!({"max_connection_rate": "1/m"}));
    rig.routed("x.test", config(json!({})), route(&[("a", 1)], &path, ROOMY));
    rig.admit("x.test", 100);
    let since = rig.now.wall;
    assert_eq!(rig.opened().len(), 1);
    rig.pass(Duration::from_secs(30));
    let view = rig.core.ready_view(rig.now, "a").expect("a ready queue");
    let rate = view.limits.connection_rate.expect("more are wanted");
    assert_eq!((rate.context.as_str(), rate.since), ("max_connection_rate: 1/m", since));
    assert_eq!((view.limits.connections, view.connections.len()), (None, 1));
    rig.pass(Duration::from_secs(31));
    let opened = rig.opened();
    assert_eq!(opened.len(), 1, "a minute is over");
    let again = rig.core.ready_view(rig.now, "a").and_then(|view| view.limits.connection_rate);
    assert!(again.is_some_and(|limited| limited.since > since), "that wait is another");
    while rig.deliver(opened[0]) {}
    assert_eq!(limited(&rig), [], "nothing is left to connect for");
}

#[test]
fn of_namesakes_the_busiest_is_shown_and_who_feeds_it_is_found_in_steps() {
    let mut rig = Rig::new();
    let path = path(json!({}));
    for number in 0..9000 {
        rig.core.queue(rig.now.mono, &format!("idle{number}.test"));
    }
    rig.routed("x.test", config(json!({})), route(&[("a", 1)], &path, ROOMY));
    let mut other = route(&[("a", 1)], &path, ROOMY);
    other.legs[0].2.destination = queue::Destination::new("elsewhere", std::sync::Arc::new(()));
    rig.routed("y.test", config(json!({})), other);
    rig.admit("x.test", 1);
    rig.admit("y.test", 3);
    let view = rig.core.ready_view(rig.now, "a").expect("a ready queue");
    assert_eq!((view.messages, &**view.leg.destination.identity()), (3, "elsewhere"));
    let (mut names, mut steps, mut step) = (Vec::new(), 0, Some(0));
    while let Some(from) = step {
        let (found, next) = rig.core.feeders(view.key, from);
        names.extend(found);
        (steps, step) = (steps + 1, next);
    }
    assert_eq!((names, steps), (vec!["y.test".into()], 2));
    assert!(rig.core.ready_view(rig.now, "b").is_none());
}
