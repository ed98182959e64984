//! Who hears what happens: loggers and what filters them, log hooks, disposition hooks.
//!
//! Owns [`Recorders`], which give way to others when a policy that was read again wants others. Those that are wanted as they were
//! go on. What the others have not worked off yet they finish, asking the policy they began with ([`Leaving`]), and nothing is
//! lost in between: a record goes to the old ones or to the new.

use crate::dispositions::Teller;
use crate::engine::Engine;
use crate::log_filters::{Filter, LogFilters};
use crate::log_hooks::{RecordHook, open_hooks};
use arc_swap::Guard;
use config::{EventStream, LocalLogs};
use policy::{Policy, Startup};
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use telemetry::LogWriter;

/// Those there are.
#[derive(Clone, Default)]
pub(crate) struct Recorders {
    /// Loggers, in order of configuration.
    pub logs: Vec<LogWriter>,
    /// Those of them that ask policy first.
    pub filters: LogFilters,
    /// Who makes messages of records.
    pub hooks: Vec<Arc<RecordHook>>,
    /// By whom policy hears what is about to be logged.
    pub tellers: Arc<[Arc<Teller>]>,
}

/// Those of earlier policies, as long as they have something to do.
#[derive(Default)]
pub(crate) struct Leaving {
    pub logs: Vec<LogWriter>,
    pub filters: Vec<Arc<Filter>>,
    pub hooks: Vec<Arc<RecordHook>>,
    pub tellers: Vec<Arc<Teller>>,
}

/// The policy that one of them asks once it leaves.
pub(crate) type Former = OnceLock<Arc<dyn Policy>>;

impl Recorders {
    /// Those that a policy wants from its start.
    ///
    /// # Errors
    /// A directory or a thread cannot be had; a template does not read.
    pub fn open(startup: &Startup) -> Result<Recorders, String> {
        Recorders::default().next(startup)
    }

    /// Those that a policy wants, where these are.
    ///
    /// # Errors
    /// As [`Recorders::open`]; then nothing has changed.
    pub fn next(&self, startup: &Startup) -> Result<Recorders, String> {
        let mut hooks = Vec::new();
        for options in &startup.log_hooks {
            let kept = self.hooks.iter().find(|hook| hook.options() == options).cloned();
            let of = |error| format!("kumo.configure_log_hook `{}`: {error}", options.name);
            hooks.push(kept.map_or_else(|| RecordHook::new(options.clone()).map_err(of), Ok)?);
        }
        let kept = |options: &config::LogDispositionHook| {
            self.tellers.iter().find(|teller| teller.options == *options).cloned()
        };
        let tellers = startup.log_disposition_hooks.iter();
        let tellers = tellers.map(|options| kept(options).unwrap_or_else(|| Teller::new(options.clone()))).collect();
        let mut logs: Vec<LogWriter> = Vec::new();
        for options in startup.local_logs.iter().map(|options| journaled(options, &startup.event_streams)) {
            let is_free = |log: &&LogWriter| *log.options() == options && !logs.iter().any(|taken| taken.is(log));
            match self.logs.iter().find(is_free).cloned().map_or_else(|| LogWriter::open(options), Ok) {
                Ok(log) => logs.push(log),
                Err(error) => {
                    logs.iter().filter(|log| !self.has(log)).for_each(LogWriter::retire);
                    return Err(error.to_string());
                }
            }
        }
        Ok(Recorders { filters: self.filters.next(&logs), logs, hooks, tellers })
    }

    /// Whether a logger is among these.
    pub fn has(&self, log: &LogWriter) -> bool {
        self.logs.iter().any(|other| other.is(log))
    }

    /// Those that `next` has not.
    fn leaving(&self, next: &Recorders) -> Leaving {
        Leaving {
            logs: self.logs.iter().filter(|log| !next.has(log)).cloned().collect(),
            filters: self.filters.iter().filter(|filter| !next.filters.has(filter)).cloned().collect(),
            hooks: self.hooks.iter().filter(|hook| !has(&next.hooks, hook)).cloned().collect(),
            tellers: self.tellers.iter().filter(|teller| !has(&next.tellers, teller)).cloned().collect(),
        }
    }

    /// The policies that those ask which `next` has not.
    fn formers<'a>(&'a self, next: &'a Recorders) -> impl Iterator<Item = &'a Former> {
        let filters = self.filters.iter().filter(|filter| !next.filters.has(filter)).map(|filter| &filter.former);
        let hooks = self.hooks.iter().filter(|hook| !has(&next.hooks, hook)).map(|hook| &hook.former);
        let tellers = self.tellers.iter().filter(|teller| !has(&next.tellers, teller)).map(|teller| &teller.former);
        filters.chain(hooks).chain(tellers)
    }
}

impl Leaving {
    fn count(&self) -> usize {
        self.logs.len() + self.filters.len() + self.hooks.len() + self.tellers.len()
    }

    fn forget_loggers_gone(&mut self) {
        // Those that are over do not wait, and say whether their thread failed.
        self.logs.extract_if(.., |log| log.is_over()).for_each(|log| log.close());
    }
}

impl Engine {
    /// Those there are now. Not to be held while waiting.
    pub(crate) fn recorders(&self) -> Guard<Arc<Recorders>> {
        self.recorders.load()
    }

    /// Those of earlier policies.
    pub(crate) fn leaving(&self) -> MutexGuard<'_, Leaving> {
        self.leaving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The policy that a recorder asks.
    pub(crate) fn policy_of<'a>(&'a self, former: &'a Former) -> &'a dyn Policy {
        &**former.get().unwrap_or(&self.policy)
    }

