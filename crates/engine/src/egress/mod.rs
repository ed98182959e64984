//! Mail out: routes, connections, and the sessions on them.

mod connection;
mod delivery;
mod routing;
