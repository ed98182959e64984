//! Envelope addresses: mailboxes and reverse paths (RFC 5321 sections 4.1.2 and 4.5.3.1).
//!
//! Parsed once at the door into a [`Mailbox`]; inside, nobody looks at the text again.
//! Accepts what RFC 5321 and RFC 6531 (UTF-8) allow, plus an underscore in domains, which
//! deployed mail needs. Source routes are accepted and dropped, as RFC 5321 appendix C asks.
//! Whether UTF-8 is *allowed* in a session (SMTPUTF8) is the session's question:
//! [`Mailbox::is_ascii`].

use core::fmt;
use core::hash::{Hash, Hasher};
use std::borrow::Cow;
use thiserror::Error;

/// Longest local part accepted, in octets. RFC 5321 asks for at least 64; VERP senders use more.
pub const LOCAL_PART_BYTES_MAX: usize = 255;
/// Longest domain accepted, in octets (RFC 5321 section 4.5.3.1.2).
pub const DOMAIN_BYTES_MAX: usize = 255;

/// `local-part@domain`, or the bare `postmaster` every server must accept.
/// Equality ignores the case of the domain, not of the local part (RFC 5321 section 2.4).
#[derive(Clone)]
pub struct Mailbox {
    text: Box<str>,
    /// Where the `@` stands; `text.len()` for a bare postmaster.
    at: u32,
}

/// The sender of an envelope; `None` is the null path `<>` of bounces.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct ReversePath(pub Option<Mailbox>);

/// Why a text is not an address.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AddressError {
    /// Nothing there.
    #[error("empty address")]
    Empty,
    /// No `@domain` and not postmaster.
    #[error("address `{0}` has no domain")]
    NoDomain(String),
    /// Local part over [`LOCAL_PART_BYTES_MAX`].
    #[error("local part of {0} octets is longer than {LOCAL_PART_BYTES_MAX}")]
    LocalPartTooLong(usize),
    /// Domain over [`DOMAIN_BYTES_MAX`].
    #[error("domain of {0} octets is longer than {DOMAIN_BYTES_MAX}")]
    DomainTooLong(usize),
    /// The local part is neither a dot-string nor a quoted string.
    #[error("invalid local part `{0}`")]
    LocalPart(String),
    /// The domain is neither labels nor an address literal.
    #[error("invalid domain `{0}`")]
    Domain(String),
    /// Path brackets missing or unbalanced.
    #[error("expected <address>")]
    Brackets,
}

impl Mailbox {
    /// Parses `local@domain` (no angle brackets).
    pub fn parse(text: &str) -> Result<Mailbox, AddressError> {
        if text.is_empty() {
            return Err(AddressError::Empty);
        }
        if text.eq_ignore_ascii_case("postmaster") {
            return Ok(Mailbox { at: text.len() as u32, text: text.into() });
        }
        let at = local_part_end(text).ok_or_else(|| AddressError::LocalPart(text.to_owned()))?;
        if text.as_bytes().get(at) != Some(&b'@') {
            return Err(match text.contains('@') {
                true => AddressError::LocalPart(text.to_owned()),
                false => AddressError::NoDomain(text.to_owned()),
            });
        }
        check_lengths(at, text.len() - at - 1)?;
        let domain = &text[at + 1..];
        if !is_domain(domain) {
            return Err(AddressError::Domain(domain.to_owned()));
        }
        Ok(Mailbox { at: at as u32, text: text.into() })
    }

    /// Itself, or at `host` when it says none, as a bare postmaster (RFC 5321 section 4.1.1.3).
    ///
    /// # Errors
    /// Itself: that is no name for a domain.
    pub fn or_at(self, host: &str) -> Result<Mailbox, Mailbox> {
        match self.domain() {
            "" => Mailbox::parse(&format!("{}@{host}", self.as_str())).map_err(|_| self),
            _ => Ok(self),
        }
    }

    /// The whole address as received.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The local part as received, quotes and all.
    pub fn local_part(&self) -> &str {
        &self.text[..self.at as usize]
    }

