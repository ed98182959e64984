//! Orders of operators: whom they reach, wherever he is, what they count, and what their withdrawal brings back.

mod support;

use clock::Duration;
use message::MessageId;
use queue::{Action, Change, Criteria, Effect, Ending, EndingKind, Order, OrderCounts, OrderId, Rebinding, Take};
use std::collections::BTreeSet;
use std::sync::Arc;
use support::ordered::{ROOMY, give, move_all, of_domain, rig, state, wait};
use support::{Rig, config, failure, path, route};

fn counts(rig: &Rig) -> (u64, Vec<(String, u64)>) {
    let state = state(rig);
    let mut queues: Vec<(String, u64)> = state.queues.iter().map(|(name, n)| (name.to_string(), *n)).collect();
    queues.sort();
    (state.total, queues)
}

/// Ids of those that end, and nothing ends otherwise.
fn bounced(rig: &mut Rig) -> BTreeSet<MessageId> {
    let endings = rig.endings();
    for (queued, ending) in &endings {
        let Ending::Bounced(order) = ending else { panic!("{ending:?}") };
        assert_eq!(order.reason, "because");
        rig.core.forget(rig.now.mono, queued);
        rig.core.settled_for(rig.now, order.id);
    }
    endings.into_iter().map(|(queued, _)| queued.message.id).collect()
}

#[test]
fn a_bounce_reaches_messages_wherever_they_are_and_those_that_come_until_it_expires() {
    let mut rig = rig(2);
    let mut all = wait(&mut rig, "x.test", 1, 3);
    all.extend(rig.admit("x.test", 10));
    let spared = rig.admit("t@y.test", 1);
    assert_eq!(give(&mut rig, 1, Action::Bounce(of_domain("X.test")), 60), 13, "answered at once, with a number");
    rig.pass(Duration::ZERO);
    assert_eq!(bounced(&mut rig), all, "waiting, due and ready ones");
    assert_eq!(counts(&rig), (13, vec![("x.test".into(), 13)]));
    rig.pass(Duration::from_secs(59));
    let late: BTreeSet<_> = rig.admit("x.test", 1).into_iter().collect();
    assert_eq!(bounced(&mut rig), late);
    rig.pass(Duration::from_secs(1));
    assert!(rig.core.orders().is_empty());
    assert!(rig.drain().iter().any(|effect| matches!(effect, Effect::OrdersEnded)));
    rig.admit("x.test", 1);
    rig.pass(Duration::ZERO);
    assert!(bounced(&mut rig).is_empty());
    let left: BTreeSet<_> = rig.core.census().map(|(id, _)| id).collect();
    assert!(left.len() == 2 && left.is_superset(&spared.into_iter().collect()));
}

fn rebind(criteria: Criteria) -> Action {
    Action::Rebind(Rebinding {
        criteria,
        change: Change::Set([("queue".to_owned(), "t@y.test".to_owned())].into()),
        always_flush: false,
    })
}

#[test]
fn a_rebinding_moves_what_is_there_once() {
    let mut rig = rig(2);
    let mut all = wait(&mut rig, "x.test", 1, 3);
    all.extend(rig.admit("x.test", 10));
    rig.pass(Duration::from_millis(1));
    // All queues are meant, also the one they go to.
    assert_eq!(give(&mut rig, 1, rebind(Criteria::default()), 0), 13);
    rig.pass(Duration::ZERO);
    assert_eq!(move_all(&mut rig), all, "waiting, due and ready ones");
    assert!(rig.core.orders().is_empty(), "it is over with the last");
    give(&mut rig, 2, Action::Suspend(of_domain("nobody.test")), 60);
    let late = rig.admit("x.test", 1);
    rig.pass(Duration::ZERO);
    assert!(move_all(&mut rig).is_empty(), "not again, and not {late:?}");
    assert_eq!(rig.core.orders().len(), 1, "it is over");
    assert_eq!((rig.core.scheduled_in("x.test"), rig.core.counts().scheduled + rig.core.counts().ready), (0, 14));
    let first = state(&rig);
    assert_eq!((first.order.id, first.total), (OrderId([2; 16]), 0));
}

#[test]
fn the_same_rebinding_again_is_about_those_that_came_since_and_both_end() {
    let mut rig = rig(2);
    let first = wait(&mut rig, "x.test", 1, 3);
    give(&mut rig, 1, rebind(of_domain("x.test")), 0);
    rig.pass(Duration::from_millis(1));
    let in_hand = rig.endings();
    assert_eq!(in_hand.len(), 3);
    let late = wait(&mut rig, "x.test", 1, 2);
    give(&mut rig, 2, rebind(of_domain("x.test")), 0);
    rig.pass(Duration::from_millis(1));
    let moved: BTreeSet<_> = in_hand.iter().map(|(queued, _)| queued.message.id).collect();
    assert_eq!(moved, first);
    for (queued, ending) in in_hand {
        let Ending::Rebound(order) = ending else { panic!("{ending:?}") };
        rig.core.rebound(rig.now, queued, queue::schedule::Belonging::to("t@y.test"));
        rig.core.settled_for(rig.now, order.id);
    }
    assert_eq!(move_all(&mut rig), late);
    assert!(rig.core.orders().is_empty(), "{:?}", rig.core.orders());
}

