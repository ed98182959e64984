//! Settlers: tasks that settle the messages which end without a connection, too old or with no way out.
//!
//! The queue calls a few of each kind and keeps the messages meanwhile; each takes one, loads it, settles it, and goes home
//! when none is left or the program ends. What they did not get to is in the spool, or is spooled by the drain.

use crate::egress::connection::Guarded;
use crate::engine::Engine;
use crate::load::NotLoaded;
use queue::{Ending, EndingKind, Failure, OrderId, Queued, xfer};
use std::time::Duration;

impl Engine {
    /// Carries out `Effect::Settle`.
    pub(crate) fn start_settler(&self, kind: EndingKind) {
        let engine = self.clone();
        self.deliveries.spawn(async move {
            while !engine.stop.is_draining() {
                if engine.logs_are_full() || engine.questions.are_many() {
                    tokio::time::sleep(LOGS_PAUSE).await;
                    continue;
                }
                let Some((queued, ending)) = engine.with_queue(|q, _| q.take_ending(kind)) else { return };
                engine.settle_ending(queued, ending).await;
                // Those that are in memory await nothing.
                tokio::task::yield_now().await;
            }
        });
    }

    async fn settle_ending(&self, queued: Queued, ending: Ending) {
        let _seen = self.underway.hold(&queued);
        let order = ending.order();
        match &ending {
            // Nobody wants to read it once more.
            Ending::Bounced(order) if order.suppress_logging && !self.is_of_xfer(&queued) => {
                self.settle_bounced(queued, order).await;
            }
            _ => match self.load_or_why(queued).await {
                Ok(queued) => self.settle_loaded(queued, &ending).await,
                Err(NotLoaded::Later(queued)) => self.not_ended(queued, order),
                Err(NotLoaded::Gone) => {}
            },
        }
        if let Some(id) = order {
            self.with_queue(|q, now| q.settled_for(now, id));
        }
    }

    /// A message that is to end, and with which that cannot be done just now: its order has it, or it waits.
    pub(crate) fn not_ended(&self, queued: Queued, order: Option<OrderId>) {
        self.with_queue(|q, now| match order {
            Some(id) => q.not_carried_out(now, queued, id),
            None => q.postpone(now, queued),
        });
    }

    /// Content of such a message says whether another node has it.
    fn is_of_xfer(&self, queued: &Queued) -> bool {
        xfer::target_of(&self.with_queue(|q, _| q.queue_name(queued.queue))).is_some()
    }

    async fn settle_loaded(&self, queued: Queued, ending: &Ending) {
        let queued = match ending {
            Ending::Bounced(_) | Ending::Expired => self.recalled(queued, ending.order()).await,
            Ending::Rebound(_) | Ending::Undeliverable(_) => Some(queued),
        };
        let Some(queued) = queued else { return };
        let spare = Queued { message: queued.message.clone(), queue: queued.queue };
        let settling = Guarded(Box::pin(async {
            match ending {
                Ending::Bounced(order) => self.settle_bounced(queued, order).await,
                Ending::Rebound(order) => self.rebind(queued, order).await,
                Ending::Expired => self.settle_expired(queued),
                Ending::Undeliverable(failure) => {
                    let Failure { verdict, reply, route } = &**failure;
                    self.settle_untried(queued, *verdict, reply, route.clone());
                }
            }
        }));
        if settling.await.is_none() {
            self.not_ended(spare, ending.order());
        }
    }
}

/// Pause before looking again whether logs and policy take more.
const LOGS_PAUSE: Duration = Duration::from_millis(100);
