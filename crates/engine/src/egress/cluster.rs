//! What a node of a cluster does beside its mail: asking for grants and leases, renewing these, noticing that Redis is gone,
//! and telling it, once it is back, what is opened by this node's share.
//!
//! Nothing here runs without `kumo.configure_redis_throttles`. Every question has a time limit, `response_timeout`; each
//! answer, and that there is none, goes to the queue, which decides.

use crate::egress::connection::{Guarded, Held};
use crate::engine::Engine;
use clock::Instant;
use queue::{ClusterRates, Opening};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use throttle::{Asker, Holder, LeaseAnswer, Throttles};

/// The leases of one connection.
#[derive(Debug)]
pub(crate) struct Lease {
    holder: Holder,
    is_held: AtomicBool,
    /// It was lost to another node, and that was said.
    is_lost: AtomicBool,
}

impl Lease {
    /// Those of a connection that is to be opened; `None` when it needs none.
    pub fn of(opening: &Opening, id: String) -> Option<Arc<Lease>> {
        let limits = opening.leases.clone();
        let [is_held, is_lost] = [false, false].map(AtomicBool::new);
        (!limits.is_empty()).then(|| Arc::new(Lease { holder: (id, limits), is_held, is_lost }))
    }

    fn is_held(&self) -> bool {
        self.is_held.load(Ordering::Acquire)
    }
}

impl Engine {
    /// Counts rates and limits that are not `local:` where these throttles are shared, if they are. Comes before
    /// [`Engine::start`].
    pub fn share_limits(&self, throttles: Arc<Throttles>) {
        let Some(share) = throttles.share_while_away() else { return };
        if self.cluster.set(throttles.clone()).is_err() {
            return;
        }
        self.with_queue(|q, _| q.join_cluster(share));
        let engine = self.clone();
        // With the deliveries: leases are renewed until the last of them has ended.
        self.deliveries.spawn(async move { engine.keep_leases(&throttles).await });
    }

    /// Carries out `Effect::Grant`.
    pub(crate) fn ask_for_grants(&self, of: ClusterRates, count: u64, waits: bool, asked_at: Instant) {
        let Some(throttles) = self.cluster.get().cloned() else { return };
        let engine = self.clone();
        self.deliveries.spawn(async move {
            let who = waits.then_some(&*engine.node_id_text);
            let mut patience = Patience::new();
            let mut answer = throttles.grants(of.rates(), count, who).await;
            while let Some((0, wait)) = answer
                && patience.sits_out(wait).await
            {
                answer = throttles.grants(of.rates(), count, who).await;
            }
            engine.with_queue(|q, now| match answer {
                Some((count, wait)) => q.granted(now, &of, asked_at, count, wait),
                None => q.set_away(now, true),
            });
        });
    }

    /// Gets the leases a connection needs, and what it needs of rates with them. False when it must not open; the queue knows.
    pub(crate) async fn lease(&self, opening: &Opening, held: &Held) -> bool {
        let (Some(throttles), Some(lease)) = (self.cluster.get(), &held.lease) else { return true };
        let may_open = Guarded(Box::pin(self.lease_from(throttles, opening, held, lease))).await;
        if may_open.is_none() {
            // Whether it was had is not known.
            throttles.give_back(&lease.holder).await;
            self.not_leased(opening, Some(LeaseAnswer::NoLease));
        }
        may_open.unwrap_or(false)
    }

    async fn lease_from(&self, throttles: &Throttles, opening: &Opening, held: &Held, lease: &Lease) -> bool {
        let name = format!("{}/{}", self.node_id_text, opening.ready_name);
        let asker = Asker { name: &name, has_none: opening.is_first };
        let answer = match opening.asks {
            true => ask_for_leases(throttles, opening, lease, asker).await,
            // A node that went back to asking before this one must not be given what this one takes by its share.
            false => throttles.lease_of_share(&lease.holder, asker).await.or(Some(LeaseAnswer::Had)),
        };
        if answer == Some(LeaseAnswer::Had) {
            return self.leased(opening, held, lease).await;
        }
        self.not_leased(opening, answer);
        false
    }

    /// The leases are had. False when the rate is gone meanwhile.
    async fn leased(&self, opening: &Opening, held: &Held, lease: &Lease) -> bool {
        let conn = opening.conn;
        lease.is_held.store(true, Ordering::Release);
        let may_open = self.with_queue(|q, now| q.leased(now, conn));
        if !may_open {
            self.give_back(held).await;
            self.connections().remove(&conn);
            self.with_queue(|q, now| q.connection_ended(now, conn));
        }
        may_open
    }

    /// The cluster gave none, or does not answer.
    fn not_leased(&self, opening: &Opening, answer: Option<LeaseAnswer>) {
        self.connections().remove(&opening.conn);
        self.with_queue(|q, now| match answer {
            Some(LeaseAnswer::NoRate(wait)) => q.rate_refused(now, opening.conn, wait),
            Some(_) => {
                // Spread, so that nodes do not ask in step.
                let spread = Duration::from_millis(q.random() % ASK_AGAIN_MS);
                q.lease_refused(now, opening.conn, spread + ASK_AGAIN_MIN);
            }
            None => {
                q.set_away(now, true);
                // At once: this node goes by its share.
                q.lease_refused(now, opening.conn, Duration::ZERO);
            }
        });
    }

