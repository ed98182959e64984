//! `trace-smtp-server` and `trace-smtp-client`, or `trace server` and `trace client`: sessions as they happen.
//!
//! Owns the options of both. In: what to look at; the server then sends an event a frame over a websocket until it or the person
//! has enough. Out: lines of text for people ([`crate::trace_text`]), or with `--json` each event as the server sent it, on one
//! line. What the server cannot filter is filtered here: only sessions that begin now, only one session.

use crate::output::Out;
use crate::server::Server;
use crate::trace_text::{Lines, session};
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::io::IsTerminal;

/// `trace`
#[derive(Debug, Subcommand)]
pub(crate) enum Of {
    /// Sessions of clients.
    Server(OfServer),
    /// Sessions to other servers.
    Client(Box<OfClient>),
}

/// `trace-smtp-server`
#[derive(Debug, Args)]
pub(crate) struct OfServer {
    /// Clients of this address or block; may be repeated.
    #[arg(long, value_name = "CIDR", value_parser = cidr)]
    source: Vec<String>,
    #[command(flatten)]
    how: How,
}

/// `trace-smtp-client`
#[derive(Debug, Args)]
pub(crate) struct OfClient {
    /// From this address or block of ours.
    #[arg(long, value_name = "CIDR", value_parser = cidr, help_heading = HEADING)]
    source: Vec<String>,
    /// To this address or block.
    #[arg(long, value_name = "CIDR", value_parser = cidr, help_heading = HEADING)]
    mx_addr: Vec<String>,
    /// To the host of this name.
    #[arg(long, help_heading = HEADING)]
    mx_host: Vec<String>,
    /// Mail to this domain.
    #[arg(long, help_heading = HEADING)]
    domain: Vec<String>,
    /// Mail that is routed by way of this domain.
    #[arg(long, help_heading = HEADING)]
    routing_domain: Vec<String>,
    /// Mail of this campaign.
    #[arg(long, help_heading = HEADING)]
    campaign: Vec<String>,
    /// Mail of this tenant.
    #[arg(long, help_heading = HEADING)]
    tenant: Vec<String>,
    /// Of this egress pool.
    #[arg(long, help_heading = HEADING)]
    egress_pool: Vec<String>,
    /// Of this egress source.
    #[arg(long, help_heading = HEADING)]
    egress_source: Vec<String>,
    /// Mail from this sender.
    #[arg(long, help_heading = HEADING)]
    mail_from: Vec<String>,
    /// Mail to this recipient.
    #[arg(long, help_heading = HEADING)]
    rcpt_to: Vec<String>,
    /// Of this ready queue.
    #[arg(long, help_heading = HEADING)]
    ready_queue: Vec<String>,
    #[command(flatten)]
    how: How,
}

/// How much is shown, and how.
#[derive(Clone, Debug, Args)]
struct How {
    /// Colours: on a terminal, always, never.
    #[arg(long, value_enum, default_value_t = Color::Tty)]
    color: Color,
    /// Only sessions that begin from now on.
    #[arg(long)]
    only_new: bool,
    /// Only the first session that is seen; ends with it.
    #[arg(long)]
    only_one: bool,
    /// Leave out the bulk of messages.
    #[arg(long)]
    terse: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Color {
    Tty,
    Yes,
    No,
}

pub(crate) async fn server(server: &Server, out: &mut Out<'_>, given: &OfServer) -> Result<()> {
    let request = json!({"source_addr": or_null(&given.source), "terse": given.how.terse});
    follow(server, out, "/api/admin/trace-smtp-server/v1", &request, &given.how).await
}

pub(crate) async fn client(server: &Server, out: &mut Out<'_>, given: &OfClient) -> Result<()> {
    let request = of_client(given);
    follow(server, out, "/api/admin/trace-smtp-client/v1", &request, &given.how).await
}

/// Empty lists are said too: a server may ask for every field.
fn of_client(given: &OfClient) -> Value {
    json!({
        "campaign": given.campaign,
        "tenant": given.tenant,
        "domain": given.domain,
        "routing_domain": given.routing_domain,
        "egress_pool": given.egress_pool,
        "egress_source": given.egress_source,
        "mail_from": given.mail_from,
        "rcpt_to": given.rcpt_to,
        "source_addr": or_null(&given.source),
        "mx_host": given.mx_host,
        "ready_queue": given.ready_queue,
        "mx_addr": or_null(&given.mx_addr),
        "terse": given.how.terse,
    })
}

async fn follow(server: &Server, out: &mut Out<'_>, path: &str, request: &Value, how: &How) -> Result<()> {
    let mut socket = server.listen(path, request).await?;
    out.note("Tracing; Ctrl-C ends it.")?;
    let colors = match how.color {
        Color::Tty => std::io::stdout().is_terminal(),
        Color::Yes => true,
        Color::No => false,
    };
    let mut lines = Lines::new(colors);
    let mut sessions = Sessions::new(how.only_new, how.only_one);
    while let Some(frame) = socket.recv().await.context("the trace broke off")? {
        let event: Value = serde_json::from_slice(&frame).context("the server sent an event that is not JSON")?;
        let shown = sessions.judge(&event);
        if shown != Shown::No {
            match out.json {
                true => out.line(&event.to_string())?,
                false => lines.of(&event).iter().try_for_each(|line| out.line(line))?,
            }
            // It is live: nobody waits for a buffer to fill.
            out.out.flush()?;
        }
        if shown == Shown::Last {
            return Ok(());
        }
    }
    bail!("the server ended the trace")
}

/// Which sessions are shown.
struct Sessions {
    only_new: bool,
    only_one: bool,
    /// Those that began since.
    new: HashSet<String>,
    one: Option<String>,
}

/// Whether an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    No,
    Yes,
    /// And nothing after it.
    Last,
}

