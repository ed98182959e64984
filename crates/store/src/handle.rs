//! The handle that sessions and deliveries hold: append, mark, read. One for both kinds of spool.

use crate::StoreError;
use crate::claim::Orphans;
use crate::coming::{Coming, announced};
use crate::hints::Hints;
use crate::kind::Kind;
use crate::linger::Linger;
use crate::local::{LocalOpened, LocalSpool};
use crate::log_spool::{LogOpened, LogSpool};
use crate::options::{Options, Stats};
use crate::recovering::Recovering;
use crate::sync_time::sync_time;
use message::{MessageId, Place, Resident, Sealed};
use spool::{Disk, Durable, Mark, Rewrite, SegmentLog, SpoolError};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A spool in use. Clones share it; [`SpoolHandle::close`] ends it for all.
#[derive(Clone)]
pub struct SpoolHandle {
    shared: Arc<Shared>,
}

struct Shared {
    engine: Engine,
    /// For the process after a killed one.
    hints: Option<Hints>,
    sync: Option<Duration>,
}

/// By kind.
enum Engine {
    Log(LogSpool),
    Files(LocalSpool),
}

/// A transaction that is durable: the messages as they were given, and their receipts in the same order.
#[derive(Debug, Default)]
pub struct Appended {
    /// As given to [`SpoolHandle::append`], group after group.
    pub sealed: Vec<Sealed>,
    /// One a message.
    pub durable: Vec<Durable>,
}

/// Opens the spool in `dir`, of the kind that the options name, and starts its threads: it takes mail at once. What it
/// holds comes back through [`Recovering`], read by threads of its own.
///
/// # Errors
/// One line for the operator: in use, of the other kind, not usable, or written by a newer version.
pub fn open(dir: &Path, options: Options) -> Result<(SpoolHandle, Recovering), StoreError> {
    // Only behind what may refuse: a spool that is refused stays untouched.
    let hints = || Hints::open(dir).map_err(StoreError::io(dir, "open the file of recent deliveries"));
    // A disk that cannot be timed is taken for a quick one; if it is not usable, somebody else will say so.
    let time = || options.fit_disk.then(|| sync_time(dir).ok()).flatten();
    let (engine, hints, recovering, sync) = match options.kind {
        Kind::Log => {
            let opened = LogOpened::new(dir, options)?;
            let (hints, recent) = hints()?;
            let sync = time();
            let opened = opened.with_linger(sync.map_or(options.linger, Linger::for_disk));
            let (spool, recovering) = opened.start(recent).map_err(StoreError::io(dir, "start a thread"))?;
            (Engine::Log(spool), hints, Recovering::of_log(recovering), sync)
        }
        Kind::Files => {
            let opened = LocalOpened::new(dir, options)?;
            let (hints, recent) = hints()?;
            let sync = time();
            let (spool, recovering) = opened.start(&recent, sync).map_err(StoreError::io(dir, "start a thread"))?;
            (Engine::Files(spool), hints, Recovering::of_files(recovering), sync)
        }
    };
    Ok((SpoolHandle { shared: Arc::new(Shared { engine, hints: Some(hints), sync }) }, recovering))
}

/// Starts a writer thread over an open log, all of whose messages its caller knows.
///
/// # Errors
/// When the operating system gives no thread.
pub fn start<D: Disk + Send + 'static>(log: SegmentLog<D>, options: Options) -> io::Result<SpoolHandle> {
    let engine = Engine::Log(LogSpool::over(log, options)?);
    Ok(SpoolHandle { shared: Arc::new(Shared { engine, hints: None, sync: None }) })
}

impl SpoolHandle {
    /// How long the disk needed at the opening for a small write and its sync, if it could be timed.
    #[must_use]
    pub fn sync_time(&self) -> Option<Duration> {
        self.shared.sync
    }

    /// Makes the groups of one transaction durable together, all or none; the messages of a group share one body.
    /// Waits while too much is queued, then for the covering sync.
    ///
    /// Await it to its end: when it is dropped on the way, the messages are removed again, because nobody would own them.
    ///
    /// # Errors
    /// Nothing is acknowledged: 452 when [`SpoolError::is_full`], else 451.
    pub async fn append(&self, groups: Vec<Vec<Sealed>>) -> Result<Appended, SpoolError> {
        self.append_coming(groups, Coming::default()).await
    }

    /// The same of a transaction that was made ready by [`SpoolHandle::announced`].
    ///
    /// # Errors
    /// As [`SpoolHandle::append`].
    pub async fn append_coming(&self, groups: Vec<Vec<Sealed>>, coming: Coming) -> Result<Appended, SpoolError> {
        self.append_with(groups, Orphans::TakenBack, coming).await
    }

