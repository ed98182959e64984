//! What was counted for reports to other domains, and what became of these.
//!
//! Owns [`ReportCounts`]; `kind` is `dmarc`, `dmarc_failure` or `tls`. In: counts of whoever counts and sends. Out: what is in the registry.

use crate::metrics::counters;
use crate::registry::Registry;
use prometheus::{Error, IntCounter, IntCounterVec};

/// By kind of report and outcome.
pub struct ReportCounts {
    seen: IntCounterVec,
    reports: IntCounterVec,
}

impl ReportCounts {
    pub(crate) fn new(r: &Registry) -> Result<ReportCounts, Error> {
        let by = &["kind", "outcome"];
        Ok(ReportCounts {
            seen: counters(r, "postrider_report_observations_total", "what was seen for reports to domains", by)?,
            reports: counters(r, "postrider_reports_total", "reports to domains, by what became of them", by)?,
        })
    }

    /// Observations: `counted`, `over` (without its row), `lost` (its domain had no room), `dropped` (nobody had time for it).
    pub fn seen(&self, kind: &str, outcome: &str) -> IntCounter {
        self.seen.with_label_values(&[kind, outcome])
    }

    /// Reports: `sent`, `unverified`, `too_large`, `refused`, `private`, `delayed`, `limited`, `failed`, `expired`.
    pub fn reports(&self, kind: &str, outcome: &str) -> IntCounter {
        self.reports.with_label_values(&[kind, outcome])
    }
}