impl Sessions {
    fn new(only_new: bool, only_one: bool) -> Sessions {
        Sessions { only_new, only_one, new: HashSet::new(), one: None }
    }

    fn judge(&mut self, event: &Value) -> Shown {
        // What is about no session is about the trace itself.
        let Some(session) = session(event) else { return Shown::Yes };
        let payload = event["payload"].as_str().unwrap_or_default();
        let is_over = payload == "Closed";
        if self.only_new {
            if BEGINNINGS.contains(&payload) {
                self.new.insert(session.clone());
            }
            if !self.new.contains(&session) {
                return Shown::No;
            }
            if is_over {
                self.new.remove(&session);
            }
        }
        if !self.only_one {
            return Shown::Yes;
        }
        match (self.one.get_or_insert_with(|| session.clone()) == &session, is_over) {
            (false, _) => Shown::No,
            (true, false) => Shown::Yes,
            (true, true) => Shown::Last,
        }
    }
}

fn or_null(all: &[String]) -> Value {
    if all.is_empty() { Value::Null } else { json!(all) }
}

/// An address, or a block of them; as it was given.
fn cidr(text: &str) -> Result<String, String> {
    let is_sound = text.parse::<ipnet::IpNet>().is_ok() || text.parse::<std::net::IpAddr>().is_ok();
    is_sound
        .then(|| text.to_owned())
        .ok_or_else(|| "expected an address or a block: 192.0.2.0/24, 2001:db8::/32".to_owned())
}

/// What a session begins with, in and out.
const BEGINNINGS: [&str; 2] = ["Connected", "BeginSession"];
const HEADING: &str = "What to trace (each may be repeated)";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Client {
        #[command(flatten)]
        options: OfClient,
    }

    fn event(id: &str, payload: Value) -> Value {
        json!({"conn_meta": {"id": id}, "payload": payload, "when": "2026-11-24T22:00:00Z"})
    }

    #[test]
    fn a_request_says_every_field() {
        let words = ["x", "--domain", "a.test", "--domain", "b.test", "--mx-addr", "192.0.2.0/24", "--terse"];
        let request = of_client(&Client::try_parse_from(words).expect("sound").options);
        assert_eq!((&request["domain"], &request["terse"]), (&json!(["a.test", "b.test"]), &json!(true)));
        assert_eq!((&request["mx_addr"], &request["source_addr"]), (&json!(["192.0.2.0/24"]), &Value::Null));
        assert_eq!((&request["tenant"], request.as_object().map(|r| r.len())), (&json!([]), Some(13)));
        let error = Client::try_parse_from(["x", "--source", "here"]).expect_err("refused").to_string();
        assert!(error.contains("'here'") && error.contains("192.0.2.0/24"), "{error}");
    }

    #[test]
    fn only_new_waits_for_a_beginning() {
        let mut sessions = Sessions::new(true, false);
        for (id, payload, shown) in [
            ("a", json!({"Read": "x"}), Shown::No),
            ("b", json!("Connected"), Shown::Yes),
            ("b", json!({"Read": "x"}), Shown::Yes),
            ("a", json!("Closed"), Shown::No),
            ("c", json!("BeginSession"), Shown::Yes),
            ("b", json!("Closed"), Shown::Yes),
            ("b", json!({"Read": "x"}), Shown::No),
        ] {
            assert_eq!(sessions.judge(&event(id, payload.clone())), shown, "{id} {payload}");
        }
    }

    #[test]
    fn only_one_ends_with_its_session() {
        let mut sessions = Sessions::new(true, true);
        let lag =
            json!({"conn_meta": null, "payload": {"Diagnostic": {"level": "ERROR", "message": "lagged"}}, "when": ""});
        for (event, shown) in [
            (event("a", json!({"Read": "x"})), Shown::No),
            (event("b", json!("Connected")), Shown::Yes),
            (event("c", json!("Connected")), Shown::No),
            (lag, Shown::Yes),
            (event("c", json!("Closed")), Shown::No),
            (event("b", json!("Closed")), Shown::Last),
        ] {
            assert_eq!(sessions.judge(&event), shown, "{event}");
        }
    }
}
