//! Sender checks: what a message and its client prove about where it is from. SPF, DKIM, DMARC, ARC, iprev.
//!
//! Owns: [`spf`] (RFC 7208), [`dkim`] (RFC 6376, 8301, 8463), [`dmarc`] (RFC 7489, RFC 9989), [`arc`] (RFC 8617: checks a chain, and
//! continues it), [`iprev()`] (RFC 8601 section 3).
//! In: a message as [`Mail`], the client's address, the time, and a `route::Resolver`: every question of DNS goes through it, so
//! that resolvers and test zones of the policy count. Out: [`AuthenticationResult`]s and dispositions, ready for policy.
//! Can fail: only sealing ([`arc::SealError`]). Whatever strangers send, and whatever DNS says, is a result.
//!
//! Everything that waits here waits for the resolver; no clock, no chance, no files. Parsers and judgements are plain functions;
//! the `async` ones ask and hand the answers over.
//!
//! Bounds: each stands with its room and is listed in [`limits`]. Work grows with the octets of the message and with nothing
//! else: ten signatures are looked at, a body is hashed once a form and once a signature with `l=`, a header field once a
//! signature.
//!
//! Why no library: mail-auth (the choice for parsers elsewhere in mail) reaches DNS through a client of its own, which it needs
//! for aws-lc-rs too; questions past the policy's resolver are not acceptable, and answering its cache's misses in rounds
//! would mean evaluating a record once for each question in it. What is here stands on aws-lc-rs and on the canonical forms
//! of `sender-auth`.
//!
//! Deliberately does not: decide what happens to mail (policy does), count and send what DMARC reports (`report-sender` does), keep
//! answers (the resolver does).

pub mod arc;
pub mod dkim;
pub mod dmarc;
mod iprev;
mod mail;
mod questions;
mod results;
mod signature;
pub mod spf;
pub mod tags;
mod text;

pub use iprev::iprev;
pub use mail::Mail;
pub use mimepart::AuthenticationResult;
pub use questions::names_of;
pub use text::{domain_name, shown};

/// The bounds of this crate, each with its unit.
pub mod limits {
    pub use crate::arc::{ARC_FIELDS_MAX, ARC_SETS_MAX};
    pub use crate::dkim::{KEY_RECORDS_MAX, RSA_BITS_MAX, RSA_BITS_MIN, SIGNATURES_MAX};
    pub use crate::dmarc::{DMARC_QUESTIONS_MAX, FROM_MAILBOXES_MAX, IDENTITIES_MAX, WALK_QUESTIONS_MAX, WALKS_MAX};
    pub use crate::iprev::IPREV_NAMES_MAX;
    pub use crate::results::PROP_BYTES_MAX;
    pub use crate::signature::SIGNED_NAMES_MAX;
    pub use crate::spf::{
        EXPANSION_BYTES_MAX, EXPLANATION_CHARS_MAX, LOOKUP_TERMS_MAX, MX_NAMES_MAX, PTR_NAMES_MAX, RECORD_BYTES_MAX,
        VOID_LOOKUPS_MAX,
    };
    pub use crate::tags::{LIST_BYTES_MAX, TAGS_MAX};
}
