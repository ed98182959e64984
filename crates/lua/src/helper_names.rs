//! The helpers under `policy-extras`, as the reference manual shows them: their functions, and the keys of their options and files.
//!
//! Owns [`Helper`] and [`HELPERS`], a page each; the rows are in `names_of`. Deliberately absent: parts of helpers, such as
//! `policy-extras.queue_files`, which policies do not `require`.

use crate::names_of::{self, Group, Name};

/// A helper.
#[derive(Clone, Copy, Debug)]
pub struct Helper {
    /// As scripts `require` it: `policy-extras.queue`.
    pub name: &'static str,
    /// What it is for.
    pub doc: &'static str,
    /// Its functions.
    pub functions: &'static [Name],
    /// Its options, the keys of its files, and what else has a name.
    pub groups: &'static [Group],
}

/// All of them, in the order of the manual: by how much of a policy they are.
pub const HELPERS: &[Helper] = &[
    names_of::queue::QUEUE,
    names_of::sources::SOURCES,
    names_of::listener_domains::LISTENER_DOMAINS,
    names_of::shaping::SHAPING,
    names_of::dkim_sign::DKIM_SIGN,
    names_of::mail_auth::MAIL_AUTH,
    names_of::compliance::COMPLIANCE,
    names_of::log_hooks::LOG_HOOKS,
    names_of::rollup::ROLLUP,
    names_of::policy_utils::POLICY_UTILS,
    names_of::typing::TYPING,
    names_of::docker_utils::DOCKER_UTILS,
];
