//! What a session wants its driver to do next, and how it ended.

use crate::{Outcome, Phase};
use smtp_wire::Reply;
use std::sync::Arc;

/// The answer of [`next`](crate::Session::next).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A job is over: settle it. Ask again at once.
    Outcome(Outcome),
    /// [`output`](crate::Session::output) holds bytes: begin further jobs while
    /// [`can_begin`](crate::Session::can_begin), write what can be written, ask again.
    Send,
    /// Do a TLS handshake on the connection, then say
    /// [`tls_started`](crate::Session::tls_started) or [`tls_failed`](crate::Session::tls_failed).
    StartTls,
    /// No job in hand: [`begin`](crate::Session::begin) or [`finish`](crate::Session::finish), or
    /// keep the connection idle, still reading from it.
    Ready,
    /// Read and [`feed`](crate::Session::feed), no longer than [`deadline`](crate::Session::deadline).
    NeedInput,
    /// The connection is of no more use and every outcome was given. Said again when asked again.
    Close(Closing),
}

/// How a session ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closing {
    /// The cause.
    pub why: CloseReason,
    /// When.
    pub phase: Phase,
    /// The server's last word, or ours when `local`.
    pub reply: Arc<Reply>,
    /// The reply was made here.
    pub local: bool,
    /// TLS was the trouble and the settings allow to connect to the same host without it.
    pub reconnect_in_clear: bool,
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// As asked, with QUIT.
    Finished,
    /// The greeting, EHLO, STARTTLS, AUTH or RSET was refused.
    Refused,
    /// 421.
    ServiceClosing,
    /// A phase took too long.
    TimedOut,
    /// The connection broke.
    ConnectionLost,
    /// Replies that cannot be matched with commands: the session lost its place.
    ProtocolViolation,
    /// Bytes that are not a reply.
    Malformed,
    /// TLS is required and not offered.
    TlsUnavailable,
    /// REQUIRETLS is needed and not offered.
    RequireTlsUnavailable,
    /// The TLS handshake failed.
    TlsFailed,
    /// Credentials are set but cannot be used with this server.
    AuthUnavailable,
}
