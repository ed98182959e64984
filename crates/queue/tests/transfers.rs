//! Transfers that are taken back: who is awaited, who goes on, and when it is over.

mod support;

use clock::Duration;
use message::{Message, MessageId};
use queue::{Action, Change, ConnKey, Criteria, Ending, OrderId, QueueKey, Queued, Rebinding};
use std::collections::BTreeSet;
use support::ordered::{ROOMY, give, move_all, of_domain, rig, state, wait};
use support::{PLACE, Rig, config, failure, path, route};

const TARGET: &str = "http://10.0.0.2:8000";
const AWAY: &str = "http://10.0.0.2:8000.xfer.kumomta.internal";

fn transfer(change: Change, criteria: Criteria) -> Action {
    Action::Rebind(Rebinding { criteria, change, always_flush: false })
}

fn cancel() -> Action {
    cancel_also_of(false)
}

fn cancel_also_of(node_is_gone: bool) -> Action {
    transfer(Change::CancelXfer { node_is_gone }, Criteria { queue_names: [AWAY.into()].into(), ..Criteria::default() })
}

/// With a queue for another node, over one connection.
fn away() -> (Rig, QueueKey) {
    let mut rig = rig(100);
    let path = path(serde_json::json!({"connection_limit": 1}));
    let key = rig.routed(AWAY, config(serde_json::json!({})), route(&[("a", 1)], &path, ROOMY));
    (rig, key)
}

/// A message as old as that one.
fn as_old_as(queued: &Queued) -> Message {
    let mut octets = *queued.message.id.as_bytes();
    octets[15] ^= 1;
    Message { id: MessageId::from_bytes(octets), ..queued.message.clone() }
}

/// The same with one message, which is in hand.
fn in_hand() -> (Rig, Queued, ConnKey) {
    let (mut rig, _) = away();
    rig.admit(AWAY, 1);
    let conn = rig.opened()[0];
    let queued = rig.take(conn).expect("one is ready");
    (rig, queued, conn)
}

/// Two messages wait for a transfer, a third is in hand when the transfer is taken back.
fn taken_back() -> (Rig, BTreeSet<MessageId>, Queued, ConnKey) {
    let (mut rig, queued, conn) = in_hand();
    let waiting = wait(&mut rig, AWAY, 1, 2);
    rig.pass(Duration::from_secs(1));
    assert_eq!(give(&mut rig, 1, cancel(), 0), 3);
    rig.pass(Duration::ZERO);
    (rig, waiting, queued, conn)
}

#[test]
fn the_end_of_a_transfer_awaits_who_is_in_hand() {
    let (mut rig, waiting, queued, _) = taken_back();
    assert_eq!(move_all(&mut rig), waiting, "they wait for nobody");
    rig.pass(Duration::ZERO);
    assert!(state(&rig).under_way, "one is in hand");
    let id = queued.message.id;
    rig.core.retry(rig.now, queued, Duration::from_secs(10));
    rig.pass(Duration::ZERO);
    assert_eq!(move_all(&mut rig), BTreeSet::from([id]), "as soon as it is back");
    rig.pass(Duration::ZERO);
    assert!(rig.core.orders().is_empty(), "it is over with the last");
    assert_eq!([AWAY, "t@y.test"].map(|queue| rig.core.scheduled_in(queue)), [0, 3]);
}

#[test]
fn the_end_of_a_transfer_brings_home_what_is_held_too() {
    let (mut rig, queued, _) = in_hand();
    let waiting = wait(&mut rig, AWAY, 1, 2);
    rig.pass(Duration::from_secs(1));
    let of_queue = Criteria { queue_names: [AWAY.into()].into(), ..Criteria::default() };
    give(&mut rig, 1, Action::Hold(of_queue), 3600);
    rig.pass(Duration::ZERO);
    assert_eq!(state(&rig).pending, 2);
    give(&mut rig, 2, cancel(), 0);
    rig.pass(Duration::ZERO);
    assert_eq!(move_all(&mut rig), waiting);
    let id = queued.message.id;
    rig.core.retry(rig.now, queued, Duration::from_secs(10));
    rig.pass(Duration::ZERO);
    assert_eq!(move_all(&mut rig), BTreeSet::from([id]), "and who is in hand, when he is back");
    rig.pass(Duration::ZERO);
    let holds = rig.core.orders().remove(0);
    assert_eq!((rig.core.orders().len(), holds.order.id, holds.pending), (1, OrderId([1; 16]), 0));
    assert!(holds.queues.is_empty(), "{:?}", holds.queues);
}

