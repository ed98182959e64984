//! The envelope: who it is from and who it is for, as SMTP was told; never the header fields.

use smtp_wire::{Mailbox, ReversePath};

/// Reverse path and recipients (RFC 5321 section 2.3.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// MAIL FROM.
    pub sender: ReversePath,
    /// RCPT TO, in the order given; never empty for a queued message.
    pub recipients: Vec<Mailbox>,
}

impl Envelope {
    /// True when an address needs SMTPUTF8 to travel (RFC 6531).
    pub fn needs_smtputf8(&self) -> bool {
        let ascii = self.sender.0.as_ref().is_none_or(Mailbox::is_ascii);
        !ascii || !self.recipients.iter().all(Mailbox::is_ascii)
    }
}
