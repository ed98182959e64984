//! A period that a report covers: a day of UTC, or a part of one.
//!
//! In: a moment, a length. Out: when it began and ends, and both as reports write them. Periods begin at multiples of their
//! length since 1970, so that all nodes and all runs of the program have the same ones. Cannot fail.

use time::OffsetDateTime;
use time::format_description::well_known::{Rfc2822, Rfc3339};

/// Seconds since 1970 from its first to behind its last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Period {
    begin_secs: i64,
    length_secs: u32,
}

impl Period {
    /// The one that a moment is in; a length of 0 is one of a second.
    pub fn at(now_secs: i64, length_secs: u32) -> Period {
        let length_secs = length_secs.max(1);
        Period { begin_secs: now_secs - now_secs.rem_euclid(i64::from(length_secs)), length_secs }
    }

    /// Its first second.
    pub fn begin_secs(self) -> i64 {
        self.begin_secs
    }

    /// How long it is.
    pub fn length_secs(self) -> u32 {
        self.length_secs
    }

    /// The first second that is not in it.
    pub fn end_secs(self) -> i64 {
        self.begin_secs + i64::from(self.length_secs)
    }

    /// Its last second, as reports have it.
    pub fn last_secs(self) -> i64 {
        self.end_secs() - 1
    }

    /// When the report about `domain` is due: somewhere within `spread_secs` of its end, always at the same place for one
    /// domain, so that a receiver is not told by everybody at midnight.
    pub fn due_secs(self, domain: &str, spread_secs: u32) -> i64 {
        let hash = domain.bytes().fold(FNV_OFFSET, |hash, octet| (hash ^ u64::from(octet)).wrapping_mul(FNV_PRIME));
        self.end_secs() + (hash % u64::from(spread_secs.max(1))) as i64
    }
}

/// A moment as JSON has it (RFC 3339).
pub(crate) fn rfc3339(secs: i64) -> String {
    moment(secs).format(&Rfc3339).unwrap_or_default()
}

/// A moment as header fields have it (RFC 5322).
pub(crate) fn rfc5322(secs: i64) -> String {
    moment(secs).format(&Rfc2822).unwrap_or_default()
}

fn moment(secs: i64) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(secs).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// FNV-1a: any hash that is the same in every run.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_utc() {
        let day = Period::at(1_795_600_000, 86_400);
        assert_eq!(
            (rfc3339(day.begin_secs()), rfc3339(day.last_secs())),
            ("2026-11-25T00:00:00Z".to_owned(), "2026-11-25T23:59:59Z".to_owned())
        );
        assert_eq!(Period::at(day.end_secs(), 86_400).begin_secs(), day.end_secs());
        assert_eq!(Period::at(day.last_secs(), 86_400), day);
        assert_eq!(rfc5322(day.begin_secs()), "Wed, 25 Nov 2026 00:00:00 +0000");
        assert_eq!(Period::at(-1, 60).begin_secs(), -60);
    }

    #[test]
    fn reports_are_spread_and_each_has_its_place() {
        let day = Period::at(0, 86_400);
        let due: Vec<i64> = (0..1000).map(|n| day.due_secs(&format!("d{n}.test"), 3600)).collect();
        assert!(due.iter().all(|due| (86_400..90_000).contains(due)));
        assert!(due.iter().filter(|due| **due < 88_200).count().abs_diff(500) < 100, "not all at once");
        assert_eq!(day.due_secs("d1.test", 3600), due[1]);
        assert_eq!(day.due_secs("d1.test", 0), 86_400);
    }
}
