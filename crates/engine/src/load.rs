//! Bringing content back: what only the spool has of a message, when an attempt or a log record needs it.
//!
//! A delivery loads the message it took. A message that ends without a connection (undeliverable, expired) is passed to
//! a few loaders here, which read it and then settle it; it waits for them as the 64 octets it is. What does not read is
//! handed to the spool, which sets it aside; what cannot be read now stays queued, uncounted.

use crate::engine::Engine;
use queue::{Leg, Queued, Verdict};
use smtp_wire::Reply;
use spool::SpoolError;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Messages to be settled once their content is back.
#[derive(Default)]
pub(crate) struct Loaders {
    waiting: Mutex<VecDeque<Unsettled>>,
    wake: Notify,
}

/// A message that ends without a connection.
pub(crate) struct Unsettled {
    pub queued: Queued,
    pub end: End,
}

/// How it ends.
pub(crate) enum End {
    /// It could not be tried: the same outcome for every pending recipient, and the route that says so.
    Untried { verdict: Verdict, reply: Reply, route: Option<(Arc<str>, Leg)> },
    /// It is too old.
    Expired,
}

impl Engine {
    /// Makes a message's content resident.
    ///
    /// # Errors
    /// The spool's; `NoSuchMessage` also for a message that no spool ever had.
    pub(crate) async fn load(&self, queued: &mut Queued) -> Result<(), SpoolError> {
        let message = &mut queued.message;
        if message.resident.is_some() {
            return Ok(());
        }
        let place = message.place.ok_or(SpoolError::NoSuchMessage { id: message.id })?;
        let resident = self.spool.load(message.id, place).await?;
        self.with_queue(|queue, _| queue.loaded(message, resident));
        Ok(())
    }

    /// What becomes of a message that [`Engine::load`] could not bring back.
    pub(crate) fn unreadable(&self, queued: Queued, error: &SpoolError) {
        let id = queued.message.id;
        match error {
            SpoolError::Damaged { .. } | SpoolError::NoSuchMessage { .. } => {
                let queue = self.with_queue(|q, _| q.queue_name(queued.queue));
                let place = queued.message.place;
                tracing::error!(%id, %queue, ?place, %error, "a message does not read: it leaves the queue, what is left of it is kept in corrupt/");
                self.metrics.spool_set_aside.inc();
                self.spool.set_aside(id);
                self.with_queue(|q, now| q.forget(now.mono, &queued));
            }
            _ => {
                tracing::error!(%id, %error, "a message cannot be read now: tried again in {UNREAD_PAUSE:?}");
                self.with_queue(|q, now| q.retry(now, queued, UNREAD_PAUSE.into()));
            }
        }
    }

    /// Settles a message now, or once its content is back.
    pub(crate) fn settle_or_load(&self, unsettled: Unsettled) {
        if unsettled.queued.message.resident.is_some() {
            return self.settle_end(unsettled);
        }
        self.loaders.lock().push_back(unsettled);
        self.loaders.wake.notify_one();
    }

    /// Starts the loaders; they end when the engine drains. What they had not read by then is still in the spool.
    pub(crate) fn start_loaders(&self) {
        for _ in 0..LOADERS {
            let engine = self.clone();
            self.sessions.spawn(async move {
                engine.stop.unless_requested(engine.load_and_settle()).await;
            });
        }
    }

    async fn load_and_settle(&self) {
        loop {
            let next = self.loaders.lock().pop_front();
            let Some(mut unsettled) = next else {
                self.loaders.wake.notified().await;
                continue;
            };
            // One wake-up may stand for many: the others are woken in a chain.
            self.loaders.wake.notify_one();
            match self.load(&mut unsettled.queued).await {
                Ok(()) => self.settle_end(unsettled),
                Err(error) => self.unreadable(unsettled.queued, &error),
            }
        }
    }

    fn settle_end(&self, Unsettled { queued, end }: Unsettled) {
        match end {
            End::Untried { verdict, reply, route } => self.settle_untried(queued, verdict, &reply, route),
            End::Expired => self.settle_expired(queued),
        }
    }
}

impl Loaders {
    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Unsettled>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Messages that are read for settling at the same time.
const LOADERS: usize = 8;
/// How long a message rests that the disk refuses to give back.
const UNREAD_PAUSE: Duration = Duration::from_secs(30);
