//! What is queued, summed up by destination, tenant, campaign, source or provider: the largest first, a page at a time.
//!
//! Every queue is looked at, some thousand at a visit, so that nobody waits long for the lock; of each, two dozen octets are kept
//! until the sums are made. One asks at a time. Each number was true when its queue was met.

use crate::egress::service::provider_of;
use crate::engine::Engine;
use crate::refusals::Refusal;
use ::clock::Now;
use queue::{NameParts, QueueCore, QueueKey, QueueName, ReadyKey, SurveyedQueue, SurveyedReady, Why};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::ops::Range;
use std::sync::Arc;

/// What is summed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Scheduled queues, by the domain of their names.
    Domain,
    /// The same by tenant; those without one together.
    Tenant,
    /// The same by campaign.
    Campaign,
    /// Each scheduled queue.
    Queue,
    /// Each ready queue.
    Ready,
    /// Ready queues by source.
    Source,
    /// Ready queues by provider, or site.
    Provider,
}

/// What is asked.
#[derive(Clone, Debug)]
pub struct SurveyQuestion {
    /// What is summed up.
    pub by: By,
    /// Only groups whose name begins so, in any case.
    pub prefix: String,
    /// Only the group of this name; of domains in any case.
    pub name: Option<String>,
    /// Only queues of this domain, in any case.
    pub domain: Option<String>,
    /// Only queues of this tenant.
    pub tenant: Option<String>,
    /// Only queues of this campaign.
    pub campaign: Option<String>,
    /// Only ready queues of this source.
    pub source: Option<String>,
    /// Only ready queues of this provider.
    pub provider: Option<String>,
    /// Groups at most.
    pub limit: usize,
    /// Only what comes behind this.
    pub after: Option<SurveyPlace>,
}

/// A place in the order of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SurveyPlace {
    /// Larger ones come first.
    pub size: Reverse<u64>,
    /// Tells those of one size apart.
    pub hash: u64,
}

/// The answer.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// The largest groups, or those behind the place that was given.
    pub groups: Vec<Group>,
    /// How many groups there are in all.
    pub groups_total: usize,
    /// Everything that was asked about.
    pub total: Sums,
    /// Where the next page begins.
    pub next: Option<SurveyPlace>,
}

/// One group.
#[derive(Clone, Debug)]
pub struct Group {
    /// What its queues have in common; empty for those that have no such thing.
    pub name: String,
    /// Its numbers.
    pub sums: Sums,
    /// Of a ready queue: delivered, transient failures and permanent ones so far.
    pub outcomes: Option<[u64; 3]>,
    /// Of a ready queue: what was refused last.
    pub refusal: Option<Arc<Refusal>>,
}

/// Numbers of one or more queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Messages that wait for their time.
    pub waiting: u64,
    /// Messages whose time has come; of ready queues, those in them.
    pub due: u64,
    /// Messages that are ready, with a connection, held or ending; of ready queues, connections.
    pub out: u64,
    /// Queues.
    pub queues: u64,
    /// Of these, suspended ones.
    pub suspended: u64,
    /// What the due ones wait for.
    pub why: BTreeMap<&'static str, u64>,
}

/// What is kept of a queue.
#[derive(Clone, Copy)]
struct Seen {
    group: u64,
    /// Which of the keys.
    at: u32,
    waiting: u32,
    due: u32,
    out: u32,
    is_suspended: bool,
    why: Option<Why>,
}

impl Engine {
    /// Sums up the queues.
    pub async fn survey(&self, question: SurveyQuestion) -> Survey {
        // Never closed.
        let _one_at_a_time = self.surveying.acquire().await.ok();
        if question.by.is_of_ready() {
            let keys = self.with_queue(|queue, _| queue.ready_keys());
            let seen = self.seen(&keys, |queue, now, key| question.see_ready(&queue.survey_ready(now, key)?)).await;
            let mut survey = self.summed(seen, keys, &question, ready_name).await;
            survey.groups.iter_mut().filter(|_| question.by == By::Ready).for_each(|group| {
                group.outcomes = self.metrics.tallies.so_far(&group.name);
                group.refusal = self.refusals.last(&group.name);
            });
            return survey;
        }
        let keys = self.with_queue(|queue, _| queue.scheduled_keys());
        let seen = self.seen(&keys, |queue, now, key| question.see(&queue.survey(now, key)?)).await;
        self.summed(seen, keys, &question, queue_name).await
    }

    async fn seen<K: Copy>(&self, keys: &[K], see: impl Fn(&QueueCore, Now, K) -> Option<Seen>) -> Vec<Seen> {
        let see = |queue: &QueueCore, now, at, key| Some(Seen { at: u32::try_from(at).ok()?, ..see(queue, now, key)? });
        self.in_visits(keys, see).await
    }

