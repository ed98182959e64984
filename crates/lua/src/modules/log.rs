//! `kumo.log_error` and its kin: lines of a script in the diagnostic log.
//!
//! KumoMTA's form: target `lua`, `file:line: ` first, arguments as `tostring` shows them,
//! joined by blanks; bytes that are not UTF-8 as `\xNN`.

use crate::api::Proof::Test;
use crate::api::{Function, function};
use mlua::{Lua, Value, Variadic};
use tracing::Level;

/// The functions.
pub(crate) const FUNCTIONS: &[Function] = &[
    function!(
        "kumo",
        "log_error",
        "(...)",
        "A line in the diagnostic log at the level error: where it was written, then the arguments.",
        Test("crates/lua/tests/scripts/registration.rs::log_lines_name_their_place"),
        |lua, words: Words| write(lua, Level::ERROR, &words)
    ),
    function!(
        "kumo",
        "log_warn",
        "(...)",
        "A line in the diagnostic log at the level warn: where it was written, then the arguments.",
        Test("crates/lua/tests/scripts/registration.rs::log_lines_name_their_place"),
        |lua, words: Words| write(lua, Level::WARN, &words)
    ),
    function!(
        "kumo",
        "log_info",
        "(...)",
        "A line in the diagnostic log at the level info: where it was written, then the arguments.",
        Test("crates/lua/tests/scripts/registration.rs::log_lines_name_their_place"),
        |lua, words: Words| write(lua, Level::INFO, &words)
    ),
    function!(
        "kumo",
        "log_debug",
        "(...)",
        "A line in the diagnostic log at the level debug: where it was written, then the arguments.",
        Test("crates/lua/tests/scripts/registration.rs::log_lines_name_their_place"),
        |lua, words: Words| write(lua, Level::DEBUG, &words)
    ),
];

type Words = Variadic<Value>;

fn write(lua: &Lua, level: Level, words: &Words) -> mlua::Result<()> {
    match level {
        Level::ERROR => tracing::error!(target: "lua", "{}", line(lua, words)?),
        Level::WARN => tracing::warn!(target: "lua", "{}", line(lua, words)?),
        Level::INFO => tracing::info!(target: "lua", "{}", line(lua, words)?),
        // Nobody pays for lines that nobody sees.
        _ if tracing::enabled!(target: "lua", Level::DEBUG) => tracing::debug!(target: "lua", "{}", line(lua, words)?),
        _ => {}
    }
    Ok(())
}

/// `file:line` of the script line that called the running function.
pub(crate) fn place(lua: &Lua) -> Option<String> {
    place_at(lua, 1)?
}

/// The same of a caller further up; `None` when there is none, and in it when it is no line of a script.
pub(crate) fn place_at(lua: &Lua, level: usize) -> Option<Option<String>> {
    lua.inspect_stack(level, |frame| {
        let source = frame.source();
        Some(format!("{}:{}", source.short_src.as_deref()?, frame.current_line()?))
    })
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