#[test]
fn the_end_of_a_transfer_is_not_about_those_who_come_or_are_sent_later() {
    let (mut rig, _, queued, _) = taken_back();
    move_all(&mut rig);
    // Moved there by policy: accepted long before.
    let id = queued.message.id;
    rig.core.admit(rig.now, AWAY, as_old_as(&queued));
    rig.pass(Duration::ZERO);
    assert!(move_all(&mut rig).is_empty(), "it comes");
    rig.core.retry(rig.now, queued, Duration::from_secs(10));
    rig.pass(Duration::ZERO);
    assert_eq!(move_all(&mut rig), BTreeSet::from([id]));
    rig.pass(Duration::ZERO);
    assert!(rig.core.orders().is_empty(), "nobody else is awaited");
}

#[test]
fn the_same_end_of_a_transfer_again_takes_the_place_of_the_first() {
    let (mut rig, _, queued, _) = taken_back();
    move_all(&mut rig);
    give(&mut rig, 2, cancel(), 0);
    rig.pass(Duration::ZERO);
    assert_eq!((rig.core.orders().len(), state(&rig).order.id), (1, OrderId([2; 16])));
    let id = queued.message.id;
    rig.core.retry(rig.now, queued, Duration::from_secs(10));
    rig.pass(Duration::ZERO);
    assert_eq!(move_all(&mut rig), BTreeSet::from([id]));
}

#[test]
fn who_was_handed_over_is_awaited_though_a_later_end_is_not_about_him() {
    let (mut rig, _, queued, _) = taken_back();
    move_all(&mut rig);
    give(&mut rig, 2, cancel_also_of(true), 0);
    rig.pass(Duration::ZERO);
    assert_eq!(state(&rig).order.id, OrderId([2; 16]), "more than the first");
    give(&mut rig, 3, cancel(), 0);
    rig.pass(Duration::ZERO);
    rig.core.retry(rig.now, queued, Duration::from_secs(10));
    rig.pass(Duration::ZERO);
    let orders = rig.endings().into_iter().map(|(_, ending)| match ending {
        Ending::Rebound(order) => order.id,
        other => panic!("{other:?}"),
    });
    assert_eq!(orders.collect::<Vec<_>>(), [OrderId([2; 16])]);
}

#[test]
fn an_end_that_is_undone_before_it_was_carried_out_awaits_nobody() {
    let (mut rig, _, queued, _) = taken_back();
    move_all(&mut rig);
    rig.core.set_restoring(true);
    give(&mut rig, 2, cancel(), 0);
    give(&mut rig, 3, transfer(Change::Xfer(TARGET.into()), of_domain("nobody.test")), 0);
    rig.core.set_restoring(false);
    rig.pass(Duration::ZERO);
    assert!(rig.core.orders().is_empty());
    rig.core.retry(rig.now, queued, Duration::from_secs(10));
    assert!(move_all(&mut rig).is_empty());
}

#[test]
fn who_was_not_tried_is_awaited_as_well() {
    let (mut rig, _, queued, conn) = taken_back();
    move_all(&mut rig);
    let id = queued.message.id;
    rig.core.give_back(rig.now, conn, queued);
    rig.pass(Duration::ZERO);
    assert_eq!(move_all(&mut rig), BTreeSet::from([id]));
}

