//! RoutingDomain: the domain text of a queue name, parsed once into a type.
//!
//! In:  `example.com`, `example.com:2025`, `[10.0.0.1]`, `[10.0.0.1]:25`, `[IPv6:::1]`, U-labels, any case.
//! Out: an A-label name in lower case without its final dot, or an address; and perhaps a port.
//! Fails with: [`DomainError`], which names the text and what was expected.
//!
//! More lenient than RFC 5321 where queues need it: `_` is allowed in labels (log hook queues are called `name.log_hook`),
//! and so is `[::1]` without its `IPv6:` tag.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use thiserror::Error;

/// The longest domain text that is looked at, in bytes. A legal name has 253; the rest leaves room for U-labels and a port.
pub const DOMAIN_TEXT_BYTES_MAX: usize = 1024;

/// A domain to route to, with an optional port (`example.com:2025`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RoutingDomain {
    host: RouteHost,
    port: Option<u16>,
}

/// What stands before the port: a name to look up, or an address literal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RouteHost {
    /// A domain name: A-labels, lower case, no final dot.
    Name(String),
    /// An address literal (RFC 5321 section 4.1.3).
    Literal(IpAddr),
}

/// Why a text is not a routing domain.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DomainError {
    /// Nothing there.
    #[error("the domain is empty; expected a name such as example.com or a literal such as [10.0.0.1]")]
    Empty,
    /// More bytes than a domain can have.
    #[error("the domain has {bytes} bytes; expected at most {max}")]
    TooLong {
        /// Bytes found.
        bytes: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// A label is empty, too long or has a character that no host name has.
    #[error("domain `{domain}`: label `{label}` is not 1 to 63 letters, digits, hyphens or underscores")]
    BadLabel {
        /// The whole text.
        domain: String,
        /// The label at fault.
        label: String,
    },
    /// What follows the colon is no port.
    #[error("domain `{domain}`: port `{port}` is not a number from 1 to 65535")]
    BadPort {
        /// The whole text.
        domain: String,
        /// The text after the colon.
        port: String,
    },
    /// Brackets without an address in them.
    #[error(
        "domain `{domain}` is not an address literal; expected [10.0.0.1] or [IPv6:2001:db8::1], then perhaps :port"
    )]
    BadLiteral {
        /// The whole text.
        domain: String,
    },
    /// A U-label that has no A-label form (RFC 5891).
    #[error("domain `{domain}` cannot be written in ASCII (IDNA)")]
    BadUnicode {
        /// The whole text.
        domain: String,
    },
}

impl RoutingDomain {
    /// Parses the domain part or the routing_domain of a queue name.
    pub fn parse(text: &str) -> Result<Self, DomainError> {
        if text.is_empty() {
            return Err(DomainError::Empty);
        }
        if text.len() > DOMAIN_TEXT_BYTES_MAX {
            return Err(DomainError::TooLong { bytes: text.len(), max: DOMAIN_TEXT_BYTES_MAX });
        }
        if let Some(rest) = text.strip_prefix('[') {
            return parse_literal(text, rest);
        }
        let (name, port) = match text.rsplit_once(':') {
            Some((name, port)) => (name, Some(parse_port(text, port)?)),
            None => (text, None),
        };
        Ok(Self { host: RouteHost::Name(canonical_name(name)?), port })
    }

    /// A domain made of parts that are already parsed.
    pub fn from_literal(ip: IpAddr, port: Option<u16>) -> Self {
        Self { host: RouteHost::Literal(ip), port }
    }

    /// The name or the address.
    pub fn host(&self) -> &RouteHost {
        &self.host
    }

    /// The port written in the domain; it takes part in the site name and beats the egress path's `smtp_port`.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// The name with its final dot as it is asked for in DNS; `None` for an address literal.
    pub fn fqdn(&self) -> Option<String> {
        match &self.host {
            RouteHost::Name(name) => Some(format!("{name}.")),
            RouteHost::Literal(_) => None,
        }
    }
}

impl fmt::Display for RoutingDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            RouteHost::Name(name) => f.write_str(name)?,
            RouteHost::Literal(IpAddr::V4(ip)) => write!(f, "[{ip}]")?,
            RouteHost::Literal(IpAddr::V6(ip)) => write!(f, "[IPv6:{ip}]")?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

impl FromStr for RoutingDomain {
    type Err = DomainError;

    fn from_str(text: &str) -> Result<Self, DomainError> {
        Self::parse(text)
    }
}

/// Brings a domain name into the one form in which names are compared: A-labels, lower case, no final dot.
pub(crate) fn canonical_name(name: &str) -> Result<String, DomainError> {
    let mut ascii = if name.is_ascii() {
        name.to_ascii_lowercase()
    } else {
        idna::domain_to_ascii(name).map_err(|_| DomainError::BadUnicode { domain: name.to_string() })?
    };
    if ascii.ends_with('.') {
        ascii.pop();
    }
    if ascii.is_empty() {
        return Err(DomainError::Empty);
    }
    if ascii.len() > NAME_BYTES_MAX {
        return Err(DomainError::TooLong { bytes: ascii.len(), max: NAME_BYTES_MAX });
    }
    match ascii.split('.').find(|label| !is_label(label)) {
        Some(label) => Err(DomainError::BadLabel { domain: name.to_string(), label: label.to_string() }),
        None => Ok(ascii),
    }
}

