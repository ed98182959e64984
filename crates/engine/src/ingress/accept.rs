//! The one door for new mail: from a received transaction to receipts.
//!
//! Order matters. Everything that can fail stands before the commit: policy, queue name and
//! configuration, headers. Then one append per shared body; then nothing may fail: admit,
//! log, receipt. A rejection of any message rejects the whole transaction.

use crate::egress::deferred::defer;
use crate::engine::Engine;
use crate::ingress::keyed::{self, Turn};
use crate::ingress::listener::Profile;
use crate::ingress::reports::Report;
use crate::ingress::trace::{self, Hop};
use crate::log_hooks::OF_HOOKS;
use crate::pressure::Room;
use crate::selection::Subject;
use crate::watching::{Seen, Side};
use ::clock::Instant;
use bytes::Bytes;
use config::BatchHandling;
use message::{Draft, Envelope, Message, MessageId, Sealed, note_header_utf8};
use policy::{ConnMeta, Disconnect, Event, PolicyError};
use queue::schedule::Belonging;
use queue::{NULL_QUEUE, QueueName, Why, schedule};
use record::RecordType;
use serde_json::json;
use smtp_server::Admission;
use smtp_wire::{Body, EnhancedCode, Mailbox, Reply};
use spool::{Discarded, Receipt, SpoolError, Volatile};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};
use store::Coming;

/// Why a transaction is not accepted.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub reply: Reply,
    pub disconnect: Disconnect,
}

/// A transaction and what is known about where it came from.
pub(crate) struct Arrival<'a> {
    pub profile: &'a Profile,
    pub conn: &'a ConnMeta,
    pub hop: Hop<'a>,
    pub envelope: Envelope,
    pub content: Body,
    /// The client said SMTPUTF8.
    pub is_utf8: bool,
    /// Somebody was let in only because the domain logs reports.
    pub for_reports_only: bool,
    /// Nothing is committed after this moment.
    pub deadline: Instant,
    /// About whom permission was asked at RCPT; made when somebody looks.
    pub known: OnceLock<HashSet<Mailbox>>,
}

/// A message that only waits for its commit.
pub(crate) struct Prepared {
    sealed: Sealed,
    queue: String,
    besides: Besides,
    /// The operator does not mind if a crash loses it.
    deferred: bool,
}

/// What the log says of its reception besides.
#[derive(Default)]
struct Besides {
    report: Option<Report>,
    /// Of the session by which it came.
    session_id: Option<Arc<str>>,
}

impl Prepared {
    /// A record, which is stored and in no queue (`injection::keyed`).
    pub(crate) fn record(sealed: Sealed) -> Prepared {
        Prepared { sealed, queue: NO_QUEUE.to_owned(), besides: Besides::default(), deferred: false }
    }

    /// The message's.
    pub(crate) fn id(&self) -> MessageId {
        self.sealed.id
    }

    /// Its size.
    pub(crate) fn octets(&self) -> usize {
        self.sealed.head.len() + self.sealed.body.len()
    }

    /// In memory is not enough, whatever the operator says.
    pub(crate) fn on_disk(&mut self) {
        self.deferred = false;
    }
}

impl Engine {
    /// Takes responsibility for every message of a transaction, or for none.
    pub(crate) async fn accept(&self, arrival: Arrival<'_>) -> Result<Vec<Receipt>, Refusal> {
        let preparing = async {
            let turn = self.turn_of(&arrival).await?;
            if matches!(turn, Turn::Before(_)) {
                return Ok((turn, (Vec::new(), Vec::new())));
            }
            let prepared = self.prepare_all(&arrival).await?;
            while self.logs_are_full() {
                tokio::time::sleep(LOGS_PAUSE).await;
            }
            Ok((turn, prepared))
        };
        let ((turn, (prepared, _rooms)), coming) = tokio::select! {
            biased;
            (prepared, coming) = self.spool.announced(preparing) => (prepared?, coming),
            // Nothing was promised yet, so nothing is lost.
            () = self.clock.sleep_until(arrival.deadline) => return Err(too_late()),
        };
        if let Turn::Before(receipts) = turn {
            return Ok(receipts);
        }
        if self.clock.mono() > arrival.deadline {
            return Err(too_late());
        }
        let fates: Vec<_> = if self.watchers.is_watched() { prepared.iter().map(shown).collect() } else { Vec::new() };
        let prepared = if let Turn::Ours(hand) = &turn { self.with_record(prepared, hand)? } else { prepared };
        let receipts = self.commit_coming(prepared, coming).await?;
        for fate in fates {
            let meta = || arrival.conn.snapshot().as_map().clone();
            self.show_watchers(Side::Server, meta, &Seen::MessageDisposition(fate));
        }
        Ok(receipts)
    }

