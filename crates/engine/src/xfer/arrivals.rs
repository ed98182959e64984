//! Messages of other nodes that are kept here until their senders let them go.
//!
//! Owns them as queues own theirs: in memory without content, in the spool with it. Each is under one key, its origin; while
//! somebody works on one nobody else does. What became of one is known behind it ([`Fates`]). Bounded: beyond [`ARRIVALS_MAX`],
//! and [`FATES_MAX`] together with those, no more are taken.

use crate::xfer::fates::{Fates, Noted};
use clock::WallTime;
use message::{Message, MessageId};
use queue::fate::ArrivalFate;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Arrivals(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    here: HashMap<String, Kept>,
    fates: Fates,
}

/// One, as operators see it.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// The node it comes from, its id there, and a fingerprint.
    pub origin: String,
    /// Its id here.
    pub id: MessageId,
    /// When it came.
    pub since: WallTime,
    /// Octets.
    pub size: u32,
}

#[derive(Debug)]
enum Kept {
    Here(Message),
    InWork,
}

impl Kept {
    fn message(self) -> Option<Message> {
        match self {
            Kept::Here(message) => Some(message),
            Kept::InWork => None,
        }
    }
}

/// What there is under an origin.
#[derive(Debug)]
pub(crate) enum Found<'a> {
    /// Nothing, and whoever asked works on it now.
    Nothing(Hand<'a>),
    /// A message of this id; or there was, and it was let in.
    Message(MessageId),
    /// Somebody works on it.
    InWork,
    /// Nothing, and there is no room for more.
    Full,
}

/// Why nothing can be taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// Somebody works on it.
    InWork,
    /// This became of it.
    Gone(ArrivalFate),
    /// Nothing is known of it.
    Unknown,
}

/// A hand on an origin: nobody else works on it. When it is dropped there is what was there before.
#[derive(Debug)]
pub(crate) struct Hand<'a> {
    arrivals: &'a Arrivals,
    origin: &'a str,
    before: Option<Message>,
}

impl Hand<'_> {
    /// There is this message from now on, or none.
    pub fn leave(mut self, message: Option<Message>) {
        self.before = message;
    }
}

impl Drop for Hand<'_> {
    fn drop(&mut self) {
        let mut all = self.arrivals.lock();
        match self.before.take() {
            Some(message) => all.here.insert(self.origin.to_owned(), Kept::Here(message)),
            None => all.here.remove(self.origin),
        };
    }
}

impl Arrivals {
    /// Looks for an origin, and lays a hand on it where there is nothing.
    pub fn begin<'a>(&'a self, origin: &'a str) -> Found<'a> {
        let mut all = self.lock();
        match (all.here.get(origin), all.fates.get(origin)) {
            (Some(Kept::Here(message)), _) => Found::Message(message.id),
            (Some(Kept::InWork), _) => Found::InWork,
            (None, Some(Noted { fate: ArrivalFate::Released(id), .. })) => Found::Message(id),
            (None, _) if all.is_full() => Found::Full,
            (None, _) => {
                all.here.insert(origin.to_owned(), Kept::InWork);
                Found::Nothing(Hand { arrivals: self, origin, before: None })
            }
        }
    }

