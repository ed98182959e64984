//! What people see of a message: its texts and its attachments (`mimepart:get_simple_structure`).
//!
//! Walks the tree in order. The first text/plain, text/html and text/x-amp-html that are neither disposed as attachments
//! nor named are the texts; every other leaf is an attachment, further texts too, so nothing is lost. A part disposed as an
//! attachment is one whatever is in it. Ids are seen from the part asked; see [`PartId::join`].

use crate::mime_params::MimeParams;
use crate::{MimePart, PartId};

/// Texts and attachments of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimpleStructure {
    /// The plain text.
    pub text_part: Option<PartId>,
    /// The HTML text.
    pub html_part: Option<PartId>,
    /// The AMP text.
    pub amp_html_part: Option<PartId>,
    /// The part with the message's header: the one asked.
    pub header_part: PartId,
    /// All else, in order.
    pub attachments: Vec<Attachment>,
}

/// A leaf that is no text of the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// From Content-Disposition, else `name` of Content-Type.
    pub file_name: Option<String>,
    /// Content-Disposition says inline; or it says nothing, and the part belongs to a multipart/related.
    pub inline: bool,
    /// Without its angle brackets.
    pub content_id: Option<String>,
    /// The media type without parameters; `application/octet-stream` when none is declared.
    pub content_type: String,
    /// Which part it is.
    pub part: PartId,
}

impl MimePart {
    /// The texts and attachments of this part.
    pub fn simple_structure(&self) -> SimpleStructure {
        let mut found = SimpleStructure::default();
        walk(self, &PartId::ROOT, "", &mut found);
        found
    }
}

fn walk(part: &MimePart, id: &PartId, parent: &str, found: &mut SimpleStructure) {
    let disposition = part.headers.content_disposition();
    let is_attached = disposition.as_ref().is_some_and(|d| d.is("attachment"));
    if part.is_multipart() && !is_attached {
        let kind = part.content_type().value;
        for (place, child) in part.children().enumerate() {
            walk(child, &id.child(place), &kind, found);
        }
        return;
    }
    // RFC 2046 section 5.1.5: in a digest, a part without a type is a message
    let is_digested = parent.eq_ignore_ascii_case("multipart/digest") && part.headers.content_type().is_none();
    let file_name = file_name(part, disposition.as_ref());
    if !is_attached && file_name.is_none() && !is_digested && !part.is_multipart() {
        let kind = part.content_type();
        let place = match () {
            () if kind.is("text/plain") => Some(&mut found.text_part),
            () if kind.is("text/html") => Some(&mut found.html_part),
            () if kind.is("text/x-amp-html") => Some(&mut found.amp_html_part),
            () => None,
        };
        if let Some(place @ None) = place {
            *place = Some(id.clone());
            return;
        }
        // a multipart without parts: there is nothing to attach
        if kind.is_kind("multipart") && *id == PartId::ROOT {
            return;
        }
    }
    let inline = disposition.map_or(parent.eq_ignore_ascii_case("multipart/related"), |d| d.is("inline"));
    let declared = part.headers.content_type().filter(MimeParams::is_media_type).map(|t| t.value);
    let default = if is_digested { "message/rfc822" } else { "application/octet-stream" };
    found.attachments.push(Attachment {
        file_name,
        inline,
        content_id: part.headers.content_id(),
        content_type: declared.unwrap_or_else(|| default.to_owned()),
        part: id.clone(),
    });
}

fn file_name(part: &MimePart, disposition: Option<&MimeParams>) -> Option<String> {
    let disposed = disposition.and_then(|d| d.parameter("filename")).map(str::to_owned);
    let named = || part.headers.content_type().and_then(|t| t.parameter("name").map(str::to_owned));
    disposed.or_else(named).filter(|name| !name.is_empty())
}
