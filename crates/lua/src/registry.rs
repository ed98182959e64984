//! What `kumo.on` registered in one state: event names, their handlers, where they stand.
//!
//! In: registrations in the order in which the script makes them. Out: the handlers of an
//! event, and warnings for names nobody will ever raise. Fails when an event that takes one
//! handler is given a second (KumoMTA behaviour).

use crate::disposition::DISPOSITION;
use crate::event_names::{self, EVENTS};
use config::nearest;
use mlua::Function;
use std::collections::HashMap;
use thiserror::Error;

/// Handlers by event name; any string may be an event.
#[derive(Default)]
pub(crate) struct Registry {
    events: HashMap<String, Vec<Handler>>,
}

/// One registered function.
struct Handler {
    function: Function,
    /// `file:line` of the call to `kumo.on`, then of its callers.
    places: Vec<String>,
}

impl Handler {
    fn place(&self) -> &str {
        self.places.first().map_or("?", String::as_str)
    }
}

/// A second handler for an event that takes one.
#[derive(Debug, Error)]
#[error("{event} event already has a handler defined at {first}")]
pub(crate) struct AlreadyRegistered {
    event: String,
    first: String,
}

impl Registry {
    /// Adds a handler; `places` are where the script does so, and the callers of that.
    pub fn add(&mut self, event: String, function: Function, places: Vec<String>) -> Result<(), AlreadyRegistered> {
        if let Some(handlers) = self.events.get(&event)
            && let Some(first) = handlers.first()
            && !is_multiple(&event)
        {
            return Err(AlreadyRegistered { first: first.place().to_owned(), event });
        }
        self.events.entry(event).or_default().push(Handler { function, places });
        Ok(())
    }

    /// The handlers of an event in the order of their registration.
    pub fn handlers(&self, event: &str) -> Vec<Function> {
        let handlers = self.events.get(event).into_iter().flatten();
        handlers.map(|h| h.function.clone()).collect()
    }

    /// Where the handlers of an event were registered, in order.
    pub fn registrars(&self, event: &str) -> Vec<Vec<String>> {
        self.events.get(event).into_iter().flatten().map(|handler| handler.places.clone()).collect()
    }

    /// One line for each handler that will never be called: of an event this version does not
    /// raise, or of a name that looks like a slip of the pen. Sorted.
    pub fn warnings(&self) -> Vec<String> {
        let mut lines: Vec<String> =
            self.events.iter().filter_map(|(name, handlers)| warning(name, handlers)).collect();
        lines.sort();
        lines
    }
}

/// Events with several handlers, asked in turn (KumoMTA behaviour); those that are not raised yet too.
fn is_multiple(event: &str) -> bool {
    event_names::find(event).map_or(MULTIPLE_NOT_RAISED.contains(&event), |event| event.is_multiple)
}

fn warning(name: &str, handlers: &[Handler]) -> Option<String> {
    let place = handlers.first()?.place();
    if event_names::find(name).is_some() || name.starts_with(DISPOSITION) {
        return None;
    }
    if NOT_RAISED.contains(&name) {
        return Some(format!("{place}: the handler of {name} is accepted, but this version never raises that event"));
    }
    let meant = nearest(name, &RAISED)?;
    Some(format!("{place}: no event is named {name} (did you mean `{meant}`?)"))
}

/// The names of events that are raised.
const RAISED: [&str; EVENTS.len()] = {
    let mut names = [""; EVENTS.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = EVENTS[i].name;
        i += 1;
    }
    names
};

/// Those of the events below that have several handlers.
const MULTIPLE_NOT_RAISED: [&str; 1] = ["get_acl_definition"];

/// KumoMTA's other events. A row leaves this list when its event comes to life.
const NOT_RAISED: [&str; 3] = ["get_acl_definition", "proxy_init", "proxy_server_auth_rfc1929"];
