//! Limits that ready queues share, sources that may be chosen so often, and who passes whom.

mod support;

use clock::Duration;
use queue::{Bearing, ConnKey, Destination, Effect, Route, SourceFault, Take};
use smtp_wire::Reply;
use std::sync::Arc;
use support::{Rig, config, path, route};

const ROOMY: u64 = 1_000_000;

/// Queues `x.test` and `y.test` with ways of their own, `a` and `b`, over paths alike.
fn two(settings: serde_json::Value) -> Rig {
    let mut rig = Rig::new();
    let path = path(settings);
    rig.routed("x.test", config(serde_json::json!({})), route(&[("a", 1)], &path, ROOMY));
    rig.routed("y.test", config(serde_json::json!({})), route(&[("b", 1)], &path, ROOMY));
    rig
}

fn only(mut conns: Vec<ConnKey>) -> ConnKey {
    assert_eq!(conns.len(), 1);
    conns.remove(0)
}

#[test]
fn connections_share_a_named_limit_and_it_goes_round() {
    let mut rig = two(serde_json::json!({"additional_connection_limits": {"shared": 1, "other": 9}}));
    rig.admit("x.test", 40);
    rig.admit("y.test", 3);
    let of_x = only(rig.opened());
    let taken = std::iter::from_fn(|| rig.deliver(of_x).then_some(())).count();
    assert_eq!(taken, 16, "others wait: so many and no more");
    assert!(matches!(rig.core.take(rig.now, of_x), Take::Close));
    rig.core.connection_ended(rig.now, of_x);
    let of_y = only(rig.opened());
    assert_ne!(of_y.ready, of_x.ready, "who waited longer goes first");
    assert!((0..3).all(|_| rig.deliver(of_y)));
    assert!(matches!(rig.core.take(rig.now, of_y), Take::Close), "no idling on what others need");
    rig.core.connection_ended(rig.now, of_y);
    let again = only(rig.opened());
    assert_eq!(std::iter::from_fn(|| rig.deliver(again).then_some(())).count(), 24, "nobody waits any more");
}

/// Queues `x.test` and, once it is asked for, `y.test`, whose destinations have one name and must not be mixed: as where one domain
/// of a site demands TLS.
fn namesakes(settings: serde_json::Value) -> (Rig, impl Fn(&mut Rig)) {
    let mut rig = Rig::new();
    rig.routed("x.test", config(serde_json::json!({})), to("plain", settings.clone()));
    (rig, move |rig| _ = rig.routed("y.test", config(serde_json::json!({})), to("enforced", settings.clone())))
}

/// The way to a destination, by the ready queue `a`.
fn to(destination: &str, settings: serde_json::Value) -> Route {
    let mut way = route(&[("a", 1)], &path(settings), ROOMY);
    way.legs[0].2.destination = Destination::new(destination, Arc::new(()));
    way
}

#[test]
fn connections_to_destinations_of_one_name_have_one_limit() {
    let settings = serde_json::json!({"connection_limit": 2, "aggressive_connection_opening": true});
    let (mut rig, second) = namesakes(settings);
    rig.admit("x.test", 100);
    let of_x = rig.opened();
    assert_eq!(of_x.len(), 2);
    second(&mut rig);
    rig.admit("y.test", 30);
    assert_eq!(rig.opened(), [], "x has them all");
    assert_eq!(rig.core.limited(rig.now)[0].1.connections.as_ref().expect("limited").context, "connection_limit: 2");
    let taken = of_x.iter().map(|conn| std::iter::from_fn(|| rig.deliver(*conn).then_some(())).count());
    assert_eq!(taken.collect::<Vec<_>>(), [16, 84], "one makes room for the one that has none, the other goes on");
    rig.core.connection_ended(rig.now, of_x[0]);
    let of_y = only(rig.opened());
    assert_ne!(of_y.ready, of_x[0].ready);
    rig.core.connection_ended(rig.now, of_x[1]);
    assert_eq!(rig.opened().len(), 1, "two, now of y");
    rig.admit("x.test", 1);
    assert_eq!(rig.opened(), []);
}

