//! `cat`: one message to stdout, as it would be sent.

use super::export::facts;
use super::id;
use super::reader::{DAMAGED, SpoolReader};
use crate::output::WELL;
use anyhow::{Result, anyhow};
use std::io::Write;

/// Options of `cat`.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// The message.
    id: String,
    /// Envelope, metadata and state before it, as one JSON object and an empty line.
    #[arg(long)]
    envelope: bool,
}

/// Runs it.
pub(super) fn run(reader: &dyn SpoolReader, options: &Options, out: &mut dyn Write) -> Result<u8> {
    let id = id(&options.id)?;
    let (messages, is_sound) = reader.messages()?;
    let gone = || match is_sound {
        true => anyhow!("no message {id} in this spool: it was never here, or it is settled"),
        false => anyhow!(
            "no message {id} that reads in this spool: it was never here, it is settled, or what held it does not read. {DAMAGED}"
        ),
    };
    let message = messages.into_iter().find(|m| m.id == id).ok_or_else(gone)?;
    let resident = reader.load(id, message.place)?.ok_or_else(gone)?;
    if options.envelope {
        serde_json::to_writer_pretty(&mut *out, &facts(&message, &resident))?;
        out.write_all(b"\n\n")?;
    }
    out.write_all(&resident.head)?;
    out.write_all(&resident.body)?;
    Ok(WELL)
}
