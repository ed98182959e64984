//! Hints: deliveries that were finished shortly before the process died.
//!
//! A mark becomes durable with the next commit, some milliseconds later. A process that is killed in between would
//! deliver those messages again. So every mark that can never become untrue (removed, recipients done) is first written
//! to a small ring in the page cache, which outlives the process; the next start commits what it finds there before it
//! hands out messages. A power cut may lose hints: then the commit interval bounds what is repeated, as documented.
//!
//! In: marks, from any thread. Out: marks, at the start. Nothing here is needed for correctness: a hint that cannot be
//! written is counted and passed over. Order does not matter, because each hint is true for ever.

use message::MessageId;
use spool::{Mark, RecoveredMessage};
use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// The ring. Shared by all who mark.
#[derive(Debug)]
pub(crate) struct Hints {
    file: File,
    /// Number of the next slot to be written, over all processes; where it stands is this modulo [`SLOTS`].
    written: AtomicU64,
    failed: AtomicU64,
}

impl Hints {
    /// Opens or makes the ring in a spool directory; what an earlier process left in it.
    pub fn open(dir: &Path) -> io::Result<(Hints, Vec<Mark>)> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(dir.join(FILE))?;
        let slots = slots_in(&file)?;
        // Whole from the start: a write that lengthens a file waits for the file system's journal, often when others sync.
        if let Err(error) = file.write_all_at(&vec![0; SLOTS * SLOT_OCTETS - slots.len()], slots.len() as u64) {
            tracing::warn!(%error, "the file of recent deliveries has no room: after a kill more may be repeated");
        }
        // Behind the newest: processes that die young must not write over what others before them noted.
        let written = AtomicU64::new(newest(&slots).map_or(0, |number| u64::from(number) + 1));
        Ok((Hints { file, written, failed: AtomicU64::new(0) }, marks_in(&slots)))
    }

    /// What is in the ring of a spool directory, for an onlooker. None when there is no ring.
    pub fn read(dir: &Path) -> io::Result<Vec<Mark>> {
        match File::open(dir.join(FILE)) {
            Ok(file) => Ok(marks_in(&slots_in(&file)?)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(e) => Err(e),
        }
    }

    /// Notes a mark in the ring.
    pub fn note(&self, mark: &Mark) {
        match mark {
            Mark::Removed { id } => self.put(REMOVED, *id, &[]),
            Mark::RecipientsDone { id, recipients } => {
                recipients.chunks(RECIPIENTS_PER_SLOT).for_each(|some| self.put(DONE, *id, some));
            }
            // Attempts and due times change again: only the log knows which is the last.
            Mark::Attempt { .. } => {}
        }
    }

    /// Hints that could not be written.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    fn put(&self, kind: u8, id: MessageId, recipients: &[u32]) {
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let slot = encode(number as u16, kind, id, recipients);
        if self.file.write_all_at(&slot, number % SLOTS as u64 * SLOT_OCTETS as u64).is_err() {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// What a ring said, by message.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    removed: HashSet<MessageId>,
    done: HashMap<MessageId, Vec<u32>>,
}

impl Recent {
    /// From the marks of a ring.
    pub fn new(marks: &[Mark]) -> Recent {
        let mut recent = Recent::default();
        for mark in marks {
            match mark {
                Mark::Removed { id } => _ = recent.removed.insert(*id),
                Mark::RecipientsDone { id, recipients } => recent.done.entry(*id).or_default().extend(recipients),
                Mark::Attempt { .. } => {}
            }
        }
        recent
    }

    /// What the ring knows of a message and the spool does not; the message knows it afterwards. A mark that is in the spool
    /// already is no news, however often the process is killed.
    pub fn news_of(&self, message: &mut RecoveredMessage) -> Option<Mark> {
        let id = message.id;
        if self.removed.contains(&id) {
            return Some(Mark::Removed { id });
        }
        let there = |recipient: &&u32| **recipient < u32::from(message.recipients);
        let told = self.done.get(&id)?.iter().filter(there).filter_map(|recipient| u16::try_from(*recipient).ok());
        let mut news: Vec<u32> = told.filter(|r| !message.settled.contains(*r)).map(u32::from).collect();
        news.sort_unstable();
        news.dedup();
        news.iter().filter_map(|r| u16::try_from(*r).ok()).for_each(|r| _ = message.settled.insert(r));
        (!news.is_empty()).then_some(Mark::RecipientsDone { id, recipients: news })
    }
}

/// Every slot of a ring.
fn slots_in(file: &File) -> io::Result<Vec<u8>> {
    let mut octets = vec![0; SLOTS * SLOT_OCTETS];
    let mut length = 0;
    while length < octets.len() {
        match file.read_at(&mut octets[length..], length as u64)? {
            0 => break,
            more => length += more,
        }
    }
    octets.truncate(length);
    Ok(octets)
}

/// Every whole mark in the slots.
fn marks_in(slots: &[u8]) -> Vec<Mark> {
    slots.chunks_exact(SLOT_OCTETS).filter_map(decode).collect()
}

/// The number of the slot that was written last. Numbers wrap, but all of a ring are near each other.
fn newest(slots: &[u8]) -> Option<u16> {
    let number = |slot: &[u8]| u16::from_le_bytes([slot[6], slot[7]]);
    let whole = slots.chunks_exact(SLOT_OCTETS).enumerate().filter(|(_, slot)| decode(slot).is_some());
    let numbered = whole.map(|(at, slot)| (at, number(slot))).filter(|(at, n)| usize::from(*n) % SLOTS == *at);
    numbered.map(|(_, n)| n).reduce(|newest, n| if n.wrapping_sub(newest) < u16::MAX / 2 { n } else { newest })
}

/// One slot: crc (4 octets) of what follows, kind, count, number of the slot (2), id (16), recipient numbers (2 each).
fn encode(number: u16, kind: u8, id: MessageId, recipients: &[u32]) -> [u8; SLOT_OCTETS] {
    let mut slot = [0; SLOT_OCTETS];
    slot[4] = kind;
    slot[5] = recipients.len() as u8;
    slot[6..8].copy_from_slice(&number.to_le_bytes());
    slot[8..24].copy_from_slice(id.as_bytes());
    for (at, recipient) in slot[24..].chunks_exact_mut(2).zip(recipients) {
        at.copy_from_slice(&(*recipient as u16).to_le_bytes());
    }
    let crc = crc32fast::hash(&slot[4..]);
    slot[..4].copy_from_slice(&crc.to_le_bytes());
    slot
}

/// The mark in a slot; `None` when nothing whole is there.
fn decode(slot: &[u8]) -> Option<Mark> {
    let crc = u32::from_le_bytes(slot[..4].try_into().ok()?);
    if crc != crc32fast::hash(&slot[4..]) {
        return None;
    }
    let id = MessageId::from_bytes(slot[8..24].try_into().ok()?);
    let recipients = slot[24..].chunks_exact(2).take(usize::from(slot[5]));
    match slot[4] {
        REMOVED => Some(Mark::Removed { id }),
        DONE => {
            let recipients = recipients.map(|r| u32::from(u16::from_le_bytes([r[0], r[1]]))).collect();
            Some(Mark::RecipientsDone { id, recipients })
        }
        _ => None,
    }
}

/// Name of the ring in the spool directory.
const FILE: &str = "recent";
/// Slots: more than the marks of one commit interval at any rate the log can keep up with.
const SLOTS: usize = 4096;
const SLOT_OCTETS: usize = 64;
const RECIPIENTS_PER_SLOT: usize = (SLOT_OCTETS - 24) / 2;
const REMOVED: u8 = 1;
const DONE: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u8) -> MessageId {
        MessageId::from_bytes([number; 16])
    }

    fn sorted(marks: Vec<Mark>) -> Vec<String> {
        let mut texts: Vec<String> = marks.iter().map(|mark| format!("{mark:?}")).collect();
        texts.sort();
        texts
    }

    #[test]
    fn what_was_noted_is_found_by_the_next_process() {
        let dir = tempfile::tempdir().expect("a directory");
        let (hints, found) = Hints::open(dir.path()).expect("opens");
        assert_eq!(found, []);
        let noted = [
            Mark::Removed { id: id(1) },
            Mark::RecipientsDone { id: id(2), recipients: (0..RECIPIENTS_PER_SLOT as u32).collect() },
            Mark::RecipientsDone { id: id(3), recipients: vec![65_534] },
        ];
        noted.iter().for_each(|mark| hints.note(mark));
        hints.note(&Mark::Attempt { id: id(4), attempts: 1, due: clock::WallTime::from_unix_micros(7) });
        let (_, found) = Hints::open(dir.path()).expect("opens again");
        assert_eq!(sorted(found), sorted(noted.to_vec()));
    }

    #[test]
    fn a_long_list_of_recipients_takes_more_than_one_slot() {
        let dir = tempfile::tempdir().expect("a directory");
        let (hints, _) = Hints::open(dir.path()).expect("opens");
        let recipients: Vec<u32> = (0..RECIPIENTS_PER_SLOT as u32 + 1).collect();
        hints.note(&Mark::RecipientsDone { id: id(1), recipients: recipients.clone() });
        let (_, found) = Hints::open(dir.path()).expect("opens again");
        let mut all: Vec<u32> = Vec::new();
        for mark in found {
            let Mark::RecipientsDone { recipients, .. } = mark else { panic!("{mark:?}") };
            all.extend(recipients);
        }
        all.sort_unstable();
        assert_eq!(all, recipients);
    }

    #[test]
    fn the_ring_has_its_length_from_the_start() {
        let dir = tempfile::tempdir().expect("a directory");
        let length = || std::fs::metadata(dir.path().join(FILE)).expect("there").len();
        let (hints, _) = Hints::open(dir.path()).expect("opens");
        assert_eq!(length(), (SLOTS * SLOT_OCTETS) as u64);
        hints.note(&Mark::Removed { id: id(1) });
        // As a program left it that let it grow.
        let file = OpenOptions::new().write(true).open(dir.path().join(FILE)).expect("opens");
        file.set_len(SLOT_OCTETS as u64 + 7).expect("shortens");
        let (_, found) = Hints::open(dir.path()).expect("opens again");
        assert_eq!((found, length()), (vec![Mark::Removed { id: id(1) }], (SLOTS * SLOT_OCTETS) as u64));
    }

    #[test]
    fn a_process_that_dies_young_writes_over_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let numbered = |n: u32| MessageId::from_bytes(std::array::from_fn(|i| n.to_le_bytes()[i % 4]));
        // Numbers of slots wrap on the way.
        let mut noted = 0;
        for count in [3, 1, 0, 2, 60_000, 1, 9_000, 5] {
            let (hints, found) = Hints::open(dir.path()).expect("opens");
            let newest: Vec<_> = (noted - noted.min(SLOTS as u32)..noted).map(numbered).collect();
            let newest = newest.into_iter().map(|id| Mark::Removed { id }).collect();
            assert_eq!(sorted(found), sorted(newest), "after {noted}");
            (noted..noted + count).for_each(|n| hints.note(&Mark::Removed { id: numbered(n) }));
            noted += count;
        }
    }

    #[test]
    fn news_are_told_once() {
        let done = |recipients: &[u32]| Mark::RecipientsDone { id: id(1), recipients: recipients.to_vec() };
        let recent = Recent::new(&[done(&[3, 0]), Mark::Removed { id: id(2) }, done(&[1, 3, 9])]);
        let message = |number| RecoveredMessage {
            id: id(number),
            queue: "q".into(),
            place: message::Place::OWN_FILE,
            size: 1,
            attempts: 0,
            due: clock::WallTime::EPOCH,
            recipients: 5,
            settled: message::Settled::default(),
        };
        let mut first = message(1);
        first.settled.insert(1);
        assert_eq!(recent.news_of(&mut first), Some(done(&[0, 3])), "1 is known, 9 is nobody");
        assert_eq!((0..5).map(|r| first.settled.contains(r)).collect::<Vec<_>>(), [true, true, false, true, false]);
        assert_eq!(recent.news_of(&mut first), None);
        assert_eq!(recent.news_of(&mut message(2)), Some(Mark::Removed { id: id(2) }));
        assert_eq!(recent.news_of(&mut message(3)), None);
    }

    #[test]
    fn the_ring_keeps_the_newest_and_a_torn_slot_is_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let (hints, _) = Hints::open(dir.path()).expect("opens");
        let numbered = |n: u32| {
            let mut octets = [0; 16];
            octets[..4].copy_from_slice(&n.to_le_bytes());
            MessageId::from_bytes(octets)
        };
        for n in 0..=SLOTS as u32 {
            hints.note(&Mark::Removed { id: numbered(n) });
        }
        let path = dir.path().join(FILE);
        assert_eq!(std::fs::metadata(&path).expect("there").len(), (SLOTS * SLOT_OCTETS) as u64);
        let mut octets = std::fs::read(&path).expect("reads");
        octets[SLOT_OCTETS + 9] ^= 1;
        std::fs::write(&path, &octets).expect("writes");
        let (_, found) = Hints::open(dir.path()).expect("opens again");
        assert_eq!(found.len(), SLOTS - 1);
        assert!(found.contains(&Mark::Removed { id: numbered(SLOTS as u32) }), "the newest");
        assert!(!found.contains(&Mark::Removed { id: numbered(0) }), "overwritten");
        assert!(!found.contains(&Mark::Removed { id: numbered(1) }), "torn");
    }
}