#[test]
fn who_could_not_be_read_for_an_attempt_is_awaited_as_well() {
    let (mut rig, _, queued, _) = taken_back();
    move_all(&mut rig);
    let id = queued.message.id;
    rig.core.postpone(rig.now, queued);
    rig.pass(Duration::ZERO);
    assert_eq!(move_all(&mut rig), BTreeSet::from([id]));
    rig.pass(Duration::ZERO);
    assert!(rig.core.orders().is_empty());
}

#[test]
fn the_end_of_a_transfer_is_over_when_the_one_in_hand_is_gone() {
    let (mut rig, _, queued, _) = taken_back();
    move_all(&mut rig);
    rig.pass(Duration::from_secs(60));
    assert_eq!(rig.core.orders().len(), 1, "it is in hand still");
    rig.core.forget(rig.now.mono, &queued);
    assert!(rig.core.deadline() <= rig.now.mono, "at once");
    rig.pass(Duration::ZERO);
    assert!(rig.core.orders().is_empty());
}

#[test]
fn the_end_of_a_transfer_awaits_nobody_for_ever() {
    let (mut rig, _, queued, _) = taken_back();
    move_all(&mut rig);
    rig.pass(Duration::from_secs(898));
    assert_eq!(rig.core.orders().len(), 1);
    rig.pass(Duration::from_secs(2));
    assert!(rig.core.orders().is_empty());
    rig.core.retry(rig.now, queued, Duration::from_secs(10));
    rig.pass(Duration::ZERO);
    assert!(move_all(&mut rig).is_empty());
    assert_eq!(rig.core.scheduled_in(AWAY), 1);
}

#[test]
fn who_is_sent_off_again_is_not_brought_back_by_an_earlier_order() {
    let (mut rig, _, queued, _) = taken_back();
    move_all(&mut rig);
    give(&mut rig, 2, transfer(Change::Xfer("http://10.0.0.3".into()), of_domain("nobody.test")), 0);
    rig.pass(Duration::ZERO);
    assert_eq!(state(&rig).order.id, OrderId([1; 16]), "another node");
    give(&mut rig, 3, transfer(Change::Xfer(TARGET.into()), of_domain("nobody.test")), 0);
    rig.pass(Duration::ZERO);
    assert!(rig.core.orders().is_empty());
    rig.core.retry(rig.now, queued, Duration::from_secs(10));
    rig.pass(Duration::ZERO);
    assert!(move_all(&mut rig).is_empty());
}

#[test]
fn who_cannot_be_brought_back_goes_on() {
    let (mut rig, waiting, in_hand, conn) = taken_back();
    for (mut queued, _) in rig.endings() {
        queued.message.due = rig.now.wall;
        rig.core.stays(rig.now, queued);
        rig.core.settled_for(rig.now, OrderId([1; 16]));
    }
    rig.pass(Duration::ZERO);
    assert!(rig.endings().is_empty(), "asked once");
    let tried = rig.take(conn).expect("it is its turn");
    assert!(waiting.contains(&tried.message.id));
    rig.core.retry(rig.now, tried, Duration::from_secs(10));
    rig.pass(Duration::ZERO);
    assert!(rig.endings().is_empty(), "nor when that has failed");
    assert_eq!(rig.core.orders().len(), 1, "another one is awaited");
    let id = in_hand.message.id;
    rig.core.retry(rig.now, in_hand, Duration::from_secs(10));
    assert_eq!(move_all(&mut rig), BTreeSet::from([id]));
    rig.pass(Duration::ZERO);
    assert!(rig.core.orders().is_empty());
}

#[test]
fn a_later_end_of_a_transfer_awaits_though_the_transfer_was_ordered_again_between() {
    let (mut rig, queued, _) = in_hand();
    rig.core.set_restoring(true);
    for (number, action) in
        [cancel(), transfer(Change::Xfer(TARGET.into()), of_domain("nobody.test")), cancel()].into_iter().enumerate()
    {
        rig.pass(Duration::from_secs(1));
        give(&mut rig, number as u8, action, 0);
    }
    rig.core.set_restoring(false);
    rig.pass(Duration::ZERO);
    let id = queued.message.id;
    rig.core.retry(rig.now, queued, Duration::from_secs(10));
    rig.pass(Duration::ZERO);
    assert_eq!(move_all(&mut rig), BTreeSet::from([id]));
}

