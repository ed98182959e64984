//! Blanks out what is not code: comments, strings and characters become spaces.
//!
//! In: Rust source text. Out: text of the same length with the same lines, so that an offset or a
//! line number means the same in both. Knows nested block comments, escapes, raw strings with any
//! number of `#`, byte and C strings, and that `'a` may be a lifetime. Text that ends inside a
//! literal is blanked to its end; nothing here can fail.

/// The code of `text`, everything else blanked.
pub fn code(text: &str) -> String {
    let mut lexer = Lexer { text: text.as_bytes(), out: Vec::with_capacity(text.len()), at: 0 };
    while lexer.at < lexer.text.len() {
        lexer.step();
    }
    // Whole literals were replaced by ASCII, so what is left is whole characters.
    String::from_utf8_lossy(&lexer.out).into_owned()
}

/// The offset behind the bracket that closes the one at `open`; the end of the text if none does.
pub fn behind_closing(code: &[u8], open: usize) -> usize {
    let mut depth = 0usize;
    for (offset, octet) in code[open..].iter().enumerate() {
        match octet {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return open + offset + 1;
        }
    }
    code.len()
}

/// True for octets that may stand inside an identifier.
pub fn is_word(octet: u8) -> bool {
    octet.is_ascii_alphanumeric() || octet == b'_' || octet >= 0x80
}

/// Offsets at which `word` stands in `code` as a whole word.
pub fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let octets = code.as_bytes();
    code.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let before = at.checked_sub(1).is_some_and(|b| is_word(octets[b]));
        let behind = octets.get(at + word.len()).is_some_and(|b| is_word(*b));
        !before && !behind
    })
}

struct Lexer<'a> {
    text: &'a [u8],
    out: Vec<u8>,
    at: usize,
}

impl Lexer<'_> {
    fn step(&mut self) {
        let rest = &self.text[self.at..];
        let in_word = self.at > 0 && is_word(self.text[self.at - 1]);
        let length = match rest {
            [b'/', b'/', ..] => rest.iter().position(|o| *o == b'\n').unwrap_or(rest.len()),
            [b'/', b'*', ..] => block_comment(rest),
            [b'"', ..] => string(rest),
            [b'\'', ..] => character(rest),
            [b'r' | b'b' | b'c', ..] if !in_word => prefixed(rest),
            _ => 0,
        };
        self.blank(length);
        if length == 0 {
            self.out.push(rest[0]);
            self.at += 1;
        }
    }

    fn blank(&mut self, length: usize) {
        let taken = &self.text[self.at..self.at + length];
        self.out.extend(taken.iter().map(|o| if *o == b'\n' { b'\n' } else { b' ' }));
        self.at += length;
    }
}

/// Length of the comment at the front.
fn block_comment(text: &[u8]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at + 1 < text.len() {
        match &text[at..at + 2] {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// Length of the string at the front.
fn string(text: &[u8]) -> usize {
    let mut at = 1;
    while at < text.len() {
        match text[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

/// Length of the character at the front; 0 when it is a lifetime.
fn character(text: &[u8]) -> usize {
    if text.get(1) == Some(&b'\\') {
        // The octet behind the backslash may itself be a quote.
        return text.iter().skip(3).position(|o| *o == b'\'').map_or(text.len(), |at| at + 4);
    }
    // A character has at most four octets.
    let end = (2..=5).find(|at| text.get(*at) == Some(&b'\''));
    match end {
        Some(end) if core::str::from_utf8(&text[1..end]).is_ok_and(|s| s.chars().count() == 1) => end + 1,
        _ => 0,
    }
}

/// Length of a string or octet literal with the prefix at the front; 0 when it is a plain word.
fn prefixed(text: &[u8]) -> usize {
    let prefix = text.iter().take_while(|o| matches!(o, b'r' | b'b' | b'c')).count();
    match (&text[..prefix], text.get(prefix)) {
        (b"b" | b"c", Some(b'"')) => prefix + string(&text[prefix..]),
        (b"b", Some(b'\'')) => prefix + character(&text[prefix..]),
        (b"r" | b"br" | b"cr", Some(b'"' | b'#')) => raw_string(text, prefix),
        _ => 0,
    }
}

fn raw_string(text: &[u8], prefix: usize) -> usize {
    let hashes = text[prefix..].iter().take_while(|o| **o == b'#').count();
    let quote = prefix + hashes;
    if text.get(quote) != Some(&b'"') {
        // A raw identifier.
        return 0;
    }
    let mut end = vec![b'"'];
    end.resize(1 + hashes, b'#');
    let found = text[quote + 1..].windows(end.len()).position(|w| w == end);
    found.map_or(text.len(), |at| quote + 1 + at + end.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_strings_and_characters_are_blanked_in_place() {
        let cases = [
            ("a // b\nc", "a c"),
            ("a /* b /* c */ d */ e", "a e"),
            (r#"f("x \" y", 1)"#, "f( , 1)"),
            ("r#\"a \" b\"# c", "c"),
            ("b\"x\" br##\"y\"# \"## z", "z"),
            (r"'{' '\'' '\u{7f}' b'}' b'\\' x", "x"),
            ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)"),
            ("'\u{e9}' x", "x"),
            ("r#type + br + c", "r#type + br + c"),
            ("\"never ends", ""),
        ];
        for (text, left) in cases {
            let code = code(text);
            assert_eq!(code.split_whitespace().collect::<Vec<_>>().join(" "), left, "{text}");
            assert_eq!(code.len(), text.len(), "{text}");
            assert_eq!(code.find('\n'), text.find('\n'), "{text}");
        }
    }

    #[test]
    fn brackets_are_matched_and_words_are_whole() {
        assert_eq!(behind_closing(b"x{a(b[c])}y", 1), 10);
        assert_eq!(behind_closing(b"{(", 0), 2);
        let found: Vec<usize> = words("unsafe unsafe_code is_unsafe (unsafe)", "unsafe").collect();
        assert_eq!(found, [0, 30]);
    }
}
