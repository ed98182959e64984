//! The records of a log that one consumer wants, one after the other.
//!
//! Owns [`Source`]. In: a [`Folder`], where to begin, and which types. Out: [`Got`]: the next record, which stays the next until it
//! is taken; a gap, which stays until it is accepted. What cannot be read is said once a segment, counted and passed over: a
//! consumer must not stop at one damaged line. It waits for the disk.

use crate::error::EventError;
use crate::streams::Folder;
use crate::wanted::{Head, Wanted};
use config::StreamFrom;
use jsonl::{Begin, JsonlError, Lines, Position, Read};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Reads for one consumer.
pub(crate) struct Source {
    lines: Lines,
    wanted: Wanted,
    /// Behind what was taken or passed over.
    at: Position,
    next: Option<Event>,
    gap: Option<Arc<str>>,
    /// Records of before are passed over until one is not; one that has no time is not.
    since: Option<i64>,
    skipped: u64,
    /// The segment of the last fault that was said.
    said: Option<Arc<str>>,
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// Where it stands.
    pub at: Position,
    /// When it happened, in seconds since 1970.
    pub timestamp: Option<i64>,
}

/// What there is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Got {
    /// A record: [`Source::text`], until [`Source::take`].
    Event(Event),
    /// Nothing that is wanted; more may be there.
    Passed,
    /// A segment that is gone, until [`Source::accept_gap`].
    Gap(Arc<str>),
    /// Nothing, for now.
    End,
}

impl Source {
    /// Begins to read.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn open(folder: &Folder, begin: &Start, wanted: Wanted) -> Result<Source, EventError> {
        let (begin, since) = match begin {
            Start::Behind(at) => (Begin::Behind(at.clone()), None),
            Start::From(StreamFrom::Start) => (Begin::Start, None),
            Start::From(StreamFrom::End) => (Begin::End, None),
            Start::From(StreamFrom::Time(since)) => (Begin::Since(written_after(*since)), Some(*since)),
        };
        let lines = Lines::open(&folder.log_dir, &folder.pattern(), begin)?;
        let at = lines.at();
        Ok(Source { lines, wanted, at, next: None, gap: None, since, skipped: 0, said: None })
    }

    /// What comes next; a bounded step.
    ///
    /// # Errors
    /// What keeps it from reading on. Called again it tries again.
    pub fn step(&mut self) -> Result<Got, EventError> {
        if let Some(gap) = &self.gap {
            return Ok(Got::Gap(gap.clone()));
        }
        if let Some(event) = &self.next {
            return Ok(Got::Event(event.clone()));
        }
        let read = self.lines.step()?;
        self.gap = self.lines.take_gap();
        if let Some(gap) = &self.gap {
            return Ok(Got::Gap(gap.clone()));
        }
        match read {
            Read::End => return Ok(Got::End),
            Read::Passed => {}
            Read::Fault(fault) => self.skip(&fault),
            Read::Line(at) => match Head::read(self.lines.text()) {
                Ok(head) => {
                    let is_early = self.since.is_some_and(|since| head.timestamp.is_some_and(|time| time < since));
                    if !is_early && self.wanted.has(&head) {
                        self.since = None;
                        let event = Event { at, timestamp: head.timestamp };
                        self.next = Some(event.clone());
                        return Ok(Got::Event(event));
                    }
                    if !is_early {
                        self.since = None;
                    }
                }
                Err(cause) => {
                    let fault = JsonlError::NotJson { file: (&*at.file).into(), line: at.line, cause };
                    self.skip(&fault);
                }
            },
        }
        self.at = self.lines.at();
        Ok(Got::Passed)
    }

    /// The line of the next record.
    pub fn text(&self) -> &[u8] {
        self.lines.text().trim_ascii()
    }

    /// The next record is done with.
    pub fn take(&mut self) {
        self.at = self.next.take().map_or_else(|| self.at.clone(), |event| event.at);
    }

    /// Goes on behind a gap.
    pub fn accept_gap(&mut self) {
        self.gap = None;
    }

    /// Behind what was taken or passed over.
    pub fn at(&self) -> &Position {
        &self.at
    }

    /// Whether it still looks for the first record of its time.
    pub fn is_seeking(&self) -> bool {
        self.since.is_some()
    }

    /// Whether it reads over what it had.
    pub fn is_returning(&self) -> bool {
        self.lines.is_returning()
    }

    /// Lines that could not be read since the last call.
    pub fn take_skipped(&mut self) -> u64 {
        std::mem::take(&mut self.skipped)
    }

    /// Other records are wanted from here on.
    pub fn want(&mut self, wanted: Wanted) {
        self.wanted = wanted;
    }

    /// Looks which segment comes next: see [`Lines::look_ahead`].
    pub fn look_ahead(&mut self) -> Result<(), EventError> {
        Ok(self.lines.look_ahead()?)
    }

    /// Before the first record there is.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn oldest(&self) -> Result<Position, EventError> {
        let oldest = self.lines.oldest()?;
        Ok(oldest.map_or_else(Position::before_all, |file| Position { file, line: 0 }))
    }

    fn skip(&mut self, fault: &JsonlError) {
        self.skipped += 1;
        let segment = self.lines.at().file;
        if self.said.as_ref() != Some(&segment) {
            tracing::warn!("events: {fault}; passed over, as all that cannot be read in that segment");
            self.said = Some(segment);
        }
    }
}

