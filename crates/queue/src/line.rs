//! The order in which a ready queue's messages go: fair between scheduled queues, with a bias to the small.
//!
//! Each scheduled queue has a flow of its own. Flows of queues with many messages take turns by start-time fair
//! queueing: a message costs one, and one more for each 64 KiB of content. Flows of queues with few messages
//! take turns among themselves, and together every other place, whatever bulk waits: a handful
//! of password mails passes a million newsletters, and bulk is never slowed by more than a factor of two on their account.
//! Within a flow those with a deadline first, the earliest before others; then first in, first out. Owns no message, only their slots.

use crate::core::QueueKey;
use crate::messages::{List, Messages, SlotNumber};
use clock::WallTime;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use message::Message;
use std::collections::{BTreeSet, VecDeque};

/// The messages of one ready queue. Most queues have none at a time, and then they take no room.
#[derive(Debug, Default)]
pub(crate) struct Line(Option<Box<Flows>>);

#[derive(Debug, Default)]
struct Flows {
    /// The messages of each queue.
    flows: HashMap<QueueKey, List>,
    /// Flows of small queues, in turn.
    small: VecDeque<QueueKey>,
    /// Flows of large queues, by virtual time and order of coming.
    bulk: BTreeSet<Turn>,
    /// Where large queues go on that have no message now, if that is ahead of `time`.
    ends: HashMap<QueueKey, u64>,
    /// Virtual time of the bulk message that went last.
    time: u64,
    turns: u64,
    /// The last place went to a small queue.
    small_went: bool,
    len: usize,
}

/// When a flow's next message is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    start: u64,
    order: u64,
    queue: QueueKey,
}

impl Line {
    /// How many messages.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |flows| flows.len)
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True when one of them is nowhere but in memory.
    pub fn has_volatile(&self) -> bool {
        self.0.as_ref().is_some_and(|flows| flows.flows.values().any(List::has_volatile))
    }

    /// Puts a message at the end of its queue's flow, or by its deadline before those that have none; `is_small`: that queue
    /// has few messages now.
    pub fn push_back(
        &mut self,
        messages: &mut Messages,
        queue: QueueKey,
        slot: SlotNumber,
        of: (bool, Option<WallTime>),
    ) {
        self.0.get_or_insert_default().push_back(messages, queue, slot, of);
    }

    /// Puts a message back that nobody tried: it goes next of its flow but for earlier deadlines, and its flow soon.
    pub fn push_front(
        &mut self,
        messages: &mut Messages,
        queue: QueueKey,
        slot: SlotNumber,
        deadline: Option<WallTime>,
    ) {
        self.0.get_or_insert_default().push_front(messages, queue, slot, deadline);
    }

    /// The message that goes next. `is_small` tells which queues have few messages now.
    pub fn pop_front(&mut self, messages: &mut Messages, is_small: impl Fn(QueueKey) -> bool) -> Option<SlotNumber> {
        self.0.as_mut()?.pop_front(messages, is_small)
    }

    /// Moves messages that are too old from the head of each flow behind those of `to`; how many.
    pub fn move_expired(
        &mut self,
        messages: &mut Messages,
        to: &mut List,
        is_expired: impl Fn(QueueKey, &Message) -> bool,
    ) -> usize {
        self.0.as_mut().map_or(0, |flows| flows.move_expired(messages, to, is_expired))
    }

    /// Moves messages that satisfy `moves`, wherever in their flow they are, behind those of `to`; only flows of which
    /// `is_asked` says so are walked. How many messages were looked at.
    pub fn move_those(
        &mut self,
        messages: &mut Messages,
        to: &mut List,
        is_asked: impl Fn(QueueKey) -> bool,
        moves: impl Fn(QueueKey, &Message) -> bool,
    ) -> usize {
        self.0.as_mut().map_or(0, |flows| flows.move_those(messages, to, is_asked, moves))
    }

