//! Where every header field is: one pass over the raw bytes, nothing copied, nothing decoded.
//!
//! In: the raw message. Out: [`HeaderIndex`], a list of offsets and the place where the body begins.
//! Cannot fail. What is not a header is kept as it stands:
//! - first line not a field (or a continuation line): the header block is empty, all is body;
//! - a line without a usable name further down: a field with an empty name, never found by name;
//! - fields beyond [`FIELDS_MAX`]: one nameless field that spans them all.
//!
//! Line ends: CRLF, and a bare LF too, because policy may allow it. A bare CR is an ordinary byte.
//! Deliberately does not judge conformance and does not look into the body.

use std::ops::Range;

/// Offsets of one header field inside the raw message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldSpan {
    start: u32,
    name_end: u32,
    value_start: u32,
    value_end: u32,
    end: u32,
}

impl FieldSpan {
    /// The field name, without white space before the colon. Empty for a malformed line.
    pub fn name(&self) -> Range<usize> {
        self.start as usize..self.name_end as usize
    }

    /// The value: after the colon and its white space, up to (without) the last line end; folds kept.
    pub fn value(&self) -> Range<usize> {
        self.value_start as usize..self.value_end as usize
    }

    /// The whole field: name, colon, value, folded lines and the final line end.
    pub fn whole(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// All header fields of one message, and where its body begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderIndex {
    fields: Vec<FieldSpan>,
    header_end: u32,
    body_start: u32,
    overflowed: bool,
}

impl HeaderIndex {
    /// Indexes the header block of `raw`. See the page above for what happens to malformed input.
    pub fn parse(raw: &[u8]) -> HeaderIndex {
        let raw = &raw[..raw.len().min(HEADER_BYTES_MAX)];
        let mut index = HeaderIndex { fields: Vec::new(), header_end: 0, body_start: 0, overflowed: false };
        let mut at = 0;
        if begins_with_field(raw) {
            index.fields.reserve(FIELDS_EXPECTED);
            at = index.collect(raw);
        }
        index.header_end = offset(at);
        index.body_start = offset(at + blank_line_len(&raw[at..]));
        index
    }

    /// The fields in the order of the message.
    pub fn fields(&self) -> &[FieldSpan] {
        &self.fields
    }

    /// Length of the header block in bytes, without the separating blank line.
    pub fn header_len(&self) -> usize {
        self.header_end as usize
    }

    /// The blank line between header block and body; empty when the message has none.
    pub fn separator(&self) -> Range<usize> {
        self.header_end as usize..self.body_start as usize
    }

    /// Offset of the first body byte (the message length when there is no body).
    pub fn body_start(&self) -> usize {
        self.body_start as usize
    }

    /// True when the message has more than [`FIELDS_MAX`] fields; the rest stand in the last, nameless one.
    pub fn overflowed(&self) -> bool {
        self.overflowed
    }

