//! `kumo.string`: plain strings, where Lua's own functions know patterns only.

use crate::api::{Function, Module, Proof::Example, function};
use mlua::{Lua, LuaString, Value};

/// The module.
pub(crate) const STRING: Module = Module {
    name: "kumo.string",
    doc: "Text, taken literally: no pattern characters. `kumo.regex` has regular expressions.",
    functions: &[FUNCTIONS],
    types: &[],
};

const FUNCTIONS: &[Function] = &[
    function!(
        "kumo.string",
        "starts_with",
        "(text, prefix) -> boolean",
        "True when `text` begins with `prefix`.",
        Example("assert(kumo.string.starts_with('mail.test', 'mail') and not kumo.string.starts_with('a.b', 'ab'))"),
        |_, (text, prefix): (LuaString, LuaString)| Ok(text.as_bytes().starts_with(&prefix.as_bytes()))
    ),
    function!(
        "kumo.string",
        "ends_with",
        "(text, suffix) -> boolean",
        "True when `text` ends with `suffix`.",
        Example(
            "assert(kumo.string.ends_with('mx.mail.test', '.test') and not kumo.string.ends_with('test', '.test'))"
        ),
        |_, (text, suffix): (LuaString, LuaString)| Ok(text.as_bytes().ends_with(&suffix.as_bytes()))
    ),
    function!(
        "kumo.string",
        "replace",
        "(text, from, to) -> string",
        "`text` with every `from` replaced.",
        Example("assert(kumo.string.replace('a.b.c', '.', '-') == 'a-b-c')"),
        |_, (text, from, to): (String, String, String)| Ok(text.replace(&from, &to))
    ),
    function!(
        "kumo.string",
        "replacen",
        "(text, from, to, n) -> string",
        "`text` with the first `n` of `from` replaced.",
        Example("assert(kumo.string.replacen('a.b.c', '.', '-', 1) == 'a-b.c')"),
        |_, (text, from, to, n): (String, String, String, usize)| Ok(text.replacen(&from, &to, n))
    ),
    function!(
        "kumo.string",
        "split",
        "(text, separator) -> list",
        "The pieces of `text` between separators.",
        Example(
            "local p = kumo.string.split('a,b,,c', ',') assert(#p == 4 and p[1] == 'a' and p[3] == '' and p[4] == 'c')"
        ),
        |_, (text, separator): (String, String)| Ok(pieces(text.split(&separator)))
    ),
    function!(
        "kumo.string",
        "splitn",
        "(text, limit, separator) -> list",
        "As `split`, at most `limit` pieces: the last has the rest.",
        Example("local p = kumo.string.splitn('a,b,c', 2, ',') assert(#p == 2 and p[2] == 'b,c')"),
        |_, (text, limit, separator): (String, usize, String)| Ok(pieces(text.splitn(limit, &separator)))
    ),
    function!(
        "kumo.string",
        "rsplit",
        "(text, separator) -> list",
        "As `split`, the last piece first.",
        Example("local p = kumo.string.rsplit('a,b,c', ',') assert(p[1] == 'c' and p[3] == 'a')"),
        |_, (text, separator): (String, String)| Ok(pieces(text.rsplit(&separator)))
    ),
    function!(
        "kumo.string",
        "rsplitn",
        "(text, limit, separator) -> list",
        "As `rsplit`, at most `limit` pieces: the last has the rest.",
        Example("local p = kumo.string.rsplitn('a,b,c', 2, ',') assert(#p == 2 and p[1] == 'c' and p[2] == 'a,b')"),
        |_, (text, limit, separator): (String, usize, String)| Ok(pieces(text.rsplitn(limit, &separator)))
    ),
    function!(
        "kumo.string",
        "split_whitespace",
        "(text) -> list",
        "The words of `text`, between white space as Unicode knows it.",
        Example("local p = kumo.string.split_whitespace(' a\\u{2003}b  c ') assert(#p == 3 and p[2] == 'b')"),
        |_, text: String| Ok(pieces(text.split_whitespace()))
    ),
    function!(
        "kumo.string",
        "split_ascii_whitespace",
        "(text) -> list",
        "The words of `text`, between white space of ASCII.",
        Example("local p = kumo.string.split_ascii_whitespace('a\\u{2003}b c') assert(#p == 2 and p[2] == 'c')"),
        |_, text: String| Ok(pieces(text.split_ascii_whitespace()))
    ),
    function!(
        "kumo.string",
        "trim",
        "(text) -> string",
        "`text` without white space at both ends.",
        Example("assert(kumo.string.trim('  x \\r\\n') == 'x')"),
        |_, text: String| Ok(text.trim().to_owned())
    ),
    function!(
        "kumo.string",
        "trim_start",
        "(text) -> string",
        "`text` without white space at its beginning.",
        Example("assert(kumo.string.trim_start('  x ') == 'x ')"),
        |_, text: String| Ok(text.trim_start().to_owned())
    ),
    function!(
        "kumo.string",
        "trim_end",
        "(text) -> string",
        "`text` without white space at its end.",
        Example("assert(kumo.string.trim_end('  x ') == '  x')"),
        |_, text: String| Ok(text.trim_end().to_owned())
    ),
    function!(
        "kumo.string",
        "psl_domain",
        "(name) -> string or nil",
        "The registrable domain of a name by the Public Suffix List; nil for a suffix itself.",
        Example(
            "assert(kumo.string.psl_domain('mx1.mail.example.co.uk') == 'example.co.uk' and kumo.string.psl_domain('co.uk') == nil)"
        ),
        |lua, name: String| optional(lua, public_suffix::domain(&name.to_ascii_lowercase()))
    ),
    function!(
        "kumo.string",
        "psl_suffix",
        "(name) -> string or nil",
        "The public suffix of a name.",
        Example("assert(kumo.string.psl_suffix('mx1.mail.example.co.uk') == 'co.uk')"),
        |lua, name: String| optional(lua, public_suffix::suffix(&name.to_ascii_lowercase()))
    ),
    function!(
        "kumo.string",
        "normalize_smtp_response",
        "(text) -> string",
        "`text` with what differs from reply to reply replaced by its kind: `{timestamp}`, `{uuid}`, `{hash}`, `{ipaddr}`, \
         `{base64}`, `{email}`. Two replies that say the same are then equal.",
        Example(
            "local n = kumo.string.normalize_smtp_response \
             assert(n('rejected 192.0.2.7 (user@a.test) id=5f8b1c52-0f1e-4b6f-9df9-6b0b4c1e7a11') \
                == 'rejected {ipaddr} ({email}) id={uuid}')"
        ),
        |_, text: String| Ok(template::normalized(&text))
    ),
    function!(
        "kumo.string",
        "eval_template",
        "(name, source, context, dialect = 'Jinja') -> string",
        "What a template makes of the values in `context`. `dialect` is `Jinja`, `Handlebars` or `Static` (the source as it \
         is); a `name` that ends in `.html` or `.json` has values escaped so.",
        Example(
            "assert(kumo.string.eval_template('t.txt', 'Hello {{ name }}', { name = '<Ann>' }) == 'Hello <Ann>') \
             assert(kumo.string.eval_template('t.html', 'Hello {{ name }}', { name = '<Ann>' }) == 'Hello &lt;Ann&gt;') \
             assert(kumo.string.eval_template('t.json', '{\"a\": {{ name }}}', { name = 'a\"b' }):find('a\\\\\"b', 1, true)) \
             assert(not pcall(kumo.string.eval_template, 't', '{{#*inline \"a\"}}{{> a}}{{/inline}}{{> a}}', {}, 'Handlebars')) \
             assert(kumo.string.eval_template('t', 'Hello {{name}}', { name = 'Ann' }, 'Handlebars') == 'Hello Ann') \
             assert(kumo.string.eval_template('t', 'Hello {{ name }}', {}, 'Static') == 'Hello {{ name }}')"
        ),
        crate::modules::template::eval
    ),
    function!(
        "kumo.string",
        "wrap",
        "(text, soft = 75, hard = 900) -> string",
        "`text` in lines that end at a blank near `soft` octets and at the latest at `hard`, joined as a folded header field is.",
        Example(
            "assert(kumo.string.wrap('one two three', 7, 20) == 'one two\\r\\n\\tthree') \
             assert(kumo.string.wrap('short') == 'short')"
        ),
        wrap
    ),
];

