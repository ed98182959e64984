//! One process a spool: a lock that dies with its holder.

use crate::StoreError;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The lock of a spool directory, held until dropped.
#[derive(Debug)]
pub(crate) struct SpoolLock {
    _file: Flock<File>,
}

/// Takes the lock of `dir` and writes our pid into it.
pub(crate) fn lock(dir: &Path) -> Result<SpoolLock, StoreError> {
    let path = dir.join(FILE);
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
    let file = file.map_err(StoreError::io(&path, "open the lock file"))?;
    let mut file = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| match errno {
        Errno::EWOULDBLOCK => StoreError::InUse { dir: dir.to_owned(), holder: holder(&path), lock: path.clone() },
        other => StoreError::Io { path: path.clone(), what: "lock", source: other.into() },
    })?;
    // The text is for people; the lock is what counts, and a full disk must not keep a spool from being opened.
    let text = format!("{}\n", std::process::id());
    if let Err(error) = file.write_all(text.as_bytes()).and_then(|()| file.set_len(text.len() as u64)) {
        tracing::warn!(%error, file = %path.display(), "cannot note the holder of the spool");
    }
    Ok(SpoolLock { _file: file })
}

fn holder(path: &Path) -> String {
    match fs::read_to_string(path) {
        Ok(text) if !text.trim().is_empty() => format!("pid {}", text.trim()),
        _ => "pid not known".to_owned(),
    }
}

/// The name of the lock file.
pub(crate) const FILE: &str = "lock";