#[test]
fn a_rebinding_that_is_taken_back_leaves_the_rest_where_it_was() {
    let mut rig = rig(2);
    wait(&mut rig, "x.test", 1, 5);
    give(&mut rig, 1, rebind(of_domain("x.test")), 0);
    rig.pass(Duration::ZERO);
    let (queued, _) = rig.core.take_ending(EndingKind::Ordered).expect("one of five");
    // Not written yet: the order has it again.
    rig.core.not_carried_out(rig.now, queued, OrderId([1; 16]));
    rig.core.settled_for(rig.now, OrderId([1; 16]));
    assert_eq!((state(&rig).total, state(&rig).pending), (5, 5));
    rig.core.withdraw(rig.now, OrderId([1; 16])).expect("in force");
    rig.pass(Duration::ZERO);
    assert!(move_all(&mut rig).is_empty());
    assert_eq!((rig.core.scheduled_in("x.test"), rig.core.counts().out), (5, 0));
    // Who was with a settler goes home as well.
    give(&mut rig, 2, rebind(of_domain("x.test")), 0);
    rig.pass(Duration::ZERO);
    let (queued, _) = rig.core.take_ending(EndingKind::Ordered).expect("one of five");
    rig.core.withdraw(rig.now, OrderId([2; 16])).expect("in force");
    rig.core.not_carried_out(rig.now, queued, OrderId([2; 16]));
    rig.pass(Duration::ZERO);
    assert_eq!((rig.core.scheduled_in("x.test"), rig.core.counts().out), (5, 0));
}

#[test]
fn a_rebinding_waits_for_messages_of_earlier_runs() {
    let mut rig = rig(2);
    rig.core.set_restoring(true);
    give(&mut rig, 1, rebind(of_domain("x.test")), 0);
    rig.pass(Duration::ZERO);
    let old = wait(&mut rig, "x.test", 1, 2);
    rig.pass(Duration::ZERO);
    assert!(move_all(&mut rig).is_empty() && rig.core.orders().len() == 1);
    rig.core.set_restoring(false);
    rig.pass(Duration::ZERO);
    assert_eq!(move_all(&mut rig), old);
    rig.pass(Duration::from_secs(60));
    assert!(rig.core.orders().is_empty());
}

#[test]
fn what_came_before_recovery_failed_is_moved_and_other_orders_stay_for_the_rest() {
    let mut rig = rig(2);
    rig.core.set_restoring(true);
    give(&mut rig, 1, rebind(of_domain("x.test")), 0);
    let old = wait(&mut rig, "x.test", 1, 2);
    rig.pass(Duration::ZERO);
    assert!(move_all(&mut rig).is_empty());
    give(&mut rig, 2, Action::Bounce(of_domain("y.test")), 0);
    rig.core.restoring_failed();
    rig.pass(Duration::ZERO);
    assert_eq!(move_all(&mut rig), old);
    rig.pass(Duration::from_secs(120));
    assert!(state(&rig).order.id == OrderId([2; 16]) && state(&rig).under_way, "it waits for the next start");
}

#[test]
fn a_message_in_delivery_ends_when_it_comes_back() {
    let mut rig = rig(100);
    rig.admit("t@y.test", 1);
    let conn = rig.opened()[0];
    let queued = rig.take(conn).expect("one is ready");
    give(&mut rig, 1, Action::Bounce(of_domain("y.test")), 60);
    rig.pass(Duration::ZERO);
    assert!(bounced(&mut rig).is_empty());
    rig.core.retry(rig.now, queued, Duration::from_secs(600));
    assert_eq!(bounced(&mut rig).len(), 1);
    assert_eq!(rig.core.counts().out, 0);
}

#[test]
fn a_bounce_that_is_over_is_carried_out_to_its_end() {
    let mut rig = rig(1);
    let old = wait(&mut rig, "x.test", 0, 20_000);
    // Ids of one moment are numbered on into the next.
    rig.pass(Duration::from_secs(1));
    give(&mut rig, 1, Action::Bounce(Criteria::default()), 0);
    rig.now = rig.now.after(Duration::from_secs(1));
    wait(&mut rig, "x.test", 0, 5);
    rig.pass(Duration::ZERO);
    assert_eq!(state(&rig).pending, 20_000);
    assert_eq!(bounced(&mut rig), old, "who came later is none of its business");
    rig.pass(Duration::from_secs(61));
    assert!(rig.core.orders().is_empty());
}

