//! Mail that moves: to another queue (`rebind`), to another node (`xfer`), and back (`xfer-cancel`).
//!
//! In: options. Out: nothing on stdout, as with KumoMTA, and a note on stderr; with `--json` what the server answered. What
//! does not make sense is refused here: metadata that are no strings, and a rebinding that changes nothing.

use crate::criteria::Selection;
use crate::orders::{Kind, Reason};
use crate::output::{Out, plain};
use crate::server::Server;
use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::{Map, Value, json};

/// `rebind`
#[derive(Debug, Args)]
pub(crate) struct Rebind {
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    reason: Reason,
    /// Metadata to set, or what the event is told: an object of strings.
    #[arg(long, value_name = "JSON")]
    data: Option<String>,
    /// One of them; wins over --data. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Messages that stay in their queue are due now too.
    #[arg(long)]
    always_flush: bool,
    /// Write no log records for what moves.
    #[arg(long)]
    suppress_logging: bool,
    /// The policy's rebind_message changes each message, and is told the data.
    #[arg(long)]
    trigger_rebind_event: bool,
}

/// `xfer`
#[derive(Debug, Args)]
pub(crate) struct Xfer {
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    reason: Reason,
    /// The HTTP listener of the other node: http://HOST:PORT.
    #[arg(long, value_name = "URL")]
    target: String,
}

/// `xfer-cancel`
#[derive(Debug, Args)]
pub(crate) struct XferCancel {
    /// The queue of messages to the other node: TARGET.xfer.kumomta.internal.
    #[arg(value_name = "QUEUE_NAME", required_unless_present = "id", requires = "reason", conflicts_with = "id")]
    queue_name: Option<String>,
    /// Why: log records have it.
    #[arg(long)]
    reason: Option<String>,
    /// Also messages that the other node has been handed: it is gone for good.
    #[arg(long, conflicts_with = "id")]
    node_is_gone: bool,
    /// Instead of a queue: the order, as xfer-list has it. What it has not moved yet stays.
    #[arg(long)]
    id: Option<String>,
}

pub(crate) async fn rebind(server: &Server, out: &mut Out<'_>, given: &Rebind) -> Result<()> {
    let mut fields = given.selection.fields();
    given.reason.add_to(&mut fields);
    fields.insert("data".to_owned(), Value::Object(data(given)?));
    for (name, is_set) in [
        ("suppress_logging", given.suppress_logging),
        ("always_flush", given.always_flush),
        ("trigger_rebind_event", given.trigger_rebind_event),
    ] {
        fields.insert(name.to_owned(), json!(is_set));
    }
    let answer = server.post(&Kind::Rebind.path(), &Value::Object(fields)).await?;
    given_for_good(out, &answer, "Moving", "rebind")
}

pub(crate) async fn xfer(server: &Server, out: &mut Out<'_>, given: &Xfer) -> Result<()> {
    let mut fields = given.selection.fields();
    given.reason.add_to(&mut fields);
    fields.insert("target".to_owned(), json!(given.target));
    let answer = server.post(&Kind::Xfer.path(), &Value::Object(fields)).await?;
    given_for_good(out, &answer, "Transferring", "xfer")
}

pub(crate) async fn xfer_cancel(server: &Server, out: &mut Out<'_>, given: &XferCancel) -> Result<()> {
    if let Some(id) = &given.id {
        let said = server.delete(&Kind::Xfer.path(), &json!({"id": id})).await?;
        return out.said(&said);
    }
    let mut body = json!({"queue_name": given.queue_name, "reason": given.reason});
    if given.node_is_gone {
        body["node_is_gone"] = json!(true);
    }
    let answer = server.post("/api/admin/xfer/cancel/v1", &body).await?;
    given_for_good(out, &answer, "Bringing back", "xfer")
}

fn given_for_good(out: &mut Out<'_>, answer: &Value, doing: &str, verb: &str) -> Result<()> {
    if out.json {
        return out.pretty(answer);
    }
    // KumoMTA does not say how many.
    let messages = answer.get("messages").map(|count| format!("{} ", plain(count))).unwrap_or_default();
    out.note(&format!("{doing} {messages}messages goes on by itself. How far it is: kcli {verb}-list"))
}

/// The metadata: of `--data`, then of each `--set`.
fn data(given: &Rebind) -> Result<Map<String, Value>> {
    let mut data = Map::new();
    if let Some(text) = &given.data {
        let value: Value = serde_json::from_str(text).context("--data is not JSON")?;
        let Value::Object(fields) = value else { bail!("--data is {value}: expected an object of strings") };
        for (name, value) in fields {
            if !value.is_string() {
                bail!("--data: {name:?} is {value}: expected a string");
            }
            data.insert(name, value);
        }
    }
    for pair in &given.set {
        let Some((name, value)) = pair.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            bail!("--set {pair:?}: expected KEY=VALUE");
        };
        data.insert(name.to_owned(), json!(value));
    }
    if data.is_empty() && !given.trigger_rebind_event && !given.always_flush {
        bail!("nothing to change: give --set KEY=VALUE, --data, --always-flush or --trigger-rebind-event");
    }
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Only {
        #[command(flatten)]
        rebind: Rebind,
    }

    fn parsed(arguments: &[&str]) -> Result<Value> {
        let words = ["x", "--everything", "--reason", "r"].iter().chain(arguments);
        data(&Only::try_parse_from(words)?.rebind).map(Value::Object)
    }

    #[test]
    fn a_set_wins_over_the_data() {
        let arguments = ["--data", r#"{"queue": "a", "tenant": "t"}"#, "--set", "queue=b=c", "--set", "x="];
        assert_eq!(parsed(&arguments).expect("sound"), json!({"queue": "b=c", "tenant": "t", "x": ""}));
        assert_eq!(parsed(&["--trigger-rebind-event"]).expect("sound"), json!({}));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (arguments, says) in [
            (&["--data", "{"][..], "--data is not JSON"),
            (&["--data", "[1]"], "--data is [1]: expected an object of strings"),
            (&["--data", r#"{"a": 5}"#], "--data: \"a\" is 5: expected a string"),
            (&["--set", "queue"], "--set \"queue\": expected KEY=VALUE"),
            (&["--set", "=x"], "expected KEY=VALUE"),
            (&[], "nothing to change"),
        ] {
            let error = format!("{:#}", parsed(arguments).expect_err(says));
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn a_transfer_is_cancelled_by_its_queue_or_by_its_order() {
        #[derive(Debug, Parser)]
        struct Only {
            #[command(flatten)]
            cancel: XferCancel,
        }
        let parse = |words: &[&str]| Only::try_parse_from(["x"].iter().chain(words)).map_err(|e| e.to_string());
        assert!(parse(&["q", "--reason", "r"]).is_ok() && parse(&["--id", "1"]).is_ok());
        assert!(parse(&["q"]).expect_err("no reason").contains("--reason"));
        assert!(parse(&["q", "--reason", "r", "--id", "1"]).expect_err("both").contains("cannot be used with"));
        assert!(parse(&[]).expect_err("neither").contains("QUEUE_NAME"));
    }
}
