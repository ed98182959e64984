//! Looking at message files without touching them: what is there, what is alive, what does not read.
//!
//! For the operator's tools. In: [`ReadFiles`] of a spool that is dead or that another process writes to meanwhile. Out: a
//! [`FilesInspection`]: every directory's figures, every fault with its place, every message that a start would find; and
//! [`load`], one message. Nothing that is damaged stops it; what can fail is listing a directory.
//!
//! A message that comes or goes while its directory is read is seen or not. Deliberately absent: writing, repairing, deleting.

use super::engine::failed;
use super::files::{ReadFiles, read_range};
use super::header::{self, Header, Start};
use super::intent::{self, INTENT_OCTETS_MAX};
use super::names::{Folder, LocalName};
use super::recovery::{self, Found, Queues};
use crate::{QueueOf, RecoveredMessage, SpoolError, Step};
use message::{MessageId, Place, Resident};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};

/// What was seen.
#[derive(Debug, Default)]
pub struct FilesInspection {
    /// Every message in the spool's care, the oldest first.
    pub messages: Vec<RecoveredMessage>,
    /// The directories with messages, and `corrupt/`, as far as there is something in them.
    pub folders: Vec<FolderReport>,
    /// What does not read, directory by directory.
    pub faults: Vec<FileFault>,
    /// Faults beyond [`FILE_FAULTS_MAX`], counted only.
    pub faults_not_listed: u64,
    /// Files of messages that were being written; never promised.
    pub unfinished: u64,
    /// Transactions that were being written; the messages they name were never promised.
    pub unfinished_transactions: u64,
    /// Lines of marks that were being written.
    pub torn_marks: u64,
    /// Names that are none of the spool's.
    pub strange: u64,
}

/// One directory's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FolderReport {
    /// Which.
    pub folder: Folder,
    /// Files of messages in it; in `corrupt/`, of whatever was moved there.
    pub files: u64,
    /// Octets of those.
    pub octets: u64,
    /// Messages that are alive.
    pub live_messages: u64,
    /// Octets of head and body of those.
    pub live_octets: u64,
    /// Files whose first line does not check or that are too short.
    pub damaged_files: u64,
    /// Files whose head or body is not what was written.
    pub damaged_contents: u64,
    /// Files of a newer version.
    pub newer_files: u64,
    /// Files that the disk does not give out.
    pub unreadable_files: u64,
}

/// A file that does not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFault {
    /// Which.
    pub name: LocalName,
    /// Its length, as far as it is known.
    pub octets: u64,
    /// What is wrong.
    pub what: FileFaultKind,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileFaultKind {
    /// The first line does not check, or the file is too short.
    NotWhole,
    /// Head or body is not what was written.
    Content,
    /// Written by a newer program: its version.
    Newer(u64),
    /// The disk refuses: its words.
    Unreadable(String),
}

/// Looks at every file. First lines and marks are checked, and with `contents` every octet.
///
/// # Errors
/// When a directory that is there does not list.
pub fn inspect(files: &dyn ReadFiles, queue_of: QueueOf, contents: bool) -> Result<FilesInspection, SpoolError> {
    let mut look = Look { files, queue_of, contents, queues: Queues::new(), seen: FilesInspection::default() };
    let unpromised = look.unpromised()?;
    for folder in Folder::of_messages().chain([Folder::Corrupt]) {
        look.folder(folder, &unpromised)?;
    }
    let mut seen = look.seen;
    seen.messages.sort_by_key(|message| (message.id.created(), message.id));
    Ok(seen)
}

/// All of the message in file `name`, checked.
///
/// # Errors
/// `NoSuchMessage` when the file is gone, `Damaged` when it does not read back as written, `File` when the disk refuses.
pub fn load(files: &dyn ReadFiles, name: LocalName) -> Result<Resident, SpoolError> {
    let id = name.id();
    let octets = files.open(name).and_then(|file| {
        let octets = usize::try_from(file.length()?).map_err(|_| ErrorKind::FileTooLarge)?;
        read_range(&*file, 0, octets)
    });
    let octets = octets.map_err(|e| match e.kind() {
        ErrorKind::NotFound => SpoolError::NoSuchMessage { id },
        _ => failed(Step::Read, name, &e),
    })?;
    whole(octets, id).ok_or_else(|| match is_gone(files, name) {
        true => SpoolError::NoSuchMessage { id },
        false => SpoolError::Damaged { id, place: Place::OWN_FILE },
    })
}

/// Whether the name does not stand any more: then what was read of the file may be another message's that it was kept for.
pub(super) fn is_gone(files: &(impl ReadFiles + ?Sized), name: LocalName) -> bool {
    files.open(name).is_err_and(|e| e.kind() == ErrorKind::NotFound)
}

/// `None` when the octets are not what was written.
fn whole(octets: Vec<u8>, id: MessageId) -> Option<Resident> {
    let Start::Known { line, .. } = Start::parse(&octets) else { return None };
    let header = Header::decode(octets.get(..line)?, id)?;
    let end = usize::try_from(header.end()).ok()?;
    if octets.len() < end {
        return None;
    }
    let mut octets = bytes::Bytes::from(octets);
    octets.truncate(end);
    let mut head = octets.split_off(line);
    let body = head.split_off(header.head as usize);
    let Header { envelope, meta, content_crc, .. } = header;
    (header::content_crc(&head, &body) == content_crc).then_some(Resident { envelope, meta, head, body: body.into() })
}

/// An inspection on its way.
struct Look<'a> {
    files: &'a dyn ReadFiles,
    queue_of: QueueOf,
    contents: bool,
    queues: Queues,
    seen: FilesInspection,
}

