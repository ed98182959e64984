//! Where segments are, and which parts of them may speak of what is asked for.
//!
//! In: directories. Out: their segments in the order of time, and parts of a segment to read. Reads indexes; what an index does not
//! speak of is a part to read, if [`Bound`] allows it.

use crate::bound::Bound;
use jsonl::JsonlError;
use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use telemetry::{Block, Blocks, index_name};
use time::OffsetDateTime;
use time::macros::format_description;

/// A directory of segments, as one logger writes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The directory.
    pub dir: PathBuf,
    /// What names of segments match (a glob).
    pub pattern: String,
}

/// A segment; those begun first come first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Found {
    /// Its name begins with the time it was begun.
    pub name: String,
    /// The number of its place.
    pub place: usize,
    pub path: PathBuf,
}

/// The segments of all places, oldest first. With a time, without those that were over before.
pub(crate) fn segments(places: &[Place], since: Option<OffsetDateTime>) -> Result<Vec<Found>, JsonlError> {
    let mut found = Vec::new();
    for (place, Place { dir, pattern }) in places.iter().enumerate() {
        let names = match jsonl::segments(dir, pattern) {
            // Made when its logger begins.
            Err(JsonlError::Directory { cause, .. }) if cause.kind() == std::io::ErrorKind::NotFound => continue,
            names => names?,
        };
        // The one that was written at that time was begun before.
        let first = since.map_or(0, |since| names.partition_point(|name| **name <= *name_at(since)).saturating_sub(1));
        found.extend(names.into_iter().skip(first).map(|name| Found { path: dir.join(&name), name, place }));
    }
    found.sort_unstable();
    Ok(found)
}

/// The parts of a segment that may speak of what is asked for, in order: frames that are wanted, and what is not indexed.
pub(crate) fn parts(segment: &Found, is_wanted: impl Fn(&Block<'_>) -> bool, bound: &mut Bound) -> Vec<Range<u64>> {
    // Without an index all of it is behind the last block.
    let index = fs::read(segment.path.with_file_name(index_name(&segment.name))).unwrap_or_default();
    let mut blocks = Blocks::of(&index);
    let mut parts: Vec<Range<u64>> = blocks.by_ref().filter(is_wanted).map(|block| block.frame).collect();
    let rest = fs::metadata(&segment.path).map_or(0, |file| file.len()).saturating_sub(blocks.end());
    if rest > 0 && bound.allows(rest, &segment.name) {
        parts.push(blocks.end()..u64::MAX);
    }
    parts
}

fn name_at(at: OffsetDateTime) -> String {
    let format = format_description!("[year][month][day]-[hour][minute][second].[subsecond digits:9]");
    // Every component exists in a date with time, so formatting cannot fail.
    at.to_offset(time::UtcOffset::UTC).format(&format).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::datetime;

    #[test]
    fn segments_of_all_places_come_in_the_order_of_time_and_early_ones_not_at_all() {
        let dirs = [tempfile::tempdir().expect("scratch"), tempfile::tempdir().expect("scratch")];
        let write = |place: usize, name: &str| fs::write(dirs[place].path().join(name), "").expect("writes");
        for name in ["20261125-010000.000000000", "20261125-020000.000000000", "20261125-040000.000000000"] {
            write(0, name);
        }
        write(1, "20261125-030000.000000000");
        write(1, ".20261125-030000.000000000.index");
        let mut places: Vec<Place> =
            dirs.iter().map(|dir| Place { dir: dir.path().to_owned(), pattern: "[0-9]*".to_owned() }).collect();
        places.push(Place { dir: dirs[0].path().join("gone"), pattern: "*".to_owned() });
        let hours = |since| -> Vec<String> {
            segments(&places, since).expect("readable").iter().map(|found| found.name[9..11].to_owned()).collect()
        };
        assert_eq!(hours(None), ["01", "02", "03", "04"]);
        assert_eq!(hours(Some(datetime!(2026-11-25 02:30 UTC))), ["02", "03", "04"]);
        assert_eq!(hours(Some(datetime!(2026-11-25 02:00 UTC))), ["02", "03", "04"]);
        assert_eq!(hours(Some(datetime!(2026-11-25 23:00 UTC))), ["03", "04"], "the last of each may be written yet");
        assert_eq!(hours(Some(datetime!(2026-11-24 23:00 UTC))), ["01", "02", "03", "04"]);
    }
}
