//! Scheduled queues counted for a scrape: the largest by name, and sums by whom the mail is for and whose it is.
//!
//! A million queues may be there, so they are counted in steps, and what is told is bounded: [`SERIES_MAX`] series a family, and one
//! named [`OTHER`] for the rest. Up to [`FRESH_MAX`] queues are counted for each scrape; more are counted in the background, for
//! the next scrape and every minute, and a scrape has what was counted last, so that it takes no longer than the writing of its
//! text, the first one too.

use crate::engine::Engine;
use config::QueueConfig;
use queue::{Counted, QueueKey, QueueName};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};
use telemetry::largest::{OTHER, SERIES_MAX, cut};
use tokio::sync::{OwnedMutexGuard, oneshot, watch};

/// What was counted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueCensus {
    /// Messages by queue.
    pub scheduled: Series<1>,
    /// Messages by domain.
    pub domains: Series<1>,
    /// Messages by tenant.
    pub tenants: Series<1>,
    /// Messages by tenant and campaign.
    pub campaigns: Series<2>,
    /// Messages by provider and pool, where the configuration names a provider.
    pub provided: BTreeMap<(String, String), u64>,
    /// Messages that wait or are due.
    pub messages: u64,
    /// Messages that are under way and will come back if they fail.
    pub out: u64,
    /// Queues.
    pub queues: u64,
}

/// Labels and numbers, in order of the labels, the rest last.
pub(crate) type Series<const N: usize> = Vec<([String; N], u64)>;

/// The last census of more queues than are counted at once.
#[derive(Debug, Default)]
pub(crate) struct LastCensus {
    last: watch::Sender<Option<(Instant, Arc<QueueCensus>)>>,
    /// Held by who takes one.
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// A census in the making.
#[derive(Default)]
struct Taking {
    queues: Vec<(Arc<str>, u64)>,
    domains: Sums<1>,
    tenants: Sums<1>,
    campaigns: Sums<2>,
    provided: BTreeMap<(String, String), u64>,
    out: u64,
}

/// Sums by label; those of labels that come when there are [`LABELS_MAX`] are one.
#[derive(Default)]
struct Sums<const N: usize> {
    of: HashMap<[String; N], u64>,
    rest: u64,
}

impl Engine {
    /// The census for a scrape.
    pub(crate) async fn census(&self) -> Arc<QueueCensus> {
        let keys = self.with_queue(|queue, _| queue.scheduled_keys());
        if keys.len() <= FRESH_MAX {
            self.last_census.forget();
            return self.take_census(&keys).await;
        }
        let last = self.last_census.younger_than(AGE_MAX);
        let taken = self.begin_census(|| keys);
        match last {
            Some(last) => last,
            None => match taken.await {
                Ok(census) => census,
                // Another one takes it, or it is too old: what there is.
                Err(_) => self.last_census.wait().await,
            },
        }
    }

    /// How long ago queues were counted, where they are too many to be counted for each scrape.
    pub fn census_age(&self) -> Option<Duration> {
        self.last_census.last.borrow().as_ref().map(|(at, _)| at.elapsed())
    }

    /// Has more queues than are counted at once counted before anybody asks, until the end.
    pub(crate) async fn keep_census(&self) {
        while self.stop.unless_requested(tokio::time::sleep(LOOK_INTERVAL)).await.is_some() {
            let is_many = self.with_queue(|queue, _| queue.scheduled_len()) > FRESH_MAX;
            if !is_many {
                self.last_census.forget();
            } else if self.last_census.younger_than(RENEWED_AFTER).is_none() {
                drop(self.begin_census(|| self.with_queue(|queue, _| queue.scheduled_keys())));
            }
        }
    }

    /// Takes a census in the background, unless one is being taken. Whoever asked may be gone before it is taken; it is taken
    /// all the same.
    fn begin_census(&self, keys: impl FnOnce() -> Vec<QueueKey>) -> oneshot::Receiver<Arc<QueueCensus>> {
        let (told, taken) = oneshot::channel();
        if let Some(turn) = self.last_census.begin() {
            let (engine, keys, at) = (self.clone(), keys(), Instant::now());
            self.sessions.spawn(async move {
                let census = engine.take_census(&keys).await;
                engine.last_census.put(at, census.clone());
                drop(turn);
                // Nobody may be waiting for it.
                _ = told.send(census);
            });
        }
        taken
    }

