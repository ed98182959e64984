//! Deadlines of messages: who goes first, and how one ends that was missed, in every state.

mod support;

use clock::Duration;
use message::{Message, MessageId};
use queue::schedule::{Belonging, End};
use queue::{Action, ConnKey, Criteria, Ending, Order, OrderId, Place};
use support::{Rig, config, path, route};

/// What timers are late at most.
const TICK: Duration = Duration::from_millis(128);

fn rig(max_ready: usize) -> Rig {
    let mut rig = Rig::new();
    let path = path(serde_json::json!({"max_ready": max_ready, "connection_limit": 1}));
    rig.routed("x.test", config(serde_json::json!({})), route(&[("a", 1)], &path, 1_000_000));
    rig
}

fn admit_by(rig: &mut Rig, secs: u64) -> MessageId {
    let message = rig.message(1);
    put(rig, message, secs)
}

fn put(rig: &mut Rig, message: Message, secs: u64) -> MessageId {
    let (id, at) = (message.id, rig.now.wall + Duration::from_secs(secs));
    let end = Some(End { at, is_deadline: true });
    rig.core.admit_to(rig.now, Belonging { end, ..Belonging::to("x.test") }, message);
    id
}

fn delivered(rig: &mut Rig, conn: ConnKey) -> Vec<MessageId> {
    let mut ids = Vec::new();
    while let Some(queued) = rig.take(conn) {
        ids.push(queued.message.id);
        rig.core.forget(rig.now.mono, &queued);
    }
    ids
}

fn ended(rig: &mut Rig) -> Vec<MessageId> {
    let endings = rig.endings();
    for (queued, ending) in &endings {
        assert!(matches!(ending, Ending::Expired), "{ending:?}");
        rig.core.forget(rig.now.mono, queued);
    }
    endings.into_iter().map(|(queued, _)| queued.message.id).collect()
}

#[test]
fn the_earliest_deadline_goes_first_before_and_in_the_ready_queue() {
    // Two places: the others are due in the scheduled queue, and come in one by one.
    let mut rig = rig(2);
    let plain = rig.admit("x.test", 4);
    let urgent: Vec<_> = [300, 100, 200].iter().map(|secs| admit_by(&mut rig, *secs)).collect();
    let conn = rig.opened()[0];
    let expected = [plain[0], urgent[1], urgent[2], urgent[0], plain[1], plain[2], plain[3]];
    assert_eq!(delivered(&mut rig, conn), expected, "but for the one that was taken already");
    // In the ready queue itself.
    let mut rig = self::rig(100);
    let plain = rig.admit("x.test", 2);
    let urgent: Vec<_> = [300, 100].iter().map(|secs| admit_by(&mut rig, *secs)).collect();
    let conn = rig.opened()[0];
    assert_eq!(delivered(&mut rig, conn), [urgent[1], urgent[0], plain[0], plain[1]]);
}

#[test]
fn a_missed_deadline_ends_a_message_that_is_ready_due_or_waits() {
    let mut rig = rig(1);
    let ready = admit_by(&mut rig, 30);
    rig.admit("x.test", 1);
    let due = admit_by(&mut rig, 20);
    let message = rig.message(1);
    let later = Message { due: rig.now.wall + Duration::from_secs(3600), ..message };
    let waits = put(&mut rig, later, 10);
    let place = |rig: &Rig, id| rig.core.census().find(|(of, _)| *of == id).map(|(_, place)| place);
    assert_eq!([ready, due, waits].map(|id| place(&rig, id)), [Place::Ready, Place::Due, Place::Waiting].map(Some));
    for id in [waits, due, ready] {
        rig.pass(Duration::from_millis(9500));
        assert_eq!(ended(&mut rig), []);
        rig.pass(Duration::from_millis(500) + TICK);
        assert_eq!(ended(&mut rig), [id]);
    }
}

