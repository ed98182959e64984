//! The driver that brings content back, after the engine's `load.rs`.

use crate::Sabotage;
use crate::constraints::POSTPONED;
use crate::plan::SECOND;
use crate::world::World;
use message::MessageId;
use queue::Queued;
use spool::{FileName, SpoolError};

/// A message that could not be loaded.
pub enum NotLoaded {
    /// It is taken care of.
    Gone,
    /// The disk does not read it just now.
    Later(Queued),
}

impl World {
    /// The message with its content in memory; `None` when that cannot be had, and it is taken care of.
    pub fn load(&mut self, queued: Queued) -> Option<Queued> {
        match self.load_or_why(queued) {
            Ok(queued) => Some(queued),
            Err(NotLoaded::Gone) => None,
            Err(NotLoaded::Later(queued)) => {
                self.postpone(queued);
                None
            }
        }
    }

    /// The same, but one that is not read just now is the caller's.
    pub fn load_or_why(&mut self, mut queued: Queued) -> Result<Queued, NotLoaded> {
        let id = queued.message.id;
        if queued.message.resident.is_some() {
            return Ok(queued);
        }
        self.damage(&queued);
        let read = queued.message.place.and_then(|place| self.process.as_ref().map(|p| p.log.read(id, place)));
        let is_final = matches!(&read, Some(Err(SpoolError::Damaged { .. } | SpoolError::NoSuchMessage { .. })));
        match read {
            Some(Ok(resident)) => {
                self.report.loads += 1;
                queued.message.resident = Some(Box::new(resident));
                Ok(queued)
            }
            Some(Err(error)) if is_final || self.sabotaged(Sabotage::SetAsideUnread) => {
                self.note(|| format!("{id} is set aside: {error}"));
                self.report.set_aside += 1;
                self.ledger.set_aside(id);
                if let Some(process) = &mut self.process {
                    process.log.set_aside(id);
                }
                self.with_queue(|q, now| q.forget(now.mono, &queued));
                self.writer_soon();
                Err(NotLoaded::Gone)
            }
            Some(Err(_)) => {
                self.postponed_until = self.now + POSTPONED;
                Err(NotLoaded::Later(queued))
            }
            None => {
                self.ledger.violate(format!("{id} is nowhere"));
                Err(NotLoaded::Gone)
            }
        }
    }

    /// A message that was not read waits in its queue.
    pub fn postpone(&mut self, queued: Queued) {
        let id = queued.message.id;
        self.report.postponed += 1;
        let (before, last) = self.postponed.get(&id).copied().unwrap_or_default();
        self.postponed.insert(id, (last, self.now));
        // Once more when its deadline comes; an order takes it at once, wherever it is.
        if self.orders.is_empty() && before > 0 && self.now < before + SECOND {
            self.ledger.violate(format!("{id} is postponed and comes again at once"));
        }
        self.with_queue(|q, now| q.postpone(now, queued));
    }

    /// Now and then a message turns out to be damaged on the disk: a bit of its head is turned over. The newest segment is
    /// spared: damage at the very end of the log cannot be told from a commit that a cut tore.
    fn damage(&mut self, queued: &Queued) {
        let damage = self.plan.damage;
        if damage == 0 || !self.trouble(damage) {
            return;
        }
        let id = queued.message.id;
        let Some(process) = self.process.as_ref().filter(|p| p.adopted) else { return };
        let Some(place) = process.log.locate(id) else { return };
        if self.disk.contents(FileName::Segment(place.segment + 1)).is_none() {
            return;
        }
        let file = FileName::Segment(place.segment);
        let text = format!("by sim id {id} ");
        let octets = self.disk.contents(file).unwrap_or_default();
        let from = place.offset as usize;
        let at = octets.get(from..).and_then(|o| o.windows(text.len()).position(|w| w == text.as_bytes()));
        if let Some(at) = at {
            self.disk.flip_bit(file, (from + at) as u64 * 8);
            // The spool reads records whole: those that share this one's body go with it.
            let record = |id: &MessageId| {
                process.log.locate(*id).is_some_and(|p| (p.segment, p.offset) == (place.segment, place.offset))
            };
            let hit: Vec<MessageId> = self.ledger.messages.keys().copied().filter(record).collect();
            self.note(|| format!("DAMAGE to {id} at {place:?}, and so to {hit:?}"));
            hit.into_iter().for_each(|id| self.ledger.damaged(id));
        }
    }
}
