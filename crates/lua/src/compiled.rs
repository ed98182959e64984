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
        if let Some(code) = self.0.get() {
            return lua.load(&code[..]).set_name(name).set_mode(ChunkMode::Binary).into_function();
        }
        let function = lua.load(text).set_name(name).set_mode(ChunkMode::Text).into_function()?;
        // Another state may have been faster: the code is the same.
        let _: Result<(), _> = self.0.set(function.dump(false));
        Ok(function)
    }
}
