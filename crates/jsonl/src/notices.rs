//! The file system's notices about a directory.
//!
//! Owns [`Notices`]: while it lives, a wake-up for each change of a file in the directory. A file that was only opened or
//! read is no change; a tailer would wake itself. Fails when the system cannot watch.

use crate::JsonlError;
use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{Config, Event, RecommendedWatcher, RecursiveMode, Watcher};
use std::path::Path;

/// A watched directory.
pub struct Notices {
    _watcher: RecommendedWatcher,
}

impl Notices {
    /// Calls `wake`, on a thread of its own, whenever something in `directory` changed.
    ///
    /// Errors: [`JsonlError::Watch`].
    pub fn of(directory: &Path, wake: impl Fn() + Send + 'static) -> Result<Notices, JsonlError> {
        let failed = |error: notify::Error| {
            let cause = error.to_string();
            JsonlError::Watch { dir: directory.to_owned(), cause }
        };
        let heard = move |event: notify::Result<Event>| {
            // An error may mean that notices were lost.
            if event.map_or(true, |event| is_change(event.kind)) {
                wake();
            }
        };
        let mut watcher = RecommendedWatcher::new(heard, Config::default()).map_err(failed)?;
        watcher.watch(directory, RecursiveMode::NonRecursive).map_err(failed)?;
        Ok(Notices { _watcher: watcher })
    }
}

fn is_change(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Access(_) => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn changes_wake_and_reading_does_not() {
        let dir = tempfile::tempdir().expect("scratch");
        std::fs::write(dir.path().join("a"), "a").expect("writes");
        let (sender, woken) = channel();
        let notices = Notices::of(dir.path(), move || {
            sender.send(()).ok();
        });
        let notices = notices.expect("watches");
        assert_eq!(std::fs::read(dir.path().join("a")).expect("readable"), b"a");
        assert!(!is_change(EventKind::Access(AccessKind::Open(AccessMode::Any))));
        std::fs::write(dir.path().join("b"), "b").expect("writes");
        woken.recv().expect("a wake-up");
        drop(notices);
        // What was heard before may still be there; then the channel ends.
        assert!(woken.iter().count() < 10);
    }

    #[test]
    fn a_directory_that_is_not_there_is_an_error() {
        let dir = tempfile::tempdir().expect("scratch");
        assert!(matches!(Notices::of(&dir.path().join("none"), || ()), Err(JsonlError::Watch { .. })));
    }
}
