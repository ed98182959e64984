//! Reads the values of the command line that have a form of their own: sizes, rates, durations, domains, headers.
//!
//! In: text. Out: a type, or an error that says what was expected; clap adds the option and the value to it.
//! The rate has KumoMTA's form (`[local:]N/PERIOD[,max_burst=M]`).

use std::time::Duration;

/// Why a value was refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum ValueError {
    #[error("expected a size such as 100000, 10k, 100kb or 1mb (k is 1024), at most 1gb")]
    Size,
    #[error("expected a rate such as 500/s, 1,000/min or 20/30min, with ,max_burst=N if wanted")]
    Rate,
    #[error("expected a time above zero such as 60, 90s, 5m or 1h")]
    Duration,
    #[error("expected a domain name, with :WEIGHT (1 to 1000000) if wanted")]
    Domain,
    #[error("expected \"Name: value\" on one line of at most 900 ASCII characters; the name must not begin with a dot")]
    Header,
    #[error("expected an address such as user@example.test")]
    Address,
}

/// So many messages in each period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Messages in one period.
    pub messages: u64,
    /// The period.
    pub period: Duration,
    /// How many may go at once after a rest; nothing means a smooth flow.
    pub burst: Option<u64>,
}

/// A recipient domain and how often it is taken, relative to the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightedDomain {
    /// Without the suffix.
    pub name: String,
    /// From 1.
    pub weight: u32,
}

/// A header field given by the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderField {
    /// Without the colon.
    pub name: String,
    /// Trimmed.
    pub value: String,
}

/// A size in bytes: `100000`, `10k`, `100kb`, `1mb`.
pub(super) fn size(text: &str) -> Result<u64, ValueError> {
    let (digits, unit) = split_number(text);
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        _ => return Err(ValueError::Size),
    };
    number(digits)
        .and_then(|count| count.checked_mul(factor))
        .filter(|bytes| *bytes <= SIZE_BYTES_MAX)
        .ok_or(ValueError::Size)
}

/// A rate: `100/s`, `1_000/min`, `20/30min,max_burst=5`.
pub(super) fn rate(text: &str) -> Result<Rate, ValueError> {
    let text = text.strip_prefix("local:").unwrap_or(text);
    let (quantity, period) = text.split_once('/').ok_or(ValueError::Rate)?;
    let (period, burst) = match period.split_once(",max_burst=") {
        Some((period, burst)) => (period, Some(positive(burst).ok_or(ValueError::Rate)?)),
        None => (period, None),
    };
    let (count, unit) = split_number(period);
    let seconds = match unit {
        "s" | "sec" | "second" => 1,
        "m" | "min" | "minute" => 60,
        "h" | "hr" | "hour" => 3_600,
        "d" | "day" => 86_400,
        _ => return Err(ValueError::Rate),
    };
    let count = if count.is_empty() { 1 } else { positive(count).ok_or(ValueError::Rate)? };
    let seconds =
        count.checked_mul(seconds).filter(|seconds| *seconds <= PERIOD_SECONDS_MAX).ok_or(ValueError::Rate)?;
    Ok(Rate { messages: positive(quantity).ok_or(ValueError::Rate)?, period: Duration::from_secs(seconds), burst })
}

/// A duration: seconds, or a number with `s`, `m` or `h`.
pub(super) fn duration(text: &str) -> Result<Duration, ValueError> {
    let (digits, unit) = split_number(text);
    let factor = match unit {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3_600,
        _ => return Err(ValueError::Duration),
    };
    positive(digits)
        .and_then(|count| count.checked_mul(factor))
        .filter(|seconds| *seconds <= PERIOD_SECONDS_MAX)
        .map(Duration::from_secs)
        .ok_or(ValueError::Duration)
}

/// `NAME[:WEIGHT]`.
pub(super) fn domain(text: &str) -> Result<WeightedDomain, ValueError> {
    let (name, weight) = match text.rsplit_once(':') {
        Some((name, weight)) => (name, weight.parse().map_err(|_| ValueError::Domain)?),
        None => (text, 1),
    };
    if !(1..=WEIGHT_MAX).contains(&weight) {
        return Err(ValueError::Domain);
    }
    Ok(WeightedDomain { name: domain_name(name)?, weight })
}

/// A domain name without a dot at either end.
pub(super) fn domain_name(text: &str) -> Result<String, ValueError> {
    let name = text.trim_matches('.');
    let fine = !name.is_empty()
        && name.len() <= DOMAIN_BYTES_MAX
        && name.split('.').all(|label| {
            let characters = label.bytes();
            (1..=63).contains(&label.len())
                && characters.clone().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        });
    if fine { Ok(name.to_owned()) } else { Err(ValueError::Domain) }
}

/// A suffix for all recipient domains; empty for none.
pub(super) fn suffix(text: &str) -> Result<String, ValueError> {
    if text.is_empty() { Ok(String::new()) } else { domain_name(text) }
}

