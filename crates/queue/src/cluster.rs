//! What the queues have to do with a cluster: asking for grants and leases, taking the answers, going on alone.
//!
//! Whoever finds no grant stands in line at its pot and is called by the answer. Leases are asked for by one
//! connection of a ready queue at a time, which opens when it has all of them and tries again later when it has
//! none. While nobody counts for the cluster, rates and limits are this node's share of them. Without a cluster
//! nothing here is ever called.

use crate::core::{ConnKey, QueueCore, ReadyKey, Timer};
use crate::effect::Effect;
use crate::grants::{Asking, BATCH_MAX, ClusterRates, PotKey, Waiter};
use crate::ready::Leasing;
use clock::{Duration, Instant, Now};

impl QueueCore {
    /// From now on rates and limits that are not `local:` are the cluster's; `share` of each is this node's while nobody
    /// counts for all. Comes before the first queue.
    pub fn join_cluster(&mut self, share: f64) {
        self.rates.grants.set_share(share);
    }

    /// Nobody counts for the cluster any more, or somebody does again. Connections beyond this node's share end after the
    /// message they have in hand.
    pub fn set_away(&mut self, now: Now, is_away: bool) {
        if !self.rates.grants.set_away(now.mono, is_away) {
            return;
        }
        let mut keys: Vec<ReadyKey> = Vec::with_capacity(self.ready.len());
        for (key, ready) in &mut self.ready {
            ready.set_leases(&self.rates);
            ready.leases_after = Instant::ZERO;
            ready.forget_rate_wait();
            keys.push(*key);
        }
        // In order of age: equal runs must do equal things.
        keys.sort_unstable();
        self.rates.grants.awaited().into_iter().for_each(|pot| self.call_for_grants(now, pot));
        keys.into_iter().for_each(|key| self.serve(now, key));
    }

    /// True while this node goes by its share.
    pub fn is_away(&self) -> bool {
        self.rates.grants.is_away()
    }

    /// The answer to [`Effect::Grant`]: so many admissions of each of these rates, and how long none will be had after them.
    pub fn granted(&mut self, now: Now, of: &ClusterRates, asked_at: Instant, count: u64, wait: Duration) {
        if self.rates.grants.answered(of.pot(), now.mono, asked_at, (count, wait)) {
            self.call_for_grants(now, of.pot());
        }
    }

    /// The cluster gave a connection its leases and rates, or it is of this node's share and nobody counts: it may open, or not
    /// when the share of a rate is gone meanwhile.
    pub fn leased(&mut self, now: Now, conn: ConnKey) -> bool {
        let Some(ready) = self.ready.get_mut(&conn.ready) else { return false };
        let leasing = ready.connections.get_mut(conn.slot).and_then(|connection| connection.leasing.take());
        if leasing.is_some() {
            ready.note_open();
        }
        let admitted = match leasing {
            Some(Leasing::Asks) => ready.connection_rates.take(&mut self.rates, now.mono),
            Some(Leasing::Tells) | None => ready.connection_rates.admit(&mut self.rates, now.mono),
        };
        if admitted.is_ok() {
            self.serve(now, conn.ready);
        }
        admitted.is_ok()
    }

    /// The cluster has no lease for a connection: there is none, and `wait` until the next is asked for.
    pub fn lease_refused(&mut self, now: Now, conn: ConnKey, wait: Duration) {
        let Some(ready) = self.ready.get_mut(&conn.ready) else { return };
        ready.leases_after = now.mono + wait;
        ready.lease_awaited_since.get_or_insert(now.wall);
        ready.rate_awaited_since = None;
        self.wheel.insert(ready.leases_after, Timer::Open(conn.ready));
        self.remove_unopened(now, conn);
    }

    /// The cluster admits no connection for `wait`, by its rate: there is none.
    pub fn rate_refused(&mut self, now: Now, conn: ConnKey, wait: Duration) {
        let Some(ready) = self.ready.get_mut(&conn.ready) else { return };
        if let Some(pot) = ready.connection_rates.pot().filter(|_| !self.rates.grants.is_away()) {
            self.rates.grants.refused(pot, now.mono, wait);
            ready.waits_for_rate |= ready.opens_after <= now.mono + wait;
            ready.opens_after = ready.opens_after.max(now.mono + wait);
        }
        ready.opens_after = ready.opens_after.max(now.mono);
        ready.rate_awaited_since.get_or_insert(now.wall);
        self.wheel.insert(ready.opens_after, Timer::Open(conn.ready));
        self.remove_unopened(now, conn);
    }

