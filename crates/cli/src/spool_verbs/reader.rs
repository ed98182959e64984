//! Reading a spool for the verbs, whatever kind it is of: [`SpoolReader`] is the seam, [`LogReader`] the segment log,
//! [`FilesReader`] one file per message.
//!
//! A message may move or leave while it is read, because a server runs: then it is looked for again, a few times.

use super::files_reader::FilesReader;
use super::still;
use anyhow::Context;
use message::{MessageId, Place, Resident};
use spool::{Inspection, Mark, QueueOf, RecoveredMessage, SpoolError, inspect, read_message};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;
use store::{Kind, ReadOnlyDir, StoreError};

/// What is said of one that may have held more than can be found.
pub(super) const DAMAGED: &str = "the spool is damaged and may have held more: `postrider spool verify` says where, `salvage --to` saves what reads there";

/// A spool of any kind, to be looked at.
pub(super) trait SpoolReader {
    /// Its directory.
    fn files(&self) -> &ReadOnlyDir;

    /// Its kind.
    fn kind(&self) -> Kind;

    /// Names the queue of a message.
    fn queue_of(&self) -> QueueOf;

    /// Every message in it, oldest first; and whether nothing that counts is damaged: else there may have been more.
    fn messages(&self) -> anyhow::Result<(Vec<RecoveredMessage>, bool)>;

    /// All of a message; `Ok(None)` when it left the spool meanwhile.
    fn load(&self, id: MessageId, place: Place) -> Result<Option<Resident>, SpoolError>;

    /// Reads all of it: whether nothing that counts is damaged, and how many messages there are.
    fn check(&self) -> anyhow::Result<(bool, u64)>;
}

/// A spool, by what is in its directory.
pub(super) enum Reader {
    Log(LogReader),
    Files(FilesReader),
}

/// A segment log.
pub(super) struct LogReader {
    pub files: Arc<ReadOnlyDir>,
    queue_of: QueueOf,
    moved: RefCell<Moved>,
}

/// Where messages are that were not where they had been.
#[derive(Default)]
struct Moved {
    looks: usize,
    places: BTreeMap<MessageId, Place>,
}

impl Reader {
    /// The spool in `dir`.
    pub fn open(dir: &Path, queue_of: QueueOf) -> anyhow::Result<Reader> {
        let files = ReadOnlyDir::open(dir).map_err(|error| {
            let denied =
                matches!(&error, StoreError::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied);
            who_may(anyhow::Error::new(error), denied)
        })?;
        Ok(match files.kind() {
            Kind::Log => Reader::Log(LogReader { files: Arc::new(files), queue_of, moved: RefCell::default() }),
            Kind::Files => Reader::Files(FilesReader::new(files, queue_of)),
        })
    }

    /// What every kind can do.
    pub fn any(&self) -> &dyn SpoolReader {
        match self {
            Reader::Log(log) => log,
            Reader::Files(files) => files,
        }
    }
}

impl LogReader {
    /// Everything an onlooker sees.
    pub fn inspect(&self) -> anyhow::Result<Inspection> {
        let mut seen = inspect(&*self.files, self.queue_of).map_err(|error| {
            let denied = matches!(&error, SpoolError::Io { kind: io::ErrorKind::PermissionDenied, .. });
            who_may(anyhow::Error::new(error).context(self.files.dir().display().to_string()), denied)
        })?;
        if !seen.is_sound() {
            // A checkpoint may remember messages that the damaged log does not give away.
            match still::recovered(&self.files, self.queue_of) {
                Ok(recovered) => join(recovered, &mut seen),
                Err(error) => eprintln!("what a start would find cannot be told: {error}"),
            }
        }
        // Deliveries that the log does not know yet, as after a kill.
        let recent = self.files.recent();
        let removed = apply(&recent.with_context(|| self.files.dir().display().to_string())?, &mut seen.messages);
        seen.removed.extend(removed);
        Ok(seen)
    }

