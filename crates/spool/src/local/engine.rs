//! The order of the steps: how a message becomes durable, changes, is read and goes (docs/local-disk.md sections 3 to 5).
//!
//! Plain calls without waiting; any number may run at once on different messages, and for one message the caller keeps the
//! order: write, commit, then marks. [`MessageFiles::receipt`] is the only place of this engine where responsibility for a
//! message is taken: behind [`MessageFiles::commit`] and [`MessageFiles::append_each`].

use super::files::{Files, read_range};
use super::header::{self, START_OCTETS, Start};
use super::marks;
use super::names::{Folder, LocalName, Run};
use super::spares::Spares;
use super::{inspect, intent, recovery};
use crate::{Durable, Mark, QueueOf, SpoolError, Step};
use message::{MessageId, Place, Resident, Sealed};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicU64, Ordering};

/// The messages of a spool, a file each.
pub struct MessageFiles<F> {
    pub(super) files: F,
    pub(super) run: Run,
    pub(super) queue_of: QueueOf,
    pub(super) spares: Spares,
    moved_aside: AtomicU64,
}

/// What is left of a transaction that was refused: to be taken away before mail is accepted again.
#[derive(Debug)]
pub struct Undo {
    ids: Vec<MessageId>,
    stage: Stage,
    /// A name may have been removed without ever becoming durable: a sync after that failed.
    unsure: bool,
}

/// How far a transaction had got, and what is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// No message has its name: temporary files go.
    Unnamed,
    /// All messages may stand without their intent: it must be back before the first of them goes.
    Restore,
    /// The intent, if there must be one, is durable: the messages go.
    Remove,
    /// No message is left: the intent goes.
    Finish,
}

impl Undo {
    /// Of one message that may have its name.
    pub(super) fn of_named(id: MessageId) -> Undo {
        Undo { ids: vec![id], stage: Stage::Remove, unsure: false }
    }
}

impl<F: Files> MessageFiles<F> {
    /// For one run of the program. `run` is random.
    pub fn new(files: F, run: Run, queue_of: QueueOf) -> MessageFiles<F> {
        MessageFiles { files, run, queue_of, spares: Spares::new(), moved_aside: AtomicU64::new(0) }
    }

    /// The file system.
    pub fn files(&self) -> &F {
        &self.files
    }

    /// What an earlier run had not finished: transactions that were not promised. To be called before the first append,
    /// and each [`Undo`] carried out before messages are recovered.
    ///
    /// # Errors
    /// When the files do not list, or one that does not read cannot be moved.
    pub fn unfinished(&self) -> Result<Vec<Undo>, SpoolError> {
        let mut found = Vec::new();
        let list = self.files.list(Folder::Intents, &mut |name| found.extend(Folder::Intents.parse(name)));
        list.map_err(|e| failed(Step::List, Folder::Intents, &e))?;
        let mut undos = Vec::new();
        for name in found {
            let LocalName::Intent(first) = name else { continue };
            let octets = self.files.open(name).and_then(|file| read_range(&*file, 0, intent::INTENT_OCTETS_MAX));
            match octets.ok().and_then(|octets| intent::decode(&octets)) {
                Some(ids) if ids[0] == first => undos.push(Undo { ids, stage: Stage::Remove, unsure: true }),
                // It was never synced, so nothing it stands for exists; or it is damaged. Nothing is thrown away unread.
                _ => self.move_aside(name, first)?,
            }
        }
        Ok(undos)
    }

    /// Writes a message under its temporary name, synced.
    ///
    /// # Errors
    /// Nothing of it is left, or a file that the next start removes.
    pub fn write(&self, sealed: &Sealed) -> Result<(), SpoolError> {
        let (under, name) = (self.put(sealed)?, LocalName::New(sealed.id, self.run));
        if under == name {
            return Ok(());
        }
        self.files.rename(under, name).map_err(|e| {
            // It has one of them.
            self.drop_unfinished(under);
            self.drop_unfinished(name);
            failed(Step::Rename, name, &e)
        })
    }

    /// Writes a message into a file that was kept, or else a new one, synced; under which temporary name. An id that was in
    /// the spool before must not come again: the file it had may be kept under that name.
    pub(super) fn put(&self, sealed: &Sealed) -> Result<LocalName, SpoolError> {
        let line = header::encode(sealed, self.run)?;
        let parts: [&[u8]; 3] = [&line, &sealed.head, &sealed.body];
        let name = LocalName::New(sealed.id, self.run);
        if let Some(spare) = self.write_into_spare(name.folder(), &parts) {
            return Ok(spare);
        }
        self.files.create(name, &parts).map_err(|e| {
            self.drop_unfinished(name);
            failed(Step::Write, name, &e)
        })?;
        Ok(name)
    }

