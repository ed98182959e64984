//! Reading a spool of one file per message for the verbs. A message has its place for its whole life, so nothing is followed.

use super::reader::{SpoolReader, apply, who_may};
use anyhow::{Context, Result};
use message::{MessageId, Place, Resident};
use spool::local::{FilesInspection, LocalName, inspect, load};
use spool::{QueueOf, RecoveredMessage, SpoolError};
use std::io;
use store::{Kind, ReadOnlyDir};

/// A spool of one file per message.
pub(super) struct FilesReader {
    pub files: ReadOnlyDir,
    queue_of: QueueOf,
}

impl FilesReader {
    /// Over an open directory.
    pub fn new(files: ReadOnlyDir, queue_of: QueueOf) -> FilesReader {
        FilesReader { files, queue_of }
    }

    /// Everything an onlooker sees; with `contents` every octet is checked.
    pub fn inspect(&self, contents: bool) -> Result<FilesInspection> {
        let mut seen = inspect(&self.files, self.queue_of, contents).map_err(|error| {
            let denied = matches!(&error, SpoolError::File { kind: io::ErrorKind::PermissionDenied, .. });
            who_may(anyhow::Error::new(error).context(self.files.dir().display().to_string()), denied)
        })?;
        // Deliveries that the files do not know yet, as after a kill.
        let recent = self.files.recent().with_context(|| self.files.dir().display().to_string())?;
        apply(&recent, &mut seen.messages);
        Ok(seen)
    }
}

impl SpoolReader for FilesReader {
    fn files(&self) -> &ReadOnlyDir {
        &self.files
    }

    fn messages(&self) -> Result<(Vec<RecoveredMessage>, bool)> {
        let seen = self.inspect(false)?;
        let is_sound = seen.is_sound();
        Ok((seen.messages, is_sound))
    }

    fn load(&self, id: MessageId, _: Place) -> Result<Option<Resident>, SpoolError> {
        match load(&self.files, LocalName::Message(id)) {
            Err(SpoolError::NoSuchMessage { .. }) => Ok(None),
            read => read.map(Some),
        }
    }

    fn kind(&self) -> Kind {
        Kind::Files
    }

    fn queue_of(&self) -> QueueOf {
        self.queue_of
    }

    fn check(&self) -> Result<(bool, u64)> {
        let seen = self.inspect(true)?;
        Ok((seen.is_sound(), seen.messages.len() as u64))
    }
}