    /// Moves messages that are in memory only and satisfy `moves` behind those of `to`.
    pub fn move_volatile(&mut self, messages: &mut Messages, to: &mut List, moves: impl Fn(&Message) -> bool) {
        if let Some(flows) = &mut self.0 {
            flows.move_volatile(messages, to, moves);
        }
    }

    /// Every message, in no particular order.
    pub fn iter<'a>(&'a self, messages: &'a Messages) -> impl Iterator<Item = &'a Message> {
        self.0.iter().flat_map(|flows| flows.flows.values()).flat_map(|flow| messages.iter(flow))
    }

    /// The messages of one queue, in order.
    pub fn of<'a>(&'a self, messages: &'a Messages, queue: QueueKey) -> impl Iterator<Item = &'a Message> {
        self.flow(queue).into_iter().flat_map(|flow| messages.iter(flow))
    }

    /// Their slots.
    pub fn slots_of<'a>(&'a self, messages: &'a Messages, queue: QueueKey) -> impl Iterator<Item = SlotNumber> {
        self.flow(queue).into_iter().flat_map(|flow| messages.slots(flow))
    }

    /// Gives its room back when it has no message; who went last is forgotten.
    pub fn rest(&mut self) {
        self.0.take_if(|flows| flows.len == 0);
    }

    fn flow(&self, queue: QueueKey) -> Option<&List> {
        self.0.as_ref()?.flows.get(&queue)
    }
}

impl Flows {
    fn push_back(
        &mut self,
        messages: &mut Messages,
        queue: QueueKey,
        slot: SlotNumber,
        (is_small, deadline): (bool, Option<WallTime>),
    ) {
        self.len += 1;
        match self.flows.entry(queue) {
            Entry::Occupied(entry) => messages.place(entry.into_mut(), slot, deadline),
            Entry::Vacant(entry) => {
                messages.place(entry.insert(List::default()), slot, deadline);
                match is_small {
                    true => self.small.push_back(queue),
                    false => {
                        let start = self.ends.remove(&queue).map_or(self.time, |end| end.max(self.time));
                        self.queue_bulk(queue, start);
                    }
                }
            }
        }
    }

    fn push_front(&mut self, messages: &mut Messages, queue: QueueKey, slot: SlotNumber, deadline: Option<WallTime>) {
        let put = |messages: &mut Messages, flow: &mut List| match deadline {
            Some(_) => messages.place(flow, slot, deadline),
            None => messages.put_first(flow, slot),
        };
        self.len += 1;
        match self.flows.entry(queue) {
            Entry::Occupied(entry) => put(messages, entry.into_mut()),
            Entry::Vacant(entry) => {
                put(messages, entry.insert(List::default()));
                self.small.push_front(queue);
            }
        }
    }

    fn pop_front(&mut self, messages: &mut Messages, is_small: impl Fn(QueueKey) -> bool) -> Option<SlotNumber> {
        // Those that have grown join the large ones.
        while let Some(queue) = self.small.pop_front_if(|queue| !is_small(*queue)) {
            self.queue_bulk(queue, self.time);
        }
        self.small_went = !self.small.is_empty() && (self.bulk.is_empty() || !self.small_went);
        let (queue, start) = match self.small_went {
            true => (self.small.pop_front()?, self.time),
            false => {
                let turn = self.bulk.pop_first()?;
                self.time = turn.start;
                (turn.queue, turn.start)
            }
        };
        let flow = self.flows.get_mut(&queue)?;
        let slot = messages.pop_front(flow)?;
        self.len -= 1;
        if flow.is_empty() {
            self.flows.remove(&queue);
            if !self.small_went {
                self.note_end(queue, start + cost(messages.get(slot)));
            }
        } else if self.small_went {
            self.small.push_back(queue);
        } else {
            self.queue_bulk(queue, start + cost(messages.get(slot)));
        }
        Some(slot)
    }

