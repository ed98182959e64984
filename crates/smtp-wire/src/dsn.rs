//! What a sender wants to be told about a message: the options of RFC 3461, kept together.
//!
//! Owns [`Dsn`], the RET and ENVID of MAIL with the NOTIFY and ORCPT of each RCPT. In: parsed parameters, or the text
//! of parameters as it was stored ([`Dsn::parse`], which checks as a server does). Out: that text again, for the wire
//! ([`Dsn::mail_text`], [`Dsn::rcpt_text`]). What is done about a wish is others' business.

use crate::command::{CommandError, MailParams, Notify, OriginalRecipient, RcptParams, Ret};
use core::fmt::{self, Write};

/// DSN options of an envelope; most mail has none, so envelopes keep it boxed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dsn {
    /// How much a report shall return.
    pub ret: Option<Ret>,
    /// The sender's name for the message; printable ASCII.
    pub envid: Option<String>,
    /// Of each recipient, in the order of the envelope.
    pub recipients: Vec<RcptParams>,
}

impl Dsn {
    /// The options given; `None` when there are none.
    pub fn new(ret: Option<Ret>, envid: Option<String>, recipients: Vec<RcptParams>) -> Option<Box<Dsn>> {
        let any = ret.is_some() || envid.is_some() || recipients.iter().any(|r| !r.is_empty());
        any.then(|| Box::new(Dsn { ret, envid, recipients }))
    }

    /// Options of a recipient; none when it gave none.
    pub fn of(&self, recipient: usize) -> &RcptParams {
        self.recipients.get(recipient).unwrap_or(&NONE)
    }

    /// The options as they are for some of the recipients, in the order given.
    pub fn part(&self, recipients: impl Iterator<Item = usize>) -> Option<Box<Dsn>> {
        Dsn::new(self.ret, self.envid.clone(), recipients.map(|r| self.of(r).clone()).collect())
    }

    /// The parameters of MAIL, each with a blank before it.
    pub fn mail_text(&self) -> String {
        let ret = self.ret.map(|ret| match ret {
            Ret::Full => " RET=FULL",
            Ret::Headers => " RET=HDRS",
        });
        let envid = self.envid.as_deref().map(|envid| format!(" ENVID={}", Xtext(envid)));
        [ret.unwrap_or_default(), envid.as_deref().unwrap_or_default()].concat()
    }

    /// The parameters of a recipient's RCPT, each with a blank before it.
    pub fn rcpt_text(&self, recipient: usize) -> String {
        let RcptParams { notify, orcpt } = self.of(recipient);
        text(*notify, orcpt.as_ref())
    }

    /// The same in ASCII, which every server that offers DSN takes.
    pub fn rcpt_wire(&self, recipient: usize) -> String {
        let RcptParams { notify, orcpt } = self.of(recipient);
        text(*notify, orcpt.as_ref().map(OriginalRecipient::to_ascii).as_ref())
    }

    /// From the texts that [`Dsn::mail_text`] and [`Dsn::rcpt_text`] gave.
    ///
    /// # Errors
    /// What a server would say to such parameters.
    pub fn parse<'a>(mail: &str, recipients: impl Iterator<Item = &'a str>) -> Result<Dsn, CommandError> {
        let MailParams { ret, envid, .. } = MailParams::parse(mail)?;
        Ok(Dsn { ret, envid, recipients: recipients.map(RcptParams::parse).collect::<Result<_, _>>()? })
    }
}

impl Notify {
    /// What holds for a recipient without NOTIFY (RFC 3461 section 4.1: at least failure).
    pub const DEFAULT: Notify = Notify { success: false, failure: true, delay: true };
}

impl fmt::Display for Notify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wanted = [(self.success, "SUCCESS"), (self.failure, "FAILURE"), (self.delay, "DELAY")];
        let words: Vec<&str> = wanted.into_iter().filter(|(wanted, _)| *wanted).map(|(_, word)| word).collect();
        f.write_str(if words.is_empty() { "NEVER".to_owned() } else { words.join(",") }.as_str())
    }
}

