//! The driver that brings content back, after the engine's `load.rs`.

use crate::world::World;
use queue::Queued;
use spool::SpoolError;

impl World {
    /// The message with its content in memory; `None` when that cannot be had, and it is taken care of.
    pub fn load(&mut self, mut queued: Queued) -> Option<Queued> {
        let id = queued.message.id;
        if queued.message.resident.is_some() {
            return Some(queued);
        }
        let read = queued.message.place.and_then(|place| self.process.as_ref().map(|p| p.log.read(id, place)));
        match read {
            Some(Ok(resident)) => {
                self.report.loads += 1;
                queued.message.resident = Some(Box::new(resident));
                Some(queued)
            }
            Some(Err(error @ (SpoolError::Damaged { .. } | SpoolError::NoSuchMessage { .. }))) => {
                self.ledger.violate(format!("{id} does not read: {error}"));
                None
            }
            Some(Err(_)) => {
                self.report.postponed += 1;
                self.with_queue(|q, now| q.postpone(now, queued));
                None
            }
            None => {
                self.ledger.violate(format!("{id} is nowhere"));
                None
            }
        }
    }
}
