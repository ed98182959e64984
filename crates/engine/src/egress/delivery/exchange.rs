//! Octets of an outbound session, out and in, and what may end its waits for them.
//!
//! Whatever goes on, the peer is heard, deadlines pass, and the connection is ended when somebody says so. Each wait is one poll by
//! hand of a few things that stand from wait to wait (`crate::standing`). Errors of the network become the session's.

use super::{Cut, Delivery, interruption};
use crate::clock::Clock;
use crate::egress::dispatcher::DispatcherPhase;
use crate::standing::{Standing, StandingTimer};
use crate::watching::Seen;
use ::clock::Instant;
use bytes::Buf;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What may end the waits of a session besides its peer.
pub(super) struct Waits {
    timer: StandingTimer,
    /// Somebody ends it from outside.
    cut: Standing<Cut>,
    /// The program begins to stop.
    stop: Standing<()>,
}

/// What a session waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    /// That some output is written.
    Write,
    /// That nothing written is held back.
    Flush,
    /// What the peer says.
    Read,
}

/// What ended a wait.
enum Happened {
    Written(io::Result<usize>),
    Flushed(io::Result<()>),
    Read(io::Result<usize>),
    Late,
    Cut(Cut),
    Stop,
    /// There may be a message.
    Called,
}

impl Waits {
    pub fn new(clock: Clock) -> Waits {
        Waits { timer: StandingTimer::new(clock), cut: Standing::new(), stop: Standing::new() }
    }
}

impl Delivery {
    /// Waits with nothing to do; closes after `patience` when `then_close`.
    pub(super) async fn idle(&mut self, patience: Duration, then_close: bool, phase: DispatcherPhase) {
        // Room, or what the spool has, may have been waited for.
        let now = self.look_at_clock();
        self.dispatcher.enter(phase, now);
        let waker = self.waker.clone();
        let mut called = pin!(waker.notified());
        let until = now + patience;
        // The peer first: it may have said that it takes no more.
        let happened = poll_fn(|cx| match self.poll_wait(cx, until, true) {
            Poll::Pending => called.as_mut().poll(cx).map(|()| Happened::Called),
            happened => happened,
        });
        let happened = happened.await;
        self.progress_at = self.look_at_clock();
        match happened {
            // Unless a message was promised to this connection in the meantime.
            Happened::Late if then_close && self.engine.with_queue(|q, _| q.leave_idle(self.conn)) => self.finish(),
            Happened::Late => {}
            Happened::Stop => self.finish(),
            happened => self.took_place(happened),
        }
    }

    /// Writes all output; a peer that answers early is heard meanwhile.
    pub(super) async fn write(&mut self) {
        while self.session.output().has_remaining() {
            self.show_written();
            let deadline = self.deadline();
            let happened = poll_fn(|cx| self.poll_exchange(cx, Task::Write, deadline)).await;
            self.look_at_clock();
            if matches!(happened, Happened::Written(Ok(0) | Err(_))) {
                self.hear_the_last().await;
            }
            self.took_place(happened);
            if self.session.is_closed() {
                return;
            }
        }
        self.flush().await;
    }

    /// Pushes out what TLS still holds: a write may succeed into its buffer, and no read would
    /// ever send the rest.
    async fn flush(&mut self) {
        while !self.session.is_closed() {
            let deadline = self.deadline();
            let mut waits = false;
            let happened = poll_fn(|cx| {
                let happened = self.poll_exchange(cx, Task::Flush, deadline);
                waits |= happened.is_pending();
                happened
            });
            let happened = happened.await;
            if waits {
                self.look_at_clock();
            }
            match happened {
                Happened::Flushed(Ok(())) => return,
                happened => {
                    if matches!(happened, Happened::Flushed(Err(_))) {
                        self.hear_the_last().await;
                    }
                    self.took_place(happened);
                }
            }
        }
    }

    /// Nothing can be written any more, but the peer may have said why before it hung up: what it said counts.
    async fn hear_the_last(&mut self) {
        // It is all here, or was lost on the way; the runtime may need a moment to see it.
        let until = self.now + LAST_PATIENCE;
        for _ in 0..LAST_READS_MAX {
            let happened = poll_fn(|cx| self.poll_wait(cx, until, false)).await;
            self.look_at_clock();
            match happened {
                Happened::Read(Ok(count)) if count > 0 && !self.session.is_closed() => self.received(Ok(count)),
                _ => return,
            }
        }
    }

