//! When configuration is read again: on SIGHUP, and when the content of a watched file changes.
//!
//! Watched are the policy file and what `kumo.set_config_monitor_globs` names, every 10 s (KumoMTA behaviour; there SIGHUP ends the
//! program). Whatever the reason, the policy is tried out first, and one that is wrong changes nothing but the log.

use crate::supervisor::Supervisor;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::time::Duration;
use tokio::signal::unix::Signal;

/// The files whose content counts.
#[derive(Clone)]
pub struct Watched {
    policy_file: Option<PathBuf>,
    globs: Option<Vec<String>>,
}

impl Watched {
    /// The policy file and what the patterns stand for, KumoMTA's if there are none. Without a policy file there is nothing.
    pub fn new(policy_file: Option<PathBuf>, globs: Option<Vec<String>>) -> Watched {
        Watched { policy_file, globs }
    }

    /// What each file comes to; differs when something changed, came or went.
    fn fingerprints(&self) -> Fingerprints {
        let Some(policy_file) = &self.policy_file else { return Fingerprints::new() };
        let found = lua::monitored(self.globs.as_deref()).unwrap_or_else(|error| {
            tracing::warn!("kumo.set_config_monitor_globs: {error}");
            Vec::new()
        });
        let files = found.into_iter().map(PathBuf::from).chain([policy_file.clone()]);
        let each = files.map(|file| {
            let mut hasher = DefaultHasher::new();
            // One that cannot be read, now or any more, is something else than one that can.
            std::fs::read(&file).map_err(|error| error.kind()).hash(&mut hasher);
            (file, hasher.finish())
        });
        each.collect()
    }
}

/// What files come to, by name.
type Fingerprints = BTreeMap<PathBuf, u64>;

/// Names of files that came, went or changed, the first few.
fn changed(before: &Fingerprints, now: &Fingerprints) -> String {
    let differs = |file: &&PathBuf| before.get(*file) != now.get(*file);
    let names: BTreeSet<&PathBuf> = before.keys().chain(now.keys()).filter(differs).collect();
    let shown: Vec<String> = names.iter().take(NAMES_MAX).map(|file| file.display().to_string()).collect();
    let rest = names.len().saturating_sub(NAMES_MAX);
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

/// Has `read` read configuration again when there is reason to, which it is told; never ends.
pub async fn watch<E: std::fmt::Display>(
    read: impl AsyncFn(&str) -> Result<(), E>,
    watched: Watched,
    mut hangup: Signal,
    supervisor: Supervisor,
) {
    let mut seen = look(&watched).await;
    let mut said = None;
    loop {
        let reason = tokio::select! {
            _ = hangup.recv() => HANGUP,
            () = tokio::time::sleep(INTERVAL) => CHANGED,
        };
        let now = look(&watched).await;
        if seen == now && reason != HANGUP {
            continue;
        }
        // The manager asked for it, and waits.
        let asked_by = (reason == HANGUP).then_some(&supervisor);
        asked_by.inspect(|manager| manager.reloading());
        let files = changed(&seen, &now);
        let origin = if files.is_empty() { reason.to_owned() } else { format!("{reason}: {files}") };
        let done = read(&origin).await;
        asked_by.inspect(|manager| manager.reloaded(done.as_ref().err().map(ToString::to_string).as_deref()));
        match done {
            Ok(()) => {
                tracing::info!("configuration was read again: {reason}");
                (seen, said) = (now, None);
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

async fn look(watched: &Watched) -> Fingerprints {
    let watched = watched.clone();
    let looked = tokio::task::spawn_blocking(move || watched.fingerprints()).await;
    looked.unwrap_or_else(|error| {
        tracing::error!("looking at configuration files: {error}");
        Fingerprints::new()
    })
}

/// What asks for it by itself.
const CHANGED: &str = "a file changed";
/// Names of files that are told.
const NAMES_MAX: usize = 5;
/// What asks for it at once.
const HANGUP: &str = "SIGHUP";
/// Time between two looks (KumoMTA behaviour).
const INTERVAL: Duration = Duration::from_secs(10);