    fn remove_unopened(&mut self, now: Now, conn: ConnKey) {
        let Some(connection) = self.remove_connection(conn) else { return };
        self.leases.give_back(&connection.leases, false);
        self.call_for_leases(now, &connection.leases);
    }

    /// The cluster has given the leases of a connection to others: it takes nothing more.
    pub fn lease_lost(&mut self, conn: ConnKey) {
        let ready = self.ready.get_mut(&conn.ready);
        if let Some(connection) = ready.and_then(|ready| ready.connections.get_mut(conn.slot)) {
            connection.is_lost = true;
            self.effects.push(Effect::Wake(conn));
        }
    }

    /// Puts somebody in line for a grant, and asks for some.
    pub(crate) fn await_grant(&mut self, now: Instant, pot: PotKey, who: Waiter) {
        self.rates.grants.join(pot, who);
        self.ask_for_grants(now, pot);
    }

    /// Calls those in line while there are grants, and then asks for more.
    pub(crate) fn call_for_grants(&mut self, now: Now, pot: PotKey) {
        self.rates.grants.look_at(pot, Instant::ZERO);
        for who in self.rates.grants.call_pickers(pot) {
            self.go_on(now, who);
        }
        let mut to_take = self.admitted(pot, now.mono).min(BATCH_MAX);
        for _ in 0..self.rates.grants.in_line(pot) {
            if to_take == 0 || self.admitted(pot, now.mono) == 0 {
                break;
            }
            let Some(who) = self.rates.grants.call(pot) else { break };
            // The others take what they need at once.
            if matches!(who, Waiter::Take(_)) {
                to_take -= 1;
            }
            self.go_on(now, who);
        }
        self.ask_for_grants(now.mono, pot);
    }

    fn go_on(&mut self, now: Now, who: Waiter) {
        match who {
            Waiter::Promote(queue) | Waiter::Pick(queue) => self.promote(now, queue),
            Waiter::Select(ready) => self.call_waiters(now, ready),
            Waiter::Open(ready) => self.serve(now, ready),
            Waiter::Take(conn) => self.effects.push(Effect::Wake(conn)),
        }
    }

    fn ask_for_grants(&mut self, now: Instant, pot: PotKey) {
        if self.rates.grants.is_away() {
            // The share comes by itself.
            let Some(wait) = self.rates.wait_of(pot, now).filter(|_| self.rates.grants.may_ask(pot, now)) else {
                return;
            };
            let at = now + wait.max(LOOK_MIN);
            self.rates.grants.look_at(pot, at);
            return self.wheel.insert(at, Timer::Grants(pot));
        }
        if !self.rates.grants.may_ask(pot, now) {
            return;
        }
        let (ready, scheduled) = (&self.ready, &self.scheduled);
        let demand = self.rates.grants.demand(pot, |who| match who {
            Waiter::Promote(key) => scheduled.get(&key).map_or(0, |queue| queue.due.len() as u64),
            Waiter::Pick(key) => scheduled.get(&key).map_or(0, |queue| queue.due.len().min(1) as u64),
            Waiter::Select(key) => {
                ready.get(&key).map_or(0, |ready| (ready.waiters.len() + ready.small_waiters.len()) as u64)
            }
            // Those that need leases ask for both together.
            Waiter::Open(key) => ready
                .get(&key)
                .filter(|ready| ready.cluster_leases.is_empty())
                .map_or(0, |ready| ready.messages.len().min(1) as u64),
            Waiter::Take(conn) => {
                let ready = ready.get(&conn.ready).filter(|ready| ready.connections.contains(conn.slot));
                ready.map_or(0, |ready| ready.messages.len() as u64)
            }
        });
        if demand == 0 {
            return;
        }
        match self.rates.grants.ask(pot, now, demand) {
            Asking::Now(of, count) => {
                let waits = self.rates.grants.waits(pot);
                self.effects.push(Effect::Grant { of, count, waits, asked_at: now });
            }
            Asking::At(when) => self.wheel.insert(when, Timer::Grants(pot)),
            Asking::UnderWay => {}
        }
    }

    fn admitted(&self, pot: PotKey, now: Instant) -> u64 {
        self.rates.admits_by(pot, now)
    }
}

/// Shortest time between two looks at a share.
const LOOK_MIN: Duration = Duration::from_millis(1);
