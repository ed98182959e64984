//! `verify` of a spool of one file per message: every octet of every file, also of those set aside, and a verdict.
//!
//! The shape of the report is that of a log's, with a directory where the log has a segment.

use super::files_reader::FilesReader;
use super::verify::{FAULTS_SHOWN_MAX, Options, Verdict, in_use};
use crate::output::{WELL, WRONG, shown};
use anyhow::Result;
use serde_json::{Value, json};
use spool::local::{FILE_FAULTS_MAX, FileFault, FileFaultKind, FilesInspection, Folder, FolderReport};
use std::io::Write;

/// Runs it.
pub(super) fn run(reader: &FilesReader, options: &Options, out: &mut dyn Write) -> Result<u8> {
    let seen = reader.inspect(true)?;
    let holder = reader.files.holder();
    let aside = seen.folders.iter().any(|report| report.folder == Folder::Corrupt);
    let verdict = Verdict::new(seen.is_sound(), aside);
    if options.json() {
        serde_json::to_writer_pretty(&mut *out, &as_json(reader, &seen, holder.as_deref(), verdict))?;
        writeln!(out)?;
    } else {
        print(reader, &seen, holder.as_deref(), verdict, out)?;
    }
    Ok(if verdict == Verdict::Sound { WELL } else { WRONG })
}

fn print(
    reader: &FilesReader,
    seen: &FilesInspection,
    holder: Option<&str>,
    verdict: Verdict,
    out: &mut dyn Write,
) -> Result<()> {
    writeln!(out, "spool {}: {}", reader.files.dir().display(), in_use(holder))?;
    writeln!(
        out,
        "{:<22} {:>8} {:>11} {:>8} {:>9} {:>8} {:>8} {:>8} {:>8}",
        "DIRECTORY", "STATE", "OCTETS", "FILES", "LIVE", "DAMAGED", "CONTENTS", "NEWER", "UNREAD"
    )?;
    for folder in &seen.folders {
        writeln!(
            out,
            "{:<22} {:>8} {:>11} {:>8} {:>9} {:>8} {:>8} {:>8} {:>8}",
            folder.folder.to_string(),
            state(folder),
            folder.octets,
            folder.files,
            folder.live_messages,
            folder.damaged_files,
            folder.damaged_contents,
            folder.newer_files,
            folder.unreadable_files
        )?;
    }
    for fault in seen.faults.iter().take(FAULTS_SHOWN_MAX) {
        writeln!(out, "damage: {}", told(fault))?;
    }
    let not_shown = seen.faults.len().saturating_sub(FAULTS_SHOWN_MAX) as u64 + seen.faults_not_listed;
    if not_shown > 0 {
        writeln!(out, "damage: {not_shown} more files; --json lists up to {FILE_FAULTS_MAX}")?;
    }
    let sum = |count: fn(&FolderReport) -> u64| seen.folders.iter().map(count).sum::<u64>();
    writeln!(
        out,
        "{} files, {} octets read; {} messages alive, {} octets of mail; {} files of unfinished or settled messages",
        sum(|f| f.files),
        sum(|f| f.octets),
        seen.messages.len(),
        seen.messages.iter().map(|m| u64::from(m.size)).sum::<u64>(),
        seen.unfinished
    )?;
    if seen.strange > 0 {
        writeln!(out, "{} names are none of the spool's", seen.strange)?;
    }
    writeln!(
        out,
        "{}",
        match verdict {
            Verdict::Sound => "sound",
            Verdict::DamagedAside => "the messages are sound; files in corrupt/ were set aside: look at them with less",
            Verdict::Damaged => "DAMAGED: postrider spool salvage saves what reads",
        }
    )?;
    Ok(())
}

fn as_json(reader: &FilesReader, seen: &FilesInspection, holder: Option<&str>, verdict: Verdict) -> Value {
    let folder = |f: &FolderReport| {
        json!({
            "file": f.folder.to_string(),
            "state": state(f),
            "octets": f.octets,
            "messages": f.files,
            "live_messages": f.live_messages,
            "live_octets": f.live_octets,
            "damaged_files": f.damaged_files,
            "damaged_contents": f.damaged_contents,
            "newer_files": f.newer_files,
            "unreadable_files": f.unreadable_files,
        })
    };
    let fault = |f: &FileFault| {
        let words = match &f.what {
            FileFaultKind::Unreadable(words) => Some(words),
            _ => None,
        };
        let (file, id, what) = (f.name.to_string(), f.name.id().to_string(), f.what.name());
        json!({"file": file, "offset": 0, "octets": f.octets, "what": what, "id": id, "error": words})
    };
    json!({
        "spool": reader.files.dir(),
        "in_use_by": holder,
        "files": seen.folders.iter().map(folder).collect::<Vec<_>>(),
        "faults": seen.faults.iter().map(fault).collect::<Vec<_>>(),
        "faults_not_listed": seen.faults_not_listed,
        "live_messages": seen.messages.len(),
        "unfinished_files": seen.unfinished,
        "unfinished_transactions": seen.unfinished_transactions,
        "torn_marks": seen.torn_marks,
        "strange_names": seen.strange,
        "verdict": verdict.name(),
    })
}

/// A fault in one line.
pub(super) fn told(fault: &FileFault) -> String {
    let name = fault.name;
    match &fault.what {
        FileFaultKind::NotWhole => format!("{name}: {} octets are no whole message", fault.octets),
        FileFaultKind::Content => format!("{name}: head or body is not what was written"),
        FileFaultKind::Newer(version) => format!("{name}: version {version}, written by a newer program"),
        FileFaultKind::Unreadable(words) => format!("{name}: the disk refuses: {}", shown(words)),
    }
}

fn state(report: &FolderReport) -> &'static str {
    match report {
        report if report.folder == Folder::Corrupt => "aside",
        report if report.faults() > 0 => "damaged",
        _ => "sound",
    }
}
