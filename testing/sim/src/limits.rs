//! The oracle's look at limits: of each, that it is never exceeded, and that it was reached.
//!
//! What the queue does is watched as it does it, at the end of each visit; what drivers do later, when they do it. Promotions
//! are told by what a visit added to ready queues and took from them: messages that left otherwise hide some, so what is
//! counted is real and may be too little.

use crate::life::Process;
use crate::plan::SitePlan;
use crate::rates::Noted;
use crate::world::World;
use config::ThrottleSpec;
use message::MessageId;
use queue::{Effect, Place};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What the last visit to the queue left in the ready queues.
#[derive(Debug, Default)]
pub(crate) struct Before {
    counts: BTreeMap<String, usize>,
    ready: BTreeSet<MessageId>,
}

/// What a visit took out of a ready queue, or put back into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// A connection took this message.
    Taken(MessageId),
    /// A connection gave this one back.
    GivenBack(MessageId),
}

impl World {
    /// Limits that hold at every moment.
    pub fn watch_limits(&mut self) {
        let Some(process) = &mut self.process else { return };
        let mut wrong = None;
        for (name, messages, connections) in process.queue.ready_counts().map(|(name, m, c)| (&**name, m, c)) {
            let Some(site) = site_of(&self.plan.sites, name) else { continue };
            let (limit, max_ready) = (site.path.connection_limit.limit as usize, site.path.max_ready);
            if connections > limit {
                wrong = Some(format!("{name} has {connections} connections of {limit}"));
            }
            let over = process.given_back.get(name).copied().unwrap_or(0);
            if messages > max_ready.max(over) {
                wrong = Some(format!("{name} holds {messages} messages of {max_ready}"));
            }
            if over > 0 && messages < over {
                process.given_back.insert(name.to_owned(), messages);
            }
        }
        wrong = wrong.or_else(|| strange_connection(process)).or_else(|| {
            let (open, limit) = most_shared(process)?;
            self.report.shared_limits_reached += u64::from(open == limit && self.shared_open < open);
            self.shared_open = open;
            (open > limit).then(|| format!("{open} connections have a lease of {limit}"))
        });
        let resident = process.queue.resident_bytes();
        if process.lean && resident > 0 {
            wrong = Some(format!("{resident} octets of spooled content in memory, and memory is short"));
        }
        if resident > self.plan.resident_bytes_max {
            wrong = Some(format!("{resident} octets of content in memory of {}", self.plan.resident_bytes_max));
        }
        wrong.into_iter().for_each(|w| self.ledger.violate(w));
    }

    /// What a visit let through, against the rates.
    pub fn after_visit(&mut self, effects: &[Effect], moved: Option<(Arc<str>, Moved)>) {
        for effect in effects {
            if let Effect::Open(opening) = effect
                && let Some(rate) = &opening.leg.path.max_connection_rate
            {
                self.keeps_rate(&format!("connections of {}", opening.ready_name), rate);
            }
        }
        if !self.plan.watches_promotions && !self.plan.limits_choices {
            return;
        }
        let Some(process) = &mut self.process else { return };
        let mut events: Vec<(String, ThrottleSpec)> = Vec::new();
        for (name, messages) in process.queue.ready_counts().map(|(name, messages, _)| (&**name, messages)) {
            let taken = moved.as_ref().filter(|(of, _)| **of == *name).map(|(_, moved)| *moved);
            let (left, came) = match taken {
                Some(Moved::Taken(_)) => (1, 0),
                Some(Moved::GivenBack(_)) => (0, 1),
                None => (0, 0),
            };
            let Some(before) = process.before.counts.get_mut(name) else {
                process.before.counts.insert(name.to_owned(), messages);
                events.extend(choices(&self.plan.sites, name, messages));
                continue;
            };
            events.extend(choices(&self.plan.sites, name, (messages + left).saturating_sub(*before + came)));
            *before = messages;
        }
        if self.plan.watches_promotions {
            events.extend(self.promoted(moved.map(|(_, moved)| moved)));
        }
        events.into_iter().for_each(|(name, rate)| self.keeps_rate(&name, &rate));
    }