#[test]
fn an_order_waits_for_messages_of_earlier_runs() {
    let mut rig = rig(1);
    rig.core.set_restoring(true);
    let early = rig.message(1);
    let early = message::Message { due: rig.now.wall + Duration::from_secs(900), ..early };
    give(&mut rig, 1, Action::Bounce(Criteria::default()), 0);
    rig.pass(Duration::from_secs(120));
    assert!(state(&rig).under_way);
    rig.core.admit(rig.now, "x.test", early);
    assert_eq!(bounced(&mut rig).len(), 1);
    rig.core.set_restoring(false);
    rig.pass(Duration::from_secs(61));
    assert!(rig.core.orders().is_empty());
}

#[test]
fn what_a_withdrawn_bounce_has_not_ended_goes_home() {
    let mut rig = rig(1);
    let waiting = wait(&mut rig, "x.test", 2, 5000);
    rig.admit("x.test", 4);
    give(&mut rig, 1, Action::Bounce(Criteria::default()), 600);
    rig.pass(Duration::ZERO);
    let first = rig.core.take_ending(EndingKind::Ordered).expect("5004 are to end").0;
    rig.core.forget(rig.now.mono, &first);
    assert!(rig.core.withdraw(rig.now, OrderId([2; 16])).is_none());
    assert!(rig.core.withdraw(rig.now, OrderId([1; 16])).is_some());
    rig.pass(Duration::ZERO);
    assert!(bounced(&mut rig).is_empty());
    assert_eq!(rig.core.census().count(), 5003);
    let before: usize = rig.ready().iter().map(|(_, n)| n).sum();
    assert_eq!(before, 2, "one each: they go their way again");
    rig.pass(Duration::from_secs(3600));
    let still: BTreeSet<MessageId> =
        rig.core.census().filter(|(_, place)| *place == queue::Place::Waiting).map(|(id, _)| id).collect();
    assert!(still.is_disjoint(&waiting), "their time came as it would have");
}

#[test]
fn a_suspended_queue_keeps_its_messages_uncounted_until_the_order_expires() {
    let mut rig = rig(100);
    rig.admit("x.test", 3);
    rig.admit("t@y.test", 1);
    assert_eq!(give(&mut rig, 1, Action::Suspend(of_domain("x.test")), 60), 3);
    rig.pass(Duration::ZERO);
    assert_eq!(rig.ready(), [("a".into(), 1), ("b".into(), 0)], "what was ready went home");
    rig.admit("x.test", 2);
    rig.pass(Duration::from_secs(59));
    assert_eq!(rig.ready(), [("a".into(), 1), ("b".into(), 0)]);
    rig.pass(Duration::from_secs(2));
    assert_eq!(rig.ready().iter().map(|(_, n)| n).sum::<usize>(), 6);
    assert_eq!(rig.core.footprint().caught, 0);
}

#[test]
fn a_suspension_can_be_renewed_and_taken_back() {
    let mut rig = rig(100);
    rig.admit("x.test", 1);
    give(&mut rig, 1, Action::Suspend(of_domain("x.test")), 60);
    give(&mut rig, 2, Action::Suspend(of_domain("x.test")), 600);
    assert_eq!(rig.core.orders().len(), 1, "of the same criteria the last holds");
    rig.pass(Duration::from_secs(61));
    assert_eq!(rig.core.counts().ready, 0);
    assert!(rig.core.withdraw(rig.now, OrderId([2; 16])).is_some());
    rig.pass(Duration::ZERO);
    assert_eq!(rig.core.counts().ready, 1);
}

#[test]
fn messages_of_a_suspended_queue_expire_all_the_same() {
    let mut rig = Rig::new();
    let path = path(serde_json::json!({}));
    rig.routed("x.test", config(serde_json::json!({"max_age": "1 hour"})), route(&[("a", 1)], &path, ROOMY));
    give(&mut rig, 1, Action::Suspend(Criteria::default()), 100_000);
    rig.admit("x.test", 1);
    rig.pass(Duration::from_secs(3700));
    let endings = rig.endings();
    assert!(matches!(&endings[..], [(_, Ending::Expired)]), "{endings:?}");
}

#[test]
fn a_suspended_ready_queue_gives_its_messages_to_others() {
    let mut rig = rig(100);
    rig.admit("x.test", 4);
    rig.admit("t@y.test", 2);
    let conns = rig.opened();
    let of_a = *conns.iter().min_by_key(|conn| conn.id()).expect("two");
    assert_eq!(rig.ready(), [("a".into(), 4), ("b".into(), 2)]);
    assert_eq!(give(&mut rig, 1, Action::SuspendReady("a".into()), 60), 4);
    rig.pass(Duration::ZERO);
    assert_eq!(rig.ready(), [("a".into(), 0), ("b".into(), 4)], "t@y.test has no other way");
    assert!(matches!(rig.core.take(rig.now, of_a), Take::Close));
    rig.core.connection_ended(rig.now, of_a);
    rig.pass(Duration::from_secs(59));
    assert_eq!(rig.opened(), []);
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.ready(), [("a".into(), 2), ("b".into(), 4)]);
    assert_eq!((rig.opened().len(), rig.core.footprint().caught), (1, 0));
}

