//! A cursor over the text of a structured header value (RFC 5322 section 3.2, RFC 2045 section 5.1).
//!
//! In: unfolded text. Out: words, quoted strings, single characters; white space and comments are skipped. Nothing here
//! fails: an unclosed quote or comment ends with the text. No recursion: the depth of comments is a counter.

/// The cursor.
pub(crate) struct Scanner<'a> {
    text: &'a str,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a str) -> Scanner<'a> {
        Scanner { text }
    }

    /// Skips white space and comments.
    pub(crate) fn skip_blanks(&mut self) {
        loop {
            self.text = self.text.trim_start_matches(is_blank);
            if !self.text.starts_with('(') {
                return;
            }
            self.skip_comment();
        }
    }

    /// The next character, not taken.
    pub(crate) fn peek(&self) -> Option<char> {
        self.text.chars().next()
    }

    /// Takes `wanted` if it is next.
    pub(crate) fn eat(&mut self, wanted: char) -> bool {
        match self.text.strip_prefix(wanted) {
            Some(rest) => {
                self.text = rest;
                true
            }
            None => false,
        }
    }

    /// Takes characters up to one of `stops`, a blank or a comment.
    pub(crate) fn word(&mut self, stops: &[char]) -> &'a str {
        self.until(|c| is_blank(c) || c == '(' || stops.contains(&c))
    }

    /// Takes characters up to one that `stops`.
    pub(crate) fn until(&mut self, stops: impl Fn(char) -> bool) -> &'a str {
        let (taken, rest) = self.text.split_at(self.text.find(stops).unwrap_or(self.text.len()));
        self.text = rest;
        taken
    }

    /// A quoted string without its quotes and escapes, when one is next.
    pub(crate) fn quoted(&mut self) -> Option<String> {
        let inner = self.text.strip_prefix('"')?;
        let (mut out, mut is_escaped) = (String::new(), false);
        for (at, c) in inner.char_indices() {
            match c {
                _ if is_escaped => {
                    out.push(c);
                    is_escaped = false;
                }
                '\\' => is_escaped = true,
                '"' => {
                    self.text = &inner[at + 1..];
                    return Some(out);
                }
                _ => out.push(c),
            }
        }
        self.text = "";
        Some(out)
    }

    /// True when nothing is left.
    pub(crate) fn is_at_end(&self) -> bool {
        self.text.is_empty()
    }

    fn skip_comment(&mut self) {
        let (mut depth, mut is_escaped) = (0_usize, false);
        for (at, c) in self.text.char_indices() {
            match c {
                _ if is_escaped => is_escaped = false,
                '\\' => is_escaped = true,
                '(' => depth += 1,
                ')' if depth == 1 => {
                    self.text = &self.text[at + 1..];
                    return;
                }
                ')' => depth -= 1,
                _ => {}
            }
        }
        self.text = "";
    }
}

/// The text of a raw value: folds removed, octets that are no UTF-8 replaced.
pub(crate) fn unfolded(raw: &[u8]) -> String {
    String::from_utf8_lossy(raw).chars().filter(|c| !matches!(c, '\r' | '\n')).collect()
}

/// RFC 2045 section 5.1 `token`.
pub(crate) fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?=".contains(&b))
}

/// `text` as a quoted string.
pub(crate) fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_quotes_and_comments() {
        let mut scanner = Scanner::new(" (a (b) \\) c) one(x)=\"t\\\"wo\" (open");
        scanner.skip_blanks();
        assert_eq!(scanner.word(&['=']), "one");
        scanner.skip_blanks();
        assert!(scanner.eat('=') && !scanner.eat('='));
        assert_eq!(scanner.quoted().as_deref(), Some("t\"wo"));
        scanner.skip_blanks();
        assert!(scanner.is_at_end());
        assert_eq!(Scanner::new("\"open").quoted().as_deref(), Some("open"));
    }
}
