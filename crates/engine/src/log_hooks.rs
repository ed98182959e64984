//! Log hooks: records that become messages of their own, for who wants to hear of them (`kumo.configure_log_hook`).
//!
//! In: each record that is logged. Out: for each hook that wants its type, a message with the record as content, which policy
//! sends on its way or drops (`should_enqueue_log_record`). This happens behind: whoever logs does not wait, records keep their
//! order, and many become durable in one commit. With `back_pressure` records not yet kept, no new mail is taken and no delivery
//! begun; refusals to clients, which nothing holds back, are not offered to a full hook. A clean end works off what waits; a kill
//! leaves it to the next start, as far as the hook's file has room ([`HookBacklog`]), which offers it first, some perhaps once more.
//! Policy that fails or does not answer loses the record, and that is said; while the spool refuses, the hook waits. What tells of
//! records is no news itself: records about such messages are not offered (KumoMTA behaviour).

use crate::egress::connection::Guarded;
use crate::engine::Engine;
use crate::hook_backlog::{HookBacklog, Waiting};
use crate::ingress::accept::Refusal;
use crate::recorders::Former;
use crate::requeue::ANSWER_MAX;
use crate::selection::{Subject, select};
use config::LogHook;
use futures_util::future::join_all;
use message::{Draft, Envelope, Meta, TlsDemand};
use policy::{Event, Interest};
use record::{LogRecord, RecordType};
use smtp_wire::{Mailbox, Reply, ReversePath};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use telemetry::lines::is_enabled;
use telemetry::{LeftLines, Lines, TemplateError};
use tokio::time::{sleep, timeout};

/// A hook, and what waits for it.
pub struct RecordHook {
    options: LogHook,
    lines: Lines,
    waiting: HookBacklog,
    /// Whom it asks once it leaves.
    pub(crate) former: Former,
}

impl RecordHook {
    /// A hook of that configuration.
    ///
    /// # Errors
    /// A template of `per_record` does not read.
    pub fn new(options: LogHook) -> Result<Arc<RecordHook>, TemplateError> {
        let (lines, waiting) =
            (Lines::of(&options.per_record)?, HookBacklog::new(&options.name, options.back_pressure));
        Ok(Arc::new(RecordHook { options, lines, waiting, former: Former::new() }))
    }

    /// What it was made of.
    pub(crate) fn options(&self) -> &LogHook {
        &self.options
    }

    /// Whether its records are where a kill leaves them.
    pub(crate) fn keeps(&self) -> bool {
        self.waiting.is_open()
    }

    /// Records that wait or are in hand.
    pub(crate) fn count(&self) -> usize {
        self.waiting.len()
    }

    /// Nothing more will come.
    pub(crate) fn close(&self) {
        self.waiting.close();
    }

    /// True while new work is to wait for it.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.is_full()
    }

    /// The message of a record.
    fn draft(&self, engine: &Engine, record: LogRecord) -> Draft {
        let mut content = Vec::new();
        self.lines.write(&record, &mut content);
        let recipients: Vec<Mailbox> = record.recipient.0.iter().filter_map(|r| Mailbox::parse(r).ok()).collect();
        let sender = ReversePath(Mailbox::parse(&record.sender).ok());
        // A refusal may concern nobody, but a message is for somebody.
        let nobody = recipients.is_empty().then(|| Mailbox::parse(&format!("postmaster@{}", engine.settings.hostname)));
        let recipients = recipients.into_iter().chain(nobody.and_then(Result::ok)).collect();
        let envelope = Envelope { sender, recipients, dsn: None, tls: TlsDemand::Usual };
        let mut meta = Meta::new();
        let own = record.meta.iter().filter(|(name, _)| !OF_ANOTHER.contains(&name.as_str()));
        own.for_each(|(name, value)| meta.set(name.clone(), value.clone()));
        meta.set("reception_protocol", OF_HOOKS);
        match serde_json::to_value(&record) {
            Ok(record) => meta.set("log_record", record),
            Err(error) => tracing::error!("log hook {}: a record cannot be told: {error}", self.options.name),
        }
        Draft::new(engine.next_id(), envelope, meta, content.into(), engine.clock.wall())
    }
}

