//! Moving messages to another queue: by an operator's order, or because policy says so when they are to wait.
//!
//! The spool has the message as it is to be before the queue puts it where it then belongs, so a crash finds it in the old
//! queue, with the order still to be carried out, or in the new one. What the spool refuses stays with the order and is tried
//! again. A message that cannot be moved, because no queue can be named from the metadata, the spool cannot hold them, policy
//! fails or another node has it already, stays as it was.

use crate::engine::Engine;
use crate::settle::{AttemptFacts, Told};
use clock::WallTime;
use message::{Message, Meta, Resident, Sealed};
use queue::schedule::{self, label_for, read_label};
use queue::xfer::{self, Saved};
use queue::{Action, Change, Entry, NULL_QUEUE, Order, Queued, Rebinding};
use record::RecordType;
use smtp_wire::Reply;
use spool::{Mark, Rewrite, SpoolError};

/// A message as it was before it was changed.
pub(crate) struct Before {
    resident: Resident,
    due: WallTime,
    attempts: u16,
    size: u32,
}

impl Engine {
    /// Carries out a rebinding for one message, whose content is in memory.
    pub(crate) async fn rebind(&self, mut queued: Queued, order: &Order) {
        let (Action::Rebind(rebinding), Some(before)) = (&order.action, Before::of(&queued.message)) else {
            return self.with_queue(|q, now| q.postpone(now, queued));
        };
        let from = self.with_queue(|q, _| q.queue_name(queued.queue));
        let label = match self.change(&mut queued.message, rebinding).await {
            Ok(label) => label,
            Err(error) => {
                tracing::error!("message {} stays in queue {from}: {error}", queued.message.id);
                before.put_back(&mut queued.message);
                return self.with_queue(|q, now| match self.stop.is_draining() {
                    // Policy was cut short.
                    true => q.not_carried_out(now, queued, order.id),
                    false => q.stays(now, queued),
                });
            }
        };
        let moves = self.with_queue(|q, _| q.is_elsewhere(queued.queue, read_label(&label)));
        if (moves && !matches!(rebinding.change, Change::CancelXfer { .. })) || rebinding.always_flush {
            make_due(&mut queued.message, self.clock.wall());
        }
        if let Err(error) = self.write_anew(&mut queued.message, &before).await {
            before.put_back(&mut queued.message);
            if is_final(&error) {
                tracing::error!("message {} stays in queue {from}: {error}", queued.message.id);
                return self.with_queue(|q, now| q.stays(now, queued));
            }
            tracing::error!("message {} is not moved to queue {label} yet: {error}", queued.message.id);
            return self.with_queue(|q, now| q.not_carried_out(now, queued, order.id));
        }
        if moves && !order.suppress_logging {
            self.log_rebound(&queued, RecordType::AdminRebind, [&from, &label], &order.reason);
        }
        self.place_anew(queued, &label);
    }

    /// Changes a message as an order says; the label of the queue it belongs to then.
    async fn change(&self, message: &mut Message, rebinding: &Rebinding) -> Result<String, String> {
        let resident = message.resident.as_deref_mut().ok_or("it is not in memory")?;
        let is_free = matches!(rebinding.change, Change::CancelXfer { node_is_gone: true });
        if let Some(kept) = xfer::handed_over(&resident.meta).filter(|_| !is_free) {
            return Err(format!("node {} has it as {} and is about to be told to deliver it", kept.node, kept.id));
        }
        match &rebinding.change {
            Change::Set(data) => data.iter().for_each(|(name, value)| resident.meta.set(name, value.as_str())),
            Change::Ask(data) => self.ask_to_rebind(message, data).await?,
            Change::Xfer(target) => {
                let saved = Saved { attempts: message.attempts, due: message.due };
                if xfer::target(&resident.meta) != Some(target) {
                    xfer::send_off(&mut resident.meta, saved, target);
                    message.attempts = 0;
                }
            }
            Change::CancelXfer { .. } => {
                let saved = xfer::bring_back(&mut resident.meta).ok_or("it is not on its way to another node")?;
                (message.attempts, message.due) = (saved.attempts, saved.due);
            }
        }
        label_of(message)
    }

    /// Writes a log record about a message that belongs to another queue now.
    pub(crate) fn log_rebound(&self, queued: &Queued, kind: RecordType, [from, label]: [&str; 2], reason: &str) {
        let to = read_label(label).queue;
        let reply = Reply::new(250, &format!("Rebound from {from} to {to}: {reason}"));
        let recipients = queued.message.pending().collect();
        let entry = Entry { kind, recipients, reply, command: None };
        self.log_entry(queued, to, &entry, &AttemptFacts::default(), Told::NotYet);
    }

    /// Puts a message, as the spool has it now, into the queue it belongs to; into the null queue it vanishes (KumoMTA
    /// behaviour).
    pub(crate) fn place_anew(&self, queued: Queued, label: &str) {
        let belonging = read_label(label);
        if belonging.queue != NULL_QUEUE {
            return self.with_queue(|q, now| q.rebound(now, queued, belonging));
        }
        if !queued.message.is_volatile() {
            self.spool.mark(Mark::Removed { id: queued.message.id });
        }
        self.with_queue(|q, now| q.forget(now.mono, &queued));
    }

    /// Has the spool write a message as it is in memory, unless it is what it was. One that no spool has will be written like
    /// that one day.
    pub(crate) async fn write_anew(&self, message: &mut Message, before: &Before) -> Result<(), SpoolError> {
        let changed = message.resident.as_deref().filter(|resident| **resident != before.resident);
        let Some(resident) = changed.filter(|_| !message.is_volatile()) else { return Ok(()) };
        let Resident { envelope, meta, head, body } = resident.clone();
        let sealed = Sealed { id: message.id, envelope, meta, head, body, due: message.due };
        let rewrite = Rewrite { sealed, attempts: message.attempts, settled: message.settled.clone() };
        message.place = Some(self.spool.rewrite(rewrite).await?);
        Ok(())
    }
}

impl Before {
    /// The message as it is; `None` when its content is not in memory.
    pub fn of(message: &Message) -> Option<Before> {
        let Message { due, attempts, size, .. } = *message;
        message.resident.as_deref().map(|resident| Before { resident: resident.clone(), due, attempts, size })
    }

    /// Undoes what was done to it since.
    pub fn put_back(self, message: &mut Message) {
        (message.due, message.attempts, message.size) = (self.due, self.attempts, self.size);
        message.resident = Some(Box::new(self.resident));
    }

    /// The metadata it had.
    pub fn meta(&self) -> &Meta {
        &self.resident.meta
    }
}

/// The label of the queue that a message in memory belongs to.
pub(crate) fn label_of(message: &Message) -> Result<String, String> {
    let resident = message.resident.as_deref().ok_or("it is not in memory")?;
    label_for(&resident.envelope, &resident.meta).map_err(|error| error.to_string())
}

/// Another try would end the same way.
fn is_final(error: &SpoolError) -> bool {
    matches!(error, SpoolError::NoSuchMessage { .. } | SpoolError::TooBig { .. })
}

/// Due now, as far as the message's own constraints let it.
pub(crate) fn make_due(message: &mut Message, now: WallTime) {
    let scheduling = message.resident.as_ref().and_then(|resident| schedule::of(&resident.meta));
    message.due = scheduling.map_or(now, |scheduling| schedule::next_attempt(&scheduling, now));
}
