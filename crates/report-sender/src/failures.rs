//! Failure reports, one for a message: bounded in number, sent at once.
//!
//! In: what a check saw of a message that failed. Out: a message to each address of `ruf=` that may have it. Not kept on disk: what
//! waits here at a crash is not reported. What finds no room is dropped and counted.

use crate::collector::now_secs;
use crate::courier::{Courier, Fate, UNVERIFIED};
use crate::outbox::Outgoing;
use reports::{DmarcWants, FailureSeen, Reporter, failure_mail};
use std::collections::HashMap;
use std::sync::Arc;
use telemetry::Metrics;
use tokio::sync::mpsc::Receiver;

/// Sends failure reports.
pub(crate) struct Failures {
    pub(crate) seen: Receiver<Box<FailureSeen>>,
    pub(crate) reporter: Reporter,
    pub(crate) sender: Option<String>,
    pub(crate) redacts: bool,
    pub(crate) limits: Limits,
    pub(crate) courier: Arc<Courier>,
    pub(crate) metrics: Metrics,
}

impl Failures {
    /// Sends until it is dropped, or nobody can see anything any more.
    pub(crate) async fn run(mut self) {
        while let Some(failure) = self.seen.recv().await {
            self.report(&failure).await;
        }
    }

    pub(crate) async fn report(&mut self, failure: &FailureSeen) {
        let domain = &failure.seen.domain;
        let count = |outcome: &str| self.metrics.domain_reports.reports(KIND, outcome).inc();
        if !self.limits.takes(domain, now_secs()) {
            return count("limited");
        }
        for uri in DmarcWants::new(None, Some(&failure.reports_to), None, None).failure {
            match self.courier.is_permitted(domain, &uri).await {
                Ok(true) => {}
                Ok(false) => {
                    count(UNVERIFIED);
                    continue;
                }
                Err(_) => {
                    count("failed");
                    continue;
                }
            }
            let message = Outgoing {
                sender: self.sender.clone(),
                recipient: uri.target.clone(),
                kind: KIND,
                domain: domain.clone(),
                octets: failure_mail(&self.reporter, failure, &uri.target, self.redacts, now_secs()),
            };
            match self.courier.mail(&uri, message).await {
                Fate::Done(outcome) => count(outcome),
                Fate::Later(why) => {
                    tracing::debug!("DMARC failure report about {domain}: {why}");
                    count("failed");
                }
            }
        }
    }
}

/// How many reports about a domain there were in this hour.
pub(crate) struct Limits {
    per_hour: usize,
    hour: i64,
    counts: HashMap<String, usize>,
}

impl Limits {
    pub(crate) fn new(per_hour: usize) -> Limits {
        Limits { per_hour, hour: 0, counts: HashMap::new() }
    }

    /// Counts one more, unless that would be too many.
    fn takes(&mut self, domain: &str, now_secs: i64) -> bool {
        let hour = now_secs.div_euclid(3600);
        if hour != self.hour {
            self.hour = hour;
            self.counts.clear();
        }
        if !self.counts.contains_key(domain) && self.counts.len() >= DOMAINS_MAX {
            return false;
        }
        let count = self.counts.entry(domain.to_owned()).or_default();
        *count += 1;
        *count <= self.per_hour
    }
}

/// In metrics and metadata.
pub(crate) const KIND: &str = "dmarc_failure";
/// Failures on their way.
pub(crate) const WAITING_MAX: usize = 256;
/// Domains with failure reports in an hour.
const DOMAINS_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::courier::tests::{World, courier};
    use reports::{Alignment, Disposition, DmarcRow, DmarcSeen, PublishedPolicy, SpfSeen};

    fn failure(domain: &str, ruf: &str) -> FailureSeen {
        let policy = PublishedPolicy {
            is_dkim_strict: false,
            is_spf_strict: false,
            policy: Disposition::None,
            subdomain_policy: Disposition::None,
            percent: 100,
            failure_options: "0".to_owned(),
            reports_to: String::new(),
        };
        let row = DmarcRow {
            source_ip: [192, 0, 2, 1].into(),
            disposition: Disposition::None,
            dkim: Alignment::Fail,
            spf: Alignment::Fail,
            overrides: Vec::new(),
            header_from: domain.to_owned(),
            envelope_from: String::new(),
            dkim_results: Vec::new(),
            spf_result: SpfSeen { domain: String::new(), is_helo: true, result: "none".to_owned() },
        };
        FailureSeen {
            seen: DmarcSeen { domain: domain.to_owned(), policy, row },
            reports_to: ruf.to_owned(),
            id: "1".to_owned(),
            arrived_secs: 0,
            mail_from: String::new(),
            recipients: Vec::new(),
            results: Vec::new(),
            header: Vec::new(),
        }
    }

    #[tokio::test]
    async fn reports_about_a_domain_are_few_and_go_only_to_who_wants_them() {
        let world = Arc::new(World::default());
        let metrics = Metrics::new().expect("metrics");
        let (_notes, seen) = tokio::sync::mpsc::channel(1);
        let mut failures = Failures {
            seen,
            reporter: Reporter {
                org_name: "o".to_owned(),
                email: "d@r.test".to_owned(),
                extra_contact_info: None,
                submitter: "r.test".to_owned(),
            },
            sender: None,
            redacts: true,
            limits: Limits::new(2),
            courier: Arc::new(courier(&world)),
            metrics: metrics.clone(),
        };
        for _ in 0..3 {
            failures.report(&failure("a.test", "mailto:f@a.test,mailto:f@other.test")).await;
        }
        failures.report(&failure("b.test", "mailto:f@b.test")).await;
        let to: Vec<String> = world.taken().into_iter().map(|message| message.recipient).collect();
        assert_eq!(to, ["f@a.test", "f@a.test", "f@b.test"]);
        let count = |outcome| metrics.domain_reports.reports(KIND, outcome).get();
        assert_eq!((count("sent"), count("limited"), count("unverified")), (3, 1, 2));
    }

    #[test]
    fn an_hour_later_there_may_be_more() {
        let mut limits = Limits::new(1);
        assert_eq!([limits.takes("a", 0), limits.takes("a", 3599), limits.takes("a", 3600)], [true, false, true]);
        (1..DOMAINS_MAX).for_each(|n| assert!(limits.takes(&n.to_string(), 3600)));
        assert!(!limits.takes("one more", 3600));
    }
}
