//! What a text has to be, with `*` for any octets, none included. There is no way to ask for a `*` itself.

use std::fmt;

/// A text with gaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    /// The pattern as it is written.
    pub fn new(text: &str) -> Pattern {
        Pattern(text.to_owned())
    }

    /// True when all of `text` is what the pattern says.
    pub fn matches(&self, text: &str) -> bool {
        let Some((first, gaps)) = self.0.split_once('*') else { return self.0 == text };
        let (middle, last) = gaps.rsplit_once('*').unwrap_or(("", gaps));
        let Some(rest) = text.strip_prefix(first).and_then(|rest| rest.strip_suffix(last)) else { return false };
        let mut rest = rest;
        // The earliest place of each piece leaves the most for the others.
        for piece in middle.split('*') {
            let Some(at) = rest.find(piece) else { return false };
            rest = &rest[at + piece.len()..];
        }
        true
    }

    /// True when every text matches: such a pattern asserts nothing.
    pub fn is_anything(&self) -> bool {
        self.0.chars().all(|c| c == '*') && !self.0.is_empty()
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_any_text_and_the_rest_is_literal() {
        let rows = [
            ("250 OK", "250 OK", true),
            ("250 OK", "250 OK ids=1", false),
            ("250 *", "250 OK", true),
            ("250 *", "251 OK", false),
            ("*no such*", "550 no such user", true),
            ("*a*b*", "b a", false),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("a*b*c", "a b b c", true),
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
        ];
        for (pattern, text, expected) in rows {
            assert_eq!(Pattern::new(pattern).matches(text), expected, "{pattern:?} and {text:?}");
        }
        assert!(
            Pattern::new("**").is_anything() && !Pattern::new("").is_anything() && !Pattern::new("a*").is_anything()
        );
    }
}