    fn move_expired(
        &mut self,
        messages: &mut Messages,
        to: &mut List,
        is_expired: impl Fn(QueueKey, &Message) -> bool,
    ) -> usize {
        let before = to.len();
        let first = |flow: &List| flow.first().and_then(|slot| messages.get(slot));
        let mut queues: Vec<QueueKey> = self
            .flows
            .iter()
            .filter(|(q, flow)| first(flow).is_some_and(|m| is_expired(**q, m)))
            .map(|(queue, _)| *queue)
            .collect();
        // In order of age: equal runs must do equal things.
        queues.sort_unstable();
        for queue in queues {
            let Some(flow) = self.flows.get_mut(&queue) else { continue };
            while flow.first().and_then(|slot| messages.get(slot)).is_some_and(|m| is_expired(queue, m)) {
                let Some(slot) = messages.pop_front(flow) else { break };
                messages.push_back(to, slot);
                self.len -= 1;
            }
        }
        self.forget_empty();
        to.len() - before
    }

    fn move_those(
        &mut self,
        messages: &mut Messages,
        to: &mut List,
        is_asked: impl Fn(QueueKey) -> bool,
        moves: impl Fn(QueueKey, &Message) -> bool,
    ) -> usize {
        let mut looked_at = 0;
        let mut queues: Vec<QueueKey> = self.flows.keys().copied().filter(|queue| is_asked(*queue)).collect();
        // In order of age: equal runs must do equal things.
        queues.sort_unstable();
        for queue in queues {
            let Some(flow) = self.flows.get_mut(&queue) else { continue };
            let mut rest = std::mem::take(flow);
            looked_at += rest.len();
            while let Some((slot, deadline)) = messages.pop_first(&mut rest) {
                let goes = messages.get(slot).is_some_and(|message| moves(queue, message));
                match goes {
                    true => messages.push_back(to, slot),
                    false => messages.place(flow, slot, deadline),
                }
                self.len -= usize::from(goes);
            }
        }
        self.forget_empty();
        looked_at
    }

    fn move_volatile(&mut self, messages: &mut Messages, to: &mut List, moves: impl Fn(&Message) -> bool) {
        // In order of age: equal runs must do equal things.
        let mut queues: Vec<QueueKey> =
            self.flows.iter().filter(|(_, flow)| flow.has_volatile()).map(|(queue, _)| *queue).collect();
        queues.sort_unstable();
        for queue in queues {
            let Some(flow) = self.flows.get_mut(&queue) else { continue };
            self.len -= messages.move_volatile(flow, to, &moves);
        }
        self.forget_empty();
    }

    /// Flows without messages have no turn.
    fn forget_empty(&mut self) {
        let before = self.flows.len();
        self.flows.retain(|_, flow| !flow.is_empty());
        if self.flows.len() < before {
            let flows = &self.flows;
            self.small.retain(|queue| flows.contains_key(queue));
            self.bulk.retain(|turn| flows.contains_key(&turn.queue));
        }
    }

    /// Remembers where a large queue goes on: coming back at once, it must not pass those who stayed.
    fn note_end(&mut self, queue: QueueKey, end: u64) {
        self.ends.insert(queue, end);
        if self.ends.len() > 2 * self.flows.len() + ENDS_MIN {
            self.ends.retain(|_, end| *end > self.time);
        }
    }

    fn queue_bulk(&mut self, queue: QueueKey, start: u64) {
        self.turns += 1;
        self.bulk.insert(Turn { start, order: self.turns, queue });
    }
}

/// What a message takes of its flow's share.
fn cost(message: Option<&Message>) -> u64 {
    1 + message.map_or(0, |m| u64::from(m.size) / OCTETS_OF_A_TURN)
}

