//! A disk in memory that fails, fills up, loses and tears as real ones do, repeatable by seed.
//!
//! Plain code for tests and simulation. It remembers what was synced apart from what was only
//! written; [`FaultDisk::crash`] makes of the latter what a power cut could. A failed sync gives
//! its writes up for good, as Linux does: a later success says nothing about them. A name that
//! was being changed when its call failed is after a cut the old one or the new one.

mod image;

use crate::disk::{Disk, FileInfo, FileName, ReadPages};
use crate::page::{PAGE_OCTETS, Page, octets, octets_mut};
use image::{Image, Random, SECTOR_OCTETS, Write};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The disk; clones share it.
#[derive(Clone, Debug, Default)]
pub struct FaultDisk {
    state: Arc<Mutex<State>>,
}

/// The calls a fault may be aimed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// [`Disk::list`]
    List,
    /// [`Disk::create`], which is also what allocates a file
    Create,
    /// [`Disk::write_at`]
    Write,
    /// [`Disk::sync`]
    Sync,
    /// [`Disk::rename`]
    Rename,
    /// [`Disk::remove`]
    Remove,
    /// [`ReadPages::read_at`]
    Read,
}

/// A fault to come.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// Which calls count; all of them when `None`.
    pub call: Option<Call>,
    /// Which of them from now fails; 1 is the next.
    pub at: u64,
    /// All later ones fail too.
    pub sticky: bool,
    /// The error's number, as in Linux: 5 is EIO, 28 ENOSPC, 30 EROFS.
    pub errno: i32,
}

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<FileName, Image>,
    /// Name changes whose call failed since the last that succeeded.
    unsure: Vec<Unsure>,
    serials: u64,
    calls: u64,
    fault: Option<Fault>,
    lying: bool,
    read_only: bool,
    octets_max: Option<usize>,
    files_max: Option<usize>,
    random: Random,
}

/// A change of names that failed: done or not.
#[derive(Debug)]
enum Unsure {
    Rename { from: FileName, to: FileName, serial: u64, replaced: Option<Image> },
    Remove { name: FileName, image: Image },
    Create { name: FileName, serial: u64 },
}

impl FaultDisk {
    /// An empty, faultless disk.
    pub fn new() -> FaultDisk {
        FaultDisk::default()
    }

    /// Lets the `k`-th call from now fail with EIO (1 is the next), and all later ones when
    /// `sticky`. What the failing call did before it failed is chosen by `seed`.
    pub fn fail(&self, k: u64, sticky: bool, seed: u64) {
        self.inject(Fault { call: None, at: k, sticky, errno: EIO }, seed);
    }

    /// As [`FaultDisk::fail`], for one kind of call or with another error. Takes the place of an earlier fault.
    pub fn inject(&self, fault: Fault, seed: u64) {
        let mut state = self.state();
        (state.fault, state.random) = (Some(fault), Random(seed));
    }

    /// No more faults, unlimited room. Pages that do not read stay so.
    pub fn heal(&self) {
        let mut state = self.state();
        (state.fault, state.lying, state.read_only) = (None, false, false);
        (state.octets_max, state.files_max) = (None, None);
    }

    /// True while the injected fault has not struck yet.
    pub fn is_armed(&self) -> bool {
        self.state().fault.is_some_and(|fault| fault.at > 0)
    }

    /// Lets syncs return success without doing anything: a control run must then lose mail.
    pub fn lie(&self) {
        self.state().lying = true;
    }

    /// Everything that writes fails with EROFS, until told otherwise.
    pub fn set_read_only(&self, read_only: bool) {
        self.state().read_only = read_only;
    }

    /// Room for that many octets in all files together; what does not fit fails with ENOSPC.
    pub fn set_octets_max(&self, octets_max: Option<usize>) {
        self.state().octets_max = octets_max;
    }

    /// Room for that many files; one more fails with ENOSPC, as when inodes are out.
    pub fn set_files_max(&self, files_max: Option<usize>) {
        self.state().files_max = files_max;
    }

    /// Octets of all files.
    pub fn octets_used(&self) -> usize {
        self.state().octets_used()
    }

    /// Lets pages of a file fail with EIO when they are read, until they are written again.
    pub fn set_unreadable(&self, file: FileName, pages: Range<usize>) {
        if let Some(image) = self.state().files.get_mut(&file) {
            image.unreadable.extend(pages);
        }
    }

