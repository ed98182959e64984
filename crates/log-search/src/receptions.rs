//! Messages that were received for a recipient or from a sender, the newest first, and what became of each.
//!
//! A message is told where its `Reception` stands, so each comes once however many records speak of it.

use crate::bound::Bound;
use crate::cursor::Cursor;
use crate::head::Head;
use crate::places::{Found, Place, parts, segments};
use crate::timeline::{Record, records};
use jsonl::{JsonlError, Part};
use std::collections::BTreeMap;
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
    let keys: Vec<Key> = (asked.recipient.iter().map(|address| Key::recipient(address)))
        .chain(asked.sender.iter().map(|address| Key::sender(address)))
        .collect();
    let (mut bound, mut frames) = (Bound::new(), 0);
    let mut told = Receptions::default();
    'all: for segment in segments(places, None)?.iter().rev() {
        if asked.before.as_ref().is_some_and(|before| (&before.segment, before.place) < (&segment.name, segment.place))
        {
            continue;
        }
        let has_all = |block: &Block<'_>| keys.iter().all(|key| block.may_have(*key));
        for part in parts(segment, has_all, &mut bound).into_iter().rev() {
            let Some(offset_max) = offset_max(asked, segment, &part) else { continue };
            frames += 1;
            let read = match read(segment, part.clone(), asked, offset_max) {
                Ok(read) => read,
                Err(error) => {
                    tracing::debug!("{error}");
                    bound.pass_over(&segment.name);
                    continue;
                }
            };
            let here =
                |offset| Cursor { segment: segment.name.clone(), place: segment.place, frame: part.start, offset };
            for (offset, reception) in read.into_iter().rev() {
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

/// What became of messages, given when they were received: of each the last record of an end, by its id.
///
/// # Errors
/// As [`receptions`].
pub fn ends(places: &[Place], ids: &[(String, OffsetDateTime)]) -> Result<BTreeMap<String, Record>, JsonlError> {
    let since = ids.iter().map(|(_, at)| *at).min();
    let ids = ids.iter().map(|(id, _)| id.as_str()).collect();
    let is_end = |head: &Head<'_>| ENDS.contains(&&*head.kind);
    let (found, _) = records(places, (&ids, since), &mut Bound::new(), is_end)?;
    let mut ends: BTreeMap<String, Record> = BTreeMap::new();
    for (id, record) in found {
        if ends.get(&id).is_none_or(|former| former.at <= record.at) {
            ends.insert(id, record);
        }
    }
    Ok(ends)
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

fn read(
    segment: &Found,
    part: Range<u64>,
    asked: &Asked,
    offset_max: u64,
) -> Result<Vec<(u64, Reception)>, JsonlError> {
    let finder = memchr::memmem::Finder::new(br#""Reception""#);
    let mut part = Part::open(&segment.path, part)?;
    let mut found = Vec::new();
    while let Some((offset, line)) = part.next_line()?.filter(|(offset, _)| *offset < offset_max) {
        let head = finder.find(line).and_then(|_| Head::read(line));
        let is_wanted = |head: &Head<'_>| {
            head.kind == "Reception"
                && asked.recipient.as_ref().is_none_or(|recipient| head.is_for(recipient))
                && asked.sender.as_ref().is_none_or(|sender| head.sender.eq_ignore_ascii_case(sender))
        };
        let Some(head) = head.filter(is_wanted) else { continue };
        found.push((offset, Reception::of(&head)));
    }
    Ok(found)
}

/// Frames that a question reads at most.
pub const FRAMES_MAX: usize = 64;
/// Records that say a message is no longer ours.
pub(crate) const ENDS: [&str; 5] = ["Delivery", "Bounce", "AdminBounce", "Expiration", "XferOut"];
