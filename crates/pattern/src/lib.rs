//! Lua's patterns (reference manual 5.4, section 6.4.1) with an end: a search takes so many steps and no more.
//!
//! In: a subject, a pattern, where to begin, and the steps that are left. Out: where the first match is and what it captured.
//! Lua's own search is C code that nothing interrupts, and a pattern such as `^(.-)%s*$` takes the square of the subject's
//! length: a client that chooses the subject would hold a thread for as long as it likes. Pure; octets, no characters.

mod class;
mod item;
mod matcher;

pub use matcher::{Capture, Match};

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
    #[error(
        "the search took too many steps and was stopped: the pattern's repetitions can share out this text in too many ways"
    )]
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
/// place where the search may begin, and each `?` doubles that.
pub fn cheap_length(pattern: &[u8], steps: u32) -> usize {
    let count = |signs: &[u8]| pattern.iter().filter(|octet| signs.contains(octet)).count();
    let repetitions = count(b"*+-") + pattern.windows(2).filter(|pair| pair == b"%b").count();
    let power = (repetitions + usize::from(!pattern.starts_with(b"^"))).max(1);
    // `%1` is as long as what it repeats.
    let again = pattern.windows(2).filter(|pair| pair[0] == b'%' && pair[1].is_ascii_digit()).count();
    let ways = 2f64.powf(count(b"?") as f64);
    let each = f64::from(steps) / ways;
    each.powf(1.0 / (power + again) as f64) as usize
}

/// True when `pattern` is nothing but itself: no octet of it has a meaning.
pub fn is_plain(pattern: &[u8]) -> bool {
    !pattern.iter().any(|octet| b"^$*+?.([%-".contains(octet))
}

/// Most captures of a pattern (Lua's LUA_MAXCAPTURES).
pub const CAPTURES_MAX: usize = 32;
/// Most parts of a pattern that depend on one another (Lua's MAXCCALLS).
pub const DEPTH_MAX: usize = 200;
