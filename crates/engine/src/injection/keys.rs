//! Keys of requests: which were answered, and which are being carried out.
//!
//! Owns a place for each key, bounded, and so that no client's keys take all of them: a request under way, or the record of one that was answered, which the spool holds.
//! Nothing else of a record is in memory. A place under way is in one [`Hand`]; when that is dropped the key is free, unless
//! the record was kept meanwhile. Who comes second waits for the hand to go.

use aws_lc_rs::digest::{Context, SHA256};
use clock::WallTime;
use message::{MessageId, Place};
use policy::AuthInfo;
use queue::keyed::Stamp;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// What a key came by: those of one are not those of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// A request over HTTP.
    Http,
    /// A message over SMTP.
    Smtp,
}

/// A key as a client sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestKey {
    key: [u8; 16],
    body: [u8; 16],
    window: Duration,
}

impl RequestKey {
    /// Of what somebody sent, these octets, remembered for so long. `scope`: what belongs to the key besides its text, so that
    /// the same text with other ones is another key.
    ///
    /// # Errors
    /// What is wrong with the text, and what was expected.
    pub fn new(
        door: Door,
        (text, scope): (&str, &[&[u8]]),
        from: &AuthInfo,
        body: &[&[u8]],
        window: Duration,
    ) -> Result<RequestKey, String> {
        if text.is_empty() || text.len() > KEY_OCTETS_MAX || !text.bytes().all(|b| matches!(b, b' '..=b'~')) {
            let shown: String = text.chars().take(KEY_OCTETS_MAX).collect();
            return Err(format!("{shown:?}: expected 1 to {KEY_OCTETS_MAX} characters of ASCII"));
        }
        if window.is_zero() {
            return Err("this listener takes none: its idempotency_window is 0".to_owned());
        }
        // Who is proven has keys of his own wherever he comes from; others have those of their address. All that is said of him
        // counts: whom somebody wants to act as is no proof.
        let is_proven = from.identities.iter().any(|one| !one.identity.is_empty());
        let owner = match is_proven {
            true => from.identities.iter().map(|one| format!("{}\0{}\0", one.context, one.identity)).collect(),
            false => from.summary(),
        };
        let kind: &[u8] = match (door, is_proven) {
            (Door::Http, true) => b"http identity\0",
            (Door::Http, false) => b"http peer\0",
            (Door::Smtp, true) => b"smtp identity\0",
            (Door::Smtp, false) => b"smtp peer\0",
        };
        let owner = [kind, owner.as_bytes(), b"\0"];
        let mut key = fingerprint(&[&owner[..], &[text.as_bytes(), b"\0"], scope].concat());
        key[..OWNER_OCTETS].copy_from_slice(&fingerprint(&owner)[..OWNER_OCTETS]);
        Ok(RequestKey { key, body: fingerprint(body), window })
    }
}

fn fingerprint(parts: &[&[u8]]) -> [u8; 16] {
    let mut context = Context::new(&SHA256);
    parts.iter().for_each(|part| context.update(part));
    let digest = context.finish();
    let mut first = [0; 16];
    first.copy_from_slice(&digest.as_ref()[..16]);
    first
}

/// All of them; clones share them.
#[derive(Clone, Default)]
pub(crate) struct Keys(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    places: HashMap<[u8; 16], Kept>,
    /// How many of them each client has.
    of_owners: HashMap<[u8; OWNER_OCTETS], usize>,
    /// Those of records, by when they are forgotten.
    ends: BTreeSet<(WallTime, [u8; 16])>,
}

impl Table {
    /// Whether a client may have another key: with it he has no more than [`SHARE_MAX`] times what is left for others.
    fn has_room(&self, key: &[u8; 16]) -> bool {
        let own = self.of_owners.get(&owner(key)).copied().unwrap_or_default();
        self.places.len() < KEYS_MAX && own < SHARE_MAX * (KEYS_MAX - self.places.len() - 1)
    }

    fn put(&mut self, key: [u8; 16], kept: Kept) -> Option<Kept> {
        let before = self.places.insert(key, kept);
        if before.is_none() {
            *self.of_owners.entry(owner(&key)).or_default() += 1;
        }
        before
    }

