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

    /// Appends the wire form: every line with code, enhanced code and CRLF.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        let mut lines = self.text.split('\n').peekable();
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
    fn a_code_of_another_class_stays_text() {
        assert_eq!(wire(&Reply::new(450, "5.7.1 odd")), "450 5.7.1 odd\r\n");
        assert_eq!(Reply::new(450, "5.7.1 odd").enhanced, None);
    }

    #[test]
    fn control_octets_never_reach_the_wire() {
        assert_eq!(wire(&Reply::new(550, "a\r\n250 b\0")), "550-a \r\n550 250 b \r\n");
    }
}
