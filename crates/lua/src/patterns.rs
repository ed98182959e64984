//! `string.find`, `match`, `gmatch` and `gsub`, such that no search holds its thread for ever.
//!
//! Lua's own are C code that the guard's hook does not see, and what they take grows with a power of the subject's length: a
//! message could be made for a harmless looking pattern. Where the pattern and the length of the subject leave that open, the
//! same search is done by the crate `pattern`, step by step, and what it takes counts against the handler's budget as
//! instructions do. Short subjects, which is nearly all, go to Lua's own functions, which are faster. The choice, and all that
//! may fail, is in patterns.lua: an error is raised where Lua would, as what Lua would make it.

use crate::compiled::Compiled;
use crate::{guard, waiting};
use mlua::{Function, Lua, LuaString, MultiValue, Table, Value};
use pattern::{Capture, Error, Match, Pattern};
use std::cell::Cell;

/// Puts them in the place of Lua's own.
pub(crate) fn replace(lua: &Lua, choice: &Compiled) -> mlua::Result<()> {
    let string: Table = lua.globals().get("string")?;
    let bounded = lua.create_table_with_capacity(0, 6)?;
    bounded.raw_set("find", lua.create_function(find)?)?;
    bounded.raw_set("match", lua.create_function(match_one)?)?;
    bounded.raw_set("gmatch", lua.create_function(gmatch)?)?;
    bounded.raw_set("gsub", lua.create_function(gsub)?)?;
    bounded.raw_set("next", lua.create_function(next_match)?)?;
    bounded.raw_set("cheap_length", lua.create_function(cheap_length)?)?;
    choice.without_lines(lua, "=patterns", include_bytes!("patterns.lua"))?.call((string, bounded))
}

/// Up to which length Lua's own search is fast enough: none where the pattern may be wrong.
fn cheap_length(_: &Lua, pattern: LuaString) -> mlua::Result<i64> {
    let length = pattern::cheap_length(&pattern.as_bytes(), CHEAP_STEPS);
    Ok(length.map_or(-1, |length| i64::try_from(length).unwrap_or(i64::MAX)))
}

/// What these functions come to: values, or `false` and what is wrong, which Lua raises.
fn told(lua: &Lua, found: Result<MultiValue, Error>) -> mlua::Result<MultiValue> {
    match found {
        Ok(values) => Ok(values),
        Err(error) => wrong(lua, &error.to_string()),
    }
}

fn wrong(lua: &Lua, text: &str) -> mlua::Result<MultiValue> {
    Ok(MultiValue::from_iter([Value::Boolean(false), Value::String(lua.create_string(text)?)]))
}

fn find(lua: &Lua, given: (LuaString, LuaString, Option<i64>, Option<bool>)) -> mlua::Result<MultiValue> {
    let (subject, text, init, plain) = given;
    let (octets, text) = (subject.as_bytes(), text.as_bytes());
    let Some(from) = begin(init, octets.len()) else { return nothing() };
    if plain == Some(true) || pattern::is_plain(&text) {
        let Some(at) = memchr::memmem::find(&octets[from..], &text) else { return nothing() };
        return Ok([from + at + 1, from + at + text.len()].into_iter().map(number).collect());
    }
    match search(lua, |steps| Pattern::new(&text).find(&octets, from, steps)) {
        Ok(None) => nothing(),
        Ok(Some(found)) => {
            let places = [number(found.start + 1), number(found.end)];
            let captures = values(lua, &octets, &found, 0..found.count())?;
            told(lua, captures.map(|captures| places.into_iter().chain(captures).collect()))
        }
        Err(error) => told(lua, Err(error)),
    }
}

fn match_one(lua: &Lua, given: (LuaString, LuaString, Option<i64>)) -> mlua::Result<MultiValue> {
    let (subject, text, init) = given;
    let (octets, text) = (subject.as_bytes(), text.as_bytes());
    let Some(from) = begin(init, octets.len()) else { return nothing() };
    match search(lua, |steps| Pattern::new(&text).find(&octets, from, steps)) {
        Ok(None) => nothing(),
        Ok(Some(found)) => told(lua, captures(lua, &octets, &found)?),
        Err(error) => told(lua, Err(error)),
    }
}

fn gmatch(lua: &Lua, given: (LuaString, LuaString, Option<i64>)) -> mlua::Result<Function> {
    let (subject, text, init) = given;
    // From where the next search begins, and where the last match ended, which an empty one must not repeat.
    let place = Cell::new((begin(init, subject.as_bytes().len()), None));
    lua.create_function(move |lua, _: MultiValue| {
        let (Some(from), last) = place.get() else { return nothing() };
        let (octets, text) = (subject.as_bytes(), text.as_bytes());
        match search(lua, |steps| next(Pattern::unanchored(&text), &octets, from, last, steps)) {
            Ok(None) => {
                place.set((None, None));
                nothing()
            }
            Ok(Some(found)) => {
                place.set((Some(found.end), Some(found.end)));
                told(lua, captures(lua, &octets, &found)?)
            }
            Err(error) => told(lua, Err(error)),
        }
    })
}

