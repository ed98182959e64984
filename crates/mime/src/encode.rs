//! New header fields: from a name and a value to bytes that are safe to send.
//!
//! In: name, value, and how to write it ([`ValueForm`]). Out: one field, `Name: value` and CRLF.
//! Can fail: a name that is not one, a value that would break out of its field (bare CR or LF, NUL,
//! a blank continuation line: header injection), or a field past [`FIELD_BYTES_MAX`].
//!
//! `Raw` is KumoMTA's default: the value as given, folds included. `Encode` is its `encode = true`:
//! ASCII text is wrapped (75 soft, 900 hard), other text becomes RFC 2047 Q encoded-words.
//! Deliberately does not know structured headers: an address header is to be given raw.

use crate::index::{is_name_byte, is_wsp, name_of};

/// How a new value is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ValueForm {
    /// As given. Folding must already be there where it is wanted.
    #[default]
    Raw,
    /// Unstructured text: wrapped when ASCII, RFC 2047 encoded-words otherwise.
    Encode,
}

/// Why a new header field was refused. `name` is the field's name, `offset` counts bytes of the value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    #[error("header name is empty, expected at least one character")]
    EmptyName,
    #[error("header name {name:?} holds {found:?}, expected printable ASCII without colon and space")]
    BadName { name: String, found: char },
    #[error("header name has {len} bytes, expected at most {max}")]
    NameTooLong { len: usize, max: usize },
    #[error("header {name}: value holds a NUL at byte {offset}")]
    Nul { name: String, offset: usize },
    #[error("header {name}: value holds a line break at byte {offset} that is not followed by a space or tab")]
    BareLineBreak { name: String, offset: usize },
    #[error("header {name}: value holds a blank continuation line at byte {offset}")]
    BlankContinuation { name: String, offset: usize },
    #[error("header {name}: field has {len} bytes, expected at most {max}")]
    FieldTooLong { name: String, len: usize, max: usize },
    #[error("expected one complete header field, \"Name: value\" ended by CRLF")]
    NotOneField,
    #[error("message already has {max} added headers")]
    TooManyNewFields { max: usize },
}

/// Makes one complete field, with its final CRLF. A bare LF used to fold is written as CRLF.
///
/// # Errors
/// See [`HeaderError`].
pub fn encode_field(name: &str, value: &[u8], form: ValueForm) -> Result<Vec<u8>, HeaderError> {
    check_name(name)?;
    check_value(name, value)?;
    let mut out = Vec::with_capacity(name.len() + value.len() + 8);
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    match form {
        ValueForm::Raw => push_with_crlf(value, &mut out),
        ValueForm::Encode if value.is_ascii() => wrap_ascii(value, &mut out),
        ValueForm::Encode => push_encoded_words(&String::from_utf8_lossy(value), &mut out),
    }
    out.extend_from_slice(b"\r\n");
    check_len(name, out.len())?;
    Ok(out)
}