#[test]
fn a_flush_makes_those_due_that_were_tried_before() {
    let mut rig = rig(100);
    wait(&mut rig, "x.test", 1, 3);
    wait(&mut rig, "x.test", 0, 5);
    wait(&mut rig, "t@y.test", 1, 7);
    give(&mut rig, 1, Action::Flush(of_domain("x.test")), 0);
    rig.pass(Duration::ZERO);
    assert_eq!(rig.core.counts().ready, 3);
    assert!(rig.core.orders().is_empty(), "done is done");
    rig.pass(Duration::from_secs(3601));
    assert_eq!(rig.core.census().count(), 15);
    assert_eq!(rig.core.counts().scheduled, 0, "nobody's timer was lost");
}

#[test]
fn a_flush_does_not_wait_on_behind_a_look_up_that_failed() {
    for (attempts, is_due) in [(1, false), (0, true)] {
        let mut rig = rig(100);
        let key = rig.core.queue(rig.now.mono, "x.test");
        rig.core.unroutable(rig.now, key, failure(451));
        rig.drain();
        match is_due {
            true => drop(rig.admit("x.test", 1)),
            false => drop(wait(&mut rig, "x.test", attempts, 1)),
        }
        let asks = |rig: &mut Rig| rig.drain().iter().filter(|effect| matches!(effect, Effect::Route { .. })).count();
        rig.pass(Duration::from_secs(1));
        assert_eq!(asks(&mut rig), 0, "held");
        give(&mut rig, 1, Action::Flush(of_domain("x.test")), 0);
        rig.pass(Duration::ZERO);
        assert_eq!((asks(&mut rig), rig.core.counts().ready), (1, 0), "due before: {is_due}");
        rig.core.routed(rig.now, key, route(&[("a", 1)], &path(serde_json::json!({})), 1_000_000));
        assert_eq!(rig.core.counts().ready, 1);
    }
}

#[test]
fn a_flush_has_a_look_up_that_was_under_way_and_fails_followed_by_another() {
    let mut rig = Rig::new();
    let key = rig.core.queue(rig.now.mono, "x.test");
    rig.core.configured(rig.now, key, config(serde_json::json!({})).into());
    rig.admit("x.test", 1);
    let mut settled_and_asked = |fails: bool, flushes: bool| {
        if flushes {
            give(&mut rig, 1, Action::Flush(of_domain("x.test")), 0);
        }
        if fails {
            rig.core.unroutable(rig.now, key, failure(451));
        }
        rig.pass(Duration::ZERO);
        let effects = rig.drain();
        let count = |is_it: fn(&Effect) -> bool| effects.iter().filter(|effect| is_it(effect)).count();
        (count(|effect| matches!(effect, Effect::Settle(_))), count(|effect| matches!(effect, Effect::Route { .. })))
    };
    assert_eq!(settled_and_asked(false, false), (0, 1));
    assert_eq!(settled_and_asked(true, true), (0, 1), "what was asked before says nothing");
    assert_eq!(settled_and_asked(true, false), (1, 0));
}

#[test]
fn held_messages_stand_aside_until_they_are_released() {
    let mut rig = rig(2);
    let waiting = wait(&mut rig, "x.test", 1, 2);
    let due = rig.admit("x.test", 6);
    let ids = [due[0], due[5], *waiting.first().expect("two")];
    let some = Criteria { messages: ids.into(), ..Criteria::default() };
    assert_eq!(give(&mut rig, 1, Action::Hold(some), 1_000_000_000), 3, "of eight");
    rig.pass(Duration::ZERO);
    let held = |rig: &Rig| -> BTreeSet<MessageId> {
        rig.core.census().filter(|(_, place)| *place == queue::Place::Held).map(|(id, _)| id).collect()
    };
    assert_eq!(held(&rig), ids.iter().copied().collect());
    assert_eq!((state(&rig).pending, rig.core.counts().ready), (3, 4), "others go on");
    rig.pass(Duration::from_secs(8 * 86_400));
    assert_eq!(held(&rig).len(), 3, "they do not expire");
    rig.core.withdraw(rig.now, OrderId([1; 16]));
    rig.pass(Duration::ZERO);
    assert!(held(&rig).is_empty());
    assert_eq!(rig.core.counts().out + rig.core.counts().scheduled, 8);
}

