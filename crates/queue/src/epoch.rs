//! Configuration epochs: when one begins, what ages by epoch is asked for again.
//!
//! Owns [`Epoch`], a number, and the walk that a new one sets off: queues with messages are looked at, some at each tick, so
//! that policy is not asked a million things at once; a queue without messages is asked about with its next one. What is
//! in use stays so until the answer comes.

use crate::core::{QueueCore, QueueKey};
use crate::promote::refresh;
use crate::ready::ReadyQueue;
use clock::Now;
use config::{EgressPath, RefreshStrategy};
use std::sync::Arc;

/// How often configuration was said to have changed since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Epoch(u64);

impl Epoch {
    /// How many began before it.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl QueueCore {
    /// Configuration has changed: what has `refresh_strategy = 'Epoch'` is asked for again.
    pub fn begin_epoch(&mut self) {
        self.epoch = Epoch(self.epoch.0 + 1);
        let in_use = self.scheduled.iter().filter(|(_, queue)| queue.len() + queue.out > 0);
        let mut keys: Vec<QueueKey> = in_use.map(|(key, _)| *key).collect();
        // In order of age: equal runs must do equal things.
        keys.sort_unstable();
        self.refreshing = keys.into();
    }

    /// The epoch that began last.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The path of a ready queue that still holds because it ages by epoch and none began since it was asked for.
    pub fn kept_path(&self, name: &Arc<str>, identity: &Arc<str>) -> Option<Arc<EgressPath>> {
        let key = self.ready_by_name.get(&(name.clone(), identity.clone()))?;
        self.ready
            .get(key)
            .filter(|ready| ready.leg.epoch == self.epoch && ages_by_epoch(ready))
            .map(|r| r.leg.path.clone())
    }

    /// Goes on with the walk that a new epoch set off.
    pub(crate) fn refresh_some(&mut self, now: Now) {
        for _ in 0..self.refreshing.len().min(QUEUES_PER_TICK) {
            let Some(key) = self.refreshing.pop_front() else { return };
            if let Some(queue) = self.scheduled.get_mut(&key) {
                refresh(queue, key, (now.mono, self.epoch), &mut self.effects);
            }
        }
    }
}

fn ages_by_epoch(ready: &ReadyQueue) -> bool {
    ready.leg.path.refresh_strategy == RefreshStrategy::Epoch
}

/// Queues that policy is asked about at one tick.
const QUEUES_PER_TICK: usize = 64;
