//! Every message of the queue manager, once: in numbered slots, and in lists that run through the slots.
//!
//! Millions wait, so a waiting message costs one slot of 80 octets and nothing else but its timer: slots stand in chunks
//! that never move and never double, a list is a chain of slot numbers, and a message that goes from one queue to the
//! next is relinked, not copied. A chunk in which nobody is left gives its memory back.
//! Also keeps the account of the content that queued messages have in memory. Knows nothing of queues.

use crate::core::{QueueKey, Queued};
use clock::{Instant, WallTime};
use message::{Message, MessageId};
use std::collections::BTreeMap;

/// A message's slot; used again once it is empty.
pub(crate) type SlotNumber = u32;

/// All messages in queues.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    chunks: Vec<Chunk>,
    /// Chunks with an empty slot, once each; one without memory gets some when its turn comes.
    open: Vec<u32>,
    len: usize,
    resident: Resident,
}

/// Octets of content that queued messages have in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resident {
    /// Of messages that the spool has too.
    pub spooled: usize,
    /// Of messages that are nowhere else.
    pub volatile: usize,
    /// How many messages have theirs in memory.
    pub messages: usize,
}

/// A queue of messages: first in, first out.
#[derive(Debug)]
pub(crate) struct List {
    first: SlotNumber,
    last: SlotNumber,
    len: u32,
    /// Of these, those that no spool has.
    volatile: u32,
    /// Those with a deadline, in order: they stand before the others. None costs nothing.
    urgent: Option<Box<Urgent>>,
}

/// Slots by deadline and order of coming.
#[derive(Debug, Default)]
struct Urgent {
    slots: BTreeMap<(WallTime, u64), SlotNumber>,
    comings: u64,
}

#[derive(Debug, Default)]
struct Chunk {
    /// Empty when the chunk has no memory.
    slots: Box<[Slot]>,
    first_empty: u32,
    used: u32,
}

#[derive(Debug)]
pub(crate) struct Slot {
    message: Option<Message>,
    /// When its timer fires, for a message that waits for its time.
    due: Instant,
    queue: QueueKey,
    /// The slot behind it in its list; for an empty slot the next empty one of its chunk, within the chunk.
    next: SlotNumber,
}

impl Messages {
    /// Puts a message in that waits for `due`.
    pub fn insert_waiting(&mut self, queue: QueueKey, message: Message, due: Instant) -> SlotNumber {
        self.put(Slot { message: Some(message), due, queue, next: WAITING })
    }

    /// Puts a message in, to be put into a list.
    pub fn insert(&mut self, queue: QueueKey, message: Message) -> SlotNumber {
        self.put(Slot { message: Some(message), due: Instant::ZERO, queue, next: NONE })
    }

    /// The queue of a message that waits for its time, if that has come. A slot may have been emptied and used again since
    /// its timer was set; whoever is there now has a timer of its own.
    pub fn due_in(&self, slot: SlotNumber, now: Instant) -> Option<QueueKey> {
        let slot = self.chunks.get(chunk_of(slot))?.slots.get(index_of(slot))?;
        (slot.message.is_some() && slot.next == WAITING && slot.due <= now).then_some(slot.queue)
    }

    /// The message in a slot.
    pub fn get(&self, slot: SlotNumber) -> Option<&Message> {
        self.chunks.get(chunk_of(slot))?.slots.get(index_of(slot))?.message.as_ref()
    }

    /// The message in a slot, for changes that the accounts here do not keep: not of its place or its content.
    pub fn get_mut(&mut self, slot: SlotNumber) -> Option<&mut Message> {
        self.chunks.get_mut(chunk_of(slot))?.slots.get_mut(index_of(slot))?.message.as_mut()
    }

    /// The queue of the message in a slot.
    pub fn queue_of(&self, slot: SlotNumber) -> Option<QueueKey> {
        let slot = self.chunks.get(chunk_of(slot))?.slots.get(index_of(slot))?;
        slot.message.is_some().then_some(slot.queue)
    }

