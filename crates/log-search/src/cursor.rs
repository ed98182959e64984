//! Where a search that goes back in time goes on.
//!
//! In and out: base64url without padding, which is nobody's business but ours. Fails on what was not written here.

use data_encoding::BASE64URL_NOPAD;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Before a record: what is before it in its frame, and all frames and segments before that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The name of the segment.
    pub segment: String,
    /// The number of its directory.
    pub place: usize,
    /// Where its frame begins, in octets of the file.
    pub frame: u64,
    /// Where it stands in the frame, in octets of text.
    pub offset: u64,
}

/// A cursor that nobody here made.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("invalid cursor {0:?}: expected the `next` of an earlier answer")]
pub struct BadCursor(String);

impl BadCursor {
    /// Of this text, of which the beginning is shown.
    #[must_use]
    pub fn of(text: &str) -> BadCursor {
        BadCursor(text.chars().take(80).collect())
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cursor { segment, place, frame, offset } = self;
        f.write_str(&BASE64URL_NOPAD.encode(format!("{VERSION}:{place}:{frame}:{offset}:{segment}").as_bytes()))
    }
}

impl FromStr for Cursor {
    type Err = BadCursor;

    fn from_str(text: &str) -> Result<Cursor, BadCursor> {
        let cursor = read(text).filter(|cursor| cursor.to_string() == text);
        cursor.ok_or_else(|| BadCursor::of(text))
    }
}

fn read(text: &str) -> Option<Cursor> {
    let inner = (text.len() <= OCTETS_MAX).then(|| BASE64URL_NOPAD.decode(text.as_bytes()).ok()).flatten()?;
    let inner = String::from_utf8(inner).ok()?;
    let mut parts = inner.splitn(5, ':');
    if parts.next()? != VERSION {
        return None;
    }
    let (place, frame, offset) =
        (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some(Cursor { segment: parts.next()?.to_owned(), place, frame, offset })
}

/// Of the form; another one is refused.
const VERSION: &str = "s1";
/// Longer than the longest name of a file makes one.
const OCTETS_MAX: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written_and_nothing_else_is() {
        let cursor = Cursor { segment: "20261125-033000.1-a:b".to_owned(), place: 1, frame: u64::MAX, offset: 0 };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for text in ["", "x", "czE6MTox", &BASE64URL_NOPAD.encode(b"s1:01:1:1:a"), &"A".repeat(OCTETS_MAX + 1)] {
            let error = text.parse::<Cursor>().expect_err(text).to_string();
            assert!(error.starts_with("invalid cursor \"") && error.len() < 200, "{error}");
        }
    }
}
