//! What the queue's tests share: a manager with its clock, and a driver simple enough to see
//! through: effects are kept until a test asks for them.
#![allow(dead_code, reason = "each test binary uses its part")]

pub mod ordered;

use clock::{Duration, Now, WallTime};
use config::{EgressPath, EgressSource, QueueConfig};
use message::{Envelope, IdGenerator, Message, MessageId, Meta, Place, Resident, TlsDemand};
use queue::{
    ConnKey, Destination, Effect, Ending, Epoch, Leg, QueueCore, QueueKey, QueueSettings, Queued, Route, RouteFailure,
    Take, Why,
};
use smtp_wire::{EnhancedCode, Mailbox, Reply, ReversePath};
use std::sync::Arc;

/// Where every spooled message is.
pub const PLACE: Place = Place { segment: 1, offset: 0, index: 0 };

/// A manager, its clock, and the effects it asked for.
pub struct Rig {
    pub core: QueueCore,
    pub now: Now,
    pub effects: Vec<Effect>,
    ids: IdGenerator,
}

impl Rig {
    pub fn new() -> Rig {
        let now = Now { mono: clock::Instant::ZERO, wall: WallTime::from_unix_secs(1_790_000_000) };
        let settings = QueueSettings { resident_bytes_max: 1 << 20, seed: 7 };
        let core = QueueCore::new(now.mono, settings);
        Rig { core, now, effects: Vec::new(), ids: IdGenerator::new([0; 6], 1) }
    }

    /// A message for `recipients` recipients, due now.
    pub fn message(&mut self, recipients: usize) -> Message {
        let (place, recipients) = (Some(PLACE), recipients as u16);
        Message { place, size: 10, recipients, ..Message::bare(self.ids.next(self.now.wall), self.now.wall) }
    }

    /// A message that is in memory only, with ten octets of content.
    pub fn volatile(&mut self) -> Message {
        let recipients = vec![Mailbox::parse("r@d.test").expect("an address")];
        let envelope = Envelope { sender: ReversePath(None), recipients, dsn: None, tls: TlsDemand::Usual };
        let (head, body) = ((&b"A: b\r\n\r\n"[..]).into(), (&b"\r\n"[..]).into());
        let resident = Some(Box::new(Resident { envelope, meta: Meta::new(), head, body }));
        Message { place: None, resident, ..self.message(1) }
    }

    /// The same, and the spool has it too.
    pub fn resident(&mut self) -> Message {
        Message { place: Some(PLACE), ..self.volatile() }
    }

    /// A queue that is configured and routed, so that messages go straight on.
    pub fn routed(&mut self, name: &str, config: QueueConfig, route: Route) -> QueueKey {
        let key = self.core.queue(self.now.mono, name);
        self.core.configured(self.now, key, Arc::new(config));
        self.core.routed(self.now, key, route);
        key
    }

    /// Admits `count` messages, due now; their ids.
    pub fn admit(&mut self, queue: &str, count: usize) -> Vec<MessageId> {
        let messages: Vec<Message> = (0..count).map(|_| self.message(1)).collect();
        let ids = messages.iter().map(|m| m.id).collect();
        messages.into_iter().for_each(|m| self.core.admit(self.now, queue, m));
        ids
    }

    /// Lets time pass, tick by tick.
    pub fn pass(&mut self, span: Duration) {
        let end = self.now.after(span);
        while self.core.deadline() <= end.mono {
            let step = self.core.deadline().saturating_since(self.now.mono);
            self.now = self.now.after(step);
            self.core.tick(self.now);
        }
        self.now = end;
        self.core.tick(self.now);
    }

    /// The effects since the last call.
    pub fn drain(&mut self) -> Vec<Effect> {
        let mut effects = std::mem::take(&mut self.effects);
        self.core.drain_effects(&mut effects);
        effects
    }

    /// Messages that end without a connection, taken by one settler after the other as they are called.
    pub fn endings(&mut self) -> Vec<(Queued, Ending)> {
        let mut all = Vec::new();
        for effect in self.drain() {
            match effect {
                Effect::Settle(kind) => all.extend(std::iter::from_fn(|| self.core.take_ending(kind))),
                other => self.effects.push(other),
            }
        }
        all
    }

    /// Connections asked for since the last call; other effects are kept.
    pub fn opened(&mut self) -> Vec<ConnKey> {
        let mut opened = Vec::new();
        for effect in self.drain() {
            match effect {
                Effect::Open(opening) => opened.push(opening.conn),
                other => self.effects.push(other),
            }
        }
        opened
    }

    /// The message that the connection gets next.
    pub fn take(&mut self, conn: ConnKey) -> Option<Queued> {
        match self.core.take(self.now, conn) {
            Take::Message(queued) => Some(*queued),
            Take::Idle | Take::After(_) | Take::Close => None,
        }
    }

    /// The connection delivers its next message; false when there is none.
    pub fn deliver(&mut self, conn: ConnKey) -> bool {
        let queued = self.take(conn);
        queued.iter().for_each(|q| self.core.forget(self.now.mono, q));
        queued.is_some()
    }

    /// Names and messages of ready queues, by name.
    pub fn ready(&self) -> Vec<(String, usize)> {
        let mut ready: Vec<_> = self.core.ready_counts().map(|(name, count, _)| (name.to_string(), count)).collect();
        ready.sort();
        ready
    }
}

/// A way out over one source.
pub fn leg(path: &EgressPath) -> Leg {
    Leg {
        source: Arc::new(EgressSource::unspecified()),
        pool: "pool".into(),
        path: Arc::new(path.clone()),
        destination: Destination::new("site", Arc::new(())),
        epoch: Epoch::default(),
    }
}

/// A route over ready queues of these names and weights, good for `fresh_secs`.
pub fn route(legs: &[(&str, u32)], path: &EgressPath, fresh_secs: u64) -> Route {
    let legs = legs.iter().map(|(name, weight)| ((*name).into(), *weight, leg(path))).collect();
    Route { legs, fresh_for: Duration::from_secs(fresh_secs) }
}

/// A configuration with a long life of its own.
pub fn config(json: serde_json::Value) -> QueueConfig {
    let config: QueueConfig = config::parse("kumo.make_queue_config", json).expect("sound");
    QueueConfig { refresh_interval: config::Duration::from_secs(1_000_000), ..config }
}

/// A path of an egress source to a site.
pub fn path(json: serde_json::Value) -> EgressPath {
    config::parse("kumo.make_egress_path", json).expect("sound")
}

/// A failure to route with this code, for 60 s.
pub fn failure(code: u16) -> RouteFailure {
    let reply = Reply::enhanced(code, EnhancedCode::new((code / 100) as u8, 4, 4), "no way");
    RouteFailure { why: Why::FailedToInsertIntoReadyQueue, reply, hold_for: Duration::from_secs(60) }
}
