//! Files in memory that fail, lose and tear as real ones do, repeatable by seed.
//!
//! Plain code for tests and simulation. Contents and names are kept apart, as a file system may: a synced file whose name
//! was not is gone after a cut. [`FaultFiles::crash`] drops, keeps or tears what no sync covered. A failed sync gives up
//! what it should have covered for good, as Linux does: a later success says nothing about it.

use super::files::{Files, ReadFile, ReadFiles};
use super::names::{Folder, LocalName};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The files; clones share them.
#[derive(Clone, Debug, Default)]
pub struct FaultFiles {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Content by number; a name points at one.
    files: BTreeMap<u64, Image>,
    next_file: u64,
    /// Names as calls see them.
    names: BTreeMap<LocalName, u64>,
    /// Names that a cut leaves for certain, before the changes below.
    durable: BTreeMap<LocalName, u64>,
    /// Changes since, in their order.
    changes: Vec<Change>,
    /// Names that are none of ours.
    strange: BTreeMap<Folder, BTreeSet<String>>,
    failed_syncs: BTreeMap<Folder, u64>,
    broken: BTreeSet<LocalName>,
    calls: u64,
    /// Files that got another content.
    reuses: u64,
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
    errno: i32,
}

#[derive(Clone, Debug)]
struct Change {
    what: What,
    fate: Fate,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Link(LocalName, u64),
    /// With the file it moves: a new name that is durable leads to it, whatever became of the old one.
    Rename(LocalName, LocalName, u64),
    Unlink(LocalName),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// No sync covered it yet.
    Open,
    /// A sync covered it.
    Durable,
    /// A sync that should have covered it failed: on the disk or not, for ever.
    GivenUp,
}

#[derive(Clone, Debug, Default)]
struct Image {
    /// What a cut leaves for certain.
    synced: Vec<u8>,
    /// What reads see.
    now: Vec<u8>,
    /// Written since the last sync.
    unsynced: Vec<Write>,
    /// Written before a failed sync.
    given_up: Vec<Write>,
}

#[derive(Clone, Debug)]
enum Write {
    /// Where, what.
    Put(usize, Vec<u8>),
    /// Shortened to so many octets.
    Cut(usize),
}

impl FaultFiles {
    /// Empty directories, no faults.
    pub fn new() -> FaultFiles {
        FaultFiles::default()
    }

    /// Lets the `k`-th call from now fail with `errno` (1 is the next), and all later ones when `sticky`. What the failing
    /// call did before it failed is chosen by `seed`.
    pub fn fail(&self, k: u64, sticky: bool, errno: i32, seed: u64) {
        let mut state = self.state();
        state.random = seed;
        state.fail = Some(Fail { at: state.calls + k, sticky, errno });
    }

    /// No more faults.
    pub fn heal(&self) {
        let mut state = self.state();
        (state.fail, state.lying) = (None, false);
        state.broken.clear();
    }

    /// Lets syncs return success without doing anything: a control run must then lose mail.
    pub fn lie(&self) {
        self.state().lying = true;
    }

    /// Lets every read of this file fail with EIO.
    pub fn break_file(&self, name: LocalName) {
        self.state().broken.insert(name);
    }

    /// Calls made so far that can fail.
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// Files that got another content so far, whole and synced.
    pub fn reuses(&self) -> u64 {
        self.state().reuses
    }

    /// A power cut: what no sync covered is, by `seed`, dropped, kept or torn. Faults end.
    pub fn crash(&self, seed: u64) {
        let mut state = self.state();
        (state.fail, state.lying, state.random) = (None, false, seed);
        state.broken.clear();
        state.failed_syncs.clear();
        let mut names = std::mem::take(&mut state.durable);
        // Some file systems keep the order of names, some do not.
        let (ordered, mut cut) = (state.below(2) == 0, false);
        for change in std::mem::take(&mut state.changes) {
            let kept = match change.fate {
                Fate::Durable => true,
                Fate::GivenUp => state.below(2) == 0,
                Fate::Open if ordered => {
                    cut = cut || state.below(8) == 0;
                    !cut
                }
                Fate::Open => state.below(2) == 0,
            };
            if kept {
                change.what.apply(&mut names);
            }
        }
        let mut files = std::mem::take(&mut state.files);
        files.retain(|number, _| names.values().any(|used| used == number));
        files.values_mut().for_each(|image| state.tear(image));
        (state.durable, state.names, state.files) = (names.clone(), names, files);
    }

    /// The process dies, the kernel lives: nothing is lost, and nothing more is synced. Faults end.
    pub fn kill(&self) {
        let mut state = self.state();
        (state.fail, state.lying) = (None, false);
        state.failed_syncs.clear();
    }

    /// Every name, as reads see them.
    pub fn names(&self) -> Vec<LocalName> {
        self.state().names.keys().copied().collect()
    }

    /// A file's octets as reads see them.
    pub fn contents(&self, name: LocalName) -> Option<Vec<u8>> {
        let state = self.state();
        let image = state.files.get(state.names.get(&name)?)?;
        Some(image.now.clone())
    }

