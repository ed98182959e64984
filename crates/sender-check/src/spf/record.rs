//! An SPF record (RFC 7208 sections 4.5, 4.6, 5 and 6): its mechanisms and modifiers, all of them parsed before any counts.
//!
//! In: the octets of a TXT record. Out: [`SpfRecord`]. Can fail: [`SyntaxError`] names the term and what was expected.

use super::SpfDisposition;
use super::macros::MacroString;
use crate::text::shown;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpfRecord {
    pub(super) directives: Vec<Directive>,
    pub(super) redirect: Option<MacroString>,
    pub(super) explanation: Option<MacroString>,
}

/// A mechanism, and what it means when it matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Directive {
    pub(super) outcome: SpfDisposition,
    pub(super) mechanism: Mechanism,
    /// As it stands, for reasons.
    pub(super) text: String,
}

/// Section 5. A domain that is not named is the current one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mechanism {
    All,
    Include(MacroString),
    A(Option<MacroString>, Prefixes),
    Mx(Option<MacroString>, Prefixes),
    Ptr(Option<MacroString>),
    Ip(IpAddr, u8),
    Exists(MacroString),
}

/// How many bits of an address have to be the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Prefixes {
    v4: u8,
    v6: u8,
}

impl Prefixes {
    /// True when the addresses are of one family and begin alike.
    pub(super) fn covers(self, network: IpAddr, ip: IpAddr) -> bool {
        let bits = if network.is_ipv4() { self.v4 } else { self.v6 };
        is_in_network(ip, network, bits)
    }
}

