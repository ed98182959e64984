//! Mail out: routes, connections, and the sessions on them.

mod asking;
pub(crate) mod broken_tls;
mod cluster;
pub(crate) mod connection;
mod delivery;
mod dialling;
pub(crate) mod dispatcher;
pub(crate) mod resolve;
mod routing;
mod security;
mod starttls;
