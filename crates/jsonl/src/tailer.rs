//! Follows the segments of a directory and gives out their records in batches.
//!
//! Owns [`Tailer`]. In: options, and of each record who keeps it. Out: [`Step`]s. Reading happens on blocking threads;
//! between two reads the tailer waits for the file system's notices, for `poll_watcher`, for a batch's time, or to be
//! closed ([`Closer`]). A step that is cancelled loses nothing. Fails as reading does; what was read before a fault is
//! given out before it, and the step after it goes on.
//!
//! A consumer's batch stands for all it was asked about up to then. One that keeps nothing has no batches, and its
//! checkpoint stays where it is.

use crate::JsonlError;
use crate::batch::Batch;
use crate::checkpoint::{Checkpoint, Position};
use crate::consumer::Consumer;
use crate::notices::Notices;
use crate::reader::{Item, Reader};
use config::{JsonlMultiTailerOptions, JsonlTailerOptions};
use serde_json::Value;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// A tailer of one directory, with one consumer or many.
pub struct Tailer {
    shared: Arc<Shared>,
    items: VecDeque<Item>,
    offered: Option<Offer>,
    /// To be told once what was read before it is given out.
    fault: Option<JsonlError>,
    consumers: Vec<Consumer>,
    poll: Option<Duration>,
    _notices: Option<Notices>,
}

/// Ends a [`Tailer`] from elsewhere; clones end the same one.
#[derive(Clone)]
pub struct Closer {
    shared: Arc<Shared>,
}

/// What a tailer has.
#[derive(Debug)]
pub enum Step {
    /// A record: [`Tailer::decide`] who keeps it. Until then each step is this same one.
    Record(Offered),
    /// The batches that are ready, one at least, in the order of the consumers.
    Batches(Vec<Batch>),
    /// It was closed.
    Closed,
}

/// A record, and who may have it.
#[derive(Clone, Debug)]
pub struct Offered {
    /// What its line says.
    pub record: Arc<Value>,
    /// The consumers that did not have it yet, by their place in the options; the first is 0.
    pub consumers: Vec<usize>,
}

struct Offer {
    at: Position,
    octets: usize,
    offered: Offered,
}

struct Shared {
    source: Mutex<Source>,
    /// Something changed: there may be more to read, or it was closed.
    news: Notify,
    is_closed: AtomicBool,
}

/// What blocking threads work on. What they read stays here until the tailer fetches it, so a cancelled step loses nothing.
struct Source {
    reader: Reader,
    items: VecDeque<Item>,
}

impl Tailer {
    /// Opens a tailer with one consumer, `default`. See [`Tailer::open_multi`].
    pub fn open(options: JsonlTailerOptions) -> Result<Tailer, JsonlError> {
        Tailer::open_multi(options.into())
    }

    /// Opens a tailer. Each consumer begins behind its checkpoint; without one at the first record there is, or with `tail`
    /// behind the last.
    ///
    /// Waits for the disk: it reads the checkpoints, the directory, and with `tail` the last segment.
    ///
    /// Errors: [`JsonlError::Directory`] when it is not there, [`JsonlError::Pattern`], [`JsonlError::Watch`],
    /// [`JsonlError::Checkpoint`], [`JsonlError::Read`].
    pub fn open_multi(options: JsonlMultiTailerOptions) -> Result<Tailer, JsonlError> {
        let tail = options.tail;
        Tailer::open_from(options, |reader| if tail { reader.end() } else { Ok(None) })
    }

    /// The same with one consumer that begins, without a checkpoint, with the first record of the last segment there is.
    ///
    /// Errors: as [`Tailer::open_multi`].
    pub fn open_at_newest(options: JsonlTailerOptions) -> Result<Tailer, JsonlError> {
        Tailer::open_from(options.into(), Reader::newest)
    }

