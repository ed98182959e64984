//! Ends of their own that messages have (`expires`, `deliver_by`): who is looked at when one is past.
//!
//! One timer a queue, for the first end that is ahead: most messages are gone by theirs. It finds messages that are due, and
//! those that are ready wherever they went, by the present route or one before it; whoever waits has his deadline as his due time.

use crate::core::{QueueCore, QueueKey, ReadyKey, Timer};
use crate::schedule::End;
use clock::{Duration, Instant, Now};
use hashbrown::HashMap;
use message::MessageId;

/// What a queue remembers of messages that end at a time of their own.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    pub of: HashMap<MessageId, End>,
    /// A timer is set because an end was past already.
    pub looks: bool,
    /// Ready queues that no route names any more and that have messages of this queue.
    pub left_at: Vec<ReadyKey>,
}

impl QueueCore {
    /// Sets a timer for the first end of its own that a message of a queue has.
    pub(crate) fn watch_expiries(&mut self, now: Instant, key: QueueKey, at: Instant) {
        let Some(queue) = self.scheduled.get_mut(&key) else { return };
        if at <= now {
            // Past already, at a start for instance: those that are ahead keep their timer, and all of these have one.
            let looks = queue.expiries.as_mut().is_some_and(|ends| std::mem::replace(&mut ends.looks, true));
            if !looks {
                self.wheel.insert(at, Timer::Expire(key));
            }
            return;
        }
        if queue.expires_at <= now || at < queue.expires_at {
            queue.expires_at = at;
            self.wheel.insert(at, Timer::Expire(key));
        }
    }

    /// Looks at a queue in which a message has come to an end of its own, and when to look again.
    pub(crate) fn look_for_expired(&mut self, now: Now, key: QueueKey) {
        let ends = self.scheduled.get_mut(&key).and_then(|queue| queue.expiries.as_mut());
        ends.into_iter().for_each(|ends| ends.looks = false);
        self.promote(now, key);
        self.prune_left(key);
        let queue = self.scheduled.get(&key).filter(|queue| queue.out > 0);
        let way = queue.and_then(|queue| queue.route.as_ref()).map(|way| way.legs.to_vec());
        let left = queue.and_then(|queue| queue.expiries.as_ref()).map(|ends| ends.left_at.clone());
        for leg in way.into_iter().chain(left).flatten() {
            self.expire_ready(now, leg);
        }
        let queue = self.scheduled.get(&key).filter(|queue| queue.expires_at <= now.mono);
        if let Some((next, among)) = queue.and_then(|queue| queue.next_expiry(now.wall)) {
            let rest = EXPIRY_LOOK_MIN.saturating_mul(1 + u32::try_from(among / ENDS_PER_LOOK).unwrap_or(u32::MAX));
            self.watch_expiries(now.mono, key, now.mono_at(next).max(now.mono + rest));
        }
    }

    /// The route of a queue ends, or becomes another: some of its messages may still be ready by this one.
    pub(crate) fn leave_route(&mut self, key: QueueKey) {
        let Some(queue) = self.scheduled.get_mut(&key).filter(|queue| queue.out > 0) else { return };
        let (Some(way), Some(ends)) = (&queue.route, &mut queue.expiries) else { return };
        let new: Vec<ReadyKey> = way.legs.iter().filter(|leg| !ends.left_at.contains(leg)).copied().collect();
        ends.left_at.extend(new);
        self.prune_left(key);
    }

    fn prune_left(&mut self, key: QueueKey) {
        let (messages, ready) = (&self.messages, &self.ready);
        let has_some =
            |leg: &ReadyKey| ready.get(leg).is_some_and(|r| r.messages.slots_of(messages, key).next().is_some());
        let ends = self.scheduled.get_mut(&key).and_then(|queue| queue.expiries.as_mut());
        ends.into_iter().for_each(|ends| ends.left_at.retain(has_some));
    }
}

/// Shortest time between two searches for the next message of a queue with an end of its own; for each so many that have one, once
/// more: each is looked at.
const EXPIRY_LOOK_MIN: Duration = Duration::from_secs(1);
const ENDS_PER_LOOK: usize = 100_000;
