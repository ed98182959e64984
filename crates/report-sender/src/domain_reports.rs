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
use config::{DmarcReports, TlsReports};
use net::tls::Connectors;
use reports::{Bounds, DmarcSeen, FailureSeen, Reporter, TlsSeen};
use route::Resolver;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use telemetry::Metrics;
use tokio::sync::mpsc::{self, Receiver};

/// Counts and sends reports to other domains.
pub struct DomainReports {
    dmarc: Option<OfDmarc>,
    tls: Option<OfTls>,
    hostname: String,
    metrics: Metrics,
}

struct OfDmarc {
    options: DmarcReports,
    collector: Arc<Collector<Dmarc>>,
    failures: mpsc::Sender<Box<FailureSeen>>,
    /// Until somebody sends them.
    seen: Mutex<Option<Receiver<Box<FailureSeen>>>>,
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
        hostname: &str,
        metrics: Metrics,
    ) -> Result<DomainReports, String> {
        let dmarc = dmarc.map(|options| OfDmarc::open(options, &metrics)).transpose()?;
        let tls = tls.map(|options| OfTls::open(options, &metrics)).transpose()?;
        Ok(DomainReports { dmarc, tls, hostname: hostname.to_owned(), metrics })
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
            dmarc.collector.saw(seen.domain, seen.policy, seen.row);
        }
    }

    /// A message failed, and its author's domain wants to know. Never waits.
    pub fn saw_failure(&self, failure: FailureSeen) {
        let Some(dmarc) = self.dmarc.as_ref().filter(|dmarc| dmarc.options.failure_reports) else { return };
        if dmarc.failures.try_send(Box::new(failure)).is_err() {
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
    ///
    /// # Errors
    /// No TLS can be had for POSTs.
    pub async fn run(
        &self,
        resolver: Arc<dyn Resolver>,
        outbox: Arc<dyn Outbox>,
        connectors: &Connectors,
    ) -> Result<(), String> {
        let courier = Arc::new(Courier::new(resolver, outbox, connectors).map_err(|error| error.to_string())?);
        let dmarc = async {
            let Some(dmarc) = &self.dmarc else { return std::future::pending().await };
            dmarc.sender(&self.hostname, &courier, &self.metrics).run().await;
        };
        let failures = async {
            let failures = self.dmarc.as_ref().and_then(|of| of.failures(&self.hostname, &courier, &self.metrics));
            let Some(failures) = failures else { return std::future::pending().await };
            failures.run().await;
        };
        let tls = async {
            let Some(tls) = &self.tls else { return std::future::pending().await };
            tls.sender(&self.hostname, &courier, &self.metrics).run().await;
        };
        tokio::join!(dmarc, failures, tls);
        Ok(())
    }

    /// Writes what was counted, and counts no more. Blocks.
    pub fn close(&self) {
        self.dmarc.iter().for_each(|dmarc| dmarc.collector.close());
        self.tls.iter().for_each(|tls| tls.collector.close());
    }

    /// The moment that observations have, in seconds since 1970.
    pub fn now_secs() -> i64 {
        now_secs()
    }
}

impl OfDmarc {
    fn open(options: &DmarcReports, metrics: &Metrics) -> Result<OfDmarc, String> {
        let DmarcReports { dir, max_domains, max_rows, max_rows_per_domain, .. } = options;
        let failed = |error: std::io::Error| format!("kumo.configure_dmarc_reports: dir `{}`: {error}", dir.display());
        let bounds =
            Bounds { domains_max: *max_domains, rows_max: *max_rows, rows_per_domain_max: *max_rows_per_domain };
        make(dir).map_err(failed)?;
        let collector = Collector::start(dir.clone(), secs(options.interval), bounds, metrics).map_err(failed)?;
        let (failures, seen) = mpsc::channel(failures::WAITING_MAX);
        let seen = Mutex::new(Some(seen));
        Ok(OfDmarc { options: options.clone(), collector: Arc::new(collector), failures, seen })
    }

    fn reporter(&self, hostname: &str) -> Reporter {
        let DmarcReports { org_name, email, extra_contact_info, submitter, .. } = self.options.clone();
        Reporter { org_name, email, extra_contact_info, submitter: submitter.unwrap_or_else(|| hostname.to_owned()) }
    }

    fn sender(&self, hostname: &str, courier: &Arc<Courier>, metrics: &Metrics) -> Sender<Dmarc> {
        let DmarcReports { dir, spread, sender, .. } = self.options.clone();
        let who = (self.reporter(hostname), sender);
        Sender::new((dir, secs(spread)), who, self.collector.clone(), courier.clone(), metrics.clone())
    }

    fn failures(&self, hostname: &str, courier: &Arc<Courier>, metrics: &Metrics) -> Option<Failures> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(Failures {
            seen,
            reporter: self.reporter(hostname),
            sender: self.options.sender.clone(),
            redacts: self.options.redact_recipients,
            limits: Limits::new(self.options.max_failure_reports_per_hour),
            courier: courier.clone(),
            metrics: metrics.clone(),
        })
    }
}

impl OfTls {
    fn open(options: &TlsReports, metrics: &Metrics) -> Result<OfTls, String> {
        let TlsReports { dir, max_domains, max_rows, max_rows_per_domain, .. } = options;
        let failed = |error: std::io::Error| format!("kumo.configure_tls_reports: dir `{}`: {error}", dir.display());
        let bounds =
            Bounds { domains_max: *max_domains, rows_max: *max_rows, rows_per_domain_max: *max_rows_per_domain };
        make(dir).map_err(failed)?;
        let collector = Collector::start(dir.clone(), secs(options.interval), bounds, metrics).map_err(failed)?;
        Ok(OfTls { options: options.clone(), collector: Arc::new(collector) })
    }

    fn sender(&self, hostname: &str, courier: &Arc<Courier>, metrics: &Metrics) -> Sender<Tls> {
        let TlsReports { org_name, email, submitter, dir, spread, sender, .. } = self.options.clone();
        let submitter = submitter.unwrap_or_else(|| hostname.to_owned());
        let who = (Reporter { org_name, email, extra_contact_info: None, submitter }, sender);
        Sender::new((dir, secs(spread)), who, self.collector.clone(), courier.clone(), metrics.clone())
    }
}

fn make(dir: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)
}

fn secs(duration: config::Duration) -> u32 {
    u32::try_from(duration.get().as_secs()).unwrap_or(u32::MAX)
}