#[test]
fn what_is_held_is_ended_or_moved_by_who_names_it_alone() {
    let of: [fn(Criteria) -> Action; 2] = [Action::Bounce, rebind];
    for action in of {
        let mut rig = rig(2);
        let mut all = wait(&mut rig, "x.test", 1, 3);
        all.extend(rig.admit("x.test", 5000));
        rig.admit("z.test", 2);
        give(&mut rig, 1, Action::Hold(Criteria::default()), 600);
        rig.pass(Duration::from_secs(6));
        assert_eq!(state(&rig).pending, all.len() + 2);
        give(&mut rig, 2, action(of_domain("x.test")), 0);
        rig.pass(Duration::ZERO);
        assert_eq!(
            (rig.core.orders().len(), state(&rig).pending),
            (1, all.len() + 2),
            "the others are safe, and it is over"
        );
        let named = Criteria { messages: all.clone(), ..of_domain("x.test") };
        assert_eq!(give(&mut rig, 3, action(named.clone()), 0), all.len());
        // In the middle of the walk over them the hold is given again, with another id.
        (0..5).for_each(|_| rig.core.tick(rig.now));
        give(&mut rig, 4, Action::Hold(Criteria::default()), 600);
        rig.pass(Duration::ZERO);
        let bounces = matches!(action(named), Action::Bounce(_));
        let ended = if bounces { bounced(&mut rig) } else { move_all(&mut rig) };
        assert_eq!(ended.len(), all.len());
        rig.pass(Duration::ZERO);
        let holds = rig.core.orders().remove(0);
        assert_eq!((rig.core.orders().len(), holds.order.id), (1, OrderId([4; 16])), "the other is over");
        let held = if bounces { 2 } else { 2 + all.len() };
        assert_eq!((holds.pending, holds.total), (held, held as u64), "all queues are held, also the one they go to");
    }
}

#[test]
fn what_comes_under_a_hold_and_a_bounce_is_held() {
    let mut rig = rig(2);
    give(&mut rig, 1, Action::Hold(Criteria::default()), 600);
    give(&mut rig, 2, Action::Bounce(of_domain("x.test")), 60);
    rig.pass(Duration::ZERO);
    let of_both: BTreeSet<_> = rig.admit("x.test", 3).into_iter().collect();
    rig.admit("z.test", 1);
    let totals = |rig: &Rig| rig.core.orders().iter().map(|state| state.total).collect::<Vec<_>>();
    assert_eq!(totals(&rig), [4, 0]);
    rig.core.withdraw(rig.now, OrderId([1; 16]));
    rig.pass(Duration::ZERO);
    assert_eq!(bounced(&mut rig), of_both, "who is released meets what is in force");
}

#[test]
fn a_hold_that_expires_releases() {
    let mut rig = rig(100);
    give(&mut rig, 1, Action::Hold(Criteria::default()), 60);
    rig.admit("x.test", 3);
    assert_eq!((rig.core.counts().ready, state(&rig).total), (0, 3));
    rig.pass(Duration::from_secs(61));
    assert_eq!((rig.core.counts().ready, rig.core.orders().len()), (3, 0));
}

#[test]
fn one_message_is_bounced_or_made_due_by_its_id() {
    let mut rig = rig(100);
    let ids: Vec<MessageId> = wait(&mut rig, "x.test", 0, 3).into_iter().collect();
    let one = |id: MessageId| Criteria { messages: [id].into(), ..Criteria::default() };
    give(&mut rig, 1, Action::Flush(one(ids[1])), 0);
    give(&mut rig, 2, Action::Bounce(one(ids[2])), 0);
    rig.pass(Duration::ZERO);
    assert_eq!(bounced(&mut rig), [ids[2]].into());
    assert_eq!((rig.core.counts().ready, rig.core.counts().scheduled), (1, 1));
}

#[test]
fn timers_of_messages_that_were_flushed_again_and_again_do_not_pile_up() {
    let mut rig = rig(100_000);
    for round in 0..50u8 {
        wait(&mut rig, "x.test", 1, 2000);
        give(&mut rig, round, Action::Flush(Criteria::default()), 0);
        rig.pass(Duration::from_secs(1));
        for conn in rig.opened() {
            while rig.deliver(conn) {}
            rig.core.connection_ended(rig.now, conn);
        }
    }
    let size = rig.core.footprint();
    assert!(size.stale_timers > 70_000, "nobody took them out yet: {size:?}");
    assert_eq!(size.timers, rig.core.counts().scheduled + size.stale_timers);
    rig.pass(Duration::from_secs(60));
    // Those of the last moment came after the last order.
    let size = rig.core.footprint();
    assert_eq!((size.timers, size.stale_timers), (rig.core.counts().scheduled, 0));
    // Those that fire are stale no more.
    wait(&mut rig, "x.test", 1, 100);
    give(&mut rig, 99, Action::Flush(Criteria::default()), 0);
    rig.pass(Duration::from_secs(1));
    assert!(rig.core.footprint().stale_timers >= 100, "{:?}", rig.core.footprint());
    rig.pass(Duration::from_secs(86_400));
    assert_eq!(rig.core.footprint().stale_timers, 0);
}

