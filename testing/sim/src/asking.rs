//! The driver of askers, after the engine's `asking.rs`: what policy says about messages that are to become ready, and when;
//! and after its `requeue.rs`: what it says about messages that failed for the time being.
//!
//! Policy lets go on, names a time, names one at which the message is too old, fails, or does not answer in its time. What
//! is with policy when a life ends begins anew in the next.

use crate::Sabotage;
use crate::constraints::belonging;
use crate::event::ServerEvent;
use crate::plan::SECOND;
use crate::world::World;
use clock::{Duration, WallTime};
use message::Message;
use queue::settle::{all_pending, apply};
use queue::{Queued, Verdict};
use smtp_wire::Reply;
use spool::Mark;

/// What policy makes of a message that is to become ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// It may.
    GoOn,
    /// Not before this moment.
    Wait(WallTime),
    /// Nothing: it failed, or its time was over.
    Nothing,
}

impl World {
    /// Carries out `Effect::Ask`.
    pub fn asker_soon(&mut self) {
        let delay = *self.dice.pick(&[0, 0, 300]);
        self.server_soon(delay, ServerEvent::Asker);
    }

    /// An asker takes its next message, or goes home.
    pub fn asker_goes_on(&mut self) {
        if self.process.as_ref().is_none_or(|p| p.stopping) {
            return;
        }
        let Some(queued) = self.with_queue(|q, now| q.take_asking(now)) else { return };
        let Some(queued) = self.load(queued) else { return self.asker_soon() };
        let (id, now) = (queued.message.id, self.wall());
        self.report.asked += 1;
        let after = |seconds: u64| Said::Wait(now + Duration::from_secs(seconds));
        let (said, takes) = match self.dice.below(if self.recovered { 1 } else { 12 }) {
            0..7 => (Said::GoOn, self.dice.within(0, 3 * SECOND)),
            7..10 => (after(self.dice.within(1, 200)), self.dice.within(0, 3 * SECOND)),
            10 => (after(TOO_OLD), self.dice.within(0, SECOND)),
            _ => (Said::Nothing, *self.dice.pick(&[0, ANSWER_MAX])),
        };
        let takes = if self.dice.chance(400) { 0 } else { takes };
        self.note(|| format!("policy is asked about {id}, and will say {said:?}"));
        let Some(process) = &mut self.process else { return };
        process.asked.insert(id, queued);
        let asked = process.asked.len();
        if asked > ASKERS_MAX {
            self.ledger.violate(format!("policy is asked about {asked} messages at a time"));
        }
        self.server_soon(takes, ServerEvent::Said(id, said));
    }

    /// Policy has answered, or has not.
    pub fn said(&mut self, id: message::MessageId, said: Said) {
        let now = self.wall();
        let Some(queued) = self.process.as_mut().and_then(|p| p.asked.remove(&id)) else { return };
        match said {
            Said::Wait(due) if due > now => self.hold_back(queued, due),
            Said::GoOn | Said::Wait(_) => {
                self.ledger.passed(id);
                self.with_queue(|q, now| q.passed(now, queued));
            }
            Said::Nothing => {
                self.report.unanswered += 1;
                self.with_queue(|q, now| q.postpone(now, queued));
            }
        }
        self.asker_goes_on();
    }

    fn hold_back(&mut self, mut queued: Queued, due: WallTime) {
        self.report.held_back += 1;
        queued.message.due = due;
        let Message { id, attempts, .. } = queued.message;
        self.plan_attempt(&queued.message);
        self.ledger.may_end_early(id, due);
        if self.sabotaged(Sabotage::PassAll) {
            self.ledger.passed(id);
            return self.with_queue(|q, now| q.passed(now, queued));
        }
        self.note(|| format!("{id} is held back until {due:?} after {attempts} attempts"));
        self.with_queue(|q, now| q.held_back(now, queued, due));
    }

    /// Has the spool know when a message is due next, if it has it.
    fn plan_attempt(&mut self, message: &Message) {
        let Message { id, attempts, due, .. } = *message;
        match message.is_volatile() {
            true => self.ledger.put_off(id, attempts, due),
            false => self.mark(Mark::Attempt { id, attempts, due }),
        }
    }

    /// A message waits for its next attempt, which is marked; policy hears of it first, when it wants to.
    pub fn requeue(&mut self, queued: Queued, delay: Duration) {
        let (chance, id) = (self.plan.requeues, queued.message.id);
        if queued.message.resident.is_none() || !self.trouble(chance) {
            return self.with_queue(|q, now| q.retry(now, queued, delay));
        }
        let takes = self.dice.within(0, 20 * SECOND);
        let Some(process) = &mut self.process else { return };
        process.requeued.insert(id, (queued, delay));
        self.server_soon(takes, ServerEvent::Requeued(id));
    }

    /// Policy moves a message that failed, bounces it, or leaves it alone.
    pub fn requeued(&mut self, id: message::MessageId) {
        let Some((mut queued, delay)) = self.process.as_mut().and_then(|p| p.requeued.remove(&id)) else { return };
        self.report.requeued += 1;
        self.note(|| format!("policy has heard that {id} failed"));
        let to = format!("d{}.test", self.dice.below(self.plan.domains.len()));
        match self.dice.below(4) {
            0 => self.with_queue(|q, now| q.retry(now, queued, delay)),
            1 => {
                let reply = Reply::new(550, "5.7.1 policy has had enough");
                let outcomes = all_pending(&queued.message, Verdict::Permanent, &reply);
                let (entries, _) = apply(&mut queued.message, outcomes);
                entries.iter().for_each(|entry| self.log_entry(&queued, entry));
                self.remove(&queued);
            }
            // It is due at once there; the spool is told that, and finds it where it was after a crash.
            _ => {
                queued.message.due = self.wall();
                self.plan_attempt(&queued.message);
                self.move_to(queued, &to);
            }
        }
    }

    /// A message belongs to another queue now, with its end.
    pub fn move_to(&mut self, queued: Queued, to: &str) {
        self.note_queue(queued.message.id, to);
        let meta = queued.message.resident.as_ref().map(|resident| resident.meta.clone()).unwrap_or_default();
        self.with_queue(|q, now| q.rebound(now, queued, belonging(to, &meta)));
    }
}

/// Questions about messages that are to become ready, at a time.
const ASKERS_MAX: usize = 16;
/// Seconds after which nearly every message of any plan is too old.
const TOO_OLD: u64 = 3_700;
/// How long policy may take for an answer.
const ANSWER_MAX: u64 = 60 * SECOND;
