//! The handle that sessions and deliveries hold, for a spool of one file per message.

use super::files::RealFiles;
use super::keeper::{self, Chore};
use super::marker::{MarkCounters, MarkQueue, Marker};
use super::recovering::{Gate, LocalRecovering, THREADS};
use crate::file_disk::make_durably;
use crate::kind::{self, Kind};
use crate::lock::{SpoolLock, lock};
use crate::options::{Options, Stats};
use crate::{Appended, StoreError};
use message::{MessageId, Place, Resident, Sealed};
use spool::local::{Files, Folder, MessageFiles, Run, Undo};
use spool::{Durable, LogStats, Mark, SpoolError, check_transaction};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use tokio::sync::{Semaphore, oneshot};

/// A spool of one file per message in use. Clones share it; [`LocalSpool::close`] ends it for all.
#[derive(Clone)]
pub struct LocalSpool {
    shared: Arc<Shared>,
}

struct Shared {
    core: Arc<Core>,
    markers: Vec<Arc<MarkQueue>>,
    gate: Arc<Gate>,
    /// Appends that may still be begun.
    appends: Arc<Semaphore>,
    /// Reads that may still be begun.
    reads: Arc<Semaphore>,
    closing: AtomicBool,
    threads: Mutex<Vec<JoinHandle<()>>>,
    lock: Mutex<Option<SpoolLock>>,
}

/// What the threads share.
pub(crate) struct Core {
    pub engine: Arc<MessageFiles<RealFiles>>,
    chores: mpsc::Sender<Chore>,
    /// Refused transactions of which something is left.
    undoing: AtomicUsize,
    /// Why appends are refused while there are any.
    stopped: Mutex<Option<SpoolError>>,
    counters: Counters,
}

#[derive(Default)]
struct Counters {
    recovered_messages: AtomicU64,
    appended_messages: AtomicU64,
    appended_octets: AtomicU64,
    failed_messages: AtomicU64,
    marks: Arc<MarkCounters>,
    /// Files in `corrupt/` at the start, and messages moved there since.
    set_aside: AtomicU64,
    /// Messages moved there at somebody's wish.
    given_up: AtomicU64,
    transactions: AtomicU64,
}

impl LocalSpool {
    /// Opens the spool of one file per message in `dir`, making it if need be. It takes mail at once; what it holds comes
    /// back through [`LocalRecovering`].
    ///
    /// # Errors
    /// One line for the operator: in use, of the other kind, not usable, or written by a newer version.
    pub fn open(dir: &Path, options: Options) -> Result<(LocalSpool, LocalRecovering), StoreError> {
        make_durably(dir).map_err(StoreError::io(dir, "create the directory"))?;
        let held = lock(dir)?;
        kind::check(dir, Kind::Files)?;
        let files = RealFiles::open(dir)?;
        let random = Path::new(RANDOM_SOURCE);
        let run = random_run(random).map_err(StoreError::io(random, "read random octets"))?;
        let engine = Arc::new(MessageFiles::new(files, run, options.settings.queue_of));
        let set_aside = names_in(&engine, Folder::Corrupt).map_err(StoreError::io(dir, "list corrupt/"))?;
        for mut undo in engine.unfinished()? {
            engine.undo(&mut undo)?;
        }
        let (chores, told) = mpsc::channel();
        let counters = Counters { set_aside: AtomicU64::new(set_aside), ..Counters::default() };
        let core = Arc::new(Core { engine, chores, undoing: AtomicUsize::new(0), stopped: Mutex::new(None), counters });
        let markers: Vec<Arc<MarkQueue>> = (0..MARKERS).map(|_| Arc::default()).collect();
        let gate = Gate::new(THREADS);
        let threads = start(&core, &markers, &gate, told, &options).map_err(StoreError::io(dir, "start a thread"))?;
        let shared = Shared {
            core,
            markers,
            gate: Arc::clone(&gate),
            appends: Arc::new(Semaphore::new(APPENDS_MAX)),
            reads: Arc::new(Semaphore::new(options.reads_max.max(1))),
            closing: AtomicBool::new(false),
            threads: Mutex::new(threads),
            lock: Mutex::new(Some(held)),
        };
        Ok((LocalSpool { shared: Arc::new(shared) }, LocalRecovering::new(gate)))
    }

    /// Makes the groups of one transaction durable together, all or none; the messages of a group share one body.
    /// Waits while too many are on their way, then for the covering syncs.
    ///
    /// Await it to its end: when it is dropped while the files are written, the messages are removed again, because nobody
    /// would own them.
    ///
    /// # Errors
    /// Nothing is acknowledged: 452 when [`SpoolError::is_full`], else 451.
    pub async fn append(&self, groups: Vec<Vec<Sealed>>) -> Result<Appended, SpoolError> {
        for group in &groups {
            check_transaction(group)?;
        }
        let sealed: Vec<Sealed> = groups.into_iter().flatten().collect();
        if sealed.len() > MESSAGES_MAX {
            return Err(SpoolError::MessageCount { messages: sealed.len(), messages_max: MESSAGES_MAX });
        }
        let shared = Arc::clone(&self.shared);
        let permit = Arc::clone(&shared.appends).acquire_owned().await.map_err(|_| SpoolError::Closed)?;
        shared.refusal()?;
        let (reply, answer) = oneshot::channel();
        tokio::task::spawn_blocking(move || {
            let appended = shared.core.append(sealed);
            // Before the reply: whoever gets it may close the spool and wait for all permits.
            drop(permit);
            if let Err(Ok(Appended { durable, .. })) = reply.send(appended) {
                // Whoever waited has gone and never said 250: nobody would own these.
                durable.iter().for_each(|durable| shared.mark(Mark::Removed { id: durable.id() }));
            }
        });
        answer.await.map_err(|_| SpoolError::Closed)?
    }

