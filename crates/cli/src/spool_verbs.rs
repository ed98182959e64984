//! `postrider spool VERB`: what an operator asks of a spool, or saves from it.
//!
//! This page is the map from verbs to files. Where the spool is comes from `--spool`, else from where
//! `postrider serve` keeps it.

mod cat;
mod export;
mod files_reader;
mod into;
mod list;
mod reader;
mod salvage;
mod salvage_files;
mod still;
mod verify;
mod verify_files;

use crate::output::{on_stdout, parsed};
use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use message::MessageId;
use reader::Reader;
use spool::QueueOf;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// What the program knows and this crate does not.
#[derive(Clone, Debug)]
pub struct Defaults {
    /// Where `postrider serve` keeps its spool.
    pub spool_dir: PathBuf,
    /// What the server has the spool keep beside a message: its queue, and behind a NUL its own end.
    pub queue_of: QueueOf,
}

/// Looks at a spool, or saves mail from it. The spool may be in use; nothing is written to it.
#[derive(Debug, Parser)]
#[command(name = "postrider spool", version)]
pub struct Options {
    /// The spool: the directory of kumo.define_spool{name='data'}. Default: that of `postrider serve`.
    #[arg(long, value_name = "DIR", global = true)]
    spool: Option<PathBuf>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Reads every octet; exit 0: sound, 1: damage found, 2: could not look.
    Verify(verify::Options),
    /// The messages in it, oldest first.
    List(list::Options),
    /// One message, as it would be sent.
    Cat(cat::Options),
    /// Writes messages to files: ID.eml and ID.json.
    Export(export::Options),
    /// Saves what still reads of damaged segments or files and of those in corrupt/.
    Salvage(salvage::Options),
}

/// `--json`.
#[derive(Clone, Copy, Debug, Args)]
struct Json {
    /// For machines.
    #[arg(long)]
    json: bool,
}

/// `postrider spool` on stdout.
///
/// # Errors
/// None: they are told on stderr. The shape is that of the program's other tools.
pub fn run(arguments: Vec<OsString>, defaults: Defaults) -> anyhow::Result<ExitCode> {
    Ok(on_stdout(|out| run_to(arguments, defaults, out)))
}

/// `postrider spool`, its text to `out`; the exit code.
///
/// # Errors
/// Why the spool could not be looked at, or what was saved from it not written.
pub fn run_to(arguments: Vec<OsString>, defaults: Defaults, out: &mut dyn Write) -> anyhow::Result<u8> {
    let options: Options = match parsed(arguments)? {
        Ok(options) => options,
        Err(code) => return Ok(code),
    };
    let dir = options.spool.unwrap_or(defaults.spool_dir);
    let reader = Reader::open(&dir, defaults.queue_of)?;
    match (options.verb, &reader) {
        (Verb::Verify(verb), Reader::Log(log)) => verify::run(log, &verb, out),
        (Verb::Verify(verb), Reader::Files(files)) => verify_files::run(files, &verb, out),
        (Verb::List(verb), reader) => list::run(reader.any(), &verb, out),
        (Verb::Cat(verb), reader) => cat::run(reader.any(), &verb, out),
        (Verb::Export(verb), reader) => export::run(reader.any(), &verb, out),
        (Verb::Salvage(verb), Reader::Log(log)) => salvage::run(log, &verb, out),
        (Verb::Salvage(verb), Reader::Files(files)) => salvage_files::run(files, &verb, out),
    }
}

/// A message id on a command line.
fn id(text: &str) -> anyhow::Result<MessageId> {
    text.parse().with_context(|| format!("`{text}`"))
}
