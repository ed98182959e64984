//! `queue-summary`: every ready queue and every scheduled queue in a line, with what holds it back.
//!
//! Owns [`Summary`], which `top` shows too. In: metrics, the states of ready queues, orders in force. Out: two tables, or JSON.
//! Columns: D delivered, T transient failures, C connections, Q messages in the ready queue; a column without a name says
//! what holds a queue back. Counts are since the queue came to be. Declared unstable, as KumoMTA declares its own.

use crate::criteria::concerns;
use crate::inspect::RESOLVE;
use crate::metrics::Metrics;
use crate::orders::Kind;
use crate::output::{Column, Out, Table, count, plain};
use crate::ready_name::ReadyName;
use crate::server::Server;
use anyhow::Result;
use clap::Args;
use queue::QueueName;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// `queue-summary`
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Queues to show of each kind.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// The largest first, instead of by name.
    #[arg(long)]
    by_volume: bool,
    /// Only queues of this domain, and ready queues of its site.
    #[arg(long)]
    domain: Option<String>,
}

/// A ready queue.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReadyRow {
    /// Its whole name.
    pub name: String,
    pub parts: ReadyName,
    pub delivered: f64,
    pub transfail: f64,
    /// Nothing where the server does not say.
    pub connections: Option<f64>,
    pub queued: f64,
    /// What holds it back, if anything does.
    pub status: String,
}

/// A scheduled queue.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ScheduledRow {
    pub name: String,
    pub count: f64,
    pub status: String,
}

/// All queues.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Summary {
    pub ready: Vec<ReadyRow>,
    pub scheduled: Vec<ScheduledRow>,
}

/// What a summary is made of.
#[derive(Default)]
pub(crate) struct Material {
    pub metrics: Metrics,
    /// By ready queue: limits it waits for.
    pub states: Value,
    /// Orders that suspend ready queues.
    pub suspended_ready: Value,
    /// Orders about scheduled queues: what they are called, and they.
    pub orders: Vec<(&'static str, Value)>,
}

impl Material {
    /// Asks the server for it.
    pub async fn fetch(server: &Server) -> Result<Material> {
        let metrics = Metrics::fetch(server).await?;
        let states = server.get("/api/admin/ready-q-states/v1", &[]).await?;
        let suspended_ready = server.get(&Kind::SuspendReady.path(), &[]).await?;
        let mut orders = Vec::new();
        for (word, kind) in ORDERS {
            // KumoMTA has no holds.
            if let Some(list) = server.find(&kind.path(), &[]).await? {
                orders.push((word, list));
            }
        }
        Ok(Material { metrics, states: states["states_by_ready_queue"].clone(), suspended_ready, orders })
    }
}

impl Summary {
    /// By name.
    pub fn new(of: &Material) -> Summary {
        let of_ready = |metric: &str| -> BTreeMap<String, f64> {
            let by_service = of.metrics.by(metric, "service").into_iter();
            by_service.filter_map(|(service, n)| Some((ReadyName::of_service(&service)?.to_owned(), n))).collect()
        };
        let [delivered, transfail, connections, queued] =
            ["total_messages_delivered", "total_messages_transfail", "connection_count", "ready_count"].map(of_ready);
        let mut names: Vec<&String> =
            [&delivered, &transfail, &connections, &queued].into_iter().flat_map(|m| m.keys()).collect();
        names.sort();
        names.dedup();
        let zero = |counts: &BTreeMap<String, f64>, name: &String| counts.get(name).copied().unwrap_or_default();
        let ready = names.into_iter().filter_map(|name| {
            Some(ReadyRow {
                parts: ReadyName::parse(name)?,
                delivered: zero(&delivered, name),
                transfail: zero(&transfail, name),
                // Where no queue has a count of its own, nothing is known; where some have, the others have none open.
                connections: (!connections.is_empty()).then(|| zero(&connections, name)),
                queued: zero(&queued, name),
                status: of.status_of_ready(name),
                name: name.clone(),
            })
        });
        let mut ready: Vec<ReadyRow> = ready.collect();
        ready.sort_by(|a, b| a.parts.cmp(&b.parts));
        let scheduled = of.metrics.by("scheduled_count", "queue").into_iter();
        let scheduled =
            scheduled.map(|(name, count)| ScheduledRow { status: of.status_of_scheduled(&name), name, count });
        Summary { ready, scheduled: scheduled.collect() }
    }

