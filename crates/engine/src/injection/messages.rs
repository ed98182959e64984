//! The messages of a request, from recipient to commit.

use crate::engine::Engine;
use crate::ingress::accept::{Prepared, Refusal};
use crate::ingress::trace::rfc5322_date;
use crate::injection::{NotInjected, Requester};
use crate::pressure::Room;
use injection::{Content, Generator, Injection, InjectionTrace, Outcome, Recipient, RecipientError};
use message::{Draft, Meta, note_header_utf8};
use mime::ValueForm;
use policy::{Event, PolicyError};

/// Messages of a request that wait for their commit, and the memory they take.
#[derive(Default)]
struct Chunk {
    prepared: Vec<Prepared>,
    recipients: Vec<String>,
    octets: usize,
    rooms: Vec<Room>,
}

/// How the messages of a request are committed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Commits {
    /// Some hundred at a time: what is held does not grow with the request.
    Chunks,
    /// All at once; what may not fail later fails all of them for now.
    AllOrNothing,
    /// All at once, without those that fail.
    AtOnce,
}

impl Engine {
    /// One message for each recipient, queued when this returns.
    pub(super) async fn inject_now(
        &self,
        injection: &Injection,
        from: &Requester,
        commits: Commits,
    ) -> Result<Outcome, NotInjected> {
        let generator = Generator::new(injection, self.boundary_seed())?;
        let meta = self.request_meta(from);
        let (mut outcome, mut chunk) = (Outcome::default(), Chunk::default());
        for (number, recipient) in injection.recipients.iter().enumerate() {
            if let Err(why) = self.takes_requests() {
                return self.end_early(chunk, outcome, (&injection.recipients[number..], &why), from, commits).await;
            }
            match self.made(&generator, number, &meta, (injection, from)).await {
                Ok((prepared, octets)) => {
                    chunk.rooms.push(self.pressure.room_for(octets as u64));
                    chunk.prepared.push(prepared);
                    chunk.recipients.push(recipient.email.clone());
                    chunk.octets += octets;
                }
                Err(error) if error.is_transient && commits == Commits::AllOrNothing => {
                    return Err(NotInjected::Later(error.to_string()));
                }
                Err(error) => outcome.failed(&error),
            }
            let is_full = chunk.prepared.len() >= MESSAGES_MAX || chunk.octets >= OCTETS_MAX;
            if is_full && commits == Commits::Chunks {
                self.commit_chunk(std::mem::take(&mut chunk), from, &mut outcome).await?;
            }
            if number + 1 < injection.recipients.len() {
                // Others have their turn between two messages: to make one takes as long as to receive one.
                tokio::task::yield_now().await;
            }
        }
        self.commit_chunk(chunk, from, &mut outcome).await?;
        Ok(outcome)
    }

    /// No more mail is taken: what was made is committed, and the rest fails. Nothing of the request if nothing was.
    async fn end_early(
        &self,
        chunk: Chunk,
        mut outcome: Outcome,
        (rest, why): (&[Recipient], &str),
        from: &Requester,
        commits: Commits,
    ) -> Result<Outcome, NotInjected> {
        if commits != Commits::Chunks {
            return Err(NotInjected::Later(why.to_owned()));
        }
        self.commit_chunk(chunk, from, &mut outcome).await?;
        if outcome.success_count == 0 {
            return Err(NotInjected::Later(why.to_owned()));
        }
        rest.iter().for_each(|recipient| outcome.failed(&RecipientError::new(&recipient.email, why, true)));
        Ok(outcome)
    }

    /// Where the boundaries of a request begin to be counted.
    pub(super) fn boundary_seed(&self) -> u64 {
        let id = self.next_id();
        let (time, _) = id.as_bytes().split_at(size_of::<u64>());
        time.iter().fold(0, |seed, octet| seed << 8 | u64::from(*octet))
    }

