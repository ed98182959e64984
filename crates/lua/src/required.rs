//! Where `require` finds the modules of a policy: the files that `package.path` leads to.
//!
//! In: a name. Out: its code, or in which places no such file is. The first state looks and compiles; what it found, and what it
//! did not find, is kept for the states to come until the policy is read again, so that all states of one reading are made of
//! the same code. The rules are those of Lua's own searcher, but that code compiled by others is refused.

use crate::compiled::Compiled;
use mlua::{Function, Lua, Table, Value};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::{fs, io};

/// What was sought so far, by path and name.
#[derive(Default)]
pub(crate) struct Required {
    sought: Mutex<HashMap<(String, String), Arc<Sought>>>,
    /// What raises errors as text.
    raise: Compiled,
}

/// What came of it.
enum Sought {
    File {
        file: String,
        text: Vec<u8>,
        code: Compiled,
    },
    /// Where it is not, in Lua's words.
    Nowhere(String),
}

/// Has `require` look here where it looked for files itself.
pub(crate) fn replace_searcher(lua: &Lua, package: &Table, required: Arc<Required>) -> mlua::Result<()> {
    let searchers: Table = package.get("searchers")?;
    let of = package.clone();
    let text =
        b"local seek = ... return function(name) local found, more, why = seek(name) if why then error(why, 0) end \
        return found, more end";
    let raise = required.raise.function(lua, "=require", text)?;
    let seek = lua.create_function(move |lua, name: String| {
        let path: String = of.get("path").map_err(|_| mlua::Error::runtime("'package.path' must be a string"))?;
        // What is wrong is raised as text, as Lua's own searcher does.
        let wrong = |why: String| Ok((Value::Nil, None, Some(why)));
        let sought = match required.seek(path, name.clone()) {
            Ok(sought) => sought,
            Err(why) => return wrong(why),
        };
        match &*sought {
            Sought::File { file, text, code } => match code.function(lua, &format!("@{file}"), text) {
                Ok(function) => Ok((Value::Function(function), Some(file.clone()), None)),
                Err(error) => wrong(format!("error loading module '{name}' from file '{file}':\n\t{}", said(&error))),
            },
            Sought::Nowhere(places) => Ok((Value::String(lua.create_string(places)?), None, None)),
        }
    })?;
    let search: Function = raise.call(seek)?;
    searchers.set(OF_FILES, search)
}

/// What Lua says of code that does not compile.
fn said(error: &mlua::Error) -> String {
    match error {
        mlua::Error::SyntaxError { message, .. } => message.clone(),
        other => other.to_string(),
    }
}

impl Required {
    /// Has the files be sought anew.
    pub fn forget(&self) {
        self.kept().clear();
    }

    fn seek(&self, path: String, name: String) -> Result<Arc<Sought>, String> {
        let key = (path, name);
        if let Some(sought) = self.kept().get(&key) {
            return Ok(sought.clone());
        }
        let sought = Arc::new(look(&key.0, &key.1)?);
        let mut kept = self.kept();
        if kept.len() < KEPT_MAX {
            // Another state may have been faster: all have the same.
            return Ok(kept.entry(key).or_insert(sought).clone());
        }
        Ok(sought)
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, HashMap<(String, String), Arc<Sought>>> {
        self.sought.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As `package.searchpath`: the first of the templates that is a file which can be read.
fn look(path: &str, name: &str) -> Result<Sought, String> {
    let name = name.replace('.', "/");
    let mut places = Vec::new();
    for template in path.split(';').filter(|template| !template.is_empty()) {
        let file = template.replace('?', &name);
        let text = match fs::read(&file) {
            Ok(text) => text,
            Err(error) if is_no_file(&error) => {
                places.push(format!("no file '{file}'"));
                continue;
            }
            // It may be there, and readable, the next time.
            Err(error) => return Err(format!("cannot read {file}: {error}")),
        };
        return Ok(Sought::File { text: without_first_comment(text), file, code: Compiled::default() });
    }
    Ok(Sought::Nowhere(places.join("\n\t")))
}

/// Lua looks on where it cannot open a file.
fn is_no_file(error: &io::Error) -> bool {
    use io::ErrorKind::{IsADirectory, NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | NotADirectory | PermissionDenied | IsADirectory)
}

/// Lua passes over a byte order mark, and a first line that begins with `#`.
fn without_first_comment(text: Vec<u8>) -> Vec<u8> {
    let rest = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text);
    match rest.first() {
        // The end of the line stays, and with it the numbers of the others.
        Some(b'#') => rest.iter().position(|octet| *octet == b'\n').map_or_else(Vec::new, |end| rest[end..].to_vec()),
        _ if rest.len() == text.len() => text,
        _ => rest.to_vec(),
    }
}

/// The place of the searcher for files among the searchers.
const OF_FILES: i64 = 2;
/// Modules that are kept; a policy has some dozens.
const KEPT_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_comment_is_passed_over_and_lines_keep_their_numbers() {
        for (text, rest) in [
            ("return 1", "return 1"),
            ("#!/usr/bin/lua\nreturn 1", "\nreturn 1"),
            ("\u{feff}return 1", "return 1"),
            ("\u{feff}# a\nreturn 1", "\nreturn 1"),
            ("# all", ""),
            ("", ""),
        ] {
            assert_eq!(without_first_comment(text.into()), rest.as_bytes(), "{text:?}");
        }
    }

    /// States of one reading are made of the same modules, also where there were none.
    #[test]
    fn modules_are_those_of_the_reading() {
        let dir = tempfile::tempdir().expect("scratch");
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).expect("written");
        write("a.lua", "#!/usr/bin/lua\nlocal name, file = ... return name .. (file:match('a.lua$') or '') .. '1'");
        write("c.lua", "return return");
        let required = Arc::new(Required::default());
        let state = || {
            let lua = Lua::new();
            let package: Table = lua.globals().get("package").expect("there");
            package.set("path", format!("{}/?.lua", dir.path().display())).expect("set");
            replace_searcher(&lua, &package, required.clone()).expect("replaced");
            lua.load("a = require 'a' b = pcall(require, 'b') c, why = pcall(require, 'c')").exec().expect("sound");
            lua
        };
        let seen = || {
            let lua = state();
            let globals = lua.globals();
            (globals.get::<String>("a").expect("text"), globals.get::<bool>("b").expect("tried"))
        };
        assert_eq!(seen(), ("aa.lua1".to_owned(), false));
        let lua = state();
        let why: String = lua.globals().get("why").expect("text");
        assert!(why.contains("error loading module 'c' from file") && why.contains("c.lua:1:"), "{why}");
        write("a.lua", "return 'a2'");
        write("b.lua", "");
        assert_eq!(seen(), ("aa.lua1".to_owned(), false));
        required.forget();
        assert_eq!(seen(), ("a2".to_owned(), true));
    }

    #[test]
    fn places_without_the_file_are_named_as_lua_names_them() {
        let Ok(Sought::Nowhere(places)) = look("/none/?.lua;;/none/?/init.lua", "a.b") else { panic!("it is there") };
        assert_eq!(places, "no file '/none/a/b.lua'\n\tno file '/none/a/b/init.lua'");
    }
}
