//! Connections as the queue sees them: what they take, how they end, and when new ones are opened.
//!
//! A connection asks for work and is woken when some comes; it ends, fails or finds its source out of order; each
//! time what is left is served by others. Rates and leases are asked here, and nowhere else for connections.

use crate::core::{ConnKey, QueueCore, QueueKey, Queued, ReadyKey, Take, Timer, is_small};
use crate::effect::Effect;
use crate::ending::Failure;
use crate::feedback::Bearing;
use crate::grants::Waiter;
use crate::messages::List;
use crate::ready::{Connection, Leasing, ReadyQueue};
use crate::scheduled::Fate;
use crate::settle::Verdict;
use crate::shared::LeaseSet;
use crate::sources::{Consequence, SourceFault};
use clock::{Duration, Instant, Now};
use message::Message;
use smtp_wire::{EnhancedCode, Reply};

impl QueueCore {
    /// A connection with nothing in hand asks for its next message; when there is none it is
    /// noted as idle and will be woken.
    pub fn take(&mut self, now: Now, conn: ConnKey) -> Take {
        let taken = self.take_more(now, conn);
        if let (Take::Idle, Some(ready)) = (&taken, self.ready.get_mut(&conn.ready))
            && let Some(connection) = ready.connections.get_mut(conn.slot)
            && !std::mem::replace(&mut connection.idle, true)
        {
            ready.idle.push_back(conn.slot);
        }
        taken
    }

    /// A connection wants to end because nothing came: false when it was woken already and
    /// must take what was promised to it.
    pub fn leave_idle(&mut self, conn: ConnKey) -> bool {
        let Some(ready) = self.ready.get_mut(&conn.ready) else { return true };
        let was_idle = ready.idle.contains(&conn.slot);
        ready.idle.retain(|slot| *slot != conn.slot);
        if let Some(connection) = ready.connections.get_mut(conn.slot) {
            connection.idle = false;
        }
        was_idle
    }

    /// True while messages are ready for whoever this connection serves.
    pub fn has_work(&self, conn: ConnKey) -> bool {
        self.ready.get(&conn.ready).is_some_and(|ready| !ready.messages.is_empty())
    }

    /// A connection with a message in hand asks for one to pipeline behind it. It is not noted
    /// as idle: a message must not be promised to a connection that waits for a slow peer.
    pub fn take_more(&mut self, now: Now, conn: ConnKey) -> Take {
        let Some(ready) = self.ready.get_mut(&conn.ready) else { return Take::Close };
        ready.last_used = now.mono;
        if now.mono < ready.closed_until() {
            return Take::Close;
        }
        let has_too_many = ready.has_too_many();
        let Some(connection) = ready.connections.get_mut(conn.slot) else { return Take::Close };
        connection.is_surplus |= has_too_many;
        if connection.is_surplus {
            return Take::Close;
        }
        let turn_is_over = ready.messages.is_empty() || connection.taken >= LEASE_TURN;
        if connection.is_lost || connection.makes_room || connection.is_outdated(&ready.leg) {
            return Take::Close;
        }
        if turn_is_over && self.leases.are_missed(&connection.leases) {
            connection.makes_room = true;
            self.leases.note_leaving(&connection.leases);
            return Take::Close;
        }
        if self.rates.grants.is_away() && self.leases.are_exceeded(&ready.leases) {
            // This node alone may have its share of the cluster's limits, and no more.
            return Take::Close;
        }
        if ready.messages.is_empty() {
            ready.is_delayed = false;
            return Take::Idle;
        }
        if let Err(wait) = ready.message_rates.admit(&mut self.rates, now.mono) {
            // Whoever asks meanwhile asks for the same message. None: the cluster has yet to say whether it is to wait.
            if !wait.is_zero() {
                self.delayed_by_rate += u64::from(!std::mem::replace(&mut ready.is_delayed, true));
            }
            // Beyond its patience a connection would be held for nothing, and may be what others wait for.
            if wait > ready.patience() {
                return Take::Close;
            }
            ready.connections.get_mut(conn.slot).into_iter().for_each(|connection| connection.has_waited = true);
            let Some(pot) = ready.message_rates.lacks(&self.rates, now.mono) else { return Take::After(wait) };
            // The answer wakes it.
            self.await_grant(now.mono, pot, Waiter::Take(conn));
            return Take::After(wait.max(GRANT_LOOK));
        }
        connection.taken += 1;
        if std::mem::take(&mut connection.idle) {
            // It was woken once too often: nothing more is promised to it.
            ready.idle.retain(|slot| *slot != conn.slot);
        }
        ready.is_delayed = false;
        ready.consecutive_failures = 0;
        loop {
            let taken = self.pop_next(now, conn.ready);
            // Places became free, of what is taken and of what was too old.
            self.call_waiters(now, conn.ready);
            if taken.is_some() || !self.has_work(conn) {
                return taken.map_or(Take::Idle, |queued| Take::Message(Box::new(queued)));
            }
        }
    }

