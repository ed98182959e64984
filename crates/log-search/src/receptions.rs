//! Messages that were received for a recipient or from a sender, the newest first, and what became of each.
//!
//! A message is told where its `Reception` stands, or its `XferIn`, so each comes once however many records speak of it.

use crate::bound::Bound;
use crate::cursor::Cursor;
use crate::head::Head;
use crate::places::{Found, Place, parts, segments};
use crate::timeline::{Record, read_records};
use jsonl::{JsonlError, Part};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use telemetry::{Block, Key};
use time::OffsetDateTime;

/// What is asked; both must agree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// The recipient's address.
    pub recipient: Option<String>,
    /// The sender's address.
    pub sender: Option<String>,
    /// How many messages at most.
    pub limit: usize,
    /// Before which message.
    pub before: Option<Cursor>,
}

/// A message as it was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reception {
    /// Its id, 32 hexadecimal digits.
    pub id: String,
    /// Who it is from.
    pub sender: String,
    /// Who it is for.
    pub recipients: Vec<String>,
    /// Its queue at that time.
    pub queue: String,
    /// Octets.
    pub size: u64,
    /// When it was received.
    pub at: OffsetDateTime,
}

/// Messages, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receptions {
    /// They.
    pub found: Vec<Reception>,
    /// Where to go on, when there may be more.
    pub next: Option<Cursor>,
    /// Segments that were not read.
    pub unread: Vec<String>,
}

impl Reception {
    pub(crate) fn of(head: &Head<'_>) -> Reception {
        Reception {
            id: head.id.clone().into_owned(),
            sender: head.sender.clone().into_owned(),
            recipients: head.recipients().map(str::to_owned).collect(),
            queue: head.queue.clone().into_owned(),
            size: head.size,
            at: head.at(),
        }
    }
}

/// Messages that were received. It ends at the limit, and behind [`FRAMES_MAX`] frames: then there may be more.
///
/// # Errors
/// A directory cannot be read. A segment that cannot is passed over and named.
pub fn receptions(places: &[Place], asked: &Asked) -> Result<Receptions, JsonlError> {
    // The index knows nothing of what is empty: whoever looks for the null sender reads everything.
    let keys: Vec<Key> =
        (asked.recipient.iter().filter(|address| !address.is_empty()).map(|address| Key::recipient(address)))
            .chain(asked.sender.iter().filter(|address| !address.is_empty()).map(|address| Key::sender(address)))
            .collect();
    let (mut bound, mut frames) = (Bound::new(), 0);
    let mut told = Receptions::default();
    'all: for segment in segments(places, None)?.iter().rev() {
        if asked.before.as_ref().is_some_and(|before| (&before.segment, before.place) < (&segment.name, segment.place))
        {
            continue;
        }
        if bound.is_over() {
            // All of it is before this.
            told.next =
                Some(Cursor { segment: segment.name.clone(), place: segment.place, frame: u64::MAX, offset: 0 });
            break;
        }
        let has_all = |block: &Block<'_>| keys.iter().all(|key| block.may_have(*key));
        for part in parts(segment, has_all, &mut bound).into_iter().rev() {
            let Some(offset_max) = offset_max(asked, segment, &part) else { continue };
            frames += 1;
            let (found, whole) = read(segment, part.clone(), (asked, offset_max), asked.limit - told.found.len());
            if let Err(error) = whole {
                tracing::debug!("{error}");
                bound.pass_over(&segment.name);
            }
            let here =
                |offset| Cursor { segment: segment.name.clone(), place: segment.place, frame: part.start, offset };
            for (offset, reception) in found.into_iter().rev() {
                told.found.push(reception);
                told.next = Some(here(offset));
                if told.found.len() >= asked.limit {
                    break 'all;
                }
            }
            told.next = Some(here(0));
            if frames >= FRAMES_MAX {
                break 'all;
            }
        }
        // Nothing is left, unless it is said above.
        told.next = None;
    }
    told.unread = bound.unread();
    Ok(told)
}

/// What became of messages, given when they were received: of each the last record of an end, by its id; and the segments that
/// were not read.
///
/// # Errors
/// As [`receptions`].
pub fn ends(
    places: &[Place],
    ids: &[(String, OffsetDateTime)],
) -> Result<(BTreeMap<String, Record>, Vec<String>), JsonlError> {
    let since = ids.iter().map(|(_, at)| *at).min();
    let ids = ids.iter().map(|(id, _)| id.as_str()).collect();
    let mut bound = Bound::new();
    let mut ends: BTreeMap<String, Record> = BTreeMap::new();
    read_records(places, (&ids, since), &mut bound, |head, line| {
        let is_later = || ends.get(&*head.id).is_none_or(|former| former.at <= head.at());
        if ENDS.contains(&&*head.kind) && is_later() {
            ends.insert(head.id.clone().into_owned(), Record::of(head, line));
        }
        true
    })?;
    Ok((ends, bound.unread()))
}

/// Up to where records of a part are wanted, in octets of its text; none when none of it is.
fn offset_max(asked: &Asked, segment: &Found, part: &Range<u64>) -> Option<u64> {
    let Some(before) =
        asked.before.as_ref().filter(|before| (&before.segment, before.place) == (&segment.name, segment.place))
    else {
        return Some(u64::MAX);
    };
    // A frame that was not over then may be now; it begins where it did.
    match part.start.cmp(&before.frame) {
        std::cmp::Ordering::Less => Some(u64::MAX),
        std::cmp::Ordering::Equal => Some(before.offset).filter(|offset| *offset > 0),
        std::cmp::Ordering::Greater => None,
    }
}

/// The last `count_max` of a part that are wanted, each with its place; and whether all of it could be read.
fn read(
    segment: &Found,
    part: Range<u64>,
    (asked, offset_max): (&Asked, u64),
    count_max: usize,
) -> (VecDeque<(u64, Reception)>, Result<(), JsonlError>) {
    let finders = RECEIVED.map(|kind| memchr::memmem::Finder::new(kind.as_bytes()));
    let mut found = VecDeque::new();
    let mut part = match Part::open(&segment.path, part) {
        Ok(part) => part,
        Err(error) => return (found, Err(error)),
    };
    loop {
        let (offset, line) = match part.next_line() {
            Ok(Some((offset, line))) if offset < offset_max => (offset, line),
            Ok(_) => return (found, Ok(())),
            Err(error) => return (found, Err(error)),
        };
        let may_be = finders.iter().any(|finder| finder.find(line).is_some());
        let head = may_be.then(|| Head::read(line)).flatten();
        let is_wanted = |head: &Head<'_>| {
            RECEIVED.contains(&&*head.kind)
                && asked.recipient.as_ref().is_none_or(|recipient| head.is_for(recipient))
                && asked.sender.as_ref().is_none_or(|sender| head.sender.eq_ignore_ascii_case(sender))
        };
        let Some(head) = head.filter(is_wanted) else { continue };
        found.push_back((offset, Reception::of(&head)));
        if found.len() > count_max {
            found.pop_front();
        }
    }
}

/// Frames that a question reads at most.
pub const FRAMES_MAX: usize = 64;
/// Records that say a message is ours now.
pub(crate) const RECEIVED: [&str; 2] = ["Reception", "XferIn"];
/// Records that say a message is no longer ours.
pub(crate) const ENDS: [&str; 5] = ["Delivery", "Bounce", "AdminBounce", "Expiration", "XferOut"];
