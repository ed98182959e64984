//! `kumo.fs`: files and folders, without holding up other events.

use crate::api::{Function, Member, Module, Proof::Example, Type, function};
use crate::files::beside;
use crate::types::file::LuaFile;
use crate::types::file_metadata::FileMetadata;
use mlua::Lua;
use std::io;
use std::path::Path;

/// The module.
pub(crate) const FS: Module = Module {
    name: "kumo.fs",
    doc: "Files and folders. Other events go on while a disk is slow, which is not so with Lua's `io`.",
    functions: &[FUNCTIONS],
    types: &[FILE_TYPE],
};

const FUNCTIONS: &[Function] = &[
    function!(
        waits
        "kumo.fs",
        "open",
        "(path, mode = 'r') -> AsyncFile",
        "Opens a file; modes are those of Lua's `io.open`.",
        Example(
            "local f = kumo.fs.open(folder .. '/x', 'w') f:write('one') f:close() \
             assert(kumo.fs.open(folder .. '/x'):read() == 'one' and not pcall(kumo.fs.open, folder .. '/none')) \
             assert(not pcall(kumo.fs.open, folder .. '/x', 'q'))"
        ),
        LuaFile::open
    ),
    function!(
        waits
        "kumo.fs",
        "read_dir",
        "(path) -> list",
        "The full names of what is in a folder, in order.",
        Example(
            "io.open(folder .. '/b', 'w'):close() io.open(folder .. '/a', 'w'):close() \
             local names = kumo.fs.read_dir(folder) assert(#names == 2 and names[1] == folder .. '/a')"
        ),
        |lua: Lua, path: String| async move {
            let named = path.clone();
            beside(&lua, move || read_dir(Path::new(&named))).await.map_err(|e| mlua::Error::runtime(format!("{path}: {e}")))
        }
    ),
    function!(
        waits
        "kumo.fs",
        "glob",
        "(pattern, relative_to = '.', ttl_seconds = 60) -> list",
        "The names of files that match a pattern, in order. `*`, `?` and `[...]` stay within one folder, `**` goes below, \
         `{a,b}` is either. Folders that are not there or may not be read are left out. `ttl_seconds` says how old an answer may be; every \
         answer here is new.",
        Example(
            "io.open(folder .. '/b.toml', 'w'):close() io.open(folder .. '/a.lua', 'w'):close() io.open(folder .. '/c.txt', 'w'):close() \
             local names = kumo.fs.glob(folder .. '/*.{lua,toml}') assert(#names == 2 and names[1] == folder .. '/a.lua') \
             assert(kumo.fs.glob('*.toml', folder)[1] == folder .. '/b.toml')"
        ),
        |lua: Lua, (pattern, relative_to, _ttl): (String, Option<String>, Option<f64>)| glob_files(lua, pattern, relative_to)
    ),
    function!(
        waits
        "kumo.fs",
        "uncached_glob",
        "(pattern, relative_to = '.') -> list",
        "As `glob`.",
        Example("io.open(folder .. '/b.toml', 'w'):close() assert(kumo.fs.uncached_glob('*.toml', folder)[1] == folder .. '/b.toml')"),
        |lua: Lua, (pattern, relative_to): (String, Option<String>)| glob_files(lua, pattern, relative_to)
    ),
    function!(
        waits
        "kumo.fs",
        "metadata_for_path",
        "(path) -> metadata",
        "What the system knows of a file: `is_file`, `is_dir`, `is_symlink`, `len`, `readonly`, `dev`, `ino`, `mode`, `nlink`, \
         `uid`, `gid`, `rdev`, `size`, `blksize`, `blocks`, and `atime`, `mtime`, `ctime` as Time.",
        Example(
            "local f = io.open(folder .. '/x', 'w') f:write('four') f:close() local m = kumo.fs.metadata_for_path(folder .. '/x') \
             assert(m.is_file and not m.is_dir and m.len == 4 and m.size == 4 and m.mtime.elapsed.seconds < 60)"
        ),
        |lua: Lua, path: String| async move {
            let named = path.clone();
            let found = beside(&lua, move || std::fs::metadata(named)).await;
            found.map(FileMetadata).map_err(|e| mlua::Error::runtime(format!("{path}: {e}")))
        }
    ),
    function!(
        waits
        "kumo.fs",
        "symlink_metadata_for_path",
        "(path) -> metadata",
        "As `metadata_for_path`, of a symbolic link itself.",
        Example("os.execute('ln -s none ' .. folder .. '/l') assert(kumo.fs.symlink_metadata_for_path(folder .. '/l').is_symlink)"),
        |lua: Lua, path: String| async move {
            let named = path.clone();
            let found = beside(&lua, move || std::fs::symlink_metadata(named)).await;
            found.map(FileMetadata).map_err(|e| mlua::Error::runtime(format!("{path}: {e}")))
        }
    ),
];

fn read_dir(path: &Path) -> io::Result<Vec<String>> {
    let absolute = std::path::absolute(path)?;
    let mut names = Vec::new();
    for entry in std::fs::read_dir(absolute)? {
        let name = entry?.path().into_os_string().into_string();
        names.push(name.map_err(|name| io::Error::other(format!("{}: not UTF-8", name.display())))?);
    }
    names.sort();
    Ok(names)
}

