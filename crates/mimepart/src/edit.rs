//! Edits of a part: its body, its type, its children.
//!
//! In: new content, decoded. Out: the part with its body encoded anew and the header telling how. Can fail: a content type
//! that is none, a child where none can be, bounds; nothing is changed then. Text is written as lines, each ended by CRLF.

use crate::mime_params::MimeParams;
use crate::part::{Body, Child, DEPTH_MAX, PARTS_MAX};
use crate::transfer::{TransferEncoding, encode_base64, encode_text};
use crate::write::{closing, framed, free_boundary, opening};
use crate::{MimePart, PartError, PartId, charset, parse};
use bytes::Bytes;

impl MimePart {
    /// Replaces the body; the content type stays, but for its character set. Text goes as 7bit when it can, else as
    /// quoted-printable or base64 in UTF-8; what is no text goes as base64; the body of a multipart or a message/* is
    /// taken as it stands.
    ///
    /// # Errors
    /// Content-Type cannot be written anew.
    pub fn set_body(&mut self, content: &[u8]) -> Result<(), PartError> {
        let content_type = self.content_type();
        if content_type.is_kind("multipart") || content_type.is_kind("message") {
            self.headers.set_transfer_encoding(TransferEncoding::Identity)?;
            let mut parts_left = PARTS_MAX - 1;
            let body = parse::body(&Bytes::copy_from_slice(content), Some(&content_type), 1, &mut parts_left);
            self.put_body(body);
            return Ok(());
        }
        let (encoding, written) = match core::str::from_utf8(content) {
            Ok(text) if content_type.is_kind("text") => {
                if let Some(charset) = charset_for(text, &content_type) {
                    self.headers.set_params("Content-Type", content_type.with("charset", charset))?;
                }
                encode_text(content)
            }
            // text in a character set the header tells of
            _ => (TransferEncoding::Base64, encode_base64(content)),
        };
        self.put_encoded(encoding, written)
    }

    /// Replaces the body and, when it is given, the content type.
    ///
    /// # Errors
    /// The content type is no type and subtype.
    pub fn replace_body(&mut self, content: &[u8], content_type: Option<&str>) -> Result<(), PartError> {
        if let Some(content_type) = content_type {
            self.headers.set_params("Content-Type", media_type(content_type)?)?;
        }
        self.set_body(content)
    }

    /// Adds a copy of `part` as the last child of the part at `at`.
    ///
    /// # Errors
    /// There is no part at `at`, it is no multipart, or the tree would be past [`DEPTH_MAX`] or [`PARTS_MAX`].
    pub fn append_part(&mut self, at: &PartId, part: &MimePart) -> Result<(), PartError> {
        if at.places().len() + 1 + part.depth() > DEPTH_MAX {
            return Err(PartError::TooDeep { max: DEPTH_MAX });
        }
        if self.count() + part.count() > PARTS_MAX {
            return Err(PartError::TooManyParts { max: PARTS_MAX });
        }
        let parent = self.try_part_mut(at)?;
        let content_type = parent.content_type();
        if !content_type.is_kind("multipart") {
            return Err(PartError::NotMultipart { id: at.to_string(), content_type: content_type.value });
        }
        parent.append_child(part.clone(), content_type)
    }

    fn append_child(&mut self, part: MimePart, content_type: MimeParams) -> Result<(), PartError> {
        match &mut self.body {
            Body::Multipart(multipart) => {
                let before = opening(&multipart.boundary, false);
                if multipart.tail.is_empty() {
                    multipart.tail = closing(&multipart.boundary);
                }
                multipart.children.push(Child { before, part });
            }
            // without delimiters so far: what stands there was no part, and is none
            Body::Leaf(_) => {
                let wanted = content_type.parameter("boundary").unwrap_or_default();
                let boundary = free_boundary(wanted, &[part.to_bytes()]);
                self.headers.set_params("Content-Type", content_type.with("boundary", &boundary))?;
                self.body = Body::Multipart(framed(vec![part], &boundary));
                self.put_separator();
            }
        }
        self.is_body_edited = true;
        Ok(())
    }

    /// Puts a body that is written already.
    pub(crate) fn put_encoded(&mut self, encoding: TransferEncoding, written: Vec<u8>) -> Result<(), PartError> {
        self.headers.set_transfer_encoding(encoding)?;
        self.put_body(Body::Leaf(written.into()));
        Ok(())
    }

    pub(crate) fn put_body(&mut self, body: Body) {
        self.body = body;
        self.is_body_edited = true;
        self.put_separator();
    }

    fn put_separator(&mut self) {
        if self.separator.is_empty() {
            self.separator = Bytes::from_static(b"\r\n");
        }
    }
}

/// Reads a content type given by policy.
pub(crate) fn media_type(text: &str) -> Result<MimeParams, PartError> {
    let read = MimeParams::parse(text.as_bytes());
    if read.is_media_type() { Ok(read) } else { Err(PartError::ContentType { value: text.to_owned() }) }
}

/// The character set to be declared for UTF-8 text, when the declared one does not do.
fn charset_for(text: &str, content_type: &MimeParams) -> Option<&'static str> {
    let declared = content_type.parameter("charset");
    let is_fitting = match declared {
        Some(declared) if text.is_ascii() => charset::is_ascii_compatible(declared),
        Some(declared) => declared.eq_ignore_ascii_case("utf-8"),
        None => text.is_ascii(),
    };
    (!is_fitting).then_some("utf-8")
}
