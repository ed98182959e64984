//! The envelope: who it is from and who it is for, as SMTP was told; never the header fields.

use smtp_wire::{Dsn, Mailbox, ReversePath};

/// Reverse path and recipients (RFC 5321 section 2.3.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// MAIL FROM.
    pub sender: ReversePath,
    /// RCPT TO, in the order given; never empty for a queued message.
    pub recipients: Vec<Mailbox>,
    /// What the sender wants to be told (RFC 3461), its list parallel to `recipients`; `None` for nearly all mail.
    pub dsn: Option<Box<Dsn>>,
}

impl Envelope {
    /// True when an address needs SMTPUTF8 to travel (RFC 6531).
    pub fn needs_smtputf8(&self) -> bool {
        let ascii = self.sender.0.as_ref().is_none_or(Mailbox::is_ascii);
        !ascii || !self.recipients.iter().all(Mailbox::is_ascii)
    }

    /// The envelope for some of the recipients, by number.
    #[must_use]
    pub fn part(&self, recipients: &[usize]) -> Envelope {
        let dsn = self.dsn.as_ref().and_then(|dsn| dsn.part(recipients.iter().copied()));
        let recipients = recipients.iter().filter_map(|r| self.recipients.get(*r)).cloned().collect();
        Envelope { sender: self.sender.clone(), recipients, dsn }
    }

    /// Replaces the recipients. DSN options stay with the addresses that stay; one recipient that becomes one other
    /// takes them along (RFC 3461 section 5.2.7.1), any further address begins without.
    pub fn set_recipients(&mut self, recipients: Vec<Mailbox>) {
        if let Some(dsn) = self.dsn.take() {
            let is_forwarded = self.recipients.len() == 1 && recipients.len() == 1;
            let before = |new: &Mailbox| match is_forwarded {
                true => 0,
                false => self.recipients.iter().position(|old| old == new).unwrap_or(usize::MAX),
            };
            self.dsn = dsn.part(recipients.iter().map(before));
        }
        self.recipients = recipients;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope() -> Envelope {
        let recipients = ["a@x.test", "b@x.test", "c@x.test"].map(|r| Mailbox::parse(r).expect(r)).to_vec();
        let texts = ["NOTIFY=NEVER", "", "ORCPT=rfc822;c"];
        let dsn = Dsn::parse("RET=FULL", texts.into_iter()).map(Box::new).ok();
        Envelope { sender: ReversePath(None), recipients, dsn }
    }

    fn shown(envelope: &Envelope) -> Vec<String> {
        let options = |r| envelope.dsn.as_ref().map(|dsn| dsn.rcpt_text(r)).unwrap_or_default();
        envelope.recipients.iter().enumerate().map(|(r, address)| format!("{address}{}", options(r))).collect()
    }

    #[test]
    fn options_stay_with_their_recipients() {
        let mut envelope = envelope();
        assert_eq!(shown(&envelope.part(&[2, 0])), ["c@x.test ORCPT=rfc822;c", "a@x.test NOTIFY=NEVER"]);
        let new = |list: &[&str]| list.iter().map(|r| Mailbox::parse(r).expect("sound")).collect::<Vec<_>>();
        envelope.set_recipients(new(&["d@x.test", "a@x.test"]));
        assert_eq!(shown(&envelope), ["d@x.test", "a@x.test NOTIFY=NEVER"]);
        assert_eq!(envelope.dsn.as_ref().map(|dsn| dsn.mail_text()).as_deref(), Some(" RET=FULL"));
        let mut one = envelope.part(&[1]);
        one.set_recipients(new(&["e@y.test"]));
        assert_eq!(shown(&one), ["e@y.test NOTIFY=NEVER"]);
    }
}