async fn glob_files(lua: Lua, pattern: String, relative_to: Option<String>) -> mlua::Result<Vec<String>> {
    let shown = pattern.clone();
    let found = beside(&lua, move || matching(&pattern, Path::new(relative_to.as_deref().unwrap_or(".")))).await;
    found.map_err(|e| mlua::Error::runtime(format!("{shown:?}: {e}")))
}

/// The files that match, in order.
pub(crate) fn matching(pattern: &str, relative_to: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    let folder = glob::Pattern::escape(&relative_to.to_string_lossy());
    for alternative in alternatives(pattern)? {
        let full = Path::new(&folder).join(alternative);
        let found = glob::glob(&full.to_string_lossy()).map_err(io::Error::other)?;
        // What may not be read is left out, as what is not there.
        names.extend(found.filter_map(Result::ok).map(|path| path.to_string_lossy().into_owned()));
    }
    names.sort();
    names.dedup();
    Ok(names)
}

/// The files that patterns stand for, or those of KumoMTA's configuration.
pub fn monitored(globs: Option<&[String]>) -> io::Result<Vec<String>> {
    let default = [CONFIGURATION.to_owned()];
    let mut files = Vec::new();
    for pattern in globs.unwrap_or(&default) {
        let found = matching(pattern, Path::new(".")).map_err(|e| io::Error::other(format!("{pattern:?}: {e}")))?;
        files.extend(found.into_iter().filter(|name| Path::new(name).is_file()));
    }
    files.sort();
    files.dedup();
    Ok(files)
}

/// `a{b,{c,d}}e` as `abe`, `ace` and `ade`: the innermost braces first.
fn alternatives(pattern: &str) -> io::Result<Vec<String>> {
    let mut done = Vec::new();
    let mut open = vec![pattern.to_owned()];
    while let Some(next) = open.pop() {
        let braces = next.find('}').and_then(|end| Some((next[..end].rfind('{')?, end)));
        let Some((start, end)) = braces else {
            done.push(next);
            continue;
        };
        let (before, within, after) = (&next[..start], &next[start + 1..end], &next[end + 1..]);
        if open.len() + done.len() + within.matches(',').count() >= ALTERNATIVES_MAX {
            return Err(io::Error::other(format!("its braces stand for more than {ALTERNATIVES_MAX} patterns")));
        }
        open.extend(within.split(',').map(|middle| format!("{before}{middle}{after}")));
    }
    done.sort();
    done.dedup();
    Ok(done)
}

/// Whose changes begin a configuration epoch, unless a policy says otherwise (KumoMTA behaviour).
const CONFIGURATION: &str = "/opt/kumomta/etc/**/*.{lua,json,toml,yaml}";
/// Patterns that one with braces may stand for.
const ALTERNATIVES_MAX: usize = 1000;

const FILE_TYPE: Type = Type {
    name: "AsyncFile",
    prefix: "asyncfile",
    doc: "An open file.",
    members: &[
        Member {
            name: "asyncfile:read",
            signature: "(octets or nil) -> string",
            doc: "The next octets, at most so many, or all that are left; empty at the end.",
            proof: Example(
                "local f = io.open(folder .. '/x', 'w') f:write('abcdef') f:close() local r = kumo.fs.open(folder .. '/x') \
                 assert(r:read(2) == 'ab' and r:read() == 'cdef' and r:read() == '')",
            ),
        },
        Member {
            name: "asyncfile:write",
            signature: "(string)",
            doc: "Writes all of it.",
            proof: Example(
                "local f = kumo.fs.open(folder .. '/x', 'a') f:write('a') f:write('b') f:close() \
                 assert(io.open(folder .. '/x'):read('a') == 'ab' and not pcall(f.write, f, 'c'))",
            ),
        },
        Member {
            name: "asyncfile:flush",
            signature: "()",
            doc: "Hands everything to the system.",
            proof: Example(
                "local f = kumo.fs.open(folder .. '/x', 'w') f:write('a') f:flush() assert(io.open(folder .. '/x'):read('a') == 'a')",
            ),
        },
        Member {
            name: "asyncfile:seek",
            signature: "(whence = 'cur', offset = 0) -> integer",
            doc: "Moves to a place from the beginning (`set`), from here (`cur`) or from the end (`end`); the place is returned.",
            proof: Example(
                "local f = kumo.fs.open(folder .. '/x', 'w+') f:write('abcdef') \
                 assert(f:seek('set', 2) == 2 and f:read(1) == 'c' and f:seek() == 3 and f:seek('end', -1) == 5) \
                 assert(not pcall(f.seek, f, 'nowhere'))",
            ),
        },
        Member {
            name: "asyncfile:close",
            signature: "()",
            doc: "Closes the file; it cannot be used any more.",
            proof: Example("local f = kumo.fs.open(folder .. '/x', 'w') f:close() assert(not pcall(f.read, f))"),
        },
    ],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_stand_for_each_of_their_parts() {
        assert_eq!(alternatives("a{b,{c,d}}e").unwrap(), ["abe", "ace", "ade"]);
        assert_eq!(alternatives("{a,b}{1,2}").unwrap(), ["a1", "a2", "b1", "b2"]);
        assert_eq!(alternatives("a}{b").unwrap(), ["a}{b"]);
        assert!(alternatives(&format!("{{{}}}", ",".repeat(ALTERNATIVES_MAX))).is_err());
        assert!(alternatives(&format!("{{{}}}", ",".repeat(ALTERNATIVES_MAX - 2))).is_ok());
    }
}