/// Has hooks keep their records where a kill leaves them, and begin with those that it left; what no hook of these wants is returned.
pub(crate) fn open_hooks(hooks: &[Arc<RecordHook>], interest: Interest, dir: &Path) -> Vec<LeftLines> {
    let mut left = LeftLines::all_in(dir).unwrap_or_else(|error| {
        tracing::error!("{}: {error}: what killed processes left to log hooks waits", dir.display());
        Vec::new()
    });
    // Where nobody is asked about records none is offered, and what is left stays for one that is.
    let is_asked = interest.has(Event::ShouldEnqueueLogRecord);
    for hook in hooks.iter().filter(|hook| is_asked && !hook.keeps()) {
        hook.waiting.open(dir, left.extract_if(.., |lines| lines.name() == hook.options.name).collect());
    }
    left
}

/// Says what waits for hooks that are not configured.
pub(crate) fn say_unclaimed(left: &[LeftLines]) {
    for lines in left {
        let (count, name, path) = (lines.count(), lines.name(), lines.path().display());
        tracing::warn!(
            "{count} records of a killed process wait for log hook {name}, which is not configured, or nothing of policy is asked by it: they are offered to it once it is; to forget them, remove {path}"
        );
    }
}

impl Engine {
    /// Has a hook work off its records.
    pub(crate) fn start_hook(&self, hook: Arc<RecordHook>) {
        let engine = self.clone();
        // A panic costs the records in hand, not those to come.
        self.hook_tasks.spawn(async move {
            while Guarded(Box::pin(engine.work_off(&hook))).await.is_none() {}
            hook.waiting.end();
            engine.hook_is_gone(&hook);
        });
    }

    /// Whether records go to hooks: where nobody sends them on, none is offered.
    pub(crate) fn offers_records(&self) -> bool {
        self.offers_records_to(&self.recorders().hooks)
    }

    /// Whether records go to any of these.
    pub(crate) fn offers_records_to(&self, hooks: &[Arc<RecordHook>]) -> bool {
        !hooks.is_empty() && self.interest.has(Event::ShouldEnqueueLogRecord)
    }

    /// Hands a record to every hook that wants it.
    pub(crate) fn offer_to_hooks(&self, hooks: &[Arc<RecordHook>], record: LogRecord, subject: Subject<'_>) {
        if !self.offers_records_to(hooks) || record.reception_protocol.as_deref() == Some(OF_HOOKS) {
            return;
        }
        for hook in hooks.iter().filter(|hook| is_enabled(&hook.options.per_record, record.kind)) {
            // Refusals are made as fast as clients ask for them: nobody waits for them, so they are what gives way.
            if record.kind == RecordType::Rejection && hook.is_full() {
                self.count_full(hook);
                continue;
            }
            let mut record = record.clone();
            select(&hook.options.meta, &hook.options.headers, subject, &mut record);
            if hook.waiting.push(record) {
                self.count_full(hook);
            }
        }
    }

    fn count_full(&self, hook: &RecordHook) {
        self.metrics.full_logs.hook(&hook.options.name);
    }

    /// Works off what waits for filters and for hooks of both kinds, until `end`; nothing more will come.
    pub(crate) async fn drain_hooks(&self, end: tokio::time::Instant) {
        self.all_filters().iter().for_each(|filter| filter.close());
        self.all_hooks().iter().for_each(|hook| hook.close());
        self.all_tellers().iter().for_each(|teller| teller.close());
        if tokio::time::timeout_at(end, self.hook_tasks.drain()).await.is_err() {
            for hook in self.all_hooks().iter().filter(|hook| hook.count() > 0) {
                // They are being worked off still.
                let (name, count) = (&hook.options.name, hook.count());
                let lost = hook.waiting.unkept().min(count);
                let left = count - lost;
                if left > 0 {
                    tracing::warn!("log hook {name}: {left} records are left to the next start");
                }
                if lost > 0 {
                    tracing::error!("log hook {name}: {lost} records, which its journal had no room for, are lost");
                }
            }
            self.say_unasked();
            self.say_untold();
            self.hook_tasks.abort().await;
        }
    }

