//! The header block of a draft: the received fields plus the edits policy made, written out once.
//!
//! Owns the list of fields, each either a range of the original bytes or a new field of its own.
//! In: edits (prepend, append, remove, replace). Out: the final header bytes, or a [`HeaderView`].
//! Can fail: a new field with an unusable name or value; nothing is changed then.
//! Deliberately holds no copy of the message: the caller keeps the original bytes and lends them to
//! every call. They must be the bytes the block was made from. The body is never touched.

use crate::encode::{HeaderError, ValueForm, check_field, encode_field};
use crate::index::{FieldSpan, HeaderIndex, name_of};
use crate::view::{FieldView, HeaderView};

/// An editable header block over the raw bytes of one message.
#[derive(Clone, Debug)]
pub struct HeaderBlock {
    fields: Vec<Field>,
    original_len: usize,
    separator: std::ops::Range<usize>,
    new_fields: usize,
    change: Change,
}

impl HeaderBlock {
    /// Indexes `raw` and makes an unedited block of it.
    pub fn parse(raw: &[u8]) -> HeaderBlock {
        HeaderBlock::from_index(&HeaderIndex::parse(raw))
    }

    /// An unedited block over an index already made.
    pub fn from_index(index: &HeaderIndex) -> HeaderBlock {
        let mut fields = Vec::with_capacity(index.fields().len() + PREPENDS_EXPECTED);
        fields.extend(index.fields().iter().copied().map(Field::Original));
        HeaderBlock {
            fields,
            original_len: index.header_len(),
            separator: index.separator(),
            new_fields: 0,
            change: Change::None,
        }
    }

    /// The block as it stands now, readable.
    pub fn view<'a>(&'a self, original: &'a [u8]) -> HeaderView<'a> {
        HeaderView { fields: &self.fields, original }
    }

    /// Offset of the first body byte in the original message.
    pub fn body_start(&self) -> usize {
        self.separator.end
    }

    /// Puts a new field before all others.
    ///
    /// # Errors
    /// Unusable name or value, or too many new fields; see [`HeaderError`].
    pub fn prepend(&mut self, name: &str, value: &[u8], form: ValueForm) -> Result<(), HeaderError> {
        self.prepend_field(encode_field(name, value, form)?)
    }

    /// Puts a complete field (`Name: value` with its final CRLF, folded as it should be sent) before
    /// all others; for fields made elsewhere, such as a DKIM signature.
    ///
    /// # Errors
    /// The bytes are not exactly one header field, or too many new fields.
    pub fn prepend_field(&mut self, field: Vec<u8>) -> Result<(), HeaderError> {
        let field = self.admit(field)?;
        self.fields.insert(0, field);
        if self.change == Change::None {
            self.change = Change::Prepended;
        }
        Ok(())
    }

    /// Puts a new field after all others.
    ///
    /// # Errors
    /// As [`HeaderBlock::prepend`].
    pub fn append(&mut self, name: &str, value: &[u8], form: ValueForm) -> Result<(), HeaderError> {
        let field = self.admit(encode_field(name, value, form)?)?;
        self.fields.push(field);
        self.change = Change::Rewritten;
        Ok(())
    }

    /// Gives the first field of that name a new value in its place and removes the others; appends
    /// when there is none.
    ///
    /// # Errors
    /// As [`HeaderBlock::prepend`].
    pub fn replace(&mut self, original: &[u8], name: &str, value: &[u8], form: ValueForm) -> Result<(), HeaderError> {
        let Some(place) = self.fields.iter().position(|f| f.view(original).is_named(name)) else {
            return self.append(name, value, form);
        };
        let field = self.admit(encode_field(name, value, form)?)?;
        let tail = self.fields.split_off(place + 1);
        self.fields[place] = field;
        self.fields.extend(tail.into_iter().filter(|f| !f.view(original).is_named(name)));
        self.change = Change::Rewritten;
        Ok(())
    }

    /// Removes every field of that name; returns how many went.
    pub fn remove_all(&mut self, original: &[u8], name: &str) -> usize {
        self.remove_where(original, |f| !name.is_empty() && f.is_named(name))
    }

    /// Removes the fields of exactly these names, or all `X-*` fields when `names` is `None`
    /// (`remove_x_headers`); returns how many went.
    pub fn remove_x(&mut self, original: &[u8], names: Option<&[&str]>) -> usize {
        self.remove_where(original, |f| match names {
            None => f.is_x(),
            Some(names) => !f.name.is_empty() && names.iter().any(|n| f.is_named(n)),
        })
    }

