//! Mail out: routes, connections, and the sessions on them: of commands (`delivery`) or of calls (`round`).

mod asking;
pub(crate) mod broken_tls;
pub(crate) mod carriage;
mod carrier;
mod cluster;
pub(crate) mod common;
pub(crate) mod connection;
mod courier;
pub(crate) mod deferred;
mod delivery;
mod dialling;
pub(crate) mod dispatcher;
mod generator;
pub(crate) mod lent;
pub(crate) mod maildir;
pub(crate) mod other_nodes;
pub(crate) mod partings;
mod password;
mod reasons;
pub(crate) mod resolve;
mod round;
mod routing;
mod security;
pub(crate) mod service;
mod starttls;
mod tls_reports;
mod xfer;
