//! The disk under a process that may be killed between any two calls.
//!
//! [`FaultDisk`] knows failing calls and power cuts. This wrapper adds the death of the process:
//! from the chosen call on nothing reaches the disk any more, and the caller, who is dead, sees
//! errors until the world notices.

use crate::dice::Dice;
use spool::fault::FaultDisk;
use spool::{Disk, FileInfo, FileName, Page, ReadPages};
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
}

impl SimDisk {
    /// The view of a process that has just started.
    pub fn new(inner: FaultDisk, seed: u64) -> SimDisk {
        let life = Life { calls_left: None, dead: false, dice: Dice::new(seed) };
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
        self.inner.sync(file)
    }

    fn rename(&mut self, from: FileName, to: FileName) -> io::Result<()> {
        self.call()?;
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
