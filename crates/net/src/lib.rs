//! Sockets, TLS and names: the network seen by the engine.
//!
//! Owns listening ([`listen`]), connecting out ([`dial`]), if need be through a [`proxy`] or for the clients of one ([`proxied`]), TLS on either side ([`tls`],
//! [`tls_client`]), the stream type that hides whether TLS is on ([`Stream`]), and name resolution ([`dns`]), and
//! fetching what domains publish about TLS ([`mta_sts`]), and certificates judged by DNS ([`dane`]), and requests to other nodes ([`http_client`]), and what their libraries say went wrong ([`causes`]).
//! Layer 4: this is where bytes meet the kernel; no SMTP and no mail decisions here.

pub mod causes;
pub mod dane;
pub mod dial;
pub mod dns;
pub mod handshake_fault;
pub mod http_client;
pub mod identity;
pub mod listen;
pub mod mta_sts;
pub mod proxied;
pub mod proxy;
pub mod proxy_protocol;
pub mod socks5;
mod stream;
mod subject;
pub mod tls;
pub mod tls_client;
mod two_generations;
mod validity;

pub use stream::{Stream, TlsFacts};
