//! Orders about queued mail: given, listed, taken back.
//!
//! Owns the options of `bounce`, `suspend`, `hold`, `flush` and their `-list` and `-cancel`, and the same about ready queues
//! (`suspend-ready-q`). What each does to mail is the server's: docs/orders.md. In: options. Out: the id of the order alone
//! where scripts of KumoMTA's users expect that, else what the server answered. Moving mail is in `moving`.

use crate::criteria::{Selection, described};
use crate::output::{Column, Out, Table, plain};
use crate::server::Server;
use anyhow::Result;
use clap::Args;
use config::Duration;
use serde_json::{Map, Value, json};

/// A kind of order, as its endpoint is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Bounce,
    Suspend,
    Hold,
    Flush,
    SuspendReady,
    Rebind,
    Xfer,
}

/// `bounce`
#[derive(Debug, Args)]
pub(crate) struct Bounce {
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    reason: Reason,
    /// How long mail that comes is bounced too: 30s, 5m, 1h. 0 is about what is there now alone.
    #[arg(long, value_name = "TIME", default_value = "5m")]
    duration: Duration,
    /// Write no log records for what is bounced.
    #[arg(long)]
    suppress_logging: bool,
}

/// `suspend`
#[derive(Debug, Args)]
pub(crate) struct Suspend {
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    reason: Reason,
    /// How long: 30s, 5m, 1h.
    #[arg(long, value_name = "TIME", default_value = "5m")]
    duration: Duration,
}

/// `hold`
#[derive(Debug, Args)]
pub(crate) struct Hold {
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    reason: Reason,
    /// How long: 30s, 5m, 1h. For ever, unless given.
    #[arg(long, value_name = "TIME")]
    duration: Option<Duration>,
}

/// `flush`
#[derive(Debug, Args)]
pub(crate) struct Flush {
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    reason: Reason,
}

/// `suspend-ready-q`
#[derive(Debug, Args)]
pub(crate) struct SuspendReady {
    /// The ready queue: SOURCE->SITE@PROTOCOL.
    #[arg(long)]
    name: String,
    #[command(flatten)]
    reason: Reason,
    /// How long: 30s, 5m, 1h.
    #[arg(long, value_name = "TIME", default_value = "5m")]
    duration: Duration,
}

/// `*-cancel`
#[derive(Debug, Args)]
pub(crate) struct Cancel {
    /// The order's id, as the list has it.
    #[arg(long)]
    id: String,
}

/// Why an order is given, and whether it outlives this run of the server.
#[derive(Debug, Args)]
pub(crate) struct Reason {
    /// Why, in your words: lists and log records have it.
    #[arg(long)]
    reason: String,
    /// The order ends with this run of the server.
    #[arg(long)]
    until_restart: bool,
}

impl Kind {
    /// Where it is given, listed and taken back.
    pub fn path(self) -> String {
        let name = match self {
            Kind::Bounce => "bounce",
            Kind::Suspend => "suspend",
            Kind::Hold => "hold",
            Kind::Flush => "flush",
            Kind::SuspendReady => "suspend-ready-q",
            Kind::Rebind => "rebind",
            Kind::Xfer => "xfer",
        };
        format!("/api/admin/{name}/v1")
    }

    /// The heading over how many messages it has dealt with.
    fn done(self) -> &'static str {
        match self {
            Kind::Bounce => "BOUNCED",
            Kind::Hold => "HELD",
            Kind::Flush => "FLUSHED",
            Kind::Rebind | Kind::Xfer => "MOVED",
            Kind::Suspend | Kind::SuspendReady => "",
        }
    }
}

impl Reason {
    /// Adds its fields.
    pub fn add_to(&self, fields: &mut Map<String, Value>) {
        fields.insert("reason".to_owned(), json!(self.reason));
        if self.until_restart {
            fields.insert("survives_restart".to_owned(), json!(false));
        }
    }
}

pub(crate) async fn bounce(server: &Server, out: &mut Out<'_>, given: &Bounce) -> Result<()> {
    let mut fields = body(&given.selection, &given.reason, Some(given.duration));
    if given.suppress_logging {
        fields.insert("suppress_logging".to_owned(), json!(true));
    }
    let (id, messages) = give(server, out, Kind::Bounce, fields).await?;
    let later = match given.duration.get().is_zero() {
        true => String::new(),
        false => format!(", and of what comes within {}", given.duration),
    };
    let of = format!("of what is there now{messages}{later}");
    out.note(&format!("Bouncing {of} goes on by itself. {}", after("bounce", &id)))
}

pub(crate) async fn hold(server: &Server, out: &mut Out<'_>, given: &Hold) -> Result<()> {
    let fields = body(&given.selection, &given.reason, given.duration);
    let (id, messages) = give(server, out, Kind::Hold, fields).await?;
    let until = given.duration.map_or("until you cancel it".to_owned(), |duration| format!("for {duration}"));
    out.note(&format!(
        "What is there now{messages} and what comes is held {until}; it goes on by itself. {}",
        after("hold", &id)
    ))
}

