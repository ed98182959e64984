//! The log on real files: the writer thread, and what its callers hold.
//!
//! Owns the thread that writes to the log, the room of what may be queued, and how many reads run at once. In: transactions
//! and marks; out: receipts after the covering sync, and the messages of earlier runs. A read follows a message that moves.

use crate::claim::{Orphans, claim};
use crate::coming::Coming;
use crate::free::free;
use crate::handle::Appended;
use crate::inbox::{Append, Inbox, Rewriting};
use crate::linger::Linger;
use crate::options::{Options, Stats};
use crate::patient::Patient;
use crate::reads::Reads;
use crate::return_home::{self, LogRecovering, ReturnHome};
use crate::writer::Writer;
use crate::{FileDisk, StoreError};
use message::{MessageId, Place, Resident, Sealed};
use spool::{
    Disk, Durable, Mark, NonceSource, ReadPages, Rewrite, SegmentLog, Settings, SpoolError, check_transaction,
    read_message,
};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::slice;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// A log in use.
pub(crate) struct LogSpool {
    inbox: Arc<Inbox>,
    options: Options,
    reader: Arc<dyn ReadPages>,
    /// Octets that may still be queued, in KiB.
    room: Arc<Semaphore>,
    room_max: u32,
    /// Reads that may still be begun.
    reads: Reads,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// A log that is locked and understood; no thread runs yet.
pub(crate) struct LogOpened {
    log: SegmentLog<FileDisk>,
    old: spool::Recovering,
    options: Options,
}

impl LogOpened {
    /// The log in `dir`, made if need be.
    pub fn new(dir: &Path, options: Options) -> Result<LogOpened, StoreError> {
        let disk = FileDisk::open(dir)?;
        let random = Path::new(RANDOM_SOURCE);
        let nonces = nonces(random).map_err(StoreError::io(random, "read random octets"))?;
        let mut settings = options.settings;
        if options.fit_disk {
            let room = free(dir).map_err(StoreError::io(dir, "ask for the size of the file system"))?;
            settings = Settings { queue_of: settings.queue_of, ..Settings::for_disk(room.octets_total) };
        }
        let (log, old) = SegmentLog::begin(disk, settings, nonces)?;
        let old = old.reading_through(|reader| Arc::new(Patient::new(reader)));
        Ok(LogOpened { log, old, options })
    }

    /// With such waits of commits for each other.
    pub fn with_linger(self, linger: Linger) -> LogOpened {
        LogOpened { options: Options { linger, ..self.options }, ..self }
    }

    /// Starts the threads. `recent` are deliveries that a killed process had finished: they are made durable before
    /// messages are handed out.
    pub fn start(self, recent: Vec<Mark>) -> io::Result<(LogSpool, LogRecovering)> {
        let LogOpened { log, old, options } = self;
        let (return_home, recovering, inbox) = return_home::channel(recent);
        let read_old = {
            let inbox = Arc::clone(&inbox);
            move || inbox.recovered(old.run())
        };
        thread::Builder::new().name("spool-recovery".to_owned()).spawn(read_old)?;
        Ok((LogSpool::run(log, inbox, Some(return_home), options)?, recovering))
    }
}

impl LogSpool {
    /// Over an open log, all of whose messages its caller knows.
    pub fn over<D: Disk + Send + 'static>(log: SegmentLog<D>, options: Options) -> io::Result<LogSpool> {
        LogSpool::run(log, Arc::new(Inbox::new()), None, options)
    }

