//! Messages by what operators know of them: their queues' names or their ids. Reads only.
//!
//! A search goes through all messages in steps, so that nobody waits long for the lock; what matches is told by its place alone,
//! and [`QueueCore::sighted`] tells the rest, one message at a time, because finding out what a message waits for may
//! mean walking a list. A message may be gone by then, or elsewhere: then it is not told, or from there.

use crate::core::{QueueCore, QueueKey};
use crate::explain::Listed;
use crate::messages::SlotNumber;
use crate::order::Criteria;
use clock::Now;
use hashbrown::{HashMap, HashSet};
use message::MessageId;

/// What is looked for, and what is known of queues by now.
#[derive(Debug)]
pub struct Search {
    criteria: Criteria,
    ids: HashSet<MessageId>,
    /// Those that wait for their time, or those that do not.
    waits: Option<bool>,
    /// Whether the criteria name a queue.
    queues: HashMap<QueueKey, bool>,
}

/// Where a message was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    slot: SlotNumber,
    /// Which.
    pub id: MessageId,
}

/// What a step of a search came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sightings {
    /// Messages.
    pub found: Vec<Sighting>,
    /// The place to go on with; none at the end.
    pub next: Option<u32>,
}

impl Search {
    /// For messages of the queues that `criteria` name; when they name messages, only those. `waits`: those that
    /// wait for their time, or those that do not.
    pub fn new(criteria: Criteria, waits: Option<bool>) -> Search {
        let ids = criteria.messages.iter().copied().collect();
        Search { criteria, ids, waits, queues: HashMap::new() }
    }

    /// Whether it looks for a message of that queue.
    pub fn wants(&self, queue: &str, id: MessageId) -> bool {
        self.is_named(id) && self.criteria.matches(queue)
    }

    fn is_named(&self, id: MessageId) -> bool {
        self.ids.is_empty() || self.ids.contains(&id)
    }
}

impl Sighting {
    /// The place to go on with before this one is told.
    pub fn place(&self) -> u32 {
        self.slot
    }
}

impl QueueCore {
    /// Goes a step on in a search, from place `from`: some thousand messages, or until `limit` are found.
    pub fn search(&self, search: &mut Search, from: u32, limit: usize) -> Sightings {
        let Search { criteria, ids, waits, queues } = search;
        let mut found = Vec::new();
        let next = self.messages.walk(from, LOOKED_AT, |slot, key, message| {
            let is_named = ids.is_empty() || ids.contains(&message.id);
            let name = || self.scheduled.get(&key).map(|queue| &queue.name);
            let mut is_in = || *queues.entry(key).or_insert_with(|| name().is_some_and(|name| criteria.matches(name)));
            let is_there = || waits.is_none_or(|waits| self.messages.waits(slot) == waits);
            if is_named && is_there() && is_in() {
                found.push(Sighting { slot, id: message.id });
            }
            found.len() < limit
        });
        Sightings { found, next }
    }

    /// What is known of a message that was met; none when it is not there any more.
    pub fn sighted(&self, now: Now, sighting: Sighting) -> Option<Listed> {
        self.messages.get(sighting.slot).filter(|message| message.id == sighting.id)?;
        self.listed_at(now, sighting.slot)
    }
}

/// Messages that one visit looks at.
const LOOKED_AT: usize = 8192;
