//! Mail out: routes, connections, and the sessions on them.

pub(crate) mod asking;
pub(crate) mod broken_tls;
pub(crate) mod connection;
mod delivery;
mod dialling;
pub(crate) mod dispatcher;
pub(crate) mod resolve;
mod routing;
mod security;
mod starttls;
