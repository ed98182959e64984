//! When configuration is read again: on SIGHUP, and when the content of a watched file changes.
//!
//! Watched are the policy file and what `kumo.set_config_monitor_globs` names, every 10 s (KumoMTA behaviour; there SIGHUP ends the
//! program). Whatever the reason, the policy is tried out first, and one that is wrong changes nothing but the log.

use crate::file_changes::{self, Found};
use crate::supervisor::Supervisor;
use engine::FileChange;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::Signal;

/// The files whose content counts.
#[derive(Clone)]
pub struct Watched {
    policy_file: Option<PathBuf>,
    globs: Option<Vec<String>>,
    /// As they are in force.
    seen: Files,
}

impl Watched {
    /// The policy file and what the patterns stand for, KumoMTA's if there are none. Without a policy file there is nothing.
    /// Looks at them: what changes from now on counts.
    pub fn new(policy_file: Option<PathBuf>, globs: Option<Vec<String>>) -> Watched {
        let mut watched = Watched { policy_file, globs, seen: Files::new() };
        watched.seen = watched.look();
        watched
    }

    /// What is found in each file; differs when something changed, came or went.
    fn look(&self) -> Files {
        let Some(policy_file) = &self.policy_file else { return Files::new() };
        let found = lua::monitored(self.globs.as_deref()).unwrap_or_else(|error| {
            tracing::warn!("kumo.set_config_monitor_globs: {error}");
            Vec::new()
        });
        let files: BTreeSet<PathBuf> = found.into_iter().map(PathBuf::from).chain([policy_file.clone()]).collect();
        let mut room = TEXTS_MAX;
        let each = files.into_iter().map(|file| {
            let found = Found::look(&file, room);
            room -= found.kept();
            (file, found)
        });
        each.collect()
    }
}

/// What was found in files, by name.
type Files = BTreeMap<PathBuf, Found>;

/// Files that came, went or changed: the names of the first few, and how [`CHANGES_MAX`] of them differ.
fn changed(before: &Files, now: &Files) -> (String, Arc<[FileChange]>) {
    let differs = |file: &&PathBuf| before.get(*file) != now.get(*file);
    let names: BTreeSet<&PathBuf> = before.keys().chain(now.keys()).filter(differs).collect();
    let shown: Vec<String> = names.iter().take(NAMES_MAX).map(|file| file.display().to_string()).collect();
    let rest = names.len().saturating_sub(NAMES_MAX);
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    let (changes, mut room) = (names.into_iter().take(CHANGES_MAX), ROOM);
    let changes = changes.filter_map(|file| file_changes::change(file, before.get(file), now.get(file), &mut room));
    (format!("{}{more}", shown.join(", ")), changes.collect())
}

/// Has `read` read configuration again when there is reason to, which it is told, and how files differ; never ends.
pub async fn watch<E: std::fmt::Display>(
    read: impl AsyncFn(&str, Arc<[FileChange]>) -> Result<(), E>,
    mut watched: Watched,
    mut hangup: Signal,
    supervisor: Supervisor,
) {
    let mut said = None;
    loop {
        let reason = tokio::select! {
            _ = hangup.recv() => HANGUP,
            () = tokio::time::sleep(INTERVAL) => CHANGED,
        };
        let now = look(&watched).await;
        if watched.seen == now && reason != HANGUP {
            // Who may read them may be others.
            watched.seen = now;
            continue;
        }
        // The manager asked for it, and waits.
        let asked_by = (reason == HANGUP).then_some(&supervisor);
        asked_by.inspect(|manager| manager.reloading());
        let (files, changes) = compare(&watched.seen, &now).await;
        let origin = if files.is_empty() { reason.to_owned() } else { format!("{reason}: {files}") };
        let done = read(&origin, changes).await;
        asked_by.inspect(|manager| manager.reloaded(done.as_ref().err().map(ToString::to_string).as_deref()));
        match done {
            Ok(()) => {
                tracing::info!("configuration was read again: {reason}");
                (watched.seen, said) = (now, None);
            }
            // What changed is still to be read: what is in its way may pass.
            Err(error) if reason != HANGUP && said.as_ref() == Some(&(now.clone(), error.to_string())) => {
                tracing::debug!("configuration stays as it was ({reason}): {error}");
            }
            Err(error) => {
                tracing::error!("configuration stays as it was ({reason}): {error}");
                said = Some((now, error.to_string()));
            }
        }
    }
}

async fn look(watched: &Watched) -> Files {
    let watched = watched.clone();
    aside(move || watched.look()).await
}

async fn compare(seen: &Files, now: &Files) -> (String, Arc<[FileChange]>) {
    let (seen, now) = (seen.clone(), now.clone());
    aside(move || changed(&seen, &now)).await
}

/// What takes its time; nothing, if it fails.
async fn aside<T: Default + Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        tracing::error!("looking at configuration files: {error}");
        T::default()
    })
}

/// What asks for it by itself.
const CHANGED: &str = "a file changed";
/// Names of files that are told.
const NAMES_MAX: usize = 5;
/// Files whose lines are told.
const CHANGES_MAX: usize = 8;
/// Octets that these lines may take.
const ROOM: usize = 64 << 10;
/// Octets of text that are kept of all files, to be compared with what they become.
const TEXTS_MAX: usize = 8 << 20;
/// What asks for it at once.
const HANGUP: &str = "SIGHUP";
/// Time between two looks (KumoMTA behaviour).
const INTERVAL: Duration = Duration::from_secs(10);