    pub(super) async fn read(&mut self) {
        let deadline = self.deadline();
        let happened = poll_fn(|cx| self.poll_exchange(cx, Task::Read, deadline)).await;
        self.look_at_clock();
        self.took_place(happened);
    }

    /// The clock has been looked at since, or there was no wait.
    fn took_place(&mut self, happened: Happened) {
        match happened {
            Happened::Written(Ok(0)) => self.session.connection_lost(self.now, "connection closed while writing"),
            Happened::Written(Ok(_)) => self.progress_at = self.now,
            Happened::Written(Err(error)) | Happened::Flushed(Err(error)) => {
                self.session.connection_lost(self.now, &error.to_string());
            }
            Happened::Read(read) => self.received(read),
            Happened::Late => self.expire(),
            Happened::Cut(cut) => self.cut(&cut),
            Happened::Stop => self.session.connection_lost(self.now, "shutting down"),
            Happened::Flushed(Ok(())) | Happened::Called => {}
        }
    }

    fn received(&mut self, read: io::Result<usize>) {
        let now = self.now;
        match read {
            Ok(0) => self.session.connection_lost(now, "peer closed the connection"),
            Ok(count) => {
                self.progress_at = now;
                self.secret.replied(&self.buffer[..count]);
                self.show(&Seen::Read(&self.buffer[..count]));
                self.session.feed(now, &self.buffer[..count]);
            }
            Err(error) => self.session.connection_lost(now, &error.to_string()),
        }
    }

    /// Octets first: what is there counts even when it is late.
    fn poll_exchange(&mut self, cx: &mut Context<'_>, task: Task, deadline: Instant) -> Poll<Happened> {
        let done = match task {
            Task::Write => self.poll_write(cx).map(Happened::Written),
            Task::Flush => Pin::new(&mut self.stream).poll_flush(cx).map(Happened::Flushed),
            Task::Read => Poll::Pending,
        };
        if done.is_ready() {
            return done;
        }
        let may_stop = task == Task::Read && self.in_hand.is_empty();
        self.poll_wait(cx, deadline, may_stop)
    }

    /// As much at once as so many slices hold: content is cut where a dot is doubled.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let output = self.session.output();
        let mut slices = [IoSlice::new(&[]); SLICES_WRITTEN];
        let filled = output.chunks_vectored(&mut slices);
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, &slices[..filled]));
        written.inspect(|octets| output.advance(*octets)).into()
    }

    /// What ends every wait; the stop of the program only those that it may end at once.
    fn poll_wait(&mut self, cx: &mut Context<'_>, until: Instant, may_stop: bool) -> Poll<Happened> {
        let read = self.poll_read(cx);
        if read.is_ready() {
            return read;
        }
        if self.waits.timer.poll(cx, until).is_ready() {
            return Poll::Ready(Happened::Late);
        }
        if may_stop {
            let stop = self.poll_stop(cx);
            if stop.is_ready() {
                return stop;
            }
        }
        self.poll_cut(cx)
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Happened> {
        let mut free = ReadBuf::new(&mut self.buffer);
        let read = Pin::new(&mut self.stream).poll_read(cx, &mut free);
        read.map(|read| Happened::Read(read.map(|()| free.filled().len())))
    }

    fn poll_cut(&mut self, cx: &mut Context<'_>) -> Poll<Happened> {
        let cut = || {
            let (engine, dispatcher, path) = (self.engine.clone(), self.dispatcher.clone(), self.path.clone());
            async move { interruption(&engine, &dispatcher, &path).await }
        };
        self.waits.cut.poll(cx, cut).map(Happened::Cut)
    }

    fn poll_stop(&mut self, cx: &mut Context<'_>) -> Poll<Happened> {
        let stop = || {
            let engine = self.engine.clone();
            async move { engine.draining().await }
        };
        self.waits.stop.poll(cx, stop).map(|()| Happened::Stop)
    }
}

/// Reads of what a peer said before it hung up: more than a reply has octets.
const LAST_READS_MAX: usize = 16;
/// How long the runtime may take to see what they bring.
const LAST_PATIENCE: Duration = Duration::from_secs(1);
/// Slices that one write takes at most: content of 100 KB with a dotted line in each half KB.
const SLICES_WRITTEN: usize = 256;