#[test]
fn a_message_behind_others_in_a_ready_queue_is_reached() {
    let mut rig = rig(100);
    let ids = rig.admit("t@y.test", 5);
    let one = Criteria { messages: [ids[3]].into(), ..Criteria::default() };
    give(&mut rig, 1, Action::Bounce(one), 0);
    rig.pass(Duration::ZERO);
    assert_eq!(bounced(&mut rig), [ids[3]].into());
    let conn = rig.opened()[0];
    let others: Vec<MessageId> = std::iter::from_fn(|| rig.take(conn)).map(|queued| queued.message.id).collect();
    assert_eq!(others, [ids[0], ids[1], ids[2], ids[4]], "in the order they had");
}

#[test]
fn a_route_that_fails_under_a_suspension_or_hold_costs_no_message_anything() {
    let actions: [fn(Criteria) -> Action; 2] = [Action::Suspend, Action::Hold];
    for action in actions {
        let mut rig = Rig::new();
        let key = rig.core.queue(rig.now.mono, "x.test");
        rig.core.configured(rig.now, key, std::sync::Arc::new(config(serde_json::json!({}))));
        rig.admit("x.test", 3);
        give(&mut rig, 1, action(Criteria::default()), 600);
        rig.core.unroutable(rig.now, key, failure(550));
        rig.pass(Duration::ZERO);
        assert_eq!(rig.endings().len(), 0);
        rig.core.withdraw(rig.now, OrderId([1; 16]));
        rig.pass(Duration::from_secs(61));
        let path = path(serde_json::json!({}));
        rig.core.routed(rig.now, key, route(&[("a", 1)], &path, ROOMY));
        assert_eq!((rig.core.counts().ready, rig.core.counts().out), (3, 3));
        assert_eq!(rig.core.footprint().caught, 0);
    }
}

#[test]
fn a_connection_that_fails_before_the_walk_came_by_costs_no_message_anything() {
    let mut rig = rig(100);
    rig.admit("t@y.test", 3);
    let conn = rig.opened()[0];
    give(&mut rig, 1, Action::Suspend(Criteria::default()), 600);
    let refused = smtp_wire::Reply::enhanced(556, smtp_wire::EnhancedCode::new(5, 1, 10), "null MX");
    rig.core.site_failed(rig.now, conn, refused);
    rig.pass(Duration::ZERO);
    assert_eq!(rig.endings().len(), 0);
    assert_eq!((rig.core.counts().scheduled, rig.core.counts().out), (3, 0));
}

#[test]
fn what_is_given_back_goes_home_when_its_way_is_closed() {
    let actions: [fn() -> Action; 2] = [|| Action::Suspend(Criteria::default()), || Action::SuspendReady("a".into())];
    for action in actions {
        let mut rig = rig(100);
        rig.admit("x.test", 1);
        let conn = rig.opened()[0];
        let queued = rig.take(conn).expect("one");
        let action = action();
        let is_whole = matches!(action, Action::Suspend(_));
        give(&mut rig, 1, action, 600);
        rig.pass(Duration::ZERO);
        rig.core.give_back(rig.now, conn, queued);
        let expected = if is_whole { [0, 0] } else { [0, 1] };
        assert_eq!(rig.ready().iter().map(|(_, n)| *n).collect::<Vec<_>>(), expected, "another source has it");
    }
}

#[test]
fn a_ready_queue_that_is_open_again_before_all_have_left_keeps_the_rest() {
    let mut rig = rig(10_000);
    rig.admit("t@y.test", 6000);
    rig.opened();
    give(&mut rig, 1, Action::SuspendReady("a".into()), 60);
    rig.core.tick(rig.now);
    assert_eq!(rig.core.counts().ready, 6000 - 2048, "not all at one visit");
    rig.core.withdraw(rig.now, OrderId([1; 16]));
    (0..20).for_each(|_| rig.core.tick(rig.now));
    assert_eq!(rig.core.counts().ready, 6000);
    assert!(rig.core.deadline() > rig.now.mono, "there is nothing more to do at once");
}

#[test]
fn what_is_held_is_in_the_spool_and_without_content() {
    let mut rig = rig(100);
    let (volatile, resident) = (rig.volatile(), rig.resident());
    rig.core.admit(rig.now, "x.test", volatile);
    rig.core.admit(rig.now, "x.test", resident);
    assert_eq!(rig.core.counts().ready, 2);
    give(&mut rig, 1, Action::Hold(Criteria::default()), 600);
    rig.pass(Duration::ZERO);
    assert!(rig.drain().iter().any(|effect| matches!(effect, Effect::Spool)), "it must wait: it is spooled");
    assert_eq!(rig.core.resident_messages(), 1, "it is in memory only");
    let refused = rig.core.take_unspooled(10, 1000);
    assert_eq!((refused.len(), rig.core.resident_messages()), (1, 0), "who takes it has it");
    rig.core.not_spooled(rig.now, refused);
    let mut taken = rig.core.take_unspooled(10, 1000);
    assert_eq!((taken.len(), rig.core.resident_bytes()), (1, 0));
    let mut queued = taken.remove(0);
    queued.message.place = Some(support::PLACE);
    rig.core.spooled(rig.now, queued);
    assert_eq!((state(&rig).total, state(&rig).pending, rig.core.counts().out), (2, 2, 2));
    assert_eq!((rig.core.resident_bytes(), rig.core.volatile_octets()), (0, 0));
    rig.core.withdraw(rig.now, OrderId([1; 16]));
    rig.pass(Duration::ZERO);
    assert_eq!((rig.core.counts().ready, rig.core.counts().out), (2, 2));
}

