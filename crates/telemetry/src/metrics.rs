//! Metrics under KumoMTA's names, exposed as Prometheus text.
//!
//! One line of [`Metrics::new`] is the whole truth of a metric: name, help, labels. Counters
//! are handles that live with whoever counts; gauges that mirror queues are filled in when
//! somebody scrapes, so that they cost the mail path nothing.

use crate::compliance_counts::ComplianceCounts;
use crate::delays::Delays;
use crate::event_counts::EventCounts;
use crate::full_logs::FullLogs;
use crate::largest::Kept;
use crate::latencies::Latencies;
use crate::process_counts::ProcessCounts;
use crate::registry::{Described, Registry};
use crate::report_counts::ReportCounts;
use crate::source_counts::SourceCounts;
use crate::tallies::Tallies;
use prometheus::{Encoder, HistogramOpts, Opts, TextEncoder};
use std::sync::Arc;

pub use prometheus::{Error, Histogram, IntCounter, IntCounterVec, IntGauge, IntGaugeVec};

/// The registry and every family in it.
#[derive(Clone)]
pub struct Metrics(Arc<Families>);

/// Every metric of the program.
pub struct Families {
    registry: Registry,
    /// Messages received, by listener service.
    pub total_messages_received: IntCounterVec,
    /// Those of them that came over HTTP, looked up once.
    pub received_over_http: IntCounter,
    /// What became of messages, and connections that were opened, by ready queue.
    pub tallies: Tallies,
    /// What goes wrong with sources themselves.
    pub sources: SourceCounts,
    /// How often ready queues were full, as told.
    pub ready_full: Kept,
    /// Inbound connections refused.
    pub total_connections_denied: IntCounterVec,
    /// Hosts looked at under `enable_dane`, by what came of it.
    pub dane_result_count: IntCounterVec,
    /// Rejection records.
    pub smtp_server_rejections: IntCounterVec,
    /// Open SMTP sessions. Not in the registry: `connection_count` tells of other connections too.
    pub open_sessions: IntGauge,
    /// Why due mail waits.
    pub delays: Delays,
    /// Messages in all scheduled queues.
    pub scheduled_count_total: IntGauge,
    /// Scheduled queues.
    pub scheduled_queue_count: IntGauge,
    /// `postrider_queue_census_age_seconds`: how long ago they were counted; 0 with so few that each scrape counts them.
    pub queue_census_age: IntGauge,
    /// Messages in any state.
    pub message_count: IntGauge,
    /// What every program tells.
    pub process: ProcessCounts,
    /// Transactions ended while their content came in, because memory was out.
    pub content_shed: IntCounter,
    /// Free space by `<name> spool` and `log dir <path>`.
    pub disk_free_bytes: IntGaugeVec,
    /// Share of free space in percent.
    pub disk_free_percent: IntGaugeVec,
    /// Free inodes.
    pub disk_free_inodes: IntGaugeVec,
    /// Share of free inodes in percent.
    pub disk_free_inodes_percent: IntGaugeVec,
    /// Spool: batches made durable.
    pub spool_commits: IntGauge,
    /// Queues in which messages waited for something that nobody would have ended.
    pub queue_stalls: IntCounter,
    /// Spool: sync calls, whatever for.
    pub spool_syncs: IntGauge,
    /// How often a lock that all cores share was found taken, by its name.
    pub lock_waits: IntGaugeVec,
    /// Spool: messages that did not read and were set aside.
    pub spool_set_aside: IntCounter,
    /// Messages of other nodes that these have not let go yet.
    pub xfer_arrivals: IntGauge,
    /// Keys of requests that are remembered.
    pub idempotency_keys: IntGauge,
    /// 1 while messages of earlier runs are on their way back to their queues.
    pub spool_recovering: IntGauge,
    /// Spool: octets written.
    pub spool_bytes_written: IntGauge,
    /// Bytes of survivors copied forward by compaction.
    pub spool_bytes_compacted: IntGauge,
    /// Records that found a log or a hook full.
    pub full_logs: FullLogs,
    /// What event streams delivered.
    pub event_streams: EventCounts,
    /// Attempts to send metrics to a collector that it did not take.
    pub otlp_export_failures: IntCounter,
    /// Attempts that it took.
    pub otlp_exports: IntCounter,
    /// What was counted for reports to other domains, and what became of these.
    pub domain_reports: ReportCounts,
    /// Time to find the class of one reply, in seconds.
    pub bounce_classify_latency: Histogram,
    /// What is checked of mail before it leaves.
    pub compliance: ComplianceCounts,
    /// How long the steps of a message's way take.
    pub latencies: Latencies,
    /// Time from reception to delivery, in seconds; each entry about delivered recipients once.
    pub delivery_seconds: Histogram,
}

