//! A disk that takes everything at once and keeps the names of files only: what is counted on it is the writer's work alone.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::io;
use std::sync::Arc;

use spool::{Disk, FileInfo, FileName, Page, ReadPages};

/// Names and lengths.
#[derive(Debug, Default)]
pub struct Forgetful {
    files: BTreeMap<FileName, u64>,
}

impl Disk for Forgetful {
    fn list(&mut self) -> io::Result<Vec<FileInfo>> {
        Ok(self.files.iter().map(|(name, octets)| FileInfo { name: *name, octets: *octets }).collect())
    }

    fn create(&mut self, file: FileName) -> io::Result<()> {
        self.files.insert(file, 0);
        Ok(())
    }

    fn write_at(&mut self, file: FileName, at: u32, pages: &[Page]) -> io::Result<()> {
        let end = (u64::from(at) + pages.len() as u64) * size_of::<Page>() as u64;
        let octets = self.files.get_mut(&file).ok_or(io::ErrorKind::NotFound)?;
        *octets = end.max(*octets);
        black_box(pages);
        Ok(())
    }

    fn sync(&mut self, _file: FileName) -> io::Result<()> {
        Ok(())
    }

    fn rename(&mut self, from: FileName, to: FileName) -> io::Result<()> {
        let octets = self.files.remove(&from).ok_or(io::ErrorKind::NotFound)?;
        self.files.insert(to, octets);
        Ok(())
    }

    fn remove(&mut self, file: FileName) -> io::Result<()> {
        self.files.remove(&file).map(|_| ()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn reader(&self) -> Arc<dyn ReadPages> {
        Arc::new(Nothing)
    }
}

/// What can be read of it.
struct Nothing;

impl ReadPages for Nothing {
    fn read_at(&self, _file: FileName, _at: u32, _into: &mut [Page]) -> io::Result<usize> {
        Err(io::ErrorKind::NotFound.into())
    }
}
