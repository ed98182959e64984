//! The options of `kumo.memoize` and of `kumo.counter_series.define`.

use crate::duration::Duration;
use crate::options::options;
use core::time;

options! {
    /// `kumo.memoize`
    pub struct MemoizeOptions {
        /// The cache's name, shared by all states.
        name: String;
        /// How long a result counts.
        ttl: Duration;
        /// Most results that are kept.
        capacity: usize, min 1;
        /// Results of an earlier configuration epoch do not count.
        invalidate_with_epoch: bool = false;
        /// How long others wait for the one that computes a result; 120 s when absent.
        populate_timeout: Option<Duration> = None;
        /// Try again, up to three times, when that wait was in vain.
        retry_on_populate_timeout: bool = false;
        /// While a result that does not count any more is computed anew, others get the old one.
        allow_stale_reads: bool = false;
        /// A result that does not count any more goes on to count when computing it anew fails, in the epoch it is of: the failure
        /// is logged, and it is tried again when `ttl` is over once more.
        keep_on_error: bool = false;
    }
}

impl MemoizeOptions {
    /// How long one waits for another's result.
    pub fn wait_max(&self) -> time::Duration {
        self.populate_timeout.map_or(POPULATE_WAIT, Duration::get)
    }
}

options! {
    /// `kumo.counter_series.define`
    pub struct CounterSeriesOptions {
        /// The series' name, shared by all states.
        name: String;
        /// How many stretches of time are remembered.
        num_buckets: usize, min 1;
        /// How long a stretch is; rounded up to whole seconds.
        bucket_size: Duration;
        /// What the first bucket begins with.
        initial_value: u64 = 0;
    }
}

/// KumoMTA's.
const POPULATE_WAIT: time::Duration = time::Duration::from_secs(120);
