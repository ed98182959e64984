//! Recovery: from the names in a directory to the messages that were promised (docs/local-disk.md section 6).
//!
//! Reads first lines and marks, never contents. Whatever is found, the rest is still read: what is not whole goes to
//! `corrupt/`, what does not read stays, all of it is counted. Only a directory that does not list is an error.

use super::engine::{MessageFiles, failed};
use super::files::{Files, ReadFile, read_range};
use super::header::{Header, LINE_OCTETS_MAX, START_OCTETS, Start};
use super::inspect::is_gone;
use super::marks::{MARKS_OCTETS_MAX, Progress};
use super::names::{Folder, LocalName, Run};
use crate::{QueueOf, RecoveredMessage, SpoolError, Step};
use message::{MessageId, Place};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::sync::Arc;

/// What recovery found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocalReport {
    /// Messages given out.
    pub messages: u64,
    /// Files that were being written when the last run ended, never promised: removed.
    pub unfinished: u64,
    /// Files that are not whole: moved to `corrupt/`.
    pub set_aside: u64,
    /// Files that are not whole and could not be moved: where they were.
    pub stuck: u64,
    /// Octets of both.
    pub damaged_octets: u64,
    /// Files the disk does not read now: where they were.
    pub unreadable: u64,
    /// Files of a newer version: where they were.
    pub newer: u64,
    /// Names that are none of ours: where they were.
    pub strange: u64,
    /// Marks that were being written when an earlier run ended.
    pub torn_marks: u64,
}

/// What a file turned out to be.
pub(super) enum Found {
    /// With the marks in it that are torn.
    Message(RecoveredMessage, u64),
    /// Written by the run that asks: its caller knows it.
    Ours,
    NotWhole(u64),
    /// Written by a newer program: its version.
    Newer(u64),
}

/// Queue names, each once.
pub(super) type Queues = BTreeSet<Arc<str>>;

pub(super) fn recover<F: Files>(
    engine: &MessageFiles<F>,
    folder: Folder,
    give: &mut dyn FnMut(RecoveredMessage),
) -> Result<LocalReport, SpoolError> {
    let (mut report, names) = loop {
        let (mut report, mut names) = (LocalReport::default(), Vec::new());
        let list = engine.files.list(folder, &mut |name| match folder.parse(name) {
            Some(name) => names.push(name),
            None => report.strange += 1,
        });
        match list {
            Ok(()) => break (report, names),
            Err(e) if engine.files.waits_out(&e) => {}
            Err(e) => return Err(failed(Step::List, folder, &e)),
        }
    };
    let mut queues = Queues::new();
    for name in names {
        match name {
            LocalName::Message(id) => message(engine, id, &mut queues, &mut report, give),
            LocalName::New(_, run) if run == engine.run => {}
            LocalName::New(..) => {
                report.unfinished += 1;
                // If it stays it harms nobody: the next start finds it again.
                let _ = engine.files.remove(name);
            }
            LocalName::Intent(_) | LocalName::Aside(..) => {}
        }
    }
    Ok(report)
}

/// One file.
fn message<F: Files>(
    engine: &MessageFiles<F>,
    id: MessageId,
    queues: &mut Queues,
    report: &mut LocalReport,
    give: &mut dyn FnMut(RecoveredMessage),
) {
    let name = LocalName::Message(id);
    let found = loop {
        match engine.files.open(name).and_then(|file| read(&*file, id, Some(engine.run), engine.queue_of, queues)) {
            Err(e) if engine.files.waits_out(&e) => {}
            found => break found,
        }
    };
    match found {
        Ok(Found::Message(message, torn_marks)) => {
            report.messages += 1;
            report.torn_marks += torn_marks;
            give(message);
        }
        Ok(Found::Ours) => {}
        Ok(Found::Newer(_)) => report.newer += 1,
        // It was settled meanwhile, and its file may be another message's by now.
        Ok(Found::NotWhole(_)) if is_gone(&engine.files, name) => {}
        Ok(Found::NotWhole(octets)) => {
            report.damaged_octets += octets;
            match engine.set_aside(id) {
                Ok(()) => report.set_aside += 1,
                Err(_) => report.stuck += 1,
            }
        }
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        Err(_) => report.unreadable += 1,
    }
}

/// What the file of message `id` is; one that the run `own` wrote is not looked at.
pub(super) fn read(
    file: &dyn ReadFile,
    id: MessageId,
    own: Option<Run>,
    queue_of: QueueOf,
    queues: &mut Queues,
) -> io::Result<Found> {
    let length = file.length()?;
    let first = read_range(file, 0, FIRST_READ_OCTETS)?;
    let (line, run) = match Start::parse(&first[..first.len().min(START_OCTETS)]) {
        Start::Known { run, .. } if Some(run) == own => return Ok(Found::Ours),
        Start::Known { line, run } => (line, run),
        Start::Newer(version) => return Ok(Found::Newer(version)),
        Start::Strange => return Ok(Found::NotWhole(length)),
    };
    debug_assert!(line <= LINE_OCTETS_MAX, "checked where it was parsed");
    let header = match first.get(..line) {
        Some(line) => Header::decode(line, id),
        None => Header::decode(&read_range(file, 0, line)?, id),
    };
    let Some(header) = header.filter(|header| header.end() <= length) else { return Ok(Found::NotWhole(length)) };
    // Of more than that, which an ailing disk may have made of a few, the last: a recipient who is served twice is better than none.
    let marks = (length - header.end()).min(MARKS_OCTETS_MAX);
    let mut progress = Progress::new(header.due);
    if marks > 0 {
        progress.apply(&read_range(file, length - marks, marks as usize)?, id, run);
    }
    let torn = progress.torn;
    Ok(recovered(id, &header, progress, queue_of(&header.envelope, &header.meta), queues)
        .map_or(Found::NotWhole(length), |message| Found::Message(message, torn)))
}

/// `None` when there are more recipients than a message has.
fn recovered(
    id: MessageId,
    header: &Header,
    progress: Progress,
    queue: String,
    queues: &mut Queues,
) -> Option<RecoveredMessage> {
    let queue = match queues.get(queue.as_str()) {
        Some(known) => Arc::clone(known),
        None => {
            let queue: Arc<str> = queue.into();
            queues.insert(Arc::clone(&queue));
            queue
        }
    };
    Some(RecoveredMessage {
        id,
        queue,
        place: Place::OWN_FILE,
        size: u32::try_from(header.content()).ok()?,
        attempts: progress.attempts,
        due: progress.due,
        recipients: u16::try_from(header.envelope.recipients.len()).ok()?,
        settled: progress.settled,
    })
}

impl LocalReport {
    /// Both together.
    pub fn add(&mut self, other: &LocalReport) {
        self.messages += other.messages;
        self.unfinished += other.unfinished;
        self.set_aside += other.set_aside;
        self.stuck += other.stuck;
        self.damaged_octets += other.damaged_octets;
        self.unreadable += other.unreadable;
        self.newer += other.newer;
        self.strange += other.strange;
        self.torn_marks += other.torn_marks;
    }
}

/// What is read of each file at first: most first lines whole, and small messages with their marks.
const FIRST_READ_OCTETS: usize = 4096;
