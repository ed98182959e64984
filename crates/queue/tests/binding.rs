//! What operators are told of a message that waits: the limit that binds and who else uses it, the order that holds it, its end,
//! and how often ready queues were full.

mod support;

use clock::{Duration, WallTime};
use queue::{Action, Binding, Criteria, FullOf, Order, OrderId, Place, SHARERS_MAX, Sharers, Wait, Why};
use serde_json::json;
use std::sync::Arc;
use support::{Rig, config, path, route};

const ROOMY: u64 = 1_000_000;

fn wait(rig: &Rig, queue: &str) -> Wait {
    let listed = rig.core.list(rig.now, queue, 1).expect("a queue");
    listed.into_iter().next().expect("a message").wait
}

fn binding(rig: &Rig, queue: &str) -> Binding {
    let wait = wait(rig, queue);
    wait.limit.unwrap_or_else(|| panic!("{:?} names no limit", wait.why))
}

/// Who uses it, as all ready queues say.
fn sharers(rig: &Rig, of: &Binding) -> Sharers {
    Sharers::of(rig.core.ready_keys().into_iter().filter_map(|key| rig.core.sharer(of, key)).collect())
}

fn order(action: Action, rig: &Rig) -> Order {
    Order {
        id: OrderId([7; 16]),
        action,
        reason: "maintenance".into(),
        given: rig.now.wall,
        expires: rig.now.wall + Duration::from_secs(60),
        suppress_logging: false,
        survives_restart: false,
    }
}

#[test]
fn a_rate_by_name_is_told_from_ones_own_and_who_shares_it_is_known() {
    let mut rig = Rig::new();
    let shared = path(json!({
        "max_message_rate": "1000/s", "additional_message_rate_throttles": {"all": "1/m,max_burst=1"}
    }));
    let own = path(json!({"max_message_rate": "1/m,max_burst=1"}));
    for (queue, leg, path) in [("x.test", "a", &shared), ("y.test", "b", &shared), ("z.test", "c", &own)] {
        rig.routed(queue, config(json!({})), route(&[(leg, 1)], path, ROOMY));
        rig.admit(queue, 2);
    }
    let conns = rig.opened();
    let of_z = conns.last().copied().expect("a connection");
    assert!(rig.deliver(conns[0]) && rig.deliver(of_z));
    let named = binding(&rig, "x.test");
    let expected = Binding {
        option: "additional_message_rate_throttles",
        name: Some("all".into()),
        value: "1/m,max_burst=1".into(),
        used: None,
    };
    assert_eq!(named, expected);
    assert_eq!(sharers(&rig, &named), Sharers { names: vec!["a".into(), "b".into()], total: 2 });
    let of_path = binding(&rig, "z.test");
    assert_eq!((of_path.option, of_path.name.clone()), ("max_message_rate", None));
    assert_eq!(sharers(&rig, &of_path), Sharers::default(), "nobody else's");
    let of_another = Binding { name: Some("another".into()), ..named };
    assert_eq!(sharers(&rig, &of_another), Sharers::default(), "a limit of another name");
}

#[test]
fn sharers_are_named_up_to_a_bound_and_all_counted() {
    let names = |count: usize| (0..count).rev().map(|number| format!("q{number:02}").into()).collect::<Vec<Arc<str>>>();
    let all = Sharers::of(names(SHARERS_MAX));
    assert_eq!((all.names.len(), all.total, &*all.names[0]), (SHARERS_MAX, SHARERS_MAX, "q00"), "in order");
    let more = Sharers::of(names(SHARERS_MAX + 1));
    assert_eq!((more.names, more.total), (all.names, SHARERS_MAX + 1));
    let twice = Sharers::of([names(3), names(2)].concat());
    assert_eq!((twice.names.len(), twice.total), (3, 3), "namesakes are one");
}

