//! Reading a header block: what policy asks of a message, edits already made included.
//!
//! In: a [`crate::HeaderBlock`] and the original bytes it was made from. Out: borrowed fields, or
//! decoded strings and addresses. Names compare without regard to case (RFC 5322 section 1.2.2).
//! Can fail: only address parsing. Owns nothing; a view is two pointers and is copied freely.

use crate::address::{AddressError, AddressList};
use crate::block::Field;
use crate::decode::decode_unstructured;

/// One header field, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldView<'a> {
    /// The name as written; empty for a malformed line.
    pub name: &'a [u8],
    /// The raw value, folds kept, without leading white space and final line end.
    pub value: &'a [u8],
    /// The whole field with its final line end (which a last unterminated line lacks).
    pub whole: &'a [u8],
}

impl FieldView<'_> {
    /// True when the field has this name.
    pub fn is_named(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }

    /// True for `X-*` fields.
    pub fn is_x(&self) -> bool {
        matches!(self.name, [b'x' | b'X', b'-', ..])
    }

    /// The name as text.
    pub fn name_text(&self) -> String {
        String::from_utf8_lossy(self.name).into_owned()
    }

    /// The value unfolded and decoded (RFC 2047).
    pub fn decoded(&self) -> String {
        decode_unstructured(self.value)
    }
}

/// A readable header block: the fields with the original bytes they point into.
#[derive(Clone, Copy, Debug)]
pub struct HeaderView<'a> {
    pub(crate) fields: &'a [Field],
    pub(crate) original: &'a [u8],
}

impl<'a> HeaderView<'a> {
    /// Every well-formed field, first to last.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = FieldView<'a>> {
        self.iter_all().filter(|f| !f.name.is_empty())
    }

    /// Every field, malformed lines (empty name) included.
    pub fn iter_all(self) -> impl DoubleEndedIterator<Item = FieldView<'a>> {
        self.fields.iter().map(move |f| f.view(self.original))
    }

    /// How many fields there are, malformed lines included.
    pub fn len(self) -> usize {
        self.fields.len()
    }

    /// True when there is no field at all.
    pub fn is_empty(self) -> bool {
        self.fields.is_empty()
    }

    /// The field at that place, counted as [`HeaderView::iter_all`] does.
    pub fn get(self, place: usize) -> Option<FieldView<'a>> {
        self.fields.get(place).map(|f| f.view(self.original))
    }

    /// All fields of that name, first to last.
    pub fn named(self, name: &str) -> impl DoubleEndedIterator<Item = FieldView<'a>> {
        self.iter().filter(move |f| f.is_named(name))
    }

    /// The first field of that name.
    pub fn first(self, name: &str) -> Option<FieldView<'a>> {
        self.named(name).next()
    }

    /// The decoded value of the first field of that name (`get_first_named_header_value`).
    pub fn first_value(self, name: &str) -> Option<String> {
        self.first(name).map(|f| f.decoded())
    }

    /// The decoded values of all fields of that name (`get_all_named_header_values`).
    pub fn all_values(self, name: &str) -> Vec<String> {
        self.named(name).map(|f| f.decoded()).collect()
    }

    /// Names and decoded values of all fields (`get_all_headers`).
    pub fn all(self) -> Vec<(String, String)> {
        self.iter().map(|f| (f.name_text(), f.decoded())).collect()
    }

    /// The first field of that name as an address list (`get_address_header`).
    ///
    /// # Errors
    /// The field is there but is not an RFC 5322 address list.
    pub fn addresses(self, name: &str) -> Result<Option<AddressList>, AddressError> {
        self.first(name).map(|f| AddressList::parse(f.value)).transpose()
    }
}