    /// Makes or replaces a file, durably.
    pub fn set_contents(&self, name: LocalName, octets: Vec<u8>) {
        let mut state = self.state();
        let number = state.new_file();
        let image = Image { synced: octets.clone(), now: octets, ..Image::default() };
        state.files.insert(number, image);
        state.change(What::Link(name, number), Fate::Durable);
    }

    /// Adds a name that is none of ours.
    pub fn add_strange(&self, folder: Folder, name: &str) {
        self.state().strange.entry(folder).or_default().insert(name.to_owned());
    }

    /// A panic in a test leaves the files as they are; others may still look at them.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Counts a call; the error it is to fail with.
    fn fails(&mut self) -> Option<io::Error> {
        self.calls += 1;
        let calls = self.calls;
        let fail = self.fail.filter(|fail| calls == fail.at || (fail.sticky && calls > fail.at))?;
        Some(io::Error::from_raw_os_error(fail.errno))
    }

    /// The next random number below `bound` (splitmix64).
    fn below(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    fn new_file(&mut self) -> u64 {
        self.next_file += 1;
        self.next_file
    }

    fn change(&mut self, what: What, fate: Fate) {
        what.apply(&mut self.names);
        self.changes.push(Change { what, fate });
    }

    fn image(&mut self, name: LocalName) -> io::Result<&mut Image> {
        let number = self.names.get(&name).copied();
        number.and_then(|number| self.files.get_mut(&number)).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Writes at the end, or in place of what is there, and syncs; or, when it is to fail, some of that.
    fn write(&mut self, name: LocalName, octets: Vec<u8>, replace: bool, fails: bool) -> io::Result<()> {
        let part = self.below(octets.len() as u64 + 1) as usize;
        let (written, synced) = match (fails, self.below(3)) {
            (false, _) => (octets.len(), !self.lying),
            (true, 0) => (0, false),
            (true, 1) => (part, false),
            (true, _) => (octets.len(), false),
        };
        let image = self.image(name)?;
        let at = if replace { 0 } else { image.now.len() };
        image.write(Write::Put(at, octets[..written].to_vec()));
        if replace && !fails {
            image.write(Write::Cut(octets.len()));
        }
        if synced {
            image.sync();
        } else if fails {
            let mut writes = std::mem::take(&mut image.unsynced);
            image.given_up.append(&mut writes);
        }
        Ok(())
    }

    /// What a cut makes of a file.
    fn tear(&mut self, image: &mut Image) {
        let mut writes = std::mem::take(&mut image.given_up);
        writes.append(&mut image.unsynced);
        for i in (1..writes.len()).rev() {
            writes.swap(i, self.below(i as u64 + 1) as usize);
        }
        let mut octets = std::mem::take(&mut image.synced);
        for write in &writes {
            let (Write::Put(at, write), fate) = (write, self.below(5)) else {
                if self.below(2) == 0 {
                    write.apply(&mut octets);
                }
                continue;
            };
            match fate {
                0 => {}
                1 => put(&mut octets, *at, write),
                2 => {
                    let length = self.below(write.len() as u64 + 1) as usize;
                    put(&mut octets, *at, &write[..length]);
                }
                3 => put(&mut octets, *at, &vec![0; write.len()]),
                _ => {
                    for (i, sector) in write.chunks(SECTOR_OCTETS).enumerate() {
                        if self.below(2) == 0 {
                            put(&mut octets, at + i * SECTOR_OCTETS, sector);
                        }
                    }
                }
            }
        }
        image.synced.clone_from(&octets);
        image.now = octets;
    }

    /// Marks the open changes in a directory.
    fn settle(&mut self, folder: Option<Folder>, fate: Fate) {
        for change in &mut self.changes {
            if change.fate == Fate::Open && folder.is_none_or(|folder| change.what.touches(folder)) {
                change.fate = fate;
            }
        }
        let settled = self.changes.iter().position(|change| change.fate != Fate::Durable);
        for change in self.changes.drain(..settled.unwrap_or(self.changes.len())) {
            change.what.apply(&mut self.durable);
        }
    }
}

impl What {
    fn apply(self, names: &mut BTreeMap<LocalName, u64>) {
        match self {
            What::Link(name, file) => _ = names.insert(name, file),
            What::Unlink(name) => _ = names.remove(&name),
            What::Rename(from, to, file) => {
                names.remove(&from);
                names.insert(to, file);
            }
        }
    }

    fn touches(self, folder: Folder) -> bool {
        match self {
            What::Link(name, _) | What::Unlink(name) => name.folder() == folder,
            What::Rename(from, to, _) => from.folder() == folder || to.folder() == folder,
        }
    }
}

impl Image {
    fn write(&mut self, write: Write) {
        write.apply(&mut self.now);
        self.unsynced.push(write);
    }

    fn sync(&mut self) {
        std::mem::take(&mut self.unsynced).iter().for_each(|write| write.apply(&mut self.synced));
    }
}

impl Write {
    fn apply(&self, octets: &mut Vec<u8>) {
        match self {
            Write::Put(at, write) => put(octets, *at, write),
            Write::Cut(length) => octets.truncate(*length),
        }
    }
}

impl Files for FaultFiles {
    fn create(&self, name: LocalName, parts: &[&[u8]]) -> io::Result<()> {
        let mut state = self.state();
        let fails = state.fails();
        if state.names.contains_key(&name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if let (Some(error), 0) = (&fails, state.below(3)) {
            return Err(io::Error::from_raw_os_error(error.raw_os_error().unwrap_or(EIO)));
        }
        let number = state.new_file();
        state.files.insert(number, Image::default());
        state.change(What::Link(name, number), Fate::Open);
        state.write(name, parts.concat(), false, fails.is_some())?;
        fails.map_or(Ok(()), Err)
    }

    fn is_reusable(&self, name: LocalName, octets_max: u64) -> io::Result<bool> {
        let mut state = self.state();
        if let Some(error) = state.fails() {
            return Err(error);
        }
        Ok(state.image(name)?.now.len() as u64 <= octets_max)
    }

    fn reuse(&self, name: LocalName, parts: &[&[u8]]) -> io::Result<()> {
        let mut state = self.state();
        let fails = state.fails();
        state.write(name, parts.concat(), true, fails.is_some())?;
        state.reuses += u64::from(fails.is_none());
        fails.map_or(Ok(()), Err)
    }

    fn append(&self, name: LocalName, octets: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let fails = state.fails();
        state.write(name, octets.to_vec(), false, fails.is_some())?;
        fails.map_or(Ok(()), Err)
    }

    fn rename(&self, from: LocalName, to: LocalName) -> io::Result<()> {
        let mut state = self.state();
        let fails = state.fails();
        let file = state.names.get(&from).copied().ok_or(io::ErrorKind::NotFound)?;
        if fails.is_none() || state.below(2) == 0 {
            state.change(What::Rename(from, to, file), Fate::Open);
        }
        fails.map_or(Ok(()), Err)
    }

    fn remove(&self, name: LocalName) -> io::Result<()> {
        let mut state = self.state();
        let fails = state.fails();
        state.image(name)?;
        if fails.is_none() || state.below(2) == 0 {
            state.change(What::Unlink(name), Fate::Open);
        }
        fails.map_or(Ok(()), Err)
    }

    fn sync_names(&self, folder: Folder) -> io::Result<()> {
        let mut state = self.state();
        if let Some(error) = state.fails() {
            *state.failed_syncs.entry(folder).or_default() += 1;
            state.settle(Some(folder), Fate::GivenUp);
            return Err(error);
        }
        if !state.lying {
            state.settle(Some(folder), Fate::Durable);
        }
        Ok(())
    }

    fn failed_syncs(&self, folder: Folder) -> u64 {
        self.state().failed_syncs.get(&folder).copied().unwrap_or(0)
    }

    fn sync_all(&self) -> io::Result<()> {
        let mut state = self.state();
        if let Some(error) = state.fails() {
            return Err(error);
        }
        if !state.lying {
            state.files.values_mut().for_each(Image::sync);
            state.settle(None, Fate::Durable);
        }
        Ok(())
    }
}

impl ReadFiles for FaultFiles {
    fn list(&self, folder: Folder, found: &mut dyn FnMut(&str)) -> io::Result<()> {
        let mut state = self.state();
        if let Some(error) = state.fails() {
            return Err(error);
        }
        let ours = state.names.keys().filter(|name| name.folder() == folder);
        let ours = ours.filter_map(|name| name.to_string().rsplit('/').next().map(str::to_owned));
        let strange = state.strange.get(&folder).into_iter().flatten().cloned();
        let all: Vec<String> = ours.chain(strange).collect();
        drop(state);
        all.iter().for_each(|name| found(name));
        Ok(())
    }

    fn open(&self, name: LocalName) -> io::Result<Box<dyn ReadFile>> {
        let mut state = self.state();
        if let Some(error) = state.fails() {
            return Err(error);
        }
        let broken = state.broken.contains(&name);
        let octets = state.image(name)?.now.clone();
        Ok(Box::new(Snapshot { octets, broken, state: Arc::clone(&self.state) }))
    }
}

/// A file opened for reading.
struct Snapshot {
    octets: Vec<u8>,
    broken: bool,
    state: Arc<Mutex<State>>,
}

impl ReadFile for Snapshot {
    fn length(&self) -> io::Result<u64> {
        Ok(self.octets.len() as u64)
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let fails = self.state.lock().unwrap_or_else(PoisonError::into_inner).fails();
        let broken = self.broken.then(|| io::Error::from_raw_os_error(EIO));
        if let Some(error) = fails.or(broken) {
            return Err(error);
        }
        let rest = self.octets.get(at as usize..).unwrap_or_default();
        let length = rest.len().min(into.len());
        into[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }
}

fn put(octets: &mut Vec<u8>, at: usize, write: &[u8]) {
    if write.is_empty() {
        return;
    }
    if octets.len() < at + write.len() {
        octets.resize(at + write.len(), 0);
    }
    octets[at..at + write.len()].copy_from_slice(write);
}

const EIO: i32 = 5;
/// What a disk writes whole or not at all.
const SECTOR_OCTETS: usize = 512;
