//! Reading a header value as text: unfolding and RFC 2047 encoded-words.
//!
//! In: the raw value bytes. Out: a `String`. Cannot fail: an encoded-word that cannot be decoded
//! (unknown charset, bad base64, bytes that are not its charset) stays as it was written, and bytes
//! that are not UTF-8 are replaced, so that policy always gets something to look at.
//! Charsets: UTF-8, US-ASCII, ISO-8859-1, windows-1252 (RFC 2231 language tags are skipped).
//! Deliberately does not know structured headers; the address parser uses it for phrases.

use base64::Engine;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Unfolds, trims and decodes the value of an unstructured header field.
pub fn decode_unstructured(value: &[u8]) -> String {
    let text = unfold(value);
    let text = text.trim_ascii();
    if memchr::memmem::find(text, b"=?").is_none() {
        return lossy(text);
    }
    decode_words(text)
}

/// Removes the line ends of folds; the white space after them stays.
fn unfold(value: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    if memchr::memchr(b'\n', value).is_none() {
        return value.into();
    }
    let mut out = Vec::with_capacity(value.len());
    for line in value.split(|&b| b == b'\n') {
        // the CR before the LF belongs to the fold; a bare CR elsewhere is content
        out.extend_from_slice(line.strip_suffix(b"\r").unwrap_or(line));
    }
    out.into()
}

fn decode_words(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut open = OpenWord::default();
    let mut plain_from = 0;
    let mut at = 0;
    while let Some(found) = memchr::memmem::find(&text[at..], b"=?") {
        let start = at + found;
        let Some(word) = EncodedWord::read(&text[start..]) else {
            at = start + 2;
            continue;
        };
        let between = &text[plain_from..start];
        // white space between two encoded-words is not content (RFC 2047 section 6.2)
        if !(open.is_open() && between.trim_ascii().is_empty()) {
            open.close(&mut out);
            out.push_str(&lossy(between));
        }
        open.add(&word, &text[start..start + word.len], &mut out);
        at = start + word.len;
        plain_from = at;
    }
    open.close(&mut out);
    out.push_str(&lossy(&text[plain_from..]));
    out
}

/// One `=?charset?encoding?text?=`, transfer decoding done.
struct EncodedWord {
    charset: Charset,
    bytes: Vec<u8>,
    len: usize,
}

impl EncodedWord {
    /// Reads the encoded-word `text` begins with; `None` when it is not one that can be decoded.
    fn read(text: &[u8]) -> Option<EncodedWord> {
        let inner = text.strip_prefix(b"=?")?;
        let charset_len = memchr::memchr(b'?', &inner[..inner.len().min(CHARSET_BYTES_MAX)])?;
        let charset = Charset::from_name(&inner[..charset_len])?;
        let (encoding, payload) = match &inner[charset_len + 1..] {
            [encoding, b'?', payload @ ..] => (encoding.to_ascii_uppercase(), payload),
            _ => return None,
        };
        let payload_len = memchr::memmem::find(payload, b"?=")?;
        let payload = &payload[..payload_len];
        let bytes = match encoding {
            b'Q' => decode_q(payload)?,
            b'B' => BASE64.decode(payload).ok()?,
            _ => return None,
        };
        Some(EncodedWord { charset, bytes, len: 2 + charset_len + 3 + payload_len + 2 })
    }
}

/// Neighbouring words of one charset, gathered before decoding: many senders split characters.
#[derive(Default)]
struct OpenWord {
    charset: Option<Charset>,
    bytes: Vec<u8>,
    written: Vec<u8>,
}

impl OpenWord {
    fn is_open(&self) -> bool {
        self.charset.is_some()
    }

    fn add(&mut self, word: &EncodedWord, written: &[u8], out: &mut String) {
        if self.charset != Some(word.charset) {
            self.close(out);
            self.charset = Some(word.charset);
        }
        self.bytes.extend_from_slice(&word.bytes);
        if !self.written.is_empty() {
            self.written.push(b' ');
        }
        self.written.extend_from_slice(written);
    }

