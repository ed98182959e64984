//! What the program holds: both kinds of reports, on or off.
//!
//! In: options, at the start; observations, from then on; who resolves names and takes messages, once the program serves. Nothing
//! is asked or sent before that. Fails at the start only.

use crate::collector::{Collector, now_secs};
use crate::courier::Courier;
use crate::failures::{self, Failures, Limits};
use crate::kind::{Dmarc, Tls};
use crate::outbox::Outbox;
use crate::sender::Sender;
use crate::waiting::Waiting;
use config::{DmarcReports, TlsReports};
use net::tls::Connectors;
use reports::{Alignment, Bounds, DmarcSeen, FailureSeen, Reporter, TlsSeen, domain_of};
use route::Resolver;
use std::path::Path;
use std::sync::{Arc, Mutex};
use telemetry::Metrics;

/// Counts and sends reports to other domains.
pub struct DomainReports {
    dmarc: Option<OfDmarc>,
    tls: Option<OfTls>,
    here: Here,
    metrics: Metrics,
}

/// The node that reports.
#[derive(Clone, Debug)]
pub struct Here {
    /// Its name, which stands for who reports where the options name nobody.
    pub hostname: String,
    /// What tells it from others: letters and digits, the same after each start.
    pub node: String,
}

struct OfDmarc {
    options: DmarcReports,
    collector: Arc<Collector<Dmarc>>,
    failures: Arc<Waiting>,
}

struct OfTls {
    options: TlsReports,
    collector: Arc<Collector<Tls>>,
}

impl DomainReports {
    /// Begins to count what is configured.
    ///
    /// # Errors
    /// A directory or a file in it cannot be had; the text names it.
    pub fn open(
        dmarc: Option<&DmarcReports>,
        tls: Option<&TlsReports>,
        here: Here,
        metrics: Metrics,
    ) -> Result<DomainReports, String> {
        let dmarc = dmarc.map(|options| OfDmarc::open(options, &metrics)).transpose()?;
        let tls = tls.map(|options| OfTls::open(options, &metrics)).transpose()?;
        Ok(DomainReports { dmarc, tls, here, metrics })
    }

    /// Whether anybody wants to know what DMARC checks see.
    pub fn counts_dmarc(&self) -> bool {
        self.dmarc.is_some()
    }

    /// Whether failure reports are sent.
    pub fn reports_failures(&self) -> bool {
        self.dmarc.as_ref().is_some_and(|dmarc| dmarc.options.failure_reports)
    }

    /// Whether anybody wants to know how TLS goes.
    pub fn counts_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// A message was checked. Never waits.
    pub fn saw_dmarc(&self, seen: DmarcSeen) {
        if let Some(dmarc) = &self.dmarc {
            if seen.is_report && dmarc.is_of_reporters(&seen) {
                return;
            }
            let DmarcSeen { domain, policy, row, .. } = seen.bounded();
            dmarc.collector.saw(domain, policy, row);
        }
    }

    /// A message failed, and its author's domain wants to know. Never waits.
    pub fn saw_failure(&self, failure: FailureSeen) {
        let Some(dmarc) = self.dmarc.as_ref().filter(|dmarc| dmarc.options.failure_reports) else { return };
        if !dmarc.failures.push(failure) {
            self.metrics.domain_reports.seen(failures::KIND, "dropped").inc();
        }
    }

    /// A session has ended its negotiation of TLS, or ended for want of it. Never waits.
    pub fn saw_tls(&self, seen: TlsSeen) {
        if let Some(tls) = &self.tls {
            tls.collector.saw(seen.domain, (), seen.row);
        }
    }

