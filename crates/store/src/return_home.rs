//! How a log's messages come back after a restart, in chunks, while it is in use already.
//!
//! A thread of its own reads the old segments; the writer takes over what it found, makes the deliveries that a killed
//! process had finished durable, and hands the messages over chunk by chunk. The next chunk is made when the last one was
//! taken, so that a large backlog never stands in memory twice.

use crate::hints::Recent;
use crate::inbox::Inbox;
use spool::{Disk, Mark, Recovered, RecoveredMessage, Recovery, SegmentLog, SpoolError};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// The messages of earlier runs, on their way back.
#[derive(Debug)]
pub(crate) struct LogRecovering {
    chunks: mpsc::Receiver<Vec<RecoveredMessage>>,
    report: oneshot::Receiver<Result<Recovery, SpoolError>>,
    inbox: Arc<Inbox>,
}

/// The writer's end of it.
#[derive(Debug)]
pub(crate) struct ReturnHome {
    chunks: mpsc::Sender<Vec<RecoveredMessage>>,
    tell: oneshot::Sender<Result<Recovery, SpoolError>>,
    /// Finished deliveries of a killed process.
    hints: Vec<Mark>,
    /// The same, by message: what is done is not handed out, even while the disk refuses the marks.
    recent: Recent,
    /// Known once the old segments are read.
    recovery: Option<Recovery>,
}

/// Both ends, and the inbox between them.
pub(crate) fn channel(hints: Vec<Mark>) -> (ReturnHome, LogRecovering, Arc<Inbox>) {
    let inbox = Arc::new(Inbox::new());
    let (give, chunks) = mpsc::channel(1);
    let (tell, report) = oneshot::channel();
    let recent = Recent::new(&hints);
    let home = ReturnHome { chunks: give, tell, hints, recent, recovery: None };
    (home, LogRecovering { chunks, report, inbox: Arc::clone(&inbox) }, inbox)
}

impl LogRecovering {
    /// Some more messages; `None` once all were given out, or recovery failed ([`LogRecovering::report`] tells).
    pub async fn next(&mut self) -> Option<Vec<RecoveredMessage>> {
        let chunk = self.chunks.recv().await;
        self.inbox.wake();
        chunk
    }

    /// What recovery found, and whether it came to its end. To be asked after [`LogRecovering::next`] gave `None`.
    ///
    /// # Errors
    /// Why it did not: the messages not given out are still in the spool, untouched.
    pub async fn report(self) -> Result<Recovery, SpoolError> {
        self.report.await.map_err(|_| SpoolError::Closed)?
    }
}

impl ReturnHome {
    /// The old segments are read: takes over what was in them. The marks must be committed; `None` when reading failed.
    pub fn arrived<D: Disk>(
        mut self,
        log: &mut SegmentLog<D>,
        recovered: Result<Recovered, SpoolError>,
    ) -> Option<(ReturnHome, Vec<Mark>)> {
        match recovered {
            Ok(recovered) => {
                self.recovery = Some(log.adopt(recovered));
                let marks = std::mem::take(&mut self.hints);
                Some((self, marks))
            }
            Err(error) => {
                tracing::error!(%error, "the mail of earlier runs cannot be read now; it is left as it is");
                // Nobody may be waiting for it any more.
                let _ = self.tell.send(Err(error));
                None
            }
        }
    }

    /// Whether a chunk can be handed over now.
    pub fn can_go_on(&self) -> bool {
        self.recovery.is_some() && self.chunks.capacity() > 0
    }

    /// Hands the next chunk over when there is one and the last one was taken; `None` after the last.
    pub fn hand_over<D: Disk>(self, log: &mut SegmentLog<D>) -> Option<ReturnHome> {
        if self.recovery.is_none() {
            return Some(self);
        }
        let Ok(permit) = self.chunks.try_reserve() else { return (!self.chunks.is_closed()).then_some(self) };
        let mut chunk = log.next_recovered(CHUNK_MESSAGES);
        if chunk.is_empty() {
            let ReturnHome { tell, recovery, .. } = self;
            let _ = tell.send(Ok(recovery.unwrap_or_default()));
            return None;
        }
        chunk.retain_mut(|message| !matches!(self.recent.news_of(message), Some(Mark::Removed { .. })));
        permit.send(chunk);
        Some(self)
    }
}

/// Messages handed over at once.
const CHUNK_MESSAGES: usize = 2048;
