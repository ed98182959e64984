//! Trace headers: `Received` (RFC 5321 section 4.4) and KumoMTA's supplemental header.

use ::clock::WallTime;
use config::TraceHeaders;
use message::Draft;
use mime::ValueForm;
use std::net::SocketAddr;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

/// What `Received` says about the session.
#[derive(Debug)]
pub(crate) struct Hop<'a> {
    pub ehlo_domain: &'a str,
    pub peer: SocketAddr,
    pub hostname: &'a str,
    pub local: SocketAddr,
    /// The addresses of the peer and of this end, without ports.
    pub ends: &'a [String; 2],
    /// `ESMTP`, `ESMTPS`, `ESMTPSA`.
    pub protocol: &'a str,
    /// Protocol and cipher, when TLS is on.
    pub tls: Option<(&'a str, &'a str)>,
}

impl Hop<'_> {
    /// The field for one message, folded over four lines, without its final CRLF.
    fn value(&self, draft: &Draft, now: WallTime) -> String {
        let mut value = String::with_capacity(VALUE_OCTETS);
        value.push_str("from ");
        match self.ehlo_domain.bytes().all(|octet| octet.is_ascii_alphanumeric() || b".-[]:".contains(&octet)) {
            true => value.push_str(self.ehlo_domain),
            false => value.extend(self.ehlo_domain.escape_default()),
        }
        let [peer, local] = self.ends;
        value.extend([" (", peer, ")\r\n  by ", self.hostname, " (Postrider ", local, ")\r\n  with "]);
        value.push_str(self.protocol);
        if let Some((version, cipher)) = self.tls {
            value.extend([" (", version, ":", cipher, ")"]);
        }
        value.extend([" id ", &draft.id.to_string()]);
        if let Some(only) = only_recipient(draft) {
            value.extend([" for <", only, ">"]);
        }
        value.extend([";\r\n  ", &rfc5322_date(now)]);
        value
    }
}

/// How many servers say that they had the message.
pub(crate) fn hops(draft: &mut Draft) -> usize {
    let (block, raw) = draft.edit_headers();
    block.view(raw).named("Received").count()
}

/// Prepends `Received` when the listener wants it.
pub(crate) fn add_received(
    draft: &mut Draft,
    options: &TraceHeaders,
    hop: &Hop<'_>,
    now: WallTime,
) -> Result<(), mime::HeaderError> {
    if !options.received_header {
        return Ok(());
    }
    let value = hop.value(draft, now);
    draft.edit_headers().0.prepend("Received", value.as_bytes(), ValueForm::Raw)
}

/// Prepends the supplemental header when the listener wants it.
pub(crate) fn add_supplemental(draft: &mut Draft, options: &TraceHeaders) -> Result<(), mime::HeaderError> {
    if !options.supplemental_header {
        return Ok(());
    }
    draft.add_supplemental_trace(&options.header_name, &options.include_meta_names)
}

/// The recipient, when there is one only: recipients of a list must not learn of each other from trace headers (RFC 5321
/// section 7.2).
fn only_recipient(draft: &Draft) -> Option<&str> {
    match &draft.envelope.recipients[..] {
        [only] => Some(only.as_str()),
        _ => None,
    }
}

/// `Fri, 20 Nov 2026 22:36:29 +0000`.
pub(crate) fn rfc5322_date(now: WallTime) -> String {
    let moment = OffsetDateTime::from_unix_timestamp(now.unix_secs()).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    // The format has no fallible component for a valid moment.
    moment.format(&Rfc2822).unwrap_or_default()
}

/// What a value is expected to take.
const VALUE_OCTETS: usize = 320;

#[cfg(test)]
mod tests {
    use super::*;
    use ::clock::WallTime;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use message::{Envelope, IdGenerator, Meta, TlsDemand};
    use serde_json::Value;
    use smtp_wire::{Mailbox, ReversePath};

    fn draft() -> Draft {
        let id = IdGenerator::new([0; 6], 0).next(WallTime::EPOCH);
        let recipients = vec![Mailbox::parse("a@b.example").expect("sound")];
        let envelope = Envelope { sender: ReversePath(None), recipients, dsn: None, tls: TlsDemand::Usual };
        Draft::new(id, envelope, Meta::new(), (&b"Subject: x\r\n\r\nbody\r\n"[..]).into(), WallTime::EPOCH)
    }

    fn ends() -> [String; 2] {
        ["192.0.2.1".to_owned(), "192.0.2.2".to_owned()]
    }

    fn hop(ends: &[String; 2]) -> Hop<'_> {
        Hop {
            ehlo_domain: "client.test",
            peer: "192.0.2.1:5".parse().expect("sound"),
            ends,
            hostname: "mx.test",
            local: "192.0.2.2:25".parse().expect("sound"),
            protocol: "ESMTP",
            tls: None,
        }
    }

    #[test]
    fn received_names_both_ends_and_the_time() {
        let mut draft = draft();
        let ends = ends();
        let tls = Some(("TLSv1_3", "TLS13_AES_256_GCM_SHA384"));
        let hop = Hop { protocol: "ESMTPS", tls, ..hop(&ends) };
        add_received(&mut draft, &TraceHeaders::default(), &hop, WallTime::from_unix_secs(1_795_213_000))
            .expect("sound");
        let text = String::from_utf8_lossy(&draft.data()).into_owned();
        let expected = format!(
            "Received: from client.test (192.0.2.1)\r\n  by mx.test (Postrider 192.0.2.2)\r\n  with ESMTPS \
             (TLSv1_3:TLS13_AES_256_GCM_SHA384) id {} for <a@b.example>;\r\n  Fri, 20 Nov 2026 22:16:40 +0000\r\nSubject",
            draft.id
        );
        assert!(text.starts_with(&expected), "{text}\n{expected}");
    }

    #[test]
    fn recipients_of_a_list_are_told_nothing_of_each_other() {
        let mut draft = draft();
        draft.envelope.recipients.push(Mailbox::parse("blind@b.example").expect("sound"));
        let value = hop(&ends()).value(&draft, WallTime::EPOCH);
        assert!(value.contains(&format!(" id {};", draft.id)) && !value.contains(" for "), "{value}");
        add_supplemental(&mut draft, &TraceHeaders::default()).expect("sound");
        let value = draft.headers().first_value("X-KumoRef").expect("present");
        assert_eq!(STANDARD.decode(value.as_bytes()).expect("base64"), br#"{"_@_":"\\_/"}"#);
    }

    #[test]
    fn the_supplemental_header_can_be_read_back() {
        let mut draft = draft();
        draft.meta.set("tenant", "acme");
        let options = TraceHeaders {
            include_meta_names: vec!["tenant".to_owned(), "none".to_owned()],
            ..TraceHeaders::default()
        };
        add_supplemental(&mut draft, &options).expect("sound");
        let value = draft.headers().first_value("X-KumoRef").expect("present");
        let packed: String = value.split_whitespace().collect();
        let json: Value = serde_json::from_slice(&STANDARD.decode(packed).expect("base64")).expect("JSON");
        assert_eq!(json, serde_json::json!({"_@_": "\\_/", "recipient": "a@b.example", "tenant": "acme"}));
    }
}
