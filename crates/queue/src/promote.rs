//! The gate between scheduled and ready: judges every obstacle, in one order, in one place.
//!
//! For each due message of a queue: is it young enough, are configuration and route
//! known, is the rate free, is there a source with room? The first obstacle found ends the walk
//! and leaves the messages where they are with something that will look again: an effect
//! under way, a timer, or a place among a ready queue's waiters. Never recursive.

use crate::asking::Asked;
use crate::core::{QueueCore, QueueKey, ReadyKey, Timer, is_small};
use crate::effect::Effect;
use crate::epoch::Epoch;
use crate::grants::{PotKey, Waiter};
use crate::messages::SlotNumber;
use crate::order::OrderId;
use crate::orders::SUSPENSION_LOOK;
use crate::ready::{ReadyQueue, protocol_of};
use crate::scheduled::{Fate, ScheduledQueue};
use crate::shared::SharedRates;
use crate::sources::Sources;
use clock::{Duration, Instant, Now};
use hashbrown::HashMap;
use std::collections::BTreeMap;

/// What stopped, or did not stop, the first due message.
enum Gate {
    Open(ReadyKey),
    /// Nothing is in its way but that policy wants to be asked.
    Asks,
    Expired,
    Ordered(OrderId),
    Stopped,
}

impl QueueCore {
    /// Moves due messages of one queue to ready queues until something stops them.
    pub(crate) fn promote(&mut self, now: Now, key: QueueKey) {
        self.promote_up_to(now, key, usize::MAX);
    }

    /// Gives freed room of a ready queue to the scheduled queues that wait for it, in turn.
    pub(crate) fn call_waiters(&mut self, now: Now, key: ReadyKey) {
        let mut turns = self.ready.get(&key).map_or(0, |r| r.waiters.len() + r.small_waiters.len());
        while turns > 0 {
            turns -= 1;
            let Some(ready) = self.ready.get_mut(&key) else { return };
            if let Err(wait) = ready.may_be_chosen(&self.rates, &self.sources, now.mono) {
                return self.call_waiters_after(now.mono, key, wait);
            }
            let Some(waiter) = ready.call(is_small(&self.scheduled)) else { return };
            if let Some(queue) = self.scheduled.get_mut(&waiter) {
                queue.waits_at.remove(&key);
            }
            self.promote_up_to(now, waiter, MESSAGES_PER_TURN);
        }
    }

    /// Calls those who wait for a ready queue once its source may be chosen again.
    fn call_waiters_after(&mut self, now: Instant, key: ReadyKey, wait: Duration) {
        let Some(ready) = self.ready.get_mut(&key) else { return };
        let lacks = ready.selection_rates.lacks(&self.rates, now);
        // Whoever is called by the answer needs no timer; it is the net below.
        let least = if lacks.is_some() { GRANT_LOOK } else { Duration::ZERO };
        let at = now + wait.clamp(least, SUSPENSION_LOOK);
        if ready.selects_at <= now || ready.selects_at > at {
            ready.selects_at = at;
            self.wheel.insert(at, Timer::Select(key));
        }
        if let Some(pot) = lacks {
            self.await_grant(now, pot, Waiter::Select(key));
        }
    }

