//! Requests with a key: carried out once, however often they come.
//!
//! The record of a keyed request, with its answer, is committed together with its messages, all or none. So whatever ends the
//! program, a retry either finds the record and has the first answer, or finds nothing of the request. Nothing is
//! remembered of a request by which nothing was accepted. The messages of one are made and committed at once, so they are bounded.

use crate::engine::Engine;
use crate::ingress::accept::Prepared;
use crate::injection::batch::{Batch, commit};
use crate::injection::bulk::{BulkAnswer, BulkError};
use crate::injection::keys::{Claim, Hand, Record, RequestKey};
use crate::injection::{NotInjected, Requester};
use crate::recovery::RecoveryState;
use bytes::Bytes;
use injection::{Generator, Injection, InjectionError, Outcome};
use message::{Draft, Envelope, Message, MessageId, Meta, Place, TlsDemand};
use queue::keyed::{self, set_stamp};
use serde::Serialize;
use serde::de::DeserializeOwned;
use smtp_wire::{Mailbox, ReversePath};
use spool::Mark;
use std::time::Duration;
use tokio::sync::oneshot;

/// What a keyed request was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyedOutcome {
    /// The answer.
    pub outcome: Outcome,
    /// It is that of the first time: nothing was done now.
    pub is_replayed: bool,
}

/// A key is ours, or its request was answered.
pub(crate) enum Claimed<Answer> {
    Hand(Hand),
    Before(Answer),
}

impl Engine {
    /// As [`Engine::inject_request`], once for a key; all of it is committed at once.
    ///
    /// # Errors
    /// [`NotInjected`]; nothing was taken then, but of what was cut short.
    pub async fn inject_keyed(
        &self,
        injection: Injection,
        from: Requester,
        key: RequestKey,
    ) -> Result<KeyedOutcome, NotInjected> {
        self.takes_requests().map_err(NotInjected::Later)?;
        check(&injection)?;
        // As long as it waits it ends with who asks, and the key is free.
        let hand = match self.claim::<Outcome>(&key).await? {
            Claimed::Hand(hand) => hand,
            Claimed::Before(outcome) => return Ok(KeyedOutcome { outcome, is_replayed: true }),
        };
        self.wait_for_turn(&injection).await?;
        let (engine, (tell, told)) = (self.clone(), oneshot::channel());
        self.sessions.spawn(async move {
            // Nobody listens any more: what was done stays done.
            let _: Result<(), _> = tell.send(engine.carry_out_keyed(&injection, &from, hand).await);
        });
        told.await.unwrap_or(Err(NotInjected::CutShort))
    }

    async fn carry_out_keyed(
        &self,
        injection: &Injection,
        from: &Requester,
        hand: Hand,
    ) -> Result<KeyedOutcome, NotInjected> {
        self.metrics.received_over_http.inc_by(injection.recipients.len() as u64);
        let generator = Generator::new(injection, self.boundary_seed())?;
        let (meta, mut batch) = (self.request_meta(from), Batch::default());
        batch.begin(1);
        self.make_all(&mut batch, (injection, from), &generator, &meta).await?;
        batch.seal(hand);
        match commit(self, batch, &mut None).await.pop() {
            Some(BulkAnswer::Done { outcome, .. }) => Ok(KeyedOutcome { outcome, is_replayed: false }),
            Some(BulkAnswer::Failed { error: BulkError::Later(why), .. }) => Err(NotInjected::Later(why)),
            _ => Err(NotInjected::CutShort),
        }
    }

    /// The key, as soon as nobody else has it: who comes second waits, so long.
    pub(crate) async fn claim<A: DeserializeOwned>(&self, key: &RequestKey) -> Result<Claimed<A>, NotInjected> {
        let claiming = async {
            loop {
                match self.recovery_state() {
                    RecoveryState::Done => {}
                    // What was answered before this start is not known yet.
                    RecoveryState::Pending => {
                        tokio::time::sleep(RECOVERY_PAUSE).await;
                        continue;
                    }
                    // Nor ever will be.
                    RecoveryState::Failed(why) => return Err(NotInjected::Later(format!("spool unhealthy: {why}"))),
                }
                match self.keys.claim(key, self.clock.wall()) {
                    Claim::Free(mut hand) => {
                        if let Some(id) = hand.older.take() {
                            self.spool.mark(Mark::Removed { id });
                        }
                        return Ok(Claimed::Hand(hand));
                    }
                    Claim::Answered(record) => return self.answer_of(&record).await.map(Claimed::Before),
                    // Its end is what counts: nothing is ever sent.
                    Claim::UnderWay(mut over) => _ = over.changed().await,
                    Claim::Other => return Err(NotInjected::Conflict),
                    Claim::Full => {
                        let why = "as many idempotency keys of this client are remembered as may be: send without one, or later";
                        return Err(NotInjected::Later(why.to_owned()));
                    }
                }
            }
        };
        let claimed = self.stop.unless_requested(tokio::time::timeout(KEY_WAIT_MAX, claiming)).await;
        let waited = || {
            NotInjected::Later(match self.is_recovering() {
                true => "the spool is still being read, and with it which keys were answered".to_owned(),
                false => format!("the request of this idempotency_key is still under way, after {KEY_WAIT_MAX:?}"),
            })
        };
        claimed.ok_or_else(|| NotInjected::Later("shutting down".to_owned()))?.unwrap_or_else(|_| Err(waited()))
    }