    /// Takes a message out; it must be in no list any more.
    pub fn remove(&mut self, number: SlotNumber) -> Option<Queued> {
        let at = chunk_of(number);
        let chunk = self.chunks.get_mut(at)?;
        let slot = chunk.slots.get_mut(index_of(number))?;
        let message = slot.message.take()?;
        let queue = slot.queue;
        slot.next = chunk.first_empty;
        chunk.first_empty = index_of(number) as u32;
        chunk.used -= 1;
        if chunk.used == CHUNK_SLOTS as u32 - 1 {
            self.open.push(at as u32);
        }
        if chunk.used == 0 && self.len > CHUNK_SLOTS {
            *chunk = Chunk::default();
        }
        self.len -= 1;
        *self.resident.of(&message) -= message.resident_octets();
        self.resident.messages -= usize::from(message.resident.is_some());
        Some(Queued { message, queue })
    }

    /// Puts a message at the end of a list.
    pub fn push_back(&mut self, list: &mut List, number: SlotNumber) {
        self.slot(number).next = NONE;
        match list.len {
            0 => list.first = number,
            _ => self.slot(list.last).next = number,
        }
        list.last = number;
        self.count(list, number);
    }

    /// Puts a message at the head of a list.
    pub fn push_front(&mut self, list: &mut List, number: SlotNumber) {
        self.slot(number).next = if list.len == 0 { NONE } else { list.first };
        if list.len == 0 {
            list.last = number;
        }
        list.first = number;
        self.count(list, number);
    }

    /// Puts a message in its place in a list: by its deadline before all that have none, without one at the end.
    pub fn place(&mut self, list: &mut List, number: SlotNumber, deadline: Option<WallTime>) {
        let Some(deadline) = deadline else { return self.push_back(list, number) };
        let urgent = list.urgent.get_or_insert_default();
        urgent.comings += 1;
        let place = (deadline, urgent.comings);
        let before = urgent.slots.range(..place).next_back().map(|(_, slot)| *slot);
        urgent.slots.insert(place, number);
        self.put_behind(list, before, number);
    }

    /// Puts a message without a deadline before all others that have none.
    pub fn put_first(&mut self, list: &mut List, number: SlotNumber) {
        let before = list.urgent.as_ref().and_then(|urgent| urgent.slots.last_key_value()).map(|(_, slot)| *slot);
        self.put_behind(list, before, number);
    }

    fn put_behind(&mut self, list: &mut List, before: Option<SlotNumber>, number: SlotNumber) {
        match before {
            None => self.push_front(list, number),
            Some(before) if before == list.last => self.push_back(list, number),
            Some(before) => {
                self.slot(number).next = std::mem::replace(&mut self.slot(before).next, number);
                self.count(list, number);
            }
        }
    }

    /// Unlinks the first message of a list.
    pub fn pop_front(&mut self, list: &mut List) -> Option<SlotNumber> {
        self.pop_first(list).map(|(number, _)| number)
    }

    /// The same, and its deadline.
    pub fn pop_first(&mut self, list: &mut List) -> Option<(SlotNumber, Option<WallTime>)> {
        let number = list.first()?;
        let deadline = list.pop_urgent(number);
        let slot = self.slot(number);
        let volatile = slot.message.as_ref().is_some_and(Message::is_volatile);
        list.first = std::mem::replace(&mut slot.next, NONE);
        list.len -= 1;
        list.volatile -= u32::from(volatile);
        if list.len == 0 {
            list.last = NONE;
        }
        Some((number, deadline))
    }

    /// Unlinks all messages with a deadline, in order.
    pub fn pop_urgent(&mut self, list: &mut List) -> Vec<SlotNumber> {
        std::iter::from_fn(|| if list.urgent.is_some() { self.pop_front(list) } else { None }).collect()
    }

    /// Unlinks the first message without a deadline.
    pub fn pop_plain(&mut self, list: &mut List) -> Option<SlotNumber> {
        let urgent = list.urgent.as_ref().and_then(|urgent| urgent.slots.last_key_value());
        let Some(before) = urgent.map(|(_, slot)| *slot) else { return self.pop_front(list) };
        let number = self.slot(before).next;
        if number == NONE {
            return None;
        }
        self.slot(before).next = std::mem::replace(&mut self.slot(number).next, NONE);
        if list.last == number {
            list.last = before;
        }
        list.len -= 1;
        list.volatile -= u32::from(self.get(number).is_some_and(Message::is_volatile));
        Some(number)
    }

