//! Which header has which type: one table, and the values themselves.
//!
//! In: raw values of fields, or shapes and text given by policy. Out: [`FieldValue`], or the text of a field, folded.
//! Can fail: what does not fit the type of its name; the error names header, value and what was expected.
//! A binding makes its getters and setters from [`FIELDS`].

use crate::address::{self, Address, Mailbox};
use crate::auth_results::AuthenticationResults;
use crate::message_id;
use crate::mime_params::MimeParams;
use crate::{Headers, PartError};
use mime::{ValueForm, decode_unstructured};
use serde::{Deserialize, Serialize};

/// The type of a header's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// Mailboxes and groups (RFC 5322 section 3.4).
    AddressList,
    /// Mailboxes.
    MailboxList,
    /// Exactly one mailbox.
    Mailbox,
    /// One id, without its angle brackets (RFC 5322 section 3.6.4).
    MessageId,
    /// Ids, without their angle brackets.
    MessageIdList,
    /// A value with parameters (RFC 2045 section 5.1).
    MimeParams,
    /// Text, encoded-words decoded (RFC 2047).
    Unstructured,
    /// RFC 8601.
    AuthenticationResults,
}

/// A header whose type is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypedField {
    /// Its name as it is written.
    pub name: &'static str,
    /// The name of the getter; the setter's is `set_` and this. `None`: no accessor, but the value is typed.
    pub accessor: Option<&'static str>,
    /// Its type.
    pub kind: FieldKind,
}

/// Every header with a type of its own and every header with an accessor; all others are unstructured.
pub const FIELDS: [TypedField; 21] = [
    with_accessor("From", "from", FieldKind::MailboxList),
    with_accessor("Resent-From", "resent_from", FieldKind::MailboxList),
    with_accessor("To", "to", FieldKind::AddressList),
    with_accessor("Reply-To", "reply_to", FieldKind::AddressList),
    with_accessor("Cc", "cc", FieldKind::AddressList),
    with_accessor("Bcc", "bcc", FieldKind::AddressList),
    with_accessor("Resent-To", "resent_to", FieldKind::AddressList),
    with_accessor("Resent-Cc", "resent_cc", FieldKind::AddressList),
    with_accessor("Resent-Bcc", "resent_bcc", FieldKind::AddressList),
    with_accessor("Sender", "sender", FieldKind::Mailbox),
    with_accessor("Resent-Sender", "resent_sender", FieldKind::Mailbox),
    with_accessor("Message-ID", "message_id", FieldKind::MessageId),
    with_accessor("Content-ID", "content_id", FieldKind::MessageId),
    with_accessor("References", "references", FieldKind::MessageIdList),
    with_accessor("Subject", "subject", FieldKind::Unstructured),
    with_accessor("Comments", "comments", FieldKind::Unstructured),
    with_accessor("MIME-Version", "mime_version", FieldKind::Unstructured),
    with_accessor("Content-Transfer-Encoding", "content_transfer_encoding", FieldKind::MimeParams),
    with_accessor("Content-Disposition", "content_disposition", FieldKind::MimeParams),
    with_accessor("Content-Type", "content_type", FieldKind::MimeParams),
    TypedField { name: "Authentication-Results", accessor: None, kind: FieldKind::AuthenticationResults },
];

const fn with_accessor(name: &'static str, accessor: &'static str, kind: FieldKind) -> TypedField {
    TypedField { name, accessor: Some(accessor), kind }
}

impl TypedField {
    /// The row of an accessor (`resent_from`).
    pub fn by_accessor(accessor: &str) -> Option<&'static TypedField> {
        FIELDS.iter().find(|field| field.accessor == Some(accessor))
    }

    /// The row of a header's name, in any case.
    pub fn by_name(name: &str) -> Option<&'static TypedField> {
        FIELDS.iter().find(|field| field.name.eq_ignore_ascii_case(name))
    }
}

/// The value of a header. Serialized it is the bare shape; deserialized, the first shape that fits (an empty list fits
/// every list).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FieldValue {
    /// Text; an id; given to a setter: to be parsed.
    Text(String),
    /// Ids.
    Ids(Vec<String>),
    /// One mailbox.
    Mailbox(Mailbox),
    /// Mailboxes.
    MailboxList(Vec<Mailbox>),
    /// Mailboxes and groups.
    AddressList(Vec<Address>),
    /// A value with parameters.
    MimeParams(MimeParams),
    /// Results of checks.
    AuthenticationResults(AuthenticationResults),
}

