//! Looking at a spool without touching it: what is in it, what is alive, what does not read.
//!
//! For the operator's tools. In: [`SpoolFiles`], read only, of a spool that is dead or that another
//! process writes to meanwhile. Out: an [`Inspection`]: every file's figures, every fault
//! with its place, every live message; and [`messages_in`] one file, readable or not.
//! Nothing that is damaged stops it: what can fail is listing the files, a newer format, and a
//! log that runs away faster than it can be read.
//!
//! Every octet is read, no index is believed. The rules are those of docs/spool-format.md
//! section 6, written down a second time on purpose: what recovery finds is checked against this.
//! Deliberately absent: writing, repairing, deleting.

mod replay;
mod standing;
mod track;
mod walk;

use crate::QueueOf;
use crate::disk::{FileInfo, FileName, ReadPages};
use crate::fault::FaultDisk;
use crate::recovery::RecoveredMessage;
use crate::{Disk, SpoolError, Step};
use message::MessageId;
use replay::{Outcome, Replay};
pub use standing::{Standing, messages_in};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use track::Track;

/// A spool's files as an onlooker sees them: names may change between two calls.
pub trait SpoolFiles: ReadPages {
    /// Every file of the spool, in any order.
    ///
    /// # Errors
    /// The operating system's.
    fn list(&self) -> io::Result<Vec<FileInfo>>;
}

impl SpoolFiles for FaultDisk {
    fn list(&self) -> io::Result<Vec<FileInfo>> {
        Disk::list(&mut self.clone())
    }
}

/// What was seen.
#[derive(Debug, Default)]
pub struct Inspection {
    /// Every message in the spool's care, in the order of their records.
    pub messages: Vec<RecoveredMessage>,
    /// Messages that a mark removed, as far as those marks are still there.
    pub removed: BTreeSet<MessageId>,
    /// Segments of the log and those in `corrupt/`, in order of their names.
    pub files: Vec<FileReport>,
    /// What did not read, in the order of the files.
    pub faults: Vec<Fault>,
    /// Faults beyond [`FAULTS_MAX`], counted only.
    pub faults_not_listed: u64,
    /// The oldest segment that is still needed.
    pub floor: u32,
    /// Segments that were released while they were being read: the spool is in use.
    pub released_meanwhile: u64,
}

/// One file's figures.
#[derive(Clone, Debug)]
pub struct FileReport {
    /// Which.
    pub name: FileName,
    /// Its length.
    pub octets: u64,
    /// Where its acknowledged part ends; `None` when a later segment does not say.
    pub acknowledged_octets: Option<u64>,
    /// Below the floor: nothing in it counts any more.
    pub released: bool,
    /// Batches that are whole.
    pub batches: u64,
    /// Messages in its sound records.
    pub messages: u64,
    /// Marks in its sound records.
    pub marks: u64,
    /// Messages in it that are alive.
    pub live_messages: u64,
    /// Octets of head and body of those.
    pub live_octets: u64,
    /// Octets of the batch that was being written when the log ended; never promised.
    pub torn_tail_octets: u64,
    /// 1 when the header page does not read.
    pub damaged_headers: u64,
    /// Batches, or runs of pages, that are not whole.
    pub damaged_batches: u64,
    /// Records that are not whole, in batches whose header reads.
    pub damaged_records: u64,
    /// Envelopes that do not decode.
    pub damaged_states: u64,
    /// Pages that the disk does not give out.
    pub unreadable_pages: u64,
}

/// Something that does not read, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// In which file.
    pub file: FileName,
    /// Octets from the file's beginning.
    pub offset: u64,
    /// How long the place is; 0 when that is not known.
    pub octets: u64,
    /// What it is.
    pub what: FaultKind,
}

/// What does not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The header page of a segment.
    Header,
    /// Pages that should be a batch.
    Batch,
    /// A record of a batch whose header reads.
    Record,
    /// A message's envelope or metadata.
    State(MessageId),
    /// A page the disk refuses, and its words.
    Unreadable(String),
    /// A segment that a later one names and that is not there.
    Missing,
}

/// Looks at everything.
///
/// # Errors
/// `Io` when the files cannot be listed or opened, `NewerFormat`, `Busy` when the log moves on faster than it can be read.
pub fn inspect(files: &dyn SpoolFiles, queue_of: QueueOf) -> Result<Inspection, SpoolError> {
    for _ in 0..STARTS_MAX {
        let mut look =
            Look { files, tracks: BTreeMap::new(), aside: BTreeMap::new(), replay: Replay::new(queue_of), released: 0 };
        for _ in 0..PASSES_MAX {
            match look.pass()? {
                Pass::Complete => return Ok(look.finish()),
                Pass::Again => {}
                Pass::StartOver => break,
            }
        }
    }
    Err(SpoolError::Busy)
}

/// An inspection on its way.
struct Look<'a> {
    files: &'a dyn SpoolFiles,
    tracks: BTreeMap<u32, Track>,
    aside: BTreeMap<FileName, Track>,
    replay: Replay,
    released: u64,
}

/// What a pass over the files came to.
enum Pass {
    /// Nothing slipped away.
    Complete,
    /// Segments were released before they were read: what lived in them has moved to newer ones.
    Again,
    /// What was taken for the log was not: a commit failed meanwhile.
    StartOver,
}

