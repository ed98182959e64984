//! The driver of the start beside the service, after the engine's `recovery.rs`: what earlier lives left comes back in
//! portions, while new mail comes and goes.

use crate::event::{End, ServerEvent};
use crate::plan::SECOND;
use crate::world::World;
use message::Message;
use spool::RecoveredMessage;

impl World {
    /// The old segments are read; the log takes over what was in them.
    pub fn old_segments_read(&mut self) {
        let Some(process) = self.process.as_mut().filter(|p| !p.stopping) else { return };
        let Some(unread) = process.unread.take() else { return };
        let recovered = match unread.run() {
            Ok(recovered) => recovered,
            Err(error) => {
                // New mail is served; the operator sees why the rest is missing, and starts again.
                self.note(|| format!("the old segments do not read: {error}"));
                return self.server_soon(SECOND, ServerEvent::OperatorStops);
            }
        };
        let mut recovery = process.log.adopt(recovered);
        if recovery.damage.unreadable_pages > 0 && !self.recovered {
            // The operator sees that pages did not read, and starts again rather than go on without them.
            self.note(|| format!("the spool opens with damage: {:?}", recovery.damage));
            return self.end_life(End::Kill);
        }
        recovery.messages = process.log.next_recovered(usize::MAX);
        process.adopted = true;
        let all_synced = process.all_synced;
        self.ledger.restarted(&recovery, all_synced);
        let count = recovery.messages.len();
        self.note(|| format!("{count} messages come back"));
        self.report.recovered += count as u64;
        self.report.recovered_late +=
            u64::from(count > 0 && self.process.as_ref().is_some_and(|p| p.log.stats().commits > 0));
        if let Some(process) = &mut self.process {
            process.to_restore = recovery.messages.into();
        }
        self.restore_some();
    }

    /// The next portion goes back to its queues.
    pub fn restore_some(&mut self) {
        if self.process.as_ref().is_none_or(|p| p.stopping) {
            return;
        }
        for _ in 0..*self.dice.pick(&[1, 5, 256]) {
            let Some(found) = self.process.as_mut().and_then(|p| p.to_restore.pop_front()) else {
                let now = self.now;
                self.process.iter_mut().for_each(|p| p.restored_at = now);
                return self.with_queue(|q, _| q.set_restoring(false));
            };
            self.restore(found);
        }
        let delay = *self.dice.pick(&[0, 1_000, 300_000]);
        self.server_soon(delay, ServerEvent::Restore);
    }

    /// One recovered message goes back to its queue, its content being where it was sealed.
    fn restore(&mut self, found: RecoveredMessage) {
        let content = self.process.as_ref().map(|p| p.log.read(found.id, found.place));
        let account = self.ledger.messages.get(&found.id);
        match (content, account) {
            (Some(Ok(read)), Some(account)) if [&read.head[..], &read.body[..]].concat() != account.content => {
                self.ledger.violate(format!("{} came back with other content", found.id));
            }
            (Some(Ok(read)), Some(account)) if read.envelope != account.envelope => {
                self.ledger.violate(format!("{} came back with another envelope: {:?}", found.id, read.envelope));
            }
            (Some(Err(spool::SpoolError::Io { .. })), _) | (Some(Ok(_)), _) | (None, _) => {}
            (Some(Err(error)), _) => {
                self.ledger.violate(format!("{} does not read after a restart: {error}", found.id))
            }
        }
        let RecoveredMessage { id, queue, place, size, attempts, due, recipients, settled } = found;
        let message = Message { id, due, place: Some(place), size, attempts, recipients, settled, resident: None };
        self.note_queue(id, queue::schedule::read_label(&queue).queue);
        match queue.is_empty() {
            false => {
                let mut belonging = queue::schedule::read_label(&queue);
                belonging.end = belonging.end.filter(|_| !self.sabotaged(crate::Sabotage::ForgetEnds));
                self.with_queue(|q, now| q.admit_to(now, belonging, message));
            }
            true => self.ledger.violate(format!("{id}: came back without a queue")),
        }
    }
}
