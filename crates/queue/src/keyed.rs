//! Records of requests that were answered: what the spool keeps so that a request that comes again is not carried out again.
//!
//! Such a record is stored as a message that is in no queue; its label says whose it is ([`Stamp`]), so that a start need not
//! read it. Its content is the answer. It is committed together with the messages of its request, all or none.
//!
//! Pure: metadata in, labels out.

use clock::WallTime;
use message::{Envelope, Meta};
use serde_json::json;

/// Which request a record is about, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Fingerprint of who asked and of the key.
    pub key: [u8; 16],
    /// Fingerprint of what was asked.
    pub body: [u8; 16],
    /// When it is forgotten.
    pub until: WallTime,
}

/// Makes the metadata that of a record.
pub fn set_stamp(meta: &mut Meta, stamp: &Stamp) {
    meta.set(STAMP, json!(text(stamp)));
}

/// What the metadata of a record say.
pub fn stamp(meta: &Meta) -> Option<Stamp> {
    text_of(meta).and_then(read)
}

/// The label of a record, instead of a queue's name; `None` for every message, whatever policy has set in its metadata.
pub(crate) fn label(envelope: &Envelope, meta: &Meta) -> Option<String> {
    let Envelope { sender, recipients, .. } = envelope;
    let is_record = sender.0.is_none() && matches!(recipients.as_slice(), [one] if one.as_str() == ADDRESS);
    text_of(meta).filter(|_| is_record).map(|stamp| format!("{stamp}{SUFFIX}"))
}

fn text_of(meta: &Meta) -> Option<&str> {
    meta.get(STAMP)?.as_str()
}

/// What such a label says; `None` for every other.
pub fn stamp_of(label: &str) -> Option<Stamp> {
    read(label.strip_suffix(SUFFIX)?)
}

fn read(text: &str) -> Option<Stamp> {
    let mut parts = text.split('/');
    let mut number = || u128::from_str_radix(parts.next()?, 16).ok().map(u128::to_be_bytes);
    let (key, body) = (number()?, number()?);
    let until = WallTime::from_unix_micros(parts.next()?.parse().ok()?);
    Some(Stamp { key, body, until })
}

/// True for the label of a record, whether or not this version can read it.
pub fn is_record(label: &str) -> bool {
    label.ends_with(SUFFIX)
}

fn text(Stamp { key, body, until }: &Stamp) -> String {
    let [key, body] = [key, body].map(|octets| u128::from_be_bytes(*octets));
    format!("{key:032x}/{body:032x}/{}", until.unix_micros())
}

/// Behind the stamp in a label: no queue has such a name.
const SUFFIX: &str = "\u{0}answered";
const STAMP: &str = "postrider:answered";
/// Whom a record is to, from nobody; there is nobody of this address.
pub const ADDRESS: &str = "answered-request@generator.kumomta.internal";

#[cfg(test)]
mod tests {
    use super::*;
    use message::TlsDemand;
    use smtp_wire::{Mailbox, ReversePath};

    #[test]
    fn a_label_says_what_the_metadata_do() {
        let stamp = Stamp { key: [1; 16], body: [0xfe; 16], until: WallTime::from_unix_micros(1_790_000_000_000_001) };
        let envelope = |sender: &str, to: &str| Envelope {
            sender: ReversePath::parse(sender).expect("a path"),
            recipients: vec![Mailbox::parse(to).expect("an address")],
            dsn: None,
            tls: TlsDemand::Usual,
        };
        let of_record = envelope("", ADDRESS);
        let mut meta = Meta::new();
        assert_eq!(label(&of_record, &meta), None);
        set_stamp(&mut meta, &stamp);
        let label = |envelope: &Envelope| super::label(envelope, &meta);
        assert_eq!((label(&envelope("", "a@b.test")), label(&envelope("a@b.test", ADDRESS))), (None, None), "mail");
        let label = label(&of_record).expect("a record");
        // Bytes on disk (docs/spool-format.md): they must be read for ever.
        let golden = "01010101010101010101010101010101/fefefefefefefefefefefefefefefefe/1790000000000001\0answered";
        assert_eq!((label.as_str(), super::stamp(&meta)), (golden, Some(stamp)));
        assert_eq!((stamp_of(golden), is_record(golden)), (Some(stamp), true));
        assert_eq!((stamp_of("a.test"), is_record("a.test")), (None, false));
        for odd in ["\0answered", "x/y/1\0answered", "01/02\0answered"] {
            assert_eq!((stamp_of(odd), is_record(odd)), (None, true), "{odd:?}");
        }
    }
}
