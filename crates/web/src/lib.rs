//! Other servers over HTTP, for scripts: requests, websockets, server-sent events, secrets of Vault, and signatures that Amazon's services ask for.
//!
//! Owns [`Client`], [`Request`], [`Answer`], [`WebSocket`], [`EventSource`], [`vault`] and [`sigv4`]. In: URLs, header fields, bodies. Out: status,
//! header fields and content, which is bounded. Fails with [`WebError`], in the words of the library that knows. HTTP is
//! reqwest's, websockets are tungstenite's, certificates are verified as [`net::tls::Connectors`] does for mail.
//!
//! Deliberately absent: other nodes of the cluster and MTA-STS policies, which `net` asks on connections of its own.

mod client;
mod error;
mod event_source;
mod request;
pub mod sigv4;
pub mod vault;
mod websocket;

pub use client::{ANSWER_OCTETS_MAX, Answer, Client};
pub use error::WebError;
pub use event_source::{EVENT_OCTETS_MAX, EventSource, ServerEvent};
pub use request::{Content, Part, Request, with_parameters};
pub use reqwest::header::HeaderMap;
pub use reqwest::{Method, StatusCode};
pub use websocket::{MESSAGE_OCTETS_MAX, WebSocket};