#[test]
fn the_largest_limit_of_a_name_is_that_of_all_and_who_has_nothing_to_do_makes_room() {
    let mut rig = Rig::new();
    let way = |destination: &str, limit: u64| {
        to(destination, serde_json::json!({"connection_limit": limit, "aggressive_connection_opening": true}))
    };
    rig.routed("x.test", config(serde_json::json!({})), way("plain", 3));
    rig.admit("x.test", 3);
    let of_x = rig.opened();
    assert_eq!(of_x.len(), 3);
    assert!(of_x.iter().all(|conn| rig.deliver(*conn)));
    assert!(of_x.iter().all(|conn| matches!(rig.core.take(rig.now, *conn), Take::Idle)));
    rig.routed("y.test", config(serde_json::json!({})), way("enforced", 1));
    rig.admit("y.test", 2);
    assert_eq!(rig.opened(), [], "three are out");
    let woken: Vec<ConnKey> = rig
        .drain()
        .into_iter()
        .filter_map(|effect| if let Effect::Wake(conn) = effect { Some(conn) } else { None })
        .collect();
    assert_eq!(woken, [of_x[0]], "the longest idle one");
    assert!(matches!(rig.core.take(rig.now, woken[0]), Take::Close));
    rig.core.connection_ended(rig.now, woken[0]);
    let of_y = only(rig.opened());
    assert!(rig.deliver(of_y) && rig.deliver(of_y), "one of three, as its own limit says");
    // A limit that changes is that of all, whosever it is.
    rig.routed("x.test", config(serde_json::json!({})), way("plain", 1));
    rig.admit("y.test", 1);
    rig.core.connection_ended(rig.now, of_y);
    assert_eq!(rig.opened(), [], "two of x are out, and one is allowed to both together");
}

#[test]
fn a_connection_ends_when_it_would_be_made_in_another_way_now() {
    let mut rig = Rig::new();
    let by = |settings: serde_json::Value| route(&[("a", 1)], &path(settings), ROOMY);
    let (one, secured) = (
        serde_json::json!({"connection_limit": 1}),
        serde_json::json!({"connection_limit": 1, "enable_tls": "Required"}),
    );
    let key = rig.routed("x.test", config(serde_json::json!({})), by(one.clone()));
    rig.admit("x.test", 6);
    let conn = only(rig.opened());
    rig.core.routed(rig.now, key, by(secured.clone()));
    assert!(rig.deliver(conn), "one that was opening serves, or none ever might");
    rig.core.routed(rig.now, key, by(one));
    let slower = serde_json::json!({"connection_limit": 1, "max_message_rate": "1000/s", "idle_timeout": "9s"});
    rig.core.routed(rig.now, key, by(slower));
    assert!(rig.deliver(conn), "it is as it was, and a limit is no matter of the connection");
    rig.core.routed(rig.now, key, by(secured));
    assert!(matches!(rig.core.take(rig.now, conn), Take::Close) && !rig.core.may_reconnect(rig.now, conn));
    rig.core.connection_ended(rig.now, conn);
    let new = only(rig.opened());
    assert!((0..4).all(|_| rig.deliver(new)), "the rest goes by the definition that counts");
}

#[test]
fn rates_of_destinations_of_one_name_are_one() {
    let (mut rig, second) = namesakes(serde_json::json!({"max_message_rate": "10/s,max_burst=1"}));
    rig.admit("x.test", 2);
    second(&mut rig);
    rig.admit("y.test", 2);
    assert_one_rate(&mut rig);
}

/// The first of two ready queues uses up the ten a second of both; a connection of the other, and how long it waits.
fn assert_one_rate(rig: &mut Rig) -> (ConnKey, Duration) {
    let conns = rig.opened();
    let (of_x, of_y) = (conns[0], conns[conns.len() - 1]);
    assert_ne!(of_x.ready, of_y.ready);
    assert!(rig.deliver(of_x));
    let Take::After(wait) = rig.core.take(rig.now, of_y) else { panic!("the rate is used up") };
    assert_eq!(wait, Duration::from_millis(100));
    (of_y, wait)
}

