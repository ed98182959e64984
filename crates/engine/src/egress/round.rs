//! The driver of a session whose other end takes messages by calls (`Carrier`): gather, hand over, settle, again.
//!
//! Takes messages from the ready queue as `delivery` does for SMTP, brings their content back, and settles every outcome.
//! Whatever happens to a call, each message taken is settled or given back exactly once: from taking to settling it
//! stands in `InHand`. Every call has a deadline; the end of the program and operators cut it short.

use crate::egress::carriage::Carriage;
use crate::egress::carrier::{Answers, Batches, Carried, Carrier, Lent};
use crate::egress::connection::{Held, Unreached};
use crate::egress::deferred::DEFERRED;
use crate::egress::delivery::{LOGS_PAUSE, interruption, stuck};
use crate::egress::dispatcher::DispatcherPhase;
use crate::egress::lent::draft_of;
use crate::egress::service::protocol_of;
use crate::engine::Engine;
use crate::settle::AttemptFacts;
use ::clock::Instant;
use config::EgressPath;
use queue::{Bearing, ConnKey, Opening, Outcome, Queued, Take};
use record::RecordType;
use smtp_wire::Reply;
use std::sync::Arc;
use std::time::Duration;
use telemetry::metrics::Histogram;

/// A session and what it holds.
struct Round {
    engine: Engine,
    conn: ConnKey,
    path: Arc<EgressPath>,
    held: Held,
    carrier: Carrier,
    batches: Batches,
    facts: AttemptFacts,
    /// How long calls take.
    latency: Histogram,
    taken: usize,
}

/// What is done with what is in hand.
enum Gathered {
    /// It goes.
    Batch,
    /// The session ends; nothing is in hand.
    End,
}

impl Engine {
    /// Carries out an opening whose protocol is not SMTP, from the first call to the last.
    pub(crate) async fn carry(&self, opening: &Opening, carriage: &Carriage, held: &Held) -> Result<(), Unreached> {
        let path = opening.leg.path.clone();
        let within = path.connect_timeout.get().min(call_max(&path));
        let opened = tokio::time::timeout(within, Carrier::open(self, carriage, call_max(&path)));
        let Some(opened) = self.unless_over(held, opened).await else { return Ok(()) };
        let late = || Reply::new(400, &format!("KumoMTA internal: no session within {within:?}"));
        let carrier = opened.unwrap_or_else(|_| Err(late())).map_err(Unreached::Hosts)?;
        let counts = self.counts_of_opened(&opening.ready_name, &opening.leg);
        let facts = AttemptFacts {
            site: opening.ready_name.clone(),
            pool: Some(opening.leg.pool.clone()),
            source: Some(opening.leg.source.name.as_str().into()),
            provider: path.provider_name.as_deref().map(Into::into),
            session_id: Some(held.dispatcher.session_id().to_string().into()),
            counts: Some(counts),
            handover: carrier.handover(),
            delivery_protocol: Some(carrier.delivery_protocol()),
            retry_interval: carrier.retry_interval(),
            ..AttemptFacts::default()
        };
        let (engine, conn, held, batches) = (self.clone(), opening.conn, held.clone(), carrier.batches());
        let latency = self.metrics.latencies.delivery(protocol_of(&opening.ready_name));
        Round { engine, conn, path, held, carrier, batches, facts, latency, taken: 0 }.serve().await;
        Ok(())
    }
}

impl Round {
    async fn serve(mut self) {
        while let Gathered::Batch = self.gather().await {
            if self.hand_over().await {
                break;
            }
        }
        self.enter(DispatcherPhase::Closing);
        let closing = tokio::time::timeout(CLOSE_MAX, self.carrier.close(&self.engine));
        let grace = self.path.system_shutdown_timeout.map(config::Duration::get);
        tokio::select! {
            closed = closing => if closed.is_err() {
                tracing::error!("{}: close did not end within {CLOSE_MAX:?}", self.facts.site);
            },
            () = self.engine.stop.over_for(grace) => {}
        }
    }

