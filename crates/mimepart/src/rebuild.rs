//! A conformant part from any part (`mimepart:rebuild`).
//!
//! Out: CRLF line ends, lines of at most 998 octets (folded and encoded ones 78), ASCII only: bodies transfer-encoded,
//! headers in RFC 2047 and RFC 2231 form, multiparts framed anew without preamble and epilogue. What is conformant already
//! is kept as it is written. Character sets stay as declared; undeclared 8-bit text is declared as UTF-8 when it is that,
//! else as what is guessed, else as unknown-8bit (RFC 1428). Signatures over what had to change break.
//!
//! Can fail: only when a header cannot hold what it must say. A header field that cannot be written within bounds is left
//! out. A line that is no field becomes one without a value when it could be a name, continues Subject or Comments when it
//! stands behind them (a fold that lost its blank), and is left out behind others, which it would spoil.

use crate::field::{FieldKind, TypedField};
use crate::mime_params::MimeParams;
use crate::part::{Body, Child, DEPTH_MAX};
use crate::scan::unfolded;
use crate::transfer::{TransferEncoding, encode_base64, encode_text, is_clean};
use crate::write::{framed, free_boundary, is_boundary};
use crate::{Detection, Headers, MimePart, PartError, charset};
use bytes::Bytes;
use mime::{FieldView, ValueForm, decode_unstructured, encode_field, encode_words};
use std::borrow::Cow;

impl MimePart {
    /// A conformant copy of this part. Character sets are not guessed.
    ///
    /// # Errors
    /// Content-Type or Content-Transfer-Encoding cannot be written.
    pub fn rebuild(&self) -> Result<MimePart, PartError> {
        self.rebuild_with(&Detection::default())
    }

    /// A conformant copy of this part; undeclared 8-bit text is declared as `detection` guesses.
    ///
    /// # Errors
    /// As [`MimePart::rebuild`].
    pub fn rebuild_with(&self, detection: &Detection) -> Result<MimePart, PartError> {
        rebuilt(self, detection, 1).map(|rebuilt| rebuilt.part)
    }
}

/// A part built anew.
struct Rebuilt {
    part: MimePart,
    /// A multipart written: who writes what is in it again on every level pays for each level.
    written: Option<Vec<u8>>,
}

impl Rebuilt {
    fn into_written(self) -> (MimePart, Vec<u8>) {
        let written = self.written.unwrap_or_else(|| self.part.to_bytes());
        (self.part, written)
    }
}

fn rebuilt(part: &MimePart, detection: &Detection, depth: usize) -> Result<Rebuilt, PartError> {
    let mut new = MimePart { headers: headers(&part.headers), ..MimePart::default() };
    match &part.body {
        Body::Leaf(written) => {
            leaf(part, written, &mut new, detection, depth)?;
            Ok(Rebuilt { part: new, written: None })
        }
        Body::Multipart(multipart) => {
            let child = |child: &Child| rebuilt(&child.part, detection, depth + 1).map(Rebuilt::into_written);
            let children = multipart.children.iter().map(child);
            let (children, written): (Vec<_>, Vec<_>) = children.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
            let declared = part.headers.content_type().filter(|t| t.is_kind("multipart") && t.write().is_ok());
            let declared = declared.unwrap_or_else(|| MimeParams::new("multipart/mixed"));
            let wanted = declared.parameter("boundary").filter(|b| is_boundary(b)).unwrap_or("=_part");
            let is_free = !written.iter().any(|part| crate::parse::holds_delimiter(part, wanted));
            let boundary = if is_free { wanted.to_owned() } else { free_boundary(wanted, &written) };
            if declared.parameter("boundary") != Some(boundary.as_str()) {
                new.headers.set_params("Content-Type", declared.with("boundary", &boundary))?;
            }
            // what is in it is 7bit now
            new.headers.set_transfer_encoding(TransferEncoding::Identity)?;
            new.put_body(Body::Multipart(framed(children, &boundary)));
            let written = Some(new.to_bytes_around(&written));
            Ok(Rebuilt { part: new, written })
        }
    }
}

