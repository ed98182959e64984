//! Text put at the end of what people read (`message:append_text_plain`, `message:append_text_html`).
//!
//! In: a message and text. Out: the message with that part encoded anew, everything else as it was; nothing when the
//! message has no such part. Deliberately does not look for signatures, which break by this.

use crate::{MimePart, PartError};
use bytes::Bytes;

/// Appends to the main plain text, or when `is_html` to the main HTML text: there before the last `</body>`, in any case
/// of letters, or at the end without one. Plain text begins on a line of its own. `None`: the message has no such text, or one that does not
/// decode: written anew it would lose what it says.
///
/// # Errors
/// The part's Content-Type cannot be written anew.
pub fn append_text(octets: impl Into<Bytes>, text: &str, is_html: bool) -> Result<Option<Vec<u8>>, PartError> {
    let mut message = MimePart::parse(octets);
    let found = message.simple_structure();
    let Some(id) = (if is_html { found.html_part } else { found.text_part }) else {
        return Ok(None);
    };
    let part = message.try_part_mut(&id)?;
    let Some(mut content) = part.text() else { return Ok(None) };
    if is_html {
        content.insert_str(end_of_html(&content), text);
    } else {
        if !content.is_empty() && !content.ends_with('\n') {
            content.push_str("\r\n");
        }
        content.push_str(text);
    }
    part.set_body(content.as_bytes())?;
    Ok(Some(message.to_bytes()))
}

/// Where the last `</body>` stands, or the end.
fn end_of_html(html: &str) -> usize {
    let lower = html.to_ascii_lowercase();
    let closes = |at: &usize| lower[at + CLOSING_TAG.len()..].trim_ascii_start().starts_with('>');
    lower.rmatch_indices(CLOSING_TAG).map(|(at, _)| at).find(closes).unwrap_or(html.len())
}

const CLOSING_TAG: &str = "</body";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_html() {
        for (html, end) in [
            ("<p>x", 4),
            ("<body>x</body></html>", 7),
            ("a</BODY >b", 1),
            ("a</body>b</Body>c", 9),
            ("a</bodyx>", 9),
            ("\u{130}</body>", 2),
            ("", 0),
        ] {
            assert_eq!(end_of_html(html), end, "{html}");
        }
    }
}