impl Look<'_> {
    /// Messages of transactions that a start would take away.
    fn unpromised(&mut self) -> Result<BTreeSet<MessageId>, SpoolError> {
        let mut unpromised = BTreeSet::new();
        for name in self.list(Folder::Intents)? {
            let octets = self.files.open(name).and_then(|file| read_range(&*file, 0, INTENT_OCTETS_MAX));
            // One that does not check was not synced yet, and stands for nothing.
            if let Some(ids) = octets.ok().and_then(|octets| intent::decode(&octets)) {
                self.seen.unfinished_transactions += 1;
                unpromised.extend(ids);
            }
        }
        Ok(unpromised)
    }

    /// The names in a directory, in their order. One that is not there has none.
    fn list(&mut self, folder: Folder) -> Result<Vec<LocalName>, SpoolError> {
        let (mut names, mut strange) = (Vec::new(), 0);
        let listed = self.files.list(folder, &mut |name| match folder.parse(name) {
            Some(name) => names.push(name),
            None => strange += 1,
        });
        match listed {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(failed(Step::List, folder, &e)),
            _ => self.seen.strange += strange,
        }
        names.sort_unstable();
        Ok(names)
    }

    fn folder(&mut self, folder: Folder, unpromised: &BTreeSet<MessageId>) -> Result<(), SpoolError> {
        let mut report = FolderReport::new(folder);
        for name in self.list(folder)? {
            match name {
                LocalName::New(..) => self.seen.unfinished += 1,
                LocalName::Message(id) if unpromised.contains(&id) => self.seen.unfinished += 1,
                name => self.file(name, &mut report),
            }
        }
        if report.files > 0 {
            self.seen.folders.push(report);
        }
        Ok(())
    }

    /// A message's file, or one that was set aside.
    fn file(&mut self, name: LocalName, report: &mut FolderReport) {
        let mut octets = 0;
        let found = self.files.open(name).and_then(|file| {
            octets = file.length()?;
            recovery::read(&*file, name.id(), None, self.queue_of, &mut self.queues)
        });
        let found = match found {
            // It left the spool meanwhile.
            Err(e) if e.kind() == ErrorKind::NotFound => return,
            Ok(Found::NotWhole(_) | Found::Message(_, 1..)) if is_gone(self.files, name) => return,
            found => found,
        };
        report.files += 1;
        report.octets += octets;
        let what = match found {
            Ok(Found::Message(message, torn_marks)) => match self.fault_of_content(name) {
                Ok(fault) => {
                    self.seen.torn_marks += torn_marks;
                    if matches!(name, LocalName::Message(_)) {
                        report.live_messages += 1;
                        report.live_octets += u64::from(message.size);
                        self.seen.messages.push(message);
                    }
                    fault
                }
                Err(()) => return,
            },
            Ok(Found::NotWhole(_) | Found::Ours) => Some(FileFaultKind::NotWhole),
            Ok(Found::Newer(version)) => Some(FileFaultKind::Newer(version)),
            Err(e) => Some(FileFaultKind::Unreadable(words(&e))),
        };
        if let Some(what) = what {
            self.fault(FileFault { name, octets, what }, report);
        }
    }

    /// What is wrong with head and body, if they are to be looked at; `Err` when the message left the spool meanwhile.
    fn fault_of_content(&self, name: LocalName) -> Result<Option<FileFaultKind>, ()> {
        if !self.contents {
            return Ok(None);
        }
        match load(self.files, name) {
            Ok(_) => Ok(None),
            Err(SpoolError::NoSuchMessage { .. }) => Err(()),
            Err(SpoolError::File { text, .. }) => Ok(Some(FileFaultKind::Unreadable(text))),
            Err(_) => Ok(Some(FileFaultKind::Content)),
        }
    }

    fn fault(&mut self, fault: FileFault, report: &mut FolderReport) {
        match fault.what {
            FileFaultKind::NotWhole => report.damaged_files += 1,
            FileFaultKind::Content => report.damaged_contents += 1,
            FileFaultKind::Newer(_) => report.newer_files += 1,
            FileFaultKind::Unreadable(_) => report.unreadable_files += 1,
        }
        if self.seen.faults.len() < FILE_FAULTS_MAX {
            self.seen.faults.push(fault);
        } else {
            self.seen.faults_not_listed += 1;
        }
    }
}

impl FilesInspection {
    /// True when nothing that counts is damaged. Files that were set aside are not part of the spool.
    pub fn is_sound(&self) -> bool {
        self.folders.iter().all(|report| report.folder == Folder::Corrupt || report.faults() == 0)
    }
}

impl FolderReport {
    fn new(folder: Folder) -> FolderReport {
        FolderReport {
            folder,
            files: 0,
            octets: 0,
            live_messages: 0,
            live_octets: 0,
            damaged_files: 0,
            damaged_contents: 0,
            newer_files: 0,
            unreadable_files: 0,
        }
    }

    /// Files in it with something wrong.
    pub fn faults(&self) -> u64 {
        self.damaged_files + self.damaged_contents + self.newer_files + self.unreadable_files
    }
}

impl FileFaultKind {
    /// Its name in reports.
    pub fn name(&self) -> &'static str {
        match self {
            FileFaultKind::NotWhole => "file",
            FileFaultKind::Content => "content",
            FileFaultKind::Newer(_) => "newer version",
            FileFaultKind::Unreadable(_) => "unreadable",
        }
    }
}

fn words(error: &io::Error) -> String {
    error.to_string()
}

/// Faults that are listed; more are counted.
pub const FILE_FAULTS_MAX: usize = 10_000;
