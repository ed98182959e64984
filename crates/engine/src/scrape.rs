//! The text of `/metrics`: counters as they stand, and what mirrors queues and spool read at this moment.
//!
//! Ready queues are asked once, for copies of names and numbers, scheduled queues are counted by `queue_census`; the text is written
//! after their lock is free. Fails only if the registry cannot be written as text.

use crate::egress::service::{PROTOCOLS, protocol_of, provider_of, service};
use crate::engine::Engine;
use crate::queue_census::QueueCensus;
use config::EgressPath;
use queue::{FullOf, QueueCore};
use std::collections::BTreeMap;
use std::sync::Arc;
use telemetry::{Exposition, Kind, LogWriter};

impl Engine {
    /// All metrics whose name begins with `prefix`.
    ///
    /// # Errors
    /// A metric of the registry cannot be written.
    pub async fn metrics_text(&self, prefix: &str) -> Result<String, telemetry::metrics::Error> {
        let census = self.census().await;
        let queues = self.with_queue(|queue, _| Queues::of(queue, census));
        self.refresh_gauges(&queues.census);
        let mut text = Exposition::after(self.metrics.text(prefix)?, prefix);
        self.metrics.tallies.expose(&mut text, service);
        queues.expose(&mut text, self.metrics.open_sessions.get());
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

/// What the queues said.
struct Queues {
    census: Arc<QueueCensus>,
    ready: Vec<Ready>,
    /// Names of protocols and ready queues, and how often there was no room.
    full: Vec<(Arc<str>, FullOf, u64)>,
}

struct Ready {
    name: Arc<str>,
    pool: Arc<str>,
    path: Arc<EgressPath>,
    messages: u64,
    connections: u64,
}

impl Queues {
    fn of(queue: &QueueCore, census: Arc<QueueCensus>) -> Queues {
        let ready = queue.legs().map(|(name, leg, messages, connections)| Ready {
            name: name.clone(),
            pool: leg.pool.clone(),
            path: leg.path.clone(),
            messages: messages as u64,
            connections: connections as u64,
        });
        let full = queue.full_counts().map(|(name, of, times)| (name.clone(), of, times));
        Queues { census, ready: ready.collect(), full: full.collect() }
    }

    fn expose(&self, text: &mut Exposition, sessions: i64) {
        let scheduled = self.census.scheduled.iter().map(|([name], messages)| ([name], *messages));
        text.family(("scheduled_count", "messages in a scheduled queue", Kind::Gauge), ["queue"], scheduled);
        self.expose_owners(text);
        let of_messages = self.by_service(|ready| ready.messages);
        text.family(("ready_count", "messages in ready queues", Kind::Gauge), ["service"], of_messages);
        text.family(
            ("ready_full", "times ready queues had no room", Kind::Counter),
            ["service"],
            self.full_by_service(),
        );
        let sessions = (["esmtp_listener".to_owned()], u64::try_from(sessions).unwrap_or(0));
        let of_connections = std::iter::once(sessions).chain(self.by_service(|ready| ready.connections));
        text.family(("connection_count", "open connections", Kind::Gauge), ["service"], of_connections);
        let providers = self.by_provider();
        for (place, name, help) in [
            (0, "queued_count", "messages in scheduled queues that name a provider, and in ready queues"),
            (1, "connection_count", "open outbound connections"),
        ] {
            let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
            providers.iter().for_each(|((to, _), both)| *sums.entry(to).or_default() += both[place]);
            let name = format!("{name}_by_provider");
            let series = sums.into_iter().map(|(to, sum)| ([to], sum));
            text.family((&name, help, Kind::Gauge), ["provider"], series);
            let series = providers.iter().map(|((to, pool), both)| ([*to, *pool], both[place]));
            text.family((&format!("{name}_and_pool"), help, Kind::Gauge), ["provider", "pool"], series);
        }
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

    /// How often there was no room: in all ready queues of a protocol, then in each.
    fn full_by_service(&self) -> Vec<([String; 1], u64)> {
        let of = |wanted: FullOf| {
            let those = self.full.iter().filter(move |(_, of, _)| *of == wanted);
            summed(those.map(|(name, _, times)| (name, *times)))
        };
        let protocols = of(FullOf::Protocol).into_iter().map(|(name, times)| ([name.to_string()], times));
        protocols.chain(of(FullOf::Queue).into_iter().map(|(name, times)| ([service(name)], times))).collect()
    }

    /// The sum of each protocol, then each ready queue.
    fn by_service(&self, number: impl Fn(&Ready) -> u64) -> Vec<([String; 1], u64)> {
        let mut sums = PROTOCOLS.map(|protocol| ([protocol.to_owned()], 0));
        for ready in &self.ready {
            let protocol = protocol_of(&ready.name);
            sums.iter_mut().filter(|([known], _)| known == protocol).for_each(|(_, sum)| *sum += number(ready));
        }
        let each = summed(self.ready.iter().map(|ready| (&ready.name, number(ready))));
        sums.into_iter().chain(each.into_iter().map(|(name, number)| ([service(name)], number))).collect()
    }
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
    fn namesakes_are_added_up() {
        let names: [Arc<str>; 3] = ["b".into(), "a".into(), "b".into()];
        let series = summed(names.iter().zip([1, 2, 4]));
        assert_eq!(series, [(&names[1], 2), (&names[0], 5)]);
    }
}
