//! What a record becomes: a line of JSON, or what the template of its type makes of it (`per_record` of loggers and hooks).
//!
//! In: the entries of `per_record`, compiled once; then records. Out: lines, each with its line feed. A template sees the
//! record's fields by name, and the whole as `log_record` (KumoMTA behaviour). One that fails is said so and the record goes out
//! as JSON: nothing is lost.

use config::{PerRecord, RecordKey};
use minijinja::value::{Enumerator, Object, Value};
use minijinja::{Environment, context};
use record::{LogRecord, RecordType};
use std::collections::BTreeMap;
use std::sync::Arc;
use thiserror::Error;

/// How the records of one logger or hook are written.
pub struct Lines {
    templates: Environment<'static>,
    has_templates: bool,
}

/// A template that cannot be read.
#[derive(Debug, Error)]
#[error("per_record.{kind}.template: {cause}")]
pub struct TemplateError {
    kind: &'static str,
    cause: String,
}

impl Lines {
    /// As `per_record` says.
    ///
    /// # Errors
    /// A template does not read as Jinja.
    pub fn of(entries: &BTreeMap<RecordKey, PerRecord>) -> Result<Lines, TemplateError> {
        let mut templates = Environment::new();
        minijinja_contrib::add_to_environment(&mut templates);
        templates.set_fuel(Some(FUEL));
        let mut has_templates = false;
        for kind in RecordType::ALL {
            let Some(text) = entry(entries, kind).and_then(|entry| entry.template.clone()) else { continue };
            let kind = kind.as_str();
            let wrong = |e: minijinja::Error| TemplateError { kind, cause: format!("{e:#}") };
            templates.add_template_owned(kind, text).map_err(wrong)?;
            has_templates = true;
        }
        Ok(Lines { templates, has_templates })
    }

    /// Appends what a record becomes. True when that is its JSON.
    pub fn write(&self, record: &LogRecord, out: &mut Vec<u8>) -> bool {
        let rendered = self.rendered(record);
        let is_json = rendered.is_none();
        match rendered {
            Some(text) => {
                out.extend_from_slice(text.as_bytes());
                if !text.ends_with('\n') {
                    out.push(b'\n');
                }
            }
            None => record.write_json_line(out),
        }
        is_json
    }

    fn rendered(&self, record: &LogRecord) -> Option<String> {
        let kind = record.kind.as_str();
        let template = self.has_templates.then(|| self.templates.get_template(kind).ok()).flatten()?;
        let fields = Value::from_serialize(record);
        let headers = fields.get_attr("headers").map(|all| Value::from_object(AnyCase(all))).unwrap_or_default();
        let fields = context! { headers, ..fields };
        match template.render(context! { log_record => fields.clone(), ..fields }) {
            Ok(text) => Some(text),
            Err(error) => {
                tracing::error!("{} {}: per_record.{kind}.template: {error:#}; logged as JSON", record.kind, record.id);
                None
            }
        }
    }
}

/// Header fields, which are found by their names whatever their case: KumoMTA's templates name them in small letters.
#[derive(Debug)]
struct AnyCase(Value);

impl Object for AnyCase {
    fn get_value(self: &Arc<Self>, name: &Value) -> Option<Value> {
        let exact = self.0.get_item(name).ok().filter(|value| !value.is_undefined());
        let folded = || {
            let name = name.as_str()?;
            let is_it = |key: &Value| key.as_str().is_some_and(|key| key.eq_ignore_ascii_case(name));
            self.0.get_item(&self.0.try_iter().ok()?.find(is_it)?).ok()
        };
        exact.or_else(folded)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.0.try_iter().map_or(Enumerator::Empty, |names| Enumerator::Values(names.collect()))
    }
}

/// The entry of `per_record` that rules records of a type.
pub fn entry(entries: &BTreeMap<RecordKey, PerRecord>, kind: RecordType) -> Option<&PerRecord> {
    if entries.is_empty() {
        return None;
    }
    let key = RecordKey::ALL.iter().find(|key| key.as_str() == kind.as_str())?;
    config::per_record(entries, *key)
}

/// Whether records of a type are wanted.
pub fn is_enabled(entries: &BTreeMap<RecordKey, PerRecord>, kind: RecordType) -> bool {
    entry(entries, kind).is_none_or(|entry| entry.enable)
}

/// Steps a template may take.
const FUEL: u64 = 100_000;

#[cfg(test)]
mod tests {
    use super::*;
    use record::{Response, Timestamp};

    fn record(kind: RecordType) -> LogRecord {
        let at = Timestamp::from_unix_seconds(1_790_000_000);
        let mut record = LogRecord::new(kind, at, at, Response::new(250, None, "ok"));
        record.recipient = record::Recipients::from("b@x.test".to_owned());
        record
    }

    fn line(lines: &Lines, kind: RecordType) -> String {
        let mut out = b"before;".to_vec();
        lines.write(&record(kind), &mut out);
        String::from_utf8(out).expect("text").split_off("before;".len())
    }

    #[test]
    fn a_type_is_written_by_its_own_template_or_else_by_that_of_any() {
        let with = |template: &str| PerRecord { template: Some(template.to_owned()), ..PerRecord::default() };
        let entries = BTreeMap::from([
            (RecordKey::Delivery, with("{{ recipient }} {{ response.code }} {{ log_record.type }}")),
            (RecordKey::Bounce, PerRecord::default()),
            (RecordKey::Reception, with("{{ 1 // 0 }}")),
            (RecordKey::Any, with("{{ type | lower }}\n")),
        ]);
        let lines = Lines::of(&entries).expect("they read");
        assert_eq!(line(&lines, RecordType::Delivery), "b@x.test 250 Delivery\n");
        assert_eq!(line(&lines, RecordType::Expiration), "expiration\n");
        let json = |kind| {
            let mut out = Vec::new();
            record(kind).write_json_line(&mut out);
            String::from_utf8(out).expect("text")
        };
        assert_eq!(line(&lines, RecordType::Bounce), json(RecordType::Bounce), "its entry has none");
        assert_eq!(line(&lines, RecordType::Reception), json(RecordType::Reception), "nothing is lost");
        let headers =
            "{{ headers['x-one'] }} {{ headers['X-One'] }} {{ log_record.headers['X-ONE'] }} {{ headers.none }}";
        let lines = Lines::of(&BTreeMap::from([(RecordKey::Any, with(headers))])).expect("they read");
        let mut with_headers = record(RecordType::Bounce);
        with_headers.headers = serde_json::json!({"X-One": 1}).as_object().expect("an object").clone();
        let mut out = Vec::new();
        lines.write(&with_headers, &mut out);
        assert_eq!(String::from_utf8_lossy(&out), "1 1 1 \n");
        let wrong = BTreeMap::from([(RecordKey::OOB, with("{{ x"))]);
        let error = Lines::of(&wrong).err().expect("does not read").to_string();
        assert!(error.starts_with("per_record.OOB.template: syntax error"), "{error}");
    }
}
