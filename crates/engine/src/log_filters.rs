//! Policy decides record by record whether a logger keeps it (`filter_event` of `kumo.configure_local_logs`).
//!
//! In: a record with a copy of its message. Out: the record goes to its logger, or nowhere. As for hooks this happens behind, in
//! order, bounded by the logger's `back_pressure` and in octets ([`HeldRecords`]): beyond that new work waits, or records are
//! dropped, as the logger's `when_full` says. Policy that fails has the record dropped, and that said (KumoMTA behaviour). Records about no message, which are refusals, are not asked about.

use crate::egress::connection::Guarded;
use crate::egress::lent::draft_for;
use crate::engine::Engine;
use crate::held_records::HeldRecords;
use crate::recorders::Former;
use crate::requeue::ANSWER_MAX;
use crate::selection::Subject;
use config::WhenFull;
use record::LogRecord;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use telemetry::{LogWriter, Offered};
use tokio::time::timeout;

/// The loggers that ask, by the event they name.
#[derive(Clone, Default)]
pub(crate) struct LogFilters(Vec<Arc<Filter>>);

/// One of them.
pub(crate) struct Filter {
    event: String,
    log: LogWriter,
    waiting: HeldRecords,
    /// Records that were dropped since there was room.
    dropped: AtomicU64,
    /// Whom it asks once it leaves.
    pub former: Former,
}

impl Filter {
    /// That of a logger which names an event.
    fn of(log: &LogWriter) -> Option<Arc<Filter>> {
        let options = log.options();
        let event = options.filter_event.clone()?;
        let waiting = HeldRecords::new(options.back_pressure);
        Some(Arc::new(Filter { event, log: log.clone(), waiting, dropped: AtomicU64::new(0), former: Former::new() }))
    }

    /// Whether it is that logger's.
    pub fn is_of(&self, log: &LogWriter) -> bool {
        self.log.is(log)
    }

    /// Records that wait or are asked about.
    pub fn count(&self) -> usize {
        self.waiting.count()
    }

    /// Whether it drops what it has no room for.
    fn drops(&self) -> bool {
        self.log.options().when_full == WhenFull::Drop
    }

    /// A record is dropped: the first of several is said.
    fn note_dropped(&self) {
        if self.dropped.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::warn!("filter_event {}: too many records wait: those that come are dropped", self.event);
        }
    }

    /// Says how many were dropped, once there is room enough that the next are not.
    fn note_room(&self) {
        if self.dropped.load(Ordering::Relaxed) > 0 && self.waiting.is_half_empty() {
            let dropped = self.dropped.swap(0, Ordering::Relaxed);
            tracing::warn!("filter_event {}: there is room for records again; {dropped} were dropped", self.event);
        }
    }

    /// Nothing more will come.
    pub fn close(&self) {
        self.waiting.close();
    }
}

impl LogFilters {
    /// Those of these loggers: the ones there are, and others.
    pub fn next(&self, logs: &[LogWriter]) -> LogFilters {
        let there = |log: &LogWriter| self.0.iter().find(|filter| filter.is_of(log)).cloned();
        LogFilters(logs.iter().filter_map(|log| there(log).or_else(|| Filter::of(log))).collect())
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Filter>> {
        self.0.iter()
    }

    /// Whether it is one of them.
    pub fn has(&self, filter: &Arc<Filter>) -> bool {
        self.0.iter().any(|other| Arc::ptr_eq(other, filter))
    }

    /// True while new work is to wait for one of them.
    pub fn are_full(&self) -> bool {
        self.full().next().is_some()
    }

    /// The events of those.
    pub fn full(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|filter| !filter.drops() && filter.waiting.is_full()).map(|filter| filter.event.as_str())
    }

    /// The events of those that drop records, as they are full.
    pub fn dropping(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|filter| filter.dropped.load(Ordering::Relaxed) > 0).map(|filter| filter.event.as_str())
    }
}

impl Engine {
    /// Has a filter work off its records; behind the last of one that leaves, its logger ends.
    pub(crate) fn start_filter(&self, filter: Arc<Filter>) {
        let engine = self.clone();
        self.hook_tasks.spawn(async move {
            while Guarded(Box::pin(engine.sift(&filter))).await.is_none() {}
            if filter.former.get().is_some() {
                filter.log.retire();
            }
            engine.filter_is_gone(&filter);
        });
    }

    /// Says what was not asked about in time.
    pub(crate) fn say_unasked(&self) {
        for filter in self.all_filters().iter() {
            let (event, count, dropped) = (&filter.event, filter.count(), filter.dropped.load(Ordering::Relaxed));
            if count > 0 {
                tracing::error!("filter_event {event}: {count} records are lost");
            }
            if dropped > 0 {
                tracing::warn!("filter_event {event}: {dropped} records were dropped");
            }
        }
    }

    /// Hands a record to a logger, where policy is asked first once it says so.
    pub(crate) fn log_if_passed(
        &self,
        filters: &LogFilters,
        log: &LogWriter,
        record: &LogRecord,
        subject: Subject<'_>,
    ) {
        if log.options().filter_event.is_none() {
            return self.log_to(log, record);
        }
        let filter = filters.0.iter().find(|filter| filter.is_of(log));
        // What it is not asked about does not wait for it.
        let is_asked = subject.message.is_some_and(|message| message.resident.is_some());
        if let Some(filter) = filter.filter(|filter| is_asked && filter.drops() && filter.waiting.is_full()) {
            filter.note_dropped();
            // It may have become empty meanwhile, and nothing come behind it.
            filter.note_room();
            return self.count_offered(log, Offered::Dropped);
        }
        let draft = subject
            .message
            .and_then(|message| draft_for(message, &(0..usize::from(message.recipients)).collect::<Vec<_>>()));
        match (filter, draft) {
            (Some(filter), Some(draft)) => filter.waiting.push(record.clone(), draft),
            _ => self.log_to(log, record),
        }
    }

    fn log_to(&self, log: &LogWriter, record: &LogRecord) {
        self.count_offered(log, log.offer(record));
    }

    /// Counts records that find their logger full, or are too long for it.
    fn count_offered(&self, log: &LogWriter, offered: Offered) {
        let (dir, counts) = (&log.options().log_dir, &self.metrics.full_logs);
        match offered {
            Offered::Queued => {}
            Offered::Full => counts.dir(dir),
            Offered::TooLarge => counts.too_large(dir),
            Offered::Dropped => {
                counts.dir(dir);
                counts.dropped(dir);
            }
        }
    }

    async fn sift(&self, filter: &Filter) {
        while let Some((record, draft, in_hand)) = filter.waiting.take().await {
            let (event, kind, id) = (&filter.event, record.kind, draft.id);
            let answer = self.policy_of(&filter.former).filter_log_record(event.clone(), draft);
            match timeout(ANSWER_MAX, Guarded(Box::pin(answer))).await {
                Ok(Some(Ok(true))) => self.log_to(&filter.log, &record),
                Ok(Some(Ok(false)) | None) => {}
                Ok(Some(Err(error))) => tracing::error!("message {id}: its {kind} record is not logged: {error}"),
                Err(_) => {
                    tracing::error!("message {id}: its {kind} record is not logged: {event} took over {ANSWER_MAX:?}");
                }
            }
            drop(in_hand);
            filter.note_room();
        }
    }
}
