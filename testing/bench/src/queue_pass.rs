//! One message's way through queues of one destination: admitted, promoted, handed out, forgotten. In: how often. Out: an error
//! when nobody gets a message. The real `QueueCore`, with a clock that stands still.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use clock::{Instant, Now, WallTime};
use config::{EgressPath, EgressSource, QueueConfig};
use message::{IdGenerator, Message, Place};
use queue::{ConnKey, Destination, Effect, Epoch, Leg, QueueCore, QueueSettings, Route, Take};

/// The queues, and the one connection that takes from them.
pub struct QueuePass {
    core: QueueCore,
    now: Now,
    effects: Vec<Effect>,
    open: Option<ConnKey>,
    admitted: u32,
}

impl QueuePass {
    /// Empty queues.
    pub fn new(wall: WallTime) -> QueuePass {
        let now = Now { mono: Instant::ZERO, wall };
        let mut core = QueueCore::new(now.mono, QueueSettings { resident_bytes_max: 1 << 30, seed: 7 });
        let key = core.queue(now.mono, "to.test");
        core.configured(now, key, Arc::new(QueueConfig::default()));
        let site = "unspecified->mx.to.test@smtp_client";
        let leg = Leg {
            source: Arc::new(EgressSource::unspecified()),
            pool: "unspecified".into(),
            path: Arc::new(EgressPath::default()),
            destination: Destination::new(site, Arc::new(())),
            epoch: Epoch::default(),
        };
        core.routed(now, key, Route { legs: vec![(site.into(), 1, leg)], fresh_for: clock::Duration::from_secs(3600) });
        QueuePass { core, now, effects: Vec::new(), open: None, admitted: 0 }
    }

    /// A message comes in.
    pub fn admit(&mut self, ids: &mut IdGenerator) {
        let place = Some(Place { segment: 1, offset: self.admitted, index: 0 });
        self.admitted += 1;
        let message = Message { place, size: 10_240, ..Message::bare(ids.next(self.now.wall), self.now.wall) };
        self.core.admit(self.now, "to.test", message);
        self.core.drain_effects(&mut self.effects);
        for effect in self.effects.drain(..) {
            if let Effect::Open(opening) = effect {
                self.open.get_or_insert(opening.conn);
            }
        }
    }

    /// The connection gets one, and is done with it.
    ///
    /// # Errors
    /// There is none for it.
    pub fn hand_out(&mut self) -> anyhow::Result<()> {
        let conn = self.open.context("nobody was asked to connect")?;
        let Take::Message(queued) = self.core.take(self.now, conn) else { bail!("nothing is handed out") };
        self.core.forget(self.now.mono, &queued);
        Ok(())
    }
}
