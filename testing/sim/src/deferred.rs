//! The driver of the spooler, after the engine's `deferred.rs`: messages that were accepted into memory only are appended
//! when the queue says so; while the disk refuses, they stay where they were and the spooler comes again.

use crate::Sabotage;
use crate::accept::by_body;
use crate::event::{Appender, ServerEvent};
use crate::life::Process;
use crate::plan::SECOND;
use crate::world::World;
use message::{Message, Sealed, Settled};
use queue::Queued;
use spool::{Durable, Mark, SpoolError};

impl World {
    /// Carries out `Effect::Spool`.
    pub fn spooler_soon(&mut self) {
        let delay = *self.dice.pick(&[0, 0, 2_000]);
        self.server_soon(delay, ServerEvent::Spooler);
    }

    /// The spooler takes what waits for it, or goes home.
    pub fn spooler_goes_on(&mut self) {
        let (messages_max, octets_max) = (*self.dice.pick(&[1, 3, 256]), *self.dice.pick(&[1, 4_000, 4 << 20]));
        let mut taken = self.with_queue(|q, _| q.take_unspooled(messages_max, octets_max));
        if taken.is_empty() {
            return;
        }
        if self.sabotaged(Sabotage::SpoolWhole) {
            taken.iter_mut().for_each(|queued| queued.message.settled = Settled::default());
        }
        let sealed: Vec<Sealed> = taken.iter_mut().filter_map(|queued| queue::seal(&mut queued.message)).collect();
        if sealed.len() != taken.len() {
            self.ledger.violate("a message that is in memory only is not in memory");
        }
        sealed.iter().for_each(|s| self.ledger.sealed_again(s));
        if let Some(process) = &mut self.process {
            process.spooling = taken;
        }
        self.append(Appender::Spooler, by_body(sealed));
    }

    /// The writer's answer to the spooler.
    pub fn spooled(&mut self, result: Result<(Vec<Sealed>, Vec<Durable>), SpoolError>) {
        let Some(process) = &mut self.process else { return };
        let stopping = process.stopping;
        let taken = std::mem::take(&mut process.spooling);
        match result {
            Ok((_, durable)) => {
                taken.into_iter().zip(durable).for_each(|(queued, durable)| self.settle_in(queued, &durable));
                self.spooler_soon();
            }
            Err(error) => {
                self.note(|| format!("{} messages stay in memory only: {error}", taken.len()));
                self.report.unspooled += 1;
                self.with_queue(|q, now| q.not_spooled(now, taken));
                self.server_soon(if stopping { SECOND / 10 } else { SECOND }, ServerEvent::Spooler);
            }
        }
    }

    fn settle_in(&mut self, mut queued: Queued, durable: &Durable) {
        let Message { id, attempts, due, .. } = queued.message;
        queued.message.place = Some(durable.place());
        self.report.spooled_later += 1;
        self.note(|| format!("{id} is spooled after all"));
        if attempts > 0 {
            self.mark(Mark::Attempt { id, attempts, due });
        }
        self.with_queue(|q, now| q.spooled(now, queued));
    }

    /// At the end of an orderly stop: everything that is in memory only, sealed, and the attempts made.
    pub fn take_volatile(&mut self, process: &mut Process) -> Vec<(Sealed, u16)> {
        if self.sabotaged(Sabotage::ForgetVolatile) {
            return Vec::new();
        }
        let now = process.now(self.now, self.wall());
        let held = process.outbound.values_mut().flat_map(|o| o.in_hand.drain(..));
        held.for_each(|(_, queued)| process.queue.abandoned(queued));
        // Policy is cut short.
        std::mem::take(&mut process.asked).into_values().for_each(|queued| process.queue.abandoned(queued));
        let requeued = std::mem::take(&mut process.requeued).into_values();
        requeued.for_each(|(queued, delay)| process.queue.retry(now, queued, delay));
        process.queue.spool_the_rest(now);
        let mut taken = std::mem::take(&mut process.spooling);
        // Its answer may be on the way.
        taken.retain(|queued| self.ledger.messages.get(&queued.message.id).is_some_and(|a| a.volatile));
        taken.extend(process.queue.take_unspooled(usize::MAX, usize::MAX));
        let sealed = |queued: &mut Queued| Some((queue::seal(&mut queued.message)?, queued.message.attempts));
        let sealed: Vec<(Sealed, u16)> = taken.iter_mut().filter_map(sealed).collect();
        sealed.iter().for_each(|(s, _)| self.ledger.sealed_again(s));
        sealed
    }

    /// Memory becomes short, or no longer: what the spool has leaves it at once, the rest is written.
    pub fn memory_short(&mut self) {
        let Some(process) = &mut self.process else { return };
        process.lean = !process.lean && !self.recovered;
        let lean = process.lean;
        self.report.memory_short += u64::from(lean);
        let begins = self.with_queue(|q, now| q.set_lean(now, lean));
        let mut step = begins.then_some(0);
        while let Some(at) = step {
            step = self.with_queue(|q, _| q.shed(at));
        }
    }
}
