//! Policy looks at each message of earlier runs before it goes back to its queue: `spool_message_enumerated`.
//!
//! In: a message that the spool found. Out: the same with what policy did to metadata, content and due time, and the queue it
//! belongs to now. What changed is in the spool before it counts. A message that cannot be read, about which policy fails, or that
//! the spool does not take anew goes back as it was, and that is said. They are shown one after the other, so a slow handler delays
//! the return of those behind; new mail is served meanwhile. What another node has, or is to have, is not shown.

use crate::egress::connection::Guarded;
use crate::egress::lent::draft_of;
use crate::engine::Engine;
use crate::rebind::{Before, label_of};
use crate::requeue::{ANSWER_MAX, take_changes};
use message::{Message, Resident};
use queue::schedule::read_label;
use queue::{NULL_QUEUE, xfer};
use spool::Mark;
use std::sync::Arc;
use tokio::time::timeout;

impl Engine {
    /// Shows policy a message of an earlier run; the label of the queue it goes to, or `None` when policy discards it.
    pub(crate) async fn show_found(&self, message: &mut Message, label: Arc<str>) -> Option<Arc<str>> {
        let id = message.id;
        let Some(resident) = self.content_of_found(message).await else { return Some(label) };
        // What another node has, or may have, is not ours to change.
        if xfer::handed_over(&resident.meta).is_some() || xfer::target(&resident.meta).is_some() {
            return Some(label);
        }
        message.resident = Some(Box::new(resident));
        let asked = self.ask_about_found(message).await;
        message.release();
        match asked {
            Ok(new) if read_label(&new).queue == NULL_QUEUE => {
                self.spool.mark(Mark::Removed { id });
                None
            }
            Ok(new) => Some(new.into()),
            Err(why) => {
                tracing::error!("message {id} goes back to its queue as it was: {why}");
                Some(label)
            }
        }
    }

    async fn content_of_found(&self, message: &Message) -> Option<Resident> {
        let _room = self.pressure.room_to_load(u64::from(message.size)).await;
        match self.spool.load(message.id, message.place?).await {
            Ok(resident) if resident.envelope.recipients.len() == usize::from(message.recipients) => Some(resident),
            Ok(_) => {
                tracing::error!("message {} is not shown to policy: its recipients do not read", message.id);
                None
            }
            Err(error) => {
                tracing::error!("message {} is not shown to policy: {error}", message.id);
                None
            }
        }
    }

    async fn ask_about_found(&self, message: &mut Message) -> Result<String, String> {
        let gone = "its content is not in memory";
        let (draft, before) = (draft_of(message).ok_or(gone)?, Before::of(message).ok_or(gone)?);
        let answer = Guarded(Box::pin(self.policy.spool_message_enumerated(draft)));
        let changed = match timeout(ANSWER_MAX, answer).await {
            Ok(Some(Ok(draft))) => draft,
            Ok(Some(Err(error))) => return Err(error.to_string()),
            Ok(None) => return Err("policy panicked".to_owned()),
            Err(_) => return Err(format!("no answer within {ANSWER_MAX:?}")),
        };
        let due = changed.due;
        match self.keep_found(message, changed, &before).await {
            Ok(label) => {
                if due != message.due {
                    message.due = due;
                    self.spool.mark(Mark::Attempt { id: message.id, attempts: message.attempts, due });
                }
                Ok(label)
            }
            Err(why) => {
                before.put_back(message);
                Err(why)
            }
        }
    }

    /// Gives the message what policy made of it, in the spool too.
    async fn keep_found(
        &self,
        message: &mut Message,
        changed: message::Draft,
        before: &Before,
    ) -> Result<String, String> {
        take_changes(message, changed)?;
        let label = label_of(message)?;
        self.write_anew(message, before).await.map_err(|error| error.to_string())?;
        Ok(label)
    }
}
