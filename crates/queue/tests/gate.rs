//! The gate between scheduled and ready: each obstacle, what ends it, and that nobody waits for
//! what never comes.

mod support;

use clock::Duration;
use config::EgressPath;
use queue::schedule::{Belonging, End};
use queue::{Effect, Ending, Place, Take, Verdict};
use support::{Rig, config, failure, path, route};

const ROOMY: u64 = 1_000_000;

#[test]
fn a_message_waits_for_configuration_then_route_then_goes_on() {
    let mut rig = Rig::new();
    rig.admit("d.test", 1);
    let Some(Effect::Configure { queue, name }) = rig.drain().pop() else { panic!("no configuration asked for") };
    assert_eq!(&*name, "d.test");
    rig.admit("d.test", 1);
    assert!(rig.drain().is_empty(), "asked once");
    rig.core.configured(rig.now, queue, config(serde_json::json!({})).into());
    assert!(matches!(rig.drain()[..], [Effect::Route { .. }]));
    rig.core.routed(rig.now, queue, route(&[("a", 1)], &EgressPath::default(), ROOMY));
    assert_eq!(rig.ready(), [("a".to_owned(), 2)]);
}

#[test]
fn max_ready_holds_and_those_who_wait_take_turns() {
    let mut rig = Rig::new();
    let narrow = path(serde_json::json!({"max_ready": 2, "connection_limit": 1}));
    for name in ["x.test", "y.test", "z.test"] {
        rig.routed(name, config(serde_json::json!({})), route(&[("a", 1)], &narrow, ROOMY));
    }
    let mut waiting: Vec<_> = ["x.test", "y.test", "z.test"].into_iter().flat_map(|q| rig.admit(q, 60)).collect();
    let conn = rig.opened()[0];
    let mut order = Vec::new();
    while let Some(queued) = rig.take(conn) {
        assert!(rig.ready()[0].1 <= 2, "{:?}", rig.ready());
        order.push(rig.core.queue_name(queued.queue).to_string());
        waiting.retain(|id| *id != queued.message.id);
        rig.core.forget(rig.now.mono, &queued);
    }
    assert!(waiting.is_empty(), "{} were never called", waiting.len());
    // x filled the queue before anybody waited; from then on the three share what becomes free.
    let first = &order[2..62];
    for name in ["x.test", "y.test", "z.test"] {
        let count = first.iter().filter(|n| **n == name).count();
        assert!((15..=25).contains(&count), "{name} had {count} of 60 places");
    }
}

#[test]
fn a_turn_spent_on_expired_messages_is_not_lost() {
    let mut rig = Rig::new();
    let narrow = path(serde_json::json!({"max_ready": 1, "connection_limit": 1}));
    rig.routed("x.test", config(serde_json::json!({})), route(&[("a", 1)], &narrow, ROOMY));
    rig.routed("y.test", config(serde_json::json!({"max_age": "10s"})), route(&[("a", 1)], &narrow, ROOMY));
    rig.admit("x.test", 1);
    rig.admit("y.test", 20);
    let early = rig.now;
    let late = early.after(Duration::from_secs(11));
    // Made later than the others, and in line behind them before any of them is too old.
    rig.now = late;
    let mut young = rig.message(1);
    young.due = early.wall;
    rig.core.admit(early, "y.test", young);
    let conn = rig.opened()[0];
    // Not by tick: the periodic look at everything must not be what helps.
    assert!(rig.deliver(conn), "x's message");
    let expired = rig.endings().into_iter().filter(|(_, ending)| matches!(ending, Ending::Expired)).count();
    assert_eq!((expired, rig.ready()), (20, vec![("a".to_owned(), 1)]), "the young one is behind twenty old ones");
}

#[test]
fn sources_share_by_weight_under_a_rate_too() {
    for rate in [None, Some("1/s")] {
        let mut rig = Rig::new();
        let settings = rate.map_or(serde_json::json!({}), |r| serde_json::json!({"max_message_rate": r}));
        let legs = route(&[("a", 3), ("b", 1)], &EgressPath::default(), ROOMY);
        rig.routed("d.test", config(settings), legs);
        rig.admit("d.test", 40);
        rig.pass(Duration::from_secs(50));
        assert_eq!(rig.ready(), [("a".to_owned(), 30), ("b".to_owned(), 10)], "rate {rate:?}");
    }
}

