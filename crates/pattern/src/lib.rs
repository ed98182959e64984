//! Lua's patterns (reference manual 5.4, section 6.4.1) with an end: a search takes so many steps and no more.
//!
//! In: a subject, a pattern, where to begin, and the steps that are left. Out: where the first match is and what it captured.
//! Lua's own search is C code that nothing interrupts, and a pattern such as `^(.-)%s*$` takes the square of the subject's
//! length: a client that chooses the subject would hold a thread for as long as it likes. Pure; octets, no characters.

mod class;
mod item;
mod matcher;

pub use matcher::{Capture, Match};

use item::{Item, item_at};
use matcher::Matcher;

/// A pattern as it is written.
#[derive(Clone, Copy, Debug)]
pub struct Pattern<'p> {
    text: &'p [u8],
    anchored: bool,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// `%` and nothing behind it.
    #[error("malformed pattern (ends with '%')")]
    EndsWithEscape,
    /// `[` without its `]`.
    #[error("malformed pattern (missing ']')")]
    OpenSet,
    /// `%b` without its two octets.
    #[error("malformed pattern (missing arguments to '%b')")]
    NoBalance,
    /// `%f` without a set.
    #[error("missing '[' after '%f' in pattern")]
    NoFrontierSet,
    /// `)` without a `(`.
    #[error("invalid pattern capture")]
    NothingToClose,
    /// `%1` for a capture that is not there, or not closed yet.
    #[error("invalid capture index %{0}")]
    NoCapture(usize),
    /// `(` without a `)`.
    #[error("unfinished capture")]
    Unfinished,
    /// More than [`CAPTURES_MAX`] captures.
    #[error("too many captures")]
    TooManyCaptures,
    /// More than [`DEPTH_MAX`] parts of the pattern depend on one another.
    #[error("pattern too complex")]
    TooComplex,
    /// No steps are left.
    #[error("the search took more steps than the handler has left and was stopped")]
    TooLong,
}

impl<'p> Pattern<'p> {
    /// A pattern in which a leading `^` ties the match to where the search begins.
    pub fn new(text: &'p [u8]) -> Pattern<'p> {
        match text.strip_prefix(b"^") {
            Some(rest) => Pattern { text: rest, anchored: true },
            None => Pattern { text, anchored: false },
        }
    }

    /// A pattern in which `^` is an octet like any other, as `gmatch` takes it.
    pub fn unanchored(text: &'p [u8]) -> Pattern<'p> {
        Pattern { text, anchored: false }
    }

    /// True when it matches at the beginning only.
    pub fn is_anchored(&self) -> bool {
        self.anchored
    }

    /// The first match in `subject` at `from` or behind; `from` is at most the subject's length. Takes from `steps` what it
    /// costs: an octet looked at is a step.
    ///
    /// # Errors
    /// The pattern is wrong in a part the search came to, or no steps are left.
    pub fn find(&self, subject: &[u8], from: usize, steps: &mut u64) -> Result<Option<Match>, Error> {
        for start in from..=subject.len() {
            if let Some(found) = self.match_at(subject, start, steps)? {
                return Ok(Some(found));
            }
            if self.anchored {
                break;
            }
        }
        Ok(None)
    }

    /// The match that begins at `start`, which is at most the subject's length.
    ///
    /// # Errors
    /// As [`Pattern::find`].
    pub fn match_at(&self, subject: &[u8], start: usize, steps: &mut u64) -> Result<Option<Match>, Error> {
        Matcher::new(subject, self.text, steps).run(start)
    }
}

/// The length up to which no subject costs more than `steps`, whatever it holds: each repetition may try every length, from every
/// place where the search may begin, and each `?` doubles that. `None` for a pattern that is wrong somewhere, or whose captures
/// may be.
pub fn cheap_length(pattern: &[u8], steps: u32) -> Option<usize> {
    // A leading `^` is an octet to `gmatch`, with what stands behind it.
    let tied = length_of(Pattern::new(pattern).text, steps)?;
    Some(tied.min(length_of(pattern, steps)?))
}

fn length_of(text: &[u8], steps: u32) -> Option<usize> {
    let (mut at, mut repetitions, mut ways, mut open, mut captures) = (0, 0, 1.0, 0_usize, 0);
    while let Some((item, next)) = item_at(text, at).ok()? {
        match item {
            Item::Open => (open, captures) = (open + 1, captures + 1),
            Item::Position => captures += 1,
            Item::Close => open = open.checked_sub(1)?,
            Item::Again(_) => return None,
            Item::Balance(..) | Item::Most(..) | Item::Fewest(_) => repetitions += 1,
            Item::Optional(_) => ways *= 2.0,
            Item::End | Item::Frontier(_) | Item::One(_) => {}
        }
        at = next;
    }
    if open > 0 || captures > CAPTURES_MAX || text.len() > DEPTH_MAX / 2 {
        return None;
    }
    Some((f64::from(steps) / ways).powf(1.0 / f64::from(repetitions + 1)) as usize)
}

/// True when `pattern` is nothing but itself: no octet of it has a meaning.
pub fn is_plain(pattern: &[u8]) -> bool {
    !pattern.iter().any(|octet| b"^$*+?.([%-".contains(octet))
}

/// Most captures of a pattern (Lua's LUA_MAXCAPTURES).
pub const CAPTURES_MAX: usize = 32;
/// Most parts of a pattern that depend on one another (Lua's MAXCCALLS).
pub const DEPTH_MAX: usize = 200;
