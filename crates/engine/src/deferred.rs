//! Deferred spooling: messages that were accepted into memory only, and how they get to the disk after all.
//!
//! The queue says when (`queue::volatile`); one task at a time appends them, many to a commit. What is left to do for a
//! message is all that is written: settled recipients are left out of its envelope, so that no cut between
//! two writes can bring them back. While the spool refuses, the messages stay in memory and the task tries again. The drain
//! waits for all of it, within its grace; what cannot be written by then is lost, and said so.

use crate::engine::Engine;
use crate::ingress::accept::by_body;
use message::{Message, Resident, Sealed, Settled};
use queue::Queued;
use spool::{Durable, Mark, SpoolError};
use std::time::Duration;

impl Engine {
    /// Carries out `Effect::Spool`.
    pub(crate) fn start_spooler(&self) {
        let engine = self.clone();
        // Never cut short: what is being appended would be lost.
        self.spoolers.spawn(async move {
            let mut refused = false;
            loop {
                let taken = engine.with_queue(|q, _| q.take_unspooled(MESSAGES_MAX, OCTETS_MAX));
                if taken.is_empty() {
                    return;
                }
                match engine.spool_these(taken).await {
                    Ok(()) => refused = false,
                    Err(error) => {
                        if !std::mem::replace(&mut refused, true) {
                            tracing::error!("messages of deferred_spool listeners stay in memory only: {error}");
                        }
                        let pause = if engine.stop.is_draining() { DRAIN_PAUSE } else { PAUSE };
                        tokio::time::sleep(pause).await;
                    }
                }
            }
        });
    }

    /// Appends some messages together; all or none.
    async fn spool_these(&self, mut taken: Vec<Queued>) -> Result<(), SpoolError> {
        taken.iter_mut().for_each(|queued| leave_settled_out(&mut queued.message));
        let sealed: Vec<Sealed> = taken.iter().filter_map(|queued| sealed(&queued.message)).collect();
        debug_assert_eq!(sealed.len(), taken.len(), "what is in memory only is in memory");
        let appended = match self.spool.append(by_body(sealed)).await {
            Ok(appended) => appended,
            Err(error) => {
                self.with_queue(|q, now| q.not_spooled(now, taken));
                return Err(error);
            }
        };
        for (queued, durable) in taken.into_iter().zip(appended.durable) {
            self.settle_in(queued, &durable);
        }
        Ok(())
    }

    /// A message has its place: its attempts follow it, and it goes back to its queue.
    fn settle_in(&self, mut queued: Queued, durable: &Durable) {
        let Message { id, attempts, due, .. } = queued.message;
        debug_assert_eq!(durable.id(), id, "receipts come in the order of the messages");
        queued.message.place = Some(durable.place());
        if attempts > 0 {
            self.spool.mark(Mark::Attempt { id, attempts, due });
        }
        self.with_queue(|q, now| q.spooled(now, queued));
    }
}

/// The message as the spool is to have it.
fn sealed(message: &Message) -> Option<Sealed> {
    let Resident { envelope, meta, head, body } = message.resident.as_deref()?.clone();
    Some(Sealed { id: message.id, envelope, meta, head, body, due: message.due })
}

/// Takes settled recipients out of the envelope of a message that no spool has yet: the numbers of the others change, and
/// nothing refers to them.
fn leave_settled_out(message: &mut Message) {
    if message.settled.is_empty() {
        return;
    }
    let Some(resident) = message.resident.as_deref_mut() else { return };
    let settled = std::mem::take(&mut message.settled);
    let mut number = 0;
    resident.envelope.recipients.retain(|_| {
        let stays = !settled.contains(number);
        number += 1;
        stays
    });
    message.recipients = resident.envelope.recipients.len() as u16;
    message.settled = Settled::default();
}

/// Messages of one append.
const MESSAGES_MAX: usize = 256;
/// Octets of one append, exceeded by its last message at most.
const OCTETS_MAX: usize = 4 << 20;
/// Time between two tries while the spool refuses.
const PAUSE: Duration = Duration::from_secs(1);
/// The same while the program ends and somebody waits.
const DRAIN_PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;
    use ::clock::WallTime;
    use message::{Envelope, IdGenerator, Meta};
    use smtp_wire::{Mailbox, ReversePath};

    #[test]
    fn settled_recipients_are_not_spooled() {
        let names = ["a@x.test", "b@x.test", "c@x.test"];
        let recipients = names.map(|name| Mailbox::parse(name).expect("an address")).to_vec();
        let sealed_once = Sealed {
            id: IdGenerator::new([0; 6], 0).next(WallTime::EPOCH),
            envelope: Envelope { sender: ReversePath(None), recipients },
            meta: Meta::new(),
            head: (&b"A: b\r\n\r\n"[..]).into(),
            body: (&b"x\r\n"[..]).into(),
            due: WallTime::EPOCH,
        };
        let mut message = Message::resident(sealed_once.clone(), None);
        leave_settled_out(&mut message);
        assert_eq!(sealed(&message).map(|s| s.envelope), Some(sealed_once.envelope), "nobody is settled");
        message.settled.insert(1);
        leave_settled_out(&mut message);
        let left = sealed(&message).map(|s| s.envelope.recipients).unwrap_or_default();
        assert_eq!(left.iter().map(Mailbox::as_str).collect::<Vec<_>>(), ["a@x.test", "c@x.test"]);
        assert_eq!((message.recipients, message.pending().collect::<Vec<_>>()), (2, vec![0, 1]));
    }
}