    /// A message that only waits for its commit, and its size.
    pub(super) async fn made(
        &self,
        generator: &Generator<'_>,
        number: usize,
        meta: &Meta,
        (injection, from): (&Injection, &Requester),
    ) -> Result<(Prepared, usize), RecipientError> {
        let now = self.clock.wall();
        let mut draft = generator.draft(number, self.next_id(), meta.clone(), now)?;
        if matches!(injection.content, Content::Structured(_)) {
            // Only addresses can be beyond ASCII there: all else is encoded.
            let head = draft.head();
            note_header_utf8(&mut draft.meta, &head);
        }
        let email = &injection.recipients[number].email;
        let draft = match self.interest.has(Event::HttpMessageGenerated) {
            true => self.policy.http_message_generated(draft, from.auth.clone()).await,
            false => Ok(draft),
        };
        let mut draft = draft.map_err(|error| by_policy(email, &error))?;
        let traced = self.trace(&mut draft, &injection.trace_headers, from);
        traced.map_err(|error| RecipientError::new(email, &error.to_string(), false))?;
        let prepared = self.prepare_own(draft, injection.deferred_spool).await;
        let prepared = prepared.map_err(|refusal| {
            RecipientError::new(email, &refusal.reply.to_single_line(), refusal.reply.is_transient())
        })?;
        let octets = prepared.octets();
        Ok((prepared, octets))
    }

    /// Takes responsibility for all of them, or for none. The first that is refused leaves nothing of the request.
    async fn commit_chunk(&self, chunk: Chunk, from: &Requester, outcome: &mut Outcome) -> Result<(), NotInjected> {
        if chunk.prepared.is_empty() {
            return Ok(());
        }
        let count = chunk.prepared.len();
        self.wait_for_logs_of(from).await;
        let refused = match self.commit(chunk.prepared).await {
            Ok(_receipts) => {
                outcome.success_count += count;
                return Ok(());
            }
            Err(Refusal { reply, .. }) => reply.to_single_line(),
        };
        if outcome.success_count == 0 {
            return Err(NotInjected::Later(refused));
        }
        for email in chunk.recipients {
            outcome.failed(&RecipientError::new(&email, &refused, true));
        }
        Ok(())
    }

    fn trace(&self, draft: &mut Draft, trace: &InjectionTrace, from: &Requester) -> Result<(), mime::HeaderError> {
        if trace.received_header {
            let value = self.received(draft, from);
            draft.edit_headers().0.prepend("Received", value.as_bytes(), ValueForm::Raw)?;
        }
        if trace.supplemental_header {
            draft.add_supplemental_trace(&trace.header_name, &trace.include_meta_names)?;
        }
        Ok(())
    }

    /// RFC 5321 section 4.4, with KumoMTA's words for what no client said.
    fn received(&self, draft: &Draft, from: &Requester) -> String {
        let sender = draft.envelope.sender.domain();
        let peer = from.auth.peer_address.map(|peer| format!(" ({peer})")).unwrap_or_default();
        let (by, date) = (&self.settings.hostname, rfc5322_date(draft.id.created()));
        let to = draft.envelope.recipients.first().map(|to| format!(" for <{}>", to.as_str())).unwrap_or_default();
        format!("from {sender}{peer}\r\n  by {by} (Postrider)\r\n  with HTTP id {}{to};\r\n  {date}", draft.id)
    }
}

/// Policy refused, or failed: a failure may pass.
fn by_policy(email: &str, error: &PolicyError) -> RecipientError {
    let is_transient = match error {
        PolicyError::Reject { reply, .. } => reply.is_transient(),
        PolicyError::Script { .. } => {
            tracing::error!("{error}");
            true
        }
    };
    RecipientError::new(email, &error.in_one_line(), is_transient)
}

/// Messages of one commit.
const MESSAGES_MAX: usize = 256;
/// Octets of one commit, exceeded by its last message at most.
const OCTETS_MAX: usize = 4 << 20;
