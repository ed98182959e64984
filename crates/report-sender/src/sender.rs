//! Which reports are due, and that each is handed over: one task a kind.
//!
//! In: the journals of periods that are over. Out: reports, each at its moment within the spread, and a note of each on disk behind
//! it. What cannot be done now is done later, for a day; then the period's files go. Fails never: what fails is said.

use crate::collector::{Collector, now_secs};
use crate::courier::{Courier, Fate, UNVERIFIED};
use crate::journal::{self, Sent};
use crate::kind::{Dmarc, Kind, Tls};
use crate::outbox::Outgoing;
use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};
use reports::{Account, DmarcWants, Period, ReportUri, Reporter, Scheme, gzip};
use route::BoxFuture;
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use telemetry::Metrics;
use tokio::time::Instant;

/// What a kind's reports are, and who gets them.
pub(crate) trait Reported: Kind {
    /// An address that is not of the domain's own organisation must want reports about it.
    const ASKS_RECEIVERS: bool;

    /// Who asked for reports about a domain; an error when that is not known now.
    fn wants<'a>(
        courier: &'a Courier,
        domain: &'a str,
        policy: &'a Self::Policy,
    ) -> BoxFuture<'a, Result<Vec<ReportUri>, String>>;

    /// What is reported.
    fn body(reporter: &Reporter, domain: &str, period: Period, account: &Account<Self::Policy, Self::Row>) -> Vec<u8>;

    /// It as a message.
    fn mail(reporter: &Reporter, domain: &str, period: Period, to: &str, body: &[u8], now_secs: i64) -> Vec<u8>;
}

impl Reported for Dmarc {
    const ASKS_RECEIVERS: bool = true;

    fn wants<'a>(
        _: &'a Courier,
        _: &'a str,
        policy: &'a Self::Policy,
    ) -> BoxFuture<'a, Result<Vec<ReportUri>, String>> {
        let wants = DmarcWants::new(Some(&policy.reports_to), None, None, None);
        Box::pin(std::future::ready(Ok(wants.aggregate)))
    }

    fn body(reporter: &Reporter, domain: &str, period: Period, account: &Account<Self::Policy, Self::Row>) -> Vec<u8> {
        reports::aggregate_xml(reporter, domain, period, account)
    }

    fn mail(reporter: &Reporter, domain: &str, period: Period, to: &str, body: &[u8], now_secs: i64) -> Vec<u8> {
        reports::aggregate_mail(reporter, domain, period, to, body, now_secs)
    }
}

impl Reported for Tls {
    // RFC 8460 has no such question: who publishes the record answers for it.
    const ASKS_RECEIVERS: bool = false;

    fn wants<'a>(
        courier: &'a Courier,
        domain: &'a str,
        (): &'a Self::Policy,
    ) -> BoxFuture<'a, Result<Vec<ReportUri>, String>> {
        Box::pin(courier.tls_wants(domain))
    }

    fn body(reporter: &Reporter, domain: &str, period: Period, account: &Account<Self::Policy, Self::Row>) -> Vec<u8> {
        reports::tls_json(reporter, domain, period, account)
    }

    fn mail(reporter: &Reporter, domain: &str, period: Period, to: &str, body: &[u8], now_secs: i64) -> Vec<u8> {
        reports::tls_mail(reporter, domain, period, to, body, now_secs)
    }
}

/// Sends the reports of one kind.
pub(crate) struct Sender<K: Reported> {
    pub(crate) dir: PathBuf,
    pub(crate) spread_secs: u32,
    pub(crate) reporter: Reporter,
    pub(crate) sender: Option<String>,
    pub(crate) collector: Arc<Collector<K>>,
    pub(crate) courier: Arc<Courier>,
    pub(crate) metrics: Metrics,
    open: HashMap<Period, Open<K>>,
}

/// A period whose reports are being sent.
struct Open<K: Reported> {
    waiting: Vec<Item<K>>,
    sent: Arc<Mutex<Sent>>,
}

/// The report about one domain.
struct Item<K: Reported> {
    domain: String,
    account: Account<K::Policy, K::Row>,
    at_secs: i64,
}

impl<K: Reported> Sender<K> {
    /// Nothing is read yet.
    pub(crate) fn new(
        (dir, spread_secs): (PathBuf, u32),
        (reporter, sender): (Reporter, Option<String>),
        collector: Arc<Collector<K>>,
        courier: Arc<Courier>,
        metrics: Metrics,
    ) -> Sender<K> {
        Sender { dir, spread_secs, reporter, sender, collector, courier, metrics, open: HashMap::new() }
    }