impl Look<'_> {
    /// Reads what is new. A live message whose segment slipped away stands in a newer one, which is
    /// read after that was noticed: so one pass in which nothing slips away is enough.
    fn pass(&mut self) -> Result<Pass, SpoolError> {
        let listed = self.files.list().map_err(|e| SpoolError::io(Step::List, None, &e))?;
        let mut slipped = self.plan(&listed)?;
        let ends = self.ends();
        let sequences: Vec<u32> = self.tracks.iter().filter(|(_, t)| !t.finished).map(|(n, _)| *n).collect();
        for sequence in sequences {
            let Some(mut track) = self.tracks.remove(&sequence) else { continue };
            let end = ends.get(&sequence).copied();
            if end.is_some_and(|end| track.at > end) {
                return Ok(Pass::StartOver);
            }
            let read = track.read(self.files, end, &mut self.replay);
            if read.is_ok() && track.is_unchanged(self.files) {
                self.tracks.insert(sequence, track);
            } else {
                (slipped, self.released) = (true, self.released + 1);
            }
        }
        Ok(if slipped { Pass::Again } else { Pass::Complete })
    }

    /// Reads the headers of files not seen before; true when one was gone already.
    fn plan(&mut self, listed: &[FileInfo]) -> Result<bool, SpoolError> {
        let mut slipped = false;
        for file in listed {
            let FileName::Segment(sequence) = file.name else { continue };
            if let Some(track) = self.tracks.get_mut(&sequence) {
                track.report.octets = file.octets;
                continue;
            }
            match Track::new(self.files, file)? {
                Some(track) => _ = self.tracks.insert(sequence, track),
                None => (slipped, self.released) = (true, self.released + 1),
            }
        }
        for file in listed.iter().filter(|f| is_aside(f.name)) {
            if !self.aside.contains_key(&file.name)
                && let Some(mut track) = Track::new(self.files, file)?
            {
                let mut unheard = Replay::new(|_, _| String::new());
                // Moved away by hand meanwhile: then it is not there to be reported.
                if track.read(self.files, None, &mut unheard).is_ok() {
                    self.aside.insert(file.name, track);
                }
            }
        }
        Ok(slipped)
    }

    /// Page behind the acknowledged part of each segment for which a later one says so.
    fn ends(&self) -> BTreeMap<u32, u32> {
        let mut ends = BTreeMap::new();
        let mut later_headers_sound = true;
        for (later, (sequence, track)) in self.tracks.iter().rev().enumerate() {
            if later > 0 && later_headers_sound {
                // Nobody names it although there are later ones: it was opened and never used.
                ends.entry(*sequence).or_insert(1);
            }
            match track.header {
                Some(header) => _ = ends.entry(header.previous).or_insert(header.previous_end),
                None => later_headers_sound = false,
            }
        }
        ends
    }

    fn finish(mut self) -> Inspection {
        let floor = self.tracks.values().filter_map(|t| t.header).map(|h| h.floor).fold(self.replay.floor, u32::max);
        let missing = self.missing(floor);
        let Outcome { live: messages, removed, undecoded } = self.replay.finish(floor);
        for message in &messages {
            if let Some(track) = self.tracks.get_mut(&message.place.segment) {
                track.report.live_messages += 1;
                track.report.live_octets += u64::from(message.size);
            }
        }
        for (id, place) in undecoded {
            if let Some(track) = self.tracks.get_mut(&place.segment) {
                track.report.damaged_states += 1;
                track.fault(u64::from(place.offset), 0, FaultKind::State(id));
            }
        }
        let released_meanwhile = self.released;
        let mut seen = Inspection { messages, removed, floor, released_meanwhile, ..Inspection::default() };
        for (sequence, mut track) in self.tracks {
            track.report.released = sequence < floor;
            seen.take(track);
        }
        self.aside.into_values().for_each(|track| seen.take(track));
        missing.into_iter().for_each(|fault| seen.fault(fault));
        seen
    }

    /// Segments at or above the floor that a later one names and nobody has.
    fn missing(&self, floor: u32) -> Vec<Fault> {
        let there = |n: u32| self.tracks.contains_key(&n) || self.aside.keys().any(|name| number(*name) == n);
        let named = self.tracks.values().filter_map(|t| t.header).map(|h| h.previous);
        let gone = named.filter(|n| *n != 0 && *n >= floor && !there(*n));
        gone.map(|n| Fault { file: FileName::Segment(n), offset: 0, octets: 0, what: FaultKind::Missing }).collect()
    }
}

impl Inspection {
    /// True when nothing that counts is damaged. Set-aside segments are not part of the log.
    pub fn is_sound(&self) -> bool {
        self.faults.iter().all(|f| is_aside(f.file) || number(f.file) < self.floor) && self.faults_not_listed == 0
    }

    fn take(&mut self, track: Track) {
        let (report, faults, not_listed) = track.finish();
        self.files.push(report);
        self.faults_not_listed += not_listed;
        faults.into_iter().for_each(|fault| self.fault(fault));
    }

    fn fault(&mut self, fault: Fault) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(fault);
        } else {
            self.faults_not_listed += 1;
        }
    }
}

impl FaultKind {
    /// Its name in reports.
    pub fn name(&self) -> &'static str {
        match self {
            FaultKind::Header => "header page",
            FaultKind::Batch => "batch",
            FaultKind::Record => "record",
            FaultKind::State(_) => "envelope",
            FaultKind::Unreadable(_) => "unreadable page",
            FaultKind::Missing => "missing segment",
        }
    }
}

fn is_aside(name: FileName) -> bool {
    matches!(name, FileName::Aside(..))
}

/// The sequence number in a name.
fn number(name: FileName) -> u32 {
    match name {
        FileName::Segment(n) | FileName::Spare(n) | FileName::Aside(n, _) | FileName::Checkpoint(n) => n,
    }
}

/// Faults that an inspection lists; more are counted only.
pub const FAULTS_MAX: usize = 10_000;
/// Passes over a log that releases segments while it is read.
const PASSES_MAX: usize = 32;
/// Times an inspection starts from nothing.
const STARTS_MAX: usize = 4;
