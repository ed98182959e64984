//! What a start found beside the messages, of either kind of spool, in words for the operator.

use spool::local::LocalReport;
use spool::{Damage, Recovery};

/// What a start found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Files that were read: `3 segments`, `17 message files`.
    pub read: String,
    /// What an earlier run had not finished, and nobody was promised; `None` when there was nothing.
    pub unfinished: Option<String>,
    /// What was promised and does not read, and where it is now; `None` when all is sound.
    pub damage: Option<String>,
    /// What does not belong to the spool, and was left alone, or was set aside earlier; `None` when there is nothing.
    pub strange: Option<String>,
}

impl From<&Recovery> for Report {
    fn from(found: &Recovery) -> Report {
        let Recovery { damage, torn_tail_octets, segments, set_aside, .. } = found;
        Report {
            read: format!("{segments} segments"),
            unfinished: (*torn_tail_octets > 0).then(|| format!("{torn_tail_octets} octets of an unfinished commit")),
            damage: (*damage != Damage::default()).then(|| {
                format!(
                    "{damage:?}; such segments go to corrupt/, and stay there, when nothing in them is alive any more"
                )
            }),
            strange: (*set_aside > 0).then(|| {
                format!("{set_aside} damaged segments in corrupt/: `postrider spool salvage` saves what reads of them")
            }),
        }
    }
}

impl From<&LocalReport> for Report {
    fn from(found: &LocalReport) -> Report {
        let LocalReport { messages, unfinished, set_aside, stuck, unreadable, newer, strange, torn_marks, .. } = *found;
        Report {
            read: format!("{messages} message files"),
            unfinished: listed(&[
                (unfinished, "files of unfinished or settled messages"),
                (torn_marks, "lines of unfinished marks"),
            ]),
            damage: listed(&[
                (set_aside, "files that are not whole were moved to corrupt/"),
                (stuck, "files that are not whole could not be moved and are where they were"),
                (unreadable, "files that the disk does not read are where they were"),
                (newer, "files of a newer version are where they were"),
            ]),
            strange: listed(&[(strange, "names in msg/ that are no message's")]),
        }
    }
}

/// The counts that are not zero, in one text.
fn listed(counts: &[(u64, &str)]) -> Option<String> {
    let some = counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
    let texts: Vec<String> = some.collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sound_has_nothing_to_tell() {
        for report in [Report::from(&Recovery::default()), Report::from(&LocalReport::default())] {
            assert_eq!((&report.unfinished, &report.damage, &report.strange), (&None, &None, &None));
        }
    }

    #[test]
    fn both_kinds_tell_what_is_wrong() {
        let damage = Damage { batches: 2, ..Damage::default() };
        let log = Report::from(&Recovery { damage, torn_tail_octets: 5, segments: 3, ..Recovery::default() });
        assert_eq!(log.read, "3 segments");
        assert!(log.unfinished.is_some_and(|text| text.starts_with("5 octets")));
        assert!(log.damage.is_some_and(|text| text.contains("batches: 2")) && log.strange.is_none());
        let later = Report::from(&Recovery { set_aside: 2, ..Recovery::default() });
        assert_eq!(
            (later.damage, later.strange.is_some_and(|text| text.starts_with("2 damaged segments"))),
            (None, true)
        );
        let found = LocalReport { messages: 7, set_aside: 2, newer: 1, strange: 4, ..LocalReport::default() };
        let files = Report::from(&found);
        assert_eq!((files.read.as_str(), &files.unfinished), ("7 message files", &None));
        let damage = files.damage.expect("told");
        assert!(damage.starts_with("2 files that are not whole were moved") && damage.contains("; 1 files of a newer"));
        assert!(files.strange.is_some_and(|text| text.starts_with("4 names")));
    }
}