    /// Everything about a transaction that can fail, but for its commit. Messages of one transaction share their body, but each has a
    /// head of its own: that room is counted as long as what comes second lives.
    async fn prepare_all(&self, arrival: &Arrival<'_>) -> Result<(Vec<Prepared>, Vec<Room>), Refusal> {
        let (whole, batches) = self.split(arrival).await?;
        if batches.len() == 1 {
            return Ok((vec![self.prepare(arrival, whole).await?], Vec::new()));
        }
        let (mut prepared, mut rooms) = (Vec::with_capacity(batches.len()), Vec::with_capacity(batches.len()));
        let mut octets = 0;
        for recipients in &batches {
            tokio::task::coop::consume_budget().await;
            if self.pressure.is_out_of_memory()
                && let Some(reply) = arrival.profile.settings.refusal(Admission::LoadShedding, 0)
            {
                return Err(refusal(reply));
            }
            let one = self.prepare(arrival, whole.for_recipients(self.next_id(), recipients)).await?;
            octets += one.sealed.head.len();
            if octets > HEADS_OCTETS_MAX {
                let text = "header fields are too large for so many recipients";
                return Err(refusal(Reply::enhanced(552, EnhancedCode::new(5, 3, 4), text)));
            }
            rooms.push(self.pressure.room_for(one.sealed.head.len() as u64));
            prepared.push(one);
        }
        Ok((prepared, rooms))
    }

    /// Takes responsibility for a message of our own or of policy's making: the same way in, without the events of a
    /// connection it never had. `deferred`: in memory is enough.
    pub(crate) async fn accept_own(&self, draft: Draft, deferred: bool) -> Result<(), Refusal> {
        let prepared = self.prepare_own(draft, deferred).await?;
        self.commit(vec![prepared]).await.map(|_| ())
    }

    /// The same for a report of ours, into a queue that may have no configuration: there it waits as other mail does, while policy has
    /// none for it. Whom it tells of could wait nowhere.
    pub(crate) async fn accept_report(&self, draft: Draft) -> Result<(), Refusal> {
        let queue = own_queue(&draft)?;
        self.commit(vec![self.prepare_into(queue, draft, false)]).await.map(|_| ())
    }

    /// Everything about a message of our own or of policy's making that can fail, but for its commit.
    pub(crate) async fn prepare_own(&self, draft: Draft, deferred: bool) -> Result<Prepared, Refusal> {
        let queue = own_queue(&draft)?;
        if queue != NULL_QUEUE {
            self.configure(&queue).await.map_err(|e| {
                tracing::error!("{}: {e}", draft.id);
                refusal(Reply::enhanced(451, EnhancedCode::new(4, 3, 0), e.in_one_line()))
            })?;
        }
        Ok(self.prepare_into(queue, draft, deferred))
    }

    fn prepare_into(&self, queue: String, mut draft: Draft, deferred: bool) -> Prepared {
        let deferred = self.plan(&mut draft) && deferred;
        Prepared { sealed: draft.seal(), queue, besides: Besides::default(), deferred }
    }

    /// The transaction, and the recipients of each message to be: `smtp_server_data`, then what `smtp_server_split_transaction` or
    /// `batch_handling` says.
    async fn split(&self, arrival: &Arrival<'_>) -> Result<(Draft, Vec<Vec<usize>>), Refusal> {
        let now = self.clock.wall();
        let (envelope, meta) = (arrival.envelope.clone(), arrival.conn.snapshot());
        let mut whole = Draft::new(self.next_id(), envelope, meta, arrival.content.clone(), now);
        if arrival.is_utf8 {
            let head = whole.head();
            note_header_utf8(&mut whole.meta, &head);
        }
        if self.interest.has(Event::Data) {
            let answer = self.policy.smtp_server_data(whole, arrival.conn.clone()).await;
            whole = answer.map_err(|e| self.refuse(arrival.profile, &e))?;
        }
        check_recipients(&whole)?;
        if arrival.profile.params.idempotency_window.is_some() {
            // It is between this client and this listener.
            let (block, raw) = whole.edit_headers();
            block.remove_all(raw, keyed::FIELD);
        }
        let mut split = None;
        if self.interest.has(Event::SplitTransaction) {
            let answer = self.policy.smtp_server_split_transaction(whole, arrival.conn.clone()).await;
            (whole, split) = answer.map_err(|e| self.refuse(arrival.profile, &e))?;
            check_recipients(&whole)?;
        }
        let recipients = &whole.envelope.recipients;
        let batches = match split {
            None => batches(recipients, arrival.profile.params.batch_handling),
            Some(lists) => by_policy(recipients, &lists).map_err(|text| {
                let event = Event::SplitTransaction.name();
                self.refuse(arrival.profile, &PolicyError::Script { event, text })
            })?,
        };
        Ok((whole, batches))
    }

