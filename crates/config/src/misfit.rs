//! What was wrong with a value, and where in the table it stands.
//!
//! Owns [`Misfit`], the error of our table reader: a [`Fault`] that learns its place on the way out, a step from each list and table
//! it leaves. It reads nothing itself.

use crate::fault::Fault;
use core::fmt;
use serde::de::{self, Expected, Unexpected};

/// A fault and where it is.
#[derive(Debug)]
pub(crate) struct Misfit {
    /// The cause.
    pub fault: Fault,
    /// The way to it, innermost first.
    steps: Vec<Step>,
}

/// From a table or list to what is in there.
#[derive(Debug)]
enum Step {
    Key(String),
    Item(usize),
}

impl Misfit {
    /// It is in a member of this table.
    pub fn under(self, key: &str) -> Misfit {
        self.with(Step::Key(key.to_owned()))
    }

    /// It is in an item of this list, counted from 0.
    pub fn at(self, item: usize) -> Misfit {
        self.with(Step::Item(item))
    }

    /// Its text says which value was refused, as [`Fault::naming`] has it.
    pub fn naming(self, value: &serde_json::Value) -> Misfit {
        Misfit { fault: self.fault.naming(value), ..self }
    }

    fn with(mut self, step: Step) -> Misfit {
        self.steps.push(step);
        self
    }

    /// Where it is, e.g. `protocol.smtp.mx_list[0]`; empty for the outermost value.
    pub fn path(&self) -> String {
        let mut path = String::new();
        for step in self.steps.iter().rev() {
            match step {
                Step::Item(item) => path.push_str(&format!("[{item}]")),
                Step::Key(key) if path.is_empty() => path.push_str(key),
                Step::Key(key) => path.push_str(&format!(".{key}")),
            }
        }
        path
    }
}

impl From<Fault> for Misfit {
    /// Not in anything, so far.
    fn from(fault: Fault) -> Misfit {
        Misfit { fault, steps: Vec::new() }
    }
}

impl fmt::Display for Misfit {
    /// The cause alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fault.fmt(f)
    }
}

impl std::error::Error for Misfit {}

impl de::Error for Misfit {
    fn custom<T: fmt::Display>(msg: T) -> Self {
        Fault::custom(msg).into()
    }

    fn invalid_type(got: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Fault::invalid_type(got, expected).into()
    }

    fn invalid_value(got: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Fault::invalid_value(got, expected).into()
    }

    fn unknown_field(field: &str, valid: &'static [&'static str]) -> Self {
        Fault::unknown_field(field, valid).into()
    }

    fn unknown_variant(name: &str, valid: &'static [&'static str]) -> Self {
        Fault::unknown_variant(name, valid).into()
    }

    fn missing_field(field: &'static str) -> Self {
        Fault::missing_field(field).into()
    }
}