    /// Makes the messages of one transaction durable, all or none; all of them are written. The receipts are in the
    /// order of `ids`.
    ///
    /// # Errors
    /// Nobody is acknowledged, and what is left must be undone.
    pub fn commit(&self, ids: &[MessageId]) -> Result<Vec<Durable>, (SpoolError, Undo)> {
        let undo = |stage| move |error| (error, Undo { ids: ids.to_vec(), stage, unsure: false });
        if let [first, _, ..] = ids {
            self.put_intent(*first, ids).map_err(undo(Stage::Unnamed))?;
        }
        self.rename(ids).map_err(undo(Stage::Remove))?;
        if let [first, _, ..] = ids {
            self.remove_intent(*first).map_err(undo(Stage::Restore))?;
        }
        Ok(ids.iter().map(|id| self.receipt(*id)).collect())
    }

    /// For a message whose content and name are durable.
    pub(super) fn receipt(&self, id: MessageId) -> Durable {
        Durable::synced(id, Place::OWN_FILE)
    }

    /// For a transaction of which not all messages could be written.
    pub fn give_up(&self, ids: Vec<MessageId>) -> Undo {
        Undo { ids, stage: Stage::Unnamed, unsure: false }
    }

    /// Takes away what is left of a refused transaction. May be called again after an error.
    ///
    /// # Errors
    /// Something is left; a cut now leaves all of it or nothing.
    pub fn undo(&self, undo: &mut Undo) -> Result<(), SpoolError> {
        let Some(first) = undo.ids.first().copied() else { return Ok(()) };
        let many = undo.ids.len() > 1;
        if undo.stage == Stage::Restore {
            self.remove_intent(first)?;
            self.put_intent(first, &undo.ids)?;
            undo.stage = Stage::Remove;
        }
        if undo.stage != Stage::Finish {
            for id in &undo.ids {
                self.remove_if_there(LocalName::New(*id, self.run))?;
            }
        }
        if undo.stage == Stage::Remove {
            self.remove_names(undo, many)?;
        }
        undo.stage = Stage::Finish;
        if many { self.remove_intent(first) } else { Ok(()) }
    }

    /// Takes the names of an undone transaction away; durably when they are many.
    fn remove_names(&self, undo: &mut Undo, many: bool) -> Result<(), SpoolError> {
        let before = self.failures(&undo.ids);
        for id in &undo.ids {
            let name = LocalName::Message(*id);
            if !self.remove_if_there(name)? && undo.unsure {
                // A name that is given and removed anew becomes durable as removed. The intent stands over it meanwhile.
                self.files.create(name, &[]).map_err(|e| failed(Step::Create, name, &e))?;
                self.remove_if_there(name)?;
            }
        }
        if !many {
            return Ok(());
        }
        undo.unsure = true;
        self.sync_changed(&before)
    }

    /// Finds out whether a message can be written now: writes one of `octets` octets under a temporary name of its own, and
    /// takes it away. One that a cut leaves is removed by the next start. One call at a time.
    ///
    /// # Errors
    /// The disk's answer.
    pub fn probe(&self, octets: usize) -> Result<(), SpoolError> {
        // What is kept takes room.
        self.keep_files(false);
        let probed = self.write_and_remove(octets);
        self.keep_files(probed.is_ok());
        probed
    }

    fn write_and_remove(&self, octets: usize) -> Result<(), SpoolError> {
        let name = LocalName::New(PROBE, self.run);
        // Of an earlier probe that could not be removed.
        self.remove_if_there(name)?;
        let written = self.files.create(name, &[&vec![0; octets]]).map_err(|e| failed(Step::Write, name, &e));
        self.remove_if_there(name)?;
        written.and_then(|()| self.sync_names(name.folder()))
    }

    /// Removes a message that is settled; false when it was gone already. Durable after [`MessageFiles::sync_names`].
    ///
    /// # Errors
    /// It may be there still.
    pub fn remove(&self, id: MessageId) -> Result<bool, SpoolError> {
        self.remove_if_there(LocalName::Message(id))
    }

    /// Returns once the names in `folder` are durable as they were at the call.
    ///
    /// # Errors
    /// They may not be.
    pub fn sync_names(&self, folder: Folder) -> Result<(), SpoolError> {
        let before = self.spares_before(folder);
        self.files.sync_names(folder).map_err(|e| failed(Step::Sync, folder, &e))?;
        self.spares_are_synced(folder, before);
        Ok(())
    }