    /// The message that goes next; those before it that are too old, or that an order ends or holds back, leave.
    fn pop_next(&mut self, now: Now, key: ReadyKey) -> Option<Queued> {
        loop {
            let ready = self.ready.get_mut(&key)?;
            let slot = ready.messages.pop_front(&mut self.messages, is_small(&self.scheduled))?;
            if self.fate(slot, now) == Fate::Goes {
                return self.messages.remove(slot);
            }
            self.leave_ready(now, slot);
        }
    }

    /// Whether a connection that broke may be opened anew, to this host or the next. That counts as another one.
    pub fn may_reconnect(&mut self, now: Now, conn: ConnKey) -> bool {
        let Some(ready) = self.ready.get_mut(&conn.ready) else { return false };
        let goes = |it: &mut Connection| it.is_lost || it.is_surplus || it.makes_room || it.is_outdated(&ready.leg);
        let is_to_go = ready.connections.get_mut(conn.slot).is_none_or(goes);
        if is_to_go || now.mono < ready.closed_until() || ready.has_too_many() {
            return false;
        }
        ready.connection_rates.admit(&mut self.rates, now.mono).is_ok()
    }

    /// A connection is over; it gave its messages back or settled them before. Behind one that did nothing but wait for a rate the next
    /// comes after a moment: a server that lets go of whoever is idle would be called again and again.
    pub fn connection_ended(&mut self, now: Now, conn: ConnKey) {
        if let Some(ready) = self.ready.get_mut(&conn.ready)
            && !ready.messages.is_empty()
            && ready.connections.get(conn.slot).is_some_and(|it| it.has_waited && it.taken == 0)
        {
            ready.pause(now.mono + PAUSE_FOR_NOTHING);
            self.wheel.insert(ready.opens_after, Timer::Open(conn.ready));
        }
        self.ended(now, conn);
    }

    fn ended(&mut self, now: Now, conn: ConnKey) {
        let Some(ready) = self.ready.get_mut(&conn.ready) else { return };
        // What it had, the cluster has again.
        if !self.rates.grants.is_away() {
            ready.leases_after = Instant::ZERO;
        }
        if let Some(connection) = self.remove_connection(conn) {
            self.leases.give_back(&connection.leases, connection.makes_room);
            self.call_for_leases(now, &connection.leases);
        }
        self.serve(now, conn.ready);
    }

    pub(crate) fn remove_connection(&mut self, conn: ConnKey) -> Option<Connection> {
        let ready = self.ready.get_mut(&conn.ready)?;
        let connection = ready.connections.try_remove(conn.slot)?;
        ready.idle.retain(|slot| *slot != conn.slot);
        ready.rest();
        Some(connection)
    }

    /// Calls those who wait for leases that came back, before whoever gave them back may take them again.
    pub(crate) fn call_for_leases(&mut self, now: Now, leases: &LeaseSet) {
        for _ in 0..self.leases.in_line(leases) {
            let Some(key) = self.leases.call_next(leases) else { return };
            self.serve(now, key);
        }
    }

