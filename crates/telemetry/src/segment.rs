//! One log segment: a zstd file that becomes read-only when it is finished (KumoMTA behaviour).
//!
//! The name is the UTC time of opening, `YYYYMMDD-HHMMSS.fffffffff`, in front of it and behind it what the stream wants. Consumers take the missing
//! write permission as "complete". A write that failed can be tried again: it goes on behind the last
//! octet the file took, so a full disk neither cuts the stream nor doubles a record.
//!
//! While a segment is open its file is locked (`flock`), so that a reader can tell one that is being written from one
//! that was left behind: a lock ends with its process.

use std::fs::{self, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use time::OffsetDateTime;
use time::macros::format_description;
use zstd::stream::write::Encoder;

/// Where a segment's octets go: a file; in tests something that fails.
type Out = Box<dyn Write + Send>;

/// An open segment.
pub struct Segment {
    path: PathBuf,
    encoder: Encoder<'static, Out>,
    /// Octets of the lines written.
    pub uncompressed_bytes: u64,
    /// Octets of the lines being written that the encoder has.
    taken: usize,
}

impl Segment {
    /// Creates a segment named after `now`, between `prefix` and `suffix`.
    pub fn create(dir: &Path, (prefix, suffix): (&str, &str), level: i32, now: OffsetDateTime) -> io::Result<Segment> {
        let path = dir.join(format!("{prefix}{}{suffix}", name(now)));
        let file = OpenOptions::new().append(true).create(true).open(&path)?;
        if let Err(error) = file.try_lock() {
            // Only readers lose by it, and only after a crash.
            tracing::debug!("cannot lock the segment {}: {error}", path.display());
        }
        Segment::over(path, Box::new(file), level)
    }

    /// A segment whose octets go to `out`.
    pub(crate) fn over(path: PathBuf, out: Out, level: i32) -> io::Result<Segment> {
        let encoder = Encoder::new(out, level)?;
        Ok(Segment { path, encoder, uncompressed_bytes: 0, taken: 0 })
    }

    /// Appends whole lines. After an error it may be called again with the same lines.
    pub fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        while let Some(rest) = lines.get(self.taken..).filter(|rest| !rest.is_empty()) {
            self.taken += self.encoder.write(rest)?;
        }
        // Flushed so that success means "in the file", and so that a reader can follow it.
        self.encoder.flush()?;
        self.uncompressed_bytes += lines.len() as u64;
        self.taken = 0;
        Ok(())
    }

    /// Removes a segment that nothing could be written to.
    pub fn discard_if_empty(self) {
        if self.uncompressed_bytes == 0
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::error!("cannot remove the empty segment {}: {error}", self.path.display());
        }
    }

    /// Ends the zstd frame and marks the file complete. After an error it may be called again.
    pub fn finish(&mut self) -> io::Result<()> {
        self.encoder.do_finish()?;
        mark_done(&self.path)
    }
}

/// Marks what an earlier process left open as complete. What a logger of this one is writing stays as it is.
pub(crate) fn mark_leftovers_done(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if hidden {
            continue;
        }
        match mark_leftover(&entry) {
            // Whoever ships segments was faster.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            marked => marked?,
        }
    }
    Ok(())
}

fn mark_leftover(entry: &fs::DirEntry) -> io::Result<()> {
    let metadata = entry.metadata()?;
    if metadata.is_file() && !metadata.permissions().readonly() && !is_locked(&entry.path()) {
        mark_done(&entry.path())?;
    }
    Ok(())
}

/// Somebody holds the lock of a file; where nobody can tell, nobody does.
fn is_locked(path: &Path) -> bool {
    fs::File::open(path).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

fn mark_done(path: &Path) -> io::Result<()> {
    let mut permissions = fs::metadata(path)?.permissions();
    permissions.set_mode(permissions.mode() & !0o222);
    fs::set_permissions(path, permissions)
}

fn name(now: OffsetDateTime) -> String {
    let format = format_description!("[year][month][day]-[hour][minute][second].[subsecond digits:9]");
    // Every component exists in a date with time, so formatting cannot fail.
    now.format(&format).unwrap_or_default()
}
