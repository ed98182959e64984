//! What a power cut could have left: files rebuilt in memory from the recorded calls.
//!
//! Everything synced before the cut is there. What was written and not synced is dropped, kept, torn or turned into
//! zeros, in any order, by the model of [`spool::fault::FaultDisk`]. Creating, renaming and removing count from
//! their return, as [`spool::Disk`] promises; in the very call that the cut meets, either way is legal.

use super::recorder::{Call, Content};
use fastrand::Rng;
use spool::fault::FaultDisk;
use spool::{Disk, FileInfo, FileName, PAGE_OCTETS, Page, ReadPages, octets, octets_mut};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The files at some call of the recording. Clones share what is synced.
#[derive(Clone, Default)]
pub(super) struct Walker<'a> {
    files: BTreeMap<FileName, Image<'a>>,
    at: usize,
}

#[derive(Clone, Default)]
struct Image<'a> {
    synced: Arc<Vec<u8>>,
    unsynced: Vec<(u32, &'a Content)>,
}

impl<'a> Walker<'a> {
    /// Goes on to call `to`: all calls before it have returned. With `lying`, syncs do nothing.
    pub fn advance(&mut self, calls: &'a [Call], to: usize, lying: bool) {
        while self.at < to.min(calls.len()) {
            match &calls[self.at] {
                Call::Sync(_) if lying => {}
                call => self.apply(call),
            }
            self.at += 1;
        }
    }

    /// What a cut in the next call could leave, by chance.
    pub fn cut(mut self, calls: &'a [Call], random: &mut Rng) -> Result<CutDisk, io::Error> {
        match calls.get(self.at) {
            // Not yet returned: anything between nothing and all of it, which the model chooses.
            Some(call @ Call::Write { .. }) => self.apply(call),
            Some(Call::Sync(_)) | None => {}
            Some(name) => {
                if random.bool() {
                    self.apply(name);
                }
            }
        }
        let mut files = BTreeMap::new();
        for (name, image) in self.files {
            let Image { synced, unsynced } = image;
            let octets = if unsynced.is_empty() { synced } else { Arc::new(torn(name, &synced, &unsynced, random)?) };
            files.insert(name, octets);
        }
        Ok(CutDisk { files: Arc::new(Mutex::new(files)) })
    }

    fn apply(&mut self, call: &'a Call) {
        match call {
            Call::Create(name) => _ = self.files.insert(*name, Image::default()),
            Call::Write { file, at, pages } => {
                self.files.entry(*file).or_default().unsynced.push((*at, pages));
            }
            Call::Sync(name) => {
                let Some(image) = self.files.get_mut(name) else { return };
                let synced = Arc::make_mut(&mut image.synced);
                image.unsynced.drain(..).for_each(|(at, pages)| pages.put(at, synced));
            }
            Call::Rename { from, to } => {
                if let Some(image) = self.files.remove(from) {
                    self.files.insert(*to, image);
                }
            }
            Call::Remove(name) => _ = self.files.remove(name),
        }
    }
}

/// What a cut makes of a file.
fn torn(name: FileName, synced: &[u8], unsynced: &[(u32, &Content)], random: &mut Rng) -> io::Result<Vec<u8>> {
    let mut disk = FaultDisk::new();
    disk.set_contents(name, synced.to_vec());
    for (at, content) in unsynced {
        match content {
            Content::Zeros(count) => disk.write_at(name, *at, &Page::zeros(*count))?,
            Content::Pages(pages) => disk.write_at(name, *at, pages)?,
        }
    }
    disk.crash(random.u64(..));
    disk.contents(name).ok_or_else(|| io::ErrorKind::NotFound.into())
}

impl Content {
    /// Writes itself into a file's octets.
    fn put(&self, at: u32, file: &mut Vec<u8>) {
        let zeros;
        let octets = match self {
            Content::Zeros(count) => {
                zeros = vec![0; count * PAGE_OCTETS];
                &zeros
            }
            Content::Pages(pages) => octets(pages),
        };
        let at = at as usize * PAGE_OCTETS;
        if file.len() < at + octets.len() {
            file.resize(at + octets.len(), 0);
        }
        file[at..at + octets.len()].copy_from_slice(octets);
    }
}

/// The disk as it is found after the cut. Written to, it keeps its own copies.
#[derive(Clone, Default)]
pub(super) struct CutDisk {
    files: Arc<Mutex<BTreeMap<FileName, Arc<Vec<u8>>>>>,
}

impl CutDisk {
    /// Of files and their octets.
    pub fn of(files: impl Iterator<Item = (FileName, Vec<u8>)>) -> CutDisk {
        let files = files.map(|(name, octets)| (name, Arc::new(octets))).collect();
        CutDisk { files: Arc::new(Mutex::new(files)) }
    }

    /// Its files.
    pub fn contents(&self) -> Vec<(FileName, Arc<Vec<u8>>)> {
        self.files().iter().map(|(name, octets)| (*name, Arc::clone(octets))).collect()
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<FileName, Arc<Vec<u8>>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk for CutDisk {
    fn list(&mut self) -> io::Result<Vec<FileInfo>> {
        Ok(self.files().iter().map(|(name, octets)| FileInfo { name: *name, octets: octets.len() as u64 }).collect())
    }

    fn create(&mut self, file: FileName) -> io::Result<()> {
        self.files().insert(file, Arc::default());
        Ok(())
    }

    fn write_at(&mut self, file: FileName, at: u32, pages: &[Page]) -> io::Result<()> {
        let mut files = self.files();
        let octets = files.get_mut(&file).ok_or(io::ErrorKind::NotFound)?;
        Content::Pages(pages.into()).put(at, Arc::make_mut(octets));
        Ok(())
    }

    fn sync(&mut self, _file: FileName) -> io::Result<()> {
        Ok(())
    }

    fn rename(&mut self, from: FileName, to: FileName) -> io::Result<()> {
        let mut files = self.files();
        let octets = files.remove(&from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to, octets);
        Ok(())
    }

    fn remove(&mut self, file: FileName) -> io::Result<()> {
        self.files().remove(&file).map(|_| ()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn reader(&self) -> Arc<dyn ReadPages> {
        Arc::new(self.clone())
    }
}

impl ReadPages for CutDisk {
    fn read_at(&self, file: FileName, at: u32, into: &mut [Page]) -> io::Result<usize> {
        let octets = self.files().get(&file).cloned().ok_or(io::ErrorKind::NotFound)?;
        let into = octets_mut(into);
        let from = (at as usize * PAGE_OCTETS).min(octets.len());
        let length = into.len().min(octets.len() - from);
        into[..length].copy_from_slice(&octets[from..from + length]);
        Ok(length)
    }
}
