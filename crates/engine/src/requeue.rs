//! What policy says about messages that move or are to wait, `rebind_message` and `requeue_message`, and hears of those
//! that missed their deadline: `deliver_by_missed`.
//!
//! Policy is lent a copy and may change metadata and content; other recipients are refused. After an attempt that failed for
//! the time being, and was noted in spool and log, it may also move the message, which is then due at once, or bounce it.
//! Policy that fails, or does not answer in time, changes nothing. Each question is a task; while many are unanswered no new
//! work is begun.

use crate::egress::connection::Guarded;
use crate::egress::lent::{draft_for, draft_of};
use crate::engine::Engine;
use crate::rebind::{Before, label_of, make_due};
use crate::settle::AttemptFacts;
use clock::Duration;
use message::{Draft, Message};
use policy::{Answer, Event, PolicyError, Requeue};
use queue::schedule::read_label;
use queue::settle::{Settlement, all_pending, apply, deadline_of};
use queue::{Next, Queued, Verdict, Why, xfer};
use record::RecordType;
use smtp_wire::Reply;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many questions are unanswered.
#[derive(Debug, Default)]
pub(crate) struct Questions(AtomicUsize);

/// One of them, until it is dropped.
pub(crate) struct Question(Engine);

impl Questions {
    /// True while nothing is to be begun that may lead to another.
    pub fn are_many(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= QUESTIONS_MAX
    }
}

impl Question {
    fn begin(engine: &Engine) -> Question {
        engine.questions.0.fetch_add(1, Ordering::Relaxed);
        Question(engine.clone())
    }
}