#[test]
fn who_is_being_asked_about_or_spooled_is_awaited_as_well() {
    for way in ["passed", "held back", "spooled"] {
        let (mut rig, _) = away();
        rig.core.ask_before_ready(true);
        let queued = if way == "spooled" {
            let message = Message { due: rig.now.wall + Duration::from_secs(60), ..rig.volatile() };
            rig.core.admit(rig.now, AWAY, message);
            rig.core.take_unspooled(1, 1).remove(0)
        } else {
            rig.admit(AWAY, 1);
            rig.pass(Duration::ZERO);
            rig.core.take_asking(rig.now).expect("it is due")
        };
        rig.pass(Duration::from_secs(1));
        give(&mut rig, 1, cancel(), 0);
        rig.pass(Duration::ZERO);
        assert!(state(&rig).under_way, "{way}");
        let id = queued.message.id;
        match way {
            "passed" => rig.core.passed(rig.now, queued),
            "held back" => rig.core.held_back(rig.now, queued, rig.now.wall + Duration::from_secs(60)),
            _ => {
                let message = Message { place: Some(PLACE), ..queued.message };
                rig.core.spooled(rig.now, Queued { message, ..queued });
            }
        }
        rig.pass(Duration::ZERO);
        assert_eq!(move_all(&mut rig), BTreeSet::from([id]), "{way}");
        rig.pass(Duration::ZERO);
        assert!(rig.core.orders().is_empty(), "{way}");
    }
}

#[test]
fn who_came_later_goes_on_also_when_it_was_asked_about_spooled_or_found_no_way() {
    for way in ["asked", "spooled", "spooled in line", "no way"] {
        let (mut rig, _, queued, _) = taken_back();
        move_all(&mut rig);
        let key = queued.queue;
        rig.core.ask_before_ready(way == "asked");
        let old = as_old_as(&queued);
        match way {
            "asked" => {
                rig.core.admit(rig.now, AWAY, old);
                rig.pass(Duration::ZERO);
                let asked = rig.core.take_asking(rig.now).expect("it is due");
                // It stays in its line.
                rig.core.unroutable(rig.now, key, failure(451));
                rig.core.passed(rig.now, asked);
            }
            "spooled" | "spooled in line" => {
                let wait = if way == "spooled" { Duration::from_secs(60) } else { Duration::ZERO };
                let due = rig.now.wall + wait;
                let message = Message { place: None, due, resident: rig.volatile().resident, ..old };
                rig.core.unroutable(rig.now, key, failure(451));
                rig.core.admit(rig.now, AWAY, message);
                rig.core.spool_all(rig.now);
                let queued = rig.core.take_unspooled(1, 1).remove(0);
                let message = Message { place: Some(PLACE), ..queued.message };
                rig.core.spooled(rig.now, Queued { message, ..queued });
            }
            _ => {
                rig.core.unroutable(rig.now, key, failure(451));
                rig.core.admit(rig.now, AWAY, old);
                rig.core.unroutable(rig.now, key, failure(451));
                for (queued, _) in rig.endings() {
                    rig.core.retry(rig.now, queued, Duration::from_secs(60));
                }
            }
        }
        rig.pass(Duration::ZERO);
        assert!(move_all(&mut rig).is_empty(), "{way}");
        assert!(state(&rig).under_way, "another one is in hand: {way}");
        let id = queued.message.id;
        rig.core.retry(rig.now, queued, Duration::from_secs(10));
        rig.pass(Duration::ZERO);
        assert_eq!(move_all(&mut rig), BTreeSet::from([id]), "{way}");
        rig.pass(Duration::ZERO);
        assert!(rig.core.orders().is_empty(), "nobody else is awaited: {way}");
    }
}
