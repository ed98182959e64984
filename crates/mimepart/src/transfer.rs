//! Content transfer encodings (RFC 2045 section 6): base64, quoted-printable, and when neither is needed.
//!
//! Decoding never fails: what is no encoding passes as it stands, because mail is odd. Encoded lines have at most
//! [`ENCODED_LINE_MAX`] octets and end with CRLF. Deliberately without uuencode and yEnc: they stay as they are.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use std::borrow::Cow;

/// How octets are written in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransferEncoding {
    /// 7bit, 8bit, binary, or a name nobody knows: as it stands.
    Identity,
    QuotedPrintable,
    Base64,
}

impl TransferEncoding {
    /// Of the value of a Content-Transfer-Encoding field.
    pub(crate) fn of(value: &str) -> TransferEncoding {
        match value.trim().to_ascii_lowercase().as_str() {
            "base64" => TransferEncoding::Base64,
            "quoted-printable" => TransferEncoding::QuotedPrintable,
            _ => TransferEncoding::Identity,
        }
    }

    /// The value of the field; none is needed for what is 7bit.
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            TransferEncoding::Identity => None,
            TransferEncoding::QuotedPrintable => Some("quoted-printable"),
            TransferEncoding::Base64 => Some("base64"),
        }
    }

    pub(crate) fn decode(self, written: &[u8]) -> Cow<'_, [u8]> {
        match self {
            TransferEncoding::Identity => Cow::Borrowed(written),
            TransferEncoding::QuotedPrintable => Cow::Owned(decode_quoted_printable(written)),
            TransferEncoding::Base64 => Cow::Owned(decode_base64(written)),
        }
    }
}

/// Text as it is to be sent: every line ended by CRLF (bare CR and LF are line ends), 7bit when that is possible, else
/// whichever encoding is shorter.
pub(crate) fn encode_text(text: &[u8]) -> (TransferEncoding, Vec<u8>) {
    let lines = canonical_lines(text);
    if is_clean(&lines) {
        return (TransferEncoding::Identity, lines.into_owned());
    }
    let escaped = lines.iter().filter(|&&b| !is_literal(b) && !matches!(b, b'\r' | b'\n' | b' ' | b'\t')).count();
    if escaped > lines.len() / QUOTED_SHARE_MAX {
        return (TransferEncoding::Base64, encode_base64(&lines));
    }
    (TransferEncoding::QuotedPrintable, encode_quoted_printable(&lines))
}

/// True for octets every server takes: ASCII without NUL, CRLF line ends only, lines within [`LINE_OCTETS_MAX`].
pub(crate) fn is_clean(octets: &[u8]) -> bool {
    octets.is_ascii() && memchr::memchr(0, octets).is_none() && has_short_canonical_lines(octets)
}

/// True when CR and LF stand in pairs only, and no line is too long. Where each LF has its CR and there are no more of these, each
/// CR has its LF: to count them takes less than to look at each.
fn has_short_canonical_lines(octets: &[u8]) -> bool {
    let (mut start, mut lines) = (0, 0);
    for at in memchr::memchr_iter(b'\n', octets) {
        if at == 0 || octets[at - 1] != b'\r' || at - 1 - start > LINE_OCTETS_MAX {
            return false;
        }
        start = at + 1;
        lines += 1;
    }
    octets.len() - start <= LINE_OCTETS_MAX && memchr::memchr_iter(b'\r', octets).count() == lines
}

/// True when CR and LF stand in pairs only.
pub(crate) fn has_canonical_line_ends(octets: &[u8]) -> bool {
    memchr::memchr2_iter(b'\r', b'\n', octets).all(|at| match octets[at] {
        b'\r' => octets.get(at + 1) == Some(&b'\n'),
        _ => at > 0 && octets[at - 1] == b'\r',
    })
}

/// Octets of the longest line, without its line end.
pub(crate) fn longest_line(octets: &[u8]) -> usize {
    octets.split(|&b| b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line).len()).max().unwrap_or(0)
}