    /// Pushes every field; returns the offset just after the last one.
    fn collect(&mut self, raw: &[u8]) -> usize {
        let mut at = 0;
        while at < raw.len() && blank_line_len(&raw[at..]) == 0 {
            let mut end = field_end(raw, at);
            if self.fields.len() == FIELDS_MAX {
                self.overflowed = true;
                while end < raw.len() && blank_line_len(&raw[end..]) == 0 {
                    end = field_end(raw, end);
                }
                self.fields.push(nameless(raw, at, end));
            } else {
                self.fields.push(span(raw, at, end));
            }
            at = end;
        }
        at
    }
}

/// Offset just after the field that begins at `start`: its line and all continuation lines.
fn field_end(raw: &[u8], start: usize) -> usize {
    let mut at = start;
    while let Some(line) = memchr::memchr(b'\n', &raw[at..]) {
        at += line + 1;
        if !matches!(raw.get(at), Some(b' ' | b'\t')) {
            return at;
        }
    }
    raw.len()
}

fn span(raw: &[u8], start: usize, end: usize) -> FieldSpan {
    let Some((name_len, colon)) = name_of(&raw[start..end]) else {
        return nameless(raw, start, end);
    };
    let value_end = start + without_line_end(&raw[start..end]);
    let mut value_start = start + colon + 1;
    while value_start < value_end && is_wsp(raw[value_start]) {
        value_start += 1;
    }
    FieldSpan {
        start: offset(start),
        name_end: offset(start + name_len),
        value_start: offset(value_start),
        value_end: offset(value_end),
        end: offset(end),
    }
}

/// A malformed line, or the unindexed rest: it is kept but has no name.
fn nameless(raw: &[u8], start: usize, end: usize) -> FieldSpan {
    FieldSpan {
        start: offset(start),
        name_end: offset(start),
        value_start: offset(start),
        value_end: offset(start + without_line_end(&raw[start..end])),
        end: offset(end),
    }
}

/// Length of the name and place of the colon, when `field` begins with a usable name (RFC 5322
/// section 3.6.8; white space before the colon as in section 4.5.8 is tolerated).
pub(crate) fn name_of(field: &[u8]) -> Option<(usize, usize)> {
    let name_len = field.iter().position(|&b| !is_name_byte(b)).unwrap_or(field.len());
    let mut colon = name_len;
    while matches!(field.get(colon), Some(b' ' | b'\t')) {
        colon += 1;
    }
    (name_len > 0 && field.get(colon) == Some(&b':')).then_some((name_len, colon))
}

fn begins_with_field(raw: &[u8]) -> bool {
    name_of(raw).is_some()
}

/// Length of the blank line `rest` begins with, or 0.
fn blank_line_len(rest: &[u8]) -> usize {
    match rest {
        [b'\r', b'\n', ..] => 2,
        [b'\n', ..] => 1,
        _ => 0,
    }
}

/// Length of `field` without its final CRLF or LF.
fn without_line_end(field: &[u8]) -> usize {
    match field {
        [.., b'\r', b'\n'] => field.len() - 2,
        [.., b'\n'] => field.len() - 1,
        _ => field.len(),
    }
}

/// RFC 5322 `ftext`: printable US-ASCII without the colon.
pub(crate) fn is_name_byte(byte: u8) -> bool {
    (33..=126).contains(&byte) && byte != b':'
}

pub(crate) fn is_wsp(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// Offsets fit: `parse` never looks past `HEADER_BYTES_MAX`.
fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// Most fields indexed in one message; the rest become one nameless field.
pub const FIELDS_MAX: usize = 10_000;

/// Bytes looked at: in practice the whole message, as offsets are 32 bit.
pub const HEADER_BYTES_MAX: usize = u32::MAX as usize;

/// Room made at once: one allocation for ordinary mail.
const FIELDS_EXPECTED: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    fn names(raw: &[u8]) -> Vec<String> {
        HeaderIndex::parse(raw).fields().iter().map(|f| String::from_utf8_lossy(&raw[f.name()]).into_owned()).collect()
    }

    fn body(raw: &[u8]) -> &[u8] {
        &raw[HeaderIndex::parse(raw).body_start()..]
    }

    #[test]
    fn ordinary_message() {
        let raw = b"From: a@b\r\nSubject: x\r\n y\r\n\tz\r\nTo:c@d\r\n\r\nbody\r\n\r\nSubject: not\r\n";
        let index = HeaderIndex::parse(raw);
        assert_eq!(names(raw), ["From", "Subject", "To"]);
        assert_eq!(&raw[index.fields()[1].value()], b"x\r\n y\r\n\tz");
        assert_eq!(&raw[index.fields()[1].whole()], b"Subject: x\r\n y\r\n\tz\r\n");
        assert_eq!(&raw[index.fields()[2].value()], b"c@d");
        assert_eq!(&raw[index.separator()], b"\r\n");
        assert_eq!(body(raw), b"body\r\n\r\nSubject: not\r\n");
    }

    #[test]
    fn edges() {
        assert!(names(b"").is_empty());
        assert_eq!(body(b""), b"");
        assert_eq!(body(b"\r\nhello"), b"hello");
        assert_eq!(body(b"\nhello"), b"hello");
        assert_eq!(body(b"hello there\r\nFrom: x\r\n\r\n"), b"hello there\r\nFrom: x\r\n\r\n");
        assert_eq!(body(b" continued: x\r\n\r\n"), b" continued: x\r\n\r\n");
        assert_eq!(names(b"Subject: only"), ["Subject"]);
        assert_eq!(body(b"Subject: only"), b"");
        assert_eq!(body(b"Subject: only\r\n"), b"");
        assert_eq!(names(b"A: 1\nB: 2\n c\n\nbody"), ["A", "B"]);
        assert_eq!(body(b"A: 1\nB: 2\n c\n\nbody"), b"body");
        assert_eq!(names(b"A : 1\r\n:x\r\nno colon\r\nB: 2\r\n\r\n"), ["A", "", "", "B"]);
    }

    #[test]
    fn empty_values() {
        let raw = b"A:\r\nB: \r\nC:\r\n folded\r\n\r\n";
        let index = HeaderIndex::parse(raw);
        let values: Vec<&[u8]> = index.fields().iter().map(|f| &raw[f.value()]).collect();
        assert_eq!(values, [b"".as_slice(), b"", b"\r\n folded"]);
    }

    #[test]
    fn field_count_at_the_bound_and_past_it() {
        let exact = [b"A: 1\r\n".repeat(FIELDS_MAX), b"\r\nbody".to_vec()].concat();
        let index = HeaderIndex::parse(&exact);
        assert_eq!((index.fields().len(), index.overflowed()), (FIELDS_MAX, false));
        let more = [b"A: 1\r\n".repeat(FIELDS_MAX + 2), b"\r\nbody".to_vec()].concat();
        let index = HeaderIndex::parse(&more);
        assert_eq!((index.fields().len(), index.overflowed()), (FIELDS_MAX + 1, true));
        assert_eq!(index.fields()[FIELDS_MAX].whole().len(), 12);
        assert_eq!(&more[index.body_start()..], b"body");
    }
}