    async fn take_census(&self, keys: &[QueueKey]) -> Arc<QueueCensus> {
        let mut taking = Taking::default();
        for keys in keys.chunks(QUEUES_A_STEP) {
            let counted = self.with_queue(|queue, _| queue.counted(keys));
            counted.into_iter().for_each(|counted| taking.add(counted));
            tokio::task::yield_now().await;
        }
        if taking.queues.len() <= FRESH_MAX {
            return Arc::new(taking.done(SERIES_MAX));
        }
        // Putting a million names in order takes its time.
        let done = tokio::task::spawn_blocking(|| taking.done(SERIES_MAX)).await;
        Arc::new(done.unwrap_or_else(|error| {
            tracing::error!("counting queues: {error}");
            QueueCensus::default()
        }))
    }
}

impl LastCensus {
    /// The last one, if it is younger than this.
    fn younger_than(&self, age: Duration) -> Option<Arc<QueueCensus>> {
        let last = self.last.borrow();
        last.as_ref().filter(|(at, _)| at.elapsed() < age).map(|(_, census)| census.clone())
    }

    /// It is not told any more: there are so few that each scrape counts them.
    fn forget(&self) {
        self.last.send_if_modified(|last| last.take().is_some());
    }

    /// The turn to take one, unless somebody has it; it ends with what is returned.
    fn begin(&self) -> Option<OwnedMutexGuard<()>> {
        self.turn.clone().try_lock_owned().ok()
    }

    /// Notes one that was begun at this moment.
    fn put(&self, at: Instant, census: Arc<QueueCensus>) {
        self.last.send_replace(Some((at, census)));
    }

    /// The next one, from who takes it.
    async fn wait(&self) -> Arc<QueueCensus> {
        let mut last = self.last.subscribe();
        let is_recent =
            |last: &Option<(Instant, Arc<QueueCensus>)>| last.as_ref().is_some_and(|(at, _)| at.elapsed() < AGE_MAX);
        // The sender lives as long as the engine.
        let found = tokio::time::timeout(WAIT_MAX, last.wait_for(is_recent)).await;
        found.ok().and_then(Result::ok).and_then(|last| Some(last.as_ref()?.1.clone())).unwrap_or_default()
    }
}

impl Taking {
    fn add(&mut self, counted: Counted) {
        let Counted { name, messages, out, provider } = counted;
        let messages = messages as u64;
        self.out += out as u64;
        let QueueName { campaign, tenant, domain, .. } = QueueName::parse(&name);
        self.domains.add([domain], messages);
        if let Some(tenant) = tenant {
            self.tenants.add([tenant.clone()], messages);
            campaign.into_iter().for_each(|campaign| self.campaigns.add([tenant.clone(), campaign], messages));
        }
        if let Some(config) = provider {
            *self.provided.entry(way_of(&config)).or_default() += messages;
        }
        self.queues.push((name, messages));
    }

    fn done(self, series_max: usize) -> QueueCensus {
        let Taking { mut queues, domains, tenants, campaigns, provided, out } = self;
        let (messages, count) = (queues.iter().map(|(_, messages)| messages).sum(), queues.len() as u64);
        // Namesakes (queues that must not be mixed) are one series.
        queues.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        queues.dedup_by(|later, first| {
            let same = later.0 == first.0;
            first.1 += if same { later.1 } else { 0 };
            same
        });
        let rest = cut(&mut queues, series_max);
        let scheduled = queues.into_iter().map(|(name, sum)| ([name.to_string()], sum)).collect();
        QueueCensus {
            scheduled: in_order(scheduled, rest),
            domains: domains.largest(series_max),
            tenants: tenants.largest(series_max),
            campaigns: campaigns.largest(series_max),
            provided,
            messages,
            out,
            queues: count,
        }
    }
}

impl<const N: usize> Sums<N> {
    fn add(&mut self, label: [String; N], number: u64) {
        let has_room = self.of.len() < LABELS_MAX;
        match self.of.get_mut(&label) {
            Some(sum) => *sum += number,
            None if has_room => _ = self.of.insert(label, number),
            None => self.rest += number,
        }
    }

