//! Records that are sent together.
//!
//! Owns [`Batch`], pure. In: lines, one after the other. Out: a body, and an id: the same for the same records of the same stream,
//! so that a receiver knows a batch that it had. A batch is full at its number of records or octets; one record that
//! is longer than a batch may be is a batch of its own.

use aws_lc_rs::digest;
use config::EventFormat;
use data_encoding::HEXLOWER;
use jsonl::Position;

/// Records on their way.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    limits: Limits,
    body: Vec<u8>,
    records: usize,
    octets: usize,
    oldest: Option<i64>,
}

/// How a batch is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Most records.
    pub records_max: usize,
    /// Most octets of records.
    pub octets_max: usize,
    /// How they are written.
    pub format: EventFormat,
}

impl Batch {
    /// An empty one.
    pub fn new(limits: Limits) -> Batch {
        let body = match limits.format {
            EventFormat::Json => vec![b'['],
            EventFormat::Ndjson => Vec::new(),
        };
        Batch { limits, body, records: 0, octets: 0, oldest: None }
    }

    /// Whether a record of so many octets has room; the first always.
    pub fn has_room(&self, octets: usize) -> bool {
        let Limits { records_max, octets_max, .. } = self.limits;
        self.records == 0 || (self.records < records_max && self.octets.saturating_add(octets) <= octets_max)
    }

    /// Adds a record, and when it happened in seconds since 1970.
    pub fn push(&mut self, line: &[u8], timestamp: Option<i64>) {
        if self.records > 0 && self.limits.format == EventFormat::Json {
            self.body.push(b',');
        }
        self.body.extend_from_slice(line);
        if self.limits.format == EventFormat::Ndjson {
            self.body.push(b'\n');
        }
        self.records += 1;
        self.octets += line.len();
        self.oldest = self.oldest.into_iter().chain(timestamp).min();
    }

    /// Whether nothing more goes in.
    pub fn is_full(&self) -> bool {
        self.records >= self.limits.records_max || self.octets >= self.limits.octets_max
    }

    /// Records.
    pub fn records(&self) -> usize {
        self.records
    }

    /// When the oldest of them happened, in seconds since 1970.
    pub fn oldest(&self) -> Option<i64> {
        self.oldest
    }

    /// Nothing more goes in: the body.
    pub fn finish(mut self) -> Vec<u8> {
        if self.limits.format == EventFormat::Json {
            self.body.push(b']');
        }
        self.body
    }
}

/// The id of the batch of stream `name` that begins behind `from` and ends with `to`.
pub(crate) fn id(name: &str, (from, to): (&Position, &Position), types: &[&str], format: EventFormat) -> String {
    let Position { file, line } = from;
    let text = format!("{name}\n{file}\n{line}\n{}\n{}\n{}\n{format}", to.file, to.line, types.join(","));
    HEXLOWER.encode(&digest::digest(&digest::SHA256, text.as_bytes()).as_ref()[..ID_OCTETS])
}

/// Octets of an id: enough that no two batches have the same.
const ID_OCTETS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(records_max: usize, octets_max: usize, format: EventFormat) -> Batch {
        Batch::new(Limits { records_max, octets_max, format })
    }

    #[test]
    fn a_batch_is_full_at_its_bounds_and_takes_one_record_whatever_its_size() {
        let mut by_count = batch(2, 100, EventFormat::Json);
        by_count.push(b"{}", None);
        assert!(!by_count.is_full() && by_count.has_room(98) && !by_count.has_room(99));
        by_count.push(b"{}", None);
        assert!(by_count.is_full() && !by_count.has_room(1));
        let mut by_octets = batch(9, 4, EventFormat::Json);
        assert!(by_octets.has_room(1000));
        by_octets.push(b"{}", None);
        assert!(!by_octets.is_full() && by_octets.has_room(2) && !by_octets.has_room(3));
        by_octets.push(b"{}", None);
        assert!(by_octets.is_full());
        let mut long = batch(9, 4, EventFormat::Json);
        long.push(b"12345", None);
        assert!(long.is_full() && !long.has_room(0));
    }

    #[test]
    fn bodies_are_arrays_or_lines() {
        for (format, none, one, two) in
            [(EventFormat::Json, "[]", "[1]", "[1,{\"a\":2}]"), (EventFormat::Ndjson, "", "1\n", "1\n{\"a\":2}\n")]
        {
            let mut batch = batch(9, 99, format);
            assert_eq!(batch.clone().finish(), none.as_bytes());
            batch.push(b"1", Some(7));
            assert_eq!((batch.clone().finish(), batch.oldest()), (one.as_bytes().to_vec(), Some(7)));
            batch.push(b"{\"a\":2}", Some(5));
            assert_eq!((batch.records(), batch.oldest()), (2, Some(5)));
            assert_eq!(batch.finish(), two.as_bytes());
        }
    }

    #[test]
    fn ids_are_those_of_the_same_records_alone() {
        let at = |line| Position { file: "a".into(), line };
        let first = id("s", (&at(0), &at(5)), &["Bounce"], EventFormat::Json);
        assert_eq!(first.len(), 32);
        assert_eq!(first, id("s", (&at(0), &at(5)), &["Bounce"], EventFormat::Json));
        for other in [
            id("t", (&at(0), &at(5)), &["Bounce"], EventFormat::Json),
            id("s", (&at(1), &at(5)), &["Bounce"], EventFormat::Json),
            id("s", (&at(0), &at(6)), &["Bounce"], EventFormat::Json),
            id("s", (&at(0), &at(5)), &[], EventFormat::Json),
            id("s", (&at(0), &at(5)), &["Bounce"], EventFormat::Ndjson),
        ] {
            assert_ne!(first, other);
        }
    }
}