    /// Everything about one message that can fail.
    async fn prepare(&self, arrival: &Arrival<'_>, mut draft: Draft) -> Result<Prepared, Refusal> {
        let trace = &arrival.profile.params.trace_headers;
        let now = self.clock.wall();
        check_hops(&mut draft)?;
        trace::add_received(&mut draft, trace, &arrival.hop, now).map_err(|e| header_refusal(&e))?;
        let is_put_off = arrival.profile.params.deferred_queue;
        if self.interest.has(Event::MessageReceived) && !is_put_off {
            let answer = self.policy.smtp_server_message_received(draft, arrival.conn.clone()).await;
            draft = answer.map_err(|e| self.refuse(arrival.profile, &e))?;
            check_recipients(&draft)?;
        }
        let fate = self.fate(arrival, &mut draft).await?;
        if is_put_off {
            defer(&mut draft.meta);
        }
        let queue = match fate.is_dropped {
            true => NULL_QUEUE.to_owned(),
            false => QueueName::text_for(&draft.envelope, &draft.meta).map_err(|e| {
                tracing::error!("{}: {e}", draft.id);
                refusal(arrival.profile.settings.technical_difficulties())
            })?,
        };
        if queue != NULL_QUEUE {
            self.configure(&queue).await.map_err(|e| self.refuse(arrival.profile, &e))?;
        }
        trace::add_supplemental(&mut draft, trace).map_err(|e| header_refusal(&e))?;
        let deferred = self.plan(&mut draft) && arrival.profile.params.deferred_spool;
        let besides = Besides { report: fate.report, session_id: arrival.conn.session_id() };
        Ok(Prepared { sealed: draft.seal(), queue, besides, deferred })
    }

    /// Puts off a message to the time its scheduling allows; whether it may be in memory only, if the operator says so.
    fn plan(&self, draft: &mut Draft) -> bool {
        if let Some(scheduling) = schedule::of(&draft.meta) {
            draft.due = schedule::next_attempt(&scheduling, draft.due);
        }
        // The clock is asked only about what policy has put off.
        !draft.force_sync && (draft.due <= draft.id.created() || draft.due <= self.clock.wall())
    }

    /// The commit point and what follows it.
    pub(crate) async fn commit(&self, prepared: Vec<Prepared>) -> Result<Vec<Receipt>, Refusal> {
        self.commit_coming(prepared, Coming::default()).await
    }

    /// The same of what the spool was told of.
    async fn commit_coming(&self, prepared: Vec<Prepared>, coming: Coming) -> Result<Vec<Receipt>, Refusal> {
        let mut receipts = Vec::with_capacity(prepared.len());
        let (mut discarded, mut deferred) = (Vec::new(), Vec::new());
        let mut keep = Vec::with_capacity(prepared.len());
        let mut queues = Vec::with_capacity(prepared.len());
        for prepared in prepared {
            if prepared.queue == NULL_QUEUE {
                discarded.push((Message::resident(prepared.sealed, None), prepared.queue, prepared.besides));
            } else if prepared.deferred && self.has_volatile_room() && fits(&prepared.sealed) {
                deferred.push((Message::resident(prepared.sealed, None), prepared.queue, prepared.besides));
            } else {
                keep.push(prepared.sealed);
                queues.push((prepared.queue, prepared.besides));
            }
        }
        if !keep.is_empty() {
            self.commit_durably(keep, queues, (&mut receipts, coming)).await?;
        } else {
            // Nothing of it is appended.
            drop(coming);
        }
        for (message, queue, besides) in deferred {
            receipts.push(Receipt::Volatile(Volatile::by_operator_choice(message.id)));
            self.take_in(message, &queue, besides);
        }
        for (message, queue, besides) in discarded {
            self.log_reception(&message, &queue, besides);
            receipts.push(Receipt::Discarded(Discarded::by_policy(message.id)));
        }
        Ok(receipts)
    }

