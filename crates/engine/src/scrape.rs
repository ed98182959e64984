//! The text of `/metrics`: counters as they stand, and what mirrors queues and spool read at this moment.
//!
//! Ready queues are asked once, for copies of names and numbers, scheduled queues are counted by `queue_census`; the text is written
//! after their lock is free. Fails only if the registry cannot be written as text.

use crate::egress::service::{protocol_of, provider_of, service};
use crate::engine::Engine;
use crate::queue_census::{QueueCensus, Series, in_order};
use crate::scrape_counts;
use clock::Now;
use config::EgressPath;
use queue::{FullOf, QueueCore, SourceFault};
use std::collections::BTreeMap;
use std::sync::Arc;
use telemetry::largest::{Kept, OTHER, SERIES_MAX, cut};
use telemetry::{Described, Exposition, Kind, LogWriter, Metrics, PROTOCOLS};

impl Engine {
    /// All metrics whose name begins with `prefix`.
    ///
    /// # Errors
    /// A metric of the registry cannot be written.
    pub async fn metrics_text(&self, prefix: &str) -> Result<String, telemetry::metrics::Error> {
        let census = self.census().await;
        let queues = self.with_queue(|queue, now| Queues::of(queue, now, census));
        self.refresh_gauges(&queues.census);
        let mut text = Exposition::after(self.metrics.text(prefix)?, prefix);
        self.metrics.tallies.expose(&mut text, service);
        queues.expose(&mut text, self.metrics.open_sessions.get(), SERIES_MAX);
        queues.expose_full(&mut text, &self.metrics.ready_full, SERIES_MAX);
        queues.expose_content(&mut text, self.in_hand());
        scrape_counts::policy(&mut text, self.policy.counts(), Some((self.mx.counts(), self.mx.len())));
        Ok(text.into_text())
    }

    /// Fills the gauges of the registry that mirror queues and spool.
    fn refresh_gauges(&self, census: &QueueCensus) {
        let metrics = &self.metrics;
        metrics.scheduled_count_total.set(census.messages.cast_signed());
        metrics.scheduled_queue_count.set(census.queues.cast_signed());
        metrics.queue_census_age.set(self.census_age().unwrap_or_default().as_secs().cast_signed());
        metrics.message_count.set((census.messages + census.out).cast_signed());
        metrics.xfer_arrivals.set(self.arrivals.len() as i64);
        metrics.idempotency_keys.set(self.keys.len() as i64);
        let spool = self.spool.stats();
        metrics.spool_syncs.set(spool.log.syncs as i64);
        metrics.spool_commits.set(spool.log.commits as i64);
        metrics.spool_bytes_written.set(spool.log.octets_written as i64);
        metrics.spool_bytes_compacted.set(spool.log.octets_compacted as i64);
        self.refresh_lock_waits(spool.lock_waits);
    }

    /// Messages that connections hold, with their content.
    fn in_hand(&self) -> usize {
        self.connections().values().map(|held| held.in_hand.len()).sum()
    }

    /// Of what every message passes and all cores share.
    fn refresh_lock_waits(&self, spool: u64) {
        let log = self.recorders().logs.iter().map(LogWriter::lock_waits).sum();
        let states = self.policy.waits_for_states();
        let all =
            [("queue", self.queue.waits()), ("ids", self.ids.waits()), ("spool", spool), ("log", log), ("lua", states)];
        for (lock, waits) in all {
            self.metrics.lock_waits.with_label_values(&[lock]).set(waits.cast_signed());
        }
    }
}

