//! Events of a trace as lines for people.
//!
//! Owns [`Lines`]. In: events as the server sends them. Out: for each some lines `[session] +seconds what`: `<-` was read from
//! the peer, `->` was written to it, `==` is what the server thought. Seconds count from the first event of the session that was
//! seen. An event of a kind that is not known is shown as it is. Colours are ANSI's; without them nothing but text.

use crate::output::{plain, shown};
use crate::times::parsed;
use serde_json::Value;
use std::collections::HashMap;
use time::OffsetDateTime;

/// Makes lines, and remembers when sessions began.
pub(crate) struct Lines {
    colors: bool,
    began: HashMap<String, OffsetDateTime>,
}

/// Which session an event is of; nothing when it is about the trace itself.
pub(crate) fn session(event: &Value) -> Option<String> {
    let meta = event["conn_meta"].as_object().filter(|meta| !meta.is_empty())?;
    let named = SESSION_KEYS.iter().find_map(|key| meta.get(*key).and_then(Value::as_str));
    Some(named.map_or_else(|| event["conn_meta"].to_string(), str::to_owned))
}

impl Lines {
    /// Knows no session yet.
    pub fn new(colors: bool) -> Lines {
        Lines { colors, began: HashMap::new() }
    }

    /// The lines of an event.
    pub fn of(&mut self, event: &Value) -> Vec<String> {
        let session = session(event);
        let since = parsed(&plain(&event["when"])).zip(session.as_deref()).map(|(when, session)| {
            if self.began.len() >= SESSIONS_MAX {
                // Somebody traces a busy server for hours: times begin anew.
                self.began.clear();
            }
            let began = *self.began.entry(session.to_owned()).or_insert(when);
            (when - began).as_seconds_f64()
        });
        let payload = &event["payload"];
        if let (Some("Closed"), Some(session)) = (payload.as_str(), &session) {
            self.began.remove(session);
        }
        let head =
            format!("[{}] +{:.3}s", session.as_deref().map_or("trace".to_owned(), shown), since.unwrap_or_default());
        let (mark, lines) = told(payload);
        let color = match mark {
            Mark::Read => GREEN,
            Mark::Written => BLUE,
            Mark::Thought => YELLOW,
        };
        let lines = lines.into_iter().map(|line| match self.colors {
            true => format!("{DIM}{head}{PLAIN} {color}{} {line}{PLAIN}", mark.text()),
            false => format!("{head} {} {line}", mark.text()),
        });
        lines.collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Read,
    Written,
    Thought,
}

impl Mark {
    fn text(self) -> &'static str {
        match self {
            Mark::Read => "<-",
            Mark::Written => "->",
            Mark::Thought => "==",
        }
    }
}

/// What a payload says.
fn told(payload: &Value) -> (Mark, Vec<String>) {
    let kind = payload.as_object().and_then(|fields| fields.iter().next());
    let Some((kind, what)) = kind else { return (Mark::Thought, vec![plain(payload)]) };
    match kind.as_str() {
        "Read" => (Mark::Read, spoken(what)),
        "Write" => (Mark::Written, spoken(what)),
        "AbbreviatedRead" => (Mark::Read, abbreviated(what)),
        "AbbreviatedWrite" => (Mark::Written, abbreviated(what)),
        "Diagnostic" => (Mark::Thought, vec![format!("{}: {}", plain(&what["level"]), plain(&what["message"]))]),
        "Callback" => {
            let came = match &what["error"] {
                Value::Null => plain(&what["result"]),
                error => format!("error: {}", plain(error)),
            };
            (Mark::Thought, vec![format!("{}: {came}", plain(&what["name"]))])
        }
        "MessageDisposition" => (Mark::Thought, vec![disposition(what)]),
        _ => (Mark::Thought, vec![shown(&format!("{kind} {what}"))]),
    }
}

