//! Messages that no spool has yet (`deferred_spool`): when the time has come to give them to it.
//!
//! Such a message is tried at once from memory. When it has to wait, for a retry, for a way that stays closed, for memory or
//! for the end of the program, it is spooled: it stands in one list until the spooler takes it, so that nobody
//! delivers what is being written. While the disk refuses, what is due is tried from memory again, unless the program ends: nobody
//! delivers then.

use crate::core::{QueueCore, QueueKey, Queued, ReadyKey, Timer};
use crate::effect::Effect;
use crate::messages::{List, SlotNumber};
use clock::{Duration, Now};
use message::{Message, Resident, Sealed, Settled};

/// Those who wait for the spooler.
#[derive(Debug, Default)]
pub(crate) struct Unspooled {
    pub list: List,
    /// The spooler was called and is not done.
    called: bool,
    /// A timer will look for those who wait for their way too long.
    watched: bool,
    /// The program ends.
    ending: bool,
}

impl QueueCore {
    /// The next messages for the spooler that `Effect::Spool` called, oldest first; none sends it home. Each comes back
    /// through [`QueueCore::spooled`] or [`QueueCore::not_spooled`].
    pub fn take_unspooled(&mut self, messages_max: usize, octets_max: usize) -> Vec<Queued> {
        let (mut taken, mut octets) = (Vec::new(), 0);
        while taken.len() < messages_max && octets < octets_max {
            let Some(slot) = self.messages.pop_front(&mut self.unspooled.list) else { break };
            let Some(queued) = self.messages.remove(slot) else { break };
            octets += queued.message.resident_octets();
            taken.push(queued);
        }
        self.unspooled.called &= !taken.is_empty();
        taken
    }

    /// A message has its place in the spool now and goes on where it was going.
    pub fn spooled(&mut self, now: Now, queued: Queued) {
        debug_assert!(!queued.message.is_volatile(), "a spooled message has a place");
        self.comes_back(now, queued.queue, queued.message);
    }

    /// The spool refused: what is due is tried from memory, the rest waits for another turn of the spooler. Asks for none:
    /// the spooler knows when to come again, with [`QueueCore::take_unspooled`].
    pub fn not_spooled(&mut self, now: Now, refused: Vec<Queued>) {
        for queued in refused.into_iter().rev() {
            let slot = self.messages.insert(queued.queue, queued.message);
            self.messages.push_front(&mut self.unspooled.list, slot);
        }
        if self.unspooled.ending {
            return;
        }
        let is_due = |message: &Message| message.due <= now.wall;
        let mut due = List::default();
        self.messages.move_volatile(&mut self.unspooled.list, &mut due, is_due);
        while let Some(queued) = self.messages.pop_front(&mut due).and_then(|slot| self.messages.remove(slot)) {
            self.watch_volatile(now);
            let slot = self.messages.insert(queued.queue, queued.message);
            self.comes_due(now, queued.queue, slot);
            self.left(queued.queue, now.mono);
        }
    }

    /// The spool never takes this one as it is: it waits behind all others, and is tried from memory when it is due.
    pub fn too_big_to_spool(&mut self, now: Now, refused: Queued) {
        if refused.message.due <= now.wall && !self.unspooled.ending {
            return self.not_spooled(now, vec![refused]);
        }
        let slot = self.messages.insert(refused.queue, refused.message);
        self.messages.push_back(&mut self.unspooled.list, slot);
    }

    /// The program ends: as [`QueueCore::spool_all`], and nothing is tried from memory any more, nor accepted into it.
    pub fn spool_the_rest(&mut self, now: Now) {
        self.unspooled.ending = true;
        self.spool_all(now);
    }

    /// Calls for the spooling of every message that no spool has: memory is short.
    pub fn spool_all(&mut self, now: Now) {
        self.spool_those(now, |_| true);
        let list = &mut self.unspooled.list;
        for (_, failed) in &mut self.endings.failed {
            self.messages.move_volatile(failed, list, |_| true);
        }
        self.messages.move_volatile(&mut self.endings.expired, list, |_| true);
        for ordered in self.orders.lists_mut() {
            self.messages.move_volatile(ordered, list, |_| true);
        }
        self.call_spooler();
    }

    /// Takes a message back whose connection was cut short: it is spooled if no spool has it, and let go of otherwise.
    pub fn abandoned(&mut self, queued: Queued) {
        if queued.message.is_volatile() {
            self.spool_out(queued);
        }
    }

    /// Messages that wait for the spooler.
    pub fn unspooled(&self) -> usize {
        self.unspooled.list.len()
    }

    /// Octets of queued messages that are in memory only; what is in hand is not in it.
    pub fn volatile_octets(&self) -> usize {
        self.messages.resident().volatile
    }

    /// True when messages may be accepted into memory only: neither the spooler is behind nor memory short.
    pub fn has_volatile_room(&self) -> bool {
        !self.unspooled.ending && self.unspooled.list.len() < UNSPOOLED_MAX && self.keeps(1)
    }

    /// A message of `key` that must wait and has no place goes to the spooler.
    pub(crate) fn spool(&mut self, key: QueueKey, message: Message) {
        if let Some(queue) = self.scheduled.get_mut(&key) {
            queue.goes_out(message.id);
        }
        self.spool_out(Queued { message, queue: key });
    }

