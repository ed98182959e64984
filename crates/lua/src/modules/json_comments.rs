//! JSON with comments: `//` and `#` to the end of the line, `/* */`. They are replaced by blanks, so that errors still name the
//! right line and column.

/// The text without its comments.
pub(crate) fn blanked(text: &str) -> String {
    let mut out = text.as_bytes().to_vec();
    let mut at = 0;
    while at < out.len() {
        at = match (out[at], out.get(at + 1)) {
            (b'"', _) => string_end(&out, at),
            (b'#', _) | (b'/', Some(b'/')) => blank(&mut out, at, |rest| memchr::memchr(b'\n', rest)),
            (b'/', Some(b'*')) => {
                blank(&mut out, at, |rest| memchr::memmem::find(&rest[2..], b"*/").map(|end| end + 4))
            }
            _ => at + 1,
        };
    }
    // Only whole comments were replaced, each by as many blanks as it had octets.
    String::from_utf8(out).unwrap_or_else(|_| text.to_owned())
}

/// Behind the string that begins here.
fn string_end(text: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(octet) = text.get(at) {
        match octet {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

/// Blanks what begins here and ends where `end` says; a comment without an end goes to the end of the text.
fn blank(text: &mut [u8], start: usize, end: impl Fn(&[u8]) -> Option<usize>) -> usize {
    let rest = &mut text[start..];
    let length = end(rest).unwrap_or(rest.len());
    rest[..length].iter_mut().filter(|octet| **octet != b'\n').for_each(|octet| *octet = b' ');
    start + length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_go_and_everything_else_stays_in_its_place() {
        for (text, want) in [
            ("{\"a\": 1} // end", "{\"a\": 1}       "),
            ("# one\n2", "     \n2"),
            ("[/* x\ny */1]", "[    \n    1]"),
            ("\"a//b#c\" # \u{fc}", "\"a//b#c\"     "),
            ("\"a\\\"//\"//", "\"a\\\"//\"  "),
            ("/* open", "       "),
            ("/*/ 1 */ 2", "         2"),
            ("\"open // ", "\"open // "),
            ("1/2", "1/2"),
        ] {
            assert_eq!(blanked(text), want);
        }
    }
}
