//! What policy makes of a server's refusals: `smtp_client_rewrite_delivery_status`.
//!
//! In: the outcomes of an attempt. Out: the same, with other statuses where policy says so, and the log tells of it. Policy that
//! fails or does not answer in time changes nothing. Until the answers, which have [`ANSWER_MAX`] together, the attempt is not
//! settled: a kill then repeats it for those that were refused; who has the message is marked before.

use crate::egress::carriage::parts_of;
use crate::engine::Engine;
use crate::records::response;
use crate::requeue::ANSWER_MAX;
use crate::settle::AttemptFacts;
use queue::{Outcome, QueueName, Queued, Verdict};
use smtp_wire::Reply;
use spool::Mark;

impl Engine {
    /// Ends one attempt of a message, once policy has said what it means that the server refused these recipients; none where
    /// policy has no say.
    pub(crate) fn judge_attempt(
        &self,
        queued: Queued,
        outcomes: Vec<Outcome>,
        refused: Vec<u16>,
        facts: &AttemptFacts,
    ) {
        if refused.is_empty() {
            return self.settle_attempt(queued, outcomes, facts);
        }
        self.mark_delivered(&queued, &outcomes);
        let (question, facts) = (self.question(), facts.clone());
        let seen = self.underway.hold(&queued);
        self.deliveries.spawn(async move {
            let _seen = seen;
            let engine = question.engine();
            let outcomes = engine.rewrite(&queued, outcomes, &refused).await;
            engine.settle_attempt(queued, outcomes, &facts);
        });
    }

    /// The spool knows who has the message before policy takes its time. What no spool has yet is left to the settlement.
    fn mark_delivered(&self, queued: &Queued, outcomes: &[Outcome]) {
        let delivered = outcomes.iter().filter(|outcome| outcome.verdict == Verdict::Delivered);
        let recipients: Vec<u32> = delivered.map(|outcome| u32::from(outcome.recipient)).collect();
        if !recipients.is_empty() && !queued.message.is_volatile() {
            self.spool.mark(Mark::RecipientsDone { id: queued.message.id, recipients });
        }
    }

    /// Asks once for each different reply, until time is over.
    async fn rewrite(&self, queued: &Queued, mut outcomes: Vec<Outcome>, refused: &[u16]) -> Vec<Outcome> {
        let name = self.with_queue(|q, _| q.queue_name(queued.queue));
        let until = tokio::time::Instant::now() + ANSWER_MAX;
        let mut asked: Vec<(Reply, Option<u16>)> = Vec::new();
        for outcome in outcomes.iter_mut().filter(|outcome| refused.contains(&outcome.recipient)) {
            let known = asked.iter().find(|(reply, _)| *reply == outcome.reply).map(|(_, status)| *status);
            let status = match known {
                Some(status) => status,
                None => {
                    let answer = tokio::time::timeout_at(until, self.ask_for_status(&outcome.reply, &name));
                    let Ok(status) = answer.await else {
                        tracing::error!(
                            "queue {name}: smtp_client_rewrite_delivery_status took longer than {ANSWER_MAX:?}"
                        );
                        return outcomes;
                    };
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

/// Another status, and what that means for the recipient. The enhanced code stays, of whatever class: bounces are classified by it
/// (KumoMTA behaviour).
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