    /// Moves the messages of `list` that satisfy `moves` behind `to`, in order; how many. Walks the whole list, unless
    /// `list` has no volatile message at all: the only ones that are ever picked out of a list.
    pub fn move_volatile(&mut self, list: &mut List, to: &mut List, moves: impl Fn(&Message) -> bool) -> usize {
        if list.volatile == 0 {
            return 0;
        }
        let (before, mut rest) = (to.len(), std::mem::take(list));
        while let Some((number, deadline)) = self.pop_first(&mut rest) {
            match self.get(number).is_some_and(|m| m.is_volatile() && moves(m)) {
                true => self.push_back(to, number),
                false => self.place(list, number, deadline),
            }
        }
        to.len() - before
    }

    /// Puts all of `from` behind those of `to`, deadlines or not.
    pub fn append(&mut self, to: &mut List, from: &mut List) {
        let mut from = std::mem::take(from);
        from.urgent = None;
        match (to.len, from.len) {
            (_, 0) => {}
            (0, _) => *to = from,
            _ => {
                self.slot(to.last).next = from.first;
                to.last = from.last;
                to.len += from.len;
                to.volatile += from.volatile;
            }
        }
    }

    /// Finds waiting messages that `pick` says something of, beginning with chunk `from`, until `slots_max` slots were looked
    /// at; the chunk to go on with, or `None` at the end. Whoever gets one puts it into a list.
    pub fn pick_waiting<T>(
        &self,
        from: usize,
        slots_max: usize,
        pick: impl Fn(QueueKey, &Message) -> Option<T>,
    ) -> (Vec<(SlotNumber, QueueKey, T)>, Option<usize>) {
        let to = (from + slots_max.div_ceil(CHUNK_SLOTS)).min(self.chunks.len());
        let mut picked = Vec::new();
        for (at, chunk) in self.chunks.iter().enumerate().take(to).skip(from) {
            for (index, slot) in chunk.slots.iter().enumerate().filter(|(_, slot)| slot.next == WAITING) {
                let what = slot.message.as_ref().and_then(|message| pick(slot.queue, message));
                picked.extend(what.map(|what| ((at * CHUNK_SLOTS + index) as SlotNumber, slot.queue, what)));
            }
        }
        (picked, (to < self.chunks.len()).then_some(to))
    }

