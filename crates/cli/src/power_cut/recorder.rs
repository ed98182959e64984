//! A disk that notes every call to the real one, with its content, in order.
//!
//! The tape is what crash states are built from. A call is noted when it has returned success; the
//! number of calls noted is the clock that acknowledgements are dated by.

use spool::{Disk, FileInfo, FileName, Page, ReadPages};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A call that changed something, or promised to have.
#[derive(Clone)]
pub(super) enum Call {
    Create(FileName),
    Write { file: FileName, at: u32, pages: Content },
    Sync(FileName),
    Rename { from: FileName, to: FileName },
    Remove(FileName),
}

/// What was written.
#[derive(Clone)]
pub(super) enum Content {
    /// So many pages of zeros: spares are filled with them.
    Zeros(usize),
    Pages(Arc<[Page]>),
}

/// The calls so far. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Tape {
    reel: Arc<Mutex<Reel>>,
}

/// What is on a tape.
#[derive(Default)]
pub(super) struct Reel {
    pub calls: Vec<Call>,
    /// How long each sync took.
    pub syncs: Vec<Duration>,
    /// Octets held in memory by the calls.
    pub octets: u64,
    /// The first refusal of the real disk.
    pub refused: Option<String>,
}

/// The disk.
pub(super) struct Recorder<D> {
    disk: D,
    tape: Tape,
}

impl Tape {
    /// Calls noted so far.
    pub fn position(&self) -> usize {
        self.reel().calls.len()
    }

    /// Octets noted so far.
    pub fn octets(&self) -> u64 {
        self.reel().octets
    }

    /// Takes everything off.
    pub fn take(&self) -> Reel {
        std::mem::take(&mut self.reel())
    }

    /// A panic elsewhere leaves the reel whole: every change is one push.
    fn reel(&self) -> MutexGuard<'_, Reel> {
        self.reel.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a call that was made.
    fn note<T>(&self, answer: io::Result<T>, call: impl FnOnce() -> Call) -> io::Result<T> {
        match &answer {
            Ok(_) => {
                let call = call();
                let octets = if let Call::Write { pages: Content::Pages(pages), .. } = &call { pages.len() } else { 0 };
                let mut reel = self.reel();
                reel.octets += (octets * spool::PAGE_OCTETS) as u64;
                reel.calls.push(call);
            }
            Err(error) => _ = self.reel().refused.get_or_insert_with(|| error.to_string()),
        }
        answer
    }
}

impl<D> Recorder<D> {
    pub fn new(disk: D, tape: Tape) -> Recorder<D> {
        Recorder { disk, tape }
    }
}

impl Content {
    fn of(pages: &[Page]) -> Content {
        let zero = |page: &Page| page.octets().iter().all(|octet| *octet == 0);
        if pages.iter().all(zero) { Content::Zeros(pages.len()) } else { Content::Pages(pages.into()) }
    }
}

impl<D: Disk> Disk for Recorder<D> {
    fn list(&mut self) -> io::Result<Vec<FileInfo>> {
        self.disk.list()
    }

    fn create(&mut self, file: FileName) -> io::Result<()> {
        let answer = self.disk.create(file);
        self.tape.note(answer, || Call::Create(file))
    }

    fn write_at(&mut self, file: FileName, at: u32, pages: &[Page]) -> io::Result<()> {
        let answer = self.disk.write_at(file, at, pages);
        self.tape.note(answer, || Call::Write { file, at, pages: Content::of(pages) })
    }

    fn sync(&mut self, file: FileName) -> io::Result<()> {
        let begun = Instant::now();
        let answer = self.disk.sync(file);
        let took = begun.elapsed();
        self.tape.reel().syncs.push(took);
        self.tape.note(answer, || Call::Sync(file))
    }

    fn rename(&mut self, from: FileName, to: FileName) -> io::Result<()> {
        let answer = self.disk.rename(from, to);
        self.tape.note(answer, || Call::Rename { from, to })
    }

    fn remove(&mut self, file: FileName) -> io::Result<()> {
        let answer = self.disk.remove(file);
        self.tape.note(answer, || Call::Remove(file))
    }

    fn reader(&self) -> Arc<dyn ReadPages> {
        self.disk.reader()
    }
}
