//! `why`: what a message, a queue or a domain's mail waits for, until when, and what would change it.
//!
//! In: a message id, the name of a scheduled or ready queue, or a domain; which of them it is, its form and the server say. Out:
//! an explanation for people, or with `--json` the same and what it was made of. Made of what other verbs show too: messages,
//! queues, orders, ready queues, records of the log. Exit 1 when the server has nothing of that name. It changes nothing.

use crate::criteria::plain_id;
use crate::inspect::{MESSAGE, READY, SCHEDULED};
use crate::metrics::Metrics;
use crate::output::{Out, argument, option, plain, shown};
use crate::search::SEARCH;
use crate::server::Server;
use crate::times::moment;
use crate::why_facts::{About, Orders, WAYS_MAX, Ways};
use crate::why_reply::Answered;
use crate::why_words::{Words, of_state};
use anyhow::{Result, bail};
use clap::Args;
use queue::QueueName;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use time::OffsetDateTime;

/// `why`
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// A message's id, the name of a scheduled queue (shop@example.com) or of a ready queue (ip-1->site@smtp_client), or a domain.
    #[arg(value_name = "ID|QUEUE|DOMAIN")]
    what: String,
}

/// What was found out.
#[derive(Debug, Default, PartialEq)]
struct Found {
    /// What it is about, in one line.
    subject: String,
    /// Name and value.
    facts: Vec<(String, String)>,
    /// Commands and settings.
    changes: Vec<String>,
    /// Orders that are about it.
    orders: Vec<Value>,
    /// What was answered last.
    replies: Vec<Value>,
    /// What it was made of.
    material: Value,
}

pub(crate) async fn run(server: &Server, out: &mut Out<'_>, given: &Options) -> Result<()> {
    let found = explain(server, &given.what).await?;
    if out.json {
        let all: Vec<Value> = found.iter().map(Found::json).collect();
        return out.pretty(&Value::Array(all));
    }
    for (at, one) in found.iter().enumerate() {
        if at > 0 {
            out.line("")?;
        }
        one.lines().iter().try_for_each(|line| out.line(line))?;
    }
    Ok(())
}

async fn explain(server: &Server, what: &str) -> Result<Vec<Found>> {
    let orders = Orders::fetch(server).await?;
    if is_id(what) {
        return Ok(vec![of_message(server, &orders, what).await?]);
    }
    if what.contains("->") {
        let Some(ready) = server.find(READY, &[("queue_name", what)]).await? else {
            bail!("there is no ready queue {what:?}: kcli queue-summary lists them");
        };
        let mut found = Found { subject: format!("ready queue {what}"), ..Found::default() };
        found.ready(&orders, &ready);
        found.answered(Answered::of_way(server, what, OffsetDateTime::now_utc()).await);
        found.material = json!({"ready_queue": ready});
        return Ok(vec![found]);
    }
    if let Some(queue) = scheduled(server, what).await? {
        return Ok(vec![of_queue(server, &orders, &queue).await?]);
    }
    of_domain(server, &orders, what).await
}

async fn of_message(server: &Server, orders: &Orders, id: &str) -> Result<Found> {
    let Some(message) = server.find(MESSAGE, &[("id", id)]).await? else {
        bail!(
            "there is no message {id}: it has ended, or was never here. The log knows: kcli timeline {}",
            plain_id(id)
        );
    };
    let now = OffsetDateTime::now_utc();
    let mut found = Found::default();
    found.message(orders, &message, now);
    found.answered(Answered::about(server, id, now).await);
    let queue = plain(&message["queue_name"]);
    let known = message["what"].as_str().filter(|what| what.contains("->"));
    let ways = Ways::fetch(server, &queue, known).await?;
    found.ways(orders, &ways);
    if found.replies.is_empty() {
        found.refused(server, &ways, now).await;
    }
    let ways = std::mem::take(&mut found.material);
    found.material = json!({"message": message, "ready_queues": ways});
    Ok(found)
}

async fn of_queue(server: &Server, orders: &Orders, queue: &Value) -> Result<Found> {
    let name = plain(&queue["queue_name"]);
    let mut found = Found::default();
    let now = OffsetDateTime::now_utc();
    for (place, id) in found.queue(orders, queue, now).into_iter().rev() {
        found.answered_at(place, Answered::about(server, &id, now).await);
    }
    let known = queue["messages"].as_array().into_iter().flatten();
    let known = known.filter_map(|message| message["what"].as_str()).find(|what| what.contains("->"));
    let ways = Ways::fetch(server, &name, known).await?;
    found.ways(orders, &ways);
    if found.replies.is_empty() {
        found.refused(server, &ways, now).await;
    }
    let ways = std::mem::take(&mut found.material);
    found.material = json!({"queue": queue, "ready_queues": ways});
    Ok(found)
}

