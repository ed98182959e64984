//! Envelope and metadata as octets: the `state` part of a spool record (docs/spool-format.md).
//!
//! Length-prefixed, little-endian, no quoting, so that nothing a peer sends can be read back
//! as structure. Decoding refuses what it does not know and never panics. Version 2 is version 1 with the DSN options
//! behind it, as the text of their parameters; it is written for envelopes that have some, so that all other mail stays
//! what it was. Version 3 is version 1 with what the sender says about TLS behind it, and the DSN options when there are
//! some: a program that does not know it must not send such mail.

use crate::{Envelope, Meta, TlsDemand};
use smtp_wire::{Dsn, Mailbox, ReversePath};
use thiserror::Error;

/// Version octet of envelopes without DSN options.
pub const VERSION: u8 = 1;
/// Version octet of envelopes with DSN options.
pub const VERSION_WITH_DSN: u8 = 2;
/// Version octet of envelopes with a word about TLS.
pub const VERSION_WITH_TLS: u8 = 3;

/// Why stored octets are not an envelope.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CodecError {
    /// Octets end inside a field.
    #[error("envelope record ends early")]
    Short,
    /// Octets behind the last field.
    #[error("{0} stray octets behind the envelope record")]
    Stray(usize),
    /// Written by a newer version.
    #[error("envelope record version {0} is not known; expected at most {VERSION_WITH_TLS}")]
    Version(u8),
    /// An address that does not parse.
    #[error("stored address does not parse: {0}")]
    Address(String),
    /// DSN options that no server would take.
    #[error("stored DSN options do not parse: {0}")]
    Dsn(String),
    /// A word about TLS that nobody says.
    #[error("stored flags {0:#04x} are not known")]
    Flags(u8),
    /// Metadata that is not a JSON object.
    #[error("stored metadata is not a JSON object: {0}")]
    Meta(String),
}

/// Appends the encoding of `envelope` and `meta` to `out`.
pub fn encode(envelope: &Envelope, meta: &Meta, out: &mut Vec<u8>) {
    let flags = flags(envelope);
    out.push(match (flags & TLS_FLAGS, &envelope.dsn) {
        (0, None) => VERSION,
        (0, Some(_)) => VERSION_WITH_DSN,
        (_, _) => VERSION_WITH_TLS,
    });
    put_text(envelope.sender.as_str(), out);
    out.extend_from_slice(&(envelope.recipients.len() as u32).to_le_bytes());
    for recipient in &envelope.recipients {
        put_text(recipient.as_str(), out);
    }
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    if !meta.is_empty() {
        // A map of JSON values with string keys always serialises, and a Vec always takes it.
        let _ = serde_json::to_writer(&mut *out, meta.as_map());
    }
    let len = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&len.to_le_bytes());
    if flags & TLS_FLAGS != 0 {
        out.push(flags);
    }
    if let Some(dsn) = &envelope.dsn {
        put_text(&dsn.mail_text(), out);
        (0..envelope.recipients.len()).for_each(|recipient| put_text(&dsn.rcpt_text(recipient), out));
    }
}

/// The reverse of [`encode`]; the whole of `input` must be used.
pub fn decode(input: &[u8]) -> Result<(Envelope, Meta), CodecError> {
    let mut rest = input;
    let version = take(&mut rest, 1)?[0];
    if !(VERSION..=VERSION_WITH_TLS).contains(&version) {
        return Err(CodecError::Version(version));
    }
    let sender = ReversePath::parse(text(&mut rest)?).map_err(|e| CodecError::Address(e.to_string()))?;
    let count = number(&mut rest)?;
    let mut recipients = Vec::with_capacity(count.min(rest.len() / 4));
    for _ in 0..count {
        recipients.push(Mailbox::parse(text(&mut rest)?).map_err(|e| CodecError::Address(e.to_string()))?);
    }
    let meta_len = number(&mut rest)?;
    let meta = take(&mut rest, meta_len)?;
    let (tls, has_dsn) = match version {
        VERSION_WITH_TLS => read_flags(take(&mut rest, 1)?[0])?,
        _ => (TlsDemand::Usual, version == VERSION_WITH_DSN),
    };
    let dsn = match has_dsn {
        false => None,
        true => Some(Box::new(decode_dsn(&mut rest, recipients.len())?)),
    };
    if !rest.is_empty() {
        return Err(CodecError::Stray(rest.len()));
    }
    Ok((Envelope { sender, recipients, dsn, tls }, decode_meta(meta)?))
}

