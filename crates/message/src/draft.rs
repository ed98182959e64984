//! A message being prepared: envelope, bytes as received, and the edits policy makes.
//!
//! Header edits are kept as a list beside the received bytes and written out once, by
//! [`Draft::seal`]; the body is a slice of what was received and is never copied, also when a
//! transaction is split into many messages. Headers are indexed at the first look.

use crate::{Envelope, MessageId, Meta, Sealed, TlsDemand};
use bytes::Bytes;
use clock::WallTime;
use mime::{HeaderBlock, HeaderView};
use smtp_wire::Body;

/// An editable message. Lent to policy by value and taken back.
#[derive(Clone, Debug)]
pub struct Draft {
    /// Identity.
    pub id: MessageId,
    /// Who from, who for.
    pub envelope: Envelope,
    /// What policy noted.
    pub meta: Meta,
    /// First moment it may be tried.
    pub due: WallTime,
    /// Attempts already made (nonzero only for messages that come from another node).
    pub attempts: u16,
    /// It is to be on disk before it is accepted, whatever the listener allows (`msg:set_force_sync`).
    pub force_sync: bool,
    raw: Body,
    headers: Option<HeaderBlock>,
}

impl Draft {
    /// A draft of received bytes.
    pub fn new(id: MessageId, envelope: Envelope, meta: Meta, raw: Body, due: WallTime) -> Draft {
        Draft { id, envelope, meta, due, attempts: 0, force_sync: false, raw, headers: None }
    }

    /// The draft for some of the recipients, by number: same bytes and edits so far, own identity.
    #[must_use]
    pub fn for_recipients(&self, id: MessageId, recipients: &[usize]) -> Draft {
        // Field by field: a clone of the whole would copy all recipients, for each of them.
        let Draft { due, attempts, force_sync, .. } = *self;
        let (envelope, meta) = (self.envelope.part(recipients), self.meta.clone());
        Draft { id, envelope, meta, due, attempts, force_sync, raw: self.raw.clone(), headers: self.headers.clone() }
    }

    /// The header block for reading, edits included.
    pub fn headers(&mut self) -> HeaderView<'_> {
        let raw = &self.raw;
        self.headers.get_or_insert_with(|| HeaderBlock::parse(raw)).view(raw)
    }

    /// The header block for editing, with the received bytes its methods ask for.
    pub fn edit_headers(&mut self) -> (&mut HeaderBlock, &[u8]) {
        let raw = &self.raw;
        (self.headers.get_or_insert_with(|| HeaderBlock::parse(raw)), raw)
    }

    /// Everything before the body as it stands now, the blank line included.
    pub fn head(&mut self) -> Vec<u8> {
        let (block, raw) = self.edit_headers();
        let mut head = Vec::with_capacity(block.body_start() + HEAD_GROWTH_EXPECTED);
        block.write_head_to(raw, &mut head);
        head
    }

    /// The body: a slice of the received bytes.
    pub fn body(&mut self) -> Body {
        let start = self.edit_headers().0.body_start();
        self.raw.slice_from(start)
    }

    /// The whole message as it stands now.
    pub fn data(&mut self) -> Bytes {
        if self.headers.as_ref().is_none_or(HeaderBlock::is_untouched) {
            return (*self.raw).clone();
        }
        let mut data = self.head();
        data.extend_from_slice(&self.body());
        data.into()
    }

    /// Octets of the whole message as it stands now.
    pub fn size(&mut self) -> usize {
        match self.headers.as_ref().is_none_or(HeaderBlock::is_untouched) {
            true => self.raw.len(),
            false => self.head().len() + self.body().len(),
        }
    }

    /// Replaces the whole message; earlier edits are gone with it.
    pub fn set_data(&mut self, data: Bytes) {
        self.raw = data.into();
        self.headers = None;
    }

    /// What the sender says about TLS: MAIL's parameter, else the header as it stands now (RFC 8689 section 3).
    pub fn tls_demand(&mut self) -> TlsDemand {
        if self.envelope.tls == TlsDemand::Required {
            return TlsDemand::Required;
        }
        let field = self.headers().first("TLS-Required");
        let waives = field.is_some_and(|field| field.decoded().trim().eq_ignore_ascii_case("no"));
        if waives { TlsDemand::Waived } else { TlsDemand::Usual }
    }

    /// Makes the bytes final.
    pub fn seal(mut self) -> Sealed {
        self.envelope.tls = self.tls_demand();
        let head = self.head().into();
        let body = self.body();
        Sealed { id: self.id, envelope: self.envelope, meta: self.meta, head, body, due: self.due }
    }
}

/// Room for Received, trace and signature fields, in octets.
const HEAD_GROWTH_EXPECTED: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IdGenerator;
    use mime::ValueForm;
    use smtp_wire::{Mailbox, ReversePath};

    fn draft(raw: &'static [u8]) -> Draft {
        let id = IdGenerator::new([0; 6], 0).next(WallTime::EPOCH);
        let recipients = vec![Mailbox::parse("a@b.c").expect("sound")];
        Draft::new(
            id,
            Envelope { sender: ReversePath(None), recipients, dsn: None, tls: TlsDemand::Usual },
            Meta::new(),
            raw.into(),
            WallTime::EPOCH,
        )
    }

    #[test]
    fn sealing_writes_the_edits_and_shares_the_body() {
        let mut draft = draft(b"From: x\r\nX-Gone: 1\r\n\r\n.body\r\n");
        let (block, raw) = draft.edit_headers();
        block.remove_all(raw, "x-gone");
        block.prepend("Received", b"from y", ValueForm::Raw).expect("sound");
        let body_at = draft.raw.as_ptr() as usize + 22;
        assert_eq!(draft.data(), &b"Received: from y\r\nFrom: x\r\n\r\n.body\r\n"[..]);
        let sealed = draft.seal();
        assert_eq!(sealed.head, &b"Received: from y\r\nFrom: x\r\n\r\n"[..]);
        assert_eq!(&sealed.body[..], &b".body\r\n"[..]);
        assert_eq!(sealed.body.as_ptr() as usize, body_at, "the body was copied");
    }

    #[test]
    fn the_header_may_waive_tls_and_not_against_requiretls() {
        let sealed = |raw: &'static [u8], tls| {
            let mut draft = draft(raw);
            draft.envelope.tls = tls;
            draft.seal().envelope.tls
        };
        for (raw, tls) in [
            (&b"TLS-Required: No\r\n\r\n"[..], TlsDemand::Waived),
            (b"tls-required:\r\n no\r\n\r\n", TlsDemand::Waived),
            (b"TLS-Required: Yes\r\n\r\n", TlsDemand::Usual),
            (b"TLS-Required: No, thanks\r\n\r\n", TlsDemand::Usual),
            (b"A: b\r\n\r\nTLS-Required: No\r\n", TlsDemand::Usual),
        ] {
            assert_eq!(sealed(raw, TlsDemand::Usual), tls, "{:?}", String::from_utf8_lossy(raw));
            assert_eq!(sealed(raw, TlsDemand::Required), TlsDemand::Required);
        }
        // Policy may have taken the field away before the message is sealed again.
        assert_eq!(sealed(b"A: b\r\n\r\n", TlsDemand::Waived), TlsDemand::Usual);
    }

    #[test]
    fn odd_messages_survive_sealing() {
        for raw in [&b""[..], b"\r\n", b"no header at all\r\n", b"A: b\r\n", b"A: b\r\n\r\n"] {
            let sealed = draft(raw).seal();
            assert_eq!([sealed.head, sealed.body.into_bytes()].concat(), raw, "{:?}", String::from_utf8_lossy(raw));
        }
    }
}
