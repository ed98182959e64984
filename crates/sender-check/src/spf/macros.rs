//! Macro strings (RFC 7208 section 7): `%{ir}.%{v}._spf.%{d2}`.
//!
//! In: text of a record; what the letters stand for. Out: the expansion. Can fail: [`SyntaxError`] when it is parsed; when it is
//! expanded only by growing past [`EXPANSION_BYTES_MAX`].

use super::record::SyntaxError;
use crate::text::{NAME_BYTES_MAX, shown};
use std::net::IpAddr;

/// A parsed macro string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MacroString {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    Macro(Macro),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Macro {
    /// In lower case.
    letter: char,
    is_escaped: bool,
    /// So many parts from the right; all when absent.
    kept: Option<usize>,
    is_reversed: bool,
    delimiters: String,
}

/// What the letters stand for.
#[derive(Clone, Debug)]
pub(super) struct Values<'a> {
    pub(super) local: &'a str,
    pub(super) sender_domain: &'a str,
    pub(super) domain: &'a str,
    pub(super) ip: IpAddr,
    pub(super) helo: &'a str,
    pub(super) receiver: &'a str,
    pub(super) now_unix_secs: u64,
    /// `%{p}`.
    pub(super) validated: &'a str,
}

impl MacroString {
    /// Parses a macro string. Letters that only explanations may have are refused elsewhere.
    ///
    /// # Errors
    /// [`SyntaxError`].
    pub fn parse(text: &str, in_explanation: bool) -> Result<MacroString, SyntaxError> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            rest = &rest[c.len_utf8()..];
            match c {
                '%' => {
                    let (kind, behind) = rest.split_at_checked(1).ok_or_else(|| SyntaxError::percent(text))?;
                    rest = behind;
                    match kind {
                        "%" => literal.push('%'),
                        "_" => literal.push(' '),
                        "-" => literal.push_str("%20"),
                        "{" => {
                            let (inside, behind) = rest.split_once('}').ok_or_else(|| SyntaxError::percent(text))?;
                            rest = behind;
                            if !literal.is_empty() {
                                parts.push(Part::Literal(std::mem::take(&mut literal)));
                            }
                            let parsed = Macro::parse(inside, in_explanation);
                            parts.push(Part::Macro(parsed.ok_or_else(|| SyntaxError::percent(text))?));
                        }
                        _ => return Err(SyntaxError::percent(text)),
                    }
                }
                '!'..='~' => literal.push(c),
                ' ' if in_explanation => literal.push(c),
                _ => return Err(SyntaxError::Character { term: shown(text) }),
            }
        }
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        Ok(MacroString { parts })
    }

    /// True when `%{p}` is in it, which takes DNS questions.
    pub(super) fn needs_validated_name(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Macro(Macro { letter: 'p', .. })))
    }

    /// The expansion; `None` when it is longer than [`EXPANSION_BYTES_MAX`].
    pub(super) fn expand(&self, values: &Values) -> Option<String> {
        let mut out = String::new();
        for part in &self.parts {
            match part {
                Part::Literal(text) => out.push_str(text),
                Part::Macro(one) => out.push_str(&one.expand(values)),
            }
            if out.len() > EXPANSION_BYTES_MAX {
                return None;
            }
        }
        Some(out)
    }

    /// The expansion as a domain: labels are cut off at its left until it is short enough (section 7.3).
    pub(super) fn expand_domain(&self, values: &Values) -> Option<String> {
        let whole = self.expand(values)?;
        let mut name = whole.strip_suffix('.').unwrap_or(&whole);
        while name.len() > NAME_BYTES_MAX {
            name = name.split_once('.')?.1;
        }
        Some(name.to_owned())
    }
}

