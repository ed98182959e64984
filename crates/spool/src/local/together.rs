//! Many messages, each a transaction of its own, that share the syncs of their directories.
//!
//! What fails of one message is that one's. A sync that fails is everybody's whose name it was to cover.

use super::engine::{MessageFiles, Undo, failed};
use super::files::Files;
use super::names::{Folder, LocalName};
use crate::{Durable, SpoolError, Step};
use message::{MessageId, Sealed};
use std::collections::BTreeMap;

impl<F: Files> MessageFiles<F> {
    /// Writes messages and makes each of them durable or not, in their order.
    ///
    /// # Errors
    /// Nobody is acknowledged for a message that has one, and what is left of it must be undone.
    pub fn append_each(&self, messages: &[Sealed]) -> Vec<Result<Durable, (SpoolError, Undo)>> {
        let written: Vec<_> = messages.iter().map(|message| self.put(message)).collect();
        let ids: Vec<MessageId> = messages.iter().map(|message| message.id).collect();
        let before = self.failures(&ids);
        let name = |(id, written): (&MessageId, Result<LocalName, SpoolError>)| match written {
            Ok(under) => self.name_message(under, *id).map_err(|error| {
                self.drop_unfinished(under);
                (error, Undo::of_named(*id))
            }),
            Err(error) => Err((error, self.give_up(vec![*id]))),
        };
        let named: Vec<_> = ids.iter().zip(written).map(name).collect();
        let sync = |(folder, failures)| (folder, self.sync_changed(&[(folder, failures)]));
        let synced: BTreeMap<Folder, Result<(), SpoolError>> = before.into_iter().map(sync).collect();
        let end = |(id, named): (MessageId, Result<(), _>)| {
            named?;
            synced[&Folder::of(id)].clone().map_err(|error| (error, Undo::of_named(id)))?;
            Ok(self.receipt(id))
        };
        ids.into_iter().zip(named).map(end).collect()
    }

    /// Gives a message that is written under a temporary name its own; durable after a sync of its directory.
    pub(super) fn name_message(&self, under: LocalName, id: MessageId) -> Result<(), SpoolError> {
        let to = LocalName::Message(id);
        self.files.rename(under, to).map_err(|e| failed(Step::Rename, to, &e))
    }
}
