//! The one way out: carries out what `queue::settle` decided.
//!
//! For every attempt, and for messages that could not be tried: log, then mark in the spool,
//! then hand the message back to the queue or let it go. A kill between attempt and mark
//! repeats the delivery, so nothing is waited for in between; a kill between record and mark repeats both, and one
//! before the record loses neither: what is marked is logged (loggers with a journal keep their last lines where a kill does not reach).
//! An exception are recipients that have the message while policy is asked about others ([`crate::rewrite_status`]), or while a
//! report on others waits to be accepted.

use crate::engine::Engine;
use crate::records;
use crate::refusals::Refusal;
use crate::selection::Subject;
use clock::WallTime;
use config::QueueConfig;
use message::Message;
use net::TlsFacts;
use queue::settle::{Settlement, all_pending, apply, bounce, expire, settle};
use queue::xfer::{self, handed_over};
use queue::{Entry, Leg, Next, Order, Outcome, Queued, Verdict};
use record::{LogRecord, PeerAddress, RecordType, SourceAddress};
use smtp_wire::Reply;
use spool::Mark;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use telemetry::Tally;

/// What records say about the connection an attempt was made on.
#[derive(Clone, Debug, Default)]
pub(crate) struct AttemptFacts {
    pub site: Arc<str>,
    pub pool: Option<Arc<str>>,
    pub source: Option<Arc<str>>,
    pub peer: Option<PeerAddress>,
    pub source_address: Option<SourceAddress>,
    pub tls: Option<TlsFacts>,
    pub provider: Option<Arc<str>>,
    pub session_id: Option<Arc<str>>,
    pub counts: Option<[Arc<Tally>; 3]>,
    pub handover: Handover,
    /// As records name it; `None` where nobody was spoken to.
    pub delivery_protocol: Option<&'static str>,
    /// Between attempts, instead of the queue's.
    pub retry_interval: Option<Duration>,
    /// Why the attempt failed, where that is in the log already.
    pub told: Option<Reply>,
}

/// What a delivery on a connection means to the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Handover {
    /// To the next server, which knows nothing of DSN.
    #[default]
    Relay,
    /// To the next server, with the sender's wishes.
    RelayWithDsn,
    /// To the mailbox (LMTP).
    Final,
    /// To another node of the cluster, which has all of our duties now.
    Xfer,
}

/// Whether disposition hooks have heard of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// The message was kept until they had.
    Already,
    /// They hear of it behind: the message stays.
    NotYet,
}

/// Who has the message, but for those that a report is `about`.
fn delivered(settlement: &Settlement, about: &[u16]) -> Vec<Entry> {
    let delivered = settlement.entries.iter().filter(|entry| entry.kind == RecordType::Delivery);
    let without = |entry: &Entry| {
        let recipients = entry.recipients.iter().copied().filter(|one| !about.contains(one)).collect();
        Entry { recipients, ..entry.clone() }
    };
    delivered.map(without).filter(|entry| !entry.recipients.is_empty()).collect()
}

impl Engine {
    /// Notes what a host did to a message that goes on to the next at once, as part of the same attempt; `None` when
    /// nobody is left to deliver to.
    pub(crate) fn note_failure(
        &self,
        mut queued: Queued,
        outcomes: Vec<Outcome>,
        facts: &AttemptFacts,
    ) -> Option<Queued> {
        let name = self.ask_queue(|q| q.queue_name(queued.queue));
        let (entries, newly_settled) = apply(&mut queued.message, outcomes);
        let id = queued.message.id;
        let is_done = queued.message.is_settled();
        entries.iter().for_each(|entry| self.log_entry(&queued, &name, entry, facts, Told::NotYet));
        if !queued.message.is_volatile() {
            let recipients = || newly_settled.iter().map(|i| u32::from(*i)).collect();
            match is_done {
                true => self.spool.mark(Mark::Removed { id }),
                false if !newly_settled.is_empty() => {
                    self.spool.mark(Mark::RecipientsDone { id, recipients: recipients() })
                }
                false => {}
            }
        }
        if is_done {
            self.with_queue(|q, now| q.forget(now.mono, &queued));
            return None;
        }
        Some(queued)
    }

    /// Ends one attempt of a message: it is done with, or waits for the next.
    pub(crate) fn settle_attempt(&self, mut queued: Queued, outcomes: Vec<Outcome>, facts: &AttemptFacts) {
        let (config, name, random) =
            self.ask_queue(|q| (q.config(queued.queue).unwrap_or_default(), q.queue_name(queued.queue), q.random()));
        let config = with_interval(config, facts.retry_interval);
        let now = self.clock.now();
        let settlement = settle(&mut queued.message, outcomes, &config, now, random);
        self.report_and_conclude(queued, settlement, &config, name, facts);
    }