    fn remove(&mut self, key: &[u8; 16]) {
        if self.places.remove(key).is_none() {
            return;
        }
        if let Entry::Occupied(mut own) = self.of_owners.entry(owner(key)) {
            *own.get_mut() -= 1;
            if *own.get() == 0 {
                own.remove();
            }
        }
    }
}

/// Whose key it is.
fn owner(key: &[u8; 16]) -> [u8; OWNER_OCTETS] {
    let mut owner = [0; OWNER_OCTETS];
    owner.copy_from_slice(&key[..OWNER_OCTETS]);
    owner
}

enum Kept {
    UnderWay { body: [u8; 16], over: watch::Receiver<()> },
    Answered(Record),
}

/// A record in the spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub body: [u8; 16],
    pub until: WallTime,
    pub id: MessageId,
    pub place: Place,
}

/// What there is under a key.
pub(crate) enum Claim {
    /// Nothing: who asked carries it out.
    Free(Hand),
    /// The same request was answered.
    Answered(Record),
    /// Somebody carries the same out.
    UnderWay(watch::Receiver<()>),
    /// Another request has the key.
    Other,
    /// Nothing, and there is no room for more of this client.
    Full,
}

/// A request under way. When it is dropped the key is free, unless there is a record.
pub(crate) struct Hand {
    keys: Keys,
    /// Whose key, and what is asked.
    key: RequestKey,
    /// A record that was over.
    pub older: Option<MessageId>,
    /// Dropped with it: who waits looks again.
    _over: watch::Sender<()>,
}

impl Hand {
    /// What its record says that is made now: the window begins when there is an answer.
    pub fn stamp(&self, now: WallTime) -> Stamp {
        Stamp { key: self.key.key, body: self.key.body, until: now + self.key.window }
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        let mut table = self.keys.table();
        if matches!(table.places.get(&self.key.key), Some(Kept::UnderWay { .. })) {
            table.remove(&self.key.key);
        }
    }
}

impl Keys {
    /// Looks for a key, and takes it where it is free.
    pub fn claim(&self, key: &RequestKey, now: WallTime) -> Claim {
        let mut table = self.table();
        match table.places.get(&key.key) {
            Some(Kept::UnderWay { body, over }) if *body == key.body => return Claim::UnderWay(over.clone()),
            Some(Kept::Answered(record)) if record.until <= now => {}
            Some(Kept::Answered(record)) if record.body == key.body => return Claim::Answered(*record),
            Some(_) => return Claim::Other,
            None if !table.has_room(&key.key) => return Claim::Full,
            None => {}
        }
        let (tell, over) = watch::channel(());
        let mut older = None;
        if let Some(Kept::Answered(record)) = table.put(key.key, Kept::UnderWay { body: key.body, over }) {
            table.ends.remove(&(record.until, key.key));
            older = Some(record.id);
        }
        Claim::Free(Hand { keys: self.clone(), key: *key, older, _over: tell })
    }

    /// There is a record now; the one it takes the place of.
    pub fn keep(&self, stamp: Stamp, id: MessageId, place: Place) -> Option<MessageId> {
        let record = Record { body: stamp.body, until: stamp.until, id, place };
        let mut table = self.table();
        table.ends.insert((stamp.until, stamp.key));
        match table.put(stamp.key, Kept::Answered(record)) {
            Some(Kept::Answered(older)) => {
                if older.until != stamp.until {
                    table.ends.remove(&(older.until, stamp.key));
                }
                (older.id != id).then_some(older.id)
            }
            Some(Kept::UnderWay { .. }) | None => None,
        }
    }

