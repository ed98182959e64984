//! `kumo.regex`: regular expressions, look-around and back-references included.
//!
//! A pattern that backtracks without end is stopped with an error.

use crate::api::{Function, Member, Module, Proof::Example, Type, function};
use fancy_regex::{Regex, RegexBuilder};
use mlua::{IntoLua, Lua, MetaMethod, Table, UserData, UserDataMethods, Value};

/// The module.
pub(crate) const REGEX: Module = Module {
    name: "kumo.regex",
    doc: "Regular expressions, which are not Lua's patterns. Backslashes are doubled in quoted strings, not in `[[ ]]`.",
    functions: &[FUNCTIONS],
    types: &[TYPE],
};

const FUNCTIONS: &[Function] = &[
    function!(
        "kumo.regex",
        "compile",
        "(pattern) -> Regex",
        "A pattern, ready to be used; an error that shows the place when it is none.",
        Example(
            "assert(kumo.regex.compile('^a+(?=b)'):is_match('aab')) \
             local ok, why = pcall(kumo.regex.compile, '(') assert(not ok and tostring(why):find('kumo.regex.compile', 1, true))"
        ),
        |_, pattern: String| LuaRegex::compile(&pattern)
    ),
    function!(
        "kumo.regex",
        "escape",
        "(text) -> string",
        "A pattern that means just this text.",
        Example("assert(kumo.regex.escape('a.b*c') == 'a\\\\.b\\\\*c')"),
        |_, text: String| Ok(fancy_regex::escape(&text).into_owned())
    ),
];

/// The userdata.
struct LuaRegex(Regex);

impl LuaRegex {
    fn compile(pattern: &str) -> mlua::Result<LuaRegex> {
        let built = RegexBuilder::new(pattern).backtrack_limit(BACKTRACKS_MAX).build();
        built.map(LuaRegex).map_err(|e| mlua::Error::runtime(format!("{pattern:?}: {e}")))
    }
}

impl UserData for LuaRegex {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::ToString, |_, this, ()| Ok(this.0.as_str().to_owned()));
        methods.add_method("captures", |lua, this, text: String| captures(lua, &this.0, &text));
        methods.add_method("is_match", |_, this, text: String| this.0.is_match(&text).map_err(stopped));
        methods.add_method("find", |_, this, text: String| {
            Ok(this.0.find(&text).map_err(stopped)?.map(|found| found.as_str().to_owned()))
        });
        methods.add_method("find_all", |_, this, text: String| {
            let found = this.0.find_iter(&text).map(|found| Ok(found.map_err(stopped)?.as_str().to_owned()));
            found.collect::<mlua::Result<Vec<String>>>()
        });
        methods.add_method("replace", |_, this, (text, new): (String, String)| replacen(&this.0, &text, 1, &new));
        methods.add_method("replace_all", |_, this, (text, new): (String, String)| replacen(&this.0, &text, 0, &new));
        methods.add_method("replacen", |_, this, (text, limit, new): (String, usize, String)| {
            replacen(&this.0, &text, limit, &new)
        });
        methods.add_method("split", |_, this, text: String| {
            let pieces = this.0.split(&text).map(|piece| Ok(piece.map_err(stopped)?.to_owned()));
            pieces.collect::<mlua::Result<Vec<String>>>()
        });
    }
}

fn captures(lua: &Lua, regex: &Regex, text: &str) -> mlua::Result<Value> {
    let Some(found) = regex.captures(text).map_err(stopped)? else { return Ok(Value::Nil) };
    let table: Table = lua.create_table()?;
    for (number, group) in found.iter().enumerate() {
        if let Some(group) = group {
            table.raw_set(number, group.as_str())?;
        }
    }
    for name in regex.capture_names().flatten() {
        if let Some(group) = found.name(name) {
            table.raw_set(name, group.as_str())?;
        }
    }
    table.into_lua(lua)
}

fn replacen(regex: &Regex, text: &str, limit: usize, new: &str) -> mlua::Result<String> {
    regex.try_replacen(text, limit, new).map(|text| text.into_owned()).map_err(stopped)
}

fn stopped(error: fancy_regex::Error) -> mlua::Error {
    mlua::Error::runtime(format!("regex: {error}"))
}

const TYPE: Type = Type {
    name: "Regex",
    prefix: "regex",
    doc: "What `kumo.regex.compile` makes. `tostring` gives the pattern.",
    members: &[
        Member {
            name: "regex:captures",
            signature: "(text) -> table or nil",
            doc: "The first match: `[0]` the whole, `[1]` and on the groups, and groups by name; groups that took no part are nil.",
            proof: Example(
                "local c = kumo.regex.compile('(?<user>[^@]+)@(x)?(.+)'):captures('<ann@mail.test>') \
                 assert(c[0] == '<ann@mail.test>' and c.user == '<ann' and c[2] == nil and c[3] == 'mail.test>') \
                 assert(kumo.regex.compile('z'):captures('a') == nil)",
            ),
        },
        Member {
            name: "regex:is_match",
            signature: "(text) -> boolean",
            doc: "True when the pattern is somewhere in the text.",
            proof: Example("local r = kumo.regex.compile('b+') assert(r:is_match('abc') and not r:is_match('ac'))"),
        },
        Member {
            name: "regex:find",
            signature: "(text) -> string or nil",
            doc: "The text of the first match.",
            proof: Example("local r = kumo.regex.compile('b+') assert(r:find('abbcb') == 'bb' and r:find('a') == nil)"),
        },
        Member {
            name: "regex:find_all",
            signature: "(text) -> list",
            doc: "The texts of all matches, which do not overlap.",
            proof: Example(
                "local a = kumo.regex.compile('b+'):find_all('abbcb') assert(#a == 2 and a[1] == 'bb' and a[2] == 'b')",
            ),
        },
        Member {
            name: "regex:replace",
            signature: "(text, replacement) -> string",
            doc: "The text with the first match replaced. `$1`, `$name` and `${1}` are groups, `$$` is a dollar.",
            proof: Example("assert(kumo.regex.compile('(b)(c)?'):replace('abcb', '<$1>$$') == 'a<b>$b')"),
        },
        Member {
            name: "regex:replace_all",
            signature: "(text, replacement) -> string",
            doc: "The text with every match replaced.",
            proof: Example("assert(kumo.regex.compile('b'):replace_all('abcb', 'x') == 'axcx')"),
        },
        Member {
            name: "regex:replacen",
            signature: "(text, limit, replacement) -> string",
            doc: "The text with the first `limit` matches replaced; 0 is all of them.",
            proof: Example(
                "local r = kumo.regex.compile('b') assert(r:replacen('bbb', 2, 'x') == 'xxb' and r:replacen('bbb', 0, 'x') == 'xxx')",
            ),
        },
        Member {
            name: "regex:split",
            signature: "(text) -> list",
            doc: "The pieces of the text between matches.",
            proof: Example("local p = kumo.regex.compile(' *, *'):split('a , b,c') assert(#p == 3 and p[2] == 'b')"),
        },
    ],
};

/// Steps of backtracking before a search is given up.
const BACKTRACKS_MAX: usize = 1_000_000;
