//! `kcli` asks a running server and gives it orders; `tailer` prints what it logs.
//!
//! In: a command line, and for `kcli` the server's HTTP listener. Out: text or JSON on stdout, notes and what went wrong on
//! stderr, an exit code: 0 it is done, 1 it is not, 2 the command line is wrong. Verbs, options and what they print are
//! KumoMTA's, so that scripts of its users go on; what is added is listed in docs/kcli.md. Every verb is a call or a few of
//! the HTTP API, in a file of its own.
//!
//! Deliberately absent: what an order does and what an answer means (engine, queue, admin), and reading a spool (cli).

mod criteria;
mod inspect;
mod metrics;
mod moving;
mod orders;
mod output;
pub mod pages;
mod provider_summary;
mod queue_summary;
mod ready_name;
mod record_filter;
mod screen;
mod search;
mod server;
mod tailer;
mod times;
mod top;
mod trace;
mod trace_text;
mod upkeep;
mod verb;
mod why;
mod why_facts;
mod why_reply;
mod why_words;

pub use tailer::{Options as TailerOptions, tailer, tailer_to};
pub use verb::{Kcli, run, run_to};