impl Question {
    /// Who asks.
    pub fn engine(&self) -> &Engine {
        &self.0
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        self.0.questions.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Engine {
    /// A message waits for its next attempt, which is counted already; policy hears of it first, where it wants to: why the attempt
    /// failed is in the settlement, or was `told` before.
    pub(crate) fn requeue(&self, queued: Queued, settlement: &Settlement, told: Option<&Reply>, delay: Duration) {
        let failed = settlement.entries.iter().rev().find(|entry| entry.kind == RecordType::TransientFailure);
        let Some(failed) =
            failed.map(|entry| &entry.reply).or(told).filter(|_| self.interest.has(Event::RequeueMessage))
        else {
            return self.with_queue(|q, now| q.retry(now, queued, delay));
        };
        let (question, reply) = (Question::begin(self), failed.clone());
        let seen = self.underway.hold(&queued);
        self.deliveries.spawn(async move {
            let _seen = seen;
            question.0.ask_to_requeue(queued, &reply, delay).await;
        });
    }

    async fn ask_to_requeue(&self, mut queued: Queued, reply: &Reply, delay: Duration) {
        let (draft, before) = (draft_of(&queued.message), Before::of(&queued.message));
        // What another node has is not ours to move.
        let before = before.filter(|before| xfer::handed_over(before.meta()).is_none());
        let (Some(mut draft), Some(before)) = (draft, before) else {
            return self.with_queue(|q, now| q.retry(now, queued, delay));
        };
        draft.attempts = draft.attempts.saturating_sub(1);
        let attempts = draft.attempts;
        let context = vec![Why::LoggedTransientFailure.name()];
        let response = crate::records::response(reply).to_single_line();
        let about = Requeue { response, context, increment_attempts: true, delay: Some(delay) };
        let Some(answer) = self.answer_in_time(self.policy.requeue_message(draft, about)).await else {
            return self.with_queue(|q, now| q.retry(now, queued, delay));
        };
        let changed = match answer {
            Ok(draft) => {
                if draft.attempts != attempts {
                    queued.message.attempts = draft.attempts;
                }
                take_changes(&mut queued.message, draft)
            }
            Err(PolicyError::Reject { reply, .. }) => return self.settle_rejected(queued, &reply),
            Err(error) => Err(error.to_string()),
        };
        let written = match changed {
            Ok(()) => self.write_changes(&mut queued, &before, delay).await,
            Err(error) => Err(error),
        };
        match written {
            Ok(Some(label)) => self.place_anew(queued, &label),
            Ok(None) => self.with_queue(|q, now| q.retry(now, queued, delay)),
            Err(error) => {
                tracing::error!(
                    "message {} waits as if requeue_message had not been there: {error}",
                    queued.message.id
                );
                before.put_back(&mut queued.message);
                self.with_queue(|q, now| q.retry(now, queued, delay));
            }
        }
    }

    /// Has the spool write what was changed; the label of the queue the message goes to, where that is another.
    async fn write_changes(
        &self,
        queued: &mut Queued,
        before: &Before,
        delay: Duration,
    ) -> Result<Option<String>, String> {
        let from = self.with_queue(|q, _| q.queue_name(queued.queue));
        let label = label_of(&queued.message)?;
        let moves = self.with_queue(|q, _| q.is_elsewhere(queued.queue, read_label(&label)));
        let now = self.clock.wall();
        match moves {
            true => make_due(&mut queued.message, now),
            // What is written holds after a restart.
            false => queued.message.due = now + delay,
        }
        let reason = queued.message.resident.as_mut().and_then(|resident| xfer::take_reason(&mut resident.meta));
        self.write_anew(&mut queued.message, before).await.map_err(|error| error.to_string())?;
        if let Some(reason) = reason.filter(|_| moves) {
            self.log_rebound(queued, RecordType::AdminRebind, [&from, &label], &reason);
        }
        Ok(moves.then_some(label))
    }

    /// Bounces what policy rejects, whatever the code (KumoMTA behaviour).
    fn settle_rejected(&self, mut queued: Queued, reply: &Reply) {
        let outcomes = all_pending(&queued.message, Verdict::Permanent, reply);
        let (entries, newly_settled) = apply(&mut queued.message, outcomes);
        let settlement = Settlement { entries, newly_settled, next: Next::Done };
        self.settle_as(queued, settlement, &AttemptFacts::default());
    }

    /// Has policy change a message that an order moves.
    pub(crate) async fn ask_to_rebind(
        &self,
        message: &mut Message,
        data: &BTreeMap<String, String>,
    ) -> Result<(), String> {
        let draft = draft_of(message).ok_or("it is not in memory")?;
        match self.answer_in_time(self.policy.rebind_message(draft, data.clone())).await {
            Some(Ok(draft)) => {
                message.attempts = draft.attempts;
                take_changes(message, draft)
            }
            Some(Err(error)) => Err(error.to_string()),
            None => Err("rebind_message gave no answer".to_owned()),
        }
    }

    /// What policy is told, when a settlement ends a message for its deadline and policy wants to hear of it.
    pub(crate) fn missed_deadline(&self, message: &Message, settlement: &Settlement) -> Option<Draft> {
        let entry = settlement.entries.iter().find(|entry| entry.kind == RecordType::Expiration)?;
        let hears = self.interest.has(Event::DeliverByMissed) && deadline_of(message).is_some();
        let recipients: Vec<usize> = entry.recipients.iter().map(|recipient| usize::from(*recipient)).collect();
        hears.then(|| draft_for(message, &recipients)).flatten()
    }

    /// A question to policy, from now on until it is dropped.
    pub(crate) fn question(&self) -> Question {
        Question::begin(self)
    }

    /// Policy hears of a missed deadline; whatever it does, the message ends.
    pub(crate) async fn tell_missed(&self, draft: Draft) {
        let (_question, id) = (self.question(), draft.id);
        if let Some(Err(error)) = self.answer_in_time(self.policy.deliver_by_missed(draft)).await {
            tracing::error!("message {id}: deliver_by_missed: {error}");
        }
    }

    /// What policy answers; `None` when it does not in time, panics, or the program ends.
    pub(crate) async fn answer_in_time<T>(&self, answer: Answer<'_, T>) -> Option<Result<T, PolicyError>> {
        let answer = tokio::time::timeout(ANSWER_MAX, Guarded(Box::pin(answer)));
        match self.stop.unless_requested(answer).await? {
            Ok(answer) => answer,
            Err(_) => {
                tracing::error!(
                    "policy did not answer about a message that moves, waits or ends within {ANSWER_MAX:?}"
                );
                None
            }
        }
    }
}

/// Gives a message what policy made of its copy.
pub(crate) fn take_changes(message: &mut Message, mut draft: Draft) -> Result<(), String> {
    let pending: Vec<usize> = message.pending().map(usize::from).collect();
    let resident = message.resident.as_deref_mut().ok_or("it is not in memory")?;
    if draft.envelope.recipients != resident.envelope.part(&pending).recipients {
        return Err("its recipients were changed: expected those it had".to_owned());
    }
    let (head, body) = (draft.head(), draft.body());
    if head != resident.head || body != resident.body {
        message.size = u32::try_from(head.len() + body.len()).unwrap_or(u32::MAX);
        (resident.head, resident.body) = (head.into(), body);
    }
    resident.envelope.sender = draft.envelope.sender;
    resident.meta = draft.meta;
    Ok(())
}

/// Unanswered questions up to which new work is begun.
const QUESTIONS_MAX: usize = 512;
/// How long policy may take for an answer.
pub(crate) const ANSWER_MAX: std::time::Duration = std::time::Duration::from_secs(60);
