//! What a restart brings back: the messages found in a spool of either kind, in chunks, while it is in use already.

use crate::local::LocalRecovering;
use crate::report::Report;
use crate::return_home::LogRecovering;
use spool::{RecoveredMessage, SpoolError};

/// The messages of earlier runs, on their way back.
#[derive(Debug)]
pub struct Recovering(Source);

/// By kind.
#[derive(Debug)]
enum Source {
    Log(LogRecovering),
    Files(LocalRecovering),
}

impl Recovering {
    pub(crate) fn of_log(recovering: LogRecovering) -> Recovering {
        Recovering(Source::Log(recovering))
    }

    pub(crate) fn of_files(recovering: LocalRecovering) -> Recovering {
        Recovering(Source::Files(recovering))
    }

    /// Some more messages; `None` once all were given out, or recovery failed ([`Recovering::report`] tells).
    pub async fn next(&mut self) -> Option<Vec<RecoveredMessage>> {
        match &mut self.0 {
            Source::Log(log) => log.next().await,
            Source::Files(files) => files.next().await,
        }
    }

    /// What recovery found, and whether it came to its end. To be asked after [`Recovering::next`] gave `None`.
    ///
    /// # Errors
    /// Why it did not: the messages not given out are still in the spool, untouched. `Closed` when the spool was closed before.
    pub async fn report(self) -> Result<Report, SpoolError> {
        match self.0 {
            Source::Log(log) => Ok(Report::from(&log.report().await?)),
            Source::Files(files) => Ok(Report::from(&files.report()?)),
        }
    }

    /// Waits for all of it: every message, and the report.
    ///
    /// # Errors
    /// As [`Recovering::report`].
    pub async fn all(mut self) -> Result<(Vec<RecoveredMessage>, Report), SpoolError> {
        let mut messages = Vec::new();
        while let Some(chunk) = self.next().await {
            messages.extend(chunk);
        }
        Ok((messages, self.report().await?))
    }
}
