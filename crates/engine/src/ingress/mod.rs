//! Mail in: listeners, sessions, and the one door every new message passes.

pub(crate) mod accept;
pub(crate) mod buffer;
mod keyed;
pub(crate) mod listener;
pub(crate) mod listener_counts;
mod relay;
mod reports;
mod rewrite;
mod session;
pub(crate) mod trace;
