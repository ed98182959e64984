//! Rolling counters of `kumo.counter_series`: sums over the last stretches of time, shared by all states by name.

use config::CounterSeriesOptions;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// All series of a policy.
#[derive(Default)]
pub(crate) struct SeriesByName(Mutex<HashMap<String, Arc<Series>>>);

impl SeriesByName {
    /// The series of that name; another one if its shape differs.
    ///
    /// # Errors
    /// There are too many, or it is too long.
    pub fn define(&self, options: CounterSeriesOptions) -> Result<Arc<Series>, String> {
        if options.num_buckets > BUCKETS_MAX {
            return Err(format!("num_buckets {}: expected at most {BUCKETS_MAX}", options.num_buckets));
        }
        let mut by_name = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(series) = by_name.get(&options.name).filter(|series| series.options == options) {
            return Ok(series.clone());
        }
        if by_name.len() >= SERIES_MAX && !by_name.contains_key(&options.name) {
            return Err(format!("name `{}`: one series too many: expected at most {SERIES_MAX}", options.name));
        }
        let buckets = VecDeque::from([options.initial_value]);
        let state = Mutex::new(State { buckets, since: Instant::now() });
        let series = Arc::new(Series { options: options.clone(), state });
        by_name.insert(options.name, series.clone());
        Ok(series)
    }
}

/// One series.
pub(crate) struct Series {
    options: CounterSeriesOptions,
    state: Mutex<State>,
}

struct State {
    /// The current one first.
    buckets: VecDeque<u64>,
    /// When the current one began.
    since: Instant,
}

impl Series {
    /// Changes the current bucket.
    pub fn change(&self, now: Instant, change: impl FnOnce(u64) -> u64) {
        let mut state = self.at(now);
        if let Some(current) = state.buckets.front_mut() {
            *current = change(*current);
        }
    }

    /// The sum of the buckets that reach into the last `over`; of all when `None`.
    pub fn sum(&self, now: Instant, over: Option<Duration>) -> u64 {
        let buckets = over.map_or(usize::MAX, |over| {
            usize::try_from(over.as_secs_f64().div_euclid(self.bucket().as_secs_f64()) as u64)
                .unwrap_or(usize::MAX)
                .saturating_add(usize::from(!over.as_nanos().is_multiple_of(self.bucket().as_nanos())))
        });
        self.at(now).buckets.iter().take(buckets).fold(0, |sum, bucket| sum.saturating_add(*bucket))
    }

    fn bucket(&self) -> Duration {
        let size = self.options.bucket_size.get();
        Duration::from_secs(size.as_secs() + u64::from(size.subsec_nanos() > 0)).max(Duration::from_secs(1))
    }

    /// The buckets as they are now: those whose time is over are gone.
    fn at(&self, now: Instant) -> std::sync::MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = now.saturating_duration_since(state.since).as_nanos() / self.bucket().as_nanos();
        let passed = u32::try_from(passed).unwrap_or(u32::MAX);
        if passed > 0 {
            state.since += self.bucket().saturating_mul(passed);
            for _ in 0..(passed as usize).min(self.options.num_buckets) {
                state.buckets.push_front(0);
            }
            state.buckets.truncate(self.options.num_buckets);
        }
        state
    }
}

/// Series a policy may have.
const SERIES_MAX: usize = 65_536;
/// Buckets a series may have.
const BUCKETS_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_counts_until_its_time_is_over() {
        let all = SeriesByName::default();
        let options = CounterSeriesOptions {
            name: "a".to_owned(),
            num_buckets: 3,
            bucket_size: config::Duration::from_secs(2),
            initial_value: 5,
        };
        let series = all.define(options.clone()).unwrap();
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(series.sum(start, None), 5);
        series.change(after(2), |n| n + 10);
        series.change(after(4), |n| n + 100);
        assert_eq!(series.sum(after(4), None), 115);
        assert_eq!(series.sum(after(4), Some(Duration::from_secs(1))), 100);
        assert_eq!(series.sum(after(4), Some(Duration::from_secs(3))), 110);
        assert_eq!(series.sum(after(6), None), 110, "the first is over");
        assert_eq!(series.sum(after(60), None), 0);
        assert!(Arc::ptr_eq(&all.define(options.clone()).unwrap(), &series));
        assert!(!Arc::ptr_eq(
            &all.define(CounterSeriesOptions { num_buckets: 4, ..options.clone() }).unwrap(),
            &series
        ));
        assert!(all.define(CounterSeriesOptions { num_buckets: BUCKETS_MAX + 1, ..options }).is_err());
    }
}
