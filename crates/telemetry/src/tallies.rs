//! What became of recipients, and how many connections were opened: a tally a ready queue, one a protocol that is the sum of its ready queues, and one for what went to
//! a provider from a source of a pool.
//!
//! A tally is some numbers that deliveries add to without a lock; whoever holds one keeps it. In: names and outcomes. Out:
//! the families `total_messages_delivered`, `total_messages_transfail` and `total_messages_fail`, those `_by_provider`,
//! `total_connection_count` and `dispatcher_watchdog_aborted_total` (KumoMTA's names and labels). One tally a ready queue until that is forgotten; the largest [`SERIES_MAX`] have series of
//! their own. Those of providers stay, as counters have to; at most [`PROVIDERS_MAX`] of either kind. The rest counts for [`OTHER`]. Nothing can fail.

use crate::exposition::{Exposition, Kind};
use crate::largest::{Floor, OTHER, SERIES_MAX, cut};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Outcomes of one ready queue, or of one protocol.
#[derive(Debug, Default)]
pub struct Tally {
    /// Recipients delivered to.
    pub delivered: AtomicU64,
    /// Transient failures.
    pub transfail: AtomicU64,
    /// Permanent failures.
    pub fail: AtomicU64,
    /// Connections opened; of providers they are not counted.
    pub connections: AtomicU64,
    /// Those of them that were ended because nothing went on.
    stuck: AtomicU64,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Tallies {
    /// Connections of clients, ever.
    pub inbound: AtomicU64,
    all: Mutex<All>,
    /// What was told of ready queues without series of their own: connections, and each of [`OUTCOMES`].
    rest: [Floor; 4],
    /// The same of connections that were ended because nothing went on.
    stuck_rest: Floor,
}

#[derive(Debug, Default)]
struct All {
    protocols: BTreeMap<&'static str, Arc<Tally>>,
    queues: HashMap<Arc<str>, Arc<Tally>>,
    providers: BTreeMap<Way, Arc<Tally>>,
    /// How many of them are for sites, and for providers that have a name: the first must not take the room of the others.
    ways: [usize; 2],
}

/// Names of ready queues, and their tallies.
type Queues = Vec<(Arc<str>, Arc<Tally>)>;

/// Provider, source and pool.
pub type Way = [Arc<str>; 3];

impl Tallies {
    /// The tally of a protocol.
    pub fn of_protocol(&self, protocol: &'static str) -> Arc<Tally> {
        self.all().protocols.entry(protocol).or_default().clone()
    }

    /// The tally of a ready queue.
    pub fn of_queue(&self, ready_name: &Arc<str>) -> Arc<Tally> {
        self.all().queues.entry(ready_name.clone()).or_default().clone()
    }

    /// The tally of what goes to a provider from a source of a pool; `is_named` if the operator calls it so.
    pub fn of_way(&self, way: &Way, is_named: bool) -> Arc<Tally> {
        let mut all = self.all();
        if let Some(tally) = all.providers.get(way) {
            return tally.clone();
        }
        let count = &mut all.ways[usize::from(is_named)];
        let has_room = *count < PROVIDERS_MAX;
        *count += usize::from(has_room);
        let way = if has_room { way.clone() } else { [OTHER; 3].map(Into::into) };
        all.providers.entry(way).or_default().clone()
    }

    /// A connection of a ready queue was ended because nothing went on.
    pub fn count_stuck(&self, protocol: &'static str, ready_name: &str) {
        let mut all = self.all();
        all.protocols.entry(protocol).or_default().stuck.fetch_add(1, Ordering::Relaxed);
        // One that is gone has no series any more.
        all.queues.get(ready_name).into_iter().for_each(|tally| _ = tally.stuck.fetch_add(1, Ordering::Relaxed));
    }

    /// What was counted for a ready queue so far: delivered, transient failures, permanent ones. None for one that is not known.
    pub fn so_far(&self, ready_name: &str) -> Option<[u64; 3]> {
        self.all().queues.get(ready_name).map(|tally| numbers(tally))
    }

    /// The same of all protocols together: of everything.
    pub fn total(&self) -> [u64; 3] {
        let all = self.all();
        let add = |sums: [u64; 3], tally: &Arc<Tally>| {
            let of = numbers(tally);
            [0, 1, 2].map(|outcome| sums[outcome] + of[outcome])
        };
        all.protocols.values().fold([0; 3], add)
    }

    /// A ready queue is gone: its series end (KumoMTA behaviour). The protocol's go on.
    pub fn forget(&self, ready_name: &str) {
        self.all().queues.remove(ready_name);
    }