/// `Name: value`.
pub(super) fn header(text: &str) -> Result<HeaderField, ValueError> {
    let (name, value) = text.split_once(':').ok_or(ValueError::Header)?;
    let value = value.trim();
    let name_fine = !name.is_empty() && !name.starts_with('.') && name.bytes().all(|byte| byte.is_ascii_graphic());
    let value_fine = value.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte));
    if name_fine && value_fine && text.len() <= HEADER_BYTES_MAX {
        Ok(HeaderField { name: name.to_owned(), value: value.to_owned() })
    } else {
        Err(ValueError::Header)
    }
}

/// An address with one `@`, and nothing that could break out of the angle brackets.
pub(super) fn address(text: &str) -> Result<String, ValueError> {
    let (local, domain) = text.rsplit_once('@').ok_or(ValueError::Address)?;
    let local_fine = (1..=64).contains(&local.len())
        && local.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>()[]\\,;:@\"".contains(&byte));
    if local_fine && domain_name(domain).is_ok() { Ok(text.to_owned()) } else { Err(ValueError::Address) }
}

fn split_number(text: &str) -> (&str, &str) {
    let end =
        text.find(|character: char| !character.is_ascii_digit() && !"_,".contains(character)).unwrap_or(text.len());
    text.split_at(end)
}

/// Digits, with commas and underscores allowed between them.
fn number(text: &str) -> Option<u64> {
    let digits: String = text.chars().filter(|character| !"_,".contains(*character)).collect();
    text.starts_with(|first: char| first.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

fn positive(text: &str) -> Option<u64> {
    number(text).filter(|count| *count > 0)
}

const SIZE_BYTES_MAX: u64 = 1 << 30;
/// A year.
const PERIOD_SECONDS_MAX: u64 = 366 * 86_400;
const WEIGHT_MAX: u32 = 1_000_000;
const DOMAIN_BYTES_MAX: usize = 200;
/// RFC 5322 2.1.1 allows 998 bytes a line.
const HEADER_BYTES_MAX: usize = 900;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", 0),
            ("1024", 1_024),
            ("100_000", 100_000),
            ("10k", 10_240),
            ("100kb", 102_400),
            ("100KB", 102_400),
            ("1mb", 1_048_576),
            ("1gb", SIZE_BYTES_MAX),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "k", "-1", "1.5k", "10x", "2gb", "99999999999999999999", "10 k", "_1"] {
            assert_eq!(size(text), Err(ValueError::Size), "{text}");
        }
    }

    #[test]
    fn rates() {
        let seconds = |messages, seconds, burst| Rate { messages, period: Duration::from_secs(seconds), burst };
        for (text, want) in [
            ("100/s", seconds(100, 1, None)),
            ("1,000/min", seconds(1_000, 60, None)),
            ("10_000/hour", seconds(10_000, 3_600, None)),
            ("7/d", seconds(7, 86_400, None)),
            ("20/30min", seconds(20, 1_800, None)),
            ("local:5/sec,max_burst=3", seconds(5, 1, Some(3))),
        ] {
            assert_eq!(rate(text), Ok(want), "{text}");
        }
        for text in ["", "100", "/s", "0/s", "5/", "5/0s", "5/week", "5/s,max_burst=0", "5/s,burst=1", "-5/s"] {
            assert_eq!(rate(text), Err(ValueError::Rate), "{text}");
        }
    }

    #[test]
    fn durations() {
        for (text, seconds) in [("60", 60), ("90s", 90), ("5m", 300), ("1h", 3_600)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "0", "s", "5d", "1.5", "99999999999h"] {
            assert_eq!(duration(text), Err(ValueError::Duration), "{text}");
        }
    }

    #[test]
    fn domains() {
        let weighted = |name: &str, weight| WeightedDomain { name: name.to_owned(), weight };
        assert_eq!(domain("gmail.com"), Ok(weighted("gmail.com", 1)));
        assert_eq!(domain("gmail.com.:20"), Ok(weighted("gmail.com", 20)));
        for text in ["", ".", "a b", "a@b", "a:0", "a:x", "a:", "a..b", "a>b", "a:1000001", "[127.0.0.1]", "a\r\nb"] {
            assert_eq!(domain(text), Err(ValueError::Domain), "{text}");
        }
    }

    #[test]
    fn headers_and_addresses() {
        let field = header("X-Tenant:  one ").expect("a header");
        assert_eq!((field.name.as_str(), field.value.as_str()), ("X-Tenant", "one"));
        for text in ["", "X", ": v", "X Y: v", ".X: v", "X: a\r\nEvil: b", "X: a\nb", "\u{e9}: v", "v: \u{e9}"] {
            assert_eq!(header(text), Err(ValueError::Header), "{text}");
        }
        assert!(address("a.b+c@example.test").is_ok());
        for text in ["", "a", "@b", "a@", "a b@c", "a>@b", "a@b@c", "a@b\r\nRCPT"] {
            assert_eq!(address(text), Err(ValueError::Address), "{text}");
        }
    }
}