#[test]
fn an_order_given_in_the_moment_another_expires_leaves_nobody_behind() {
    let mut rig = rig(100);
    give(&mut rig, 1, Action::SuspendReady("a".into()), 60);
    // Its way is closed: it waits in line.
    rig.admit("t@y.test", 1);
    rig.pass(Duration::ZERO);
    rig.now = rig.now.after(Duration::from_secs(60));
    give(&mut rig, 2, Action::Suspend(of_domain("z.test")), 600);
    rig.core.tick(rig.now);
    assert_eq!(rig.ready(), [("a".into(), 1), ("b".into(), 0)], "told at once");
}

#[test]
fn an_order_comes_to_its_end_whatever_others_are_given_meanwhile() {
    let mut rig = rig(100);
    // More than a visit looks at.
    let all = wait(&mut rig, "x.test", 1, 50_000);
    rig.pass(Duration::from_secs(1));
    give(&mut rig, 1, rebind(of_domain("x.test")), 0);
    let mut moved = BTreeSet::new();
    for number in 2..60 {
        give(&mut rig, number, Action::Hold(of_domain(&format!("{number}.test"))), 600);
        give(&mut rig, number + 100, Action::Suspend(of_domain(&format!("{number}.test"))), 600);
        rig.core.tick(rig.now);
        moved.extend(move_all(&mut rig));
    }
    assert!(moved == all, "{} of {}", moved.len(), all.len());
    assert!(rig.core.orders().iter().all(|state| state.order.id != OrderId([1; 16])), "it is over");
    rig.pass(Duration::ZERO);
    assert!(rig.core.orders().iter().all(|state| !state.under_way), "and so are the walks of the others");
    assert!(rig.core.deadline() > rig.now.mono, "there is nothing more to do at once");
}

#[test]
fn a_bounce_that_is_given_again_while_one_is_settled_ends() {
    let mut rig = rig(2);
    wait(&mut rig, "x.test", 1, 2);
    rig.pass(Duration::from_secs(1));
    give(&mut rig, 1, Action::Bounce(of_domain("x.test")), 60);
    rig.pass(Duration::ZERO);
    let (queued, _) = rig.core.take_ending(EndingKind::Ordered).expect("one of two");
    give(&mut rig, 2, Action::Bounce(of_domain("x.test")), 120);
    let (other, _) = rig.core.take_ending(EndingKind::Ordered).expect("the other");
    // One could not be written, and is with the order that took the place.
    rig.core.not_carried_out(rig.now, other, OrderId([2; 16]));
    rig.core.settled_for(rig.now, OrderId([2; 16]));
    rig.core.not_carried_out(rig.now, queued, OrderId([1; 16]));
    rig.core.settled_for(rig.now, OrderId([1; 16]));
    assert_eq!((state(&rig).total, state(&rig).pending), (2, 2));
    rig.pass(Duration::from_secs(119));
    assert_eq!(bounced(&mut rig).len(), 2);
    assert_eq!(rig.core.orders().len(), 1, "it lasts a second more");
    rig.pass(Duration::from_secs(1));
    assert!(rig.core.orders().is_empty());
}

#[test]
fn who_comes_due_behind_others_while_the_walk_goes_on_is_met() {
    let mut rig = rig(100);
    for (number, name) in [(10, "a"), (11, "b")] {
        give(&mut rig, number, Action::SuspendReady(name.into()), 600);
    }
    wait(&mut rig, "z.test", 1, 50_000);
    rig.pass(Duration::from_secs(1));
    let mut late = rig.message(1);
    late.due = rig.now.wall + Duration::from_secs(1);
    let id = late.id;
    rig.core.admit(rig.now, "t@y.test", late);
    rig.pass(Duration::from_millis(1));
    give(&mut rig, 1, rebind(of_domain("y.test")), 0);
    rig.now = rig.now.after(Duration::from_millis(1));
    // It has no way, and the order is not about it.
    let other = rig.admit("t@y.test", 1)[0];
    (0..3).for_each(|_| rig.core.tick(rig.now));
    rig.now = rig.now.after(Duration::from_secs(2));
    (0..2).for_each(|_| rig.core.tick(rig.now));
    let is_under_way = rig.core.orders().iter().any(|o| o.order.id == OrderId([1; 16]) && o.under_way);
    assert!(is_under_way, "who waits is being looked for");
    rig.pass(Duration::ZERO);
    assert_eq!(move_all(&mut rig), BTreeSet::from([id]));
    assert!(rig.core.census().any(|(left, _)| left == other));
}

