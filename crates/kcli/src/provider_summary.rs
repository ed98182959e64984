//! `provider-summary`: what each provider (or site) got, refused, and has waiting.
//!
//! Owns [`Providers`]. In: metrics by provider, or, where a server has none of these, by the site of each ready queue, which is
//! what a provider is called that has no name. Out: a table, the largest first, or JSON. D delivered, T transient and F
//! permanent failures, C connections, Q messages queued.

use crate::inspect::RESOLVE;
use crate::metrics::Metrics;
use crate::output::{Column, Out, Table, count};
use crate::ready_name::ReadyName;
use crate::server::Server;
use anyhow::Result;
use clap::Args;
use queue::QueueName;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// `provider-summary`
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Apart by egress pool.
    #[arg(long)]
    by_pool: bool,
    /// The domains with queued mail that go to each. Asks the server for the way of each domain.
    #[arg(long)]
    show_domains: bool,
    /// Lines to show.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

/// A provider, or what one pool has to do with it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Row {
    pub provider: String,
    pub pool: String,
    /// D, T, F, C, Q.
    pub counts: [f64; 5],
}

/// All of them, the largest first.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Providers {
    pub rows: Vec<Row>,
    by_pool: bool,
}

impl Providers {
    /// Of these metrics.
    pub fn new(metrics: &Metrics, by_pool: bool) -> Providers {
        let mut rows: BTreeMap<(String, String), [f64; 5]> = BTreeMap::new();
        for at in 0..5 {
            let counts = match by_pool {
                true => metrics.by_both(BY_POOL[at], ("provider", "pool")),
                false if has_providers(metrics) => without_pool(metrics.by(BY_PROVIDER[at], "provider")),
                false => without_pool(by_site(metrics, BY_QUEUE[at])),
            };
            for (key, value) in counts {
                rows.entry(key).or_default()[at] = value;
            }
        }
        let rows = rows.into_iter().map(|((provider, pool), counts)| Row { provider, pool, counts });
        let mut rows: Vec<Row> = rows.collect();
        let volume = |row: &Row| row.counts[0] + row.counts[1] + row.counts[2] + row.counts[4];
        rows.sort_by(|a, b| volume(b).total_cmp(&volume(a)));
        Providers { rows, by_pool }
    }

    /// As a table; `domains` by provider, if they are to be shown.
    pub fn table(&self, domains: Option<&BTreeMap<String, BTreeSet<String>>>) -> Table {
        let mut headings = vec![Column::Left("PROVIDER")];
        headings.extend(self.by_pool.then_some(Column::Left("POOL")));
        headings.extend(["D", "T", "F", "C", "Q"].map(Column::Right));
        headings.extend(domains.map(|_| Column::Left("DOMAINS")));
        let mut table = Table::new(&headings);
        for row in &self.rows {
            let mut cells = vec![row.provider.clone()];
            cells.extend(self.by_pool.then(|| row.pool.clone()));
            cells.extend(row.counts.map(count));
            cells.extend(domains.map(|all| all.get(&row.provider).map(joined).unwrap_or_default()));
            table.row(cells);
        }
        table
    }

    fn json(&self, domains: Option<&BTreeMap<String, BTreeSet<String>>>) -> Value {
        let rows = self.rows.iter().map(|row| {
            let [delivered, transfail, fail, connections, queued] = row.counts;
            let mut fields = json!({"provider": row.provider, "delivered": delivered, "transfail": transfail, "fail": fail,
                "connections": connections, "queued": queued});
            if self.by_pool {
                fields["pool"] = json!(row.pool);
            }
            if let Some(all) = domains {
                fields["domains"] = json!(all.get(&row.provider));
            }
            fields
        });
        rows.collect()
    }
}

pub(crate) async fn run(server: &Server, out: &mut Out<'_>, given: &Options) -> Result<()> {
    let metrics = Metrics::fetch(server).await?;
    if given.by_pool && !BY_POOL.iter().any(|name| metrics.has(name)) {
        out.note("this server counts nothing by pool (yet): without --by-pool there may be more")?;
    }
    let mut providers = Providers::new(&metrics, given.by_pool);
    providers.rows.truncate(given.limit.unwrap_or(usize::MAX));
    let domains = match given.show_domains {
        true => Some(domains(server, out, &metrics).await?),
        false => None,
    };
    match out.json {
        true => out.pretty(&providers.json(domains.as_ref())),
        false => out.table(&providers.table(domains.as_ref())),
    }
}

