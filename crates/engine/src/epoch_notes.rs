//! Which configuration epochs there were: when each began, who wanted it, how its files differ, what of it takes a restart; and what
//! failed to begin.
//!
//! The last few, in memory: for operators who ask what changed. How files differ is said by who looks at them.

use clock::WallTime;
use queue::Epoch;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One epoch, or a failure to begin one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpochNote {
    /// Counts notes, from 0.
    pub serial: u64,
    /// Which; that of the start is 0. `None` where none began.
    pub number: Option<u64>,
    /// When.
    pub at: WallTime,
    /// Who wanted it.
    pub origin: String,
    /// Parts of the policy that differ from what the program began with and take a restart.
    pub needs_restart: Vec<String>,
    /// Why it did not begin.
    pub error: Option<String>,
    /// How watched files differ from those of the epoch in force.
    pub files: Arc<[FileChange]>,
}

/// What became of a watched file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// Its name.
    pub file: String,
    /// What.
    pub change: Change,
    /// Its lines that came and went, and a few around them; secrets are not in them.
    pub lines: Vec<ChangedLine>,
    /// Why no lines are shown, or not all.
    pub withheld: Option<&'static str>,
}

/// What becomes of files and of their lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is new.
    Added,
    /// It is there no more.
    Removed,
    /// A file has other content.
    Changed,
    /// A line is as it was.
    Same,
    /// Lines that are as they were are left out here.
    Gap,
}

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedLine {
    /// What became of it.
    pub change: Change,
    /// Its number: in the file as it was for one that was removed, else as it is now; from 1.
    pub number: usize,
    /// What it says.
    pub text: String,
}

/// All that are kept, the latest first.
#[derive(Debug)]
pub(crate) struct EpochNotes(Mutex<VecDeque<EpochNote>>);

impl EpochNotes {
    /// The program has started.
    pub fn begun(at: WallTime) -> EpochNotes {
        let notes = EpochNotes(Mutex::default());
        notes.note(Epoch::default(), at, "the start of the program", Vec::new(), Arc::default());
        notes
    }

    /// An epoch began.
    pub fn note(&self, epoch: Epoch, at: WallTime, origin: &str, needs_restart: Vec<String>, files: Arc<[FileChange]>) {
        let number = Some(epoch.number());
        self.push(EpochNote { serial: 0, number, at, origin: origin.to_owned(), needs_restart, error: None, files });
    }

    /// One did not begin. The same failure again is one note: a file that is wrong is tried every few seconds.
    pub fn note_failure(&self, at: WallTime, origin: &str, error: String, files: Arc<[FileChange]>) {
        let mut notes = self.notes();
        if let Some(last) =
            notes.front_mut().filter(|last| last.origin == origin && last.error.as_ref() == Some(&error))
        {
            (last.at, last.files) = (at, files);
            return;
        }
        drop(notes);
        let (origin, needs_restart, error) = (origin.to_owned(), Vec::new(), Some(error));
        self.push(EpochNote { serial: 0, number: None, at, origin, needs_restart, error, files });
    }

    /// The latest first.
    pub fn all(&self) -> Vec<EpochNote> {
        self.notes().iter().cloned().collect()
    }

    fn push(&self, note: EpochNote) {
        let mut notes = self.notes();
        let serial = notes.front().map_or(0, |last| last.serial + 1);
        notes.push_front(EpochNote { serial, ..note });
        notes.truncate(KEPT_MAX);
    }

    fn notes(&self) -> MutexGuard<'_, VecDeque<EpochNote>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notes that are kept.
const KEPT_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_few_are_kept_and_one_failure_is_one_note() {
        let at = WallTime::from_unix_secs;
        let notes = EpochNotes::begun(at(1));
        for second in [10, 20, 30] {
            notes.note_failure(at(second), "a file changed", "wrong".to_owned(), [file(second)].into());
        }
        let all = notes.all();
        assert_eq!(all.len(), 2, "{all:?}");
        assert_eq!((all[0].number, all[0].at, all[1].number), (None, at(30), Some(0)));
        assert_eq!(*all[0].files, [file(30)], "the file as it is wrong now");
        assert_eq!([all[0].serial, all[1].serial], [1, 0]);
        for _ in 0..=KEPT_MAX {
            notes.note(Epoch::default(), at(40), "SIGHUP", Vec::new(), Arc::default());
        }
        assert_eq!(notes.all().len(), KEPT_MAX);
    }

    fn file(second: i64) -> FileChange {
        FileChange { file: format!("{second}.lua"), change: Change::Added, lines: Vec::new(), withheld: None }
    }
}
