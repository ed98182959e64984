//! A place in a log, as consumers keep it.
//!
//! Owns [`Cursor`]. In and out: `1:LINE:SEGMENT` in base64url without padding, which is nobody's business but ours: the number of
//! the last line that was read, and the name of its segment. Names of segments do not change when these are finished, so
//! a cursor outlives restarts. Fails on what it did not write itself. The name is only ever compared with those of files
//! that are there.

use crate::error::EventError;
use data_encoding::BASE64URL_NOPAD;
use jsonl::Position;
use std::fmt;
use std::str::FromStr;

/// Behind a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(pub Position);

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Position { file, line } = &self.0;
        f.write_str(&BASE64URL_NOPAD.encode(format!("{VERSION}:{line}:{file}").as_bytes()))
    }
}

impl FromStr for Cursor {
    type Err = EventError;

    fn from_str(text: &str) -> Result<Cursor, EventError> {
        // So much of it is shown.
        let wrong = || EventError::Cursor(text.chars().take(80).collect());
        if text.len() > CURSOR_OCTETS_MAX {
            return Err(wrong());
        }
        let octets = BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| wrong())?;
        let inner = String::from_utf8(octets).map_err(|_| wrong())?;
        let mut parts = inner.splitn(3, ':');
        let (version, line, file) = (parts.next(), parts.next(), parts.next());
        let line = line.and_then(|line| line.parse().ok());
        let cursor = match (version, line, file) {
            (Some(VERSION), Some(line), Some(file)) => Cursor(Position { file: file.into(), line }),
            _ => return Err(wrong()),
        };
        // One form a place.
        if cursor.to_string() == text { Ok(cursor) } else { Err(wrong()) }
    }
}

/// Of the form; another one is refused.
const VERSION: &str = "1";
/// Longest cursor that is looked at, in octets: more than the longest name of a file.
pub const CURSOR_OCTETS_MAX: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(file: &str, line: u64) -> Cursor {
        Cursor(Position { file: file.into(), line })
    }

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        for cursor in [
            Cursor(Position::before_all()),
            of("20261125-033000.123456789", 0),
            of("20261125-033000.123456789-a:b", u64::MAX),
        ] {
            assert_eq!(cursor.to_string().parse::<Cursor>().expect("ours"), cursor);
        }
        let golden = "MTo0MjoyMDI2MTEyNS0wMzMwMDAuMTIzNDU2Nzg5";
        assert_eq!(of("20261125-033000.123456789", 42).to_string(), golden, "those that consumers keep stay good");
    }

    #[test]
    fn what_was_not_written_here_is_refused_and_shown() {
        let encoded = |text: &str| BASE64URL_NOPAD.encode(text.as_bytes());
        for text in [
            String::new(),
            "x".to_owned(),
            "end".to_owned(),
            encoded("2:1:a"),
            encoded("1:x:a"),
            encoded("1:01:a"),
            encoded("1:1"),
            encoded("1:-1:a"),
            encoded(&format!("1:1:{}", "x".repeat(CURSOR_OCTETS_MAX))),
        ] {
            let error = text.parse::<Cursor>().expect_err("refused").to_string();
            assert!(
                error.starts_with(&format!("invalid cursor \"{}", text.get(..text.len().min(80)).expect("ASCII"))),
                "{error}"
            );
        }
    }
}
