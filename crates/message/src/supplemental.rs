//! KumoMTA's supplemental trace header: what reports that come back say of the message they are about.
//!
//! In: a draft, the header's name, names of metadata. Out: the draft with a field of base64 on top, JSON within. It is not
//! encrypted. Recipients of a list must not learn of each other (RFC 5321 section 7.2), so only a single one is named.

use crate::Draft;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mime::{HeaderError, ValueForm};
use serde_json::Map;

impl Draft {
    /// Prepends the header, with those of the named metadata that there are.
    ///
    /// # Errors
    /// `header_name` is no name of a field.
    pub fn add_supplemental_trace(&mut self, header_name: &str, meta_names: &[String]) -> Result<(), HeaderError> {
        let mut fields = Map::new();
        fields.insert("_@_".to_owned(), "\\_/".into());
        if let [only] = &self.envelope.recipients[..] {
            fields.insert("recipient".to_owned(), only.as_str().into());
        }
        for name in meta_names {
            if let Some(value) = self.meta.get(name) {
                fields.insert(name.clone(), value.clone());
            }
        }
        let mut json = Vec::with_capacity(VALUE_OCTETS);
        // A map of values is always JSON, and a Vec takes every octet.
        let written = serde_json::to_writer(&mut json, &fields);
        debug_assert!(written.is_ok(), "{written:?}");
        let encoded = STANDARD.encode(&json);
        // Folded so that no line grows beyond RFC 5322 section 2.1.1, and not sooner: whoever reads it wants one word.
        let line = LINE_OCTETS.saturating_sub(header_name.len()).max(LINE_OCTETS_MIN);
        let lines: Vec<&str> = encoded.as_bytes().chunks(line).filter_map(|l| core::str::from_utf8(l).ok()).collect();
        let value = lines.join("\r\n\t");
        self.edit_headers().0.prepend(header_name, value.as_bytes(), ValueForm::Raw)
    }
}

/// What its content is expected to take.
const VALUE_OCTETS: usize = 320;
/// Octets of name and base64 on one line.
const LINE_OCTETS: usize = 990;
/// With a name of whatever length before it.
const LINE_OCTETS_MIN: usize = 72;