    /// Notes a change of a durable message. Never waits; durable at the latest after the mark interval, unless the disk is
    /// slower.
    pub fn mark(&self, mark: Mark) {
        self.shared.mark(mark);
    }

    /// Tells the spool that a message it gave out does not read: its file is moved to `corrupt/`, nothing is deleted.
    pub fn set_aside(&self, id: MessageId) {
        self.shared.core.tell(Chore::SetAside(id));
    }

    /// Returns once all marks so far are durable.
    ///
    /// # Errors
    /// They are not yet; they stay queued and are tried again.
    pub async fn flush(&self) -> Result<(), SpoolError> {
        let ask = |marker: &Arc<MarkQueue>| {
            let (reply, answer) = oneshot::channel();
            marker.flush(reply);
            answer
        };
        let answers: Vec<_> = self.shared.markers.iter().map(ask).collect();
        let mut result = Ok(());
        for answer in answers {
            result = result.and(answer.await.map_err(|_| SpoolError::Closed)?);
        }
        result
    }

    /// A live message's envelope, metadata and content, checked. Its place is [`Place::OWN_FILE`].
    ///
    /// # Errors
    /// `NoSuchMessage` when it was removed, `Damaged` when it does not read, `File` when the disk refuses.
    pub async fn load(&self, id: MessageId, _: Place) -> Result<Resident, SpoolError> {
        let shared = &self.shared;
        let _permit = shared.reads.acquire().await.map_err(|_| SpoolError::Closed)?;
        let core = Arc::clone(&shared.core);
        tokio::task::spawn_blocking(move || core.engine.load(id)).await.map_err(|_| SpoolError::Closed)?
    }

    /// Refuses new appends, waits for those on their way, writes and syncs the marks, ends the threads, gives the directory
    /// free. May be called more than once.
    ///
    /// # Errors
    /// `Closed` when a thread did not end well.
    pub async fn close(&self) -> Result<(), SpoolError> {
        let shared = &self.shared;
        shared.closing.store(true, Ordering::Release);
        if let Ok(all) = shared.appends.acquire_many(APPENDS_MAX as u32).await {
            shared.appends.close();
            drop(all);
        }
        shared.gate.stop();
        shared.markers.iter().for_each(|marker| marker.close());
        shared.core.tell(Chore::Close);
        let threads = std::mem::take(&mut *locked(&shared.threads));
        let joined =
            tokio::task::spawn_blocking(move || threads.into_iter().map(JoinHandle::join).all(|end| end.is_ok()));
        let all_well = joined.await.unwrap_or(false);
        locked(&shared.lock).take();
        if all_well { Ok(()) } else { Err(SpoolError::Closed) }
    }

    /// The figures now.
    pub fn stats(&self) -> Stats {
        let core = &self.shared.core;
        let counters = &core.counters;
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let live = get(&counters.recovered_messages) + get(&counters.appended_messages);
        let gone = get(&counters.marks.removed) + get(&counters.given_up);
        let log = LogStats {
            commits: get(&counters.transactions),
            syncs: core.engine.files().syncs(),
            set_aside: get(&counters.set_aside),
            // Several counters: between two of them something may happen.
            live_messages: live.saturating_sub(gone),
            ..LogStats::default()
        };
        Stats {
            log,
            appended_messages: get(&counters.appended_messages),
            appended_octets: get(&counters.appended_octets),
            failed_messages: get(&counters.failed_messages),
            marks: get(&counters.marks.marks),
            queued: APPENDS_MAX - self.shared.appends.available_permits(),
            stopped: locked(&core.stopped).is_some(),
            ..Stats::default()
        }
    }
}

impl Shared {
    /// Why no append may begin.
    fn refusal(&self) -> Result<(), SpoolError> {
        if self.closing.load(Ordering::Acquire) {
            return Err(SpoolError::Closed);
        }
        locked(&self.core.stopped).clone().map_or(Ok(()), Err)
    }

    fn mark(&self, mark: Mark) {
        let marker = match Folder::of(mark.id()) {
            Folder::Messages(number) => usize::from(number) % self.markers.len(),
            Folder::Intents | Folder::Corrupt => 0,
        };
        self.markers[marker].mark(mark);
    }
}

