//! What became of messages that arrived from other nodes: what the spool keeps until their senders need not ask any more.
//!
//! A sender that heard no answer asks again, perhaps after days; that there is nothing under an origin would mean everything to it. So
//! whatever is done to an arrival is noted first. A note is stored as a message that is in no queue; all that it says is in its
//! label ([`Note`]), so that a start need not read it. As long as the arrival itself is there, that counts and not the note.
//!
//! Pure: metadata in, labels out.

use clock::WallTime;
use message::{Envelope, MessageId, Meta};

/// What became of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalFate {
    /// It is delivered from here, as this message.
    Released(MessageId),
    /// It is not here any more.
    Dropped,
}

/// One note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Which arrival.
    pub origin: String,
    /// What became of it.
    pub fate: ArrivalFate,
    /// When it is forgotten. Of two notes on one arrival the later one is right.
    pub until: WallTime,
}

/// Makes the metadata that of a note.
pub fn set_note(meta: &mut Meta, note: &Note) {
    meta.set(NOTE, text(note));
}

/// The label of a note, instead of a queue's name; `None` for every message, whatever policy has set in its metadata.
pub(crate) fn label(envelope: &Envelope, meta: &Meta) -> Option<String> {
    let Envelope { sender, recipients, .. } = envelope;
    let is_note = sender.0.is_none() && matches!(recipients.as_slice(), [one] if one.as_str() == ADDRESS);
    let text = meta.get(NOTE)?.as_str()?;
    is_note.then(|| format!("{text}{SUFFIX}"))
}

/// What such a label says; `None` for every other.
pub fn note_of(label: &str) -> Option<Note> {
    let mut parts = label.strip_suffix(SUFFIX)?.rsplitn(3, ' ');
    let until = WallTime::from_unix_micros(parts.next()?.parse().ok()?);
    let fate = match parts.next()? {
        DROPPED => ArrivalFate::Dropped,
        id => ArrivalFate::Released(id.parse().ok()?),
    };
    Some(Note { origin: parts.next()?.to_owned(), fate, until })
}

/// True for the label of a note, whether or not this version can read it.
pub fn is_note(label: &str) -> bool {
    label.ends_with(SUFFIX)
}

fn text(Note { origin, fate, until }: &Note) -> String {
    let until = until.unix_micros();
    match fate {
        ArrivalFate::Released(id) => format!("{origin} {id} {until}"),
        ArrivalFate::Dropped => format!("{origin} {DROPPED} {until}"),
    }
}

/// Behind the note in a label: no queue has such a name.
const SUFFIX: &str = "\u{0}fate";
const NOTE: &str = "postrider:fate";
const DROPPED: &str = "dropped";
/// Whom a note is to, from nobody; there is nobody of this address.
pub const ADDRESS: &str = "arrivals-fate@generator.kumomta.internal";

#[cfg(test)]
mod tests {
    use super::*;
    use message::TlsDemand;
    use smtp_wire::{Mailbox, ReversePath};

    #[test]
    fn a_label_says_what_was_noted() {
        let envelope = |sender: &str, to: &str| Envelope {
            sender: ReversePath::parse(sender).expect("a path"),
            recipients: vec![Mailbox::parse(to).expect("an address")],
            dsn: None,
            tls: TlsDemand::Usual,
        };
        let until = WallTime::from_unix_micros(1_790_000_000_000_001);
        let id = MessageId::from_bytes([1; 16]);
        // Bytes on disk (docs/spool-format.md): they must be read for ever.
        for (fate, golden) in [
            (ArrivalFate::Dropped, "node/id/3-4 dropped 1790000000000001\0fate".to_owned()),
            (ArrivalFate::Released(id), format!("node/id/3-4 {} 1790000000000001\0fate", "01".repeat(16))),
        ] {
            let (mut meta, note) = (Meta::new(), Note { origin: "node/id/3-4".to_owned(), fate, until });
            assert_eq!(label(&envelope("", ADDRESS), &meta), None);
            set_note(&mut meta, &note);
            let mail = [envelope("", "a@b.test"), envelope("a@b.test", ADDRESS)].map(|mail| label(&mail, &meta));
            assert_eq!(mail, [None, None]);
            assert_eq!(label(&envelope("", ADDRESS), &meta).as_deref(), Some(&*golden));
            assert_eq!((note_of(&golden), is_note(&golden)), (Some(note), true));
        }
        assert_eq!((note_of("a.test"), is_note("a.test")), (None, false));
        for odd in ["\0fate", "node/id/3-4 lost 1\0fate", "dropped 1\0fate", "o dropped x\0fate"] {
            assert_eq!((note_of(odd), is_note(odd)), (None, true), "{odd:?}");
        }
    }
}
