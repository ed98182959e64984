//! `kumo.log_error` and its kin: lines of a script in the diagnostic log.
//!
//! KumoMTA's form: target `lua`, `file:line: ` first, arguments as `tostring` shows them,
//! joined by blanks; bytes that are not UTF-8 as `\xNN`.

use mlua::{Lua, Table, Value, Variadic};

/// Adds the functions to the module.
pub(crate) fn add_to(lua: &Lua, kumo: &Table) -> mlua::Result<()> {
    type Arguments = Variadic<Value>;
    kumo.set(
        "log_error",
        lua.create_function(|l, a: Arguments| line(l, &a).map(|t| tracing::error!(target: "lua", "{t}")))?,
    )?;
    kumo.set(
        "log_warn",
        lua.create_function(|l, a: Arguments| line(l, &a).map(|t| tracing::warn!(target: "lua", "{t}")))?,
    )?;
    kumo.set(
        "log_info",
        lua.create_function(|l, a: Arguments| line(l, &a).map(|t| tracing::info!(target: "lua", "{t}")))?,
    )?;
    let debug =
        lua.create_function(|l, a: Arguments| match tracing::enabled!(target: "lua", tracing::Level::DEBUG) {
            true => line(l, &a).map(|t| tracing::debug!(target: "lua", "{t}")),
            false => Ok(()),
        })?;
    kumo.set("log_debug", debug)
}

/// `file:line` of the script line that called the running function.
pub(super) fn place(lua: &Lua) -> Option<String> {
    lua.inspect_stack(1, |frame| {
        let source = frame.source();
        Some(format!("{}:{}", source.short_src.as_deref()?, frame.current_line()?))
    })?
}

fn line(lua: &Lua, arguments: &[Value]) -> mlua::Result<String> {
    let words: Vec<String> = arguments.iter().map(word).collect::<Result<_, _>>()?;
    let text = words.join(" ");
    Ok(match place(lua) {
        Some(place) => format!("{place}: {text}"),
        None => text,
    })
}

fn word(value: &Value) -> mlua::Result<String> {
    match value {
        Value::String(bytes) => Ok(escaped(&bytes.as_bytes())),
        other => other.to_string(),
    }
}

fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02X}")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_bytes_are_shown() {
        assert_eq!(escaped(b"gr\xc3\xbcn \xff\xfe!"), "gr\u{fc}n \\xFF\\xFE!");
    }
}
