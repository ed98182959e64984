//! The load: 64 at once append, mark and remove through the real engine over real files.
//!
//! Sizes are mixed, messages of one transaction share bodies, segments are small, so that every part of the
//! engine works: group commit, reuse, filling, releasing, compaction.

use super::ledger::Ledger;
use super::recorder::{Call, Recorder, Tape};
use anyhow::{Context, Result};
use bytes::Bytes;
use clock::WallTime;
use fastrand::Rng;
use message::{Envelope, MessageId, Meta, Sealed, TlsDemand};
use smtp_wire::{Body, Mailbox, ReversePath};
use spool::{LogStats, Mark, SegmentLog, Settings};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use store::{FileDisk, Options, SpoolHandle};

/// What to run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub messages: u32,
    pub seed: u64,
}

/// What a run left.
pub(super) struct Recording {
    pub calls: Vec<Call>,
    pub ledger: Ledger,
    /// How long each sync took, in ascending order.
    pub syncs: Vec<Duration>,
    pub octets: u64,
    /// The first refusal of the real disk.
    pub refused: Option<String>,
    pub is_direct: bool,
    pub messages: u32,
    pub took: Duration,
    pub stats: LogStats,
}

/// Small segments, so that there are many.
pub(super) fn settings() -> Settings {
    Settings {
        compact_margin_octets: 2 << 20,
        checkpoint_octets: 1 << 20,
        checkpoint_factor: 1,
        ..Settings::with_segment(SEGMENT_OCTETS)
    }
}

/// Runs the load in `dir`.
pub(super) fn run(dir: &Path, load: &Load) -> Result<Recording> {
    let disk = FileDisk::open(dir)?;
    let is_direct = disk.is_direct();
    let tape = Tape::default();
    let mut nonces = Rng::with_seed(load.seed);
    let recorder = Recorder::new(disk, tape.clone());
    let (log, _) = SegmentLog::open(recorder, settings(), Box::new(move || nonces.u64(..)))?;
    let options = Options { settings: settings(), batch_octets_max: BATCH_OCTETS_MAX, ..Options::default() };
    let spool = store::start(log, options)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build()?;
    let begun = Instant::now();
    let shared = Arc::new(Shared { spool, tape, ledger: Ledger::default(), next: AtomicU32::new(0), load: *load });
    let ended = runtime.block_on(async {
        let tasks: Vec<_> = (0..APPENDERS).map(|n| tokio::spawn(Appender::new(Arc::clone(&shared), n).run())).collect();
        let mut result = Ok(());
        for task in tasks {
            // A disk that refuses is told with the verdict; the calls before it are still worth a look.
            result = result.and(task.await.context("an appender failed").map(|_| ()));
        }
        let closed = shared.spool.close().await;
        result.and(closed.context("the spool's writer failed"))
    });
    drop(runtime);
    ended?;
    let stats = shared.spool.stats().log;
    let reel = shared.tape.take();
    let mut syncs = reel.syncs;
    syncs.sort_unstable();
    let messages = shared.next.load(Ordering::Relaxed).min(load.messages);
    let ledger = Arc::into_inner(shared).map(|shared| shared.ledger).context("an appender is left over")?;
    Ok(Recording {
        calls: reel.calls,
        ledger,
        syncs,
        octets: reel.octets,
        refused: reel.refused,
        is_direct,
        messages,
        took: begun.elapsed(),
        stats,
    })
}

/// What all appenders have.
struct Shared {
    spool: SpoolHandle,
    tape: Tape,
    ledger: Ledger,
    next: AtomicU32,
    load: Load,
}

/// One of those who append.
struct Appender {
    shared: Arc<Shared>,
    random: Rng,
    number: u32,
    transactions: u32,
    /// Its messages, with their recipients and attempts.
    live: Vec<(MessageId, u16, u16)>,
    /// Messages with marks that were not flushed yet.
    marked: Vec<MessageId>,
}

