//! Random work over several queues, sources and limits, effects late and out of step: no message
//! is lost, doubled or forgotten in a line, no limit is exceeded, and in the end nothing is left.

mod support;

use clock::Duration;
use message::MessageId;
use proptest::prelude::*;
use queue::{Action, ConnKey, Criteria, Effect, Ending, Footprint, Order, OrderId, Place, Queued, Take};
use smtp_wire::Reply;
use std::collections::{BTreeMap, VecDeque};
use support::{PLACE, Rig, config, failure, path, route};

/// One thing that happens.
#[derive(Clone, Debug)]
enum Op {
    /// A message for a queue, due after so many seconds.
    Admit(u8, u8),
    /// The oldest batch of effects is carried out.
    Effect,
    /// A connection does what it is at.
    Act(u8, u8),
    /// An operator gives an order, or takes one back.
    Order(u8, u8),
    /// Time passes.
    Pass(u16),
}

/// What a connection of the model is doing.
enum Doing {
    Opening,
    Holding(Box<Queued>),
    Idle,
    /// Waiting for a rate.
    Pausing(clock::Instant),
}

struct Model {
    rig: Rig,
    effects: VecDeque<Effect>,
    connections: BTreeMap<u64, (ConnKey, Doing)>,
    owed: Vec<MessageId>,
    settled: Vec<MessageId>,
    queues: Vec<&'static str>,
    limits: (usize, usize),
    /// Connections that share a lease.
    leases: usize,
    /// Messages that were given back may stand above `max_ready`.
    given_back: usize,
    orders: u128,
    route: u64,
    faults: bool,
    /// Messages that policy is being asked about.
    asked: VecDeque<Queued>,
    settings: (serde_json::Value, serde_json::Value),
}

impl Model {
    fn new(limits: (usize, usize), rated: bool, leases: Option<usize>) -> Model {
        let (max_ready, connection_limit) = limits;
        let mut of_path = serde_json::json!({"max_ready": max_ready, "connection_limit": connection_limit});
        let mut of_queue = serde_json::json!({"max_age": "1 hour"});
        if rated {
            of_path["max_connection_rate"] = "3/s".into();
            of_path["max_message_rate"] = "7/s".into();
            of_queue["max_message_rate"] = "3/s".into();
            of_path["additional_message_rate_throttles"] = serde_json::json!({"all": "5/s,max_burst=2"});
            of_path["source_selection_rate"] = "4/s".into();
            of_path["additional_source_selection_rates"] = serde_json::json!({"every": "6/s"});
        }
        if let Some(leases) = leases {
            of_path["additional_connection_limits"] = serde_json::json!({"shared": leases});
        }
        Model {
            rig: Rig::new(),
            effects: VecDeque::new(),
            connections: BTreeMap::new(),
            owed: Vec::new(),
            settled: Vec::new(),
            queues: vec!["x.test", "y.test", "z.test"],
            limits,
            leases: leases.unwrap_or(usize::MAX),
            given_back: 0,
            orders: 0,
            route: 0,
            faults: true,
            asked: VecDeque::new(),
            settings: (of_queue, of_path),
        }
    }

    fn step(&mut self, op: &Op) {
        match op {
            Op::Admit(queue, due) => {
                let mut message = if due & 64 == 0 { self.rig.message(1) } else { self.rig.volatile() };
                message.due = self.rig.now.wall + Duration::from_secs(u64::from(*due % 4));
                self.owed.push(message.id);
                let queue = self.queues[usize::from(*queue) % self.queues.len()];
                self.rig.core.admit(self.rig.now, queue, message);
            }
            Op::Effect => self.carry_out(),
            Op::Act(which, how) => {
                let count = self.connections.len().max(1);
                let key = self.connections.keys().nth(usize::from(*which) % count).copied();
                key.into_iter().for_each(|key| self.act(key, *how));
            }
            Op::Order(what, whom) => self.order(*what, *whom),
            Op::Pass(ms) if ms % 4 == 3 => {
                self.rig.pass(Duration::from_millis(u64::from(*ms)));
                self.rig.core.set_away(self.rig.now, false);
            }
            Op::Pass(ms) => self.rig.pass(Duration::from_millis(u64::from(*ms))),
        }
        self.effects.extend(self.rig.drain());
        self.check();
    }