    /// True while no edit was made: the original bytes can be used as they are.
    pub fn is_untouched(&self) -> bool {
        self.change == Change::None
    }

    /// True when fields were put in front and nothing else: the original message follows unchanged.
    /// An untouched block counts.
    pub fn only_prepended(&self) -> bool {
        self.change != Change::Rewritten
    }

    /// Appends the header block to `out`, without the blank line that ends it. An untouched block
    /// gives the original bytes. Every field but an unterminated last one ends with a line end.
    pub fn write_to(&self, original: &[u8], out: &mut Vec<u8>) {
        out.reserve(self.original_len + self.new_fields * NEW_FIELD_BYTES_EXPECTED);
        let mut run = 0..0;
        for field in &self.fields {
            match field {
                Field::Original(span) if span.whole().start == run.end => run.end = span.whole().end,
                Field::Original(span) => {
                    write_run(original, &run, out);
                    end_line(out, &run);
                    run = span.whole();
                }
                Field::New(new) => {
                    write_run(original, &run, out);
                    end_line(out, &run);
                    run = run.end..run.end;
                    out.extend_from_slice(&new.bytes);
                }
            }
        }
        write_run(original, &run, out);
    }

    /// Appends everything that comes before the body: the header block and the blank line. A message
    /// that came without a blank line gets one only when it is needed to keep new fields apart from
    /// the body.
    pub fn write_head_to(&self, original: &[u8], out: &mut Vec<u8>) {
        self.write_to(original, out);
        let has_body = original.len() > self.separator.end;
        if !self.separator.is_empty() {
            write_run(original, &self.separator, out);
        } else if has_body && !self.fields.is_empty() {
            out.extend_from_slice(b"\r\n");
        }
    }

    fn remove_where(&mut self, original: &[u8], matches: impl Fn(&FieldView) -> bool) -> usize {
        let before = self.fields.len();
        self.fields.retain(|f| !matches(&f.view(original)));
        let removed = before - self.fields.len();
        if removed > 0 {
            self.change = Change::Rewritten;
        }
        removed
    }

    fn admit(&mut self, bytes: Vec<u8>) -> Result<Field, HeaderError> {
        if self.new_fields == NEW_FIELDS_MAX {
            return Err(HeaderError::TooManyNewFields { max: NEW_FIELDS_MAX });
        }
        let field = NewField::new(bytes)?;
        self.new_fields += 1;
        Ok(Field::New(field))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    None,
    Prepended,
    Rewritten,
}

/// One field: a place in the original bytes, or bytes of its own.
#[derive(Clone, Debug)]
pub(crate) enum Field {
    Original(FieldSpan),
    New(NewField),
}

impl Field {
    pub(crate) fn view<'a>(&'a self, original: &'a [u8]) -> FieldView<'a> {
        match self {
            Field::Original(span) => FieldView {
                name: part(original, span.name()),
                value: part(original, span.value()),
                whole: part(original, span.whole()),
            },
            Field::New(new) => new.view(),
        }
    }
}

/// A field made here: checked, and always ended by CRLF.
#[derive(Clone, Debug)]
pub(crate) struct NewField {
    bytes: Vec<u8>,
    name_len: usize,
    value_start: usize,
}

impl NewField {
    fn new(bytes: Vec<u8>) -> Result<NewField, HeaderError> {
        check_field(&bytes)?;
        let (name_len, colon) = name_of(&bytes).ok_or(HeaderError::NotOneField)?;
        let blanks = bytes[colon + 1..].iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
        Ok(NewField { bytes, name_len, value_start: colon + 1 + blanks })
    }

    fn view(&self) -> FieldView<'_> {
        let value_end = self.bytes.len().saturating_sub(2);
        FieldView {
            name: part(&self.bytes, 0..self.name_len),
            value: part(&self.bytes, self.value_start..value_end),
            whole: &self.bytes,
        }
    }
}

/// A range of `bytes`; empty (and a bug, shown in tests) when the original bytes lent are not the ones indexed.
fn part(bytes: &[u8], range: std::ops::Range<usize>) -> &[u8] {
    let part = bytes.get(range);
    debug_assert!(part.is_some(), "header block used with other bytes than its own");
    part.unwrap_or_default()
}

fn write_run(original: &[u8], run: &std::ops::Range<usize>, out: &mut Vec<u8>) {
    out.extend_from_slice(part(original, run.clone()));
}

/// Ends the line just written when the message did not: a field follows.
fn end_line(out: &mut Vec<u8>, run: &std::ops::Range<usize>) {
    if !run.is_empty() && !out.ends_with(b"\n") {
        out.extend_from_slice(b"\r\n");
    }
}

