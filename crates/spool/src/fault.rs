//! A disk in memory that fails, loses and tears as real ones do, repeatable by seed.
//!
//! Plain code for tests and simulation. It remembers what was synced apart from what was only
//! written; [`FaultDisk::crash`] makes of the latter what a power cut could. A failed sync gives
//! its writes up for good, as Linux does: a later success says nothing about them.

use crate::disk::{Disk, FileInfo, FileName, ReadPages};
use crate::page::{PAGE_OCTETS, Page, octets, octets_mut};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The disk; clones share it.
#[derive(Clone, Debug, Default)]
pub struct FaultDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<FileName, Image>,
    calls: u64,
    fail: Option<Fail>,
    lying: bool,
    random: u64,
}

#[derive(Clone, Copy, Debug)]
struct Fail {
    /// Number of the call that fails.
    at: u64,
    /// All later ones too.
    sticky: bool,
}

#[derive(Clone, Debug, Default)]
struct Image {
    /// What a cut leaves for certain.
    synced: Vec<u8>,
    /// What reads see.
    now: Vec<u8>,
    /// Written since the last sync.
    unsynced: Vec<Write>,
    /// Written before a failed sync: on the disk or not, for ever.
    given_up: Vec<Write>,
}

#[derive(Clone, Debug)]
struct Write {
    at: usize,
    octets: Vec<u8>,
}

impl FaultDisk {
    /// An empty, faultless disk.
    pub fn new() -> FaultDisk {
        FaultDisk::default()
    }

    /// Lets the `k`-th call from now fail (1 is the next), and all later ones when `sticky`. What the
    /// failing call did before it failed is chosen by `seed`.
    pub fn fail(&self, k: u64, sticky: bool, seed: u64) {
        let mut state = self.state();
        state.random = seed;
        state.fail = Some(Fail { at: state.calls + k, sticky });
    }

    /// No more faults.
    pub fn heal(&self) {
        let mut state = self.state();
        (state.fail, state.lying) = (None, false);
    }

    /// Lets syncs return success without doing anything: a control run must then lose mail.
    pub fn lie(&self) {
        self.state().lying = true;
    }

    /// Calls made so far.
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// A power cut: every write that no sync covered is, by `seed`, dropped, kept, kept in part or
    /// turned into zeros, in any order. Faults end.
    pub fn crash(&self, seed: u64) {
        let mut state = self.state();
        (state.fail, state.lying, state.random) = (None, false, seed);
        let mut files = std::mem::take(&mut state.files);
        for image in files.values_mut() {
            let mut writes = std::mem::take(&mut image.given_up);
            writes.append(&mut image.unsynced);
            for i in (1..writes.len()).rev() {
                writes.swap(i, state.below(i as u64 + 1) as usize);
            }
            let mut octets = std::mem::take(&mut image.synced);
            for write in &writes {
                state.tear(write, &mut octets);
            }
            image.synced.clone_from(&octets);
            image.now = octets;
        }
        state.files = files;
    }

    /// A file's octets as reads see them.
    pub fn contents(&self, file: FileName) -> Option<Vec<u8>> {
        self.state().files.get(&file).map(|image| image.now.clone())
    }

    /// Replaces a file's octets, durably.
    pub fn set_contents(&self, file: FileName, octets: Vec<u8>) {
        let image = Image { synced: octets.clone(), now: octets, ..Image::default() };
        self.state().files.insert(file, image);
    }

    /// A disk of its own with the same files and no faults.
    pub fn copy(&self) -> FaultDisk {
        let files = self.state().files.clone();
        FaultDisk { state: Arc::new(Mutex::new(State { files, ..State::default() })) }
    }

    /// A panic in a test leaves the files as they are; others may still look at them.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Counts a call; true when it is to fail.
    fn fails(&mut self) -> bool {
        self.calls += 1;
        let calls = self.calls;
        self.fail.is_some_and(|fail| calls == fail.at || (fail.sticky && calls > fail.at))
    }