/// Every scheduled queue of a domain; where there is none, the way its mail would take.
async fn of_domain(server: &Server, orders: &Orders, domain: &str) -> Result<Vec<Found>> {
    let counts = Metrics::fetch(server).await?.by("scheduled_count", "queue");
    let is_of = |name: &&String| {
        let name = QueueName::parse(name);
        name.effective_domain().eq_ignore_ascii_case(domain) || name.domain.eq_ignore_ascii_case(domain)
    };
    let mut names: Vec<String> = counts.keys().filter(is_of).cloned().collect();
    if names.is_empty() {
        // Metrics have the largest queues only.
        let query = [("domain", domain), ("among", "queues"), ("limit", LISTED)];
        // Other servers have no such endpoint.
        let found = server.find(SEARCH, &query).await?.unwrap_or_default();
        names =
            found["messages"].as_array().into_iter().flatten().map(|message| plain(&message["queue_name"])).collect();
        names.sort();
        names.dedup();
    }
    let mut all = Vec::new();
    for name in names.iter().take(QUEUES_MAX) {
        // One that has ended meanwhile waits for nothing.
        if let Some(queue) = scheduled(server, name).await? {
            all.push(of_queue(server, orders, &queue).await?);
        }
    }
    if let (Some(last), true) = (all.last_mut(), names.len() > QUEUES_MAX) {
        last.facts.push(("besides".to_owned(), format!("{} further queues of {domain}", names.len() - QUEUES_MAX)));
    }
    if all.is_empty() {
        let mut found = Found { subject: format!("{domain}: no mail is queued"), ..Found::default() };
        found.orders(orders.about(domain, None), None);
        found.ways(orders, &Ways::fetch(server, domain, None).await?);
        all.push(found);
    }
    Ok(all)
}

async fn scheduled(server: &Server, name: &str) -> Result<Option<Value>> {
    server.find(SCHEDULED, &[("queue_name", name), ("limit", LISTED)]).await
}

impl Found {
    fn message(&mut self, orders: &Orders, message: &Value, now: OffsetDateTime) {
        let (id, queue) = (plain(&message["id"]), plain(&message["queue_name"]));
        self.subject = format!("message {id}");
        let content = &message["message"];
        self.fact("from", format!("<{}>", plain(&content["sender"])));
        self.fact("to", plain(&content["recipient"]));
        self.fact("queue", queue.clone());
        self.waits(&plain(&message["state"]), message["why"].as_str(), &format!("--message {id}"), &queue);
        self.until(message, now);
        self.limit(&message["limit"]);
        self.fact("attempts", plain(&content["num_attempts"]));
        self.ends(message, now);
        self.orders(orders.about(&queue, Some(&id)), message["order"].as_str());
    }

    /// Places among the facts where the last answer belongs, with the message it was about.
    fn queue(&mut self, orders: &Orders, queue: &Value, now: OffsetDateTime) -> Vec<(usize, String)> {
        let mut tried = Vec::new();
        let name = plain(&queue["queue_name"]);
        self.subject = format!("scheduled queue {name}");
        self.fact("messages", plain(&queue["num_scheduled"]));
        let mut groups: BTreeMap<(String, String), Vec<&Value>> = BTreeMap::new();
        for message in queue["messages"].as_array().into_iter().flatten() {
            groups.entry((plain(&message["state"]), plain(&message["why"]))).or_default().push(message);
        }
        let listed: usize = groups.values().map(Vec::len).sum();
        for ((state, why), messages) in groups {
            let whose = format!("{} of {listed} looked at, such as {}", messages.len(), plain(&messages[0]["id"]));
            self.fact("these", whose);
            let soonest = messages.iter().filter(|m| !m["until"].is_null()).min_by_key(|m| plain(&m["until"]));
            self.waits(&state, Some(why.as_str()).filter(|why| !why.is_empty()), &option("--queue", &name), &name);
            self.until(soonest.unwrap_or(&messages[0]), now);
            self.limit(&messages[0]["limit"]);
            let first = messages.iter().filter(|m| m["ends"].is_object()).min_by_key(|m| plain(&m["ends"]["at"]));
            first.into_iter().for_each(|first| self.ends(first, now));
            let was_tried = messages.iter().find(|m| m["message"]["num_attempts"].as_u64() > Some(0));
            tried.extend(was_tried.map(|message| (self.facts.len(), plain(&message["id"]))));
        }
        let holds = queue["messages"].as_array().into_iter().flatten().find_map(|message| message["order"].as_str());
        self.orders(orders.about(&name, None), holds);
        tried.truncate(REPLIES_MAX);
        tried
    }

