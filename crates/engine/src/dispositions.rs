//! `log_disposition_NAME`: policy hears what is about to be logged of a message, while the message is at hand.
//!
//! In: a settlement that is about to be noted. Out: what the hooks of `kumo.configure_log_disposition_hook` are to be told;
//! and the telling. The order is as for reports: policy has answered, then the spool forgets. A crash between the two
//! repeats what policy does, never loses it. A policy that fails or does not answer in time loses its say.

use crate::egress::lent::draft_for;
use crate::engine::Engine;
use crate::records::is_enabled;
use crate::settle::AttemptFacts;
use message::Draft;
use queue::Queued;
use queue::settle::Settlement;
use record::LogRecord;

/// What one hook is told.
pub(crate) struct Disposition {
    hook: String,
    draft: Draft,
    record: LogRecord,
}

impl Engine {
    /// What the hooks are to be told of a settlement.
    pub(crate) fn dispositions(
        &self,
        queued: &Queued,
        settlement: &Settlement,
        queue: &str,
        facts: &AttemptFacts,
    ) -> Vec<Disposition> {
        let mut told = Vec::new();
        if self.disposition_hooks.is_empty() {
            return told;
        }
        for entry in &settlement.entries {
            let Some(mut record) = self.entry_record(queued, queue, entry, facts) else { continue };
            self.classify(&mut record);
            // What tells of records is no news itself (KumoMTA behaviour).
            if record.reception_protocol.as_deref() == Some(OF_HOOKS) {
                continue;
            }
            let recipients: Vec<usize> = entry.recipients.iter().map(|r| usize::from(*r)).collect();
            for hook in self.disposition_hooks.iter().filter(|hook| is_enabled(&hook.per_record, record.kind)) {
                let Some(draft) = draft_for(&queued.message, &recipients) else { continue };
                told.push(Disposition { hook: hook.name.clone(), draft, record: record.clone() });
            }
        }
        told
    }

    /// Tells them, one after the other.
    pub(crate) async fn tell_dispositions(&self, dispositions: Vec<Disposition>) {
        for Disposition { hook, draft, record } in dispositions {
            let id = draft.id;
            let record = match serde_json::to_value(&record) {
                Ok(record) => record,
                Err(error) => {
                    tracing::error!("message {id}: log_disposition_{hook}: {error}");
                    continue;
                }
            };
            let _question = self.question();
            if let Some(Err(error)) = self.answer_in_time(self.policy.log_disposition(&hook, draft, record)).await {
                tracing::error!("message {id}: log_disposition_{hook}: {error}");
            }
        }
    }
}

/// Reception protocol of messages that hooks make of records.
const OF_HOOKS: &str = "LogRecord";
