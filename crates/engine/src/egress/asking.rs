//! Askers: tasks that ask policy about messages that are about to become ready (`throttle_insert_ready_queue`).
//!
//! The queue calls a few of them; each takes a message, loads it, lends a copy to policy, and looks at the due time alone when
//! it comes back: ahead, the message goes back to its scheduled queue, on disk too, uncounted. Policy that fails, or does
//! not answer in time, is no verdict: the message is asked about again within a minute.

use crate::egress::connection::Guarded;
use crate::egress::lent::draft_of;
use crate::engine::Engine;
use clock::WallTime;
use message::Message;
use queue::{Queued, Why};
use spool::Mark;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

impl Engine {
    /// Carries out `Effect::Ask`. Most answers are there at once: those need no task, and a message goes on in the one that brought
    /// it. A panic is the asker's alone.
    pub(crate) fn start_asker(&self) {
        let engine = self.clone();
        let mut asker = Guarded(Box::pin(async move { engine.ask().await }));
        if Pin::new(&mut asker).poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            // Polled anew there, which is when its waker is set.
            self.deliveries.spawn(async move { _ = asker.await });
        }
    }

    async fn ask(&self) {
        let mut asked = 0;
        while !self.stop.is_draining() {
            let Some(queued) = self.with_queue(|q, now| q.take_asking(now)) else { return };
            self.ask_about(queued).await;
            asked += 1;
            if asked % IN_A_ROW == 0 {
                // Those that are in memory await nothing.
                tokio::task::yield_now().await;
            }
        }
    }

    async fn ask_about(&self, queued: Queued) {
        let _seen = self.underway.hold(&queued);
        let Some(queued) = self.load(queued).await else { return };
        let Some(draft) = draft_of(&queued.message) else { return self.with_queue(|q, now| q.postpone(now, queued)) };
        let asked = Guarded(Box::pin(self.policy.throttle_insert_ready_queue(draft)));
        let asked = tokio::time::timeout(ANSWER_MAX, asked);
        let Some(answer) = self.stop.unless_requested(asked).await else {
            // What the spool has begins anew at the next start.
            return self.with_queue(|q, _| q.abandoned(queued));
        };
        let id = queued.message.id;
        match answer {
            Ok(Some(Ok(draft))) => return self.go_on(queued, draft.due),
            Ok(Some(Err(error))) => tracing::error!("message {id} is asked about again within a minute: {error}"),
            Ok(None) => {}
            Err(_) => {
                tracing::error!("throttle_insert_ready_queue did not answer about message {id} within {ANSWER_MAX:?}");
            }
        }
        self.with_queue(|q, now| q.unanswered(now, queued));
    }

    /// Does with a message what policy said by its due time.
    fn go_on(&self, mut queued: Queued, due: WallTime) {
        if due <= self.clock.wall() {
            return self.with_queue(|q, now| q.passed(now, queued));
        }
        let (name, ends) = self.with_queue(|q, now| (q.queue_name(queued.queue), q.ends_before(now, &queued, due)));
        if ends {
            return self.with_queue(|q, now| q.held_back(now, queued, due));
        }
        queued.message.due = due;
        let Message { id, attempts, .. } = queued.message;
        if !queued.message.is_volatile() {
            self.spool.mark(Mark::Attempt { id, attempts, due });
        }
        self.metrics.delays.throttle_insert_ready.inc();
        self.log_if_delayed(&queued.message, &name, &[Why::ThrottledByThrottleInsertReadyQueue]);
        self.with_queue(|q, now| q.held_back(now, queued, due));
    }
}

/// Messages that are asked about before others have their turn, and whoever brought them.
const IN_A_ROW: u32 = 2;
/// How long policy may take for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(60);