/// Every CR, LF or CRLF as CRLF, and one at the end of text that has none.
pub(crate) fn canonical_lines(text: &[u8]) -> Cow<'_, [u8]> {
    if (text.is_empty() || text.ends_with(b"\r\n")) && has_canonical_line_ends(text) {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len() + text.len() / 32 + 2);
    let mut rest = text;
    while let Some(at) = memchr::memchr2(b'\r', b'\n', rest) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(b"\r\n");
        rest = rest[at..].strip_prefix(b"\r\n").unwrap_or(&rest[at + 1..]);
    }
    if !rest.is_empty() {
        out.extend_from_slice(rest);
        out.extend_from_slice(b"\r\n");
    }
    Cow::Owned(out)
}

/// Base64 in lines.
pub(crate) fn encode_base64(octets: &[u8]) -> Vec<u8> {
    let packed = BASE64.encode(octets).into_bytes();
    let mut out = Vec::with_capacity(packed.len() + packed.len() / 38 + 2);
    for line in packed.chunks(ENCODED_LINE_MAX) {
        out.extend_from_slice(line);
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// Octets outside the alphabet are skipped (RFC 2045 section 6.8), padding in the middle begins anew.
fn decode_base64(written: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(written.len() / 4 * 3);
    for run in written.split(|&b| b == b'=') {
        let mut packed: Vec<u8> =
            run.iter().copied().filter(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/')).collect();
        if packed.len() % 4 == 1 {
            packed.pop();
        }
        out.extend(BASE64.decode(&packed).unwrap_or_default());
    }
    out
}

/// `text` has CRLF line ends only.
fn encode_quoted_printable(text: &[u8]) -> Vec<u8> {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut out = Vec::with_capacity(text.len() + text.len() / 8);
    let (mut column, mut at) = (0, 0);
    while at < text.len() {
        if text[at..].starts_with(b"\r\n") {
            out.extend_from_slice(b"\r\n");
            (column, at) = (0, at + 2);
            continue;
        }
        let byte = text[at];
        let ends_line = at + 1 == text.len() || text[at + 1..].starts_with(b"\r\n");
        let is_plain = is_literal(byte) || (matches!(byte, b' ' | b'\t') && !ends_line);
        let width = if is_plain { 1 } else { 3 };
        if column + width > ENCODED_LINE_MAX - 1 {
            out.extend_from_slice(b"=\r\n");
            column = 0;
        }
        if is_plain {
            out.push(byte);
        } else {
            out.extend_from_slice(&[b'=', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
        column += width;
        at += 1;
    }
    out
}

fn decode_quoted_printable(written: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(written.len());
    for line in written.split_inclusive(|&b| b == b'\n') {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let end = &line[text.len()..];
        // blanks at the end of a line were put there on the way (RFC 2045 section 6.7 rule 3)
        let mut rest = if end.is_empty() { text } else { without_blanks_at_end(text) };
        let is_soft = rest.last() == Some(&b'=');
        rest = rest.strip_suffix(b"=").unwrap_or(rest);
        while let Some(at) = memchr::memchr(b'=', rest) {
            out.extend_from_slice(&rest[..at]);
            rest = &rest[at + 1..];
            match rest.get(..2).and_then(hex_octet) {
                Some(octet) => {
                    out.push(octet);
                    rest = &rest[2..];
                }
                None => out.push(b'='),
            }
        }
        out.extend_from_slice(rest);
        if !is_soft {
            out.extend_from_slice(end);
        }
    }
    out
}

fn hex_octet(digits: &[u8]) -> Option<u8> {
    let digit = |d: u8| char::from(d).to_digit(16).and_then(|d| u8::try_from(d).ok());
    Some(digit(*digits.first()?)? << 4 | digit(*digits.get(1)?)?)
}

fn without_blanks_at_end(line: &[u8]) -> &[u8] {
    let end = line.iter().rposition(|b| !matches!(b, b' ' | b'\t')).map_or(0, |at| at + 1);
    &line[..end]
}

fn is_literal(byte: u8) -> bool {
    byte.is_ascii_graphic() && byte != b'='
}

/// Octets of a line without its CRLF (RFC 5322 section 2.1.1).
pub const LINE_OCTETS_MAX: usize = 998;

/// Octets of an encoded line without its CRLF (RFC 2045 section 6.7 rule 5, section 6.8).
pub const ENCODED_LINE_MAX: usize = 76;

/// One octet in so many escaped: beyond that base64 is shorter (2 more for each against a third more for all).
const QUOTED_SHARE_MAX: usize = 6;

/// Tolerant of padding: what matters is what can be read.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends() {
        let cases: [(&[u8], &[u8]); 6] = [
            (b"", b""),
            (b"a", b"a\r\n"),
            (b"a\nb\rc\r\nd\n", b"a\r\nb\r\nc\r\nd\r\n"),
            (b"a\r\r\n", b"a\r\n\r\n"),
            (b"\n\r", b"\r\n\r\n"),
            (b"a\r\n", b"a\r\n"),
        ];
        for (text, lines) in cases {
            assert_eq!(canonical_lines(text), lines);
        }
    }

    #[test]
    fn one_pass_finds_what_three_did() {
        let long = |octets: usize| [vec![b'a'; octets], b"\r\nb".to_vec()].concat();
        let last = |octets: usize| [b"b\r\n".to_vec(), vec![b'a'; octets]].concat();
        let texts: [&[u8]; 10] =
            [b"", b"\r\n", b"\n", b"\r", b"a\r\n\r\nb", b"a\r\r\n", b"a\n\r\n", b"a\0", b"\xff", b"a\r\nb\r"];
        let longs = [LINE_OCTETS_MAX, LINE_OCTETS_MAX + 1].into_iter().flat_map(|octets| [long(octets), last(octets)]);
        let all = texts.into_iter().map(<[u8]>::to_vec).chain(longs);
        let found: Vec<bool> = all
            .map(|text| {
                let slowly = text.iter().all(|&b| b.is_ascii() && b != 0)
                    && has_canonical_line_ends(&text)
                    && longest_line(&text) <= LINE_OCTETS_MAX;
                assert_eq!(is_clean(&text), slowly, "{}", text.escape_ascii());
                slowly
            })
            .collect();
        assert_eq!(found.iter().filter(|clean| **clean).count(), 5);
    }

    #[test]
    fn the_choice_of_an_encoding() {
        assert_eq!(encode_text(b"plain\n").0, TransferEncoding::Identity);
        assert_eq!(encode_text(&[b'a'; LINE_OCTETS_MAX]).0, TransferEncoding::Identity);
        assert_eq!(encode_text(&[b'a'; LINE_OCTETS_MAX + 1]).0, TransferEncoding::QuotedPrintable);
        assert_eq!(encode_text("gr\u{fc}n, und noch mehr davon".as_bytes()).0, TransferEncoding::QuotedPrintable);
        assert_eq!(encode_text("\u{65e5}\u{672c}\u{8a9e}".as_bytes()).0, TransferEncoding::Base64);
        assert_eq!(encode_text(b"nul \0 in it").0, TransferEncoding::QuotedPrintable);
    }

    #[test]
    fn quoted_printable() {
        let written = encode_quoted_printable("a = b \r\nt\t\r\n\u{fc} ".as_bytes());
        assert_eq!(written, b"a =3D b=20\r\nt=09\r\n=C3=BC=20");
        let cases: [(&[u8], &[u8]); 5] = [
            (b"w=C3=bc=\r\n= =ZZ", "w\u{fc}= =ZZ".as_bytes()),
            (b"soft=  \r\nline  \r\nend  ", b"softline\r\nend  "),
            (b"lf=\nx\n", b"lfx\n"),
            (b"=", b""),
            (b"=4", b"=4"),
        ];
        for (written, octets) in cases {
            assert_eq!(decode_quoted_printable(written), octets, "{}", String::from_utf8_lossy(written));
        }
    }

    #[test]
    fn base64() {
        assert_eq!(encode_base64(&[0; 58]).len(), 76 + 2 + 4 + 2);
        let cases: [(&[u8], &[u8]); 5] = [
            (b"aGVs\r\nbG8", b"hello"),
            (b"aGVsbG8=!\naGVsbG8=", b"hellohello"),
            (b"a", b""),
            (b"", b""),
            (b"aGk*", b"hi"),
        ];
        for (written, octets) in cases {
            assert_eq!(decode_base64(written), octets);
        }
    }
}
