//! What became of arrivals, for senders that ask again (see [`queue::fate`]).
//!
//! A table in memory beside the notes in the spool. A note goes when its sender says that it needs it no more, or after
//! [`KEPT`]: a sender that did not ask for so long is told that nothing is known, and has its message again.

use crate::engine::Engine;
use crate::xfer::receive::XferError;
use bytes::Bytes;
use clock::{Duration, WallTime};
use message::{Draft, Envelope, Message, MessageId, Meta, TlsDemand};
use queue::fate::{self, ArrivalFate, Note, set_note};
use smtp_wire::{Mailbox, ReversePath};
use spool::Mark;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// All of them, by origin.
#[derive(Debug, Default)]
pub(super) struct Fates {
    by_origin: HashMap<Arc<str>, Noted>,
    ends: BTreeSet<(WallTime, Arc<str>)>,
}

/// A note in the spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Noted {
    pub fate: ArrivalFate,
    pub until: WallTime,
    /// The message that is the note.
    pub record: MessageId,
}

impl Fates {
    /// What became of an arrival.
    pub fn get(&self, origin: &str) -> Option<Noted> {
        self.by_origin.get(origin).copied()
    }

    /// Keeps a note; the record of the one that is wrong now, perhaps this.
    pub fn keep(&mut self, origin: &str, noted: Noted) -> Option<MessageId> {
        let older = self.get(origin);
        if let Some(later) = older.filter(|older| older.until > noted.until) {
            return (later.record != noted.record).then_some(noted.record);
        }
        self.forget(origin);
        let origin: Arc<str> = origin.into();
        self.ends.insert((noted.until, origin.clone()));
        self.by_origin.insert(origin, noted);
        older.map(|older| older.record).filter(|record| *record != noted.record)
    }

    /// Forgets a note; its record.
    pub fn forget(&mut self, origin: &str) -> Option<MessageId> {
        let (origin, noted) = self.by_origin.remove_entry(origin)?;
        self.ends.remove(&(noted.until, origin));
        Some(noted.record)
    }

    /// Forgets those that are over, some at a time; their records.
    pub fn expired(&mut self, now: WallTime) -> Vec<MessageId> {
        let over = self.ends.iter().take_while(|(until, _)| *until <= now).take(EXPIRED_MAX);
        let origins: Vec<Arc<str>> = over.map(|(_, origin)| origin.clone()).collect();
        origins.iter().filter_map(|origin| self.forget(origin)).collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_origin.len()
    }
}

impl Engine {
    /// Notes durably what is about to be done to an arrival that is in hand.
    pub(super) async fn note_fate(&self, origin: &str, fate: ArrivalFate) -> Result<(), XferError> {
        let (older, now) = (self.arrivals.fate(origin), self.clock.wall());
        if older.is_some_and(|older| older.fate == fate && older.until > now + KEPT_LEAST) {
            return Ok(());
        }
        // Whatever the clock says, it is later than the one before.
        let until = older.map_or(now + KEPT, |older| (now + KEPT).max(older.until + Duration::from_micros(1)));
        let note = Note { origin: origin.to_owned(), fate, until };
        let mut meta = Meta::new();
        set_note(&mut meta, &note);
        let recipients = vec![Mailbox::parse(fate::ADDRESS).map_err(|error| XferError::Queue(error.to_string()))?];
        let envelope = Envelope { sender: ReversePath(None), recipients, dsn: None, tls: TlsDemand::Usual };
        let record = self.next_id();
        let draft = Draft::new(record, envelope, meta, Bytes::from_static(CONTENT).into(), until);
        self.spool.append(vec![vec![draft.seal()]]).await?;
        self.keep_fate(&note, record);
        Ok(())
    }

    /// A note of an earlier run.
    pub(crate) fn restore_fate(&self, label: &str, message: &Message) {
        let Some(note) = fate::note_of(label) else {
            tracing::error!("the note {} on an arrival stays in the spool: it is of a later version", message.id);
            return;
        };
        self.keep_fate(&note, message.id);
    }

