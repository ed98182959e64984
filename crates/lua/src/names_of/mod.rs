//! Names that no module of `kumo` describes: those of helpers and of their files, of metadata, types and templates.
//!
//! Owns [`Name`] and [`Group`], and a folder of tables of them, a file for each subject; [`names`] are all of them. Pages of the
//! reference manual and rows of the compatibility checklist are made of the same rows. Deliberately absent: what the names do,
//! which is in share/policy-extras and in the crates that each file says; and options, which are `config`'s structs.

use crate::api::Proof;
use crate::helper_names::HELPERS;
use crate::value_names::{ADDED, PAGES};

pub(crate) mod added;
pub(crate) mod compliance;
pub(crate) mod dkim_sign;
pub(crate) mod docker_utils;
pub(crate) mod listener_domains;
pub(crate) mod log_hooks;
pub(crate) mod mail_auth;
pub(crate) mod metadata;
pub(crate) mod policy_utils;
pub(crate) mod queue;
pub(crate) mod rollup;
pub(crate) mod shaping;
mod shaping_files;
pub(crate) mod sources;
pub(crate) mod templates;
pub(crate) mod types;
pub(crate) mod typing;

/// A function, a key, a value or a type.
#[derive(Clone, Copy, Debug)]
pub struct Name {
    /// As scripts and files write it, with what stands before: `queue:setup`, `meta.tenant`; capitals stand for what a policy
    /// makes up.
    pub name: &'static str,
    /// Arguments and results, or the type, with the default behind `=` where there is one; how a type is written.
    pub signature: &'static str,
    /// What it does, or what it is, and which of it is an error.
    pub doc: &'static str,
    /// What shows that it does; nothing where that is shown of another name alone.
    pub proof: Option<Proof>,
    /// True when KumoMTA's list of names has it; else it is an addition, or a part of one of those.
    pub is_kumomtas: bool,
}

/// Names that a page has under one heading.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// The heading.
    pub title: &'static str,
    /// What they have in common.
    pub doc: &'static str,
    /// A file that uses some of them, in TOML.
    pub example: Option<&'static str>,
    /// How they are shown.
    pub shape: Shape,
    /// In the order of the page.
    pub names: &'static [Name],
}

/// How a group is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// In a table, a row for each name.
    Keys,
    /// Each under a heading of its own: the name and its signature.
    Members,
    /// The same with the signature alone, which says how it is written.
    Forms,
}

/// All of them, each once.
pub fn names() -> impl Iterator<Item = &'static Name> {
    let of_helpers = HELPERS.iter().flat_map(|helper| helper.functions.iter().chain(names_in(helper.groups)));
    let of_pages = PAGES.iter().flat_map(|page| names_in(page.groups));
    of_helpers.chain(of_pages).chain(ADDED.iter().flat_map(|(_, group)| group.names))
}

fn names_in(groups: &'static [Group]) -> impl Iterator<Item = &'static Name> {
    groups.iter().flat_map(|group| group.names)
}

/// A name of KumoMTA's, and the test that shows what it does: its file from the root of the tree, `::`, the test.
const fn shown(name: &'static str, signature: &'static str, doc: &'static str, test: &'static str) -> Name {
    Name { name, signature, doc, proof: Some(Proof::Test(test)), is_kumomtas: true }
}

/// A name of KumoMTA's that is read, or handed on to what is tested elsewhere.
const fn unshown(name: &'static str, signature: &'static str, doc: &'static str) -> Name {
    Name { name, signature, doc, proof: None, is_kumomtas: true }
}

/// As [`shown`], of an addition, or of a part of one of KumoMTA's names.
const fn own(name: &'static str, signature: &'static str, doc: &'static str, test: &'static str) -> Name {
    Name { name, signature, doc, proof: Some(Proof::Test(test)), is_kumomtas: false }
}

/// As [`unshown`], of an addition, or of a part of one of KumoMTA's names.
const fn own_unshown(name: &'static str, signature: &'static str, doc: &'static str) -> Name {
    Name { name, signature, doc, proof: None, is_kumomtas: false }
}
