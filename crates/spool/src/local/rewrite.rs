//! A message file written anew: other metadata or content under the same id.
//!
//! The new file is whole and synced, marks included, before it takes the name; renaming replaces, so that a cut leaves the
//! old file or the new one. In: a message as it is to be. The caller makes sure that nobody writes marks of it meanwhile.

use super::engine::{MessageFiles, failed};
use super::files::Files;
use super::names::{Folder, LocalName};
use super::{header, marks};
use crate::{Mark, Rewrite, SpoolError, Step};
use std::io::ErrorKind;

impl<F: Files> MessageFiles<F> {
    /// Writes a message anew, durably.
    ///
    /// # Errors
    /// The next start finds it as it was or as it was to be; marks written before that may be lost with the power.
    /// `NoSuchMessage` when it is gone.
    pub fn rewrite(&self, rewrite: &Rewrite) -> Result<(), SpoolError> {
        let id = rewrite.sealed.id;
        let (from, to) = (LocalName::New(id, self.run), LocalName::Message(id));
        match self.files.open(to) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Err(SpoolError::NoSuchMessage { id }),
            there => there.map_err(|e| failed(Step::Read, to, &e))?,
        };
        let line = header::encode(&rewrite.sealed, self.run)?;
        let mut progress = Vec::new();
        marks::encode(&progress_of(rewrite), id, self.run, &mut progress);
        // Of an earlier try that could not be taken away.
        self.remove_if_there(from)?;
        let written = self.files.create(from, &[&line, &rewrite.sealed.head, &rewrite.sealed.body, &progress]);
        if let Err(error) = written {
            self.drop_unfinished(from);
            return Err(failed(Step::Write, from, &error));
        }
        let folder = Folder::of(id);
        let before = [(folder, self.files.failed_syncs(folder))];
        self.files.rename(from, to).map_err(|e| failed(Step::Rename, to, &e))?;
        self.sync_changed(&before)
    }
}

/// Attempts and settled recipients as marks.
fn progress_of(rewrite: &Rewrite) -> Vec<Mark> {
    let Rewrite { sealed, attempts, settled } = rewrite;
    let id = sealed.id;
    let recipients = 0..u16::try_from(sealed.envelope.recipients.len()).unwrap_or(u16::MAX);
    let done: Vec<u32> = recipients.filter(|r| settled.contains(*r)).map(u32::from).collect();
    let attempt = Mark::Attempt { id, attempts: *attempts, due: sealed.due };
    let done = (!done.is_empty()).then_some(Mark::RecipientsDone { id, recipients: done });
    [attempt].into_iter().chain(done).collect()
}
