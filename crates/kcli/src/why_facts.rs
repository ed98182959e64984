//! What is asked of a server to say why mail waits.
//!
//! Owns [`Orders`] and [`Ways`]. In: names. Out: the orders that are about a queue, with the verb that takes each back, and the
//! ready queues that its mail goes through. Endpoints that a server does not have (KumoMTA has no holds) count as empty.

use crate::criteria::concerns;
use crate::inspect::{READY, RESOLVE};
use crate::metrics::Metrics;
use crate::orders::Kind;
use crate::output::plain;
use crate::ready_name::ReadyName;
use crate::server::Server;
use crate::times::rounded;
use anyhow::Result;
use config::Duration;
use queue::QueueName;
use serde_json::{Value, json};

/// Orders in force.
#[derive(Default)]
pub(crate) struct Orders(Vec<(Kind, Value)>);

/// An order that has to do with what is asked about.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct About {
    pub kind: Kind,
    pub order: Value,
}

impl Orders {
    /// Asks for all of them.
    pub async fn fetch(server: &Server) -> Result<Orders> {
        let mut all = Vec::new();
        for kind in KINDS {
            let list = server.find(&kind.path(), &[]).await?.unwrap_or_default();
            all.extend(list.as_array().into_iter().flatten().map(|order| (kind, order.clone())));
        }
        Ok(Orders(all))
    }

    /// These.
    #[cfg(test)]
    pub fn of(orders: impl IntoIterator<Item = (Kind, Value)>) -> Orders {
        Orders(orders.into_iter().collect())
    }

    /// Those about a scheduled queue; with a message, those about that one too.
    pub fn about(&self, queue: &str, id: Option<&str>) -> Vec<About> {
        self.those(|kind, order| kind != Kind::SuspendReady && concerns(order, queue, id))
    }

    /// Those about a ready queue.
    pub fn about_ready(&self, name: &str) -> Vec<About> {
        self.those(|kind, order| kind == Kind::SuspendReady && order["name"] == name)
    }

    fn those(&self, wanted: impl Fn(Kind, &Value) -> bool) -> Vec<About> {
        let those = self.0.iter().filter(|(kind, order)| wanted(*kind, order));
        those.map(|(kind, order)| About { kind: *kind, order: order.clone() }).collect()
    }
}

impl About {
    /// What the order does, why, which one it is, and how long it lasts.
    pub fn text(&self) -> String {
        let (id, duration) = (plain(&self.order["id"]), self.order["duration"].as_str().map(rounded));
        let lasts = match duration {
            // So long that nobody meant an end.
            Some(length) if length.parse().is_ok_and(|length: Duration| length.as_secs() > ENDLESS_SECS) => {
                ", until it is taken back".to_owned()
            }
            Some(length) => format!(", for another {length}"),
            None => String::new(),
        };
        format!("{}: {} (order {id}{lasts})", self.word(), plain(&self.order["reason"]))
    }

    /// Its id.
    pub fn id(&self) -> String {
        plain(&self.order["id"])
    }

    /// The command that takes it back.
    pub fn undone_by(&self) -> String {
        let verb = match self.kind {
            Kind::Bounce => "bounce-cancel",
            Kind::Suspend => "suspend-cancel",
            Kind::Hold => "hold-cancel",
            Kind::Flush => "flush-cancel",
            Kind::SuspendReady => "suspend-ready-q-cancel",
            Kind::Rebind => "rebind-cancel",
            Kind::Xfer => "xfer-cancel",
        };
        format!("kcli {verb} --id {}", plain(&self.order["id"]))
    }

    /// For machines.
    pub fn json(&self) -> Value {
        json!({"does": self.word(), "order": self.order, "undone_by": self.undone_by()})
    }

    fn word(&self) -> &'static str {
        match self.kind {
            Kind::Bounce => "bounced by an order",
            Kind::Suspend => "suspended by an order",
            Kind::Hold => "held by an order",
            Kind::Flush => "flushed by an order",
            Kind::SuspendReady => "the ready queue is suspended by an order",
            Kind::Rebind => "moved by an order",
            Kind::Xfer => "transferred by an order",
        }
    }
}

/// The ready queues that mail of a queue goes through, as the server describes each.
pub(crate) struct Ways {
    /// The ready queues of mail that came now, one for each source of its pool; none when that cannot be said.
    pub names: Vec<String>,
    /// Why it cannot.
    pub problem: Option<String>,
    /// Those that there are.
    pub ready: Vec<Value>,
}

