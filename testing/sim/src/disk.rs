//! The disk under a process that may be killed between any two calls.
//!
//! [`FaultDisk`] knows failing calls and power cuts. This wrapper adds the death of the process:
//! from the chosen call on nothing reaches the disk any more, and the caller, who is dead, sees
//! errors until the world notices.
//!
//! What a killed process wrote and did not sync is readable after it, and lost by a power cut
//! until the next successful sync of any file: a flush goes to the whole device, and segments
//! are written past the page cache. With `Options::strict` it is lost unless its own file is synced.

use crate::dice::Dice;
use spool::fault::FaultDisk;
use spool::{Disk, FileInfo, FileName, Page, ReadPages};
use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One process's view of the disk; clones share it.
#[derive(Clone, Debug)]
pub struct SimDisk {
    inner: FaultDisk,
    life: Arc<Mutex<Life>>,
}

#[derive(Debug)]
struct Life {
    /// Calls until death.
    calls_left: Option<u64>,
    dead: bool,
    dice: Dice,
    /// Files with writes of this process that no sync covered.
    dirty: BTreeSet<FileName>,
    /// The same of processes before it.
    inherited: BTreeSet<FileName>,
    strict: bool,
}

impl SimDisk {
    /// The view of a process that has just started; `inherited` are the files that a killed one left unsynced.
    pub fn new(inner: FaultDisk, seed: u64, inherited: BTreeSet<FileName>, strict: bool) -> SimDisk {
        let (dice, dirty) = (Dice::new(seed), BTreeSet::new());
        let life = Life { calls_left: None, dead: false, dice, dirty, inherited, strict };
        SimDisk { inner, life: Arc::new(Mutex::new(life)) }
    }

    /// Lets the process die at the `calls`-th call from now, 1 being the next.
    pub fn die_in(&self, calls: u64) {
        self.life().calls_left = Some(calls);
    }

    /// True once the process died in a call.
    pub fn is_dead(&self) -> bool {
        self.life().dead
    }

    /// Files with writes that no sync covered, whoever wrote them.
    pub fn unsynced(&self) -> BTreeSet<FileName> {
        let life = self.life();
        &life.dirty | &life.inherited
    }

    /// Counts a call; an error when the process is dead.
    fn call(&self) -> io::Result<()> {
        let mut life = self.life();
        if let Some(left) = &mut life.calls_left {
            *left = left.saturating_sub(1);
            life.dead |= *left == 0;
        }
        if life.dead { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) }
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk for SimDisk {
    fn list(&mut self) -> io::Result<Vec<FileInfo>> {
        self.call()?;
        self.inner.list()
    }

    fn create(&mut self, file: FileName) -> io::Result<()> {
        self.call()?;
        self.inner.create(file)
    }

    fn write_at(&mut self, file: FileName, at: u32, pages: &[Page]) -> io::Result<()> {
        let was_dead = self.is_dead();
        self.life().dirty.insert(file);
        if let Err(error) = self.call() {
            // Killed within the write: some of it is done.
            if !was_dead {
                let count = self.life().dice.below(pages.len() + 1);
                self.inner.write_at(file, at, &pages[..count])?;
            }
            return Err(error);
        }
        self.inner.write_at(file, at, pages)
    }

    fn sync(&mut self, file: FileName) -> io::Result<()> {
        self.call()?;
        self.inner.sync(file)?;
        let mut life = self.life();
        life.dirty.remove(&file);
        life.inherited.remove(&file);
        let covered = if life.strict { BTreeSet::new() } else { std::mem::take(&mut life.inherited) };
        drop(life);
        // A file that is gone needs no sync.
        covered.into_iter().for_each(|f| _ = self.inner.sync(f));
        Ok(())
    }

    fn rename(&mut self, from: FileName, to: FileName) -> io::Result<()> {
        self.call()?;
        let was_unsynced = self.unsynced().contains(&from);
        if was_unsynced {
            // Unknown whether the rename succeeds: both names are taken for unsynced.
            self.life().inherited.insert(to);
        }
        self.inner.rename(from, to)
    }

    fn remove(&mut self, file: FileName) -> io::Result<()> {
        self.call()?;
        self.inner.remove(file)
    }

    fn reader(&self) -> Arc<dyn ReadPages> {
        Arc::new(self.clone())
    }
}

impl ReadPages for SimDisk {
    fn read_at(&self, file: FileName, at: u32, into: &mut [Page]) -> io::Result<usize> {
        self.call()?;
        self.inner.read_at(file, at, into)
    }
}
