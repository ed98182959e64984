//! What may end the waits of a connection besides its peer, kept from one wait to the next.
//!
//! A connection waits several times for each message. A timer, and a place in a list that all connections share, would be made for
//! each wait and taken back as soon as the peer speaks, under locks that all of them want. So both stay: a timer is moved when it must
//! go off earlier, or when it went off for a deadline of before; a future that waits is polled again when there is news of it. For
//! drivers that poll by hand, from one task. Nothing here decides what a deadline or an end means.

use crate::clock::Clock;
use ::clock::Instant;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
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
pub(crate) struct Standing<T>(Option<Pin<Box<dyn Future<Output = T> + Send + Sync>>>);

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
        Standing(None)
    }

    /// Ready when the future that `make` makes is. Once that waits, it is looked at again only with `news`: whether what it
    /// waits for may have come. It must be true from before it wakes us until it is taken.
    pub fn poll<F>(&mut self, cx: &mut Context<'_>, news: bool, make: impl FnOnce() -> F) -> Poll<T>
    where
        F: Future<Output = T> + Send + Sync + 'static,
    {
        if self.0.is_some() && !news {
            return Poll::Pending;
        }
        let future = self.0.get_or_insert_with(|| Box::pin(make()));
        let done = ready!(future.as_mut().poll(cx));
        self.0 = None;
        Poll::Ready(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::sync::Notify;

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
        assert_eq!(within(Duration::from_secs(30), tokio::task::yield_now()).await, Ok(()));
        assert!(within(Duration::from_millis(1), std::future::pending::<()>()).await.is_err());
    }

    #[tokio::test]
    async fn a_future_that_waits_is_looked_at_with_news_and_wakes_whoever_waits() {
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
        for news in [false, false, true, false] {
            assert!(poll_fn(|cx| Poll::Ready(standing.poll(cx, news, make))).await.is_pending());
        }
        assert_eq!(looks.load(Ordering::Relaxed), 2, "at first, and with news");
        let mut polls = 0;
        let waiting = poll_fn(|cx| {
            polls += 1;
            standing.poll(cx, polls > 1, make)
        });
        let (told, ()) = tokio::join!(waiting, async { bell.notify_waiters() });
        assert_eq!((told, polls), (7, 2), "woken by it");
        assert!(poll_fn(|cx| Poll::Ready(standing.poll(cx, false, make))).await.is_pending(), "it is made anew");
    }
}