    /// One commit for all messages that are kept; then they are queued.
    async fn commit_durably(
        &self,
        keep: Vec<Sealed>,
        queues: Vec<(String, Besides)>,
        (receipts, coming): (&mut Vec<Receipt>, Coming),
    ) -> Result<(), Refusal> {
        let groups = by_body(keep);
        let octets = groups.iter().filter_map(|group| group.first()).map(|sealed| sealed.body.len() as u64).sum();
        let room = self.pressure.room_to_append(octets);
        let begun = self.clock.mono();
        let appended = self.spool.append_coming(groups, coming).await;
        drop(room);
        if appended.is_ok() {
            let took = self.clock.mono().saturating_since(begun);
            self.metrics.latencies.message_save.observe(took.as_secs_f64());
        }
        let appended = match appended {
            Ok(appended) => appended,
            Err(error) => {
                if matches!(error, SpoolError::Closed) && self.is_serving() {
                    self.fail("the spool's writer has ended");
                }
                return Err(spool_refusal(&error));
            }
        };
        for ((sealed, durable), (queue, besides)) in appended.sealed.into_iter().zip(appended.durable).zip(queues) {
            if queue == NO_QUEUE {
                self.keep_record(&sealed.meta, sealed.id, durable.place());
                continue;
            }
            self.take_in(Message::resident(sealed, Some(durable.place())), &queue, besides);
            receipts.push(Receipt::Durable(durable));
        }
        Ok(())
    }

    /// A message is ours: the log says so, and its queue has it.
    fn take_in(&self, message: Message, queue: &str, besides: Besides) {
        self.log_reception(&message, queue, besides);
        self.log_if_delayed(&message, queue, &[Why::Received, Why::ScheduledForLater]);
        let resident = message.resident.as_deref();
        let end = resident.and_then(|resident| schedule::of(&resident.meta)).as_ref().and_then(schedule::end);
        let tls = resident.map(|resident| resident.envelope.tls_demand()).unwrap_or_default();
        self.with_queue(|q, now| q.admit_to(now, Belonging { queue, end, tls }, message));
    }

    /// Whether memory takes a message that is nowhere else; if not, it is spooled like any other.
    fn has_volatile_room(&self) -> bool {
        self.ask_queue(|q| q.has_volatile_room())
    }

    /// What a client hears when policy said no or failed.
    pub(crate) fn refuse(&self, profile: &Profile, error: &PolicyError) -> Refusal {
        match error {
            PolicyError::Reject { reply, disconnect } => Refusal { reply: reply.clone(), disconnect: *disconnect },
            PolicyError::Script { .. } => {
                tracing::error!("{error}");
                refusal(profile.settings.technical_difficulties())
            }
        }
    }

    /// A message that policy scheduled for later says so in the log (KumoMTA behaviour).
    pub(crate) fn log_if_delayed(&self, message: &Message, queue: &str, whys: &[Why]) {
        if message.due <= message.created() {
            return;
        }
        let now = self.clock.wall();
        if message.due <= now || self.logs_nothing() {
            return;
        }
        let Some(resident) = message.resident.as_deref() else { return };
        let wait = message.due.saturating_since(now);
        let at = trace::rfc5322_date(message.due);
        let why = whys.iter().map(|why| why.name()).collect::<Vec<_>>().join(", ");
        let text = format!("Context: {why}. Next due in {}s at {at}", wait.as_secs());
        let all: Vec<u16> = message.pending().collect();
        let reply = Reply { code: 400, enhanced: None, text };
        let record = self.record(RecordType::Delayed, (message, resident), queue, &all, &reply);
        self.log(record, Subject::of(message, resident));
    }

    fn log_reception(&self, message: &Message, queue: &str, besides: Besides) {
        let Some(resident) = message.resident.as_deref().filter(|_| !self.logs_nothing()) else { return };
        // Nobody sent what a hook made of a record (KumoMTA behaviour).
        if resident.meta.string("reception_protocol") == Ok(Some(OF_HOOKS)) {
            return;
        }
        let reply = Reply { code: 250, enhanced: None, text: String::new() };
        let all: Vec<u16> = (0..message.recipients).collect();
        let mut record = self.record(RecordType::Reception, (message, resident), queue, &all, &reply);
        record.peer_address = crate::records::reception_peer(&resident.meta);
        record.session_id = besides.session_id;
        let bounce = match besides.report {
            Some(Report::Feedback(feedback)) => {
                record.kind = RecordType::Feedback;
                record.feedback_report = Some(feedback);
                None
            }
            Some(Report::Bounce(bounce)) => Some(bounce),
            None => None,
        };
        self.log(record, Subject::of(message, resident));
        if let Some(bounce) = bounce {
            self.log_bounce_report(message, resident, &bounce);
        }
    }
}