#[test]
fn a_deadline_that_is_past_when_its_message_comes_back_hides_no_other() {
    let mut rig = rig(1);
    let ready = admit_by(&mut rig, 500);
    // The timer is that of the first.
    let (first, due) = (admit_by(&mut rig, 15), admit_by(&mut rig, 20));
    rig.pass(Duration::from_secs(10));
    let message = rig.message(1);
    let (past, at) = (message.id, rig.now.wall - Duration::from_secs(5));
    let end = Some(End { at, is_deadline: true });
    rig.core.admit_to(rig.now, Belonging { end, ..Belonging::to("x.test") }, message);
    let late = admit_by(&mut rig, 400);
    assert_eq!(ended(&mut rig), [past]);
    rig.pass(Duration::from_secs(5) + TICK);
    assert_eq!(ended(&mut rig), [first]);
    rig.pass(Duration::from_secs(5));
    assert_eq!(ended(&mut rig), [due]);
    let left: Vec<_> = rig.core.census().map(|(id, _)| id).collect();
    assert!(left.len() == 2 && left.contains(&ready) && left.contains(&late));
}

#[test]
fn a_missed_deadline_ends_who_is_ready_by_a_route_that_is_another_now() {
    for is_lost in [false, true] {
        let mut rig = rig(9);
        let id = admit_by(&mut rig, 20);
        let key = rig.core.queue(rig.now.mono, "x.test");
        match is_lost {
            true => rig.core.unroutable(rig.now, key, support::failure(451)),
            false => rig.core.routed(rig.now, key, route(&[("b", 1)], &path(serde_json::json!({})), 1_000_000)),
        }
        rig.pass(Duration::from_secs(20) + TICK);
        assert_eq!(ended(&mut rig), [id]);
    }
}

#[test]
fn who_does_not_read_comes_again_after_a_while_and_never_before_its_time() {
    let mut rig = rig(9);
    let id = admit_by(&mut rig, 20);
    rig.pass(Duration::from_secs(20) + TICK);
    let (queued, _) = rig.endings().remove(0);
    rig.core.postpone(rig.now, queued);
    assert!(rig.endings().is_empty(), "its deadline is past, and the spool is given time");
    rig.pass(Duration::from_secs(61));
    assert_eq!(ended(&mut rig), [id]);
    let message = Message { due: rig.now.wall + Duration::from_secs(3600), ..rig.message(1) };
    rig.core.admit(rig.now, "x.test", message);
    let order = Order {
        id: OrderId([1; 16]),
        action: Action::Bounce(Criteria::default()),
        reason: "because".into(),
        given: rig.now.wall,
        expires: rig.now.wall,
        suppress_logging: false,
        survives_restart: true,
    };
    rig.core.order(rig.now, order);
    rig.pass(Duration::from_secs(1));
    let (queued, _) = rig.endings().remove(0);
    rig.core.withdraw(rig.now, OrderId([1; 16]));
    rig.core.postpone(rig.now, queued);
    let (listed, _) = rig.core.list_waiting("x.test", 9, 0);
    assert!(listed[0].message.due >= rig.now.wall + Duration::from_secs(3590), "as long as it was to wait");
}

#[test]
fn an_order_finds_each_due_message_with_and_without_a_deadline() {
    let mut rig = rig(1);
    rig.admit("x.test", 1);
    let urgent: Vec<_> = [300, 100, 200].iter().map(|secs| admit_by(&mut rig, *secs)).collect();
    let plain = rig.admit("x.test", 3);
    let given = rig.now.wall;
    let messages = [urgent[2], plain[1]].into_iter().collect();
    let order = Order {
        id: OrderId([1; 16]),
        action: Action::Bounce(Criteria { messages, ..Criteria::default() }),
        reason: "because".into(),
        given,
        expires: given + Duration::from_secs(60),
        suppress_logging: false,
        survives_restart: true,
    };
    rig.core.order(rig.now, order);
    rig.pass(Duration::from_secs(1));
    let mut bounced: Vec<_> = rig.endings().into_iter().map(|(queued, _)| queued.message.id).collect();
    bounced.sort();
    assert_eq!(bounced, [urgent[2], plain[1]]);
    let conn = rig.opened()[0];
    let went = delivered(&mut rig, conn);
    assert_eq!(went[1..], [urgent[1], urgent[0], plain[0], plain[2]]);
}
