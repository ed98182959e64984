//! Where in a session something happened: for timeouts, logs and operators' eyes.

use core::fmt;

/// A phase of a session, named after the reply that is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The 220 greeting.
    Banner,
    /// EHLO, HELO or LHLO.
    Ehlo,
    /// STARTTLS and the handshake.
    StartTls,
    /// AUTH.
    Auth,
    /// Nothing: the session waits for a message.
    Idle,
    /// RSET.
    Rset,
    /// MAIL.
    MailFrom,
    /// RCPT.
    RcptTo,
    /// DATA.
    Data,
    /// The final dot.
    DataDot,
    /// QUIT.
    Quit,
    /// The session is over.
    Closed,
}

impl Phase {
    /// Words for a sentence: `waiting for the reply to {phase}`.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Banner => "the greeting",
            Phase::Ehlo => "EHLO",
            Phase::StartTls => "STARTTLS",
            Phase::Auth => "AUTH",
            Phase::Idle => "idle",
            Phase::Rset => "RSET",
            Phase::MailFrom => "MAIL FROM",
            Phase::RcptTo => "RCPT TO",
            Phase::Data => "DATA",
            Phase::DataDot => "the final dot",
            Phase::Quit => "QUIT",
            Phase::Closed => "closed",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