    async fn work_off(&self, hook: &RecordHook) {
        loop {
            let records = hook.waiting.take(BATCH).await;
            if records.is_empty() {
                return;
            }
            let _in_hand = hook.waiting.in_hand(records.len());
            let (records, kept): (Vec<_>, Vec<_>) =
                records.into_iter().map(|Waiting { record, kept }| (record, kept)).unzip();
            let offers = records.into_iter().map(|record| self.offer(hook, record));
            let wanted: Vec<Draft> = join_all(offers).await.into_iter().flatten().collect();
            self.keep_offered(hook, wanted).await;
            hook.waiting.done(kept);
        }
    }

    /// Asks policy about a record; the message that it wants made of it.
    async fn offer(&self, hook: &RecordHook, record: LogRecord) -> Option<Draft> {
        let (name, kind, id) = (&hook.options.name, record.kind, record.id.clone());
        let draft = hook.draft(self, record);
        let answer = self.policy_of(&hook.former).should_enqueue_log_record(draft, name.clone());
        match timeout(ANSWER_MAX, Guarded(Box::pin(answer))).await {
            Ok(Some(Ok(wanted))) => wanted,
            Ok(None) => None,
            Ok(Some(Err(error))) => {
                tracing::error!("log hook {name}: the {kind} record of {id} is dropped: {error}");
                None
            }
            Err(_) => {
                tracing::error!("log hook {name}: the {kind} record of {id} is dropped: no answer in {ANSWER_MAX:?}");
                None
            }
        }
    }

    /// Takes messages of records into their queues, as often as it takes; what policy says nothing sound about is dropped.
    async fn keep_offered(&self, hook: &RecordHook, mut wanted: Vec<Draft>) {
        let mut refused = false;
        while !wanted.is_empty() {
            let mut sound = Vec::with_capacity(wanted.len());
            let mut prepared = Vec::with_capacity(wanted.len());
            for draft in wanted {
                let ready = Guarded(Box::pin(self.prepare_own(draft.clone(), hook.options.deferred_spool)));
                let why = match timeout(ANSWER_MAX, ready).await {
                    Ok(Some(Ok(ready))) => {
                        prepared.push(ready);
                        sound.push(draft);
                        continue;
                    }
                    Ok(Some(Err(Refusal { reply, .. }))) => reply.to_single_line(),
                    Ok(None) => "policy panicked".to_owned(),
                    Err(_) => format!("its queue has no configuration within {ANSWER_MAX:?}"),
                };
                tracing::error!("log hook {}: a record is dropped: {why}", hook.options.name);
            }
            match self.commit(prepared).await {
                Ok(_) => return,
                Err(Refusal { reply, .. }) if reply.is_permanent() => return self.keep_each(hook, sound, &reply).await,
                Err(Refusal { reply, .. }) if !std::mem::replace(&mut refused, true) => {
                    tracing::error!("log hook {}: records wait, trying again each second: {reply}", hook.options.name);
                }
                Err(_) => {}
            }
            sleep(PAUSE).await;
            wanted = sound;
        }
    }

    /// One of several cannot be kept, whenever it is tried: the others are, each by itself.
    async fn keep_each(&self, hook: &RecordHook, mut wanted: Vec<Draft>, reply: &Reply) {
        if wanted.len() > 1 {
            for draft in wanted {
                Box::pin(self.keep_offered(hook, vec![draft])).await;
            }
        } else if let Some(draft) = wanted.pop() {
            tracing::error!("log hook {}: the record {} is dropped: {reply}", hook.options.name, draft.id);
        }
    }
}

/// Reception protocol of messages that hooks make of records.
pub(crate) const OF_HOOKS: &str = "LogRecord";
/// Metadata that says where and when another message goes.
const OF_ANOTHER: [&str; 3] = ["queue", "scheduling", "xfer_queue_info"];
/// Records that policy is asked about at once, and that share a commit.
const BATCH: usize = 64;
/// Pause before messages that were not kept are tried again.
const PAUSE: Duration = Duration::from_secs(1);
