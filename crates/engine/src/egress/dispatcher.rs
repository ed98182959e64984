//! One outbound connection for operators' eyes, and the way to end it: who it is, what it does and since when.
//!
//! Owned by its connection's task, which alone writes: a phase is one store, an outcome one addition, on a line of memory
//! no other connection touches. Readers look without a lock. As many as there are connections; nothing can fail.

use clock::{Duration, Instant, Now, WallTime};
use queue::Verdict;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;
use uuid::Uuid;

/// What a connection is doing (KumoMTA's phases, those that occur here).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DispatcherPhase {
    /// Nothing yet.
    Starting,
    /// It waits for a message.
    Idle,
    /// A message waits for `max_message_rate`.
    MessageRateThrottled,
    /// It waits for more messages of a batch.
    AccumulatingBatch,
    /// From the look-up of addresses to the session that can take a message.
    AttemptingConnection,
    /// A message is in hand.
    DeliveringMessage,
    /// QUIT.
    Closing,
}

impl DispatcherPhase {
    /// KumoMTA's name.
    pub fn name(self) -> &'static str {
        match self {
            DispatcherPhase::Starting => "Starting",
            DispatcherPhase::Idle => "Idle",
            DispatcherPhase::MessageRateThrottled => "MessageRateThrottled",
            DispatcherPhase::AccumulatingBatch => "AccumulatingBatch",
            DispatcherPhase::AttemptingConnection => "AttemptingConnection",
            DispatcherPhase::DeliveringMessage => "DeliveringMessage",
            DispatcherPhase::Closing => "Closing",
        }
    }

    fn of(number: u8) -> DispatcherPhase {
        let all = [
            DispatcherPhase::Starting,
            DispatcherPhase::Idle,
            DispatcherPhase::MessageRateThrottled,
            DispatcherPhase::AccumulatingBatch,
            DispatcherPhase::AttemptingConnection,
            DispatcherPhase::DeliveringMessage,
        ];
        all.into_iter().find(|phase| *phase as u8 == number).unwrap_or(DispatcherPhase::Closing)
    }
}

/// A connection as an operator sees it at one moment.
#[derive(Clone, Debug)]
pub struct DispatcherView {
    /// As log records name it.
    pub session_id: Uuid,
    /// When it was begun.
    pub started_at: WallTime,
    /// How long ago that is.
    pub age: Duration,
    /// What it does.
    pub phase: DispatcherPhase,
    /// How many messages are in its batch, and how many it waits for.
    pub batch: (u32, u32),
    /// The host it is with, or tries.
    pub detail: Option<Arc<str>>,
    /// How long it has done that.
    pub time_in_phase: Duration,
    /// Recipients delivered to.
    pub delivered: u64,
    /// Recipients that failed for now.
    pub transfailed: u64,
    /// Recipients that failed for good.
    pub failed: u64,
}

/// The connection's own end of it.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    session_id: Uuid,
    started: Now,
    phase: AtomicU8,
    /// Microseconds of the monotonic clock.
    phase_began_at: AtomicU64,
    /// Messages in hand while it waits for others, and how many it waits for.
    batch: [AtomicU32; 2],
    delivered: AtomicU64,
    transfailed: AtomicU64,
    failed: AtomicU64,
    host: Mutex<Option<Arc<str>>>,
    is_aborted: AtomicBool,
    abort: Notify,
}

impl Dispatcher {
    pub fn new(session_id: Uuid, now: Now) -> Dispatcher {
        Dispatcher {
            session_id,
            started: now,
            phase: AtomicU8::new(DispatcherPhase::Starting as u8),
            phase_began_at: AtomicU64::new(now.mono.as_micros()),
            batch: [const { AtomicU32::new(0) }; 2],
            delivered: AtomicU64::new(0),
            transfailed: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            host: Mutex::default(),
            is_aborted: AtomicBool::new(false),
            abort: Notify::new(),
        }
    }

    pub fn session_id(&self) -> Uuid {
        self.session_id
    }

    /// A phase begins. Each message begins one of its own.
    pub fn enter(&self, phase: DispatcherPhase, now: Instant) {
        self.phase.store(phase as u8, Ordering::Relaxed);
        self.phase_began_at.store(now.as_micros(), Ordering::Relaxed);
    }