    /// What it waits for, what ends that, what would.
    fn waits(&mut self, state: &str, why: Option<&str>, whose: &str, queue: &str) {
        let words = why.and_then(Words::of);
        match (why, words) {
            (Some(code), Some(words)) => {
                self.fact("waits for", format!("{} ({code})", words.meaning));
                self.fact("ended by", words.ended_by.to_owned());
                let domain = QueueName::parse(queue).effective_domain().to_owned();
                self.change(words.advice.replace("{WHOSE}", whose).replace("{DOMAIN}", &argument(&domain)));
            }
            (Some(code), None) => self.fact("waits for", code.to_owned()),
            (None, _) => self.fact("state", format!("{} ({state})", of_state(state))),
        }
    }

    fn until(&mut self, message: &Value, now: OffsetDateTime) {
        if let Some(until) = message["until"].as_str() {
            self.fact("until", moment(until, now));
        }
        if let Some(what) = message["what"].as_str() {
            let name = if what.contains("->") { "ready queue" } else { "said" };
            self.fact(name, plain(&json!(what)));
        }
    }

    /// The limit that binds, and who else uses it.
    fn limit(&mut self, limit: &Value) {
        let Some(option) = limit["option"].as_str() else { return };
        let name = limit["name"].as_str().map(|name| format!(" {:?}", shown(name))).unwrap_or_default();
        let used = limit["used"].as_u64().map(|used| format!(", {used} of them taken")).unwrap_or_default();
        let mut text = format!("{option}{name}: {}{used}", plain(&limit["value"]));
        let sharers: Vec<String> = limit["shared_by"].as_array().into_iter().flatten().map(plain).collect();
        if let Some(total) = limit["shared_by_total"].as_u64().filter(|total| *total > 0) {
            let shown: Vec<&str> = sharers.iter().take(SHARERS_MAX).map(String::as_str).collect();
            let more = if total > shown.len() as u64 { ", ..." } else { "" };
            text.push_str(&format!("; used by {total} ready queues: {}{more}", shown.join(", ")));
        }
        self.fact("limit", text);
    }

    /// When it ends, whatever becomes of it.
    fn ends(&mut self, message: &Value, now: OffsetDateTime) {
        if message["state"] == "held" {
            return self.fact("expires", "not while it is held".to_owned());
        }
        if let Some(at) = message["ends"]["at"].as_str() {
            self.fact("expires", format!("{}, by {}", moment(at, now), plain(&message["ends"]["by"])));
        }
    }

    /// What was answered last.
    fn answered(&mut self, answered: Result<Option<Answered>>) {
        self.answered_at(self.facts.len(), answered);
    }

    fn answered_at(&mut self, place: usize, answered: Result<Option<Answered>>) {
        match answered {
            Ok(Some(Answered { name, text, material })) => {
                self.facts.insert(place, (name.to_owned(), text));
                self.replies.push(material);
            }
            Ok(None) => {}
            // The rest can be said all the same.
            Err(error) => self
                .facts
                .insert(place, ("last reply".to_owned(), format!("not known: {}", shown(&format!("{error:#}"))))),
        }
    }

    /// What the destinations of its ways refused last, where nothing is known about the mail itself.
    async fn refused(&mut self, server: &Server, ways: &Ways, now: OffsetDateTime) {
        for ready in &ways.ready {
            if let Ok(Some(refused)) = Answered::of_way(server, &plain(&ready["queue_name"]), now).await {
                self.fact(refused.name, refused.text);
                self.replies.push(refused.material);
            }
        }
    }

    /// The one of that id is what holds it, as far as the server says so.
    fn orders(&mut self, about: Vec<About>, holds: Option<&str>) {
        for one in about {
            let name = if holds == Some(one.id().as_str()) { "held by" } else { "order" };
            self.fact(name, one.text());
            self.change(one.undone_by());
            self.orders.push(one.json());
        }
    }