/// Where a consumer begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// Behind what it had.
    Behind(Position),
    /// It had nothing.
    From(StreamFrom),
}

/// A segment that was written last before this has no record of that second or later.
fn written_after(since: i64) -> SystemTime {
    // File systems keep times to two seconds at worst.
    let seconds = u64::try_from(since.saturating_sub(2)).unwrap_or(0);
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).unwrap_or(SystemTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::segment;
    use config::RecordKey;

    fn folder(dir: &std::path::Path) -> Folder {
        Folder { log_dir: dir.to_owned(), suffix: String::new() }
    }

    /// The texts of all records there are now.
    fn rest(source: &mut Source) -> Vec<String> {
        let mut found = Vec::new();
        loop {
            match source.step().expect("readable") {
                Got::End => return found,
                Got::Passed => {}
                Got::Gap(segment) => {
                    assert_eq!(source.step().expect("readable"), Got::Gap(segment.clone()), "until it is accepted");
                    source.accept_gap();
                    found.push(format!("gap {segment}"));
                }
                Got::Event(event) => {
                    assert_eq!(source.step().expect("readable"), Got::Event(event.clone()), "until it is taken");
                    assert!(*source.at() < event.at);
                    found.push(String::from_utf8_lossy(source.text()).into_owned());
                    source.take();
                    assert_eq!(*source.at(), event.at);
                }
            }
        }
    }

    #[test]
    fn records_are_those_that_are_wanted_from_their_time_on() {
        let dir = tempfile::tempdir().expect("scratch");
        let now = 1_795_575_600;
        let line = |kind: &str, time: i64| format!("{{\"type\":\"{kind}\",\"timestamp\":{time}}}");
        let [early, odd, bounce, late] =
            [line("Delivery", now - 5), line("Bounce", now - 5), line("Bounce", now), line("Delivery", now - 1)];
        segment(dir.path(), "20261125-030000.000000001", &format!("{early}\nno json\n{odd}\n{bounce}\n{late}\n"));
        segment(dir.path(), "20261125-030000.000000002-other", &format!("{bounce}\n"));
        let folder = folder(dir.path());
        let open =
            |from, types: &[RecordKey]| Source::open(&folder, &Start::From(from), Wanted::of(types)).expect("opens");
        let mut all = open(StreamFrom::Start, &[]);
        assert_eq!(rest(&mut all), [early.clone(), odd.clone(), bounce.clone(), late.clone()]);
        assert_eq!((all.take_skipped(), all.take_skipped()), (1, 0));
        assert_eq!(rest(&mut open(StreamFrom::Start, &[RecordKey::Bounce])), [odd, bounce.clone()]);
        assert_eq!(rest(&mut open(StreamFrom::End, &[])), [""; 0]);
        let mut since = open(StreamFrom::Time(now), &[]);
        assert!(since.is_seeking());
        assert_eq!(rest(&mut since), [bounce, late.clone()], "from the first on");
        assert_eq!(rest(&mut open(StreamFrom::Time(now), &[RecordKey::Delivery])), [late]);
        assert!(!since.is_seeking());
    }

    #[test]
    fn a_gap_is_told_before_what_is_behind_it() {
        let dir = tempfile::tempdir().expect("scratch");
        segment(dir.path(), "20261125-030000.000000002", "{\"n\":2}\n");
        let at = Position { file: "20261125-030000.000000001".into(), line: 7 };
        let mut source =
            Source::open(&folder(dir.path()), &Start::Behind(at.clone()), Wanted::default()).expect("opens");
        assert!(matches!(source.step().expect("readable"), Got::Gap(_)));
        assert_eq!(*source.at(), at, "still before it");
        assert_eq!(rest(&mut source), ["gap 20261125-030000.000000001", "{\"n\":2}"]);
        assert_eq!(source.oldest().expect("readable"), Position { file: "20261125-030000.000000002".into(), line: 0 });
    }
}
