//! Caches of `kumo.memoize`: results by name of the cache and arguments, for a time, shared by all states.
//!
//! One caller computes what is missing, others wait for it, at most as long as the cache says. Capacity bounds each cache, the
//! least used results go first; the number of caches is bounded too.

use crate::compiled::Compiled;
use crate::stored::Stored;
use config::MemoizeOptions;
use policy::CacheCounts;
use quick_cache::sync::{Cache, GuardResult, PlaceholderGuard};
use quick_cache::{DefaultHashBuilder, UnitWeighter, sync::DefaultLifecycle};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// All caches of a policy.
#[derive(Default)]
pub(crate) struct Memos {
    by_name: Mutex<HashMap<String, Arc<Memo>>>,
    /// What puts memoized functions together.
    pub maker: Compiled,
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
        // Counters never fall.
        let counts = by_name.get(&options.name).map(|before| before.counts.clone()).unwrap_or_default();
        let memo = Arc::new(Memo { results: Cache::new(options.capacity), options, counts });
        by_name.insert(memo.options.name.clone(), memo.clone());
        Ok(memo)
    }

    /// Whether those that a policy has which was tried out fit beside these.
    pub fn has_room_for(&self, tried: &Memos) -> bool {
        let names = |of: &Memos| of.by_name.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect();
        let (mut all, more): (HashSet<String>, HashSet<String>) = (names(self), names(tried));
        all.extend(more);
        all.len() <= MEMOS_MAX
    }

    /// What is counted of each, by name.
    pub fn counts(&self) -> Vec<(String, CacheCounts)> {
        let by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = by_name.iter().map(|(name, memo)| (name.clone(), memo.so_far())).collect();
        drop(by_name);
        all.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        all
    }
}

/// One cache.
pub(crate) struct Memo {
    pub options: MemoizeOptions,
    results: Cache<Key, Arc<Entry>>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    hits: AtomicU64,
    misses: AtomicU64,
    populated: AtomicU64,
}

/// The arguments, as octets.
pub(crate) type Key = Vec<u8>;
/// The right to compute a result, and the duty: others wait until it is put there or dropped.
pub(crate) type Duty<'a> =
    PlaceholderGuard<'a, Key, Arc<Entry>, UnitWeighter, DefaultHashBuilder, DefaultLifecycle<Key, Arc<Entry>>>;

type Guarded<'a> =
    GuardResult<'a, Key, Arc<Entry>, UnitWeighter, DefaultHashBuilder, DefaultLifecycle<Key, Arc<Entry>>>;

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
    Missing(Task<'a>),
    /// Another one still computes it.
    NotYet,
}

/// The duty to compute a result.
pub(crate) enum Task<'a> {
    /// There is none; others wait.
    First(Duty<'a>),
    /// There is an old one, which others get meanwhile.
    Again(Renewal),
}

impl Task<'_> {
    /// The old result, if that is to count on when there is no new one.
    pub fn old(&self, memo: &Memo, epoch: u64) -> Option<Stored> {
        match self {
            Task::Again(Renewal(old)) if memo.options.keep_on_error && memo.is_of_epoch(old, epoch) => {
                Some(old.value.clone())
            }
            _ => None,
        }
    }
}

/// The right to compute an old result anew; whoever gives up leaves it to the next.
pub(crate) struct Renewal(Arc<Entry>);

impl Drop for Renewal {
    fn drop(&mut self) {
        self.0.is_renewed.store(false, Ordering::Release);
    }
}

impl Memo {
    /// A result that counts, or an old one that somebody computes anew.
    pub fn get(&self, key: &[u8], epoch: u64) -> Option<Stored> {
        let found = self.results.get(key).filter(|entry| {
            let may_be_old =
                || self.options.allow_stale_reads || self.options.keep_on_error && self.is_of_epoch(entry, epoch);
            let is_renewed = || may_be_old() && entry.is_renewed.load(Ordering::Acquire);
            self.is_good(entry, epoch) || is_renewed()
        });
        let count = if found.is_some() { &self.counts.hits } else { &self.counts.misses };
        count.fetch_add(1, Ordering::Relaxed);
        found.map(|entry| entry.value.clone())
    }

