//! `salvage`: what still reads of damaged segments and of those in `corrupt/`, and where the rest was.
//!
//! Two walks: the first finds the best copy of each message, the second writes it, so that memory holds
//! ids and places only. A message that is not alive and that recovery knew was removed or has moved;
//! one that recovery never knew is *unaccounted*: nobody can say whether it was delivered.

use super::export::{Known, Target};
use super::into;
use super::reader::{DAMAGED, LogReader, SpoolReader};
use super::verify::{damages, in_use, is_aside, told};
use crate::output::{WELL, WRONG};
use anyhow::{Result, anyhow, ensure};
use message::{MessageId, Place};
use spool::{Fault, FileInfo, FileName, Inspection, RecoveredMessage, SpoolFiles, Standing, messages_in};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Options of `salvage`.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// Where to write the messages, as `export` does.
    #[arg(long, value_name = "DIR", required_unless_present = "into")]
    pub to: Option<PathBuf>,
    /// Messages too that were removed, as far as their octets are still there.
    #[arg(long, requires = "to")]
    pub include_removed: bool,
    /// Replaces files that are there.
    #[arg(long)]
    pub force: bool,
    /// A new spool, to hold every live message that reads. The old one must not be in use.
    #[arg(long, value_name = "NEW_SPOOL")]
    pub into: Option<PathBuf>,
}

/// What is known of a salvaged message's fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Status {
    Removed,
    Unaccounted,
    Live,
}

/// The best copy of a message that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Copy {
    /// Head and body read.
    whole: bool,
    /// Its envelope decodes.
    addressed: bool,
    /// It stands where the log says.
    current: bool,
    segment: u32,
    file: FileName,
    offset: u32,
    index: u16,
}

/// Runs it.
pub(super) fn run(reader: &LogReader, options: &Options, out: &mut dyn Write) -> Result<u8> {
    let seen = reader.inspect()?;
    let mut code = WELL;
    writeln!(out, "spool {}: {}", reader.files.dir().display(), in_use(reader.files.holder().as_deref()))?;
    if let Some(to) = &options.to {
        let mut salvage = Salvage { reader, seen: &seen, live: live(&seen), include_removed: options.include_removed };
        if !salvage.run(&Target::new(to, options.force)?, out)? {
            code = WRONG;
        }
    }
    if let Some(into) = &options.into
        && !into_new_spool(reader, (&seen.messages, seen.is_sound()), into, out)?
    {
        code = WRONG;
    }
    Ok(code)
}

/// Every live message into a new spool of the same kind; true when all of them read, and it `is_sound`, so that there were no others.
pub(super) fn into_new_spool(
    reader: &dyn SpoolReader,
    (messages, is_sound): (&[RecoveredMessage], bool),
    into: &Path,
    out: &mut dyn Write,
) -> Result<bool> {
    let holder = reader.files().holder();
    ensure!(
        holder.is_none(),
        "the spool is in use by {}: its mail would be sent twice; stop that process first",
        holder.unwrap_or_default()
    );
    // Until all is copied: the server may be started meanwhile.
    let _held = reader.files().hold().map_err(|error| {
        let dir = reader.files().dir().display();
        anyhow!("the spool {dir} cannot be locked, and its mail would be sent twice by whoever has it: {error}")
    })?;
    let has_all = into::run(reader, messages, into, out)?;
    if !is_sound {
        writeln!(out, "{DAMAGED}")?;
    }
    Ok(has_all && is_sound)
}

fn live(seen: &Inspection) -> BTreeMap<MessageId, &RecoveredMessage> {
    seen.messages.iter().map(|m| (m.id, m)).collect()
}

struct Salvage<'a> {
    reader: &'a LogReader,
    seen: &'a Inspection,
    live: BTreeMap<MessageId, &'a RecoveredMessage>,
    include_removed: bool,
}