/// The match behind the one that ended at `last`, which an empty one must not repeat: its first and its last place, and what it
/// captured, all of it or the first.
fn next_match(lua: &Lua, given: (LuaString, LuaString, usize, Option<usize>, bool)) -> mlua::Result<MultiValue> {
    let (subject, text, from, last, is_all) = given;
    let (octets, text) = (subject.as_bytes(), text.as_bytes());
    match search(lua, |steps| next(Pattern::new(&text), &octets, from, last, steps)) {
        Ok(None) => nothing(),
        Ok(Some(found)) => {
            let places = [number(found.start), number(found.end)];
            let count = if is_all { found.count().max(1) } else { 1 };
            let captures = values(lua, &octets, &found, 0..count)?;
            told(lua, captures.map(|captures| places.into_iter().chain(captures).collect()))
        }
        Err(error) => told(lua, Err(error)),
    }
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

/// `gsub` by a text. What a table or a function puts in is for Lua to ask.
fn gsub(lua: &Lua, given: (LuaString, LuaString, LuaString, Option<i64>)) -> mlua::Result<MultiValue> {
    let (subject, text, by, most) = given;
    let (octets, text, by) = (subject.as_bytes(), text.as_bytes(), by.as_bytes());
    let pattern = Pattern::new(&text);
    let most = most.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(0));
    let (mut made, mut at, mut last, mut count) = (Vec::new(), 0, None, 0);
    while count < most {
        let found = match search(lua, |steps| next(pattern, &octets, at, last, steps)) {
            Ok(Some(found)) => found,
            Ok(None) => break,
            Err(error) => return told(lua, Err(error)),
        };
        count += 1;
        made.extend_from_slice(&octets[at..found.start]);
        if let Err(why) = expand(&by, &octets, &found, &mut made) {
            return wrong(lua, &why);
        }
        guard::room(lua, made.len())?;
        (at, last) = (found.end, Some(found.end));
        if pattern.is_anchored() {
            break;
        }
    }
    made.extend_from_slice(&octets[at..]);
    Ok(MultiValue::from_iter([Value::String(lua.create_string(made)?), number(count)]))
}

/// A replacement's text, with captures where it has `%1`.
fn expand(text: &[u8], octets: &[u8], found: &Match, made: &mut Vec<u8>) -> Result<(), String> {
    let mut rest = text.iter();
    while let Some(octet) = rest.next() {
        match (octet, if *octet == b'%' { rest.next() } else { None }) {
            (b'%', Some(b'0')) => made.extend_from_slice(&octets[found.start..found.end]),
            (b'%', Some(digit @ b'1'..=b'9')) => {
                let capture = found.capture(usize::from(digit - b'1'));
                match capture.map_err(|error| error.to_string())? {
                    Capture::Span(start, end) => made.extend_from_slice(&octets[start..end]),
                    Capture::Position(at) => made.extend_from_slice((at + 1).to_string().as_bytes()),
                }
            }
            (b'%', Some(b'%')) => made.push(b'%'),
            (b'%', _) => return Err("invalid use of '%' in replacement string".to_owned()),
            (octet, _) => made.push(*octet),
        }
    }
    Ok(())
}

/// All captures, or the whole match of a pattern without any.
fn captures(lua: &Lua, octets: &[u8], found: &Match) -> mlua::Result<Result<MultiValue, Error>> {
    values(lua, octets, found, 0..found.count().max(1))
}

fn values(
    lua: &Lua,
    octets: &[u8],
    found: &Match,
    which: std::ops::Range<usize>,
) -> mlua::Result<Result<MultiValue, Error>> {
    let mut values = Vec::with_capacity(which.len());
    for capture in which {
        values.push(match found.capture(capture) {
            Ok(Capture::Span(start, end)) => Value::String(lua.create_string(&octets[start..end])?),
            Ok(Capture::Position(at)) => number(at + 1),
            Err(error) => return Ok(Err(error)),
        });
    }
    Ok(Ok(values.into_iter().collect()))
}

/// Runs a search within what the handler has left. One that turns out to be long begins anew where nobody waits for its thread,
/// and those of a handler that has searched for long already begin there.
fn search<T>(lua: &Lua, run: impl Fn(&mut u64) -> Result<T, Error>) -> Result<T, Error> {
    let allowed = guard::steps(lua);
    let short = allowed.min(SHORT_STEPS.saturating_sub(guard::took(lua, 0)));
    let (mut left, mut here) = (allowed, short);
    let found = match run(&mut here) {
        Err(Error::TooLong) if short < allowed => waiting::apart(|| run(&mut left)),
        found => {
            left -= short - here;
            found
        }
    };
    guard::took(lua, allowed - left);
    found
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

/// Steps of a search that Lua's own may take unseen: a fraction of a millisecond.
const CHEAP_STEPS: u32 = 20_000;
/// Steps of a handler that nobody has to wait for: some milliseconds.
const SHORT_STEPS: u64 = 500_000;

#[cfg(test)]
#[path = "patterns_tests.rs"]
mod tests;
