//! The oracle's look at the living server: every message in exactly one place, limits kept,
//! nothing left over at the end.

use crate::event::{Appender, Event, ServerEvent};
use crate::ledger::Gone;
use crate::life::Process;
use crate::outbound::Outbound;
use crate::plan::SECOND;
use crate::world::World;
use message::MessageId;
use queue::Footprint;
use std::collections::BTreeMap;

impl World {
    /// Counts where every message is.
    pub fn inspect(&mut self) {
        let Some(process) = &self.process else { return };
        let mut places: BTreeMap<MessageId, Vec<&'static str>> = BTreeMap::new();
        for (id, place) in process.queue.census() {
            places.entry(id).or_default().push(match place {
                queue::Place::Waiting => "waiting",
                queue::Place::Due => "due",
                queue::Place::Ready => "ready",
                queue::Place::Ending => "ending",
                queue::Place::Held => "held",
                queue::Place::Unspooled => "to be spooled",
            });
        }
        for held in process.outbound.values().flat_map(|o| &o.in_hand) {
            places.entry(held.1.message.id).or_default().push("in flight");
        }
        for id in self.agenda.iter().flat_map(|e| carried(e, process.life)) {
            places.entry(id).or_default().push("with a settler");
        }
        for found in &process.to_restore {
            places.entry(found.id).or_default().push("coming back");
        }
        for id in process.asked.keys().chain(process.requeued.keys()) {
            places.entry(*id).or_default().push("with policy");
        }
        for held in &process.spooling {
            places.entry(held.message.id).or_default().push("with the spooler");
        }
        for id in appended(self, process) {
            places.entry(id).or_default().push("being admitted");
        }
        let mut wrong = match self.plan.constrained {
            0 => Vec::new(),
            _ => self.watch_missed(|id| places.get(&id).cloned().unwrap_or_default()),
        };
        for (id, account) in &self.ledger.messages {
            let places = places.remove(id).unwrap_or_default();
            let settled = account.gone != Gone::No;
            let is_away = account.life < process.life && !process.adopted;
            let should_be = usize::from(account.is_ours() && !settled && !is_away);
            if places.len() != should_be {
                wrong.push(format!("{id} (durable: {}, settled: {settled}) is {places:?}", account.durable));
            }
        }
        wrong.extend(overgrown(process));
        let is_stuck = |o: &&Outbound| !o.in_hand.is_empty() && self.now > o.took_at + HELD_MAX;
        let stuck = process.outbound.iter().filter(|(_, o)| is_stuck(o));
        wrong.extend(stuck.map(|(number, _)| format!("connection {number} has held a message too long")));
        wrong.extend(places.keys().map(|id| format!("{id} is queued and was never made")));
        wrong.into_iter().for_each(|w| self.ledger.violate(w));
    }

    /// After everything recovered and time ran on: all delivered, all forgotten.
    pub fn inspect_end(&mut self) {
        self.inspect();
        let Some(process) = &self.process else { return self.ledger.violate("the server is down at the end") };
        let mut wrong = Vec::new();
        let footprint = process.queue.footprint();
        if footprint != Footprint::default() {
            let census: Vec<_> = process.queue.census().collect();
            wrong.push(format!("something is left in the queue: {footprint:?}, {census:?}"));
        }
        if process.queue.resident_bytes() != 0 {
            wrong.push(format!("{} octets count as resident and nothing is queued", process.queue.resident_bytes()));
        }
        if !process.adopted || !process.to_restore.is_empty() {
            wrong.push("not everything came back".to_owned());
        }
        let stats = process.log.stats();
        // What was set aside and read well after all comes back with the next start.
        let is_aside = |id: &MessageId| self.ledger.messages.get(id).is_some_and(|a| a.gone == Gone::Aside);
        let known = self.ledger.messages.keys().filter_map(|id| Some((*id, process.log.locate(*id)?)));
        let (aside, left): (Vec<_>, Vec<_>) = known.partition(|(id, _)| is_aside(id));
        if stats.live_messages != aside.len() as u64 || !left.is_empty() {
            wrong.push(format!("{} messages are left in the spool: {left:?}", stats.live_messages));
        }
        let (inbound, outbound) = (process.inbound.len(), process.outbound.len());
        if inbound + outbound + self.peers.len() + self.clients.len() > 0 || !process.by_key.is_empty() {
            wrong.push(format!(
                "sessions are left: {inbound} in, {outbound} out, {} peers, {} clients, {} keys",
                self.peers.len(),
                self.clients.len(),
                process.by_key.len()
            ));
        }
        self.report.octets_compacted += stats.octets_compacted;
        wrong.into_iter().for_each(|w| self.ledger.violate(w));
        self.ledger.close();
    }
}

/// What the queue keeps beside its messages, when that is more than queues and limits explain.
fn overgrown(process: &Process) -> Option<String> {
    let size = process.queue.footprint();
    let waiting = process.queue.census().filter(|(_, place)| *place == queue::Place::Waiting).count();
    let (timers_max, waiters_max) = (
        waiting + size.stale_timers + TIMERS_PER_QUEUE_MAX * (size.scheduled_queues + size.ready_queues),
        size.scheduled_queues * size.ready_queues,
    );
    let sound = size.timers <= timers_max && size.waiters <= waiters_max && size.idle <= size.connections;
    (!sound).then(|| format!("{size:?} for {waiting} waiting messages"))
}

/// How long a connection may hold a message at most, whatever its peer does: seven recipients in as many transactions, each
/// of whose replies comes just in time, twice, and time to write.
const HELD_MAX: u64 = 1_000 * SECOND;
/// Timers that one queue may have beside those of its messages: holds, rates, failed connections.
const TIMERS_PER_QUEUE_MAX: usize = 40;

/// The message that a settler has in hand.
fn carried(event: &Event, life: u32) -> Option<MessageId> {
    match event {
        Event::Server(l, ServerEvent::SettleEnding(queued, _)) if *l == life => Some(queued.message.id),
        _ => None,
    }
}

/// Messages whose receipts are on their way from the writer.
fn appended<'a>(world: &'a World, process: &'a Process) -> impl Iterator<Item = MessageId> + 'a {
    let receipts = world.agenda.iter().filter_map(move |event| match event {
        Event::Server(life, ServerEvent::Appended(Appender::Session(_), Ok((_, durable)))) if *life == process.life => {
            Some(durable)
        }
        _ => None,
    });
    receipts.flatten().map(|d| d.id())
}