/// The domains of scheduled queues by the provider their mail goes to.
async fn domains(server: &Server, out: &mut Out<'_>, metrics: &Metrics) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let queues = metrics.by("scheduled_count", "queue");
    let names = queues.keys().map(|name| QueueName::parse(name));
    let all: BTreeSet<String> = names.map(|name| name.effective_domain().to_ascii_lowercase()).collect();
    if all.len() > DOMAINS_MAX {
        out.note(&format!("{} domains have queued mail: {DOMAINS_MAX} of them are shown", all.len()))?;
    }
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for domain in all.into_iter().take(DOMAINS_MAX) {
        let way = server.get(RESOLVE, &[("domain", &domain)]).await?;
        let site = || way["queue_name"].as_str().and_then(ReadyName::parse).map(|name| name.site);
        let provider = way["path_config"]["provider_name"].as_str().map(str::to_owned).or_else(site);
        found.entry(provider.unwrap_or_else(|| domain.clone())).or_default().insert(domain);
    }
    Ok(found)
}

fn has_providers(metrics: &Metrics) -> bool {
    BY_PROVIDER.iter().any(|name| metrics.has(name))
}

/// A metric of ready queues, summed by site.
fn by_site(metrics: &Metrics, name: &str) -> BTreeMap<String, f64> {
    let mut sums = BTreeMap::new();
    for (service, value) in metrics.by(name, "service") {
        if let Some(parts) = ReadyName::of_service(&service).and_then(ReadyName::parse) {
            *sums.entry(parts.site).or_default() += value;
        }
    }
    sums
}

fn without_pool(counts: BTreeMap<String, f64>) -> BTreeMap<(String, String), f64> {
    counts.into_iter().map(|(provider, value)| ((provider, String::new()), value)).collect()
}

fn joined(domains: &BTreeSet<String>) -> String {
    domains.iter().map(String::as_str).collect::<Vec<_>>().join(" ")
}

const BY_PROVIDER: [&str; 5] = [
    "total_messages_delivered_by_provider",
    "total_messages_transfail_by_provider",
    "total_messages_fail_by_provider",
    "connection_count_by_provider",
    "queued_count_by_provider",
];
const BY_POOL: [&str; 5] = [
    "total_messages_delivered_by_provider_and_source",
    "total_messages_transfail_by_provider_and_source",
    "total_messages_fail_by_provider_and_source",
    "connection_count_by_provider_and_pool",
    "queued_count_by_provider_and_pool",
];
const BY_QUEUE: [&str; 5] =
    ["total_messages_delivered", "total_messages_transfail", "total_messages_fail", "connection_count", "ready_count"];
/// Domains the server is asked about: each costs a question to policy and DNS.
const DOMAINS_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(value: Value) -> Metrics {
        Metrics::new(value).expect("an object")
    }

    fn by_provider(small: u32, large: u32) -> Value {
        json!({"type": "counter", "value": {"provider": {"small": small, "large": large}}})
    }

    #[test]
    fn the_largest_provider_is_first() {
        let metrics = metrics(json!({
            "total_messages_delivered_by_provider": by_provider(5, 700),
            "total_messages_transfail_by_provider": by_provider(1, 0),
            "connection_count_by_provider": by_provider(0, 2),
            "queued_count_by_provider": by_provider(3, 4),
        }));
        let providers = Providers::new(&metrics, false);
        assert_eq!(
            providers.table(None).lines(),
            ["PROVIDER    D  T  F  C  Q", "large     700  0  0  2  4", "small       5  1  0  0  3"]
        );
        let domains =
            BTreeMap::from([("large".to_owned(), BTreeSet::from(["a.test".to_owned(), "b.test".to_owned()]))]);
        assert_eq!(providers.table(Some(&domains)).lines()[1], "large     700  0  0  2  4  a.test b.test");
        assert_eq!(providers.json(Some(&domains))[0]["domains"], json!(["a.test", "b.test"]));
    }

    #[test]
    fn pools_are_apart_and_their_sources_are_added_up() {
        let delivered = json!([
            {"provider": "p", "source": "s1", "pool": "a", "@": 1}, {"provider": "p", "source": "s2", "pool": "a", "@": 2},
            {"provider": "p", "source": "s1", "pool": "b", "@": 9}]);
        let metrics = metrics(json!({
            "total_messages_delivered_by_provider_and_source": {"value": delivered},
            "queued_count_by_provider_and_pool": {"value": [{"provider": "p", "pool": "a", "@": 4}]},
        }));
        let lines = Providers::new(&metrics, true).table(None).lines();
        assert_eq!(
            lines,
            ["PROVIDER  POOL  D  T  F  C  Q", "p         b     9  0  0  0  0", "p         a     3  0  0  0  4"]
        );
    }

    #[test]
    fn without_counts_by_provider_a_site_is_one() {
        let counts = json!({"value": {"service": {"smtp_client": 9, "smtp_client:s1->a.example@smtp_client": 4,
            "smtp_client:s2->a.example@smtp_client": 5}}});
        let lines = Providers::new(&metrics(json!({"total_messages_delivered": counts})), false).table(None).lines();
        assert_eq!(lines[1], "a.example  9  0  0  0  0");
    }
}
