//! A stream of requests, a line each: read, made, committed in batches, answered line by line.
//!
//! Two tasks. One reads lines and makes their messages into a [`Batch`]; the other commits it and sends the answers
//! (`settle`). While a batch is committed and its answers are taken the next one is gathered, and no third: who takes no
//! answers is not read from. A batch is handed over when it is full, or when no line is there to be read; so a lone
//! line does not wait, and at full speed a commit has some hundred.
//!
//! The end: of the stream; of the connection, which drops what is not handed over; or an end of our own (no mail is taken
//! now), said by a last answer. What is left of the body is then read over for a moment, so that the answer arrives.

use crate::engine::Engine;
use crate::injection::batch::{Batch, Given, Work, settle};
use crate::injection::keyed::{self, Claimed};
use crate::injection::keys::{Door, Hand, RequestKey};
use crate::injection::{NotInjected, Requester};
use bytes::Bytes;
use futures_util::future::poll_immediate;
use futures_util::{Stream, StreamExt};
use injection::{Generator, Injection, InjectionError, Outcome, RecipientError};
use message::Meta;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// What is read of the stream.
#[derive(Debug)]
pub enum BulkInput {
    /// A line that is not empty, without its end.
    Line {
        /// Its number, from 1; empty lines are counted.
        number: u64,
        /// What stands in it.
        octets: Bytes,
    },
    /// A line that was read over.
    TooLong {
        /// Its number.
        number: u64,
        /// The longest there may be.
        octets_max: usize,
    },
    /// The stream cannot be read from this line on.
    Damaged {
        /// Its number.
        number: u64,
        /// What is wrong.
        why: String,
    },
    /// The connection ended within the stream.
    Cut,
}

/// What became of a line.
#[derive(Debug)]
pub enum BulkAnswer {
    /// It was processed, and its messages are durable.
    Done {
        /// Its number.
        line: u64,
        /// For how many recipients.
        outcome: Outcome,
        /// It is the answer of the first time: nothing was done now.
        is_replayed: bool,
    },
    /// Nothing of it was taken.
    Failed {
        /// Its number.
        line: u64,
        /// Why.
        error: BulkError,
    },
    /// Nothing was taken of this line and those behind it.
    End {
        /// Its number.
        line: u64,
        /// Why.
        why: String,
    },
}

/// Why nothing of a line was taken.
#[derive(Debug, Error)]
pub enum BulkError {
    /// No JSON.
    #[error("the line is not JSON: {0}")]
    NotJson(String),
    /// Longer than a line may be.
    #[error("the line is longer than {octets_max} octets, the listener's request_body_limit")]
    TooLong {
        /// The longest there may be.
        octets_max: usize,
    },
    /// Nothing can be read of it, nor behind it.
    #[error("{0}")]
    Damaged(String),
    /// No request, or one that can be carried out for nobody.
    #[error("{0}")]
    Wrong(#[from] InjectionError),
    /// Not now.
    #[error("{0}")]
    Later(String),
    /// Its key belongs to another, or its answer does not read.
    #[error("{0}")]
    Key(NotInjected),
}

impl From<NotInjected> for BulkError {
    fn from(error: NotInjected) -> BulkError {
        match error {
            NotInjected::Wrong(wrong) => BulkError::Wrong(wrong),
            NotInjected::Later(why) => BulkError::Later(why),
            NotInjected::CutShort | NotInjected::Conflict | NotInjected::AnswerLost => BulkError::Key(error),
        }
    }
}

/// How a line is read.
pub type ReadLine = fn(&[u8]) -> Result<Injection, BulkError>;

impl Engine {
    /// Takes responsibility for the messages of a stream of requests. Answers come in order of the lines, those of a batch
    /// together, and end when all is answered. Runs to its end, but for lines that no commit has.
    ///
    /// # Errors
    /// Why nothing is taken now.
    pub fn inject_bulk(
        &self,
        from: Requester,
        lines: impl Stream<Item = BulkInput> + Send + Unpin + 'static,
        read: ReadLine,
        window: Duration,
    ) -> Result<mpsc::Receiver<Vec<BulkAnswer>>, String> {
        self.takes_requests()?;
        let slot = self.bulk_slots.clone().try_acquire_owned();
        let slot = slot.map_err(|_| format!("{STREAMS_MAX} bulk requests are under way: expected fewer"))?;
        let from = Arc::new(from);
        // Batches wait for the one before them, so that one place is enough; answers are taken from a batch at a time.
        let (give, given) = mpsc::channel(1);
        let (tell, told) = mpsc::channel(1);
        let gatherer = Gatherer {
            engine: self.clone(),
            meta: self.request_meta(&from),
            from: from.clone(),
            read,
            window,
            batch: Batch::default(),
            turn: Arc::new(Semaphore::new(1)),
            give,
        };
        let lasting = tell.clone();
        self.sessions.spawn(async move {
            gatherer.run(lines).await;
            drop((lasting, slot));
        });
        let engine = self.clone();
        self.sessions.spawn(async move { settle(&engine, &from, given, tell).await });
        Ok(told)
    }
}

/// Bulk requests at once.
pub(crate) fn slots() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(STREAMS_MAX))
}

