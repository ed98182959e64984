//! Forgetting queues that nobody uses any more; what they used up of their rates stays used up.

use crate::core::{QueueCore, QueueKey};
use crate::effect::Effect;
use crate::ready::ReadyQueue;
use clock::{Duration, Instant};
use std::collections::BTreeSet;

impl QueueCore {
    /// Forgets queues that nobody has used for a while.
    pub(crate) fn sweep(&mut self, now: Instant) {
        self.rates.sweep(now);
        self.leases.sweep();
        self.sources.sweep(now);
        let (scheduled, domains) = (&mut self.scheduled, &mut self.domains);
        self.by_name.retain(|name, namesakes| {
            for place in namesakes.iter_mut() {
                let gone = place.take_if(|key| scheduled.get(key).is_some_and(|q| q.is_unused(now)));
                if let Some(key) = gone {
                    scheduled.remove(&key);
                    domains.remove(name, key);
                }
            }
            namesakes.iter().any(Option::is_some)
        });
        let scheduled = &mut self.scheduled;
        for (key, ready) in &mut self.ready {
            // Whoever stands in line and has nothing to promote any more found another way.
            let mut waits = |waiter: &QueueKey| match scheduled.get_mut(waiter) {
                Some(queue) if queue.due.is_empty() => !queue.waits_at.remove(key),
                Some(_) => true,
                None => false,
            };
            ready.waiters.retain(&mut waits);
            ready.small_waiters.retain(&mut waits);
            ready.rest();
        }
        let ready = &mut self.ready;
        let unused = |r: &ReadyQueue| r.is_unused(now) && now.saturating_since(r.last_used) > READY_IDLE_MAX;
        let mut gone = BTreeSet::new();
        self.ready_by_name.retain(|(name, _), key| {
            let goes = ready.get(key).is_some_and(|ready| unused(ready));
            if goes {
                ready.remove(key);
                gone.insert(name.clone());
            }
            !goes
        });
        // A name whose other destinations go on is not forgotten.
        if !gone.is_empty() {
            self.ready_by_name.keys().for_each(|(name, _)| _ = gone.remove(name));
        }
        self.effects.extend(gone.into_iter().map(Effect::Forgotten));
    }
}

/// A ready queue idle for so long is forgotten (KumoMTA behaviour).
const READY_IDLE_MAX: Duration = Duration::from_secs(600);