    /// Adds the families; `service` makes the label of a ready queue from its name.
    pub fn expose(&self, text: &mut Exposition, service: impl Fn(&str) -> String) {
        let (protocols, queues, providers) = {
            let all = self.all();
            let queues: Vec<_> = all.queues.iter().map(|(name, tally)| (name.clone(), tally.clone())).collect();
            (all.protocols.clone(), queues, all.providers.clone())
        };
        self.expose_stuck(text, (&protocols, &queues), &service, SERIES_MAX);
        let protocols = protocols.into_iter().map(|(name, tally)| (name.to_owned(), tally));
        let (queues, rest) = self.with_series(queues, SERIES_MAX);
        let series: Vec<_> = protocols.chain(queues.into_iter().map(|(name, tally)| (service(&name), tally))).collect();
        // The same queues in each family.
        let rest_of = |at: usize| rest.map(|rest| (OTHER, rest[at]));
        let of_clients = ("esmtp_listener", self.inbound.load(Ordering::Relaxed));
        let opened = series.iter().map(|(service, tally)| (&**service, tally.connections.load(Ordering::Relaxed)));
        let opened = std::iter::once(of_clients).chain(opened).chain(rest_of(0));
        let opened = opened.map(|(service, number)| ([service], number));
        text.family(("total_connection_count", "connections ever opened", Kind::Counter), ["service"], opened);
        for (at, (name, help, of)) in OUTCOMES.into_iter().enumerate() {
            let number = |tally: &Tally| of(tally).load(Ordering::Relaxed);
            let all = series.iter().map(|(service, tally)| (&**service, number(tally))).chain(rest_of(at + 1));
            text.family((name, help, Kind::Counter), ["service"], all.map(|(service, number)| ([service], number)));
            let mut by_provider: BTreeMap<&str, u64> = BTreeMap::new();
            providers.iter().for_each(|([to, ..], tally)| *by_provider.entry(to).or_default() += number(tally));
            let family = format!("{name}_by_provider");
            let all = by_provider.into_iter().map(|(provider, sum)| ([provider], sum));
            text.family((&family, help, Kind::Counter), ["provider"], all);
            let all = providers.iter().map(|(way, tally)| (way.each_ref().map(|part| &**part), number(tally)));
            text.family((&format!("{family}_and_source"), help, Kind::Counter), ["provider", "source", "pool"], all);
        }
    }