    fn order(&mut self, what: u8, whom: u8) {
        if what < 60 {
            let orders = self.rig.core.orders();
            let order = orders.get(usize::from(what) % orders.len().max(1)).map(|state| state.order.id);
            order.into_iter().for_each(|id| _ = self.rig.core.withdraw(self.rig.now, id));
            return;
        }
        let domain = (whom % 4 < 3).then(|| self.queues[usize::from(whom % 4)].to_owned());
        let criteria = Criteria { domain, ..Criteria::default() };
        let action = match what % 5 {
            4 => Action::Hold(criteria),
            0 => Action::Suspend(criteria),
            1 => Action::Bounce(criteria),
            2 => Action::Flush(criteria),
            _ => Action::SuspendReady(["a", "b", "c"][usize::from(whom % 3)].into()),
        };
        let given = self.rig.now.wall;
        let expires = given + Duration::from_secs(if what % 5 == 2 { 0 } else { u64::from(whom) });
        self.orders += 1;
        let id = OrderId(self.orders.to_le_bytes());
        let reason = String::new();
        let order = Order { id, action, reason, given, expires, suppress_logging: false, survives_restart: true };
        self.rig.core.order(self.rig.now, order);
    }

    /// Policy answers about the message it was asked about first.
    fn answer(&mut self) {
        let Some(queued) = self.asked.pop_front() else { return };
        let (core, now) = (&mut self.rig.core, self.rig.now);
        match self.route % 7 {
            0 if self.faults => core.postpone(now, queued),
            1 | 2 if self.faults => core.held_back(now, queued, now.wall + Duration::from_secs(self.route % 50)),
            _ => core.passed(now, queued),
        }
    }

    fn carry_out(&mut self) {
        if self.effects.is_empty() || self.route.is_multiple_of(3) {
            self.answer();
        }
        let Some(effect) = self.effects.pop_front() else { return };
        let now = self.rig.now;
        self.route += 1;
        let fails = self.faults && self.route % 5 == 4;
        let core = &mut self.rig.core;
        match effect {
            Effect::Configure { queue, .. } if fails => core.unroutable(now, queue, failure(451)),
            Effect::Configure { queue, .. } => core.configured(now, queue, config(self.settings.0.clone()).into()),
            Effect::Route { queue, .. } if fails => core.unroutable(now, queue, failure(451)),
            Effect::Route { queue, .. } => {
                let ways: [&[(&str, u32)]; 3] = [&[("a", 2), ("b", 1)], &[("b", 1)], &[("a", 1), ("c", 0)]];
                core.routed(
                    now,
                    queue,
                    route(ways[self.route as usize % 3], &path(self.settings.1.clone()), self.route % 40),
                );
            }
            Effect::Open(opening) if !opening.leases.is_empty() && fails => {
                core.lease_refused(now, opening.conn, Duration::from_millis(self.route % 700));
            }
            Effect::Open(opening) if opening.rates.is_some() && self.faults && self.route % 7 == 3 => {
                core.rate_refused(now, opening.conn, Duration::from_millis(1 + self.route % 900));
            }
            Effect::Open(opening) if !opening.leases.is_empty() && !core.leased(now, opening.conn) => {
                core.connection_ended(now, opening.conn);
            }
            Effect::Open(opening) => {
                let before = self.connections.insert(opening.conn.id(), (opening.conn, Doing::Opening));
                assert!(before.is_none(), "two connections under one key");
            }
            Effect::Wake(conn) => {
                if let Some((_, Doing::Idle | Doing::Pausing(_))) = self.connections.get(&conn.id()) {
                    self.ask(conn);
                }
            }
            // Nobody counts for the cluster, or somebody does again.
            Effect::Grant { .. } if fails => core.set_away(now, true),
            Effect::Grant { of, count, asked_at, .. } => {
                let granted = if self.faults { count.min(self.route % 3) } else { count };
                let wait = if granted < count { Duration::from_millis(self.route % 400) } else { Duration::ZERO };
                core.granted(now, &of, asked_at, granted, wait);
            }
            Effect::Settle(kind) => {
                if let Some((queued, ending)) = core.take_ending(kind) {
                    self.settle(queued, &ending);
                    self.effects.push_back(Effect::Settle(kind));
                }
            }
            Effect::Ask => {
                if let Some(queued) = core.take_asking(now) {
                    self.asked.push_back(queued);
                    self.effects.push_back(Effect::Ask);
                }
            }
            Effect::Spool => {
                let taken = core.take_unspooled(3, usize::MAX);
                if !taken.is_empty() {
                    self.spool(taken, fails);
                    self.effects.push_back(Effect::Spool);
                }
            }
            Effect::Forgotten(_) | Effect::OrdersEnded => {}
            Effect::Stalled { name, wait } => panic!("{name} stood still: {wait:?}"),
        }
    }

