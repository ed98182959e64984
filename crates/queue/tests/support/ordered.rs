//! What tests of orders share: two queues, orders given to them, and what becomes of those that are moved.

use super::{Rig, config, path, route};
use clock::Duration;
use message::MessageId;
use queue::{Action, Criteria, Ending, Order, OrderId, OrderState};
use std::collections::BTreeSet;

pub const ROOMY: u64 = 1_000_000;

/// Queues `x.test` and `t@y.test` over the ready queues `a` and, for `x.test` only, `b`.
pub fn rig(max_ready: usize) -> Rig {
    let mut rig = Rig::new();
    let path = path(serde_json::json!({"max_ready": max_ready, "connection_limit": 1}));
    rig.routed("x.test", config(serde_json::json!({})), route(&[("a", 1), ("b", 1)], &path, ROOMY));
    rig.routed("t@y.test", config(serde_json::json!({})), route(&[("a", 1)], &path, ROOMY));
    rig
}

pub fn of_domain(domain: &str) -> Criteria {
    Criteria { domain: Some(domain.into()), ..Criteria::default() }
}

pub fn give(rig: &mut Rig, number: u8, action: Action, secs: u64) -> usize {
    let given = rig.now.wall;
    let order = Order {
        id: OrderId([number; 16]),
        action,
        reason: "because".into(),
        given,
        expires: given + Duration::from_secs(secs),
        suppress_logging: false,
        survives_restart: true,
    };
    rig.core.order(rig.now, order)
}

pub fn state(rig: &Rig) -> OrderState {
    rig.core.orders().remove(0)
}

/// Messages of `queue` that wait for an hour, after so many attempts.
pub fn wait(rig: &mut Rig, queue: &str, attempts: u16, count: usize) -> BTreeSet<MessageId> {
    let one = |rig: &mut Rig| {
        let mut message = rig.message(1);
        message.attempts = attempts;
        message.due = rig.now.wall + Duration::from_secs(3600);
        let id = message.id;
        rig.core.admit(rig.now, queue, message);
        id
    };
    (0..count).map(|_| one(rig)).collect()
}

/// Carries out what rebindings took: all of it goes to `t@y.test`.
pub fn move_all(rig: &mut Rig) -> BTreeSet<MessageId> {
    let mut moved = BTreeSet::new();
    for (queued, ending) in rig.endings() {
        let Ending::Rebound(order) = ending else { panic!("{ending:?}") };
        assert!(moved.insert(queued.message.id), "twice");
        rig.core.rebound(rig.now, queued, queue::schedule::Belonging::to("t@y.test"));
        rig.pass(Duration::ZERO);
        assert!(rig.core.orders().iter().any(|o| o.order.id == order.id), "over before the last is done");
        rig.core.settled_for(rig.now, order.id);
    }
    moved
}
