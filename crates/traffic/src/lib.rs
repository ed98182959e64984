//! The two load tools of the multi-call program: `traffic-gen` and `smtp-sink`.
//!
//! `traffic_gen` makes mail and puts it into a server over SMTP or the injection API; `smtp_sink` swallows what a
//! relay delivers. Together they close a loop: every message carries an id and a checksum of its body, the generator
//! writes down each id answered 250, the sink each id that arrived and whether it arrived whole, and comparing the
//! two ledgers shows what was lost, doubled or damaged.
//!
//! Both tools run on the same cores as the server they measure, so their own cost is their first property: at most
//! 15 us of CPU for a 10 KB message and 30 us for a 100 KB one. `examples/loopback.rs` measures it.
//!
//! In: a command line. Out: an exit code, a report, ledgers. This crate knows nothing of the server's own rooms and
//! shares no code with them on purpose: a framing mistake made in both would cancel itself out.

mod ledger;
mod process;
pub mod smtp_sink;
pub mod traffic_gen;
