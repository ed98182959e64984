//! Queues of values between scripts, shared by all states by name (`kumo.mpsc`): many send, one receives.

use crate::stored::Stored;
use crate::turns::{Turn, Turns};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::watch;

/// All queues of a policy.
#[derive(Default)]
pub(crate) struct Channels(Mutex<HashMap<String, Arc<Channel>>>);

impl Channels {
    /// The queue of that name; the first call says how many values it holds.
    ///
    /// # Errors
    /// There are too many queues.
    pub fn define(&self, name: String, limit: Option<usize>) -> Result<Arc<Channel>, String> {
        let mut by_name = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(channel) = by_name.get(&name) {
            return Ok(channel.clone());
        }
        if by_name.len() >= CHANNELS_MAX {
            return Err(format!("name `{name}`: one queue too many: expected at most {CHANNELS_MAX}"));
        }
        let (sender, receiver) = channel(limit.unwrap_or(VALUES_MAX).clamp(1, VALUES_MAX));
        let receiver = Turns::new(receiver);
        let made = Arc::new(Channel { sender: RwLock::new(Some(sender)), receiver, closed: watch::Sender::new(false) });
        by_name.insert(name, made.clone());
        Ok(made)
    }
}

/// One queue.
pub(crate) struct Channel {
    /// `None` once it was closed.
    sender: RwLock<Option<Sender<Stored>>>,
    /// Tells those who wait for room.
    closed: watch::Sender<bool>,
    /// One receives at a time.
    receiver: Turns<Receiver<Stored>>,
}

impl Channel {
    /// Where values go in; `None` once it was closed.
    pub fn sender(&self) -> Option<Sender<Stored>> {
        self.sender.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Nothing goes in any more; what is in there comes out.
    pub fn close(&self) {
        self.sender.write().unwrap_or_else(PoisonError::into_inner).take();
        self.closed.send_replace(true);
    }

    /// Returns once it was closed.
    pub async fn closed(&self) {
        // An error would mean that the channel is gone, which is as closed as can be.
        let _ = self.closed.subscribe().wait_for(|closed| *closed).await;
    }

    /// Where values come out, for one at a time.
    ///
    /// # Errors
    /// Another one receives.
    pub fn turn(&self) -> Result<Turn<Receiver<Stored>>, &'static str> {
        self.receiver.take().ok_or("another one receives from this queue")
    }
}

/// Queues a policy may have.
const CHANNELS_MAX: usize = 1024;
/// Values a queue holds at most: one without a limit holds so many, since nothing here is without bound.
const VALUES_MAX: usize = 1_000_000;