    /// Takes messages until a batch is full, there are enough of them, or the first has waited long enough.
    async fn gather(&mut self) -> Gathered {
        let mut first_at = None;
        let mut octets = 0;
        loop {
            let count = self.held.in_hand.len();
            if self.held.dispatcher.is_ended() || self.engine.stop.is_draining() {
                return self.put_down();
            }
            let is_full = count >= self.batches.most || octets >= BATCH_OCTETS_MAX;
            if is_full || self.taken >= self.path.max_deliveries_per_connection {
                return if count > 0 { Gathered::Batch } else { Gathered::End };
            }
            if self.engine.holds_deliveries() || self.must_fail() {
                self.wait(LOGS_PAUSE, DispatcherPhase::Idle).await;
                continue;
            }
            let goes_at = first_at.map_or(Instant::NEVER, |at: Instant| at + self.batches.latency);
            let is_enough = count >= self.batches.enough || self.now() >= goes_at;
            // Only who waits for it may be promised a message.
            let take = self.engine.with_queue(|q, now| match is_enough {
                true => q.take_more(now, self.conn),
                false => q.take(now, self.conn),
            });
            match take {
                Take::Message(queued) => {
                    let size = queued.message.size as usize;
                    match self.load(*queued, count == 0).await {
                        Loaded::InHand => octets += size,
                        Loaded::Gone => continue,
                        Loaded::NoRoom => return Gathered::Batch,
                    }
                    first_at = first_at.or_else(|| Some(self.now()));
                }
                _ if is_enough => return Gathered::Batch,
                Take::Idle if count == 0 => {
                    let came = self.wait(self.path.idle_timeout.get(), DispatcherPhase::Idle).await;
                    if !came && self.engine.with_queue(|q, _| q.leave_idle(self.conn)) {
                        return Gathered::End;
                    }
                }
                Take::Idle => {
                    let patience = goes_at.saturating_since(self.now());
                    self.held.dispatcher.gathers(count, self.batches.enough);
                    if !self.wait(patience, DispatcherPhase::AccumulatingBatch).await {
                        self.engine.with_queue(|q, _| q.leave_idle(self.conn));
                    }
                }
                Take::After(wait) if count == 0 => {
                    self.wait(wait, DispatcherPhase::MessageRateThrottled).await;
                }
                Take::Close if count == 0 => return Gathered::End,
                Take::After(_) | Take::Close => return Gathered::Batch,
            }
        }
    }

    /// Brings a message's content into memory and takes it in hand. Only the first of a batch waits for room: others must
    /// not wait for what this session holds itself.
    async fn load(&mut self, queued: Queued, is_first: bool) -> Loaded {
        let loaded = match is_first {
            true => {
                let (dispatcher, stop) = (self.held.dispatcher.clone(), &self.engine.stop);
                let over = async {
                    tokio::select! {
                        () = dispatcher.ended() => {}
                        () = stop.requested() => {}
                    }
                };
                self.engine.load_unless(over, queued).await
            }
            false => self.engine.load_now(queued).await,
        };
        match loaded {
            Ok(Some(queued)) => {
                self.taken += 1;
                self.held.in_hand.put(self.taken as u64, queued);
                Loaded::InHand
            }
            Ok(None) => Loaded::Gone,
            Err(queued) => {
                self.engine.with_queue(|q, now| q.give_back(now, self.conn, queued));
                if is_first { Loaded::Gone } else { Loaded::NoRoom }
            }
        }
    }

    /// Gives everything back that is in hand, the last first, so that the order stays.
    fn put_down(&self) -> Gathered {
        while let Some(queued) = self.held.in_hand.take_last() {
            self.engine.with_queue(|q, now| q.give_back(now, self.conn, queued));
        }
        Gathered::End
    }

    /// Waits for a message, or so long; false when nothing called. Operators and the end of the program call too.
    async fn wait(&self, patience: Duration, phase: DispatcherPhase) -> bool {
        self.enter(phase);
        tokio::select! {
            () = self.held.waker.notified() => true,
            () = tokio::time::sleep(patience) => false,
            () = self.held.dispatcher.ended() => true,
            () = self.engine.stop.requested() => true,
        }
    }

