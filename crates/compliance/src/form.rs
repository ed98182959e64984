//! What a message shows by itself: From, fields that may be there once, Message-ID, Date, lines, size.
//!
//! In: a message. Out: findings. Asks nobody, cannot fail.

use crate::{Demands, Report, Rule, Subject};
use memchr::memrchr2;
use mime::{AddressList, FieldView, HeaderView};
use sender_check::shown;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

pub(crate) fn check(subject: &Subject<'_>, demands: &Demands, report: &mut Report) {
    if let Some(what) = from(subject.headers) {
        report.find(Rule::FromSingle, what);
    }
    if let Some(name) = repeated(subject.headers) {
        report.find(Rule::FieldRepeated, format!("there is more than one {name}"));
    }
    if let Some(what) = message_id(subject.headers) {
        report.find(Rule::MessageId, what);
    }
    if let Some(what) = date(subject.headers, subject.now_unix_secs) {
        report.find(Rule::Date, what);
    }
    if let Some(place) = long_line(subject) {
        report.find(Rule::LineLength, format!("{place} has a line of more than {LINE_BYTES_MAX} octets"));
    }
    let octets = subject.headers.iter_all().map(|field| field.whole.len()).sum::<usize>() + subject.body.len();
    if octets > demands.bytes_max {
        report.find(Rule::Size, format!("it has {octets} octets, expected at most {}", demands.bytes_max));
    }
}

fn from(headers: HeaderView<'_>) -> Option<String> {
    let field = match one(headers, "From") {
        Ok(field) => field,
        Err(0) => return Some("there is no From".to_owned()),
        Err(count) => return Some(format!("there are {count} From")),
    };
    let list = match AddressList::parse(field.value) {
        Ok(list) => list,
        Err(error) => return Some(shown(&error.to_string())),
    };
    let authors = list.mailboxes().count();
    (authors != 1 || list.single().is_err()).then(|| format!("From has {authors} addresses, or a group"))
}

/// The one field of a name, or how many there are.
fn one<'a>(headers: HeaderView<'a>, name: &str) -> Result<FieldView<'a>, usize> {
    let mut fields = headers.named(name);
    match (fields.next(), fields.next()) {
        (Some(field), None) => Ok(field),
        (None, _) => Err(0),
        (Some(_), Some(_)) => Err(2 + fields.count()),
    }
}