    fn promote_up_to(&mut self, now: Now, key: QueueKey, messages_max: usize) {
        let (mut promoted, mut moved) = (0, 0);
        while promoted < messages_max {
            match self.judge(now, key) {
                Gate::Stopped => return,
                Gate::Asks => return self.line_up_to_ask(key),
                // Takes no room and so no part of the turn: whoever uses a turn up must leave a
                // message behind whose leaving calls the next in line.
                Gate::Expired => {
                    let Some((slot, _)) = self.pop_due(key) else { return };
                    self.messages.push_back(&mut self.endings.expired, slot);
                    self.call_settlers();
                }
                Gate::Ordered(id) => {
                    let Some((slot, _)) = self.pop_due(key) else { return };
                    self.take_by_order(key, slot, id);
                }
                Gate::Open(ready_key) => {
                    let (Some((slot, is_small)), Some(ready)) = (self.pop_due(key), self.ready.get_mut(&ready_key))
                    else {
                        return;
                    };
                    let (id, queue) = (self.messages.get(slot).map(|message| message.id), self.scheduled.get_mut(&key));
                    let deadline = id.zip(queue).and_then(|(id, queue)| queue.deadline_of(id));
                    ready.messages.push_back(&mut self.messages, key, slot, (is_small, deadline));
                    ready.last_used = now.mono;
                    self.serve(now, ready_key);
                    promoted += 1;
                }
            }
            moved += 1;
            if moved == MESSAGES_PER_VISIT {
                return self.go_on_later(key);
            }
        }
        // The turn is over with messages left: stand in line again.
        self.wait_for_room(now.mono, key);
    }

    /// An operator wants it tried: a queue waits no longer because a look-up failed before (`QueueCore::unroutable`), and one that is
    /// under way, should it fail, is followed by another. True when it did wait.
    pub(crate) fn ends_hold(&mut self, now: Now, key: QueueKey) -> bool {
        let Some(queue) = self.scheduled.get_mut(&key) else { return false };
        queue.routes_by_old |= queue.routing;
        let is_held = now.mono < queue.promotes_after && !queue.waits_for_rate;
        if is_held {
            queue.promotes_after = Instant::ZERO;
        }
        is_held
    }

    fn judge(&mut self, now: Now, key: QueueKey) -> Gate {
        let Some(queue) = self.scheduled.get_mut(&key) else { return Gate::Stopped };
        let message = queue.due.first().and_then(|slot| self.messages.get(slot));
        let Some(message) = message else { return Gate::Stopped };
        match queue.fate(message, now) {
            // Whatever else it waits for.
            Fate::Expired => return Gate::Expired,
            Fate::Ordered(id) => return Gate::Ordered(id),
            // The end of the order calls.
            Fate::Suspended => return Gate::Stopped,
            Fate::Goes => {}
        }
        let waits = now.mono < queue.promotes_after;
        if waits && !queue.waits_for_rate {
            return Gate::Stopped;
        }
        refresh(queue, key, (now.mono, self.epoch), &mut self.effects);
        if waits {
            return Gate::Stopped;
        }
        if queue.config.is_none() || queue.route.is_none() {
            return Gate::Stopped;
        }
        // The rate is asked before the walk over the sources and charged after it: a walk for
        // nothing would shift their shares, a charge for nothing would slow the queue down.
        let lacks = queue.message_rate.lacks(&self.rates, now.mono);
        let waits = queue.message_rate.check(&self.rates, now.mono).err();
        if let Some(wait) = waits.filter(|_| lacks.is_none()) {
            (queue.promotes_after, queue.waits_for_rate) = (now.mono + wait, true);
            self.wheel.insert(queue.promotes_after, Timer::Promote(key));
            return Gate::Stopped;
        }
        // A grant is not asked for in vain: it would be lost before there is a way.
        let ways = (&self.rates, &self.sources);
        if let Some(pot) = lacks.filter(|_| has_way(queue, &self.ready, ways, now.mono)) {
            self.await_grant(now.mono, pot, Waiter::Promote(key));
            return Gate::Stopped;
        }
        let id = message.id;
        if self.asking.is_on()
            && queue.asked(id) != Some(Asked::Passed)
            && has_way(queue, &self.ready, (&self.rates, &self.sources), now.mono)
        {
            return Gate::Asks;
        }
        let mut choice = choose(queue, &self.ready, (&self.rates, &self.sources), now.mono);
        if choice.some_gone {
            queue.route_fresh_until = Instant::ZERO;
            refresh(queue, key, (now.mono, self.epoch), &mut self.effects);
        }
        if let Some((leg, pot)) = choice.unsure {
            // Its turn is kept until the answer comes.
            queue.picked = Some(leg);
            self.await_grant(now.mono, pot, Waiter::Pick(key));
            return Gate::Stopped;
        }
        // A way that was not there when the grant was not asked for.
        choice.leg = choice.leg.filter(|_| lacks.is_none());
        let Some(leg) = choice.leg else {
            choice.waits.into_iter().for_each(|(leg, wait)| self.call_waiters_after(now.mono, leg, wait));
            self.wait_for_room(now.mono, key);
            return Gate::Stopped;
        };
        let _admitted = queue.message_rate.admit(&mut self.rates, now.mono);
        if let Some(ready) = self.ready.get_mut(&leg) {
            let _admitted = ready.selection_rates.admit(&mut self.rates, now.mono);
        }
        queue.forget_asked(id);
        Gate::Open(leg)
    }

