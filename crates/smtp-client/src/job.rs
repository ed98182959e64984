//! What a session is given to send and what it gives back.
//!
//! A [`Job`] goes in with [`begin`](crate::Session::begin); exactly one [`Outcome`] with the
//! same ticket comes out, with one [`RecipientResult`] per recipient in the job's order.

use crate::Phase;
use bytes::Bytes;
use smtp_wire::{Body, Dsn, Mailbox, Reply, ReversePath};
use std::borrow::Cow;
use std::sync::Arc;

/// One message for one or more recipients behind this server.
#[derive(Clone, Debug)]
pub struct Job {
    /// The caller's handle; comes back in the outcome.
    pub ticket: u64,
    /// For MAIL FROM.
    pub sender: ReversePath,
    /// For RCPT TO, in order.
    pub recipients: Vec<Mailbox>,
    /// What the sender wants to be told, in the order of `recipients`; passed on to servers that offer DSN.
    pub dsn: Option<Box<Dsn>>,
    /// MAIL's `REQUIRETLS` goes with it (RFC 8689): without, it is not sent at all, unless it has no sender.
    pub requiretls: bool,
    /// The header section with its empty line (any split into two will do).
    pub head: Bytes,
    /// The rest of the content.
    pub body: Body,
    /// The content has octets over 127.
    pub needs_8bit: bool,
    /// The content's header needs SMTPUTF8. Non-ASCII addresses are seen without it.
    pub needs_smtputf8: bool,
}

/// The end of one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Of the job.
    pub ticket: u64,
    /// One per recipient, in the job's order.
    pub results: Vec<RecipientResult>,
}

/// What became of one recipient, with the reply that decided it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecipientResult {
    /// The decision.
    pub verdict: Verdict,
    /// The server's reply, or ours when `local`. Shared by recipients with the same fate.
    pub reply: Arc<Reply>,
    /// The command it answers (`MAIL FROM:<..>`, `RCPT TO:<..>`, `DATA`, `.`); empty when
    /// nothing was sent.
    pub command: Cow<'static, str>,
    /// When it happened.
    pub phase: Phase,
    /// The reply was made here: its text begins with [`INTERNAL_PREFIX`](crate::INTERNAL_PREFIX).
    pub local: bool,
}

/// What a reply means for a recipient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The server took responsibility: 2xx to the final dot of the whole content.
    Delivered,
    /// Try again later.
    Transient,
    /// Never try again.
    Permanent,
    /// The final dot was written, but no reply to it could be read. Try again later; the retry
    /// may make a duplicate (RFC 1047), which is allowed where a loss is not.
    Unknown,
    /// Nothing was asked of the server for this job, or nothing it answered before a reused
    /// connection broke: give the job back and count no attempt. Never the verdict for the first
    /// job of a connection, so that an immediate retry elsewhere cannot go on for ever.
    NotAttempted,
}
