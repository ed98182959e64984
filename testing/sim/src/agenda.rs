//! What is to happen when: the virtual clock's calendar.
//!
//! Events come out in order of time, and of entry where times are equal; nothing else decides.

use crate::event::Event;
use std::collections::BTreeMap;

/// Events to come.
#[derive(Debug, Default)]
pub struct Agenda {
    events: BTreeMap<(u64, u64), Event>,
    entered: u64,
}

impl Agenda {
    /// Enters an event for `at`, in microseconds since the simulation began.
    pub fn enter(&mut self, at: u64, event: Event) {
        self.entered += 1;
        self.events.insert((at, self.entered), event);
    }

    /// The next event and its time.
    pub fn next(&mut self) -> Option<(u64, Event)> {
        self.events.pop_first().map(|((at, _), event)| (at, event))
    }

    /// Everything that is to come.
    pub fn iter(&self) -> impl Iterator<Item = &Event> {
        self.events.values()
    }
}
