//! A histogram of durations in microseconds, log-linear: every bucket is at most 1/128 of its value wide.
//!
//! In: microseconds, from any task, without a lock. Out: percentiles, at most 0.4 % away from the true value.
//! It keeps no samples; durations above an hour count as an hour.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts by bucket, shared between tasks.
pub(super) struct Histogram {
    counts: Box<[AtomicU64]>,
    sum_us: AtomicU64,
    min_us: AtomicU64,
    max_us: AtomicU64,
}

impl Histogram {
    /// An empty histogram.
    pub(super) fn new() -> Self {
        Self {
            counts: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            sum_us: AtomicU64::new(0),
            min_us: AtomicU64::new(u64::MAX),
            max_us: AtomicU64::new(0),
        }
    }

    /// Adds one duration.
    pub(super) fn record(&self, microseconds: u64) {
        let value = microseconds.min(VALUE_MAX_US);
        self.counts[bucket_of(value)].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(value, Ordering::Relaxed);
        // Most values change neither end: a load is cheaper than a write to a shared line.
        if value < self.min_us.load(Ordering::Relaxed) {
            self.min_us.fetch_min(value, Ordering::Relaxed);
        }
        if value > self.max_us.load(Ordering::Relaxed) {
            self.max_us.fetch_max(value, Ordering::Relaxed);
        }
    }
}

/// The sum of several histograms, for reading.
pub(super) struct Distribution {
    counts: Vec<u64>,
    total: u64,
    sum_us: u64,
    min_us: u64,
    max_us: u64,
}

impl Distribution {
    /// Adds up what the histograms hold now.
    pub(super) fn of<'a>(histograms: impl IntoIterator<Item = &'a Histogram>) -> Self {
        let mut all = Self { counts: vec![0; BUCKETS], total: 0, sum_us: 0, min_us: u64::MAX, max_us: 0 };
        for histogram in histograms {
            for (sum, count) in all.counts.iter_mut().zip(&histogram.counts) {
                *sum += count.load(Ordering::Relaxed);
            }
            all.sum_us += histogram.sum_us.load(Ordering::Relaxed);
            all.min_us = all.min_us.min(histogram.min_us.load(Ordering::Relaxed));
            all.max_us = all.max_us.max(histogram.max_us.load(Ordering::Relaxed));
        }
        all.total = all.counts.iter().sum();
        all
    }

    /// The summary of it; all zero when nothing was recorded.
    pub(super) fn latency(&self) -> Latency {
        if self.total == 0 {
            return Latency::default();
        }
        Latency {
            avg_us: self.sum_us / self.total,
            min_us: self.min_us,
            p50_us: self.percentile(500),
            p90_us: self.percentile(900),
            p95_us: self.percentile(950),
            p99_us: self.percentile(990),
            p999_us: self.percentile(999),
            max_us: self.max_us,
        }
    }

    /// The value that `per_mille` of a thousand durations do not exceed.
    fn percentile(&self, per_mille: u64) -> u64 {
        let rank = (self.total * per_mille).div_ceil(1000).max(1);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return middle_of(bucket).clamp(self.min_us, self.max_us);
            }
        }
        self.max_us
    }
}

/// Durations from the final dot to its 250, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Latency {
    /// Mean.
    pub avg_us: u64,
    /// Shortest.
    pub min_us: u64,
    /// Median.
    pub p50_us: u64,
    /// 90 % are not longer.
    pub p90_us: u64,
    /// 95 % are not longer.
    pub p95_us: u64,
    /// 99 % are not longer.
    pub p99_us: u64,
    /// 99.9 % are not longer.
    pub p999_us: u64,
    /// Longest.
    pub max_us: u64,
}

fn bucket_of(value: u64) -> usize {
    if value < LINEAR {
        return value as usize;
    }
    let shift = value.ilog2() - LINEAR_BITS;
    (LINEAR * u64::from(shift) + (value >> shift)) as usize
}

fn middle_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * LINEAR {
        return bucket;
    }
    let shift = bucket / LINEAR - 1;
    let low = (bucket - LINEAR * shift) << shift;
    low + (1 << shift) / 2
}

/// Values below this have a bucket each; above it every doubling is cut into this many.
const LINEAR: u64 = 1 << LINEAR_BITS;
const LINEAR_BITS: u32 = 7;
/// One hour.
const VALUE_MAX_US: u64 = 3_600_000_000;
const BUCKETS: usize = (LINEAR as usize) * (VALUE_MAX_US.ilog2() - LINEAR_BITS + 2) as usize;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lands_near_the_middle_of_its_bucket() {
        let mut value = 0_u64;
        let mut last_bucket = 0;
        while value <= VALUE_MAX_US {
            let bucket = bucket_of(value);
            assert!(bucket < BUCKETS && bucket >= last_bucket, "{value}");
            last_bucket = bucket;
            let error = middle_of(bucket).abs_diff(value) as f64;
            assert!(error <= value as f64 * 0.005, "{value} became {}", middle_of(bucket));
            value += 1 + value / 1000;
        }
        assert!(bucket_of(VALUE_MAX_US) < BUCKETS);
    }

    #[test]
    fn percentiles_of_a_known_set_over_two_histograms() {
        let (even, odd) = (Histogram::new(), Histogram::new());
        for value in 1..=100_000_u64 {
            if value % 2 == 0 { even.record(value) } else { odd.record(value) }
        }
        let latency = Distribution::of([&even, &odd]).latency();
        assert_eq!((latency.min_us, latency.max_us, latency.avg_us), (1, 100_000, 50_000));
        for (got, want) in [
            (latency.p50_us, 50_000),
            (latency.p90_us, 90_000),
            (latency.p95_us, 95_000),
            (latency.p99_us, 99_000),
            (latency.p999_us, 99_900),
        ] {
            assert!(u64::abs_diff(got, want) * 100 <= want, "{got} for {want}");
        }
    }

    #[test]
    fn empty_single_and_endless() {
        assert_eq!(Distribution::of([&Histogram::new()]).latency(), Latency::default());
        let one = Histogram::new();
        one.record(u64::MAX);
        let latency = Distribution::of([&one]).latency();
        assert_eq!((latency.min_us, latency.p50_us, latency.max_us), (VALUE_MAX_US, VALUE_MAX_US, VALUE_MAX_US));
    }
}