/// What becomes of a message, for watchers.
fn shown(prepared: &Prepared) -> serde_json::Value {
    let Prepared { sealed, queue, besides: Besides { report, .. }, .. } = prepared;
    let recipients: Vec<&str> = sealed.envelope.recipients.iter().map(Mailbox::as_str).collect();
    let is_kept = queue != NULL_QUEUE;
    json!({
        "id": sealed.id.to_string(),
        "sender": sealed.envelope.sender.as_str(),
        "recipient": recipients.join(", "),
        "queue": queue,
        "meta": sealed.meta.as_map(),
        "relay": is_kept,
        "log_arf": matches!(report, Some(Report::Feedback(_))),
        "log_oob": matches!(report, Some(Report::Bounce(_))),
        "was_arf_or_oob": report.is_some(),
        "will_enqueue": is_kept,
    })
}

/// The queue of a message of our own or of policy's making.
fn own_queue(draft: &Draft) -> Result<String, Refusal> {
    check_recipients(draft)?;
    QueueName::text_for(&draft.envelope, &draft.meta).map_err(|error| {
        tracing::error!("{}: {error}", draft.id);
        refusal(Reply::enhanced(451, EnhancedCode::new(4, 3, 0), error.to_string()))
    })
}

/// Policy may have set the recipients: more than can be counted are none.
fn check_recipients(draft: &Draft) -> Result<(), Refusal> {
    let count = draft.envelope.recipients.len();
    if count <= RECIPIENTS_MAX {
        return Ok(());
    }
    let text = format!("{count} recipients: expected at most {RECIPIENTS_MAX}");
    Err(refusal(Reply::enhanced(452, EnhancedCode::new(4, 5, 3), text)))
}

/// Recipients per message, by number (KumoMTA's `batch_handling`).
fn batches(recipients: &[Mailbox], handling: BatchHandling) -> Vec<Vec<usize>> {
    if recipients.len() == 1 || handling == BatchHandling::BifurcateAlways {
        return (0..recipients.len()).map(|r| vec![r]).collect();
    }
    let mut by_domain: Vec<Vec<usize>> = Vec::new();
    let mut number_of: HashMap<String, usize> = HashMap::new();
    for (number, recipient) in recipients.iter().enumerate() {
        let batch = *number_of.entry(recipient.domain().to_ascii_lowercase()).or_insert_with(|| {
            by_domain.push(Vec::new());
            by_domain.len() - 1
        });
        by_domain[batch].push(number);
    }
    by_domain
}

/// Recipients per message, by number, as policy has them: every recipient once.
fn by_policy(recipients: &[Mailbox], lists: &[Vec<Mailbox>]) -> Result<Vec<Vec<usize>>, String> {
    let mut numbers: HashMap<&str, Vec<usize>> = HashMap::new();
    for (number, recipient) in recipients.iter().enumerate().rev() {
        numbers.entry(recipient.as_str()).or_default().push(number);
    }
    let mut take = |recipient: &Mailbox| {
        let number = numbers.get_mut(recipient.as_str()).and_then(Vec::pop);
        number.ok_or_else(|| format!("returned <{recipient}> who is no recipient of the transaction, or too often"))
    };
    let batches: Result<Vec<Vec<usize>>, String> =
        lists.iter().filter(|list| !list.is_empty()).map(|list| list.iter().map(&mut take).collect()).collect();
    let batches = batches?;
    let left = numbers.into_iter().filter(|(_, left)| !left.is_empty()).map(|(recipient, _)| recipient).min();
    match left {
        Some(recipient) => Err(format!("left out <{recipient}>: expected every recipient of the transaction once")),
        None => Ok(batches),
    }
}

/// Messages that share a body, in order: the spool stores it once per group.
pub(crate) fn by_body(sealed: Vec<Sealed>) -> Vec<Vec<Sealed>> {
    let mut groups: Vec<Vec<Sealed>> = Vec::new();
    for message in sealed {
        match groups.last_mut().filter(|g| same_body(&g[0].body, &message.body)) {
            Some(group) => group.push(message),
            None => groups.push(vec![message]),
        }
    }
    groups
}

