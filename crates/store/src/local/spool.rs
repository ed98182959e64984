//! A spool of one file per message in use: what its callers hold, and the start and end of its threads.

use super::core::{Core, locked};
use super::files::RealFiles;
use super::keeper::{self, Chore};
use super::marker::{MarkQueue, Marker};
use super::recovering::{Gate, LocalRecovering, THREADS};
use super::writers::{Append, AppendQueue, threads_for};
use crate::claim::{Orphans, claim};
use crate::file_disk::make_durably;
use crate::hints::Recent;
use crate::kind::{self, Kind};
use crate::lock::{SpoolLock, lock};
use crate::options::{Options, Stats};
use crate::reads::Reads;
use crate::{Appended, StoreError};
use message::{MessageId, Place, Resident, Sealed};
use spool::local::{Folder, MessageFiles, ReadFiles, Run};
use spool::{Mark, Rewrite, SpoolError, check_transaction};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};

/// A spool of one file per message in use.
pub(crate) struct LocalSpool {
    core: Arc<Core>,
    gate: Arc<Gate>,
    writers: Arc<AppendQueue>,
    /// Appends that may still be begun.
    appends: Arc<Semaphore>,
    /// Reads that may still be begun.
    reads: Reads,
    closing: AtomicBool,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// One that is locked and understood; no thread runs yet.
pub(crate) struct LocalOpened {
    engine: MessageFiles<RealFiles>,
    in_corrupt: u64,
    lock: SpoolLock,
    options: Options,
}

impl LocalOpened {
    /// The spool in `dir`, made if need be. What earlier runs had not finished is taken away.
    ///
    /// # Errors
    /// One line for the operator: in use, of the other kind, not usable, or written by a newer version.
    pub fn new(dir: &Path, options: Options) -> Result<LocalOpened, StoreError> {
        kind::check(dir, Kind::Files)?;
        make_durably(dir).map_err(StoreError::io(dir, "create the directory"))?;
        let lock = lock(dir)?;
        // Another process may have made it one of the other kind meanwhile.
        kind::check(dir, Kind::Files)?;
        kind::tell_of_others(dir);
        let files = RealFiles::open(dir)?;
        let random = Path::new(RANDOM_SOURCE);
        let run = random_run(random).map_err(StoreError::io(random, "read random octets"))?;
        let engine = MessageFiles::new(files, run, options.settings.queue_of);
        let mut in_corrupt = 0;
        let listed = engine.files().list(Folder::Corrupt, &mut |_| in_corrupt += 1);
        listed.map_err(StoreError::io(dir, "list corrupt/"))?;
        for mut undo in engine.unfinished()? {
            engine.undo(&mut undo)?;
        }
        Ok(LocalOpened { engine, in_corrupt, lock, options })
    }

    /// Starts the threads. `recent` are deliveries that a killed process had finished: they are not handed out again.
    /// `sync` is the time the disk needs for a write and its sync.
    pub fn start(self, recent: &[Mark], sync: Option<Duration>) -> io::Result<(LocalSpool, LocalRecovering)> {
        let LocalOpened { engine, in_corrupt, lock, options } = self;
        let (chores, told) = mpsc::channel();
        let core = Arc::new(Core::new(engine, Recent::new(recent), chores, in_corrupt, lock));
        let gate = Gate::new(THREADS);
        let writers: Arc<AppendQueue> = Arc::default();
        let mut threads = start(&core, &gate, told, &options)?;
        for _ in 0..threads_for(sync) {
            let (core, writers) = (Arc::clone(&core), Arc::clone(&writers));
            threads.push(named("spool-writer").spawn(move || writers.run(&core))?);
        }
        let spool = LocalSpool {
            core,
            gate: Arc::clone(&gate),
            writers,
            appends: Arc::new(Semaphore::new(APPENDS_MAX)),
            reads: Reads::new(options.reads_max),
            closing: AtomicBool::new(false),
            threads: Mutex::new(threads),
        };
        Ok((spool, LocalRecovering::new(gate)))
    }
}

impl LocalSpool {
    /// See [`SpoolHandle::append`](crate::SpoolHandle::append). Waits while too many are on their way.
    pub async fn append(&self, groups: Vec<Vec<Sealed>>, orphans: Orphans) -> Result<Appended, SpoolError> {
        for group in &groups {
            check_transaction(group)?;
        }
        let sealed: Vec<Sealed> = groups.into_iter().flatten().collect();
        if sealed.len() > MESSAGES_MAX {
            return Err(SpoolError::MessageCount { messages: sealed.len(), messages_max: MESSAGES_MAX });
        }
        let permit = Arc::clone(&self.appends).acquire_owned().await.map_err(|_| SpoolError::Closed)?;
        if self.closing.load(Ordering::Acquire) {
            return Err(SpoolError::Closed);
        }
        if let Some(error) = self.core.stopped() {
            return Err(error);
        }
        let (reply, answer) = oneshot::channel();
        self.writers.push(Append { sealed, reply, orphans, permit });
        claim(answer, orphans, |appended: Appended| self.core.take_back(&appended.durable)).await
    }

