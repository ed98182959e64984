//! Metrics for a collector (`kumo.configure_otlp_metrics`): read as `/metrics` reads them, sent in between.
//!
//! In: the options. Out: requests on an interval, counts, two lines in the log for an outage. One task beside everything: what it asks of
//! the queues is what a scrape asks, the text becomes requests on blocking threads, one at a time, and nobody waits for the collector. What it
//! does not take is not kept: the next attempt tells more.

use crate::engine::Engine;
use metrics_export::{About, Attempt, Exporter, News, Requests};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

impl Engine {
    /// Sends metrics until the program ends; at once where nothing is to be sent.
    pub(crate) async fn export_metrics(&self) {
        let Some(options) = &self.startup.otlp_metrics else { return };
        let mut exporter = match Exporter::new(options, &self.connectors) {
            Ok(exporter) => exporter,
            Err(error) => return tracing::error!("kumo.configure_otlp_metrics: {error}"),
        };
        let mut wait = options.interval.get();
        let about = self.about(&options.attributes);
        while self.stop.unless_requested(tokio::time::sleep(wait)).await.is_some() {
            let exporting = self.export_once(&mut exporter, &options.prefix, &about);
            let Some(attempt) = self.stop.unless_requested(exporting).await else { return };
            wait = self.note_export(attempt);
        }
    }

    async fn export_once(&self, exporter: &mut Exporter, prefix: &str, about: &About) -> Attempt {
        let now_ns = nanoseconds();
        let text = match self.metrics_text(prefix).await {
            Ok(text) => text,
            Err(error) => return unread(error.to_string()),
        };
        match exporter.export(Requests::new(text, about.clone(), now_ns)).await {
            Ok(attempt) => attempt,
            Err(error) => unread(error.to_string()),
        }
    }

    /// Counts and says what became of an attempt; how long to wait.
    fn note_export(&self, attempt: Attempt) -> Duration {
        let counter = match attempt.is_taken {
            true => &self.metrics.otlp_exports,
            false => &self.metrics.otlp_export_failures,
        };
        counter.inc();
        match attempt.news {
            Some(News::Refuses(why)) => {
                tracing::warn!(
                    "metrics are not taken by the collector: {why}; postrider_otlp_export_failures_total counts on"
                );
            }
            Some(News::TakesAgain) => tracing::info!("metrics are taken by the collector again"),
            None => {}
        }
        attempt.wait
    }

    /// Who tells.
    fn about(&self, given: &std::collections::BTreeMap<String, String>) -> About {
        let version = env!("CARGO_PKG_VERSION");
        let own = [
            ("service.name", "postrider"),
            ("service.version", version),
            ("service.instance.id", self.node_id()),
            ("host.name", self.hostname()),
        ];
        let mut attributes = given.clone();
        for (name, value) in own {
            attributes.entry(name.to_owned()).or_insert_with(|| value.to_owned());
        }
        let uptime_ns = u64::try_from(self.uptime().as_nanos()).unwrap_or(0);
        About { attributes, version: version.to_owned(), began_ns: nanoseconds().saturating_sub(uptime_ns) }
    }
}

/// Metrics could not be read: said each time, since it is a fault of this program.
fn unread(why: String) -> Attempt {
    tracing::error!("metrics for the collector: {why}");
    Attempt { is_taken: false, rejected: 0, wait: UNREAD_WAIT, news: None }
}

fn nanoseconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// How long to wait when metrics cannot be read.
const UNREAD_WAIT: Duration = Duration::from_secs(60);