    /// Sends reports until it is dropped.
    pub async fn run(&self, resolver: Arc<dyn Resolver>, outbox: Arc<dyn Outbox>, connectors: &Connectors) {
        let is_allowed = self.tls.as_ref().is_some_and(|tls| tls.options.allow_private_addresses);
        let courier = Arc::new(Courier::new(resolver, outbox, connectors, is_allowed));
        let dmarc = async {
            let Some(dmarc) = &self.dmarc else { return };
            dmarc.sender(&self.here, &courier, &self.metrics).run().await;
        };
        let failures = async {
            let Some(dmarc) = self.dmarc.as_ref().filter(|dmarc| dmarc.options.failure_reports) else { return };
            dmarc.failures(&self.here, &courier, &self.metrics).run().await;
        };
        let tls = async {
            let Some(tls) = &self.tls else { return };
            tls.sender(&self.here, &courier, &self.metrics).run().await;
        };
        tokio::join!(dmarc, failures, tls);
    }

    /// Writes what was counted, and counts no more. Blocks.
    pub fn close(&self) {
        if let Some(dmarc) = &self.dmarc {
            // While the lock is still held.
            match dmarc.failures.close(&dmarc.options.dir) {
                Ok(0) => {}
                Ok(kept) => tracing::info!("{kept} failure reports are sent after the next start"),
                Err(error) => tracing::error!("{}: failure reports are lost: {error}", dmarc.options.dir.display()),
            }
            dmarc.collector.close();
        }
        self.tls.iter().for_each(|tls| tls.collector.close());
    }

    /// The moment that observations have, in seconds since 1970.
    pub fn now_secs() -> i64 {
        now_secs()
    }
}

impl OfDmarc {
    fn open(options: &DmarcReports, metrics: &Metrics) -> Result<OfDmarc, String> {
        let DmarcReports { dir, max_domains, max_domains_per_organisation, max_rows, max_rows_per_domain, .. } =
            options;
        let failed = |error: std::io::Error| format!("kumo.configure_dmarc_reports: dir `{}`: {error}", dir.display());
        let bounds = Bounds {
            domains_max: *max_domains,
            domains_per_organisation_max: *max_domains_per_organisation,
            rows_max: *max_rows,
            rows_per_domain_max: *max_rows_per_domain,
        };
        make(dir).map_err(failed)?;
        let collector = Collector::start(dir.clone(), secs(options.interval), bounds, metrics).map_err(failed)?;
        let failures = if options.failure_reports { Waiting::open(dir) } else { Waiting::default() };
        Ok(OfDmarc { options: options.clone(), collector: Arc::new(collector), failures: Arc::new(failures) })
    }

    /// A report of somebody who reports: that it came is not reported, or two who report would do so for each other's reports
    /// for ever. What only looks like a report is counted as any message, so that nobody hides behind that.
    fn is_of_reporters(&self, seen: &DmarcSeen) -> bool {
        let has_passed = [seen.row.dkim, seen.row.spf].contains(&Alignment::Pass);
        has_passed || seen.row.header_from.eq_ignore_ascii_case(domain_of(&self.options.email))
    }

    fn reporter(&self, here: &Here) -> Reporter {
        let DmarcReports { org_name, email, extra_contact_info, submitter, .. } = self.options.clone();
        let (submitter, node) = (submitter.unwrap_or_else(|| here.hostname.clone()), here.node.clone());
        Reporter { org_name, email, extra_contact_info, submitter, node }
    }

    fn sender(&self, here: &Here, courier: &Arc<Courier>, metrics: &Metrics) -> Sender<Dmarc> {
        let DmarcReports { dir, spread, sender, .. } = self.options.clone();
        let who = (self.reporter(here), sender);
        Sender::new((dir, secs(spread)), who, self.collector.clone(), courier.clone(), metrics.clone())
    }

    fn failures(&self, here: &Here, courier: &Arc<Courier>, metrics: &Metrics) -> Failures {
        Failures {
            waiting: self.failures.clone(),
            reporter: self.reporter(here),
            sender: self.options.sender.clone(),
            redacts: self.options.redact_recipients,
            limits: Mutex::new(Limits::new(self.options.max_failure_reports_per_hour)),
            courier: courier.clone(),
            metrics: metrics.clone(),
        }
    }
}