    /// True when policy is to be asked about the first due message of a queue, now.
    pub(crate) fn is_to_be_asked(&mut self, now: Now, key: QueueKey) -> bool {
        self.asking.is_on() && matches!(self.judge(now, key), Gate::Asks)
    }

    /// The first due message, and whether its queue is a small one.
    pub(crate) fn pop_due(&mut self, key: QueueKey) -> Option<(SlotNumber, bool)> {
        let queue = self.scheduled.get_mut(&key)?;
        let is_small = queue.is_small();
        let slot = self.messages.pop_front(&mut queue.due)?;
        self.messages.get(slot).into_iter().for_each(|message| queue.goes_out(message.id));
        Some((slot, is_small))
    }

    /// One visit has done enough for this queue.
    pub(crate) fn go_on_later(&mut self, key: QueueKey) {
        if let Some(queue) = self.scheduled.get_mut(&key)
            && !std::mem::replace(&mut queue.unfinished, true)
        {
            self.unfinished.push_back(key);
        }
    }

    /// Puts a queue with due messages in line at every ready queue it could use.
    fn wait_for_room(&mut self, now: Instant, key: QueueKey) {
        let Some(queue) = self.scheduled.get_mut(&key) else { return };
        let is_small = queue.is_small();
        let Some(way) = queue.route.as_ref().filter(|_| !queue.due.is_empty()) else { return };
        for leg in &way.legs {
            if let Some(ready) = self.ready.get_mut(leg)
                && queue.waits_at.insert(*leg)
            {
                if !ready.has_room(is_small) && is_news(&mut queue.found_full, &way.legs, (now, *leg)) {
                    ready.full += 1;
                    let protocol = protocol_of(&ready.name);
                    match self.full.get_mut(protocol) {
                        Some(times) => *times += 1,
                        None => _ = self.full.insert(protocol.into(), 1),
                    }
                }
                ready.line_up(key, is_small);
            }
        }
    }
}

/// Whether it is to be counted that a ready queue has no room for what is due: at first, and then each [`FULL_AGAIN`] as long as
/// that lasts. Of ways that are none any longer nothing is kept.
fn is_news(found: &mut BTreeMap<ReadyKey, Instant>, legs: &[ReadyKey], (now, leg): (Instant, ReadyKey)) -> bool {
    let is_news = found.get(&leg).is_none_or(|counted| *counted + FULL_AGAIN <= now);
    if is_news {
        found.retain(|known, _| legs.contains(known));
        found.insert(leg, now);
    }
    is_news
}

/// Asks for configuration and route when they are missing or stale; stale ones stay in use
/// until the answer comes. The route is asked for by the configuration that comes, not by the one that is stale.
pub(crate) fn refresh(
    queue: &mut ScheduledQueue,
    key: QueueKey,
    (now, epoch): (Instant, Epoch),
    effects: &mut Vec<Effect>,
) {
    if queue.config_is_stale(now, epoch) && !queue.configuring {
        (queue.configuring, queue.config_epoch) = (true, epoch);
        effects.push(Effect::Configure { queue: key, name: queue.name.clone() });
    }
    let is_stale = queue.route_is_stale(now, epoch) && !queue.configuring;
    if let Some(config) = &queue.config
        && is_stale
        && !queue.routing
    {
        (queue.routing, queue.route_epoch) = (true, epoch);
        let config = config.clone();
        effects.push(Effect::Route { queue: key, name: queue.name.clone(), tls: queue.tls, config });
    }
}

