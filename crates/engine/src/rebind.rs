//! Moving messages by order: other metadata, and with it another queue perhaps.
//!
//! The spool has the message as it is to be before the queue puts it where it then belongs, so a crash finds it in the old
//! queue, with the order still to be carried out, or in the new one. What the spool refuses stays with the order and is tried
//! again. A message that cannot be moved, because no queue can be named from the
//! metadata or the spool cannot hold them, keeps what it had.

use crate::engine::Engine;
use crate::settle::AttemptFacts;
use clock::WallTime;
use message::{Message, Meta, Resident, Sealed};
use queue::schedule::{self, label_for, read_label};
use queue::{Action, Entry, Order, Queued, Rebinding};
use record::RecordType;
use smtp_wire::Reply;
use spool::{Rewrite, SpoolError};
use std::time::Duration;

impl Engine {
    /// Carries out a rebinding for one message, whose content is in memory.
    pub(crate) async fn rebind(&self, mut queued: Queued, order: &Order) {
        let (Action::Rebind(rebinding), Some(old)) = (&order.action, before(&queued.message)) else {
            return self.with_queue(|q, now| q.postpone(now, queued));
        };
        let from = self.with_queue(|q, _| q.queue_name(queued.queue));
        let label = match set(&mut queued.message, rebinding) {
            Ok(label) => label,
            Err(error) => {
                tracing::error!("message {} stays in queue {from}: {error}", queued.message.id);
                put_back(&mut queued.message, old);
                return self.with_queue(|q, now| q.stays(now, queued));
            }
        };
        let (to, expires) = read_label(&label);
        let moves = *to != *from;
        if moves || rebinding.always_flush {
            make_due(&mut queued.message, self.clock.now().wall);
        }
        if let Err(error) = self.write_anew(&mut queued.message, &old).await {
            put_back(&mut queued.message, old);
            if is_final(&error) {
                tracing::error!("message {} stays in queue {from}: {error}", queued.message.id);
                return self.with_queue(|q, now| q.stays(now, queued));
            }
            tracing::error!("message {} is not moved to queue {to} yet: {error}", queued.message.id);
            tokio::time::sleep(PAUSE).await;
            return self.with_queue(|q, now| q.not_rebound(now, queued, order.id));
        }
        if moves && !order.suppress_logging {
            let reply = Reply::new(250, &format!("Rebound from {from} to {to}: {}", order.reason));
            let recipients = queued.message.pending().collect();
            let entry = Entry { kind: RecordType::AdminRebind, recipients, reply, command: None };
            self.log_entry(&queued, to, &entry, &AttemptFacts::default());
        }
        self.with_queue(|q, now| q.rebound(now, queued, to, expires));
    }

    /// Has the spool write a message as it is in memory, unless its metadata are what they were. One that no spool has will
    /// be written like that one day.
    async fn write_anew(&self, message: &mut Message, (old, _): &(Meta, WallTime)) -> Result<(), SpoolError> {
        let changed = message.resident.as_deref().filter(|resident| resident.meta != *old);
        let Some(resident) = changed.filter(|_| !message.is_volatile()) else { return Ok(()) };
        let Resident { envelope, meta, head, body } = resident.clone();
        let sealed = Sealed { id: message.id, envelope, meta, head, body, due: message.due };
        let rewrite = Rewrite { sealed, attempts: message.attempts, settled: message.settled.clone() };
        message.place = Some(self.spool.rewrite(rewrite).await?);
        Ok(())
    }
}

/// What a rebinding changes of a message.
fn before(message: &Message) -> Option<(Meta, WallTime)> {
    message.resident.as_ref().map(|resident| (resident.meta.clone(), message.due))
}

/// Another try would end the same way.
fn is_final(error: &SpoolError) -> bool {
    matches!(error, SpoolError::NoSuchMessage { .. } | SpoolError::TooBig { .. })
}

/// Gives a message the metadata; the label of the queue it belongs to then.
fn set(message: &mut Message, rebinding: &Rebinding) -> Result<String, String> {
    let resident = message.resident.as_deref_mut().ok_or("it is not in memory")?;
    rebinding.data.iter().for_each(|(name, value)| resident.meta.set(name, value.as_str()));
    label_for(&resident.envelope, &resident.meta).map_err(|error| error.to_string())
}

fn put_back(message: &mut Message, (meta, due): (Meta, WallTime)) {
    message.due = due;
    if let Some(resident) = &mut message.resident {
        resident.meta = meta;
    }
}

/// Due now, as far as the message's own constraints let it.
fn make_due(message: &mut Message, now: WallTime) {
    let scheduling = message.resident.as_ref().and_then(|resident| schedule::of(&resident.meta));
    message.due = scheduling.map_or(now, |scheduling| schedule::next_attempt(&scheduling, now));
}

/// Time between two tries while the spool refuses.
const PAUSE: Duration = Duration::from_secs(1);
