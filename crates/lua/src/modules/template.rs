//! Templates over values of scripts: Jinja, Handlebars, or the text as it is.
//!
//! In: a name, a source and a context as JSON. Out: text. Fails with what the engine says of the source. The output is bounded,
//! and so is the work of Jinja, since a template may loop. Jinja templates have KumoMTA's filters too; Handlebars templates
//! define no partials, which could call themselves without end.

use crate::convert;
use crate::modules::normalize::normalized;
use handlebars::Handlebars;
use minijinja::Environment;
use mlua::{Lua, Value};
use serde_json::Value as Json;
use std::io;

/// `kumo.string.eval_template`.
pub(crate) fn eval(
    lua: &Lua,
    (name, source, context, dialect): (String, String, Value, Option<String>),
) -> mlua::Result<String> {
    let context = convert::to_json(lua, &context)?;
    let wrong = |e: String| mlua::Error::runtime(format!("template `{name}`: {e}"));
    match dialect.as_deref() {
        None | Some("Jinja") => jinja(&name, &source, &context).map_err(wrong),
        Some("Handlebars") => handlebars(&name, &source, &context).map_err(wrong),
        Some("Static") => Ok(source),
        Some(other) => Err(mlua::Error::runtime(format!("dialect {other:?}: expected Jinja, Handlebars or Static"))),
    }
}

/// A template of KumoMTA's usual dialect, with its filters.
fn jinja(name: &str, source: &str, context: &Json) -> Result<String, String> {
    let mut environment = Environment::new();
    minijinja_contrib::add_to_environment(&mut environment);
    environment.add_filter("normalize_smtp_response", |text: String| normalized(&text));
    environment.set_fuel(Some(FUEL));
    let template = environment.template_from_named_str(name, source);
    let text =
        template.and_then(|template| template.render(minijinja::value::Serde(context))).map_err(|e| chain(&e))?;
    let mut bounded = Bounded(Vec::new());
    io::Write::write_all(&mut bounded, text.as_bytes()).map_err(|e| e.to_string())?;
    bounded.text()
}

/// HTML is escaped only where the name says that it is HTML.
fn handlebars(name: &str, source: &str, context: &Json) -> Result<String, String> {
    let mut engine = Handlebars::new();
    if !name.ends_with(".html") {
        engine.register_escape_fn(handlebars::no_escape);
    }
    if source.contains("#*") || source.contains("# *") {
        return Err("it defines a partial: expected a template without `{{#*inline ...}}`".to_owned());
    }
    let mut text = Bounded(Vec::new());
    engine.render_template_to_write(source, context, &mut text).map_err(|e| chain(&e))?;
    text.text()
}

/// What a template wrote, up to a bound.
struct Bounded(Vec<u8>);

impl Bounded {
    fn text(self) -> Result<String, String> {
        String::from_utf8(self.0).map_err(|e| e.to_string())
    }
}

impl io::Write for Bounded {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        if self.0.len() + octets.len() > OUTPUT_OCTETS_MAX {
            return Err(io::Error::other(format!("more than {OUTPUT_OCTETS_MAX} octets come out of it")));
        }
        self.0.extend_from_slice(octets);
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What the engine says, and what lies behind it.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Most that may come out of a template.
const OUTPUT_OCTETS_MAX: usize = 64 << 20;
/// Steps a template may take: some milliseconds.
const FUEL: u64 = 1_000_000;
