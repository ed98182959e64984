//! Files of settled messages, kept for the next ones: to write into a file that is there costs a file system less than to
//! make one and to free one (docs/local-disk.md section 5).
//!
//! A settled message's file takes its temporary name, so that it counts as one that was never promised. It is written into
//! only after that name is durable: else a cut could bring the settled message back with another one's content. Bounded in
//! number and length. Who has such a file open meanwhile may read of both messages: whatever reads a message that does not
//! check asks whether its name still stands.

use super::engine::MessageFiles;
use super::files::Files;
use super::names::{FOLDERS_OF_MESSAGES, Folder, LocalName};
use crate::SpoolError;
use message::MessageId;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The spare files of a spool.
#[derive(Debug)]
pub(super) struct Spares {
    folders: Vec<Mutex<Pool>>,
    /// In all of them; for a moment a few more or fewer.
    count: AtomicUsize,
    /// No file is kept: the disk may be full.
    off: AtomicBool,
}

/// Those of one directory; named after the messages they held.
#[derive(Debug, Default)]
struct Pool {
    /// Under a temporary name that may not be durable yet.
    fresh: Vec<Fresh>,
    /// To be written into, and whether it waited already when it was looked for old ones the last time.
    ready: Vec<(MessageId, bool)>,
    /// Files that were fresh so far.
    count: u64,
    /// Messages whose marks could not be written or synced once: their files are never written anew, since the kernel may
    /// have dropped what it could not write, and no later sync says so.
    doubtful: BTreeSet<MessageId>,
}

#[derive(Debug)]
struct Fresh {
    id: MessageId,
    number: u64,
    /// How many syncs of the directory had failed before it was renamed.
    failures: u64,
}

impl<F: Files> MessageFiles<F> {
    /// Removes a message that is settled, and may keep its file for another one; false when it was gone already. Durable
    /// after [`MessageFiles::sync_names`].
    ///
    /// # Errors
    /// It may be there still.
    pub fn retire(&self, id: MessageId) -> Result<bool, SpoolError> {
        let (name, spare) = (LocalName::Message(id), LocalName::New(id, self.run));
        let failures = self.files.failed_syncs(name.folder());
        let wanted = self.spares.have_room() && !self.spares.pool(name.folder()).doubtful.contains(&id);
        if !wanted || !matches!(self.files.is_reusable(name, OCTETS_MAX), Ok(true)) {
            return self.remove(id).inspect(|_| _ = self.spares.pool(name.folder()).doubtful.remove(&id));
        }
        match self.files.rename(name, spare) {
            Ok(()) => {
                self.spares.pool(name.folder()).keep(id, failures);
                self.spares.count.fetch_add(1, Ordering::Relaxed);
                Ok(true)
            }
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            // It may have either name.
            Err(_) => Ok(self.remove(id)? | self.remove_if_there(spare)?),
        }
    }

    /// A write to this message's file failed.
    pub(super) fn doubt(&self, id: MessageId) {
        self.spares.pool(Folder::of(id)).doubtful.insert(id);
    }

    /// Writes a message into a spare file of the directory, synced; under which name, or `None` when no file is of use.
    pub(super) fn write_into_spare(&self, folder: Folder, parts: &[&[u8]]) -> Option<LocalName> {
        let spare = LocalName::New(self.spares.take(folder)?, self.run);
        // What is wrong with it is no reason to refuse the message: a new file tells.
        self.files.reuse(spare, parts).inspect_err(|_| self.drop_unfinished(spare)).ok()?;
        Some(spare)
    }

    /// For a file under a temporary name that is of no use. One that stays harms nobody: the next start removes it.
    pub(super) fn drop_unfinished(&self, name: LocalName) {
        let _ = self.files.remove(name);
    }

    /// Removes the spare files of a directory that were there at the last call already; false when none is left.
    pub fn remove_old_spares(&self, folder: Folder) -> bool {
        let (old, left) = self.spares.pool(folder).take_old();
        self.remove_spares(&old);
        left
    }

    /// Removes all spare files; for the end.
    pub fn remove_all_spares(&self) {
        for folder in Folder::of_messages() {
            let all = self.spares.pool(folder).take_all();
            self.remove_spares(&all);
        }
    }

    /// Whether files are kept from now on; if not, those that are go.
    pub(super) fn keep_files(&self, keep: bool) {
        self.spares.off.store(!keep, Ordering::Relaxed);
        if !keep {
            self.remove_all_spares();
        }
    }

