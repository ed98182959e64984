//! The thread that tidies up: what is left of refused transactions, and messages that do not read.
//!
//! While something is left of a refused transaction, no mail is accepted: so what waits here is bounded by the appends
//! that were on their way. What fails is tried again.

use super::spool::Core;
use message::MessageId;
use spool::SpoolError;
use spool::local::Undo;
use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// What it is told.
#[derive(Debug)]
pub(crate) enum Chore {
    /// Take away what is left of a transaction; appends are refused until it is.
    Undo(Undo),
    /// Move a message that does not read to `corrupt/`.
    SetAside(MessageId),
    /// Try everything once more, and end.
    Close,
}

/// What is still to be done.
#[derive(Debug, Default)]
struct Left {
    undos: Vec<Undo>,
    set_aside: BTreeSet<MessageId>,
}

/// Until closed, or nobody is left who could tell it anything.
pub(crate) fn run(core: &Core, chores: &Receiver<Chore>, retry_interval: Duration) {
    let mut left = Left::default();
    let mut retry_at = None;
    loop {
        let chore = match retry_at {
            None => chores.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(at) => chores.recv_timeout(Instant::saturating_duration_since(&at, Instant::now())),
        };
        let closing = matches!(chore, Ok(Chore::Close) | Err(RecvTimeoutError::Disconnected));
        match chore {
            Ok(Chore::Undo(undo)) => left.undos.push(undo),
            Ok(Chore::SetAside(id)) => _ = left.set_aside.insert(id),
            Ok(Chore::Close) | Err(_) => {}
        }
        let done = left.work(core);
        if closing {
            return;
        }
        retry_at = done.is_err().then(|| Instant::now() + retry_interval);
    }
}

impl Left {
    /// Tries all of it; what fails stays.
    fn work(&mut self, core: &Core) -> Result<(), SpoolError> {
        let mut result = Ok(());
        self.undos.retain_mut(|undo| {
            let undone = core.engine.undo(undo);
            core.undone(undone.is_ok());
            result = result.clone().and(undone.clone());
            undone.is_err()
        });
        self.set_aside.retain(|id| {
            let moved = core.engine.set_aside(*id);
            match &moved {
                Ok(()) => core.was_set_aside(*id),
                Err(error) => tracing::error!(%error, message = %id, "cannot be set aside: trying again"),
            }
            result = result.clone().and(moved.clone());
            moved.is_err()
        });
        result
    }
}
