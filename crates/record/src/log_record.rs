//! One line of the log.
//!
//! Owns [`LogRecord`]: its fields, their order, and which of them are null and which left out when absent (the two
//! ways are KumoMTA's and consumers depend on them). In: the fields, public, filled by whoever settles. Out: JSON. Writing
//! cannot fail. Selecting metadata and headers, templates, and files are the telemetry crate's.

use crate::address::{PeerAddress, SourceAddress};
use crate::feedback::FeedbackReport;
use crate::json_object::JsonObject;
use crate::recipients::Recipients;
use crate::record_type::RecordType;
use crate::response::Response;
use crate::timestamp::Timestamp;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::sync::Arc;

/// What happened to a message, for some of its recipients.
#[derive(Clone, Debug, PartialEq)]
pub struct LogRecord {
    /// What this record tells; written as `type`.
    pub kind: RecordType,
    /// The message's id, 32 hex digits; empty for a rejection.
    pub id: String,
    /// The reverse path; empty for the null sender.
    pub sender: String,
    /// The recipients spoken of.
    pub recipient: Recipients,
    /// Name of the scheduled queue.
    pub queue: Arc<str>,
    /// Name of the ready queue for delivery attempts; else empty, `localhost` or a queue name.
    pub site: Arc<str>,
    /// Size of the message (bytes); 0 when its body was not in memory.
    pub size: u64,
    /// What was answered.
    pub response: Response,
    /// The other side.
    pub peer_address: Option<PeerAddress>,
    /// When it happened; written as `timestamp` and `event_time`.
    pub timestamp: Timestamp,
    /// When the message was created; written as `created` and `created_time`.
    pub created: Timestamp,
    /// Attempts before this one.
    pub num_attempts: u16,
    /// The bounce class.
    pub bounce_classification: Cow<'static, str>,
    /// The pool it was sent from.
    pub egress_pool: Option<Arc<str>>,
    /// The source it was sent from.
    pub egress_source: Option<Arc<str>>,
    /// Our address on that connection.
    pub source_address: Option<SourceAddress>,
    /// What a feedback report says.
    pub feedback_report: Option<Box<FeedbackReport>>,
    /// The metadata the log was asked to keep.
    pub meta: Map<String, Value>,
    /// The header fields it was asked to keep.
    pub headers: Map<String, Value>,
    /// `ESMTP`, `Lua`, `Maildir`, ...
    pub delivery_protocol: Option<Cow<'static, str>>,
    /// `ESMTP`, `HTTP` or `LogRecord`.
    pub reception_protocol: Option<Cow<'static, str>>,
    /// The node's id, a UUID.
    pub nodeid: Arc<str>,
    /// Cipher suite of the connection; left out without TLS.
    pub tls_cipher: Option<Cow<'static, str>>,
    /// Its TLS version; left out without TLS.
    pub tls_protocol_version: Option<Cow<'static, str>>,
    /// Subject of the peer's certificate; left out without one.
    pub tls_peer_subject_name: Option<Vec<String>>,
    /// The provider the site belongs to; left out when none.
    pub provider_name: Option<Arc<str>>,
    /// The connection's id, a UUID; left out when none.
    pub session_id: Option<Arc<str>>,
}

impl LogRecord {
    /// A record in which everything else is absent, empty or zero, and the class [`UNCATEGORIZED`].
    pub fn new(kind: RecordType, timestamp: Timestamp, created: Timestamp, response: Response) -> Self {
        LogRecord {
            kind,
            id: String::new(),
            sender: String::new(),
            recipient: Recipients::default(),
            queue: Arc::default(),
            site: Arc::default(),
            size: 0,
            response,
            peer_address: None,
            timestamp,
            created,
            num_attempts: 0,
            bounce_classification: Cow::Borrowed(UNCATEGORIZED),
            egress_pool: None,
            egress_source: None,
            source_address: None,
            feedback_report: None,
            meta: Map::new(),
            headers: Map::new(),
            delivery_protocol: None,
            reception_protocol: None,
            nodeid: Arc::default(),
            tls_cipher: None,
            tls_protocol_version: None,
            tls_peer_subject_name: None,
            provider_name: None,
            session_id: None,
        }
    }

