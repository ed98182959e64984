//! The envelope: who it is from and who it is for, as SMTP was told; never the header fields. The one thing of them that
//! it knows is the sender's word about TLS, which a header field may give too.

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
    /// What the sender says about TLS on the way.
    pub tls: TlsDemand,
}

/// What a sender demands of TLS on the message's way (RFC 8689).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TlsDemand {
    /// Nothing: what the receiving domain and the operator want is done. Nearly all mail.
    #[default]
    Usual,
    /// MAIL's parameter `REQUIRETLS`: never but under TLS with a known server that promises the same.
    Required,
    /// The header field `TLS-Required: No`: rather without TLS than not at all.
    Waived,
}

impl TlsDemand {
    /// All of them, in the order of their numbers.
    pub const ALL: [TlsDemand; 3] = [TlsDemand::Usual, TlsDemand::Required, TlsDemand::Waived];

    /// What stands for it where text is kept; none for the usual.
    pub fn word(self) -> Option<&'static str> {
        match self {
            TlsDemand::Usual => None,
            TlsDemand::Required => Some("requiretls"),
            TlsDemand::Waived => Some("tls-required-no"),
        }
    }

    /// The reverse of [`TlsDemand::word`].
    pub fn of_word(word: &str) -> Option<TlsDemand> {
        TlsDemand::ALL.into_iter().find(|demand| demand.word() == Some(word))
    }
}

impl Envelope {
    /// True when an address needs SMTPUTF8 to travel (RFC 6531).
    pub fn needs_smtputf8(&self) -> bool {
        let ascii = self.sender.0.as_ref().is_none_or(Mailbox::is_ascii);
        !ascii || !self.recipients.iter().all(Mailbox::is_ascii)
    }

    /// What must hold for every hop. A report (it has no sender) is sent with `REQUIRETLS` where that can be, and is not
    /// lost where it cannot (RFC 8689 section 5).
    pub fn tls_demand(&self) -> TlsDemand {
        match self.tls {
            TlsDemand::Required if self.sender.0.is_none() => TlsDemand::Usual,
            demand => demand,
        }
    }

    /// The envelope for some of the recipients, by number.
    #[must_use]
    pub fn part(&self, recipients: &[usize]) -> Envelope {
        let dsn = self.dsn.as_ref().and_then(|dsn| dsn.part(recipients.iter().copied()));
        let recipients = recipients.iter().filter_map(|r| self.recipients.get(*r)).cloned().collect();
        Envelope { sender: self.sender.clone(), recipients, dsn, tls: self.tls }
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
        Envelope { sender: ReversePath(None), recipients, dsn, tls: TlsDemand::Required }
    }

    fn shown(envelope: &Envelope) -> Vec<String> {
        let options = |r| envelope.dsn.as_ref().map(|dsn| dsn.rcpt_text(r)).unwrap_or_default();
        envelope.recipients.iter().enumerate().map(|(r, address)| format!("{address}{}", options(r))).collect()
    }

    #[test]
    fn a_demand_stays_with_every_part_and_loses_no_report() {
        let part = envelope().part(&[1]);
        assert_eq!((part.tls, part.tls_demand()), (TlsDemand::Required, TlsDemand::Usual));
        let sender = ReversePath::parse("s@x.test").expect("sound");
        assert_eq!(Envelope { sender, ..part }.tls_demand(), TlsDemand::Required);
        for demand in TlsDemand::ALL {
            assert_eq!(demand.word().map(TlsDemand::of_word), demand.word().map(|_| Some(demand)));
        }
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