fn pieces<'a>(pieces: impl Iterator<Item = &'a str>) -> Vec<String> {
    pieces.map(str::to_owned).collect()
}

fn optional(lua: &Lua, found: Option<&str>) -> mlua::Result<Value> {
    found.map_or(Ok(Value::Nil), |text| lua.create_string(text).map(Value::String))
}

fn wrap(_: &Lua, (text, soft, hard): (String, Option<usize>, Option<usize>)) -> mlua::Result<String> {
    let (soft, hard) = (soft.unwrap_or(WRAP_SOFT_OCTETS), hard.unwrap_or(WRAP_HARD_OCTETS));
    if soft == 0 || hard < soft {
        return Err(mlua::Error::runtime(format!("soft {soft}, hard {hard}: expected 1 <= soft <= hard")));
    }
    Ok(wrapped(&text, soft, hard).join("\r\n\t"))
}

/// Lines of at most `soft` octets where blanks allow it, and of at most `hard` always.
fn wrapped(text: &str, soft: usize, hard: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && line.len() + 1 + word.len() > soft {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        for character in word.chars() {
            if line.len() + character.len_utf8() > hard {
                lines.push(std::mem::take(&mut line));
            }
            line.push(character);
        }
    }
    if !line.is_empty() || lines.is_empty() {
        lines.push(line);
    }
    lines
}

/// Where lines end if they can (KumoMTA's default).
const WRAP_SOFT_OCTETS: usize = 75;
/// Where lines end at the latest (KumoMTA's default).
const WRAP_HARD_OCTETS: usize = 900;