/// Reads and makes.
struct Gatherer {
    engine: Engine,
    from: Arc<Requester>,
    /// What every message remembers of the request.
    meta: Meta,
    read: ReadLine,
    /// How long keys are remembered.
    window: Duration,
    batch: Batch,
    /// Held from a batch's handing over until its answers are taken.
    turn: Arc<Semaphore>,
    give: mpsc::Sender<Given>,
}

/// Why no more lines are taken.
enum Over {
    /// From this line on, for this reason.
    From(u64, String),
    /// Nobody is there to hear answers.
    Unheard,
}

impl Gatherer {
    async fn run(mut self, mut lines: impl Stream<Item = BulkInput> + Send + Unpin) {
        match self.gather(&mut lines).await {
            Ok(()) => _ = self.hand_over().await,
            Err(Over::Unheard) => {}
            Err(Over::From(line, why)) => {
                if self.hand_over().await.is_ok() && self.give(Work::End { line, why }).await.is_ok() {
                    let rest = async {
                        while let Some(BulkInput::Line { .. } | BulkInput::TooLong { .. }) = lines.next().await {}
                    };
                    // Either way it is over.
                    let _: Result<(), _> = tokio::time::timeout(LINGER, rest).await;
                }
            }
        }
    }

    /// Until the stream ends.
    async fn gather(&mut self, lines: &mut (impl Stream<Item = BulkInput> + Send + Unpin)) -> Result<(), Over> {
        let engine = self.engine.clone();
        let mut draining = pin!(engine.draining());
        let mut next = 1;
        loop {
            if self.batch.is_full() {
                self.hand_over().await?;
            }
            let input = tokio::select! {
                biased;
                () = &mut draining => return Err(Over::From(next, "shutting down".to_owned())),
                // Who takes no answers is let go, also while nothing is gathered.
                () = self.give.closed() => return Err(Over::Unheard),
                input = lines.next() => input,
                permit = self.turn.clone().acquire_owned(), if !self.batch.is_empty() => {
                    self.hand_over_in(permit.map_err(|_| Over::Unheard)?).await?;
                    continue;
                }
                () = tokio::time::sleep(IDLE_MAX) => {
                    return Err(Over::From(next, format!("no line came for {IDLE_MAX:?}")));
                }
            };
            match input {
                None => return Ok(()),
                Some(BulkInput::Cut) => return Err(Over::Unheard),
                Some(BulkInput::Damaged { number, why }) => {
                    self.batch.failed(number, BulkError::Damaged(why));
                    return Ok(());
                }
                Some(BulkInput::TooLong { number, octets_max }) => {
                    self.batch.failed(number, BulkError::TooLong { octets_max });
                    next = number + 1;
                }
                Some(BulkInput::Line { number, octets }) => {
                    self.take(number, &octets).await?;
                    next = number + 1;
                }
            }
            // Others have their turn between two lines: to make a message takes as long as to receive one.
            tokio::task::yield_now().await;
        }
    }

    /// Makes the messages of a line.
    async fn take(&mut self, line: u64, octets: &[u8]) -> Result<(), Over> {
        let mut injection = match (self.read)(octets) {
            Ok(injection) => injection,
            Err(error) => {
                self.batch.failed(line, error);
                return Ok(());
            }
        };
        self.engine.takes_requests().map_err(|why| Over::From(line, why))?;
        let hand = match injection.idempotency_key.take() {
            None => None,
            Some(text) => match self.claim(line, &text, (octets, &injection)).await? {
                None => return Ok(()),
                hand => hand,
            },
        };
        match self.wait_for_turn(&injection).await? {
            Ok(()) => {}
            Err(NotInjected::Wrong(error)) => {
                self.batch.failed(line, error.into());
                return Ok(());
            }
            Err(error) => return Err(Over::From(line, error.to_string())),
        }
        self.engine.metrics.received_over_http.inc_by(injection.recipients.len() as u64);
        if injection.deferred_generation {
            self.hand_over().await?;
            return self.give(Work::Generated { line, injection: Box::new(injection) }).await;
        }
        let generator = match Generator::new(&injection, self.engine.boundary_seed()) {
            Ok(generator) => generator,
            Err(error) => {
                self.batch.failed(line, error.into());
                return Ok(());
            }
        };
        match hand {
            Some(hand) => self.make_keyed(line, &injection, &generator, hand).await,
            None => self.make(line, &injection, &generator).await,
        }
    }