    /// What `see` finds of each key, which it is given with its place: [`QUEUES_PER_VISIT`] in one hold of the lock, and between two of
    /// these others have their turn.
    pub(crate) async fn in_visits<K: Copy, T>(
        &self,
        keys: &[K],
        see: impl Fn(&QueueCore, Now, usize, K) -> Option<T>,
    ) -> Vec<T> {
        let mut all = Vec::new();
        for (step, keys) in keys.chunks(QUEUES_PER_VISIT).enumerate() {
            let first = step * QUEUES_PER_VISIT;
            self.with_queue(|queue, now| {
                all.extend(keys.iter().zip(first..).filter_map(|(key, at)| see(queue, now, at, *key)));
            });
            tokio::task::yield_now().await;
        }
        all
    }

    /// A page of sums. Only its groups need names, so the queues are asked for them last.
    async fn summed<K: Copy>(
        &self,
        seen: Vec<Seen>,
        keys: Vec<K>,
        question: &SurveyQuestion,
        name: impl Fn(&QueueCore, Now, K, By) -> Option<String>,
    ) -> Survey {
        let (limit, after) = (question.limit, question.after);
        let summed = tokio::task::spawn_blocking(move || Page::of(seen, limit, after)).await;
        // The program ends.
        let Ok(page) = summed else { return Survey::default() };
        let groups = self.with_queue(|queue, now| {
            let named = page.groups.into_iter().filter_map(|(at, sums)| {
                let name = name(queue, now, *keys.get(at as usize)?, question.by)?;
                Some(Group { name, sums, outcomes: None, refusal: None })
            });
            named.collect()
        });
        Survey { groups, groups_total: page.groups_total, total: page.total, next: page.next }
    }
}

impl By {
    fn is_of_ready(self) -> bool {
        matches!(self, By::Ready | By::Source | By::Provider)
    }
}

impl SurveyQuestion {
    fn wants(&self, group: &str) -> bool {
        let is_it = |name: &str| if self.by == By::Domain { name.eq_ignore_ascii_case(group) } else { name == group };
        self.name.as_deref().is_none_or(is_it) && begins(group, &self.prefix)
    }

    fn see(&self, queue: &SurveyedQueue<'_>) -> Option<Seen> {
        let parts = QueueName::split(queue.name);
        let is =
            |wanted: &Option<String>, has: Option<&str>| wanted.as_deref().is_none_or(|wanted| Some(wanted) == has);
        let is_domain = self.domain.as_deref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(parts.domain));
        let is_meant = is_domain && is(&self.tenant, parts.tenant) && is(&self.campaign, parts.campaign);
        let is_empty = queue.waiting + queue.due + queue.out == 0;
        let group = group_of(self.by, queue.name, parts);
        (is_meant && !is_empty && self.wants(group)).then(|| Seen {
            group: hash(self.by, group),
            at: 0,
            waiting: counted(queue.waiting),
            due: counted(queue.due),
            out: counted(queue.out),
            is_suspended: queue.is_suspended,
            why: queue.why,
        })
    }

    fn see_ready(&self, ready: &SurveyedReady<'_>) -> Option<Seen> {
        let is = |wanted: &Option<String>, has: &str| wanted.as_deref().is_none_or(|wanted| wanted == has);
        let provider = provider_of(ready.name, &ready.leg.path);
        let group = group_of_ready(self.by, ready);
        let is_meant = is(&self.source, &ready.leg.source.name) && is(&self.provider, provider);
        (is_meant && self.wants(group)).then(|| Seen {
            group: hash(self.by, group),
            at: 0,
            waiting: 0,
            due: counted(ready.messages),
            out: counted(ready.connections),
            is_suspended: ready.is_suspended,
            why: ready.why,
        })
    }
}

/// Sums before their groups have names.
struct Page {
    /// Which key has the name, and the sums.
    groups: Vec<(u32, Sums)>,
    groups_total: usize,
    total: Sums,
    next: Option<SurveyPlace>,
}

impl Page {
    fn of(mut seen: Vec<Seen>, limit: usize, after: Option<SurveyPlace>) -> Page {
        seen.sort_unstable_by_key(|one| (one.group, one.at));
        let mut places: Vec<(SurveyPlace, Range<usize>)> = Vec::new();
        for (at, one) in seen.iter().enumerate() {
            let size = u64::from(one.waiting) + u64::from(one.due) + u64::from(one.out);
            match places.last_mut().filter(|(place, _)| place.hash == one.group) {
                Some((place, range)) => (place.size.0, range.end) = (place.size.0 + size, at + 1),
                None => places.push((SurveyPlace { size: Reverse(size), hash: one.group }, at..at + 1)),
            }
        }
        let groups_total = places.len();
        places.retain(|(place, _)| after.is_none_or(|after| *place > after));
        let is_last = places.len() <= limit;
        if !is_last && limit > 0 {
            places.select_nth_unstable_by_key(limit - 1, |(place, _)| *place);
        }
        places.truncate(limit);
        places.sort_unstable_by_key(|(place, _)| *place);
        let next = places.last().map(|(place, _)| *place).filter(|_| !is_last);
        let sums = |range: Range<usize>| seen[range].iter().fold(Sums::default(), Sums::with);
        let groups = places.into_iter().map(|(_, range)| (seen[range.start].at, sums(range))).collect();
        Page { groups, groups_total, total: sums(0..seen.len()), next }
    }
}

