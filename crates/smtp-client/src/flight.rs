//! A job in hand: its content ready for the wire and where each recipient stands.
//!
//! Recipients move forward only: `Waiting` for a transaction, `InBatch` of the current one,
//! `Accepted` by its RCPT, `Done` with a result; "too many recipients" alone moves one back to
//! `Waiting`. A flight is over when no reply for it is outstanding; then every recipient has its
//! result, and [`Flight::into_outcome`] checks that.

use crate::failure::internal;
use crate::{Job, Outcome, Phase, RecipientResult, Verdict, Verp};
use smtp_wire::dot::{WireContent, wire_slices};
use smtp_wire::{Dsn, Mailbox, ReversePath};
use std::borrow::Cow;
use std::sync::Arc;

/// Where a recipient stands.
#[derive(Clone, Debug)]
pub(crate) enum Standing {
    Waiting,
    InBatch,
    Accepted,
    Done(RecipientResult),
}

/// A job in hand.
#[derive(Debug)]
pub(crate) struct Flight {
    /// Counts the jobs of a connection from 0.
    pub(crate) serial: u64,
    pub(crate) ticket: u64,
    pub(crate) sender: ReversePath,
    pub(crate) recipients: Vec<Mailbox>,
    pub(crate) dsn: Option<Box<Dsn>>,
    /// Say REQUIRETLS, where the session may.
    pub(crate) requiretls: bool,
    pub(crate) verp: Option<Verp>,
    pub(crate) content: WireContent,
    /// Of the message as given: doubled dots do not count (RFC 1870 section 5).
    pub(crate) content_bytes: u64,
    /// Say BODY=8BITMIME.
    pub(crate) body_8bit: bool,
    /// Say SMTPUTF8.
    pub(crate) smtputf8: bool,
    /// The header needs SMTPUTF8, whatever the addresses are.
    pub(crate) header_utf8: bool,
    /// The server answered a MAIL of this job.
    pub(crate) answered: bool,
    /// Where in the output the final dot of the current transaction ends, once it is queued.
    pub(crate) dot_end: Option<u64>,
    standings: Vec<Standing>,
    /// The first recipient the current transaction had no room for.
    first_put_back: Option<u32>,
}

impl Flight {
    pub(crate) fn new(serial: u64, job: Job) -> Flight {
        let ascii = job.sender.0.as_ref().is_none_or(Mailbox::is_ascii) && job.recipients.iter().all(Mailbox::is_ascii);
        Flight {
            serial,
            ticket: job.ticket,
            content: wire_slices(&job.head, &job.body),
            content_bytes: job.head.len() as u64 + job.body.len() as u64,
            body_8bit: job.needs_8bit,
            smtputf8: job.needs_smtputf8 || !ascii,
            header_utf8: job.needs_smtputf8,
            answered: false,
            dot_end: None,
            standings: vec![Standing::Waiting; job.recipients.len()],
            first_put_back: None,
            sender: job.sender,
            recipients: job.recipients,
            dsn: job.dsn,
            requiretls: job.requiretls,
            verp: None,
        }
    }

    /// Moves up to `limit` waiting recipients into a new transaction.
    pub(crate) fn next_batch(&mut self, limit: usize) -> Vec<u32> {
        self.dot_end = None;
        self.first_put_back = None;
        let mut batch = Vec::with_capacity(limit.min(self.standings.len()));
        for (place, standing) in (0u32..).zip(&mut self.standings) {
            if batch.len() == limit {
                break;
            }
            if matches!(standing, Standing::Waiting) {
                *standing = Standing::InBatch;
                batch.push(place);
            }
        }
        batch
    }

