//! What was wrong with one value.
//!
//! Owns [`Fault`]: the error every option type speaks. One variant a cause, the facts in
//! fields, worded for the person who wrote the policy file. In: refusals of serde visitors. Out: text, by
//! `Display`. Nothing here can fail. It does not know where in a table it happened, or under which
//! constructor: the reader's error does (`misfit.rs`), and [`crate::parse()`].

use crate::parse::shown;
use core::fmt;
use serde::de::{self, Expected, Unexpected};

/// The cause of a refusal, without its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A key no option of the table has.
    #[error("unknown field `{field}`{}, expected one of {}", hint(field, valid), quoted(valid))]
    UnknownField {
        /// The key as written.
        field: String,
        /// Every key the table may have.
        valid: Vec<&'static str>,
    },
    /// A key that has no default was not given.
    #[error("missing field `{field}`")]
    MissingField {
        /// The key that must be given.
        field: &'static str,
    },
    /// A word that is not one of an enumeration.
    #[error("unknown variant `{name}`{}, expected one of {}", hint(name, valid), quoted(valid))]
    UnknownVariant {
        /// The word as written.
        name: String,
        /// Every word that may stand there.
        valid: &'static [&'static str],
    },
    /// A value of the wrong kind (a table for a number, ...).
    #[error("invalid type: {got}, expected {expected}")]
    WrongType {
        /// The kind and text of the value given.
        got: String,
        /// The kind wanted.
        expected: String,
    },
    /// A value of the right kind that its grammar or range refuses; the text names value and expectation.
    #[error("{0}")]
    Refused(String),
}

impl Fault {
    /// Adds the refused scalar to a text that does not name it yet (third-party grammars such as IP addresses).
    pub(crate) fn naming(self, value: &serde_json::Value) -> Self {
        match self {
            Fault::Refused(text) => {
                let bare = match value {
                    serde_json::Value::String(s) => s.clone(),
                    other => other.to_string(),
                };
                if text.contains(&bare) {
                    Fault::Refused(text)
                } else {
                    Fault::Refused(format!("invalid value {}: {text}", shown(value)))
                }
            }
            other => other,
        }
    }

    /// With `secrets` masked where a text quotes them.
    pub(crate) fn without(mut self, secrets: &[&str]) -> Self {
        let text = match &mut self {
            Fault::UnknownField { field: text, .. }
            | Fault::UnknownVariant { name: text, .. }
            | Fault::WrongType { got: text, .. }
            | Fault::Refused(text) => text,
            Fault::MissingField { .. } => return self,
        };
        for secret in secrets {
            *text = without_word(text, secret);
            *text = without_word(text, &secret.escape_debug().to_string());
        }
        self
    }
}

impl de::Error for Fault {
    fn custom<T: fmt::Display>(msg: T) -> Self {
        Fault::Refused(msg.to_string())
    }

    fn invalid_type(got: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Fault::WrongType { got: in_lua_words(got), expected: expected.to_string() }
    }

    fn invalid_value(got: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Fault::Refused(format!("invalid value {}: expected {expected}", in_lua_words(got)))
    }

    fn unknown_field(field: &str, valid: &'static [&'static str]) -> Self {
        Fault::UnknownField { field: field.to_owned(), valid: valid.to_vec() }
    }

    fn unknown_variant(name: &str, valid: &'static [&'static str]) -> Self {
        Fault::UnknownVariant { name: name.to_owned(), valid }
    }

    fn missing_field(field: &'static str) -> Self {
        Fault::MissingField { field }
    }
}

/// The known name nearest to `word`, if one is near enough to be meant.
///
/// Case and `-` against `_` are forgiven first; then up to a third of the letters may differ.
pub fn nearest(word: &str, known: &[&'static str]) -> Option<&'static str> {
    if word.is_empty() || word.len() > SUGGEST_BYTES_MAX {
        return None;
    }
    let fold = |s: &str| s.to_ascii_lowercase().replace('-', "_");
    let wanted = fold(word);
    let allowed = (word.len() / 3).max(1);
    known
        .iter()
        .map(|k| (edit_distance(&wanted, &fold(k)), *k))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, _)| *distance <= allowed)
        .map(|(_, k)| k)
}

/// `text` with `word` masked where it stands by itself: a secret of one letter is also part of our own words.
fn without_word(text: &str, word: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut done = 0;
    for (at, _) in text.match_indices(word) {
        let end = at + word.len();
        let part_of_another =
            text[..at].ends_with(char::is_alphanumeric) || text[end..].starts_with(char::is_alphanumeric);
        if !part_of_another {
            shown.push_str(&text[done..at]);
            shown.push_str("***");
            done = end;
        }
    }
    shown + &text[done..]
}

fn hint(word: &str, known: &[&'static str]) -> String {
    match nearest(word, known) {
        Some(near) => format!(" (did you mean `{near}`?)"),
        None => String::new(),
    }
}

fn quoted(names: &[&str]) -> String {
    let mut out = String::new();
    for name in names {
        if !out.is_empty() {
            out.push_str(", ");
        }
        out.push('`');
        out.push_str(name);
        out.push('`');
    }
    out
}

/// Policy authors write Lua: they have tables and lists, not maps and sequences.
fn in_lua_words(got: Unexpected<'_>) -> String {
    match got {
        Unexpected::Bool(b) => format!("boolean `{b}`"),
        Unexpected::Unsigned(n) => format!("integer `{n}`"),
        Unexpected::Signed(n) => format!("integer `{n}`"),
        Unexpected::Float(n) => format!("number `{n}`"),
        Unexpected::Str(s) => format!("string {s:?}"),
        Unexpected::Unit | Unexpected::Option => "nil".to_owned(),
        Unexpected::Seq => "a list".to_owned(),
        Unexpected::Map => "a table with named keys".to_owned(),
        other => other.to_string(),
    }
}

/// Levenshtein distance over bytes; both words are bounded by the caller.
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(ca != cb);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// Longer words get no suggestion (bytes): the comparison is quadratic.
const SUGGEST_BYTES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[&str] = &["connection_limit", "max_ready", "idle_timeout"];

    #[test]
    fn suggests_only_what_is_near() {
        for (word, want) in [
            ("conection_limit", Some("connection_limit")),
            ("Max-Ready", Some("max_ready")),
            ("idle_timout", Some("idle_timeout")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, KNOWN), want, "{word}");
        }
        assert_eq!(nearest(&"x".repeat(SUGGEST_BYTES_MAX + 1), KNOWN), None);
    }

    #[test]
    fn a_secret_is_masked_where_it_stands_by_itself() {
        for (secret, text, want) in [
            ("x", "invalid value string \"x\": expected a box", "invalid value string \"***\": expected a box"),
            ("a\nb", "invalid value string \"a\\nb\"", "invalid value string \"***\""),
            ("hunter2", "redis://me:hunter2@a.test, hunter2", "redis://me:***@a.test, ***"),
        ] {
            assert_eq!(Fault::Refused(text.to_owned()).without(&[secret]), Fault::Refused(want.to_owned()));
        }
    }

    #[test]
    fn distance_is_symmetric_and_exact() {
        for (a, b, n) in [("kitten", "sitting", 3), ("", "abc", 3), ("abc", "abc", 0), ("ab", "ba", 2)] {
            assert_eq!(edit_distance(a, b), n, "{a} {b}");
            assert_eq!(edit_distance(b, a), n, "{b} {a}");
        }
    }
}