    /// Gives the leases of a connection back that is over.
    pub(crate) async fn give_back(&self, held: &Held) {
        if let (Some(throttles), Some(lease)) = (self.cluster.get(), &held.lease)
            && lease.is_held.swap(false, Ordering::AcqRel)
        {
            throttles.give_back(&lease.holder).await;
        }
    }

    /// Renews all leases, and finds out that Redis is gone or there again.
    async fn keep_leases(&self, throttles: &Throttles) {
        let mut is_away = false;
        loop {
            let pause = if is_away { LOOK_AWAY } else { RENEW };
            if self.stop.unless_requested(tokio::time::sleep(pause)).await.is_none() {
                return self.keep_last_leases(throttles).await;
            }
            is_away = self.renew(throttles).await;
        }
    }

    /// The same while deliveries end.
    async fn keep_last_leases(&self, throttles: &Throttles) {
        loop {
            let until = tokio::time::Instant::now() + RENEW;
            while tokio::time::Instant::now() < until {
                if self.connections().is_empty() {
                    return;
                }
                tokio::time::sleep(LOOK_LAST).await;
            }
            self.renew(throttles).await;
        }
    }

    /// True when Redis is away.
    async fn renew(&self, throttles: &Throttles) -> bool {
        // First the way to it: what is opened by this node's share from then on tells it so itself, what was before is in the list.
        if self.with_queue(|q, _| q.is_away()) && !throttles.are_shared_again().await {
            return true;
        }
        let connections: Vec<_> =
            self.connections().iter().filter_map(|(conn, held)| Some((*conn, held.lease.clone()?))).collect();
        let leases: Vec<_> = connections.into_iter().filter(|(_, lease)| lease.is_held()).collect();
        let holders: Vec<Holder> = leases.iter().map(|(_, lease)| lease.holder.clone()).collect();
        let Some(kept) = throttles.renew(&holders).await else {
            self.with_queue(|q, now| q.set_away(now, true));
            return true;
        };
        for ((conn, lease), kept) in leases.into_iter().zip(kept) {
            if !lease.is_held() {
                // It ended meanwhile: what was renewed after it was given back has no holder.
                throttles.give_back(&lease.holder).await;
            } else if !lease.is_lost.swap(!kept, Ordering::Relaxed) && !kept {
                tracing::warn!("a lease was lost to another node: its connection takes no more messages");
                self.with_queue(|q, _| q.lease_lost(conn));
            }
        }
        // While Redis is told again what it forgot, each node goes on by its share.
        let is_away = self.with_queue(|q, _| q.is_away()) && throttles.is_young();
        self.with_queue(|q, now| q.set_away(now, is_away));
        is_away
    }
}

/// The answer to a connection's question.
async fn ask_for_leases(
    throttles: &Throttles,
    opening: &Opening,
    lease: &Lease,
    asker: Asker<'_>,
) -> Option<LeaseAnswer> {
    let rates = opening.rates.as_ref().map_or(&[][..], ClusterRates::rates);
    let mut patience = Patience::new();
    let mut answer = throttles.lease(&lease.holder, asker, rates).await;
    while let Some(LeaseAnswer::NoRate(wait)) = answer
        && patience.sits_out(wait).await
    {
        answer = throttles.lease(&lease.holder, asker, rates).await;
    }
    answer
}

/// Short waits for a rate, which are sat out here: the queue's timers are coarser, and who comes late to his turn keeps all behind
/// him waiting.
struct Patience {
    until: tokio::time::Instant,
    questions_left: u8,
}

impl Patience {
    fn new() -> Patience {
        Patience { until: tokio::time::Instant::now() + PATIENCE, questions_left: ASKED_AGAIN_MAX }
    }

    /// Waits so long; false, and at once, when that is too long or it went on for too long.
    async fn sits_out(&mut self, wait: Duration) -> bool {
        let is_short = wait <= SHORT && tokio::time::Instant::now() + wait <= self.until;
        if !is_short || self.questions_left == 0 {
            return false;
        }
        self.questions_left -= 1;
        tokio::time::sleep(wait).await;
        true
    }
}

/// How often leases are renewed; each lasts fifteen seconds.
const RENEW: Duration = Duration::from_secs(2);
/// How often Redis is looked for that is away.
const LOOK_AWAY: Duration = Duration::from_secs(1);
/// How often it is looked whether the last delivery has ended.
const LOOK_LAST: Duration = Duration::from_millis(50);
/// Waits for a rate that are sat out here, how long all of them may be together with the questions, and how many these are.
const SHORT: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_millis(200);
const ASKED_AGAIN_MAX: u8 = 3;
/// Shortest time before a lease is asked for again that was refused, and what is added by chance, in milliseconds; both
/// together are well below [`throttle::WANTED_MS`].
const ASK_AGAIN_MIN: Duration = Duration::from_millis(150);
const ASK_AGAIN_MS: u64 = 300;
