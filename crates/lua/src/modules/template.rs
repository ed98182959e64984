//! `kumo.string.eval_template`: templates over values of scripts.
//!
//! In: a name, a source and a context. Out: text. Fails with what the engine says of the source.

use crate::convert;
use mlua::{Lua, Value};
use template::{Dialect, Templates};

/// `kumo.string.eval_template`.
pub(crate) fn eval(
    lua: &Lua,
    (name, source, context, dialect): (String, String, Value, Option<String>),
) -> mlua::Result<String> {
    let context = convert::to_json(lua, &context)?;
    let dialect = dialect.as_deref().map_or(Ok(Dialect::Jinja), str::parse).map_err(mlua::Error::runtime)?;
    let mut templates = Templates::new(dialect);
    templates.add(&name, &source).map_err(mlua::Error::external)?;
    templates.render(&name, &context).map_err(mlua::Error::external)
}
