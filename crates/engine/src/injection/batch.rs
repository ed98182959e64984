//! Lines that are committed together, and their answers.
//!
//! In: messages as they are made, line by line. Out: one commit for all of a batch, then an answer for each line that ends in
//! it. A line with more messages than a batch holds goes on in the next; what was committed of it then stays, and what
//! cannot be is failed recipient by recipient.

use crate::engine::Engine;
use crate::ingress::accept::{Prepared, Refusal};
use crate::injection::bulk::{BulkAnswer, BulkError};
use crate::injection::keys::Hand;
use crate::injection::{NotInjected, Requester};
use crate::pressure::Room;
use injection::{Injection, Outcome, RecipientError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

/// Something to settle, and the right to the next, which comes back when it is answered.
pub(super) struct Given {
    pub work: Work,
    pub permit: OwnedSemaphorePermit,
}

/// What is settled.
pub(super) enum Work {
    /// Messages and lines.
    Batch(Batch),
    /// A line whose messages are made later.
    Generated {
        /// Its number.
        line: u64,
        /// What it says.
        injection: Box<Injection>,
    },
    /// The last word.
    End {
        /// From which line on nothing is taken.
        line: u64,
        /// Why.
        why: String,
    },
}

/// Lines, and the messages made of them.
#[derive(Default)]
pub(super) struct Batch {
    prepared: Vec<Prepared>,
    octets: usize,
    rooms: Vec<Room>,
    parts: Vec<Part>,
}

/// A line, or what of it is in this batch.
struct Part {
    line: u64,
    said: Said,
    /// Messages of the batch before it, and their octets.
    first: (usize, usize),
    /// It has a key: its record is committed with it.
    hand: Option<Hand>,
    /// The rest of it is in the next batch.
    goes_on: bool,
}

enum Said {
    Made(Made),
    Failed(BulkError),
    /// It was answered before.
    Before(Outcome),
}

/// Messages of a line that wait for the commit, and recipients that have none.
#[derive(Default)]
pub(super) struct Made {
    emails: Vec<String>,
    outcome: Outcome,
    /// Why recipients failed who need not have.
    refused: Option<String>,
}

impl Batch {
    /// Nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// It takes no more.
    pub fn is_full(&self) -> bool {
        self.parts.len() >= LINES_MAX || self.prepared.len() >= LINES_MAX || self.octets >= OCTETS_MAX
    }

    /// A line of which nothing is taken.
    pub fn failed(&mut self, line: u64, error: BulkError) {
        self.say(line, Said::Failed(error));
    }

    /// A line that was carried out before, and what came of it.
    pub fn replayed(&mut self, line: u64, outcome: Outcome) {
        self.say(line, Said::Before(outcome));
    }

    /// What follows is of this line.
    pub fn begin(&mut self, line: u64) {
        self.say(line, Said::Made(Made::default()));
    }

    fn say(&mut self, line: u64, said: Said) {
        self.parts.push(Part { line, said, first: (self.prepared.len(), self.octets), hand: None, goes_on: false });
    }

    /// The line is through, and its key is kept with it.
    pub fn seal(&mut self, hand: Hand) {
        if let Some(part) = self.parts.last_mut() {
            part.hand = Some(hand);
        }
    }

    /// Nothing of the line is taken after all.
    pub fn give_up(&mut self, error: BulkError) {
        if let Some(part) = self.parts.last_mut() {
            part.said = Said::Failed(error);
            let (first, octets) = part.first;
            self.prepared.truncate(first);
            self.rooms.truncate(first);
            self.octets = octets;
        }
    }

    /// Whether so many messages more have room in the same commit as others.
    pub fn has_room_for(&self, messages: usize) -> bool {
        self.is_empty() || self.prepared.len() + messages <= LINES_MAX
    }

    /// A message of the line.
    pub fn add(&mut self, prepared: Prepared, email: String, (octets, room): (usize, Room)) {
        self.prepared.push(prepared);
        self.octets += octets;
        self.rooms.push(room);
        if let Some(made) = self.current() {
            made.emails.push(email);
        }
    }

    /// A recipient of the line who has none.
    pub fn recipient_failed(&mut self, error: &RecipientError) {
        if let Some(made) = self.current() {
            made.outcome.failed(error);
        }
    }

    /// The line's recipients failed because no mail is taken.
    pub fn refused(&mut self, why: &str) {
        if let Some(made) = self.current() {
            made.refused = Some(why.to_owned());
        }
    }

    /// The line is not through.
    pub fn goes_on(&mut self) {
        if let Some(part) = self.parts.last_mut() {
            part.goes_on = true;
        }
    }

    fn current(&mut self) -> Option<&mut Made> {
        match self.parts.last_mut().map(|part| &mut part.said) {
            Some(Said::Made(made)) => Some(made),
            _ => None,
        }
    }
}

impl Made {
    /// The answer, if the commit succeeds.
    fn hoped(&self) -> Outcome {
        Outcome { success_count: self.outcome.success_count + self.emails.len(), ..self.outcome.clone() }
    }

    /// What became of the commit.
    fn settle(&mut self, refused: Option<&str>) {
        let emails = std::mem::take(&mut self.emails);
        match refused {
            None => self.outcome.success_count += emails.len(),
            Some(_) if emails.is_empty() => {}
            Some(why) => {
                self.refused = Some(why.to_owned());
                emails.iter().for_each(|email| self.outcome.failed(&RecipientError::new(email, why, true)));
            }
        }
    }

    /// What came of the rest of the line.
    fn with(mut self, later: Made) -> Made {
        self.outcome.success_count += later.outcome.success_count;
        self.outcome.fail_count += later.outcome.fail_count;
        self.outcome.failed_recipients.extend(later.outcome.failed_recipients);
        self.outcome.errors.extend(later.outcome.errors);
        self.refused = later.refused.or(self.refused);
        self
    }

    /// Nothing was taken when there was no message for anybody and that may be otherwise later.
    fn answer(self, line: u64) -> BulkAnswer {
        match self.refused {
            Some(why) if self.outcome.success_count == 0 => BulkAnswer::Failed { line, error: BulkError::Later(why) },
            _ => BulkAnswer::Done { line, outcome: self.outcome, is_replayed: false },
        }
    }
}

/// Commits and answers until there is nothing more, or nobody to hear it.
pub(super) async fn settle(
    engine: &Engine,
    from: &Requester,
    mut given: mpsc::Receiver<Given>,
    tell: mpsc::Sender<Vec<BulkAnswer>>,
) {
    let mut begun: Option<Made> = None;
    while let Some(Given { work, permit }) = given.recv().await {
        let answers = match work {
            Work::Batch(batch) => commit(engine, batch, &mut begun).await,
            Work::Generated { line, injection } => vec![generated(engine, from, line, *injection).await],
            Work::End { line, why } => vec![BulkAnswer::End { line, why }],
        };
        let taken = tokio::select! {
            sent = tell.send(answers) => sent.is_ok(),
            () = engine.stop.over_for(Some(LAST_ANSWERS)) => false,
            () = tokio::time::sleep(STALLED_MAX) => false,
        };
        if !taken {
            return;
        }
        drop(permit);
    }
}

/// Makes all of a batch durable, or nothing. Of a line that went on from the batch before, `begun` is what came of that.
pub(super) async fn commit(engine: &Engine, batch: Batch, begun: &mut Option<Made>) -> Vec<BulkAnswer> {
    let Batch { mut prepared, parts, rooms, .. } = batch;
    let records: Result<Vec<Prepared>, String> = parts.iter().filter_map(|part| record(engine, part)).collect();
    let mut refused = None;
    match records {
        Ok(records) => prepared.splice(..0, records).for_each(drop),
        Err(why) => refused = Some(why),
    }
    if !prepared.is_empty() && refused.is_none() {
        engine.wait_for_logs().await;
        refused = engine.commit(prepared).await.err().map(|Refusal { reply, .. }| reply.to_single_line());
    }
    drop(rooms);
    let mut answers = Vec::with_capacity(parts.len());
    // Keys of what was not committed are free when their hands go, here.
    for Part { line, said, goes_on, .. } in parts {
        let mut made = match said {
            Said::Failed(error) => {
                answers.push(BulkAnswer::Failed { line, error });
                continue;
            }
            Said::Before(outcome) => {
                answers.push(BulkAnswer::Done { line, outcome, is_replayed: true });
                continue;
            }
            Said::Made(made) => made,
        };
        made.settle(refused.as_deref());
        let made = match begun.take() {
            Some(before) => before.with(made),
            None => made,
        };
        match goes_on {
            true => *begun = Some(made),
            false => answers.push(made.answer(line)),
        }
    }
    answers
}

/// The record of a line that has a key, if something of it is accepted.
fn record(engine: &Engine, part: &Part) -> Option<Result<Prepared, String>> {
    match (&part.hand, &part.said) {
        (Some(hand), Said::Made(made)) if !made.emails.is_empty() => Some(engine.record_of(hand, &made.hoped())),
        _ => None,
    }
}

async fn generated(engine: &Engine, from: &Requester, line: u64, injection: Injection) -> BulkAnswer {
    let error = match engine.inject_later(injection, from).await {
        Ok(outcome) => return BulkAnswer::Done { line, outcome, is_replayed: false },
        Err(NotInjected::Wrong(error)) => BulkError::Wrong(error),
        Err(error) => BulkError::Later(error.to_string()),
    };
    BulkAnswer::Failed { line, error }
}

/// Lines of a batch, and messages.
const LINES_MAX: usize = 256;
/// Octets of its messages, exceeded by its last message at most.
const OCTETS_MAX: usize = 4 << 20;
/// How long a client may take no answers.
const STALLED_MAX: Duration = Duration::from_secs(600);
/// How long, when the program ends.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    fn made(batch: &mut Batch, line: u64, failed: &[&str]) {
        batch.begin(line);
        failed.iter().for_each(|email| batch.recipient_failed(&RecipientError::new(email, "no", false)));
    }

    #[test]
    fn a_batch_is_full_at_its_bound_of_lines() {
        let mut batch = Batch::default();
        assert!(batch.is_empty());
        (1..LINES_MAX as u64).for_each(|line| batch.failed(line, BulkError::NotJson(String::new())));
        assert!(!batch.is_full() && !batch.is_empty());
        made(&mut batch, LINES_MAX as u64, &[]);
        assert!(batch.is_full());
        let of_octets = |octets| Batch { octets, ..Batch::default() }.is_full();
        assert_eq!((of_octets(OCTETS_MAX - 1), of_octets(OCTETS_MAX)), (false, true));
    }

    #[test]
    fn a_line_over_two_batches_has_one_answer() {
        let emails = |emails: &[&str]| emails.iter().map(|email| (*email).to_owned()).collect();
        let mut first = Made { emails: emails(&["a@x.test", "b@x.test"]), ..Made::default() };
        let mut second = Made { emails: emails(&["c@x.test"]), ..Made::default() };
        first.settle(None);
        second.settle(Some("452 full"));
        let BulkAnswer::Done { line, outcome, .. } = first.with(second).answer(7) else { panic!("two were taken") };
        assert_eq!((line, outcome.success_count, outcome.fail_count), (7, 2, 1));
        assert_eq!(outcome.errors, ["c@x.test: 452 full"]);
    }

    #[test]
    fn a_line_of_which_nothing_was_committed_may_come_again() {
        let mut refused = Made { emails: vec!["a@x.test".to_owned()], ..Made::default() };
        refused.settle(Some("452 full"));
        let BulkAnswer::Failed { error: BulkError::Later(why), .. } = refused.answer(1) else {
            panic!("nothing was taken")
        };
        assert_eq!(why, "452 full");
        // One who has no message whatever happens is processed.
        let mut wrong = Made::default();
        wrong.outcome.failed(&RecipientError::new("x", "no address", false));
        wrong.settle(Some("452 full"));
        assert!(matches!(wrong.answer(1), BulkAnswer::Done { .. }));
    }
}
