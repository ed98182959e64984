//! The question before a message becomes ready (`throttle_insert_ready_queue`): who is asked about next, and what the
//! answers mean.
//!
//! Policy may wait for its answer, so it is asked outside of the queue's lock. Messages stay in their lines meanwhile: it
//! is queues that stand in line here, each for its first due message, when all other obstacles are out of the way. An
//! asker takes that message, asks, and says [`QueueCore::passed`], [`QueueCore::held_back`] or [`QueueCore::unanswered`]. A message that passed
//! is asked about no more until it has been ready, also when room or rate are gone by then: nobody pays twice for one promotion.

use crate::core::{QueueCore, QueueKey, Queued};
use crate::effect::Effect;
use clock::{Now, WallTime};
use std::collections::VecDeque;

/// Who waits to be asked about.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    /// Policy wants to be asked.
    is_on: bool,
    /// Queues whose first due message is next, once each.
    line: VecDeque<QueueKey>,
    /// Askers called and not yet told that nothing is left.
    askers: usize,
}

/// What policy said about a message that is still here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// It may become ready.
    Passed,
    /// It waits for the due time it was given.
    HeldBack,
    /// Nothing: it failed, or took too long.
    Unanswered,
}

impl Asking {
    /// True when nothing becomes ready unasked.
    pub fn is_on(&self) -> bool {
        self.is_on
    }
}

impl QueueCore {
    /// Whether, from now on, each message is asked about before it becomes ready: [`Effect::Ask`].
    pub fn ask_before_ready(&mut self, is_on: bool) {
        self.asking.is_on = is_on;
    }

    /// The next message to ask policy about, for an asker that `Effect::Ask` called; `None` sends it home. Its content may
    /// have to be loaded first. It comes back through [`QueueCore::passed`], [`QueueCore::held_back`] or like any other.
    pub fn take_asking(&mut self, now: Now) -> Option<Queued> {
        while let Some(key) = self.asking.line.pop_front() {
            if let Some(queue) = self.scheduled.get_mut(&key) {
                queue.is_in_line = false;
            }
            let taken = self.is_to_be_asked(now, key).then(|| self.pop_due(key)).flatten();
            // The next of this queue, or whatever else it is that holds the first back now.
            self.promote(now, key);
            if let Some(queued) = taken.and_then(|(slot, _)| self.messages.remove(slot)) {
                return Some(queued);
            }
        }
        self.asking.askers = self.asking.askers.saturating_sub(1);
        None
    }

    /// Policy lets a message become ready.
    pub fn passed(&mut self, now: Now, mut queued: Queued) {
        let key = queued.queue;
        if self.awaited_by(now, key, &queued.message).is_some() {
            return self.comes_back(now, key, queued.message);
        }
        if !self.keeps(queued.message.resident_octets()) {
            if queued.message.is_volatile() {
                return self.spool_out(queued);
            }
            queued.message.release();
        }
        if queued.message.is_volatile() {
            self.watch_volatile(now);
        }
        let id = queued.message.id;
        let slot = self.messages.insert(key, queued.message);
        if let Some(queue) = self.scheduled.get_mut(&key) {
            queue.forget_sent(id);
            queue.note_asked(id, Asked::Passed);
            // Those with an earlier deadline go before it, and have been asked about or will be.
            match queue.deadline_of(id) {
                Some(deadline) => self.messages.place(&mut queue.due, slot, Some(deadline)),
                None => self.messages.put_first(&mut queue.due, slot),
            }
        }
        self.left(key, now.mono);
        self.promote(now, key);
    }

    /// Whether a message would be too old at `due`.
    pub fn ends_before(&self, now: Now, queued: &Queued, due: WallTime) -> bool {
        let queue = self.scheduled.get(&queued.queue);
        queue.is_some_and(|queue| queue.is_expired(&queued.message, Now { wall: due, ..now }))
    }

    /// Policy gave a message a due time ahead: it goes back there, and no attempt is counted. One that would be too old by
    /// then ends now (KumoMTA behaviour), and nothing is to be noted of the time.
    pub fn held_back(&mut self, now: Now, mut queued: Queued, due: WallTime) {
        let key = queued.queue;
        if self.ends_before(now, &queued, due) {
            if !queued.message.is_volatile() && !self.keeps(queued.message.resident_octets()) {
                queued.message.release();
            }
            let slot = self.messages.insert(key, queued.message);
            self.messages.push_back(&mut self.endings.expired, slot);
            return self.call_settlers();
        }
        queued.message.due = due;
        if let Some(queue) = self.scheduled.get_mut(&key) {
            queue.note_asked(queued.message.id, Asked::HeldBack);
        }
        self.comes_back(now, key, queued.message);
    }

    /// Policy gave no answer about a message: it is asked again within a minute, and no attempt is counted.
    pub fn unanswered(&mut self, now: Now, queued: Queued) {
        if let Some(queue) = self.scheduled.get_mut(&queued.queue) {
            queue.note_asked(queued.message.id, Asked::Unanswered);
        }
        self.postpone(now, queued);
    }

    /// Puts a queue in line to be asked about.
    pub(crate) fn line_up_to_ask(&mut self, key: QueueKey) {
        if let Some(queue) = self.scheduled.get_mut(&key)
            && !std::mem::replace(&mut queue.is_in_line, true)
        {
            self.asking.line.push_back(key);
        }
        while self.asking.askers < ASKERS_MAX.min(self.asking.line.len()) {
            self.asking.askers += 1;
            self.effects.push(Effect::Ask);
        }
    }
}

/// Askers at work at the same time: each may be waiting for the spool or for what the policy waits for.
const ASKERS_MAX: usize = 16;