    fn keep_fate(&self, note: &Note, record: MessageId) {
        let noted = Noted { fate: note.fate, until: note.until, record };
        self.remove_all(self.arrivals.keep_fate(&note.origin, noted));
    }

    /// A sender is done with these.
    pub(super) fn forget_fates(&self, origins: &[String]) {
        origins.iter().for_each(|origin| self.remove_all(self.arrivals.forget_fate(origin)));
    }

    /// Behind a start: of arrivals of which another copy was let in nothing is to be kept.
    pub(crate) fn forget_stale_arrivals(&self) {
        self.remove_all(self.arrivals.take_stale().into_iter().map(|message| message.id));
    }

    /// Forgets notes that are over; false when there may be more of them.
    pub(crate) fn forget_old_fates(&self) -> bool {
        let gone = self.arrivals.old_fates(self.clock.wall());
        let are_all = gone.len() < EXPIRED_MAX;
        self.remove_all(gone);
        are_all
    }

    fn remove_all(&self, messages: impl IntoIterator<Item = MessageId>) {
        messages.into_iter().for_each(|id| self.spool.mark(Mark::Removed { id }));
    }
}

/// How long what became of an arrival is known, unless its sender is done with it sooner: longer than a message usually lives.
const KEPT: Duration = Duration::from_secs(14 * 24 * 3600);
/// A note that would be forgotten sooner is written again.
const KEPT_LEAST: Duration = Duration::from_secs(7 * 24 * 3600);
/// Notes that are forgotten at once.
const EXPIRED_MAX: usize = 4096;
/// Of a message that is a note.
const CONTENT: &[u8] = b"Subject: what became of an arrival\r\n\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(fate: ArrivalFate, until: i64, record: u8) -> Noted {
        Noted { fate, until: WallTime::from_unix_secs(until), record: id(record) }
    }

    fn id(number: u8) -> MessageId {
        MessageId::from_bytes([number; 16])
    }

    #[test]
    fn of_two_notes_the_later_one_is_right() {
        let mut fates = Fates::default();
        let (first, second) = (noted(ArrivalFate::Dropped, 10, 1), noted(ArrivalFate::Released(id(9)), 11, 2));
        assert_eq!((fates.get("a"), fates.keep("a", first)), (None, None));
        assert_eq!((fates.keep("a", first), fates.get("a")), (None, Some(first)), "the same again");
        assert_eq!(fates.keep("a", second), Some(id(1)));
        assert_eq!(
            (fates.keep("a", first), fates.get("a")),
            (Some(id(1)), Some(second)),
            "a start meets them as it may"
        );
        assert_eq!((fates.len(), fates.forget("a"), fates.forget("a"), fates.len()), (1, Some(id(2)), None, 0));
    }

    #[test]
    fn a_note_is_forgotten_at_its_end() {
        let mut fates = Fates::default();
        fates.keep("a", noted(ArrivalFate::Dropped, 10, 1));
        fates.keep("a", noted(ArrivalFate::Dropped, 20, 2));
        fates.keep("b", noted(ArrivalFate::Dropped, 15, 3));
        let mut at = |secs| fates.expired(WallTime::from_unix_secs(secs));
        assert_eq!([at(14), at(15), at(19), at(20), at(99)], [vec![], vec![id(3)], vec![], vec![id(2)], vec![]]);
        assert_eq!(fates.len(), 0);
        (0..=EXPIRED_MAX)
            .for_each(|n| assert_eq!(fates.keep(&n.to_string(), noted(ArrivalFate::Dropped, 10, 1)), None));
        assert_eq!(fates.expired(WallTime::from_unix_secs(10)).len(), EXPIRED_MAX);
        assert_eq!(fates.len(), 1);
    }
}