    /// It waits for more messages than it has.
    pub fn gathers(&self, have: usize, want: usize) {
        for (kept, number) in self.batch.iter().zip([have, want]) {
            kept.store(u32::try_from(number).unwrap_or(u32::MAX), Ordering::Relaxed);
        }
    }

    /// It turns to this host.
    pub fn turn_to(&self, host: String) {
        *self.host.lock().unwrap_or_else(PoisonError::into_inner) = Some(host.into());
    }

    /// What became of one recipient.
    pub fn count(&self, verdict: Verdict) {
        let counter = match verdict {
            Verdict::Delivered => &self.delivered,
            Verdict::Transient => &self.transfailed,
            Verdict::Permanent => &self.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Tells the connection to end; what it has in hand is settled as if the network had failed.
    pub fn end(&self) {
        self.is_aborted.store(true, Ordering::Release);
        self.abort.notify_waiters();
    }

    /// True once it was told to end.
    pub fn is_ended(&self) -> bool {
        self.is_aborted.load(Ordering::Acquire)
    }

    /// Completes when it is told to end, at once when it was.
    pub async fn ended(&self) {
        // From here on it is told, so nothing is missed behind the look.
        let told = self.abort.notified();
        if !self.is_ended() {
            told.await;
        }
    }

    /// What it is about at this moment.
    pub fn view(&self, now: Now) -> DispatcherView {
        let began = Instant::from_micros(self.phase_began_at.load(Ordering::Relaxed));
        DispatcherView {
            session_id: self.session_id,
            started_at: self.started.wall,
            age: now.mono.saturating_since(self.started.mono),
            phase: DispatcherPhase::of(self.phase.load(Ordering::Relaxed)),
            batch: (self.batch[0].load(Ordering::Relaxed), self.batch[1].load(Ordering::Relaxed)),
            detail: self.host.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            time_in_phase: now.mono.saturating_since(began),
            delivered: self.delivered.load(Ordering::Relaxed),
            transfailed: self.transfailed.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dispatcher() -> Dispatcher {
        let now = Now { mono: Instant::from_micros(1_000_000), wall: WallTime::from_unix_secs(1_790_000_000) };
        Dispatcher::new(Uuid::from_u128(7), now)
    }

    #[test]
    fn what_was_entered_and_counted_is_seen() {
        let dispatcher = dispatcher();
        let now = Now { mono: Instant::from_micros(9_000_000), wall: WallTime::from_unix_secs(1_790_000_008) };
        for phase in [
            DispatcherPhase::Starting,
            DispatcherPhase::Idle,
            DispatcherPhase::MessageRateThrottled,
            DispatcherPhase::AccumulatingBatch,
            DispatcherPhase::AttemptingConnection,
            DispatcherPhase::Closing,
            DispatcherPhase::DeliveringMessage,
        ] {
            dispatcher.enter(phase, Instant::from_micros(4_000_000));
            assert_eq!(dispatcher.view(now).phase, phase);
        }
        dispatcher.turn_to("mx.test".to_owned());
        for verdict in [Verdict::Delivered, Verdict::Delivered, Verdict::Delivered, Verdict::Transient] {
            dispatcher.count(verdict);
        }
        let view = dispatcher.view(now);
        assert_eq!((view.age, view.time_in_phase), (Duration::from_secs(8), Duration::from_secs(5)));
        assert_eq!((view.delivered, view.transfailed, view.failed), (3, 1, 0));
        assert_eq!(view.detail.as_deref(), Some("mx.test"));
    }

    #[tokio::test]
    async fn who_is_told_to_end_learns_of_it_before_and_after_he_asks() {
        let told_before = dispatcher();
        told_before.end();
        told_before.ended().await;
        let told_after = dispatcher();
        // A connection asks from several places at a time.
        let asks = || async {
            told_after.ended().await;
            told_after.is_ended()
        };
        let both = async { tokio::join!(asks(), asks(), async { told_after.end() }) };
        let (one, other, ()) = tokio::time::timeout(Duration::from_secs(30), both).await.expect("both are told");
        assert!(one && other);
    }
}