    /// No host of the destination could be reached: the first message bears the failure; when
    /// `consecutive_connection_failures_before_delay` is exceeded, all of them do.
    pub fn connection_failed(&mut self, now: Now, conn: ConnKey, reply: Reply) {
        let Some(ready) = self.ready.get_mut(&conn.ready) else { return };
        ready.note_failure(now.mono);
        self.bears(now, conn.ready, Bearing::Defers);
        let Some(ready) = self.ready.get_mut(&conn.ready) else { return };
        let opens_after = ready.opens_after;
        let limit = ready.leg.path.consecutive_connection_failures_before_delay;
        let (count, reply) = match ready.consecutive_failures as usize > limit {
            false => (1, reply),
            true => {
                ready.consecutive_failures = 0;
                let code = EnhancedCode::new(4, 4, 1);
                (usize::MAX, Reply::enhanced(451, code, "No answer from any hosts listed in MX"))
            }
        };
        self.fail_ready(now, conn.ready, count, Verdict::Transient, reply);
        self.wheel.insert(opens_after, Timer::Open(conn.ready));
        self.ended(now, conn);
        self.call_waiters(now, conn.ready);
    }

    /// What a connection found out about its destination (`concurrency_feedback`). A destination that is dead from here is left
    /// alone for a while: its messages are due again in their scheduled queues, no attempt counted, for other sources.
    pub fn bears(&mut self, now: Now, key: ReadyKey, bearing: Bearing) {
        let Some(ready) = self.ready.get_mut(&key) else { return };
        let limit = ready.leg.path.connection_limit.limit;
        let is_dead = ready.window.as_mut().is_some_and(|window| window.note(now.mono, bearing, limit));
        if is_dead {
            self.wheel.insert(ready.closed_until(), Timer::Open(key));
            self.resting.push_back(key);
        }
    }

    /// No connection came about because of the source itself. If it rests from now on, its messages go back to their
    /// scheduled queues, no attempt counted, and other sources of their pools have them
    /// (`Why::SourceIsUnhealthyAndSuspended`); if not, it is a failure like any other. True when it did not rest before.
    pub fn source_failed(&mut self, now: Now, conn: ConnKey, fault: SourceFault, reply: Reply) -> bool {
        let Some(source) = self.ready.get(&conn.ready).map(|ready| ready.leg.source.clone()) else { return false };
        let consequence = self.sources.failed(now.mono, &source, fault);
        if consequence == Consequence::Goes {
            self.connection_failed(now, conn, reply);
            return false;
        }
        if consequence == Consequence::BeginsToRest {
            let of_source = self.ready.iter().filter(|(_, r)| r.leg.source.name == source.name);
            let mut resting: Vec<ReadyKey> = of_source.map(|(key, _)| *key).collect();
            // In order of age: equal runs must do equal things.
            resting.sort_unstable();
            self.resting.extend(resting);
        } else {
            // The others went back when it began; here there may be some since.
            self.resting.push_back(conn.ready);
        }
        self.connection_ended(now, conn);
        self.send_back(now);
        consequence == Consequence::BeginsToRest
    }

    /// Messages of ready queues whose source rests are due again in their scheduled queues: some thousand at a visit.
    pub(crate) fn send_back(&mut self, now: Now) {
        let mut queues = Vec::new();
        for _ in 0..RETURNED_PER_VISIT {
            let Some(key) = self.resting.front().copied() else { break };
            let rests = |r: &ReadyQueue| self.sources.rests(now.mono, &r.leg.source.name).is_some();
            let is_closed = self.ready.get(&key).is_some_and(|r| r.closed_until() > now.mono || rests(r));
            let ready = self.ready.get_mut(&key).filter(|_| is_closed);
            let slot = ready.and_then(|ready| ready.messages.pop_front(&mut self.messages, is_small(&self.scheduled)));
            let Some((slot, home)) = slot.and_then(|slot| Some((slot, self.messages.queue_of(slot)?))) else {
                // Empty, or open again: then what is left stays.
                self.resting.pop_front();
                self.serve(now, key);
                self.call_waiters(now, key);
                continue;
            };
            let Some(queue) = self.scheduled.get_mut(&home) else { continue };
            queue.out = queue.out.saturating_sub(1);
            queue.push_due(&mut self.messages, slot);
            queues.push(home);
        }
        queues.sort_unstable();
        queues.dedup();
        queues.into_iter().for_each(|queue| self.promote(now, queue));
    }

