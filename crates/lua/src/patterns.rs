//! `string.find`, `match`, `gmatch` and `gsub`, such that no search holds its thread for ever.
//!
//! Lua's own are C code that the guard's hook does not see, and what they take grows with a power of the subject's length: a
//! message could be made for a harmless looking pattern. Where the pattern and the length of the subject leave that open, the
//! same search is done by the crate `pattern`, step by step: so many in a search, and what it takes counts against the
//! handler's budget. Short subjects, which is nearly all, go to Lua's own functions, which are faster.

use crate::compiled::Compiled;
use crate::guard;
use crate::modules::log::place_at;
use crate::waiting;
use mlua::{Function, Lua, LuaString, MultiValue, Table, Value};
use pattern::{Capture, Error, Match, Pattern};
use std::cell::Cell;

/// Puts them in the place of Lua's own.
pub(crate) fn replace(lua: &Lua, choice: &Compiled) -> mlua::Result<()> {
    let string: Table = lua.globals().get("string")?;
    let bounded = lua.create_table_with_capacity(0, 5)?;
    bounded.raw_set("find", lua.create_function(find)?)?;
    bounded.raw_set("match", lua.create_function(match_one)?)?;
    bounded.raw_set("gmatch", lua.create_function(gmatch)?)?;
    bounded.raw_set("gsub", lua.create_function(gsub)?)?;
    bounded.raw_set("cheap_length", lua.create_function(cheap_length)?)?;
    choice.without_lines(lua, "=patterns", include_bytes!("patterns.lua"))?.call((string, bounded))
}

/// Up to which length Lua's own search is fast enough. What is no pattern is for Lua to refuse.
fn cheap_length(_: &Lua, pattern: Value) -> mlua::Result<i64> {
    let length = pattern.as_string().map(|text| pattern::cheap_length(&text.as_bytes(), CHEAP_STEPS));
    Ok(length.and_then(|length| i64::try_from(length).ok()).unwrap_or(i64::MAX))
}

fn find(lua: &Lua, given: (LuaString, LuaString, Option<i64>, Option<Value>)) -> mlua::Result<MultiValue> {
    let (subject, text, init, plain) = given;
    let (octets, text) = (subject.as_bytes(), text.as_bytes());
    let Some(from) = begin(init, octets.len()) else { return nothing() };
    if plain.is_some_and(|plain| plain.as_boolean() != Some(false) && !plain.is_nil()) || pattern::is_plain(&text) {
        let Some(at) = memchr::memmem::find(&octets[from..], &text) else { return nothing() };
        return Ok([from + at + 1, from + at + text.len()].into_iter().map(number).collect());
    }
    let found = search(lua, &octets, |steps| Pattern::new(&text).find(&octets, from, steps))?;
    let Some(found) = found else { return nothing() };
    let mut told = vec![number(found.start + 1), number(found.end)];
    for capture in 0..found.count() {
        told.push(value(lua, &octets, &found, capture)?);
    }
    Ok(told.into_iter().collect())
}

fn match_one(lua: &Lua, given: (LuaString, LuaString, Option<i64>)) -> mlua::Result<MultiValue> {
    let (subject, text, init) = given;
    let (octets, text) = (subject.as_bytes(), text.as_bytes());
    let Some(from) = begin(init, octets.len()) else { return nothing() };
    match search(lua, &octets, |steps| Pattern::new(&text).find(&octets, from, steps))? {
        Some(found) => captures(lua, &octets, &found),
        None => nothing(),
    }
}

fn gmatch(lua: &Lua, given: (LuaString, LuaString, Option<i64>)) -> mlua::Result<Function> {
    let (subject, text, init) = given;
    // From where the next search begins, and where the last match ended, which an empty one must not repeat.
    let place = Cell::new((begin(init, subject.as_bytes().len()), None));
    lua.create_function(move |lua, _: MultiValue| {
        let (Some(from), last) = place.get() else { return nothing() };
        let (octets, text) = (subject.as_bytes(), text.as_bytes());
        let found = search(lua, &octets, |steps| next(Pattern::unanchored(&text), &octets, from, last, steps))?;
        let Some(found) = found else {
            place.set((None, None));
            return nothing();
        };
        place.set((Some(found.end), Some(found.end)));
        captures(lua, &octets, &found)
    })
}

