//! An SMTP reply as a value (RFC 5321 section 4.2), ours to a client or a server's to us.

use crate::EnhancedCode;
use core::fmt;

/// Code, optional enhanced code, and text of one or more lines joined by `\n`.
///
/// The text never holds CR, NUL or the codes themselves; [`Reply::new`] and the reply reader
/// see to that, so a reply can be written to a wire or a log line without another look.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reply {
    /// 200-599.
    pub code: u16,
    /// RFC 3463 code, repeated on every line sent (RFC 2034).
    pub enhanced: Option<EnhancedCode>,
    /// Lines joined by `\n`.
    pub text: String,
}

impl Reply {
    /// A reply whose text may begin with an enhanced code, as policies write them
    /// (`"5.7.1 go away"`). CR and NUL become blanks: they must not reach a wire.
    pub fn new(code: u16, text: &str) -> Reply {
        let clean: String = text.chars().map(|c| if matches!(c, '\r' | '\0') { ' ' } else { c }).collect();
        let split = EnhancedCode::split(&clean);
        match split.filter(|(e, _)| u16::from(e.class) == code / 100) {
            Some((enhanced, rest)) => Reply { code, enhanced: Some(enhanced), text: rest.to_owned() },
            None => Reply { code, enhanced: None, text: clean },
        }
    }

    /// A reply with an enhanced code given apart.
    pub fn enhanced(code: u16, enhanced: EnhancedCode, text: impl Into<String>) -> Reply {
        Reply { code, enhanced: Some(enhanced), text: text.into() }
    }

    /// 2xx.
    pub fn is_success(&self) -> bool {
        self.code / 100 == 2
    }

    /// 4xx.
    pub fn is_transient(&self) -> bool {
        self.code / 100 == 4
    }

    /// 5xx.
    pub fn is_permanent(&self) -> bool {
        self.code / 100 == 5
    }

    /// Appends the wire form: every line with code, enhanced code and CRLF. A line that would have more than 512 octets is several
    /// (RFC 5321 section 4.5.3.1.5), but for a challenge, of which there is one line.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        let room = if self.code / 100 == 3 { usize::MAX } else { LINE_TEXT_MAX };
        let mut lines = self.text.split('\n').flat_map(|line| folded(line, room)).peekable();
        while let Some(line) = lines.next() {
            let separator = if lines.peek().is_some() { '-' } else { ' ' };
            self.write_line(separator, line, out);
        }
    }

    /// `code x.y.z text` on one line, line breaks shown as blanks: what logs and bounce
    /// classifiers read.
    pub fn to_single_line(&self) -> String {
        match self.enhanced {
            Some(e) => format!("{} {e} {}", self.code, self.text.replace('\n', " ")),
            None => format!("{} {}", self.code, self.text.replace('\n', " ")),
        }
    }

    fn write_line(&self, separator: char, line: &str, out: &mut Vec<u8>) {
        use std::io::Write as _;
        // Writing to a Vec cannot fail.
        let _ = write!(out, "{:03}{separator}", self.code);
        if let Some(e) = self.enhanced {
            let _ = write!(out, "{e} ");
        }
        out.extend_from_slice(line.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}

/// A line in pieces of at most `room` octets, which end at blanks where there are any.
fn folded(line: &str, room: usize) -> impl Iterator<Item = &str> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let line = rest.take()?;
        if line.len() <= room {
            return Some(line);
        }
        let end = line.floor_char_boundary(room);
        let (piece, tail) = match line[..end].rfind(' ').filter(|at| *at > 0) {
            Some(blank) => (&line[..blank], &line[blank + 1..]),
            None => line.split_at(end),
        };
        rest = Some(tail);
        Some(piece)
    })
}

/// Text of a line beside the code, an enhanced code of the longest kind (`5.999.999`), blanks and CRLF.
const LINE_TEXT_MAX: usize = 512 - 16;

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_single_line())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(reply: &Reply) -> String {
        let mut out = Vec::new();
        reply.write_to(&mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn every_line_carries_both_codes() {
        let reply = Reply::new(550, "5.7.1 one\ntwo");
        assert_eq!(wire(&reply), "550-5.7.1 one\r\n550 5.7.1 two\r\n");
        assert_eq!(reply.to_single_line(), "550 5.7.1 one two");
    }

    #[test]
    fn a_long_line_is_several() {
        let words = "mail from this address is refused ".repeat(40);
        let reply = Reply::new(550, &format!("5.7.1 {}\nsecond", words.trim_end()));
        let lines: Vec<String> = wire(&reply).split_terminator("\r\n").map(str::to_owned).collect();
        assert!(lines.iter().all(|line| line.len() <= 510), "{lines:?}");
        let (last, before) = lines.split_last().expect("a line");
        assert!(before.len() == 3 && before.iter().all(|line| line.starts_with("550-5.7.1 ")), "{lines:?}");
        assert_eq!(last, "550 5.7.1 second");
        let texts: Vec<&str> = before.iter().map(|line| &line[10..]).collect();
        assert_eq!(texts.join(" "), words.trim_end(), "nothing is lost");
        // Without blanks, and between octets of one character: a line ends before it.
        let reply = Reply::new(451, &"\u{e9}".repeat(300));
        assert!(wire(&reply).lines().all(|line| line.len() <= 510 && line.is_char_boundary(4)));
        assert_eq!(wire(&reply).matches('\u{e9}').count(), 300);
        let challenge = "a".repeat(1000);
        assert_eq!(wire(&Reply::new(334, &challenge)), format!("334 {challenge}\r\n"));
    }

    #[test]
    fn a_code_of_another_class_stays_text() {
        assert_eq!(wire(&Reply::new(450, "5.7.1 odd")), "450 5.7.1 odd\r\n");
        assert_eq!(Reply::new(450, "5.7.1 odd").enhanced, None);
    }

    #[test]
    fn control_octets_never_reach_the_wire() {
        assert_eq!(wire(&Reply::new(550, "a\r\n250 b\0")), "550-a \r\n550 250 b \r\n");
    }
}
