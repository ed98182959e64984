//! Log records made of what happened, and handed to every logger that wants them.

use crate::engine::Engine;
use config::{LocalLogs, PerRecord, RecordKey};
use message::{Message, Meta, Resident};
use policy::ConnMeta;
use record::{EnhancedCode, LogRecord, PeerAddress, Recipients, RecordType, Response, Timestamp};
use serde_json::{Map, Value};
use smtp_server::{Rejection, Session};
use smtp_wire::Reply;
use std::borrow::Cow;
use std::collections::BTreeMap;

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
        let now = self.clock.now().wall;
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
        for log in &self.logs {
            copy_meta(meta, log.options(), &mut record.meta);
        }
    }

    /// True while a logger has all the records it may hold: new work waits.
    pub(crate) fn logs_are_full(&self) -> bool {
        self.logs.iter().any(telemetry::LogWriter::is_full)
    }

    /// True while no delivery is to be begun: its outcome could not be logged, noted in the spool, or told to policy.
    pub(crate) fn holds_deliveries(&self) -> bool {
        self.logs_are_full() || self.pressure.delivery_is_held() || self.questions.are_many()
    }

    /// Hands a record to every logger that has its type enabled, with its class.
    pub(crate) fn log(&self, mut record: LogRecord) {
        self.classify(&mut record);
        for log in &self.logs {
            if is_enabled(&log.options().per_record, record.kind) {
                log.log(&record);
            }
        }
    }

    /// Classes what the peer, or this server in its place, answered.
    pub(crate) fn classify(&self, record: &mut LogRecord) {
        let Some(classifier) = self.classifier.as_ref().filter(|_| record.kind.is_classified()) else { return };
        let started = std::time::Instant::now();
        let class = classifier.classify(&record.response.to_single_line()).to_owned();
        self.metrics.bounce_classify_latency.observe(started.elapsed().as_secs_f64());
        record.bounce_classification = Cow::Owned(class);
    }

    /// A reply of 4xx or 5xx to an SMTP client.
    pub(crate) fn log_rejection(&self, rejection: &Rejection, session: &Session, conn: &ConnMeta) {
        self.metrics.smtp_server_rejections.with_label_values(&["total"]).inc();
        if self.logs.is_empty() {
            return;
        }
        let now = Timestamp::from_unix_micros(self.clock.now().wall.unix_micros());
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
        let meta = conn.snapshot();
        for log in &self.logs {
            copy_meta(&meta, log.options(), &mut record.meta);
        }
        self.log(record);
    }
}

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

/// Copies the metadata a logger asked for: exact names, or a prefix before a trailing `*`.
fn copy_meta(meta: &Meta, options: &LocalLogs, out: &mut Map<String, Value>) {
    for wanted in &options.meta {
        match wanted.strip_suffix('*') {
            Some(prefix) => {
                let matching = meta.iter().filter(|(name, value)| name.starts_with(prefix) && !value.is_null());
                out.extend(matching.map(|(name, value)| (name.clone(), value.clone())));
            }
            None => out.extend(meta.get(wanted).map(|value| (wanted.clone(), value.clone()))),
        }
    }
}

/// Whether entries of `per_record` want records of that type.
pub(crate) fn is_enabled(entries: &BTreeMap<RecordKey, PerRecord>, kind: RecordType) -> bool {
    if entries.is_empty() {
        return true;
    }
    RecordKey::ALL
        .iter()
        .find(|key| key.as_str() == kind.as_str())
        .and_then(|key| config::per_record(entries, *key))
        .is_none_or(|entry| entry.enable)
}