    /// The destination as a whole refuses or cannot take mail (null MX, prohibited host): every
    /// message ready for it is settled with `reply`.
    pub fn site_failed(&mut self, now: Now, conn: ConnKey, reply: Reply) {
        let verdict = if reply.is_permanent() { Verdict::Permanent } else { Verdict::Transient };
        self.fail_ready(now, conn.ready, usize::MAX, verdict, reply);
        self.ended(now, conn);
        self.call_waiters(now, conn.ready);
    }

    /// Wakes an idle connection or opens new ones, as far as limits allow.
    pub(crate) fn serve(&mut self, now: Now, key: ReadyKey) {
        let Some(ready) = self.ready.get_mut(&key) else { return };
        if ready.messages.is_empty() || now.mono < ready.closed_until() {
            return ready.note_open();
        }
        if let Some(slot) = ready.idle.pop_front() {
            ready.note_open();
            if let Some(connection) = ready.connections.get_mut(slot) {
                connection.idle = false;
            }
            self.effects.push(Effect::Wake(ConnKey { ready: key, slot }));
            return;
        }
        while ready.connections.len() < ready.wanted_connections() {
            if now.mono < ready.opens_after {
                return;
            }
            // The cluster is asked for one connection after the other, or told of it.
            let leasing = ready.leasing(&self.rates);
            let needs_cluster = leasing.is_some();
            if needs_cluster && (now.mono < ready.leases_after || ready.is_leasing()) {
                return;
            }
            let alone_from = self.rates.grants.alone_from();
            if needs_cluster && now.mono < alone_from {
                if ready.leases_after != alone_from {
                    ready.leases_after = alone_from;
                    self.wheel.insert(alone_from, Timer::Open(key));
                }
                return;
            }
            if let Some(rest) = self.sources.rests(now.mono, &ready.leg.source.name) {
                (ready.opens_after, ready.waits_for_rate) = (now.mono + rest, false);
                self.wheel.insert(ready.opens_after, Timer::Open(key));
                return;
            }
            let messages_wait = ready.message_rates.check(&self.rates, now.mono).err();
            let opening_waits = ready.opening_wait(&self.rates, now.mono);
            if let Some(wait) = opening_waits.max(messages_wait.filter(|wait| *wait > ready.patience())) {
                ready.rate_awaited_since = opening_waits.and(ready.rate_awaited_since.or(Some(now.wall)));
                let lacks = ready.connection_rates.lacks(&self.rates, now.mono);
                if let Some(pot) = lacks.filter(|_| leasing != Some(Leasing::Asks)) {
                    return self.await_grant(now.mono, pot, Waiter::Open(key));
                }
                (ready.opens_after, ready.waits_for_rate) = (now.mono + wait, true);
                self.wheel.insert(ready.opens_after, Timer::Open(key));
                return;
            }
            if leasing != Some(Leasing::Asks) {
                ready.rate_awaited_since = None;
            }
            if !self.leases.take(&ready.leases, key, !ready.connections.is_empty()) {
                ready.lease_awaited_since.get_or_insert(now.wall);
                let name = (ready.connections.is_empty() && ready.shared_limit().is_some()).then(|| ready.name.clone());
                return name.into_iter().for_each(|name| self.rouse_idle(&name, key));
            }
            let leases = ready.leases.clone();
            // Rates are charged when the leases are had: who is refused has opened nothing.
            let connection = Connection::new(&ready.leg, leases, leasing);
            let slot = ready.connections.insert(connection);
            if !needs_cluster {
                ready.lease_awaited_since = None;
                let _admitted = ready.connection_rates.admit(&mut self.rates, now.mono);
            }
            self.effects.push(Effect::Open(ready.opening(ConnKey { ready: key, slot }, leasing)));
        }
    }

    /// One that has no connection waits for those of its namesakes: one of these that has nothing to do ends, unless one goes already.
    fn rouse_idle(&mut self, name: &str, who: ReadyKey) {
        let others: Vec<ReadyKey> =
            self.ready_named(name).filter(|key| *key != who).take(NAMESAKES_ASKED_MAX).collect();
        for key in others {
            let Some(ready) = self.ready.get_mut(&key).filter(|ready| self.leases.are_missed(&ready.leases)) else {
                continue;
            };
            let Some(slot) = ready.idle.pop_front() else { continue };
            if let Some(connection) = ready.connections.get_mut(slot) {
                (connection.idle, connection.makes_room) = (false, true);
                self.leases.note_leaving(&connection.leases);
            }
            return self.effects.push(Effect::Wake(ConnKey { ready: key, slot }));
        }
    }