/// Every metric that there can be on a page, whatever has happened, in order of its name.
///
/// # Errors
/// Two have the same name.
pub fn metric_metadata() -> Result<Vec<Described>, telemetry::metrics::Error> {
    let metrics = Metrics::new()?;
    let mut text = Exposition::describing();
    metrics.tallies.expose(&mut text, service);
    let queues = Queues::default();
    queues.expose(&mut text, 0, SERIES_MAX);
    queues.expose_full(&mut text, &metrics.ready_full, SERIES_MAX);
    queues.expose_content(&mut text, 0);
    scrape_counts::describe(&mut text);
    let mut all = metrics.described();
    all.extend(text.into_described());
    all.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// What the queues said.
#[derive(Default)]
struct Queues {
    census: Arc<QueueCensus>,
    ready: Vec<Ready>,
    /// Names of protocols and ready queues, and how often there was no room.
    full: Vec<(Arc<str>, FullOf, u64)>,
    /// Sources that failed of late, in what way, and whether each rests for that.
    sources: Vec<(String, SourceFault, bool)>,
    /// Messages in queues whose content is in memory.
    resident: usize,
    /// Messages that had to wait for a rate.
    delayed_by_rate: u64,
}

struct Ready {
    name: Arc<str>,
    pool: Arc<str>,
    path: Arc<EgressPath>,
    messages: u64,
    connections: u64,
}

impl Queues {
    fn of(queue: &QueueCore, now: Now, census: Arc<QueueCensus>) -> Queues {
        let ready = queue.legs().map(|(name, leg, messages, connections)| Ready {
            name: name.clone(),
            pool: leg.pool.clone(),
            path: leg.path.clone(),
            messages: messages as u64,
            connections: connections as u64,
        });
        let full = queue.full_counts().map(|(name, of, times)| (name.clone(), of, times));
        let sources = queue.source_healths(now).map(|(name, fault, rests)| (name.to_owned(), fault, rests));
        let sources = sources.take(SERIES_MAX).collect();
        let resident = queue.resident_messages();
        let delayed_by_rate = queue.delayed_by_rate();
        Queues { census, ready: ready.collect(), full: full.collect(), sources, resident, delayed_by_rate }
    }

    /// At most so many series a family, and one for the rest.
    fn expose(&self, text: &mut Exposition, sessions: i64, most: usize) {
        let scheduled = self.census.scheduled.iter().map(|([name], messages)| ([name], *messages));
        text.family(("scheduled_count", "messages in a scheduled queue", Kind::Gauge), ["queue"], scheduled);
        self.expose_owners(text);
        let of_messages = self.by_service(|ready| ready.messages, most);
        text.family(("ready_count", "messages in ready queues", Kind::Gauge), ["service"], of_messages);
        let sessions = (["esmtp_listener".to_owned()], u64::try_from(sessions).unwrap_or(0));
        let of_connections = std::iter::once(sessions).chain(self.by_service(|ready| ready.connections, most));
        text.family(("connection_count", "open connections", Kind::Gauge), ["service"], of_connections);
        let providers = self.by_provider();
        for (place, name, help) in [
            (0, "queued_count", "messages in scheduled queues that name a provider, and in ready queues"),
            (1, "connection_count", "open outbound connections"),
        ] {
            let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
            providers.iter().for_each(|((to, _), both)| *sums.entry(to).or_default() += both[place]);
            let name = format!("{name}_by_provider");
            let series = sums.into_iter().map(|(to, sum)| ([to.to_owned()], sum));
            text.family((&name, help, Kind::Gauge), ["provider"], largest(series, most));
            let series =
                providers.iter().map(|((to, pool), both)| ([(*to).to_owned(), (*pool).to_owned()], both[place]));
            let series = largest(series, most);
            text.family((&format!("{name}_and_pool"), help, Kind::Gauge), ["provider", "pool"], series);
        }
    }

    /// How often there was no room; `kept` remembers which queues have series of their own.
    fn expose_full(&self, text: &mut Exposition, kept: &Kept, most: usize) {
        let of = |wanted: FullOf| {
            let those = self.full.iter().filter(move |(_, of, _)| *of == wanted);
            summed(those.map(|(name, _, times)| (name, *times)))
        };
        let protocols = of(FullOf::Protocol);
        let all: u64 = protocols.iter().map(|(_, times)| times).sum();
        let each = of(FullOf::Queue).into_iter().map(|(name, times)| (name.clone(), times)).collect();
        let (queues, others) = kept.tell(all, each, most);
        let mut queues = in_order(queues.into_iter().map(|(name, times)| ([service(&name)], times)).collect(), 0);
        queues.extend(others.map(|others| ([OTHER.to_owned()], others)));
        let series = protocols.into_iter().map(|(name, times)| ([name.to_string()], times)).chain(queues);
        text.family(("ready_full", "times ready queues had no room", Kind::Counter), ["service"], series);
        let total = (all > 0).then_some((["total"], all));
        let family = ("delayed_due_to_ready_queue_full", "times due mail found no room", Kind::Counter);
        text.family(family, ["queue"], total);
        let family = ("delayed_due_to_message_rate_throttle", "messages that waited for a rate", Kind::Counter);
        text.family(family, ["queue"], [(["total"], self.delayed_by_rate)]);
    }

    /// Content that is in memory, and sources that rest.
    fn expose_content(&self, text: &mut Exposition, in_hand: usize) {
        let resident = (self.resident + in_hand) as u64;
        text.number(("message_data_resident_count", "messages with content in memory", Kind::Gauge), resident);
        text.number(("message_meta_resident_count", "messages with metadata in memory", Kind::Gauge), resident);
        let rests = self.sources.iter().map(|(source, fault, rests)| ([source, fault.name()], u64::from(*rests)));
        let family = ("egress_source_health_suspended", "1 while a source rests", Kind::Gauge);
        text.family(family, ["source", "reason"], rests);
    }

    /// What waits by whom it is for and whose it is.
    fn expose_owners(&self, text: &mut Exposition) {
        let help = "messages in scheduled queues";
        let domains = self.census.domains.iter().map(|([domain], sum)| ([domain], *sum));
        text.family(("scheduled_by_domain", help, Kind::Gauge), ["domain"], domains);
        let tenants = self.census.tenants.iter().map(|([tenant], sum)| ([tenant], *sum));
        text.family(("scheduled_by_tenant", help, Kind::Gauge), ["tenant"], tenants);
        let campaigns = self.census.campaigns.iter().map(|([tenant, campaign], sum)| ([tenant, campaign], *sum));
        text.family(("scheduled_by_tenant_campaign", help, Kind::Gauge), ["tenant", "campaign"], campaigns);
    }

    /// Messages and connections by provider and pool.
    fn by_provider(&self) -> BTreeMap<(&str, &str), [u64; 2]> {
        let mut sums: BTreeMap<(&str, &str), [u64; 2]> = BTreeMap::new();
        for ((provider, pool), messages) in &self.census.provided {
            sums.entry((provider, pool)).or_default()[0] += messages;
        }
        for ready in &self.ready {
            let both = sums.entry((provider_of(&ready.name, &ready.path), &ready.pool)).or_default();
            both[0] += ready.messages;
            both[1] += ready.connections;
        }
        sums
    }

    /// The sum of each protocol, then the ready queues with the most, then the rest.
    fn by_service(&self, number: impl Fn(&Ready) -> u64, most: usize) -> Series<1> {
        let mut sums = PROTOCOLS.map(|protocol| ([protocol.to_owned()], 0));
        for ready in &self.ready {
            let protocol = protocol_of(&ready.name);
            sums.iter_mut().filter(|([known], _)| known == protocol).for_each(|(_, sum)| *sum += number(ready));
        }
        let each = summed(self.ready.iter().map(|ready| (&ready.name, number(ready))));
        let each = each.into_iter().map(|(name, number)| ([service(name)], number));
        sums.into_iter().chain(largest(each, most)).collect()
    }
}

/// In order of their labels, with one for the rest where there are more.
fn largest<const N: usize>(series: impl Iterator<Item = ([String; N], u64)>, most: usize) -> Series<N> {
    let mut all: Series<N> = series.collect();
    let rest = cut(&mut all, most);
    in_order(all, rest)
}

/// In order of name; namesakes (queues that must not be mixed) are one series.
fn summed<'a>(series: impl Iterator<Item = (&'a Arc<str>, u64)>) -> Vec<(&'a Arc<str>, u64)> {
    let mut series: Vec<_> = series.collect();
    series.sort_unstable_by(|a, b| a.0.cmp(b.0));
    series.dedup_by(|later, first| {
        let same = later.0 == first.0;
        first.1 += if same { later.1 } else { 0 };
        same
    });
    series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_to_tell_is_there_once_whatever_has_happened() {
        let all = metric_metadata().expect("sound");
        assert!(all.len() > 100 && all.is_sorted_by(|a, b| a.name < b.name), "{all:?}");
        for (name, kind, labels) in [
            ("ready_count", "gauge", &["service"][..]),
            ("ready_full", "counter", &["service"]),
            ("total_messages_fail_by_provider_and_source", "counter", &["provider", "source", "pool"]),
            ("dane_result_count", "counter", &["result"]),
            ("message_count", "gauge", &[]),
            ("lua_count", "gauge", &[]),
            ("dkim_signer_sign", "histogram", &[]),
            ("dkim_signer_cache_hit", "counter", &[]),
            ("memoize_cache_hit_count", "counter", &["cache_name"]),
            ("redis_operation_latency", "histogram", &["service", "operation", "status"]),
            ("egress_source_health_suspended", "gauge", &["source", "reason"]),
            ("postrider_delivery_seconds", "histogram", &[]),
        ] {
            let one = all.iter().find(|one| one.name == name).unwrap_or_else(|| panic!("no {name} in {all:?}"));
            assert_eq!(
                (one.kind, &one.labels[..]),
                (kind, &labels.iter().map(|l| (*l).to_owned()).collect::<Vec<_>>()[..]),
                "{name}"
            );
            assert!(!one.help.is_empty(), "{name}");
        }
    }

    #[test]
    fn namesakes_are_added_up() {
        let names: [Arc<str>; 3] = ["b".into(), "a".into(), "b".into()];
        let series = summed(names.iter().zip([1, 2, 4]));
        assert_eq!(series, [(&names[1], 2), (&names[0], 5)]);
    }

    /// So many ready queues, each with its number of messages and connections, and times that it was full.
    fn queues(count: u64) -> Queues {
        let ready = (0..count).map(|number| Ready {
            name: format!("ip->site-{number:05}@smtp_client").into(),
            pool: "pool".into(),
            path: Arc::default(),
            messages: number,
            connections: number,
        });
        let ready: Vec<Ready> = ready.collect();
        let full = ready.iter().map(|ready| (ready.name.clone(), FullOf::Queue, ready.messages));
        let of_all = ("smtp_client".into(), FullOf::Protocol, ready.iter().map(|ready| ready.messages).sum());
        let full = full.chain([of_all]).collect();
        Queues { census: Arc::default(), ready, full, sources: Vec::new(), resident: 0, delayed_by_rate: 5 }
    }

    #[test]
    fn a_page_of_many_ready_queues_has_an_end_and_leaves_nothing_out() {
        const COUNT: u64 = 50_000;
        let queues = queues(COUNT);
        let (mut text, kept) = (Exposition::after(String::new(), ""), Kept::default());
        queues.expose(&mut text, 1, SERIES_MAX);
        queues.expose_full(&mut text, &kept, SERIES_MAX);
        let page = text.into_text();
        let all: u64 = (0..COUNT).sum();
        let others: u64 = (0..COUNT - SERIES_MAX as u64).sum();
        for (family, of_one, other) in [
            ("ready_count", "service=\"smtp_client:", "service=\"other\""),
            ("connection_count", "service=\"smtp_client:", "service=\"other\""),
            ("ready_full", "service=\"smtp_client:", "service=\"other\""),
            ("queued_count_by_provider", "provider=\"site-", "provider=\"other\""),
            ("queued_count_by_provider_and_pool", "provider=\"site-", "provider=\"other\",pool=\"other\""),
            ("connection_count_by_provider", "provider=\"site-", "provider=\"other\""),
            ("connection_count_by_provider_and_pool", "provider=\"site-", "provider=\"other\",pool=\"other\""),
        ] {
            let of_one = format!("{family}{{{of_one}");
            assert_eq!(page.lines().filter(|line| line.starts_with(&of_one)).count(), SERIES_MAX, "{family}");
            assert!(page.contains(&format!("\n{family}{{{other}}} {others}\n")), "{family}");
        }
        assert!(page.contains(&format!("\nready_count{{service=\"smtp_client\"}} {all}\n")));
        assert!(page.contains(&format!("\ndelayed_due_to_ready_queue_full{{queue=\"total\"}} {all}\n")));
        assert!(page.contains("\ndelayed_due_to_message_rate_throttle{queue=\"total\"} 5\n"));
        assert!(page.contains(&format!("site-{:05}@smtp_client\"}} {}\n", COUNT - 1, COUNT - 1)), "the largest");
    }

    #[test]
    fn few_ready_queues_have_no_rest() {
        let (queues, mut text) = (queues(3), Exposition::after(String::new(), ""));
        queues.expose(&mut text, 0, 3);
        queues.expose_full(&mut text, &Kept::default(), 3);
        queues.expose_content(&mut text, 2);
        let page = text.into_text();
        assert!(!page.contains("other") && page.contains("\nmessage_data_resident_count 2\n"), "{page}");
        assert!(!page.contains("egress_source_health_suspended"), "no source has failed: {page}");
    }
}
