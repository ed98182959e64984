//! The driver of `queue::settle`, after the engine's `settle.rs`: log, then mark, then hand the
//! message back or let it go.

use crate::Sabotage;
use crate::world::World;
use queue::settle::{all_pending, bounce, expire, settle};
use queue::{Entry, Next, Order, Outcome, Queued, Verdict};
use record::RecordType;
use smtp_wire::Reply;
use spool::Mark;

impl World {
    /// Ends one attempt of a message.
    pub fn settle_attempt(&mut self, mut queued: Queued, outcomes: Vec<Outcome>) {
        let key = queued.queue;
        let (config, random) = self.with_queue(|q, _| (q.config(key).unwrap_or_default(), q.random()));
        let Some(process) = &self.process else { return };
        let now = process.now(self.now, self.wall());
        let settlement = settle(&mut queued.message, outcomes, &config, now, random);
        for entry in &settlement.entries {
            self.log_entry(&queued, entry);
        }
        match settlement.next {
            Next::Done => self.remove(&queued),
            Next::Retry(delay) => {
                let message = &mut queued.message;
                message.attempts = message.attempts.saturating_add(1);
                let (id, attempts) = (message.id, message.attempts);
                if !message.is_volatile() || self.sabotaged(Sabotage::MarkVolatile) {
                    if !settlement.newly_settled.is_empty() && !self.sabotaged(Sabotage::UnmarkedRecipients) {
                        let recipients = settlement.newly_settled.iter().map(|i| u32::from(*i)).collect();
                        self.mark(Mark::RecipientsDone { id, recipients });
                    }
                    self.mark(Mark::Attempt { id, attempts, due: now.wall + delay });
                } else {
                    self.ledger.put_off(id, attempts, now.wall + delay);
                }
                let twin = self.sabotaged(Sabotage::RetryTwice).then(|| twin(&queued));
                self.requeue(queued, delay);
                if let Some(twin) = twin {
                    self.with_queue(|q, now| q.retry(now, twin, delay));
                }
            }
        }
    }

    /// A message that could not be tried: the same outcome for every pending recipient.
    pub fn settle_untried(&mut self, queued: Queued, verdict: Verdict, reply: &Reply) {
        let outcomes = all_pending(&queued.message, verdict, reply);
        self.settle_attempt(queued, outcomes);
    }

    /// A message that is too old.
    pub fn settle_expired(&mut self, mut queued: Queued) {
        let entry = expire(&mut queued.message);
        self.log_entry(&queued, &entry);
        self.remove(&queued);
    }

    /// A message that an operator bounces.
    pub fn settle_bounced(&mut self, mut queued: Queued, order: &Order) {
        let entry = bounce(&mut queued.message, &order.reason);
        self.log_entry(&queued, &entry);
        self.remove(&queued);
    }

    pub fn remove(&mut self, queued: &Queued) {
        match queued.message.is_volatile() {
            true => self.ledger.let_go(queued.message.id),
            false => self.mark(Mark::Removed { id: queued.message.id }),
        }
        self.with_queue(|q, now| q.forget(now.mono, queued));
    }

    pub fn log_entry(&mut self, queued: &Queued, entry: &Entry) {
        let id = queued.message.id;
        self.note(|| format!("{id} {:?} {:?}: {}", entry.kind, entry.recipients, entry.reply));
        if entry.kind == RecordType::Expiration {
            self.watch_expiration(id, &entry.reply);
        }
        for recipient in &entry.recipients {
            let count = match entry.kind {
                RecordType::Delivery => {
                    self.ledger.confirmed(id, *recipient);
                    None
                }
                RecordType::Bounce => {
                    self.ledger.bounced(id, *recipient);
                    Some(&mut self.report.bounces)
                }
                RecordType::AdminBounce => Some(&mut self.report.admin_bounces),
                RecordType::Expiration => Some(&mut self.report.expirations),
                _ => {
                    self.ledger.deferred(id, *recipient);
                    Some(&mut self.report.deferrals)
                }
            };
            count.into_iter().for_each(|c| *c += 1);
            if entry.kind != RecordType::TransientFailure {
                self.ledger.finished(id, *recipient);
            }
        }
    }
}

/// The same message once more: what no honest driver can have.
fn twin(queued: &Queued) -> Queued {
    Queued { message: queued.message.clone(), queue: queued.queue }
}
