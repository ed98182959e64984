//! Receipts: the values without which nobody may answer `250`.
//!
//! A DATA reply of 250 takes a [`Receipt`]; grep for its variants finds every promise the
//! program makes and every weak one. [`Durable`] can be made by this crate alone, after the
//! sync that covers its record.

use message::{MessageId, Place};

/// Proof that responsibility for a message was taken, and how far it goes.
#[derive(Debug)]
#[must_use = "a receipt is the only right to answer 250"]
pub enum Receipt {
    /// Synced to disk.
    Durable(Durable),
    /// The operator's policy sent it to the `null` queue: accepted and dropped.
    Discarded(Discarded),
    /// The operator chose `deferred_spool`: in memory only.
    Volatile(Volatile),
    /// The same was answered before, and the record of that is synced.
    Earlier(Earlier),
}

/// A message whose record is synced. Private constructor: only the spool can say so.
#[derive(Debug)]
pub struct Durable {
    id: MessageId,
    place: Place,
}

/// A message dropped on the operator's order.
#[derive(Debug)]
pub struct Discarded {
    id: MessageId,
}

/// A message that a crash will lose, on the operator's order.
#[derive(Debug)]
pub struct Volatile {
    id: MessageId,
}

/// A message that an earlier answer took responsibility for; it may be delivered by now.
#[derive(Debug)]
pub struct Earlier {
    id: MessageId,
}

impl Receipt {
    /// The message it is for.
    pub fn id(&self) -> MessageId {
        match self {
            Receipt::Durable(d) => d.id,
            Receipt::Discarded(d) => d.id,
            Receipt::Volatile(v) => v.id,
            Receipt::Earlier(e) => e.id,
        }
    }
}

impl Durable {
    /// To be called after the covering sync returned success, and nowhere else.
    pub(crate) fn synced(id: MessageId, place: Place) -> Durable {
        Durable { id, place }
    }

    /// The message it is for.
    pub fn id(&self) -> MessageId {
        self.id
    }

    /// Where the record is.
    pub fn place(&self) -> Place {
        self.place
    }
}

impl Discarded {
    /// A receipt for a message that policy put into the `null` queue.
    pub fn by_policy(id: MessageId) -> Discarded {
        Discarded { id }
    }
}

impl Volatile {
    /// A receipt for a message the operator allows to be lost (`deferred_spool = true`).
    pub fn by_operator_choice(id: MessageId) -> Volatile {
        Volatile { id }
    }
}

impl Earlier {
    /// A receipt for a message that the durable record of an earlier answer names (`Idempotency-Key`).
    pub fn by_record(id: MessageId) -> Earlier {
        Earlier { id }
    }
}