    fn largest(self, series_max: usize) -> Series<N> {
        let mut all: Series<N> = self.of.into_iter().collect();
        let rest = self.rest + cut(&mut all, series_max);
        in_order(all, rest)
    }
}

/// In order of the labels, the rest last; one that is called like it is in it.
pub(crate) fn in_order<const N: usize>(mut all: Series<N>, mut rest: u64) -> Series<N> {
    let other = || std::array::from_fn(|_| OTHER.to_owned());
    if rest > 0 {
        rest += all.extract_if(.., |(label, _)| *label == other()).map(|(_, number)| number).sum::<u64>();
    }
    all.sort_unstable();
    all.extend((rest > 0).then(|| (other(), rest)));
    all
}

fn way_of(config: &QueueConfig) -> (String, String) {
    (config.provider_name.clone().unwrap_or_default(), config.egress_pool().to_owned())
}

/// Labels that sums are kept of.
const LABELS_MAX: usize = 100_000;
/// Queues that are counted for each scrape: some milliseconds' work.
const FRESH_MAX: usize = 20_000;
/// An older census is not told: who asks while a machine is that slow waits for a new one.
const AGE_MAX: Duration = Duration::from_secs(120);
/// How old one gets before the next is taken by itself.
const RENEWED_AFTER: Duration = Duration::from_secs(60);
/// How often is looked whether there are many queues. Few come in between, so the first scrape of many does not wait long.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long a census is waited for that another scrape has begun.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// Queues that are counted in one visit.
const QUEUES_A_STEP: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn census(queues: &[(&str, usize)], series_max: usize) -> QueueCensus {
        let mut taking = Taking::default();
        for (name, messages) in queues {
            taking.add(Counted { name: (*name).into(), messages: *messages, out: 1, provider: None });
        }
        taking.done(series_max)
    }

    fn told<const N: usize>(series: &Series<N>) -> Vec<(String, u64)> {
        series.iter().map(|(label, number)| (label.join("/"), *number)).collect()
    }

    fn expected(series: &[(&str, u64)]) -> Vec<(String, u64)> {
        series.iter().map(|(label, number)| ((*label).to_owned(), *number)).collect()
    }

    #[test]
    fn few_queues_are_told_all_and_namesakes_are_added_up() {
        let census = census(&[("b", 1), ("a", 2), ("b", 4), ("c:t@a", 8), ("t@d", 16)], 10);
        assert_eq!(told(&census.scheduled), expected(&[("a", 2), ("b", 5), ("c:t@a", 8), ("t@d", 16)]));
        assert_eq!(told(&census.domains), expected(&[("a", 10), ("b", 5), ("d", 16)]));
        assert_eq!(told(&census.tenants), expected(&[("t", 24)]));
        assert_eq!(told(&census.campaigns), expected(&[("t/c", 8)]));
        assert_eq!((census.messages, census.out, census.queues), (31, 5, 5));
    }

    #[test]
    fn of_many_the_largest_are_told_and_the_rest_is_one() {
        let census = census(&[("a", 1), ("b", 9), ("c", 5), ("d", 9), ("e", 1), ("x:t@e", 1), ("x:u@e", 2)], 2);
        assert_eq!(told(&census.scheduled), expected(&[("b", 9), ("d", 9), ("other", 10)]));
        assert_eq!(told(&census.domains), expected(&[("b", 9), ("d", 9), ("other", 10)]));
        assert_eq!(told(&census.tenants), expected(&[("t", 1), ("u", 2)]), "two are not too many");
        let sums: u64 = census.scheduled.iter().map(|(_, number)| number).sum();
        assert_eq!(sums, census.messages, "nothing is left out");
    }

    #[test]
    fn a_queue_that_is_called_like_the_rest_is_in_it() {
        assert_eq!(
            told(&census(&[("other", 9), ("b", 1), ("c", 8)], 2).scheduled),
            expected(&[("c", 8), ("other", 10)])
        );
        assert_eq!(told(&census(&[("other", 9), ("b", 1)], 2).scheduled), expected(&[("b", 1), ("other", 9)]));
    }

    #[test]
    fn labels_that_come_too_late_are_in_the_rest() {
        let mut sums = Sums::default();
        (0..LABELS_MAX + 5).for_each(|n| sums.add([n.to_string()], 1));
        sums.add(["0".to_owned()], 7);
        let told = sums.largest(1);
        assert_eq!(told, [(["0".to_owned()], 8), (["other".to_owned()], LABELS_MAX as u64 + 4)]);
    }
}
