//! Maildirs that were written to: whose folders are there and durable, and who syncs the names in `new`.
//!
//! Owns [`Folders`], at most [`KNOWN_MAX`] of them, by path. What is forgotten is looked at again, so a bound costs time and nothing else.

use super::deposit::{DepositError, failed};
use quick_cache::sync::Cache;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use store::SharedSync;

/// The Maildirs that are known.
#[derive(Debug)]
pub(crate) struct Folders(Cache<PathBuf, Arc<Folder>>);

/// One of them.
#[derive(Debug)]
pub(crate) struct Folder {
    new: PathBuf,
    /// Of `new` when its own name was made durable.
    id: Id,
    names: SharedSync,
}

impl Default for Folders {
    fn default() -> Folders {
        Folders(Cache::new(KNOWN_MAX))
    }
}

impl Folders {
    pub fn get(&self, path: &Path) -> Option<Arc<Folder>> {
        self.0.get(path)
    }

    /// Notes one whose folders are there and durable.
    ///
    /// # Errors
    /// Its `new` is not there any more.
    pub fn put(&self, path: &Path) -> Result<Arc<Folder>, DepositError> {
        let new = path.join("new");
        let folder = Arc::new(Folder { id: id_of(&new)?, new, names: SharedSync::default() });
        self.0.insert(path.to_owned(), folder.clone());
        Ok(folder)
    }
}

impl Folder {
    /// Where finished messages are.
    pub fn finished(&self) -> &Path {
        &self.new
    }

    /// Makes a name that was just made in `new` durable, together with those of others. False when somebody has put another folder in the
    /// place of the one that is known: whether that one will be there after a crash nobody knows.
    ///
    /// # Errors
    /// The sync's, or that of another who synced for this one too.
    pub fn keep(&self) -> Result<bool, DepositError> {
        self.names.changed();
        let synced = self.names.sync(|| File::open(&self.new).and_then(|new| new.sync_all()));
        synced.map_err(|cause| failed("sync", &self.new, cause))?;
        Ok(id_of(&self.new)? == self.id)
    }
}

/// Device, inode, and when it was made, where the file system says so: inodes are used again.
type Id = (u64, u64, Option<SystemTime>);

fn id_of(folder: &Path) -> Result<Id, DepositError> {
    let metadata = fs::metadata(folder).map_err(|cause| failed("look at", folder, cause))?;
    Ok((metadata.dev(), metadata.ino(), metadata.created().ok()))
}

/// Maildirs that are known.
const KNOWN_MAX: usize = 4096;
