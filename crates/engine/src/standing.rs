//! What may end the waits of a connection besides its peer, kept from one wait to the next.
//!
//! A connection waits several times for each message. A timer, and a place in a list that all connections share, would be made for
//! each wait and taken back as soon as the peer speaks, under locks that all of them want. So both stay: a timer is moved when it must
//! go off earlier, or when it went off for a deadline of before; a future that waits is polled again when it was itself that woke the
//! task. For drivers that poll by hand. Nothing here decides what a deadline or an end means.

use crate::clock::Clock;
use ::clock::Instant;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker, ready};
use std::time::Duration;
use tokio::time::error::Elapsed;
use tokio::time::{Sleep, sleep_until, timeout};

/// A timer for a deadline that moves, mostly to later.
pub(crate) struct StandingTimer {
    clock: Clock,
    sleep: Option<Pin<Box<Sleep>>>,
    /// What it is set for; not later than the deadline of the last poll.
    set_for: Instant,
}

/// A future that waits for something rare.
pub(crate) struct Standing<T> {
    future: Option<Pin<Box<dyn Future<Output = T> + Send + Sync>>>,
    bell: Option<Arc<Bell>>,
}

/// Tells the future's wake-ups from those of all else that its task waits for.
struct Bell {
    rang: AtomicBool,
    task: Waker,
}

/// What `work` comes to within `limit`. A timer is made only for work that has to wait.
pub(crate) async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Result<T, Elapsed> {
    let mut work = pin!(work);
    let at_once = poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await;
    match at_once {
        Poll::Ready(done) => Ok(done),
        Poll::Pending => timeout(limit, work).await,
    }
}

impl StandingTimer {
    pub fn new(clock: Clock) -> StandingTimer {
        StandingTimer { clock, sleep: None, set_for: Instant::NEVER }
    }

    /// Ready at `at`; never for [`Instant::NEVER`].
    pub fn poll(&mut self, cx: &mut Context<'_>, at: Instant) -> Poll<()> {
        let Some(moment) = self.clock.timer(at) else { return Poll::Pending };
        let sleep = self.sleep.get_or_insert_with(|| {
            self.set_for = at;
            Box::pin(sleep_until(moment))
        });
        if at < self.set_for {
            sleep.as_mut().reset(moment);
            self.set_for = at;
        }
        loop {
            ready!(sleep.as_mut().poll(cx));
            if self.set_for == at {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(moment);
            self.set_for = at;
        }
    }
}

impl<T> Standing<T> {
    pub fn new() -> Standing<T> {
        Standing { future: None, bell: None }
    }

