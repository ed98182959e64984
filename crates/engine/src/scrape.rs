//! The text of `/metrics`: counters as they stand, and what mirrors queues and spool read at this moment.
//!
//! The queues are asked once, for copies of names and numbers; the text is written after their lock is free. Fails only
//! if the registry cannot be written as text.

use crate::egress::service::{PROTOCOLS, protocol_of, service};
use crate::engine::Engine;
use std::sync::Arc;
use telemetry::{Exposition, Kind};

impl Engine {
    /// All metrics whose name begins with `prefix`.
    ///
    /// # Errors
    /// A metric of the registry cannot be written.
    pub fn metrics_text(&self, prefix: &str) -> Result<String, telemetry::metrics::Error> {
        let queues = self.with_queue(|queue, _| Queues {
            scheduled: queue.scheduled_counts().map(|(name, messages)| (name.clone(), messages as u64)).collect(),
            ready: queue
                .ready_counts()
                .map(|(name, messages, connections)| (name.clone(), messages as u64, connections))
                .collect(),
            counts: queue.counts(),
        });
        self.refresh_gauges(&queues);
        let mut text = Exposition::after(self.metrics.text(prefix)?, prefix);
        self.metrics.tallies.expose(&mut text, service);
        let scheduled = queues.scheduled.iter().map(|(name, messages)| (name, *messages));
        text.family(("scheduled_count", "messages in a scheduled queue", Kind::Gauge), "queue", summed(scheduled));
        let ready = queues.ready.iter().map(|(name, messages, _)| (name, *messages));
        let ready = summed(ready).into_iter().map(|(name, messages)| (service(name), messages));
        text.family(("ready_count", "messages in ready queues", Kind::Gauge), "service", ready);
        Ok(text.into_text())
    }

    /// Fills the gauges of the registry that mirror queues and spool.
    fn refresh_gauges(&self, queues: &Queues) {
        let metrics = &self.metrics;
        let mut by_protocol = PROTOCOLS.map(|protocol| (protocol, 0));
        for (name, _, connections) in &queues.ready {
            let protocol = protocol_of(name);
            by_protocol.iter_mut().filter(|(known, _)| *known == protocol).for_each(|(_, sum)| *sum += connections);
        }
        for (protocol, connections) in by_protocol {
            metrics.connection_count.with_label_values(&[protocol]).set(connections as i64);
        }
        let counts = &queues.counts;
        metrics.scheduled_count_total.set(counts.scheduled as i64);
        metrics.scheduled_queue_count.set(counts.scheduled_queues as i64);
        metrics.message_count.set((counts.scheduled + counts.out) as i64);
        metrics.xfer_arrivals.set(self.arrivals.len() as i64);
        let spool = self.spool.stats();
        metrics.spool_syncs.set(spool.log.syncs as i64);
        metrics.spool_commits.set(spool.log.commits as i64);
        metrics.spool_bytes_written.set(spool.log.octets_written as i64);
        metrics.spool_bytes_compacted.set(spool.log.octets_compacted as i64);
    }
}

/// What the queues said.
struct Queues {
    scheduled: Vec<(Arc<str>, u64)>,
    /// Name, messages, connections.
    ready: Vec<(Arc<str>, u64, usize)>,
    counts: queue::Counts,
}

/// In order of name; namesakes (queues that must not be mixed) are one series.
fn summed<'a>(series: impl Iterator<Item = (&'a Arc<str>, u64)>) -> Vec<(&'a Arc<str>, u64)> {
    let mut series: Vec<_> = series.collect();
    series.sort_unstable_by(|a, b| a.0.cmp(b.0));
    series.dedup_by(|later, first| {
        let same = later.0 == first.0;
        first.1 += if same { later.1 } else { 0 };
        same
    });
    series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namesakes_are_added_up() {
        let names: [Arc<str>; 3] = ["b".into(), "a".into(), "b".into()];
        let series = summed(names.iter().zip([1, 2, 4]));
        assert_eq!(series, [(&names[1], 2), (&names[0], 5)]);
    }
}
