//! `export`: messages as files, `ID.eml` and `ID.json`, durable before it says so.
//!
//! The JSON is written after the mail it belongs to: where both are, both are whole. What is there
//! already is left alone unless `--force` is given.

use super::id;
use super::reader::{DAMAGED, SpoolReader};
use crate::output::{WELL, WRONG, queue_name, time};
use anyhow::{Context, Result, bail};
use clock::WallTime;
use message::{Envelope, MessageId, Meta, Resident, Settled};
use serde_json::{Value, json};
use spool::RecoveredMessage;
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Options of `export`.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// The messages.
    #[arg(required_unless_present = "all", conflicts_with = "all", value_name = "ID")]
    ids: Vec<String>,
    /// Every message in the spool.
    #[arg(long)]
    all: bool,
    /// Where to write; made if it is not there.
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Replaces files that are there.
    #[arg(long)]
    force: bool,
}

/// Runs it.
pub(super) fn run(reader: &dyn SpoolReader, options: &Options, out: &mut dyn Write) -> Result<u8> {
    let wanted = options.ids.iter().map(|text| id(text)).collect::<Result<Vec<_>>>()?;
    let (messages, is_sound) = reader.messages()?;
    let chosen: Vec<&RecoveredMessage> = if options.all {
        messages.iter().collect()
    } else {
        let by_id: BTreeMap<_, _> = messages.iter().map(|m| (m.id, m)).collect();
        let find = |id: &MessageId| by_id.get(id).copied().with_context(|| format!("no message {id} in this spool"));
        wanted.iter().map(find).collect::<Result<_>>()?
    };
    let target = Target::new(&options.to, options.force)?;
    let (mut written, mut left, mut unread) = (0_u64, 0_u64, 0_u64);
    for message in chosen {
        match reader.load(message.id, message.place) {
            Ok(Some(resident)) => {
                target.write(message.id, &facts(message, &resident), &resident.head, &resident.body)?;
                written += 1;
            }
            Ok(None) => left += 1,
            Err(error) => {
                eprintln!("{error}");
                unread += 1;
            }
        }
    }
    target.sync()?;
    writeln!(out, "{written} messages written to {}", options.to.display())?;
    if left > 0 {
        writeln!(out, "{left} messages were settled and left the spool meanwhile")?;
    }
    if unread > 0 {
        writeln!(out, "{unread} messages do not read: not written")?;
    }
    let may_miss = options.all && !is_sound;
    if may_miss {
        writeln!(out, "{DAMAGED}")?;
    }
    Ok(if unread > 0 || may_miss { WRONG } else { WELL })
}

/// A directory that messages are written to.
pub(super) struct Target {
    dir: PathBuf,
    force: bool,
}

impl Target {
    /// Makes the directory if need be.
    pub fn new(dir: &Path, force: bool) -> Result<Target> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
        made.with_context(|| format!("cannot create {}", dir.display()))?;
        Ok(Target { dir: dir.to_owned(), force })
    }

    /// Writes a message's two files; their octets are durable, their names after [`Target::sync`].
    pub fn write(&self, id: MessageId, facts: &Value, head: &[u8], body: &[u8]) -> Result<()> {
        let mut json = serde_json::to_vec_pretty(facts)?;
        json.push(b'\n');
        let json_path = self.dir.join(format!("{id}.json"));
        if !self.force && json_path.exists() {
            bail!("{} is there already: --force replaces it", json_path.display());
        }
        self.put(&self.dir.join(format!("{id}.eml")), &[head, body])?;
        self.put(&json_path, &[&json])
    }

    /// Makes the names durable.
    pub fn sync(&self) -> Result<()> {
        let synced = File::open(&self.dir).and_then(|dir| dir.sync_all());
        synced.with_context(|| format!("cannot sync {}", self.dir.display()))?;
        // The directory itself may be new.
        let above = self.dir.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let synced = File::open(above).and_then(|dir| dir.sync_all());
        synced.with_context(|| format!("cannot sync {}", above.display()))
    }

    fn put(&self, path: &Path, parts: &[&[u8]]) -> Result<()> {
        let part = path.with_extension("part");
        let at = if self.force { &part } else { path };
        let written = write_synced(at, parts, self.force)
            .and_then(|()| if self.force { fs::rename(&part, path) } else { Ok(()) });
        match written {
            Ok(()) => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                bail!("{} is there already: --force replaces it", path.display())
            }
            Err(e) => {
                // Half a message must not be taken for one. Best effort: the first error is what counts.
                let _ = fs::remove_file(at);
                Err(e).with_context(|| format!("cannot write {}", path.display()))
            }
        }
    }
}

fn write_synced(path: &Path, parts: &[&[u8]], replace: bool) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600).create(true).truncate(true);
    let mut file = options.create_new(!replace).open(path)?;
    parts.iter().try_for_each(|part| file.write_all(part))?;
    file.sync_all()
}

/// What a spool knows of a message, beside its octets.
pub(super) struct Known<'a> {
    pub id: MessageId,
    pub queue: Option<&'a str>,
    pub attempts: u16,
    pub due: WallTime,
    pub settled: &'a Settled,
    pub envelope: Option<(&'a Envelope, &'a Meta)>,
    /// Head and body.
    pub octets: usize,
}

/// The facts of a live message.
pub(super) fn facts(message: &RecoveredMessage, resident: &Resident) -> Value {
    Known {
        id: message.id,
        queue: Some(&message.queue),
        attempts: message.attempts,
        due: message.due,
        settled: &message.settled,
        envelope: Some((&resident.envelope, &resident.meta)),
        octets: resident.head.len() + resident.body.len(),
    }
    .as_json()
}

impl Known<'_> {
    /// As written to `ID.json`.
    pub fn as_json(&self) -> Value {
        let dsn = self.envelope.and_then(|(envelope, _)| envelope.dsn.as_deref());
        let recipient = |(i, address): (usize, &smtp_wire::Mailbox)| {
            let settled = u16::try_from(i).is_ok_and(|i| self.settled.contains(i));
            let mut value = json!({"address": address.as_str(), "settled": settled});
            if let Some(dsn) = dsn {
                value["dsn"] = dsn.rcpt_text(i).trim_start().into();
            }
            value
        };
        let recipients = |(envelope, _): (&Envelope, &Meta)| {
            envelope.recipients.iter().enumerate().map(recipient).collect::<Vec<_>>()
        };
        let mut value = json!({
            "id": self.id.to_string(),
            "queue": self.queue.map(queue_name),
            "sender": self.envelope.map(|(envelope, _)| envelope.sender.as_str()),
            "recipients": self.envelope.map(recipients),
            "meta": self.envelope.map(|(_, meta)| meta.as_map()),
            "attempts": self.attempts,
            "due": time(self.due),
            "created": time(self.id.created()),
            "size": self.octets,
        });
        if let Some(dsn) = dsn {
            value["dsn"] = dsn.mail_text().trim_start().into();
        }
        if let Some(word) = self.envelope.and_then(|(envelope, _)| envelope.tls.word()) {
            value["tls"] = word.into();
        }
        value
    }
}