/// Why a text is no SPF record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxError {
    #[error("the record has {octets} octets, expected at most {RECORD_BYTES_MAX}")]
    TooLong { octets: usize },
    #[error("the record has octets that are not ASCII")]
    NotAscii,
    #[error("\"{term}\" has a character that may not be there")]
    Character { term: String },
    #[error("\"{text}\" has a percent sign that begins no macro")]
    Percent { text: String },
    #[error("\"{term}\" is no mechanism and no modifier")]
    UnknownTerm { term: String },
    #[error("\"{term}\": {expected}")]
    Argument { term: String, expected: &'static str },
    #[error("the modifier {name}= is there twice")]
    Twice { name: &'static str },
}

impl SyntaxError {
    pub(super) fn percent(text: &str) -> SyntaxError {
        SyntaxError::Percent { text: shown(text) }
    }
}

/// True when a TXT record is meant to be an SPF record (section 4.5).
pub(super) fn is_spf(text: &[u8]) -> bool {
    let version = text.get(..VERSION.len()).is_some_and(|start| start.eq_ignore_ascii_case(VERSION));
    version && matches!(text.get(VERSION.len()), None | Some(b' '))
}

impl SpfRecord {
    /// Parses a record, version included.
    ///
    /// # Errors
    /// [`SyntaxError`], for the first term that is wrong.
    pub fn parse(text: &[u8]) -> Result<SpfRecord, SyntaxError> {
        if text.len() > RECORD_BYTES_MAX {
            return Err(SyntaxError::TooLong { octets: text.len() });
        }
        if !text.is_ascii() {
            return Err(SyntaxError::NotAscii);
        }
        let text = std::str::from_utf8(text).map_err(|_| SyntaxError::NotAscii)?;
        let mut record = SpfRecord::default();
        let terms = text.get(VERSION.len()..).unwrap_or_default();
        for term in terms.split(' ').filter(|term| !term.is_empty()) {
            match modifier(term) {
                Some((name, value)) => record.add_modifier(term, name, value)?,
                None => record.directives.push(directive(term)?),
            }
        }
        Ok(record)
    }

    /// Section 6: names that are not known are ignored, when their value is well-formed.
    fn add_modifier(&mut self, term: &str, name: &str, value: &str) -> Result<(), SyntaxError> {
        let (place, name) = match name.to_ascii_lowercase().as_str() {
            "redirect" => (&mut self.redirect, "redirect"),
            "exp" => (&mut self.explanation, "exp"),
            _ => return MacroString::parse(value, true).map(|_| ()),
        };
        match place.replace(domain_spec(term, value)?) {
            Some(_) => Err(SyntaxError::Twice { name }),
            None => Ok(()),
        }
    }
}

/// Name and value, when the term is `name=value`.
fn modifier(term: &str) -> Option<(&str, &str)> {
    let (name, value) = term.split_once('=')?;
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    is_name.then_some((name, value))
}

fn directive(term: &str) -> Result<Directive, SyntaxError> {
    let (outcome, rest) = match term.as_bytes() {
        [b'+', ..] => (SpfDisposition::Pass, &term[1..]),
        [b'-', ..] => (SpfDisposition::Fail, &term[1..]),
        [b'~', ..] => (SpfDisposition::SoftFail, &term[1..]),
        [b'?', ..] => (SpfDisposition::Neutral, &term[1..]),
        _ => (SpfDisposition::Pass, term),
    };
    let name_len = rest.find([':', '/']).unwrap_or(rest.len());
    let (name, argument) = rest.split_at(name_len);
    let wrong = |expected| SyntaxError::Argument { term: shown(term), expected };
    let required = || argument.strip_prefix(':').ok_or_else(|| wrong("expected a colon and a value"));
    let mechanism = match name.to_ascii_lowercase().as_str() {
        "all" if argument.is_empty() => Mechanism::All,
        "all" => return Err(wrong("expected nothing behind all")),
        "include" => Mechanism::Include(domain_spec(term, required()?)?),
        "exists" => Mechanism::Exists(domain_spec(term, required()?)?),
        "ptr" if argument.is_empty() => Mechanism::Ptr(None),
        "ptr" => Mechanism::Ptr(Some(domain_spec(term, required()?)?)),
        "a" | "mx" => {
            let (domain, prefixes) = host_and_prefixes(term, argument)?;
            if name.eq_ignore_ascii_case("a") {
                Mechanism::A(domain, prefixes)
            } else {
                Mechanism::Mx(domain, prefixes)
            }
        }
        "ip4" => {
            let found = network::<Ipv4Addr>(required()?, V4_BITS).map(|(ip, bits)| Mechanism::Ip(ip.into(), bits));
            found.ok_or_else(|| wrong("expected an IPv4 address, then perhaps / and 0 to 32"))?
        }
        "ip6" => {
            let found = network::<Ipv6Addr>(required()?, V6_BITS).map(|(ip, bits)| Mechanism::Ip(ip.into(), bits));
            found.ok_or_else(|| wrong("expected an IPv6 address, then perhaps / and 0 to 128"))?
        }
        _ => return Err(SyntaxError::UnknownTerm { term: shown(term) }),
    };
    Ok(Directive { outcome, mechanism, text: shown(term) })
}

/// `[:domain-spec][/v4-prefix][//v6-prefix]`.
fn host_and_prefixes(term: &str, argument: &str) -> Result<(Option<MacroString>, Prefixes), SyntaxError> {
    let wrong = |expected| SyntaxError::Argument { term: shown(term), expected };
    let (rest, v6) = match argument.rsplit_once("//") {
        Some((rest, bits)) if is_number(bits) => {
            (rest, prefix(bits, V6_BITS).ok_or_else(|| wrong("expected 0 to 128"))?)
        }
        _ => (argument, V6_BITS),
    };
    let (rest, v4) = match rest.rsplit_once('/') {
        Some((rest, bits)) if is_number(bits) => {
            (rest, prefix(bits, V4_BITS).ok_or_else(|| wrong("expected 0 to 32"))?)
        }
        _ => (rest, V4_BITS),
    };
    let domain = match rest {
        "" => None,
        _ => {
            let named = rest.strip_prefix(':').ok_or_else(|| wrong("expected a colon, or a prefix length"))?;
            Some(domain_spec(term, named)?)
        }
    };
    Ok((domain, Prefixes { v4, v6 }))
}

/// Section 7.1 `domain-spec`: a macro string that ends in a macro or in a dot and a top label.
fn domain_spec(term: &str, text: &str) -> Result<MacroString, SyntaxError> {
    let parsed = MacroString::parse(text, false)?;
    let ends_in_macro = text.ends_with('}') || ["%%", "%_", "%-"].iter().any(|end| text.ends_with(end));
    let name = text.strip_suffix('.').unwrap_or(text);
    if ends_in_macro || name.rsplit_once('.').is_some_and(|(_, top)| is_top_label(top)) {
        return Ok(parsed);
    }
    Err(SyntaxError::Argument {
        term: shown(term),
        expected: "expected a domain that ends in a macro or a top-level name",
    })
}

/// Letters, digits and inner hyphens, and not digits alone.
fn is_top_label(label: &str) -> bool {
    !label.is_empty()
        && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        && !label.starts_with('-')
        && !label.ends_with('-')
        && !label.bytes().all(|b| b.is_ascii_digit())
}

fn network<A: std::str::FromStr>(text: &str, bits_max: u8) -> Option<(A, u8)> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, prefix(bits, bits_max)?),
        None => (text, bits_max),
    };
    Some((address.parse().ok()?, bits))
}

