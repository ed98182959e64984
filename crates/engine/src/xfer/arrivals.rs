//! Messages of other nodes that are kept here until their senders let them go.
//!
//! Owns them as queues own theirs: in memory without content, in the spool with it. Each is under one key, its origin; while
//! somebody works on one nobody else does. Bounded: beyond [`ARRIVALS_MAX`] no more are taken.

use message::{Message, MessageId};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Arrivals(Mutex<HashMap<String, Kept>>);

/// One, as operators see it.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// The node it comes from and its id there.
    pub origin: String,
    /// Its id here.
    pub id: MessageId,
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
pub(crate) enum Found {
    /// Nothing; whoever asked works on it now.
    Nothing,
    /// A message of this id.
    Message(MessageId),
    /// Somebody works on it.
    InWork,
    /// Nothing, and there is no room for more.
    Full,
}

impl Arrivals {
    /// Looks for an origin, and lays a hand on it where there is nothing: [`Arrivals::put`] or [`Arrivals::remove`] follows.
    pub fn begin(&self, origin: &str) -> Found {
        let mut all = self.lock();
        match all.get(origin) {
            Some(Kept::Here(message)) => Found::Message(message.id),
            Some(Kept::InWork) => Found::InWork,
            None if all.len() >= ARRIVALS_MAX => Found::Full,
            None => {
                all.insert(origin.to_owned(), Kept::InWork);
                Found::Nothing
            }
        }
    }

    /// Takes a message out, to be worked on; the same follows. `Err` tells whether somebody else has it.
    pub fn take(&self, origin: &str) -> Result<Message, bool> {
        match self.lock().get_mut(origin) {
            None => Err(false),
            Some(kept) => match std::mem::replace(kept, Kept::InWork) {
                Kept::Here(message) => Ok(message),
                Kept::InWork => Err(true),
            },
        }
    }

    /// Keeps a message.
    pub fn put(&self, origin: &str, message: Message) {
        self.lock().insert(origin.to_owned(), Kept::Here(message));
    }

    /// There is nothing any more.
    pub fn remove(&self, origin: &str) {
        self.lock().remove(origin);
    }

    /// How many are here.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// All that are here, by origin.
    pub fn list(&self) -> Vec<Arrival> {
        let all = self.lock();
        let here = |(origin, kept): (&String, &Kept)| match kept {
            Kept::Here(message) => Some(Arrival { origin: origin.clone(), id: message.id, size: message.size }),
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
    use message::Settled;

    fn message() -> Message {
        let id = MessageId::from_bytes([7; 16]);
        let due = clock::WallTime::EPOCH;
        Message {
            id,
            due,
            place: None,
            size: 1,
            attempts: 0,
            recipients: 1,
            settled: Settled::default(),
            resident: None,
        }
    }

    #[test]
    fn one_hand_at_a_time_is_on_an_origin() {
        let arrivals = Arrivals::default();
        assert!(matches!(arrivals.begin("a"), Found::Nothing));
        assert!(matches!(arrivals.begin("a"), Found::InWork));
        assert!(matches!(arrivals.take("a"), Err(true)));
        arrivals.put("a", message());
        assert!(matches!(arrivals.begin("a"), Found::Message(id) if id == message().id));
        assert_eq!(arrivals.take("a").map(|m| m.id), Ok(message().id));
        assert!(matches!(arrivals.take("a"), Err(true)));
        assert_eq!((arrivals.len(), arrivals.list().len()), (1, 0));
        arrivals.remove("a");
        assert!(matches!(arrivals.take("a"), Err(false)));
        (0..ARRIVALS_MAX).for_each(|n| arrivals.put(&n.to_string(), message()));
        assert!(matches!(arrivals.begin("a"), Found::Full));
        assert!(matches!(arrivals.begin("0"), Found::Message(_)), "known ones are answered all the same");
    }
}
