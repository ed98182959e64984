//! A place in a document, and errors that name it.
//!
//! Owns [`Place`]. Names that an operator chose are quoted, `provider."google".match[0]`; keys of the format are not.

use crate::error::ShapingError;
use config::{ConfigError, Fault};
use serde_json::{Map, Value};

/// File and path.
#[derive(Clone, Debug)]
pub(crate) struct Place<'a> {
    file: &'a str,
    path: String,
}

impl<'a> Place<'a> {
    /// The document itself.
    pub fn top(file: &'a str) -> Self {
        Place { file, path: String::new() }
    }

    /// A key of the format, below here.
    pub fn key(&self, key: &str) -> Self {
        let path = match self.path.is_empty() || key.is_empty() || key.starts_with('[') {
            true => format!("{}{key}", self.path),
            false => format!("{}.{key}", self.path),
        };
        Place { file: self.file, path }
    }

    /// A name the operator chose, below here.
    pub fn name(&self, name: &str) -> Self {
        self.key(&format!("{name:?}"))
    }

    /// An element of the list here.
    pub fn index(&self, index: usize) -> Self {
        self.key(&format!("[{index}]"))
    }

    /// The table here.
    pub fn table(&self, value: Value) -> Result<Map<String, Value>, ShapingError> {
        match value {
            Value::Object(table) => Ok(table),
            other => config::parse(WHAT, other).map_err(|error| self.no(error, "a table")),
        }
    }

    /// The list here.
    pub fn list(&self, value: Value) -> Result<Vec<Value>, ShapingError> {
        match value {
            Value::Array(list) => Ok(list),
            other => config::parse(WHAT, other).map_err(|error| self.no(error, "a list")),
        }
    }

    fn no(&self, mut error: ConfigError, wanted: &str) -> ShapingError {
        if let Fault::WrongType { expected, .. } = &mut error.fault {
            *expected = wanted.to_owned();
        }
        self.refused(error)
    }

    /// What `config` found wrong with the value here.
    pub fn refused(&self, error: ConfigError) -> ShapingError {
        self.key(&error.path).fault(error.fault)
    }

    /// What is wrong with the value here.
    pub fn fault(&self, fault: Fault) -> ShapingError {
        let place = if self.path.is_empty() { "the document".to_owned() } else { self.path.clone() };
        ShapingError::Refused { file: self.file.to_owned(), place, fault }
    }

    /// A value in its own words: what it is, and what it should be.
    pub fn unlike(&self, value: &str, expected: &str) -> ShapingError {
        self.fault(Fault::Refused(format!("invalid value {value:?}: expected {expected}")))
    }

    /// A key that cannot stand here.
    pub fn unknown(&self, key: &str, near: Option<&'static str>, expected: String) -> ShapingError {
        let place = if self.path.is_empty() { "the document".to_owned() } else { self.path.clone() };
        ShapingError::UnknownKey { file: self.file.to_owned(), place, key: key.to_owned(), near, expected }
    }

    /// An expression that does not compile.
    pub fn no_regex(&self, pattern: &str, what: String) -> ShapingError {
        let pattern = pattern.to_owned();
        ShapingError::Regex { file: self.file.to_owned(), place: self.path.clone(), pattern, what }
    }

    /// An expression over its bound.
    pub fn too_long(&self, octets: usize, octets_max: usize) -> ShapingError {
        ShapingError::PatternTooLong { file: self.file.to_owned(), place: self.path.clone(), octets, octets_max }
    }
}

/// The name under which `config` reads; our errors say file and place instead.
pub(crate) const WHAT: &str = "kumo.shaping.load";