    /// Ready when the future that `make` makes is. Behind that it is made anew.
    pub fn poll<F>(&mut self, cx: &mut Context<'_>, make: impl FnOnce() -> F) -> Poll<T>
    where
        F: Future<Output = T> + Send + Sync + 'static,
    {
        // What it waits with would wake another task, or none yet.
        if self.bell.as_ref().is_none_or(|bell| !bell.task.will_wake(cx.waker())) {
            self.bell = Some(Arc::new(Bell { rang: AtomicBool::new(true), task: cx.waker().clone() }));
        }
        let Some(bell) = self.bell.as_ref().filter(|bell| bell.has_rung()) else { return Poll::Pending };
        let waker = Waker::from(bell.clone());
        let future = self.future.get_or_insert_with(|| Box::pin(make()));
        let done = ready!(future.as_mut().poll(&mut Context::from_waker(&waker)));
        (self.future, self.bell) = (None, None);
        Poll::Ready(done)
    }
}

impl Bell {
    /// Since it was last asked. One that rings later wakes the task, which asks again.
    fn has_rung(&self) -> bool {
        self.rang.load(Ordering::Relaxed) && self.rang.swap(false, Ordering::AcqRel)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rang.store(true, Ordering::Release);
        self.task.wake_by_ref();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use tokio::sync::{Notify, watch};
    use tokio::task::{coop, yield_now};

    #[tokio::test]
    async fn a_timer_goes_off_at_the_deadline_of_the_wait_whatever_it_was_set_for() {
        let clock = Clock::start();
        let mut timer = StandingTimer::new(clock);
        let after = |millis| clock.mono() + Duration::from_millis(millis);
        // Set for a deadline that moves: to earlier, to later, and it went off meanwhile.
        for (given_up_at, waited_for) in [(60_000, 10), (5, 30), (60_000, 20)] {
            let moment = after(given_up_at);
            assert!(
                poll_fn(|cx| Poll::Ready(timer.poll(cx, moment))).await.is_pending(),
                "{given_up_at} ms are not over"
            );
            let at = after(waited_for);
            let waiting = poll_fn(|cx| timer.poll(cx, at));
            tokio::time::timeout(Duration::from_secs(30), waiting).await.expect("long before that");
            assert!(clock.mono() >= at, "{waited_for} ms");
            poll_fn(|cx| timer.poll(cx, at)).await;
        }
        assert!(poll_fn(|cx| Poll::Ready(timer.poll(cx, Instant::NEVER))).await.is_pending());
    }

    #[tokio::test]
    async fn work_that_waits_has_its_time_and_no_more() {
        assert_eq!(within(Duration::ZERO, async { 1 }).await, Ok(1), "what is done at once needs no time");
        assert_eq!(within(Duration::from_secs(30), yield_now()).await, Ok(()));
        assert!(within(Duration::from_millis(1), std::future::pending::<()>()).await.is_err());
    }

    #[tokio::test]
    async fn a_future_that_waits_is_looked_at_when_it_woke_the_task() {
        let (bell, looks) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let mut standing = Standing::new();
        let make = || {
            let (bell, looks) = (bell.clone(), looks.clone());
            async move {
                let mut waiting = pin!(bell.notified());
                poll_fn(|cx| {
                    looks.fetch_add(1, Ordering::Relaxed);
                    waiting.as_mut().poll(cx)
                })
                .await;
                7
            }
        };
        for _ in 0..4 {
            assert!(poll_fn(|cx| Poll::Ready(standing.poll(cx, make))).await.is_pending());
        }
        assert_eq!(looks.load(Ordering::Relaxed), 1, "whatever else wakes the task");
        let ringing = tokio::spawn({
            let bell = bell.clone();
            async move { bell.notify_waiters() }
        });
        assert_eq!(soon(poll_fn(|cx| standing.poll(cx, make))).await, 7);
        ringing.await.expect("it rang");
        assert_eq!(looks.load(Ordering::Relaxed), 2);
        assert!(poll_fn(|cx| Poll::Ready(standing.poll(cx, make))).await.is_pending(), "it is made anew");
        assert_eq!(looks.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn a_first_look_without_budget_is_made_up_for() {
        let (tell, _) = watch::channel(false);
        let mut standing = Standing::new();
        let make = || {
            let mut told = tell.subscribe();
            async move { told.wait_for(|told| *told).await.is_ok() }
        };
        // The runtime has a task that did much pause: what it polls then says that it waits, and waits for nothing.
        let first = poll_fn(|cx| {
            while coop::has_budget_remaining() {
                assert!(pin!(coop::consume_budget()).poll(cx).is_ready());
            }
            Poll::Ready(standing.poll(cx, make))
        });
        assert!(first.await.is_pending());
        assert!(poll_fn(|cx| Poll::Ready(standing.poll(cx, make))).await.is_pending());
        let telling = tokio::spawn({
            let tell = tell.clone();
            async move { tell.send_replace(true) }
        });
        assert!(soon(poll_fn(|cx| standing.poll(cx, make))).await);
        telling.await.expect("told");
    }

    async fn soon<T>(work: impl Future<Output = T>) -> T {
        timeout(Duration::from_secs(30), work).await.expect("woken")
    }
}
