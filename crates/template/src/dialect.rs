//! The languages of templates.

use core::fmt;
use core::str::FromStr;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A language of templates (KumoMTA's `template_dialect`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Dialect {
    /// That of minijinja, with the filters of its contrib package.
    #[default]
    Jinja,
    /// No language: a source is the text.
    Static,
    /// That of handlebars.
    Handlebars,
}

impl Dialect {
    /// True when every set of values makes the same text of this source: nothing in it is for the engine.
    pub fn is_plain(self, source: &str) -> bool {
        match self {
            Dialect::Jinja => {
                let behind = |at: usize| source.as_bytes().get(at + 1);
                !memchr::memchr_iter(b'{', source.as_bytes()).any(|at| matches!(behind(at), Some(b'{' | b'%' | b'#')))
            }
            // A backslash before braces is for the engine, too: it stands before braces.
            Dialect::Handlebars => !source.contains("{{"),
            Dialect::Static => true,
        }
    }
}

impl FromStr for Dialect {
    type Err = String;

    fn from_str(text: &str) -> Result<Dialect, String> {
        match text {
            "Jinja" => Ok(Dialect::Jinja),
            "Static" => Ok(Dialect::Static),
            "Handlebars" => Ok(Dialect::Handlebars),
            other => Err(format!("dialect {other:?}: expected Jinja, Handlebars or Static")),
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
