//! A hierarchical timer wheel: constant cost per timer however many wait.
//!
//! Owns keys and the tick each is due at; gives them back, in tick order, once `now` has
//! passed. It cannot cancel: the owner of a key decides on delivery whether it still means
//! anything, which is cheaper than finding entries. Six levels of 64 slots at 64 ms a tick
//! reach 139 years; nothing overflows. A timer never fires early and at most one tick late.

use crate::Instant;
use core::time::Duration;

/// Timers by key. `K` is small and `Copy`-like; entries cost `size_of::<(u64, K)>()` bytes and next to no slack.
#[derive(Debug)]
pub struct TimerWheel<K> {
    levels: Vec<[Slot<K>; SLOTS]>,
    /// One bit a non-empty slot, one word a level.
    occupied: [u64; LEVELS],
    /// Every tick before this one has been handed out.
    next_tick: u64,
    len: usize,
}

impl<K> Default for TimerWheel<K> {
    fn default() -> Self {
        TimerWheel {
            levels: (0..LEVELS).map(|_| std::array::from_fn(|_| Slot::new())).collect(),
            occupied: [0; LEVELS],
            next_tick: 0,
            len: 0,
        }
    }
}

impl<K> TimerWheel<K> {
    /// An empty wheel whose past ends at `now`.
    pub fn new(now: Instant) -> Self {
        TimerWheel { next_tick: now.as_micros() / TICK_US, ..Self::default() }
    }

    /// Timers waiting.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when no timer waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts `key` in, to come back from [`TimerWheel::expire`] once `due` has passed.
    pub fn insert(&mut self, due: Instant, key: K) {
        let tick = due.as_micros().div_ceil(TICK_US).max(self.next_tick);
        self.place(tick, key);
        self.len += 1;
    }

    /// Moves every key due at or before `now` to `out`, earliest tick first.
    pub fn expire(&mut self, now: Instant, out: &mut impl Extend<K>) {
        let now_tick = now.as_micros() / TICK_US;
        while self.len > 0 && self.next_tick <= now_tick {
            let Some(tick) = self.next_occupied_tick() else { break };
            if tick > now_tick {
                break;
            }
            self.next_tick = tick;
            self.cascade();
            let slot = (tick % SLOTS as u64) as usize;
            self.occupied[0] &= !(1 << slot);
            for run in std::mem::take(&mut self.levels[0][slot]) {
                self.len -= run.len();
                out.extend(run.into_iter().map(|(_, key)| key));
            }
            self.next_tick = tick + 1;
        }
        self.next_tick = self.next_tick.max(now_tick + 1);
        self.cascade();
    }

    /// A moment not later than the next timer and not earlier than it needs to be by more than
    /// one cascade; ask again after every `insert` and `expire`. `None` when empty.
    pub fn deadline(&self) -> Option<Instant> {
        self.next_occupied_tick().map(|tick| Instant::from_micros(tick.saturating_mul(TICK_US)))
    }

    /// The span by which a timer may be late.
    pub const fn tick() -> Duration {
        Duration::from_micros(TICK_US)
    }

    fn place(&mut self, tick: u64, key: K) {
        let distance = (tick ^ self.next_tick).max(1);
        let level = ((63 - distance.leading_zeros()) / SLOT_BITS) as usize;
        let level = level.min(LEVELS - 1);
        let slot = ((tick >> (level as u32 * SLOT_BITS)) % SLOTS as u64) as usize;
        let runs = &mut self.levels[level][slot];
        if runs.last().is_none_or(|run| run.len() == RUN_MAX) {
            // Where one run is full, more is to come.
            runs.push(Vec::with_capacity(if runs.is_empty() { 1 } else { RUN_MAX }));
        }
        if let Some(run) = runs.last_mut() {
            run.push((tick, key));
        }
        self.occupied[level] |= 1 << slot;
    }