    fn settle(&mut self, queued: Queued, ending: &Ending) {
        match ending {
            Ending::Rebound(order) => panic!("nobody ordered {order:?}"),
            Ending::Undeliverable(_) => self.rig.core.retry(self.rig.now, queued, Duration::from_secs(1)),
            Ending::Expired | Ending::Bounced(_) => {
                self.settled.push(queued.message.id);
                self.rig.core.forget(self.rig.now.mono, &queued);
            }
        }
        if let Ending::Bounced(order) = ending {
            self.rig.core.settled_for(self.rig.now, order.id);
        }
    }

    fn spool(&mut self, mut taken: Vec<Queued>, fails: bool) {
        let now = self.rig.now;
        if fails {
            return self.rig.core.not_spooled(now, taken);
        }
        for mut queued in taken.drain(..) {
            queued.message.place = Some(PLACE);
            self.rig.core.spooled(now, queued);
        }
    }

    fn ask(&mut self, conn: ConnKey) {
        let now = self.rig.now;
        let doing = match self.rig.core.take(now, conn) {
            Take::Message(queued) => Doing::Holding(queued),
            Take::Idle => Doing::Idle,
            Take::After(wait) => Doing::Pausing(now.mono + wait),
            Take::Close => return self.end(conn),
        };
        self.connections.insert(conn.id(), (conn, doing));
    }

    fn end(&mut self, conn: ConnKey) {
        self.connections.remove(&conn.id());
        self.rig.core.connection_ended(self.rig.now, conn);
    }

    fn act(&mut self, key: u64, how: u8) {
        let Some((conn, doing)) = self.connections.remove(&key) else { return };
        let now = self.rig.now;
        let fails = self.faults && how.is_multiple_of(5);
        let core = &mut self.rig.core;
        match doing {
            Doing::Opening if fails && how.is_multiple_of(2) => {
                core.connection_failed(now, conn, Reply::new(400, "none"))
            }
            Doing::Opening if fails => core.site_failed(now, conn, Reply::new(451, "4.4.4 none")),
            Doing::Opening => self.ask(conn),
            Doing::Holding(queued) if fails && how.is_multiple_of(2) => {
                self.given_back += 1;
                core.give_back(now, conn, *queued);
                self.end(conn);
            }
            Doing::Holding(queued) if fails => {
                core.retry(now, *queued, Duration::from_secs(1));
                self.ask(conn);
            }
            Doing::Holding(queued) => {
                self.settled.push(queued.message.id);
                core.forget(now.mono, &queued);
                self.ask(conn);
            }
            // The peer closes, or its patience ends, unless it was promised a message.
            Doing::Idle if how.is_multiple_of(3) || core.leave_idle(conn) => self.end(conn),
            Doing::Idle => self.ask(conn),
            Doing::Pausing(until) if now.mono >= until => self.ask(conn),
            doing @ Doing::Pausing(_) => _ = self.connections.insert(key, (conn, doing)),
        }
    }

