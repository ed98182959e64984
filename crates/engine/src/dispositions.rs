//! `log_disposition_NAME`: policy hears what is about to be logged of a message, while the message is at hand.
//!
//! In: a settlement that is about to be noted. Out: the hooks of `kumo.configure_log_disposition_hook` have been told, one
//! after the other, each with a copy of the message that lives as long as its call. The order is as for reports: policy has
//! answered, then the spool forgets. When a crash or the end of the program comes between the two, the message is settled anew
//! at the next start and policy told again; only what was delivered, or is in memory only, waits for policy at the end too.
//! Policy that fails, or does not answer in time, loses its say.

use crate::egress::connection::Guarded;
use crate::egress::lent::draft_for;
use crate::engine::Engine;
use crate::log_hooks::OF_HOOKS;
use crate::requeue::ANSWER_MAX;
use crate::selection::copy_meta;
use crate::settle::{AttemptFacts, kind_of};
use queue::settle::Settlement;
use queue::{Entry, Queued};
use record::RecordType;
use telemetry::lines::is_enabled;

impl Engine {
    /// Whether some hook wants to hear of records of that type.
    pub(crate) fn has_hook_for(&self, kind: RecordType) -> bool {
        self.recorders().tellers.iter().any(|teller| is_enabled(&teller.options.per_record, kind))
    }

    /// Whether hooks are to be told of a settlement.
    pub(crate) fn concerns_hooks(&self, settlement: &Settlement, facts: &AttemptFacts) -> bool {
        settlement.entries.iter().any(|entry| self.has_hook_for(kind_of(entry, facts)))
    }

    /// Tells the hooks of a settlement, all of them within [`ANSWER_MAX`]; false when the program ends before they have
    /// answered, and the settlement is not to take effect.
    pub(crate) async fn tell_hooks(
        &self,
        queued: &Queued,
        settlement: &Settlement,
        queue: &str,
        facts: &AttemptFacts,
    ) -> bool {
        if !self.concerns_hooks(settlement, facts) {
            return true;
        }
        let _question = self.question();
        let told = Guarded(Box::pin(async {
            for entry in &settlement.entries {
                self.tell_of_entry(queued, entry, queue, facts).await;
            }
        }));
        let told = tokio::time::timeout(ANSWER_MAX, told);
        let is_delivered = settlement.entries.iter().any(|entry| entry.kind == RecordType::Delivery);
        let told = match is_delivered || queued.message.is_volatile() {
            true => Some(told.await),
            false => self.stop.unless_requested(told).await,
        };
        if matches!(told, Some(Err(_))) {
            let id = queued.message.id;
            tracing::error!("message {id}: hooks did not answer within {ANSWER_MAX:?}: they have no say");
        }
        told.is_some()
    }

    async fn tell_of_entry(&self, queued: &Queued, entry: &Entry, queue: &str, facts: &AttemptFacts) {
        let kind = kind_of(entry, facts);
        if !self.has_hook_for(kind) {
            return;
        }
        let Some(mut record) = self.entry_record(queued, queue, entry, facts) else { return };
        // What tells of records is no news itself (KumoMTA behaviour).
        if record.reception_protocol.as_deref() == Some(OF_HOOKS) {
            return;
        }
        if let Some(resident) = queued.message.resident.as_deref() {
            self.recorders()
                .logs
                .iter()
                .for_each(|log| copy_meta(&resident.meta, &log.options().meta, &mut record.meta));
        }
        self.classify(&mut record);
        let id = queued.message.id;
        let record = match serde_json::to_value(&record) {
            Ok(record) => record,
            Err(error) => return tracing::error!("message {id}: its record cannot be told: {error}"),
        };
        let recipients: Vec<usize> = entry.recipients.iter().map(|r| usize::from(*r)).collect();
        let _room = self.pressure.room_to_load(u64::from(queued.message.size)).await;
        let tellers = self.recorders().tellers.clone();
        for teller in tellers.iter().filter(|teller| is_enabled(&teller.options.per_record, kind)) {
            let name = &teller.options.name;
            let Some(draft) = draft_for(&queued.message, &recipients) else { return };
            if let Err(error) = self.policy_of(&teller.former).log_disposition(name, draft, record.clone()).await {
                tracing::error!("message {id}: log_disposition_{name}: {error}");
            }
        }
    }
}