/// Most fields policy can add to one message.
const NEW_FIELDS_MAX: usize = 10_000;

/// Room left for Received, a signature and a few more without a second allocation.
const PREPENDS_EXPECTED: usize = 6;

/// Guess for one new field, in bytes, to size the output once.
const NEW_FIELD_BYTES_EXPECTED: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    const RAW: &[u8] = b"From: a@b\r\nX-One: 1\r\nTo: c@d\r\nx-two: 2\r\nX-One: 3\r\n\r\nbody\r\n";

    fn written(block: &HeaderBlock, raw: &[u8]) -> String {
        let mut out = Vec::new();
        block.write_to(raw, &mut out);
        String::from_utf8(out).expect("ASCII test data")
    }

    fn head(block: &HeaderBlock, raw: &[u8]) -> String {
        let mut out = Vec::new();
        block.write_head_to(raw, &mut out);
        String::from_utf8(out).expect("ASCII test data")
    }

    #[test]
    fn prepends_are_seen_and_written_first() {
        let mut block = HeaderBlock::parse(RAW);
        assert!(block.is_untouched() && block.only_prepended());
        block.prepend("X-One", b"0", ValueForm::Raw).expect("valid");
        block.prepend("Received", b"from x\r\n\tby y", ValueForm::Raw).expect("valid");
        assert!(!block.is_untouched() && block.only_prepended());
        assert_eq!(block.view(RAW).first_value("x-one").as_deref(), Some("0"));
        assert_eq!(block.view(RAW).all_values("X-ONE"), ["0", "1", "3"]);
        let expect =
            "Received: from x\r\n\tby y\r\nX-One: 0\r\nFrom: a@b\r\nX-One: 1\r\nTo: c@d\r\nx-two: 2\r\nX-One: 3\r\n";
        assert_eq!(written(&block, RAW), expect);
        assert_eq!(head(&block, RAW), format!("{expect}\r\n"));
    }

    #[test]
    fn removal_append_and_replacement() {
        let mut block = HeaderBlock::parse(RAW);
        assert_eq!(block.remove_all(RAW, "X-one"), 2);
        assert_eq!(block.remove_all(RAW, "absent"), 0);
        block.append("Z", b"last", ValueForm::Raw).expect("valid");
        assert_eq!(written(&block, RAW), "From: a@b\r\nTo: c@d\r\nx-two: 2\r\nZ: last\r\n");
        assert!(!block.only_prepended());

        let mut block = HeaderBlock::parse(RAW);
        assert_eq!(block.remove_x(RAW, None), 3);
        assert_eq!(written(&block, RAW), "From: a@b\r\nTo: c@d\r\n");

        let mut block = HeaderBlock::parse(RAW);
        assert_eq!(block.remove_x(RAW, Some(&["X-TWO", "from"])), 2);
        block.replace(RAW, "X-One", b"new", ValueForm::Raw).expect("valid");
        assert_eq!(written(&block, RAW), "X-One: new\r\nTo: c@d\r\n");
    }

    #[test]
    fn messages_without_a_blank_line() {
        let mut body_only = HeaderBlock::parse(b"no header here\r\n");
        assert_eq!(head(&body_only, b"no header here\r\n"), "");
        body_only.prepend("A", b"1", ValueForm::Raw).expect("valid");
        assert_eq!(head(&body_only, b"no header here\r\n"), "A: 1\r\n\r\n");

        let mut open = HeaderBlock::parse(b"A: 1");
        assert_eq!(head(&open, b"A: 1"), "A: 1");
        open.append("B", b"2", ValueForm::Raw).expect("valid");
        open.prepend("C", b"3", ValueForm::Raw).expect("valid");
        assert_eq!(head(&open, b"A: 1"), "C: 3\r\nA: 1\r\nB: 2\r\n");
    }

    #[test]
    fn refused_edits_change_nothing() {
        let mut block = HeaderBlock::parse(RAW);
        assert!(block.prepend("Bad Name", b"x", ValueForm::Raw).is_err());
        assert!(block.append("A", b"x\r\nBcc: y", ValueForm::Raw).is_err());
        assert!(block.replace(RAW, "From", b"x\0", ValueForm::Raw).is_err());
        assert!(block.prepend_field(b"A: 1\r\nB: 2\r\n".to_vec()).is_err());
        assert!(block.prepend_field(b"A: 1".to_vec()).is_err());
        assert!(block.is_untouched());
    }
}