/// The first match from `from` on that does not end where the last one did.
fn next(
    pattern: Pattern<'_>,
    octets: &[u8],
    from: usize,
    last: Option<usize>,
    steps: &mut u64,
) -> Result<Option<Match>, Error> {
    for start in from..=octets.len() {
        match pattern.match_at(octets, start, steps)? {
            Some(found) if Some(found.end) != last => return Ok(Some(found)),
            _ if pattern.is_anchored() => break,
            _ => {}
        }
    }
    Ok(None)
}

fn gsub(lua: &Lua, given: (LuaString, LuaString, Value, Option<i64>)) -> mlua::Result<(LuaString, usize)> {
    let (subject, text, by, most) = given;
    let (octets, text) = (subject.as_bytes(), text.as_bytes());
    let by = Replacement::of(lua, by)?;
    let pattern = Pattern::new(&text);
    let most = most.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(0));
    let (mut made, mut at, mut last, mut count) = (Vec::new(), 0, None, 0);
    while count < most {
        let Some(found) = search(lua, &octets, |steps| next(pattern, &octets, at, last, steps))? else { break };
        count += 1;
        made.extend_from_slice(&octets[at..found.start]);
        by.append(lua, &octets, &found, &mut made)?;
        guard::room(lua, made.len())?;
        (at, last) = (found.end, Some(found.end));
        if pattern.is_anchored() {
            break;
        }
    }
    made.extend_from_slice(&octets[at..]);
    Ok((lua.create_string(made)?, count))
}

/// What `gsub` puts in the place of a match.
enum Replacement {
    Text(LuaString),
    Table(Table),
    Function(Function),
}

impl Replacement {
    fn of(lua: &Lua, value: Value) -> mlua::Result<Replacement> {
        match value {
            Value::Table(table) => Ok(Replacement::Table(table)),
            Value::Function(function) => Ok(Replacement::Function(function)),
            Value::String(text) => Ok(Replacement::Text(text)),
            Value::Integer(_) | Value::Number(_) => {
                let text = lua.coerce_string(value)?;
                text.map(Replacement::Text).ok_or_else(|| mlua::Error::runtime("a number has a text"))
            }
            other => Err(said(
                lua,
                &format!(
                    "bad argument #3 to 'gsub' (string/function/table expected, got {})",
                    if other.is_nil() { "nil" } else { other.type_name() }
                ),
            )),
        }
    }

    fn append(&self, lua: &Lua, octets: &[u8], found: &Match, made: &mut Vec<u8>) -> mlua::Result<()> {
        let own = match self {
            Replacement::Text(text) => return expand(lua, &text.as_bytes(), octets, found, made),
            Replacement::Table(table) => table.get(value(lua, octets, found, 0)?)?,
            Replacement::Function(function) => function.call(captures(lua, octets, found)?)?,
        };
        match own {
            Value::Nil | Value::Boolean(false) => made.extend_from_slice(&octets[found.start..found.end]),
            Value::String(text) => made.extend_from_slice(&text.as_bytes()),
            Value::Integer(_) | Value::Number(_) => made.extend_from_slice(own.to_string()?.as_bytes()),
            other => return Err(said(lua, &format!("invalid replacement value (a {})", other.type_name()))),
        }
        Ok(())
    }
}

