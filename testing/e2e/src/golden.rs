//! A log record held against the one in a file: every field, in its order.
//!
//! What differs from run to run stands in the file as a word in angle brackets, and is held to its form instead ([`Run::masked`]): a
//! time must lie within the run, an id must be one, an address must be one that the test knows. In: a record as the log has it.
//! Out: what the file is to say, or the field that is wrong. Which record belongs to which file is for the test to say.

use serde_json::{Map, Value};
use std::path::Path;
use std::time::SystemTime;
use time::OffsetDateTime;
use time::format_description::well_known::{Rfc2822, Rfc3339};

/// What is known of a run of the program.
#[derive(Debug)]
pub struct Run {
    begun: OffsetDateTime,
    /// What stands in the log (addresses, ports included), and the word for it.
    known: Vec<(String, String)>,
}

impl Run {
    /// One that begins now.
    pub fn begin() -> Run {
        Run { begun: SystemTime::now().into(), known: Vec::new() }
    }

    /// Where `what` stands in a text, `word` is to stand.
    pub fn knows(&mut self, what: impl ToString, word: &str) {
        self.known.push((what.to_string(), word.to_owned()));
    }

    /// The record with words for what differs from run to run.
    ///
    /// # Errors
    /// The field that is not of its form, and what was expected.
    pub fn masked(&self, record: &Value) -> Result<Value, String> {
        let of = |name: &str| self.time(name, &record[name]);
        let (event, created) = (of("event_time")?, of("created_time")?);
        let is_ours = |time: &OffsetDateTime| *time >= self.begun && *time <= OffsetDateTime::from(SystemTime::now());
        if !is_ours(&created) {
            return Err(format!("created_time: {created}: expected a time of this run"));
        }
        if is_ours(&event) && event < created {
            return Err(format!("event_time: {event}: expected none before created_time, {created}"));
        }
        let fields = record.as_object().ok_or("expected an object")?;
        let mut masked = Map::new();
        for (name, value) in fields {
            let value = match name.as_str() {
                // What a report says of time is in its text.
                "timestamp" | "event_time" if !is_ours(&event) => value.clone(),
                "timestamp" => seconds(name, value, event, "<seconds of event_time>")?,
                "created" => seconds(name, value, created, "<seconds of created_time>")?,
                "event_time" => "<time>".into(),
                // A refusal is about nothing that was there before it.
                "created_time" if record["type"] == "Rejection" && created != event => {
                    return Err(format!("created_time: {created}: expected event_time, {event}"));
                }
                "created_time" => "<time>".into(),
                "id" if value != "" => text(name, value, is_id, "<id>", "32 hexadecimal digits")?,
                "session_id" => text(name, value, is_uuid, "<uuid>", "a UUID in lower case")?,
                "size" if *value != 0 => size(value)?,
                _ => self.masked_below(name, value, event)?,
            };
            masked.insert(name.clone(), value);
        }
        Ok(Value::Object(masked))
    }

    fn masked_below(&self, path: &str, value: &Value, event: OffsetDateTime) -> Result<Value, String> {
        Ok(match value {
            Value::Object(members) => {
                let mut masked = Map::new();
                for (name, member) in members {
                    masked.insert(name.clone(), self.masked_below(&format!("{path}.{name}"), member, event)?);
                }
                Value::Object(masked)
            }
            Value::Array(items) => {
                let masked =
                    items.iter().enumerate().map(|(at, item)| self.masked_below(&format!("{path}.{at}"), item, event));
                Value::Array(masked.collect::<Result<_, _>>()?)
            }
            Value::String(words) if path == "source_address.address" => {
                let is_own = words
                    .strip_prefix("127.0.0.1:")
                    .and_then(|port| port.parse::<u16>().ok())
                    .is_some_and(|port| port > 0);
                is_own.then(|| "<127.0.0.1:port>".into()).ok_or(format!("{path}: {words}: expected 127.0.0.1:port"))?
            }
            Value::String(words) if path == "response.content" && words.contains("Next due in ") => {
                next_due(words, event)?.into()
            }
            Value::String(words) if path == "response.content" && words.starts_with("new id is ") => {
                let id = words.trim_start_matches("new id is ").into();
                format!(
                    "new id is {}",
                    text(path, &id, is_id, "<id>", "32 hexadecimal digits")?.as_str().unwrap_or_default()
                )
                .into()
            }
            Value::String(words) if path == "response.content" && words.starts_with("wrote to ") => file(words)?.into(),
            Value::String(words) => {
                let masked = self.known.iter().fold(words.clone(), |words, (what, word)| words.replace(what, word));
                masked.into()
            }
            other => other.clone(),
        })
    }