    /// Connections that were ended because nothing went on: series of those that had any, which are few.
    fn expose_stuck(
        &self,
        text: &mut Exposition,
        (protocols, queues): (&BTreeMap<&'static str, Arc<Tally>>, &Queues),
        service: impl Fn(&str) -> String,
        most: usize,
    ) {
        let stuck = |tally: &Tally| Some(tally.stuck.load(Ordering::Relaxed)).filter(|stuck| *stuck > 0);
        let protocols = protocols.iter().filter_map(|(name, tally)| Some(((*name).to_owned(), stuck(tally)?)));
        let mut own: Vec<(&Arc<str>, u64)> =
            queues.iter().filter_map(|(name, tally)| Some((name, stuck(tally)?))).collect();
        let is_cut = own.len() > most;
        let rest = self.stuck_rest.at_least(cut(&mut own, most));
        own.sort_unstable();
        let own = own.into_iter().map(|(name, stuck)| (service(name), stuck));
        let all = protocols.chain(own).chain(is_cut.then(|| (OTHER.to_owned(), rest)));
        let family =
            ("dispatcher_watchdog_aborted_total", "outbound connections ended for want of progress", Kind::Counter);
        text.family(family, ["service"], all.map(|(service, stuck)| ([service], stuck)));
    }

    /// The ready queues that counted most, and what the others counted, if there are others: connections, and each of [`OUTCOMES`].
    fn with_series(&self, queues: Queues, most: usize) -> (Queues, Option<[u64; 4]>) {
        if queues.len() <= most {
            return (queues, None);
        }
        let sizes = queues.iter().enumerate().map(|(at, (name, tally))| {
            let connections = tally.connections.load(Ordering::Relaxed);
            ((name.clone(), at), numbers(tally).iter().sum::<u64>() + connections)
        });
        let mut largest: Vec<_> = sizes.collect();
        cut(&mut largest, most);
        let mut is_shown = vec![false; queues.len()];
        largest.iter().for_each(|((_, at), _)| is_shown[*at] = true);
        let (mut shown, mut rest) = (Vec::with_capacity(most), [0; 4]);
        for (queue, is_shown) in queues.into_iter().zip(is_shown) {
            if is_shown {
                shown.push(queue);
                continue;
            }
            let [delivered, transfail, fail] = numbers(&queue.1);
            let of = [queue.1.connections.load(Ordering::Relaxed), delivered, transfail, fail];
            rest.iter_mut().zip(of).for_each(|(sum, number)| *sum += number);
        }
        let mut told = rest;
        told.iter_mut().zip(&self.rest).for_each(|(rest, floor)| *rest = floor.at_least(*rest));
        (shown, Some(told))
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn numbers(tally: &Tally) -> [u64; 3] {
    OUTCOMES.map(|(.., of)| of(tally).load(Ordering::Relaxed))
}

/// Family, what it tells, and where it is counted.
type Outcome = (&'static str, &'static str, fn(&Tally) -> &AtomicU64);
/// All of them.
const OUTCOMES: [Outcome; 3] = [
    ("total_messages_delivered", "recipients delivered", |tally| &tally.delivered),
    ("total_messages_transfail", "transient failures", |tally| &tally.transfail),
    ("total_messages_fail", "permanent failures", |tally| &tally.fail),
];
/// Ways that have tallies of their own.
const PROVIDERS_MAX: usize = 20_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn text(tallies: &Tallies) -> String {
        let mut text = Exposition::after(String::new(), "total_messages_");
        tallies.expose(&mut text, |name| format!("smtp_client:{name}"));
        text.into_text()
    }

    #[test]
    fn a_queue_is_counted_until_it_is_forgotten_and_its_protocol_for_good() {
        let tallies = Tallies::default();
        let name: Arc<str> = "src->site@smtp_client".into();
        for tally in [tallies.of_protocol("smtp_client"), tallies.of_queue(&name), tallies.of_queue(&name)] {
            tally.delivered.fetch_add(2, Ordering::Relaxed);
        }
        let both = text(&tallies);
        assert!(both.contains("\ntotal_messages_delivered{service=\"smtp_client\"} 2\n"), "{both}");
        let own = "{service=\"smtp_client:src->site@smtp_client\"}";
        assert!(both.contains(&format!("\ntotal_messages_delivered{own} 4\n")), "{both}");
        assert!(both.contains(&format!("\ntotal_messages_fail{own} 0\n")), "{both}");
        assert_eq!((tallies.so_far(&name), tallies.total()), (Some([4, 0, 0]), [2, 0, 0]));
        tallies.forget(&name);
        assert_eq!((tallies.so_far(&name), tallies.total()), (None, [2, 0, 0]));
        let rest = text(&tallies);
        assert!(!rest.contains(own) && rest.contains("{service=\"smtp_client\"} 2\n"), "{rest}");
    }

    #[test]
    fn connections_are_those_of_clients_of_protocols_and_of_queues() {
        let tallies = Tallies::default();
        tallies.inbound.fetch_add(3, Ordering::Relaxed);
        for tally in [tallies.of_protocol("smtp_client"), tallies.of_queue(&"q".into())] {
            tally.connections.fetch_add(2, Ordering::Relaxed);
        }
        let mut text = Exposition::after(String::new(), "total_connection");
        tallies.expose(&mut text, |name| format!("smtp_client:{name}"));
        let expected = "# HELP total_connection_count connections ever opened\n# TYPE total_connection_count counter\n\
            total_connection_count{service=\"esmtp_listener\"} 3\ntotal_connection_count{service=\"smtp_client\"} 2\n\
            total_connection_count{service=\"smtp_client:q\"} 2\n";
        assert_eq!(text.into_text(), expected);
    }

    #[test]
    fn connections_that_stood_still_are_told_where_there_were_any_and_there_is_an_end_to_them() {
        let tallies = Tallies::default();
        let shown = |most| {
            let (protocols, queues) = {
                let all = tallies.all();
                (all.protocols.clone(), all.queues.iter().map(|(name, tally)| (name.clone(), tally.clone())).collect())
            };
            let mut text = Exposition::after(String::new(), "");
            tallies.expose_stuck(&mut text, (&protocols, &queues), |name| format!("smtp_client:{name}"), most);
            let text = text.into_text();
            text.lines()
                .filter_map(|line| line.strip_prefix("dispatcher_watchdog_aborted_total"))
                .collect::<Vec<_>>()
                .join(" ")
        };
        (0..4).for_each(|number| _ = tallies.of_queue(&format!("q{number}").into()));
        assert_eq!(shown(9), "", "nothing stood still");
        for (name, times) in [("q1", 1), ("q2", 3), ("q3", 2), ("gone", 1)] {
            (0..times).for_each(|_| tallies.count_stuck("smtp_client", name));
        }
        let of_all = "{service=\"smtp_client\"} 7";
        let own = |name: &str, stuck: u64| format!("{{service=\"smtp_client:{name}\"}} {stuck}");
        assert_eq!(shown(3), [of_all.to_owned(), own("q1", 1), own("q2", 3), own("q3", 2)].join(" "));
        assert_eq!(shown(1), [of_all.to_owned(), own("q2", 3), "{service=\"other\"} 3".to_owned()].join(" "));
        tallies.forget("q3");
        assert_eq!(
            shown(1),
            [of_all.to_owned(), own("q2", 3), "{service=\"other\"} 3".to_owned()].join(" "),
            "no counter falls"
        );
        assert_eq!(tallies.all().queues.len(), 3, "what is gone is not remembered for it");
        // Of as many as a page has, and one more.
        for number in 0..SERIES_MAX {
            let name: Arc<str> = format!("r{number:05}").into();
            tallies.of_queue(&name);
            tallies.count_stuck("smtp_client", &name);
        }
        let mut text = Exposition::after(String::new(), "dispatcher_");
        tallies.expose(&mut text, |name| format!("smtp_client:{name}"));
        let page = text.into_text();
        let series =
            page.lines().filter(|line| line.starts_with("dispatcher_watchdog_aborted_total{service=\"smtp_client:"));
        assert_eq!(series.count(), SERIES_MAX);
        assert!(page.contains("\ndispatcher_watchdog_aborted_total{service=\"other\"} 3\n"), "{}", page.len());
    }

    #[test]
    fn of_many_queues_the_largest_have_series_and_the_rest_is_one_that_never_falls() {
        let tallies = Tallies::default();
        let deliver = |number: u64, count| {
            let name: Arc<str> = format!("q{number:02}").into();
            tallies.of_queue(&name).delivered.fetch_add(count, Ordering::Relaxed);
        };
        (0..5).for_each(|number| deliver(number, number));
        let of = |most| {
            let all = tallies.all().queues.iter().map(|(name, tally)| (name.clone(), tally.clone())).collect();
            let (shown, rest) = tallies.with_series(all, most);
            let mut names: Vec<String> = shown.iter().map(|(name, _)| name.to_string()).collect();
            names.sort_unstable();
            (names.join(" "), rest)
        };
        assert_eq!(of(5), ("q00 q01 q02 q03 q04".to_owned(), None));
        assert_eq!(of(2), ("q03 q04".to_owned(), Some([0, 3, 0, 0])));
        deliver(2, 9);
        assert_eq!(of(2), ("q02 q04".to_owned(), Some([0, 4, 0, 0])));
        tallies.forget("q03");
        assert_eq!(of(2), ("q02 q04".to_owned(), Some([0, 4, 0, 0])), "a counter does not fall");
        // As many as the page has, and one more.
        (10..10 + SERIES_MAX as u64).for_each(|number| deliver(number, 50));
        let page = text(&tallies);
        let series = page.lines().filter(|line| line.starts_with("total_messages_delivered{service=\"smtp_client:q"));
        assert_eq!(series.count(), SERIES_MAX);
        assert!(page.contains("\ntotal_messages_delivered{service=\"other\"} 16\n"), "{}", page.len());
    }

    #[test]
    fn providers_are_summed_and_there_is_an_end_to_them() {
        let tallies = Tallies::default();
        let way = |provider: &str, source: &str| [provider, source, "shared"].map(Into::into);
        for (provider, source) in [("big", "ip-1"), ("big", "ip-2"), ("big", "ip-2")] {
            tallies.of_way(&way(provider, source), true).delivered.fetch_add(1, Ordering::Relaxed);
        }
        let all = text(&tallies);
        assert!(all.contains("\ntotal_messages_delivered_by_provider{provider=\"big\"} 3\n"), "{all}");
        let own = "_by_provider_and_source{provider=\"big\",source=\"ip-2\",pool=\"shared\"} 2\n";
        assert!(all.contains(own), "{all}");
        for number in 0..=PROVIDERS_MAX {
            tallies.of_way(&way(&number.to_string(), "ip-1"), false).fail.fetch_add(1, Ordering::Relaxed);
        }
        let all = text(&tallies);
        assert!(all.contains("\ntotal_messages_fail_by_provider{provider=\"other\"} 1\n"), "{}", all.len());
        tallies.of_way(&way("late", "ip-1"), true).fail.fetch_add(1, Ordering::Relaxed);
        let all = text(&tallies);
        assert!(all.contains("\ntotal_messages_fail_by_provider{provider=\"late\"} 1\n"), "{}", all.len());
        assert!(Arc::ptr_eq(&tallies.of_way(&way("big", "ip-1"), true), &tallies.of_way(&way("big", "ip-1"), true)));
    }
}
