//! The MIME tree of a message: read, looked at, edited, built, made conformant (KumoMTA's `kumo.mimepart`, and the calls of
//! a message that look into its content).
//!
//! Owns: [`MimePart`] (a part and, through its children, the tree), [`Headers`] with typed values ([`FIELDS`] is the one
//! table of types), [`Builder`], [`Conformance`] with [`check_fix`], [`append_text`]. Stands on `mime`: its index, its
//! header edits, its address parser.
//!
//! In: octets, any; edits; `now` and a seed where a date or an id is made. Out: octets. An untouched part is written octet
//! for octet; an edited one so that no edit changes the structure. Can fail: edits and typed values ([`PartError`]); reading
//! never does. Bounds stand in [`limits`]; at a bound the rest is opaque.
//!
//! Deliberately does not: look into message/rfc822 (but to rebuild it), keep signatures valid, know S/MIME or PGP.

mod address;
mod append_text;
mod auth_results;
mod builder;
mod charset;
mod check_fix;
mod conformance;
mod construct;
mod date;
mod edit;
mod error;
mod field;
mod headers;
mod message_id;
mod mime_params;
mod parse;
mod part;
mod part_id;
mod rebuild;
mod scan;
mod structure;
mod transfer;
mod write;

pub use address::{AddrSpec, Address, Group, Mailbox};
pub use append_text::append_text;
pub use auth_results::{AuthenticationResult, AuthenticationResults};
pub use builder::{Builder, STABLE_DATE};
pub use charset::Detection;
pub use check_fix::{CheckFixSettings, Outcome, check_fix};
pub use conformance::Conformance;
pub use construct::AttachmentOptions;
pub use error::PartError;
pub use field::{FIELDS, FieldKind, FieldValue, Header, TypedField};
pub use headers::Headers;
pub use mime_params::MimeParams;
pub use part::{Content, MimePart};
pub use part_id::PartId;
pub use structure::{Attachment, SimpleStructure};

/// The bounds of this crate, each with its unit.
pub mod limits {
    pub use crate::auth_results::RESULTS_MAX;
    pub use crate::headers::HEADER_BYTES_MAX;
    pub use crate::message_id::{ID_OCTETS_MAX, IDS_MAX};
    pub use crate::mime_params::{NAME_OCTETS_MAX, PARAMETERS_MAX, VALUE_OCTETS_MAX};
    pub use crate::parse::BOUNDARY_OCTETS_MAX;
    pub use crate::part::{DEPTH_MAX, PARTS_MAX};
    pub use crate::transfer::{ENCODED_LINE_MAX, LINE_OCTETS_MAX};
}