    /// The messages of a list, in order.
    pub fn iter<'a>(&'a self, list: &List) -> impl Iterator<Item = &'a Message> {
        self.slots(list).filter_map(|slot| self.get(slot))
    }

    /// The slots of a list, in order.
    pub fn slots(&self, list: &List) -> impl Iterator<Item = SlotNumber> {
        let mut next = list.first;
        std::iter::from_fn(move || {
            let number = next;
            next = self.chunks.get(chunk_of(number))?.slots.get(index_of(number))?.next;
            Some(number)
        })
    }

    /// True when the message in a slot waits for its time.
    pub fn waits(&self, slot: SlotNumber) -> bool {
        let slot = self.chunks.get(chunk_of(slot)).and_then(|chunk| chunk.slots.get(index_of(slot)));
        slot.is_some_and(|slot| slot.next == WAITING)
    }

    /// The slot of a message, beginning with chunk `from`, until `slots_max` slots were looked at; the chunk to go on with,
    /// or `None` at the end.
    pub fn find(&self, from: usize, slots_max: usize, id: MessageId) -> (Option<SlotNumber>, Option<usize>) {
        let to = (from + slots_max.div_ceil(CHUNK_SLOTS)).min(self.chunks.len());
        let chunks = self.chunks.iter().enumerate().take(to).skip(from);
        let mut slots = chunks.flat_map(|(at, chunk)| (at * CHUNK_SLOTS..).zip(chunk.slots.iter()));
        let found = slots.find(|(_, slot)| slot.message.as_ref().is_some_and(|message| message.id == id));
        (found.map(|(number, _)| number as SlotNumber), (to < self.chunks.len()).then_some(to))
    }

    /// Shows each message from slot `from` on, until `slots_max` slots were looked at or `show` says that it has enough; the slot
    /// to go on with, or `None` at the end.
    pub fn walk(
        &self,
        from: SlotNumber,
        slots_max: usize,
        mut show: impl FnMut(SlotNumber, QueueKey, &Message) -> bool,
    ) -> Option<SlotNumber> {
        let all = self.chunks.len() * CHUNK_SLOTS;
        let to = (from as usize + slots_max).min(all);
        let mut number = from as usize;
        while number < to {
            let chunk = &self.chunks[number / CHUNK_SLOTS].slots;
            let end = to.min((number / CHUNK_SLOTS + 1) * CHUNK_SLOTS);
            // One without memory has nobody.
            for (number, slot) in (number..end).zip(chunk.iter().skip(number % CHUNK_SLOTS)) {
                let goes_on = slot.message.as_ref().is_none_or(|m| show(number as SlotNumber, slot.queue, m));
                if !goes_on {
                    return (number + 1 < all).then_some(number as SlotNumber + 1);
                }
            }
            number = end;
        }
        (to < all).then_some(to as SlotNumber)
    }

    /// The messages that wait for their time, in no particular order.
    pub fn waiting(&self) -> impl Iterator<Item = &Message> {
        let all = self.chunks.iter().flat_map(|chunk| chunk.slots.iter());
        all.filter(|slot| slot.next == WAITING).filter_map(|slot| slot.message.as_ref())
    }

    /// Lets go of the content of spooled messages, beginning with chunk `from`, until `slots_max` slots were looked at;
    /// the chunk to go on with, or `None` at the end.
    pub fn shed(&mut self, from: usize, slots_max: usize) -> Option<usize> {
        let chunks = slots_max.div_ceil(CHUNK_SLOTS);
        let to = (from + chunks).min(self.chunks.len());
        for slot in self.chunks[from.min(to)..to].iter_mut().flat_map(|chunk| &mut chunk.slots) {
            if let Some(message) = slot.message.as_mut().filter(|m| !m.is_volatile()) {
                self.resident.spooled -= message.resident_octets();
                self.resident.messages -= usize::from(message.resident.is_some());
                message.release();
            }
        }
        (to < self.chunks.len() && self.resident.spooled > 0).then_some(to)
    }

    /// Lets go of the content of one message, if the spool has it.
    pub fn release(&mut self, number: SlotNumber) {
        let slot = self.chunks.get_mut(chunk_of(number)).and_then(|chunk| chunk.slots.get_mut(index_of(number)));
        if let Some(message) = slot.and_then(|slot| slot.message.as_mut()).filter(|m| !m.is_volatile()) {
            self.resident.spooled -= message.resident_octets();
            self.resident.messages -= usize::from(message.resident.is_some());
            message.release();
        }
    }

    /// How many messages there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Slot and time of every message that waits.
    pub fn each_waiting(&self, mut see: impl FnMut(SlotNumber, Instant)) {
        for (at, chunk) in self.chunks.iter().enumerate() {
            for (index, slot) in chunk.slots.iter().enumerate().filter(|(_, slot)| slot.next == WAITING) {
                see((at * CHUNK_SLOTS + index) as SlotNumber, slot.due);
            }
        }
    }

    /// Octets of content in memory.
    pub fn resident(&self) -> Resident {
        self.resident
    }

    fn put(&mut self, slot: Slot) -> SlotNumber {
        if let Some(message) = &slot.message {
            *self.resident.of(message) += message.resident_octets();
            self.resident.messages += usize::from(message.resident.is_some());
        }
        self.len += 1;
        let at = self.open_chunk();
        let chunk = &mut self.chunks[at];
        let index = chunk.first_empty as usize;
        chunk.first_empty = chunk.slots[index].next;
        chunk.used += 1;
        chunk.slots[index] = slot;
        if chunk.used == CHUNK_SLOTS as u32 {
            self.open.pop();
        }
        (at * CHUNK_SLOTS + index) as SlotNumber
    }

    /// A chunk with an empty slot: the last of `open`.
    fn open_chunk(&mut self) -> usize {
        let at = self.open.last().map_or(self.chunks.len(), |at| *at as usize);
        if at == self.chunks.len() {
            self.chunks.push(Chunk::default());
            self.open.push(at as u32);
        }
        if self.chunks[at].slots.is_empty() {
            self.chunks[at] = Chunk::new();
        }
        at
    }

    fn count(&mut self, list: &mut List, number: SlotNumber) {
        list.len += 1;
        list.volatile += u32::from(self.get(number).is_some_and(Message::is_volatile));
    }

    /// A slot in use. Slot numbers are only in lists and in the hands of this crate.
    fn slot(&mut self, number: SlotNumber) -> &mut Slot {
        &mut self.chunks[chunk_of(number)].slots[index_of(number)]
    }
}

