//! Metrics read back by the program itself, for those it shows numbers to.
//!
//! In: families. Out: plain numbers, as they stand at this moment.

use crate::metrics::{IntCounterVec, IntGaugeVec};
use prometheus::Histogram;
use prometheus::core::Collector;
use prometheus::proto::Metric;

/// The sum of all series of a counter by service, but for those that are a part of another: such have a colon.
pub fn sum(counters: &IntCounterVec) -> u64 {
    let families = counters.collect();
    let series = families.iter().flat_map(|family| family.get_metric());
    let is_part = |metric: &Metric| metric.get_label().iter().any(|label| label.value().contains(':'));
    series.filter(|metric| !is_part(metric)).map(|metric| metric.get_counter().get_value() as u64).sum()
}

/// Each series of a gauge with one label, by that.
pub fn by_label(gauges: &IntGaugeVec) -> Vec<(String, i64)> {
    let families = gauges.collect();
    let series = families.iter().flat_map(|family| family.get_metric());
    let named = series.filter_map(|metric| {
        let label = metric.get_label().first()?;
        Some((label.value().to_owned(), metric.get_gauge().get_value() as i64))
    });
    named.collect()
}

/// Upper bounds of a histogram, each with how many observations were at or below it, and how many there were at all.
pub fn buckets(histogram: &Histogram) -> (Vec<(f64, u64)>, u64) {
    let families = histogram.collect();
    let Some(metric) = families.first().and_then(|family| family.get_metric().first()) else { return (Vec::new(), 0) };
    let histogram = metric.get_histogram();
    let buckets = histogram.get_bucket().iter().map(|bucket| (bucket.upper_bound(), bucket.cumulative_count()));
    (buckets.collect(), histogram.get_sample_count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metrics;

    #[test]
    fn what_was_counted_is_read_back() {
        let metrics = Metrics::new().expect("a sound table");
        metrics.total_messages_received.with_label_values(&["esmtp_listener"]).inc_by(3);
        metrics.total_messages_received.with_label_values(&["esmtp_listener:127.0.0.1:25"]).inc_by(3);
        metrics.total_messages_received.with_label_values(&["http_listener"]).inc_by(4);
        assert_eq!(sum(&metrics.total_messages_received), 7);
        metrics.disk_free_percent.with_label_values(&["data spool"]).set(42);
        assert_eq!(by_label(&metrics.disk_free_percent), [("data spool".to_owned(), 42)]);
        [0.004, 0.6, 1e9].iter().for_each(|seconds| metrics.delivery_seconds.observe(*seconds));
        let (buckets, count) = buckets(&metrics.delivery_seconds);
        assert_eq!((count, buckets.first(), buckets.last()), (3, Some(&(0.005, 1)), Some(&(259_200.0, 2))));
    }
}