    /// Each call of a memoized function is one [`Memo::get`].
    fn so_far(&self) -> CacheCounts {
        let [hits, misses, populated] =
            [&self.counts.hits, &self.counts.misses, &self.counts.populated].map(|count| count.load(Ordering::Relaxed));
        CacheCounts { hits, misses, populated, len: self.results.len() as u64 }
    }

    /// A result, or the duty to compute it, without waiting.
    pub fn ask(&self, key: &[u8], epoch: u64) -> Found<'_> {
        if let Some(entry) = self.results.get(key)
            && !self.is_good(&entry, epoch)
            && (self.options.allow_stale_reads || self.options.keep_on_error && self.is_of_epoch(&entry, epoch))
        {
            return match entry.is_renewed.swap(true, Ordering::AcqRel) {
                true => Found::Value(entry.value.clone()),
                false => Found::Missing(Task::Again(Renewal(entry))),
            };
        }
        self.results.remove_if(key, |entry| !self.is_good(entry, epoch));
        self.found(self.results.get_value_or_guard(key, Some(Duration::ZERO)))
    }

    /// The same, after another one's result or failure.
    pub async fn wait(&self, key: &[u8], epoch: u64) -> Found<'_> {
        match tokio::time::timeout(self.options.wait_max(), self.results.get_value_or_guard_async(key)).await {
            Ok(Ok(entry)) if self.is_good(&entry, epoch) => Found::Value(entry.value.clone()),
            // It was computed by a script of an earlier epoch.
            Ok(Ok(_)) => self.ask(key, epoch),
            Ok(Err(duty)) => Found::Missing(Task::First(duty)),
            Err(_) => Found::NotYet,
        }
    }

    /// The same, holding the thread.
    pub fn wait_here(&self, key: &[u8], epoch: u64) -> Found<'_> {
        match self.results.get_value_or_guard(key, Some(self.options.wait_max())) {
            GuardResult::Value(entry) if !self.is_good(&entry, epoch) => self.ask(key, epoch),
            other => self.found(other),
        }
    }

    /// Puts a result where those who wait find it. It may be gone again already, when the cache is full: then it is computed
    /// again.
    pub fn keep(&self, key: &[u8], task: Task<'_>, value: Stored, epoch: u64) {
        let until = Instant::now().checked_add(self.options.ttl.get());
        let entry = Arc::new(Entry { value, until, epoch, is_renewed: AtomicBool::new(false) });
        self.counts.populated.fetch_add(1, Ordering::Relaxed);
        match task {
            Task::First(duty) => _ = duty.insert(entry),
            Task::Again(renewal) => {
                self.results.insert(key.to_vec(), entry);
                drop(renewal);
            }
        }
    }

    fn found<'a>(&self, result: Guarded<'a>) -> Found<'a> {
        match result {
            GuardResult::Value(entry) => Found::Value(entry.value.clone()),
            GuardResult::Guard(duty) => Found::Missing(Task::First(duty)),
            GuardResult::Timeout => Found::NotYet,
        }
    }

    /// A result that a script of this or of a later epoch computed, and whose time is not over.
    fn is_good(&self, entry: &Entry, epoch: u64) -> bool {
        self.is_of_epoch(entry, epoch) && entry.until.is_none_or(|until| Instant::now() < until)
    }

    fn is_of_epoch(&self, entry: &Entry, epoch: u64) -> bool {
        !self.options.invalidate_with_epoch || entry.epoch >= epoch
    }
}

