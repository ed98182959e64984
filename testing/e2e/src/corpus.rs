//! The corpus: policies as users write them, each with its story in front: what is said to the program, and what has to
//! come of it. `corpus/README.md` describes the language of stories.
//!
//! In: the folder `corpus/`. Out: the cases that did not go as told, each with what was expected, what was found and the
//! program's stderr. Cases know nothing of each other: each has its own program, remotes and folder.

mod case;
mod client;
mod judge;
mod parse;
mod pattern;
mod play;
mod remote;

pub use case::Case;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A case that did not go as told.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The file's name without its end.
    pub name: String,
    /// What was expected and what was found.
    pub why: String,
}

/// All cases in the order of their names; one that does not read is a failure.
pub fn load() -> (Vec<Case>, Vec<Failure>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| is_case(path)).collect();
    files.sort();
    let (mut cases, mut failures) = (Vec::new(), Vec::new());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        match parse::parse(&file, &text) {
            Ok(case) => cases.push(case),
            Err(why) => failures.push(Failure { name: file.display().to_string(), why }),
        }
    }
    (cases, failures)
}

/// Plays cases, `at_once` at the same time; returns those that failed.
pub fn run(cases: &[Case], at_once: usize) -> Vec<Failure> {
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(why) = judge(case) {
                let failure = Failure { name: case.name.clone(), why };
                failures.lock().expect("nobody panics with it").push(failure);
            }
        }
    };
    std::thread::scope(|scope| {
        (0..at_once).for_each(|_| drop(scope.spawn(work)));
    });
    failures.into_inner().expect("nobody panicked with it")
}

/// A helper that panics fails its case, and no other.
fn judge(case: &Case) -> Result<(), String> {
    let wrong = catch_unwind(AssertUnwindSafe(|| play::play(case))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
    })?;
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// What the cases share is no case.
fn is_case(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "lua") && path.file_stem().is_some_and(|stem| stem != "start")
}