    fn open_from(
        options: JsonlMultiTailerOptions,
        begin: impl FnOnce(&Reader) -> Result<Option<Position>, JsonlError>,
    ) -> Result<Tailer, JsonlError> {
        let JsonlMultiTailerOptions { directory, pattern, poll_watcher, consumers, max_line_size, .. } = options;
        let mut reader = Reader::new(&directory, &pattern)?;
        reader.take_lines_up_to(max_line_size);
        let end = begin(&reader)?;
        let consumers = consumers.into_iter().map(|options| {
            let name = options.checkpoint_name.as_deref();
            let checkpoint = name.map(|name| Checkpoint::open(&directory, name)).transpose()?.map(Arc::new);
            let seen = checkpoint.as_ref().and_then(|checkpoint| checkpoint.at()).or_else(|| end.clone());
            Ok(Consumer::new(options, checkpoint, seen))
        });
        let consumers = consumers.collect::<Result<Vec<Consumer>, JsonlError>>()?;
        reader.start_behind(consumers.iter().map(|consumer| consumer.seen().cloned()).min().flatten());
        let source = Mutex::new(Source { reader, items: VecDeque::new() });
        let shared = Arc::new(Shared { source, news: Notify::new(), is_closed: AtomicBool::new(false) });
        let poll = poll_watcher.map(config::Duration::get);
        let notices = match poll {
            Some(_) => None,
            None => {
                let shared = shared.clone();
                Some(Notices::of(&directory, move || shared.news.notify_one())?)
            }
        };
        let (items, offered, fault) = (VecDeque::new(), None, None);
        Ok(Tailer { shared, items, offered, fault, consumers, poll, _notices: notices })
    }

    /// Something to end it with while a step waits.
    pub fn closer(&self) -> Closer {
        Closer { shared: self.shared.clone() }
    }

    /// What comes next; waits for it. Cancelling it loses nothing.
    ///
    /// Errors: what cannot be read. The step after it goes on behind the fault ([`JsonlError::NotJson`],
    /// [`JsonlError::ReadTooLong`], [`JsonlError::Damaged`]) or tries again (all others).
    pub async fn step(&mut self) -> Result<Step, JsonlError> {
        loop {
            if let Some(step) = self.advance().await? {
                return Ok(step);
            }
            self.wait().await;
        }
    }

    /// What comes next of what is there; `None` once all of it was given out, batches that are not full too.
    ///
    /// Errors: as [`Tailer::step`].
    pub async fn step_now(&mut self) -> Result<Option<Step>, JsonlError> {
        let step = self.advance().await?;
        Ok(step.or_else(|| {
            let rest: Vec<Batch> = self.consumers.iter_mut().filter_map(Consumer::take).collect();
            (!rest.is_empty()).then_some(Step::Batches(rest))
        }))
    }