/// The text as RFC 2047 encoded-words, each but the first on a line of its own; safe in a phrase (a display name).
/// Line ends in the text and blanks around it are left out.
pub fn encode_words(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() * 2 + 16);
    push_encoded_words(text, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

/// Checks that `field` is exactly one field that ends with CRLF and is safe to send.
pub(crate) fn check_field(field: &[u8]) -> Result<(), HeaderError> {
    let (name_len, colon) = name_of(field).ok_or(HeaderError::NotOneField)?;
    let value = field[colon + 1..].strip_suffix(b"\r\n").ok_or(HeaderError::NotOneField)?;
    let name = String::from_utf8_lossy(&field[..name_len]).into_owned();
    check_name(&name)?;
    check_value(&name, value)?;
    check_len(&name, field.len())
}

fn check_name(name: &str) -> Result<(), HeaderError> {
    if name.is_empty() {
        return Err(HeaderError::EmptyName);
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(HeaderError::NameTooLong { len: name.len(), max: NAME_BYTES_MAX });
    }
    if name.bytes().all(is_name_byte) {
        return Ok(());
    }
    match name.chars().find(|&c| !u8::try_from(c).is_ok_and(is_name_byte)) {
        None => Ok(()),
        Some(found) => Err(HeaderError::BadName { name: name.to_owned(), found }),
    }
}

/// Refuses every value that would not stay inside its field.
fn check_value(name: &str, value: &[u8]) -> Result<(), HeaderError> {
    let name = || name.to_owned();
    let mut rest = 0;
    while let Some(found) = memchr::memchr3(b'\r', b'\n', 0, &value[rest..]) {
        let offset = rest + found;
        let after = match &value[offset..] {
            [0, ..] => {
                return Err(HeaderError::Nul { name: name(), offset });
            }
            [b'\r', b'\n', ..] => offset + 2,
            [b'\n', ..] => offset + 1,
            _ => {
                return Err(HeaderError::BareLineBreak { name: name(), offset });
            }
        };
        if !value.get(after).copied().is_some_and(is_wsp) {
            return Err(HeaderError::BareLineBreak { name: name(), offset });
        }
        let text = value[after..].iter().position(|&b| !is_wsp(b));
        rest = match text.map(|at| after + at) {
            Some(at) if !matches!(value[at], b'\r' | b'\n') => at,
            // a line of white space only: some programs take it for the end of the header
            _ => {
                return Err(HeaderError::BlankContinuation { name: name(), offset });
            }
        };
    }
    Ok(())
}

fn check_len(name: &str, len: usize) -> Result<(), HeaderError> {
    if len > FIELD_BYTES_MAX {
        return Err(HeaderError::FieldTooLong { name: name.to_owned(), len, max: FIELD_BYTES_MAX });
    }
    Ok(())
}

fn push_with_crlf(value: &[u8], out: &mut Vec<u8>) {
    let mut rest = value;
    while let Some(lf) = memchr::memchr(b'\n', rest) {
        let line = &rest[..lf];
        out.extend_from_slice(line.strip_suffix(b"\r").unwrap_or(line));
        out.extend_from_slice(b"\r\n");
        rest = &rest[lf + 1..];
    }
    out.extend_from_slice(rest.strip_suffix(b"\r").unwrap_or(rest));
}

/// Folds at white space so that lines stay within [`WRAP_SOFT`]; a longer word is cut at
/// [`WRAP_HARD`], since a line past 998 is refused on the way.
fn wrap_ascii(value: &[u8], out: &mut Vec<u8>) {
    let text: Vec<u8> = value.iter().copied().filter(|b| !matches!(b, b'\r' | b'\n')).collect();
    let mut rest = text.trim_ascii();
    let mut column = out.len();
    let mut first = true;
    while !rest.is_empty() {
        let blanks = rest.iter().take_while(|&&b| is_wsp(b)).count();
        let word = rest[blanks..].iter().take_while(|&&b| !is_wsp(b)).count();
        let (chunk, after) = rest.split_at(blanks + word);
        if !first && column + chunk.len() > WRAP_SOFT {
            out.extend_from_slice(b"\r\n");
            column = 0;
        }
        let mut chunk = chunk;
        while column + chunk.len() > WRAP_HARD {
            let (line, over) = chunk.split_at(WRAP_HARD.saturating_sub(column).max(1));
            out.extend_from_slice(line);
            out.extend_from_slice(b"\r\n ");
            column = 1;
            chunk = over;
        }
        out.extend_from_slice(chunk);
        column += chunk.len();
        rest = after;
        first = false;
    }
}

/// RFC 2047 Q encoded-words, none longer than 75 and none splitting a character.
fn push_encoded_words(text: &str, out: &mut Vec<u8>) {
    let text: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let mut room = ENCODED_WORD_MAX.saturating_sub(out.len()).max(FIRST_WORD_MIN);
    out.extend_from_slice(WORD_OPEN);
    room -= WORD_OPEN.len() + WORD_CLOSE.len();
    for character in text.trim().chars() {
        let mut utf8 = [0; 4];
        let bytes = character.encode_utf8(&mut utf8).as_bytes();
        let len: usize = bytes.iter().map(|&b| q_len(b)).sum();
        if len > room {
            out.extend_from_slice(WORD_CLOSE);
            out.extend_from_slice(b"\r\n ");
            out.extend_from_slice(WORD_OPEN);
            room = ENCODED_WORD_MAX - WORD_OPEN.len() - WORD_CLOSE.len();
        }
        room -= len;
        bytes.iter().for_each(|&b| push_q(b, out));
    }
    out.extend_from_slice(WORD_CLOSE);
}

fn q_len(byte: u8) -> usize {
    if byte == b' ' || is_q_literal(byte) { 1 } else { 3 }
}

fn push_q(byte: u8, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    match byte {
        b' ' => out.push(b'_'),
        _ if is_q_literal(byte) => out.push(byte),
        _ => out.extend_from_slice(&[b'=', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]),
    }
}

/// Bytes safe in every place an encoded-word may stand (RFC 2047 section 5 rule 3).
fn is_q_literal(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'!' | b'*' | b'+' | b'-' | b'/')
}

/// Longest header name accepted, in bytes: name, colon and space still leave room on a 998 byte line.
pub const NAME_BYTES_MAX: usize = 900;