#[test]
fn each_limit_says_its_option_its_value_and_what_is_taken() {
    let mut rig = Rig::new();
    let leased = path(json!({"additional_connection_limits": {"few": 1}}));
    let rows = [
        ("rate.test", "a", path(json!({})), json!({"max_message_rate": "1/h,max_burst=1"})),
        ("choice.test", "b", path(json!({"source_selection_rate": "1/h,max_burst=1"})), json!({})),
        ("full.test", "c", path(json!({"max_ready": 1})), json!({})),
        ("lease.test", "d", leased.clone(), json!({})),
        ("unleased.test", "e", leased, json!({})),
        ("opening.test", "f", path(json!({"max_connection_rate": "1/h,max_burst=1"})), json!({})),
        ("taken.test", "g", path(json!({"connection_limit": 1})), json!({})),
    ];
    for (queue, leg, path, settings) in &rows {
        rig.routed(queue, config(settings.clone()), route(&[(*leg, 1)], path, ROOMY));
        rig.admit(queue, 2);
    }
    let listed = |rig: &Rig, queue: &str| rig.core.list(rig.now, queue, 9).expect("a queue");
    let of = |rig: &Rig, queue: &str, why: Why| {
        let wait = listed(rig, queue).into_iter().map(|listed| listed.wait).find(|wait| wait.why == why);
        wait.unwrap_or_else(|| panic!("{queue}: nothing waits for {why:?}")).limit
    };
    let limit = |option, name: Option<&str>, value: &str, used| {
        Some(Binding { option, name: name.map(Into::into), value: value.into(), used })
    };
    assert_eq!(
        of(&rig, "rate.test", Why::MessageRateThrottle),
        limit("max_message_rate", None, "1/h,max_burst=1", None)
    );
    assert_eq!(
        of(&rig, "choice.test", Why::SourceSelectionRateThrottle),
        limit("source_selection_rate", None, "1/h,max_burst=1", None)
    );
    assert_eq!(of(&rig, "full.test", Why::ReadyQueueWasFull), limit("max_ready", None, "1", Some(1)));
    assert_eq!(
        of(&rig, "unleased.test", Why::ConnectionLimit),
        limit("additional_connection_limits", Some("few"), "1", Some(1))
    );
    assert_eq!(of(&rig, "taken.test", Why::BehindOthers), limit("connection_limit", None, "1", Some(1)));
    let opened = rig.opened();
    opened.into_iter().for_each(|conn| {
        rig.deliver(conn);
        rig.core.connection_ended(rig.now, conn);
    });
    rig.admit("opening.test", 2);
    assert_eq!(
        of(&rig, "opening.test", Why::ConnectionRateThrottle),
        limit("max_connection_rate", None, "1/h,max_burst=1", None)
    );
}

#[test]
fn what_a_full_ready_queue_itself_waits_for_is_named_instead_of_its_size() {
    let mut rig = Rig::new();
    let slow = path(json!({"max_ready": 1, "max_message_rate": "1/h,max_burst=1"}));
    rig.routed("x.test", config(json!({})), route(&[("a", 1)], &slow, ROOMY));
    rig.admit("x.test", 3);
    let waits = |rig: &Rig| {
        let listed = rig.core.list(rig.now, "x.test", 9).expect("a queue");
        listed.into_iter().map(|listed| (listed.place, listed.wait.why, listed.wait.limit)).collect::<Vec<_>>()
    };
    let room = Binding { option: "max_ready", name: None, value: "1".into(), used: Some(1) };
    assert_eq!(waits(&rig)[0], (Place::Due, Why::ReadyQueueWasFull, Some(room)), "the rate admits one");
    for conn in rig.opened() {
        assert!(rig.deliver(conn));
    }
    let rate = Binding { option: "max_message_rate", name: None, value: "1/h,max_burst=1".into(), used: None };
    let of_rate = |place| (place, Why::MessageRateThrottle, Some(rate.clone()));
    assert_eq!(waits(&rig), [of_rate(Place::Due), of_rate(Place::Ready)]);
}

#[test]
fn a_rate_of_messages_that_keeps_connections_closed_is_named_as_what_it_is() {
    let mut rig = Rig::new();
    let slow = path(json!({"max_message_rate": "1/m,max_burst=1", "idle_timeout": "5s"}));
    rig.routed("x.test", config(json!({})), route(&[("a", 1)], &slow, ROOMY));
    rig.admit("x.test", 2);
    for conn in rig.opened() {
        rig.deliver(conn);
        rig.take(conn);
        rig.core.connection_ended(rig.now, conn);
    }
    assert!(rig.opened().is_empty(), "none before the rate admits a message");
    let wait = wait(&rig, "x.test");
    assert_eq!((wait.why, wait.until), (Why::MessageRateThrottle, Some(rig.now.wall + Duration::from_secs(60))));
    assert_eq!(wait.limit.map(|limit| limit.option), Some("max_message_rate"));
}

#[test]
fn the_order_that_holds_a_message_is_named() {
    let criteria = || Criteria { domain: Some("x.test".into()), ..Criteria::default() };
    let actions = [
        (Action::Suspend(criteria()), Why::ReadyQueueWasSuspended),
        (Action::SuspendReady("a".into()), Why::ReadyQueueWasSuspended),
        (Action::Hold(criteria()), Why::HeldByOrder),
    ];
    for (action, why) in actions {
        let mut rig = Rig::new();
        rig.routed("x.test", config(json!({})), route(&[("a", 1)], &path(json!({})), ROOMY));
        let order = order(action, &rig);
        rig.core.order(rig.now, order);
        rig.admit("x.test", 1);
        rig.core.tick(rig.now);
        let held = wait(&rig, "x.test");
        assert_eq!((held.why, held.order), (why, Some(OrderId([7; 16]))));
        rig.core.withdraw(rig.now, OrderId([7; 16]));
        rig.pass(Duration::from_secs(1));
        assert_eq!(wait(&rig, "x.test").order, None, "taken back");
    }
}