#[test]
fn a_full_source_gives_way_and_costs_no_rate() {
    let mut rig = Rig::new();
    let narrow = path(serde_json::json!({"max_ready": 1, "connection_limit": 1}));
    rig.routed(
        "d.test",
        config(serde_json::json!({"max_message_rate": "1/h,max_burst=3"})),
        route(&[("a", 1)], &narrow, ROOMY),
    );
    rig.admit("d.test", 5);
    let conn = rig.opened()[0];
    let mut taken = 0;
    while let Some(queued) = rig.take(conn) {
        taken += 1;
        rig.core.forget(rig.now.mono, &queued);
    }
    assert_eq!(taken, 3, "a walk that finds no room must not use the burst up");
}

#[test]
fn the_queue_rate_is_kept_to_the_second() {
    let mut rig = Rig::new();
    rig.routed(
        "d.test",
        config(serde_json::json!({"max_message_rate": "3/s"})),
        route(&[("a", 1)], &EgressPath::default(), ROOMY),
    );
    rig.admit("d.test", 30);
    assert_eq!(rig.ready()[0].1, 3, "the burst");
    rig.pass(Duration::from_secs(3));
    assert!((11..=12).contains(&rig.ready()[0].1), "{:?}", rig.ready());
    rig.pass(Duration::from_secs(7));
    assert_eq!(rig.ready()[0].1, 30);
}

#[test]
fn without_a_route_messages_are_settled_and_the_queue_rests() {
    for (code, verdict) in [(451, Verdict::Transient), (556, Verdict::Permanent)] {
        let mut rig = Rig::new();
        let key = rig.core.queue(rig.now.mono, "d.test");
        rig.core.configured(rig.now, key, config(serde_json::json!({})).into());
        rig.admit("d.test", 2);
        assert!(matches!(rig.drain()[..], [Effect::Route { .. }]));
        rig.core.unroutable(rig.now, key, failure(code));
        let mut verdicts = Vec::new();
        for (queued, ending) in rig.endings() {
            let Ending::Undeliverable(failure) = ending else { panic!("{ending:?}") };
            rig.core.forget(rig.now.mono, &queued);
            verdicts.push(failure.verdict);
        }
        rig.drain();
        assert_eq!(verdicts, [verdict, verdict]);
        rig.admit("d.test", 1);
        rig.pass(Duration::from_secs(59));
        assert!(rig.drain().is_empty(), "asked again too early");
        rig.pass(Duration::from_secs(2));
        assert!(matches!(rig.drain()[..], [Effect::Route { .. }]), "after the rest the next message asks");
    }
}

#[test]
fn a_failed_refresh_does_not_hide_the_missing_route() {
    let mut rig = Rig::new();
    let key = rig.routed("d.test", config(serde_json::json!({})), route(&[("a", 1)], &EgressPath::default(), ROOMY));
    rig.core.unroutable(rig.now, key, failure(451));
    rig.admit("d.test", 1);
    rig.pass(Duration::from_secs(61));
    let asked = rig.drain().iter().any(|e| matches!(e, Effect::Route { .. }));
    assert!(asked, "the old route's freshness must not keep the queue without one");
}

#[test]
fn without_any_configuration_messages_stay_uncounted() {
    let mut rig = Rig::new();
    rig.admit("d.test", 3);
    let Some(Effect::Configure { queue, .. }) = rig.drain().pop() else { panic!("no configuration asked for") };
    rig.core.unroutable(rig.now, queue, failure(451));
    assert!(rig.drain().is_empty(), "default retry plans must not decide over them");
    assert!(rig.core.census().all(|(_, place)| place == Place::Due));
    rig.pass(Duration::from_secs(61));
    assert!(matches!(rig.drain()[..], [Effect::Configure { .. }]), "asked again after the hold");
}

#[test]
fn new_weights_are_followed_and_no_weight_is_no_route() {
    let mut rig = Rig::new();
    let open = EgressPath::default();
    let key = rig.routed("d.test", config(serde_json::json!({})), route(&[("a", 1), ("b", 1)], &open, ROOMY));
    rig.core.routed(rig.now, key, route(&[("a", 1), ("b", 0)], &open, ROOMY));
    rig.admit("d.test", 6);
    assert_eq!(rig.ready(), [("a".to_owned(), 6), ("b".to_owned(), 0)]);
    rig.core.routed(rig.now, key, route(&[("a", 0), ("b", 0)], &open, ROOMY));
    rig.admit("d.test", 1);
    rig.drain();
    rig.pass(Duration::from_secs(61));
    assert!(rig.drain().iter().any(|e| matches!(e, Effect::Route { .. })), "nobody may send: ask again");
}

