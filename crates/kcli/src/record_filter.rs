//! Which log records are wanted.
//!
//! Owns [`Filter`], the options, and [`Compiled`]. Options of one kind are alternatives, those of different kinds must all agree.
//! Names are compared in any case; `*` in one stands for any text. A record that lacks a field does not match a filter for it.
//! Fails on a type that no record has.

use crate::criteria::plain_id;
use anyhow::{Result, bail};
use clap::Args;
use record::RecordType;
use serde_json::Value;

/// Which records are printed; all without any of these.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Filter {
    /// Of these types: Delivery,Bounce. May be repeated.
    #[arg(long = "type", value_name = "TYPE,...", value_delimiter = ',', help_heading = HEADING)]
    types: Vec<String>,
    /// To this address; * stands for any text: *@example.com. May be repeated.
    #[arg(long, value_name = "ADDRESS", help_heading = HEADING)]
    recipient: Vec<String>,
    /// From this address, likewise.
    #[arg(long, value_name = "ADDRESS", help_heading = HEADING)]
    sender: Vec<String>,
    /// Of this scheduled queue, likewise.
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    queue: Vec<String>,
    /// About the message of this id. May be repeated.
    #[arg(long, value_name = "ID", help_heading = HEADING)]
    id: Vec<String>,
}

/// The same, ready to be asked.
pub(crate) struct Compiled(Filter);

impl Filter {
    /// Checks it.
    ///
    /// # Errors
    /// A type that no record has.
    pub fn compiled(&self) -> Result<Compiled> {
        for given in &self.types {
            if !RecordType::ALL.iter().any(|known| known.as_str().eq_ignore_ascii_case(given)) {
                let known: Vec<&str> = RecordType::ALL.iter().map(|known| known.as_str()).collect();
                bail!("--type {given:?}: expected one of {}", known.join(", "));
            }
        }
        let mut filter = self.clone();
        filter.id.iter_mut().for_each(|id| *id = plain_id(id));
        Ok(Compiled(filter))
    }
}

impl Compiled {
    /// Whether it wants everything.
    pub fn is_empty(&self) -> bool {
        let Filter { types, recipient, sender, queue, id } = &self.0;
        [types, recipient, sender, queue, id].iter().all(|all| all.is_empty())
    }

    /// Whether it wants this record.
    pub fn wants(&self, record: &Value) -> bool {
        let Filter { types, recipient, sender, queue, id } = &self.0;
        let is_id = |wanted: &str, text: &str| plain_id(text) == wanted;
        agrees(types, &record["type"], str::eq_ignore_ascii_case)
            && agrees(recipient, &record["recipient"], is_like)
            && agrees(sender, &record["sender"], is_like)
            && agrees(queue, &record["queue"], is_like)
            && agrees(id, &record["id"], is_id)
    }
}

/// Whether a field, or one of the texts in it, is one of those that are wanted.
fn agrees(wanted: &[String], field: &Value, is: impl Fn(&str, &str) -> bool) -> bool {
    let is_wanted = |text: &str| wanted.iter().any(|one| is(one, text));
    match field {
        _ if wanted.is_empty() => true,
        Value::String(text) => is_wanted(text),
        Value::Array(all) => all.iter().filter_map(Value::as_str).any(is_wanted),
        _ => false,
    }
}

/// Whether a text has a form in which `*` stands for any text; in any case.
fn is_like(form: &str, text: &str) -> bool {
    let (form, text) = (form.to_lowercase(), text.to_lowercase());
    let mut parts = form.split('*');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

const HEADING: &str = "Which records (all without these)";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_star_stands_for_any_text() {
        for (form, text, is) in [
            ("a@b.test", "A@B.test", true),
            ("a@b.test", "aa@b.test", false),
            ("*@b.test", "x@b.test", true),
            ("*@b.test", "x@b.testy", false),
            ("a*@*.test", "ab@c.test", true),
            ("a*a", "a", false),
            ("*", "", true),
            ("**", "x", true),
            ("a*b*c", "axbyc", true),
            ("a*b*c", "axcyb", false),
        ] {
            assert_eq!(is_like(form, text), is, "{form} {text}");
        }
    }

    #[test]
    fn kinds_must_agree_and_one_of_each_is_enough() {
        let record = json!({"type": "Delivery", "id": "00ab", "sender": "s@a.test", "recipient": ["r@b.test", "q@c.test"], "queue": "b.test"});
        let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let wants = |filter: Filter| filter.compiled().expect("sound").wants(&record);
        assert!(wants(Filter::default()));
        assert!(wants(Filter {
            types: words(&["bounce", "delivery"]),
            recipient: words(&["*@c.test"]),
            ..Filter::default()
        }));
        assert!(!wants(Filter { types: words(&["Bounce"]), recipient: words(&["*@c.test"]), ..Filter::default() }));
        assert!(wants(Filter { id: words(&["00-AB"]), queue: words(&["B.test"]), ..Filter::default() }));
        assert!(!wants(Filter { sender: words(&["r@b.test"]), ..Filter::default() }));
        let error =
            Filter { types: words(&["Sent"]), ..Filter::default() }.compiled().err().expect("refused").to_string();
        assert!(error.contains("\"Sent\"") && error.contains("Delivery, Bounce"), "{error}");
    }
}