#[test]
fn a_message_says_when_it_ends_and_by_which_option() {
    let mut rig = Rig::new();
    rig.core.queue(rig.now.mono, "new.test");
    rig.admit("new.test", 1);
    let end = |rig: &Rig, queue: &str| rig.core.list(rig.now, queue, 1).expect("a queue")[0].end;
    assert_eq!(end(&rig, "new.test"), None, "policy has not said yet");
    rig.routed("x.test", config(json!({"max_age": "2h"})), route(&[("a", 1)], &path(json!({})), ROOMY));
    let created = rig.now.wall;
    rig.admit("x.test", 1);
    rig.pass(Duration::from_secs(30));
    let of_queue = end(&rig, "x.test").expect("an end");
    assert_eq!((of_queue.at, of_queue.option), (created + Duration::from_secs(7200), "max_age"));
    for (option, is_deadline) in [("expires", false), ("deliver_by", true)] {
        let at: WallTime = rig.now.wall + Duration::from_secs(500);
        let name = format!("{option}.test");
        rig.routed(&name, config(json!({})), route(&[("a", 1)], &path(json!({})), ROOMY));
        let message = rig.message(1);
        let end_of = queue::schedule::End { at, is_deadline };
        let belonging = queue::schedule::Belonging { end: Some(end_of), ..queue::schedule::Belonging::to(&name) };
        rig.core.admit_to(rig.now, belonging, message);
        let own = end(&rig, &name).expect("an end");
        assert_eq!((own.at, own.option), (at, option));
    }
    let view = rig.core.scheduled_view(rig.now, "x.test").expect("a queue");
    assert_eq!(view.config.map(|config| config.max_age.to_string()).as_deref(), Some("2h"));
    assert_eq!(view.changed, created, "half a minute ago");
    let new = rig.core.scheduled_view(rig.now, "new.test").expect("a queue");
    assert_eq!((new.messages, new.config.is_none()), (1, true));
    assert!(rig.core.scheduled_view(rig.now, "none.test").is_none());
}

fn counts(rig: &Rig, kind: FullOf) -> Vec<(String, u64)> {
    let all = rig.core.full_counts().filter(|(_, of, _)| *of == kind);
    let mut all: Vec<(String, u64)> = all.map(|(name, _, times)| (name.to_string(), times)).collect();
    all.sort();
    all
}

#[test]
fn what_found_no_room_is_counted_by_queue_and_by_protocol() {
    let mut rig = Rig::new();
    let small = path(json!({"max_ready": 1}));
    let ways = [("s->a@smtp_client", "x.test"), ("s->b@maildir:/m@x", "y.test"), ("s->c@smtp_client", "z.test")];
    for (leg, queue) in ways {
        rig.routed(queue, config(json!({})), route(&[(leg, 1)], &small, ROOMY));
    }
    rig.admit("x.test", 3);
    rig.admit("y.test", 2);
    rig.admit("z.test", 1);
    let one = |name: &str, times| (name.to_owned(), times);
    let queues = counts(&rig, FullOf::Queue);
    assert_eq!(
        queues,
        [one("s->a@smtp_client", 1), one("s->b@maildir:/m@x", 1)],
        "in line once, and not where there is room"
    );
    assert_eq!(counts(&rig, FullOf::Protocol), [one("maildir", 1), one("smtp_client", 1)]);
}

#[test]
fn a_ready_queue_is_counted_as_full_once_however_many_turns_it_takes() {
    let mut rig = Rig::new();
    let small = path(json!({"max_ready": 1, "connection_limit": 1}));
    rig.routed("x.test", config(json!({})), route(&[("s->a@smtp_client", 1)], &small, ROOMY));
    let full = |rig: &Rig| (counts(rig, FullOf::Queue), counts(rig, FullOf::Protocol));
    let times = |times: u64| (vec![("s->a@smtp_client".to_owned(), times)], vec![("smtp_client".to_owned(), times)]);
    rig.admit("x.test", 5);
    let conn = rig.opened()[0];
    // Each that leaves makes room for one, whose turn ends before a full queue again.
    for left in (0..5).rev() {
        assert_eq!(full(&rig), times(1), "{left} left");
        assert!(rig.deliver(conn));
    }
    rig.admit("x.test", 1);
    assert_eq!(full(&rig), times(1), "there is room");
    rig.admit("x.test", 1);
    assert_eq!(full(&rig), times(2), "full again");
}

#[test]
fn a_ready_queue_that_stays_full_is_counted_each_minute() {
    let mut rig = Rig::new();
    let small = path(json!({"max_ready": 1, "connection_limit": 1}));
    rig.routed("x.test", config(json!({})), route(&[("s->a@smtp_client", 1)], &small, ROOMY));
    rig.admit("x.test", 9);
    let conn = rig.opened()[0];
    for (seconds, times) in [(0, 1), (59, 1), (1, 2), (59, 2), (1, 3)] {
        rig.pass(Duration::from_secs(seconds));
        assert!(rig.deliver(conn));
        let counted = counts(&rig, FullOf::Queue);
        assert_eq!(counted, [("s->a@smtp_client".to_owned(), times)], "after {seconds} s more");
    }
}
