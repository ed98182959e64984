//! Failure reports, one for a message: bounded in number, sent at once.
//!
//! In: what a check saw of a message that failed. Out: a message to each address of `ruf=` that may have it. What waits at a stop is
//! written to a file, and read from it at the next start; at a crash it is not reported. What finds no room is dropped and counted.

use crate::collector::now_secs;
use crate::courier::{Courier, Fate, UNVERIFIED};
use crate::outbox::Outgoing;
use crate::sender::{SENDING_MAX, STRANGERS_MAX, in_time};
use crate::waiting::Waiting;
use futures_util::future::join_all;
use public_suffix::organisation;
use reports::{DmarcWants, FailureSeen, Reporter, failure_mail};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use telemetry::Metrics;
use tokio::time::Instant;

/// Sends failure reports.
pub(crate) struct Failures {
    pub(crate) waiting: Arc<Waiting>,
    pub(crate) reporter: Reporter,
    pub(crate) sender: Option<String>,
    pub(crate) redacts: bool,
    pub(crate) limits: Mutex<Limits>,
    pub(crate) courier: Arc<Courier>,
    pub(crate) metrics: Metrics,
}

impl Failures {
    /// Sends until it is dropped, several at once.
    pub(crate) async fn run(self) {
        self.waiting.begun();
        let work = async || {
            loop {
                let failure = self.waiting.next().await;
                self.report(&failure).await;
                self.waiting.done(&failure);
            }
        };
        join_all((0..SENDING_MAX).map(|_| work())).await;
    }

    pub(crate) async fn report(&self, failure: &FailureSeen) {
        let domain = &failure.seen.domain;
        let count = |outcome: &str| self.metrics.domain_reports.reports(KIND, outcome).inc();
        if !self.limits.lock().unwrap_or_else(PoisonError::into_inner).takes(organisation(domain), now_secs()) {
            return count("limited");
        }
        let until = Instant::now() + STRANGERS_MAX;
        // At once: one that never answers is in nobody's way.
        let wanted = DmarcWants::new(None, Some(&failure.reports_to), None, None).failure;
        join_all(wanted.iter().map(async |uri| {
            match in_time(until, self.courier.is_permitted(domain, uri)).await {
                Ok(true) => {}
                Ok(false) => return count(UNVERIFIED),
                Err(_) => return count("failed"),
            }
            let message = Outgoing {
                sender: self.sender.clone(),
                recipient: uri.target.clone(),
                kind: KIND,
                domain: domain.clone(),
                octets: failure_mail(&self.reporter, failure, &uri.target, self.redacts, now_secs()),
            };
            match self.courier.mail(uri, message).await {
                Fate::Done(outcome) => count(outcome),
                Fate::Later(why) => {
                    tracing::debug!("DMARC failure report about {domain}: {why}");
                    count("failed");
                }
            }
        }))
        .await;
    }
}

/// How many reports about an organisation's domains there were in this hour.
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
/// Domains with failure reports in an hour.
const DOMAINS_MAX: usize = 10_000;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::courier::tests::{World, courier};
    use crate::kind::tests::{dmarc_row, policy};
    use reports::{Alignment, DmarcRow, DmarcSeen};

    pub(crate) fn failure(domain: &str, ruf: &str) -> FailureSeen {
        let row = DmarcRow { dkim: Alignment::Fail, header_from: domain.to_owned(), ..dmarc_row() };
        FailureSeen {
            seen: DmarcSeen { domain: domain.to_owned(), policy: policy(""), row, is_report: false },
            reports_to: ruf.to_owned(),
            id: "1".to_owned(),
            arrived_secs: 0,
            mail_from: String::new(),
            recipients: Vec::new(),
            results: Vec::new(),
            dkim_identity: String::new(),
            header: Vec::new(),
        }
    }

    fn failures(world: &Arc<World>, metrics: &Metrics) -> Failures {
        let (email, submitter, node) = ("d@r.test".to_owned(), "r.test".to_owned(), "n1".to_owned());
        Failures {
            waiting: Arc::default(),
            reporter: Reporter { org_name: "o".to_owned(), email, extra_contact_info: None, submitter, node },
            sender: None,
            redacts: true,
            limits: Mutex::new(Limits::new(2)),
            courier: Arc::new(courier(world)),
            metrics: metrics.clone(),
        }
    }

    /// More domains whose name servers never answer than reports are sent at once.
    #[tokio::test(start_paused = true)]
    async fn who_never_answers_holds_up_the_others_for_a_time_at_most() {
        let world = Arc::new(World::default());
        let metrics = Metrics::new().expect("metrics");
        let failures = failures(&world, &metrics);
        let waiting = failures.waiting.clone();
        for number in 0..SENDING_MAX {
            let name = format!("d{number}.test._report._dmarc.silent.test");
            world.silent.lock().unwrap_or_else(PoisonError::into_inner).insert(name);
            assert!(waiting.push(failure(&format!("d{number}.test"), "mailto:f@silent.test,mailto:g@silent.test")));
        }
        assert!(waiting.push(failure("a.test", "mailto:f@a.test")));
        let begun = Instant::now();
        let ended = async {
            while world.taken.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        };
        tokio::select! {
            () = failures.run() => panic!("it runs until it is dropped"),
            () = ended => {}
        }
        assert!(begun.elapsed() <= STRANGERS_MAX + std::time::Duration::from_secs(1), "{:?}", begun.elapsed());
        assert_eq!(metrics.domain_reports.reports(KIND, "failed").get(), 2 * SENDING_MAX as u64);
    }

    #[tokio::test]
    async fn reports_about_a_domain_are_few_and_go_only_to_who_wants_them() {
        let world = Arc::new(World::default());
        let metrics = Metrics::new().expect("metrics");
        let failures = failures(&world, &metrics);
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
