//! Whose mail an order is about: the options that say so, and the same read back from a list of orders.
//!
//! Owns [`Selection`]. At least one of its options must be given; `--everything` and `--queue` exclude the others, as a server
//! that got both would heed one of them alone. In: a command line. Out: fields of a request. The parser refuses what does
//! not go together; nothing here can fail.

use crate::output::plain;
use clap::Args;
use queue::Criteria;
use serde_json::{Map, Value, json};

/// Which messages.
#[derive(Clone, Debug, Default, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct Selection {
    /// Mail to this domain.
    #[arg(long, help_heading = HEADING)]
    domain: Option<String>,
    /// Mail that is routed by way of this domain.
    #[arg(long, help_heading = HEADING)]
    routing_domain: Option<String>,
    /// Mail of this campaign.
    #[arg(long, help_heading = HEADING)]
    campaign: Option<String>,
    /// Mail of this tenant.
    #[arg(long, help_heading = HEADING)]
    tenant: Option<String>,
    /// All mail there is.
    #[arg(long, help_heading = HEADING, conflicts_with_all = ["domain", "routing_domain", "campaign", "tenant"])]
    everything: bool,
    /// Mail in the scheduled queue of this name; may be repeated.
    #[arg(long, value_name = "NAME", help_heading = HEADING,
        conflicts_with_all = ["domain", "routing_domain", "campaign", "tenant", "everything"])]
    queue: Vec<String>,
    /// The message of this id, of the queues that the rest names; may be repeated.
    #[arg(long, value_name = "ID", help_heading = HEADING)]
    message: Vec<String>,
}

impl Selection {
    /// Its fields of a request; those that were not given are absent.
    pub fn fields(&self) -> Map<String, Value> {
        let parts = [
            ("domain", &self.domain),
            ("routing_domain", &self.routing_domain),
            ("campaign", &self.campaign),
            ("tenant", &self.tenant),
        ];
        let given = parts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value.as_ref()?))));
        let lists = [("queue_names", &self.queue), ("messages", &self.message)];
        let given =
            given.chain(lists.into_iter().filter(|(_, all)| !all.is_empty()).map(|(n, all)| (n.into(), json!(all))));
        given.collect()
    }
}

/// What an order of a list is about, in a few words; `everything` when it names nothing.
pub(crate) fn described(order: &Value) -> String {
    let fields = ["domain", "routing_domain", "campaign", "tenant", "queue_names", "messages", "name"];
    let said = fields.iter().filter_map(|field| {
        let value = order.get(field).filter(|value| !value.is_null())?;
        let name = match *field {
            "queue_names" => "queue",
            "messages" => "message",
            other => other,
        };
        let is_empty = value.as_array().is_some_and(Vec::is_empty);
        (!is_empty).then(|| format!("{name}={}", plain(value)))
    });
    let said: Vec<String> = said.collect();
    if said.is_empty() { "everything".to_owned() } else { said.join(" ") }
}

/// Whether an order of a list is about the scheduled queue of this name, and, where it names messages, about this one.
pub(crate) fn concerns(order: &Value, queue: &str, id: Option<&str>) -> bool {
    let text = |name: &str| order.get(name).and_then(Value::as_str).map(str::to_owned);
    let criteria = Criteria {
        campaign: text("campaign"),
        tenant: text("tenant"),
        domain: text("domain"),
        routing_domain: text("routing_domain"),
        queue_names: listed(order, "queue_names").into_iter().collect(),
        messages: std::collections::BTreeSet::new(),
    };
    let messages = listed(order, "messages");
    let is_meant = |id: &str| messages.iter().any(|one| plain_id(one) == plain_id(id));
    criteria.matches(queue) && (messages.is_empty() || id.is_some_and(is_meant))
}

fn listed(order: &Value, name: &str) -> Vec<String> {
    let all = order.get(name).and_then(Value::as_array).into_iter().flatten();
    all.filter_map(|one| one.as_str().map(str::to_owned)).collect()
}

/// A message id without dashes, in small letters.
pub(crate) fn plain_id(id: &str) -> String {
    id.chars().filter(|c| *c != '-').map(|c| c.to_ascii_lowercase()).collect()
}

const HEADING: &str = "Whose mail";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        selection: Selection,
    }

    fn parse(arguments: &str) -> Result<Map<String, Value>, String> {
        let words = core::iter::once("x").chain(arguments.split_whitespace());
        Only::try_parse_from(words).map(|only| only.selection.fields()).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_given_is_asked_for_and_nothing_else() {
        for (arguments, fields) in [
            ("--domain a.test", json!({"domain": "a.test"})),
            (
                "--tenant t --campaign c --domain d --routing-domain r",
                json!({"domain": "d", "routing_domain": "r", "campaign": "c", "tenant": "t"}),
            ),
            ("--everything", json!({})),
            ("--queue a --queue b", json!({"queue_names": ["a", "b"]})),
            ("--queue a --message 1", json!({"queue_names": ["a"], "messages": ["1"]})),
            ("--message 1 --message 2", json!({"messages": ["1", "2"]})),
        ] {
            assert_eq!(Value::Object(parse(arguments).expect(arguments)), fields, "{arguments}");
        }
    }

    #[test]
    fn all_mail_is_never_meant_by_accident() {
        let error = parse("").expect_err("nothing was named");
        assert!(error.contains("--domain <DOMAIN>") && error.contains("--everything"), "{error}");
        for (arguments, one, other) in [
            ("--everything --domain a", "--everything", "--domain"),
            ("--queue q --tenant t", "--queue", "--tenant"),
            ("--queue q --everything", "--queue", "--everything"),
            ("--campaign c --queue q", "--campaign", "--queue"),
        ] {
            let error = parse(arguments).expect_err(arguments);
            assert!(error.contains("cannot be used with") && error.contains(one) && error.contains(other), "{error}");
        }
    }

    #[test]
    fn an_order_is_about_what_it_names() {
        let order = json!({"domain": "A.test", "tenant": null, "queue_names": []});
        assert!(concerns(&order, "c:t@a.test", None) && !concerns(&order, "b.test", None));
        let named = json!({"queue_names": ["a.test"], "messages": ["00-01"]});
        assert!(concerns(&named, "a.test", Some("0001")) && !concerns(&named, "a.test", Some("0002")));
        assert!(!concerns(&named, "a.test", None), "of the queue some, not all");
        assert!(concerns(&json!({}), "whatever", Some("1")), "an order without criteria is about everything");
        assert_eq!(described(&named), "queue=a.test message=00-01");
        assert_eq!(described(&order), "domain=A.test");
        assert_eq!(described(&json!({"id": "x"})), "everything");
    }
}
