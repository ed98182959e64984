//! Records that a log does not take because they are too long: said at most once a minute, with how many there were.
//!
//! Owns [`TooLarge`]. In: each of them, and the time. Out: the line for the operator, when one is due; never what is in the record.

use record::LogRecord;
use std::fmt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Those of one logger.
#[derive(Default)]
pub(crate) struct TooLarge(Mutex<Untold>);

#[derive(Default)]
struct Untold {
    count: u64,
    /// When something was said.
    told: Option<Instant>,
}

/// What there is to say.
pub(crate) struct News<'a> {
    count: u64,
    octets: usize,
    octets_max: usize,
    last: &'a LogRecord,
    dir: &'a Path,
}

impl TooLarge {
    /// One of so many octets more, which the log in `dir` drops.
    pub fn note<'a>(
        &self,
        now: Instant,
        last: &'a LogRecord,
        octets: usize,
        log: (&'a Path, usize),
    ) -> Option<News<'a>> {
        let mut untold = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        untold.count += 1;
        if untold.told.is_some_and(|told| now.duration_since(told) < BETWEEN) {
            return None;
        }
        untold.told = Some(now);
        let (dir, octets_max) = log;
        Some(News { count: std::mem::take(&mut untold.count), octets, octets_max, last, dir })
    }
}

impl fmt::Display for News<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let News { count, octets, octets_max, last, dir } = self;
        let dir = dir.display();
        write!(f, "log_dir {dir}: {count} records are dropped, as max_record_size is {octets_max}; the last one: ")?;
        write!(f, "{} of message {}, {octets} octets", last.kind, last.id)
    }
}

/// From one line to the next.
const BETWEEN: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use record::{RecordType, Response, Timestamp};

    #[test]
    fn they_are_told_of_once_a_minute_with_their_number() {
        let at = Timestamp::from_unix_micros(1);
        let mut record = LogRecord::new(RecordType::Bounce, at, at, Response::new(550, None, "secret"));
        record.id = "one".to_owned();
        let (dropped, begin) = (TooLarge::default(), Instant::now());
        let note = |secs| {
            let now = begin + Duration::from_secs(secs);
            dropped.note(now, &record, 7, (Path::new("/l"), 6)).map(|news| news.to_string())
        };
        let line = |count| {
            format!(
                "log_dir /l: {count} records are dropped, as max_record_size is 6; the last one: Bounce of message one, 7 octets"
            )
        };
        assert_eq!([note(0), note(1), note(59), note(60), note(61)], [Some(line(1)), None, None, Some(line(3)), None]);
    }
}