    /// The first tick at which a slot of some level begins that holds timers.
    fn next_occupied_tick(&self) -> Option<u64> {
        (0..LEVELS).filter_map(|level| self.next_in_level(level)).min()
    }

    fn next_in_level(&self, level: usize) -> Option<u64> {
        if self.occupied[level] == 0 {
            return None;
        }
        let shift = level as u32 * SLOT_BITS;
        let here = self.next_tick >> shift;
        let position = (here % SLOTS as u64) as u32;
        let ahead = self.occupied[level].rotate_right(position).trailing_zeros();
        Some(((here + u64::from(ahead)) << shift).max(self.next_tick))
    }

    /// Brings the timers of every higher slot that begins at or before `next_tick` down.
    fn cascade(&mut self) {
        for level in (1..LEVELS).rev() {
            let shift = level as u32 * SLOT_BITS;
            let slot = ((self.next_tick >> shift) % SLOTS as u64) as usize;
            if self.occupied[level] & (1 << slot) == 0 {
                continue;
            }
            self.occupied[level] &= !(1 << slot);
            for (tick, key) in std::mem::take(&mut self.levels[level][slot]).into_iter().flatten() {
                self.place(tick, key);
            }
        }
    }
}

/// The timers of one slot, in runs of a fixed length: a list that doubled would be half empty, and twice in memory while
/// it grows.
type Slot<K> = Vec<Vec<(u64, K)>>;

/// Timers of a run.
const RUN_MAX: usize = 256;
const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
const LEVELS: usize = 6;
/// One tick in microseconds: far below the second KumoMTA's retries are rounded to.
const TICK_US: u64 = 64_000;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_timer_fires_once_and_not_early() {
        let mut wheel = TimerWheel::new(Instant::ZERO);
        let due = Instant::from_micros(3 * 3600 * 1_000_000);
        wheel.insert(due, 'a');
        let mut out = Vec::new();
        wheel.expire(Instant::from_micros(due.as_micros() - TICK_US), &mut out);
        assert!(out.is_empty());
        wheel.expire(due + TimerWheel::<char>::tick(), &mut out);
        assert_eq!(out, ['a']);
        assert!(wheel.is_empty() && wheel.deadline().is_none());
    }

    #[test]
    fn a_timer_in_the_past_fires_at_once() {
        let mut wheel = TimerWheel::new(Instant::from_micros(50_000_000));
        wheel.insert(Instant::ZERO, 1);
        let mut out = Vec::new();
        wheel.expire(Instant::from_micros(50_100_000), &mut out);
        assert_eq!(out, [1]);
    }

    proptest! {
        /// Against a sorted list: same keys, never early, at most a tick late, in tick order.
        #[test]
        fn agrees_with_a_sorted_list(
            start in 0u64..1 << 40,
            steps in proptest::collection::vec((0u64..1 << 34, 0u64..1 << 32), 1..60),
        ) {
            let mut now = start;
            let mut wheel = TimerWheel::new(Instant::from_micros(now));
            let mut model: Vec<u64> = Vec::new();
            for (delay, advance) in steps {
                let due = now + delay;
                wheel.insert(Instant::from_micros(due), due);
                model.push(due);
                now += advance;
                let mut out = Vec::new();
                wheel.expire(Instant::from_micros(now), &mut out);
                for due in &out {
                    prop_assert!(*due <= now);
                    let at = model.iter().position(|m| m == due);
                    prop_assert!(at.is_some());
                    model.swap_remove(at.unwrap_or(0));
                }
                for left in &model {
                    prop_assert!(left + TICK_US > now - now % TICK_US, "{left} overdue at {now}");
                }
                prop_assert_eq!(wheel.len(), model.len());
                if let Some(deadline) = wheel.deadline() {
                    let first = model.iter().min().copied().unwrap_or(u64::MAX);
                    prop_assert!(deadline.as_micros() <= first.div_ceil(TICK_US).max(now / TICK_US + 1) * TICK_US);
                }
            }
        }
    }
}
