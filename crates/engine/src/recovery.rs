//! The start beside the service: messages of earlier runs go back to their queues while new mail comes and goes.
//!
//! One task takes the spool's chunks and admits them in portions, so that nobody waits for the queue's lock for
//! long. A failure leaves the rest in the spool, untouched; what was accepted since is served all the same.

use crate::engine::Engine;
use message::Message;
use policy::Event;
use queue::schedule::read_label;
use queue::{fate, keyed, xfer};
use spool::{Mark, RecoveredMessage};
use std::sync::PoisonError;
use store::{Recovering, Report};

/// How far the return of earlier runs' messages is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoveryState {
    /// Not begun, or under way.
    Pending,
    /// Every message is back in its queue.
    Done,
    /// It ended early; the messages that are missing are in the spool. The reason.
    Failed(String),
}

impl Engine {
    /// Takes every chunk, then tells how it went.
    pub(crate) async fn recover(&self, mut recovering: Recovering) {
        let mut restored = 0;
        while let Some(chunk) = self.stop.unless_requested(recovering.next()).await.flatten() {
            let mut chunk = chunk.into_iter().peekable();
            while chunk.peek().is_some() {
                let portion = chunk.by_ref().take(PORTION_MESSAGES);
                restored += match self.interest.has(Event::SpoolMessageEnumerated) {
                    true => self.restore_shown(portion.collect()).await,
                    false => self.restore(portion),
                };
                tokio::task::yield_now().await;
            }
        }
        // A drain cuts it short: the next start goes on.
        let Some(report) = self.stop.unless_requested(recovering.report()).await else { return };
        let state = match report {
            Ok(report) => {
                summarise(restored, &report);
                self.forget_stale_arrivals();
                self.with_queue(|queue, _| queue.set_restoring(false));
                RecoveryState::Done
            }
            Err(error) => {
                tracing::error!(
                    "recovery of the spool ended early: {error}; {restored} messages are back in their queues, the rest \
                     stays in the spool untouched until the next start; new mail is served"
                );
                self.with_queue(|queue, _| queue.restoring_failed());
                RecoveryState::Failed(error.to_string())
            }
        };
        *self.recovery.lock().unwrap_or_else(PoisonError::into_inner) = state;
        self.metrics.spool_recovering.set(0);
    }

    /// How far the messages of earlier runs are.
    pub fn recovery_state(&self) -> RecoveryState {
        self.recovery.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// True while messages of earlier runs are still on their way to their queues.
    pub fn is_recovering(&self) -> bool {
        self.recovery_state() == RecoveryState::Pending
    }

    /// Admits one portion, each message when policy has seen it; how many were. A drain leaves the rest to the next start.
    async fn restore_shown(&self, portion: Vec<RecoveredMessage>) -> usize {
        // What is not shown need not wait for what is.
        let is_shown = |found: &RecoveredMessage| {
            let label = &*found.queue;
            let is_mail = xfer::arrival_of(label).is_none() && !keyed::is_record(label) && !fate::is_note(label);
            !label.is_empty() && is_mail
        };
        let (shown, others): (Vec<_>, Vec<_>) = portion.into_iter().partition(is_shown);
        let mut count = self.restore(others.into_iter());
        for found in shown {
            let (label, mut message) = message_of(found);
            let Some(shown) = self.stop.unless_requested(self.show_found(&mut message, label)).await else { break };
            if let Some(label) = shown {
                self.with_queue(|queue, now| queue.admit_to(now, read_label(&label), message));
                count += 1;
            }
        }
        count
    }

    /// Admits one portion; how many were.
    fn restore(&self, portion: impl Iterator<Item = RecoveredMessage>) -> usize {
        self.with_queue(|queue, now| {
            let mut count = 0;
            for found in portion {
                if found.queue.is_empty() {
                    tracing::error!("message {} stays in the spool: its metadata names no queue", found.id);
                    continue;
                }
                let (label, message) = message_of(found);
                if keyed::is_record(&label) {
                    self.restore_record(&label, &message);
                    continue;
                }
                if fate::is_note(&label) {
                    self.restore_fate(&label, &message);
                    continue;
                }
                if let Some(origin) = xfer::arrival_of(&label) {
                    if let Some(older) = self.arrivals.restore(origin, message) {
                        self.spool.mark(Mark::Removed { id: older.id });
                    }
                    continue;
                }
                queue.admit_to(now, read_label(&label), message);
                count += 1;
            }
            count
        })
    }
}

fn message_of(found: RecoveredMessage) -> (std::sync::Arc<str>, Message) {
    let RecoveredMessage { id, queue, place, size, attempts, due, recipients, settled } = found;
    (queue, Message { id, due, place: Some(place), size, attempts, recipients, settled, resident: None })
}

fn summarise(restored: usize, report: &Report) {
    let Report { read, unfinished, damage, strange } = report;
    if restored > 0 {
        tracing::info!("{restored} messages are back in their queues, from {read}");
    }
    if let Some(unfinished) = unfinished {
        tracing::info!("dropped, because nobody was promised it: {unfinished}");
    }
    if let Some(damage) = damage {
        tracing::error!("damage in the spool: {damage}");
    }
    if let Some(strange) = strange {
        tracing::warn!("left alone in the spool: {strange}");
    }
}

/// Messages admitted in one visit to the queues: about a tenth of a millisecond.
const PORTION_MESSAGES: usize = 256;