    /// The largest first.
    pub fn by_volume(&mut self) {
        let volume = |row: &ReadyRow| row.delivered + row.transfail + row.queued;
        self.ready.sort_by(|a, b| volume(b).total_cmp(&volume(a)));
        self.scheduled.sort_by(|a, b| b.count.total_cmp(&a.count));
    }

    /// Only what has to do with a domain, and with the site its mail goes to if that is known.
    fn only(&mut self, domain: &str, site: Option<&str>) {
        self.scheduled.retain(|row| QueueName::parse(&row.name).effective_domain().eq_ignore_ascii_case(domain));
        self.ready.retain(|row| {
            site.is_some_and(|site| row.parts.site == site) || row.parts.site.eq_ignore_ascii_case(domain)
        });
    }

    fn truncate(&mut self, limit: usize) {
        self.ready.truncate(limit);
        self.scheduled.truncate(limit);
    }

    /// As a table.
    pub fn ready_table(&self) -> Table {
        let headings = [
            Column::Left("SITE"),
            Column::Left("SOURCE"),
            Column::Left("PROTO"),
            Column::Right("D"),
            Column::Right("T"),
            Column::Right("C"),
            Column::Right("Q"),
            Column::Left(""),
        ];
        let mut table = Table::new(&headings);
        for row in &self.ready {
            let names = [&row.parts.site, &row.parts.source, &row.parts.protocol].map(String::clone);
            let numbers = [
                count(row.delivered),
                count(row.transfail),
                row.connections.map_or("-".to_owned(), count),
                count(row.queued),
            ];
            table.row(names.into_iter().chain(numbers).chain([row.status.clone()]));
        }
        table
    }

    /// As a table.
    pub fn scheduled_table(&self) -> Table {
        let mut table = Table::new(&[Column::Left("SCHEDULED QUEUE"), Column::Right("COUNT"), Column::Left("")]);
        for row in &self.scheduled {
            table.row([row.name.clone(), count(row.count), row.status.clone()]);
        }
        table
    }

    fn json(&self) -> Value {
        let ready = self.ready.iter().map(|row| {
            json!({"name": row.name, "site": row.parts.site, "source": row.parts.source, "protocol": row.parts.protocol,
                "delivered": row.delivered, "transfail": row.transfail, "connections": row.connections,
                "queued": row.queued, "status": row.status})
        });
        let scheduled =
            self.scheduled.iter().map(|row| json!({"name": row.name, "count": row.count, "status": row.status}));
        json!({"ready": ready.collect::<Value>(), "scheduled": scheduled.collect::<Value>()})
    }
}

impl Material {
    fn status_of_ready(&self, name: &str) -> String {
        let mut said = Vec::new();
        let suspended = self.suspended_ready.as_array().into_iter().flatten();
        said.extend(suspended.filter(|order| order["name"] == name).map(|order| order_status("suspended", order)));
        let state = &self.states[name];
        for (word, field) in [("limited", "connection_limited"), ("throttled", "connection_rate_throttled")] {
            said.extend(state.get(field).map(|obstacle| format!("{word}: {}", plain(&obstacle["context"]))));
        }
        said.join("; ")
    }

