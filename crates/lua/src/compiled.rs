//! The text of a script, compiled once for all states.
//!
//! In: a chunk's name and text. Out: its function in the state at hand. The first state compiles it and the code is kept, with
//! the lines it is from; the others read that, which takes a fraction of the time. Only code that this process made of text is
//! ever read, none from outside: nobody checks it.

use mlua::chunk::ChunkMode;
use mlua::{Function, Lua};
use std::sync::OnceLock;

/// The code of one text.
#[derive(Debug, Default)]
pub(crate) struct Compiled(OnceLock<Vec<u8>>);

impl Compiled {
    /// The function of `text`, which must be the same each time.
    pub fn function(&self, lua: &Lua, name: &str, text: &[u8]) -> mlua::Result<Function> {
        self.load(lua, name, text, Lines::Kept)
    }

    /// The same without its lines: an error inside is about the line of the script that called.
    pub fn without_lines(&self, lua: &Lua, name: &str, text: &[u8]) -> mlua::Result<Function> {
        self.load(lua, name, text, Lines::Stripped)
    }

    fn load(&self, lua: &Lua, name: &str, text: &[u8], lines: Lines) -> mlua::Result<Function> {
        let code = match self.0.get() {
            Some(code) => code,
            None => {
                let function = lua.load(text).set_name(name).set_mode(ChunkMode::Text).into_function()?;
                // Another state may have been faster: the code is the same.
                self.0.get_or_init(|| function.dump(lines == Lines::Stripped))
            }
        };
        lua.load(&code[..]).set_name(name).set_mode(ChunkMode::Binary).into_function()
    }
}

/// Whether the code knows its lines.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lines {
    Kept,
    Stripped,
}