#[test]
fn message_rates_are_shared_by_name() {
    let throttle = serde_json::json!({"additional_message_rate_throttles": {"all": "10/s,max_burst=1"}});
    let mut rig = two(throttle);
    rig.admit("x.test", 2);
    rig.admit("y.test", 2);
    let (of_y, wait) = assert_one_rate(&mut rig);
    rig.pass(wait);
    assert!(rig.deliver(of_y));
}

#[test]
fn a_connection_is_not_held_for_a_rate_beyond_its_patience() {
    let mut rig = two(serde_json::json!({"max_message_rate": "1/m,max_burst=1", "idle_timeout": "5s"}));
    rig.admit("x.test", 2);
    let conns = rig.opened();
    assert!(rig.deliver(conns[0]));
    conns.into_iter().for_each(|conn| {
        assert!(matches!(rig.core.take(rig.now, conn), Take::Close));
        rig.core.connection_ended(rig.now, conn);
    });
    assert_eq!(rig.core.delayed_by_rate(), 1, "the other message, which waits in its queue");
    assert!(rig.opened().is_empty());
    rig.pass(Duration::from_secs(59));
    assert!(rig.opened().is_empty());
    rig.pass(Duration::from_secs(2));
    let conn = only(rig.opened());
    assert!(rig.deliver(conn));
}

#[test]
fn a_source_that_was_chosen_often_enough_gives_way_to_the_next() {
    let mut rig = Rig::new();
    let warming = path(serde_json::json!({"source_selection_rate": "2/h"}));
    let mut ways = route(&[("a", 1), ("b", 1)], &path(serde_json::json!({})), ROOMY);
    ways.legs[0].2.path = warming.into();
    rig.routed("x.test", config(serde_json::json!({})), ways);
    rig.admit("x.test", 10);
    assert_eq!(rig.ready(), [("a".to_owned(), 2), ("b".to_owned(), 8)]);
}

#[test]
fn when_no_source_may_be_chosen_messages_wait_for_the_first_that_may() {
    let shared = serde_json::json!({"additional_source_selection_rates": {"warm-up": "6/m,max_burst=1"}});
    let mut rig = two(shared);
    rig.admit("x.test", 1);
    rig.admit("y.test", 1);
    assert_eq!(rig.ready(), [("a".to_owned(), 1), ("b".to_owned(), 0)], "one name, one count");
    rig.pass(Duration::from_millis(9_900));
    assert_eq!(rig.ready()[1].1, 0);
    rig.pass(Duration::from_millis(200));
    assert_eq!(rig.ready()[1].1, 1);
}

/// Messages of others that leave before the last of ten that come late, among `queues` queues with `each` messages.
fn passed_by(queues: usize, each: usize) -> usize {
    let mut rig = Rig::new();
    let path = path(serde_json::json!({}));
    let mut conns = Vec::new();
    for number in 0..queues {
        let name = format!("c{number}:t@x.test");
        rig.routed(&name, config(serde_json::json!({})), route(&[("a", 1)], &path, ROOMY));
        rig.admit(&name, each);
        conns.extend(rig.opened());
    }
    let urgent = rig.routed("login:t@x.test", config(serde_json::json!({})), route(&[("a", 1)], &path, ROOMY));
    rig.admit("login:t@x.test", 10);
    let (mut left, mut others) = (10, 0);
    while left > 0 {
        let queued = rig.take(conns[0]).expect("there is a backlog");
        rig.core.forget(rig.now.mono, &queued);
        match queued.queue == urgent {
            true => left -= 1,
            false => others += 1,
        }
    }
    others
}

#[test]
fn ten_messages_pass_a_million_of_one_queue_and_of_a_thousand() {
    for (queues, each) in [(1, 1_000_000), (1000, 1000)] {
        let others = passed_by(queues, each);
        // At a thousand messages a second they are out within 30 ms.
        assert!(others <= 20, "{others} of {queues} queues went before");
    }
}