    fn status_of_scheduled(&self, name: &str) -> String {
        let all =
            self.orders.iter().flat_map(|(word, list)| list.as_array().into_iter().flatten().map(move |o| (word, o)));
        // An order about single messages says nothing of their queue.
        let about = all.filter(|(_, order)| concerns(order, name, None));
        about.map(|(word, order)| order_status(word, order)).collect::<Vec<_>>().join("; ")
    }
}

pub(crate) async fn run(server: &Server, out: &mut Out<'_>, given: &Options) -> Result<()> {
    let material = Material::fetch(server).await?;
    let mut summary = Summary::new(&material);
    if let Some(domain) = &given.domain {
        let site = match site_of(server, domain).await {
            Ok(site) => site,
            // Its queues are there all the same.
            Err(error) => {
                out.note(&format!("the way of {domain} cannot be found: {error:#}"))?;
                None
            }
        };
        summary.only(domain, site.as_deref());
    }
    if given.by_volume {
        summary.by_volume();
    }
    summary.truncate(given.limit.unwrap_or(usize::MAX));
    if out.json {
        return out.pretty(&summary.json());
    }
    out.table(&summary.ready_table())?;
    out.line("")?;
    out.table(&summary.scheduled_table())
}

/// The site that mail to a domain goes to; nothing when policy or DNS do not say.
async fn site_of(server: &Server, domain: &str) -> Result<Option<String>> {
    let way = server.get(RESOLVE, &[("domain", domain)]).await?;
    Ok(way["queue_name"].as_str().and_then(ReadyName::parse).map(|name| name.site))
}

fn order_status(word: &str, order: &Value) -> String {
    format!("{word}: {}", plain(&order["reason"]))
}

/// Orders that hold mail of a scheduled queue back, or end it.
pub(crate) const ORDERS: [(&str, Kind); 3] =
    [("suspended", Kind::Suspend), ("held", Kind::Hold), ("bouncing", Kind::Bounce)];

#[cfg(test)]
mod tests {
    use super::*;

    fn material() -> Material {
        let counts = |a: u32, b: u32| {
            json!({"type": "counter", "value": {"service": {
            "smtp_client": a + b, "smtp_client:s1->a.example@smtp_client": a, "smtp_client:s2->(x|y).b.example@smtp_client": b}}})
        };
        let metrics = Metrics::new(json!({
            "total_messages_delivered": counts(3000, 20),
            "total_messages_transfail": counts(1, 0),
            "ready_count": counts(5, 0),
            "connection_count": {"type": "gauge", "value": {"service": {"esmtp_listener": 3, "smtp_client:s1->a.example@smtp_client": 2}}},
            "scheduled_count": {"type": "gauge", "value": {"queue": {"c:t@a.example": 70, "b.example": 9}}},
        }));
        Material {
            metrics: metrics.expect("an object"),
            states: json!({"s2->(x|y).b.example@smtp_client":
                {"connection_limited": {"context": "additional_connection_limits: shared: 1", "since": "2026-11-24T22:00:00Z"}}}),
            suspended_ready: json!([{"name": "s1->a.example@smtp_client", "reason": "maintenance"}]),
            orders: vec![(
                "suspended",
                json!([{"tenant": "t", "reason": "unpaid"}, {"messages": ["1"], "reason": "one"}]),
            )],
        }
    }

    #[test]
    fn every_queue_has_a_line_and_says_what_holds_it_back() {
        let summary = Summary::new(&material());
        assert_eq!(
            summary.ready_table().lines(),
            [
                "SITE             SOURCE  PROTO           D  T  C  Q",
                "(x|y).b.example  s2      smtp_client    20  0  0  0  limited: additional_connection_limits: shared: 1",
                "a.example        s1      smtp_client  3000  1  2  5  suspended: maintenance",
            ]
        );
        assert_eq!(
            summary.scheduled_table().lines(),
            ["SCHEDULED QUEUE  COUNT", "b.example            9", "c:t@a.example       70  suspended: unpaid",]
        );
        assert_eq!(summary.json()["ready"][1]["connections"], 2.0);
    }

    #[test]
    fn what_is_asked_for_is_shown() {
        let mut summary = Summary::new(&material());
        summary.by_volume();
        assert_eq!(summary.ready[0].parts.source, "s1");
        assert_eq!(summary.scheduled[0].name, "c:t@a.example");
        let mut of_domain = summary.clone();
        of_domain.only("B.example", Some("(x|y).b.example"));
        assert_eq!((of_domain.ready.len(), of_domain.scheduled.len()), (1, 1));
        assert_eq!(of_domain.ready[0].parts.site, "(x|y).b.example");
        summary.truncate(1);
        assert_eq!((summary.ready.len(), summary.scheduled.len()), (1, 1));
    }

    #[test]
    fn connections_nobody_counted_are_unknown() {
        let mut material = material();
        material.metrics =
            Metrics::new(json!({"ready_count": {"value": {"service": {"lua:s->d@lua:c": 1}}}})).expect("an object");
        let summary = Summary::new(&material);
        assert_eq!(summary.ready_table().lines()[1], "d     s       lua:c  0  0  -  1");
    }
}