impl Core {
    /// Writes and commits; a blocking call.
    fn append(&self, sealed: Vec<Sealed>) -> Result<Appended, SpoolError> {
        let ids: Vec<MessageId> = sealed.iter().map(|sealed| sealed.id).collect();
        let written = self.write(&sealed).map_err(|error| (error, self.engine.give_up(ids.clone())));
        match written.and_then(|()| self.engine.commit(&ids)) {
            Ok(durable) => {
                self.count(&sealed, &durable);
                Ok(Appended { sealed, durable })
            }
            Err((error, undo)) => {
                tracing::error!(%error, messages = ids.len(), "an append is refused");
                self.counters.failed_messages.fetch_add(ids.len() as u64, Ordering::Relaxed);
                self.undo(undo, &error);
                Err(error)
            }
        }
    }

    /// Writes all messages of a transaction, several at the same time.
    fn write(&self, sealed: &[Sealed]) -> Result<(), SpoolError> {
        let writers = sealed.len().min(WRITERS_PER_TRANSACTION_MAX);
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(sealed) = sealed.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.engine.write(sealed)?;
            }
            Ok(())
        };
        thread::scope(|scope| {
            // When the system gives no thread, this one does it all.
            let others: Vec<_> =
                (1..writers).filter_map(|_| thread::Builder::new().spawn_scoped(scope, work).ok()).collect();
            let own = work();
            others.into_iter().fold(own, |result, other| result.and(other.join().unwrap_or(Err(SpoolError::Closed))))
        })
    }

    fn count(&self, sealed: &[Sealed], durable: &[Durable]) {
        let octets = sealed.iter().map(|s| (s.head.len() + s.body.len()) as u64).sum();
        let counters = &self.counters;
        counters.transactions.fetch_add(1, Ordering::Relaxed);
        counters.appended_messages.fetch_add(durable.len() as u64, Ordering::Relaxed);
        counters.appended_octets.fetch_add(octets, Ordering::Relaxed);
    }

    /// Takes away what is left of a refused transaction, now or, while mail is refused, later.
    fn undo(&self, mut undo: Undo, error: &SpoolError) {
        if self.engine.undo(&mut undo).is_ok() {
            return;
        }
        let mut stopped = locked(&self.stopped);
        self.undoing.fetch_add(1, Ordering::Relaxed);
        if stopped.is_none() {
            tracing::error!(%error, "what is left of a refused message cannot be removed: the spool takes no mail");
        }
        *stopped = Some(error.clone());
        drop(stopped);
        self.tell(Chore::Undo(undo));
    }

    /// The keeper tried to take away what was left of a transaction.
    pub fn undone(&self, well: bool) {
        if well {
            let mut stopped = locked(&self.stopped);
            if self.undoing.fetch_sub(1, Ordering::Relaxed) == 1 {
                *stopped = None;
                tracing::info!("the spool takes mail again");
            }
        }
    }

    /// A message was moved to `corrupt/`.
    pub fn was_set_aside(&self, id: MessageId) {
        tracing::error!(message = %id, "does not read: set aside in corrupt/");
        self.counters.set_aside.fetch_add(1, Ordering::Relaxed);
        self.counters.given_up.fetch_add(1, Ordering::Relaxed);
    }

    /// Recovery moved files to `corrupt/`.
    pub fn moved_aside(&self, files: u64) {
        self.counters.set_aside.fetch_add(files, Ordering::Relaxed);
    }

    /// Recovery found messages.
    pub fn found(&self, messages: usize) {
        self.counters.recovered_messages.fetch_add(messages as u64, Ordering::Relaxed);
    }

    fn tell(&self, chore: Chore) {
        // The keeper ends at the close only, after everything that could be told.
        let _ = self.chores.send(chore);
    }
}

/// Starts the markers, the keeper and the threads of recovery.
fn start(
    core: &Arc<Core>,
    markers: &[Arc<MarkQueue>],
    gate: &Arc<Gate>,
    told: mpsc::Receiver<Chore>,
    options: &Options,
) -> io::Result<Vec<JoinHandle<()>>> {
    let mut threads = Vec::new();
    let (interval, retry) = (options.mark_interval, options.retry_interval);
    for queue in markers {
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

fn names_in<F: Files>(engine: &MessageFiles<F>, folder: Folder) -> io::Result<u64> {
    let mut count = 0;
    engine.files().list(folder, &mut |_| count += 1)?;
    Ok(count)
}

fn random_run(source: &Path) -> io::Result<Run> {
    let mut octets = [0; 8];
    File::open(source)?.read_exact(&mut octets)?;
    Ok(Run(u64::from_le_bytes(octets)))
}

/// Each change under these locks is one step, so a panic elsewhere does not spoil them.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Unguessable octets.
const RANDOM_SOURCE: &str = "/dev/urandom";
/// Appends on their way at once; further ones wait.
const APPENDS_MAX: usize = 64;
/// Messages of one transaction.
const MESSAGES_MAX: usize = 65_535;
/// Messages of one transaction that are written at the same time.
const WRITERS_PER_TRANSACTION_MAX: usize = 8;
/// Threads that write marks.
const MARKERS: usize = 4;