impl Metrics {
    /// A registry of its own: two servers in one process do not share counts.
    pub fn new() -> Result<Metrics, prometheus::Error> {
        let registry = Registry::default();
        let r = &registry;
        let received = counters(r, "total_messages_received", "messages received", &["service"])?;
        let families = Families {
            received_over_http: received.with_label_values(&["http_listener"]),
            total_messages_received: received,
            tallies: Tallies::default(),
            dane_result_count: counters(r, "dane_result_count", "hosts looked at for DANE", &["result"])?,
            sources: SourceCounts::new(r)?,
            ready_full: Kept::default(),
            total_connections_denied: counters(r, "total_connections_denied", "connections refused", &["service"])?,
            smtp_server_rejections: counters(r, "smtp_server_rejections", "Rejection records", &["service"])?,
            open_sessions: IntGauge::new("connection_count", "open connections")?,
            delays: Delays::new(r)?,
            scheduled_count_total: gauge(r, "scheduled_count_total", "messages in all scheduled queues")?,
            scheduled_queue_count: gauge(r, "scheduled_queue_count", "scheduled queues")?,
            queue_census_age: gauge(r, "postrider_queue_census_age_seconds", "seconds since queues were counted")?,
            message_count: gauge(r, "message_count", "messages in any state")?,
            process: ProcessCounts::new(r)?,
            content_shed: counter(r, "postrider_content_shed", "transactions ended for want of memory")?,
            disk_free_bytes: gauges(r, "disk_free_bytes", "free space in bytes", &["name"])?,
            disk_free_percent: gauges(r, "disk_free_percent", "free space in percent", &["name"])?,
            disk_free_inodes: gauges(r, "disk_free_inodes", "free inodes", &["name"])?,
            disk_free_inodes_percent: gauges(r, "disk_free_inodes_percent", "free inodes in percent", &["name"])?,
            queue_stalls: counter(r, "postrider_queue_stalls", "queues that stood still for no reason, set going")?,
            spool_commits: gauge(r, "postrider_spool_commits", "spool batches made durable")?,
            spool_syncs: gauge(r, "postrider_spool_syncs", "spool sync calls")?,
            lock_waits: gauges(r, "postrider_lock_waits", "times a lock was found taken", &["lock"])?,
            spool_set_aside: counter(r, "postrider_spool_set_aside_total", "messages that did not read, set aside")?,
            idempotency_keys: gauge(r, "postrider_idempotency_keys", "keys of requests that are remembered")?,
            xfer_arrivals: gauge(r, "postrider_xfer_arrivals", "messages other nodes have not let go yet")?,
            spool_recovering: gauge(r, "postrider_spool_recovering", "1 while earlier mail returns to its queues")?,
            spool_bytes_written: gauge(r, "postrider_spool_bytes_written", "bytes written to the spool")?,
            spool_bytes_compacted: gauge(r, "postrider_spool_bytes_compacted", "bytes of survivors copied forward")?,
            full_logs: FullLogs::new(r)?,
            event_streams: EventCounts::new(r)?,
            otlp_export_failures: counter(r, "postrider_otlp_export_failures_total", "metrics sent and not taken")?,
            otlp_exports: counter(r, "postrider_otlp_exports_total", "metrics sent and taken")?,
            domain_reports: ReportCounts::new(r)?,
            compliance: ComplianceCounts::new(r)?,
            bounce_classify_latency: histogram(r, "bounce_classify_latency", "seconds to classify a reply")?,
            latencies: Latencies::new(r)?,
            delivery_seconds: long_histogram(r, "postrider_delivery_seconds", "seconds from reception to delivery")?,
            registry,
        };
        Ok(Metrics(Arc::new(families)))
    }