fn disposition(what: &Value) -> String {
    let field = |name: &str| plain(&what[name]);
    let becomes = match &what["will_enqueue"] {
        Value::Bool(false) => "is not queued",
        _ => "is queued",
    };
    format!(
        "message {} from <{}> to <{}> {becomes}, queue {}, meta {}",
        field("id"),
        field("sender"),
        field("recipient"),
        field("queue"),
        shown(&what["meta"].to_string())
    )
}

/// Lines of SMTP, without their ends.
fn spoken(text: &Value) -> Vec<String> {
    text.as_str().unwrap_or_default().lines().map(shown).collect()
}

fn abbreviated(what: &Value) -> Vec<String> {
    let mut lines = spoken(&what["snippet"]);
    lines.push(format!("... {} octets in all", plain(&what["len"])));
    lines
}

/// What tells sessions apart: a session's id, else the client's address with its port.
const SESSION_KEYS: [&str; 3] = ["id", "session_id", "received_from"];
/// Sessions whose beginning is remembered.
const SESSIONS_MAX: usize = 100_000;
const GREEN: &str = "\u{1b}[32m";
const BLUE: &str = "\u{1b}[34m";
const YELLOW: &str = "\u{1b}[33m";
const DIM: &str = "\u{1b}[2m";
const PLAIN: &str = "\u{1b}[0m";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn event(second: u32, payload: Value) -> Value {
        json!({"conn_meta": {"received_from": "192.0.2.1:5000"}, "payload": payload, "when": format!("2026-11-24T22:00:{second:02}.5Z")})
    }

    #[test]
    fn a_session_reads_like_a_session() {
        let mut lines = Lines::new(false);
        let mut told = |second, payload| lines.of(&event(second, payload));
        assert_eq!(told(1, json!("Connected")), ["[192.0.2.1:5000] +0.000s == Connected"]);
        assert_eq!(
            told(2, json!({"Write": "220-a\r\n220 b\r\n"})),
            ["[192.0.2.1:5000] +1.000s -> 220-a", "[192.0.2.1:5000] +1.000s -> 220 b"]
        );
        assert_eq!(told(3, json!({"Read": "EHLO \u{1b}[31m\r\n"})), ["[192.0.2.1:5000] +2.000s <- EHLO \\u{1b}[31m"]);
        assert_eq!(
            told(3, json!({"AbbreviatedRead": {"snippet": "Subject: x", "len": 1000}})),
            ["[192.0.2.1:5000] +2.000s <- Subject: x", "[192.0.2.1:5000] +2.000s <- ... 1000 octets in all"]
        );
        assert_eq!(
            told(3, json!({"Callback": {"name": "smtp_server_ehlo", "result": null, "error": "boom"}})),
            ["[192.0.2.1:5000] +2.000s == smtp_server_ehlo: error: boom"]
        );
        assert_eq!(told(4, json!({"Strange": 1})), ["[192.0.2.1:5000] +3.000s == Strange 1"]);
        told(5, json!("Closed"));
        assert_eq!(told(9, json!("Connected")), ["[192.0.2.1:5000] +0.000s == Connected"], "another one from there");
    }

    #[test]
    fn colours_are_there_when_they_are_wanted() {
        let line = Lines::new(true).of(&event(1, json!({"Read": "QUIT"}))).remove(0);
        assert!(line.contains("\u{1b}[32m<- QUIT\u{1b}[0m"), "{line:?}");
        assert!(!Lines::new(false).of(&event(1, json!({"Read": "QUIT"})))[0].contains('\u{1b}'));
    }

    #[test]
    fn what_is_about_the_trace_has_no_session() {
        let lag =
            json!({"conn_meta": {}, "payload": {"Diagnostic": {"level": "ERROR", "message": "lagged"}}, "when": "x"});
        assert_eq!(session(&lag), None);
        assert_eq!(Lines::new(false).of(&lag), ["[trace] +0.000s == ERROR: lagged"]);
    }
}
