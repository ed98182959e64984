//! Messages of listeners with `deferred_queue`: what policy has to say of them was put off, and is heard here.
//!
//! In: a message that was accepted and waits in the queue of such messages. Out: the label of the queue it goes on to, once the
//! spool has it as policy made it; or why it does not, for good or for now. Until then it stands in hand as it was: policy
//! that is cut short is asked again.

use crate::egress::carrier::{Answers, Carried, Lent};
use crate::egress::connection::InHand;
use crate::engine::Engine;
use crate::rebind::{Before, label_of, make_due};
use crate::requeue::take_changes;
use message::{Draft, Meta};
use policy::{ConnMeta, PolicyError};
use queue::Verdict;
use queue::schedule::read_label;
use serde_json::Value;
use smtp_wire::Reply;

/// The queue in which they wait (KumoMTA's name).
pub(crate) const DEFERRED: &str = "deferred_smtp_inject.kumomta.internal";

/// Marks a message as one that is to wait there.
pub(crate) fn defer(meta: &mut Meta) {
    meta.set(QUEUE, DEFERRED);
}

/// Asks policy about messages.
pub(crate) struct DeferredCarrier;

impl DeferredCarrier {
    /// Asks about the message in hand, of which `lent` is the copy.
    pub async fn carry(&self, engine: &Engine, in_hand: &InHand, lent: Vec<Lent>) -> Carried {
        let Some(Lent { draft, .. }) = lent.into_iter().next() else {
            return Carried::broken(Reply::new(451, "4.3.0 KumoMTA internal: nothing is in hand"));
        };
        let answers = engine.hear_policy(in_hand, draft).await;
        Carried { answers: answers.unwrap_or_else(|(verdict, reply)| Answers::Same(verdict, reply)), is_over: false }
    }
}

impl Engine {
    async fn hear_policy(&self, in_hand: &InHand, mut draft: Draft) -> Result<Answers, (Verdict, Reply)> {
        let (id, recipients) = (draft.id, draft.envelope.recipients.clone());
        draft.meta.set(QUEUE, Value::Null);
        let conn = ConnMeta::from(draft.meta.clone());
        let draft = match self.policy.smtp_server_message_deferred_inject(draft, conn).await {
            Ok(draft) => draft,
            Err(PolicyError::Reject { reply, .. }) if reply.is_permanent() => return Err((Verdict::Permanent, reply)),
            Err(PolicyError::Reject { reply, .. }) => return Err((Verdict::Transient, reply)),
            Err(error @ PolicyError::Script { .. }) => {
                tracing::error!("{error}");
                return Err(for_now("policy failed"));
            }
        };
        if draft.envelope.recipients != recipients {
            return self.go_on_anew(draft).await;
        }
        let mut message = in_hand.copy_of(id).ok_or_else(|| for_now("it is gone"))?;
        let before = Before::of(&message).ok_or_else(|| for_now("it is not in memory"))?;
        let due = draft.due;
        take_changes(&mut message, draft).map_err(|error| for_now(&error))?;
        let label = label_of(&message).map_err(|error| for_now(&error))?;
        if read_label(&label).queue == DEFERRED {
            return Err(for_now("policy left it in the queue it is in"));
        }
        message.attempts = 0;
        make_due(&mut message, self.clock.wall());
        message.due = message.due.max(due);
        self.write_anew(&mut message, &before).await.map_err(|error| for_now(&error.to_string()))?;
        match in_hand.replace(message) {
            true => Ok(Answers::Moved(label)),
            false => Err(for_now("it is gone")),
        }
    }
}

impl Engine {
    /// A message whose recipients policy changed goes on as another, under an id of its own: the spool knows those of the first by
    /// number. It is accepted before the first one ends, so that a crash between the two doubles it and never loses it.
    async fn go_on_anew(&self, mut draft: Draft) -> Result<Answers, (Verdict, Reply)> {
        if draft.envelope.recipients.is_empty() {
            return Err((Verdict::Permanent, Reply::new(550, "5.1.0 policy left no recipient")));
        }
        draft.id = self.next_id();
        draft.attempts = 0;
        let text = format!("2.0.0 goes on as {}", draft.id);
        match self.accept_own(draft, false).await {
            Ok(()) => Ok(Answers::Same(Verdict::Delivered, Reply::new(250, &text))),
            Err(refusal) => Err((Verdict::Transient, refusal.reply)),
        }
    }
}

fn for_now(why: &str) -> (Verdict, Reply) {
    (
        Verdict::Transient,
        Reply::new(451, &format!("4.3.0 KumoMTA internal: smtp_server_message_deferred_inject: {why}")),
    )
}

const QUEUE: &str = "queue";