/// The first of those that may be there once and is there again. From, Message-ID and Date have rules of their own.
fn repeated(headers: HeaderView<'_>) -> Option<&'static str> {
    let mut seen = [false; ONCE.len()];
    headers.iter().find_map(|field| {
        let place = ONCE.iter().position(|name| field.is_named(name))?;
        std::mem::replace(&mut seen[place], true).then_some(ONCE[place])
    })
}

fn message_id(headers: HeaderView<'_>) -> Option<String> {
    match one(headers, "Message-ID") {
        Ok(field) if is_message_id(field.value) => None,
        Ok(field) => Some(format!("\"{}\" is no Message-ID", shown(&String::from_utf8_lossy(field.value)))),
        Err(0) => Some("there is no Message-ID".to_owned()),
        Err(count) => Some(format!("there are {count} Message-ID")),
    }
}

/// `<left@right>`, both of printable characters (RFC 5322 section 3.6.4, RFC 6532).
fn is_message_id(value: &[u8]) -> bool {
    let inner = value.trim_ascii().strip_prefix(b"<").and_then(|rest| rest.strip_suffix(b">"));
    let Some((left, right)) = inner.and_then(|inner| std::str::from_utf8(inner).ok()?.rsplit_once('@')) else {
        return false;
    };
    let is_part = |part: &str| !part.is_empty() && !part.contains(|c: char| c.is_control() || " <>".contains(c));
    is_part(left) && is_part(right) && (!left.contains('@') || left.starts_with('"'))
}

fn date(headers: HeaderView<'_>, now_unix_secs: u64) -> Option<String> {
    let field = match one(headers, "Date") {
        Ok(field) => field,
        Err(0) => return Some("there is no Date".to_owned()),
        Err(count) => return Some(format!("there are {count} Date")),
    };
    let text = String::from_utf8_lossy(field.value);
    let Some(date) = read_date(text.trim()) else {
        return Some(format!("\"{}\" is no date", shown(&text)));
    };
    let ahead_secs = date.unix_timestamp().saturating_sub_unsigned(now_unix_secs);
    match ahead_secs {
        secs if secs > AHEAD_SECS_MAX => Some(format!("Date is {} hours ahead", secs / 3600)),
        secs if secs < -BEHIND_SECS_MAX => Some(format!("Date is {} days ago", -secs / 86_400)),
        _ => None,
    }
}

/// A zone by a name that nobody knows counts as -0000 (RFC 5322 section 4.3).
fn read_date(text: &str) -> Option<OffsetDateTime> {
    OffsetDateTime::parse(text, &Rfc2822).ok().or_else(|| {
        let (rest, zone) = text.split('(').next()?.trim_end().rsplit_once([' ', '\t'])?;
        let is_zone = (1..=5).contains(&zone.len()) && zone.bytes().all(|octet| octet.is_ascii_alphabetic());
        is_zone.then(|| OffsetDateTime::parse(&format!("{rest} +0000"), &Rfc2822).ok())?
    })
}

/// Where a line is too long.
fn long_line(subject: &Subject<'_>) -> Option<String> {
    let field =
        subject.headers.iter_all().find(|field| field.whole.len() > LINE_BYTES_MAX && has_long_line(field.whole));
    match field {
        Some(field) => Some(format!("the field {}", shown(&field.name_text()))),
        None => has_long_line(subject.body).then(|| "the body".to_owned()),
    }
}

/// From one line end to the last within reach: a step for each thousand octets, whatever the lines. A bare CR or LF ends a
/// line: it leaves as CRLF.
fn has_long_line(mut rest: &[u8]) -> bool {
    while rest.len() > LINE_BYTES_MAX {
        match memrchr2(b'\r', b'\n', &rest[..=LINE_BYTES_MAX]) {
            Some(end) => rest = &rest[end + 1..],
            // The end of the message ends its last line.
            None => return true,
        }
    }
    false
}

/// Fields that may be there once (RFC 5322 section 3.6, RFC 2369 section 3, RFC 8058 section 3.1), besides those with rules of
/// their own. Of two List-Unsubscribe a signature may cover the one and a reader take the other.
const ONCE: [&str; 10] = [
    "Sender",
    "Reply-To",
    "To",
    "Cc",
    "Bcc",
    "In-Reply-To",
    "References",
    "Subject",
    "List-Unsubscribe",
    "List-Unsubscribe-Post",
];

/// Longest line without its CRLF, in octets (RFC 5322 section 2.1.1).
pub(crate) const LINE_BYTES_MAX: usize = 998;

/// Clocks and time zones go wrong by less, in seconds.
const AHEAD_SECS_MAX: i64 = 86_400;

/// What is sent later than this was not written to be sent now, in seconds.
const BEHIND_SECS_MAX: i64 = 7 * 86_400;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_ids() {
        for good in ["<a@b>", " <a.b@c.d>\r\n", "<\"a@b\"@c>", "<a@[192.0.2.1]>", "<\u{fc}@b>"] {
            assert!(is_message_id(good.as_bytes()), "{good}");
        }
        for bad in ["", "a@b", "<a>", "<@b>", "<a@>", "<a b@c>", "<a@b> <c@d>", "<a@b@c>", "<a@b", "<a\r\n @b>"] {
            assert!(!is_message_id(bad.as_bytes()), "{bad}");
        }
        assert!(!is_message_id(b"<\xff@b>"));
    }

    #[test]
    fn lines_at_the_bound_and_past_it() {
        let line = |octets: usize| "x".repeat(octets);
        for (text, is_long) in [
            (line(998), false),
            (line(998) + "\r\n", false),
            (line(999), true),
            (line(999) + "\r\n", true),
            (format!("a\r\n{}\r\n{}\r\n", line(998), line(998)), false),
            (format!("a\r\n{}\r\n{}\r\n", line(998), line(999)), true),
            (format!("{}\n{}\r\n", line(998), line(998)), false),
            (format!("{}\r{}\r\n", line(998), line(998)), false),
            (format!("{}\n{}\r\n", line(999), line(1)), true),
            (format!("{}\n{}\n", line(998), line(999)), true),
            (format!("{}\r", line(999)), true),
            (format!("{}\r\n\r\n{}", line(998), line(998)), false),
            (format!("{}\r\n", line(400)).repeat(50), false),
        ] {
            assert_eq!(has_long_line(text.as_bytes()), is_long, "{} octets", text.len());
        }
    }
}