    /// Appends the record as one line of JSON, line feed included.
    pub fn write_json_line(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let written = self.write_members(out);
        // A Vec takes every byte and every key is a string; were that ever wrong, no half line may stay behind.
        debug_assert!(written.is_ok(), "{written:?}");
        if written.is_err() {
            out.truncate(start);
            return;
        }
        out.push(b'\n');
    }

    /// As [`Serialize`] has them, which is slower. The golden lines hold both.
    fn write_members(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        let mut line = JsonObject::begin(out);
        line.text("type", self.kind.as_str())?;
        line.text("id", &self.id)?;
        line.text("sender", &self.sender)?;
        match self.recipient.0.as_slice() {
            [one] => line.text("recipient", one)?,
            _ => line.value("recipient", &self.recipient)?,
        }
        line.text("queue", &self.queue)?;
        line.text("site", &self.site)?;
        line.value("size", &self.size)?;
        line.object_or_null("response", Some(&self.response), Response::write_members)?;
        line.object_or_null("peer_address", self.peer_address.as_ref(), PeerAddress::write_members)?;
        line.value("timestamp", &self.timestamp.unix_seconds())?;
        line.text("event_time", self.timestamp.rfc3339().as_str())?;
        line.value("created", &self.created.unix_seconds())?;
        line.text("created_time", self.created.rfc3339().as_str())?;
        line.value("num_attempts", &self.num_attempts)?;
        line.text("bounce_classification", &self.bounce_classification)?;
        line.text_or_null("egress_pool", self.egress_pool.as_deref())?;
        line.text_or_null("egress_source", self.egress_source.as_deref())?;
        line.object_or_null("source_address", self.source_address.as_ref(), SourceAddress::write_members)?;
        line.value("feedback_report", &self.feedback_report)?;
        line.value("meta", &self.meta)?;
        line.value("headers", &self.headers)?;
        line.text_or_null("delivery_protocol", self.delivery_protocol.as_deref())?;
        line.text_or_null("reception_protocol", self.reception_protocol.as_deref())?;
        line.text("nodeid", &self.nodeid)?;
        line.text_if_any("tls_cipher", self.tls_cipher.as_deref())?;
        line.text_if_any("tls_protocol_version", self.tls_protocol_version.as_deref())?;
        if let Some(subject) = &self.tls_peer_subject_name {
            line.value("tls_peer_subject_name", subject)?;
        }
        line.text_if_any("provider_name", self.provider_name.as_deref())?;
        line.text_if_any("session_id", self.session_id.as_deref())?;
        line.end();
        Ok(())
    }
}

impl Serialize for LogRecord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut line = serializer.serialize_struct("LogRecord", FIELDS_MAX)?;
        line.serialize_field("type", self.kind.as_str())?;
        line.serialize_field("id", &self.id)?;
        line.serialize_field("sender", &self.sender)?;
        line.serialize_field("recipient", &self.recipient)?;
        line.serialize_field("queue", &self.queue)?;
        line.serialize_field("site", &self.site)?;
        line.serialize_field("size", &self.size)?;
        line.serialize_field("response", &self.response)?;
        line.serialize_field("peer_address", &self.peer_address)?;
        line.serialize_field("timestamp", &self.timestamp.unix_seconds())?;
        line.serialize_field("event_time", &self.timestamp)?;
        line.serialize_field("created", &self.created.unix_seconds())?;
        line.serialize_field("created_time", &self.created)?;
        line.serialize_field("num_attempts", &self.num_attempts)?;
        line.serialize_field("bounce_classification", &self.bounce_classification)?;
        line.serialize_field("egress_pool", &self.egress_pool)?;
        line.serialize_field("egress_source", &self.egress_source)?;
        line.serialize_field("source_address", &self.source_address)?;
        line.serialize_field("feedback_report", &self.feedback_report)?;
        line.serialize_field("meta", &self.meta)?;
        line.serialize_field("headers", &self.headers)?;
        line.serialize_field("delivery_protocol", &self.delivery_protocol)?;
        line.serialize_field("reception_protocol", &self.reception_protocol)?;
        line.serialize_field("nodeid", &self.nodeid)?;
        given::<S, _>(&mut line, "tls_cipher", &self.tls_cipher)?;
        given::<S, _>(&mut line, "tls_protocol_version", &self.tls_protocol_version)?;
        given::<S, _>(&mut line, "tls_peer_subject_name", &self.tls_peer_subject_name)?;
        given::<S, _>(&mut line, "provider_name", &self.provider_name)?;
        given::<S, _>(&mut line, "session_id", &self.session_id)?;
        line.end()
    }
}