/// Longest new field, in bytes with its CRLF.
pub const FIELD_BYTES_MAX: usize = 1 << 20;

/// Column at which ASCII text is folded when it has white space there.
const WRAP_SOFT: usize = 75;

/// Column at which ASCII text is cut in any case.
const WRAP_HARD: usize = 900;

/// RFC 2047 section 2: an encoded-word is at most 75 characters long.
const ENCODED_WORD_MAX: usize = 75;

/// Least room for the first encoded-word, however long the name before it.
const FIRST_WORD_MIN: usize = 30;

const WORD_OPEN: &[u8] = b"=?UTF-8?Q?";
const WORD_CLOSE: &[u8] = b"?=";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::decode_unstructured;

    fn encoded(value: &str) -> String {
        let field = encode_field("Subject", value.as_bytes(), ValueForm::Encode).expect("valid");
        String::from_utf8(field).expect("ASCII")
    }

    fn refused(value: &[u8]) -> HeaderError {
        encode_field("X", value, ValueForm::Raw).expect_err("must be refused")
    }

    #[test]
    fn raw_values_stay_as_they_are() {
        let field = |v: &[u8]| encode_field("X", v, ValueForm::Raw).expect("valid");
        assert_eq!(field(b"a\r\n\tb"), b"X: a\r\n\tb\r\n");
        assert_eq!(field(b"a\n b"), b"X: a\r\n b\r\n");
        assert_eq!(field(b""), b"X: \r\n");
        assert_eq!(field("gr\u{fc}n".as_bytes()), "X: gr\u{fc}n\r\n".as_bytes());
    }

    #[test]
    fn injection_is_refused() {
        let name = || "X".to_owned();
        assert_eq!(refused(b"a\0"), HeaderError::Nul { name: name(), offset: 1 });
        for value in [b"a\rb".as_slice(), b"a\r b", b"a\nb", b"a\r\nBcc: x", b"a\n", b"a\r\n", b"a\r"] {
            assert_eq!(refused(value), HeaderError::BareLineBreak { name: name(), offset: 1 });
        }
        for value in [b"a\r\n \r\n\tb".as_slice(), b"a\r\n ", b"a\n\t\n b"] {
            assert_eq!(refused(value), HeaderError::BlankContinuation { name: name(), offset: 1 });
        }
        assert_eq!(refused(b"a\r\n b\r\nC: d"), HeaderError::BareLineBreak { name: name(), offset: 5 });
    }

    #[test]
    fn names_are_checked() {
        let refused = |n: &str| encode_field(n, b"v", ValueForm::Raw).expect_err("must be refused");
        assert_eq!(refused(""), HeaderError::EmptyName);
        assert!(matches!(refused("a b"), HeaderError::BadName { found: ' ', .. }));
        assert!(matches!(refused("a:"), HeaderError::BadName { found: ':', .. }));
        assert!(matches!(refused("\u{fc}"), HeaderError::BadName { found: '\u{fc}', .. }));
        assert!(encode_field(&"n".repeat(NAME_BYTES_MAX), b"v", ValueForm::Raw).is_ok());
        assert!(matches!(refused(&"n".repeat(NAME_BYTES_MAX + 1)), HeaderError::NameTooLong { .. }));
    }

    #[test]
    fn field_length_at_the_bound_and_past_it() {
        let most = FIELD_BYTES_MAX - "X: \r\n".len();
        assert!(encode_field("X", &vec![b'a'; most], ValueForm::Raw).is_ok());
        assert!(matches!(refused(&vec![b'a'; most + 1]), HeaderError::FieldTooLong { .. }));
    }

    #[test]
    fn ascii_is_wrapped_and_unfolds_to_itself() {
        let text = "word ".repeat(60) + "end";
        let field = encoded(&text);
        assert!(field.lines().all(|l| l.len() <= WRAP_SOFT), "{field}");
        assert_eq!(decode_unstructured(&field.as_bytes()["Subject: ".len()..]), text);
        let long = encoded(&"x".repeat(3000));
        assert!(long.lines().all(|l| l.len() <= WRAP_HARD + 1));
        assert_eq!(long.matches('x').count(), 3000);
    }

    #[test]
    fn other_text_becomes_encoded_words() {
        assert_eq!(encoded("gr\u{fc}n = 1"), "Subject: =?UTF-8?Q?gr=C3=BCn_=3D_1?=\r\n");
        let text = "\u{20ac} und \u{fc}ber \u{1f600} ".repeat(30);
        let field = encoded(&text);
        assert!(field.lines().all(|l| l.len() <= 76), "{field}");
        assert_eq!(decode_unstructured(&field.as_bytes()["Subject: ".len()..]), text.trim());
    }
}