    /// The next random number below `bound` (splitmix64).
    fn below(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    /// What a cut makes of one write.
    fn tear(&mut self, write: &Write, octets: &mut Vec<u8>) {
        let sectors = write.octets.len().div_ceil(SECTOR_OCTETS);
        match self.below(5) {
            0 => {}
            1 => write.apply(octets),
            2 => write.first(self.below(sectors as u64 + 1) as usize * SECTOR_OCTETS).apply(octets),
            3 => Write { at: write.at, octets: vec![0; write.octets.len()] }.apply(octets),
            _ => {
                for sector in 0..sectors {
                    let range = sector * SECTOR_OCTETS..((sector + 1) * SECTOR_OCTETS).min(write.octets.len());
                    if self.below(2) == 0 {
                        Write { at: write.at + range.start, octets: write.octets[range].to_vec() }.apply(octets);
                    }
                }
            }
        }
    }

    fn image(&mut self, file: FileName) -> io::Result<&mut Image> {
        self.files.get_mut(&file).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Write {
    fn apply(&self, octets: &mut Vec<u8>) {
        if self.octets.is_empty() {
            return;
        }
        let end = self.at + self.octets.len();
        if octets.len() < end {
            octets.resize(end, 0);
        }
        octets[self.at..end].copy_from_slice(&self.octets);
    }

    fn first(&self, count: usize) -> Write {
        Write { at: self.at, octets: self.octets[..count.min(self.octets.len())].to_vec() }
    }
}

impl Disk for FaultDisk {
    fn list(&mut self) -> io::Result<Vec<FileInfo>> {
        let mut state = self.state();
        if state.fails() {
            return Err(broken());
        }
        let info = |(name, image): (&FileName, &Image)| FileInfo { name: *name, octets: image.now.len() as u64 };
        Ok(state.files.iter().map(info).collect())
    }

    fn create(&mut self, file: FileName) -> io::Result<()> {
        let mut state = self.state();
        let fails = state.fails();
        if !fails || state.below(2) == 0 {
            state.files.insert(file, Image::default());
        }
        if fails { Err(broken()) } else { Ok(()) }
    }

    fn write_at(&mut self, file: FileName, at: u32, pages: &[Page]) -> io::Result<()> {
        let mut state = self.state();
        let fails = state.fails();
        let mut write = Write { at: at as usize * PAGE_OCTETS, octets: octets(pages).to_vec() };
        if fails {
            let sectors = write.octets.len() / SECTOR_OCTETS;
            write = write.first(state.below(sectors as u64 + 1) as usize * SECTOR_OCTETS);
        }
        let image = state.image(file)?;
        if !write.octets.is_empty() {
            write.apply(&mut image.now);
            image.unsynced.push(write);
        }
        if fails { Err(broken()) } else { Ok(()) }
    }

    fn sync(&mut self, file: FileName) -> io::Result<()> {
        let mut state = self.state();
        let (fails, lying) = (state.fails(), state.lying);
        let image = state.image(file)?;
        if fails {
            image.given_up.append(&mut image.unsynced);
            return Err(broken());
        }
        if !lying {
            let mut synced = std::mem::take(&mut image.synced);
            image.unsynced.drain(..).for_each(|write| write.apply(&mut synced));
            image.synced = synced;
        }
        Ok(())
    }

    fn rename(&mut self, from: FileName, to: FileName) -> io::Result<()> {
        let mut state = self.state();
        let fails = state.fails();
        state.image(from)?;
        if (!fails || state.below(2) == 0)
            && let Some(image) = state.files.remove(&from)
        {
            state.files.insert(to, image);
        }
        if fails { Err(broken()) } else { Ok(()) }
    }

    fn remove(&mut self, file: FileName) -> io::Result<()> {
        let mut state = self.state();
        let fails = state.fails();
        state.image(file)?;
        if !fails || state.below(2) == 0 {
            state.files.remove(&file);
        }
        if fails { Err(broken()) } else { Ok(()) }
    }

    fn reader(&self) -> Arc<dyn ReadPages> {
        Arc::new(self.clone())
    }
}

impl ReadPages for FaultDisk {
    fn read_at(&self, file: FileName, at: u32, into: &mut [Page]) -> io::Result<usize> {
        let mut state = self.state();
        if state.fails() {
            return Err(broken());
        }
        let image = state.image(file)?;
        let from = (at as usize * PAGE_OCTETS).min(image.now.len());
        let into = octets_mut(into);
        let length = into.len().min(image.now.len() - from);
        into[..length].copy_from_slice(&image.now[from..from + length]);
        Ok(length)
    }
}

/// EIO.
fn broken() -> io::Error {
    io::Error::from_raw_os_error(5)
}

/// What a disk writes whole or not at all.
const SECTOR_OCTETS: usize = 512;
