//! Writes lines into segments, one after the other, and ends each at its size or its time.
//!
//! Owns [`Pen`]. In: whole lines and the time. Out: segments, named and finished as the log's (`telemetry::Segment`); one is
//! begun when there is something to write. Fails as the disk does: the segment is then given up where it is and the next
//! line begins another, because half of a line may be in it. It waits for the disk.

use crate::JsonlError;
use config::JsonlWriterOptions;
use std::io;
use std::time::Duration;
use telemetry::Segment;
use time::OffsetDateTime;

/// The writing side of a directory of segments.
pub(crate) struct Pen {
    options: JsonlWriterOptions,
    open: Option<Open>,
    /// When the last segment was begun, as its name says.
    named: Option<OffsetDateTime>,
}

struct Open {
    segment: Segment,
    /// When its time is over, in microseconds since 1970.
    ends_unix_micros: Option<i64>,
}

impl Pen {
    /// A pen that has written nothing.
    pub fn new(options: JsonlWriterOptions) -> Pen {
        Pen { options, open: None, named: None }
    }

    /// Writes a line that ends with its newline. Success means that it is in the file, where a tailer can read it.
    pub fn write(&mut self, line: &[u8], now: OffsetDateTime) -> Result<(), JsonlError> {
        self.tend(now);
        self.append(line, now).map_err(|cause| self.failed(cause))?;
        if self.open.as_ref().is_some_and(|open| open.segment.uncompressed_bytes >= self.options.max_file_size) {
            self.finish_or_say();
        }
        Ok(())
    }

    /// Ends the segment whose time is over.
    pub fn tend(&mut self, now: OffsetDateTime) {
        if self.time_left(now).is_some_and(|left| left.is_zero()) {
            self.finish_or_say();
        }
    }

    /// How long the open segment still has.
    pub fn time_left(&self, now: OffsetDateTime) -> Option<Duration> {
        let ends = self.open.as_ref()?.ends_unix_micros?;
        Some(Duration::from_micros(u64::try_from(ends.saturating_sub(unix_micros(now))).unwrap_or(0)))
    }

    /// Ends the open segment, if there is one.
    pub fn finish(&mut self) -> Result<(), JsonlError> {
        match self.open.take().map(|mut open| open.segment.finish()) {
            Some(Err(cause)) => Err(self.failed(cause)),
            _ => Ok(()),
        }
    }

    /// The lines are written, so whoever wrote the last has nothing to do about it.
    pub fn finish_or_say(&mut self) {
        if let Err(error) = self.finish() {
            tracing::error!("cannot finish a segment: {error}");
        }
    }

    fn append(&mut self, line: &[u8], now: OffsetDateTime) -> io::Result<()> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.begin(now)?,
        };
        if let Err(error) = open.segment.write(line) {
            open.segment.discard_if_empty();
            return Err(error);
        }
        self.open = Some(open);
        Ok(())
    }

    fn begin(&mut self, now: OffsetDateTime) -> io::Result<Open> {
        let JsonlWriterOptions { log_dir, suffix, compression_level, .. } = &self.options;
        let affixes = ("", suffix.as_deref().unwrap_or(""));
        let segment = Segment::create(log_dir, affixes, *compression_level, now, &mut self.named)?;
        let end = |length: config::Duration| self.options.tz.stretch_end_unix_micros(unix_micros(now), length.get());
        Ok(Open { segment, ends_unix_micros: self.options.max_segment_duration.map(end) })
    }

    fn failed(&self, cause: io::Error) -> JsonlError {
        JsonlError::Write { dir: self.options.log_dir.clone(), cause }
    }
}