#[test]
fn messages_expire_wherever_they_wait() {
    let old = Duration::from_secs(601);
    // Due, and held by the rate of the queue.
    let mut rig = Rig::new();
    let slow = config(serde_json::json!({"max_age": "10m", "max_message_rate": "1/d,max_burst=1"}));
    rig.routed("x.test", slow, route(&[("a", 1)], &path(serde_json::json!({"max_ready": 1})), ROOMY));
    rig.admit("x.test", 5);
    assert_eq!(rig.ready(), [("a".to_owned(), 1)]);
    rig.pass(old + Duration::from_secs(61));
    assert_eq!(rig.endings().len(), 5, "the one in the ready queue too: nobody took it");
    // Ready, and asked for too late: nobody is given an old one.
    let mut rig = Rig::new();
    let young = config(serde_json::json!({"max_age": "10m"}));
    rig.routed("x.test", young, route(&[("a", 1)], &path(serde_json::json!({})), ROOMY));
    rig.admit("x.test", 3);
    let conn = rig.opened()[0];
    rig.now = rig.now.after(old);
    rig.admit("x.test", 1);
    let queued = rig.take(conn).expect("the young one");
    assert_eq!(queued.message.created(), rig.now.wall);
    assert_eq!(rig.endings().len(), 3);
}

#[test]
fn a_source_that_does_not_work_rests_and_others_have_its_messages() {
    let mut rig = Rig::new();
    let mut ways = route(&[("a", 1), ("b", 1)], &path(serde_json::json!({})), ROOMY);
    for (name, (_, _, leg)) in ["sick", "well"].into_iter().zip(&mut ways.legs) {
        let source = serde_json::json!({
            "name": name, "suspend_when_unplumbed": {"trigger": {"Threshold": "2/min"}, "duration": "10m"}
        });
        leg.source = std::sync::Arc::new(config::parse("kumo.make_egress_source", source).expect("sound"));
    }
    rig.routed("x.test", config(serde_json::json!({"retry_interval": "1h"})), ways);
    rig.admit("x.test", 10);
    assert_eq!(rig.ready(), [("a".to_owned(), 5), ("b".to_owned(), 5)]);
    let conns = rig.opened();
    let fails = |rig: &mut Rig, conn| {
        rig.core.source_failed(rig.now, conn, SourceFault::Unplumbed, Reply::new(400, "cannot assign the address"))
    };
    let rests = |rig: &Rig| rig.core.source_healths(rig.now).map(|(name, _, rests)| (name.to_owned(), rests)).collect();
    let (told, failed): (Vec<(String, bool)>, _) = (rests(&rig), fails(&mut rig, conns[0]));
    assert!(told.is_empty() && !failed, "{told:?}");
    assert_eq!(rig.endings().len(), 1, "the first is a failure like any other");
    let conn = conns.iter().copied().filter(|conn| conn.ready == conns[0].ready).nth(1).expect("five messages");
    assert_eq!(rests(&rig), [("sick".to_owned(), false)]);
    assert!(fails(&mut rig, conn), "it begins to rest");
    assert_eq!(rests(&rig), [("sick".to_owned(), true)]);
    assert!(rig.endings().is_empty(), "no attempt counts");
    assert_eq!(rig.ready(), [("a".to_owned(), 0), ("b".to_owned(), 9)]);
    rig.admit("x.test", 4);
    assert_eq!(rig.ready()[0].1, 0, "it rests");
    rig.pass(Duration::from_secs(601));
    rig.admit("x.test", 4);
    assert_eq!(rig.ready()[0].1, 2, "it has its share again");
}

#[test]
fn a_source_that_may_not_be_chosen_holds_nobody_up_who_has_another() {
    let mut rig = Rig::new();
    let limited = path(serde_json::json!({"source_selection_rate": "1/d,max_burst=1"}));
    let mut ways = route(&[("a", 1), ("b", 1)], &path(serde_json::json!({"max_ready": 2})), ROOMY);
    ways.legs[0].2.path = limited.into();
    rig.routed("x.test", config(serde_json::json!({})), ways);
    rig.admit("x.test", 20);
    assert_eq!(rig.ready(), [("a".to_owned(), 1), ("b".to_owned(), 2)], "b is full, a had its turn");
    let conns = rig.opened();
    let of_b = conns[conns.len() - 1];
    let delivered = std::iter::from_fn(|| rig.deliver(of_b).then_some(())).count();
    assert_eq!(delivered, 19, "the others go by b, one after the other, without waiting for a");
}