    fn run<D: Disk + Send + 'static>(
        log: SegmentLog<D>,
        inbox: Arc<Inbox>,
        return_home: Option<ReturnHome>,
        options: Options,
    ) -> io::Result<LogSpool> {
        let reader = log.reader();
        let writer = Writer::new(log, Arc::clone(&inbox), return_home, options);
        let thread = thread::Builder::new().name("spool-writer".to_owned()).spawn(move || writer.run())?;
        let room_max = u32::try_from(options.queued_octets_max / UNIT_OCTETS).unwrap_or(u32::MAX).max(1);
        Ok(LogSpool {
            inbox,
            options,
            reader,
            room: Arc::new(Semaphore::new(room_max as usize)),
            room_max,
            reads: Reads::new(options.reads_max),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// See [`SpoolHandle::append`](crate::SpoolHandle::append).
    pub async fn append(
        &self,
        groups: Vec<Vec<Sealed>>,
        orphans: Orphans,
        coming: Coming,
    ) -> Result<Appended, SpoolError> {
        let mut octets = 0;
        for group in &groups {
            octets += check_transaction(group)? as usize;
        }
        let (permit, coming) = match self.room_now(octets) {
            Some(permit) => (permit, coming.here(&self.inbox)),
            None => {
                // Room comes with a commit, which is not to wait for who waits for it.
                drop(coming);
                (self.room_for(octets).await?, Coming::default())
            }
        };
        let (reply, answer) = oneshot::channel();
        self.inbox.append(Append { groups, octets, reply, orphans, coming, permit }, &self.options)?;
        let take_back = |(_, durable): (_, Vec<Durable>)| {
            durable.iter().for_each(|durable| self.mark(Mark::Removed { id: durable.id() }));
        };
        let (groups, durable) = claim(answer, orphans, take_back).await?;
        Ok(Appended { sealed: groups.into_iter().flatten().collect(), durable })
    }

    /// See [`SpoolHandle::announced`](crate::SpoolHandle::announced).
    pub fn coming(&self) -> Coming {
        Coming::to(&self.inbox)
    }

    /// See [`SpoolHandle::rewrite`](crate::SpoolHandle::rewrite).
    pub async fn rewrite(&self, rewrite: Rewrite) -> Result<Place, SpoolError> {
        let permit = self.room_for(check_transaction(slice::from_ref(&rewrite.sealed))? as usize).await?;
        let (reply, answer) = oneshot::channel();
        self.inbox.rewrite(Rewriting { rewrite, reply, permit })?;
        answer.await.map_err(|_| SpoolError::Closed)?
    }

    /// Room for so many octets, unless others must be committed first.
    fn room_now(&self, octets: usize) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.room).try_acquire_many_owned(self.units(octets)).ok()
    }

    /// What so many octets take of the room.
    fn units(&self, octets: usize) -> u32 {
        u32::try_from(octets / UNIT_OCTETS + 1).unwrap_or(u32::MAX).min(self.room_max)
    }

    /// Waits until so many octets may be queued.
    async fn room_for(&self, octets: usize) -> Result<OwnedSemaphorePermit, SpoolError> {
        Arc::clone(&self.room).acquire_many_owned(self.units(octets)).await.map_err(|_| SpoolError::Closed)
    }

    /// See [`SpoolHandle::mark`](crate::SpoolHandle::mark).
    pub fn mark(&self, mark: Mark) {
        self.inbox.mark(mark);
    }

    /// See [`SpoolHandle::set_aside`](crate::SpoolHandle::set_aside).
    pub fn set_aside(&self, id: MessageId) {
        self.inbox.set_aside(id);
    }

    /// See [`SpoolHandle::flush`](crate::SpoolHandle::flush).
    pub async fn flush(&self) -> Result<(), SpoolError> {
        let (reply, answer) = oneshot::channel();
        self.inbox.flush(reply)?;
        answer.await.map_err(|_| SpoolError::Closed)?
    }

    /// See [`SpoolHandle::load`](crate::SpoolHandle::load).
    pub async fn load(&self, id: MessageId, place: Place) -> Result<Resident, SpoolError> {
        let mut place = place;
        for round in 0..MOVES_FOLLOWED_MAX {
            let reader = Arc::clone(&self.reader);
            match self.reads.run(move || read_message(&*reader, id, place)).await {
                Err(SpoolError::NoSuchMessage { .. }) => {}
                // What was misread once may read now.
                Err(SpoolError::Damaged { .. }) if round == 0 => {}
                other => return other,
            }
            let (reply, answer) = oneshot::channel();
            self.inbox.locate((id, reply))?;
            match answer.await.map_err(|_| SpoolError::Closed)? {
                None => return Err(SpoolError::NoSuchMessage { id }),
                Some(now) if now == place && round > 0 => break,
                Some(now) => place = now,
            }
        }
        Err(SpoolError::Damaged { id, place })
    }

    /// See [`SpoolHandle::close`](crate::SpoolHandle::close).
    pub async fn close(&self) -> Result<(), SpoolError> {
        self.inbox.close();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return Ok(()) };
        let joined = tokio::task::spawn_blocking(move || thread.join()).await;
        joined.ok().and_then(Result::ok).ok_or(SpoolError::Closed)
    }

    /// Why the spool takes nothing now, until a segment can be opened again; `None` while it does.
    pub fn stopped(&self) -> Option<SpoolError> {
        self.inbox.stopped()
    }

    /// The figures after the newest commit, and what is queued now.
    pub fn stats(&self) -> Stats {
        self.inbox.stats()
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