/// Writes a field that is left out when absent.
fn given<S: Serializer, T: Serialize>(
    line: &mut S::SerializeStruct,
    name: &'static str,
    value: &Option<T>,
) -> Result<(), S::Error> {
    match value {
        Some(value) => line.serialize_field(name, value),
        None => line.skip_field(name),
    }
}

impl<'de> Deserialize<'de> for LogRecord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let line = Line::deserialize(deserializer)?;
        let timestamp = moment::<D::Error>("timestamp", line.event_time, line.timestamp)?;
        let created = moment::<D::Error>("created", line.created_time, line.created)?;
        Ok(LogRecord {
            kind: line.kind,
            id: line.id,
            sender: line.sender,
            recipient: line.recipient,
            queue: line.queue,
            site: line.site,
            size: line.size,
            response: line.response,
            peer_address: line.peer_address,
            timestamp,
            created,
            num_attempts: line.num_attempts,
            bounce_classification: line.bounce_classification.unwrap_or(Cow::Borrowed(UNCATEGORIZED)),
            egress_pool: line.egress_pool,
            egress_source: line.egress_source,
            source_address: line.source_address,
            feedback_report: line.feedback_report,
            meta: line.meta,
            headers: line.headers,
            delivery_protocol: line.delivery_protocol,
            reception_protocol: line.reception_protocol,
            nodeid: line.nodeid,
            tls_cipher: line.tls_cipher,
            tls_protocol_version: line.tls_protocol_version,
            tls_peer_subject_name: line.tls_peer_subject_name,
            provider_name: line.provider_name,
            session_id: line.session_id,
        })
    }
}

/// The finer of the two forms of a time; older records have whole seconds only.
fn moment<E: de::Error>(name: &'static str, fine: Option<Timestamp>, seconds: Option<i64>) -> Result<Timestamp, E> {
    fine.or_else(|| seconds.map(Timestamp::from_unix_seconds)).ok_or_else(|| E::missing_field(name))
}

/// A line as it is read: of any age, with fields added since.
#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: RecordType,
    id: String,
    sender: String,
    recipient: Recipients,
    queue: Arc<str>,
    site: Arc<str>,
    size: u64,
    response: Response,
    peer_address: Option<PeerAddress>,
    timestamp: Option<i64>,
    event_time: Option<Timestamp>,
    created: Option<i64>,
    created_time: Option<Timestamp>,
    num_attempts: u16,
    bounce_classification: Option<Cow<'static, str>>,
    egress_pool: Option<Arc<str>>,
    egress_source: Option<Arc<str>>,
    source_address: Option<SourceAddress>,
    feedback_report: Option<Box<FeedbackReport>>,
    #[serde(default)]
    meta: Map<String, Value>,
    #[serde(default)]
    headers: Map<String, Value>,
    delivery_protocol: Option<Cow<'static, str>>,
    reception_protocol: Option<Cow<'static, str>>,
    #[serde(default)]
    nodeid: Arc<str>,
    tls_cipher: Option<Cow<'static, str>>,
    tls_protocol_version: Option<Cow<'static, str>>,
    tls_peer_subject_name: Option<Vec<String>>,
    provider_name: Option<Arc<str>>,
    session_id: Option<Arc<str>>,
}

/// The class of what no rule matched, and of what was not classified.
pub const UNCATEGORIZED: &str = "Uncategorized";
/// Members of a line in which nothing is left out.
const FIELDS_MAX: usize = 29;