    /// What a policy that is about to be in force wants.
    ///
    /// # Errors
    /// As [`Recorders::open`]; too many of earlier policies have not finished.
    pub(crate) fn prepare_recorders(&self, startup: &Startup) -> Result<Recorders, String> {
        let mut leaving = self.leaving();
        leaving.forget_loggers_gone();
        if leaving.count() > LEAVING_MAX {
            return Err("loggers and hooks of earlier policies have not worked off their records yet".to_owned());
        }
        drop(leaving);
        self.recorders().next(startup)
    }

    /// The policy in force gives way now: who leaves keeps it.
    pub(crate) fn announce_recorders(&self, next: &Recorders) {
        let recorders = self.recorders();
        let mut formers = recorders.formers(next).peekable();
        if formers.peek().is_none() {
            return;
        }
        let policy = self.policy.as_it_stands().unwrap_or_else(|| self.policy.clone());
        // One that has left before is not among the current.
        formers.for_each(|former| _ = former.set(policy.clone()));
    }

    /// The next take over; the policy they ask is in force. Those of before finish what they have. Blocks for moments.
    pub(crate) fn change_recorders(&self, next: Recorders) {
        let before = self.recorders.load_full();
        let leaving = before.leaving(&next);
        let hooks: Vec<_> = next.hooks.iter().filter(|hook| !has(&before.hooks, hook)).cloned().collect();
        let filters: Vec<_> = next.filters.iter().filter(|filter| !before.filters.has(filter)).cloned().collect();
        let tellers: Vec<_> = next.tellers.iter().filter(|teller| !has(&before.tellers, teller)).cloned().collect();
        drop(before);
        tellers.into_iter().for_each(|teller| self.start_teller(teller));
        // What nobody wants was said at the start.
        if self.offers_records_to(&next.hooks) && next.hooks.iter().any(|hook| !hook.keeps()) {
            let _unclaimed = open_hooks(&next.hooks, self.interest.now(), &self.settings.spool_dir);
        }
        hooks.into_iter().for_each(|hook| self.start_hook(hook));
        filters.into_iter().for_each(|filter| self.start_filter(filter));
        // Before they are replaced: at any time each is in one place at least.
        let mut all = self.leaving();
        all.logs.extend(leaving.logs.iter().cloned());
        all.filters.extend(leaving.filters.iter().cloned());
        all.hooks.extend(leaving.hooks.iter().cloned());
        all.tellers.extend(leaving.tellers.iter().cloned());
        drop(all);
        // Who logs holds them for moments; behind this nobody does, and what was logged with them is in their backlogs.
        let mut before = self.recorders.swap(Arc::new(next));
        while Arc::get_mut(&mut before).is_none() {
            std::thread::sleep(PAUSE);
        }
        leaving.hooks.iter().for_each(|hook| hook.close());
        leaving.filters.iter().for_each(|filter| filter.close());
        leaving.tellers.iter().for_each(|teller| teller.close());
        // A filter's logger ends behind it.
        let is_filtered = |log: &LogWriter| leaving.filters.iter().any(|filter| filter.is_of(log));
        leaving.logs.iter().filter(|log| !is_filtered(log)).for_each(LogWriter::retire);
    }

    /// A hook has worked off what it had: it goes, and with it the policy it asked.
    pub(crate) fn hook_is_gone(&self, hook: &Arc<RecordHook>) {
        self.leaving().hooks.retain(|other| !Arc::ptr_eq(other, hook));
    }

    /// As [`Engine::hook_is_gone`].
    pub(crate) fn filter_is_gone(&self, filter: &Arc<Filter>) {
        self.leaving().filters.retain(|other| !Arc::ptr_eq(other, filter));
    }

    /// As [`Engine::hook_is_gone`].
    pub(crate) fn teller_is_gone(&self, teller: &Arc<Teller>) {
        self.leaving().tellers.retain(|other| !Arc::ptr_eq(other, teller));
    }

    /// All there are, those of earlier policies too.
    pub(crate) fn all_logs(&self) -> Vec<LogWriter> {
        let now = self.recorders();
        now.logs.iter().chain(&self.leaving().logs).cloned().collect()
    }

    /// As [`Engine::all_logs`].
    pub(crate) fn all_filters(&self) -> Vec<Arc<Filter>> {
        self.recorders().filters.iter().chain(&self.leaving().filters).cloned().collect()
    }

    /// As [`Engine::all_logs`].
    pub(crate) fn all_hooks(&self) -> Vec<Arc<RecordHook>> {
        self.recorders().hooks.iter().chain(&self.leaving().hooks).cloned().collect()
    }

    /// As [`Engine::all_logs`].
    pub(crate) fn all_tellers(&self) -> Vec<Arc<Teller>> {
        self.recorders().tellers.iter().chain(&self.leaving().tellers).cloned().collect()
    }
}

/// A logger's options, with what they leave open: what event streams are to tell must not be lost by a kill.
fn journaled(options: &LocalLogs, streams: &[EventStream]) -> LocalLogs {
    let is_read = |dir: &PathBuf| streams.iter().any(|stream| stream.log_dir == *dir);
    let other_dirs = options.per_record.values().filter_map(|entry| entry.log_dir.as_ref());
    let is_wanted = || is_read(&options.log_dir) || other_dirs.into_iter().any(is_read);
    LocalLogs { journal: Some(options.journal.unwrap_or_else(is_wanted)), ..options.clone() }
}

fn has<T>(all: &[Arc<T>], one: &Arc<T>) -> bool {
    all.iter().any(|other| Arc::ptr_eq(other, one))
}

/// Loggers, filters and hooks of every kind of earlier policies that may have something left to do when another policy comes.
const LEAVING_MAX: usize = 32;
/// Between two looks whether somebody holds those of before.
const PAUSE: Duration = Duration::from_millis(1);
