//! `list`: the messages in a spool, a line each.

use super::Json;
use super::reader::{DAMAGED, SpoolReader};
use crate::output::{WELL, WRONG, now, queue_name, shown, time, until};
use anyhow::Result;
use clock::WallTime;
use message::Resident;
use serde_json::{Value, json};
use spool::RecoveredMessage;
use std::io::Write;

/// Options of `list`.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// Only the messages of this queue.
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// At most so many.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Sender and recipients too: reads every message listed.
    #[arg(long)]
    long: bool,
    #[command(flatten)]
    json: Json,
}

/// Runs it.
pub(super) fn run(reader: &dyn SpoolReader, options: &Options, out: &mut dyn Write) -> Result<u8> {
    let (messages, is_sound) = reader.messages()?;
    let asked = |m: &&RecoveredMessage| options.queue.as_deref().is_none_or(|queue| queue == queue_name(&m.queue));
    let now = now();
    let mut code = if is_sound { WELL } else { WRONG };
    if !options.json.json {
        writeln!(out, "{:<32} {:>9} {:>4} {:>4} {:>9}  QUEUE", "ID", "SIZE", "TRY", "LEFT", "DUE")?;
    }
    for message in messages.iter().filter(asked).take(options.limit.unwrap_or(usize::MAX)) {
        let loaded = if options.long { reader.load(message.id, message.place).transpose() } else { None };
        let read = match loaded {
            None if options.long => continue,
            None => None,
            Some(Ok(resident)) => Some(resident),
            Some(Err(error)) => {
                eprintln!("{error}");
                code = WRONG;
                None
            }
        };
        if options.json.json {
            serde_json::to_writer(&mut *out, &as_json(message, read.as_ref(), now))?;
            writeln!(out)?;
        } else {
            print(message, read.as_ref(), now, out)?;
        }
    }
    if !is_sound {
        eprintln!("{DAMAGED}");
    }
    Ok(code)
}

fn print(message: &RecoveredMessage, read: Option<&Resident>, now: WallTime, out: &mut dyn Write) -> Result<()> {
    let left = usize::from(message.recipients) - message.settled.len();
    let due = until(message.due, now);
    let (id, size, attempts) = (message.id, message.size, message.attempts);
    writeln!(out, "{id:<32} {size:>9} {attempts:>4} {left:>4} {due:>9}  {}", shown(queue_name(&message.queue)))?;
    if let Some(resident) = read {
        writeln!(out, "    from <{}>", shown(resident.envelope.sender.as_str()))?;
        for recipient in left_of(message, resident) {
            writeln!(out, "    to <{}>", shown(recipient))?;
        }
    }
    Ok(())
}

fn as_json(message: &RecoveredMessage, read: Option<&Resident>, now: WallTime) -> Value {
    let due_in = message.due.saturating_since(now).as_secs();
    let mut value = json!({
        "id": message.id.to_string(),
        "queue": queue_name(&message.queue),
        "size": message.size,
        "attempts": message.attempts,
        "due": time(message.due),
        "due_in_secs": due_in,
        "created": time(message.id.created()),
        "recipients": message.recipients,
        "recipients_left": usize::from(message.recipients) - message.settled.len(),
    });
    if let Some(resident) = read {
        value["sender"] = resident.envelope.sender.as_str().into();
        value["to"] = left_of(message, resident).collect();
    }
    value
}

/// Recipients that are not settled.
fn left_of<'a>(message: &'a RecoveredMessage, resident: &'a Resident) -> impl Iterator<Item = &'a str> {
    let numbered = resident.envelope.recipients.iter().enumerate();
    let left = numbered.filter(|(i, _)| !u16::try_from(*i).is_ok_and(|i| message.settled.contains(i)));
    left.map(|(_, recipient)| recipient.as_str())
}
