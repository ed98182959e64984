//! The parts of a multipart message (RFC 2046), as far as reports need them.
//!
//! In: raw bytes of a message. Out: its media type and its parts, one level deep, each with its media type and its
//! content decoded. Bounded by [`PARTS_MAX`]; a message that is no multipart has no parts. Nothing here can fail: what
//! does not decode is taken as it stands.

use crate::HeaderBlock;
use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use std::borrow::Cow;

/// `Content-Type` of a message or part: `text/plain` without a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MediaType {
    /// Lower case.
    pub name: String,
    /// Names in lower case.
    pub parameters: Vec<(String, String)>,
}

/// One part.
#[derive(Debug)]
pub(crate) struct Part<'a> {
    pub media_type: MediaType,
    pub content: Cow<'a, [u8]>,
}

impl MediaType {
    /// Of a message or part.
    pub fn of(raw: &[u8]) -> MediaType {
        let block = HeaderBlock::parse(raw);
        block.view(raw).first_value("Content-Type").map_or_else(MediaType::default, |value| MediaType::parse(&value))
    }

    /// Of the value of a field.
    pub fn parse(value: &str) -> MediaType {
        let mut pieces = split_unquoted(value, ';').into_iter();
        let name = pieces.next().unwrap_or_default().trim().to_ascii_lowercase();
        let parameters = pieces.filter_map(|piece| {
            let (name, value) = piece.split_once('=')?;
            Some((name.trim().to_ascii_lowercase(), unquoted(value.trim())))
        });
        MediaType { name, parameters: parameters.collect() }
    }

    /// A parameter; its name in lower case.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// The parts of a message, in order; none when it is no multipart. At most [`PARTS_MAX`]; what comes behind is left out.
pub(crate) fn parts<'a>(raw: &'a [u8], media_type: &MediaType) -> Vec<Part<'a>> {
    let Some(boundary) = media_type.parameter("boundary").filter(|b| !b.is_empty() && b.len() <= BOUNDARY_OCTETS_MAX)
    else {
        return Vec::new();
    };
    let body = &raw[HeaderBlock::parse(raw).body_start().min(raw.len())..];
    let mut parts = Vec::new();
    let mut begun: Option<usize> = None;
    let mut at = 0;
    while at < body.len() && parts.len() < PARTS_MAX {
        let end = memchr::memchr(b'\n', &body[at..]).map_or(body.len(), |found| at + found + 1);
        if let Some(is_last) = delimiter(&body[at..end], boundary) {
            if let Some(begun) = begun.take() {
                parts.push(part(without_line_end(&body[begun..at])));
            }
            if is_last {
                return parts;
            }
            begun = Some(end);
        }
        at = end;
    }
    // A report cut off at its end is still a report.
    if let Some(begun) = begun.filter(|_| parts.len() < PARTS_MAX) {
        parts.push(part(&body[begun..]));
    }
    parts
}

/// Whether the line is a delimiter, and if so the closing one.
fn delimiter(line: &[u8], boundary: &str) -> Option<bool> {
    let rest = line.strip_prefix(b"--")?.strip_prefix(boundary.as_bytes())?;
    match rest.trim_ascii() {
        b"" => Some(false),
        b"--" => Some(true),
        _ => None,
    }
}

fn part(raw: &[u8]) -> Part<'_> {
    let block = HeaderBlock::parse(raw);
    let content = &raw[block.body_start().min(raw.len())..];
    let encoding = block.view(raw).first_value("Content-Transfer-Encoding").unwrap_or_default();
    let content = match encoding.trim().to_ascii_lowercase().as_str() {
        "base64" => {
            let packed: Vec<u8> = content.iter().copied().filter(|o| !o.is_ascii_whitespace()).collect();
            BASE64.decode(packed).map_or(Cow::Borrowed(content), Cow::Owned)
        }
        "quoted-printable" => Cow::Owned(quoted_printable(content)),
        _ => Cow::Borrowed(content),
    };
    Part { media_type: MediaType::of(raw), content }
}

fn quoted_printable(content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len());
    let mut rest = content;
    while let Some(at) = memchr::memchr(b'=', rest) {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        let octet = rest.get(..2).and_then(|digits| core::str::from_utf8(digits).ok());
        match octet.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(octet) => {
                out.push(octet);
                rest = &rest[2..];
            }
            None => match rest.strip_prefix(b"\r\n").or_else(|| rest.strip_prefix(b"\n")) {
                Some(next) => rest = next,
                None => out.push(b'='),
            },
        }
    }
    out.extend_from_slice(rest);
    out
}

fn without_line_end(content: &[u8]) -> &[u8] {
    let content = content.strip_suffix(b"\n").unwrap_or(content);
    content.strip_suffix(b"\r").unwrap_or(content)
}

/// Splits where the separator does not stand in quotes.
fn split_unquoted(text: &str, separator: char) -> Vec<&str> {
    let (mut pieces, mut begun, mut quoted, mut escaped) = (Vec::new(), 0, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            c if c == separator && !quoted => {
                pieces.push(&text[begun..at]);
                begun = at + c.len_utf8();
            }
            _ => {}
        }
    }
    pieces.push(&text[begun..]);
    pieces
}

fn unquoted(value: &str) -> String {
    match value.strip_prefix('"') {
        None => value.split([' ', '\t', '(']).next().unwrap_or_default().to_owned(),
        Some(rest) => {
            let (mut out, mut escaped) = (String::new(), false);
            for c in rest.chars() {
                match c {
                    c if escaped => {
                        out.push(c);
                        escaped = false;
                    }
                    '\\' => escaped = true,
                    '"' => break,
                    c => out.push(c),
                }
            }
            out
        }
    }
}

/// Tolerant of padding: what matters is what can be read.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);
/// Parts of a message that are looked at; a report has three.
pub const PARTS_MAX: usize = 16;
/// Longest boundary (octets); RFC 2046 section 5.1.1 allows 70.
const BOUNDARY_OCTETS_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_and_decoded() {
        let raw = b"Content-Type: Multipart/Report; boundary=\"a;\\\"b\"; Report-Type=x (y)\r\n\r\npreamble\r\n--a;\"b\r\n\r\none\r\n\
            --a;\"b  \r\nContent-Type: TEXT/x\nContent-Transfer-Encoding: BASE64\n\naGVs\r\nbG8\r\n--a;\"b\r\n\
            Content-Transfer-Encoding: quoted-printable\r\n\r\nw=C3=BC=\r\n= =ZZ\r\n--a;\"bc\r\n--a;\"b--\r\n--a;\"b\r\n\r\nnever\r\n";
        let media_type = MediaType::of(raw);
        assert_eq!((media_type.name.as_str(), media_type.parameter("report-type")), ("multipart/report", Some("x")));
        let parts = parts(raw, &media_type);
        let shown: Vec<_> =
            parts.iter().map(|p| (p.media_type.name.as_str(), String::from_utf8_lossy(&p.content))).collect();
        assert_eq!(shown, [("", "one".into()), ("text/x", "hello".into()), ("", "w\u{fc}= =ZZ\r\n--a;\"bc".into())]);
    }

    #[test]
    fn parts_are_bounded() {
        for count in [PARTS_MAX, PARTS_MAX + 1] {
            let raw =
                "Content-Type: multipart/mixed; boundary=b\r\n\r\n".to_owned() + &"--b\r\n\r\nx\r\n".repeat(count);
            assert_eq!(parts(raw.as_bytes(), &MediaType::of(raw.as_bytes())).len(), PARTS_MAX);
        }
    }
}
