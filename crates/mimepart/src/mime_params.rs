//! A value with parameters: Content-Type, Content-Disposition and their kin (RFC 2045 section 5.1, RFC 2231).
//!
//! Read tolerantly and without failing: unquoted values with blanks, encoded-words where RFC 2047 forbids them (file
//! names), continuations out of order. A parameter given twice: the first counts; `name*` wins over `name`.
//! Written with RFC 2231 when a value is not ASCII or does not fit a line. Writing refuses names that are no tokens.

use crate::charset;
use crate::scan::{Scanner, is_token, quote, unfolded};
use mime::decode_unstructured;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `{value, parameters}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MimeParams {
    /// As written, comments removed: `text/plain`, `attachment`, `base64`.
    pub value: String,
    /// By name in lower case, values decoded.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
}

impl MimeParams {
    /// A value without parameters.
    pub fn new(value: &str) -> MimeParams {
        MimeParams { value: value.to_owned(), parameters: BTreeMap::new() }
    }

    /// The same with one more parameter.
    pub fn with(mut self, name: &str, value: &str) -> MimeParams {
        self.parameters.insert(name.to_ascii_lowercase(), value.to_owned());
        self
    }

    /// Reads the raw value of a field.
    pub fn parse(raw: &[u8]) -> MimeParams {
        let text = unfolded(raw);
        let mut scanner = Scanner::new(&text);
        let mut value = String::new();
        loop {
            scanner.skip_blanks();
            let word = scanner.word(&[';']);
            if word.is_empty() {
                break;
            }
            value.push_str(if value.is_empty() { "" } else { " " });
            value.push_str(word);
        }
        let mut pieces = Vec::new();
        while scanner.eat(';') && pieces.len() < PARAMETERS_MAX {
            pieces.extend(piece(&mut scanner));
        }
        MimeParams { value, parameters: joined(&pieces) }
    }

    /// A parameter; its name in any case.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.get(&name.to_ascii_lowercase()).map(String::as_str)
    }

    /// True when the value is this, in any case.
    pub fn is(&self, value: &str) -> bool {
        self.value.eq_ignore_ascii_case(value)
    }

    /// True when the value is a media type under `kind`: `text` for `text/plain`.
    pub fn is_kind(&self, kind: &str) -> bool {
        self.value.split_once('/').is_some_and(|(mine, _)| mine.eq_ignore_ascii_case(kind))
    }

    /// True for a type and a subtype.
    pub(crate) fn is_media_type(&self) -> bool {
        self.value.split_once('/').is_some_and(|(kind, sub)| is_token(kind) && is_token(sub))
    }

    /// The value of a field, each parameter on a line of its own.
    pub(crate) fn write(&self) -> Result<String, String> {
        let mut out = self.value.clone();
        if !self.value.split('/').all(is_token) || self.value.len() > VALUE_OCTETS_MAX {
            return Err(format!("value {:?}", self.value));
        }
        for (name, value) in &self.parameters {
            let is_name = is_token(name) && !name.contains(['*', '\'', '%']) && name.len() <= NAME_OCTETS_MAX;
            if !is_name || name.bytes().any(|b| b.is_ascii_uppercase()) {
                return Err(format!("parameter {name:?}"));
            }
            push_parameter(name, value, &mut out);
        }
        Ok(out)
    }
}

/// One written parameter.
struct Piece {
    name: String,
    /// Place in a continuation.
    section: Option<usize>,
    is_extended: bool,
    value: String,
}

/// Reads a parameter, up to the semicolon behind it.
fn piece(scanner: &mut Scanner) -> Option<Piece> {
    scanner.skip_blanks();
    let written = scanner.word(&['=', ';']).to_ascii_lowercase();
    scanner.skip_blanks();
    if !scanner.eat('=') {
        scanner.until(|c| c == ';');
        return None;
    }
    scanner.skip_blanks();
    let value = match scanner.quoted() {
        Some(value) => {
            scanner.until(|c| c == ';');
            value
        }
        None => {
            let first = scanner.word(&[';']).to_owned();
            let rest = scanner.until(|c| c == ';');
            let is_comment = rest.trim().is_empty() || rest.trim().starts_with('(');
            if is_comment { first } else { format!("{first}{rest}").trim().to_owned() }
        }
    };
    let (name, is_extended) = written.strip_suffix('*').map_or((written.as_str(), false), |name| (name, true));
    let (name, section) = match name.split_once('*') {
        None => (name, None),
        Some((name, number)) => (name, Some(number.parse().ok()?)),
    };
    (!name.is_empty()).then(|| Piece { name: name.to_owned(), section, is_extended, value })
}

/// Puts continuations together and decodes.
fn joined(pieces: &[Piece]) -> BTreeMap<String, String> {
    let mut parameters = BTreeMap::new();
    for piece in pieces.iter().filter(|p| p.section.is_none() && p.is_extended) {
        parameters.entry(piece.name.clone()).or_insert_with(|| extended(&[piece]));
    }
    for piece in pieces.iter().filter(|p| p.section == Some(0)) {
        // looked for once a name, or many first pieces would cost the square of their number
        if parameters.contains_key(&piece.name) {
            continue;
        }
        let of = |number| pieces.iter().find(|p| p.name == piece.name && p.section == Some(number));
        let run: Vec<&Piece> = (0..).map_while(of).collect();
        parameters.insert(piece.name.clone(), extended(&run));
    }
    for piece in pieces.iter().filter(|p| p.section.is_none() && !p.is_extended) {
        let is_name = matches!(piece.name.as_str(), "name" | "filename");
        let decoded = || if is_name { decode_unstructured(piece.value.as_bytes()) } else { piece.value.clone() };
        parameters.entry(piece.name.clone()).or_insert_with(decoded);
    }
    parameters
}

/// RFC 2231 section 4: `charset'language'octets`, percent-encoded where marked.
fn extended(run: &[&Piece]) -> String {
    let (mut octets, mut label) = (Vec::new(), None);
    for (number, piece) in run.iter().enumerate() {
        let mut text = piece.value.as_str();
        if !piece.is_extended {
            octets.extend_from_slice(text.as_bytes());
            continue;
        }
        let mut quotes = text.splitn(3, '\'');
        if let (0, Some(charset), Some(_), Some(rest)) = (number, quotes.next(), quotes.next(), quotes.next()) {
            label = Some(charset);
            text = rest;
        }
        push_percent_decoded(text.as_bytes(), &mut octets);
    }
    charset::decode(&octets, label)
}

fn push_percent_decoded(mut text: &[u8], out: &mut Vec<u8>) {
    while let Some((&byte, rest)) = text.split_first() {
        let digits = rest.get(..2).and_then(|digits| core::str::from_utf8(digits).ok());
        match digits.filter(|_| byte == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(octet) => {
                out.push(octet);
                text = &rest[2..];
            }
            None => {
                out.push(byte);
                text = rest;
            }
        }
    }
}

fn push_parameter(name: &str, value: &str, out: &mut String) {
    let is_plain = value.bytes().all(|b| b == b' ' || b.is_ascii_graphic()) && !value.contains("=?");
    if is_plain && name.len() + value.len() <= PLAIN_OCTETS_MAX {
        let value = if is_token(value) { value.to_owned() } else { quote(value) };
        out.push_str(&format!(";\r\n\t{name}={value}"));
        return;
    }
    let is_literal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let encoded: Vec<String> = value.chars().map(|c| if is_literal(c) { c.to_string() } else { percent(c) }).collect();
    let mut lines = vec!["utf-8''".to_owned()];
    for character in encoded {
        match lines.last_mut() {
            Some(line) if line.len() + character.len() <= EXTENDED_OCTETS_MAX => line.push_str(&character),
            _ => lines.push(character),
        }
    }
    match lines.as_slice() {
        [line] => out.push_str(&format!(";\r\n\t{name}*={line}")),
        lines => {
            for (number, line) in lines.iter().enumerate() {
                out.push_str(&format!(";\r\n\t{name}*{number}*={line}"));
            }
        }
    }
}

fn percent(character: char) -> String {
    let mut utf8 = [0; 4];
    character.encode_utf8(&mut utf8).bytes().map(|b| format!("%{b:02X}")).collect()
}

/// Most parameters of one value; the rest is not looked at.
pub const PARAMETERS_MAX: usize = 256;

/// Longest name of a parameter written, in octets.
pub const NAME_OCTETS_MAX: usize = 60;

/// Longest value (not of a parameter) written, in octets: RFC 6838 section 4.2 allows 127 on either side of the slash.
pub const VALUE_OCTETS_MAX: usize = 255;

/// Name and value of a parameter on one line as they are, in octets.
const PLAIN_OCTETS_MAX: usize = 70;

/// Value of a piece of an RFC 2231 continuation, in octets.
const EXTENDED_OCTETS_MAX: usize = 56;

#[cfg(test)]
mod tests {
    use super::*;

    /// Raw value, value, parameters.
    type Case<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);

    fn shown(raw: &str) -> (String, Vec<(String, String)>) {
        let read = MimeParams::parse(raw.as_bytes());
        (read.value, read.parameters.into_iter().collect())
    }

    #[test]
    fn values_are_read() {
        let cases: [Case; 14] = [
            ("text/plain", "text/plain", &[]),
            (" TEXT/Plain (c) ; Charset = \"utf-8\" (d);", "TEXT/Plain", &[("charset", "utf-8")]),
            ("a/b; x=1;\r\n\ty=\"a;\\\"b\"; x=2", "a/b", &[("x", "1"), ("y", "a;\"b")]),
            ("a/b; filename=foo bar.pdf; z=1", "a/b", &[("filename", "foo bar.pdf"), ("z", "1")]),
            ("a/b; charset=us-ascii (Plain text)", "a/b", &[("charset", "us-ascii")]),
            ("a/b; filename*=UTF-8'de'%e2%82%ac%20x", "a/b", &[("filename", "\u{20ac} x")]),
            ("a/b; filename=old; filename*=utf-8''new", "a/b", &[("filename", "new")]),
            // RFC 2231 section 4.1
            (
                "application/x-stuff; title*1*=%2A%2A%2Afun%2A%2A%2A%20; title*0*=us-ascii'en'This%20is%20even%20more%20; title*2=\"isn't it!\"",
                "application/x-stuff",
                &[("title", "This is even more ***fun*** isn't it!")],
            ),
            ("a/b; t*0=x; t*2=z", "a/b", &[("t", "x")]),
            ("a/b; f*=iso-8859-1''%fc%", "a/b", &[("f", "\u{fc}%")]),
            ("a/b; filename=\"=?utf-8?q?=C3=BC?=.pdf\"", "a/b", &[("filename", "\u{fc}.pdf")]),
            ("a/b; name==?utf-8?q?=C3=BC.pdf?=", "a/b", &[("name", "\u{fc}.pdf")]),
            ("a/b; nothing; =x; *0=y; t*x=z; u=\"open", "a/b", &[("u", "open")]),
            ("", "", &[]),
        ];
        for (raw, value, parameters) in cases {
            let parameters: Vec<_> = parameters.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
            assert_eq!(shown(raw), (value.to_owned(), parameters), "{raw}");
        }
    }

    #[test]
    fn values_are_written_and_read_back() {
        let cases = [
            (MimeParams::new("text/plain"), "text/plain"),
            (MimeParams::new("text/plain").with("CHARSET", "utf-8"), "text/plain;\r\n\tcharset=utf-8"),
            (
                MimeParams::new("attachment").with("filename", "a \"b\".txt"),
                "attachment;\r\n\tfilename=\"a \\\"b\\\".txt\"",
            ),
            (
                MimeParams::new("attachment").with("filename", "\u{20ac}.txt"),
                "attachment;\r\n\tfilename*=utf-8''%E2%82%AC.txt",
            ),
            (MimeParams::new("a/b").with("x", ""), "a/b;\r\n\tx=\"\""),
            (MimeParams::new("a/b").with("x", "a\r\nb"), "a/b;\r\n\tx*=utf-8''a%0D%0Ab"),
        ];
        for (value, text) in cases {
            assert_eq!(value.write().as_deref(), Ok(text));
            assert_eq!(MimeParams::parse(text.as_bytes()), value);
        }
        let long = MimeParams::new("a/b").with("filename", &"\u{fc}x".repeat(200));
        let text = long.write().expect("usable");
        assert!(text.lines().all(|line| line.len() <= 78), "{text}");
        assert_eq!(MimeParams::parse(text.as_bytes()), long);
    }

    #[test]
    fn what_would_break_the_header_is_refused() {
        for bad in ["", "a b", "a/b/", "text/\u{fc}", "a;b"] {
            assert!(MimeParams::new(bad).write().is_err(), "{bad:?}");
        }
        for bad in ["", "a b", "a*", "a=b", "\u{fc}"] {
            assert!(MimeParams::new("a/b").with(bad, "x").write().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn bounds_at_the_bound_and_past_it() {
        let raw = |count: usize| (0..count).fold("a/b".to_owned(), |text, n| format!("{text}; p{n}=1"));
        assert_eq!(MimeParams::parse(raw(PARAMETERS_MAX).as_bytes()).parameters.len(), PARAMETERS_MAX);
        assert_eq!(MimeParams::parse(raw(PARAMETERS_MAX + 1).as_bytes()).parameters.len(), PARAMETERS_MAX);
        assert!(MimeParams::new(&"a".repeat(VALUE_OCTETS_MAX)).write().is_ok());
        assert!(MimeParams::new(&"a".repeat(VALUE_OCTETS_MAX + 1)).write().is_err());
        assert!(MimeParams::new("a").with(&"n".repeat(NAME_OCTETS_MAX), "x").write().is_ok());
        assert!(MimeParams::new("a").with(&"n".repeat(NAME_OCTETS_MAX + 1), "x").write().is_err());
    }
}