    /// Tells policy, and the sender where his queue does so, what they want to hear; then the settlement takes effect.
    fn report_and_conclude(
        &self,
        queued: Queued,
        settlement: Settlement,
        config: &QueueConfig,
        name: Arc<str>,
        facts: &AttemptFacts,
    ) {
        let report = self.report_on(&queued.message, &settlement, config, facts);
        let missed = self.missed_deadline(&queued.message, &settlement);
        if report.is_none() && missed.is_none() && !self.concerns_hooks(&settlement, facts) {
            return self.conclude(queued, settlement, &name, facts);
        }
        let (engine, facts) = (self.clone(), facts.clone());
        let seen = self.underway.hold(&queued);
        self.deliveries.spawn(async move {
            let _seen = seen;
            if !engine.tell_hooks(&queued, &settlement, &name, &facts).await {
                // It begins anew at the next start.
                return;
            }
            if let Some(draft) = missed {
                engine.tell_missed(draft).await;
            }
            let Some(report) = report else { return engine.conclude(queued, settlement, &name, &facts) };
            // The report may wait for long, and who has the message is not to have it again. Of whom it tells is another matter:
            // to note him is to forget the report.
            let delivered = delivered(&settlement, &report.about);
            engine.note_delivered(&queued.message, &delivered);
            // What the spool has begins anew at the next start; what it has not goes there with the drain.
            match engine.send_report(&report.draft).await || queued.message.is_volatile() {
                true => engine.conclude(queued, settlement, &name, &facts),
                // Of these nobody tells at the next start.
                false => {
                    delivered.iter().for_each(|entry| engine.log_entry(&queued, &name, entry, &facts, Told::Already));
                }
            }
        });
    }

    /// Tells the spool who has the message.
    fn note_delivered(&self, message: &Message, delivered: &[Entry]) {
        let recipients: Vec<u32> =
            delivered.iter().flat_map(|entry| &entry.recipients).map(|i| u32::from(*i)).collect();
        if !recipients.is_empty() && !message.is_volatile() {
            self.spool.mark(Mark::RecipientsDone { id: message.id, recipients });
        }
    }

    fn conclude(&self, mut queued: Queued, settlement: Settlement, name: &str, facts: &AttemptFacts) {
        for entry in &settlement.entries {
            self.log_entry(&queued, name, entry, facts, Told::Already);
        }
        self.note(&queued.message, &settlement, self.clock.wall());
        match settlement.next {
            Next::Done => self.with_queue(|q, now| q.forget(now.mono, &queued)),
            Next::Retry(delay) => {
                queued.message.attempts = queued.message.attempts.saturating_add(1);
                self.requeue(queued, &settlement, facts.told.as_ref(), delay);
            }
        }
    }

    /// Tells the spool what became of an attempt. What no spool has yet is spooled with what is left of it: a mark about
    /// the recipients of now would hit others then.
    fn note(&self, message: &Message, settlement: &Settlement, now: WallTime) {
        let Message { id, attempts, .. } = *message;
        match settlement.next {
            Next::Done => {
                if !message.is_volatile() {
                    self.spool.mark(Mark::Removed { id });
                }
                self.note_parting(message);
            }
            Next::Retry(_) if message.is_volatile() => {}
            Next::Retry(delay) => {
                if !settlement.newly_settled.is_empty() {
                    let recipients = settlement.newly_settled.iter().map(|i| u32::from(*i)).collect();
                    self.spool.mark(Mark::RecipientsDone { id, recipients });
                }
                self.spool.mark(Mark::Attempt { id, attempts: attempts.saturating_add(1), due: now + delay });
            }
        }
    }

    /// The node that has a message may forget what became of it.
    fn note_parting(&self, message: &Message) {
        let meta = message.resident.as_deref().map(|resident| &resident.meta);
        if let Some((target, kept)) = meta.and_then(|meta| xfer::target(meta).zip(handed_over(meta))) {
            self.other_nodes.partings.add(target, kept.origin);
        }
    }

    /// A message that could not be tried: the same outcome for every pending recipient.
    pub(crate) fn settle_untried(
        &self,
        queued: Queued,
        verdict: Verdict,
        reply: &Reply,
        route: Option<(Arc<str>, Leg)>,
    ) {
        let outcomes = all_pending(&queued.message, verdict, reply);
        let facts = route.map(|(site, leg)| AttemptFacts {
            counts: Some(self.counts(&site, &leg)),
            site,
            source: Some(leg.source.name.as_str().into()),
            pool: Some(leg.pool),
            provider: leg.path.provider_name.as_deref().map(Into::into),
            ..AttemptFacts::default()
        });
        self.settle_attempt(queued, outcomes, &facts.unwrap_or_default());
    }

    /// A message that is too old.
    pub(crate) fn settle_expired(&self, mut queued: Queued) {
        let entry = expire(&mut queued.message);
        let newly_settled = entry.recipients.clone();
        let settlement = Settlement { entries: vec![entry], newly_settled, next: Next::Done };
        self.settle_as(queued, settlement, &AttemptFacts::default());
    }

