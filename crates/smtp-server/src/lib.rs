//! The receiving SMTP session as a machine without I/O (RFC 5321 with PIPELINING, 8BITMIME,
//! SMTPUTF8, SIZE, CHUNKING, ENHANCEDSTATUSCODES, STARTTLS and AUTH).
//!
//! [`Session`] owns one client's dialogue: the order of commands, the open transaction, limits
//! and deadlines, and every reply text. In: octets from the client ([`Session::feed`]), answers
//! of policy ([`Session::answer`]), the time. Out: octets to write ([`Session::output`]) and what
//! the driver has to do next ([`Step`]). One file a verb; texts as KumoMTA's where it has them.
//!
//! Two promises live here. Nobody answers 250 to a message without a [`spool::Receipt`]: the only
//! way is [`Answer::Accepted`]. And no octet of a refused message ever becomes a command: content
//! is read to its true end, chunks are read and thrown away, and where the end cannot be known
//! the session closes.
//!
//! Deliberately absent: sockets, TLS itself, relay permission and policy (questions to the
//! driver), Received headers, message ids, logs (the driver writes [`Rejection`]s).

mod admission;
mod auth;
mod bdat;
mod data;
mod deadline;
mod ehlo;
mod greeting;
mod mail;
mod question;
mod rcpt;
mod reject;
mod session;
mod settings;
mod starttls;
mod texts;
mod xclient;

pub use admission::Admission;
pub use question::{Answer, Disconnect, Identity, Question, TlsInfo, Transaction};
pub use reject::Rejection;
pub use session::{RECEIVE_BUFFER_MIN, Said, Session, Step};
pub use settings::{Interest, Settings};
pub use smtp_wire::command::{BodyType, MailParams, RcptParams};
pub use smtp_wire::data::InvalidLineEndings;