    /// Sends until it is dropped.
    pub(crate) async fn run(mut self) {
        loop {
            if let Err(error) = self.pass(now_secs()).await {
                tracing::error!("{} reports: {}: {error}", K::NAME, self.dir.display());
            }
            let next = self.open.values().flat_map(|open| open.waiting.iter().map(|item| item.at_secs)).min();
            // The thread that counts needs a moment to turn to the next period.
            let turn = Period::at(now_secs(), self.collector.length_secs()).end_secs() + 1;
            let secs = (next.map_or(turn, |next| next.min(turn)) - now_secs()).clamp(1, LOOK_EVERY_SECS);
            tokio::time::sleep(Duration::from_secs(secs.unsigned_abs())).await;
        }
    }

    /// Sends what is due.
    pub(crate) async fn pass(&mut self, now_secs: i64) -> io::Result<()> {
        let dir = self.dir.clone();
        let complete_secs = self.collector.began_secs();
        let periods = blocking(move || journal::periods::<K>(&dir)).await?;
        // One whose files cannot be read keeps none of the others.
        let mut result = Ok(());
        for period in periods.into_iter().filter(|period| period.end_secs() <= complete_secs) {
            result = result.and(self.pass_over(period, now_secs).await);
        }
        result
    }

    /// Sends what is due of one period.
    async fn pass_over(&mut self, period: Period, now_secs: i64) -> io::Result<()> {
        let mut open = match self.open.remove(&period) {
            Some(open) => open,
            None => self.open_period(period).await?,
        };
        let begun = Instant::now();
        let done = self.send_due(period, &mut open, now_secs).await;
        // After a long stop there may be more than one pass takes, and each is tried once.
        let has_untried = open.waiting.iter().any(|item| item.at_secs <= now_secs);
        let is_over = later(now_secs, begun) >= self.over_secs(period) && !has_untried;
        if !is_over && (done.is_err() || !open.waiting.is_empty()) {
            self.open.insert(period, open);
            return done;
        }
        let expired = open.waiting.len() as u64;
        self.metrics.domain_reports.reports(K::NAME, "expired").inc_by(expired);
        if expired > 0 {
            tracing::warn!("{expired} {} reports could not be sent in a day and are given up", K::NAME);
        }
        let dir = self.dir.clone();
        blocking(move || journal::remove::<K>(&dir, period)).await
    }

    /// When nothing about a period is tried any more.
    fn over_secs(&self, period: Period) -> i64 {
        period.end_secs() + i64::from(self.spread_secs) + GIVE_UP_SECS
    }

    async fn open_period(&self, period: Period) -> io::Result<Open<K>> {
        let (dir, spread_secs) = (self.dir.clone(), self.spread_secs);
        blocking(move || {
            let sent = Sent::open::<K>(&dir, period)?;
            let accounts = journal::load::<K>(&dir, period)?;
            let item = |(domain, account): (String, _)| {
                let at_secs = period.due_secs(&domain, spread_secs);
                Item { domain, account, at_secs }
            };
            let mut waiting: Vec<Item<K>> =
                accounts.into_iter().filter(|(domain, _)| !sent.has(domain, ALL)).map(item).collect();
            waiting.sort_by_key(|item| item.at_secs);
            Ok(Open { waiting, sent: Arc::new(Mutex::new(sent)) })
        })
        .await
    }

    /// Sends what is due, several at once, and not all of it when it is much, so that no other period waits long: a server or a name
    /// that never answers takes one of their places, for a time.
    async fn send_due(&self, period: Period, open: &mut Open<K>, now_secs: i64) -> io::Result<()> {
        let begun = Instant::now();
        let due = open.waiting.partition_point(|item| item.at_secs <= now_secs).min(PASS_MAX);
        let due: Vec<Item<K>> = open.waiting.drain(..due).collect();
        let sent = &open.sent;
        let tries = due.into_iter().map(async |item| (self.send(period, &item, sent).await, item));
        let mut tries = stream::iter(tries).buffer_unordered(SENDING_MAX);
        let mut result = Ok(());
        while let Some((tried, mut item)) = tries.next().await {
            if matches!(tried, Ok(true)) {
                continue;
            }
            item.at_secs = later(now_secs, begun) + RETRY_SECS;
            open.waiting.push(item);
            result = result.and(tried.map(|_| ()));
        }
        open.waiting.sort_by_key(|item| item.at_secs);
        result
    }