impl Resident {
    fn of(&mut self, message: &Message) -> &mut usize {
        if message.is_volatile() { &mut self.volatile } else { &mut self.spooled }
    }
}

impl Chunk {
    fn new() -> Chunk {
        let empty = |next: usize| Slot { message: None, due: Instant::ZERO, queue: QueueKey::NONE, next: next as u32 };
        Chunk { slots: (1..=CHUNK_SLOTS).map(empty).collect(), first_empty: 0, used: 0 }
    }
}

impl List {
    /// How many messages are in it.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// How many of them have no deadline.
    pub fn plain_len(&self) -> usize {
        self.len() - self.urgent.as_ref().map_or(0, |urgent| urgent.slots.len())
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The slot of the first one.
    pub fn first(&self) -> Option<SlotNumber> {
        (self.len > 0).then_some(self.first)
    }

    /// The deadline of the message in `first`, which leaves.
    fn pop_urgent(&mut self, first: SlotNumber) -> Option<WallTime> {
        let slots = &mut self.urgent.as_mut()?.slots;
        let entry = slots.first_entry().filter(|entry| *entry.get() == first)?;
        let ((deadline, _), _) = entry.remove_entry();
        if slots.is_empty() {
            self.urgent = None;
        }
        Some(deadline)
    }

    /// True when some are in memory only.
    pub fn has_volatile(&self) -> bool {
        self.volatile > 0
    }
}

impl Default for List {
    fn default() -> List {
        List { first: NONE, last: NONE, len: 0, volatile: 0, urgent: None }
    }
}

fn chunk_of(slot: SlotNumber) -> usize {
    slot as usize / CHUNK_SLOTS
}

fn index_of(slot: SlotNumber) -> usize {
    slot as usize % CHUNK_SLOTS
}

/// Slots of a chunk: 80 KiB.
const CHUNK_SLOTS: usize = 1024;
/// No slot.
const NONE: SlotNumber = SlotNumber::MAX;
/// In place of the next slot: this message is in no list, it waits for its time.
const WAITING: SlotNumber = SlotNumber::MAX - 1;

#[cfg(test)]
mod tests {
    use super::*;
    use message::Place;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn message(number: u32) -> Message {
        let mut id = [0; 16];
        id[..4].copy_from_slice(&number.to_le_bytes());
        let place = (!number.is_multiple_of(3)).then_some(Place { segment: 1, offset: 0, index: 0 });
        Message { place, ..Message::bare(MessageId::from_bytes(id), WallTime::EPOCH) }
    }