    /// Takes a message out, to be worked on.
    pub fn take<'a>(&'a self, origin: &'a str) -> Result<(Message, Hand<'a>), Absent> {
        let mut all = self.lock();
        match all.here.get_mut(origin) {
            None => Err(all.fates.get(origin).map_or(Absent::Unknown, |noted| Absent::Gone(noted.fate))),
            Some(kept) => match std::mem::replace(kept, Kept::InWork) {
                Kept::Here(message) => Ok((message.clone(), Hand { arrivals: self, origin, before: Some(message) })),
                Kept::InWork => Err(Absent::InWork),
            },
        }
    }

    /// What became of the arrival of an origin, as was noted.
    pub(super) fn fate(&self, origin: &str) -> Option<Noted> {
        self.lock().fates.get(origin)
    }

    /// Keeps a note; the record of the one that is wrong now.
    pub(super) fn keep_fate(&self, origin: &str, noted: Noted) -> Option<MessageId> {
        self.lock().fates.keep(origin, noted)
    }

    /// Forgets the note on an arrival that is not here any more; its record.
    pub fn forget_fate(&self, origin: &str) -> Option<MessageId> {
        let mut all = self.lock();
        if all.here.contains_key(origin) {
            return None;
        }
        all.fates.forget(origin)
    }

    /// Forgets notes that are over, some at a time; their records.
    pub fn old_fates(&self, now: WallTime) -> Vec<MessageId> {
        self.lock().fates.expired(now)
    }

    /// Keeps a message of an earlier run; the one it takes the place of.
    pub fn restore(&self, origin: &str, message: Message) -> Option<Message> {
        let (mut all, id) = (self.lock(), message.id);
        let other = all.here.insert(origin.to_owned(), Kept::Here(message)).and_then(Kept::message)?;
        // The one that came last is what its sender knows.
        match other.id.created() > id.created() {
            true => all.here.insert(origin.to_owned(), Kept::Here(other)).and_then(Kept::message),
            false => Some(other),
        }
    }

    /// Lets go of those of which another copy was let in, as is noted: what had been set aside, and is known again behind a start.
    pub fn take_stale(&self) -> Vec<Message> {
        let mut all = self.lock();
        let Table { here, fates } = &mut *all;
        let is_stale = |origin: &String, kept: &mut Kept| match (kept, fates.get(origin)) {
            (Kept::Here(message), Some(Noted { fate: ArrivalFate::Released(id), .. })) => message.id != id,
            _ => false,
        };
        here.extract_if(is_stale).filter_map(|(_, kept)| kept.message()).collect()
    }

    /// How many are here.
    pub fn len(&self) -> usize {
        self.lock().here.len()
    }

    /// All that are here, by origin.
    pub fn list(&self) -> Vec<Arrival> {
        let all = self.lock();
        let here = |(origin, kept): (&String, &Kept)| match kept {
            Kept::Here(message) => {
                Some(Arrival { origin: origin.clone(), id: message.id, since: message.created(), size: message.size })
            }
            Kept::InWork => None,
        };
        let mut found: Vec<Arrival> = all.here.iter().filter_map(here).collect();
        found.sort_by(|a, b| a.origin.cmp(&b.origin));
        found
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn is_full(&self) -> bool {
        self.here.len() >= ARRIVALS_MAX || self.here.len() + self.fates.len() >= FATES_MAX
    }
}

/// Arrivals up to which more are taken: each sending connection has one at a time.
const ARRIVALS_MAX: usize = 65_536;
/// Those and notes up to which more are taken. Senders that speak with this node all the time leave a few notes each.
const FATES_MAX: usize = 1 << 18;

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Message {
        Message::bare(MessageId::from_bytes([7; 16]), WallTime::EPOCH)
    }

    #[test]
    fn one_hand_at_a_time_is_on_an_origin() {
        let arrivals = Arrivals::default();
        let Found::Nothing(hand) = arrivals.begin("a") else { panic!("there is something") };
        assert!(matches!(arrivals.begin("a"), Found::InWork));
        assert!(matches!(arrivals.take("a"), Err(Absent::InWork)));
        hand.leave(Some(message()));
        assert!(matches!(arrivals.begin("a"), Found::Message(id) if id == message().id));
        let (_, hand) = arrivals.take("a").expect("it is there");
        assert!(matches!(arrivals.take("a"), Err(Absent::InWork)));
        assert_eq!((arrivals.len(), arrivals.list().len()), (1, 0));
        drop(hand);
        assert_eq!(arrivals.list().len(), 1, "whoever fails leaves what was there");
        let (_, hand) = arrivals.take("a").expect("it is there");
        hand.leave(None);
        assert!(matches!(arrivals.take("a"), Err(Absent::Unknown)));
        assert!(matches!(arrivals.begin("a"), Found::Nothing(_)), "dropped at once");
        assert_eq!(arrivals.len(), 0);
        (0..ARRIVALS_MAX).for_each(|n| assert!(arrivals.restore(&n.to_string(), message()).is_none()));
        assert!(arrivals.restore("0", message()).is_some());
        assert!(matches!(arrivals.begin("a"), Found::Full));
        assert!(matches!(arrivals.begin("0"), Found::Message(_)), "known ones are answered all the same");
    }
}
