//! What can be wrong with a shaping document. Each error names file and place, the value found and what was expected.

use config::Fault;

/// Why a document was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapingError {
    /// The text is not of the format its name promises.
    #[error("{file}: line {line}: {what}; expected {format}")]
    Syntax {
        /// The document.
        file: String,
        /// Where, from 1.
        line: usize,
        /// The parser's words.
        what: String,
        /// `TOML` (the name ends in `.toml`) or `JSON`.
        format: &'static str,
    },
    /// A key that no block of this kind has.
    #[error("{file}: {place}: unknown key {key:?}{}, expected {expected}", hint(near))]
    UnknownKey {
        /// The document.
        file: String,
        /// The table it stands in, or the place where it is named.
        place: String,
        /// As written.
        key: String,
        /// A valid key that may be meant.
        near: Option<&'static str>,
        /// What may stand there.
        expected: String,
    },
    /// A value is missing or is none that its key may have.
    #[error("{file}: {place}: {fault}")]
    Refused {
        /// The document.
        file: String,
        /// The key, as `provider."google".automation[2].duration`.
        place: String,
        /// Value and expectation.
        fault: Fault,
    },
    /// An expression does not compile.
    #[error("{file}: {place}: {pattern:?} is no regular expression: {what}")]
    Regex {
        /// The document.
        file: String,
        /// Its key.
        place: String,
        /// As written.
        pattern: String,
        /// The compiler's words.
        what: String,
    },
    /// An expression is longer than is compiled.
    #[error("{file}: {place}: an expression of {octets} octets: expected at most {octets_max}")]
    PatternTooLong {
        /// The document.
        file: String,
        /// Its key.
        place: String,
        /// Its length.
        octets: usize,
        /// The bound.
        octets_max: usize,
    },
    /// More than one assembly holds.
    #[error("{file}: {count} {what}: expected at most {count_max} in all documents together")]
    TooMany {
        /// The document in which the bound was passed.
        file: String,
        /// Documents, blocks or expressions.
        what: &'static str,
        /// How many up to its end.
        count: usize,
        /// The bound.
        count_max: usize,
    },
}

fn hint(near: &Option<&'static str>) -> String {
    near.map(|near| format!(" (did you mean `{near}`?)")).unwrap_or_default()
}