    #[test]
    fn a_walk_goes_on_where_it_stopped_and_over_what_is_empty() {
        let mut messages = Messages::default();
        let slots: Vec<SlotNumber> =
            (0..3 * CHUNK_SLOTS as u32).map(|n| messages.insert(QueueKey::of_test(n), message(n))).collect();
        slots[10..2 * CHUNK_SLOTS + 5].iter().for_each(|slot| _ = messages.remove(*slot));
        for (slots_max, limit) in [(CHUNK_SLOTS, 1), (7, usize::MAX), (usize::MAX / 2, usize::MAX), (8192, 100)] {
            let (mut seen, mut from) = (Vec::new(), Some(0));
            while let Some(at) = from {
                let mut count = 0;
                from = messages.walk(at, slots_max, |slot, _, _| {
                    count += 1;
                    seen.push(slot);
                    count < limit
                });
                assert!(count <= limit);
            }
            let left: Vec<SlotNumber> = slots.iter().copied().filter(|slot| messages.get(*slot).is_some()).collect();
            assert_eq!(seen, left, "{slots_max} {limit}");
        }
    }

    #[test]
    fn a_queued_message_takes_one_slot_of_80_octets() {
        assert!(size_of::<Slot>() <= 80, "{}", size_of::<Slot>());
        let timer = size_of::<(u64, SlotNumber)>();
        assert!(size_of::<Slot>() + timer <= 96, "with its timer of {timer}");
    }

    #[test]
    fn memory_comes_back_when_a_backlog_is_gone() {
        let mut messages = Messages::default();
        let numbers: Vec<_> =
            (0..10 * CHUNK_SLOTS as u32).map(|n| messages.insert(QueueKey::NONE, message(n))).collect();
        assert_eq!(messages.chunks.len(), 10);
        for number in &numbers {
            assert!(messages.remove(*number).is_some() && messages.remove(*number).is_none());
        }
        let with_memory = |m: &Messages| m.chunks.iter().filter(|c| !c.slots.is_empty()).count();
        assert!(with_memory(&messages) <= 2, "{}", with_memory(&messages));
        (0..3 * CHUNK_SLOTS as u32).for_each(|n| _ = messages.insert(QueueKey::NONE, message(n)));
        assert!(with_memory(&messages) <= 4, "{}", with_memory(&messages));
        assert_eq!(messages.chunks.len(), 10, "numbers are used again");
    }

    /// What a list is to be: those with a deadline by it and by their coming, then the others.
    #[derive(Debug, Default)]
    struct Model {
        urgent: BTreeMap<(WallTime, u64), u32>,
        comings: u64,
        plain: VecDeque<u32>,
    }

    impl Model {
        fn place(&mut self, number: u32, deadline: Option<WallTime>) {
            self.comings += 1;
            match deadline {
                Some(deadline) => _ = self.urgent.insert((deadline, self.comings), number),
                None => self.plain.push_back(number),
            }
        }

        fn pop(&mut self) -> Option<(u32, Option<WallTime>)> {
            let urgent = self.urgent.pop_first().map(|((deadline, _), number)| (number, Some(deadline)));
            urgent.or_else(|| self.plain.pop_front().map(|number| (number, None)))
        }

        fn numbers(&self) -> Vec<u32> {
            self.urgent.values().chain(&self.plain).copied().collect()
        }
    }

