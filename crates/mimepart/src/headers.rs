//! The header of a part: its fields in order, read and edited (KumoMTA's HeaderMap).
//!
//! In: the octets of a header block. Out: copies of fields, or the block with its edits; an unedited block is written octet
//! for octet. Can fail: a name or value that would break the header. Lines that are no fields are kept and have no name.
//! What type a value has stands in the `field` room.

use crate::field::{FieldKind, FieldValue, Header};
use crate::mime_params::MimeParams;
use crate::transfer::TransferEncoding;
use crate::{PartError, message_id};
use bytes::Bytes;
use mime::{FieldView, HeaderBlock, HeaderIndex, ValueForm};

/// A header block.
#[derive(Clone, Debug)]
pub struct Headers {
    original: Bytes,
    block: HeaderBlock,
}

impl Default for Headers {
    fn default() -> Headers {
        Headers { original: Bytes::new(), block: HeaderBlock::parse(b"") }
    }
}

impl Headers {
    /// Takes the header block off `octets`. Returns it, the blank line behind it, and the offset of the body. At most
    /// [`HEADER_BYTES_MAX`] octets and `mime`'s `FIELDS_MAX` fields are header; the rest is body.
    pub(crate) fn split(octets: &Bytes) -> (Headers, Bytes, usize) {
        // two more show whether the blank line follows
        let looked_at = octets.slice(..octets.len().min(HEADER_BYTES_MAX + 2));
        let index = HeaderIndex::parse(&looked_at);
        if index.header_len() <= HEADER_BYTES_MAX && !index.overflowed() {
            let original = looked_at.slice(..index.header_len());
            let (separator, body_start) = (looked_at.slice(index.separator()), index.body_start());
            return (Headers { block: HeaderBlock::parse(&original), original }, separator, body_start);
        }
        let fields = index.fields().iter().take(mime::limits::FIELDS_MAX).map(|field| field.whole().end);
        let end = fields.take_while(|end| *end <= HEADER_BYTES_MAX).last().unwrap_or(0);
        let original = looked_at.slice(..end);
        (Headers { block: HeaderBlock::parse(&original), original }, Bytes::new(), end)
    }

    /// Adds a field at the end, encoded (RFC 2047) and wrapped.
    ///
    /// # Errors
    /// See [`mime::HeaderError`].
    pub fn append(&mut self, name: &str, value: &str) -> Result<(), PartError> {
        Ok(self.block.append(name, value.as_bytes(), ValueForm::Encode)?)
    }

    /// Adds a field at the start, encoded (RFC 2047) and wrapped.
    ///
    /// # Errors
    /// See [`mime::HeaderError`].
    pub fn prepend(&mut self, name: &str, value: &str) -> Result<(), PartError> {
        Ok(self.block.prepend(name, value.as_bytes(), ValueForm::Encode)?)
    }

    /// Removes every field of that name, in any case; returns how many went.
    pub fn remove_all_named(&mut self, name: &str) -> usize {
        self.block.remove_all(&self.original, name)
    }

    /// A copy of the first field of that name, in any case.
    pub fn get_first_named(&self, name: &str) -> Option<Header> {
        self.iter(Some(name)).next()
    }

    /// Copies of all fields, or of those of one name, in order. Lines that are no fields are left out.
    pub fn iter<'a>(&'a self, name: Option<&'a str>) -> impl Iterator<Item = Header> + 'a {
        let view = self.block.view(&self.original);
        let wanted = view.iter().filter(move |field| name.is_none_or(|name| field.is_named(name)));
        wanted.map(|field| Header { name: field.name_text(), raw_value: field.value.to_vec() })
    }

    /// How many fields there are, lines that are no fields included.
    pub fn len(&self) -> usize {
        self.block.view(&self.original).len()
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The block as it stands, without the blank line behind it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.block.write_to(&self.original, &mut out);
        out
    }

    /// Content-Type as far as it can be read; `None` without the field.
    pub fn content_type(&self) -> Option<MimeParams> {
        self.params("Content-Type")
    }

    /// Content-Disposition as far as it can be read; `None` without the field.
    pub fn content_disposition(&self) -> Option<MimeParams> {
        self.params("Content-Disposition")
    }

    /// Content-ID without its angle brackets; `None` without the field or when it is none.
    pub fn content_id(&self) -> Option<String> {
        self.first("Content-ID").and_then(|field| message_id::read(field.value).ok())
    }

    pub(crate) fn transfer_encoding(&self) -> TransferEncoding {
        self.params("Content-Transfer-Encoding").map_or(TransferEncoding::Identity, |p| TransferEncoding::of(&p.value))
    }

    /// Writes the encoding down, or removes the field when none is needed.
    pub(crate) fn set_transfer_encoding(&mut self, encoding: TransferEncoding) -> Result<(), PartError> {
        match encoding.name() {
            Some(name) => self.replace("Content-Transfer-Encoding", name.as_bytes(), ValueForm::Raw),
            None => {
                self.remove_all_named("Content-Transfer-Encoding");
                Ok(())
            }
        }
    }

    pub(crate) fn set_params(&mut self, name: &str, value: MimeParams) -> Result<(), PartError> {
        let (text, form) = FieldKind::MimeParams.write(name, &FieldValue::MimeParams(value))?;
        self.replace(name, text.as_bytes(), form)
    }

    pub(crate) fn replace(&mut self, name: &str, value: &[u8], form: ValueForm) -> Result<(), PartError> {
        Ok(self.block.replace(&self.original, name, value, form)?)
    }

    pub(crate) fn append_raw(&mut self, name: &str, value: &[u8], form: ValueForm) -> Result<(), PartError> {
        Ok(self.block.append(name, value, form)?)
    }

    pub(crate) fn prepend_raw(&mut self, name: &str, value: &[u8], form: ValueForm) -> Result<(), PartError> {
        Ok(self.block.prepend(name, value, form)?)
    }

    pub(crate) fn is_untouched(&self) -> bool {
        self.block.is_untouched()
    }

    /// Every line, those that are no fields (empty name) included.
    pub(crate) fn fields(&self) -> impl Iterator<Item = FieldView<'_>> {
        self.block.view(&self.original).iter_all()
    }

    pub(crate) fn first(&self, name: &str) -> Option<FieldView<'_>> {
        self.block.view(&self.original).first(name)
    }

    fn params(&self, name: &str) -> Option<MimeParams> {
        self.first(name).map(|field| MimeParams::parse(field.value))
    }
}

/// Octets of the header of one part; what comes behind the last field that fits is body.
pub const HEADER_BYTES_MAX: usize = 1 << 20;