fn is_label(label: &str) -> bool {
    (1..=LABEL_BYTES_MAX).contains(&label.len())
        && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

/// `rest` is the text behind the opening bracket.
fn parse_literal(text: &str, rest: &str) -> Result<RoutingDomain, DomainError> {
    let bad = || DomainError::BadLiteral { domain: text.to_string() };
    let (inside, after) = rest.split_once(']').ok_or_else(bad)?;
    let port = match after.strip_prefix(':') {
        Some(port) => Some(parse_port(text, port)?),
        None if after.is_empty() => None,
        None => return Err(bad()),
    };
    let ip = parse_address(inside).ok_or_else(bad)?;
    Ok(RoutingDomain { host: RouteHost::Literal(ip), port })
}

fn parse_address(inside: &str) -> Option<IpAddr> {
    if let Ok(v4) = inside.parse::<Ipv4Addr>() {
        return Some(IpAddr::V4(v4));
    }
    let v6 = match inside.get(..IPV6_TAG.len()) {
        Some(tag) if tag.eq_ignore_ascii_case(IPV6_TAG) => &inside[IPV6_TAG.len()..],
        _ => inside,
    };
    v6.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
}

pub(crate) fn parse_port(domain: &str, port: &str) -> Result<u16, DomainError> {
    let digits_only = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    match port.parse::<u16>() {
        Ok(number) if digits_only && number > 0 => Ok(number),
        _ => Err(DomainError::BadPort { domain: domain.to_string(), port: port.to_string() }),
    }
}

/// RFC 1035 section 2.3.4, counted without the final dot.
const NAME_BYTES_MAX: usize = 253;
/// RFC 1035 section 2.3.4.
const LABEL_BYTES_MAX: usize = 63;
const IPV6_TAG: &str = "IPv6:";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn good_texts() {
        for (text, expected) in [
            ("example.com", "example.com"),
            ("EXAMPLE.com.", "example.com"),
            ("example.com:2025", "example.com:2025"),
            ("localhost", "localhost"),
            ("name.log_hook", "name.log_hook"),
            ("bücher.example", "xn--bcher-kva.example"),
            ("BÜCHER.example:25", "xn--bcher-kva.example:25"),
            ("[10.0.0.1]", "[10.0.0.1]"),
            ("[10.0.0.1]:25", "[10.0.0.1]:25"),
            ("[IPv6:::1]", "[IPv6:::1]"),
            ("[ipv6:2001:DB8::1]:2525", "[IPv6:2001:db8::1]:2525"),
            ("[::1]", "[IPv6:::1]"),
        ] {
            let parsed = RoutingDomain::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(parsed.to_string(), expected, "{text}");
        }
    }

    #[test]
    fn bad_texts_name_the_cause() {
        let long_label = format!("{}.example", "a".repeat(64));
        for (text, cause) in [
            ("", "empty"),
            (".", "empty"),
            ("a..b", "label ``"),
            (".example.com", "label ``"),
            ("exa mple.com", "label `exa mple`"),
            ("a@b", "label `a@b`"),
            (long_label.as_str(), "not 1 to 63"),
            ("example.com:", "port ``"),
            ("example.com:0", "port `0`"),
            ("example.com:65536", "port `65536`"),
            ("example.com:+25", "port `+25`"),
            (":25", "empty"),
            ("[10.0.0.1", "not an address literal"),
            ("[10.0.0.256]", "not an address literal"),
            ("[10.0.0.1]x", "not an address literal"),
            ("[10.0.0.1]:x", "port `x`"),
            ("[]", "not an address literal"),
            ("::1", "label"),
            ("\u{2065}.example", "IDNA"),
        ] {
            let error = RoutingDomain::parse(text).expect_err(text).to_string();
            assert!(error.contains(cause), "{text:?}: {error}");
        }
    }

    #[test]
    fn length_bounds() {
        let label = "a".repeat(63);
        let name_253 = format!("{label}.{label}.{label}.{}", "a".repeat(61));
        assert_eq!(name_253.len(), 253);
        assert!(RoutingDomain::parse(&name_253).is_ok());
        assert!(RoutingDomain::parse(&format!("{name_253}.")).is_ok());
        assert!(matches!(RoutingDomain::parse(&format!("{name_253}a")), Err(DomainError::TooLong { bytes: 254, .. })));
        let bytes = DOMAIN_TEXT_BYTES_MAX + 1;
        assert!(matches!(RoutingDomain::parse(&"é".repeat(bytes)), Err(DomainError::TooLong { .. })));
        assert!(matches!(
            RoutingDomain::parse(&"a".repeat(bytes)),
            Err(DomainError::TooLong { max: DOMAIN_TEXT_BYTES_MAX, .. })
        ));
    }

    #[test]
    fn fqdn_has_the_dot_and_a_literal_has_none() {
        assert_eq!(RoutingDomain::parse("Example.com:25").unwrap().fqdn().as_deref(), Some("example.com."));
        assert_eq!(RoutingDomain::parse("[10.0.0.1]").unwrap().fqdn(), None);
    }

    proptest! {
        #[test]
        fn what_parses_prints_and_parses_again(text in "\\PC{0,40}") {
            if let Ok(domain) = RoutingDomain::parse(&text) {
                prop_assert_eq!(RoutingDomain::parse(&domain.to_string()), Ok(domain));
            }
        }
    }
}
