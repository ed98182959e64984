//! The thread that tidies up: what is left of refused transactions, and messages that do not read.
//!
//! While something is left of a refused transaction, no mail is accepted: so what waits here is bounded by the appends
//! that were on their way. After a refused append it also finds out whether any message can be written: while none can, as on
//! a full disk, no mail is accepted. What fails is tried again.

use super::core::Core;
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
    /// Find out whether a message can be written; appends are refused while none can.
    Probe,
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
    probe: bool,
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
            Ok(Chore::Probe) => left.probe = true,
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
            result = result.clone().and(undone.clone());
            if undone.is_ok() {
                core.undone();
            }
            undone.is_err()
        });
        if self.probe {
            let probed = core.probe();
            self.probe = probed.is_err();
            result = result.and(probed);
        }
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
