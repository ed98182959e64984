//! A message put together from texts and attachments (`kumo.mimepart.builder`).
//!
//! Out: multipart/mixed of (multipart/related of (multipart/alternative of plain, AMP and HTML text, and what is shown
//! inline), and attachments); a level with one part is left out. Adds MIME-Version and Date; everything else in the header
//! is the caller's. Reads no clock and rolls no dice: both come with [`Builder::build`].

use crate::construct::{AttachmentOptions, mixed};
use crate::mime_params::MimeParams;
use crate::{MimePart, PartError, date};
use clock::WallTime;

/// Collects texts and attachments.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    text_plain: Option<String>,
    text_html: Option<String>,
    text_amp_html: Option<String>,
    attachments: Vec<MimePart>,
    is_stable: bool,
}

impl Builder {
    /// An empty one.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// The plain text; the last call counts.
    pub fn text_plain(&mut self, text: &str) {
        self.text_plain = Some(text.to_owned());
    }

    /// The HTML text; the last call counts.
    pub fn text_html(&mut self, text: &str) {
        self.text_html = Some(text.to_owned());
    }

    /// The AMP text (text/x-amp-html); the last call counts.
    pub fn text_amp_html(&mut self, text: &str) {
        self.text_amp_html = Some(text.to_owned());
    }

    /// Adds an attachment. Without options it is one to be saved, without a name.
    ///
    /// # Errors
    /// As [`MimePart::new_binary`].
    pub fn attach(
        &mut self,
        content_type: &str,
        data: &[u8],
        options: Option<&AttachmentOptions>,
    ) -> Result<(), PartError> {
        let options = options.cloned().unwrap_or_default();
        self.attachments.push(MimePart::new_binary(content_type, data, Some(&options))?);
        Ok(())
    }

    /// Adds a part made elsewhere. Content-Disposition tells whether it is shown inline.
    pub fn attach_part(&mut self, part: MimePart) {
        self.attachments.push(part);
    }

    /// Fixed boundaries and a fixed date, for tests: [`STABLE_DATE`].
    pub fn set_stable_content(&mut self, is_stable: bool) {
        self.is_stable = is_stable;
    }

    /// Builds the message. Boundaries come from `seed`, the date from `now`.
    ///
    /// # Errors
    /// As [`Builder::build_undated`].
    pub fn build(self, now: WallTime, seed: u64) -> Result<MimePart, PartError> {
        let date = if self.is_stable { STABLE_DATE.to_owned() } else { date::rfc5322(now) };
        let mut root = self.build_undated(seed)?;
        root.headers.prepend("Date", &date)?;
        Ok(root)
    }

    /// Builds the message without a date. Boundaries come from `seed`.
    ///
    /// # Errors
    /// Nothing was given, or the tree would be past the bounds of [`MimePart::new_multipart`].
    pub fn build_undated(self, seed: u64) -> Result<MimePart, PartError> {
        let seed = if self.is_stable { 0 } else { seed };
        let texts = [
            self.text_plain.map(|text| MimePart::new_text_plain(&text)),
            self.text_amp_html.map(|text| MimePart::new_text("text/x-amp-html", &text)),
            self.text_html.map(|text| MimePart::new_html(&text)),
        ];
        let texts = texts.into_iter().flatten().collect::<Result<Vec<_>, _>>()?;
        let has_text = !texts.is_empty();
        let (inline, attached): (Vec<_>, Vec<_>) =
            self.attachments.into_iter().partition(|part| has_text && is_inline(part));
        let body = one_or("multipart/alternative", texts, mixed(seed).wrapping_add(1))?;
        let body = match body {
            Some(body) if !inline.is_empty() => {
                let root = body.content_type().value;
                let parts = core::iter::once(body).chain(inline).collect();
                let mut related =
                    MimePart::new_multipart("multipart/related", parts, None, mixed(seed).wrapping_add(2))?;
                // RFC 2387 section 3.1 demands the type of the part the others belong to
                let declared = related.headers.content_type().unwrap_or_default().with("type", &root);
                related.headers.set_params("Content-Type", declared)?;
                Some(related)
            }
            body => body,
        };
        let mut root = if attached.is_empty() {
            body.ok_or(PartError::NothingToBuild)?
        } else {
            let parts = body.into_iter().chain(attached).collect();
            MimePart::new_multipart("multipart/mixed", parts, None, mixed(seed).wrapping_add(3))?
        };
        root.headers.prepend("MIME-Version", "1.0")?;
        Ok(root)
    }
}

/// The one part there is, or a multipart of them all.
fn one_or(content_type: &str, mut parts: Vec<MimePart>, seed: u64) -> Result<Option<MimePart>, PartError> {
    if parts.len() > 1 {
        return MimePart::new_multipart(content_type, parts, None, seed).map(Some);
    }
    Ok(parts.pop())
}

fn is_inline(part: &MimePart) -> bool {
    part.headers.content_disposition().as_ref().is_some_and(|d: &MimeParams| d.is("inline"))
}

/// The date of stable content; the one of RFC 5322 appendix A.1.1.
pub const STABLE_DATE: &str = "Fri, 21 Nov 1997 09:55:06 -0600";
