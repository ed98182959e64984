//! Caches of `kumo.memoize`: results by name of the cache and arguments, for a time, shared by all states.
//!
//! One caller computes what is missing, others wait for it, at most as long as the cache says. Capacity bounds each cache, the
//! least used results go first; the number of caches is bounded too.

use crate::stored::Stored;
use config::MemoizeOptions;
use quick_cache::sync::{Cache, GuardResult, PlaceholderGuard};
use quick_cache::{DefaultHashBuilder, UnitWeighter, sync::DefaultLifecycle};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// All caches of a policy.
#[derive(Default)]
pub(crate) struct Memos {
    by_name: Mutex<HashMap<String, Arc<Memo>>>,
}

impl Memos {
    /// The cache of that name; another one if its options differ from those it had (KumoMTA behaviour).
    ///
    /// # Errors
    /// There are too many.
    pub fn declare(&self, options: MemoizeOptions) -> Result<Arc<Memo>, String> {
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(memo) = by_name.get(&options.name).filter(|memo| memo.options == options) {
            return Ok(memo.clone());
        }
        if by_name.len() >= MEMOS_MAX && !by_name.contains_key(&options.name) {
            return Err(format!("name `{}`: one cache too many: expected at most {MEMOS_MAX}", options.name));
        }
        let memo = Arc::new(Memo { results: Cache::new(options.capacity), options });
        by_name.insert(memo.options.name.clone(), memo.clone());
        Ok(memo)
    }
}

/// One cache.
pub(crate) struct Memo {
    pub options: MemoizeOptions,
    results: Cache<Key, Arc<Entry>>,
}

/// The arguments, as octets.
pub(crate) type Key = Vec<u8>;
/// The right to compute a result, and the duty: others wait until it is put there or dropped.
pub(crate) type Duty<'a> =
    PlaceholderGuard<'a, Key, Arc<Entry>, UnitWeighter, DefaultHashBuilder, DefaultLifecycle<Key, Arc<Entry>>>;

/// A result and how long it counts.
pub(crate) struct Entry {
    value: Stored,
    until: Option<Instant>,
    epoch: u64,
    /// Somebody computes it anew already.
    is_renewed: AtomicBool,
}

/// What a look into the cache comes to.
pub(crate) enum Found<'a> {
    Value(Stored),
    Missing(Duty<'a>),
    /// Another one still computes it.
    NotYet,
}

impl Memo {
    /// A result that counts, or an old one that somebody computes anew.
    pub fn get(&self, key: &[u8], epoch: u64) -> Option<Stored> {
        let entry = self.results.get(key)?;
        let counts = self.counts(&entry, epoch);
        let may_be_old = || self.options.allow_stale_reads && entry.is_renewed.swap(true, Ordering::AcqRel);
        (counts || may_be_old()).then(|| entry.value.clone())
    }

    /// A result, or the duty to compute it, without waiting.
    pub fn ask(&self, key: &[u8], epoch: u64) -> Found<'_> {
        self.forget_old(key, epoch);
        match self.results.get_value_or_guard(key, Some(std::time::Duration::ZERO)) {
            GuardResult::Value(entry) => Found::Value(entry.value.clone()),
            GuardResult::Guard(duty) => Found::Missing(duty),
            GuardResult::Timeout => Found::NotYet,
        }
    }

    /// The same, after another one's result or failure.
    pub async fn wait(&self, key: &[u8]) -> Found<'_> {
        match tokio::time::timeout(self.options.wait_max(), self.results.get_value_or_guard_async(key)).await {
            Ok(Ok(entry)) => Found::Value(entry.value.clone()),
            Ok(Err(duty)) => Found::Missing(duty),
            Err(_) => Found::NotYet,
        }
    }

    /// The same, holding the thread.
    pub fn wait_here(&self, key: &[u8]) -> Found<'_> {
        match self.results.get_value_or_guard(key, Some(self.options.wait_max())) {
            GuardResult::Value(entry) => Found::Value(entry.value.clone()),
            GuardResult::Guard(duty) => Found::Missing(duty),
            GuardResult::Timeout => Found::NotYet,
        }
    }

    /// Puts a result where those who wait find it.
    pub fn keep(&self, duty: Duty<'_>, value: Stored, epoch: u64) {
        let until = Instant::now().checked_add(self.options.ttl.get());
        // It may be gone again already, when the cache is full: then it is computed again.
        let _ = duty.insert(Arc::new(Entry { value, until, epoch, is_renewed: AtomicBool::new(false) }));
    }

    fn counts(&self, entry: &Entry, epoch: u64) -> bool {
        let is_of_epoch = !self.options.invalidate_with_epoch || entry.epoch == epoch;
        is_of_epoch && entry.until.is_none_or(|until| Instant::now() < until)
    }

    fn forget_old(&self, key: &[u8], epoch: u64) {
        self.results.remove_if(key, |entry| !self.counts(entry, epoch));
    }
}

/// Caches a policy may have.
const MEMOS_MAX: usize = 1024;
