//! The seam to policy: what a session asks, and what it may be answered.
//!
//! A question suspends the session until [`crate::Session::answer`]. Everything in a question is
//! owned, so that a driver may keep it across an await. An answer that does not fit the question
//! is a bug of the driver and panics.

use crate::settings::Settings;
use clock::Instant;
use core::net::SocketAddr;
use message::Envelope;
use smtp_wire::body::Lines;
use smtp_wire::command::{MailParams, RcptParams};
use smtp_wire::{Mailbox, Reply, ReversePath};
use spool::Receipt;
use std::sync::Arc;

/// What the session wants to know before it goes on.
#[derive(Debug)]
pub enum Question {
    /// May this peer talk to us? Any rejection closes the connection.
    ConnectionAccepted,
    /// EHLO or HELO.
    Ehlo {
        /// What the client calls itself.
        domain: String,
        /// False for HELO.
        extended: bool,
        /// What would be advertised; empty for HELO.
        extensions: Vec<String>,
    },
    /// AUTH PLAIN or LOGIN, under TLS.
    AuthPlain {
        /// Who to act as; never empty, the same as `authc` when the client named nobody.
        authz: String,
        /// Whose password it is.
        authc: String,
        /// The password.
        password: String,
    },
    /// XCLIENT: by what a client is served that connects from one address to another.
    XClient {
        /// For whom the proxy speaks.
        peer: SocketAddr,
        /// Where that one connected to.
        local: SocketAddr,
    },
    /// MAIL.
    MailFrom {
        /// The reverse path.
        sender: ReversePath,
        /// Its parameters.
        params: MailParams,
    },
    /// RCPT: both relay permission and policy.
    RcptTo {
        /// The sender of the transaction.
        sender: ReversePath,
        /// The recipient in question.
        recipient: Mailbox,
        /// Its parameters.
        params: RcptParams,
    },
    /// Take responsibility for this message, or refuse it.
    Data(Box<Transaction>),
}

/// A complete transaction, moved to the driver.
#[derive(Debug)]
pub struct Transaction {
    /// Sender and recipients accepted.
    pub envelope: Envelope,
    /// The content: unstuffed, empty or ending in CRLF, in keeping with the line settings.
    pub content: Vec<u8>,
    /// What is known of the content's lines.
    pub lines: Lines,
    /// Whether the content is ASCII alone.
    pub is_ascii: bool,
    /// Parameters of MAIL; the DSN options are in the envelope, with those of RCPT.
    pub mail_params: MailParams,
    /// Responsibility must be taken by then, or the answer be
    /// `451 4.4.5 data_processing_timeout exceeded`. The driver's to enforce, since only it knows
    /// the moment behind which a refusal would be a lie.
    pub processing_deadline: Instant,
    /// When MAIL was taken.
    pub begun_at: Instant,
    /// When DATA, or the first chunk, was asked for.
    pub content_at: Instant,
    /// When the content had come in.
    pub received_at: Instant,
}

/// What policy says.
#[derive(Debug)]
pub enum Answer {
    /// No objection: to everything but [`Question::XClient`], [`Question::AuthPlain`] and [`Question::Data`].
    Continue,
    /// No objection to EHLO, and this is to be advertised. What the session accepts stays as it is.
    Extensions(Vec<String>),
    /// The session goes on with the client of [`Question::XClient`], by these.
    Anew(Arc<Settings>),
    /// The credentials are right.
    Authenticated(Identity),
    /// The credentials are wrong.
    NotAuthenticated,
    /// Responsibility for the messages made of the transaction is taken: the one way to a 250.
    /// At least one receipt.
    Accepted(Vec<Receipt>),
    /// Refused. A reply that is not 4xx or 5xx is a policy error and answered as such.
    Reject {
        /// What to tell the client.
        reply: Reply,
        /// And whether to go on.
        disconnect: Disconnect,
    },
}

/// What becomes of the connection after a rejection (KumoMTA's `kumo.disconnect`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Disconnect {
    /// Close if the reply is a 421.
    #[default]
    If421,
    /// Send a 421 behind the reply, and close.
    FollowWith421,
    /// Close behind the reply.
    ForceDisconnect,
}

/// Who the client proved to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Who it acts as.
    pub authz: String,
    /// Whose credentials it had.
    pub authc: String,
}

/// Facts of a finished handshake, as KumoMTA's `tls_*` metadata wants them.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TlsInfo {
    /// Cipher suite.
    pub cipher: String,
    /// `TLSv1.3` and the like.
    pub protocol_version: String,
    /// Subject of the verified client certificate; empty without one.
    pub peer_subject_name: Vec<String>,
}