#[test]
fn those_who_wait_for_a_selection_rate_take_turns() {
    let mut rig = Rig::new();
    let warm = path(serde_json::json!({"additional_source_selection_rates": {"warm-up": "1/s,max_burst=1"}}));
    for name in ["x.test", "y.test", "z.test"] {
        rig.routed(name, config(serde_json::json!({})), route(&[("a", 1)], &warm, ROOMY));
        rig.admit(name, 50);
    }
    let mut conn = None;
    let mut went = std::collections::BTreeMap::<String, usize>::new();
    for _ in 0..60 {
        rig.pass(Duration::from_secs(1));
        conn = conn.or(rig.opened().first().copied());
        while let Some(queued) = conn.and_then(|conn| rig.take(conn)) {
            *went.entry(rig.core.queue_name(queued.queue).to_string()).or_default() += 1;
            rig.core.forget(rig.now.mono, &queued);
        }
    }
    assert_eq!(went.len(), 3, "{went:?}");
    assert!(went.values().all(|count| (18..=22).contains(count)), "{went:?}");
}

#[test]
fn a_destination_tells_how_many_connections_it_bears_and_is_left_alone_when_dead() {
    let mut rig = Rig::new();
    let feedback = serde_json::json!({"initial": 3, "failures_before_suspension": 2, "suspension": "10m"});
    let path = path(serde_json::json!({"concurrency_feedback": feedback, "aggressive_connection_opening": true}));
    rig.routed("x.test", config(serde_json::json!({})), route(&[("a", 1)], &path, ROOMY));
    rig.admit("x.test", 100);
    let conns = rig.opened();
    assert_eq!(conns.len(), 3, "to begin with");
    let ready = conns[0].ready;
    for _ in 0..4 {
        assert!(rig.deliver(conns[0]));
        rig.core.bears(rig.now, ready, Bearing::Delivers);
    }
    rig.core.connection_ended(rig.now, conns[0]);
    let opened = rig.opened();
    assert_eq!(opened.len(), 2, "the one that ended, and one more");
    for _ in 0..3 {
        rig.core.bears(rig.now, ready, Bearing::Defers);
    }
    for conn in [conns[1], conns[2], conns[1], opened[0]] {
        assert!(matches!(rig.core.take(rig.now, conn), Take::Close), "one is what it bears now");
        assert!(!rig.core.may_reconnect(rig.now, conn), "nor anew");
    }
    assert!(rig.core.may_reconnect(rig.now, opened[1]));
    assert!(rig.deliver(opened[1]), "and one stays");
    for _ in 0..3 {
        rig.core.bears(rig.now, ready, Bearing::Defers);
    }
    rig.pass(Duration::ZERO);
    assert_eq!(rig.ready(), [("a".into(), 0)], "dead: its messages are due elsewhere, uncounted");
    let listed = rig.core.list(rig.now, "x.test", 1).expect("a queue").remove(0);
    assert_eq!((listed.wait.why, listed.message.attempts), (queue::Why::DestinationIsDead, 0));
    assert_eq!(listed.wait.until, Some(rig.now.wall + Duration::from_secs(600)));
    rig.pass(Duration::from_secs(601));
    assert_eq!(rig.ready(), [("a".into(), 95)]);
    assert_eq!(rig.core.footprint().caught, 0);
}

#[test]
fn that_a_destination_is_dead_is_not_forgotten_before_it_is_over() {
    let mut rig = Rig::new();
    let feedback = serde_json::json!({"initial": 1, "failures_before_suspension": 1, "suspension": "2 hours"});
    let path = path(serde_json::json!({"concurrency_feedback": feedback}));
    rig.routed("x.test", config(serde_json::json!({})), route(&[("a", 1), ("b", 1)], &path, 1_000_000));
    rig.admit("x.test", 1);
    let conn = rig.opened()[0];
    let queued = rig.take(conn).expect("one");
    rig.core.forget(rig.now.mono, &queued);
    rig.core.bears(rig.now, conn.ready, queue::Bearing::Defers);
    rig.core.connection_ended(rig.now, conn);
    rig.pass(Duration::from_secs(3600));
    assert_eq!(rig.ready(), [("a".into(), 0)], "the one nobody used is forgotten");
    rig.pass(Duration::from_secs(3 * 3600));
    assert_eq!(rig.ready(), []);
}
