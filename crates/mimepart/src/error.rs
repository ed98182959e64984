//! What can go wrong when a part is edited, built or checked: a variant a cause.
//!
//! Reading never fails: any octets are a message. What a header cannot be read as, and what is given to be written, can.

use mime::HeaderError;

/// Why something could not be read from, or written into, a part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartError {
    /// A header's value, read or to be written, is not of the type the name has.
    #[error("header {name}: {value:?} is not usable, expected {expected}{}", because(.reason))]
    Incompatible {
        /// The header's name.
        name: String,
        /// The value, shortened.
        value: String,
        /// The type, in words.
        expected: &'static str,
        /// More, when a parser told more.
        reason: String,
    },
    /// The field cannot be written: its name or value would break the header.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// Not a type and a subtype.
    #[error("content type {value:?} is not usable, expected type/subtype and parameters")]
    ContentType {
        /// What was given.
        value: String,
    },
    /// A part was to be put into one that holds none.
    #[error("part {id:?} is {content_type}, expected multipart/*: it cannot hold parts")]
    NotMultipart {
        /// Where in the tree.
        id: String,
        /// Its type.
        content_type: String,
    },
    /// Nothing stands at that place.
    #[error("there is no part {id:?}")]
    NoSuchPart {
        /// The place.
        id: String,
    },
    /// The tree would be deeper than [`crate::limits::DEPTH_MAX`].
    #[error("parts would nest deeper than {max}")]
    TooDeep {
        /// Most levels.
        max: usize,
    },
    /// The tree would have more parts than [`crate::limits::PARTS_MAX`].
    #[error("the message would have more than {max} parts")]
    TooManyParts {
        /// Most parts.
        max: usize,
    },
    /// RFC 2046 section 5.1.1: 1 to 70 characters of a small set.
    #[error("boundary {boundary:?} is not usable, expected 1 to 70 letters, digits, spaces inside, or '()+_,-./:=?")]
    Boundary {
        /// What was given.
        boundary: String,
    },
    /// A builder without text and attachments.
    #[error("nothing to build: expected a text or an attachment")]
    NothingToBuild,
    /// A flag of the conformance check that does not exist.
    #[error("unknown conformance flag {flag:?}, nearest is {nearest}; expected some of {valid} joined by |")]
    UnknownFlag {
        /// What was given.
        flag: String,
        /// The valid one that looks most like it.
        nearest: &'static str,
        /// All valid ones.
        valid: String,
    },
    /// A character set that is not known.
    #[error("unknown character set {label:?}, expected a name such as utf-8, windows-1252 or shift_jis")]
    UnknownCharset {
        /// What was given.
        label: String,
    },
}

impl PartError {
    pub(crate) fn incompatible(name: &str, value: &str, expected: &'static str, reason: impl ToString) -> PartError {
        let value = value.chars().take(VALUE_CHARS_MAX).collect();
        PartError::Incompatible { name: name.to_owned(), value, expected, reason: reason.to_string() }
    }
}

fn because(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(": {reason}") }
}

/// Characters of a bad value quoted in an error.
const VALUE_CHARS_MAX: usize = 120;