/// True when one of its ways has room and may be chosen.
fn has_way(
    queue: &ScheduledQueue,
    ready: &HashMap<ReadyKey, Box<ReadyQueue>>,
    (rates, sources): (&SharedRates, &Sources),
    now: Instant,
) -> bool {
    let is_small = queue.is_small();
    let is_open = |ready: &ReadyQueue| {
        let may = || {
            ready.may_be_chosen(rates, sources, now).is_ok() || ready.may_be_asked_for(rates, sources, now).is_some()
        };
        ready.has_room(is_small) && may()
    };
    queue.route.as_ref().is_some_and(|way| way.legs.iter().filter_map(|leg| ready.get(leg)).any(|ready| is_open(ready)))
}

/// What a walk over the ways of a queue found.
struct Choice {
    /// The next way with room whose source may be selected.
    leg: Option<ReadyKey>,
    /// One was met that is gone: an unused ready queue is forgotten though routes still name it.
    some_gone: bool,
    /// Ways with room that may not be chosen now, and how long: their source's turn is not yet there
    /// (`source_selection_rate`), or it rests.
    waits: Vec<(ReadyKey, Duration)>,
    /// The next way, when the cluster has to be asked whether it may be chosen.
    unsure: Option<(ReadyKey, PotKey)>,
}

fn choose(
    queue: &mut ScheduledQueue,
    ready: &HashMap<ReadyKey, Box<ReadyQueue>>,
    (rates, sources): (&SharedRates, &Sources),
    now: Instant,
) -> Choice {
    let mut choice = Choice { leg: None, some_gone: false, waits: Vec::new(), unsure: None };
    let is_small = queue.is_small();
    let Some(way) = queue.route.as_mut() else { return choice };
    let unsure = |leg: &ReadyKey| ready.get(leg).and_then(|ready| ready.may_be_asked_for(rates, sources, now));
    // The turn that was kept.
    if let Some(leg) = queue.picked.take().filter(|leg| way.legs.contains(leg))
        && let Some(of) = ready.get(&leg).filter(|of| of.has_room(is_small))
    {
        let may = of.may_be_chosen(rates, sources, now).is_ok();
        choice.unsure = unsure(&leg).map(|pot| (leg, pot));
        if may || choice.unsure.is_some() {
            choice.leg = Some(leg);
            return choice;
        }
    }
    let usable = |i: usize| match ready.get(&way.legs[i]) {
        Some(ready) if ready.has_room(is_small) => match ready.may_be_chosen(rates, sources, now) {
            Ok(()) => true,
            Err(_) if unsure(&way.legs[i]).is_some() => true,
            Err(wait) => {
                choice.waits.push((way.legs[i], wait));
                false
            }
        },
        Some(_) => false,
        None => {
            choice.some_gone = true;
            false
        }
    };
    let index = way.rotation.next(usable);
    if choice.waits.len() > 1 {
        choice.waits.sort_unstable();
        choice.waits.dedup();
    }
    choice.leg = index.map(|i| way.legs[i]);
    choice.unsure = choice.leg.and_then(|leg| Some((leg, unsure(&leg)?)));
    choice
}

/// How soon those are called who wait for a grant, whether the answer called them or not.
const GRANT_LOOK: Duration = Duration::from_secs(5);
/// While a ready queue stays full, each scheduled queue that waits for it is counted so often: about as often as KumoMTA tries a
/// message again that found no room.
const FULL_AGAIN: Duration = Duration::from_secs(60);
/// Messages of one queue that one visit moves: below half a millisecond's work.
const MESSAGES_PER_VISIT: usize = 1024;
/// Messages one queue may promote before the next waiting queue has its turn.
const MESSAGES_PER_TURN: usize = 8;
