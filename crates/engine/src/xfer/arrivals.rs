//! Messages of other nodes that are kept here until their senders let them go.
//!
//! Owns them as queues own theirs: in memory without content, in the spool with it. Each is under one key, its origin; while
//! somebody works on one nobody else does. Bounded: beyond [`ARRIVALS_MAX`] no more are taken.

use clock::WallTime;
use message::{Message, MessageId};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Arrivals(Mutex<HashMap<String, Kept>>);

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

/// What there is under an origin.
#[derive(Debug)]
pub(crate) enum Found<'a> {
    /// Nothing, and whoever asked works on it now.
    Nothing(Hand<'a>),
    /// A message of this id.
    Message(MessageId),
    /// Somebody works on it.
    InWork,
    /// Nothing, and there is no room for more.
    Full,
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
            Some(message) => all.insert(self.origin.to_owned(), Kept::Here(message)),
            None => all.remove(self.origin),
        };
    }
}

impl Arrivals {
    /// Looks for an origin, and lays a hand on it where there is nothing.
    pub fn begin<'a>(&'a self, origin: &'a str) -> Found<'a> {
        let mut all = self.lock();
        match all.get(origin) {
            Some(Kept::Here(message)) => Found::Message(message.id),
            Some(Kept::InWork) => Found::InWork,
            None if all.len() >= ARRIVALS_MAX => Found::Full,
            None => {
                all.insert(origin.to_owned(), Kept::InWork);
                Found::Nothing(Hand { arrivals: self, origin, before: None })
            }
        }
    }

    /// Takes a message out, to be worked on. `Err` tells whether somebody else does.
    pub fn take<'a>(&'a self, origin: &'a str) -> Result<(Message, Hand<'a>), bool> {
        match self.lock().get_mut(origin) {
            None => Err(false),
            Some(kept) => match std::mem::replace(kept, Kept::InWork) {
                Kept::Here(message) => Ok((message.clone(), Hand { arrivals: self, origin, before: Some(message) })),
                Kept::InWork => Err(true),
            },
        }
    }

    /// Keeps a message of an earlier run; the one it takes the place of.
    pub fn restore(&self, origin: &str, message: Message) -> Option<Message> {
        match self.lock().insert(origin.to_owned(), Kept::Here(message)) {
            Some(Kept::Here(other)) => Some(other),
            Some(Kept::InWork) | None => None,
        }
    }

    /// How many are here.
    pub fn len(&self) -> usize {
        self.lock().len()
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
        let mut found: Vec<Arrival> = all.iter().filter_map(here).collect();
        found.sort_by(|a, b| a.origin.cmp(&b.origin));
        found
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Arrivals up to which more are taken: each sending connection has one at a time.
const ARRIVALS_MAX: usize = 65_536;

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
        assert!(matches!(arrivals.take("a"), Err(true)));
        hand.leave(Some(message()));
        assert!(matches!(arrivals.begin("a"), Found::Message(id) if id == message().id));
        let (_, hand) = arrivals.take("a").expect("it is there");
        assert!(matches!(arrivals.take("a"), Err(true)));
        assert_eq!((arrivals.len(), arrivals.list().len()), (1, 0));
        drop(hand);
        assert_eq!(arrivals.list().len(), 1, "whoever fails leaves what was there");
        let (_, hand) = arrivals.take("a").expect("it is there");
        hand.leave(None);
        assert!(matches!(arrivals.take("a"), Err(false)));
        assert!(matches!(arrivals.begin("a"), Found::Nothing(_)), "dropped at once");
        assert_eq!(arrivals.len(), 0);
        (0..ARRIVALS_MAX).for_each(|n| assert!(arrivals.restore(&n.to_string(), message()).is_none()));
        assert!(arrivals.restore("0", message()).is_some());
        assert!(matches!(arrivals.begin("a"), Found::Full));
        assert!(matches!(arrivals.begin("0"), Found::Message(_)), "known ones are answered all the same");
    }
}
