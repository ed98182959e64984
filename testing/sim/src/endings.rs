//! The driver of settlers, after the engine's `endings.rs`: each takes a message that ends without a connection, loads
//! it, settles it, and looks for the next.

use crate::event::ServerEvent;
use crate::load::NotLoaded;
use crate::world::World;
use queue::{Action, Change, Ending, EndingKind, Order, Queued, Rebinding};
use std::collections::BTreeSet;

impl World {
    /// Carries out `Effect::Settle`.
    pub fn settler_soon(&mut self, kind: EndingKind) {
        let delay = *self.dice.pick(&[0, 0, 300]);
        self.server_soon(delay, ServerEvent::Settler(kind));
    }

    /// A settler takes its next message, or goes home.
    pub fn settler_goes_on(&mut self, kind: EndingKind) {
        if self.process.as_ref().is_none_or(|p| p.stopping) {
            return;
        }
        let Some((queued, ending)) = self.with_queue(|q, _| q.take_ending(kind)) else { return };
        if queued.message.resident.is_some() {
            // What is in memory awaits nothing.
            return self.settle_ending(queued, ending);
        }
        let delay = *self.dice.pick(&[0, 0, 2_000]);
        self.server_soon(delay, ServerEvent::SettleEnding(Box::new(queued), ending));
    }

    /// What a settler does with its message.
    pub fn settle_ending(&mut self, queued: Queued, ending: Ending) {
        let (order, kind) = (ending.order(), ending.kind());
        match (self.load_or_why(queued), order) {
            (Ok(queued), _) => self.settle_loaded(queued, ending),
            (Err(NotLoaded::Later(queued)), Some(id)) => {
                self.report.unread_with_orders += 1;
                self.with_queue(|q, now| q.not_carried_out(now, queued, id));
            }
            (Err(NotLoaded::Later(queued)), None) => self.postpone(queued),
            (Err(NotLoaded::Gone), _) => {}
        }
        if let Some(id) = order {
            self.with_queue(|q, now| q.settled_for(now, id));
        }
        self.settler_soon(kind);
    }

    fn settle_loaded(&mut self, queued: Queued, ending: Ending) {
        match ending {
            Ending::Bounced(order) => self.settle_bounced(queued, &order),
            Ending::Rebound(order) => self.rebind(queued, &order),
            Ending::Expired => self.settle_expired(queued),
            Ending::Undeliverable(failure) => {
                self.report.untried += 1;
                self.settle_untried(queued, failure.verdict, &failure.reply);
            }
        }
    }

    /// Moves a message; the spool here is not told, so a crash finds it where it was.
    fn rebind(&mut self, queued: Queued, order: &Order) {
        let Action::Rebind(Rebinding { change, criteria, .. }) = &order.action else { return };
        let to = match change {
            Change::Set(data) => data.get("queue").cloned(),
            // Home, which is another queue.
            _ => self.queue_but(&criteria.queue_names),
        };
        let Some(to) = to else { return self.with_queue(|q, now| q.stays(now, queued)) };
        self.report.rebound += 1;
        if let Some(until) = self.flushed_until(queued.queue, &queued.message) {
            self.flushed.insert(queued.message.id, until);
        }
        match self.dice.below(4) {
            0 => self.with_queue(|q, now| q.not_carried_out(now, queued, order.id)),
            1 => self.with_queue(|q, now| q.stays(now, queued)),
            _ => self.move_to(queued, &to),
        }
    }

    /// The first queue, by name, that is none of those.
    fn queue_but(&self, names: &BTreeSet<String>) -> Option<String> {
        let queue = &self.process.as_ref()?.queue;
        queue.scheduled_counts().map(|(name, _)| name.to_string()).filter(|name| !names.contains(name.as_str())).min()
    }
}
