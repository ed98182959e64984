//! Settlers: tasks that settle the messages which end without a connection, too old or with no way out.
//!
//! The queue calls a few of them and keeps the messages meanwhile; each takes one, loads it, settles it, and goes home when
//! none is left or the program ends. What they did not get to is in the spool, or is spooled by the drain.

use crate::egress::connection::Guarded;
use crate::engine::Engine;
use crate::load::NotLoaded;
use queue::{Ending, Failure, Queued, xfer};
use std::time::Duration;

impl Engine {
    /// Carries out `Effect::Settle`.
    pub(crate) fn start_settler(&self) {
        let engine = self.clone();
        self.deliveries.spawn(async move {
            while !engine.stop.is_draining() {
                if engine.logs_are_full() || engine.questions.are_many() {
                    tokio::time::sleep(LOGS_PAUSE).await;
                    continue;
                }
                let Some((queued, ending)) = engine.with_queue(|q, _| q.take_ending()) else { return };
                engine.settle_ending(queued, ending).await;
                // Those that are in memory await nothing.
                tokio::task::yield_now().await;
            }
        });
    }

    async fn settle_ending(&self, queued: Queued, ending: Ending) {
        let seen = self.underway.hold(&queued);
        if let Ending::Bounced(order) = &ending
            && order.suppress_logging
            && !self.is_of_xfer(&queued)
        {
            // Nobody wants to read it once more.
            return self.settle_bounced(queued, order).await;
        }
        let rebinding = match &ending {
            Ending::Rebound(order) => Some(order.id),
            _ => None,
        };
        let loaded = self.load_or_why(queued).await;
        let is_later = matches!(loaded, Err(NotLoaded::Later(_)));
        match (loaded, rebinding) {
            (Ok(queued), _) => self.settle_loaded(queued, ending).await,
            (Err(NotLoaded::Later(queued)), Some(id)) => self.with_queue(|q, now| q.not_rebound(now, queued, id)),
            (Err(NotLoaded::Later(queued)), None) => self.with_queue(|q, now| q.postpone(now, queued)),
            (Err(NotLoaded::Gone), _) => {}
        }
        if let Some(id) = rebinding {
            self.with_queue(|q, now| q.settled_for(now, id));
        }
        drop(seen);
        if is_later {
            // An order takes its messages again at once: they are not to come round and round.
            self.stop.unless_requested(tokio::time::sleep(SPOOL_PAUSE)).await;
        }
    }

    /// Content of such a message says whether another node has it.
    fn is_of_xfer(&self, queued: &Queued) -> bool {
        xfer::target_of(&self.with_queue(|q, _| q.queue_name(queued.queue))).is_some()
    }

    async fn settle_loaded(&self, queued: Queued, ending: Ending) {
        let ends = matches!(ending, Ending::Bounced(_) | Ending::Expired);
        let is_rebound = matches!(ending, Ending::Rebound(_));
        let queued = match ends {
            true => self.recalled(queued).await,
            false => Some(queued),
        };
        let Some(queued) = queued else { return };
        let spare = Queued { message: queued.message.clone(), queue: queued.queue };
        let settling = Guarded(Box::pin(async {
            match ending {
                Ending::Bounced(order) => self.settle_bounced(queued, &order).await,
                Ending::Rebound(order) => self.rebind(queued, &order).await,
                Ending::Expired => self.settle_expired(queued),
                Ending::Undeliverable(failure) => {
                    let Failure { verdict, reply, route } = &*failure;
                    self.settle_untried(queued, *verdict, reply, route.clone());
                }
            }
        }));
        if settling.await.is_none() {
            self.with_queue(|q, now| match is_rebound {
                true => q.stays(now, spare),
                false => q.postpone(now, spare),
            });
        }
    }
}

/// Pause of a settler after the spool did not answer.
const SPOOL_PAUSE: Duration = Duration::from_secs(1);
/// Pause before looking again whether logs and policy take more.
const LOGS_PAUSE: Duration = Duration::from_millis(100);
