//! Marks: what happened to a message after it was appended, tens of octets each.

use crate::format::{Cursor, put_i64, put_u16, put_u32};
use clock::WallTime;
use message::MessageId;

/// A change of a durable message. Only for messages whose receipt was handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// It was tried; try again at `due`.
    Attempt {
        /// Which message.
        id: MessageId,
        /// Attempts made so far.
        attempts: u16,
        /// First moment it may be tried next.
        due: WallTime,
    },
    /// Some of its recipients are settled.
    RecipientsDone {
        /// Which message.
        id: MessageId,
        /// Recipient numbers, in the order of the envelope that was appended.
        recipients: Vec<u32>,
    },
    /// All of it is settled: forget it.
    Removed {
        /// Which message.
        id: MessageId,
    },
}

impl Mark {
    /// The message it is about.
    pub fn id(&self) -> MessageId {
        match self {
            Mark::Attempt { id, .. } | Mark::RecipientsDone { id, .. } | Mark::Removed { id } => *id,
        }
    }

    /// Appends the stored form; `segment` is where the message's record is.
    pub(crate) fn encode(&self, segment: u32, out: &mut Vec<u8>) {
        let (kind, attempts) = match self {
            Mark::Attempt { attempts, .. } => (ATTEMPT, *attempts),
            Mark::RecipientsDone { .. } => (RECIPIENTS_DONE, 0),
            Mark::Removed { .. } => (REMOVED, 0),
        };
        out.extend_from_slice(&[kind, 0]);
        put_u16(out, attempts);
        put_u32(out, segment);
        out.extend_from_slice(self.id().as_bytes());
        match self {
            Mark::Attempt { due, .. } => put_i64(out, due.unix_micros()),
            Mark::RecipientsDone { recipients, .. } => {
                put_u32(out, recipients.len() as u32);
                recipients.iter().for_each(|r| put_u32(out, *r));
            }
            Mark::Removed { .. } => {}
        }
    }

    /// Reads one mark; `None` when the octets are not one. The segment comes with it.
    pub(crate) fn decode(input: &mut Cursor<'_>) -> Option<(Mark, u32)> {
        let [kind, 0] = input.take::<2>()? else { return None };
        let attempts = input.u16()?;
        let segment = input.u32()?;
        let id = MessageId::from_bytes(input.take::<16>()?);
        let mark = match kind {
            ATTEMPT => Mark::Attempt { id, attempts, due: WallTime::from_unix_micros(input.i64()?) },
            RECIPIENTS_DONE => {
                let count = input.u32()? as usize;
                if count > input.left() / 4 {
                    return None;
                }
                let recipients = (0..count).map_while(|_| input.u32()).collect();
                Mark::RecipientsDone { id, recipients }
            }
            REMOVED => Mark::Removed { id },
            _ => return None,
        };
        Some((mark, segment))
    }
}

const ATTEMPT: u8 = 1;
const RECIPIENTS_DONE: u8 = 2;
const REMOVED: u8 = 3;
