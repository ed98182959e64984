//! Replies without what differs from one to the next: addresses, times, identities.
//!
//! In: the text of a reply. Out: the same with words of those kinds replaced by the name of the kind, as KumoMTA names them.
//! Pure; a word is looked at by itself, without its brackets and punctuation, and `name=value` by its value.

use std::net::IpAddr;

/// `text` with what is particular to one message or moment replaced by its kind.
pub fn normalized(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| !c.is_whitespace()) {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        out.push_str(&word(&rest[..end], VALUES_DEPTH_MAX));
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

fn word(word: &str, depth: usize) -> String {
    let core = word.trim_matches(is_around);
    if core.is_empty() {
        return word.to_owned();
    }
    let start = word.len() - word.trim_start_matches(is_around).len();
    let (before, after) = (&word[..start], &word[start + core.len()..]);
    if let Some(kind) = kind(core) {
        return format!("{before}{kind}{after}");
    }
    match core.split_once('=') {
        // The end of base64 is no assignment.
        Some((name, value)) if depth > 0 && !value.is_empty() && !name.is_empty() => {
            format!("{before}{name}={}{after}", self::word(value, depth - 1))
        }
        _ => word.to_owned(),
    }
}

/// Brackets, quotes and punctuation around a word.
fn is_around(c: char) -> bool {
    matches!(c, '(' | ')' | '[' | ']' | '<' | '>' | '{' | '}' | '"' | '\'' | ',' | ';' | ':' | '.' | '!' | '?')
}

fn kind(core: &str) -> Option<&'static str> {
    if core.parse::<IpAddr>().is_ok() {
        Some("{ipaddr}")
    } else if is_uuid(core) {
        Some("{uuid}")
    } else if is_timestamp(core) {
        Some("{timestamp}")
    } else if is_email(core) {
        Some("{email}")
    } else if is_hash(core) {
        Some("{hash}")
    } else if is_base64(core) {
        Some("{base64}")
    } else {
        None
    }
}

/// With hyphens or without, with `urn:uuid:` or without.
fn is_uuid(core: &str) -> bool {
    let core = core.strip_prefix("urn:uuid:").unwrap_or(core);
    let groups: Vec<&str> = core.split('-').collect();
    let are = |lengths: &[usize]| {
        groups.len() == lengths.len()
            && groups.iter().zip(lengths).all(|(group, length)| group.len() == *length && is_hex(group))
    };
    are(&[32]) || are(&[8, 4, 4, 4, 12])
}

/// A date of RFC 3339, or seconds since 1970 of this century.
fn is_timestamp(core: &str) -> bool {
    let is_epoch = (10..=13).contains(&core.len()) && core.starts_with('1') && core.bytes().all(|b| b.is_ascii_digit());
    let date = core.as_bytes();
    let is_date = date.len() >= 10
        && date[..10]
            .iter()
            .enumerate()
            .all(|(at, b)| if at == 4 || at == 7 { *b == b'-' } else { b.is_ascii_digit() })
        && date.get(10).is_none_or(|b| matches!(b, b'T' | b't' | b'_'));
    is_epoch || is_date
}

fn is_email(core: &str) -> bool {
    core.rsplit_once('@').is_some_and(|(user, domain)| {
        let is_host = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
        !user.is_empty() && domain.contains('.') && domain.chars().all(is_host) && !user.contains('=')
    })
}

/// Letters and digits mixed as in no word, and not the name of a host.
fn is_hash(core: &str) -> bool {
    let count = |wanted: fn(&u8) -> bool| core.as_bytes().iter().filter(|octet| wanted(octet)).count();
    let of_host = |label: &str| label.len() > 1 && label.bytes().all(|b| b.is_ascii_alphabetic());
    core.len() >= HASH_OCTETS_MIN
        && core.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
        && count(u8::is_ascii_digit) >= HASH_DIGITS_MIN
        && count(u8::is_ascii_alphabetic) >= HASH_LETTERS_MIN
        && !core.rsplit_once('.').is_some_and(|(_, last)| of_host(last))
}

/// Long, of its alphabet, and mixed as words are not.
fn is_base64(core: &str) -> bool {
    let body = core.trim_end_matches('=');
    let has = |wanted: fn(&u8) -> bool| body.as_bytes().iter().any(wanted);
    core.len() >= BASE64_OCTETS_MIN
        && body.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'-' | b'_'))
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Shorter ones, and those with fewer, may be words, names or numbers.
const HASH_OCTETS_MIN: usize = 12;
const HASH_DIGITS_MIN: usize = 4;
const HASH_LETTERS_MIN: usize = 2;
/// Shorter ones may be names.
const BASE64_OCTETS_MIN: usize = 16;
/// How often a value may be `name=value` again.
const VALUES_DEPTH_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_name_and_the_rest_stays() {
        for (text, want) in [
            ("5.1.1 no such user", "5.1.1 no such user"),
            ("from [192.0.2.1] and 2001:db8::1.", "from [{ipaddr}] and {ipaddr}."),
            ("<a.b+c@mail.test>: unknown", "<{email}>: unknown"),
            ("at 2026-11-22T10:00:00Z, 1763800000", "at {timestamp}, {timestamp}"),
            ("id=d41d8cd98f00b204e9800998ecf8427e;", "id={uuid};"),
            ("550e8400-e29b-41d4-a716-446655440000 {urn:uuid:550e8400e29b41d4a716446655440000}", "{uuid} {{uuid}}"),
            ("da39a3ee5e6b4b0d3255bfef95601890afd80709", "{hash}"),
            ("?p=NoSuchUser 41be03b00d2f7-b93bf44f0c0si6882731a12.803 - gsmtp", "?p=NoSuchUser {hash} - gsmtp"),
            ("(d2e1a72fcca58-7a1b2c3d4e5si1234567b3a.12) id 1rKc8f-0006xY-2P", "({hash}) id {hash}"),
            ("A1B2C3D4E5F6G7H8", "{hash}"),
            (
                "mx01-2024.out.mail7.example.com [TSS04] 123456789012345 try_again_later",
                "mx01-2024.out.mail7.example.com [TSS04] 123456789012345 try_again_later",
            ),
            ("queued as AbCd0123EfGh4567Ij==", "queued as {base64}"),
            ("a=b=192.0.2.1", "a=b={ipaddr}"),
            ("  two  blanks ", "  two  blanks "),
            ("deadbeefdeadbeef", "deadbeefdeadbeef"),
            ("=", "="),
            ("", ""),
        ] {
            assert_eq!(normalized(text), want, "{text}");
        }
    }
}