    /// Runs what makes a transaction ready. While it computes, a commit waits for its append, for as long as it waits for any.
    pub async fn announced<F: Future>(&self, preparing: F) -> (F::Output, Coming) {
        let announce = || match &self.shared.engine {
            Engine::Log(spool) => spool.coming(),
            // There no append waits for another.
            Engine::Files(_) => Coming::default(),
        };
        announced(announce, preparing).await
    }

    /// The same of messages that were accepted before: what is written stays, and the next start delivers it, when this is dropped
    /// on the way.
    ///
    /// # Errors
    /// As [`SpoolHandle::append`].
    pub async fn append_accepted(&self, groups: Vec<Vec<Sealed>>) -> Result<Appended, SpoolError> {
        self.append_with(groups, Orphans::Kept, Coming::default()).await
    }

    async fn append_with(
        &self,
        groups: Vec<Vec<Sealed>>,
        orphans: Orphans,
        coming: Coming,
    ) -> Result<Appended, SpoolError> {
        match &self.shared.engine {
            Engine::Log(spool) => spool.append(groups, orphans, coming).await,
            Engine::Files(spool) => spool.append(groups, orphans).await,
        }
    }

    /// Writes a live message anew, durably: other metadata or content, the same id. Its new place. Marks made before count
    /// as before; none may be made until this returns. It runs to its end whether or not it is awaited.
    ///
    /// # Errors
    /// The message is as it was; after a crash it may be as it was to be. `NoSuchMessage` when it is not live.
    pub async fn rewrite(&self, rewrite: Rewrite) -> Result<Place, SpoolError> {
        match &self.shared.engine {
            Engine::Log(spool) => spool.rewrite(rewrite).await,
            Engine::Files(spool) => spool.rewrite(rewrite).await,
        }
    }

    /// Notes a change of a durable message. Never waits; known to the next process when this one is killed, durable at the
    /// latest after the mark interval.
    pub fn mark(&self, mark: Mark) {
        if let Some(hints) = &self.shared.hints {
            hints.note(&mark);
        }
        match &self.shared.engine {
            Engine::Log(spool) => spool.mark(mark),
            Engine::Files(spool) => spool.mark(mark),
        }
    }

    /// Tells the spool that a message it gave out does not read: what holds it is set aside in `corrupt/`, nothing is deleted.
    pub fn set_aside(&self, id: MessageId) {
        match &self.shared.engine {
            Engine::Log(spool) => spool.set_aside(id),
            Engine::Files(spool) => spool.set_aside(id),
        }
    }

    /// The same of a message that nobody needs any more: it is none, even if it can be read another time.
    pub fn give_up(&self, id: MessageId) {
        self.set_aside(id);
        match &self.shared.engine {
            // What holds it holds others too, and is kept with it.
            Engine::Log(_) => self.mark(Mark::Removed { id }),
            Engine::Files(_) => {}
        }
    }

    /// Returns once all marks so far are durable.
    ///
    /// # Errors
    /// They are not yet; they stay queued and are tried again.
    pub async fn flush(&self) -> Result<(), SpoolError> {
        match &self.shared.engine {
            Engine::Log(spool) => spool.flush().await,
            Engine::Files(spool) => spool.flush().await,
        }
    }

    /// A live message's envelope, metadata and content, checked. `place` may be one it has moved from.
    ///
    /// # Errors
    /// `NoSuchMessage` when it was removed, `Damaged` when it does not read, `Io` or `File` when the disk refuses.
    pub async fn load(&self, id: MessageId, place: Place) -> Result<Resident, SpoolError> {
        match &self.shared.engine {
            Engine::Log(spool) => spool.load(id, place).await,
            Engine::Files(spool) => spool.load(id).await,
        }
    }

    /// Refuses new appends, writes and syncs what is queued, ends the threads. May be called more than once.
    ///
    /// # Errors
    /// `Closed` when a thread did not end well.
    pub async fn close(&self) -> Result<(), SpoolError> {
        match &self.shared.engine {
            Engine::Log(spool) => spool.close().await,
            Engine::Files(spool) => spool.close().await,
        }
    }

    /// Why the spool takes nothing now; `None` while it does. It looks by itself whether the cause is gone.
    pub fn stopped(&self) -> Option<SpoolError> {
        match &self.shared.engine {
            Engine::Log(spool) => spool.stopped(),
            Engine::Files(spool) => spool.stopped(),
        }
    }

    /// The figures now. Those that only a log has are 0 in a spool of message files.
    pub fn stats(&self) -> Stats {
        let hints_failed = self.shared.hints.as_ref().map_or(0, Hints::failed);
        let stats = match &self.shared.engine {
            Engine::Log(spool) => spool.stats(),
            Engine::Files(spool) => spool.stats(),
        };
        Stats { hints_failed, ..stats }
    }
}
