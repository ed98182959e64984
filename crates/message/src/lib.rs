//! The message, from draft to sealed to queued: nouns with a durable form.
//!
//! Owns [`MessageId`], [`Envelope`], [`Meta`], [`Draft`] (editable by policy), [`Sealed`]
//! (final bytes, immutable) and [`Message`] (what queues pass by value), and the encoding of
//! envelope and metadata that the spool stores ([`codec`]). In: bytes and addresses from a
//! face; out: sealed content for the spool, messages for the queue.
//!
//! Deliberately absent: how content is synced (spool), where a message goes (queue, route),
//! how headers are parsed (mime).

pub mod codec;
mod draft;
mod envelope;
mod header_utf8;
mod id;
mod message;
mod meta;
mod parcel;
mod place;
mod sealed;
mod settled;
mod supplemental;

pub use draft::Draft;
pub use envelope::{Envelope, TlsDemand};
pub use header_utf8::{header_needs_utf8, note_header_utf8};
pub use id::{IdGenerator, MessageId};
pub use message::{Message, Resident};
pub use meta::Meta;
pub use parcel::{Parcel, ParcelError};
pub use place::Place;
pub use sealed::Sealed;
pub use settled::Settled;