    /// Destinations that must not be mixed have ready queues of their own; of one name, they are one site to its operator, and to
    /// the options of the path. There may be very many of one name, which others can bring about: mostly none but the new one changes.
    pub(crate) fn join_namesakes(&mut self, key: ReadyKey, name: &str) {
        let Some(other) = self.ready_named(name).find(|other| *other != key) else { return };
        let known = self.ready.get(&other).and_then(|other| other.shared_limit());
        let own = self.ready.get(&key).map(|ready| ready.leg.path.connection_limit.limit);
        match known.filter(|limit| own.is_some_and(|own| own <= *limit)) {
            Some(limit) => self.share_with(key, limit),
            None => self.share_connections(name),
        }
    }

    /// The largest `connection_limit` of a name is that of all.
    pub(crate) fn share_connections(&mut self, name: &str) {
        let namesakes: Vec<ReadyKey> = self.ready_named(name).collect();
        let limits = namesakes.iter().filter_map(|key| Some(self.ready.get(key)?.leg.path.connection_limit.limit));
        let limit = limits.max().unwrap_or_default();
        namesakes.into_iter().for_each(|key| self.share_with(key, limit));
    }

    fn share_with(&mut self, key: ReadyKey, limit: u64) {
        let Some(ready) = self.ready.get_mut(&key).filter(|ready| ready.shared_limit() != Some(limit)) else { return };
        let more = ready.share_connections(limit, &self.rates);
        for (_, connection) in &ready.connections {
            self.leases.count(&more);
            if connection.makes_room {
                self.leases.note_leaving(&more);
            }
        }
    }

    /// Messages that grew too old in a ready queue from which nobody took them end.
    pub(crate) fn expire_ready(&mut self, now: Now, key: ReadyKey) {
        let Some(ready) = self.ready.get_mut(&key) else { return };
        let scheduled = &self.scheduled;
        let is_old =
            |queue: QueueKey, message: &Message| scheduled.get(&queue).is_some_and(|q| q.is_expired(message, now));
        if ready.messages.move_expired(&mut self.messages, &mut self.endings.expired, is_old) > 0 {
            self.call_settlers();
            self.call_waiters(now, key);
        }
    }

    /// The first `count` messages of a ready queue, or all there are, end with `reply`; those that an order takes or holds
    /// back leave untried.
    fn fail_ready(&mut self, now: Now, key: ReadyKey, count: usize, verdict: Verdict, reply: Reply) {
        let Some(ready) = self.ready.get_mut(&key) else { return };
        let route = Some((ready.name.clone(), ready.leg.clone()));
        let mut failed = List::default();
        for _ in 0..count.min(ready.messages.len()) {
            let Some(ready) = self.ready.get_mut(&key) else { break };
            let slot = ready.messages.pop_front(&mut self.messages, is_small(&self.scheduled));
            let Some(slot) = slot else { break };
            match self.fate(slot, now) {
                Fate::Ordered(_) | Fate::Suspended => self.leave_ready(now, slot),
                Fate::Goes | Fate::Expired => self.messages.push_back(&mut failed, slot),
            }
        }
        self.fail(Failure { verdict, reply, route }, failed);
    }
}

/// Ready queues of one name that are asked for a connection that has nothing to do.
const NAMESAKES_ASKED_MAX: usize = 256;
/// Messages of resting sources that go back at one visit, with queues that have none.
const RETURNED_PER_VISIT: usize = 2048;
/// Behind a connection that took nothing.
const PAUSE_FOR_NOTHING: Duration = Duration::from_secs(1);
/// How soon a connection looks again that waits for a grant, whether the answer woke it or not.
const GRANT_LOOK: Duration = Duration::from_secs(1);
/// Messages a connection may take while others wait for what it needs.
const LEASE_TURN: usize = 16;
