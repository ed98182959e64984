//! The words of SMTP: addresses, commands, replies and the scanners that find them in bytes.
//!
//! Layer 0: no I/O, no clock, no policy. Everything received is parsed here once into a type;
//! everything sent is encoded here. Each parser is incremental over a caller's buffer, says how
//! much it consumed, and is bounded by a named limit. Nothing here decides whether a command is
//! *allowed*: that is `smtp-server`; nor what a reply *means* for a message: `smtp-client`.

pub mod address;
pub mod body;
pub mod capability;
pub mod command;
pub mod data;
pub mod dot;
pub mod dots;
pub mod dsn;
pub mod enhanced;
pub mod line;
pub mod reply;
pub mod reply_reader;

pub use address::{AddressError, Mailbox, ReversePath};
pub use body::Body;
pub use capability::Capabilities;
pub use command::{Command, CommandError};
pub use dsn::Dsn;
pub use enhanced::EnhancedCode;
pub use reply::Reply;