    /// Records that are over, some at a time; nobody is answered from them any more.
    pub fn expired(&self, now: WallTime) -> Vec<MessageId> {
        let mut table = self.table();
        let mut gone = Vec::new();
        while let Some(&(until, key)) =
            table.ends.first().filter(|(until, _)| *until <= now && gone.len() < EXPIRED_MAX)
        {
            table.ends.remove(&(until, key));
            if let Some(Kept::Answered(record)) = table.places.get(&key) {
                gone.push(record.id);
                table.remove(&key);
            }
        }
        gone
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.table().places.len()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keys that are remembered; each takes some 450 octets here and in the spool's index.
const KEYS_MAX: usize = 1 << 20;
/// How many times as many as are free one client's may be: alone he has 7/8 of all, of many that want more each has the same.
const SHARE_MAX: usize = 7;
/// Octets of a key's fingerprint that say whose it is. Two clients of 2^32 that are taken for one share what each may have.
const OWNER_OCTETS: usize = 4;
/// Octets of a key.
const KEY_OCTETS_MAX: usize = 255;
/// Records that are forgotten at once.
const EXPIRED_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn key(number: u32, body: &str) -> RequestKey {
        let from = AuthInfo { peer_address: Some(Ipv4Addr::LOCALHOST.into()), ..AuthInfo::default() };
        RequestKey::new(Door::Http, (&number.to_string(), &[]), &from, &[body.as_bytes()], Duration::from_secs(10))
            .expect("sound")
    }

    fn at(secs: i64) -> WallTime {
        WallTime::from_unix_secs(secs)
    }

    fn id(number: u8) -> MessageId {
        MessageId::from_bytes([number; 16])
    }

    fn hand(claim: Claim) -> Hand {
        let Claim::Free(hand) = claim else { panic!("somebody has it") };
        hand
    }

    const PLACE: Place = Place { segment: 1, offset: 0, index: 0 };

    #[test]
    fn a_key_has_a_form_and_belongs_to_somebody() {
        let of = |text: &str, from: &AuthInfo| {
            RequestKey::new(Door::Http, (text, &[]), from, &[b"body"], Duration::from_secs(1))
        };
        let (ann, bob) = (AuthInfo::by_password("ann"), AuthInfo::by_password("bob"));
        for text in ["", "a\nb", "\u{fc}", &"x".repeat(KEY_OCTETS_MAX + 1)] {
            assert!(of(text, &ann).expect_err("no key").contains("1 to 255"), "{text:?}");
        }
        let none = RequestKey::new(Door::Http, ("a", &[]), &ann, &[], Duration::ZERO);
        assert!(none.expect_err("none are taken").contains("idempotency_window"));
        let longest = "x".repeat(KEY_OCTETS_MAX);
        assert!(of(&longest, &ann).is_ok());
        assert_eq!(of("a", &ann), of("a", &ann));
        assert_ne!(of("a", &ann).map(|key| key.key), of("a", &bob).map(|key| key.key));
        let owner = |text: &str, from: &AuthInfo| owner(&of(text, from).expect("sound").key);
        assert!(owner("a", &ann) == owner("b", &ann) && owner("a", &ann) != owner("a", &bob));
        let to = |whom: &[u8]| {
            let key = RequestKey::new(Door::Smtp, ("a", &[whom]), &ann, &[b"body"], Duration::from_secs(1));
            key.expect("sound").key
        };
        assert!(to(b"x") == to(b"x") && to(b"x") != to(b"y") && to(b"x") != to(b""), "to others it is another");
        let acting = |authz, authc| of("a", &AuthInfo::by_smtp(authz, authc)).map(|key| key.key);
        assert_eq!(acting("ann", "ann"), acting("ann", "ann"));
        assert_ne!(acting("ann", "mallory"), acting("ann", "ann"), "whoever says he acts for ann");
        // A name that looks like an address is not the address.
        let peer = AuthInfo { peer_address: Some(Ipv4Addr::LOCALHOST.into()), ..AuthInfo::default() };
        assert_ne!(of("a", &AuthInfo::by_password("127.0.0.1")), of("a", &peer));
    }

    /// Keys are in spools: the same request has the same key in the next version.
    #[test]
    fn a_key_stays_what_it_is() {
        let RequestKey { key, body, .. } = key(7, "body");
        let hex = |octets: [u8; 16]| octets.map(|octet| format!("{octet:02x}")).concat();
        assert_eq!([hex(key), hex(body)], ["e086b780b2c2c9446c120e945145f71a", "230d8358dc8e8890b4c58deeb62912ee"]);
    }

    #[test]
    fn one_hand_at_a_time_is_on_a_key_and_leaves_it_free_or_answered() {
        let keys = Keys::default();
        let first = hand(keys.claim(&key(1, "a"), at(0)));
        let Claim::UnderWay(over) = keys.claim(&key(1, "a"), at(0)) else { panic!("it is under way") };
        assert!(matches!(keys.claim(&key(1, "b"), at(0)), Claim::Other), "another request");
        assert!(over.has_changed().is_ok());
        drop(first);
        assert!(over.has_changed().is_err(), "who waits hears of the end");
        let second = hand(keys.claim(&key(1, "b"), at(0)));
        assert_eq!(keys.keep(second.stamp(at(0)), id(1), PLACE), None);
        drop(second);
        assert!(matches!(keys.claim(&key(1, "b"), at(9)), Claim::Answered(record) if record.id == id(1)));
        assert!(matches!(keys.claim(&key(1, "a"), at(9)), Claim::Other));
        assert_eq!(keys.len(), 1);
    }

    #[test]
    fn a_record_is_forgotten_at_its_end() {
        let keys = Keys::default();
        let first = hand(keys.claim(&key(1, "a"), at(0)));
        keys.keep(first.stamp(at(0)), id(1), PLACE);
        drop(first);
        assert!(matches!(keys.claim(&key(1, "a"), at(9)), Claim::Answered(_)));
        let later = hand(keys.claim(&key(1, "b"), at(10)));
        assert_eq!(later.older, Some(id(1)), "the old one goes");
        keys.keep(later.stamp(at(10)), id(2), PLACE);
        drop(later);
        assert_eq!(keys.expired(at(19)), []);
        assert_eq!(keys.expired(at(20)), [id(2)]);
        assert_eq!((keys.len(), keys.expired(at(99)).len()), (0, 0));
    }

    #[test]
    fn a_window_begins_with_the_answer() {
        let keys = Keys::default();
        let slow = hand(keys.claim(&key(1, "a"), at(0)));
        keys.keep(slow.stamp(at(60)), id(1), PLACE);
        drop(slow);
        assert!(matches!(keys.claim(&key(1, "a"), at(69)), Claim::Answered(_)), "however long it took");
    }

    #[test]
    fn of_two_records_one_stays() {
        let keys = Keys::default();
        let stamp = Stamp { key: [1; 16], body: [2; 16], until: at(10) };
        assert_eq!(keys.keep(stamp, id(1), PLACE), None);
        assert_eq!(keys.keep(stamp, id(1), PLACE), None, "the same again");
        assert_eq!(keys.keep(stamp, id(2), PLACE), Some(id(1)));
        assert_eq!(keys.keep(Stamp { until: at(11), ..stamp }, id(3), PLACE), Some(id(2)));
        assert_eq!((keys.expired(at(10)), keys.expired(at(11))), (vec![], vec![id(3)]));
    }

    #[test]
    fn one_client_leaves_room_for_others() {
        let keys = Keys::default();
        let of = |owner: u8, number: u32| {
            let key = [&[owner; OWNER_OCTETS][..], &[0; 8], &number.to_be_bytes()].concat();
            RequestKey { key: key.try_into().expect("16"), body: [0; 16], window: Duration::from_secs(10) }
        };
        let takes = |owner: u8| {
            let taken = |number: &u32| match keys.claim(&of(owner, *number), at(0)) {
                Claim::Free(hand) => keys.keep(hand.stamp(at(0)), id(1), PLACE).is_none(),
                Claim::Full => false,
                _ => panic!("it is new"),
            };
            (0..).take_while(taken).count()
        };
        let first = takes(1);
        assert!((KEYS_MAX / 8 * 7 - 8..=KEYS_MAX / 8 * 7).contains(&first), "{first}");
        assert!(matches!(keys.claim(&of(1, 0), at(0)), Claim::Answered(_)), "what is remembered stays");
        let second = takes(2);
        assert!((KEYS_MAX / 64 * 7 - 8..=KEYS_MAX / 64 * 7).contains(&second), "of what the first one left: {second}");
        assert!(takes(3) > 10_000);
        while !keys.expired(at(10)).is_empty() {}
        assert_eq!(takes(2), first, "once they are forgotten");
    }

    #[test]
    fn only_so_many_are_remembered() {
        let keys = Keys::default();
        for number in 0..KEYS_MAX as u128 {
            let stamp = Stamp { key: number.to_be_bytes(), body: [0; 16], until: at(10) };
            assert_eq!(keys.keep(stamp, id(1), PLACE), None);
        }
        assert!(matches!(keys.claim(&key(1, "a"), at(0)), Claim::Full));
        assert_eq!(keys.expired(at(10)).len(), EXPIRED_MAX);
        assert!(matches!(keys.claim(&key(1, "a"), at(0)), Claim::Free(_)));
    }
}
