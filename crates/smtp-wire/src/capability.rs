//! What a server announced in its EHLO reply (RFC 5321 section 4.1.1.1).
//!
//! In: the whole EHLO reply. Out: the extensions a sending session acts on. Keywords are
//! compared without case; unknown ones are ignored, as the RFC asks; a nonsensical parameter
//! makes the extension count as offered without it. Nothing here can fail.

use crate::Reply;

/// Mechanisms kept of an AUTH line; no server has a use for more.
const AUTH_MECHANISMS_MAX: usize = 32;

/// The extensions of one EHLO reply. The default is a server that offers none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// RFC 2920.
    pub pipelining: bool,
    /// RFC 1870: offered, with the largest message in octets; `Some(0)` names no limit.
    pub size: Option<u64>,
    /// RFC 6152.
    pub eight_bit_mime: bool,
    /// RFC 6531.
    pub smtputf8: bool,
    /// RFC 3207.
    pub starttls: bool,
    /// RFC 3030.
    pub chunking: bool,
    /// RFC 3461.
    pub dsn: bool,
    /// RFC 2034.
    pub enhanced_status_codes: bool,
    /// RFC 8689.
    pub requiretls: bool,
    /// RFC 4954: mechanisms in upper case, without duplicates.
    pub auth: Vec<String>,
}

impl Capabilities {
    /// Reads the lines behind the greeting of an EHLO (or LHLO) reply.
    pub fn from_ehlo(reply: &Reply) -> Capabilities {
        let mut found = Capabilities::default();
        for line in reply.text.split('\n').skip(1) {
            found.add(line);
        }
        found
    }

    /// True when AUTH with this mechanism is offered.
    pub fn offers_auth(&self, mechanism: &str) -> bool {
        self.auth.iter().any(|m| m.eq_ignore_ascii_case(mechanism))
    }

    /// The announced limit, when a message of `bytes` octets is over it.
    pub fn size_exceeded_by(&self, bytes: u64) -> Option<u64> {
        self.size.filter(|limit| *limit > 0 && bytes > *limit)
    }

    fn add(&mut self, line: &str) {
        // `AUTH=LOGIN` is what servers said before RFC 2554 was finished, and some still do.
        let mut words = line.split([' ', '=']).filter(|w| !w.is_empty());
        let Some(keyword) = words.next() else { return };
        match keyword.to_ascii_uppercase().as_str() {
            "PIPELINING" => self.pipelining = true,
            "SIZE" => self.size = Some(words.next().and_then(|n| n.parse().ok()).unwrap_or(0)),
            "8BITMIME" => self.eight_bit_mime = true,
            "SMTPUTF8" => self.smtputf8 = true,
            "STARTTLS" => self.starttls = true,
            "CHUNKING" => self.chunking = true,
            "DSN" => self.dsn = true,
            "ENHANCEDSTATUSCODES" => self.enhanced_status_codes = true,
            "REQUIRETLS" => self.requiretls = true,
            "AUTH" => self.add_mechanisms(words),
            _ => {}
        }
    }

    fn add_mechanisms<'a>(&mut self, words: impl Iterator<Item = &'a str>) {
        for word in words {
            if self.auth.len() < AUTH_MECHANISMS_MAX && !self.offers_auth(word) {
                self.auth.push(word.to_ascii_uppercase());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(lines: &[&str]) -> Capabilities {
        Capabilities::from_ehlo(&Reply::new(250, &format!("mx.example greets\n{}", lines.join("\n"))))
    }

    #[test]
    fn keywords_in_any_case() {
        let all = parse(&[
            "PipeLining",
            "size 35882577",
            "8bitMIME",
            "SMTPUTF8",
            "StartTLS",
            "CHUNKING",
            "dsn",
            "EnhancedStatusCodes",
            "REQUIRETLS",
            "AUTH PLAIN login",
            "AUTH=LOGIN CRAM-MD5",
            "X-UNKNOWN thing",
            "",
        ]);
        assert_eq!(
            all,
            Capabilities {
                pipelining: true,
                size: Some(35_882_577),
                eight_bit_mime: true,
                smtputf8: true,
                starttls: true,
                chunking: true,
                dsn: true,
                enhanced_status_codes: true,
                requiretls: true,
                auth: vec!["PLAIN".into(), "LOGIN".into(), "CRAM-MD5".into()],
            }
        );
        assert!(all.offers_auth("plain") && !all.offers_auth("PLAI"));
    }

    #[test]
    fn the_greeting_is_not_a_keyword() {
        assert_eq!(Capabilities::from_ehlo(&Reply::new(250, "PIPELINING")), Capabilities::default());
        assert_eq!(parse(&["PIPELININGX", "XPIPELINING"]), Capabilities::default());
    }

    #[test]
    fn size_limits() {
        assert_eq!(parse(&["SIZE 100"]).size_exceeded_by(100), None);
        assert_eq!(parse(&["SIZE 100"]).size_exceeded_by(101), Some(100));
        for unlimited in ["SIZE", "SIZE 0", "SIZE abc", "SIZE -1"] {
            assert_eq!((parse(&[unlimited]).size, parse(&[unlimited]).size_exceeded_by(u64::MAX)), (Some(0), None));
        }
    }

    #[test]
    fn mechanisms_are_bounded() {
        let many: String = (0..100).map(|i| format!(" M{i}")).collect();
        assert_eq!(parse(&[&format!("AUTH{many}")]).auth.len(), AUTH_MECHANISMS_MAX);
    }
}
