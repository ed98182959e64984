//! The lists of suspensions and bounces, in KumoMTA's form.

use automation::{Effect, ReadySuspension, ScheduledBounce, ScheduledSuspension};
use serde::Serialize;

/// `suspended.json`.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Suspended<'a> {
    ready_q: Vec<&'a ReadySuspension>,
    sched_q: Vec<&'a ScheduledSuspension>,
}

/// What the older kind of subscription says.
#[derive(Debug, Serialize)]
pub(crate) enum Suspension<'a> {
    ReadyQ(&'a ReadySuspension),
    SchedQ(&'a ScheduledSuspension),
}

impl<'a> Suspended<'a> {
    pub fn of(effects: &mut dyn Iterator<Item = &'a Effect>) -> Suspended<'a> {
        let mut found = Suspended::default();
        for effect in effects {
            match Suspension::of(effect) {
                Some(Suspension::ReadyQ(it)) => found.ready_q.push(it),
                Some(Suspension::SchedQ(it)) => found.sched_q.push(it),
                None => {}
            }
        }
        found
    }
}

impl<'a> Suspension<'a> {
    /// None for what is no suspension.
    pub fn of(effect: &'a Effect) -> Option<Suspension<'a>> {
        match effect {
            Effect::ReadyQSuspension(it) => Some(Suspension::ReadyQ(it)),
            Effect::SchedQSuspension(it) => Some(Suspension::SchedQ(it)),
            Effect::SchedQBounce(_) | Effect::Option(_) => None,
        }
    }
}

/// `bounced.json`.
pub(crate) fn bounced<'a>(effects: &mut dyn Iterator<Item = &'a Effect>) -> Vec<&'a ScheduledBounce> {
    effects
        .filter_map(|effect| match effect {
            Effect::SchedQBounce(it) => Some(it),
            _ => None,
        })
        .collect()
}
