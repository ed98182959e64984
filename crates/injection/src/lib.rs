//! Mail from a request: one message for each recipient, out of templates, texts and attachments (KumoMTA's
//! `POST /api/inject/v1` and `kumo.api.inject`).
//!
//! Owns [`Injection`], the request, and [`Generator`], which makes its messages. In: a request that was read strictly, an
//! identity for each message, the time. Out: drafts with the body in place. Recipients for whom nothing differs but To share
//! one body, so that the spool stores it once.
//!
//! Can fail: the request as a whole ([`InjectionError`], with a JSON pointer to what is wrong in it), or one recipient
//! ([`RecipientError`]). Adds MIME-Version and To; no Date and no Message-ID (KumoMTA behaviour). Deliberately absent: metadata
//! about the client, events, trace headers, queues: the engine's.

mod content;
mod generator;
mod headers;
mod outcome;
mod parts;
mod portion;
mod request;

pub use generator::{Generator, RecipientError};
pub use outcome::Outcome;
pub use request::{
    Attachment, Content, Injection, InjectionError, InjectionTrace, NamedAddress, Recipient, StructuredContent,
};
