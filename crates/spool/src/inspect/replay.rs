//! What the records of the log come to: every message that was appended and not removed.
//!
//! In: transactions and marks in the order of the log; applying one twice changes nothing. Out: the
//! live messages, and those whose envelope does not decode. Envelopes are not kept.

use crate::QueueOf;
use crate::mark::Mark;
use crate::page::PAGE_OCTETS;
use crate::record::Transaction;
use crate::recovery::RecoveredMessage;
use clock::WallTime;
use message::{MessageId, Place, Settled, codec};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Messages as far as the log was read.
pub(super) struct Replay {
    queue_of: QueueOf,
    messages: BTreeMap<MessageId, Pending>,
    removed: BTreeSet<MessageId>,
    queues: BTreeMap<String, Arc<str>>,
    /// Highest floor of a batch.
    pub floor: u32,
    /// Highest sequence of a batch.
    pub last_sequence: u64,
}

/// A message not yet known to be removed.
struct Pending {
    place: Place,
    size: u32,
    due: WallTime,
    attempts: u16,
    recipients: u16,
    settled: Settled,
    /// `None` when the envelope does not decode.
    queue: Option<Arc<str>>,
}

/// What the log comes to.
pub(super) struct Outcome {
    /// In the order of their records.
    pub live: Vec<RecoveredMessage>,
    /// Removed by a mark that was read.
    pub removed: BTreeSet<MessageId>,
    /// Alive, but nobody knows for whom they are.
    pub undecoded: Vec<(MessageId, Place)>,
}

impl Replay {
    pub fn new(queue_of: QueueOf) -> Replay {
        let (messages, removed, queues) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
        Replay { queue_of, messages, removed, queues, floor: 0, last_sequence: 0 }
    }

    /// Applies a transaction of the batch at `page` of `segment`.
    pub fn transaction(&mut self, segment: u32, page: u32, transaction: &Transaction<'_>) {
        let offset = page * PAGE_OCTETS as u32 + transaction.offset;
        let layout = &transaction.layout;
        for (index, (entry, state, _)) in layout.messages().enumerate() {
            let (bitmap, state) = transaction.state(&state, entry);
            let decoded = codec::decode(state).ok();
            let queue = decoded.as_ref().map(|(envelope, meta)| (self.queue_of)(envelope, meta));
            let recipients = decoded.map_or(0, |(envelope, _)| envelope.recipients.len() as u16);
            let pending = Pending {
                place: Place { segment, offset, index: index as u16 },
                size: entry.head_length.saturating_add(layout.body.len() as u32),
                due: WallTime::from_unix_micros(entry.due),
                attempts: entry.attempts,
                recipients,
                settled: within(&Settled::from_bitmap(bitmap), recipients),
                queue: queue.map(|name| self.interned(name)),
            };
            self.messages.insert(entry.id, pending);
        }
    }

    /// Applies a mark.
    pub fn mark(&mut self, mark: &Mark) {
        if let Mark::Removed { id } = mark {
            self.messages.remove(id);
            self.removed.insert(*id);
            return;
        }
        let Some(pending) = self.messages.get_mut(&mark.id()) else { return };
        match mark {
            Mark::Attempt { attempts, due, .. } => (pending.attempts, pending.due) = (*attempts, *due),
            Mark::RecipientsDone { recipients, .. } => {
                let known = recipients.iter().filter_map(|r| u16::try_from(*r).ok());
                let known = known.filter(|r| *r < pending.recipients);
                known.for_each(|r| _ = pending.settled.insert(r));
            }
            Mark::Removed { .. } => {}
        }
    }

    /// Drops what lies below the floor.
    pub fn finish(self, floor: u32) -> Outcome {
        let mut outcome = Outcome { live: Vec::new(), removed: self.removed, undecoded: Vec::new() };
        for (id, pending) in self.messages.into_iter().filter(|(_, p)| p.place.segment >= floor) {
            let Pending { place, size, due, attempts, recipients, settled, queue } = pending;
            match queue {
                Some(queue) => {
                    outcome.live.push(RecoveredMessage { id, queue, place, size, attempts, due, recipients, settled });
                }
                None => outcome.undecoded.push((id, place)),
            }
        }
        outcome.live.sort_unstable_by_key(|m| (m.place.segment, m.place.offset, m.place.index));
        outcome
    }

    /// One copy of each queue name.
    fn interned(&mut self, name: String) -> Arc<str> {
        let text: &Arc<str> = self.queues.entry(name).or_insert_with_key(|name| name.as_str().into());
        Arc::clone(text)
    }
}

/// Those of the settled that the envelope has.
fn within(settled: &Settled, recipients: u16) -> Settled {
    let mut within = Settled::default();
    (0..recipients).filter(|r| settled.contains(*r)).for_each(|r| _ = within.insert(r));
    within
}