    /// The line's key; none when the line is answered already. What is gathered does not wait with it: it may be what is waited for.
    async fn claim(
        &mut self,
        line: u64,
        text: &str,
        (octets, injection): (&[u8], &Injection),
    ) -> Result<Option<Hand>, Over> {
        let key = RequestKey::new(Door::Http, (text, &[]), &self.from.auth, &[octets], self.window);
        let key = key.map_err(|why| InjectionError { pointer: "/idempotency_key".to_owned(), why }.into());
        let key = match key.and_then(|key| keyed::check(injection).map(|()| key).map_err(BulkError::from)) {
            Ok(key) => key,
            Err(error) => {
                self.batch.failed(line, error);
                return Ok(None);
            }
        };
        let engine = self.engine.clone();
        let mut claiming = pin!(engine.claim::<Outcome>(&key));
        let claimed = match poll_immediate(&mut claiming).await {
            Some(claimed) => claimed,
            None => {
                self.hand_over().await?;
                claiming.await
            }
        };
        match claimed {
            Ok(Claimed::Hand(hand)) => return Ok(Some(hand)),
            Ok(Claimed::Before(outcome)) => self.batch.replayed(line, outcome),
            // The next would wait as long.
            Err(NotInjected::Later(why)) if engine.is_recovering() => return Err(Over::From(line, why)),
            Err(error) => self.batch.failed(line, error.into()),
        }
        Ok(None)
    }

    /// All messages of a line that has a key, in one batch.
    async fn make_keyed(
        &mut self,
        line: u64,
        injection: &Injection,
        generator: &Generator<'_>,
        hand: Hand,
    ) -> Result<(), Over> {
        if !self.batch.has_room_for(injection.recipients.len()) {
            self.hand_over().await?;
        }
        self.batch.begin(line);
        let (engine, from) = (self.engine.clone(), self.from.clone());
        match engine.make_all(&mut self.batch, (injection, &from), generator, &self.meta).await {
            Ok(()) => self.batch.seal(hand),
            Err(error) => self.batch.give_up(error.into()),
        }
        Ok(())
    }

    /// Waits as the rate says; what is gathered does not wait with it.
    async fn wait_for_turn(&mut self, injection: &Injection) -> Result<Result<(), NotInjected>, Over> {
        let engine = self.engine.clone();
        let mut turn = pin!(engine.wait_for_turn(injection));
        if let Some(came) = poll_immediate(&mut turn).await {
            return Ok(came);
        }
        self.hand_over().await?;
        Ok(turn.await)
    }

    /// One message for each recipient. A batch that is full on the way is handed over, and the line goes on in the next.
    async fn make(&mut self, line: u64, injection: &Injection, generator: &Generator<'_>) -> Result<(), Over> {
        self.batch.begin(line);
        for (number, recipient) in injection.recipients.iter().enumerate() {
            if self.batch.is_full() {
                self.batch.goes_on();
                self.hand_over().await?;
                self.batch.begin(line);
            }
            if let Err(why) = self.engine.takes_requests() {
                for recipient in &injection.recipients[number..] {
                    self.batch.recipient_failed(&RecipientError::new(&recipient.email, &why, true));
                }
                self.batch.refused(&why);
                return Err(Over::From(line + 1, why));
            }
            match self.engine.made(generator, number, &self.meta, (injection, &self.from)).await {
                Ok((prepared, octets)) => {
                    let room = self.engine.pressure.room_for(octets as u64);
                    self.batch.add(prepared, recipient.email.clone(), (octets, room));
                }
                Err(error) => self.batch.recipient_failed(&error),
            }
            if number > 0 {
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    /// The batch, when the one before it is answered.
    async fn hand_over(&mut self) -> Result<(), Over> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let permit = self.turn.clone().acquire_owned().await.map_err(|_| Over::Unheard)?;
        self.hand_over_in(permit).await
    }

    async fn hand_over_in(&mut self, permit: OwnedSemaphorePermit) -> Result<(), Over> {
        let work = Work::Batch(std::mem::take(&mut self.batch));
        self.give.send(Given { work, permit }).await.map_err(|_| Over::Unheard)
    }

    async fn give(&mut self, work: Work) -> Result<(), Over> {
        let permit = self.turn.clone().acquire_owned().await.map_err(|_| Over::Unheard)?;
        self.give.send(Given { work, permit }).await.map_err(|_| Over::Unheard)
    }
}

/// Bulk requests at once: each may hold two batches and a line.
pub const STREAMS_MAX: usize = 256;
/// How long the next line may take: a stream holds a place.
const IDLE_MAX: Duration = Duration::from_secs(600);
/// How long what a client still sends is read over behind the last answer.
const LINGER: Duration = Duration::from_secs(2);