impl OfTls {
    fn open(options: &TlsReports, metrics: &Metrics) -> Result<OfTls, String> {
        let TlsReports { dir, max_domains, max_domains_per_organisation, max_rows, max_rows_per_domain, .. } = options;
        let failed = |error: std::io::Error| format!("kumo.configure_tls_reports: dir `{}`: {error}", dir.display());
        let bounds = Bounds {
            domains_max: *max_domains,
            domains_per_organisation_max: *max_domains_per_organisation,
            rows_max: *max_rows,
            rows_per_domain_max: *max_rows_per_domain,
        };
        make(dir).map_err(failed)?;
        let collector = Collector::start(dir.clone(), secs(options.interval), bounds, metrics).map_err(failed)?;
        Ok(OfTls { options: options.clone(), collector: Arc::new(collector) })
    }

    fn sender(&self, here: &Here, courier: &Arc<Courier>, metrics: &Metrics) -> Sender<Tls> {
        let TlsReports { org_name, email, submitter, dir, spread, sender, .. } = self.options.clone();
        let (submitter, node) = (submitter.unwrap_or_else(|| here.hostname.clone()), here.node.clone());
        let who = (Reporter { org_name, email, extra_contact_info: None, submitter, node }, sender);
        Sender::new((dir, secs(spread)), who, self.collector.clone(), courier.clone(), metrics.clone())
    }
}

fn make(dir: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)
}

fn secs(duration: config::Duration) -> u32 {
    u32::try_from(duration.get().as_secs()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failures::tests::failure;
    use serde_json::json;

    fn open(dir: &Path, metrics: &Metrics) -> Result<DomainReports, String> {
        let options = json!({"org_name": "o", "email": "r@own.test", "dir": dir, "failure_reports": true});
        let options = config::parse("kumo.configure_dmarc_reports", options).expect("sound");
        let here = Here { hostname: "mx.own.test".to_owned(), node: "n1".to_owned() };
        DomainReports::open(Some(&options), None, here, metrics.clone())
    }

    #[test]
    fn reports_of_those_who_report_are_not_counted() {
        let dir = tempfile::tempdir().expect("scratch");
        let metrics = Metrics::new().expect("metrics");
        let reports = open(dir.path(), &metrics).expect("opened");
        let see = |from: &str, spf: Alignment, is_report: bool| {
            let mut seen = failure(from, "").seen;
            (seen.row.spf, seen.is_report) = (spf, is_report);
            reports.saw_dmarc(seen);
        };
        see("a.test", Alignment::Pass, true);
        see("own.test", Alignment::Fail, true);
        // What is no report is counted, and so is what only says that it is one.
        see("a.test", Alignment::Pass, false);
        see("own.test", Alignment::Fail, false);
        see("a.test", Alignment::Fail, true);
        reports.close();
        assert_eq!(metrics.domain_reports.seen("dmarc", "counted").get(), 3);
    }

    #[test]
    fn a_directory_in_use_is_named_and_failures_wait_in_it_for_the_next_start() {
        let dir = tempfile::tempdir().expect("scratch");
        let metrics = Metrics::new().expect("metrics");
        let first = open(dir.path(), &metrics).expect("opened");
        let why = open(dir.path(), &metrics).err().expect("refused");
        let named =
            format!("kumo.configure_dmarc_reports: dir `{}`: another program counts here", dir.path().display());
        assert!(why.starts_with(&named), "{why}");
        let mut seen = failure("a.test", "mailto:f@a.test");
        seen.arrived_secs = now_secs();
        first.saw_failure(seen);
        first.close();
        first.saw_failure(failure("late.test", "mailto:f@a.test"));
        assert_eq!(metrics.domain_reports.seen(failures::KIND, "dropped").get(), 1, "it is closed");
        let next = open(dir.path(), &metrics).expect("opened again");
        let dmarc = next.dmarc.as_ref().expect("on");
        assert_eq!(dmarc.failures.begin().expect("it waits").seen.domain, "a.test");
        assert!(dmarc.failures.begin().is_none());
        next.close();
    }
}
