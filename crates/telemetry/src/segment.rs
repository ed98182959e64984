//! One log segment: a zstd file that becomes read-only when it is finished (KumoMTA behaviour).
//!
//! The name is the UTC time of opening, `YYYYMMDD-HHMMSS.fffffffff`. Consumers take the missing
//! write permission as "complete".

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use time::OffsetDateTime;
use time::macros::format_description;

/// An open segment.
pub(crate) struct Segment {
    path: PathBuf,
    encoder: zstd::stream::write::Encoder<'static, File>,
    pub uncompressed_bytes: u64,
    pub records: u64,
}

impl Segment {
    /// Creates a segment named after `now`.
    pub fn create(dir: &Path, suffix: &str, level: i32, now: OffsetDateTime) -> io::Result<Segment> {
        let path = dir.join(name(now) + suffix);
        let file = OpenOptions::new().append(true).create(true).open(&path)?;
        let encoder = zstd::stream::write::Encoder::new(file, level)?;
        Ok(Segment { path, encoder, uncompressed_bytes: 0, records: 0 })
    }

    /// Appends whole lines.
    pub fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        self.encoder.write_all(lines)?;
        // Flushed so that success means "in the file", and so that a reader can follow it.
        self.encoder.flush()?;
        self.uncompressed_bytes += lines.len() as u64;
        self.records += 1;
        Ok(())
    }

    /// Removes a segment that nothing could be written to.
    pub fn discard_if_empty(self) {
        if self.records == 0
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::error!("cannot remove the empty segment {}: {error}", self.path.display());
        }
    }

    /// Ends the zstd frame and marks the file complete.
    pub fn finish(self) -> io::Result<()> {
        self.encoder.finish()?.flush()?;
        mark_done(&self.path)
    }
}

/// Marks what an earlier process left open as complete.
pub(crate) fn mark_leftovers_done(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if !hidden && entry.file_type()?.is_file() {
            mark_done(&entry.path())?;
        }
    }
    Ok(())
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