    /// Where a message is now; looks again when it was not where it had been.
    fn moved_to(&self, id: MessageId, from: Place) -> Result<Option<Place>, SpoolError> {
        let mut moved = self.moved.borrow_mut();
        if let Some(place) = moved.places.get(&id).filter(|place| **place != from) {
            return Ok(Some(*place));
        }
        if moved.looks == LOOKS_MAX {
            return Err(SpoolError::Busy);
        }
        moved.looks += 1;
        let seen = inspect(&*self.files, self.queue_of)?;
        moved.places = seen.messages.into_iter().map(|m| (m.id, m.place)).collect();
        Ok(moved.places.get(&id).copied())
    }
}

impl SpoolReader for LogReader {
    fn files(&self) -> &ReadOnlyDir {
        &self.files
    }

    fn kind(&self) -> Kind {
        Kind::Log
    }

    fn queue_of(&self) -> QueueOf {
        self.queue_of
    }

    fn check(&self) -> anyhow::Result<(bool, u64)> {
        let seen = self.inspect()?;
        Ok((seen.is_sound(), seen.messages.len() as u64))
    }

    fn messages(&self) -> anyhow::Result<(Vec<RecoveredMessage>, bool)> {
        let seen = self.inspect()?;
        let is_sound = seen.is_sound();
        Ok((seen.messages, is_sound))
    }

    fn load(&self, id: MessageId, place: Place) -> Result<Option<Resident>, SpoolError> {
        let mut place = place;
        loop {
            match read_message(&*self.files, id, place) {
                Err(SpoolError::NoSuchMessage { .. }) => {}
                other => return other.map(Some),
            }
            match self.moved_to(id, place)? {
                None => return Ok(None),
                // It is alive there, and what stands there is not it.
                Some(now) if now == place => return Err(SpoolError::Damaged { id, place }),
                Some(now) => place = now,
            }
        }
    }
}

/// Adds messages that only recovery knows.
fn join(recovered: Vec<RecoveredMessage>, seen: &mut Inspection) {
    let known: BTreeSet<MessageId> = seen.messages.iter().map(|m| m.id).collect();
    let gone = |id: &MessageId| known.contains(id) || seen.removed.contains(id);
    let more: Vec<_> = recovered.into_iter().filter(|m| !gone(&m.id)).collect();
    seen.messages.extend(more);
    seen.messages.sort_unstable_by_key(|m| (m.place.segment, m.place.offset, m.place.index));
}

/// Takes finished deliveries off what the spool holds; the messages that are gone, as far as that is known.
pub(super) fn apply(recent: &[Mark], messages: &mut Vec<RecoveredMessage>) -> BTreeSet<MessageId> {
    let mut removed = BTreeSet::new();
    let mut settled: BTreeMap<MessageId, Vec<u32>> = BTreeMap::new();
    for mark in recent {
        match mark {
            Mark::Removed { id } => _ = removed.insert(*id),
            Mark::RecipientsDone { id, recipients } => settled.entry(*id).or_default().extend(recipients),
            Mark::Attempt { .. } => {}
        }
    }
    messages.retain(|message| !removed.contains(&message.id));
    for message in messages {
        let recipients = settled.get(&message.id).into_iter().flatten().filter_map(|r| u16::try_from(*r).ok());
        let known = recipients.filter(|r| *r < message.recipients);
        known.for_each(|r| _ = message.settled.insert(r));
    }
    removed
}

/// The error, with what to do about a refusal.
pub(super) fn who_may(error: anyhow::Error, denied: bool) -> anyhow::Error {
    if denied { error.context(WHO_MAY) } else { error }
}

/// What to do about a refusal.
const WHO_MAY: &str = "run this as root or as the user the spool belongs to";
/// Times a running spool is looked at anew because messages have moved.
const LOOKS_MAX: usize = 16;