/// What stands behind the metadata of version 3.
fn flags(envelope: &Envelope) -> u8 {
    let tls = match envelope.tls {
        TlsDemand::Usual => 0,
        TlsDemand::Required => FLAG_REQUIRED,
        TlsDemand::Waived => FLAG_WAIVED,
    };
    tls | if envelope.dsn.is_some() { FLAG_DSN } else { 0 }
}

fn read_flags(flags: u8) -> Result<(TlsDemand, bool), CodecError> {
    match flags & !FLAG_DSN {
        FLAG_REQUIRED => Ok((TlsDemand::Required, flags & FLAG_DSN != 0)),
        FLAG_WAIVED => Ok((TlsDemand::Waived, flags & FLAG_DSN != 0)),
        _ => Err(CodecError::Flags(flags)),
    }
}

fn decode_dsn(rest: &mut &[u8], recipients: usize) -> Result<Dsn, CodecError> {
    let mail = text(rest)?;
    let of_recipients = (0..recipients).map(|_| text(rest)).collect::<Result<Vec<&str>, CodecError>>()?;
    Dsn::parse(mail, of_recipients.into_iter()).map_err(|e| CodecError::Dsn(e.to_string()))
}

fn decode_meta(json: &[u8]) -> Result<Meta, CodecError> {
    if json.is_empty() {
        return Ok(Meta::new());
    }
    let map: serde_json::Map<_, _> = serde_json::from_slice(json).map_err(|e| CodecError::Meta(e.to_string()))?;
    Ok(Meta::from(map))
}

fn put_text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Result<&'a [u8], CodecError> {
    let (head, tail) = rest.split_at_checked(len).ok_or(CodecError::Short)?;
    *rest = tail;
    Ok(head)
}

fn number(rest: &mut &[u8]) -> Result<usize, CodecError> {
    let b = take(rest, 4)?;
    Ok(u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize)
}

fn text<'a>(rest: &mut &'a [u8]) -> Result<&'a str, CodecError> {
    let len = number(rest)?;
    let octets = take(rest, len)?;
    core::str::from_utf8(octets).map_err(|_| CodecError::Address(String::from_utf8_lossy(octets).into_owned()))
}

