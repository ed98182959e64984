//! What policy makes of a server's refusals: `smtp_client_rewrite_delivery_status`.
//!
//! In: the outcomes of an attempt. Out: the same, with other statuses where policy says so, and the log tells of it. Policy that
//! fails or does not answer in time changes nothing. Until the answer the attempt is not settled; a kill then repeats it.

use crate::egress::carriage::parts_of;
use crate::engine::Engine;
use crate::records::response;
use crate::settle::AttemptFacts;
use policy::Event;
use queue::{Outcome, QueueName, Queued, Verdict};
use smtp_wire::Reply;

impl Engine {
    /// Ends one attempt of a message, once policy has said what refusals mean.
    pub(crate) fn judge_attempt(&self, queued: Queued, outcomes: Vec<Outcome>, facts: &AttemptFacts) {
        if !self.interest.has(Event::RewriteDeliveryStatus) || outcomes.iter().all(|outcome| !is_refusal(outcome)) {
            return self.settle_attempt(queued, outcomes, facts);
        }
        let (question, facts) = (self.question(), facts.clone());
        self.deliveries.spawn(async move {
            let engine = question.engine();
            let outcomes = engine.rewrite(&queued, outcomes).await;
            engine.settle_attempt(queued, outcomes, &facts);
        });
    }

    /// Asks once for each different reply.
    async fn rewrite(&self, queued: &Queued, mut outcomes: Vec<Outcome>) -> Vec<Outcome> {
        let name = self.with_queue(|q, _| q.queue_name(queued.queue));
        let mut asked: Vec<(Reply, Option<u16>)> = Vec::new();
        for outcome in outcomes.iter_mut().filter(|outcome| is_refusal(outcome)) {
            let known = asked.iter().find(|(reply, _)| *reply == outcome.reply).map(|(_, status)| *status);
            let status = match known {
                Some(status) => status,
                None => {
                    let status = self.ask_for_status(&outcome.reply, &name).await;
                    asked.push((outcome.reply.clone(), status));
                    status
                }
            };
            if let Some(status) = status {
                apply(outcome, status);
            }
        }
        outcomes
    }

    async fn ask_for_status(&self, reply: &Reply, queue: &str) -> Option<u16> {
        let parts = parts_of(QueueName::parse(queue));
        let said = response(reply).to_single_line();
        match self.answer_in_time(self.policy.smtp_client_rewrite_delivery_status(said, parts)).await? {
            Ok(status) => status,
            Err(error) => {
                tracing::error!("queue {queue}: {error}");
                None
            }
        }
    }
}

fn is_refusal(outcome: &Outcome) -> bool {
    matches!(outcome.verdict, Verdict::Transient | Verdict::Permanent)
}

/// Another status, and what that means for the recipient.
fn apply(outcome: &mut Outcome, status: u16) {
    let before = outcome.reply.code;
    if status == before {
        return;
    }
    outcome.reply.code = status;
    let rewritten = format!(" (kumomta: status was rewritten from {before} -> {status})");
    outcome.reply.text.push_str(&rewritten);
    outcome.verdict = match smtp_client::verdict(&outcome.reply) {
        smtp_client::Verdict::Delivered => Verdict::Delivered,
        smtp_client::Verdict::Permanent => Verdict::Permanent,
        _ => Verdict::Transient,
    };
}
