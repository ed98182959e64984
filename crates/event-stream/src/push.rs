//! A stream: reads its log, posts batches one after the other, remembers how far it came.
//!
//! Owns [`Push`], which lives on a thread of its own. In: options, segments. Out: requests, a checkpoint. A batch is written down
//! before it is sent (`sending`), and passed when it was taken: after a crash the same batch comes again, with the same id.
//! Nothing is skipped but what is gone from the log, which is said. What fails is tried again for ever. A stop lets the
//! request in flight end for [`STOP_GRACE`].

use crate::backoff::Backoff;
use crate::batch::{self, Batch, Limits};
use crate::checkpoint::{Checkpoint, Progress};
use crate::cursor::Cursor;
use crate::error::EventError;
use crate::poster::{Parcel, Poster, Refusal};
use crate::source::{Got, Source, Start};
use crate::streams::Folder;
use crate::wanted::Wanted;
use config::EventStream;
use jsonl::{Notices, Position};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use telemetry::Metrics;
use time::OffsetDateTime;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

/// A stream that runs.
pub(crate) struct Push {
    pub options: EventStream,
    pub poster: Poster,
    pub metrics: Metrics,
    pub stop: watch::Receiver<bool>,
}

/// What it has in hand.
struct Hand {
    source: Source,
    checkpoint: Checkpoint,
    progress: Progress,
    /// The checkpoint's file does not say what `progress` says.
    is_unsaved: bool,
    saved_at: Instant,
    news: Arc<Notify>,
    _notices: Option<Notices>,
}

/// A batch, and where it ends.
struct Ready {
    batch: Batch,
    to: Position,
}

/// It was told to stop.
struct Stopped;

impl Push {
    /// Runs until it is told to stop.
    pub async fn run(mut self) {
        if let Ok(mut hand) = self.persist(|push| push.begin()).await {
            self.serve(&mut hand).await;
            if hand.is_unsaved
                && let Err(error) = hand.save()
            {
                tracing::error!("{}: {error}; its last batch comes again", self.named());
            }
        }
        self.metrics.event_streams.ended(&self.options.name);
    }

    /// Sends batch after batch until it is told to stop.
    async fn serve(&mut self, hand: &mut Hand) {
        while let Ok(ready) = self.gather(hand).await {
            if self.deliver(hand, ready).await.is_err() {
                return;
            }
        }
    }

    /// Opens the log where the checkpoint says.
    fn begin(&self) -> Result<Hand, EventError> {
        let EventStream { name, log_dir, suffix, checkpoint_dir, from, types, .. } = &self.options;
        let checkpoint = Checkpoint::of(checkpoint_dir.as_ref().unwrap_or(log_dir), name);
        let found = checkpoint.read()?;
        let start = found.as_ref().map_or(Start::From(*from), |found| Start::Behind(found.done.clone()));
        let folder = Folder { log_dir: log_dir.clone(), suffix: suffix.clone() };
        // Watched before it is read, so that nothing comes in between.
        let news = Arc::new(Notify::new());
        let wake = news.clone();
        let notices = Notices::of(log_dir, move || wake.notify_one());
        let notices = notices.map_err(|error| tracing::warn!("{}: {error}; it looks every second", self.named())).ok();
        let source = Source::open(&folder, &start, Wanted::of(types))?;
        let is_new = found.is_none();
        let progress = found.unwrap_or_else(|| Progress { done: source.at().clone(), sending: None });
        // The end of today is not the end of tomorrow: where it began is remembered, but not where it looks for a time.
        if is_new && !source.is_seeking() {
            checkpoint.write(&progress)?;
        }
        let saved_at = Instant::now();
        tracing::info!("{}: begins behind line {} of {:?}", self.named(), progress.done.line, progress.done.file);
        Ok(Hand { source, checkpoint, progress, is_unsaved: false, saved_at, news, _notices: notices })
    }

    /// The next batch; waits for it.
    async fn gather(&mut self, hand: &mut Hand) -> Result<Ready, Stopped> {
        loop {
            let Ready { batch, to } = self.gather_some(hand).await?;
            if batch.records() > 0 {
                return Ok(Ready { batch, to });
            }
            // Nothing of what was in hand before a crash is wanted any more.
            hand.passed(to);
        }
    }