    fn check(&mut self) {
        let mut places: BTreeMap<MessageId, usize> = BTreeMap::new();
        let census = self.rig.core.census().map(|(id, _)| id);
        let held = self.connections.values().filter_map(|(_, d)| match d {
            Doing::Holding(queued) => Some(queued.message.id),
            Doing::Opening | Doing::Idle | Doing::Pausing(_) => None,
        });
        let asked = self.asked.iter().map(|queued| queued.message.id);
        census
            .chain(held)
            .chain(asked)
            .chain(self.settled.iter().copied())
            .for_each(|id| *places.entry(id).or_default() += 1);
        for id in &self.owed {
            assert_eq!(places.remove(id), Some(1), "{id} is in so many places");
        }
        assert!(places.is_empty(), "{places:?} were never admitted");
        for (name, messages, connections) in self.rig.core.ready_counts() {
            assert!(messages <= self.limits.0 + self.given_back, "{name} holds {messages}");
            assert!(connections <= self.limits.1, "{name} has {connections} connections");
        }
        let footprint = self.rig.core.footprint();
        assert!(footprint.connections <= self.leases, "{} connections share {}", footprint.connections, self.leases);
        assert_eq!(self.rig.core.footprint().caught, 0, "only the periodic look found a message that waited");
    }

    /// Nothing fails any more, everybody does his part: all must come to an end.
    fn drain(&mut self) {
        self.faults = false;
        for _ in 0..20_000 {
            let busy = self.connections.iter().find(|(_, (_, d))| !matches!(d, Doing::Idle | Doing::Pausing(_)));
            let key = busy.map(|(key, _)| *key);
            match (self.effects.is_empty() && self.asked.is_empty(), key) {
                (false, _) => self.step(&Op::Effect),
                (true, Some(key)) => {
                    self.act(key, 1);
                    self.step(&Op::Pass(0));
                }
                (true, None) if self.owed.len() == self.settled.len() => return,
                (true, None) => {
                    let pausing = |(_, (_, d)): &(&u64, &(ConnKey, Doing))| matches!(d, Doing::Pausing(_));
                    let keys: Vec<u64> = self.connections.iter().filter(pausing).map(|(key, _)| *key).collect();
                    self.step(&Op::Pass(500));
                    keys.into_iter().for_each(|key| self.act(key, 1));
                    if self.leases < usize::MAX {
                        // What is idle is given up in the end, and others have it.
                        let idle: Vec<u64> = self.connections.keys().copied().collect();
                        idle.into_iter().for_each(|key| self.act(key, 1));
                    }
                }
            }
        }
        let left: Vec<(MessageId, Place)> = self.rig.core.census().collect();
        panic!("never done: {left:?} {:?}", self.rig.core.footprint());
    }

    fn finish(&mut self) {
        let conns: Vec<ConnKey> = self.connections.values().map(|(conn, _)| *conn).collect();
        conns.into_iter().for_each(|conn| self.end(conn));
        self.rig.pass(Duration::from_secs(3 * 3600));
        // A question that nobody has taken yet remembers what it asks for.
        self.effects.clear();
        self.rig.drain();
        self.rig.pass(Duration::from_secs(120));
        assert_eq!(self.rig.core.footprint(), Footprint::default(), "everything is forgotten");
    }
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (any::<u8>(), any::<u8>()).prop_map(|(queue, due)| Op::Admit(queue, due)),
        5 => Just(Op::Effect),
        5 => (any::<u8>(), any::<u8>()).prop_map(|(which, how)| Op::Act(which, how)),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(what, whom)| Op::Order(what, whom)),
        1 => (0u16..5000).prop_map(Op::Pass),
        1 => Just(Op::Pass(61_000)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_doubled_or_left_waiting(
        ops in proptest::collection::vec(op(), 0..300),
        max_ready in prop_oneof![Just(1usize), Just(2), Just(5), Just(1000)],
        connection_limit in prop_oneof![Just(1usize), Just(2), Just(32)],
        rated in any::<bool>(),
        asks in any::<bool>(),
        cluster in any::<bool>(),
        leases in prop_oneof![Just(None), Just(Some(1)), Just(Some(3))],
    ) {
        let mut model = Model::new((max_ready, connection_limit), rated, leases);
        if cluster {
            model.rig.core.join_cluster(0.5);
        }
        if asks {
            model.rig.core.ask_before_ready(true);
        }
        ops.iter().for_each(|op| model.step(op));
        model.drain();
        model.finish();
    }
}