impl Sums {
    fn with(mut self, seen: &Seen) -> Sums {
        self.waiting += u64::from(seen.waiting);
        self.due += u64::from(seen.due);
        self.out += u64::from(seen.out);
        self.queues += 1;
        self.suspended += u64::from(seen.is_suspended);
        if let Some(why) = seen.why {
            *self.why.entry(why.name()).or_default() += u64::from(seen.due);
        }
        self
    }
}

fn group_of<'a>(by: By, name: &'a str, parts: NameParts<'a>) -> &'a str {
    match by {
        By::Tenant => parts.tenant.unwrap_or_default(),
        By::Campaign => parts.campaign.unwrap_or_default(),
        By::Queue => name,
        _ => parts.domain,
    }
}

fn group_of_ready<'a>(by: By, ready: &SurveyedReady<'a>) -> &'a str {
    match by {
        By::Source => &ready.leg.source.name,
        By::Provider => provider_of(ready.name, &ready.leg.path),
        _ => ready.name,
    }
}

fn queue_name(queue: &QueueCore, now: Now, key: QueueKey, by: By) -> Option<String> {
    let found = queue.survey(now, key)?;
    let group = group_of(by, found.name, QueueName::split(found.name)).to_owned();
    Some(if by == By::Domain { group.to_ascii_lowercase() } else { group })
}

fn ready_name(queue: &QueueCore, now: Now, key: ReadyKey, by: By) -> Option<String> {
    Some(group_of_ready(by, &queue.survey_ready(now, key)?).to_owned())
}

fn begins(text: &str, prefix: &str) -> bool {
    text.as_bytes().get(..prefix.len()).is_some_and(|head| head.eq_ignore_ascii_case(prefix.as_bytes()))
}

/// Of a name; of domains in any case.
fn hash(by: By, group: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    match by {
        By::Domain => group.bytes().for_each(|octet| hasher.write_u8(octet.to_ascii_lowercase())),
        _ => hasher.write(group.as_bytes()),
    }
    hasher.finish()
}

fn counted(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Queues that one visit looks at.
const QUEUES_PER_VISIT: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(group: &str, at: u32, [waiting, due, out]: [u32; 3], why: Option<Why>) -> Seen {
        Seen { group: hash(By::Domain, group), at, waiting, due, out, is_suspended: at == 0, why }
    }

    #[test]
    fn groups_are_summed_and_paged_by_size() {
        let all = || {
            vec![
                seen("small.test", 0, [1, 0, 0], None),
                seen("large.test", 1, [0, 5, 1], Some(Why::ReadyQueueWasFull)),
                seen("large.test", 2, [4, 2, 0], Some(Why::BehindOthers)),
                seen("twin.test", 3, [0, 0, 1], None),
            ]
        };
        let first = Page::of(all(), 1, None);
        assert_eq!((first.groups_total, first.groups.len(), first.groups[0].0), (3, 1, 1));
        let sums = &first.groups[0].1;
        assert_eq!((sums.waiting, sums.due, sums.out, sums.queues, sums.suspended), (4, 7, 1, 2, 0));
        assert_eq!(sums.why, BTreeMap::from([("ReadyQueueWasFull", 5), ("BehindOthers", 2)]));
        assert_eq!((first.total.waiting, first.total.queues, first.total.suspended), (5, 4, 1));

        let (mut after, mut met) = (None, Vec::new());
        loop {
            let page = Page::of(all(), 1, after);
            met.extend(page.groups.iter().map(|(at, _)| *at));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(met[0], 1);
        met.sort_unstable();
        assert_eq!(met, [0, 1, 3], "each group once, those of one size too");
        assert_eq!(Page::of(all(), 3, None).next, None);
        assert!(Page::of(Vec::new(), 5, None).groups.is_empty());
    }

    #[test]
    fn prefixes_are_in_any_case_and_may_be_longer_than_the_text() {
        assert!(begins("Shop.test", "shop.") && begins("x", "") && begins("é.test", "é"));
        assert!(!begins("sh", "shop") && !begins("é", "e"));
        assert_eq!(hash(By::Domain, "A.test"), hash(By::Domain, "a.test"));
        assert_ne!(hash(By::Tenant, "A"), hash(By::Tenant, "a"));
    }
}
