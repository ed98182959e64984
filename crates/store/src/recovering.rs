//! What a restart brings back: the messages found in the spool, in chunks, while it is in use already.
//!
//! The writer hands over a chunk when the last one was taken, so that a large backlog never stands in memory twice.

use spool::{RecoveredMessage, Recovery, SpoolError};
use tokio::sync::{mpsc, oneshot};

/// The messages of earlier runs, on their way back.
#[derive(Debug)]
pub struct Recovering {
    chunks: mpsc::Receiver<Vec<RecoveredMessage>>,
    report: oneshot::Receiver<Result<Recovery, SpoolError>>,
}

impl Recovering {
    /// Some more messages; `None` once all were given out, or recovery failed ([`Recovering::report`] tells).
    pub async fn next(&mut self) -> Option<Vec<RecoveredMessage>> {
        self.chunks.recv().await
    }

    /// What recovery found, and whether it came to its end.
    ///
    /// # Errors
    /// Why it did not: the messages not given out are still in the spool, untouched.
    pub async fn report(self) -> Result<Recovery, SpoolError> {
        self.report.await.map_err(|_| SpoolError::Closed)?
    }

    /// Waits for all of it: every message, and the report.
    ///
    /// # Errors
    /// As [`Recovering::report`].
    pub async fn all(mut self) -> Result<(Vec<RecoveredMessage>, Recovery), SpoolError> {
        let mut messages = Vec::new();
        while let Some(chunk) = self.next().await {
            messages.extend(chunk);
        }
        Ok((messages, self.report().await?))
    }

    pub(crate) fn all_at_once(mut recovery: Recovery) -> Recovering {
        let (give, chunks) = mpsc::channel(1);
        let (tell, report) = oneshot::channel();
        // Both receivers are at hand: neither send can fail.
        let _ = give.try_send(std::mem::take(&mut recovery.messages));
        let _ = tell.send(Ok(recovery));
        Recovering { chunks, report }
    }
}