impl Macro {
    /// What stands between the braces: letter, digits, `r`, delimiters.
    fn parse(inside: &str, in_explanation: bool) -> Option<Macro> {
        let first = inside.chars().next()?;
        let letter = first.to_ascii_lowercase();
        let is_known = match letter {
            's' | 'l' | 'o' | 'd' | 'i' | 'p' | 'h' | 'v' => true,
            'c' | 'r' | 't' => in_explanation,
            _ => false,
        };
        if !is_known {
            return None;
        }
        let rest = &inside[first.len_utf8()..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = rest.split_at(digits);
        let kept = match digits {
            "" => None,
            // More parts than any name has are all of them.
            digits => Some(digits.parse().unwrap_or(usize::MAX)),
        };
        let (is_reversed, delimiters) = match rest.strip_prefix(['r', 'R']) {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let is_sound = kept != Some(0) && delimiters.chars().all(|c| ".-+,/_=".contains(c));
        let delimiters = if delimiters.is_empty() { "." } else { delimiters }.to_owned();
        is_sound.then_some(Macro { letter, is_escaped: first.is_ascii_uppercase(), kept, is_reversed, delimiters })
    }

    fn expand(&self, values: &Values) -> String {
        let value = self.value(values);
        let mut parts: Vec<&str> = value.split(|c| self.delimiters.contains(c)).collect();
        if self.is_reversed {
            parts.reverse();
        }
        let kept = self.kept.unwrap_or(parts.len()).min(parts.len());
        let joined = parts[parts.len() - kept..].join(".");
        if self.is_escaped { escaped(&joined) } else { joined }
    }

    fn value(&self, values: &Values) -> String {
        match self.letter {
            's' => format!("{}@{}", values.local, values.sender_domain),
            'l' => values.local.to_owned(),
            'o' => values.sender_domain.to_owned(),
            'd' => values.domain.to_owned(),
            'i' => dotted(values.ip),
            'p' => values.validated.to_owned(),
            'h' => values.helo.to_owned(),
            'v' => if values.ip.is_ipv4() { "in-addr" } else { "ip6" }.to_owned(),
            'c' => values.ip.to_string(),
            'r' => values.receiver.to_owned(),
            _ => values.now_unix_secs.to_string(),
        }
    }
}

/// An address with dots: octets of IPv4, nibbles of IPv6.
fn dotted(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(v6) => {
            let nibbles = v6.octets().into_iter().flat_map(|octet| [octet >> 4, octet & 15]);
            nibbles.map(|nibble| format!("{nibble:X}")).collect::<Vec<_>>().join(".")
        }
    }
}

/// Everything but the unreserved characters of RFC 3986 as `%XX`.
fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

/// Longest expansion, in octets; a record that makes more is in error.
pub const EXPANSION_BYTES_MAX: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(text: &str, ip: &str) -> String {
        let values = Values {
            local: "strong-bad",
            sender_domain: "email.example.com",
            domain: "email.example.com",
            ip: ip.parse().expect("an address"),
            helo: "mx.example.org",
            receiver: "here.example",
            now_unix_secs: 1_700_000_000,
            validated: "mx.example.org",
        };
        MacroString::parse(text, true).expect("a macro string").expand(&values).expect("short")
    }

    /// RFC 7208 section 7.4.
    #[test]
    fn the_examples_of_the_rfc() {
        for (text, expected) in [
            ("%{s}", "strong-bad@email.example.com"),
            ("%{o}", "email.example.com"),
            ("%{d}", "email.example.com"),
            ("%{d4}", "email.example.com"),
            ("%{d3}", "email.example.com"),
            ("%{d2}", "example.com"),
            ("%{d1}", "com"),
            ("%{dr}", "com.example.email"),
            ("%{d2r}", "example.email"),
            ("%{l}", "strong-bad"),
            ("%{l-}", "strong.bad"),
            ("%{lr}", "strong-bad"),
            ("%{lr-}", "bad.strong"),
            ("%{l1r-}", "strong"),
            ("%{ir}.%{v}._spf.%{d2}", "3.2.0.192.in-addr._spf.example.com"),
            ("%{lr-}.lp._spf.%{d2}", "bad.strong.lp._spf.example.com"),
            ("%{lr-}.lp.%{ir}.%{v}._spf.%{d2}", "bad.strong.lp.3.2.0.192.in-addr._spf.example.com"),
            ("%{ir}.%{v}.%{l1r-}.lp._spf.%{d2}", "3.2.0.192.in-addr.strong.lp._spf.example.com"),
            ("%{d2}.trusted-domains.example.net", "example.com.trusted-domains.example.net"),
            ("%{S}|%%%_%-%{c}%{t}%{r}", "strong-bad%40email.example.com|% %20192.0.2.31700000000here.example"),
        ] {
            assert_eq!(expand(text, "192.0.2.3"), expected, "{text}");
        }
        let v6 = "1.0.b.c.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6._spf.example.com";
        assert!(expand("%{ir}.%{v}._spf.%{d2}", "2001:db8::cb01").eq_ignore_ascii_case(v6));
    }

    #[test]
    fn others_are_refused() {
        for bad in
            ["%", "%x", "%{", "%{}", "%{x}", "%{d0}", "%{d!}", "%{dr2}", "%{\u{e4}}", "\u{e4}", "%\u{e4}", "a\tb"]
        {
            assert!(MacroString::parse(bad, true).is_err(), "{bad}");
        }
        for only_explained in ["%{c}", "%{r}", "%{t}", "a b"] {
            assert!(MacroString::parse(only_explained, false).is_err(), "{only_explained}");
        }
    }

    #[test]
    fn expansions_are_bounded() {
        let values = Values {
            local: &"x".repeat(EXPANSION_BYTES_MAX),
            sender_domain: "",
            domain: "",
            ip: IpAddr::from([0; 4]),
            helo: "",
            receiver: "",
            now_unix_secs: 0,
            validated: "",
        };
        let expand = |text| MacroString::parse(text, false).expect("a macro string").expand(&values);
        assert!(expand("%{l}").is_some());
        assert!(expand("%{l}x").is_none());
    }
}
