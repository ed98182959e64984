//! Bringing a message's content back from the spool, and what happens when that fails.
//!
//! An attempt and a settlement need envelope, metadata and bytes; a waiting message has none of them in memory.
//! A message that does not read is the spool's affair from then on: it is set aside, counted and leaves its queue;
//! nothing is deleted and nothing is tried in circles. A disk that refuses leaves the message queued, uncounted, or with the
//! order that has it.

use crate::engine::Engine;
use crate::pressure::Room;
use message::{Place, Resident};
use queue::{Queued, Why};
use spool::SpoolError;

/// A message that could not be loaded.
#[derive(Debug)]
pub(crate) enum NotLoaded {
    /// It was set aside.
    Gone,
    /// The spool does not answer.
    Later(Queued),
}

impl Engine {
    /// The message with its content in memory; `None` when that cannot be had, and it is taken care of. Waits for room:
    /// not for whoever holds other content.
    pub(crate) async fn load(&self, queued: Queued) -> Option<Queued> {
        self.or_postpone(self.load_or_why(queued).await)
    }

    /// The same, but who does not come just now is the caller's.
    pub(crate) async fn load_or_why(&self, queued: Queued) -> Result<Queued, NotLoaded> {
        if queued.message.resident.is_some() {
            return Ok(queued);
        }
        let _seen = self.underway.hold(&queued);
        let room = self.pressure.room_to_load(octets_of(&queued)).await;
        self.load_into(room, queued).await
    }

    /// The same, but when `over` completes while room is waited for the message comes back.
    pub(crate) async fn load_unless(
        &self,
        over: impl Future<Output = ()>,
        queued: Queued,
    ) -> Result<Option<Queued>, Queued> {
        if queued.message.resident.is_some() {
            return Ok(Some(queued));
        }
        let _seen = self.underway.hold(&queued);
        // Only waiting is cut short: a message must not go down with whoever reads it.
        let room = tokio::select! {
            room = self.pressure.room_to_load(octets_of(&queued)) => room,
            () = over => return Err(queued),
        };
        Ok(self.or_postpone(self.load_into(room, queued).await))
    }

    /// The same without waiting for room; where there is none the message comes back.
    pub(crate) async fn load_now(&self, queued: Queued) -> Result<Option<Queued>, Queued> {
        if queued.message.resident.is_some() {
            return Ok(Some(queued));
        }
        let _seen = self.underway.hold(&queued);
        match self.pressure.room_to_load_now(octets_of(&queued)) {
            Some(room) => Ok(self.or_postpone(self.load_into(room, queued).await)),
            None => Err(queued),
        }
    }

    async fn load_into(&self, room: Room, mut queued: Queued) -> Result<Queued, NotLoaded> {
        let Some(place) = queued.message.place else {
            // The queue lets content go only when the spool has it.
            self.set_aside(&queued, &"it is nowhere");
            return Err(NotLoaded::Gone);
        };
        let read = self.read(&queued, place).await;
        drop(room);
        match read {
            Ok(resident) => {
                queued.message.resident = Some(Box::new(resident));
                Ok(queued)
            }
            Err(error @ (SpoolError::Damaged { .. } | SpoolError::NoSuchMessage { .. })) => {
                self.set_aside(&queued, &error);
                Err(NotLoaded::Gone)
            }
            Err(error) => {
                let (id, why) = (queued.message.id, Why::SpoolUnhealthy);
                tracing::warn!("message {id} is kept for later ({why}): {error}");
                Err(NotLoaded::Later(queued))
            }
        }
    }

    fn or_postpone(&self, loaded: Result<Queued, NotLoaded>) -> Option<Queued> {
        match loaded {
            Ok(queued) => Some(queued),
            Err(NotLoaded::Gone) => None,
            Err(NotLoaded::Later(queued)) => {
                self.with_queue(|q, now| q.postpone(now, queued));
                None
            }
        }
    }

    async fn read(&self, queued: &Queued, place: Place) -> Result<Resident, SpoolError> {
        let id = queued.message.id;
        let begun = self.clock.mono();
        let resident = self.spool.load(id, place).await?;
        let took = self.clock.mono().saturating_since(begun).as_secs_f64();
        // One read brings both.
        self.metrics.latencies.message_data_load.observe(took);
        self.metrics.latencies.message_meta_load.observe(took);
        // Recipient numbers must mean the same to queue and envelope.
        match resident.envelope.recipients.len() == usize::from(queued.message.recipients) {
            true => Ok(resident),
            false => Err(SpoolError::Damaged { id, place }),
        }
    }

    /// A message whose content cannot be read leaves its queue; the spool keeps the octets.
    fn set_aside(&self, queued: &Queued, why: &dyn std::fmt::Display) {
        let id = queued.message.id;
        let name = self.with_queue(|q, _| q.queue_name(queued.queue));
        let place = queued.message.place.map_or_else(|| "no place".to_owned(), |place| place.to_string());
        tracing::error!("message {id} of queue {name} does not read at {place} and is set aside: {why}");
        self.metrics.spool_set_aside.inc();
        self.spool.set_aside(id);
        self.with_queue(|q, now| q.forget(now.mono, queued));
    }
}

/// What a message takes while it is sent: content with dotted lines is copied to double its dots.
fn octets_of(queued: &Queued) -> u64 {
    u64::from(queued.message.size) * 2
}