    /// The reverse path of the current transaction.
    pub(crate) fn sender_now(&self) -> Cow<'_, ReversePath> {
        let current = self.standings.iter().position(|s| matches!(s, Standing::InBatch));
        match (self.verp, current.and_then(|place| self.recipients.get(place))) {
            (Some(verp), Some(recipient)) => Cow::Owned(verp.sender(&self.sender, recipient)),
            _ => Cow::Borrowed(&self.sender),
        }
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.standings.iter().any(|s| matches!(s, Standing::Waiting))
    }

    pub(crate) fn accepted(&self) -> impl Iterator<Item = u32> + '_ {
        (0u32..).zip(&self.standings).filter(|(_, s)| matches!(s, Standing::Accepted)).map(|(place, _)| place)
    }

    /// True when all content this flight can send has been queued.
    pub(crate) fn is_all_queued(&self) -> bool {
        self.dot_end.is_some() && !self.standings.iter().any(|s| matches!(s, Standing::Waiting | Standing::InBatch))
    }

    /// True when "too many recipients" was said of all behind the last accepted one: the server
    /// counted, and did not mind one of them.
    pub(crate) fn was_cut_short(&self) -> bool {
        let last_accepted = self.accepted().last();
        matches!((last_accepted, self.first_put_back), (Some(accepted), Some(back)) if accepted < back)
    }

    pub(crate) fn is_in_batch(&self, place: u32) -> bool {
        matches!(self.standings.get(place as usize), Some(Standing::InBatch))
    }

    /// The server accepted a recipient.
    pub(crate) fn accept(&mut self, place: u32) {
        self.set(place, Standing::Accepted);
    }

    /// Sends a recipient of this batch into the next one.
    pub(crate) fn put_back(&mut self, place: u32) {
        self.set(place, Standing::Waiting);
        self.first_put_back = Some(self.first_put_back.map_or(place, |first| first.min(place)));
    }

    pub(crate) fn settle(&mut self, place: u32, result: RecipientResult) {
        self.set(place, Standing::Done(result));
    }

    /// Gives `result` to every recipient whose standing matches.
    pub(crate) fn settle_where(&mut self, matches: impl Fn(&Standing) -> bool, result: &RecipientResult) {
        for standing in &mut self.standings {
            if !matches!(standing, Standing::Done(_)) && matches(standing) {
                *standing = Standing::Done(result.clone());
            }
        }
    }

    pub(crate) fn into_outcome(self) -> Outcome {
        let unsettled = |_| RecipientResult {
            verdict: Verdict::Transient,
            reply: Arc::new(internal(400, None, "recipient left without a result")),
            command: Cow::Borrowed(""),
            phase: Phase::Closed,
            local: true,
        };
        let results = self.standings.into_iter().map(|standing| match standing {
            Standing::Done(result) => result,
            other => {
                debug_assert!(false, "job {} ended with a recipient {other:?}", self.ticket);
                unsettled(other)
            }
        });
        Outcome { ticket: self.ticket, results: results.collect() }
    }

    fn set(&mut self, place: u32, to: Standing) {
        if let Some(standing) = self.standings.get_mut(place as usize) {
            debug_assert!(!matches!(standing, Standing::Done(_)), "a result is final");
            *standing = to;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn flight(recipients: usize) -> Flight {
        let recipient = Mailbox::parse("a@b.example").expect("sound");
        Flight::new(
            0,
            Job {
                ticket: 7,
                sender: ReversePath(None),
                recipients: vec![recipient; recipients],
                dsn: None,
                requiretls: false,
                head: Bytes::new(),
                body: Bytes::new().into(),
                needs_8bit: false,
                needs_smtputf8: false,
            },
        )
    }

    #[test]
    fn a_server_that_counts_is_told_from_a_full_mailbox() {
        for (replies, cut_short) in
            [("ab", true), ("aab", true), ("abab", false), ("aa", false), ("aba", false), ("bb", false)]
        {
            let mut flight = flight(9);
            for (place, reply) in flight.next_batch(replies.len()).into_iter().zip(replies.chars()) {
                if reply == 'a' { flight.accept(place) } else { flight.put_back(place) }
            }
            assert_eq!(flight.was_cut_short(), cut_short, "{replies}");
            // Of the next batch only its own replies count.
            let next = flight.next_batch(2);
            flight.accept(next[0]);
            flight.put_back(next[1]);
            assert!(flight.was_cut_short(), "{replies}");
        }
    }

    #[test]
    fn batches_take_waiting_recipients_in_order() {
        let mut flight = flight(5);
        assert_eq!(flight.next_batch(2), [0, 1]);
        flight.accept(0);
        flight.put_back(1);
        assert_eq!(flight.next_batch(2), [1, 2]);
        assert_eq!(flight.next_batch(9), [3, 4]);
        assert!(!flight.is_waiting());
        assert_eq!(flight.accepted().collect::<Vec<_>>(), [0]);
    }
}
