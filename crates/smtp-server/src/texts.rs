//! Every reply the session gives on its own, in one place: code, enhanced code, text.
//!
//! KumoMTA's texts where it has them, since classifiers and people know them. What a client
//! wrote is echoed shortened and in ASCII only.

use smtp_wire::command::CommandError;
use smtp_wire::{EnhancedCode, Reply};

/// 4.3.2, "system not accepting messages": never logged as a rejection (KumoMTA behaviour).
pub(crate) const NOT_NOW: EnhancedCode = EnhancedCode::new(4, 3, 2);
/// 4.3.0: policy failed.
pub(crate) const POLICY_ERROR: EnhancedCode = EnhancedCode::new(4, 3, 0);

pub(crate) const HELLO_FIRST: (u16, &str) = (503, "5.5.0 EHLO or HELO first");
pub(crate) const MAIL_FIRST: (u16, &str) = (503, "5.5.0 MAIL FROM first");
pub(crate) const RCPT_FIRST: (u16, &str) = (503, "5.5.0 RCPT TO first");
pub(crate) const MAIL_TWICE: (u16, &str) = (503, "5.5.0 MAIL FROM already given, RSET first");
pub(crate) const IN_CHUNKS: (u16, &str) = (503, "5.5.0 message is being sent in chunks, only BDAT or RSET now");
pub(crate) const CHUNKS_FAILED: (u16, &str) = (503, "5.5.0 an earlier chunk was refused, RSET first");
pub(crate) const TOO_MANY_RECIPIENTS: (u16, &str) = (452, "4.5.3 too many recipients");
pub(crate) const MESSAGE_TOO_BIG: (u16, &str) = (552, "5.3.4 message too big");
pub(crate) const NO_ROOM_FOR_SIZE: (u16, &str) = (452, "4.3.1 no room for a message of this size now");
pub(crate) const NO_ROOM_FOR_RECIPIENTS: (u16, &str) = (452, "4.3.1 no room for more recipients now");
pub(crate) const SPOOL_FULL: (u16, &str) = (452, "4.3.1 disk is too full");
pub(crate) const SPOOL_FAILING: (u16, &str) = (451, "4.3.0 messages cannot be stored now");
pub(crate) const LINE_TOO_LONG: (u16, &str) = (500, "5.2.3 line too long");
pub(crate) const BARE_LINE_ENDING: (u16, &str) = (552, "5.6.0 message data must use CRLF for line endings");
pub(crate) const COMMAND_TOO_LONG: (u16, &str) = (500, "5.5.2 command line too long");
pub(crate) const REQUIRETLS_IN_CLEAR: (u16, &str) = (530, "5.7.10 REQUIRETLS needs an encrypted connection");
pub(crate) const NEEDS_SMTPUTF8: (u16, &str) = (553, "5.6.7 address needs SMTPUTF8");
pub(crate) const NO_POSTMASTER: (u16, &str) = (550, "5.1.1 the name of this host is no domain to have a postmaster");
pub(crate) const NOT_IMPLEMENTED: (u16, &str) = (502, "5.5.1 command not implemented");
pub(crate) const HELLO_TOO_LONG: (u16, &str) = (501, "5.5.4 name too long");
pub(crate) const EARLY_TALK: (u16, &str) = (554, "5.5.0 SMTP protocol synchronization error");
pub(crate) const TLS_UNAVAILABLE: (u16, &str) = (502, "5.5.1 TLS not available");
pub(crate) const TLS_TWICE: (u16, &str) = (503, "5.5.0 TLS already active");
pub(crate) const TLS_INJECTION: (u16, &str) = (554, "5.5.0 nothing may follow STARTTLS before the handshake");
pub(crate) const XCLIENT_FORBIDDEN: (u16, &str) = (550, "5.7.0 XCLIENT is not allowed from here");
pub(crate) const XCLIENT_IN_TRANSACTION: (u16, &str) = (503, "5.5.0 no XCLIENT inside a transaction");
pub(crate) const AUTH_NEEDS_TLS: (u16, &str) = (524, "5.7.11 AUTH needs an encrypted connection, STARTTLS first");
pub(crate) const AUTH_TWICE: (u16, &str) = (503, "5.5.0 already authenticated");
pub(crate) const AUTH_IN_TRANSACTION: (u16, &str) = (503, "5.5.0 no AUTH inside a transaction");
pub(crate) const AUTH_MECHANISM: (u16, &str) = (504, "5.5.4 unknown AUTH mechanism, expected PLAIN or LOGIN");
pub(crate) const AUTH_DECODING: (u16, &str) = (501, "5.5.2 malformed AUTH response");
pub(crate) const AUTH_CANCELLED: (u16, &str) = (501, "5.7.0 AUTH cancelled");
pub(crate) const AUTH_INVALID: (u16, &str) = (535, "5.7.8 AUTH invalid");

/// Most octets of an own text with an echo in it: a reply line has 512 (RFC 5321 section 4.5.3.1.5).
const TEXT_OCTETS_MAX: usize = 400;

/// A table entry as a reply.
pub(crate) fn reply(entry: (u16, &str)) -> Reply {
    Reply::new(entry.0, entry.1)
}

/// The answer to a line that is no command.
pub(crate) fn of_command_error(error: &CommandError) -> Reply {
    let (code, enhanced) = match error {
        CommandError::Empty => (500, "5.5.2"),
        CommandError::NotText => (500, "5.5.2"),
        CommandError::Syntax { .. } => (501, "5.5.4"),
        CommandError::Sender(_) => (501, "5.1.7"),
        CommandError::Recipient(_) => (501, "5.1.3"),
        CommandError::UnknownParameter(_) => (555, "5.5.4"),
        CommandError::RepeatedParameter(_) => (501, "5.5.4"),
        CommandError::ParameterValue { .. } => (501, "5.5.4"),
        CommandError::ChunkSize(_) => (501, "5.5.4"),
    };
    Reply::new(code, &format!("{enhanced} {}", echo(&error.to_string())))
}

/// Printable ASCII, shortened.
fn echo(text: &str) -> String {
    let printable = |c: char| {
        if c.is_ascii() && !c.is_ascii_control() { c } else { '?' }
    };
    text.chars().take(TEXT_OCTETS_MAX).map(printable).collect()
}
