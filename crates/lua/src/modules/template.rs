//! Templates over values of scripts: Jinja, Handlebars, or the text as it is.
//!
//! In: a name, a source and a context as JSON. Out: text. Fails with what the engine says of the source. Amount of work and
//! of output are bounded, since a template may loop. Jinja templates have KumoMTA's filters too.

use crate::convert;
use crate::modules::normalize::normalized;
use handlebars::Handlebars;
use minijinja::Environment;
use mlua::{Lua, Value};
use serde_json::Value as Json;

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
    template.and_then(|template| template.render(minijinja::value::Serde(context))).map_err(|e| chain(&e))
}

/// HTML is escaped only where the name says that it is HTML.
fn handlebars(name: &str, source: &str, context: &Json) -> Result<String, String> {
    let mut engine = Handlebars::new();
    if !name.ends_with(".html") {
        engine.register_escape_fn(handlebars::no_escape);
    }
    engine.render_template(source, context).map_err(|e| e.to_string())
}

/// What the engine says, and what lies behind it.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Steps a template may take: some milliseconds.
const FUEL: u64 = 1_000_000;