    /// Lets a settlement take effect that was decided elsewhere.
    pub(crate) fn settle_as(&self, queued: Queued, settlement: Settlement, facts: &AttemptFacts) {
        let (config, name) =
            self.ask_queue(|q| (q.config(queued.queue).unwrap_or_default(), q.queue_name(queued.queue)));
        self.report_and_conclude(queued, settlement, &config, name, facts);
    }

    /// A message that an operator bounces. Here its hooks are waited for: as many as there are settlers at a time.
    pub(crate) async fn settle_bounced(&self, mut queued: Queued, order: &Order) {
        let name = self.ask_queue(|q| q.queue_name(queued.queue));
        let entry = bounce(&mut queued.message, &order.reason);
        let newly_settled = entry.recipients.clone();
        let entries = if order.suppress_logging { Vec::new() } else { vec![entry] };
        let facts = AttemptFacts { site: "localhost".into(), ..AttemptFacts::default() };
        let settlement = Settlement { entries, newly_settled, next: Next::Done };
        if self.tell_hooks(&queued, &settlement, &name, &facts).await {
            self.conclude(queued, settlement, &name, &facts);
        }
    }

    pub(crate) fn log_entry(&self, queued: &Queued, queue: &str, entry: &Entry, facts: &AttemptFacts, told: Told) {
        count(entry, facts);
        self.note_outcome(&queued.message, queue, entry, facts);
        if !self.logs_nothing()
            && let Some(mut record) = self.entry_record(queued, queue, entry, facts)
            && let Some(resident) = queued.message.resident.as_deref()
        {
            let subject = Subject::of(&queued.message, resident);
            match told {
                Told::NotYet => self.log(record, subject),
                Told::Already => {
                    self.classify(&mut record);
                    self.log_told(record, subject);
                }
            }
        }
    }

    /// How long a delivery took, or what a destination refused.
    fn note_outcome(&self, message: &Message, queue: &str, entry: &Entry, facts: &AttemptFacts) {
        let now = self.clock.wall();
        match entry.kind {
            RecordType::Delivery => {
                let took = now.saturating_since(message.created());
                self.metrics.delivery_seconds.observe(took.as_secs_f64());
            }
            RecordType::TransientFailure | RecordType::Bounce => {
                self.refusals.note(Refusal::of(now, entry, queue, &facts.site));
            }
            _ => {}
        }
    }

    /// The record of an entry.
    pub(crate) fn entry_record(
        &self,
        queued: &Queued,
        queue: &str,
        entry: &Entry,
        facts: &AttemptFacts,
    ) -> Option<LogRecord> {
        let message = &queued.message;
        debug_assert!(message.resident.is_some(), "whoever settles a message has loaded it");
        let resident = message.resident.as_deref()?;
        let mut record =
            self.record(kind_of(entry, facts), (message, resident), queue, &entry.recipients, &entry.reply);
        if let Some(command) = &entry.command {
            record.response = records::response(&entry.reply).to_command(command.as_str());
        }
        // It is nobody's answer, even where an attempt that failed was the last (KumoMTA behaviour).
        if entry.kind != RecordType::Expiration {
            describe(&mut record, facts);
        }
        Some(record)
    }
}

/// The type of an entry's record.
pub(crate) fn kind_of(entry: &Entry, facts: &AttemptFacts) -> RecordType {
    match (entry.kind, facts.handover) {
        (RecordType::Delivery, Handover::Xfer) => RecordType::XferOut,
        (kind, _) => kind,
    }
}

/// The queue's configuration, with another time between attempts.
fn with_interval(config: Arc<QueueConfig>, interval: Option<Duration>) -> Arc<QueueConfig> {
    let Some(interval) = interval else { return config };
    let interval = interval.into();
    Arc::new(QueueConfig { retry_interval: interval, max_retry_interval: Some(interval), ..(*config).clone() })
}

fn describe(record: &mut LogRecord, facts: &AttemptFacts) {
    record.site = facts.site.clone();
    record.egress_pool = facts.pool.clone();
    record.egress_source = facts.source.clone();
    record.peer_address = facts.peer.clone();
    record.source_address = facts.source_address.clone();
    record.provider_name = facts.provider.clone();
    record.session_id = facts.session_id.clone();
    record.delivery_protocol = facts.delivery_protocol.map(Cow::Borrowed);
    if let Some(tls) = &facts.tls {
        record.tls_cipher = Some(Cow::Owned(tls.cipher.clone()));
        record.tls_protocol_version = Some(Cow::Owned(tls.protocol_version.clone()));
        record.tls_peer_subject_name = Some(tls.peer_subject.clone());
    }
}

fn count(entry: &Entry, facts: &AttemptFacts) {
    let Some(counts) = &facts.counts else { return };
    for tally in counts {
        let counter = match entry.kind {
            RecordType::Delivery => &tally.delivered,
            RecordType::TransientFailure => &tally.transfail,
            _ => &tally.fail,
        };
        counter.fetch_add(entry.recipients.len() as u64, Ordering::Relaxed);
    }
}
