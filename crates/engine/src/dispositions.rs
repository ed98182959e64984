//! `log_disposition_NAME`: policy hears what is about to be logged of a message, while the message is at hand.
//!
//! In: a settlement that is about to be noted. Out: the hooks of `kumo.configure_log_disposition_hook` have been told, one
//! after the other, each with a copy of the message that lives as long as its call. The order is as for reports: policy has
//! answered, then the spool forgets. When a crash or the end of the program comes between the two, the message is settled anew
//! at the next start and policy told again; only what was delivered, or is in memory only, waits for policy at the end too.
//! Policy that fails, or does not answer in time, loses its say.
//!
//! Records that end nothing (Reception, Delayed, AdminRebind, XferIn, OOB, Feedback, and a failure after which the next host is
//! tried at once) are told behind, in order, with a copy of the message as it was: nobody waits for policy, and a crash loses
//! what was not told yet. What is told of an end waits for these for [`ORDER_MAX`]: a
//! hook that is not further behind hears of a message in order. Records about no message, which are refusals, are not told.

use crate::egress::connection::Guarded;
use crate::egress::lent::{draft_for, draft_of};
use crate::engine::Engine;
use crate::held_records::HeldRecords;
use crate::log_hooks::OF_HOOKS;
use crate::recorders::Former;
use crate::requeue::ANSWER_MAX;
use crate::selection::{Subject, copy_meta};
use crate::settle::{AttemptFacts, kind_of};
use config::LogDispositionHook;
use message::{Draft, Meta};
use queue::settle::Settlement;
use queue::{Entry, Queued};
use record::{LogRecord, RecordType};
use std::sync::Arc;
use telemetry::lines::is_enabled;

/// A disposition hook.
pub(crate) struct Teller {
    /// Its name, and what it wants to hear of.
    pub options: LogDispositionHook,
    /// What it is to hear behind.
    behind: HeldRecords,
    /// Whom it tells once it leaves.
    pub former: Former,
}

impl Teller {
    /// A hook of that configuration.
    pub fn new(options: LogDispositionHook) -> Arc<Teller> {
        Arc::new(Teller { options, behind: HeldRecords::new(BEHIND_MAX), former: Former::new() })
    }

    fn wants(&self, kind: RecordType) -> bool {
        is_enabled(&self.options.per_record, kind)
    }

    /// True while no new work is to be begun.
    pub fn is_full(&self) -> bool {
        self.behind.is_full()
    }

    /// Nothing more will come behind.
    pub fn close(&self) {
        self.behind.close();
    }
}

impl Engine {
    /// Has a hook hear what is told behind.
    pub(crate) fn start_teller(&self, teller: Arc<Teller>) {
        let engine = self.clone();
        // A panic costs the record in hand, not those to come.
        self.hook_tasks.spawn(async move {
            while Guarded(Box::pin(engine.tell_in_order(&teller))).await.is_none() {}
            engine.teller_is_gone(&teller);
        });
    }

    async fn tell_in_order(&self, teller: &Teller) {
        while let Some((record, draft, _in_hand)) = teller.behind.take().await {
            let id = draft.id;
            let Some(record) = told(&record) else { continue };
            if tokio::time::timeout(ANSWER_MAX, self.tell(teller, draft, record)).await.is_err() {
                tracing::error!("message {id}: hook {} did not answer within {ANSWER_MAX:?}", teller.options.name);
            }
        }
    }

    /// Has the hooks that want a record hear of it behind.
    pub(crate) fn tell_behind(&self, record: &LogRecord, subject: Subject<'_>) {
        let recorders = self.recorders();
        if recorders.tellers.is_empty() || record.reception_protocol.as_deref() == Some(OF_HOOKS) {
            return;
        }
        for teller in recorders.tellers.iter().filter(|teller| teller.wants(record.kind)) {
            let Some(draft) = subject.message.and_then(draft_of) else { return };
            let mut record = record.clone();
            self.copy_logged_meta(subject.meta, &mut record);
            teller.behind.push(record, draft);
        }
    }

    /// Says what was not told in time.
    pub(crate) fn say_untold(&self) {
        for teller in self.all_tellers().iter().filter(|teller| teller.behind.count() > 0) {
            let (name, count) = (&teller.options.name, teller.behind.count());
            tracing::error!("log_disposition_{name}: {count} records were not told");
        }
    }

    /// Whether some hook wants to hear of records of that type.
    pub(crate) fn has_hook_for(&self, kind: RecordType) -> bool {
        self.recorders().tellers.iter().any(|teller| teller.wants(kind))
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
            // What no spool has must get there before the program ends: then hooks have no say.
            true => tokio::select! {
                told = told => Some(told),
                () = self.stop.over_for(queued.message.is_volatile().then_some(VOLATILE_PATIENCE)) => return true,
            },
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
            self.copy_logged_meta(&resident.meta, &mut record);
        }
        self.classify(&mut record);
        let Some(record) = told(&record) else { return };
        let recipients: Vec<usize> = entry.recipients.iter().map(|r| usize::from(*r)).collect();
        let tellers = self.recorders().tellers.clone();
        for teller in tellers.iter().filter(|teller| teller.wants(kind)) {
            // What it is to hear of this message before comes first, unless the hook is far behind or the program ends: then there
            // is no time for order.
            let before = tokio::time::timeout(ORDER_MAX, teller.behind.pass());
            let _: Option<Result<(), _>> = self.stop.unless_requested(before).await;
            // Not waited for: what is in hand here is what memory is short of.
            let octets = u64::from(queued.message.size);
            let _room = self.pressure.room_to_load_now(octets).unwrap_or_else(|| self.pressure.room_for(octets));
            let Some(draft) = draft_for(&queued.message, &recipients) else { return };
            self.tell(teller, draft, record.clone()).await;
        }
    }

    async fn tell(&self, teller: &Teller, draft: Draft, record: serde_json::Value) {
        let (id, name) = (draft.id, &teller.options.name);
        if let Err(error) = self.policy_of(&teller.former).log_disposition(name, draft, record).await {
            tracing::error!("message {id}: log_disposition_{name}: {error}");
        }
    }

    /// What any logger keeps of a message's metadata.
    fn copy_logged_meta(&self, meta: &Meta, record: &mut LogRecord) {
        self.recorders().logs.iter().for_each(|log| copy_meta(meta, &log.options().meta, &mut record.meta));
    }
}

/// A record as policy has it.
fn told(record: &LogRecord) -> Option<serde_json::Value> {
    match serde_json::to_value(record) {
        Ok(record) => Some(record),
        Err(error) => {
            tracing::error!("message {}: its record cannot be told: {error}", record.id);
            None
        }
    }
}

/// How long what a hook hears of an end waits for what it has not heard yet.
const ORDER_MAX: std::time::Duration = std::time::Duration::from_secs(1);
/// Records that may wait for one hook to hear of them; then no new work is begun.
const BEHIND_MAX: usize = 16_384;
/// How long hooks may go on, once the program ends, about what no spool has.
const VOLATILE_PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);