fn leaf(
    part: &MimePart,
    written: &Bytes,
    new: &mut MimePart,
    detection: &Detection,
    depth: usize,
) -> Result<(), PartError> {
    let encoding = part.headers.transfer_encoding();
    if is_clean(written) {
        if encoding == TransferEncoding::Identity && !has_unknown_encoding(&part.headers) {
            new.headers.set_transfer_encoding(encoding)?;
        }
        new.put_body(Body::Leaf(written.clone()));
        return Ok(());
    }
    let content_type = part.content_type();
    let octets = encoding.decode(written);
    if content_type.is("message/rfc822") && depth < DEPTH_MAX {
        let inner = MimePart::parse(octets.into_owned());
        let (_, inner) = rebuilt(&inner, detection, depth + 1)?.into_written();
        return new.put_encoded(TransferEncoding::Identity, inner);
    }
    // a multipart without parts cannot be encoded; what people see of it is text
    let is_partless = content_type.is_kind("multipart");
    if !content_type.is_kind("text") && !content_type.is_kind("message") && !is_partless {
        return new.put_encoded(TransferEncoding::Base64, encode_base64(&octets));
    }
    let content_type = if is_partless { MimeParams::new("text/plain") } else { content_type };
    let declared = content_type.parameter("charset").map(str::to_owned);
    let is_text = content_type.is_kind("text");
    if is_text && (is_partless || !octets.is_ascii() && declared.as_deref().is_none_or(charset::is_us_ascii)) {
        let charset = match detection.guess(&octets) {
            _ if octets.is_ascii() => "us-ascii",
            _ if core::str::from_utf8(&octets).is_ok() => "utf-8",
            Some(encoding) => encoding.name(),
            None => "unknown-8bit",
        };
        new.headers.set_params("Content-Type", content_type.with("charset", charset))?;
    }
    // line ends are CR and LF only where ASCII means ASCII
    if declared.as_deref().is_none_or(charset::is_ascii_compatible) {
        let (encoding, written) = encode_text(&octets);
        return new.put_encoded(encoding, written);
    }
    new.put_encoded(TransferEncoding::Base64, encode_base64(&octets))
}

/// True for an encoding that is none of the five: it must stay, for who knows it.
fn has_unknown_encoding(headers: &Headers) -> bool {
    headers.first("Content-Transfer-Encoding").is_some_and(|field| {
        let value = MimeParams::parse(field.value).value.to_ascii_lowercase();
        !matches!(value.as_str(), "" | "7bit" | "8bit" | "binary" | "quoted-printable" | "base64")
    })
}

/// The fields, each written so that it can be sent.
fn headers(old: &Headers) -> Headers {
    // As most are.
    if old.fields().all(|field| is_as_sent(&field)) {
        return old.clone();
    }
    let mut fields: Vec<(String, Cow<[u8]>)> = Vec::new();
    for field in old.fields() {
        if !field.name.is_empty() {
            fields.push((field.name_text(), Cow::Borrowed(field.value)));
            continue;
        }
        let line = field.whole.trim_ascii();
        match fields.last_mut() {
            _ if is_name(line) => fields.push((String::from_utf8_lossy(line).into_owned(), Cow::Borrowed(b""))),
            Some((name, value)) if is_text(name) => {
                let value = value.to_mut();
                value.push(b' ');
                value.extend_from_slice(line);
            }
            _ => {}
        }
    }
    let mut new = Headers::default();
    for (name, value) in fields {
        append(&mut new, &name, &value);
    }
    new
}

impl Headers {
    /// Adds a field at the start: as it is when it may stand so, else wrapped, else by its type, else encoded as text.
    ///
    /// # Errors
    /// Not even that can be sent: mostly because of the name.
    pub fn prepend_sendable(&mut self, name: &str, value: &str) -> Result<(), PartError> {
        let (value, form) = sendable(name, value.as_bytes())?;
        self.prepend_raw(name, &value, form)
    }
}

/// True for a field that would not become another by being written anew.
fn is_as_sent(field: &FieldView<'_>) -> bool {
    let name = field.name_text();
    may_stay(&name, field.value)
        && encode_field(&name, field.value, ValueForm::Raw).is_ok_and(|written| written == field.whole)
}

/// As [`Headers::prepend_sendable`], at the end; what cannot be sent is left out.
fn append(new: &mut Headers, name: &str, value: &[u8]) {
    if let Ok((value, form)) = sendable(name, value) {
        let _ = new.append_raw(name, &value, form);
    }
}

