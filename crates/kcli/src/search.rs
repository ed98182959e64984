//! `search` and `timeline`: messages by what is known of them, and all that happened to one.
//!
//! Out: a table, the newest first where the log is searched, or a line for each record; with `--json` what the server answered. Pages
//! are asked for until there are enough messages. Exit 1 when the server and its log know nothing of a message.

use crate::output::{Column, Out, Table, plain, shown};
use crate::server::Server;
use crate::times::moment;
use anyhow::{Result, bail};
use clap::Args;
use serde_json::{Value, json};
use time::OffsetDateTime;

/// `search`
#[derive(Debug, Args)]
pub(crate) struct Search {
    /// Mail to this address.
    #[arg(long, value_name = "ADDRESS")]
    recipient: Option<String>,
    /// Mail from this address.
    #[arg(long, value_name = "ADDRESS")]
    sender: Option<String>,
    /// The message of this id.
    #[arg(long)]
    id: Option<String>,
    /// Mail in the scheduled queue of this name.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["domain", "routing_domain", "campaign", "tenant"])]
    queue: Option<String>,
    /// Mail to this domain.
    #[arg(long)]
    domain: Option<String>,
    /// Mail that is routed by way of this domain.
    #[arg(long)]
    routing_domain: Option<String>,
    /// Mail of this campaign.
    #[arg(long)]
    campaign: Option<String>,
    /// Mail of this tenant.
    #[arg(long)]
    tenant: Option<String>,
    /// Mail in this state: waiting, due, ready, in_delivery, held, ending, unspooled, delivered, bounced, admin_bounced, expired, transferred or unknown.
    #[arg(long)]
    state: Option<String>,
    /// Where to look: queues, or logs. Else in the log when there is one and an address is given.
    #[arg(long)]
    among: Option<String>,
    /// Messages to show.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
}

/// `timeline`
#[derive(Debug, Args)]
pub(crate) struct Timeline {
    /// The message's id, as log records have it.
    id: String,
}

pub(crate) async fn search(server: &Server, out: &mut Out<'_>, given: &Search) -> Result<()> {
    let mut messages: Vec<Value> = Vec::new();
    let mut not_searched: Vec<Value> = Vec::new();
    let mut cursor: Option<String> = None;
    let limit = usize::try_from(given.limit).unwrap_or(usize::MAX);
    loop {
        let page_limit = (limit - messages.len()).min(PAGE_MAX).to_string();
        let mut query = given.query();
        query.push(("limit", &page_limit));
        query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
        let mut page = server.get(SEARCH, &query).await?;
        messages.extend(list(page["messages"].take()));
        let news = list(page["not_searched"].take());
        // What is so for all pages is said once.
        not_searched.extend(news.into_iter().filter(|what| !not_searched.contains(what)).collect::<Vec<_>>());
        cursor = page["next"].as_str().map(str::to_owned);
        if cursor.is_none() || messages.len() >= limit {
            break;
        }
    }
    if out.json {
        return out.pretty(&json!({"messages": messages, "next": cursor, "not_searched": not_searched}));
    }
    out.table(&table(&messages))?;
    if cursor.is_some() {
        out.note(&format!("there may be more than {limit}: --limit"))?;
    }
    unread(out, &not_searched)
}

pub(crate) async fn timeline(server: &Server, out: &mut Out<'_>, given: &Timeline) -> Result<()> {
    let Some(told) = server.find(TIMELINE, &[("id", &given.id)]).await? else {
        bail!("there is no message {}: it is not here, and the log has nothing about it", given.id);
    };
    if out.json {
        return out.pretty(&told);
    }
    let now = OffsetDateTime::now_utc();
    for event in told["events"].as_array().into_iter().flatten() {
        out.line(&happened(event))?;
    }
    let here = &told["now"];
    if !here.is_null() {
        let why = here["why"].as_str().map(|why| format!(": {}", shown(why))).unwrap_or_default();
        let until = here["until"].as_str().map(|until| format!(", until {}", moment(until, now))).unwrap_or_default();
        out.line(&format!("now it is {} in {}{why}{until}", plain(&here["state"]), plain(&here["queue_name"])))?;
    }
    if told["is_cut"] == true {
        out.note("there are more events")?;
    }
    unread(out, told["not_searched"].as_array().map(Vec::as_slice).unwrap_or_default())
}

impl Search {
    fn query(&self) -> Vec<(&'static str, &str)> {
        let given = [
            ("recipient", &self.recipient),
            ("sender", &self.sender),
            ("id", &self.id),
            ("queue", &self.queue),
            ("domain", &self.domain),
            ("routing_domain", &self.routing_domain),
            ("campaign", &self.campaign),
            ("tenant", &self.tenant),
            ("state", &self.state),
            ("among", &self.among),
        ];
        given.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?))).collect()
    }
}

