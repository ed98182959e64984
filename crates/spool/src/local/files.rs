//! The seam to the file system: the only calls this engine makes. Real files implement it in `store`, files that lose and
//! tear in [`super::FaultFiles`].
//!
//! Any thread calls, many at once. An implementation never retries and never hides an error: the engine decides what an
//! error means.

use super::names::{Folder, LocalName};
use std::io;

/// The files of a spool, to be looked at.
pub trait ReadFiles: Send + Sync {
    /// The names in a directory, in any order; one that is not UTF-8 with replacement characters.
    fn list(&self, folder: Folder, found: &mut dyn FnMut(&str)) -> io::Result<()>;

    /// Opens a file for reading. One that is not there is `NotFound`.
    fn open(&self, name: LocalName) -> io::Result<Box<dyn ReadFile>>;

    /// Waits a little if the error says that the system lacks descriptors or memory now, and whoever recovers may ask again; false
    /// if it says anything else.
    fn waits_out(&self, error: &io::Error) -> bool {
        let _ = error;
        false
    }
}

/// The files of a spool.
pub trait Files: ReadFiles {
    /// Makes a file that is not there (else `AlreadyExists`), writes the parts one behind the other, returns once the
    /// content is durable. Its name is not before [`Files::sync_names`]. After an error the file may be there, with
    /// anything in it, and must not be synced again.
    fn create(&self, name: LocalName, parts: &[&[u8]]) -> io::Result<()>;

    /// Whether a file may be written anew for another message once nobody needs it: a plain file of at most `octets_max`
    /// octets that has this name only. One that is not there is `NotFound`.
    fn is_reusable(&self, name: LocalName, octets_max: u64) -> io::Result<bool>;

    /// Replaces the content of a file that is there (else `NotFound`) by the parts, returns once that is durable. After an
    /// error, or a cut before it returns, anything of the old and the new content may be there, and it must not be synced
    /// again.
    fn reuse(&self, name: LocalName, parts: &[&[u8]]) -> io::Result<()>;

    /// Writes at the end of a file that is there (else `NotFound`); durable when it returns `Ok`. After an error any part
    /// of it may be there, now or after a cut.
    fn append(&self, name: LocalName, octets: &[u8]) -> io::Result<()>;

    /// Renames, replacing. Whole or not at all, whatever happens; durable after [`Files::sync_names`] of the new
    /// directory; unknown after an error.
    fn rename(&self, from: LocalName, to: LocalName) -> io::Result<()>;

    /// Removes a name; durable after [`Files::sync_names`]; unknown after an error.
    fn remove(&self, name: LocalName) -> io::Result<()>;

    /// Returns once every change of a name in the directory that was made before the call is durable.
    fn sync_names(&self, folder: Folder) -> io::Result<()>;

    /// How many syncs of this directory have failed. A name that was changed before a failure may never become durable,
    /// whatever later syncs say: so whoever changes a name asks before and after.
    fn failed_syncs(&self, folder: Folder) -> u64;

    /// Returns once everything written so far, names and contents, is durable.
    fn sync_all(&self) -> io::Result<()>;
}

/// A file open for reading; stays readable when its name changes or goes.
pub trait ReadFile {
    /// Its length now, in octets.
    fn length(&self) -> io::Result<u64>;

    /// Reads from octet `at`; how many octets, fewer than asked for only at the end of the file.
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize>;
}

/// Reads `octets` octets from `at` on; fewer when the file ends before.
pub(crate) fn read_range(file: &dyn ReadFile, at: u64, octets: usize) -> io::Result<Vec<u8>> {
    let mut into = vec![0; octets];
    let length = file.read_at(at, &mut into)?;
    into.truncate(length);
    Ok(into)
}