impl Ways {
    /// Of the mail of a scheduled queue; `known` is a ready queue that the server named.
    pub async fn fetch(server: &Server, queue: &str, known: Option<&str>) -> Result<Ways> {
        let domain = QueueName::parse(queue).effective_domain().to_owned();
        let (expected, problem) = match server.get(RESOLVE, &[("domain", &domain)]).await {
            Ok(way) => (by_pool(&way), way["pool_problem"].as_str().map(str::to_owned)),
            // Policy may be what is wrong: that is an answer too.
            Err(error) => (Vec::new(), Some(format!("{error:#}"))),
        };
        let mut names: Vec<String> = known.into_iter().map(str::to_owned).collect();
        let site = expected.first().and_then(|name| ReadyName::parse(name)).map(|parts| parts.site);
        if let (true, Some(site)) = (names.is_empty(), site) {
            names.extend(at_site(server, &site).await?);
            names.extend(expected.iter().cloned());
        }
        names.sort();
        names.dedup();
        let mut ready = Vec::new();
        for name in names.iter().take(WAYS_MAX) {
            ready.extend(server.find(READY, &[("queue_name", name)]).await?);
        }
        Ok(Ways { names: expected, problem, ready })
    }
}

/// The way that a server told, by each source of the pool where it knows them (KumoMTA tells the one asked about alone).
fn by_pool(way: &Value) -> Vec<String> {
    let Some(name) = way["queue_name"].as_str() else { return Vec::new() };
    match (way["pool_sources"].as_array(), name.split_once("->")) {
        (Some(sources), Some((_, to))) => sources.iter().map(|source| format!("{}->{to}", plain(source))).collect(),
        // Mail does not go by a source that was not said.
        _ if way["pool_problem"].is_string() => Vec::new(),
        _ => vec![name.to_owned()],
    }
}

/// Ready queues to a site, from whatever source; none where the server has no metrics for machines.
async fn at_site(server: &Server, site: &str) -> Result<Vec<String>> {
    let Some(metrics) = server.find("/metrics.json", &[]).await? else { return Ok(Vec::new()) };
    let services = Metrics::new(metrics)?.by("ready_count", "service");
    let names = services.keys().filter_map(|service| ReadyName::of_service(service));
    let names = names.filter(|name| ReadyName::parse(name).is_some_and(|parts| parts.site == site));
    Ok(names.map(str::to_owned).collect())
}

/// Orders that have to do with why mail waits.
const KINDS: [Kind; 7] =
    [Kind::Suspend, Kind::Hold, Kind::Bounce, Kind::Rebind, Kind::Xfer, Kind::Flush, Kind::SuspendReady];
/// An order that lasts longer was to last for ever: a hundred years.
const ENDLESS_SECS: u64 = 100 * 365 * 86_400;
/// Ready queues that are looked into.
pub(crate) const WAYS_MAX: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_goes_by_the_sources_of_its_pool() {
        let told = |more: Value| {
            let mut way = json!({"queue_name": "unspecified->a@smtp_client"});
            way.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
            by_pool(&way)
        };
        assert_eq!(told(json!({"pool_sources": ["ip-1", "ip-2"]})), ["ip-1->a@smtp_client", "ip-2->a@smtp_client"]);
        assert_eq!(told(json!({})), ["unspecified->a@smtp_client"]);
        assert!(told(json!({"pool_problem": "no such pool"})).is_empty() && by_pool(&json!({})).is_empty());
    }

    #[test]
    fn orders_are_found_by_what_they_are_about() {
        let orders = Orders(vec![
            (Kind::Suspend, json!({"id": "1", "domain": "a.test", "reason": "later"})),
            (Kind::Hold, json!({"id": "2", "messages": ["ab"], "reason": "evidence"})),
            (Kind::SuspendReady, json!({"id": "3", "name": "s->a@smtp_client", "reason": "maintenance"})),
        ]);
        let ids = |found: Vec<About>| found.iter().map(|about| plain(&about.order["id"])).collect::<String>();
        assert_eq!(ids(orders.about("t@a.test", Some("ab"))), "12");
        assert_eq!(ids(orders.about("t@a.test", None)), "1");
        assert_eq!(ids(orders.about("b.test", Some("ac"))), "");
        let ready = orders.about_ready("s->a@smtp_client").remove(0);
        assert_eq!(ready.undone_by(), "kcli suspend-ready-q-cancel --id 3");
        assert_eq!(ready.text(), "the ready queue is suspended by an order: maintenance (order 3)");
        let lasting = |duration: &str| {
            let order = json!({"id": "4", "reason": "r", "duration": duration});
            About { kind: Kind::Hold, order }.text()
        };
        assert_eq!(lasting("4m 59s 12ms"), "held by an order: r (order 4, for another 4m 59s)");
        assert!(lasting("7000years").ends_with("(order 4, until it is taken back)"), "{}", lasting("7000years"));
    }
}