    /// Hands the batch over and settles what became of it; true when the session cannot go on.
    async fn hand_over(&mut self) -> bool {
        let begun = self.now();
        self.held.dispatcher.enter(DispatcherPhase::DeliveringMessage, begun);
        let lent = self.lend();
        let limit = call_max(&self.path);
        let carried = tokio::select! {
            // What is done is done, though it may be cut just now.
            biased;
            carried = tokio::time::timeout(limit, self.carrier.carry(&self.engine, &self.held.in_hand, lent)) => carried.unwrap_or_else(|_| {
                self.engine.count_stuck(&self.facts.site);
                Carried::broken((*stuck(limit)).clone())
            }),
            cut = interruption(&self.engine, &self.held.dispatcher, &self.path) => {
                Carried::broken(Reply::new(400, &format!("KumoMTA internal: {}", cut.why())))
            }
        };
        self.held.in_hand.kept().await;
        self.latency.observe(self.now().saturating_since(begun).as_secs_f64());
        if self.path.concurrency_feedback.is_some() {
            let bearing = if carried.answers.show_life() { Bearing::Delivers } else { Bearing::Defers };
            self.engine.with_queue(|q, now| q.bears(now, self.conn.ready, bearing));
        }
        self.settle(&carried).await;
        carried.is_over
    }

    /// Copies of what is in hand, in its order.
    fn lend(&self) -> Vec<Lent> {
        let drafts = self.held.in_hand.map(|queued| draft_of(&queued.message).map(|draft| (draft, queued.queue)));
        self.engine.with_queue(|q, _| {
            let named = drafts.into_iter().flatten().map(|(draft, queue)| Lent { draft, queue: q.queue_name(queue) });
            named.collect()
        })
    }

    async fn settle(&self, carried: &Carried) {
        if let Answers::Moved(label) = &carried.answers {
            while let Some(queued) = self.held.in_hand.take_first() {
                let (kind, why) = (RecordType::DeferredInjectionRebind, "smtp_server_message_deferred_inject");
                self.engine.log_rebound(&queued, kind, [DEFERRED, label], why);
                self.engine.place_anew(queued, label);
            }
            return;
        }
        let mut number = 0;
        while let Some(queued) = self.held.in_hand.take_first() {
            let pending = queued.message.pending().enumerate();
            let outcome = |(place, recipient): (usize, u16)| {
                let (verdict, reply) = carried.answers.of(number, place)?;
                Some(Outcome { recipient, verdict, reply: reply.clone(), command: None })
            };
            let outcomes: Vec<Outcome> = pending.filter_map(outcome).collect();
            outcomes.iter().for_each(|outcome| self.held.dispatcher.count(outcome.verdict));
            self.engine.settle_attempt(queued, outcomes, &self.facts);
            number += 1;
            if number % SETTLED_AT_ONCE == 0 {
                tokio::task::yield_now().await;
            }
        }
    }

    fn enter(&self, phase: DispatcherPhase) {
        self.held.dispatcher.enter(phase, self.now());
    }

    /// What it would make now would be refused: an attempt that cannot succeed is none.
    fn must_fail(&self) -> bool {
        matches!(self.carrier, Carrier::Generator(_)) && self.engine.takes_requests().is_err()
    }

    fn now(&self) -> Instant {
        self.engine.clock.mono()
    }
}

/// What became of a message that was taken.
enum Loaded {
    /// It is in hand.
    InHand,
    /// It went back, or is taken care of; the next may do better.
    Gone,
    /// It went back: memory is short, and what is in hand goes first.
    NoRoom,
}

/// How long one call may take.
fn call_max(path: &EgressPath) -> Duration {
    let content = path.data_timeout.get().saturating_add(path.data_dot_timeout.get());
    path.dispatcher_progress_watchdog_timeout.map_or(content, |watchdog| watchdog.get().min(content))
}

/// How long the last call may take.
const CLOSE_MAX: Duration = Duration::from_secs(10);
/// Content of one batch, in octets; it ends with the message that reaches this.
const BATCH_OCTETS_MAX: usize = 64 << 20;
/// Messages settled before others have their turn.
const SETTLED_AT_ONCE: usize = 64;