    /// What the first request was answered.
    async fn answer_of<A: DeserializeOwned>(&self, record: &Record) -> Result<A, NotInjected> {
        let loaded = self.spool.load(record.id, record.place).await.map_err(|error| error.to_string());
        let read = loaded.and_then(|found| serde_json::from_slice(&found.body).map_err(|error| error.to_string()));
        read.map_err(|error| {
            tracing::error!("the answer to a request with a key does not read ({}): {error}", record.id);
            NotInjected::AnswerLost
        })
    }

    /// One message for each recipient of a keyed request, in one batch: all, or none when it is more than may be.
    pub(super) async fn make_all(
        &self,
        batch: &mut Batch,
        (injection, from): (&Injection, &Requester),
        generator: &Generator<'_>,
        meta: &Meta,
    ) -> Result<(), NotInjected> {
        let mut sum = 0;
        for (number, recipient) in injection.recipients.iter().enumerate() {
            self.takes_requests().map_err(NotInjected::Later)?;
            match self.made(generator, number, meta, (injection, from)).await {
                Ok((prepared, octets)) => {
                    sum += octets;
                    if sum > OCTETS_MAX && number > 0 {
                        return Err(wrong(
                            "/recipients",
                            format!(
                                "its messages have more than {OCTETS_MAX} octets: expected several requests, each with a key"
                            ),
                        ));
                    }
                    let room = self.pressure.room_for(octets as u64);
                    batch.add(prepared, recipient.email.clone(), (octets, room));
                }
                Err(error) => batch.recipient_failed(&error),
            }
            // Others have their turn between two messages: to make one takes as long as to receive one.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// The record of an answer, to be committed with what it is about: before it. Where what was committed is taken back, as
    /// nobody waits for it any more, a record must not outlast its messages.
    pub(crate) fn record_of(&self, hand: &Hand, answer: &impl Serialize) -> Result<Prepared, String> {
        let stamp = hand.stamp(self.clock.wall());
        let mut meta = Meta::new();
        set_stamp(&mut meta, &stamp);
        let mut content = HEAD.to_vec();
        serde_json::to_writer(&mut content, answer).map_err(|error| error.to_string())?;
        content.extend_from_slice(b"\r\n");
        let recipients = vec![Mailbox::parse(keyed::ADDRESS).map_err(|error| error.to_string())?];
        let envelope = Envelope { sender: ReversePath(None), recipients, dsn: None, tls: TlsDemand::Usual };
        let draft = Draft::new(self.next_id(), envelope, meta, Bytes::from(content).into(), stamp.until);
        Ok(Prepared::record(draft.seal()))
    }

    /// A record is durable.
    pub(crate) fn keep_record(&self, meta: &Meta, id: MessageId, place: Place) {
        if let Some(older) = keyed::stamp(meta).and_then(|stamp| self.keys.keep(stamp, id, place)) {
            self.spool.mark(Mark::Removed { id: older });
        }
    }

    /// A record of an earlier run.
    pub(crate) fn restore_record(&self, label: &str, message: &Message) {
        let Some((stamp, place)) = keyed::stamp_of(label).zip(message.place) else {
            tracing::error!(
                "record {} of an answered request stays in the spool: it is of a later version",
                message.id
            );
            return;
        };
        let gone = match stamp.until <= self.clock.wall() {
            true => Some(message.id),
            false => self.keys.keep(stamp, message.id, place),
        };
        gone.into_iter().for_each(|id| self.spool.mark(Mark::Removed { id }));
    }

    /// Forgets what is over, until the end: answers, and what became of arrivals.
    pub(crate) async fn forget_records(&self) {
        while self.stop.unless_requested(tokio::time::sleep(FORGET_INTERVAL)).await.is_some() {
            while !self.forget_old_fates() {
                tokio::task::yield_now().await;
            }
            loop {
                let gone = self.keys.expired(self.clock.wall());
                if gone.is_empty() {
                    break;
                }
                gone.into_iter().for_each(|id| self.spool.mark(Mark::Removed { id }));
                tokio::task::yield_now().await;
            }
        }
    }
}

/// What a keyed request may ask for.
pub(super) fn check(injection: &Injection) -> Result<(), NotInjected> {
    for (is_asked, pointer, why) in [
        (injection.deferred_spool, "/deferred_spool", "what has an idempotency_key is on disk when it is answered"),
        (injection.deferred_generation, "/deferred_generation", "what has an idempotency_key is made at once"),
    ] {
        if is_asked {
            return Err(wrong(pointer, format!("true: expected false, for {why}")));
        }
    }
    let count = injection.recipients.len();
    match count > RECIPIENTS_MAX {
        true => {
            Err(wrong("/recipients", format!("{count} with an idempotency_key: expected at most {RECIPIENTS_MAX}")))
        }
        false => Ok(()),
    }
}

fn wrong(pointer: &str, why: String) -> NotInjected {
    NotInjected::Wrong(InjectionError { pointer: pointer.to_owned(), why })
}

/// Its header.
const HEAD: &[u8] = b"Content-Type: application/json\r\n\r\n";
/// Recipients of a keyed request.
pub const RECIPIENTS_MAX: usize = 4096;
/// Octets of its messages, unless there is one only.
const OCTETS_MAX: usize = 32 << 20;
/// How long a request waits for another with its key, and for what was answered before this start.
const KEY_WAIT_MAX: Duration = Duration::from_secs(60);
/// Pause before looking again whether it is known.
const RECOVERY_PAUSE: Duration = Duration::from_millis(20);
/// Between two looks for records that are over.
const FORGET_INTERVAL: Duration = Duration::from_secs(1);
