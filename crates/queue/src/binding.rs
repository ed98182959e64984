//! Which limit holds mail back, what it comes to, and who else uses it: for operators who ask. Reads only.
//!
//! In: what `explain` found to be in the way. Out: the option, the name of a shared one, its value as an operator writes it, and
//! how much of it is taken. Who else uses a shared one is asked of each ready queue apart: there may be many, and nobody waits for all of them.

use crate::core::{QueueCore, ReadyKey};
use crate::ready::ReadyQueue;
use crate::scheduled::ScheduledQueue;
use crate::shared::{Binds, CONNECTION_LIMIT};
use clock::Now;
use config::ThrottleSpec;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A limit that holds something back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Binding {
    /// The option it is from.
    pub option: &'static str,
    /// Its name, when it is one that paths share by name.
    pub name: Option<Arc<str>>,
    /// As an operator writes it.
    pub value: String,
    /// How much of it is taken now, where that is a number of messages or connections.
    pub used: Option<u64>,
}

/// Who uses a limit that has a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sharers {
    /// Ready queues, in order of name, at most [`SHARERS_MAX`].
    pub names: Vec<Arc<str>>,
    /// How many there are.
    pub total: usize,
}

impl Sharers {
    /// Of these names; namesakes (queues that must not be mixed) count once.
    pub fn of(mut names: Vec<Arc<str>>) -> Sharers {
        names.sort_unstable();
        names.dedup();
        let total = names.len();
        names.truncate(SHARERS_MAX);
        Sharers { names, total }
    }
}

impl QueueCore {
    /// The name of that ready queue, if its path names that limit. None for a limit that is of one queue only.
    pub fn sharer(&self, of: &Binding, key: ReadyKey) -> Option<Arc<str>> {
        let (name, ready) = (of.name.as_deref()?, self.ready.get(&key)?);
        let path = &ready.leg.path;
        // The same name with another rate is another account.
        let is_same = |spec: Option<&ThrottleSpec>| spec.is_some_and(|spec| spec.to_string() == of.value);
        let uses = match of.option {
            NAMED_RATES => is_same(path.additional_message_rate_throttles.get(name)),
            NAMED_SELECTIONS => is_same(path.additional_source_selection_rates.get(name)),
            NAMED_CONNECTIONS => path.additional_connection_limits.contains_key(name),
            _ => false,
        };
        uses.then(|| ready.name.clone())
    }

    /// The rate of a scheduled queue that is used up.
    pub(crate) fn queue_rate(queue: &ScheduledQueue) -> Option<Binding> {
        let rate = queue.config.as_ref()?.max_message_rate.as_ref()?;
        Some(Binding { option: RATE, name: None, value: rate.to_string(), used: None })
    }

    /// The rate of messages that a ready queue waits for.
    pub(crate) fn message_rate(&self, now: Now, ready: &ReadyQueue) -> Option<Binding> {
        let path = &ready.leg.path;
        let binds = ready.message_rates.binds(&self.rates, now.mono)?;
        rate(&binds, (RATE, path.max_message_rate.as_ref()), (NAMED_RATES, &path.additional_message_rate_throttles))
    }

    /// The rate at which it may be chosen.
    pub(crate) fn selection_rate(&self, now: Now, ready: &ReadyQueue) -> Option<Binding> {
        let path = &ready.leg.path;
        let binds = ready.selection_rates.binds(&self.rates, now.mono)?;
        let named = (NAMED_SELECTIONS, &path.additional_source_selection_rates);
        rate(&binds, ("source_selection_rate", path.source_selection_rate.as_ref()), named)
    }

    /// The rate at which it may open connections.
    pub(crate) fn connection_rate(ready: &ReadyQueue) -> Option<Binding> {
        let rate = ready.leg.path.max_connection_rate.as_ref()?;
        Some(Binding { option: "max_connection_rate", name: None, value: rate.to_string(), used: None })
    }

    /// The lease that it misses.
    pub(crate) fn lease(&self, key: Option<ReadyKey>, ready: &ReadyQueue) -> Option<Binding> {
        // The cluster does not say which one was missing: the smallest, most likely.
        let refused = || ready.cluster_leases.iter().min_by_key(|(_, limit)| *limit);
        let missing = key.and_then(|key| self.leases.missing(&ready.leases, key)).or_else(refused);
        let (name, limit) = missing?;
        let used = Some(self.leases.taken(name));
        let is_own = name.starts_with(CONNECTION_LIMIT);
        let (option, name) = if is_own { (CONNECTIONS, None) } else { (NAMED_CONNECTIONS, Some(name.clone())) };
        Some(Binding { option, name, value: limit.to_string(), used })
    }

    /// Its room, all of which is taken.
    pub(crate) fn room(ready: &ReadyQueue) -> Binding {
        let (max, used) = (ready.leg.path.max_ready, ready.messages.len() as u64);
        Binding { option: "max_ready", name: None, value: max.to_string(), used: Some(used) }
    }

    /// How many connections it may have, when it has them all.
    pub(crate) fn connections_taken(ready: &ReadyQueue) -> Option<Binding> {
        let used = ready.connections.len() as u64;
        let limit = ready.leg.path.connection_limit.limit;
        let borne = ready.window.as_ref().map_or(u64::MAX, |window| window.connections() as u64);
        let of = |option, value: u64| Binding { option, name: None, value: value.to_string(), used: Some(used) };
        let least = if borne < limit { of("concurrency_feedback", borne) } else { of(CONNECTIONS, limit) };
        (used >= borne.min(limit)).then_some(least)
    }
}

/// Of one's own rate and those by name the one that binds.
fn rate(
    binds: &Binds,
    (option, own): (&'static str, Option<&ThrottleSpec>),
    (named_option, named): (&'static str, &BTreeMap<String, ThrottleSpec>),
) -> Option<Binding> {
    let of = |option, name: Option<&str>, spec: &ThrottleSpec| Binding {
        option,
        name: name.map(Into::into),
        value: spec.to_string(),
        used: None,
    };
    match binds {
        Binds::Own => own.map(|spec| of(option, None, spec)),
        Binds::Named(name) => named.get(&**name).map(|spec| of(named_option, Some(name), spec)),
        // It does not say which one: the slowest, most likely.
        Binds::Cluster => {
            let own = own.filter(|spec| !spec.local).map(|spec| (None, spec));
            let named = named.iter().filter(|(_, spec)| !spec.local).map(|(name, spec)| (Some(name), spec));
            let slowness = |spec: &ThrottleSpec| spec.period_s as f64 / spec.limit.max(1) as f64;
            let slowest = own.into_iter().chain(named).max_by(|a, b| slowness(a.1).total_cmp(&slowness(b.1)));
            slowest.map(|(name, spec)| match name {
                None => of(option, None, spec),
                Some(name) => of(named_option, Some(name), spec),
            })
        }
    }
}

/// Most that are named.
pub const SHARERS_MAX: usize = 20;
const RATE: &str = "max_message_rate";
const NAMED_RATES: &str = "additional_message_rate_throttles";
const NAMED_SELECTIONS: &str = "additional_source_selection_rates";
const CONNECTIONS: &str = "connection_limit";
const NAMED_CONNECTIONS: &str = "additional_connection_limits";
