//! `salvage --into`: a new spool of the same kind with every live message that reads, written by the engine itself.
//!
//! Attempts, due times and settled recipients are kept: appended, then marked. Messages that share a body
//! go on sharing it. The new spool counts only once the last line says so: a run that was cut short is thrown away.

use super::reader::{Reader, SpoolReader};
use anyhow::{Context, Result, ensure};
use message::{Place, Sealed};
use nix::libc::O_NOFOLLOW;
use nix::unistd::geteuid;
use spool::{Mark, RecoveredMessage, Settings, SpoolError};
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, lchown};
use std::path::Path;
use store::{Options, OrdersFile, SpoolHandle};

/// Writes it; true when every message was read.
pub(super) fn run(
    reader: &dyn SpoolReader,
    messages: &[RecoveredMessage],
    into: &Path,
    out: &mut dyn Write,
) -> Result<bool> {
    let there = fs::read_dir(into).map(|mut entries| entries.next().is_some()).unwrap_or(into.exists());
    ensure!(!there, "{} is there and not empty: name a new directory", into.display());
    // A log keeps the names of queues too.
    let settings = Settings { queue_of: reader.queue_of(), ..Settings::default() };
    let options = Options { kind: reader.kind(), settings, ..Options::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (written, unread) = runtime.block_on(async {
        let (spool, _) = store::open(into, options)?;
        let counts = copy(reader, messages, &spool).await;
        let closed = spool.close().await;
        let counts = counts?;
        closed?;
        anyhow::Ok(counts)
    })?;
    let (is_sound, read_back) = Reader::open(into, reader.queue_of())?.any().check()?;
    ensure!(
        is_sound && read_back == written,
        "{}: {written} messages were written and {read_back} read back: do not use it",
        into.display(),
    );
    let from = reader.files().dir();
    let has_orders = bring_orders(from, into, out)?;
    give_to_owner_of(from, into)?;
    writeln!(out, "{written} live messages written to the new spool {}", into.display())?;
    if unread > 0 {
        writeln!(out, "{unread} live messages do not read: not in it")?;
    }
    Ok(unread == 0 && has_orders)
}

/// Standing orders, without which what is held would go out, and the node's name. False where the orders do not read.
fn bring_orders(from: &Path, into: &Path, out: &mut dyn Write) -> Result<bool> {
    let node_id = from.join(NODE_ID);
    // Whoever owns the old spool may have put a link there, and gets what is written.
    match OpenOptions::new().read(true).custom_flags(O_NOFOLLOW).open(&node_id) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        file => {
            let mut name = String::new();
            let read = file.and_then(|file| file.take(NODE_ID_OCTETS_MAX).read_to_string(&mut name));
            read.with_context(|| format!("copying {}", node_id.display()))?;
            fs::write(into.join(NODE_ID), name)?;
        }
    }
    let orders = match OrdersFile::open(from) {
        Ok((_, orders)) => orders,
        Err(error) => {
            writeln!(out, "the standing orders are not in it, and what they hold would go out: {error}")?;
            return Ok(false);
        }
    };
    if !orders.is_empty() {
        let (file, _) = OrdersFile::open(into)?;
        let all: Vec<_> = orders.iter().collect();
        file.write(&all).with_context(|| format!("writing the standing orders to {}", into.display()))?;
        writeln!(out, "{} standing orders came along", orders.len())?;
    }
    Ok(true)
}

/// Root's work is of use to whom the old spool belongs only where it is his.
fn give_to_owner_of(from: &Path, into: &Path) -> Result<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let owner = fs::metadata(from).with_context(|| format!("whose {} is", from.display()))?;
    // What is inside first: in a folder that is his he may put other things into the place of what is still to be given.
    let mut places = vec![into.to_owned()];
    let mut looked_at = 0;
    while let Some(place) = places.get(looked_at).cloned() {
        looked_at += 1;
        if fs::symlink_metadata(&place)?.is_dir() {
            for entry in fs::read_dir(&place)? {
                places.push(entry?.path());
            }
        }
    }
    for place in places.iter().rev() {
        let given = lchown(place, Some(owner.uid()), Some(owner.gid()));
        given.with_context(|| format!("giving {} away", place.display()))?;
    }
    Ok(())
}

/// How many messages were written, and how many do not read.
async fn copy(reader: &dyn SpoolReader, messages: &[RecoveredMessage], spool: &SpoolHandle) -> Result<(u64, u64)> {
    let (mut written, mut unread) = (0, 0);
    // Those of one record stand side by side and share a body.
    for group in messages.chunk_by(|a, b| a.place != Place::OWN_FILE && record(a.place) == record(b.place)) {
        let mut sealed = Vec::with_capacity(group.len());
        let mut marks = Vec::new();
        for message in group {
            match reader.load(message.id, message.place) {
                Ok(Some(resident)) => {
                    marks.extend(marks_of(message));
                    let message::Resident { envelope, meta, head, body } = resident;
                    sealed.push(Sealed { id: message.id, envelope, meta, head, body, due: message.due });
                }
                Ok(None) => {}
                Err(error @ (SpoolError::Damaged { .. } | SpoolError::Io { .. } | SpoolError::File { .. })) => {
                    eprintln!("{error}");
                    unread += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
        if !sealed.is_empty() {
            written += sealed.len() as u64;
            let _ = spool.append(vec![sealed]).await.context("cannot write to the new spool")?;
            marks.into_iter().for_each(|mark| spool.mark(mark));
        }
    }
    spool.flush().await.context("cannot write to the new spool")?;
    Ok((written, unread))
}

/// Where a node keeps its name, unless it is told otherwise.
const NODE_ID: &str = ".nodeid";
/// Longer than any name of a node.
const NODE_ID_OCTETS_MAX: u64 = 64;

fn record(place: Place) -> (u32, u32) {
    (place.segment, place.offset)
}

/// What happened to a message since it was appended.
fn marks_of(message: &RecoveredMessage) -> Vec<Mark> {
    let (id, attempts, due) = (message.id, message.attempts, message.due);
    let mut marks = Vec::new();
    if attempts > 0 {
        marks.push(Mark::Attempt { id, attempts, due });
    }
    let settled: Vec<u32> = (0..message.recipients).filter(|r| message.settled.contains(*r)).map(u32::from).collect();
    if !settled.is_empty() {
        marks.push(Mark::RecipientsDone { id, recipients: settled });
    }
    marks
}
