//! A part of a message, and through its children the whole tree (RFC 2045, RFC 2046).
//!
//! Owns the header and the body of one part; a multipart's body is its children and the octets between them, so an
//! untouched part is written as it came. In: any octets (`parse` room), edits (`edit` room). Out: octets (`write` room),
//! decoded content. Reading cannot fail. Deliberately does not look into message/rfc822: that is content.

use crate::mime_params::MimeParams;
use crate::{Headers, PartError, PartId, charset};
use bytes::Bytes;

/// A part: a leaf or a multipart.
#[derive(Clone, Debug, Default)]
pub struct MimePart {
    pub(crate) headers: Headers,
    /// The blank line; empty when the octets had none.
    pub(crate) separator: Bytes,
    pub(crate) body: Body,
    /// The body is no longer what was parsed.
    pub(crate) is_body_edited: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// As written, transfer-encoded.
    Leaf(Bytes),
    Multipart(Multipart),
}

/// The body of a multipart: `before` of each child, the child, and `tail` behind the last.
#[derive(Clone, Debug)]
pub(crate) struct Multipart {
    /// The boundary the octets between the children are made with.
    pub boundary: String,
    pub children: Vec<Child>,
    /// The closing delimiter and what follows it; empty when the octets had none.
    pub tail: Bytes,
}

#[derive(Clone, Debug)]
pub(crate) struct Child {
    /// From the end of the part before up to the end of the delimiter line.
    pub before: Bytes,
    pub part: MimePart,
}

/// The decoded body of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Of text/*: in UTF-8, decoded from its character set.
    Text(String),
    /// Of all others: the octets. Of a multipart: the body as it is written.
    Octets(Vec<u8>),
}

impl Content {
    /// The octets, whichever it is.
    pub fn into_bytes(self) -> Vec<u8> {
        match self {
            Content::Text(text) => text.into_bytes(),
            Content::Octets(octets) => octets,
        }
    }
}

impl MimePart {
    /// The header.
    pub fn headers(&self) -> &Headers {
        &self.headers
    }

    /// The header, to be edited.
    pub fn headers_mut(&mut self) -> &mut Headers {
        &mut self.headers
    }

    /// The children of a multipart; none of others.
    pub fn children(&self) -> impl ExactSizeIterator<Item = &MimePart> {
        let children = match &self.body {
            Body::Multipart(multipart) => multipart.children.as_slice(),
            Body::Leaf(_) => &[],
        };
        children.iter().map(|child| &child.part)
    }

    /// The part at that place.
    pub fn part(&self, id: &PartId) -> Option<&MimePart> {
        id.places().iter().try_fold(self, |part, place| match &part.body {
            Body::Multipart(multipart) => multipart.children.get(*place).map(|child| &child.part),
            Body::Leaf(_) => None,
        })
    }

    /// The part at that place, to be edited.
    pub fn part_mut(&mut self, id: &PartId) -> Option<&mut MimePart> {
        id.places().iter().try_fold(self, |part, place| match &mut part.body {
            Body::Multipart(multipart) => multipart.children.get_mut(*place).map(|child| &mut child.part),
            Body::Leaf(_) => None,
        })
    }

    /// As [`MimePart::part_mut`].
    ///
    /// # Errors
    /// [`PartError::NoSuchPart`].
    pub fn try_part_mut(&mut self, id: &PartId) -> Result<&mut MimePart, PartError> {
        self.part_mut(id).ok_or_else(|| PartError::NoSuchPart { id: id.to_string() })
    }

    /// True when the body is made of parts.
    pub fn is_multipart(&self) -> bool {
        matches!(self.body, Body::Multipart(_))
    }

    /// The media type in force: Content-Type, or text/plain where there is none or it is no type (RFC 2045 section 5.2).
    pub fn content_type(&self) -> MimeParams {
        self.headers.content_type().filter(MimeParams::is_media_type).unwrap_or_else(|| MimeParams::new("text/plain"))
    }

    /// The text of a leaf of type text, in UTF-8; `None` of others, and where an octet does not decode.
    pub fn text(&self) -> Option<String> {
        let Body::Leaf(written) = &self.body else { return None };
        let content_type = self.content_type();
        let octets = self.headers.transfer_encoding().decode(written);
        content_type
            .is_kind("text")
            .then(|| charset::decode_whole(&octets, content_type.parameter("charset")))
            .flatten()
    }

    /// The body, transfer-decoded; text in UTF-8. What does not decode passes, U+FFFD in its place where it is text.
    pub fn body(&self) -> Content {
        match &self.body {
            Body::Leaf(written) => {
                let octets = self.headers.transfer_encoding().decode(written);
                let content_type = self.content_type();
                if content_type.is_kind("text") {
                    Content::Text(charset::decode(&octets, content_type.parameter("charset")))
                } else {
                    Content::Octets(octets.into_owned())
                }
            }
            Body::Multipart(_) => {
                let whole = Bytes::from(self.to_bytes());
                let (_, _, body_start) = Headers::split(&whole);
                Content::Octets(whole.slice(body_start..).to_vec())
            }
        }
    }

    /// Levels of this tree: 1 for a leaf.
    pub(crate) fn depth(&self) -> usize {
        1 + self.children().map(MimePart::depth).max().unwrap_or(0)
    }

    /// Parts of this tree, itself included.
    pub(crate) fn count(&self) -> usize {
        1 + self.children().map(MimePart::count).sum::<usize>()
    }

    pub(crate) fn is_untouched(&self) -> bool {
        self.headers.is_untouched() && !self.is_body_edited && self.children().all(MimePart::is_untouched)
    }
}

impl Default for Body {
    fn default() -> Body {
        Body::Leaf(Bytes::new())
    }
}

/// Levels of a tree, the root the first. Deeper multiparts are taken as leaves.
pub const DEPTH_MAX: usize = 32;

/// Parts of a tree, the root included. The last part takes what is left of its multipart.
pub const PARTS_MAX: usize = 1_000;
