//! Tag lists: `a=b; c=d` (RFC 6376 section 3.2), of signatures, key records and DMARC records.
//!
//! In: octets, any. Out: names and values in order. Can fail: [`TagError`], when a tag has no `=`, a name is none or is there
//! twice, there are more than [`TAGS_MAX`], or the whole is longer than [`LIST_BYTES_MAX`] or no UTF-8.
//! White space is left inside values: what it means depends on the tag.

use crate::text::shown;
use std::ops::Range;

/// A tag list, borrowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tags<'a> {
    tags: Vec<Tag<'a>>,
}

/// One tag.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tag<'a> {
    name: &'a str,
    /// Trimmed.
    value: &'a str,
    /// All octets between `=` and `;`.
    place: Range<usize>,
}

impl<'a> Tags<'a> {
    /// Reads a list; a semicolon at its end is allowed.
    ///
    /// # Errors
    /// [`TagError`].
    pub fn parse(list: &'a [u8]) -> Result<Tags<'a>, TagError> {
        if list.len() > LIST_BYTES_MAX {
            return Err(TagError::TooLong { octets: list.len() });
        }
        let list = std::str::from_utf8(list).map_err(|_| TagError::NotText)?;
        let mut tags: Vec<Tag<'a>> = Vec::new();
        let mut at = 0;
        for part in list.split(';') {
            let start = at;
            at += part.len() + 1;
            if is_blank(part) {
                // Only behind the last semicolon may there be nothing.
                if at <= list.len() {
                    return Err(TagError::NoValue { tag: String::new() });
                }
                continue;
            }
            let Some((name, value)) = part.split_once('=') else {
                return Err(TagError::NoValue { tag: shown(trim(part)) });
            };
            let place = start + name.len() + 1..start + part.len();
            let name = trim(name);
            let is_word = name.starts_with(|c: char| c.is_ascii_alphabetic())
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            if !is_word {
                return Err(TagError::BadName { name: shown(name) });
            }
            if tags.len() == TAGS_MAX {
                return Err(TagError::TooMany);
            }
            if tags.iter().any(|tag| tag.name == name) {
                return Err(TagError::Twice { name: name.to_owned() });
            }
            tags.push(Tag { name, value: trim(value), place });
        }
        Ok(Tags { tags })
    }

    /// The value of a tag, white space around it gone.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.tags.iter().find(|tag| tag.name == name).map(|tag| tag.value)
    }

    /// Where the octets between `=` and `;` are.
    pub fn place(&self, name: &str) -> Option<Range<usize>> {
        self.tags.iter().find(|tag| tag.name == name).map(|tag| tag.place.clone())
    }

    /// The name of the first tag.
    pub fn first(&self) -> Option<&'a str> {
        self.tags.first().map(|tag| tag.name)
    }
}

/// Why octets are no tag list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TagError {
    #[error("tag list has {octets} octets, expected at most {LIST_BYTES_MAX}")]
    TooLong { octets: usize },
    #[error("tag list is not UTF-8")]
    NotText,
    #[error("tag \"{tag}\" has no value, expected name=value")]
    NoValue { tag: String },
    #[error("tag name \"{name}\", expected letters, digits and _")]
    BadName { name: String },
    #[error("tag {name}= is there twice, expected once")]
    Twice { name: String },
    #[error("tag list has more than {TAGS_MAX} tags")]
    TooMany,
}

/// `text` without any white space: base64, lists.
pub(crate) fn without_blanks(text: &str) -> String {
    text.chars().filter(|c| !BLANKS.contains(c)).collect()
}

/// The parts of a list, trimmed.
pub(crate) fn listed(text: &str) -> impl Iterator<Item = &str> {
    text.split(':').map(trim)
}

fn trim(text: &str) -> &str {
    text.trim_matches(BLANKS)
}

fn is_blank(text: &str) -> bool {
    trim(text).is_empty()
}

/// White space that may stand around tags and values, folds among it.
const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];

/// Most tags of a list.
pub const TAGS_MAX: usize = 64;

/// Longest list, in octets: a signature of a thousand signed fields fits.
pub const LIST_BYTES_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read() {
        let list = b" v = 1;a=x\r\n\ty ;b= =c=; ";
        let tags = Tags::parse(list).expect("a list");
        assert_eq!(
            [tags.get("v"), tags.get("a"), tags.get("b"), tags.get("c")],
            [Some("1"), Some("x\r\n\ty"), Some("=c="), None]
        );
        assert_eq!(&list[tags.place("b").expect("there")], b" =c=");
        assert_eq!(tags.first(), Some("v"));
        assert_eq!(without_blanks("a b\r\n\tc"), "abc");
        assert_eq!(listed("a : b:").collect::<Vec<_>>(), ["a", "b", ""]);
    }

    #[test]
    fn others_are_refused() {
        for bad in ["a", "a=1;;b=2", "=1", "1=1", "a=1;a=2", "a b=1", ";a=1"] {
            assert!(Tags::parse(bad.as_bytes()).is_err(), "{bad}");
        }
        assert_eq!(Tags::parse(b"a=\xff"), Err(TagError::NotText));
        assert_eq!(Tags::parse(b""), Ok(Tags { tags: Vec::new() }));
    }

    #[test]
    fn bounds() {
        let many = |count: usize| (0..count).map(|n| format!("t{n}=;")).collect::<String>();
        assert!(Tags::parse(many(TAGS_MAX).as_bytes()).is_ok());
        assert_eq!(Tags::parse(many(TAGS_MAX + 1).as_bytes()), Err(TagError::TooMany));
        let long = |octets: usize| format!("a={}", "x".repeat(octets - 2));
        assert!(Tags::parse(long(LIST_BYTES_MAX).as_bytes()).is_ok());
        assert!(Tags::parse(long(LIST_BYTES_MAX + 1).as_bytes()).is_err());
    }
}
