//! All records about one message.

use crate::bound::Bound;
use crate::head::Head;
use crate::places::{Found, Place, parts, segments};
use crate::receptions::{ENDS, RECEIVED, Reception};
use jsonl::{JsonlError, Part};
use std::collections::BTreeSet;
use std::ops::Range;
use telemetry::{Block, Key};
use time::{Duration, OffsetDateTime};

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it happened.
    pub at: OffsetDateTime,
    /// Its type.
    pub kind: String,
    /// Its JSON.
    pub line: String,
}

/// What happened to a message, in the order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// Its records.
    pub records: Vec<Record>,
    /// There are more than [`RECORDS_MAX`]: the last are missing.
    pub is_cut: bool,
    /// Segments that were not read.
    pub unread: Vec<String>,
}

impl Record {
    pub(crate) fn of(head: &Head<'_>, line: &[u8]) -> Record {
        let kind = head.kind.clone().into_owned();
        Record { at: head.at(), kind, line: String::from_utf8_lossy(line).into_owned() }
    }

    /// Whether it says that the message is no longer ours.
    pub fn is_end(&self) -> bool {
        ENDS.contains(&self.kind.as_str())
    }

    /// What it says of a message that was received.
    pub fn reception(&self) -> Option<Reception> {
        Head::read(self.line.as_bytes()).filter(|head| RECEIVED.contains(&&*head.kind)).map(|head| Reception::of(&head))
    }
}

/// What happened to the message with that id, which was made at `created`, when that is known: logs of before are not looked at.
///
/// # Errors
/// A directory cannot be read. A segment that cannot is passed over and named.
pub fn timeline(places: &[Place], id: &str, created: Option<OffsetDateTime>) -> Result<Timeline, JsonlError> {
    let mut bound = Bound::new();
    let mut records: Vec<Record> = Vec::new();
    read_records(places, (&BTreeSet::from([id]), created), &mut bound, |head, line| {
        records.push(Record::of(head, line));
        records.len() <= RECORDS_MAX
    })?;
    let is_cut = records.len() > RECORDS_MAX;
    records.truncate(RECORDS_MAX);
    records.sort_by_key(|record| record.at);
    // Two loggers may have written the same.
    records.dedup();
    Ok(Timeline { records, is_cut, unread: bound.unread() })
}

/// Shows each record about any of some messages, in no order, until it is told to stop. What it had no time for is unread.
pub(crate) fn read_records(
    places: &[Place],
    (ids, since): (&BTreeSet<&str>, Option<OffsetDateTime>),
    bound: &mut Bound,
    mut show: impl FnMut(&Head<'_>, &[u8]) -> bool,
) -> Result<(), JsonlError> {
    let keys: Vec<Key> = ids.iter().map(|id| Key::id(id)).collect();
    let has_any = |block: &Block<'_>| keys.iter().any(|key| block.may_have(*key));
    let mut goes_on = true;
    for segment in segments(places, since.map(|since| since - CLOCKS_DIFFER))? {
        if bound.is_over() {
            bound.pass_over(&segment.name);
            continue;
        }
        for part in parts(&segment, has_any, bound) {
            let read = read(&segment, part, ids, |head, line| {
                goes_on = show(head, line);
                goes_on
            });
            if let Err(error) = read {
                tracing::debug!("{error}");
                bound.pass_over(&segment.name);
            }
            if !goes_on {
                return Ok(());
            }
            if bound.is_over() {
                bound.pass_over(&segment.name);
                break;
            }
        }
    }
    Ok(())
}

/// Shows each record of a part that is about one of the messages, until it is told to stop.
fn read(
    segment: &Found,
    part: Range<u64>,
    ids: &BTreeSet<&str>,
    mut show: impl FnMut(&Head<'_>, &[u8]) -> bool,
) -> Result<(), JsonlError> {
    let finder = memchr::memmem::Finder::new(ID_BEGINS);
    let mut part = Part::open(&segment.path, part)?;
    while let Some((_, line)) = part.next_line()? {
        // Reading JSON costs far more than looking for a text.
        let rest = finder.find(line).map(|at| &line[at + ID_BEGINS.len()..]);
        let id = rest.and_then(|rest| rest.split(|octet| *octet == b'"').next()).and_then(|id| str::from_utf8(id).ok());
        let head = id.filter(|id| ids.contains(id)).and_then(|_| Head::read(line));
        let Some(head) = head.filter(|head| ids.contains(&*head.id)) else { continue };
        if !show(&head, line) {
            break;
        }
    }
    Ok(())
}

/// In front of the id in the JSON of a record, where it stands before all else that may look like it.
const ID_BEGINS: &[u8] = br#""id":""#;
/// Records of a message that are told at most.
pub const RECORDS_MAX: usize = 1000;
/// A message's id may have been made by another node, and clocks are set back.
const CLOCKS_DIFFER: Duration = Duration::minutes(5);