#[test]
fn a_list_for_the_next_run_has_the_order_of_those_in_force() {
    let mut rig = rig(1);
    give(&mut rig, 1, Action::Hold(of_domain("x.test")), 600);
    give(&mut rig, 2, Action::Hold(Criteria::default()), 600);
    let again = |number: u8, action: Action| {
        let (given, expires) = (rig.now.wall, rig.now.wall + Duration::from_secs(900));
        let (id, reason) = (OrderId([number; 16]), "because".into());
        Arc::new(Order { id, action, reason, given, expires, suppress_logging: false, survives_restart: true })
    };
    let listed = |rig: &Rig, new: &Arc<Order>| {
        rig.core.surviving_orders(Some(new)).iter().map(|order| order.id.0[0]).collect::<Vec<_>>()
    };
    let (same, other) = (again(3, Action::Hold(of_domain("x.test"))), again(4, Action::Hold(of_domain("z.test"))));
    assert_eq!((listed(&rig, &same), listed(&rig, &other)), (vec![3, 2], vec![1, 2, 4]));
    rig.core.order(rig.now, (*same).clone());
    let held = rig.admit("x.test", 1);
    assert_eq!((state(&rig).order.id, state(&rig).total, held.len()), (OrderId([2; 16]), 0, 1), "it is held");
    let orders: Vec<Order> = rig.core.surviving_orders(None).iter().map(|order| (**order).clone()).collect();
    assert_eq!(orders.iter().map(|order| order.id.0[0]).collect::<Vec<_>>(), [3, 2]);
}

#[test]
fn a_suspension_that_is_over_when_it_is_given_hides_no_other_and_frees_its_queue() {
    let mut rig = rig(100);
    give(&mut rig, 1, Action::Suspend(of_domain("x.test")), 10);
    rig.admit("x.test", 1);
    give(&mut rig, 2, Action::Suspend(of_domain("z.test")), 0);
    rig.pass(Duration::from_secs(10));
    assert_eq!(rig.core.counts().ready, 1, "the first has ended");
    give(&mut rig, 3, Action::Suspend(of_domain("y.test")), 600);
    rig.admit("t@y.test", 1);
    give(&mut rig, 4, Action::Suspend(of_domain("y.test")), 0);
    rig.pass(Duration::ZERO);
    assert_eq!((rig.core.counts().ready, rig.core.orders().len()), (2, 0));
}

#[test]
fn orders_are_listed_found_and_counted_by_kind() {
    let mut rig = rig(1);
    let actions: [fn() -> Action; 3] = [
        || Action::SuspendReady("a".into()),
        || Action::Hold(of_domain("x.test")),
        || Action::Suspend(of_domain("x.test")),
    ];
    (1..).zip(actions).for_each(|(number, action)| _ = give(&mut rig, number, action(), 600));
    let ids: Vec<u8> = rig.core.orders().iter().map(|state| state.order.id.0[0]).collect();
    let counts = OrderCounts { about_messages: 1, suspensions: 2, surviving_suspensions: 2 };
    assert_eq!((ids, rig.core.order_counts()), (vec![1, 2, 3], counts));
    for (number, action) in (1..).zip(actions) {
        let id = OrderId([number; 16]);
        assert_eq!(rig.core.order_of(id).map(|order| order.action.clone()), Some(action()));
        assert_eq!(rig.core.same_orders(&action()).map(|order| order.id).collect::<Vec<_>>(), [id]);
    }
    assert_eq!(rig.core.surviving_orders(None).len(), 3);
    rig.pass(Duration::from_secs(600));
    assert!(rig.core.order_of(OrderId([3; 16])).is_none() && rig.core.order_counts() == OrderCounts::default());
}

#[test]
fn where_a_message_is_far_back_in_a_long_line_is_told() {
    let mut rig = rig(1);
    let due = rig.admit("t@y.test", 20_000);
    let place = |rig: &Rig, id: MessageId| {
        let mut step = Some(0);
        while let Some(from) = step {
            let (found, next) = rig.core.find(rig.now, id, from);
            if let Some(found) = found {
                return Some((found.place, found.wait.why));
            }
            step = next;
        }
        None
    };
    let full = queue::Why::ReadyQueueWasFull;
    assert_eq!(place(&rig, due[19_999]), Some((queue::Place::Due, full)));
    give(&mut rig, 1, Action::Hold(Criteria::default()), 600);
    rig.pass(Duration::ZERO);
    assert_eq!(place(&rig, due[19_990]), Some((queue::Place::Held, queue::Why::HeldByOrder)));
}
