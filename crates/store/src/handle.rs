//! The handle that sessions and deliveries hold: append, mark, read.

use crate::free::free;
use crate::hints::Hints;
use crate::inbox::{Append, Inbox};
use crate::options::{Options, Stats};
use crate::recovering::{self, Recovering, ReturnHome};
use crate::writer::Writer;
use crate::{FileDisk, StoreError};
use message::{MessageId, Place, Resident, Sealed};
use spool::{
    Disk, Durable, Mark, NonceSource, ReadPages, SegmentLog, Settings, SpoolError, check_transaction, read_message,
};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use tokio::sync::{Semaphore, oneshot};

/// A spool in use. Clones share it; [`SpoolHandle::close`] ends it for all.
#[derive(Clone)]
pub struct SpoolHandle {
    shared: Arc<Shared>,
}

struct Shared {
    inbox: Arc<Inbox>,
    options: Options,
    reader: Arc<dyn ReadPages>,
    /// Octets that may still be queued, in KiB.
    room: Arc<Semaphore>,
    room_max: u32,
    /// Reads that may still be begun.
    reads: Arc<Semaphore>,
    /// For the process after a killed one.
    hints: Option<Hints>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// A transaction that is durable: the messages as they were given, and their receipts in the same order.
#[derive(Debug, Default)]
pub struct Appended {
    /// As given to [`SpoolHandle::append`], group after group.
    pub sealed: Vec<Sealed>,
    /// One a message.
    pub durable: Vec<Durable>,
}

/// Opens the spool in `dir` and starts its writer thread: it takes mail at once. What it holds comes back through
/// [`Recovering`], read by a thread of its own.
///
/// # Errors
/// One line for the operator: in use, not usable, or written by a newer version.
pub fn open(dir: &Path, options: Options) -> Result<(SpoolHandle, Recovering), StoreError> {
    let disk = FileDisk::open(dir)?;
    let random = Path::new(RANDOM_SOURCE);
    let nonces = nonces(random).map_err(StoreError::io(random, "read random octets"))?;
    let mut settings = options.settings;
    if options.fit_disk {
        let room = free(dir).map_err(StoreError::io(dir, "ask for the size of the file system"))?;
        settings = Settings { queue_of: settings.queue_of, ..Settings::for_disk(room.octets_total) };
    }
    let (log, old) = SegmentLog::begin(disk, settings, nonces)?;
    // Only now: a spool that is refused stays untouched.
    let (hints, marks) = Hints::open(dir).map_err(StoreError::io(dir, "open the file of recent deliveries"))?;
    let (return_home, recovering, inbox) = recovering::channel(marks);
    let read_old = {
        let inbox = Arc::clone(&inbox);
        move || inbox.recovered(old.run())
    };
    let thread = |e| StoreError::io(dir, "start a thread")(e);
    std::thread::Builder::new().name("spool-recovery".to_owned()).spawn(read_old).map_err(thread)?;
    let handle = run(log, inbox, Some(return_home), Some(hints), options).map_err(thread)?;
    Ok((handle, recovering))
}

/// Starts a writer thread over an open log, all of whose messages its caller knows.
///
/// # Errors
/// When the operating system gives no thread.
pub fn start<D: Disk + Send + 'static>(log: SegmentLog<D>, options: Options) -> io::Result<SpoolHandle> {
    run(log, Arc::new(Inbox::new()), None, None, options)
}

fn run<D: Disk + Send + 'static>(
    log: SegmentLog<D>,
    inbox: Arc<Inbox>,
    return_home: Option<ReturnHome>,
    hints: Option<Hints>,
    options: Options,
) -> io::Result<SpoolHandle> {
    let reader = log.reader();
    let writer = Writer::new(log, Arc::clone(&inbox), return_home, options);
    let thread = std::thread::Builder::new().name("spool-writer".to_owned()).spawn(move || writer.run())?;
    let room_max = u32::try_from(options.queued_octets_max / UNIT_OCTETS).unwrap_or(u32::MAX).max(1);
    let shared = Shared {
        inbox,
        options,
        reader,
        room: Arc::new(Semaphore::new(room_max as usize)),
        room_max,
        reads: Arc::new(Semaphore::new(options.reads_max.max(1))),
        hints,
        thread: Mutex::new(Some(thread)),
    };
    Ok(SpoolHandle { shared: Arc::new(shared) })
}