#[test]
fn a_route_to_a_forgotten_ready_queue_is_asked_for_again() {
    let mut rig = Rig::new();
    let key = rig.routed(
        "d.test",
        config(serde_json::json!({"reap_interval": "10 days"})),
        route(&[("a", 1)], &EgressPath::default(), ROOMY),
    );
    rig.pass(Duration::from_secs(700));
    assert_eq!(rig.core.footprint().ready_queues, 0, "unused for ten minutes");
    rig.drain();
    rig.admit("d.test", 1);
    assert!(matches!(rig.drain()[..], [Effect::Route { .. }]));
    rig.core.routed(rig.now, key, route(&[("a", 1)], &EgressPath::default(), ROOMY));
    assert_eq!(rig.ready(), [("a".to_owned(), 1)]);
}

#[test]
fn old_messages_expire_at_the_gate_and_young_ones_pass() {
    let mut rig = Rig::new();
    let young = rig.message(1);
    let mut old = rig.message(1);
    old.due = rig.now.wall + Duration::from_secs(200);
    let old_id = old.id;
    rig.core.admit(rig.now, "d.test", old);
    rig.core.admit(rig.now, "d.test", young);
    rig.routed(
        "d.test",
        config(serde_json::json!({"max_age": "100s"})),
        route(&[("a", 1)], &EgressPath::default(), ROOMY),
    );
    assert_eq!(rig.ready(), [("a".to_owned(), 1)]);
    let conn = rig.opened()[0];
    assert!(rig.deliver(conn), "the young one");
    rig.drain();
    rig.pass(Duration::from_secs(201));
    let ended = rig.endings();
    assert!(matches!(&ended[..], [(queued, Ending::Expired)] if queued.message.id == old_id), "{ended:?}");
}

#[test]
fn what_nobody_uses_is_forgotten_and_what_is_used_is_not() {
    let mut rig = Rig::new();
    rig.routed("d.test", config(serde_json::json!({})), route(&[("a", 1)], &EgressPath::default(), ROOMY));
    rig.admit("d.test", 1);
    let conn = rig.opened()[0];
    let queued = rig.take(conn).expect("a message");
    rig.pass(Duration::from_secs(3600));
    let size = rig.core.footprint();
    assert_eq!(
        (size.scheduled_queues, size.ready_queues, size.out),
        (1, 1, 1),
        "a message is out and a connection open"
    );
    rig.core.forget(rig.now.mono, &queued);
    rig.core.connection_ended(rig.now, conn);
    rig.pass(Duration::from_secs(720));
    let Some(Effect::Forgotten(name)) = rig.drain().pop() else { panic!("nobody is told") };
    assert_eq!((&*name, rig.core.footprint()), ("a", queue::Footprint::default()));
    assert!(matches!(rig.core.take(rig.now, conn), Take::Close), "a connection of a forgotten queue closes");
}

#[test]
fn a_name_is_forgotten_with_the_last_destination_of_it() {
    let mut rig = Rig::new();
    let elsewhere = |mut route: queue::Route| {
        route.legs[0].2.destination = queue::Destination::new("elsewhere", std::sync::Arc::new(()));
        route
    };
    let way = || route(&[("a", 1)], &EgressPath::default(), ROOMY);
    rig.routed("busy.test", config(serde_json::json!({})), way());
    rig.routed("idle.test", config(serde_json::json!({})), elsewhere(way()));
    rig.admit("busy.test", 1);
    let busy = rig.opened()[0];
    let queued = rig.take(busy).expect("a message");
    rig.admit("idle.test", 1);
    let idle = rig.opened()[0];
    let gone = rig.take(idle).expect("a message");
    rig.core.forget(rig.now.mono, &gone);
    rig.core.connection_ended(rig.now, idle);
    rig.pass(Duration::from_secs(720));
    assert_eq!(rig.core.footprint().ready_queues, 1);
    assert!(!rig.drain().iter().any(|effect| matches!(effect, Effect::Forgotten(_))), "the other is still there");
    rig.core.forget(rig.now.mono, &queued);
    rig.core.connection_ended(rig.now, busy);
    rig.pass(Duration::from_secs(720));
    assert!(matches!(rig.drain().pop(), Some(Effect::Forgotten(name)) if &*name == "a"));
}

