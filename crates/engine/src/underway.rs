//! Messages that a task has in hand, neither in a queue nor with a connection: they are read, asked about, moved or settled.
//!
//! For those who look for messages: whoever has one says so here for as long, so that nobody is told that there is no such
//! message. In: messages as they were when they were taken, without content. Nothing is decided by what is here.

use message::{Message, MessageId};
use queue::{QueueKey, Queued};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Underway(Arc<Mutex<Held>>);

/// By id, with how many say so: work may be part of other work.
type Held = HashMap<MessageId, (Message, QueueKey, u32)>;

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct Hold {
    of: Arc<Mutex<Held>>,
    id: MessageId,
}

impl Underway {
    /// A message is in hand from now on.
    pub fn hold(&self, queued: &Queued) -> Hold {
        let Queued { message, queue } = queued;
        let of = self.0.clone();
        lock(&of).entry(message.id).or_insert_with(|| (message.bare_copy(), *queue, 0)).2 += 1;
        Hold { of, id: message.id }
    }

    /// A message by its id, and its queue.
    pub fn find(&self, id: MessageId) -> Option<(Message, QueueKey)> {
        lock(&self.0).get(&id).map(|(message, queue, _)| (message.bare_copy(), *queue))
    }

    /// All there are.
    pub fn all(&self) -> Vec<(Message, QueueKey)> {
        lock(&self.0).values().map(|(message, queue, _)| (message.bare_copy(), *queue)).collect()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut held = lock(&self.of);
        if let Some((.., count)) = held.get_mut(&self.id) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.id);
            }
        }
    }
}

fn lock(held: &Mutex<Held>) -> MutexGuard<'_, Held> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}