fn unix_micros(at: OffsetDateTime) -> i64 {
    i64::try_from(at.unix_timestamp_nanos() / 1000).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use time::macros::datetime;

    fn pen(dir: &Path) -> Pen {
        Pen::new(JsonlWriterOptions { log_dir: dir.to_owned(), ..Default::default() })
    }

    fn segments(dir: &Path) -> Vec<(String, bool, String)> {
        let mut found: Vec<_> = std::fs::read_dir(dir)
            .expect("a directory")
            .map(|entry| {
                let entry = entry.expect("an entry");
                let is_done = entry.metadata().expect("is there").permissions().readonly();
                let mut text = Vec::new();
                let packed = std::fs::File::open(entry.path()).expect("opens");
                let mut decoder = zstd::stream::read::Decoder::new(packed).expect("zstd");
                // One that is being written ends in the middle of its frame.
                let whole = io::copy(&mut decoder, &mut text).is_ok();
                assert_eq!(whole, is_done);
                (entry.file_name().into_string().expect("text"), is_done, String::from_utf8(text).expect("text"))
            })
            .collect();
        found.sort();
        found
    }

    #[test]
    fn a_segment_ends_with_its_stretch_of_time_in_the_zone() {
        let dir = tempfile::tempdir().expect("scratch");
        let mut pen = pen(dir.path());
        pen.options.max_segment_duration = Some(config::Duration::from_hours(1));
        pen.options.tz = "Asia/Kolkata".parse().expect("a zone");
        let first = datetime!(2026-08-04 12:20:00.5 UTC);
        pen.write(b"1\n", first).expect("writes");
        assert_eq!(pen.time_left(first), Some(Duration::from_millis(599_500)));
        pen.tend(datetime!(2026-08-04 12:29:59.999999 UTC));
        pen.write(b"2\n", datetime!(2026-08-04 12:29:59.999999 UTC)).expect("writes");
        pen.tend(datetime!(2026-08-04 12:30:00 UTC));
        assert_eq!(segments(dir.path()), [("20260804-122000.500000000".to_owned(), true, "1\n2\n".to_owned())]);
        pen.write(b"3\n", datetime!(2026-08-04 12:31:00 UTC)).expect("writes");
        pen.write(b"4\n", datetime!(2026-08-04 14:00:00 UTC)).expect("writes");
        let found = segments(dir.path());
        assert_eq!(found[1], ("20260804-123100.000000000".to_owned(), true, "3\n".to_owned()));
        assert_eq!(found[2].2, "4\n");
    }

    #[test]
    fn a_segment_ends_at_its_size_and_not_before() {
        let dir = tempfile::tempdir().expect("scratch");
        let mut pen = pen(dir.path());
        pen.options.max_file_size = 4;
        pen.options.suffix = Some(".jsonl".to_owned());
        let now = datetime!(2026-08-04 12:20:00 UTC);
        pen.write(b"12\n", now).expect("writes");
        assert!(!segments(dir.path())[0].1);
        pen.write(b"\n", now).expect("writes");
        pen.write(b"next\n", now).expect("writes");
        let found = segments(dir.path());
        assert_eq!(found[0], ("20260804-122000.000000000.jsonl".to_owned(), true, "12\n\n".to_owned()));
        assert_eq!(found[1], ("20260804-122000.000000001.jsonl".to_owned(), true, "next\n".to_owned()));
    }

    #[test]
    fn names_grow_when_the_clock_is_put_back() {
        let dir = tempfile::tempdir().expect("scratch");
        let mut pen = pen(dir.path());
        for now in [datetime!(2026-08-04 12:00:00 UTC), datetime!(2026-08-04 11:00:00 UTC)] {
            pen.write(b"1\n", now).expect("writes");
            pen.finish().expect("finishes");
        }
        let names: Vec<_> = segments(dir.path()).into_iter().map(|(name, ..)| name).collect();
        assert_eq!(names, ["20260804-120000.000000000", "20260804-120000.000000001"]);
    }

    #[test]
    fn a_line_that_cannot_be_written_is_an_error_and_the_next_begins_anew() {
        let dir = tempfile::tempdir().expect("scratch");
        let place = dir.path().join("logs");
        let mut pen = pen(&place);
        let now = datetime!(2026-08-04 12:00:00 UTC);
        assert!(matches!(pen.write(b"1\n", now), Err(JsonlError::Write { dir, .. }) if dir == place));
        std::fs::create_dir(&place).expect("makes");
        pen.write(b"2\n", now).expect("writes");
        pen.finish().expect("finishes");
        assert_eq!(segments(&place)[0].2, "2\n");
    }
}
