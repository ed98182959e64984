//! The log record: what became of a message, field for field as KumoMTA writes it.
//!
//! Owns [`LogRecord`] and the nouns in it. In: the facts of one event, filled in by whoever settles it. Out: one line of
//! JSON ([`LogRecord::write_json_line`]), the text the bounce classifier reads ([`Response::to_single_line`]), and the
//! same struct read back. Writing cannot fail; reading fails with serde's words. It writes no file, asks no clock, and
//! decides nothing about deliveries.

mod address;
mod feedback;
mod json_object;
mod log_record;
mod recipients;
mod record_type;
mod response;
mod timestamp;

pub use address::{PeerAddress, ProxyProtocol, SourceAddress};
pub use feedback::{ByteString, FeedbackReport, RemoteMta};
pub use log_record::{LogRecord, UNCATEGORIZED};
pub use recipients::Recipients;
pub use record_type::RecordType;
pub use response::{EnhancedCode, Response};
pub use timestamp::{Rfc3339, Timestamp};