    /// Rates of the queues whose messages became ready in this visit.
    fn promoted(&mut self, moved: Option<Moved>) -> Vec<(String, ThrottleSpec)> {
        let Some(process) = &mut self.process else { return Vec::new() };
        let ready = ready_messages(process);
        let mut was_ready = std::mem::replace(&mut process.before.ready, ready.clone());
        let mut ready = ready;
        match moved {
            Some(Moved::Taken(id)) => _ = ready.insert(id),
            Some(Moved::GivenBack(id)) => _ = was_ready.insert(id),
            None => {}
        }
        let rate_of = |id: &MessageId| {
            let name = self.queue_of.get(id)?;
            let rate = self.plan.domains[self.domain_number(name)].configs[0].max_message_rate?;
            Some((format!("messages of queue {name}"), rate))
        };
        ready.difference(&was_ready).filter_map(rate_of).collect()
    }

    /// A message goes out by a connection.
    pub fn watch_message_rates(&mut self, number: u64) {
        let Some(process) = &self.process else { return };
        let Some(outbound) = process.outbound.get(&number) else { return };
        let (path, name) = (outbound.opening.leg.path.clone(), outbound.opening.ready_name.clone());
        if let Some(rate) = &path.max_message_rate {
            self.keeps_rate(&format!("messages of {name}"), rate);
        }
        for (name, rate) in &path.additional_message_rate_throttles {
            self.keeps_rate(&format!("messages of all {name}"), rate);
        }
    }

    /// Notes where a message belongs, for the rate of its queue.
    pub fn note_queue(&mut self, id: MessageId, queue: &str) {
        if self.plan.watches_promotions {
            self.queue_of.insert(id, queue.to_owned());
        }
    }

    fn keeps_rate(&mut self, name: &str, rate: &ThrottleSpec) {
        let now = self.now;
        let Some(process) = &mut self.process else { return };
        let noted = process.rates.note(name.to_owned(), rate, now);
        let count = match name {
            _ if name.starts_with("connections") => &mut self.report.connection_rates_reached,
            _ if name.starts_with("choices of all") => &mut self.report.shared_choices_reached,
            _ if name.starts_with("choices") => &mut self.report.source_choices_reached,
            _ if name.starts_with("messages of queue") => &mut self.report.queue_rates_reached,
            _ if name.starts_with("messages of all") => &mut self.report.shared_rates_reached,
            _ => &mut self.report.message_rates_reached,
        };
        *count += u64::from(noted == Noted::Last);
        if noted == Noted::TooMany {
            self.ledger.violate(format!("more {name} than {rate}"));
        }
    }
}

/// So many choices of the source of a ready queue, by each of its rates.
fn choices(sites: &[SitePlan], ready_name: &str, count: usize) -> Vec<(String, ThrottleSpec)> {
    let Some(site) = site_of(sites, ready_name).filter(|_| count > 0) else { return Vec::new() };
    let own = site.path.source_selection_rate.map(|rate| (format!("choices of {ready_name}"), rate));
    let shared = site.path.additional_source_selection_rates.iter();
    let all = own.into_iter().chain(shared.map(|(name, rate)| (format!("choices of all {name}"), *rate)));
    let all: Vec<_> = all.collect();
    (0..count).flat_map(|_| all.clone()).collect()
}

fn site_of<'a>(sites: &'a [SitePlan], ready_name: &str) -> Option<&'a SitePlan> {
    // Asked at every event: the digits before the `@`.
    let (way, _) = ready_name.rsplit_once('@')?;
    sites.get(way.get(way.trim_end_matches(|c: char| c.is_ascii_digit()).len()..)?.parse::<usize>().ok()?)
}

fn ready_messages(process: &Process) -> BTreeSet<MessageId> {
    process.queue.census().filter(|(_, place)| *place == Place::Ready).map(|(id, _)| id).collect()
}

/// A connection that the queue does not know of.
fn strange_connection(process: &Process) -> Option<String> {
    let mut open: BTreeMap<&str, u64> = BTreeMap::new();
    process.outbound.values().for_each(|o| *open.entry(&o.opening.ready_name).or_default() += 1);
    open.into_iter().find_map(|(name, count)| {
        let known = process.queue.ready_counts().find(|(n, ..)| ***n == *name).map_or(0, |(_, _, c)| c);
        (count as usize > known).then(|| format!("{name}: {count} connections exist, the queue knows {known}"))
    })
}

/// How many connections have a lease of the shared limit, and how many may.
fn most_shared(process: &Process) -> Option<(u64, u64)> {
    let limits =
        process.outbound.values().filter_map(|o| o.opening.leg.path.additional_connection_limits.get("shared"));
    let (mut open, mut limit) = (0, None);
    for spec in limits {
        (open, limit) = (open + 1, Some(spec.limit));
    }
    Some((open, limit?))
}