    /// The next batch; empty when the one that was in hand before a crash has become so.
    async fn gather_some(&mut self, hand: &mut Hand) -> Result<Ready, Stopped> {
        let EventStream { batch_size, max_batch_bytes, format, max_batch_latency, .. } = &self.options;
        let latency = max_batch_latency.get();
        let limits = Limits { records_max: *batch_size, octets_max: *max_batch_bytes, format: *format };
        // After a crash: the batch that was in hand, to its end and not beyond; less of it where the limits are lower now, which
        // helps a receiver for whom it was too large.
        let until = hand.progress.sending.clone();
        let mut batch = Batch::new(limits);
        let mut due = None;
        loop {
            let filled = self.persist(|push| push.fill(hand, &mut batch, until.as_ref())).await?;
            let is_due = due.is_some_and(|due| due <= Instant::now());
            match filled {
                Filled::Some if !is_due => {
                    due = due.or_else(|| (batch.records() > 0).then(|| Instant::now() + latency));
                    self.persist(|_| hand.save_before_waiting(batch.records() == 0)).await?;
                }
                Filled::All if !is_due => {
                    due = due.or_else(|| (batch.records() > 0).then(|| Instant::now() + latency));
                    self.behind(batch.oldest());
                    self.persist(|_| hand.save_before_waiting(batch.records() == 0)).await?;
                    self.wait(hand, due).await?;
                }
                Filled::Full | Filled::Some | Filled::All => return Ok(Ready { batch, to: hand.source.at().clone() }),
            }
        }
    }

    /// Reads into a batch what there is, or a portion of it.
    fn fill(&self, hand: &mut Hand, batch: &mut Batch, until: Option<&Position>) -> Result<Filled, EventError> {
        for _ in 0..STEPS_MAX {
            if until.is_some_and(|until| hand.source.at() >= until) {
                return Ok(Filled::Full);
            }
            match hand.source.step()? {
                Got::End => {
                    hand.source.look_ahead()?;
                    return Ok(Filled::All);
                }
                Got::Passed => self.count_skipped(hand.source.take_skipped()),
                // What is in hand goes first.
                Got::Gap(_) if batch.records() > 0 => return Ok(Filled::Full),
                Got::Gap(segment) => {
                    self.count_skipped(1);
                    let named = self.named();
                    tracing::error!(
                        "{named}: segment {segment} was removed before it was read to its end; it goes on with the oldest there is"
                    );
                    hand.source.accept_gap();
                    hand.progress.sending = None;
                }
                Got::Event(event) => {
                    let is_beyond = until.is_some_and(|until| event.at > *until);
                    if is_beyond || !batch.has_room(hand.source.text().len()) {
                        return Ok(Filled::Full);
                    }
                    if batch.records() == 0 && until.is_none() {
                        // What was passed over is none of the batch: it begins here when it comes again.
                        hand.progress.done = hand.source.at().clone();
                    }
                    batch.push(hand.source.text(), event.timestamp);
                    hand.source.take();
                    if batch.is_full() {
                        return Ok(Filled::Full);
                    }
                }
            }
        }
        Ok(Filled::Some)
    }

    /// Sends a batch until it is taken.
    async fn deliver(&mut self, hand: &mut Hand, ready: Ready) -> Result<(), Stopped> {
        let Ready { batch, to } = ready;
        let EventStream { name, format, types, .. } = &self.options;
        let id = batch::id(name, (&hand.progress.done, &to), &Wanted::of(types).names(), *format);
        let (records, oldest) = (batch.records(), batch.oldest());
        let parcel = Parcel { id, cursor: Cursor(to.clone()).to_string(), body: batch.finish() };
        hand.progress.sending = Some(to.clone());
        self.persist(|_| hand.save()).await?;
        let mut backoff = Backoff::default();
        while let Err(refusal) = self.post(hand, &parcel, oldest).await? {
            self.metrics.event_streams.failures(&self.options.name).inc();
            let wait = backoff.failed(refusal.retry_after);
            if backoff.failures().is_power_of_two() {
                let (named, why, failures) = (self.named(), refusal.why, backoff.failures());
                tracing::warn!(
                    "{named}: a batch of {records} records was not taken ({failures} times now): {why}; again in {wait:?}"
                );
            }
            self.pause(hand, wait, oldest).await?;
        }
        if backoff.succeeded() {
            tracing::info!("{}: batches are taken again", self.named());
        }
        let counts = &self.metrics.event_streams;
        counts.records(&self.options.name).inc_by(records as u64);
        counts.batches(&self.options.name).inc();
        hand.passed(to);
        Ok(())
    }

    /// Sends a batch once.
    async fn post(
        &self,
        hand: &mut Hand,
        parcel: &Parcel,
        oldest: Option<i64>,
    ) -> Result<Result<(), Refusal>, Stopped> {
        let mut stop = self.stop.clone();
        let mut stopped = pin!(stopping(&mut stop, STOP_GRACE));
        let mut posted = pin!(self.poster.post(parcel));
        loop {
            self.look(hand, oldest);
            tokio::select! {
                posted = &mut posted => return Ok(posted),
                () = &mut stopped => return Err(Stopped),
                () = sleep(LOOK_EVERY) => {}
            }
        }
    }