    fn time(&self, name: &str, value: &Value) -> Result<OffsetDateTime, String> {
        let wrong = || format!("{name}: {value}: expected a time of RFC 3339 in UTC, that ends in Z");
        let words = value.as_str().filter(|words| words.ends_with('Z')).ok_or_else(wrong)?;
        OffsetDateTime::parse(words, &Rfc3339).map_err(|_| wrong())
    }
}

/// The first field in which two records differ, and how; none when they are the same, order included.
pub fn difference(golden: &Value, found: &Value) -> Option<String> {
    differs("", golden, found)
}

fn differs(path: &str, golden: &Value, found: &Value) -> Option<String> {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    let (wanted, there) = match (golden, found) {
        (Value::Object(wanted), Value::Object(there)) => (wanted, there),
        (Value::Array(wanted), Value::Array(there)) if wanted.len() == there.len() => {
            let mut pairs = wanted.iter().zip(there).enumerate();
            return pairs.find_map(|(at, (wanted, there))| differs(&below(&at.to_string()), wanted, there));
        }
        _ => return (golden != found).then(|| format!("{path}: {found}: expected {golden}")),
    };
    if let Some(name) = wanted.keys().find(|name| !there.contains_key(*name)) {
        return Some(format!("{}: missing: expected {}", below(name), wanted[name]));
    }
    if let Some(name) = there.keys().find(|name| !wanted.contains_key(*name)) {
        return Some(format!("{}: {}: expected no such field", below(name), there[name]));
    }
    if let Some((wanted, there)) = wanted.keys().zip(there.keys()).find(|(wanted, there)| wanted != there) {
        return Some(format!("{}: stands where {} is expected", below(there), below(wanted)));
    }
    wanted.iter().find_map(|(name, wanted)| differs(&below(name), wanted, &there[name]))
}

fn text(name: &str, value: &Value, is_so: fn(&str) -> bool, word: &str, expected: &str) -> Result<Value, String> {
    match value.as_str().is_some_and(is_so) {
        true => Ok(word.into()),
        false => Err(format!("{name}: {value}: expected {expected}")),
    }
}

fn is_id(words: &str) -> bool {
    words.len() == 32 && words.bytes().all(is_digit)
}

fn is_uuid(words: &str) -> bool {
    let lengths: Vec<usize> = words.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12] && words.bytes().all(|octet| octet == b'-' || is_digit(octet))
}

fn is_digit(octet: u8) -> bool {
    matches!(octet, b'0'..=b'9' | b'a'..=b'f')
}

fn seconds(name: &str, value: &Value, of: OffsetDateTime, word: &str) -> Result<Value, String> {
    match value.as_i64() == Some(of.unix_timestamp()) {
        true => Ok(word.into()),
        false => Err(format!("{name}: {value}: expected {}", of.unix_timestamp())),
    }
}

/// With what the server put before it, which has dates and addresses in it.
fn size(value: &Value) -> Result<Value, String> {
    match value.as_u64().is_some_and(|size| (100..4000).contains(&size)) {
        true => Ok("<octets>".into()),
        false => Err(format!("size: {value}: expected about what the test sent")),
    }
}

/// `wrote to FILE`, which is there.
fn file(words: &str) -> Result<String, String> {
    match Path::new(words.trim_start_matches("wrote to ")).is_file() {
        true => Ok("wrote to <file>".to_owned()),
        false => Err(format!("response.content: {words}: expected a file that is there")),
    }
}