    /// The same for one that is out of its queue already.
    pub(crate) fn spool_out(&mut self, queued: Queued) {
        let slot = self.messages.insert(queued.queue, queued.message);
        self.spool_slot(slot);
    }

    /// The same for one that has its slot.
    pub(crate) fn spool_slot(&mut self, slot: SlotNumber) {
        self.messages.push_back(&mut self.unspooled.list, slot);
        self.call_spooler();
    }

    /// Keeps an eye on a volatile message that waits for its way.
    pub(crate) fn watch_volatile(&mut self, now: Now) {
        if !std::mem::replace(&mut self.unspooled.watched, true) {
            self.wheel.insert(now.mono + VOLATILE_WAIT_MAX, Timer::Spool);
        }
    }

    /// Spools what has waited for its way for so long.
    pub(crate) fn spool_patient(&mut self, now: Now) {
        self.unspooled.watched = false;
        let old = |message: &Message| now.wall.saturating_since(message.created()) >= VOLATILE_WAIT_MAX;
        self.spool_those(now, old);
        let in_due = self.scheduled.values().any(|q| q.due.has_volatile());
        if in_due || self.ready.values().any(|r| r.messages.has_volatile()) {
            self.watch_volatile(now);
        }
    }

    fn spool_those(&mut self, now: Now, those: impl Fn(&Message) -> bool) {
        // In order of age: equal runs must do equal things.
        let mut queues: Vec<QueueKey> =
            self.scheduled.iter().filter(|(_, q)| q.due.has_volatile()).map(|(key, _)| *key).collect();
        queues.sort_unstable();
        for key in queues {
            let Some(queue) = self.scheduled.get_mut(&key) else { continue };
            let moves = |message: &&Message| message.is_volatile() && those(message);
            let moved: Vec<_> = self.messages.iter(&queue.due).filter(moves).map(|message| message.id).collect();
            moved.into_iter().for_each(|id| queue.goes_out(id));
            self.messages.move_volatile(&mut queue.due, &mut self.unspooled.list, &those);
        }
        let mut relieved: Vec<ReadyKey> =
            self.ready.iter().filter(|(_, r)| r.messages.has_volatile()).map(|(key, _)| *key).collect();
        relieved.sort_unstable();
        for key in &relieved {
            if let Some(ready) = self.ready.get_mut(key) {
                ready.messages.move_volatile(&mut self.messages, &mut self.unspooled.list, &those);
            }
        }
        self.call_spooler();
        relieved.into_iter().for_each(|key| self.call_waiters(now, key));
    }

    fn call_spooler(&mut self) {
        if !self.unspooled.list.is_empty() && !std::mem::replace(&mut self.unspooled.called, true) {
            self.effects.push(Effect::Spool);
        }
    }
}

/// A message that no spool has, as the spool is to have it: with what is left to do. Settled recipients are taken out of
/// its envelope; the numbers of the others change, and nothing refers to them. `None` when its content is not in memory.
pub fn seal(message: &mut Message) -> Option<Sealed> {
    let resident = message.resident.as_deref_mut()?;
    if !message.settled.is_empty() {
        let settled = std::mem::take(&mut message.settled);
        let pending: Vec<usize> = (0..message.recipients).filter(|r| !settled.contains(*r)).map(usize::from).collect();
        resident.envelope = resident.envelope.part(&pending);
        message.recipients = resident.envelope.recipients.len() as u16;
        message.settled = Settled::default();
    }
    let Resident { envelope, meta, head, body } = resident.clone();
    Some(Sealed { id: message.id, envelope, meta, head, body, due: message.due })
}

/// Messages that may wait for the spooler before new ones are spooled at once.
const UNSPOOLED_MAX: usize = 4096;
/// How long a message stays in memory only while its way is closed.
const VOLATILE_WAIT_MAX: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use clock::WallTime;
    use message::{Envelope, IdGenerator, Meta, TlsDemand};
    use smtp_wire::{Mailbox, ReversePath};

    #[test]
    fn settled_recipients_are_not_spooled() {
        let names = ["a@x.test", "b@x.test", "c@x.test"];
        let recipients = names.map(|name| Mailbox::parse(name).expect("an address")).to_vec();
        let first = Sealed {
            id: IdGenerator::new([0; 6], 0).next(WallTime::EPOCH),
            envelope: Envelope { sender: ReversePath(None), recipients, dsn: None, tls: TlsDemand::Usual },
            meta: Meta::new(),
            head: (&b"A: b\r\n\r\n"[..]).into(),
            body: (&b"x\r\n"[..]).into(),
            due: WallTime::EPOCH,
        };
        let mut message = Message::resident(first.clone(), None);
        assert_eq!(seal(&mut message).map(|s| s.envelope), Some(first.envelope), "nobody is settled");
        message.settled.insert(1);
        let left = seal(&mut message).map(|s| s.envelope.recipients).unwrap_or_default();
        assert_eq!(left.iter().map(Mailbox::as_str).collect::<Vec<_>>(), ["a@x.test", "c@x.test"]);
        assert_eq!((message.recipients, message.pending().collect::<Vec<_>>()), (2, vec![0, 1]));
        message.resident = None;
        assert!(seal(&mut message).is_none());
    }
}