    /// What a sync covers that begins now.
    pub(super) fn spares_before(&self, folder: Folder) -> u64 {
        if matches!(folder, Folder::Messages(_)) { self.spares.pool(folder).count } else { 0 }
    }

    /// A sync ended well that began at `before`.
    pub(super) fn spares_are_synced(&self, folder: Folder, before: u64) {
        if before == 0 {
            return;
        }
        let failures = self.files.failed_syncs(folder);
        let doubtful = self.spares.pool(folder).synced(before, failures);
        self.remove_spares(&doubtful);
    }

    fn remove_spares(&self, ids: &[MessageId]) {
        self.spares.count.fetch_sub(ids.len(), Ordering::Relaxed);
        ids.iter().for_each(|id| self.drop_unfinished(LocalName::New(*id, self.run)));
    }
}

impl Spares {
    /// None.
    pub(super) fn new() -> Spares {
        Spares {
            folders: (0..FOLDERS_OF_MESSAGES).map(|_| Mutex::default()).collect(),
            count: AtomicUsize::new(0),
            off: AtomicBool::new(false),
        }
    }

    fn have_room(&self) -> bool {
        self.count.load(Ordering::Relaxed) < SPARES_MAX && !self.off.load(Ordering::Relaxed)
    }

    /// The youngest that is ready in a directory: its pages are the likeliest to be in memory.
    fn take(&self, folder: Folder) -> Option<MessageId> {
        let (spare, _) = self.pool(folder).ready.pop()?;
        self.count.fetch_sub(1, Ordering::Relaxed);
        Some(spare)
    }

    /// Each change under the lock leaves a pool whole, so a panic elsewhere does not spoil it.
    fn pool(&self, folder: Folder) -> MutexGuard<'_, Pool> {
        let Folder::Messages(number) = folder else { unreachable!("only messages have files that are kept") };
        self.folders[usize::from(number)].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    fn keep(&mut self, id: MessageId, failures: u64) {
        self.fresh.push(Fresh { id, number: self.count, failures });
        self.count += 1;
    }

    /// Those kept before `before` have their names durably, unless a sync failed since: these are given back.
    fn synced(&mut self, before: u64, failures: u64) -> Vec<MessageId> {
        let (covered, fresh) = std::mem::take(&mut self.fresh).into_iter().partition(|fresh| fresh.number < before);
        self.fresh = fresh;
        let covered: Vec<Fresh> = covered;
        let (good, doubtful): (Vec<_>, Vec<_>) = covered.into_iter().partition(|fresh| fresh.failures == failures);
        self.ready.extend(good.into_iter().map(|fresh| (fresh.id, false)));
        doubtful.into_iter().map(|fresh| fresh.id).collect()
    }

    fn take_all(&mut self) -> Vec<MessageId> {
        let fresh = self.fresh.drain(..).map(|fresh| fresh.id);
        self.ready.drain(..).map(|spare| spare.0).chain(fresh).collect()
    }

    /// Those that waited at the last call already, and whether others are left.
    fn take_old(&mut self) -> (Vec<MessageId>, bool) {
        let (old, young): (Vec<_>, Vec<_>) = std::mem::take(&mut self.ready).into_iter().partition(|spare| spare.1);
        self.ready = young.into_iter().map(|spare| (spare.0, true)).collect();
        (old.into_iter().map(|spare| spare.0).collect(), !(self.ready.is_empty() && self.fresh.is_empty()))
    }
}

/// Spare files of all directories.
const SPARES_MAX: usize = 2_048;
/// Longest file that is kept.
const OCTETS_MAX: u64 = 128 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u8) -> MessageId {
        MessageId::from_bytes([n; 16])
    }

    fn ready(pool: &Pool) -> Vec<MessageId> {
        pool.ready.iter().map(|spare| spare.0).collect()
    }

    #[test]
    fn a_sync_covers_what_was_kept_before_it_began_and_no_more() {
        let mut pool = Pool::default();
        pool.keep(id(1), 0);
        let before = pool.count;
        pool.keep(id(2), 0);
        assert_eq!(pool.synced(before, 0), []);
        assert_eq!(ready(&pool), [id(1)]);
        // Another sync that began earlier ends later.
        assert_eq!(pool.synced(before, 0), []);
        assert_eq!(ready(&pool), [id(1)]);
        pool.keep(id(3), 1);
        assert_eq!(pool.synced(pool.count, 1), [id(2)], "a sync failed since it was renamed");
        assert_eq!(ready(&pool), [id(1), id(3)]);
    }
}
