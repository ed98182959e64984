//! Metadata, types and templates, as the reference manual shows them, and what stands behind the names of other pages.
//!
//! Owns [`Page`], [`PAGES`] and [`ADDED`]; the rows are in `names_of`. Deliberately absent: objects that modules return, which
//! are described beside their modules.

use crate::names_of::{self, Group};

/// A page of the manual.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Its file, without `.md`.
    pub name: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// What is on it.
    pub doc: &'static str,
    /// In order.
    pub groups: &'static [Group],
}

/// Pages of these names alone.
pub const PAGES: &[Page] = &[names_of::metadata::METADATA, names_of::types::TYPES, names_of::templates::TEMPLATES];

/// What stands at the end of other pages, by the name of the page.
pub const ADDED: &[(&str, Group)] =
    &[("events", names_of::added::NAMED_EVENTS), ("kumo", names_of::added::FIELDS_OF_KUMO)];