    /// Whether something was written that a failed sync has given up: visible perhaps, on the disk perhaps.
    pub fn has_given_up(&self) -> bool {
        self.state().files.values().any(Image::has_given_up)
    }

    /// Turns one bit of a file over, behind everybody's back.
    pub fn flip_bit(&self, file: FileName, bit: u64) {
        if let Some(image) = self.state().files.get_mut(&file) {
            image.flip(bit);
        }
    }

    /// Calls made so far.
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// A power cut: every write that no sync covered is, by `seed`, dropped, kept, kept in part or
    /// turned into zeros, in any order; every name whose change failed is the old or the new one. Faults end.
    pub fn crash(&self, seed: u64) {
        let mut state = self.state();
        (state.fault, state.lying, state.read_only, state.random) = (None, false, false, Random(seed));
        for unsure in std::mem::take(&mut state.unsure).into_iter().rev() {
            state.settle(unsure);
        }
        let mut random = state.random;
        state.files.values_mut().for_each(|image| image.cut(&mut random));
        state.random = random;
    }

    /// A file's octets as reads see them.
    pub fn contents(&self, file: FileName) -> Option<Vec<u8>> {
        self.state().files.get(&file).map(|image| image.now.clone())
    }

    /// Replaces a file's octets, durably.
    pub fn set_contents(&self, file: FileName, octets: Vec<u8>) {
        let mut state = self.state();
        let serial = state.serial();
        state.files.insert(file, Image::durable(serial, octets));
    }

    /// A disk of its own with the same files and no faults.
    pub fn copy(&self) -> FaultDisk {
        let state = self.state();
        let (files, serials) = (state.files.clone(), state.serials);
        FaultDisk { state: Arc::new(Mutex::new(State { files, serials, ..State::default() })) }
    }

    /// A panic in a test leaves the files as they are; others may still look at them.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Counts a call; its error when it is to fail.
    fn fault(&mut self, call: Call) -> Option<io::Error> {
        self.calls += 1;
        let fault = self.fault.as_mut().filter(|fault| fault.call.is_none_or(|only| only == call))?;
        let fails = fault.at == 1 || (fault.sticky && fault.at == 0);
        fault.at = fault.at.saturating_sub(1);
        fails.then(|| io::Error::from_raw_os_error(fault.errno))
    }

    /// As [`State::fault`], for calls that write; nothing of such a call is done when it is refused here.
    fn refusal(&self) -> io::Result<()> {
        if self.read_only { Err(io::Error::from_raw_os_error(EROFS)) } else { Ok(()) }
    }

    fn image(&mut self, file: FileName) -> io::Result<&mut Image> {
        self.files.get_mut(&file).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn serial(&mut self) -> u64 {
        self.serials += 1;
        self.serials
    }

    fn octets_used(&self) -> usize {
        self.files.values().map(|image| image.now.len().next_multiple_of(PAGE_OCTETS)).sum()
    }

    /// What of a write to `file` fits on the disk.
    fn fitting(&self, file: FileName, write: &Write) -> usize {
        let Some((octets_max, image)) = self.octets_max.zip(self.files.get(&file)) else { return write.octets.len() };
        let length = image.now.len().next_multiple_of(PAGE_OCTETS);
        let end_max = length + octets_max.saturating_sub(self.octets_used());
        end_max.saturating_sub(write.at).min(write.octets.len())
    }

    /// Whether a failing call does its work all the same.
    fn does_all_the_same(&mut self) -> bool {
        self.random.below(2) == 0
    }

    /// Lets a change of names whose call failed have happened or not.
    fn settle(&mut self, unsure: Unsure) {
        let happened = self.does_all_the_same();
        match unsure {
            Unsure::Rename { from, to, serial, replaced } => {
                let is_at = |name| self.files.get(&name).is_some_and(|image: &Image| image.serial == serial);
                if happened && is_at(from) {
                    self.move_file(from, to);
                } else if !happened && is_at(to) && !self.files.contains_key(&from) {
                    self.move_file(to, from);
                    replaced.map(|image| self.files.insert(to, image));
                }
            }
            Unsure::Remove { name, image } => {
                if happened && self.files.get(&name).is_some_and(|now| now.serial == image.serial) {
                    self.files.remove(&name);
                } else if !happened {
                    self.files.entry(name).or_insert(image);
                }
            }
            Unsure::Create { name, serial } => {
                if !happened && self.files.get(&name).is_some_and(|now| now.serial == serial) {
                    self.files.remove(&name);
                }
            }
        }
    }

    fn move_file(&mut self, from: FileName, to: FileName) -> Option<Image> {
        let image = self.files.remove(&from)?;
        self.files.insert(to, image)
    }
}

impl Disk for FaultDisk {
    fn list(&mut self) -> io::Result<Vec<FileInfo>> {
        let mut state = self.state();
        state.fault(Call::List).map_or(Ok(()), Err)?;
        let info = |(name, image): (&FileName, &Image)| FileInfo { name: *name, octets: image.now.len() as u64 };
        Ok(state.files.iter().map(info).collect())
    }

