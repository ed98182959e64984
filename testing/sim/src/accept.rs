//! The one door for new mail, after the engine's `ingress/accept.rs`: all that can fail first,
//! then the commit, then what cannot fail.

use crate::constraints::end_of;
use crate::event::Appender;
use crate::inbound::Accepting;
use crate::world::World;
use bytes::Bytes;
use message::{Draft, Message, Meta, Sealed, TlsDemand};
use mime::ValueForm;
use queue::QueueName;
use queue::schedule::Belonging;
use smtp_server::{Answer, Disconnect, Transaction};
use smtp_wire::{EnhancedCode, Mailbox, Reply};
use spool::{Durable, Receipt, SpoolError, Volatile};

impl World {
    /// Prepares a transaction of a session and sends it to the writer; an answer at once is a refusal.
    pub fn accept(&mut self, session: u64, submission: usize, transaction: Transaction) -> Option<Answer> {
        let prepared = match self.prepare(submission, transaction) {
            Ok(prepared) => prepared,
            Err(reply) => return Some(reject(reply)),
        };
        prepared.iter().for_each(|(s, ..)| self.ledger.sealed(submission, s));
        let room = self.with_queue(|q, _| q.has_volatile_room());
        let (deferred, keep): (Vec<Prepared>, Vec<Prepared>) = prepared.into_iter().partition(|p| p.2 && room);
        let deferred = deferred.into_iter().map(|(sealed, queue, _)| (sealed, queue)).collect();
        if keep.is_empty() {
            return Some(Answer::Accepted(self.take_into_memory(deferred)));
        }
        let (sealed, queues): (Vec<Sealed>, Vec<String>) =
            keep.into_iter().map(|(sealed, queue, _)| (sealed, queue)).unzip();
        let early = self.sabotaged(crate::Sabotage::PromiseBeforeCommit);
        let volatile = |s: &Sealed| Receipt::Volatile(Volatile::by_operator_choice(s.id));
        let receipts: Vec<Receipt> = sealed.iter().filter(|_| early).map(volatile).collect();
        let inbound = self.process.as_mut().and_then(|p| p.inbound.get_mut(&session))?;
        inbound.accepting = Some(Accepting { queues, deferred, answered: early });
        self.append(Appender::Session(session), by_body(sealed));
        early.then_some(Answer::Accepted(receipts))
    }

    /// Everything about the messages of a transaction that can fail.
    fn prepare(&mut self, submission: usize, transaction: Transaction) -> Result<Vec<Prepared>, Reply> {
        if self.mono() > transaction.processing_deadline {
            return Err(Reply::enhanced(451, EnhancedCode::new(4, 4, 5), "data_processing_timeout exceeded"));
        }
        let wall = self.wall();
        let raw = Bytes::from(transaction.content);
        let mut prepared = Vec::new();
        for recipients in batches(transaction.envelope.recipients, self.plan.one_recipient_each) {
            let Some(process) = &mut self.process else { break };
            let id = process.ids.next(wall);
            let envelope = message::Envelope {
                sender: transaction.envelope.sender.clone(),
                recipients,
                dsn: None,
                tls: TlsDemand::Usual,
            };
            let mut raw = raw.clone();
            if self.plan.policy_edits_bodies && prepared.len() == 1 {
                raw = [&raw[..], b"edited by policy\r\n"].concat().into();
            }
            let mut draft = Draft::new(id, envelope, Meta::new(), raw.into(), wall);
            let (block, octets) = draft.edit_headers();
            let value = format!("by sim id {id} for transaction {submission}");
            let added = block.prepend("Received", value.as_bytes(), ValueForm::Raw);
            let _ = octets;
            added.map_err(|e| Reply::enhanced(550, EnhancedCode::new(5, 6, 0), e.to_string()))?;
            let queue =
                QueueName::text_for(&draft.envelope, &draft.meta).map_err(|e| Reply::new(421, &e.to_string()))?;
            self.configure(&queue)?;
            self.constrain(&mut draft);
            let deferred = self.is_deferred() && draft.due <= wall;
            prepared.push((draft.seal(), queue, deferred));
        }
        Ok(prepared)
    }