impl FieldKind {
    /// The type in words, for errors.
    pub fn expected(self) -> &'static str {
        match self {
            FieldKind::AddressList => "a list of mailboxes and groups (\"Name <user@domain>, group: user@domain;\")",
            FieldKind::MailboxList => "a list of mailboxes (\"Name <user@domain>, user@domain\")",
            FieldKind::Mailbox => "one mailbox (\"Name <user@domain>\")",
            FieldKind::MessageId => "one message id (\"<left@right>\")",
            FieldKind::MessageIdList => "a list of message ids (\"<left@right> <left@right>\")",
            FieldKind::MimeParams => "a value with parameters (\"text/plain; charset=utf-8\")",
            FieldKind::Unstructured => "text",
            FieldKind::AuthenticationResults => "authentication results (\"host; method=result property=value\")",
        }
    }

    /// Reads a raw value.
    ///
    /// # Errors
    /// [`PartError::Incompatible`], naming `name`.
    pub fn read(self, name: &str, raw: &[u8]) -> Result<FieldValue, PartError> {
        let value = match self {
            FieldKind::AddressList => address::read(raw).map(FieldValue::AddressList),
            FieldKind::MailboxList => address::read_mailboxes(raw).map(FieldValue::MailboxList),
            FieldKind::Mailbox => address::read_mailbox(raw).map(FieldValue::Mailbox),
            FieldKind::MessageId => message_id::read(raw).map(FieldValue::Text),
            FieldKind::MessageIdList => message_id::read_list(raw).map(FieldValue::Ids),
            FieldKind::MimeParams => {
                let read = MimeParams::parse(raw);
                if read.value.is_empty() { Err("no value".to_owned()) } else { Ok(FieldValue::MimeParams(read)) }
            }
            FieldKind::Unstructured => Ok(FieldValue::Text(decode_unstructured(raw))),
            FieldKind::AuthenticationResults => AuthenticationResults::read(raw).map(FieldValue::AuthenticationResults),
        };
        value.map_err(|reason| PartError::incompatible(name, &String::from_utf8_lossy(raw), self.expected(), reason))
    }

    /// The text of a field of this type, folded, and how it is to be put into a header.
    ///
    /// # Errors
    /// The value is of another type, text that does not parse, or a shape that cannot be written.
    pub fn write(self, name: &str, value: &FieldValue) -> Result<(String, ValueForm), PartError> {
        if self == FieldKind::Unstructured {
            return match value {
                FieldValue::Text(text) => Ok((text.clone(), ValueForm::Encode)),
                other => Err(self.refused(name, other, "")),
            };
        }
        let written = match (self, value) {
            (FieldKind::MessageId, FieldValue::Text(id)) => {
                message_id::write(&[message_id::without_brackets(id).to_owned()])
            }
            (_, FieldValue::Text(text)) => return self.write(name, &self.read(name, text.as_bytes())?),
            (FieldKind::MessageIdList, FieldValue::Ids(ids)) => message_id::write(ids),
            (FieldKind::Mailbox, FieldValue::Mailbox(mailbox)) => address::write(&[Address::Mailbox(mailbox.clone())]),
            (FieldKind::AddressList | FieldKind::MailboxList, list) => match addresses(list) {
                Some(list) if self == FieldKind::MailboxList => {
                    address::without_groups(list.clone()).and_then(|_| address::write(&list))
                }
                Some(list) => address::write(&list),
                None => Err("another type".to_owned()),
            },
            (FieldKind::MimeParams, FieldValue::MimeParams(value)) => value.write(),
            (FieldKind::AuthenticationResults, FieldValue::AuthenticationResults(value)) => value.write(),
            // an empty list has no type
            (FieldKind::MessageIdList, FieldValue::MailboxList(list)) if list.is_empty() => Ok(String::new()),
            _ => Err("another type".to_owned()),
        };
        match written {
            Ok(text) if text.lines().any(|line| line.len() > WRITTEN_LINE_MAX) => {
                Err(self.refused(name, value, "a line would be too long"))
            }
            Ok(text) => Ok((text, ValueForm::Raw)),
            Err(reason) => Err(self.refused(name, value, &reason)),
        }
    }

    fn refused(self, name: &str, value: &FieldValue, reason: &str) -> PartError {
        PartError::incompatible(name, &format!("{value:?}"), self.expected(), reason)
    }
}

/// The list a value is, when it is one.
fn addresses(value: &FieldValue) -> Option<Vec<Address>> {
    match value {
        FieldValue::AddressList(list) => Some(list.clone()),
        FieldValue::MailboxList(list) => Some(list.iter().cloned().map(Address::Mailbox).collect()),
        FieldValue::Ids(ids) if ids.is_empty() => Some(Vec::new()),
        _ => None,
    }
}

/// A copy of one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its name as written.
    pub name: String,
    /// Its value as written, folds included.
    pub raw_value: Vec<u8>,
}

impl Header {
    /// The value by the type its name has in [`FIELDS`]; text for all others.
    ///
    /// # Errors
    /// The value is not of that type.
    pub fn value(&self) -> Result<FieldValue, PartError> {
        self.value_as(TypedField::by_name(&self.name).map_or(FieldKind::Unstructured, |field| field.kind))
    }

    /// The value read as `kind`, whatever the name.
    ///
    /// # Errors
    /// The value is not of that type.
    pub fn value_as(&self, kind: FieldKind) -> Result<FieldValue, PartError> {
        kind.read(&self.name, &self.raw_value)
    }

    /// The value as text, encoded-words decoded.
    pub fn unstructured(&self) -> String {
        decode_unstructured(&self.raw_value)
    }
}

impl Headers {
    /// The value of the first field of that name, by its type; `None` when there is none.
    ///
    /// # Errors
    /// The value is not of that type.
    pub fn get_typed(&self, field: &TypedField) -> Result<Option<FieldValue>, PartError> {
        self.get_first_named(field.name).map(|header| header.value_as(field.kind)).transpose()
    }

    /// Gives the first field of that name this value, in its place, and removes the others; appends when there is none.
    /// Text is parsed first.
    ///
    /// # Errors
    /// The value does not fit the field's type; nothing is changed then.
    pub fn set_typed(&mut self, field: &TypedField, value: &FieldValue) -> Result<(), PartError> {
        let (text, form) = field.kind.write(field.name, value)?;
        self.replace(field.name, text.as_bytes(), form)
    }
}

/// Octets of a line of a value: with the longest name in the table it stays within 998.
const WRITTEN_LINE_MAX: usize = 960;