/// Ends that are remembered before those that are over are looked for.
const ENDS_MIN: usize = 64;
/// Content beyond which a message takes more than one turn.
const OCTETS_OF_A_TURN: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use clock::{Duration, Instant};
    use message::IdGenerator;

    /// A line, and who put in what.
    struct Rig {
        line: Line,
        messages: Messages,
        ids: IdGenerator,
        small: Vec<u32>,
        made: Vec<message::MessageId>,
    }

    impl Rig {
        fn new() -> Rig {
            Rig {
                line: Line::default(),
                messages: Messages::default(),
                ids: IdGenerator::new([0; 6], 1),
                small: Vec::new(),
                made: Vec::new(),
            }
        }

        fn put(&mut self, queue: u32, count: usize, size: u32, is_small: bool) {
            self.put_by(queue, count, size, is_small, None);
        }

        fn put_by(&mut self, queue: u32, count: usize, size: u32, is_small: bool, deadline: Option<WallTime>) {
            self.small.retain(|small| *small != queue);
            self.small.extend(is_small.then_some(queue));
            for _ in 0..count {
                let message = Message { size, ..Message::bare(self.ids.next(WallTime::EPOCH), WallTime::EPOCH) };
                self.made.push(message.id);
                let slot = self.messages.insert_waiting(QueueKey::of_test(queue), message, Instant::ZERO);
                self.line.push_back(&mut self.messages, QueueKey::of_test(queue), slot, (is_small, deadline));
            }
        }

        /// The queues of the next messages.
        fn next(&mut self, count: usize) -> Vec<u32> {
            let mut queues = Vec::new();
            for _ in 0..count {
                let small = &self.small;
                let slot = self.line.pop_front(&mut self.messages, |queue| small.contains(&queue.number()));
                let Some(slot) = slot else { break };
                queues.extend(self.messages.remove(slot).map(|queued| queued.queue.number()));
            }
            queues
        }
    }

    fn count(queues: &[u32], queue: u32) -> usize {
        queues.iter().filter(|q| **q == queue).count()
    }

    #[test]
    fn large_queues_share_evenly_and_by_size() {
        let mut rig = Rig::new();
        rig.put(1, 300, 1000, false);
        rig.put(2, 300, 1000, false);
        rig.put(3, 300, 3 * 64 * 1024, false);
        let went = rig.next(180);
        assert_eq!([1, 2, 3].map(|queue| count(&went, queue)), [80, 80, 20]);
        assert_eq!(rig.line.len(), 720);
    }

    #[test]
    fn who_comes_late_does_not_catch_up_on_what_it_missed() {
        let mut rig = Rig::new();
        rig.put(1, 500, 0, false);
        rig.next(300);
        rig.put(2, 100, 0, false);
        assert_eq!(count(&rig.next(100), 2), 50);
    }

    #[test]
    fn who_comes_back_at_once_does_not_pass_those_who_stayed() {
        let mut rig = Rig::new();
        rig.put(1, 100, 0, false);
        rig.put(2, 100, 0, false);
        rig.put(3, 1, 10 * 64 * 1024, false);
        let mut went = Vec::new();
        for _ in 0..110 {
            let queue = rig.next(1)[0];
            went.push(queue);
            if queue == 3 {
                rig.put(3, 1, 10 * 64 * 1024, false);
            }
        }
        assert_eq!([1, 2, 3].map(|queue| count(&went, queue)), [53, 52, 5], "eleven turns' worth each time");
    }

    #[test]
    fn the_small_take_every_other_place_and_no_more() {
        let mut rig = Rig::new();
        (1..=50).for_each(|queue| rig.put(queue, 20, 0, false));
        (51..=70).for_each(|queue| rig.put(queue, 10, 0, true));
        let went = rig.next(200);
        let small: Vec<u32> = went.iter().copied().filter(|queue| *queue > 50).collect();
        assert_eq!(small.len(), 100);
        assert!((51..=70).all(|queue| count(&small, queue) == 5), "in turn: {small:?}");
        assert!(went.windows(2).all(|pair| (pair[0] > 50) != (pair[1] > 50)), "alternating: {went:?}");
    }

    #[test]
    fn a_queue_that_grows_joins_the_large_ones() {
        let mut rig = Rig::new();
        rig.put(1, 100, 0, false);
        rig.put(2, 1, 0, true);
        rig.put(2, 99, 0, false);
        rig.put(3, 100, 0, false);
        let went = rig.next(90);
        assert!([1, 2, 3].iter().all(|queue| (29..=31).contains(&count(&went, *queue))), "{went:?}");
    }

    #[test]
    fn what_comes_back_goes_first_and_order_within_a_queue_holds() {
        let mut rig = Rig::new();
        rig.put(1, 3, 0, false);
        let all: Vec<_> = rig.line.iter(&rig.messages).map(|m| m.id).collect();
        let first = rig.line.pop_front(&mut rig.messages, |_| true).expect("three messages");
        rig.line.push_front(&mut rig.messages, QueueKey::of_test(1), first, None);
        let mut went = Vec::new();
        while let Some(slot) = rig.line.pop_front(&mut rig.messages, |_| true) {
            went.extend(rig.messages.get(slot).map(|m| m.id));
        }
        assert_eq!(went, all);
        assert!(rig.line.is_empty() && rig.next(1).is_empty());
    }

    #[test]
    fn deadlines_go_first_within_their_queue_the_earliest_first_and_take_nothing_from_others() {
        let mut rig = Rig::new();
        let at = |secs: u64| Some(WallTime::EPOCH + Duration::from_secs(secs));
        rig.put(1, 3, 0, false);
        for secs in [30, 10, 20, 10] {
            rig.put_by(1, 1, 0, false, at(secs));
        }
        rig.put(2, 8, 0, false);
        let order: Vec<_> = rig.line.of(&rig.messages, QueueKey::of_test(1)).map(|m| m.id).collect();
        let ids: Vec<_> = rig.made.iter().take(7).copied().collect();
        assert_eq!(order, [4, 6, 5, 3, 0, 1, 2].map(|made| ids[made]), "equal ones in order of coming");
        // One that comes back untried goes before what has no deadline, and behind those that have.
        let none = |_: QueueKey| false;
        let first = rig.line.pop_front(&mut rig.messages, none).expect("messages");
        assert_eq!(rig.messages.get(first).map(|m| m.id), Some(ids[4]));
        rig.line.push_front(&mut rig.messages, QueueKey::of_test(1), first, at(10));
        assert_eq!(rig.line.of(&rig.messages, QueueKey::of_test(1)).count(), 7);
        // What an order picks out leaves the others as they were, for those that come later too.
        let mut gone = List::default();
        rig.line.move_those(&mut rig.messages, &mut gone, |_| true, |_, message| message.id == ids[5]);
        rig.put_by(1, 1, 0, false, at(25));
        let order: Vec<_> = rig.line.of(&rig.messages, QueueKey::of_test(1)).map(|m| m.id).collect();
        let late = rig.made[15];
        assert_eq!(order.len(), 7);
        assert_eq!(order[2..], [late, ids[3], ids[0], ids[1], ids[2]]);
        let went = rig.next(14);
        assert_eq!([1, 2].map(|queue| count(&went, queue)), [7, 7], "{went:?}");
    }

    #[test]
    fn volatile_messages_leave_and_nothing_stays_behind() {
        let mut rig = Rig::new();
        rig.put(1, 2, 0, false);
        rig.put(2, 2, 0, true);
        assert!(rig.line.has_volatile());
        let mut list = List::default();
        rig.line.move_volatile(&mut rig.messages, &mut list, |_| true);
        assert_eq!((list.len(), rig.line.len()), (4, 0));
        let flows = rig.line.0.as_ref().expect("messages came");
        assert!(flows.small.is_empty() && flows.bulk.is_empty() && flows.flows.is_empty());
        rig.line.rest();
        assert!(rig.line.0.is_none(), "no room is kept for none");
    }
}
