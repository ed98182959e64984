//! How much is still to be sent, and when the run is over.
//!
//! In: a number of messages or a duration, and a stop from outside. Out: a ticket for each message a task may send.
//! A task whose message got lost keeps the ticket and uses it again, so that a run of N messages sends N of them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// When a run is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// After this many messages.
    Messages(u64),
    /// After this time.
    Time(Duration),
}

/// The work of one run, shared by its tasks.
pub(super) struct Work {
    tickets: Option<AtomicU64>,
    deadline: Option<Instant>,
    stopped: AtomicBool,
    /// Wakes sleeping tasks when the run is stopped.
    stop: watch::Sender<bool>,
}

impl Work {
    /// Work that starts at `now`.
    pub(super) fn new(extent: Extent, now: Instant) -> Self {
        let (tickets, deadline) = match extent {
            Extent::Messages(count) => (Some(AtomicU64::new(count)), None),
            Extent::Time(time) => (None, Some(now + time)),
        };
        Self { tickets, deadline, stopped: AtomicBool::new(false), stop: watch::Sender::new(false) }
    }

    /// Takes the right to send one message; false when all are given out.
    pub(super) fn take(&self) -> bool {
        let Some(tickets) = &self.tickets else {
            return true;
        };
        tickets.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    /// Returns rights that were not used.
    pub(super) fn give_back(&self, count: u64) {
        if let Some(tickets) = &self.tickets {
            tickets.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Whether no new message may be begun, whatever tickets are held.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.stopped.load(Ordering::Relaxed) || self.deadline.is_some_and(|deadline| now >= deadline)
    }

    /// Ends the run: messages under way are finished, no new ones are begun.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.stop.send_replace(true);
    }

    /// Sleeps for `time`, or until the run is over.
    pub(super) async fn sleep(&self, time: Duration) {
        let now = Instant::now();
        let left = self.deadline.map_or(time, |deadline| deadline.saturating_duration_since(now));
        let mut stop = self.stop.subscribe();
        tokio::select! {
            () = tokio::time::sleep(time.min(left)) => {}
            _ = stop.wait_for(|stopped| *stopped) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_run_out_and_come_back() {
        let now = Instant::now();
        let work = Work::new(Extent::Messages(2), now);
        assert_eq!([work.take(), work.take(), work.take()], [true, true, false]);
        work.give_back(1);
        assert_eq!([work.take(), work.take()], [true, false]);
        assert!(!work.is_over(now + Duration::from_secs(1_000_000)));
        work.stop();
        assert!(work.is_over(now));
    }

    #[test]
    fn time_runs_out() {
        let now = Instant::now();
        let work = Work::new(Extent::Time(Duration::from_secs(5)), now);
        assert!(work.take() && !work.is_over(now + Duration::from_millis(4_999)));
        assert!(work.is_over(now + Duration::from_secs(5)));
    }

    #[tokio::test]
    async fn a_stop_wakes_sleepers() {
        let work = Work::new(Extent::Messages(1), Instant::now());
        let sleeper = work.sleep(Duration::from_secs(3600));
        tokio::join!(sleeper, async { work.stop() });
        work.sleep(Duration::from_secs(3600)).await;
    }
}
