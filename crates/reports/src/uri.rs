//! Where a domain wants its reports: the URIs of `rua=` and `ruf=` (RFC 7489 section 6.2, RFC 8460 section 3).
//!
//! In: the value of a tag, as strangers wrote it. Out: [`ReportUri`]s that can be written into a header field and asked. Cannot
//! fail: what is no `mailto:` of one address and no `https:`, is left out; past [`REPORT_URIS_MAX`] nothing is looked at.

/// Where reports go.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReportUri {
    /// How they get there.
    pub scheme: Scheme,
    /// The address, or the whole URL.
    pub target: String,
    /// Octets a report may have, where that was said (`!10m`).
    pub octets_max: Option<u64>,
}

/// How a report is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// As mail.
    Mailto,
    /// By POST.
    Https,
}

/// The URIs of a list with commas between them, each once.
pub fn parse_list(value: &str) -> Vec<ReportUri> {
    let mut found: Vec<ReportUri> = Vec::new();
    for uri in value.split(',').take(REPORT_URIS_MAX).filter_map(ReportUri::parse) {
        if !found.iter().any(|known| known.target == uri.target) {
            found.push(uri);
        }
    }
    found
}

impl ReportUri {
    /// Reads one.
    pub fn parse(text: &str) -> Option<ReportUri> {
        let text = text.trim();
        if text.len() > URI_OCTETS_MAX {
            return None;
        }
        let (scheme, rest) = text.split_once(':')?;
        if scheme.eq_ignore_ascii_case("https") {
            let is_plain =
                rest.starts_with("//") && rest.bytes().all(|b| b.is_ascii_graphic() && !b"<>\"\\^`{|}".contains(&b));
            let host = rest.get(2..)?.split(['/', '?', '#']).next()?;
            let is_sound = is_plain && !host.is_empty() && !host.contains('@');
            return is_sound.then(|| ReportUri {
                scheme: Scheme::Https,
                target: format!("https:{rest}"),
                octets_max: None,
            });
        }
        if !scheme.eq_ignore_ascii_case("mailto") {
            return None;
        }
        let (address, octets_max) = match rest.rsplit_once('!') {
            Some((address, limit)) => (address, Some(octets(limit)?)),
            None => (rest, None),
        };
        // What a URI may say besides the address (`?subject=`) is not for us to take.
        let address = decoded(address.split('?').next()?)?;
        let (local, domain) = address.rsplit_once('@')?;
        let is_local = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~.".contains(&b);
        let is_sound = (1..=64).contains(&local.len()) && local.bytes().all(is_local) && is_domain(domain);
        is_sound.then(|| ReportUri {
            scheme: Scheme::Mailto,
            target: format!("{local}@{}", domain.to_ascii_lowercase()),
            octets_max,
        })
    }

    /// The domain of an address.
    pub fn mail_domain(&self) -> Option<&str> {
        match self.scheme {
            Scheme::Mailto => self.target.rsplit_once('@').map(|(_, domain)| domain),
            Scheme::Https => None,
        }
    }
}

/// A host name of two labels or more, in ASCII.
fn is_domain(domain: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len()) && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    };
    domain.len() <= 253 && domain.contains('.') && domain.split('.').all(is_label)
}

/// `10m`: a number with one of `k`, `m`, `g`, `t` behind it, powers of 2 to the 10.
fn octets(limit: &str) -> Option<u64> {
    let (digits, shift) = match limit.bytes().last()?.to_ascii_lowercase() {
        b'k' => (&limit[..limit.len() - 1], 10),
        b'm' => (&limit[..limit.len() - 1], 20),
        b'g' => (&limit[..limit.len() - 1], 30),
        b't' => (&limit[..limit.len() - 1], 40),
        _ => (limit, 0),
    };
    let is_number = (1..=12).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    digits.parse::<u64>().ok().filter(|_| is_number).map(|number| number.saturating_mul(1 << shift))
}

/// Without percent signs; only what is ASCII then.
fn decoded(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(octet) = rest.next() {
        let octet = match octet {
            b'%' => {
                let hex = |octet: u8| char::from(octet).to_digit(16);
                (hex(rest.next()?)? * 16 + hex(rest.next()?)?) as u8
            }
            other => other,
        };
        if !octet.is_ascii_graphic() {
            return None;
        }
        out.push(char::from(octet));
    }
    Some(out)
}

/// URIs of a list that are looked at: each costs questions and a report.
pub const REPORT_URIS_MAX: usize = 8;
/// Longest URI, in octets.
const URI_OCTETS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_their_limits_are_read() {
        let list = parse_list("mailto:a@Ex.test!10m , MAILTO:b%2Bc@ex.test,https://r.test/v1?x=1, mailto:a@ex.test");
        let shown: Vec<(&str, Option<u64>)> = list.iter().map(|uri| (uri.target.as_str(), uri.octets_max)).collect();
        assert_eq!(shown, [("a@ex.test", Some(10 << 20)), ("b+c@ex.test", None), ("https://r.test/v1?x=1", None)]);
        for (limit, octets) in [("5", 5), ("1k", 1024), ("2G", 2 << 30), ("1t", 1 << 40)] {
            assert_eq!(ReportUri::parse(&format!("mailto:a@b.test!{limit}")).and_then(|u| u.octets_max), Some(octets));
        }
    }

    #[test]
    fn what_is_no_use_is_left_out() {
        for bad in [
            "",
            "a@b.test",
            "mailto:",
            "mailto:a",
            "mailto:a@b",
            "mailto:a@b.test!",
            "mailto:a@b.test!10x",
            "mailto:a@b.test!1m2",
            "mailto:a%0d%0aBcc:x@b.test",
            "mailto:a%zz@b.test",
            "mailto:<a>@b.test",
            "mailto:\"a b\"@b.test",
            "mailto:a b@c.test",
            "mailto:a@b..test",
            "http://a.test/",
            "https:a",
            "https://",
            "https://u:p@a.test/",
            "https://a.test/\r\nx",
            "ftp://a.test",
            "mailto:a@-",
            "mailto:é@b.test",
        ] {
            assert_eq!(ReportUri::parse(bad), None, "{bad}");
        }
        let long = |octets: usize| format!("https://a.test/{}", "x".repeat(octets - 15));
        assert!(
            ReportUri::parse(&long(URI_OCTETS_MAX)).is_some() && ReportUri::parse(&long(URI_OCTETS_MAX + 1)).is_none()
        );
        let many: Vec<String> = (0..=REPORT_URIS_MAX).map(|n| format!("mailto:a{n}@b.test")).collect();
        assert_eq!(parse_list(&many.join(",")).len(), REPORT_URIS_MAX);
    }
}