    /// Makes sure that a queue has its configuration before a message for it is accepted.
    fn configure(&mut self, name: &str) -> Result<(), Reply> {
        let (key, known) = self.with_queue(|q, now| {
            let key = q.queue(now.mono, name);
            (key, q.config(key).is_some())
        });
        if !known {
            let config = self.ask_queue_config(name).map_err(|f| f.reply)?;
            self.with_queue(|q, now| q.configured(now, key, config));
        }
        Ok(())
    }

    /// The writer's answer to a transaction.
    pub fn appended(&mut self, session: u64, result: Result<(Vec<Sealed>, Vec<Durable>), SpoolError>) {
        let inbound = self.process.as_mut().and_then(|p| p.inbound.get_mut(&session));
        let Some(accepting) = inbound.and_then(|i| i.accepting.take()) else { return };
        let answer = match result {
            Ok((sealed, durable)) => {
                let mut receipts = self.take_in(accepting.queues, sealed, durable);
                receipts.extend(self.take_into_memory(accepting.deferred));
                Answer::Accepted(receipts)
            }
            Err(error) => reject(Reply::enhanced(451, EnhancedCode::new(4, 3, 0), error.to_string())),
        };
        if !accepting.answered {
            self.answer_inbound(session, answer);
        }
    }

    /// After the commit: nothing may fail.
    fn take_in(&mut self, queues: Vec<String>, sealed: Vec<Sealed>, durable: Vec<Durable>) -> Vec<Receipt> {
        let mut receipts = Vec::with_capacity(durable.len());
        for ((sealed, durable), queue) in sealed.into_iter().zip(durable).zip(queues) {
            let message = Message::resident(sealed, Some(durable.place()));
            self.note(|| format!("{} is ours, for queue {queue}", message.id));
            self.note_queue(message.id, &queue);
            self.admit(&queue, message);
            receipts.push(Receipt::Durable(durable));
        }
        receipts
    }

    fn admit(&mut self, queue: &str, message: Message) {
        let end = message.resident.as_ref().and_then(|resident| end_of(&resident.meta));
        self.with_queue(|q, now| q.admit_to(now, Belonging { end, ..Belonging::to(queue) }, message));
    }

    /// Whether the operator does not mind if a crash loses the next message, and policy does not either.
    fn is_deferred(&mut self) -> bool {
        let (deferred, honest) = (self.plan.deferred, !self.sabotaged(crate::Sabotage::PromiseBeforeCommit));
        honest && deferred > 0 && self.dice.chance(deferred)
    }

    /// Messages that are accepted without being written: nothing may fail.
    fn take_into_memory(&mut self, deferred: Vec<(Sealed, String)>) -> Vec<Receipt> {
        let mut receipts = Vec::with_capacity(deferred.len());
        for (sealed, queue) in deferred {
            let message = Message::resident(sealed, None);
            let id = message.id;
            self.note(|| format!("{id} is ours in memory only, for queue {queue}"));
            self.report.volatile += 1;
            self.note_queue(id, &queue);
            self.ledger.kept_in_memory(id);
            self.admit(&queue, message);
            receipts.push(Receipt::Volatile(Volatile::by_operator_choice(id)));
        }
        receipts
    }
}

/// A message, its queue, and whether it may be kept in memory only.
type Prepared = (Sealed, String, bool);

pub(crate) fn reject(reply: Reply) -> Answer {
    Answer::Reject { reply, disconnect: Disconnect::If421 }
}

/// Recipients per message: one each, or those of one domain together.
fn batches(recipients: Vec<Mailbox>, one_each: bool) -> Vec<Vec<Mailbox>> {
    let mut batches: Vec<Vec<Mailbox>> = Vec::new();
    for recipient in recipients {
        let same = batches.iter_mut().find(|b| !one_each && b[0].domain().eq_ignore_ascii_case(recipient.domain()));
        match same {
            Some(batch) => batch.push(recipient),
            None => batches.push(vec![recipient]),
        }
    }
    batches
}

/// Messages that share a body, in order.
pub(crate) fn by_body(sealed: Vec<Sealed>) -> Vec<Vec<Sealed>> {
    let mut groups: Vec<Vec<Sealed>> = Vec::new();
    for message in sealed {
        match groups.last_mut().filter(|g| g[0].body == message.body) {
            Some(group) => group.push(message),
            None => groups.push(vec![message]),
        }
    }
    groups
}