/// A prefix length, without leading zeros.
fn prefix(text: &str, max: u8) -> Option<u8> {
    let is_plain = is_number(text) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|bits| is_plain && *bits <= max)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// True when both are of one family and the first `bits` bits are the same.
pub(super) fn is_in_network(ip: IpAddr, network: IpAddr, bits: u8) -> bool {
    let differing = match (ip, network) {
        (IpAddr::V4(ip), IpAddr::V4(network)) => (ip.to_bits() ^ network.to_bits()).leading_zeros(),
        (IpAddr::V6(ip), IpAddr::V6(network)) => (ip.to_bits() ^ network.to_bits()).leading_zeros(),
        _ => return false,
    };
    differing >= u32::from(bits)
}

const VERSION: &[u8] = b"v=spf1";
const V4_BITS: u8 = 32;
const V6_BITS: u8 = 128;

/// Longest record, in octets.
pub const RECORD_BYTES_MAX: usize = 16_384;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks() {
        let is_in = |ip: &str, network: &str, bits| {
            is_in_network(ip.parse().expect("ip"), network.parse().expect("network"), bits)
        };
        assert!(is_in("192.0.2.255", "192.0.2.0", 24) && !is_in("192.0.3.0", "192.0.2.0", 24));
        assert!(is_in("1.2.3.4", "9.9.9.9", 0) && is_in("1.2.3.4", "1.2.3.4", 32) && !is_in("1.2.3.5", "1.2.3.4", 32));
        assert!(is_in("2001:db8::1", "2001:db8::", 64) && !is_in("2001:db8:0:1::", "2001:db8::", 64));
        assert!(!is_in("::ffff:1.2.3.4", "1.2.3.4", 0));
    }

    #[test]
    fn records_at_the_bound_and_past_it() {
        let record = |octets: usize| format!("v=spf1 {}", " ".repeat(octets - 7)).into_bytes();
        assert!(SpfRecord::parse(&record(RECORD_BYTES_MAX)).is_ok());
        assert!(SpfRecord::parse(&record(RECORD_BYTES_MAX + 1)).is_err());
    }

    #[test]
    fn terms_that_are_wrong() {
        for bad in [
            "-all:x",
            "foo",
            "a:",
            "a:x",
            "a/33",
            "a//129",
            "a/024",
            "ip4:1.2.3",
            "ip4:1.2.3.4/33",
            "ip6:1.2.3.4",
            "include",
            "ptr:",
            "redirect=",
            "redirect=a.b redirect=a.b",
            "exists:%{c}.a.b",
            "a:a.b/x",
            "mx:a.b//",
            "=x",
            "a:b.1",
        ] {
            assert!(SpfRecord::parse(format!("v=spf1 {bad}").as_bytes()).is_err(), "{bad}");
        }
    }
}