    /// Waits before another attempt.
    async fn pause(&mut self, hand: &mut Hand, wait: Duration, oldest: Option<i64>) -> Result<(), Stopped> {
        let end = Instant::now() + wait;
        while Instant::now() < end {
            let part = end.min(Instant::now() + LOOK_EVERY);
            unless_stopped(&mut self.stop, sleep_until(part)).await?;
            self.look(hand, oldest);
        }
        Ok(())
    }

    /// While a batch is not taken: how old it is by now, and which segment comes next, which may be gone later.
    fn look(&self, hand: &mut Hand, oldest: Option<i64>) {
        self.behind(oldest);
        if let Err(error) = hand.source.look_ahead() {
            tracing::debug!("{}: {error}", self.named());
        }
    }

    /// Waits for news of the log, or until a batch is due.
    async fn wait(&mut self, hand: &Hand, due: Option<Instant>) -> Result<(), Stopped> {
        let latest = Instant::now() + POLL;
        let until = due.map_or(latest, |due| due.min(latest));
        let news = async {
            // Nobody is served better by looking at each line as it comes.
            if timeout_at(until, hand.news.notified()).await.is_ok() {
                sleep_until(until.min(Instant::now() + GATHER)).await;
            }
        };
        unless_stopped(&mut self.stop, news).await
    }

    /// Does it, again and again if need be; says so.
    async fn persist<T>(&mut self, mut act: impl FnMut(&Push) -> Result<T, EventError>) -> Result<T, Stopped> {
        let mut backoff = Backoff::default();
        loop {
            let error = match act(self) {
                Ok(done) if *self.stop.borrow() => {
                    drop(done);
                    return Err(Stopped);
                }
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            let wait = backoff.failed(None);
            if backoff.failures().is_power_of_two() {
                tracing::error!("{}: {error}; again in {wait:?}", self.named());
            }
            unless_stopped(&mut self.stop, sleep(wait)).await?;
        }
    }

    /// How far it is behind, by its oldest record that was not taken.
    fn behind(&self, oldest: Option<i64>) {
        let now = OffsetDateTime::now_utc().unix_timestamp();
        let seconds = oldest.map_or(0, |oldest| now.saturating_sub(oldest).max(0));
        self.metrics.event_streams.behind(&self.options.name).set(seconds);
    }

    fn count_skipped(&self, count: u64) {
        if count > 0 {
            self.metrics.event_streams.gaps(&self.options.name).inc_by(count);
        }
    }

    fn named(&self) -> String {
        format!("event stream `{}`", self.options.name)
    }
}

/// What reading came to.
enum Filled {
    /// The batch is to go.
    Full,
    /// There may be more.
    Some,
    /// All that is there was read.
    All,
}

impl Hand {
    /// What is at or before `to` is done with.
    fn passed(&mut self, to: Position) {
        self.progress = Progress { done: to, sending: None };
        self.is_unsaved = true;
    }

    fn save(&mut self) -> Result<(), EventError> {
        self.checkpoint.write(&self.progress)?;
        (self.is_unsaved, self.saved_at) = (false, Instant::now());
        Ok(())
    }

    /// Before it waits: what was taken is written down, and now and then what was passed over.
    fn save_before_waiting(&mut self, has_nothing: bool) -> Result<(), EventError> {
        let is_ahead = *self.source.at() > self.progress.done && self.saved_at.elapsed() >= PASSED_EVERY;
        if has_nothing && is_ahead && self.progress.sending.is_none() && !self.source.is_seeking() {
            self.passed(self.source.at().clone());
        }
        if self.is_unsaved { self.save() } else { Ok(()) }
    }
}

/// Work, unless it is told to stop.
async fn unless_stopped(stop: &mut watch::Receiver<bool>, work: impl Future<Output = ()>) -> Result<(), Stopped> {
    tokio::select! { () = work => Ok(()), () = stopping(stop, Duration::ZERO) => Err(Stopped) }
}

/// Some time after it is told to stop.
async fn stopping(stop: &mut watch::Receiver<bool>, grace: Duration) {
    // An error means that nobody can say so any more.
    let _ = stop.wait_for(|is_over| *is_over).await;
    sleep(grace).await;
}

/// How long a request in flight may take once the stream is to stop.
pub(crate) const STOP_GRACE: Duration = Duration::from_secs(3);
/// Steps of reading between two looks whether it is to stop.
const STEPS_MAX: usize = 10_000;
/// How often it is looked for news that nobody gave.
const POLL: Duration = Duration::from_secs(1);
/// How long news may gather.
const GATHER: Duration = Duration::from_millis(50);
/// How often it is seen which segment comes next while a receiver takes nothing.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How often it is written down that records were passed over.
const PASSED_EVERY: Duration = Duration::from_secs(10);
