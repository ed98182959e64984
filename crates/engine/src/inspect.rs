//! Single messages and queues for operators: where a message is, why it waits, what is in it.
//!
//! The queues are asked in steps, so that nobody waits long for their lock however many messages there are; content comes
//! from memory or the spool. What is asked about may move on meanwhile: each answer was true when its message was met.

use crate::engine::Engine;
use bytes::Bytes;
use message::{Message, MessageId, Place, Resident};
use queue::{Binding, EndOf, Listed, ScheduledView, Sharers, Wait};
use spool::SpoolError;
use std::sync::Arc;

/// A message as an operator sees it.
#[derive(Debug)]
pub struct Inspected {
    /// Identity, attempts, due time; without content.
    pub message: Message,
    /// Its scheduled queue.
    pub queue: Arc<str>,
    /// Where it is.
    pub state: State,
    /// When it ends, whatever becomes of it.
    pub end: Option<EndOf>,
    /// Envelope, metadata and content, unless it ended since.
    pub content: Option<Resident>,
}

/// Where a message is.
#[derive(Clone, Debug)]
pub enum State {
    /// In the queues, waiting for something.
    Queued(queue::Place, Wait),
    /// With a connection that delivers it, or with a task that reads it, asks policy about it, moves or settles it.
    InDelivery,
}

impl Engine {
    /// One message; `None` when nobody has it.
    ///
    /// # Errors
    /// The spool's, when it cannot be read.
    pub async fn inspect_message(&self, id: MessageId) -> Result<Option<Inspected>, SpoolError> {
        match self.look_for(id).await? {
            // It may have passed from hand to hand, for a moment in none.
            None => self.look_for(id).await,
            found => Ok(found),
        }
    }

    async fn look_for(&self, id: MessageId) -> Result<Option<Inspected>, SpoolError> {
        // One that is put back behind the walk's place was in hand before.
        let before = self.found_in_hand(id);
        let mut step = before.is_none().then_some(0);
        while let Some(from) = step {
            let (found, next) = self.with_queue(|queue, now| queue.find(now, id, from));
            if let Some(found) = found {
                return self.inspected(found).await.map(Some);
            }
            step = next;
        }
        match before.or_else(|| self.found_in_hand(id)) {
            None => Ok(None),
            Some(found) => self.with_content(found).await.map(Some),
        }
    }

    /// Messages of a scheduled queue, at most `limit`: due, ready and held ones, then those that wait for their time; and
    /// whether there are more. `None` when there is no such queue. They have their texts where these are wanted; then those of
    /// [`TEXTS_MAX`] octets are all there are.
    ///
    /// # Errors
    /// The spool's, when it cannot be read.
    pub async fn inspect_queue(
        &self,
        name: &str,
        limit: usize,
        want_texts: bool,
    ) -> Result<Option<(Vec<Inspected>, bool)>, SpoolError> {
        let sought = limit + 1;
        let Some(mut listed) = self.with_queue(|queue, now| queue.list(now, name, sought)) else { return Ok(None) };
        let mut step = Some(0);
        while let Some(from) = step.filter(|_| listed.len() < sought) {
            let rest = sought - listed.len();
            let (found, next) = self.with_queue(|queue, _| queue.list_waiting(name, rest, from));
            listed.extend(found);
            step = next;
        }
        let is_cut = listed.len() > limit;
        let mut left = listed.len();
        let (mut inspected, mut octets) = (Vec::with_capacity(listed.len()), 0);
        for found in listed.into_iter().take(limit) {
            let mut one = self.in_list(found).await?;
            for content in one.content.iter_mut().filter(|_| !want_texts) {
                (content.head, content.body) = (Bytes::new(), Bytes::new().into());
            }
            octets += one.content.as_ref().map_or(0, |content| content.head.len() + content.body.len());
            inspected.push(one);
            left -= 1;
            if octets > TEXTS_MAX {
                return Ok(Some((inspected, left > 0)));
            }
        }
        Ok(Some((inspected, is_cut)))
    }

    /// A scheduled queue; `None` when there is none of that name.
    pub fn scheduled_view(&self, name: &str) -> Option<ScheduledView> {
        self.with_queue(|queue, now| queue.scheduled_view(now, name))
    }

    /// Who uses a limit too. Looks at every ready queue, some thousand at a visit, and one asks at a time: to be asked once a limit.
    pub async fn sharers(&self, of: &Binding) -> Sharers {
        if of.name.is_none() {
            return Sharers::default();
        }
        // Never closed.
        let _one_at_a_time = self.surveying.acquire().await.ok();
        let keys = self.with_queue(|queue, _| queue.ready_keys());
        Sharers::of(self.in_visits(&keys, |queue, _, _, key| queue.sharer(of, key)).await)
    }

    /// Whether there is a scheduled queue of that name.
    pub fn has_queue(&self, name: &str) -> bool {
        self.with_queue(|queue, _| queue.has_queue(name))
    }

    pub(crate) async fn inspected(&self, found: Listed) -> Result<Inspected, SpoolError> {
        self.with_content(Inspected::from(found)).await
    }

    pub(crate) async fn with_content(&self, found: Inspected) -> Result<Inspected, SpoolError> {
        let content = self.content_of(&found.message).await?;
        Ok(Inspected { content, ..found })
    }

    /// One of several: that it does not read, which the log tells once its turn comes, hides none of the others.
    pub(crate) async fn in_list(&self, found: Listed) -> Result<Inspected, SpoolError> {
        let found = Inspected::from(found);
        let content = match self.content_of(&found.message).await {
            Err(SpoolError::Damaged { .. }) => None,
            other => other?,
        };
        Ok(Inspected { content, ..found })
    }

    async fn content_of(&self, message: &Message) -> Result<Option<Resident>, SpoolError> {
        match self.spool.load(message.id, message.place.unwrap_or(NOWHERE)).await {
            Ok(resident) => Ok(Some(resident)),
            // It ended since, or is in memory only.
            Err(SpoolError::NoSuchMessage { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn found_in_hand(&self, id: MessageId) -> Option<Inspected> {
        let with_connection = self.connections().values().find_map(|held| held.in_hand.find(id));
        let (message, key) = with_connection.or_else(|| self.underway.find(id))?;
        let (queue, end) = self.with_queue(|queue, _| (queue.queue_name(key), queue.end_in(key, &message)));
        Some(Inspected { message, queue, state: State::InDelivery, end, content: None })
    }
}

impl From<Listed> for Inspected {
    /// Without content.
    fn from(found: Listed) -> Inspected {
        let Listed { message, queue, place, wait, end } = found;
        Inspected { message, queue, state: State::Queued(place, wait), end, content: None }
    }
}

/// Octets of texts that are shown at once; the last of them may be longer.
pub const TEXTS_MAX: usize = 64 << 20;
/// No place: the spool looks the message up by its id.
const NOWHERE: Place = Place { segment: 0, offset: 0, index: 0 };