    fn create(&mut self, file: FileName) -> io::Result<()> {
        let mut state = self.state();
        let fault = state.fault(Call::Create);
        state.refusal()?;
        if state.files_max.is_some_and(|max| state.files.len() >= max && !state.files.contains_key(&file)) {
            return Err(io::Error::from_raw_os_error(ENOSPC));
        }
        let serial = state.serial();
        if fault.is_some() {
            if state.does_all_the_same() {
                state.files.insert(file, Image::new(serial));
                state.unsure.push(Unsure::Create { name: file, serial });
            }
        } else {
            state.files.insert(file, Image::new(serial));
            state.unsure.clear();
        }
        fault.map_or(Ok(()), Err)
    }

    fn write_at(&mut self, file: FileName, at: u32, pages: &[Page]) -> io::Result<()> {
        let mut state = self.state();
        let mut fault = state.fault(Call::Write);
        state.refusal()?;
        let mut write = Write { at: at as usize * PAGE_OCTETS, octets: octets(pages).to_vec() };
        let fitting = state.fitting(file, &write);
        if fitting < write.octets.len() {
            write = write.first(fitting);
            fault = fault.or_else(|| Some(io::Error::from_raw_os_error(ENOSPC)));
        } else if fault.is_some() {
            let sectors = write.octets.len() / SECTOR_OCTETS;
            write = write.first(state.random.below(sectors as u64 + 1) as usize * SECTOR_OCTETS);
        }
        state.image(file)?.write(write);
        fault.map_or(Ok(()), Err)
    }

    fn sync(&mut self, file: FileName) -> io::Result<()> {
        let mut state = self.state();
        let (fault, lying, mut random) = (state.fault(Call::Sync), state.lying, state.random);
        let image = state.image(file)?;
        if fault.is_some() {
            image.fail_sync(&mut random);
        } else if !lying {
            image.sync();
        }
        state.random = random;
        fault.map_or(Ok(()), Err)
    }

    fn rename(&mut self, from: FileName, to: FileName) -> io::Result<()> {
        let mut state = self.state();
        let fault = state.fault(Call::Rename);
        state.refusal()?;
        let serial = state.image(from)?.serial;
        if fault.is_some() {
            let replaced = if state.does_all_the_same() { state.move_file(from, to) } else { None };
            state.unsure.push(Unsure::Rename { from, to, serial, replaced });
        } else {
            state.move_file(from, to);
            state.unsure.clear();
        }
        fault.map_or(Ok(()), Err)
    }

    fn remove(&mut self, file: FileName) -> io::Result<()> {
        let mut state = self.state();
        let fault = state.fault(Call::Remove);
        state.refusal()?;
        let image = state.image(file)?.clone();
        if fault.is_some() {
            if state.does_all_the_same() {
                state.files.remove(&file);
            }
            state.unsure.push(Unsure::Remove { name: file, image });
        } else {
            state.files.remove(&file);
            state.unsure.clear();
        }
        fault.map_or(Ok(()), Err)
    }

    fn reader(&self) -> Arc<dyn ReadPages> {
        Arc::new(self.clone())
    }
}

impl ReadPages for FaultDisk {
    fn read_at(&self, file: FileName, at: u32, into: &mut [Page]) -> io::Result<usize> {
        let mut state = self.state();
        state.fault(Call::Read).map_or(Ok(()), Err)?;
        let image = state.image(file)?;
        let pages = at as usize..at as usize + into.len();
        if image.unreadable.range(pages).next().is_some() {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        let from = (at as usize * PAGE_OCTETS).min(image.now.len());
        let into = octets_mut(into);
        let length = into.len().min(image.now.len() - from);
        into[..length].copy_from_slice(&image.now[from..from + length]);
        Ok(length)
    }
}

const EIO: i32 = 5;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