    fn ways(&mut self, orders: &Orders, ways: &Ways) {
        if let Some(problem) = &ways.problem {
            self.fact("way", format!("cannot be found: {}", shown(problem)));
        }
        for name in ways.names.iter().filter(|_| ways.ready.is_empty()).take(WAYS_MAX) {
            self.fact("way", format!("{} (no such ready queue at the moment)", shown(name)));
        }
        for ready in &ways.ready {
            self.fact("way", plain(&ready["queue_name"]));
            self.ready(orders, ready);
        }
        self.material = json!(ways.ready);
    }

    /// What a ready queue does and waits for.
    fn ready(&mut self, orders: &Orders, ready: &Value) {
        let state = &ready["state"];
        let dispatchers = ready["dispatchers"].as_array().into_iter().flatten();
        let mut phases: BTreeMap<String, usize> = BTreeMap::new();
        dispatchers.for_each(|one| *phases.entry(phase_name(&one["phase"])).or_default() += 1);
        let phases: Vec<String> = phases.iter().map(|(phase, count)| format!("{count} {phase}")).collect();
        let phases = if phases.is_empty() { String::new() } else { format!(" ({})", phases.join(", ")) };
        let limit = &ready["constraints"]["max_concurrent_dispatchers"];
        let limit = limit.get("value").map(|limit| format!(" of {} allowed", plain(limit))).unwrap_or_default();
        let connections = plain(&state["connection_count"]);
        self.fact(
            "it has",
            format!("{} messages, {connections} connections{limit}{phases}", plain(&state["ready_count"])),
        );
        for (field, says) in [
            ("suspended", "suspended"),
            ("connection_limited", "no connection allowed"),
            ("connection_rate_throttled", "no connection yet"),
        ] {
            if let Some(obstacle) = state.get(field) {
                let (context, since) = (plain(&obstacle["context"]), plain(&obstacle["since"]));
                self.fact("it is", format!("{says}: {context}, since {since}"));
            }
        }
        self.orders(orders.about_ready(&plain(&ready["queue_name"])), None);
    }

    fn fact(&mut self, name: &str, value: String) {
        if !value.is_empty() {
            self.facts.push((name.to_owned(), value));
        }
    }

    fn change(&mut self, change: String) {
        if !change.is_empty() && !self.changes.contains(&change) {
            self.changes.push(change);
        }
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = vec![self.subject.clone()];
        lines.extend(self.facts.iter().map(|(name, value)| format!("  {name:<11} {value}")));
        if !self.changes.is_empty() {
            lines.push("what would change it:".to_owned());
            lines.extend(self.changes.iter().map(|change| format!("  {change}")));
        }
        lines
    }

    fn json(&self) -> Value {
        let facts = self.facts.iter().map(|(name, value)| json!({"name": name, "value": value}));
        json!({"subject": self.subject, "facts": facts.collect::<Value>(), "changes": self.changes,
            "orders": self.orders, "replies": self.replies, "of": self.material})
    }
}

/// Whether it has the form of a message's id.
fn is_id(text: &str) -> bool {
    let plain = plain_id(text);
    plain.len() == ID_DIGITS && plain.bytes().all(|octet| octet.is_ascii_hexdigit())
}

/// Hexadecimal digits of an id.
const ID_DIGITS: usize = 32;
/// Messages of a queue that are looked at.
const LISTED: &str = "100";
/// Groups of a queue's messages whose last answer is looked up: each costs a look into the log.
const REPLIES_MAX: usize = 5;
/// Ready queues that share a limit and are named.
const SHARERS_MAX: usize = 5;
/// Queues of a domain that are explained.
const QUEUES_MAX: usize = 10;

