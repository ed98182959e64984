//! Header words: where every header field of a message is, how to edit the header block, and how to
//! read values out of it.
//!
//! Owns: [`HeaderIndex`] (offsets over the raw bytes), [`HeaderBlock`] (the same plus edits, written
//! out once at sealing), [`HeaderView`] (reading, edits included), value encoding and decoding
//! (RFC 2047), [`AddressList`] (RFC 5322 address headers), header import rules for policy.
//!
//! In: raw message bytes as received. Out: ranges, edited header bytes, decoded strings.
//! Can fail: edits with unusable names or values ([`HeaderError`]), address parsing
//! ([`AddressError`]), reports ([`ReportError`]), import rules ([`ImportError`]). Indexing never fails: mail is odd and must pass.
//!
//! Also reads reports about mail ([`DeliveryReport`], [`FeedbackReport`]), the one place that looks at MIME structure.
//!
//! Deliberately does not: parse the MIME structure of ordinary mail, touch or copy the body, correct what a sender wrote,
//! or read a clock. A full MIME parse of a 100 KB message costs 440 us; an index costs less than 1 us.

mod address;
mod block;
mod decode;
mod encode;
mod import;
mod index;
mod lexer;
mod multipart;
mod report;
mod report_fields;
mod report_write;
mod view;

pub use address::{Address, AddressError, AddressList, Mailbox};
pub use block::HeaderBlock;
pub use decode::decode_unstructured;
pub use encode::{HeaderError, ValueForm, encode_field, encode_words};
pub use import::{ImportError, ImportMatch, ImportRule, Imported, NameTransform, meta_name};
pub use index::{FieldSpan, HeaderIndex};
pub use report::{DeliveryReport, FeedbackReport, PerMessage, PerRecipient, ReportError, ReportKind, Typed};
pub use report_write::{Enclosed, NewReport};
pub use view::{FieldView, HeaderView};

/// The bounds of this crate, each with its unit.
pub mod limits {
    pub use crate::address::ADDRESSES_MAX;
    pub use crate::encode::{FIELD_BYTES_MAX, NAME_BYTES_MAX};
    pub use crate::index::{FIELDS_MAX, HEADER_BYTES_MAX};
    pub use crate::lexer::COMMENT_DEPTH_MAX;
    pub use crate::multipart::PARTS_MAX;
    pub use crate::report::ORIGINAL_OCTETS_MAX;
    pub use crate::report_fields::{FIELDS_MAX as REPORT_FIELDS_MAX, GROUPS_MAX, VALUE_OCTETS_MAX};
    pub use crate::report_write::{FIELD_TEXT_MAX, HEADER_ENCLOSED_MAX};
}
