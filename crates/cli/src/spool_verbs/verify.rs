//! `verify`: every octet of every segment, also of those set aside, and a verdict.

use super::Json;
use super::reader::LogReader;
use crate::output::{WELL, WRONG, shown};
use anyhow::Result;
use serde_json::{Value, json};
use spool::{Fault, FaultKind, FileName, FileReport, Inspection};
use std::io::Write;

/// Options of `verify`.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    #[command(flatten)]
    json: Json,
}

/// What the figures come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Sound,
    /// Only in `corrupt/`, where nothing that counts is.
    DamagedAside,
    Damaged,
}

/// Runs it.
pub(super) fn run(reader: &LogReader, options: &Options, out: &mut dyn Write) -> Result<u8> {
    let seen = reader.inspect()?;
    let holder = reader.files.holder();
    let verdict = verdict(&seen);
    if options.json.json {
        serde_json::to_writer_pretty(&mut *out, &as_json(reader, &seen, holder.as_deref(), verdict))?;
        writeln!(out)?;
    } else {
        print(reader, &seen, holder.as_deref(), verdict, out)?;
    }
    Ok(if verdict == Verdict::Sound { WELL } else { WRONG })
}

fn verdict(seen: &Inspection) -> Verdict {
    Verdict::new(seen.is_sound(), seen.files.iter().any(|f| damages(f) > 0 && is_aside(f)))
}

impl Options {
    /// For machines.
    pub fn json(&self) -> bool {
        self.json.json
    }
}

impl Verdict {
    /// Nothing that counts is damaged; something in `corrupt/` is.
    pub fn new(is_sound: bool, damaged_aside: bool) -> Verdict {
        match (is_sound, damaged_aside) {
            (false, _) => Verdict::Damaged,
            (true, true) => Verdict::DamagedAside,
            (true, false) => Verdict::Sound,
        }
    }

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Sound => "sound",
            Verdict::DamagedAside => "damaged_aside",
            Verdict::Damaged => "damaged",
        }
    }
}

fn print(
    reader: &LogReader,
    seen: &Inspection,
    holder: Option<&str>,
    verdict: Verdict,
    out: &mut dyn Write,
) -> Result<()> {
    writeln!(out, "spool {}: {}", reader.files.dir().display(), in_use(holder))?;
    writeln!(
        out,
        "{:<22} {:>8} {:>11} {:>8} {:>9} {:>9} {:>8} {:>8} {:>8} {:>8}",
        "FILE", "STATE", "OCTETS", "BATCHES", "MESSAGES", "LIVE", "DAMAGED", "RECORDS", "STATES", "UNREAD"
    )?;
    for file in &seen.files {
        writeln!(
            out,
            "{:<22} {:>8} {:>11} {:>8} {:>9} {:>9} {:>8} {:>8} {:>8} {:>8}",
            file.name.to_string(),
            state(file),
            file.octets,
            file.batches,
            file.messages,
            file.live_messages,
            file.damaged_batches + file.damaged_headers,
            file.damaged_records,
            file.damaged_states,
            file.unreadable_pages
        )?;
    }
    for fault in seen.faults.iter().take(FAULTS_SHOWN_MAX) {
        writeln!(out, "damage: {}", told(fault))?;
    }
    let not_shown = seen.faults.len().saturating_sub(FAULTS_SHOWN_MAX) as u64 + seen.faults_not_listed;
    if not_shown > 0 {
        writeln!(out, "damage: {not_shown} more places; --json lists up to {}", spool::FAULTS_MAX)?;
    }
    let sum = |count: fn(&FileReport) -> u64| seen.files.iter().map(count).sum::<u64>();
    writeln!(
        out,
        "{} segments, {} octets read; {} messages alive, {} octets of mail; {} octets of an unfinished commit",
        seen.files.len(),
        sum(|f| f.octets),
        seen.messages.len(),
        sum(|f| f.live_octets),
        sum(|f| f.torn_tail_octets)
    )?;
    if seen.released_meanwhile > 0 {
        writeln!(
            out,
            "{} segments were released while they were read: their mail was found in newer ones",
            seen.released_meanwhile
        )?;
    }
    writeln!(
        out,
        "{}",
        match verdict {
            Verdict::Sound => "sound",
            Verdict::DamagedAside =>
                "the log is sound; segments in corrupt/ are damaged: postrider spool salvage saves what reads",
            Verdict::Damaged => "DAMAGED: postrider spool salvage saves what reads",
        }
    )?;
    Ok(())
}

fn as_json(reader: &LogReader, seen: &Inspection, holder: Option<&str>, verdict: Verdict) -> Value {
    let file = |f: &FileReport| {
        json!({
            "file": f.name.to_string(),
            "state": state(f),
            "octets": f.octets,
            "batches": f.batches,
            "messages": f.messages,
            "marks": f.marks,
            "live_messages": f.live_messages,
            "live_octets": f.live_octets,
            "damaged_headers": f.damaged_headers,
            "damaged_batches": f.damaged_batches,
            "damaged_records": f.damaged_records,
            "damaged_states": f.damaged_states,
            "unreadable_pages": f.unreadable_pages,
            "torn_tail_octets": f.torn_tail_octets,
        })
    };
    let fault = |f: &Fault| {
        let (id, words) = match &f.what {
            FaultKind::State(id) => (Some(id.to_string()), None),
            FaultKind::Unreadable(words) => (None, Some(words)),
            _ => (None, None),
        };
        let (file, what) = (f.file.to_string(), f.what.name());
        json!({"file": file, "offset": f.offset, "octets": f.octets, "what": what, "id": id, "error": words})
    };
    json!({
        "spool": reader.files.dir(),
        "in_use_by": holder,
        "files": seen.files.iter().map(file).collect::<Vec<_>>(),
        "faults": seen.faults.iter().map(fault).collect::<Vec<_>>(),
        "faults_not_listed": seen.faults_not_listed,
        "live_messages": seen.messages.len(),
        "floor": seen.floor,
        "released_meanwhile": seen.released_meanwhile,
        "verdict": verdict.name(),
    })
}

/// Whether somebody has the spool open.
pub(super) fn in_use(holder: Option<&str>) -> String {
    holder.map_or_else(|| "not in use".to_owned(), |holder| format!("in use by {holder}"))
}

/// A fault in one line.
pub(super) fn told(fault: &Fault) -> String {
    let place = format!("{} at octet {}", fault.file, fault.offset);
    match &fault.what {
        FaultKind::Header => format!("{place}: the header page does not read"),
        FaultKind::Batch => format!("{place}: {} octets are no whole batch", fault.octets),
        FaultKind::Record => format!("{place}: a record does not read"),
        FaultKind::State(id) => format!("{place}: the envelope of message {id} does not decode"),
        FaultKind::Unreadable(words) => format!("{place}: the disk refuses: {}", shown(words)),
        FaultKind::Missing => format!("{}: a later segment names it, and it is not there", fault.file),
    }
}

fn state(file: &FileReport) -> &'static str {
    match file {
        file if is_aside(file) => "aside",
        file if file.released => "released",
        file if damages(file) > 0 => "damaged",
        _ => "sound",
    }
}

/// Everything in a file that does not read.
pub(super) fn damages(file: &FileReport) -> u64 {
    file.damaged_headers + file.damaged_batches + file.damaged_records + file.damaged_states + file.unreadable_pages
}

pub(super) fn is_aside(file: &FileReport) -> bool {
    matches!(file.name, FileName::Aside(..))
}

/// Places of damage printed for people.
pub(super) const FAULTS_SHOWN_MAX: usize = 50;