    /// What comes next; `None` when there is nothing for now.
    async fn advance(&mut self) -> Result<Option<Step>, JsonlError> {
        loop {
            if self.shared.is_closed() {
                return Ok(Some(Step::Closed));
            }
            if let Some(offer) = &self.offered {
                return Ok(Some(Step::Record(offer.offered.clone())));
            }
            let batches = self.ready(Instant::now());
            if !batches.is_empty() {
                return Ok(Some(Step::Batches(batches)));
            }
            if let Some(fault) = self.fault.take() {
                return Err(fault);
            }
            match self.items.pop_front() {
                Some(Item::Record { at, record, octets }) => self.offer(at, record, octets),
                Some(Item::Fault(fault)) => self.fault = Some(fault),
                None => {
                    let filled = self.fill().await;
                    // Told behind what was read before it.
                    self.items.extend(filled.err().map(Item::Fault));
                    if self.items.is_empty() {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// The consumers in `kept` keep the record that is offered, the others do not; numbers it was not offered to, and a
    /// call while nothing is offered, change nothing.
    pub fn decide(&mut self, kept: &[usize]) {
        let Some(Offer { at, octets, offered }) = self.offered.take() else { return };
        let now = Instant::now();
        for number in offered.consumers {
            let Some(consumer) = self.consumers.get_mut(number) else { continue };
            match kept.contains(&number) {
                true => consumer.keep(&at, offered.record.clone(), octets, now),
                false => consumer.pass(&at),
            }
        }
    }

    /// The batches that are ready next, with a filter that does not wait: it is asked once for each record and consumer
    /// (the number is its place in the options). `None` when the tailer was closed.
    ///
    /// Errors: those of [`Tailer::step`], and the filter's own, after which the record is offered again.
    pub async fn next<E: From<JsonlError>>(
        &mut self,
        mut filter: impl FnMut(usize, &Value) -> Result<bool, E>,
    ) -> Result<Option<Vec<Batch>>, E> {
        loop {
            match self.step().await? {
                Step::Closed => return Ok(None),
                Step::Batches(batches) => return Ok(Some(batches)),
                Step::Record(Offered { record, mut consumers }) => {
                    let mut failed = None;
                    consumers.retain(|number| match filter(*number, &record) {
                        Ok(kept) => kept,
                        Err(error) => {
                            failed.get_or_insert(error);
                            false
                        }
                    });
                    match failed {
                        Some(error) => return Err(error),
                        None => self.decide(&consumers),
                    }
                }
            }
        }
    }

    fn offer(&mut self, at: Position, record: Arc<Value>, octets: usize) {
        let numbered = self.consumers.iter().enumerate();
        let consumers: Vec<usize> = numbered.filter(|(_, one)| one.wants(&at)).map(|(number, _)| number).collect();
        if !consumers.is_empty() {
            self.offered = Some(Offer { at, octets, offered: Offered { record, consumers } });
        }
    }

    /// The batches that are ready; all there are when there is a fault to tell.
    fn ready(&mut self, now: Instant) -> Vec<Batch> {
        let has_fault = self.fault.is_some();
        let ready = self.consumers.iter_mut().filter(|consumer| has_fault || consumer.is_ready(now));
        ready.filter_map(Consumer::take).collect()
    }

    /// Reads what there is.
    async fn fill(&mut self) -> Result<(), JsonlError> {
        // What was read for a step that was cancelled.
        self.fetch();
        if !self.items.is_empty() {
            return Ok(());
        }
        let shared = self.shared.clone();
        let filled = tokio::task::spawn_blocking(move || {
            let source = &mut *shared.source();
            match source.items.is_empty() {
                true => source.reader.fill(&mut source.items, &shared.is_closed),
                false => Ok(()),
            }
        });
        let filled = filled.await.map_err(|error| JsonlError::Thread(io::Error::other(error)));
        self.fetch();
        filled?
    }

    /// Takes what was read. When somebody reads just now, for a step that was cancelled, it is asked for again.
    fn fetch(&mut self) {
        match self.shared.source.try_lock() {
            Ok(mut source) => std::mem::swap(&mut self.items, &mut source.items),
            Err(TryLockError::Poisoned(source)) => std::mem::swap(&mut self.items, &mut source.into_inner().items),
            Err(TryLockError::WouldBlock) => self.shared.news.notify_one(),
        }
    }

    /// Waits for news, or a batch's time.
    async fn wait(&self) {
        let look = self.poll.and_then(|poll| Instant::now().checked_add(poll));
        let until = self.consumers.iter().filter_map(Consumer::due).chain(look).min();
        let news = self.shared.news.notified();
        match until {
            None => news.await,
            Some(until) => tokio::select! {
                () = news => {}
                () = sleep_until(until) => {}
            },
        }
    }
}

impl Closer {
    /// The step that waits, and all after it, are [`Step::Closed`]; what no batch was made of is dropped, and no checkpoint
    /// is written. Batches given out before may still be committed.
    pub fn close(&self) {
        self.shared.is_closed.store(true, Ordering::Release);
        self.shared.news.notify_one();
    }
}

impl Shared {
    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    fn source(&self) -> std::sync::MutexGuard<'_, Source> {
        self.source.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
