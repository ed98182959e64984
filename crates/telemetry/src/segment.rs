//! One log segment: a zstd file that becomes read-only when it is finished (KumoMTA behaviour).
//!
//! The name is the UTC time of opening, `YYYYMMDD-HHMMSS.fffffffff`, in front of it and behind it what the stream wants. Consumers
//! read in the order of names, so it comes behind those that are there also when the clock was set back. They take the missing
//! write permission as "complete". A write that failed can be tried again: it goes on behind the last
//! octet the file took, so a full disk neither cuts the stream nor doubles a record.
//!
//! It is a row of frames, each of which can be read without those before it; who writes says where one ends, so that an
//! index can point to them.
//!
//! While a segment is open its file is locked (`flock`), so that a reader can tell one that is being written from one
//! that was left behind: a lock ends with its process.

use std::fs::{self, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use time::{Duration, OffsetDateTime, PrimitiveDateTime};
use zstd::stream::write::Encoder;

/// Where a segment's octets go: a file; in tests something that fails.
type Out = Box<dyn Write + Send>;

/// An open segment.
pub struct Segment {
    path: PathBuf,
    /// Missing only after zstd could not be begun again.
    encoder: Option<Encoder<'static, Counted>>,
    level: i32,
    /// Octets of the lines written.
    pub uncompressed_bytes: u64,
    /// Of these, those of frames that are over.
    before_frame: u64,
    /// Where the frame begins in the file.
    frame_start: u64,
    /// The frame is to end, and not all of its end is in the file yet: nothing more can be written to it.
    is_ending: bool,
    /// Octets of the lines being written that the encoder has.
    taken: usize,
}

/// Counts what the file takes.
struct Counted {
    out: Out,
    octets: u64,
}

impl Segment {
    /// Creates a segment named after `now`, between `prefix` and `suffix`; behind the last one there is or was, if that has a later
    /// name. `last` is the name of the one before, and becomes that of this one: it may be gone by now.
    pub fn create(
        dir: &Path,
        (prefix, suffix): (&str, &str),
        level: i32,
        now: OffsetDateTime,
        last: &mut Option<OffsetDateTime>,
    ) -> io::Result<Segment> {
        loop {
            let before = (*last).max(last_named(dir, prefix, suffix)?);
            let named =
                before.and_then(|last| last.checked_add(Duration::NANOSECOND)).map_or(now, |least| least.max(now));
            // Said once, not of each that follows.
            if named - now > AHEAD_MAX && last.is_none_or(|last| last - now <= AHEAD_MAX) {
                tracing::warn!(
                    "the clock was set back, or was ahead once: the last segment `{prefix}*{suffix}` in {} is named after a later time, and new ones are named behind it",
                    dir.display()
                );
            }
            let path = dir.join(format!("{prefix}{}{suffix}", name(named)?));
            let file = match OpenOptions::new().append(true).create_new(true).open(&path) {
                // Another logger was faster.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                opened => opened?,
            };
            if let Err(error) = lock(&file) {
                // Only readers lose by it, and only after a crash.
                tracing::debug!("cannot lock the segment {}: {error}", path.display());
            }
            *last = Some(named);
            if file.metadata()?.permissions().readonly() {
                // Before it was locked, somebody took it for what a process left that is gone.
                continue;
            }
            return Segment::begin(path, Counted { out: Box::new(file), octets: 0 }, level);
        }
    }

    /// A segment whose octets go to `out`.
    #[cfg(test)]
    pub(crate) fn over(path: PathBuf, out: Out, level: i32) -> io::Result<Segment> {
        Segment::begin(path, Counted { out, octets: 0 }, level)
    }

    fn begin(path: PathBuf, out: Counted, level: i32) -> io::Result<Segment> {
        let frame_start = out.octets;
        let encoder = Some(Encoder::new(out, level)?);
        Ok(Segment {
            path,
            encoder,
            level,
            uncompressed_bytes: 0,
            before_frame: 0,
            frame_start,
            is_ending: false,
            taken: 0,
        })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether nobody finds it any more.
    pub(crate) fn is_gone(&self) -> bool {
        fs::metadata(&self.path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// Appends whole lines. After an error it may be called again with the same lines.
    pub fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        let encoder = self.encoder.as_mut().ok_or_else(no_encoder)?;
        while let Some(rest) = lines.get(self.taken..).filter(|rest| !rest.is_empty()) {
            self.taken += encoder.write(rest)?;
        }
        // Flushed so that success means "in the file", and so that a reader can follow it.
        encoder.flush()?;
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

    /// Whether the end of a frame must be written before anything else.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// Where the frame begins in the file.
    pub(crate) fn frame_start(&self) -> u64 {
        self.frame_start
    }

    /// Octets of the lines of the frame that is not over.
    pub(crate) fn frame_bytes(&self) -> u64 {
        self.uncompressed_bytes - self.before_frame
    }

    /// Ends the zstd frame, and tells where it stands in the file; what is written next is another one. Nothing was written
    /// to it: nothing happens. After an error it may be called again.
    pub(crate) fn end_frame(&mut self) -> io::Result<Range<u64>> {
        let has_lines = self.frame_bytes() > 0 || self.taken > 0;
        let encoder = self.encoder.as_mut().ok_or_else(no_encoder)?;
        let is_empty = !has_lines && encoder.get_ref().octets == self.frame_start;
        if is_empty && !self.is_ending {
            return Ok(self.frame_start..self.frame_start);
        }
        self.is_ending = true;
        encoder.do_finish()?;
        // All of it is in the file: nothing is left that could fail.
        let Some(out) = self.encoder.take().map(Encoder::finish).transpose()? else { return Err(no_encoder()) };
        let frame = self.frame_start..out.octets;
        (self.frame_start, self.before_frame, self.is_ending) = (out.octets, self.uncompressed_bytes, false);
        self.encoder = Some(Encoder::new(out, self.level)?);
        Ok(frame)
    }

    /// Ends the zstd frame and marks the file complete. After an error it may be called again.
    pub fn finish(&mut self) -> io::Result<()> {
        if self.uncompressed_bytes == 0 {
            // What was never written to is a whole stream of nothing.
            self.encoder.as_mut().ok_or_else(no_encoder)?.do_finish()?;
        }
        self.end_frame()?;
        mark_done(&self.path)
    }
}

impl Write for Counted {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let taken = self.out.write(octets)?;
        self.octets += taken as u64;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn no_encoder() -> io::Error {
    io::Error::other("zstd cannot begin another frame")
}

/// Locks the file of a new segment; a reader that asks whether it is locked holds its lock for a moment.
fn lock(file: &fs::File) -> Result<(), TryLockError> {
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            locked => return locked,
        }
    }
    file.try_lock()
}

/// Marks what an earlier process left open as complete. What a logger of this one is writing stays as it is.
pub(crate) fn mark_leftovers_done(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if !entry.file_name().to_str().is_some_and(is_segment) {
            continue;
        }
        match mark_leftover(&entry) {
            Ok(()) => {}
            // Whoever ships segments was faster.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::warn!("{} stays writable: {error}", entry.path().display()),
        }
    }
    Ok(())
}

/// Whether a file of that name is a segment of some log.
pub(crate) fn is_segment(name: &str) -> bool {
    let name = name.strip_prefix(ACCOUNTS).unwrap_or(name);
    name.get(..TIME.len()).is_some_and(is_time)
}

/// The time in a segment's name.
pub(crate) fn is_time(text: &str) -> bool {
    let is_like = |(is, shape): (u8, u8)| if shape == b'0' { is.is_ascii_digit() } else { is == shape };
    text.len() == TIME.len() && text.bytes().zip(TIME.bytes()).all(is_like)
}

fn mark_leftover(entry: &fs::DirEntry) -> io::Result<()> {
    let metadata = entry.metadata()?;
    if !metadata.is_file() || metadata.permissions().readonly() {
        return Ok(());
    }
    // Where nobody can tell who has it, nobody has. Held to the end: whoever made it just now and is about to lock it finds the mark.
    let held = fs::File::open(entry.path()).ok();
    match held.as_ref().map(fs::File::try_lock) {
        Some(Err(TryLockError::WouldBlock)) => Ok(()),
        _ => mark_done(&entry.path()),
    }
}

fn mark_done(path: &Path) -> io::Result<()> {
    let mut permissions = fs::metadata(path)?.permissions();
    permissions.set_mode(permissions.mode() & !0o222);
    fs::set_permissions(path, permissions)
}

/// Fails for a year that has more digits than a name.
fn name(now: OffsetDateTime) -> io::Result<String> {
    now.format(NAME).map_err(io::Error::other)
}

/// The time that the last segment of these names is named after.
fn last_named(dir: &Path, prefix: &str, suffix: &str) -> io::Result<Option<OffsetDateTime>> {
    let mut last = None;
    for entry in fs::read_dir(dir)? {
        let file = entry?.file_name();
        let time = file.to_str().and_then(|name| name.strip_prefix(prefix)?.strip_suffix(suffix));
        // What else is there has no time for its name.
        last = last.max(time.and_then(|time| PrimitiveDateTime::parse(time, NAME).ok()));
    }
    Ok(last.map(PrimitiveDateTime::assume_utc))
}

/// Before the time of a segment of the accounting log.
pub(crate) const ACCOUNTS: &str = "acct-";
/// What the time looks like.
const TIME: &str = "00000000-000000.000000000";
/// How often a lock that others have is tried again, and how long after.
const LOCK_TRIES: u32 = 100;
const LOCK_PAUSE: std::time::Duration = std::time::Duration::from_millis(1);
/// A name that is further ahead of the clock is told.
const AHEAD_MAX: Duration = Duration::SECOND;
const NAME: &[BorrowedFormatItem<'_>] =
    format_description!("[year][month][day]-[hour][minute][second].[subsecond digits:9]");

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::datetime;

    #[test]
    fn segments_that_were_left_are_marked_and_nothing_else() {
        let dir = tempfile::tempdir().expect("scratch");
        let segments = ["20261125-033000.123456789", "20261125-033000.123456789-fbl", "acct-20261125-033000.123456789"];
        let others = ["kumod-diagnostics.2026-11-29", "notes.txt", "20261125", ".20261125-033000.123456789.index"];
        segments.iter().chain(&others).for_each(|name| fs::write(dir.path().join(name), "x").expect("writes"));
        mark_leftovers_done(dir.path()).expect("lists");
        let is_done = |name: &&str| fs::metadata(dir.path().join(name)).expect("there").permissions().readonly();
        assert!(segments.iter().all(is_done) && !others.iter().any(is_done));
    }

    #[test]
    fn a_segment_is_named_behind_those_that_are_there() {
        let dir = tempfile::tempdir().expect("scratch");
        let create = |affixes: (&str, &str), now| {
            let segment = Segment::create(dir.path(), affixes, 0, now, &mut None).expect("a segment");
            segment.path().file_name().and_then(|name| name.to_str()).expect("a name").to_owned()
        };
        let (noon, eleven) = (datetime!(2026-11-26 12:00 UTC), datetime!(2026-11-26 11:00 UTC));
        assert_eq!(create(("", ".zst"), noon), "20261126-120000.000000000.zst");
        for now in [eleven, eleven, noon] {
            create(("", ".zst"), now);
        }
        assert_eq!(create(("", ".zst"), noon + Duration::SECOND), "20261126-120001.000000000.zst");
        fs::write(dir.path().join("99999999-000000.000000000.zst"), "").expect("no time of this world");
        assert_eq!(create(("", ".zst"), eleven), "20261126-120001.000000001.zst");
        assert_eq!(create(("in-", ".zst"), eleven), "in-20261126-110000.000000000.zst", "others have their own order");
        let mut names: Vec<_> =
            fs::read_dir(dir.path()).expect("there").flatten().map(|file| file.file_name()).collect();
        names.sort();
        let expected = [
            "120000.000000000",
            "120000.000000001",
            "120000.000000002",
            "120000.000000003",
            "120001.000000000",
            "120001.000000001",
        ];
        let expected = expected.map(|name| format!("20261126-{name}.zst"));
        assert_eq!(names[..6], expected.map(std::ffi::OsString::from));
        // Also behind one that was removed, which its reader may remember.
        let mut last = Some(noon + Duration::HOUR);
        Segment::create(dir.path(), ("", ".zst"), 0, eleven, &mut last).expect("a segment");
        assert!(dir.path().join("20261126-130000.000000001.zst").is_file() && last > Some(noon + Duration::HOUR));
    }
}
