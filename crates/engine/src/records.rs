//! Log records made of what happened, and handed to every logger that wants them.

use crate::engine::Engine;
use crate::ingress::listener_counts::ListenerCounts;
use crate::recorders::Recorders;
use crate::selection::{Subject, select};
use message::{Message, Meta, Resident};
use policy::ConnMeta;
use record::{EnhancedCode, LogRecord, PeerAddress, Recipients, RecordType, Response, Timestamp};
use smtp_server::{Rejection, Session};
use smtp_wire::Reply;
use std::borrow::Cow;
use telemetry::lines::is_enabled;

impl Engine {
    /// A record about some recipients of a message; the caller adds what it knows of the peer.
    pub(crate) fn record(
        &self,
        kind: RecordType,
        (message, resident): (&Message, &Resident),
        queue: &str,
        recipients: &[u16],
        reply: &Reply,
    ) -> LogRecord {
        let now = self.clock.wall();
        let mut record = LogRecord::new(
            kind,
            Timestamp::from_unix_micros(now.unix_micros()),
            Timestamp::from_unix_micros(message.created().unix_micros()),
            response(reply),
        );
        let Resident { envelope, meta, .. } = resident;
        let all = &envelope.recipients;
        record.id = message.id.to_string();
        record.sender = envelope.sender.as_str().to_owned();
        record.recipient = Recipients(
            recipients.iter().filter_map(|i| all.get(usize::from(*i))).map(|r| r.as_str().to_owned()).collect(),
        );
        record.queue = queue.into();
        record.size = u64::from(message.size);
        record.num_attempts = message.attempts;
        self.complete(&mut record, meta);
        record
    }

    /// Adds what every record about a message has.
    pub(crate) fn complete(&self, record: &mut LogRecord, meta: &Meta) {
        record.reception_protocol = text(meta, "reception_protocol");
        record.nodeid = self.node_id_text.clone();
    }

    /// True when nobody wants records.
    pub(crate) fn logs_nothing(&self) -> bool {
        let recorders = self.recorders();
        recorders.logs.is_empty() && recorders.tellers.is_empty() && !self.offers_records()
    }

    /// True while a logger or a hook has all the records it may hold: new work waits.
    pub(crate) fn logs_are_full(&self) -> bool {
        self.recorders().tellers.iter().any(|teller| teller.is_full()) || self.records_are_full()
    }

    /// As [`Engine::logs_are_full`], for mail that policy makes: what it is to be told makes it wait no more, as it may be
    /// telling right now.
    pub(crate) fn records_are_full(&self) -> bool {
        let Recorders { logs, filters, hooks, .. } = &**self.recorders();
        logs.iter().any(telemetry::LogWriter::is_full) || hooks.iter().any(|hook| hook.is_full()) || filters.are_full()
    }

    /// Waits while [`Engine::logs_are_full`]; for hooks that policy is told by not longer than [`ANSWERS_MAX`], as who waits may be
    /// policy that is being told.
    pub(crate) async fn wait_for_logs(&self) {
        self.wait_while(|| self.logs_are_full(), || self.records_are_full()).await;
    }

    /// The same for mail that policy makes, which does not wait for hooks that policy is told by. For those that ask it, and for
    /// filters, not longer than [`ANSWERS_MAX`]: who waits may be policy that is being asked.
    pub(crate) async fn wait_for_records(&self) {
        let logs_are_full = || self.recorders().logs.iter().any(telemetry::LogWriter::is_full);
        self.wait_while(|| self.records_are_full(), logs_are_full).await;
    }

    /// Waits while the first is true, and from [`ANSWERS_MAX`] on only while the second is.
    async fn wait_while(&self, at_first: impl Fn() -> bool, for_long: impl Fn() -> bool) {
        let since = tokio::time::Instant::now();
        while at_first() && self.is_serving() {
            if since.elapsed() >= ANSWERS_MAX && !for_long() {
                return;
            }
            tokio::time::sleep(LOGS_PAUSE).await;
        }
    }