    /// Writes marks of message `id` behind its content, durably. Those of a message that is gone mean nothing.
    ///
    /// # Errors
    /// They may not be there: to be written again.
    pub fn note(&self, id: MessageId, marks: &[Mark]) -> Result<(), SpoolError> {
        let name = LocalName::Message(id);
        let start = match self.files.open(name).and_then(|file| read_range(&*file, 0, START_OCTETS)) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            start => start.map_err(|e| failed(Step::Read, name, &e))?,
        };
        // Without its first line nobody will ever read the marks.
        let Start::Known { run, .. } = Start::parse(&start) else { return Ok(()) };
        let mut lines = Vec::new();
        marks::encode(marks, id, run, &mut lines);
        match self.files.append(name, &lines) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            done => done.map_err(|e| {
                self.doubt(id);
                failed(Step::Write, name, &e)
            }),
        }
    }

    /// All of a message: envelope, metadata, head and body, checked.
    ///
    /// # Errors
    /// `NoSuchMessage` when it is gone, `Damaged` when it does not read back as written, `File` when the disk refuses.
    pub fn load(&self, id: MessageId) -> Result<Resident, SpoolError> {
        inspect::load(&self.files, LocalName::Message(id))
    }

    /// Files moved to `corrupt/` in this run: each once, whoever found that they do not read.
    pub fn moved_aside(&self) -> u64 {
        self.moved_aside.load(Ordering::Relaxed)
    }

    /// Moves a message that does not read to `corrupt/`, durably; one that is gone is none to care about.
    ///
    /// # Errors
    /// It may be where it was.
    pub fn set_aside(&self, id: MessageId) -> Result<(), SpoolError> {
        self.move_aside(LocalName::Message(id), id)
    }

    /// Makes durable what earlier runs left unsynced. To be called before messages are recovered: a killed process may have
    /// left names and marks that no sync covers, and what is believed must stay.
    ///
    /// # Errors
    /// A cut may still take back some of it.
    pub fn sync_all(&self) -> Result<(), SpoolError> {
        self.files.sync_all().map_err(|e| failed(Step::Sync, "the file system", &e))
    }

    /// Reads all messages of earlier runs in one directory (docs/local-disk.md section 6) and hands each to `give`.
    /// May run beside appends and marks.
    ///
    /// # Errors
    /// When the directory does not list.
    pub fn recover(
        &self,
        folder: Folder,
        give: &mut dyn FnMut(crate::RecoveredMessage),
    ) -> Result<super::LocalReport, SpoolError> {
        recovery::recover(self, folder, give)
    }

    /// Gives all messages their names and makes those durable.
    fn rename(&self, ids: &[MessageId]) -> Result<(), SpoolError> {
        let before = self.failures(ids);
        ids.iter().try_for_each(|id| self.name_message(LocalName::New(*id, self.run), *id))?;
        self.sync_changed(&before)
    }

    fn put_intent(&self, first: MessageId, ids: &[MessageId]) -> Result<(), SpoolError> {
        let name = LocalName::Intent(first);
        let before = self.files.failed_syncs(Folder::Intents);
        self.files.create(name, &[&intent::encode(ids)]).map_err(|e| failed(Step::Write, name, &e))?;
        self.sync_changed(&[(Folder::Intents, before)])
    }

    fn remove_intent(&self, first: MessageId) -> Result<(), SpoolError> {
        let before = self.files.failed_syncs(Folder::Intents);
        self.remove_if_there(LocalName::Intent(first))?;
        self.sync_changed(&[(Folder::Intents, before)])
    }

    /// The directories of these messages, each once, and how many of its syncs have failed.
    pub(super) fn failures(&self, ids: &[MessageId]) -> Vec<(Folder, u64)> {
        let folders: BTreeSet<Folder> = ids.iter().map(|id| Folder::of(*id)).collect();
        folders.into_iter().map(|folder| (folder, self.files.failed_syncs(folder))).collect()
    }

    /// Makes changes of names durable. A sync that failed since `before` was taken counts for all of them, although a later
    /// one succeeds: the kernel may have dropped what it could not write.
    pub(super) fn sync_changed(&self, before: &[(Folder, u64)]) -> Result<(), SpoolError> {
        for (folder, before) in before {
            self.sync_names(*folder)?;
            if self.files.failed_syncs(*folder) != *before {
                let lost = io::Error::other("a sync failed after a name in it was changed");
                return Err(failed(Step::Sync, folder, &lost));
            }
        }
        Ok(())
    }

    /// Whether it was there.
    pub(super) fn remove_if_there(&self, name: LocalName) -> Result<bool, SpoolError> {
        match self.files.remove(name) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            Err(e) => Err(failed(Step::Remove, name, &e)),
        }
    }

    pub(super) fn move_aside(&self, name: LocalName, id: MessageId) -> Result<(), SpoolError> {
        let to = LocalName::Aside(id, self.run);
        match self.files.rename(name, to) {
            // Gone, or moved by a call that could not sync it.
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(failed(Step::Rename, to, &e)),
            Ok(()) => _ = self.moved_aside.fetch_add(1, Ordering::Relaxed),
        }
        self.sync_names(Folder::Corrupt)?;
        self.sync_names(name.folder())
    }
}

/// No message has this id.
const PROBE: MessageId = MessageId::from_bytes([0; 16]);

/// The disk's answer, with what was being done.
pub(super) fn failed(step: Step, what: impl core::fmt::Display, error: &io::Error) -> SpoolError {
    SpoolError::File {
        step,
        path: what.to_string(),
        kind: error.kind(),
        errno: error.raw_os_error(),
        text: error.to_string(),
    }
}