impl OriginalRecipient {
    /// The same with ASCII only: `\x{HEX}` for every other character (RFC 6533 section 3).
    #[must_use]
    pub fn to_ascii(&self) -> OriginalRecipient {
        let mut address = String::with_capacity(self.address.len());
        for c in self.address.chars() {
            match c.is_ascii() {
                true => address.push(c),
                // Writing to a String cannot fail.
                false => _ = write!(address, "\\x{{{:X}}}", u32::from(c)),
            }
        }
        OriginalRecipient { address_type: self.address_type.clone(), address }
    }
}

/// `type;address`, the address in xtext; one that is not ASCII as it is.
impl fmt::Display for OriginalRecipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address.is_ascii() {
            true => write!(f, "{};{}", self.address_type, Xtext(&self.address)),
            false => write!(f, "{};{}", self.address_type, self.address),
        }
    }
}

/// Shows printable ASCII as xtext (RFC 3461 section 4).
struct Xtext<'a>(&'a str);

impl fmt::Display for Xtext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for octet in self.0.bytes() {
            match octet {
                b'!'..=b'*' | b','..=b'<' | b'>'..=b'~' => f.write_char(char::from(octet))?,
                other => write!(f, "+{other:02X}")?,
            }
        }
        Ok(())
    }
}

fn text(notify: Option<Notify>, orcpt: Option<&OriginalRecipient>) -> String {
    let notify = notify.map(|notify| format!(" NOTIFY={notify}")).unwrap_or_default();
    let orcpt = orcpt.map(|orcpt| format!(" ORCPT={orcpt}")).unwrap_or_default();
    notify + &orcpt
}

static NONE: RcptParams = RcptParams { notify: None, orcpt: None };

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rcpt(text: &str) -> RcptParams {
        RcptParams::parse(text).expect(text)
    }

    #[test]
    fn what_is_written_reads_back() {
        let recipients = vec![
            rcpt("NOTIFY=SUCCESS,DELAY ORCPT=rfc822;a+2Bb@c.example"),
            rcpt(""),
            rcpt("NOTIFY=NEVER"),
            rcpt("ORCPT=utf-8;j\u{fc}rgen=x@c.example"),
        ];
        let dsn = Dsn::new(Some(Ret::Headers), Some("a b=+".to_owned()), recipients).expect("options");
        assert_eq!(dsn.mail_text(), " RET=HDRS ENVID=a+20b+3D+2B");
        assert_eq!(dsn.rcpt_text(0), " NOTIFY=SUCCESS,DELAY ORCPT=rfc822;a+2Bb@c.example");
        assert_eq!((dsn.rcpt_text(1).as_str(), dsn.rcpt_text(99).as_str()), ("", ""));
        let texts: Vec<String> = (0..4).map(|r| dsn.rcpt_text(r)).collect();
        assert_eq!(Dsn::parse(&dsn.mail_text(), texts.iter().map(String::as_str)), Ok(*dsn.clone()));
        assert_eq!(dsn.rcpt_wire(3), " ORCPT=utf-8;j\\x{FC}rgen+3Dx@c.example");
        assert!(RcptParams::parse(&dsn.rcpt_wire(3)).is_ok());
    }

    #[test]
    fn parts_keep_what_is_theirs() {
        let dsn = Dsn::new(None, None, vec![rcpt("NOTIFY=NEVER"), rcpt(""), rcpt("NOTIFY=DELAY")]).expect("options");
        let part = dsn.part([2, 1].into_iter()).expect("options");
        assert_eq!((part.rcpt_text(0).as_str(), part.rcpt_text(1).as_str()), (" NOTIFY=DELAY", ""));
        assert_eq!(dsn.part([1].into_iter()), None, "nothing is left to keep");
        assert_eq!(Dsn::new(None, None, vec![RcptParams::default(); 3]), None);
    }

    proptest! {
        #[test]
        fn any_printable_envid_and_address_survive(envid in "[ -~]{1,100}", address in "[ -~]{1,300}") {
            let orcpt = OriginalRecipient { address_type: "rfc822".to_owned(), address };
            let recipients = vec![RcptParams { notify: None, orcpt: Some(orcpt) }];
            let dsn = Dsn { ret: None, envid: Some(envid), recipients };
            let back = Dsn::parse(&dsn.mail_text(), [dsn.rcpt_text(0).as_str()].into_iter());
            prop_assert_eq!(back, Ok(dsn));
        }
    }
}
