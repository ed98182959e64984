//! What a logger keeps of the message or connection a record is about: metadata and header fields, by name or by prefix.

use message::{Message, Meta, Resident};
use mime::HeaderBlock;
use record::LogRecord;
use serde_json::{Map, Value};
use std::collections::HashMap;

/// What a record is about.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub meta: &'a Meta,
    /// The header; empty where there is no message.
    pub head: &'a [u8],
    /// The message, where there is one.
    pub message: Option<&'a Message>,
}

impl<'a> Subject<'a> {
    /// A message that is in memory.
    pub fn of(message: &'a Message, resident: &'a Resident) -> Subject<'a> {
        Subject { meta: &resident.meta, head: &resident.head, message: Some(message) }
    }
}

/// Puts into the record what is wanted of its subject, in place of what another logger wanted.
pub(crate) fn select(meta: &[String], headers: &[String], subject: Subject<'_>, record: &mut LogRecord) {
    record.meta.clear();
    copy_meta(subject.meta, meta, &mut record.meta);
    record.headers.clear();
    if !headers.is_empty() {
        copy_headers(subject.head, headers, &mut record.headers);
    }
}

/// Exact names, or a prefix before a trailing `*`; case counts.
pub(crate) fn copy_meta(meta: &Meta, wanted: &[String], out: &mut Map<String, Value>) {
    for wanted in wanted {
        match wanted.strip_suffix('*') {
            Some(prefix) => {
                let matching = meta.iter().filter(|(name, value)| name.starts_with(prefix) && !value.is_null());
                out.extend(matching.map(|(name, value)| (name.clone(), value.clone())));
            }
            None => out.extend(meta.get(wanted).map(|value| (wanted.clone(), value.clone()))),
        }
    }
}

/// As [`copy_meta`], but case does not count: a name is written as the first field has it, and several fields of a name are a
/// list (KumoMTA behaviour).
fn copy_headers(head: &[u8], wanted: &[String], out: &mut Map<String, Value>) {
    let block = HeaderBlock::parse(head);
    // As `out` has them, by their names in lower case: a message has ten thousand fields, if a stranger likes.
    let mut known: HashMap<String, String> = HashMap::new();
    for field in block.view(head).iter() {
        let name = field.name_text();
        if !wanted.iter().any(|wanted| is_wanted(&name, wanted)) {
            continue;
        }
        let value = Value::String(field.decoded());
        let first = known.entry(name.to_ascii_lowercase()).or_insert_with(|| name.to_string());
        match out.get_mut(first) {
            Some(Value::Array(several)) => several.push(value),
            Some(one) => *one = Value::Array(vec![one.take(), value]),
            None => _ = out.insert(first.clone(), value),
        }
    }
}

fn is_wanted(name: &str, wanted: &str) -> bool {
    match wanted.strip_suffix('*') {
        Some(prefix) => name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix)),
        None => name.eq_ignore_ascii_case(wanted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{RecordType, Response, Timestamp};
    use serde_json::json;

    #[test]
    fn each_logger_keeps_its_own() {
        let at = Timestamp::from_unix_seconds(0);
        let mut record = LogRecord::new(RecordType::Delivery, at, at, Response::new(250, None, ""));
        let mut meta = Meta::new();
        meta.set("tenant", "a");
        meta.set("x_one", 1);
        meta.set("x_none", Value::Null);
        let head = b"subject: =?utf-8?q?gr=C3=BCn?=\r\nX-A: 1\r\nx-b: 2\r\nx-a: 3\r\nX-a: 4\r\nTo: b\r\n\r\n";
        let subject = Subject { meta: &meta, head, message: None };
        let names = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        select(&names(&["x_*", "Tenant"]), &names(&["Subject", "X-*"]), subject, &mut record);
        assert_eq!(Value::Object(record.meta.clone()), json!({"x_one": 1}));
        let headers = json!({"subject": "gr\u{fc}n", "X-A": ["1", "3", "4"], "x-b": "2"});
        assert_eq!(Value::Object(record.headers.clone()), headers);
        select(&names(&["tenant"]), &[], subject, &mut record);
        assert_eq!(Value::Object(record.meta), json!({"tenant": "a"}));
        assert!(record.headers.is_empty());
    }
}
