//! Explanations (RFC 7208 section 6.2): what a domain says to clients that its record refuses.
//!
//! In: the place `exp=` names. Out: printable ASCII, at most [`EXPLANATION_CHARS_MAX`] characters, or nothing: whatever is wrong
//! with an explanation changes no result.

use super::check::Check;
use super::macros::MacroString;
use crate::questions::texts;

/// Asks for the explanation at `name` and expands it for `domain`.
pub(super) async fn explanation(check: &mut Check<'_>, name: &str, domain: &str) -> Option<String> {
    let texts = texts(check.resolver, name).await.ok()?;
    let [text] = texts.as_slice() else { return None };
    if text.len() > EXPLANATION_CHARS_MAX {
        return None;
    }
    let text = MacroString::parse(std::str::from_utf8(text).ok()?, true).ok()?;
    let validated = check.validated_name(&text, domain).await;
    let expanded = text.expand(&check.values(domain, &validated))?;
    let is_shown = !expanded.is_empty() && expanded.bytes().all(|b| (b' '..=b'~').contains(&b));
    is_shown.then_some(expanded).filter(|text| text.len() <= EXPLANATION_CHARS_MAX)
}

/// Longest explanation, in characters, as it is written and as it is expanded.
pub const EXPLANATION_CHARS_MAX: usize = 1_024;
