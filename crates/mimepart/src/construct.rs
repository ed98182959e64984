//! New parts from content: texts, binaries, multiparts.
//!
//! In: a content type and decoded content. Out: a part with the header it needs to be one of a message; Date, MIME-Version
//! and addresses are the builder's or the caller's. Can fail: unusable content types, file names, ids, boundaries; bounds.

use crate::edit::media_type;
use crate::field::{FieldKind, FieldValue};
use crate::mime_params::MimeParams;
use crate::part::{Body, DEPTH_MAX, PARTS_MAX};
use crate::transfer::{TransferEncoding, encode_base64, encode_text};
use crate::write::{framed, free_boundary, is_boundary};
use crate::{MimePart, PartError};
use serde::{Deserialize, Serialize};

/// How a binary part is to be presented: `{file_name, inline=false, content_id}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AttachmentOptions {
    /// The name to be saved under.
    pub file_name: Option<String>,
    /// Shown where it is referred to, not offered for saving.
    pub inline: bool,
    /// What HTML refers to as `cid:`; with its angle brackets or without.
    pub content_id: Option<String>,
}

impl MimePart {
    /// A text part. ASCII text is declared as us-ascii, other text as utf-8, unless `content_type` says more.
    ///
    /// # Errors
    /// [`PartError::ContentType`].
    pub fn new_text(content_type: &str, text: &str) -> Result<MimePart, PartError> {
        let mut content_type = media_type(content_type)?;
        let charset = if text.is_ascii() { "us-ascii" } else { "utf-8" };
        let is_declared = content_type.parameter("charset").is_some_and(|c| c.eq_ignore_ascii_case("utf-8"));
        if !is_declared {
            content_type = content_type.with("charset", charset);
        }
        let mut part = MimePart::default();
        part.headers.set_params("Content-Type", content_type)?;
        let (encoding, written) = encode_text(text.as_bytes());
        part.put_encoded(encoding, written)?;
        Ok(part)
    }

    /// A text/plain part.
    ///
    /// # Errors
    /// None that text could cause.
    pub fn new_text_plain(text: &str) -> Result<MimePart, PartError> {
        MimePart::new_text("text/plain", text)
    }

    /// A text/html part.
    ///
    /// # Errors
    /// None that text could cause.
    pub fn new_html(text: &str) -> Result<MimePart, PartError> {
        MimePart::new_text("text/html", text)
    }

    /// A part in base64. With `options` it has a Content-Disposition.
    ///
    /// # Errors
    /// [`PartError::ContentType`], or a file name or id that cannot be written.
    pub fn new_binary(
        content_type: &str,
        data: &[u8],
        options: Option<&AttachmentOptions>,
    ) -> Result<MimePart, PartError> {
        let mut part = MimePart::default();
        part.headers.set_params("Content-Type", media_type(content_type)?)?;
        if let Some(options) = options {
            let mut disposition = MimeParams::new(if options.inline { "inline" } else { "attachment" });
            if let Some(file_name) = &options.file_name {
                disposition = disposition.with("filename", file_name);
            }
            part.headers.set_params("Content-Disposition", disposition)?;
            if let Some(content_id) = &options.content_id {
                let value = FieldValue::Text(content_id.clone());
                let (text, form) = FieldKind::MessageId.write("Content-ID", &value)?;
                part.headers.replace("Content-ID", text.as_bytes(), form)?;
            }
        }
        part.put_encoded(TransferEncoding::Base64, encode_base64(data))?;
        Ok(part)
    }

    /// A multipart of these parts. Without a boundary one is made from `seed`; a boundary that stands in a part gets a
    /// number behind it.
    ///
    /// # Errors
    /// The content type is no multipart/*, the boundary is unusable, or the tree would be past [`DEPTH_MAX`] or
    /// [`PARTS_MAX`].
    pub fn new_multipart(
        content_type: &str,
        parts: Vec<MimePart>,
        boundary: Option<&str>,
        seed: u64,
    ) -> Result<MimePart, PartError> {
        let content_type = media_type(content_type)?;
        if !content_type.is_kind("multipart") {
            return Err(PartError::ContentType { value: content_type.value });
        }
        if parts.iter().map(MimePart::depth).max().unwrap_or(0) + 1 > DEPTH_MAX {
            return Err(PartError::TooDeep { max: DEPTH_MAX });
        }
        if parts.iter().map(MimePart::count).sum::<usize>() + 1 > PARTS_MAX {
            return Err(PartError::TooManyParts { max: PARTS_MAX });
        }
        let made = boundary_of(seed);
        let wanted = boundary.or(content_type.parameter("boundary")).unwrap_or(&made);
        if !is_boundary(wanted) {
            return Err(PartError::Boundary { boundary: wanted.to_owned() });
        }
        let written: Vec<Vec<u8>> = parts.iter().map(MimePart::to_bytes).collect();
        let is_free = !written.iter().any(|part| crate::parse::holds_delimiter(part, wanted));
        let boundary = if is_free { wanted.to_owned() } else { free_boundary(wanted, &written) };
        let mut part = MimePart::default();
        part.headers.set_params("Content-Type", content_type.with("boundary", &boundary))?;
        part.put_body(Body::Multipart(framed(parts, &boundary)));
        Ok(part)
    }
}

/// A boundary that cannot stand in quoted-printable (RFC 2045 section 6.7) nor in base64.
pub(crate) fn boundary_of(seed: u64) -> String {
    format!("=_{:016x}", mixed(seed))
}

/// Spreads a seed over 64 bits (the finalizer of SplitMix64), so that seeds in a row do not look alike.
pub(crate) fn mixed(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