impl Salvage<'_> {
    /// Writes what reads; true when everything did.
    fn run(&mut self, target: &Target, out: &mut dyn Write) -> Result<bool> {
        let files = self.files()?;
        let mut copies: BTreeMap<MessageId, (Copy, bool)> = BTreeMap::new();
        let mut faults = Vec::new();
        for (file, end) in &files {
            let found = messages_in(&*self.reader.files, file, *end, &mut |standing| {
                let copy = self.copy(file.name, &standing);
                let (best, known) = copies.entry(standing.id).or_insert((copy, false));
                *best = copy.max(*best);
                // Recovery knew it when it knew one copy of it with its envelope.
                *known |= standing.known && copy.addressed;
            });
            faults.extend(found.unwrap_or_default());
        }
        copies.retain(|id, (_, known)| self.include_removed || self.status(*id, *known) != Status::Removed);
        let mut counts = BTreeMap::new();
        for (file, end) in &files {
            let mut failed = Ok(());
            let gone = messages_in(&*self.reader.files, file, *end, &mut |standing| {
                let Some((best, known)) = copies.get(&standing.id) else { return };
                if failed.is_err() || self.copy(file.name, &standing) != *best {
                    return;
                }
                let status = self.status(standing.id, *known);
                if let (Some(head), Some(body)) = (standing.head, standing.body) {
                    failed = target.write(standing.id, &self.facts(&standing, status), head, body);
                    *counts.entry(status).or_insert(0_u64) += 1;
                    // Written once: another file may have a copy just as good.
                    copies.remove(&standing.id);
                }
            });
            failed?;
            drop(gone);
        }
        target.sync()?;
        self.report(&counts, &copies, &faults, out)?;
        Ok(copies.is_empty() && faults.is_empty() && self.seen.is_sound())
    }

    fn report(
        &self,
        counts: &BTreeMap<Status, u64>,
        unread: &BTreeMap<MessageId, (Copy, bool)>,
        faults: &[Fault],
        out: &mut dyn Write,
    ) -> Result<()> {
        for fault in faults {
            writeln!(out, "not read: {}", told(fault))?;
        }
        for (id, (copy, known)) in unread {
            let Copy { file, offset, .. } = copy;
            let status = self.status(*id, *known).name();
            writeln!(
                out,
                "not written: message {id} ({status}) in {file} at octet {offset}: head or body does not read"
            )?;
        }
        let count = |status| counts.get(&status).copied().unwrap_or(0);
        writeln!(
            out,
            "written: {} live, {} unaccounted, {} removed",
            count(Status::Live),
            count(Status::Unaccounted),
            count(Status::Removed)
        )?;
        Ok(())
    }

    /// The files to look through, and where the promised part of each ends.
    fn files(&self) -> Result<Vec<(FileInfo, Option<u64>)>> {
        let wanted = |f: &&spool::FileReport| self.include_removed || is_aside(f) || damages(f) > 0;
        let info = |f: &spool::FileReport| (FileInfo { name: f.name, octets: f.octets }, f.acknowledged_octets);
        let mut files: Vec<_> = self.seen.files.iter().filter(wanted).map(info).collect();
        if self.include_removed {
            // Released segments keep their octets until they are used again.
            let spares = self.reader.files.list()?;
            files.extend(spares.into_iter().filter(|f| matches!(f.name, FileName::Spare(_))).map(|f| (f, None)));
        }
        Ok(files)
    }

    fn copy(&self, file: FileName, standing: &Standing<'_>) -> Copy {
        let Place { segment, offset, index } = standing.place;
        let current = self.live.get(&standing.id).is_some_and(|m| m.place == standing.place);
        let whole = standing.head.is_some() && standing.body.is_some();
        Copy { whole, addressed: standing.envelope.is_some(), current, segment, file, offset, index }
    }

    fn status(&self, id: MessageId, known: bool) -> Status {
        match () {
            () if self.live.contains_key(&id) => Status::Live,
            () if known || self.seen.removed.contains(&id) => Status::Removed,
            () => Status::Unaccounted,
        }
    }

    fn facts(&self, standing: &Standing<'_>, status: Status) -> serde_json::Value {
        // What the log says of a live message is newer than what was written with it.
        let live = self.live.get(&standing.id);
        let octets = standing.head.map_or(0, <[u8]>::len) + standing.body.map_or(0, <[u8]>::len);
        let known = Known {
            id: standing.id,
            queue: live.map(|m| &*m.queue),
            attempts: live.map_or(standing.attempts, |m| m.attempts),
            due: live.map_or(standing.due, |m| m.due),
            settled: live.map_or(&standing.settled, |m| &m.settled),
            envelope: standing.envelope.as_ref().map(|(envelope, meta)| (envelope, meta)),
            octets,
        };
        let mut facts = known.as_json();
        facts["status"] = status.name().into();
        facts
    }
}

impl Status {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Status::Removed => "removed",
            Status::Unaccounted => "unaccounted",
            Status::Live => "live",
        }
    }
}