/// REQUIRETLS.
const FLAG_REQUIRED: u8 = 1;
/// `TLS-Required: No`.
const FLAG_WAIVED: u8 = 2;
const TLS_FLAGS: u8 = FLAG_REQUIRED | FLAG_WAIVED;
/// DSN options follow.
const FLAG_DSN: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> (Envelope, Meta) {
        let mut meta = Meta::new();
        meta.set("tenant", "acme");
        meta.set("n", 7);
        let mailbox = |t: &str| Mailbox::parse(t).expect("sound");
        (
            Envelope {
                sender: ReversePath(None),
                recipients: vec![mailbox("a@b.c"), mailbox("\"x y\"@d.e")],
                dsn: None,
                tls: TlsDemand::Usual,
            },
            meta,
        )
    }

    #[test]
    fn round_trip_and_every_cut_is_refused() {
        let (envelope, meta) = sample();
        let mut octets = Vec::new();
        encode(&envelope, &meta, &mut octets);
        assert_eq!(decode(&octets), Ok((envelope, meta)));
        for cut in 0..octets.len() {
            assert!(decode(&octets[..cut]).is_err(), "cut at {cut}");
        }
        octets.push(0);
        assert_eq!(decode(&octets), Err(CodecError::Stray(1)));
    }

    #[test]
    fn dsn_options_come_back_and_cost_nothing_without() {
        let (mut envelope, meta) = sample();
        let mut plain = Vec::new();
        encode(&envelope, &meta, &mut plain);
        let options = ["NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;a+2Bb", ""];
        envelope.dsn = Dsn::parse("RET=HDRS ENVID=x+20y", options.into_iter()).map(Box::new).ok();
        let mut octets = Vec::new();
        encode(&envelope, &meta, &mut octets);
        // Golden: version 2 is what version 1 says, and the parameters.
        let golden = [
            &b"\x02\0\0\0\0\x02\0\0\0\x05\0\0\0a@b.c\x09\0\0\0\"x y\"@d.e\x17\0\0\0{\"tenant\":\"acme\",\"n\":7}"[..],
            b"\x15\0\0\0 RET=HDRS ENVID=x+20y\x2a\0\0\0 NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;a+2Bb\0\0\0\0",
        ];
        assert_eq!(octets.escape_ascii().to_string(), golden.concat().escape_ascii().to_string());
        assert_eq!(plain[1..], golden[0][1..], "version 1 is version 2 without its end");
        assert_eq!((plain[0], decode(&octets)), (1, Ok((envelope, meta))));
        for cut in 0..octets.len() {
            assert!(decode(&octets[..cut]).is_err(), "cut at {cut}");
        }
        let wrong: Vec<u8> = octets.iter().map(|o| if *o == b'H' { b'J' } else { *o }).collect();
        assert!(matches!(decode(&wrong), Err(CodecError::Dsn(_))), "{:?}", decode(&wrong));
        octets[0] = 4;
        assert_eq!(decode(&octets), Err(CodecError::Version(4)));
    }

    #[test]
    fn words_about_tls_come_back_and_cost_nothing_without() {
        let base =
            &b"\0\0\0\0\x02\0\0\0\x05\0\0\0a@b.c\x09\0\0\0\"x y\"@d.e\x17\0\0\0{\"tenant\":\"acme\",\"n\":7}"[..];
        let dsn = &b"\x09\0\0\0 RET=HDRS\0\0\0\0\0\0\0\0"[..];
        // Golden: version 3 is what version 1 says, the flags, and the parameters when there are some.
        for (tls, with_dsn, version, behind) in [
            (TlsDemand::Usual, false, 1, [&b""[..], b""]),
            (TlsDemand::Usual, true, 2, [&b""[..], dsn]),
            (TlsDemand::Required, false, 3, [&b"\x01"[..], b""]),
            (TlsDemand::Waived, false, 3, [&b"\x02"[..], b""]),
            (TlsDemand::Required, true, 3, [&b"\x05"[..], dsn]),
        ] {
            let (mut envelope, meta) = sample();
            envelope.tls = tls;
            let options = || Dsn::parse("RET=HDRS", ["", ""].into_iter()).map(Box::new).ok();
            envelope.dsn = with_dsn.then(options).flatten();
            let mut octets = Vec::new();
            encode(&envelope, &meta, &mut octets);
            let golden = [&[version][..], base, behind[0], behind[1]].concat();
            assert_eq!(octets.escape_ascii().to_string(), golden.escape_ascii().to_string());
            assert_eq!(decode(&octets), Ok((envelope, meta)));
            for cut in 0..octets.len() {
                assert!(decode(&octets[..cut]).is_err(), "cut at {cut}");
            }
        }
        for flags in [0, 3, 4, 8] {
            let octets = [&b"\x03"[..], base, &[flags]].concat();
            assert_eq!(decode(&octets), Err(CodecError::Flags(flags)));
        }
    }

    proptest! {
        #[test]
        fn arbitrary_octets_never_panic(octets in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&octets);
        }
    }
}