    fn close(&mut self, out: &mut String) {
        if let Some(charset) = self.charset.take() {
            match charset.decode(&self.bytes) {
                Some(text) => out.push_str(&text),
                None => out.push_str(&lossy(&self.written)),
            }
            self.bytes.clear();
            self.written.clear();
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Charset {
    Utf8,
    Ascii,
    Latin1,
    Windows1252,
}

impl Charset {
    fn from_name(name: &[u8]) -> Option<Charset> {
        let name = name.split(|&b| b == b'*').next()?;
        let is = |names: &[&str]| names.iter().any(|n| name.eq_ignore_ascii_case(n.as_bytes()));
        match () {
            () if is(&["utf-8", "utf8"]) => Some(Charset::Utf8),
            () if is(&["us-ascii", "ascii"]) => Some(Charset::Ascii),
            () if is(&["iso-8859-1", "iso_8859-1", "latin1"]) => Some(Charset::Latin1),
            () if is(&["windows-1252", "cp1252"]) => Some(Charset::Windows1252),
            () => None,
        }
    }

    fn decode(self, bytes: &[u8]) -> Option<String> {
        match self {
            Charset::Utf8 => String::from_utf8(bytes.to_vec()).ok(),
            Charset::Ascii => bytes.is_ascii().then(|| lossy(bytes)),
            Charset::Latin1 => Some(bytes.iter().map(|&b| char::from(b)).collect()),
            Charset::Windows1252 => Some(bytes.iter().map(|&b| windows_1252(b)).collect()),
        }
    }
}

fn windows_1252(byte: u8) -> char {
    match byte {
        0x80..=0x9f => WINDOWS_1252_HIGH[usize::from(byte - 0x80)],
        _ => char::from(byte),
    }
}

fn decode_q(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        out.push(match byte {
            b'_' => b' ',
            b'=' => hex(*bytes.next()?)? << 4 | hex(*bytes.next()?)?,
            other => other,
        });
    }
    Some(out)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|d| u8::try_from(d).ok())
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Padding is often missing or wrong in mail.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Longest charset name looked at, in bytes (the longest registered one has 45).
const CHARSET_BYTES_MAX: usize = 64;

/// Bytes 0x80 to 0x9f of windows-1252; the five unassigned ones map to the C1 controls, as browsers do.
const WINDOWS_1252_HIGH: [char; 32] = [
    '\u{20ac}', '\u{81}', '\u{201a}', '\u{192}', '\u{201e}', '\u{2026}', '\u{2020}', '\u{2021}', '\u{2c6}', '\u{2030}',
    '\u{160}', '\u{2039}', '\u{152}', '\u{8d}', '\u{17d}', '\u{8f}', '\u{90}', '\u{2018}', '\u{2019}', '\u{201c}',
    '\u{201d}', '\u{2022}', '\u{2013}', '\u{2014}', '\u{2dc}', '\u{2122}', '\u{161}', '\u{203a}', '\u{153}', '\u{9d}',
    '\u{17e}', '\u{178}',
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        let cases: &[(&[u8], &str)] = &[
            (b"  plain text ", "plain text"),
            (b"folded\r\n text\r\n\tmore", "folded text\tmore"),
            (b"lf\n folded", "lf folded"),
            (b"=?UTF-8?Q?gr=C3=BCn_und=5f?= ok", "gr\u{fc}n und_ ok"),
            (b"a =?utf-8?b?w7xiZXI=?= b", "a \u{fc}ber b"),
            (b"=?utf-8?b?w7xiZXI?=", "\u{fc}ber"),
            (b"=?iso-8859-1?q?=E9t=e9?=", "\u{e9}t\u{e9}"),
            (b"=?windows-1252?q?=80=85?=", "\u{20ac}\u{2026}"),
            (b"=?us-ascii*en?q?hi?=", "hi"),
            // white space between encoded-words goes, between word and text it stays
            (b"=?utf-8?q?a?=  =?utf-8?q?b?=\r\n =?iso-8859-1?q?c?= d", "abc d"),
            // a character split over two words
            (b"=?utf-8?q?=C3?= =?utf-8?q?=BC?=", "\u{fc}"),
            // undecodable: as written
            (b"=?koi8-r?q?x?=", "=?koi8-r?q?x?="),
            (b"=?utf-8?q?=C3?=", "=?utf-8?q?=C3?="),
            (b"=?utf-8?q?=GG?= =?utf-8?x?a?= =?", "=?utf-8?q?=GG?= =?utf-8?x?a?= =?"),
            (b"=?us-ascii?q?=FF?=", "=?us-ascii?q?=FF?="),
            (b"raw \xff byte", "raw \u{fffd} byte"),
            ("raw \u{fc}".as_bytes(), "raw \u{fc}"),
            (b"", ""),
        ];
        for (raw, expect) in cases {
            assert_eq!(decode_unstructured(raw), *expect, "{}", lossy(raw));
        }
    }
}