    /// The local part with quoting removed (KumoMTA's `address.user`).
    pub fn user(&self) -> Cow<'_, str> {
        let local = self.local_part();
        match local.strip_prefix('"').and_then(|l| l.strip_suffix('"')) {
            None => Cow::Borrowed(local),
            Some(quoted) => Cow::Owned(unquote(quoted)),
        }
    }

    /// The domain as received; empty for a bare postmaster.
    pub fn domain(&self) -> &str {
        self.text.get(self.at as usize + 1..).unwrap_or("")
    }

    /// False when the address needs SMTPUTF8 to travel.
    pub fn is_ascii(&self) -> bool {
        self.text.is_ascii()
    }
}

impl ReversePath {
    /// Parses an address text where the empty text is the null path.
    pub fn parse(text: &str) -> Result<ReversePath, AddressError> {
        if text.is_empty() { Ok(ReversePath(None)) } else { Mailbox::parse(text).map(|m| ReversePath(Some(m))) }
    }

    /// The address, empty for the null path.
    pub fn as_str(&self) -> &str {
        self.0.as_ref().map_or("", Mailbox::as_str)
    }

    /// The domain, empty for the null path.
    pub fn domain(&self) -> &str {
        self.0.as_ref().map_or("", Mailbox::domain)
    }

    /// True for `<>`.
    pub fn is_null(&self) -> bool {
        self.0.is_none()
    }
}

/// Splits `<path> rest` into the address text inside the brackets, source route removed, and
/// what follows the closing bracket. Understands brackets and blanks inside quoted local parts.
pub fn split_path(text: &str) -> Result<(&str, &str), AddressError> {
    let inner = text.strip_prefix('<').ok_or(AddressError::Brackets)?;
    let mut quoted = false;
    let mut escaped = false;
    for (i, b) in inner.bytes().enumerate() {
        match b {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'>' if !quoted => return Ok((without_route(&inner[..i]), &inner[i + 1..])),
            _ => {}
        }
    }
    Err(AddressError::Brackets)
}

impl PartialEq for Mailbox {
    fn eq(&self, other: &Self) -> bool {
        self.local_part() == other.local_part() && self.domain().eq_ignore_ascii_case(other.domain())
    }
}

impl Eq for Mailbox {}

impl Hash for Mailbox {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.local_part().hash(state);
        for b in self.domain().bytes() {
            state.write_u8(b.to_ascii_lowercase());
        }
    }
}

impl fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{}>", self.text)
    }
}

impl fmt::Display for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for ReversePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// `@a,@b:user@c` -> `user@c`.
fn without_route(path: &str) -> &str {
    match path.strip_prefix('@') {
        Some(route) => route.split_once(':').map_or(path, |(_, address)| address),
        None => path,
    }
}

fn check_lengths(local: usize, domain: usize) -> Result<(), AddressError> {
    if local > LOCAL_PART_BYTES_MAX {
        return Err(AddressError::LocalPartTooLong(local));
    }
    if domain > DOMAIN_BYTES_MAX {
        return Err(AddressError::DomainTooLong(domain));
    }
    Ok(())
}

/// Where the local part at the head of `text` ends; `None` when it is malformed.
fn local_part_end(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    if bytes.first() == Some(&b'"') {
        return quoted_end(bytes);
    }
    let end = bytes.iter().position(|b| !is_atext(*b) && *b != b'.').unwrap_or(bytes.len());
    let local = &text[..end];
    let sound = !local.is_empty() && local.split('.').all(|atom| !atom.is_empty());
    sound.then_some(end)
}

fn quoted_end(bytes: &[u8]) -> Option<usize> {
    let mut i = 1;
    while i < bytes.len() {
        match bytes[i] {
            b'"' => return Some(i + 1),
            b'\\' => {
                if !bytes.get(i + 1).is_some_and(|b| (32..=126).contains(b)) {
                    return None;
                }
                i += 2;
            }
            32..=126 | 128.. => i += 1,
            _ => return None,
        }
    }
    None
}

fn is_atext(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b >= 128 || b"!#$%&'*+-/=?^_`{|}~".contains(&b)
}

fn is_domain(domain: &str) -> bool {
    if let Some(literal) = domain.strip_prefix('[').and_then(|d| d.strip_suffix(']')) {
        return is_address_literal(literal);
    }
    !domain.is_empty() && domain.split('.').all(is_label)
}

fn is_label(label: &str) -> bool {
    let plain = label.bytes().all(|b| b.is_ascii_alphanumeric() || b >= 128 || b == b'-' || b == b'_');
    !label.is_empty() && label.len() <= 63 * 4 && plain && !label.starts_with('-') && !label.ends_with('-')
}