impl Appender {
    fn new(shared: Arc<Shared>, number: u32) -> Appender {
        let random = Rng::with_seed(shared.load.seed ^ u64::from(number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Appender { shared, random, number, transactions: 0, live: Vec::new(), marked: Vec::new() }
    }

    /// Until all messages are sent, the tape is full, or the disk refuses.
    async fn run(mut self) {
        while self.shared.tape.octets() < RECORDED_OCTETS_MAX {
            let count = self.random.u32(1..=3);
            let first = self.shared.next.fetch_add(count, Ordering::Relaxed);
            if first.saturating_add(count) > self.shared.load.messages || !self.append(first, count).await {
                break;
            }
            while self.live.len() > LIVE_MAX {
                self.mark();
            }
            if self.random.u8(..8) == 0 && !self.flush().await {
                break;
            }
        }
    }

    /// One transaction: groups that share bodies; false when it was refused.
    async fn append(&mut self, first: u32, count: u32) -> bool {
        let mut groups: Vec<Vec<Sealed>> = Vec::new();
        for number in first..first + count {
            let sealed = match groups.last_mut() {
                Some(group) if self.random.bool() => {
                    let sealed = sealed(number, &mut self.random, Some(group[0].body.clone()));
                    group.push(sealed);
                    continue;
                }
                _ => sealed(number, &mut self.random, None),
            };
            groups.push(vec![sealed]);
        }
        self.transactions += 1;
        let transaction = self.number << 20 | self.transactions;
        let shared = Arc::clone(&self.shared);
        shared.ledger.begin(transaction, &groups, shared.tape.position());
        let Ok(appended) = shared.spool.append(groups).await else { return false };
        shared.ledger.acked(appended.durable.iter().map(spool::Durable::id), shared.tape.position());
        self.live.extend(appended.sealed.iter().map(|s| (s.id, s.envelope.recipients.len() as u16, 0)));
        true
    }

    /// One mark for one message, in most cases its removal.
    fn mark(&mut self) {
        let shared = &self.shared;
        // One of the older ones stays now and then: it is what compaction is for.
        let at = self.random.usize(..self.live.len()).min(self.random.usize(..self.live.len()));
        let at = if self.random.u8(..40) == 0 { self.live.len() - 1 } else { at };
        let (id, recipients, attempts) = &mut self.live[at];
        let (id, position) = (*id, shared.tape.position());
        self.marked.push(id);
        match self.random.u8(..6) {
            0 => {
                *attempts += 1;
                let due = WallTime::from_unix_secs(DUE_SECS + i64::from(self.random.u32(..1 << 20)));
                shared.ledger.attempt(id, *attempts, due, position);
                shared.spool.mark(Mark::Attempt { id, attempts: *attempts, due });
            }
            1 => {
                let recipient = self.random.u16(..*recipients);
                shared.ledger.settle(id, recipient, position);
                shared.spool.mark(Mark::RecipientsDone { id, recipients: vec![u32::from(recipient)] });
            }
            _ => {
                shared.ledger.remove(id, position);
                shared.spool.mark(Mark::Removed { id });
                self.live.swap_remove(at);
            }
        }
    }

    /// Waits until its marks are durable; false when the disk refused.
    async fn flush(&mut self) -> bool {
        let marked = std::mem::take(&mut self.marked);
        if self.shared.spool.flush().await.is_err() {
            return false;
        }
        self.shared.ledger.flushed(&marked, self.shared.tape.position());
        true
    }
}

/// Message `number`, with a body of its own unless one is given.
fn sealed(number: u32, random: &mut Rng, body: Option<Body>) -> Sealed {
    let mut octets = [0x5a; 16];
    octets[..4].copy_from_slice(&number.to_be_bytes());
    let id = MessageId::from_bytes(octets);
    let body = body.unwrap_or_else(|| {
        let octets = match random.u8(..20) {
            0 => 0,
            1 => random.usize(..100_000),
            2..6 => random.usize(..20_000),
            _ => random.usize(..4000),
        };
        // Not to be compressed or guessed, and cheap: a few random octets in front of each kilobyte.
        let mut body = vec![number as u8; octets];
        body.chunks_mut(1024).for_each(|chunk| chunk.iter_mut().take(16).for_each(|octet| *octet = random.u8(..)));
        body.into()
    });
    let recipients = if random.u8(..10) == 0 { random.u32(2..80) } else { 1 };
    let mailbox = |n: u32| Mailbox::parse(&format!("r{n}.{number}@example.com")).ok();
    let envelope = Envelope {
        sender: ReversePath(None),
        recipients: (0..recipients).filter_map(mailbox).collect(),
        dsn: None,
        tls: TlsDemand::Usual,
    };
    let mut meta = Meta::new();
    meta.set("n", number);
    let head = Bytes::from(format!("Subject: {number}\r\n"));
    Sealed { id, envelope, meta, head, body, due: WallTime::from_unix_secs(DUE_SECS) }
}

/// Those who append at the same time.
const APPENDERS: u32 = 64;
/// Threads they run on.
const WORKERS: usize = 2;
/// Messages that each keeps alive.
const LIVE_MAX: usize = 10;
/// Octets of one commit: small, so that there are many moments to be cut.
const BATCH_OCTETS_MAX: usize = 128 << 10;
/// Octets of a segment.
const SEGMENT_OCTETS: u32 = 512 << 10;
/// Octets of memory for what was written, 768 MiB.
const RECORDED_OCTETS_MAX: u64 = 768 << 20;
/// Due times begin here; nothing looks at them but the comparison.
const DUE_SECS: i64 = 1_790_000_000;
