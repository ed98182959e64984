//! The driver of settlers, after the engine's `endings.rs`: each takes a message that ends without a connection, loads
//! it, settles it, and looks for the next.

use crate::event::ServerEvent;
use crate::world::World;
use queue::{Ending, Queued};

impl World {
    /// Carries out `Effect::Settle`.
    pub fn settler_soon(&mut self) {
        let delay = *self.dice.pick(&[0, 0, 300]);
        self.server_soon(delay, ServerEvent::Settler);
    }

    /// A settler takes its next message, or goes home.
    pub fn settler_goes_on(&mut self) {
        if self.process.as_ref().is_none_or(|p| p.stopping) {
            return;
        }
        let Some((queued, ending)) = self.with_queue(|q, _| q.take_ending()) else { return };
        if queued.message.resident.is_some() {
            // What is in memory awaits nothing.
            return self.settle_ending(queued, ending);
        }
        let delay = *self.dice.pick(&[0, 0, 2_000]);
        self.server_soon(delay, ServerEvent::SettleEnding(Box::new(queued), ending));
    }

    /// What a settler does with its message.
    pub fn settle_ending(&mut self, queued: Queued, ending: Ending) {
        if let Some(queued) = self.load(queued) {
            match ending {
                Ending::Bounced(order) => self.settle_bounced(queued, &order),
                Ending::Expired => self.settle_expired(queued),
                Ending::Undeliverable(failure) => {
                    self.report.untried += 1;
                    self.settle_untried(queued, failure.verdict, &failure.reply);
                }
            }
        }
        self.settler_soon();
    }
}
