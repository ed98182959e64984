//! Reports to other domains about DMARC and TLS: counted while mail flows, kept on disk, sent when a period is over.
//!
//! Owns [`DomainReports`]: in go what checks and sessions saw, in nanoseconds and without waiting; out go messages, by an
//! [`Outbox`], and POSTs. Fails at the start only: a directory that cannot be had. Everything later is counted, logged, and
//! tried again as long as that makes sense.
//!
//! The rooms: `collector` (a thread that counts), `journal` (its file, and that of what was sent), `courier` (whom a report may
//! go to, and how it gets there), `poster` (over HTTPS), `sender` (which reports are due), `failures` (reports about single
//! messages), `waiting` (those of them that are still to be sent).
//! What a crash costs: what was seen in the last second ([`FLUSH_EVERY`]); a report that was handed over in that moment may be
//! sent again, under the same id. Bounds: [`WAITING_MAX`] observations on their way to the thread, and those of the options.
//!
//! Deliberately not here: how reports are written (`reports`), what a check finds, queues.

mod collector;
mod courier;
mod domain_reports;
mod failures;
mod journal;
mod kind;
mod outbox;
mod poster;
mod sender;
mod waiting;

pub use collector::{FLUSH_EVERY, WAITING_MAX};
pub use domain_reports::{DomainReports, Here};
pub use outbox::{Outbox, Outgoing};