/// Caches a policy may have.
const MEMOS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn memo(allow_stale_reads: bool) -> Arc<Memo> {
        with(allow_stale_reads, false, 60)
    }

    fn with(allow_stale_reads: bool, keep_on_error: bool, ttl_secs: u64) -> Arc<Memo> {
        let options = MemoizeOptions {
            name: "m".to_owned(),
            ttl: config::Duration::from_secs(ttl_secs),
            capacity: 4,
            invalidate_with_epoch: true,
            populate_timeout: Some(config::Duration::from_secs(0)),
            retry_on_populate_timeout: false,
            allow_stale_reads,
            keep_on_error,
        };
        Memos::default().declare(options).expect("one")
    }

    fn number(found: Found<'_>) -> Option<i64> {
        match found {
            Found::Value(Stored::Integer(number)) => Some(number),
            _ => None,
        }
    }

    fn put(memo: &Memo, value: i64, epoch: u64) {
        match memo.ask(b"k", epoch) {
            Found::Missing(task) => memo.keep(b"k", task, Stored::Integer(value), epoch),
            _ => panic!("nobody computes it"),
        }
    }

    #[test]
    fn one_computes_and_a_failure_leaves_it_to_the_next() {
        let memo = memo(false);
        let first = memo.ask(b"k", 0);
        assert!(matches!(first, Found::Missing(Task::First(_))));
        assert!(matches!(memo.ask(b"k", 0), Found::NotYet) && matches!(memo.wait_here(b"k", 0), Found::NotYet));
        drop(first);
        put(&memo, 1, 0);
        assert_eq!(number(memo.ask(b"k", 0)), Some(1));
    }

    #[test]
    fn calls_are_counted_whatever_options_a_cache_gets_later() {
        let memos = Memos::default();
        let options = memo(false).options.clone();
        let first = memos.declare(options.clone()).expect("one");
        assert!(first.get(b"k", 0).is_none());
        put(&first, 1, 0);
        assert!(first.get(b"k", 0).is_some() && first.get(b"k", 0).is_some());
        let counts = CacheCounts { hits: 2, misses: 1, populated: 1, len: 1 };
        assert_eq!(memos.counts(), [("m".to_owned(), counts)]);
        memos.declare(MemoizeOptions { capacity: 9, ..options }).expect("in its place");
        assert_eq!(memos.counts(), [("m".to_owned(), CacheCounts { len: 0, ..counts })]);
    }

    #[test]
    fn a_later_epoch_wants_a_result_of_its_own_and_an_earlier_one_takes_it() {
        let memo = memo(false);
        put(&memo, 1, 0);
        assert!(memo.get(b"k", 1).is_none());
        put(&memo, 2, 1);
        assert_eq!((number(memo.ask(b"k", 1)), number(memo.ask(b"k", 0))), (Some(2), Some(2)));
    }

    #[test]
    fn an_old_result_of_its_epoch_is_there_for_whoever_fails_to_compute_it_anew() {
        for allow_stale_reads in [false, true] {
            let memo = with(allow_stale_reads, true, 0);
            put(&memo, 1, 1);
            let Found::Missing(task) = memo.ask(b"k", 1) else { panic!("it is old") };
            assert!(matches!(task.old(&memo, 1), Some(Stored::Integer(1))));
            assert!(matches!(memo.get(b"k", 1), Some(Stored::Integer(1))), "others do not wait");
            drop(task);
            let Found::Missing(task) = memo.ask(b"k", 2) else { panic!("it is of another epoch") };
            assert!(task.old(&memo, 2).is_none());
        }
        let plain = with(false, false, 0);
        put(&plain, 1, 1);
        let Found::Missing(task) = plain.ask(b"k", 1) else { panic!("it is old") };
        assert!(task.old(&plain, 1).is_none());
    }

    #[test]
    fn an_old_result_is_handed_out_while_one_computes_it_anew() {
        let memo = memo(true);
        put(&memo, 1, 0);
        assert!(memo.get(b"k", 1).is_none(), "somebody has to");
        let renewal = memo.ask(b"k", 1);
        assert!(matches!(renewal, Found::Missing(Task::Again(_))));
        assert!(matches!(memo.get(b"k", 1), Some(Stored::Integer(1))) && number(memo.ask(b"k", 1)) == Some(1));
        drop(renewal);
        assert!(memo.get(b"k", 1).is_none(), "who gave up leaves it to the next");
        put(&memo, 2, 1);
        assert_eq!(number(memo.ask(b"k", 1)), Some(2));
    }
}