    /// See [`SpoolHandle::rewrite`](crate::SpoolHandle::rewrite). The thread that writes the message's marks does it.
    pub async fn rewrite(&self, rewrite: Rewrite) -> Result<Place, SpoolError> {
        check_transaction(slice::from_ref(&rewrite.sealed))?;
        if let Some(error) = self.core.stopped() {
            return Err(error);
        }
        let (reply, answer) = oneshot::channel();
        self.core.rewrite(rewrite, reply);
        answer.await.map_err(|_| SpoolError::Closed)?.map(|()| Place::OWN_FILE)
    }

    /// See [`SpoolHandle::mark`](crate::SpoolHandle::mark).
    pub fn mark(&self, mark: Mark) {
        self.core.mark(mark);
    }

    /// See [`SpoolHandle::set_aside`](crate::SpoolHandle::set_aside).
    pub fn set_aside(&self, id: MessageId) {
        self.core.tell(Chore::SetAside(id));
    }

    /// See [`SpoolHandle::flush`](crate::SpoolHandle::flush).
    pub async fn flush(&self) -> Result<(), SpoolError> {
        let ask = |marker: &Arc<MarkQueue>| {
            let (reply, answer) = oneshot::channel();
            marker.flush(reply);
            answer
        };
        let answers: Vec<_> = self.core.markers.iter().map(ask).collect();
        let mut result = Ok(());
        for answer in answers {
            result = result.and(answer.await.map_err(|_| SpoolError::Closed)?);
        }
        result
    }

    /// See [`SpoolHandle::load`](crate::SpoolHandle::load). A message has its place for its whole life.
    pub async fn load(&self, id: MessageId) -> Result<Resident, SpoolError> {
        let core = Arc::clone(&self.core);
        self.reads.run(move || core.engine.load(id)).await
    }

    /// See [`SpoolHandle::close`](crate::SpoolHandle::close). Waits for appends that are on their way; the directory is
    /// free afterwards.
    pub async fn close(&self) -> Result<(), SpoolError> {
        self.closing.store(true, Ordering::Release);
        if let Ok(all) = self.appends.acquire_many(APPENDS_MAX as u32).await {
            self.appends.close();
            drop(all);
        }
        self.writers.close();
        self.gate.stop();
        self.core.markers.iter().for_each(|marker| marker.close());
        self.core.tell(Chore::Close);
        let threads = std::mem::take(&mut *locked(&self.threads));
        let engine = Arc::clone(&self.core.engine);
        let joined = tokio::task::spawn_blocking(move || {
            let all_well = threads.into_iter().map(JoinHandle::join).all(|end| end.is_ok());
            engine.remove_all_spares();
            all_well
        });
        let all_well = joined.await.unwrap_or(false);
        self.core.unlock();
        if all_well { Ok(()) } else { Err(SpoolError::Closed) }
    }

    /// Why the spool takes nothing now; `None` while it does.
    pub fn stopped(&self) -> Option<SpoolError> {
        self.core.stopped()
    }

    /// The figures now.
    pub fn stats(&self) -> Stats {
        Stats { queued: APPENDS_MAX - self.appends.available_permits(), ..self.core.stats() }
    }
}

/// Starts the markers, the keeper and the threads of recovery.
fn start(
    core: &Arc<Core>,
    gate: &Arc<Gate>,
    told: mpsc::Receiver<Chore>,
    options: &Options,
) -> io::Result<Vec<JoinHandle<()>>> {
    let mut threads = Vec::new();
    let (interval, retry) = (options.mark_interval, options.retry_interval);
    for queue in &core.markers {
        let counters = Arc::clone(&core.counters.marks);
        let marker = Marker::new(Arc::clone(&core.engine), Arc::clone(queue), (interval, retry), counters);
        threads.push(named("spool-marker").spawn(move || marker.run())?);
    }
    let keeper = Arc::clone(core);
    threads.push(named("spool-keeper").spawn(move || keeper::run(&keeper, &told, retry))?);
    let (core, gate) = (Arc::clone(core), Arc::clone(gate));
    threads.push(named("spool-recovery").spawn(move || recover(&core, &gate))?);
    Ok(threads)
}

/// Reads all messages of earlier runs.
fn recover(core: &Core, gate: &Gate) {
    if let Err(error) = core.engine.sync_all() {
        tracing::warn!(%error, "what a killed process left may not be durable");
    }
    thread::scope(|scope| {
        let others = (1..THREADS).map(|_| named("spool-recovery").spawn_scoped(scope, || gate.read(core)));
        others.filter(Result::is_err).for_each(|_| gate.one_less());
        gate.read(core);
    });
}

fn named(name: &str) -> thread::Builder {
    thread::Builder::new().name(name.to_owned())
}

fn random_run(source: &Path) -> io::Result<Run> {
    let mut octets = [0; 8];
    File::open(source)?.read_exact(&mut octets)?;
    Ok(Run(u64::from_le_bytes(octets)))
}

/// Unguessable octets.
const RANDOM_SOURCE: &str = "/dev/urandom";
/// Appends on their way at once; further ones wait.
const APPENDS_MAX: usize = 256;
/// Messages of one transaction.
const MESSAGES_MAX: usize = 65_535;
