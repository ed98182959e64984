//! A pattern's next part: what it asks of the subject, and where the part behind it begins.
//!
//! Read when the search comes to it, as Lua does: what is wrong further on is nobody's business before.

use crate::Error;
use crate::class::Class;

/// A part of a pattern.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Item<'p> {
    /// `(`
    Open,
    /// `()`
    Position,
    /// `)`
    Close,
    /// `$` as the last octet.
    End,
    /// `%bxy`
    Balance(u8, u8),
    /// `%f[set]`
    Frontier(Class<'p>),
    /// `%1`: the digit.
    Again(u8),
    /// One octet.
    One(Class<'p>),
    /// One octet or none: `?`
    Optional(Class<'p>),
    /// As many as there are, at least so many: `*`, `+`
    Most(Class<'p>, usize),
    /// As few as will do: `-`
    Fewest(Class<'p>),
}

/// The part that begins at `at`, and where the next begins; `None` at the pattern's end.
pub(crate) fn item_at(pattern: &[u8], at: usize) -> Result<Option<(Item<'_>, usize)>, Error> {
    let rest = &pattern[at..];
    Ok(Some(match rest {
        [] => return Ok(None),
        [b'(', b')', ..] => (Item::Position, at + 2),
        [b'(', ..] => (Item::Open, at + 1),
        [b')', ..] => (Item::Close, at + 1),
        [b'$'] => (Item::End, at + 1),
        [b'%', b'b', open, close, ..] => (Item::Balance(*open, *close), at + 4),
        [b'%', b'b', ..] => return Err(Error::NoBalance),
        [b'%', b'f', b'[', ..] => {
            let (class, next) = class_at(pattern, at + 2)?;
            (Item::Frontier(class), next)
        }
        [b'%', b'f', ..] => return Err(Error::NoFrontierSet),
        [b'%', digit @ b'0'..=b'9', ..] => (Item::Again(*digit), at + 2),
        _ => {
            let (class, next) = class_at(pattern, at)?;
            repeated(class, pattern.get(next).copied(), next)
        }
    }))
}

fn repeated(class: Class<'_>, sign: Option<u8>, next: usize) -> (Item<'_>, usize) {
    match sign {
        Some(b'?') => (Item::Optional(class), next + 1),
        Some(b'*') => (Item::Most(class, 0), next + 1),
        Some(b'+') => (Item::Most(class, 1), next + 1),
        Some(b'-') => (Item::Fewest(class), next + 1),
        _ => (Item::One(class), next),
    }
}

/// The class that begins at `at`, and where what is behind it begins.
fn class_at(pattern: &[u8], at: usize) -> Result<(Class<'_>, usize), Error> {
    match &pattern[at..] {
        [b'.', ..] => Ok((Class::Any, at + 1)),
        [b'%', letter, ..] => Ok((Class::Escaped(*letter), at + 2)),
        [b'%'] | [] => Err(Error::EndsWithEscape),
        [b'[', ..] => {
            let end = set_end(pattern, at + 1).ok_or(Error::OpenSet)?;
            Ok((Class::Set(&pattern[at + 1..end]), end + 1))
        }
        [octet, ..] => Ok((Class::Octet(*octet), at + 1)),
    }
}

/// Where the `]` is of the set whose text begins at `at`. One that is the first octet of it belongs to it.
fn set_end(pattern: &[u8], at: usize) -> Option<usize> {
    let mut place = if pattern.get(at) == Some(&b'^') { at + 1 } else { at };
    loop {
        place += if *pattern.get(place)? == b'%' { 2 } else { 1 };
        if *pattern.get(place)? == b']' {
            return Some(place);
        }
    }
}
