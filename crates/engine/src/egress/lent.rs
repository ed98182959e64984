//! A copy of a message, lent to whoever delivers it or is asked about it.
//!
//! Holds content, metadata, and those recipients alone that wait for it still, in their order. What is done to it counts
//! nowhere unless its borrower's caller says so.

use message::{Draft, Message, Resident};

/// The copy; `None` when the content is not in memory.
pub(crate) fn draft_of(message: &Message) -> Option<Draft> {
    draft_for(message, &message.pending().map(usize::from).collect::<Vec<_>>())
}

/// The same for those recipients, by index.
pub(crate) fn draft_for(message: &Message, recipients: &[usize]) -> Option<Draft> {
    let Resident { envelope, meta, head, body } = message.resident.as_deref()?;
    let raw = [&head[..], &body[..]].concat().into();
    let mut draft = Draft::new(message.id, envelope.part(recipients), meta.clone(), raw, message.due);
    draft.attempts = message.attempts;
    Some(draft)
}