/// False for what no spool ever takes, whatever its metadata: it is not to be accepted into memory to stay there.
fn fits(sealed: &Sealed) -> bool {
    spool::check_transaction(std::slice::from_ref(sealed)).is_ok()
}

fn same_body(a: &Bytes, b: &Bytes) -> bool {
    a.len() == b.len() && (a.as_ptr() == b.as_ptr() || a == b)
}

fn too_late() -> Refusal {
    let text = "data_processing_timeout exceeded (resolve)";
    refusal(Reply::enhanced(451, EnhancedCode::new(4, 4, 5), text))
}

fn refusal(reply: Reply) -> Refusal {
    Refusal { reply, disconnect: Disconnect::If421 }
}

fn spool_refusal(error: &SpoolError) -> Refusal {
    tracing::error!("spool: {error}");
    let (code, enhanced, text) = match error {
        SpoolError::TooBig { .. } => (552, EnhancedCode::new(5, 3, 4), "the message is too large to be stored"),
        _ if error.is_full() => (452, EnhancedCode::new(4, 3, 1), "disk is too full"),
        _ => (451, EnhancedCode::new(4, 3, 0), "the message could not be stored"),
    };
    refusal(Reply::enhanced(code, enhanced, text))
}

/// A message that has been everywhere goes round and round (RFC 5321 section 6.3).
fn check_hops(draft: &mut Draft) -> Result<(), Refusal> {
    let hops = trace::hops(draft);
    match hops > HOPS_MAX {
        true => {
            let text = format!("too many hops: {hops} Received fields, and at most {HOPS_MAX} are taken");
            Err(refusal(Reply::enhanced(554, EnhancedCode::new(5, 4, 6), text)))
        }
        false => Ok(()),
    }
}

fn header_refusal(error: &mime::HeaderError) -> Refusal {
    refusal(Reply::enhanced(550, EnhancedCode::new(5, 6, 0), error.to_string()))
}

/// That of records; no message has it.
const NO_QUEUE: &str = "\u{0}answered";
/// Pause before looking again whether the logs take records.
const LOGS_PAUSE: std::time::Duration = std::time::Duration::from_millis(50);
/// Octets of the heads of all messages that one transaction becomes: header fields of 64 KiB for a thousand recipients.
const HEADS_OCTETS_MAX: usize = 64 << 20;
/// `Received` fields of a message that is taken: as many as RFC 5321 section 6.3 would have it at least.
const HOPS_MAX: usize = 100;
/// Recipients of one transaction: their indices are 16 bits wide in marks and outcomes.
const RECIPIENTS_MAX: usize = u16::MAX as usize;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_follow_batch_handling() {
        let rcpt = |t: &str| Mailbox::parse(t).expect("sound");
        let all = vec![rcpt("a@x.test"), rcpt("b@y.test"), rcpt("c@X.test")];
        let shape = |h| batches(&all, h).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(shape(BatchHandling::BifurcateAlways), [1, 1, 1]);
        assert_eq!(shape(BatchHandling::BatchByDomain), [2, 1]);
    }

    #[test]
    fn policy_splits_as_it_likes_but_loses_nobody() {
        let rcpt = |t: &&str| Mailbox::parse(t).expect("sound");
        let all: Vec<Mailbox> = ["a@x.test", "b@y.test", "a@x.test"].iter().map(rcpt).collect();
        let split = |lists: &[&[&str]]| {
            let lists: Vec<Vec<Mailbox>> = lists.iter().map(|list| list.iter().map(rcpt).collect()).collect();
            by_policy(&all, &lists)
        };
        assert_eq!(split(&[&["b@y.test", "a@x.test"], &[], &["a@x.test"]]), Ok(vec![vec![1, 0], vec![2]]));
        let error = |lists: &[&[&str]]| split(lists).expect_err("wrong");
        assert!(error(&[&["b@y.test", "a@x.test"]]).starts_with("left out <a@x.test>"));
        assert!(error(&[]).starts_with("left out <a@x.test>"));
        assert!(error(&[&["b@y.test", "b@y.test"]]).starts_with("returned <b@y.test>"));
        assert!(error(&[&["c@x.test"]]).starts_with("returned <c@x.test>"));
    }
}
