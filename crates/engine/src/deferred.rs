//! Deferred spooling: messages that were accepted into memory only, and how they get to the disk after all.
//!
//! The queue says when (`queue::volatile`); one task at a time appends them, many to a commit. What is left to do for a
//! message is all that is written ([`queue::seal`]), so that no cut between two writes can bring settled recipients back. While the spool refuses, the messages stay in memory and the task tries again. The drain
//! waits for all of it, within its grace; what cannot be written by then is lost, and said so.

use crate::engine::Engine;
use crate::ingress::accept::by_body;
use message::{Message, Sealed};
use queue::Queued;
use spool::{Durable, Mark, SpoolError};
use std::time::Duration;

impl Engine {
    /// Carries out `Effect::Spool`.
    pub(crate) fn start_spooler(&self) {
        let engine = self.clone();
        // Never cut short: what is being appended would be lost.
        self.spoolers.spawn(async move {
            let mut refused = false;
            loop {
                let taken = engine.with_queue(|q, _| q.take_unspooled(MESSAGES_MAX, OCTETS_MAX));
                if taken.is_empty() {
                    return;
                }
                match engine.spool_these(taken).await {
                    Ok(()) => refused = false,
                    Err(error) => {
                        if !std::mem::replace(&mut refused, true) {
                            tracing::error!("messages of deferred_spool listeners stay in memory only: {error}");
                        }
                        engine.rest_behind(&error).await;
                    }
                }
            }
        });
    }

    /// Waits until it is worth another try; the end of the program cuts that short.
    async fn rest_behind(&self, error: &SpoolError) {
        if self.stop.is_draining() {
            return tokio::time::sleep(DRAIN_PAUSE).await;
        }
        let pause = if matches!(error, SpoolError::TooBig { .. }) { LONG_PAUSE } else { PAUSE };
        self.stop.unless_requested(tokio::time::sleep(pause)).await;
    }

    /// Appends some messages together, all or none; where one is larger than the spool takes, each by itself.
    async fn spool_these(&self, mut taken: Vec<Queued>) -> Result<(), SpoolError> {
        let sealed: Vec<Sealed> = taken.iter_mut().filter_map(|queued| queue::seal(&mut queued.message)).collect();
        debug_assert_eq!(sealed.len(), taken.len(), "what is in memory only is in memory");
        let appended = match self.spool.append_accepted(by_body(sealed)).await {
            Ok(appended) => appended,
            Err(SpoolError::TooBig { .. }) if taken.len() > 1 => return self.spool_each(taken).await,
            Err(error) => {
                let is_too_big = matches!(error, SpoolError::TooBig { .. });
                self.with_queue(|q, now| match is_too_big {
                    true => taken.into_iter().for_each(|one| q.too_big_to_spool(now, one)),
                    false => q.not_spooled(now, taken),
                });
                return Err(error);
            }
        };
        for (queued, durable) in taken.into_iter().zip(appended.durable) {
            self.settle_in(queued, &durable);
        }
        Ok(())
    }

    /// Each by itself. Fails where none is taken.
    async fn spool_each(&self, taken: Vec<Queued>) -> Result<(), SpoolError> {
        let (mut is_any_taken, mut failed) = (false, None);
        for queued in taken {
            match Box::pin(self.spool_these(vec![queued])).await {
                Ok(()) => is_any_taken = true,
                Err(error) => failed = Some(error),
            }
        }
        failed.filter(|_| !is_any_taken).map_or(Ok(()), Err)
    }

    /// A message has its place: its attempts follow it, and it goes back to its queue.
    fn settle_in(&self, mut queued: Queued, durable: &Durable) {
        let Message { id, attempts, due, .. } = queued.message;
        debug_assert_eq!(durable.id(), id, "receipts come in the order of the messages");
        queued.message.place = Some(durable.place());
        if attempts > 0 {
            self.spool.mark(Mark::Attempt { id, attempts, due });
        }
        self.with_queue(|q, now| q.spooled(now, queued));
    }
}

/// Messages of one append.
const MESSAGES_MAX: usize = 256;
/// Octets of one append, exceeded by its last message at most.
const OCTETS_MAX: usize = 4 << 20;
/// Time between two tries while the spool refuses.
const PAUSE: Duration = Duration::from_secs(1);
/// The same where all that is left is too large for it, which takes a while to find out each time.
const LONG_PAUSE: Duration = Duration::from_secs(10);
/// The same while the program ends and somebody waits.
const DRAIN_PAUSE: Duration = Duration::from_millis(100);