    /// True while no delivery is to be begun: its outcome could not be logged, noted in the spool, or told to policy.
    pub(crate) fn holds_deliveries(&self) -> bool {
        self.logs_are_full() || self.pressure.delivery_is_held() || self.questions.are_many()
    }

    /// Hands a record to every logger and hook that has its type enabled, with its class and what each keeps of its subject.
    pub(crate) fn log(&self, mut record: LogRecord, subject: Subject<'_>) {
        self.classify(&mut record);
        self.tell_behind(&record, subject);
        self.log_told(record, subject);
    }

    /// The same for a record of which disposition hooks have been told, and which is classed.
    pub(crate) fn log_told(&self, mut record: LogRecord, subject: Subject<'_>) {
        let recorders = self.recorders();
        for log in &recorders.logs {
            let options = log.options();
            if is_enabled(&options.per_record, record.kind) {
                select(&options.meta, &options.headers, subject, &mut record);
                self.log_if_passed(&recorders.filters, log, &record, subject);
            }
        }
        self.offer_to_hooks(&recorders.hooks, record, subject);
    }

    /// Classes what the peer, or this server in its place, answered.
    pub(crate) fn classify(&self, record: &mut LogRecord) {
        let classifier = self.classifier.load();
        let Some(classifier) = classifier.as_ref().filter(|_| record.kind.is_classified()) else { return };
        let started = std::time::Instant::now();
        let class = classifier.classify(&record.response.to_single_line()).to_owned();
        self.metrics.bounce_classify_latency.observe(started.elapsed().as_secs_f64());
        record.bounce_classification = Cow::Owned(class);
    }

    /// A reply of 4xx or 5xx to an SMTP client of the listener that counts so.
    pub(crate) fn log_rejection(
        &self,
        rejection: &Rejection,
        counts: &ListenerCounts,
        session: &Session,
        conn: &ConnMeta,
    ) {
        counts.rejected();
        if self.logs_nothing() {
            return;
        }
        let now = Timestamp::from_unix_micros(self.clock.wall().unix_micros());
        let mut answer = response(&rejection.reply);
        if !rejection.command.is_empty() {
            answer = answer.to_command(&*rejection.command);
        }
        let mut record = LogRecord::new(RecordType::Rejection, now, now, answer);
        record.sender = rejection.sender.as_ref().map(|s| s.as_str().to_owned()).unwrap_or_default();
        record.recipient = Recipients(rejection.recipients.iter().map(|r| r.as_str().to_owned()).collect());
        let name = session.hello().unwrap_or_default().to_owned();
        record.peer_address = Some(PeerAddress { name, addr: session.peer().to_string(), is_secure: false });
        record.nodeid = self.node_id_text.clone();
        record.session_id = conn.session_id();
        self.log(record, Subject { meta: &conn.snapshot(), head: &[], message: None });
    }
}

/// Pause before looking again whether the logs take more.
const LOGS_PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

/// How long mail that may be of policy's making waits for a hook that has all the records it may hold, which policy answers.
const ANSWERS_MAX: std::time::Duration = std::time::Duration::from_secs(5);

/// The client a message came from, as its metadata remembers it.
pub(crate) fn reception_peer(meta: &Meta) -> Option<PeerAddress> {
    let addr = meta.string("received_from").ok()??.to_owned();
    let name = meta.string("ehlo_domain").ok().flatten().unwrap_or_default().to_owned();
    Some(PeerAddress { name, addr, is_secure: false })
}

/// A reply in the log's form.
pub(crate) fn response(reply: &Reply) -> Response {
    let code = reply.enhanced.map(|e| EnhancedCode::new(e.class, e.subject, e.detail));
    Response::new(reply.code, code, reply.text.as_str())
}

fn text(meta: &Meta, name: &str) -> Option<Cow<'static, str>> {
    match meta.string(name).ok()?? {
        "ESMTP" => Some(Cow::Borrowed("ESMTP")),
        other => Some(Cow::Owned(other.to_owned())),
    }
}
