//! One consumer of a tailer: what it keeps until its batch is ready.
//!
//! Owns [`Consumer`]. In: records it is to keep, and the positions of those it is not. Out: a [`Batch`] when that is full,
//! or its time has come. It does not read, does not filter, and is told the time.

use crate::batch::Batch;
use crate::checkpoint::{Checkpoint, Position};
use config::JsonlConsumerOptions;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A batch is full when its lines have this many octets, whatever `max_batch_size` says: it is in memory at once.
pub const BATCH_OCTETS_MAX: usize = 64 * 1024 * 1024;

/// What one consumer has so far.
pub(crate) struct Consumer {
    name: Arc<str>,
    size_max: usize,
    latency: Duration,
    checkpoint: Option<Arc<Checkpoint>>,
    /// The last record it was asked about.
    seen: Option<Position>,
    records: Vec<Arc<Value>>,
    octets: usize,
    octets_max: usize,
    /// When its first record's time is over.
    due: Option<Instant>,
}

impl Consumer {
    /// A consumer that begins behind `seen`.
    pub fn new(options: JsonlConsumerOptions, checkpoint: Option<Arc<Checkpoint>>, seen: Option<Position>) -> Consumer {
        Consumer {
            name: options.name.into(),
            size_max: options.max_batch_size,
            latency: options.max_batch_latency.get(),
            checkpoint,
            seen,
            records: Vec::new(),
            octets: 0,
            octets_max: BATCH_OCTETS_MAX,
            due: None,
        }
    }

    /// What it has been asked about already.
    pub fn seen(&self) -> Option<&Position> {
        self.seen.as_ref()
    }

    /// True when the record at `at` is news to it.
    pub fn wants(&self, at: &Position) -> bool {
        self.seen.as_ref().is_none_or(|seen| seen < at)
    }

    /// The record at `at` is not for it.
    pub fn pass(&mut self, at: &Position) {
        self.seen = Some(at.clone());
    }

    /// The record at `at` is for it; its line has so many octets.
    pub fn keep(&mut self, at: &Position, record: Arc<Value>, octets: usize, now: Instant) {
        self.pass(at);
        if self.records.is_empty() {
            // Without a due time it waits until it is full.
            self.due = now.checked_add(self.latency);
        }
        self.records.push(record);
        self.octets += octets;
    }

    /// When its batch is ready if nothing more comes.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// True when a batch is ready.
    pub fn is_ready(&self, now: Instant) -> bool {
        self.records.len() >= self.size_max || self.octets >= self.octets_max || self.due.is_some_and(|due| due <= now)
    }

    /// The batch, if there is a record in it.
    pub fn take(&mut self) -> Option<Batch> {
        let at = self.seen.clone().filter(|_| !self.records.is_empty())?;
        self.due = None;
        self.octets = 0;
        let records = std::mem::take(&mut self.records);
        Some(Batch::new(self.name.clone(), records, at, self.checkpoint.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: u64) -> Position {
        Position { file: "a".into(), line }
    }

    fn consumer(size_max: usize) -> Consumer {
        let options = JsonlConsumerOptions { name: "one".to_owned(), max_batch_size: size_max, ..Default::default() };
        Consumer::new(options, None, None)
    }

    #[test]
    fn a_batch_is_ready_when_it_is_full_and_not_before() {
        let now = Instant::now();
        let mut one = consumer(3);
        for line in 1..=2 {
            one.keep(&at(line), Arc::new(line.into()), 10, now);
        }
        assert!(!one.is_ready(now));
        one.keep(&at(3), Arc::new(3.into()), 10, now);
        assert!(one.is_ready(now));
        assert_eq!(one.take().expect("full").records().len(), 3);
        assert!(!one.is_ready(now) && one.take().is_none());
    }

    #[test]
    fn or_when_its_octets_are_at_the_bound() {
        let now = Instant::now();
        let mut one = consumer(100);
        one.keep(&at(1), Arc::new(1.into()), BATCH_OCTETS_MAX - 1, now);
        assert!(!one.is_ready(now));
        one.keep(&at(2), Arc::new(2.into()), 1, now);
        assert!(one.is_ready(now));
        assert!(one.take().is_some());
        one.keep(&at(3), Arc::new(3.into()), 1, now);
        assert!(!one.is_ready(now));
    }

    #[test]
    fn or_when_its_first_records_time_is_over() {
        let now = Instant::now();
        let mut one = consumer(100);
        assert_eq!(one.due(), None);
        one.keep(&at(1), Arc::new(1.into()), 1, now);
        one.keep(&at(2), Arc::new(2.into()), 1, now + Duration::from_millis(900));
        assert_eq!(one.due(), Some(now + Duration::from_secs(1)));
        assert!(!one.is_ready(now + Duration::from_millis(999)) && one.is_ready(now + Duration::from_secs(1)));
    }

    #[test]
    fn what_it_was_asked_about_is_no_news() {
        let mut one = consumer(100);
        assert!(one.wants(&at(1)));
        one.pass(&at(1));
        assert!(!one.wants(&at(1)) && one.wants(&at(2)));
        assert!(one.take().is_none(), "nothing was kept");
    }
}
