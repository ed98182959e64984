//! Messages of an order that could not be carried out just now: the spool refused, or another node did not answer.
//!
//! They stand apart from those that settlers may take, so that these are not held up, and go back to them some at a time: few
//! while they are refused again, twice as many each time while they are not.

use crate::messages::{List, Messages, SlotNumber};
use clock::{Duration, Instant};

/// Those of one order.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    /// They, the first that was refused first.
    pub list: List,
    /// When some of them go back.
    pub again_at: Option<Instant>,
    /// How many went back the last time.
    batch: usize,
    /// One was refused since then.
    is_refused_again: bool,
}

impl Refused {
    /// Keeps a message for another try.
    pub fn keep(&mut self, messages: &mut Messages, slot: SlotNumber, now: Instant) {
        messages.push_back(&mut self.list, slot);
        self.is_refused_again = true;
        self.again_at.get_or_insert(now + PAUSE);
    }

    /// Those whose turn it is go back behind `taken`. True when there were any.
    pub fn go_back(&mut self, messages: &mut Messages, taken: &mut List, now: Instant) -> bool {
        if self.again_at.is_none_or(|at| at > now) {
            return false;
        }
        self.batch = match std::mem::take(&mut self.is_refused_again) {
            true => BATCH_MIN,
            false => (self.batch * 2).min(BATCH_MAX),
        };
        for _ in 0..self.batch {
            let Some(slot) = messages.pop_front(&mut self.list) else { break };
            messages.push_back(taken, slot);
        }
        self.again_at = (!self.list.is_empty()).then_some(now + PAUSE);
        true
    }
}

/// Time between two tries.
const PAUSE: Duration = Duration::from_secs(1);
/// Messages that are tried again at once, as long as they are refused.
const BATCH_MIN: usize = 8;
/// And as many as that while they are not: a million in a minute.
const BATCH_MAX: usize = 16_384;
