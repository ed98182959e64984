//! A message written anew: other metadata or content under the same id.
//!
//! A later record of an id replaces an earlier one (docs/spool-format.md section 4.1), so a rewrite is a transaction of a
//! message that is there already. Until it is durable the old record counts, and after that the new: never both, never
//! neither. Numbers of recipients stay those of the first record, because marks name recipients by number.

use crate::Disk;
use crate::SpoolError;
use crate::batch::{Part, State, Written, check_transaction};
use crate::index::Live;
use crate::log::SegmentLog;
use crate::page::PAGE_OCTETS;
use crate::reserve::Purpose;
use core::slice;
use message::{MessageId, Place, Sealed, Settled};

/// A message as it is to be from now on.
#[derive(Clone, Debug)]
pub struct Rewrite {
    /// All of it; the recipients are those that were stored, in their order, settled ones too.
    pub sealed: Sealed,
    /// Attempts made so far.
    pub attempts: u16,
    /// Recipients who are settled.
    pub settled: Settled,
}

impl Rewrite {
    fn part(&self) -> Part<'_> {
        Part {
            id: self.sealed.id,
            due: self.sealed.due,
            attempts: self.attempts,
            flags: 0,
            settled: self.settled.bitmap(),
            state: State::New(&self.sealed.envelope, &self.sealed.meta),
            head: &self.sealed.head,
        }
    }

    fn live(&self, place: Place, share: u32) -> Live {
        let Rewrite { sealed, attempts, settled } = self;
        Live {
            id: sealed.id,
            due: sealed.due,
            place,
            share,
            size: u32::try_from(sealed.head.len() + sealed.body.len()).unwrap_or(u32::MAX),
            attempts: *attempts,
            recipients: u16::try_from(sealed.envelope.recipients.len()).unwrap_or(u16::MAX),
            settled: settled.clone(),
            is_recovered: false,
        }
    }
}

impl<D: Disk> SegmentLog<D> {
    /// Writes live messages anew, durably: one write, one sync. Their new places, in order.
    ///
    /// # Errors
    /// All are as they were; after an `Io` error the next start may find them as they were to be. `NoSuchMessage` when
    /// one is not live.
    pub fn rewrite(&mut self, rewrites: &[Rewrite]) -> Result<Vec<Place>, SpoolError> {
        let mut octets = 0;
        for Rewrite { sealed, .. } in rewrites {
            self.check_rewrite(sealed.id, sealed)?;
            octets += check_transaction(slice::from_ref(sealed))?;
        }
        self.accepts_appends()?;
        self.begin_batch(octets);
        for rewrite in rewrites {
            self.builder.transaction(1, |_| rewrite.part(), &rewrite.sealed.body);
        }
        let (segment, first_page) = self.write_batch(Purpose::Appends)?;
        self.note_growth(self.builder.page_count());
        let base = first_page * PAGE_OCTETS as u32;
        let written: Vec<Written> = self.builder.written.drain(..).collect();
        let enter = |(Written { offset, index, share, .. }, rewrite): (Written, &Rewrite)| {
            let place = Place { segment, offset: base + offset, index };
            let queue = (self.settings.queue_of)(&rewrite.sealed.envelope, &rewrite.sealed.meta);
            self.segments.add(segment, share);
            if let Some(old) = self.index.insert(rewrite.live(place, share), &queue) {
                self.segments.subtract(old.place.segment, old.share);
            }
            place
        };
        Ok(written.into_iter().zip(rewrites).map(enter).collect())
    }

    fn check_rewrite(&self, id: MessageId, sealed: &Sealed) -> Result<(), SpoolError> {
        let entry = self.index.get(&id).ok_or(SpoolError::NoSuchMessage { id })?;
        debug_assert_eq!(usize::from(entry.recipients), sealed.envelope.recipients.len(), "numbers of recipients stay");
        Ok(())
    }
}