    /// What is in the registry, whether it has counted something or not.
    pub fn described(&self) -> Vec<Described> {
        self.0.registry.described()
    }

    /// The text of what is in the registry, limited to names that begin with `prefix`.
    pub fn text(&self, prefix: &str) -> Result<String, prometheus::Error> {
        text_of(&self.0.registry, prefix)
    }
}

impl std::ops::Deref for Metrics {
    type Target = Families;
    fn deref(&self) -> &Families {
        &self.0
    }
}

pub(crate) fn text_of(registry: &Registry, prefix: &str) -> Result<String, prometheus::Error> {
    let mut families = registry.gather();
    families.retain(|family| family.name().starts_with(prefix));
    let mut text = Vec::new();
    TextEncoder::new().encode(&families, &mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

pub(crate) fn counters(
    r: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
) -> Result<IntCounterVec, prometheus::Error> {
    let family = IntCounterVec::new(Opts::new(name, help), labels)?;
    r.register(Box::new(family.clone()))?;
    Ok(family)
}

pub(crate) fn gauges(r: &Registry, name: &str, help: &str, labels: &[&str]) -> Result<IntGaugeVec, prometheus::Error> {
    let family = IntGaugeVec::new(Opts::new(name, help), labels)?;
    r.register(Box::new(family.clone()))?;
    Ok(family)
}

pub(crate) fn counter(r: &Registry, name: &str, help: &str) -> Result<IntCounter, prometheus::Error> {
    let metric = IntCounter::new(name, help)?;
    r.register(Box::new(metric.clone()))?;
    Ok(metric)
}

pub(crate) fn gauge(r: &Registry, name: &str, help: &str) -> Result<IntGauge, prometheus::Error> {
    let gauge = IntGauge::new(name, help)?;
    r.register(Box::new(gauge.clone()))?;
    Ok(gauge)
}

pub(crate) fn histogram(r: &Registry, name: &str, help: &str) -> Result<Histogram, prometheus::Error> {
    // The default buckets are KumoMTA's.
    let histogram = Histogram::with_opts(HistogramOpts::new(name, help))?;
    r.register(Box::new(histogram.clone()))?;
    Ok(histogram)
}

/// For what takes from milliseconds to days.
fn long_histogram(r: &Registry, name: &str, help: &str) -> Result<Histogram, prometheus::Error> {
    let histogram = Histogram::with_opts(HistogramOpts::new(name, help).buckets(LONG_SECONDS.to_vec()))?;
    r.register(Box::new(histogram.clone()))?;
    Ok(histogram)
}

/// Upper bounds: three steps a decade while people wait, then what retry intervals are.
const LONG_SECONDS: [f64; 20] = [
    0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 43_200.0,
    86_400.0, 259_200.0,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_exact_and_registries_are_apart() {
        let metrics = Metrics::new().expect("a sound table");
        let other = Metrics::new().expect("a second registry");
        metrics.total_messages_received.with_label_values(&["esmtp_listener"]).inc_by(3);
        let text = metrics.text("total_messages").expect("encodes");
        assert!(text.contains("\ntotal_messages_received{service=\"esmtp_listener\"} 3\n"), "{text}");
        assert!(!text.contains("connection_count"), "prefix");
        assert!(!other.text("").expect("encodes").contains("esmtp_listener"), "counts leak between registries");
    }
}
