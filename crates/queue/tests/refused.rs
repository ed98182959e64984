//! What an order cannot carry out just now: it is tried again, some at a time, and nobody else waits for it.

mod support;

use clock::Duration;
use message::MessageId;
use queue::{Action, Change, Criteria, Effect, Ending, EndingKind, OrderId, Queued, Rebinding};
use smtp_wire::Reply;
use std::collections::BTreeSet;
use support::Rig;
use support::ordered::{give, move_all, of_domain, rig, state, wait};

fn rebind(domain: &str) -> Action {
    let change = Change::Set([("queue".to_owned(), "t@y.test".to_owned())].into());
    Action::Rebind(Rebinding { criteria: of_domain(domain), change, always_flush: false })
}

/// Takes what settlers may take, and gives it back to its order.
fn refuse(rig: &mut Rig) -> BTreeSet<MessageId> {
    let endings = rig.endings();
    let one = |(queued, ending): (Queued, Ending)| {
        let (id, Ending::Rebound(order) | Ending::Bounced(order)) = (queued.message.id, ending) else {
            panic!("of an order")
        };
        rig.core.not_carried_out(rig.now, queued, order.id);
        rig.core.settled_for(rig.now, order.id);
        id
    };
    endings.into_iter().map(one).collect()
}

#[test]
fn those_that_are_refused_come_again_few_at_a_time_and_more_when_they_are_not() {
    let mut rig = rig(1);
    let all = wait(&mut rig, "x.test", 1, 60);
    // Ids of one moment are numbered on into the next.
    rig.pass(Duration::from_secs(1));
    give(&mut rig, 1, rebind("x.test"), 0);
    rig.pass(Duration::ZERO);
    assert_eq!(refuse(&mut rig), all);
    let mut again = BTreeSet::new();
    for _ in 0..3 {
        rig.pass(Duration::from_millis(900));
        assert!(refuse(&mut rig).is_empty(), "not at once");
        rig.pass(Duration::from_millis(100));
        let few = refuse(&mut rig);
        assert_eq!((few.len(), again.is_disjoint(&few)), (8, true), "each has its turn");
        again.extend(few);
        assert_eq!((state(&rig).total, state(&rig).pending), (60, 60), "counted once");
    }
    let mut moved = BTreeSet::new();
    for count in [8, 16, 32, 4] {
        rig.pass(Duration::from_secs(1));
        let some = move_all(&mut rig);
        assert_eq!(some.len(), count);
        moved.extend(some);
    }
    assert_eq!(moved, all);
    rig.pass(Duration::ZERO);
    assert!(rig.core.orders().is_empty());
}

#[test]
fn a_bounce_is_not_over_while_a_settler_has_its_last_message() {
    let mut rig = rig(1);
    let all = wait(&mut rig, "x.test", 1, 1);
    rig.pass(Duration::from_secs(1));
    give(&mut rig, 1, Action::Bounce(of_domain("x.test")), 0);
    rig.pass(Duration::ZERO);
    let (queued, ending) = rig.core.take_ending(EndingKind::Ordered).expect("the only one");
    let Ending::Bounced(order) = ending else { panic!("{ending:?}") };
    // Another node is asked, and does not answer.
    rig.pass(Duration::from_secs(10));
    rig.core.not_carried_out(rig.now, queued, order.id);
    rig.core.settled_for(rig.now, order.id);
    rig.pass(Duration::from_secs(1));
    rig.drain();
    let (queued, ending) = rig.core.take_ending(EndingKind::Ordered).expect("again");
    assert!(matches!(ending, Ending::Bounced(_)) && all.contains(&queued.message.id));
    rig.core.forget(rig.now.mono, &queued);
    rig.core.settled_for(rig.now, order.id);
    rig.pass(Duration::ZERO);
    assert!(rig.core.orders().is_empty());
}

#[test]
fn what_is_withdrawn_goes_home_though_it_was_refused() {
    let mut rig = rig(1);
    wait(&mut rig, "x.test", 1, 20);
    rig.pass(Duration::from_secs(1));
    give(&mut rig, 1, rebind("x.test"), 0);
    rig.pass(Duration::ZERO);
    refuse(&mut rig);
    rig.core.withdraw(rig.now, OrderId([1; 16])).expect("in force");
    rig.pass(Duration::ZERO);
    assert_eq!((rig.core.scheduled_in("x.test"), rig.core.counts().out), (20, 0));
    rig.pass(Duration::from_secs(2));
    assert!(rig.endings().is_empty());
}

#[test]
fn orders_take_turns() {
    let mut rig = rig(1);
    let (of_x, of_y) = (wait(&mut rig, "x.test", 1, 3), wait(&mut rig, "t@y.test", 1, 3));
    give(&mut rig, 1, Action::Bounce(of_domain("x.test")), 60);
    give(&mut rig, 2, Action::Bounce(Criteria { queue_names: ["t@y.test".into()].into(), ..Criteria::default() }), 60);
    rig.pass(Duration::ZERO);
    let order: Vec<bool> = rig.endings().iter().map(|(queued, _)| of_x.contains(&queued.message.id)).collect();
    assert_eq!(order, [true, false, true, false, true, false]);
    assert_eq!(of_y.len(), 3);
}

#[test]
fn what_failed_has_settlers_of_its_own() {
    let mut rig = rig(1);
    wait(&mut rig, "x.test", 1, 20);
    rig.pass(Duration::from_secs(1));
    give(&mut rig, 1, rebind("x.test"), 0);
    rig.pass(Duration::ZERO);
    let kinds = |rig: &mut Rig| -> Vec<EndingKind> {
        let kind = |effect| if let Effect::Settle(kind) = effect { Some(kind) } else { None };
        rig.drain().into_iter().filter_map(kind).collect()
    };
    assert_eq!(kinds(&mut rig), [EndingKind::Ordered; 8]);
    // All of them wait for a disk, or for another node.
    let in_hand: Vec<_> = (0..8).filter_map(|_| rig.core.take_ending(EndingKind::Ordered)).collect();
    assert_eq!(in_hand.len(), 8);
    let failed = rig.admit("t@y.test", 1);
    let conn = rig.opened()[0];
    rig.core.connection_failed(rig.now, conn, Reply::new(400, "no host"));
    assert_eq!(kinds(&mut rig), [EndingKind::Failed]);
    let (queued, ending) = rig.core.take_ending(EndingKind::Failed).expect("it failed");
    assert!(matches!(ending, Ending::Undeliverable(_)) && failed.contains(&queued.message.id));
}