    proptest! {
        /// A line of messages with and without deadlines, however they come and go.
        #[test]
        fn deadlines_stand_before_the_others_in_order(ops in proptest::collection::vec((0u8..9, 0u8..6), 0..300)) {
            let (mut messages, mut list, mut model) = (Messages::default(), List::default(), Model::default());
            for (at, (op, when)) in ops.into_iter().enumerate() {
                let at = at as u32;
                let deadline = Some(WallTime::from_unix_secs(i64::from(when)));
                let mut put = || messages.insert(QueueKey::NONE, message(at));
                match op {
                    0..=3 => {
                        let (number, deadline) = (put(), deadline.filter(|_| op < 3));
                        messages.place(&mut list, number, deadline);
                        model.place(at, deadline);
                    }
                    4 => {
                        let number = put();
                        messages.put_first(&mut list, number);
                        model.plain.push_front(at);
                    }
                    5 => {
                        let popped = messages.pop_first(&mut list);
                        let expected = model.pop();
                        let ids = popped.and_then(|(slot, deadline)| Some((messages.remove(slot)?.message.id, deadline)));
                        prop_assert_eq!(ids, expected.map(|(number, deadline)| (message(number).id, deadline)));
                    }
                    6 => {
                        let popped = messages.pop_plain(&mut list).and_then(|slot| messages.remove(slot));
                        prop_assert_eq!(popped.map(|q| q.message.id), model.plain.pop_front().map(|n| message(n).id));
                    }
                    7 if when == 0 => {
                        let urgent = messages.pop_urgent(&mut list);
                        let ids: Vec<_> = urgent.into_iter().filter_map(|slot| messages.remove(slot)).collect();
                        let expected = std::mem::take(&mut model.urgent).into_values().map(|n| message(n).id);
                        prop_assert_eq!(ids.iter().map(|q| q.message.id).collect::<Vec<_>>(), expected.collect::<Vec<_>>());
                    }
                    8 => {
                        let mut to = List::default();
                        let count = messages.move_volatile(&mut list, &mut to, |_| true);
                        let goes = |n: &u32| n.is_multiple_of(3);
                        let gone: Vec<u32> = model.numbers().into_iter().filter(goes).collect();
                        model.urgent.retain(|_, n| !goes(n));
                        model.plain.retain(|n| !goes(n));
                        prop_assert_eq!(count, gone.len());
                        let ids: Vec<_> = messages.iter(&to).map(|m| m.id).collect();
                        prop_assert_eq!(ids, gone.iter().map(|n| message(*n).id).collect::<Vec<_>>());
                    }
                    _ => {}
                }
                let ids: Vec<_> = messages.iter(&list).map(|m| m.id).collect();
                prop_assert_eq!(ids, model.numbers().iter().map(|n| message(*n).id).collect::<Vec<_>>());
                prop_assert_eq!((list.len(), list.plain_len()), (model.numbers().len(), model.plain.len()));
                prop_assert_eq!(list.volatile as usize, model.numbers().iter().filter(|n| n.is_multiple_of(3)).count());
            }
        }

        /// Against deques of numbers.
        #[test]
        fn lists_are_deques(ops in proptest::collection::vec((0u8..6, any::<bool>()), 0..400)) {
            let mut messages = Messages::default();
            let mut lists = [List::default(), List::default()];
            let mut models: [VecDeque<u32>; 2] = Default::default();
            for (at, (op, second)) in ops.into_iter().enumerate() {
                let (mine, other) = (usize::from(second), usize::from(!second));
                let at = at as u32;
                match op {
                    0 | 1 => {
                        let number = messages.insert(QueueKey::NONE, message(at));
                        messages.push_back(&mut lists[mine], number);
                        models[mine].push_back(at);
                    }
                    2 => {
                        let number = messages.insert(QueueKey::NONE, message(at));
                        messages.push_front(&mut lists[mine], number);
                        models[mine].push_front(at);
                    }
                    3 => {
                        let popped = messages.pop_front(&mut lists[mine]).and_then(|n| messages.remove(n));
                        prop_assert_eq!(popped.map(|q| q.message.id), models[mine].pop_front().map(|n| message(n).id));
                    }
                    4 => {
                        let [a, b] = &mut lists;
                        let (from, to) = if second { (b, a) } else { (a, b) };
                        messages.append(to, from);
                        let goes = std::mem::take(&mut models[mine]);
                        models[other].extend(goes);
                    }
                    _ => {
                        let [a, b] = &mut lists;
                        let (from, to) = if second { (b, a) } else { (a, b) };
                        let count = messages.move_volatile(from, to, |_| true);
                        let (go, stay): (Vec<u32>, Vec<u32>) = models[mine].iter().partition(|n| n.is_multiple_of(3));
                        prop_assert_eq!(count, go.len());
                        models[mine] = stay.into();
                        models[other].extend(go);
                    }
                }
                for (list, model) in lists.iter().zip(&models) {
                    let ids: Vec<_> = messages.iter(list).map(|m| m.id).collect();
                    prop_assert_eq!(ids, model.iter().map(|n| message(*n).id).collect::<Vec<_>>());
                    prop_assert_eq!(list.len(), model.len());
                    prop_assert_eq!(list.volatile as usize, model.iter().filter(|n| n.is_multiple_of(3)).count());
                }
            }
        }
    }
}