pub(crate) async fn flush(server: &Server, out: &mut Out<'_>, given: &Flush) -> Result<()> {
    let fields = body(&given.selection, &given.reason, None);
    let (id, messages) = give(server, out, Kind::Flush, fields).await?;
    out.note(&format!(
        "Messages that wait for a retry are due now{messages}; it goes on by itself. {}",
        after("flush", &id)
    ))
}

pub(crate) async fn suspend(server: &Server, out: &mut Out<'_>, given: &Suspend) -> Result<()> {
    let fields = body(&given.selection, &given.reason, Some(given.duration));
    let answer = server.post(&Kind::Suspend.path(), &Value::Object(fields)).await?;
    out.pretty(&answer)
}

pub(crate) async fn suspend_ready(server: &Server, out: &mut Out<'_>, given: &SuspendReady) -> Result<()> {
    let mut fields = Map::from_iter([("name".to_owned(), json!(given.name))]);
    given.reason.add_to(&mut fields);
    fields.insert("duration".to_owned(), json!(given.duration));
    let answer = server.post(&Kind::SuspendReady.path(), &Value::Object(fields)).await?;
    out.pretty(&answer)
}

/// The orders of a kind that are in force; as the server has them where KumoMTA prints that.
pub(crate) async fn list(server: &Server, out: &mut Out<'_>, kind: Kind) -> Result<()> {
    let orders = server.get(&kind.path(), &[]).await?;
    match kind {
        _ if out.json => out.pretty(&orders),
        Kind::Suspend | Kind::SuspendReady => out.pretty(&orders),
        _ => out.table(&table(kind, &orders)),
    }
}

pub(crate) async fn cancel(server: &Server, out: &mut Out<'_>, kind: Kind, given: &Cancel) -> Result<()> {
    let said = server.delete(&kind.path(), &json!({"id": given.id})).await?;
    out.said(&said)
}

/// Gives an order; writes its id, or with `--json` what the server answered. The id, and in brackets how many messages it is about at
/// most: KumoMTA does not say.
async fn give(server: &Server, out: &mut Out<'_>, kind: Kind, fields: Map<String, Value>) -> Result<(String, String)> {
    let answer = server.post(&kind.path(), &Value::Object(fields)).await?;
    let id = plain(&answer["id"]);
    match out.json {
        true => out.pretty(&answer)?,
        false => out.line(&id)?,
    }
    let count = answer.get("messages").map(|count| format!(" (messages: at most {})", plain(count)));
    Ok((id, count.unwrap_or_default()))
}

fn body(selection: &Selection, reason: &Reason, duration: Option<Duration>) -> Map<String, Value> {
    let mut fields = selection.fields();
    reason.add_to(&mut fields);
    fields.extend(duration.map(|duration| ("duration".to_owned(), json!(duration))));
    fields
}

fn after(verb: &str, id: &str) -> String {
    format!("How far it is: kcli {verb}-list. To take it back: kcli {verb}-cancel --id {id}")
}

fn table(kind: Kind, orders: &Value) -> Table {
    let headings = [
        Column::Left("ID"),
        Column::Left("REASON"),
        Column::Left("REMAIN"),
        Column::Right(kind.done()),
        Column::Left("CRITERIA"),
    ];
    let mut table = Table::new(&headings);
    for order in orders.as_array().into_iter().flatten() {
        let target = order.get("target").map(|target| format!(" to {}", plain(target))).unwrap_or_default();
        table.row([
            plain(&order["id"]),
            plain(&order["reason"]),
            remaining(order),
            plain(&order["total_bounced"]),
            described(order) + &target,
        ]);
    }
    table
}

/// How long an order is still in force; one without an end says so.
fn remaining(order: &Value) -> String {
    let text = plain(&order["duration"]);
    match text.parse::<Duration>() {
        Ok(left) if left.get() > FOREVER.get() => "for ever".to_owned(),
        Ok(left) if left.get().is_zero() => "0s".to_owned(),
        // Fractions of a second tell nobody anything.
        Ok(left) => Duration::from_secs(left.as_secs().max(1)).to_string(),
        Err(_) => text,
    }
}

/// What lasts longer has no end: such an order is until the end of year 9999.
const FOREVER: Duration = Duration::from_days(365 * 100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_a_row_an_order() {
        let orders = json!([
            {"id": "11", "reason": "wrong list", "duration": "4m 59s 123ms", "total_bounced": 20, "tenant": "shop",
             "domain": "example.com", "bounced": {"shop@example.com": 20}},
            {"id": "2", "reason": "b", "duration": "0s", "total_bounced": 0},
        ]);
        let lines = table(Kind::Bounce, &orders).lines();
        assert_eq!(
            lines,
            [
                "ID  REASON      REMAIN  BOUNCED  CRITERIA",
                "11  wrong list  4m 59s       20  domain=example.com tenant=shop",
                "2   b           0s            0  everything",
            ]
        );
        let xfer = json!([{"id": "1", "reason": "r", "duration": "9999999999s", "total_bounced": 1, "target": "http://b.test"}]);
        assert_eq!(table(Kind::Xfer, &xfer).lines()[1], "1   r       for ever      1  everything to http://b.test");
    }
}