/// What a connection does, without its numbers.
fn phase_name(phase: &Value) -> String {
    let named = phase.as_object().and_then(|phase| phase.keys().next());
    named.cloned().unwrap_or_else(|| plain(phase))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::orders::Kind;
    use time::macros::datetime;

    const NOW: OffsetDateTime = datetime!(2026-11-24 22:00:00 UTC);

    fn message(state: &str, why: Value, until: Value, what: Value) -> Value {
        json!({"id": "ab", "queue_name": "a.test", "state": state, "why": why, "until": until, "what": what,
            "message": {"sender": "s@b.test", "recipient": "r@a.test", "num_attempts": 1}})
    }

    #[test]
    fn a_message_says_what_it_waits_for_and_what_helps() {
        let mut found = Found::default();
        let message = message("waiting", json!("LoggedTransientFailure"), json!("2026-11-24T22:20:00Z"), Value::Null);
        found.message(&Orders::default(), &message, NOW);
        let text = found.lines().join("\n");
        assert!(
            text.starts_with("message ab\n  from        <s@b.test>\n  to          r@a.test\n  queue       a.test\n"),
            "{text}"
        );
        assert!(
            text.contains("(LoggedTransientFailure)\n") && text.contains("2026-11-24T22:20:00Z (in 20m)\n"),
            "{text}"
        );
        assert!(text.contains("\nwhat would change it:\n  kcli flush --message ab --reason WHY ("), "{text}");
    }

    #[test]
    fn a_reason_that_is_not_known_is_shown_as_it_is() {
        let mut found = Found::default();
        found.message(
            &Orders::default(),
            &message("due", json!("Unheard"), Value::Null, json!("s->x@smtp_client")),
            NOW,
        );
        let text = found.lines().join("\n");
        assert!(text.contains("waits for   Unheard\n") && text.contains("ready queue s->x@smtp_client"), "{text}");
        let mut found = Found::default();
        found.message(&Orders::default(), &message("in_delivery", Value::Null, Value::Null, Value::Null), NOW);
        assert!(
            found
                .lines()
                .join("\n")
                .contains("it is in hand now: with a connection, or read, asked about or moved (in_delivery)")
        );
    }

    #[test]
    fn a_message_says_which_limit_binds_which_order_holds_it_and_when_it_ends() {
        let mut found = Found::default();
        let mut message = message("ready", json!("MessageRateThrottle"), Value::Null, Value::Null);
        message["limit"] = json!({"option": "additional_message_rate_throttles", "name": "all", "value": "1/m", "used": null,
            "shared_by": ["a", "b", "c", "d", "e", "f"], "shared_by_total": 25});
        message["ends"] = json!({"at": "2026-11-25T22:00:00Z", "by": "max_age"});
        message["order"] = json!("2");
        let order = |id: &str| {
            (Kind::Suspend, json!({"id": id, "queue_names": ["a.test"], "reason": "later", "duration": "5m"}))
        };
        found.message(&Orders::of([order("1"), order("2")]), &message, NOW);
        let text = found.lines().join("\n");
        for line in [
            "limit       additional_message_rate_throttles \"all\": 1/m; used by 25 ready queues: a, b, c, d, e, ...",
            "expires     2026-11-25T22:00:00Z (in 1day), by max_age",
            "order       suspended by an order: later (order 1, for another 5m)",
            "held by     suspended by an order: later (order 2, for another 5m)",
        ] {
            assert!(text.contains(&format!("\n  {line}\n")), "{line}\nin {text}");
        }
        let mut found = Found::default();
        found.limit(&json!({"option": "connection_limit", "name": null, "value": "5", "used": 5, "shared_by": [], "shared_by_total": 0}));
        assert_eq!(found.facts, [("limit".to_owned(), "connection_limit: 5, 5 of them taken".to_owned())]);
    }

    #[test]
    fn a_queue_says_how_many_wait_for_what() {
        let messages = [
            message("waiting", json!("LoggedTransientFailure"), json!("2026-11-24T23:00:00Z"), Value::Null),
            message("waiting", json!("LoggedTransientFailure"), json!("2026-11-24T22:30:00Z"), Value::Null),
            message("held", json!("HeldByOrder"), Value::Null, Value::Null),
        ];
        let mut found = Found::default();
        found.queue(
            &Orders::default(),
            &json!({"queue_name": "a.test", "num_scheduled": 3, "messages": messages}),
            NOW,
        );
        let text = found.lines().join("\n");
        assert!(text.contains("2 of 3 looked at") && text.contains("1 of 3 looked at"), "{text}");
        assert!(text.contains("\n  kcli flush --queue a.test --reason WHY ("), "{text}");
        assert!(text.contains("22:30:00Z (in 30m)") && !text.contains("23:00"), "the soonest: {text}");
    }

    #[test]
    fn an_id_is_told_from_a_name() {
        assert!(is_id("0123456789abcdef0123456789ABCDEF") && is_id("01234567-89ab-cdef-0123-456789abcdef"));
        assert!(!is_id("example.com") && !is_id("0123456789abcdef0123456789abcdeg"));
    }
}