/// `... Next due in 12s at DATE`, or another time between instead of seconds: the two agree.
fn next_due(words: &str, event: OffsetDateTime) -> Result<String, String> {
    let wrong = |why: &str| format!("response.content: {words}: {why}");
    let (before, rest) = words.split_once("Next due in ").ok_or_else(|| wrong("expected when it is due"))?;
    let (wait, at) = rest.split_once("s at ").ok_or_else(|| wrong("expected `Next due in SECONDSs at DATE`"))?;
    let wait: i64 = wait.parse().map_err(|_| wrong("expected seconds"))?;
    let due = OffsetDateTime::parse(at, &Rfc2822).map_err(|_| wrong("expected a date of RFC 5322"))?;
    // Both are cut to seconds.
    match (due - event).whole_seconds().abs_diff(wait) <= 1 {
        true => Ok(format!("{before}Next due in <seconds>s at <date>")),
        false => Err(wrong("expected that wait and date agree")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn record(event: &str, created: &str) -> Value {
        let unix = |words: &str| OffsetDateTime::parse(words, &Rfc3339).expect("a time").unix_timestamp();
        json!({
            "id": "0123456789abcdef0123456789abcdef", "size": 200,
            "timestamp": unix(event), "event_time": event, "created": unix(created), "created_time": created,
            "peer_address": {"addr": "127.0.0.1:25"},
        })
    }

    fn now() -> String {
        OffsetDateTime::from(SystemTime::now()).format(&Rfc3339).expect("a time")
    }

    #[test]
    fn what_has_its_form_becomes_a_word() {
        let mut run = Run::begin();
        run.knows("127.0.0.1:25", "<client>");
        let now = now();
        let masked = run.masked(&record(&now, &now)).expect("all is well");
        assert_eq!((&masked["id"], &masked["peer_address"]["addr"]), (&json!("<id>"), &json!("<client>")));
        assert_eq!((&masked["event_time"], &masked["created_time"]), (&json!("<time>"), &json!("<time>")));
        let of_old = run.masked(&record("2026-01-01T00:00:00Z", &now)).expect("all is well");
        assert_eq!(of_old["event_time"], "2026-01-01T00:00:00Z");
    }

    #[test]
    fn what_has_not_is_named() {
        let (run, now) = (Run::begin(), now());
        let wrong = |name: &str, value: Value| {
            let mut record = record(&now, &now);
            record[name] = value;
            run.masked(&record).expect_err("it is wrong")
        };
        for (name, value) in [
            ("id", json!("0123456789ABCDEF0123456789ABCDEF")),
            ("size", json!(5000)),
            ("timestamp", json!(1)),
            ("event_time", json!("2026-01-01T00:00:00+01:00")),
            ("created_time", json!("2026-01-01T00:00:00Z")),
            ("session_id", json!("0123456789abcdef0123456789abcdef")),
            ("source_address", json!({"address": "127.0.0.2:5"})),
            ("response", json!({"content": "Context: x. Next due in 5s at Sun, 01 Jan 2040 00:00:00 +0000"})),
            ("response", json!({"content": "new id is 5"})),
            ("response", json!({"content": "wrote to /nowhere/at/all"})),
        ] {
            let why = wrong(name, value);
            assert!(why.starts_with(name), "{why}");
        }
        let mut refusal = record(&now, &now);
        refusal["type"] = "Rejection".into();
        assert!(run.masked(&refusal).is_ok());
        // Of the clock's next step.
        let later = std::iter::repeat_with(self::now).find(|later| *later != now).expect("time goes on");
        let mut refusal = record(&later, &now);
        refusal["type"] = "Rejection".into();
        assert!(run.masked(&refusal).expect_err("it is wrong").starts_with("created_time"));
    }

    #[test]
    fn the_field_that_differs_is_named() {
        let golden = json!({"a": {"b": [1, 2], "c": null}, "d": "x"});
        for (found, named) in [
            (json!({"a": {"b": [1, 3], "c": null}, "d": "x"}), "a.b.1: 3: expected 2"),
            (json!({"a": {"b": [1], "c": null}, "d": "x"}), "a.b: [1]: expected [1,2]"),
            (json!({"a": {"b": [1, 2]}, "d": "x"}), "a.c: missing: expected null"),
            (json!({"a": {"b": [1, 2], "c": null, "e": 1}, "d": "x"}), "a.e: 1: expected no such field"),
            (json!({"a": {"c": null, "b": [1, 2]}, "d": "x"}), "a.c: stands where a.b is expected"),
            (json!({"a": {"b": [1, 2], "c": null}, "d": 5}), "d: 5: expected \"x\""),
        ] {
            assert_eq!(difference(&golden, &found).as_deref(), Some(named));
        }
        assert_eq!(difference(&golden, &golden), None);
    }
}