#[test]
fn a_place_in_a_line_that_nobody_needs_any_more_keeps_no_queue_alive() {
    let mut rig = Rig::new();
    let (narrow, wide) =
        (serde_json::json!({"max_ready": 1}), serde_json::json!({"max_ready": 20, "connection_limit": 1}));
    let mut both = route(&[("narrow", 1)], &path(narrow), ROOMY);
    both.legs.extend(route(&[("wide", 900)], &path(wide), ROOMY).legs);
    rig.routed("d.test", config(serde_json::json!({})), both);
    rig.admit("d.test", 61);
    let [wide, narrow] = rig.opened()[..] else { panic!("one connection each") };
    let mut wide = Some(wide);
    // The wide one fails again and again, each time with room for more than one turn.
    while let Some(conn) = wide.take() {
        rig.core.site_failed(rig.now, conn, smtp_wire::Reply::new(550, "5.4.4 prohibited"));
        for (queued, _) in rig.endings() {
            rig.core.forget(rig.now.mono, &queued);
        }
        for effect in rig.drain() {
            match effect {
                Effect::Settle(_) => {}
                Effect::Open(opening) => wide = Some(opening.conn),
                other => panic!("{other:?}"),
            }
        }
        // In the place of its only message nobody comes: the wide one has room and weighs more.
        rig.deliver(narrow);
    }
    assert_eq!(rig.core.census().count(), 0);
    assert_eq!(rig.core.footprint().waiters, 1, "the queue is in a line in which nothing moves");
    rig.core.connection_ended(rig.now, narrow);
    rig.pass(Duration::from_secs(61));
    assert_eq!(rig.core.footprint().waiters, 0);
    rig.pass(Duration::from_secs(1500));
    rig.drain();
    assert_eq!(rig.core.footprint(), queue::Footprint::default());
}

#[test]
fn an_end_of_its_own_holds_in_every_state_and_instead_of_max_age() {
    let mut rig = Rig::new();
    let path = path(serde_json::json!({"connection_limit": 1}));
    rig.routed("x.test", config(serde_json::json!({"max_age": "10s"})), route(&[("a", 1)], &path, 1_000_000));
    let until = |rig: &Rig, secs: u64| Some(End { at: rig.now.wall + Duration::from_secs(secs), is_deadline: false });
    let late = (rig.message(1), until(&rig, 1000));
    let waiting = rig.message(1);
    let waiting = (message::Message { due: rig.now.wall + Duration::from_secs(20), ..waiting }, until(&rig, 15));
    let ids = [late.0.id, waiting.0.id];
    for (message, end) in [late, waiting] {
        rig.core.admit_to(rig.now, Belonging { end, ..Belonging::to("x.test") }, message);
    }
    rig.pass(Duration::from_secs(100));
    let ended: Vec<_> = rig.endings().into_iter().map(|(queued, _)| queued).collect();
    assert_eq!(ended.iter().map(|q| q.message.id).collect::<Vec<_>>(), [ids[1]], "the other has time");
    ended.iter().for_each(|queued| rig.core.forget(rig.now.mono, queued));
    rig.pass(Duration::from_secs(1000));
    let ended: Vec<_> = rig.endings().into_iter().map(|(queued, _)| queued.message.id).collect();
    assert_eq!(ended, [ids[0]]);
}

#[test]
fn ends_of_their_own_cost_one_timer_a_queue_and_come_one_after_the_other() {
    let mut rig = Rig::new();
    let path = path(serde_json::json!({"connection_limit": 1, "max_ready": 1}));
    rig.routed("x.test", config(serde_json::json!({})), route(&[("a", 1)], &path, 1_000_000));
    let timers = rig.core.footprint().timers;
    let admit = |rig: &mut Rig, secs: u64| {
        let end = End { at: rig.now.wall + Duration::from_secs(secs), is_deadline: false };
        let message = rig.message(1);
        rig.core.admit_to(rig.now, Belonging { end: Some(end), ..Belonging::to("x.test") }, message);
    };
    (0..1000).for_each(|n| admit(&mut rig, 100_000 + n));
    let conn = rig.opened()[0];
    while rig.deliver(conn) {}
    assert!(rig.core.footprint().timers <= timers + 1, "{:?}", rig.core.footprint());
    // One is ready, and in the hand of nobody; the others wait behind it.
    [5000, 300, 310, 310, 320].iter().for_each(|secs| admit(&mut rig, *secs));
    for (secs, expected) in [(299, 0), (2, 1), (10, 3), (10, 4)] {
        rig.pass(Duration::from_secs(secs));
        let census = rig.core.census().filter(|(_, place)| *place == queue::Place::Ending).count();
        assert_eq!(census, expected, "{secs} s later");
    }
}