    /// Sends the report about one domain to all who asked for it; false when some of that is to be done later.
    async fn send(&self, period: Period, item: &Item<K>, sent: &Arc<Mutex<Sent>>) -> io::Result<bool> {
        let domain = &item.domain;
        let mut is_done = true;
        let until = Instant::now() + STRANGERS_MAX;
        match in_time(until, K::wants(&self.courier, domain, &item.account.policy)).await {
            Ok(uris) if !uris.is_empty() => {
                let body = K::body(&self.reporter, domain, period, &item.account);
                let has =
                    |uri: &ReportUri| sent.lock().unwrap_or_else(PoisonError::into_inner).has(domain, &uri.target);
                // At once: one that never answers is in nobody's way.
                let sending = uris.into_iter().filter(|uri| !has(uri)).map(async |uri| {
                    let fate = self.send_to(period, domain, &uri, &body, until).await;
                    (fate, uri)
                });
                // What one is not noted for shall not be sent to the others again.
                let mut noted = Ok(());
                for (fate, uri) in join_all(sending).await {
                    match fate {
                        Fate::Done(outcome) => {
                            self.metrics.domain_reports.reports(K::NAME, outcome).inc();
                            noted = noted.and(note(sent, domain, &uri.target).await);
                        }
                        Fate::Later(why) => {
                            tracing::debug!("{} report about {domain} for {}: {why}", K::NAME, uri.target);
                            is_done = false;
                        }
                    }
                }
                noted?;
            }
            Ok(_) => {}
            Err(why) => {
                tracing::debug!("{} report about {domain}: {why}", K::NAME);
                is_done = false;
            }
        }
        if is_done {
            note(sent, domain, ALL).await?;
        } else {
            self.metrics.domain_reports.reports(K::NAME, "delayed").inc();
        }
        Ok(is_done)
    }

    async fn send_to(&self, period: Period, domain: &str, uri: &ReportUri, body: &[u8], until: Instant) -> Fate {
        if K::ASKS_RECEIVERS {
            match in_time(until, self.courier.is_permitted(domain, uri)).await {
                Ok(true) => {}
                Ok(false) => return Fate::Done(UNVERIFIED),
                Err(why) => return Fate::Later(why),
            }
        }
        match uri.scheme {
            Scheme::Https => {
                let posting = async { Ok(self.courier.post(uri, gzip(body)).await) };
                in_time(until, posting).await.unwrap_or_else(Fate::Later)
            }
            Scheme::Mailto => {
                let message = Outgoing {
                    sender: self.sender.clone(),
                    recipient: uri.target.clone(),
                    kind: K::NAME,
                    domain: domain.to_owned(),
                    octets: K::mail(&self.reporter, domain, period, &uri.target, body, now_secs()),
                };
                // This is our own disk: it takes what it takes, and is not left in the middle.
                self.courier.mail(uri, message).await
            }
        }
    }
}

/// What `now_secs` has become since.
fn later(now_secs: i64, since: Instant) -> i64 {
    now_secs + i64::try_from(since.elapsed().as_secs()).unwrap_or_default()
}

/// What strangers answer, or that they did not in time.
pub(crate) async fn in_time<T>(until: Instant, asked: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    tokio::time::timeout_at(until, asked).await.unwrap_or_else(|_| Err("no answer in time".to_owned()))
}

/// Notes on disk that something is done with.
async fn note(sent: &Arc<Mutex<Sent>>, domain: &str, target: &str) -> io::Result<()> {
    let (sent, domain, target) = (sent.clone(), domain.to_owned(), target.to_owned());
    blocking(move || sent.lock().unwrap_or_else(PoisonError::into_inner).add(&domain, &target)).await
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

/// Stands for all addresses of a domain.
const ALL: &str = "";
/// Between looks whether a period is over.
const LOOK_EVERY_SECS: i64 = 30;
/// Reports of a kind that are under way at a time.
pub(crate) const SENDING_MAX: usize = 32;
/// Reports of a period that are begun before others have their turn.
const PASS_MAX: usize = 4 * SENDING_MAX;
/// How long the strangers of one report, their name servers and their web servers, are waited for.
pub(crate) const STRANGERS_MAX: Duration = Duration::from_secs(30);
/// Between attempts.
const RETRY_SECS: i64 = 600;
/// How long a report is tried: a day (RFC 8460 section 5.4).
const GIVE_UP_SECS: i64 = 86_400;

#[cfg(test)]
#[path = "sender_tests.rs"]
mod tests;