/// A replacement's text, with captures where it has `%1`.
fn expand(lua: &Lua, text: &[u8], octets: &[u8], found: &Match, made: &mut Vec<u8>) -> mlua::Result<()> {
    let mut rest = text.iter();
    while let Some(octet) = rest.next() {
        match (octet, if *octet == b'%' { rest.next() } else { None }) {
            (b'%', Some(b'0')) => made.extend_from_slice(&octets[found.start..found.end]),
            (b'%', Some(digit @ b'1'..=b'9')) => {
                let capture = found.capture(usize::from(digit - b'1'));
                match capture.map_err(|e| said(lua, &e.to_string()))? {
                    Capture::Span(start, end) => made.extend_from_slice(&octets[start..end]),
                    Capture::Position(at) => made.extend_from_slice((at + 1).to_string().as_bytes()),
                }
            }
            (b'%', Some(b'%')) => made.push(b'%'),
            (b'%', _) => return Err(said(lua, "invalid use of '%' in replacement string")),
            (octet, _) => made.push(*octet),
        }
    }
    Ok(())
}

/// All captures, or the whole match of a pattern without any.
fn captures(lua: &Lua, octets: &[u8], found: &Match) -> mlua::Result<MultiValue> {
    (0..found.count().max(1)).map(|capture| value(lua, octets, found, capture)).collect()
}

fn value(lua: &Lua, octets: &[u8], found: &Match, capture: usize) -> mlua::Result<Value> {
    match found.capture(capture).map_err(|e| said(lua, &e.to_string()))? {
        Capture::Span(start, end) => Ok(Value::String(lua.create_string(&octets[start..end])?)),
        Capture::Position(at) => Ok(number(at + 1)),
    }
}

/// Runs a search within what the handler has left. To look at each octet a few times is allowed however many there are. One that
/// turns out to be long begins anew where nobody waits for its thread.
fn search<T>(lua: &Lua, octets: &[u8], run: impl Fn(&mut u64) -> Result<T, Error>) -> mlua::Result<T> {
    let usual = SEARCH_STEPS_MAX.max(STEPS_PER_OCTET * octets.len() as u64);
    let allowed = guard::steps(lua).min(usual);
    let (mut left, short) = (allowed, allowed.min(SHORT_STEPS));
    let mut here = short;
    let found = match run(&mut here) {
        Err(Error::TooLong) if short < allowed => waiting::apart(|| run(&mut left)),
        found => {
            left -= short - here;
            found
        }
    };
    guard::took(lua, allowed - left);
    found.map_err(|e| said(lua, &e.to_string()))
}

/// An error that says which line of the script it is about, as Lua's own do.
fn said(lua: &Lua, text: &str) -> mlua::Error {
    // Between the script and these functions is the choice, which has no lines.
    let place = place_at(lua, CALLER).flatten();
    mlua::Error::runtime(place.map_or_else(|| text.to_owned(), |place| format!("{place}: {text}")))
}

/// Where a search begins, counted from 0; `None` behind the end.
fn begin(init: Option<i64>, length: usize) -> Option<usize> {
    let init = init.unwrap_or(1);
    let back = usize::try_from(init.unsigned_abs()).unwrap_or(usize::MAX);
    let from = if init >= 0 { back.saturating_sub(1) } else { length.saturating_sub(back) };
    (from <= length).then_some(from)
}

fn number(at: usize) -> Value {
    Value::Integer(i64::try_from(at).unwrap_or(i64::MAX))
}

fn nothing() -> mlua::Result<MultiValue> {
    Ok(MultiValue::from_iter([Value::Nil]))
}

/// How far up the stack the script is.
const CALLER: usize = 2;
/// Steps of a search that Lua's own may take unseen: some ten milliseconds.
const CHEAP_STEPS: u32 = 4_000_000;
/// Steps that nobody has to wait for: some milliseconds.
const SHORT_STEPS: u64 = 500_000;
/// Steps of any search: some tenths of a second.
const SEARCH_STEPS_MAX: u64 = 30_000_000;
/// What one that is linear takes.
const STEPS_PER_OCTET: u64 = 8;

#[cfg(test)]
#[path = "patterns_tests.rs"]
mod tests;
