//! `salvage` of a spool of one file per message: what reads of the files in `corrupt/`, and every live message into a new spool.
//!
//! A damaged file is its own best copy: its first line and its mail are there to be read by people. So nothing is
//! guessed here: a file whose checksums hold is written as `export` writes it, every other one is named.

use super::export::{Known, Target};
use super::files_reader::FilesReader;
use super::salvage::{Options, Status, into_new_spool};
use super::verify::in_use;
use super::verify_files::told;
use crate::output::{WELL, WRONG};
use anyhow::{Result, ensure};
use clock::WallTime;
use message::{MessageId, Resident, Settled};
use spool::local::{FilesInspection, Folder, LocalName, ReadFiles, load};
use std::collections::BTreeSet;
use std::io::{ErrorKind, Write};

/// Runs it.
pub(super) fn run(reader: &FilesReader, options: &Options, out: &mut dyn Write) -> Result<u8> {
    ensure!(
        !options.include_removed,
        "--include-removed: a removed message's file is gone; only a log keeps such octets"
    );
    let seen = reader.inspect(true)?;
    let mut code = WELL;
    writeln!(out, "spool {}: {}", reader.files.dir().display(), in_use(reader.files.holder().as_deref()))?;
    if let Some(to) = &options.to
        && !save(reader, &seen, &Target::new(to, options.force)?, out)?
    {
        code = WRONG;
    }
    if let Some(into) = &options.into
        && !into_new_spool(reader, (&seen.messages, seen.is_sound()), into, out)?
    {
        code = WRONG;
    }
    Ok(code)
}

/// Writes what reads of the files in `corrupt/`; true when nothing is damaged.
fn save(reader: &FilesReader, seen: &FilesInspection, target: &Target, out: &mut dyn Write) -> Result<bool> {
    let live: BTreeSet<MessageId> = seen.messages.iter().map(|m| m.id).collect();
    let mut names = Vec::new();
    match reader.files.list(Folder::Corrupt, &mut |name| names.extend(Folder::Corrupt.parse(name))) {
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        listed => listed?,
    }
    names.sort_unstable();
    let (mut counts, mut done) = ([0_u64; 2], BTreeSet::new());
    for name in names {
        let id = name.id();
        let Ok(resident) = load(&reader.files, name) else { continue };
        if !done.insert(id) {
            continue;
        }
        let status = if live.contains(&id) { Status::Live } else { Status::Unaccounted };
        target.write(id, &facts(name, &resident, status), &resident.head, &resident.body)?;
        counts[usize::from(status == Status::Live)] += 1;
    }
    target.sync()?;
    for fault in &seen.faults {
        writeln!(out, "not written: {}", told(fault))?;
    }
    writeln!(out, "written: {} live, {} unaccounted, 0 removed", counts[1], counts[0])?;
    Ok(seen.faults.is_empty() && seen.faults_not_listed == 0)
}

fn facts(name: LocalName, resident: &Resident, status: Status) -> serde_json::Value {
    let known = Known {
        id: name.id(),
        queue: None,
        attempts: 0,
        due: WallTime::EPOCH,
        settled: &Settled::default(),
        envelope: Some((&resident.envelope, &resident.meta)),
        octets: resident.head.len() + resident.body.len(),
    };
    let mut facts = known.as_json();
    facts["status"] = status.name().into();
    facts
}
