//! Records that wait, each with a copy of its message, until policy has been asked or told about them.
//!
//! Whoever logs does not wait. They keep their order; one task takes them. Bounded by their number and by [`OCTETS_MAX`]: at
//! [`HeldRecords::is_full`] no new work is begun.

use crate::backlog::{Backlog, InHand};
use message::Draft;
use record::LogRecord;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::oneshot;

/// Those of one filter or hook.
pub(crate) struct HeldRecords {
    waiting: Backlog<Held>,
    /// Of the messages that wait with their records.
    octets: AtomicU64,
}

enum Held {
    Record(Box<(LogRecord, Draft)>),
    /// Somebody waits for all before this.
    Mark(oneshot::Sender<()>),
}

impl HeldRecords {
    /// None yet; full from `max` records on.
    pub fn new(max: usize) -> HeldRecords {
        HeldRecords { waiting: Backlog::new(max), octets: AtomicU64::new(0) }
    }

    /// One more.
    pub fn push(&self, record: LogRecord, mut draft: Draft) {
        self.octets.fetch_add(draft.size() as u64, Ordering::Relaxed);
        self.waiting.push(Held::Record(Box::new((record, draft))));
    }

    /// The next, which counts as waiting until what comes with it is dropped; `None` once they are closed and none is left.
    pub async fn take(&self) -> Option<(LogRecord, Draft, InHand<'_>)> {
        loop {
            let held = self.waiting.take(1).await.into_iter().next()?;
            let in_hand = self.waiting.in_hand(1);
            match held {
                Held::Record(held) => {
                    let (record, mut draft) = *held;
                    self.octets.fetch_sub(draft.size() as u64, Ordering::Relaxed);
                    return Some((record, draft, in_hand));
                }
                // Whoever waited may be gone.
                Held::Mark(reached) => _ = reached.send(()),
            }
        }
    }

    /// Waits until all that are here now have been worked off.
    pub async fn pass(&self) {
        let (reached, is_reached) = oneshot::channel();
        if self.count() > 0 && self.waiting.push_if_open(Held::Mark(reached)) {
            // An error is the end of whoever took them, and of what it had.
            _ = is_reached.await;
        }
    }

    /// How many wait or are in hand.
    pub fn count(&self) -> usize {
        self.waiting.len()
    }

    /// True while no new work is to be begun.
    pub fn is_full(&self) -> bool {
        self.waiting.is_full() || self.octets.load(Ordering::Relaxed) >= OCTETS_MAX
    }

    /// True when there is room for as much again as waits, at least.
    pub fn is_half_empty(&self) -> bool {
        self.waiting.len() * 2 <= self.waiting.max() && self.octets.load(Ordering::Relaxed) * 2 <= OCTETS_MAX
    }

    /// Nothing more will come.
    pub fn close(&self) {
        self.waiting.close();
    }
}

/// Content that may wait with its records, in octets.
const OCTETS_MAX: u64 = 64 << 20;
