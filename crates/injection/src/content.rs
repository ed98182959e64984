//! Sources of one text: what is the same for all, and what a template makes.

use crate::request::InjectionError;
use serde_json::Value;
use std::borrow::Cow;
use template::{Dialect, Templates};

/// A text of the request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source<'a> {
    /// The same for every recipient.
    Plain(&'a str),
    /// The template of that name.
    Template(&'a str),
}

impl<'a> Source<'a> {
    /// Compiles `text`, which stands at `pointer`, under a name that tells whether it is HTML.
    pub fn compile(
        templates: &mut Templates<'a>,
        dialect: Dialect,
        (name, pointer): (&'a str, &str),
        text: &'a str,
    ) -> Result<Source<'a>, InjectionError> {
        if dialect.is_plain(text) {
            return Ok(Source::Plain(text));
        }
        templates.add(name, text).map_err(|error| InjectionError::at(pointer, error))?;
        Ok(Source::Template(name))
    }

    /// True when values change nothing.
    pub fn is_plain(self) -> bool {
        matches!(self, Source::Plain(_))
    }

    /// What these values make of it.
    pub fn text(self, templates: &Templates<'_>, values: &Value) -> Result<Cow<'a, str>, String> {
        match self {
            Source::Plain(text) => Ok(Cow::Borrowed(text)),
            Source::Template(name) => templates.render(name, values).map(Cow::Owned).map_err(|e| e.to_string()),
        }
    }
}