/// The value of a field as it can be sent.
fn sendable<'v>(name: &str, value: &'v [u8]) -> Result<(Cow<'v, [u8]>, ValueForm), PartError> {
    let is_fine = |value: &[u8], form| encode_field(name, value, form).is_ok();
    if may_stay(name, value) && is_fine(value, ValueForm::Raw) {
        return Ok((Cow::Borrowed(value), ValueForm::Raw));
    }
    let text = unfolded(value);
    let text: String = text.chars().filter(|c| !c.is_control() || *c == '\t').collect();
    let longest_word = text.split([' ', '\t']).map(str::len).max().unwrap_or(0);
    if text.is_ascii() && longest_word < WORD_OCTETS_MAX && is_fine(text.as_bytes(), ValueForm::Encode) {
        return Ok((Cow::Owned(text.into_bytes()), ValueForm::Encode));
    }
    let kind = TypedField::by_name(name).map_or(FieldKind::Unstructured, |field| field.kind);
    let read = kind.read(name, text.as_bytes());
    if let Ok((written, form)) = read.and_then(|value| kind.write(name, &value))
        && is_fine(written.as_bytes(), form)
    {
        return Ok((Cow::Owned(written.into_bytes()), form));
    }
    if kind != FieldKind::Unstructured {
        let words = words_encoded(&text);
        if is_fine(words.as_bytes(), ValueForm::Raw) {
            return Ok((Cow::Owned(words.into_bytes()), ValueForm::Raw));
        }
    }
    let text = decode_unstructured(text.as_bytes());
    let text: String = text.chars().filter(|c| !c.is_control() || *c == '\t').collect();
    encode_field(name, text.as_bytes(), ValueForm::Encode)?;
    Ok((Cow::Owned(text.into_bytes()), ValueForm::Encode))
}

/// True for octets and lines that can be sent; whether they make one field is another question.
fn may_stay(name: &str, value: &[u8]) -> bool {
    let is_sendable = value.iter().all(|&b| matches!(b, b'\t' | b'\r' | b'\n' | b' '..=b'~'));
    let mut lines = value.split(|&b| b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line).len());
    is_sendable
        && lines.next().is_none_or(|first| first + name.len() + 2 <= FOLDED_LINE_MAX)
        && lines.all(|line| line <= FOLDED_LINE_MAX)
}

/// A structured value that does not parse: runs of words that are not ASCII become encoded-words, the rest, the addresses
/// among it, stays readable.
fn words_encoded(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut run: Vec<&str> = Vec::new();
    for word in text.split([' ', '\t']).filter(|word| !word.is_empty()) {
        if !word.is_ascii() {
            run.push(word);
            continue;
        }
        if !run.is_empty() {
            lines.push(encode_words(&run.join(" ")));
            run.clear();
        }
        lines.push(word.to_owned());
    }
    if !run.is_empty() {
        lines.push(encode_words(&run.join(" ")));
    }
    lines.join("\r\n ")
}

fn is_text(name: &str) -> bool {
    TypedField::by_name(name).is_some_and(|field| field.kind == FieldKind::Unstructured)
}

fn is_name(line: &[u8]) -> bool {
    !line.is_empty() && line.iter().all(|&b| b.is_ascii_graphic() && b != b':')
}

/// Octets of a line of a header that is left as it is (RFC 5322 section 2.1.1).
const FOLDED_LINE_MAX: usize = 78;

/// Words longer than this would be cut when wrapped.
const WORD_OCTETS_MAX: usize = 800;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_kept_as_they_are_where_written_anew_they_would_be_the_same() {
        let long = format!("Subject: {}\r\n", "word ".repeat(20));
        for (block, is_kept) in [
            ("Subject: a\r\nTo: b@c.test,\r\n d@e.test\r\nX-Empty: \r\n", true),
            ("", true),
            ("Subject:a\r\n", false),
            ("Subject : a\r\n", false),
            ("Subject: a\n", false),
            ("Subject: a\r\n\r\n b\r\n", true),
            ("Subject: a\n b\r\n", false),
            ("Subject: \u{fc}\r\n", false),
            ("Subject: a\r\nno field\r\n", false),
            (&long, false),
        ] {
            let old = MimePart::parse(format!("{block}\r\nbody\r\n")).headers;
            assert_eq!(old.fields().all(|field| is_as_sent(&field)), is_kept, "{block:?}");
            let mut anew = Headers::default();
            old.fields().for_each(|field| append(&mut anew, &field.name_text(), field.value));
            if is_kept {
                assert_eq!(headers(&old).to_bytes(), anew.to_bytes(), "{block:?}");
            }
            assert_eq!(old.to_bytes() == anew.to_bytes(), is_kept, "{block:?}");
        }
    }
}
