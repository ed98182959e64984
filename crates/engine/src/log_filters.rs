//! Policy decides record by record whether a logger keeps it (`filter_event` of `kumo.configure_local_logs`).
//!
//! In: a record with a copy of its message. Out: the record goes to its logger, or nowhere. As for hooks this happens behind, in
//! order, bounded by the logger's `back_pressure` and by [`OCTETS_MAX`]. Policy that fails has the record dropped, and that said
//! (KumoMTA behaviour). Records about no message, which are refusals, are not asked about.

use crate::backlog::Backlog;
use crate::egress::connection::Guarded;
use crate::egress::lent::draft_for;
use crate::engine::Engine;
use crate::requeue::ANSWER_MAX;
use crate::selection::Subject;
use message::Draft;
use record::LogRecord;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use telemetry::LogWriter;
use tokio::time::timeout;

/// The loggers that ask, by the event they name.
#[derive(Default)]
pub(crate) struct LogFilters(Vec<Arc<Filter>>);

struct Filter {
    event: String,
    log: LogWriter,
    waiting: Backlog<(LogRecord, Draft)>,
    /// Of the messages that wait with their records.
    octets: AtomicU64,
}

impl LogFilters {
    /// Those of the loggers that name an event.
    pub fn of(logs: &[LogWriter]) -> LogFilters {
        let filter = |log: &LogWriter| {
            let options = log.options();
            let event = options.filter_event.clone()?;
            let waiting = Backlog::new(options.back_pressure);
            Some(Arc::new(Filter { event, log: log.clone(), waiting, octets: AtomicU64::new(0) }))
        };
        LogFilters(logs.iter().filter_map(filter).collect())
    }

    /// True while new work is to wait for one of them.
    pub fn are_full(&self) -> bool {
        self.0.iter().any(|f| f.waiting.is_full() || f.octets.load(Ordering::Relaxed) >= OCTETS_MAX)
    }
}

impl Engine {
    /// Has each filter work off its records.
    pub(crate) fn start_filters(&self) {
        for filter in &self.log_filters.0 {
            let (engine, filter) = (self.clone(), filter.clone());
            self.hook_tasks.spawn(async move { while Guarded(Box::pin(engine.sift(&filter))).await.is_none() {} });
        }
    }

    /// Says what was not asked about in time.
    pub(crate) fn say_unasked(&self) {
        for filter in self.log_filters.0.iter().filter(|filter| filter.waiting.len() > 0) {
            tracing::error!("filter_event {}: {} records are lost", filter.event, filter.waiting.len());
        }
    }

    /// Nothing more will come.
    pub(crate) fn close_filters(&self) {
        self.log_filters.0.iter().for_each(|filter| filter.waiting.close());
    }

    /// Hands a record to a logger, where policy is asked first once it says so.
    pub(crate) fn log_if_passed(&self, log: &LogWriter, record: &LogRecord, subject: Subject<'_>) {
        let Some(event) = &log.options().filter_event else { return log.log(record) };
        let filter = self.log_filters.0.iter().find(|f| f.event == *event && f.log.is(log));
        let draft = subject
            .message
            .and_then(|message| draft_for(message, &(0..usize::from(message.recipients)).collect::<Vec<_>>()));
        match (filter, draft) {
            (Some(filter), Some(mut draft)) => {
                filter.octets.fetch_add(draft.size() as u64, Ordering::Relaxed);
                filter.waiting.push((record.clone(), draft));
            }
            _ => log.log(record),
        }
    }

    async fn sift(&self, filter: &Filter) {
        loop {
            let taken = filter.waiting.take(1).await;
            let Some((record, mut draft)) = taken.into_iter().next() else { return };
            let _in_hand = filter.waiting.in_hand(1);
            filter.octets.fetch_sub(draft.size() as u64, Ordering::Relaxed);
            let (event, kind, id) = (&filter.event, record.kind, draft.id);
            let answer = self.policy.filter_log_record(event.clone(), draft);
            match timeout(ANSWER_MAX, Guarded(Box::pin(answer))).await {
                Ok(Some(Ok(true))) => filter.log.log(&record),
                Ok(Some(Ok(false)) | None) => {}
                Ok(Some(Err(error))) => tracing::error!("message {id}: its {kind} record is not logged: {error}"),
                Err(_) => {
                    tracing::error!("message {id}: its {kind} record is not logged: {event} took over {ANSWER_MAX:?}");
                }
            }
        }
    }
}

/// Content that may wait with its records, in octets; then no new work is begun.
const OCTETS_MAX: u64 = 64 << 20;