fn is_address_literal(literal: &str) -> bool {
    // `get`, not a slice: the fifth octet may lie inside a character.
    let (tag, address) = (literal.get(..5), literal.get(5..));
    match tag.is_some_and(|tag| tag.eq_ignore_ascii_case("ipv6:")) {
        true => address.is_some_and(|address| address.parse::<core::net::Ipv6Addr>().is_ok()),
        false => literal.parse::<core::net::Ipv4Addr>().is_ok(),
    }
}

fn unquote(quoted: &str) -> String {
    let mut out = String::with_capacity(quoted.len());
    let mut chars = quoted.chars();
    while let Some(c) = chars.next() {
        out.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sound_addresses() {
        for (text, user, domain) in [
            ("a@b.example", "a", "b.example"),
            ("first.last+tag@example.com", "first.last+tag", "example.com"),
            (r#""odd \"one\"@x"@example.com"#, r#"odd "one"@x"#, "example.com"),
            ("a@[127.0.0.1]", "a", "[127.0.0.1]"),
            ("a@[IPv6:::1]", "a", "[IPv6:::1]"),
            ("dömain@exämple.com", "dömain", "exämple.com"),
            ("postmaster", "postmaster", ""),
            ("a@under_score.example", "a", "under_score.example"),
        ] {
            let parsed = Mailbox::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!((parsed.user().as_ref(), parsed.domain()), (user, domain));
        }
    }

    #[test]
    fn unsound_addresses() {
        for text in [
            "",
            "a",
            "@b.example",
            "a@",
            "a@b..c",
            "a..b@c",
            ".a@c",
            "a.@c",
            "a b@c",
            "a@b c",
            "a@-b.c",
            "a@b-.c",
            "a@[300.1.1.1]",
            "a@[IPv6:zz]",
            "a@[",
            "\"a@b",
            "\"a\"b@c",
            "a@b@c",
            "a<b@c",
            "a@b>c",
            "a\r@b",
            "a@b\n.c",
            "a@b.c.",
            "a@b\0c",
            "a@[xxxxé]",
        ] {
            assert!(Mailbox::parse(text).is_err(), "{text:?} was accepted");
        }
        let bound = |local: usize, domain: usize| {
            let labels = "d.".repeat(domain / 2) + if domain % 2 == 1 { "d" } else { "" };
            Mailbox::parse(&format!("{}@{}", "l".repeat(local), labels.trim_end_matches('.')))
        };
        assert!(bound(LOCAL_PART_BYTES_MAX, 3).is_ok());
        assert!(bound(LOCAL_PART_BYTES_MAX + 1, 3).is_err());
        assert!(bound(1, DOMAIN_BYTES_MAX).is_ok());
        assert!(bound(1, DOMAIN_BYTES_MAX + 2).is_err());
    }

    #[test]
    fn paths_are_split_at_the_closing_bracket() {
        assert_eq!(split_path("<a@b> SIZE=1"), Ok(("a@b", " SIZE=1")));
        assert_eq!(split_path("<>"), Ok(("", "")));
        assert_eq!(split_path("<@r1,@r2:a@b>"), Ok(("a@b", "")));
        assert_eq!(split_path(r#"<"a>\" b"@c> X"#), Ok((r#""a>\" b"@c"#, " X")));
        assert_eq!(split_path("a@b"), Err(AddressError::Brackets));
        assert_eq!(split_path("<a@b"), Err(AddressError::Brackets));
    }

    #[test]
    fn domains_compare_without_case_local_parts_with() {
        let parse = |t: &str| Mailbox::parse(t).expect("sound");
        assert_eq!(parse("a@EXAMPLE.com"), parse("a@example.COM"));
        assert_ne!(parse("A@example.com"), parse("a@example.com"));
    }

    proptest! {
        #[test]
        fn never_panics_and_round_trips(text in ".{0,40}") {
            if let Ok(mailbox) = Mailbox::parse(&text) {
                prop_assert_eq!(mailbox.as_str(), text.as_str());
                prop_assert!(!text.contains(['\r', '\n', '\0']));
                let path = format!("<{text}>");
                prop_assert_eq!(split_path(&path), Ok((without_route(&text), "")));
            }
        }
    }
}
