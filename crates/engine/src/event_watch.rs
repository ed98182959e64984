//! Counts what handlers of events do, for whoever scrapes.
//!
//! In: which event began, how long it took. Out: `lua_event_started` and `lua_event_latency`. Series are made when an event
//! first happens, so that a policy shows only those it handles.

use policy::{Event, Observer};
use std::sync::OnceLock;
use std::time::Duration;
use telemetry::EventTime;

pub(crate) struct EventWatch {
    make: Make,
    /// By [`Event`].
    events: [OnceLock<EventTime>; Event::ALL.len()],
    states: OnceLock<EventTime>,
}

/// Makes the series of an event.
type Make = Box<dyn Fn(&str) -> EventTime + Send + Sync>;

impl EventWatch {
    pub fn new(make: Make) -> EventWatch {
        EventWatch { make, events: [const { OnceLock::new() }; Event::ALL.len()], states: OnceLock::new() }
    }

    fn of(&self, event: Event) -> &EventTime {
        self.events[event as usize].get_or_init(|| (self.make)(event.name()))
    }
}

impl Observer for EventWatch {
    fn started(&self, event: Event) {
        self.of(event).started.inc();
    }

    fn took(&self, event: Event, took: Duration) {
        self.of(event).latency.observe(took.as_secs_f64());
    }

    fn made_state(&self, took: Duration) {
        let states = self.states.get_or_init(|| (self.make)(STATES));
        states.started.inc();
        states.latency.observe(took.as_secs_f64());
    }
}

/// What the making of states is called among the events (KumoMTA behaviour).
const STATES: &str = "context-creation";