fn list(value: Value) -> Vec<Value> {
    match value {
        Value::Array(all) => all,
        _ => Vec::new(),
    }
}

fn table(messages: &[Value]) -> Table {
    let headings = ["ID", "CREATED", "FROM", "TO", "QUEUE", "STATE", "BECAUSE"].map(Column::Left);
    let mut table = Table::new(&headings);
    for message in messages {
        let because = match &message["why"] {
            Value::String(why) => shown(why),
            _ => reply(&message["response"]),
        };
        let text = |name: &str| plain(&message[name]);
        table.row([
            text("id"),
            seconds(&message["created"]),
            format!("<{}>", text("sender")),
            text("recipient"),
            text("queue_name"),
            text("state"),
            because,
        ]);
    }
    table
}

/// One line of a timeline: when, what, for whom, by which way, and what was said.
fn happened(event: &Value) -> String {
    let record = &event["record"];
    let mut words = vec![seconds(&event["at"]), format!("{:<16}", plain(&event["type"]))];
    let recipient = plain(&record["recipient"]);
    words.extend((!recipient.is_empty()).then(|| format!("to <{recipient}>")));
    let site = plain(&record["site"]);
    words.extend((!site.is_empty()).then(|| format!("by {site}")));
    let peer = plain(&record["peer_address"]["addr"]);
    words.extend((!peer.is_empty()).then(|| format!("[{peer}]")));
    let reply = reply(&record["response"]);
    words.extend((!reply.is_empty()).then_some(reply));
    words.join(" ").trim_end().to_owned()
}

/// `250 2.0.0 ok`
fn reply(response: &Value) -> String {
    if response.is_null() || response["code"] == 0 {
        return String::new();
    }
    let enhanced = &response["enhanced_code"];
    let enhanced = match enhanced.is_null() {
        true => String::new(),
        false => format!("{}.{}.{} ", enhanced["class"], enhanced["subject"], enhanced["detail"]),
    };
    format!("{} {enhanced}{}", response["code"], plain(&response["content"]))
}

/// A moment without what is below a second.
fn seconds(at: &Value) -> String {
    let text = plain(at);
    match text.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => text,
    }
}

fn unread(out: &mut Out<'_>, segments: &[Value]) -> Result<()> {
    match segments.is_empty() {
        true => Ok(()),
        false => out.note(&format!(
            "not searched: {} (a segment that is named cannot be read, has no index and is large, or took too long)",
            segments.iter().map(plain).collect::<Vec<_>>().join(", ")
        )),
    }
}

pub(crate) const SEARCH: &str = "/api/admin/search/v1";
/// All that happened to a message.
pub(crate) const TIMELINE: &str = "/api/admin/timeline/v1";
/// Messages of a page at most.
const PAGE_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_a_line() {
        let event = json!({"at": "2026-11-25T10:00:00.123Z", "type": "Delivery", "record": {
            "recipient": ["a@x.test", "b@x.test"], "site": "ip-1->mx.x.test@smtp_client",
            "peer_address": {"name": "mx.x.test", "addr": "192.0.2.1"},
            "response": {"code": 250, "enhanced_code": {"class": 2, "subject": 0, "detail": 0}, "content": "ok\u{1b}[2J"},
        }});
        let line = "2026-11-25T10:00:00Z Delivery         to <a@x.test, b@x.test> by ip-1->mx.x.test@smtp_client \
            [192.0.2.1] 250 2.0.0 ok\\u{1b}[2J";
        assert_eq!(happened(&event), line);
        let bare = json!({"at": "2026-11-25T10:00:00Z", "type": "Reception", "record": {"recipient": "", "response": {"code": 0}}});
        assert_eq!(happened(&bare), "2026-11-25T10:00:00Z Reception");
    }

    #[test]
    fn a_message_is_a_row_and_says_why_it_is_where_it_is() {
        let messages = [
            json!({"id": "ab", "created": "2026-11-25T10:00:00Z", "sender": "", "recipient": "a@x.test",
                "queue_name": "x.test", "state": "waiting", "why": "LoggedTransientFailure", "response": null}),
            json!({"id": "cd", "created": null, "sender": "s@y.test", "recipient": "a@x.test", "queue_name": "x.test",
                "state": "bounced", "why": null, "response": {"code": 550, "enhanced_code": null, "content": "no"}}),
        ];
        let text = table(&messages).text();
        let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            rows[0],
            ["ab", "2026-11-25T10:00:00Z", "<>", "a@x.test", "x.test", "waiting", "LoggedTransientFailure"]
        );
        assert_eq!(rows[1], ["cd", "<s@y.test>", "a@x.test", "x.test", "bounced", "550", "no"]);
    }
}