impl SpoolHandle {
    /// Makes the groups of one transaction durable together, all or none; the messages of a group share one body.
    /// Waits while too much is queued, then for the covering sync.
    ///
    /// Await it to its end: when it is dropped while the commit runs, the messages are removed
    /// again, because nobody would own them.
    ///
    /// # Errors
    /// Nothing is acknowledged: 452 when [`SpoolError::is_full`], else 451.
    pub async fn append(&self, groups: Vec<Vec<Sealed>>) -> Result<Appended, SpoolError> {
        let shared = &self.shared;
        let mut octets = 0;
        for group in &groups {
            octets += check_transaction(group)? as usize;
        }
        let units = u32::try_from(octets / UNIT_OCTETS + 1).unwrap_or(u32::MAX).min(shared.room_max);
        let permit = Arc::clone(&shared.room).acquire_many_owned(units).await.map_err(|_| SpoolError::Closed)?;
        let (reply, answer) = oneshot::channel();
        shared.inbox.append(Append { groups, octets, reply, permit }, &shared.options)?;
        let (groups, durable) = answer.await.map_err(|_| SpoolError::Closed)??;
        Ok(Appended { sealed: groups.into_iter().flatten().collect(), durable })
    }

    /// Notes a change of a durable message. Never waits; known to the next process when this one is killed, durable with
    /// the next commit, at the latest after the mark interval.
    pub fn mark(&self, mark: Mark) {
        if let Some(hints) = &self.shared.hints {
            hints.note(&mark);
        }
        self.shared.inbox.mark(mark);
    }

    /// Tells the spool that a message it gave out does not read: what holds it is set aside in `corrupt/`, nothing is deleted.
    pub fn set_aside(&self, id: MessageId) {
        self.shared.inbox.set_aside(id);
    }

    /// Returns once all marks so far are durable.
    ///
    /// # Errors
    /// They are not yet; they stay queued and are tried again.
    pub async fn flush(&self) -> Result<(), SpoolError> {
        let (reply, answer) = oneshot::channel();
        self.shared.inbox.flush(reply)?;
        answer.await.map_err(|_| SpoolError::Closed)?
    }

    /// A live message's envelope, metadata and content, checked. `place` may be one it has moved from.
    ///
    /// # Errors
    /// `NoSuchMessage` when it was removed, `Damaged` when it does not read, `Io`.
    pub async fn load(&self, id: MessageId, place: Place) -> Result<Resident, SpoolError> {
        let shared = &self.shared;
        let _permit = shared.reads.acquire().await.map_err(|_| SpoolError::Closed)?;
        let mut place = place;
        for _ in 0..MOVES_FOLLOWED_MAX {
            let reader = Arc::clone(&shared.reader);
            let read = tokio::task::spawn_blocking(move || read_message(&*reader, id, place)).await;
            match read.map_err(|_| SpoolError::Closed)? {
                Err(SpoolError::NoSuchMessage { .. }) => {}
                other => return other,
            }
            let (reply, answer) = oneshot::channel();
            shared.inbox.locate((id, reply))?;
            match answer.await.map_err(|_| SpoolError::Closed)? {
                None => return Err(SpoolError::NoSuchMessage { id }),
                Some(now) if now == place => break,
                Some(now) => place = now,
            }
        }
        Err(SpoolError::Damaged { id, place })
    }

    /// Refuses new appends, writes and syncs what is queued, ends the writer thread. May be
    /// called more than once.
    ///
    /// # Errors
    /// `Closed` when the writer thread did not end well.
    pub async fn close(&self) -> Result<(), SpoolError> {
        self.shared.inbox.close();
        let thread = self.shared.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return Ok(()) };
        let joined = tokio::task::spawn_blocking(move || thread.join()).await;
        joined.ok().and_then(Result::ok).ok_or(SpoolError::Closed)
    }

    /// Why the spool takes nothing now, until a segment can be opened again; `None` while it does.
    pub fn stopped(&self) -> Option<SpoolError> {
        self.shared.inbox.stopped()
    }

    /// The figures after the newest commit, and what is queued now.
    pub fn stats(&self) -> Stats {
        let hints_failed = self.shared.hints.as_ref().map_or(0, Hints::failed);
        Stats { hints_failed, ..self.shared.inbox.stats() }
    }
}

/// Random numbers for segments. If the source fails later, what it gave at the start serves:
/// still unknown to peers, and different for each use.
fn nonces(source: &Path) -> io::Result<NonceSource> {
    let mut file = File::open(source)?;
    let mut first = [0; 8];
    file.read_exact(&mut first)?;
    let mut fallback = u64::from_le_bytes(first);
    Ok(Box::new(move || {
        let mut octets = [0; 8];
        match file.read_exact(&mut octets) {
            Ok(()) => u64::from_le_bytes(octets),
            Err(_) => {
                fallback = fallback.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                fallback
            }
        }
    }))
}

/// Unguessable octets.
const RANDOM_SOURCE: &str = "/dev/urandom";
/// Octets of one permit.
const UNIT_OCTETS: usize = 1024;
/// How often a read follows a message that moves while it is being read.
const MOVES_FOLLOWED_MAX: usize = 4;
