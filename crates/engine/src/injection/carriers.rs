//! Requests whose messages are made later: each waits, in portions, as the content of a message of its own.
//!
//! Such a message goes to a queue of its own, where the carrier `generator` makes what it asks for. All messages of a portion
//! are committed at once, so that one that is tried again had no effect before; what a crash leaves between that commit and
//! the end of the portion is made twice, never lost.

use crate::engine::Engine;
use crate::injection::messages::Commits;
use crate::injection::{NotInjected, Requester};
use crate::records::response;
use crate::selection::Subject;
use ::clock::WallTime;
use bytes::Bytes;
use injection::{Generator, Injection, InjectionError, Outcome, Recipient, RecipientError};
use message::{Draft, Envelope, Meta, TlsDemand};
use policy::AuthInfo;
use record::{LogRecord, Recipients, RecordType, Timestamp};
use serde_json::Value;
use smtp_wire::{EnhancedCode, Mailbox, Reply, ReversePath};

/// The queue they wait in (KumoMTA behaviour).
pub(crate) const GENERATOR: &str = "generator.kumomta.internal";

impl Engine {
    /// Queues a request, once it is clear that it can be carried out.
    pub(super) async fn inject_later(&self, injection: Injection, from: &Requester) -> Result<Outcome, NotInjected> {
        Generator::new(&injection, 0)?;
        let content = injection.common_octets();
        // Messages of a portion are in memory together.
        let size = (OCTETS_MAX / content.max(1)).clamp(1, RECIPIENTS_MAX);
        let portions = injection.portions(size);
        let octets = content.saturating_mul(portions.len());
        if octets > QUEUED_OCTETS_MAX {
            let why = format!(
                "{octets} octets would wait, all but the recipients once for {size} of them: expected at most {QUEUED_OCTETS_MAX}, in \
                 several requests or without deferred_generation"
            );
            return Err(NotInjected::Wrong(InjectionError { pointer: "/recipients".to_owned(), why }));
        }
        let _room = self.pressure.room_or_reason(octets as u64).map_err(NotInjected::Later)?;
        let mut prepared = Vec::with_capacity(portions.len());
        for portion in portions {
            let draft = self.carrier_message(&portion, from).map_err(NotInjected::Later)?;
            let one = self.prepare_own(draft, portion.deferred_spool).await;
            prepared.push(one.map_err(|refusal| NotInjected::Later(refusal.reply.to_single_line()))?);
            tokio::task::yield_now().await;
        }
        self.wait_for_logs_of(from).await;
        let committed = self.commit(prepared).await;
        committed.map(|_| Outcome::default()).map_err(|refusal| NotInjected::Later(refusal.reply.to_single_line()))
    }

    /// The message that a portion waits in.
    fn carrier_message(&self, portion: &Injection, from: &Requester) -> Result<Draft, String> {
        let mut meta = self.request_meta(from);
        meta.set("queue", GENERATOR);
        meta.set("auth_info", serde_json::to_value(&from.auth).map_err(|error| error.to_string())?);
        let mut content = HEAD.to_vec();
        serde_json::to_writer(&mut content, portion).map_err(|error| error.to_string())?;
        content.extend_from_slice(b"\r\n");
        let recipients = vec![Mailbox::parse(ADDRESS).map_err(|error| error.to_string())?];
        let envelope = Envelope { sender: ReversePath(None), recipients, dsn: None, tls: TlsDemand::Usual };
        Ok(Draft::new(self.next_id(), envelope, meta, Bytes::from(content).into(), self.clock.wall()))
    }

    /// Makes the messages of a portion. What fails and may not fail later is tried some times.
    pub(crate) async fn generate(&self, mut carrier: Draft) -> Result<Outcome, NotInjected> {
        let injection = request_in(&mut carrier).map_err(|why| {
            NotInjected::Wrong(InjectionError {
                pointer: String::new(),
                why: format!("no request that was queued: {why}"),
            })
        })?;
        let commits = if carrier.attempts < ATTEMPTS_MAX { Commits::AllOrNothing } else { Commits::AtOnce };
        let outcome = match self.inject_now(&injection, &requester(&carrier.meta), commits).await {
            Err(NotInjected::Wrong(error)) => {
                let mut outcome = Outcome::default();
                let failed = |recipient: &Recipient| RecipientError::new(&recipient.email, &error.to_string(), false);
                injection.recipients.iter().for_each(|recipient| outcome.failed(&failed(recipient)));
                outcome
            }
            outcome => outcome?,
        };
        self.log_failures(&mut carrier, &injection.envelope_sender, &outcome);
        Ok(outcome)
    }

    /// Who asked is gone: the log says who has no message.
    fn log_failures(&self, carrier: &mut Draft, sender: &str, outcome: &Outcome) {
        if self.logs_nothing() {
            return;
        }
        let time = |at: WallTime| Timestamp::from_unix_micros(at.unix_micros());
        for (email, why) in outcome.failed_recipients.iter().zip(&outcome.errors) {
            let reply = Reply::enhanced(550, EnhancedCode::new(5, 6, 0), why.clone());
            let now = time(self.clock.wall());
            let mut record = LogRecord::new(RecordType::Bounce, now, time(carrier.id.created()), response(&reply));
            record.id = carrier.id.to_string();
            record.sender = sender.to_owned();
            record.recipient = Recipients(vec![email.clone()]);
            record.queue = GENERATOR.into();
            self.complete(&mut record, &carrier.meta);
            let head = carrier.head();
            self.log(record, Subject { meta: &carrier.meta, head: &head, message: None });
        }
    }
}

/// The request in a message that this node made; mail that somebody sent to that queue is none.
fn request_in(carrier: &mut Draft) -> Result<Injection, String> {
    let is_ours = carrier.meta.string("queue") == Ok(Some(GENERATOR)) && carrier.meta.get("auth_info").is_some();
    if !is_ours {
        return Err("it came as mail".to_owned());
    }
    let mut injection: Injection = serde_json::from_slice(&carrier.body()).map_err(|error| error.to_string())?;
    if injection.recipients.len() > RECIPIENTS_MAX {
        return Err(format!("{} recipients: expected at most {RECIPIENTS_MAX}", injection.recipients.len()));
    }
    injection.deferred_generation = false;
    Ok(injection)
}

/// Who asked, as the message remembers it.
fn requester(meta: &Meta) -> Requester {
    let auth = meta.get("auth_info").cloned().unwrap_or(Value::Null);
    let auth: AuthInfo = serde_json::from_value(auth).unwrap_or_default();
    let text = |name| meta.string(name).ok().flatten();
    let via = text("received_via").and_then(|via| via.parse().ok());
    Requester { auth, via, hostname: text("hostname").map(str::to_owned) }
}

/// Whom such a message is to; nobody has this address.
const ADDRESS: &str = "http-injection@generator.kumomta.internal";
/// Its header.
const HEAD: &[u8] = b"Content-Type: application/json\r\n\r\n";
/// Recipients of one portion.
const RECIPIENTS_MAX: usize = 100;
/// Octets of content of all messages of a portion, unless one alone has more.
const OCTETS_MAX: usize = 16 << 20;
/// Octets that wait for one request.
const QUEUED_OCTETS_MAX: usize = 256 << 20;
/// Attempts in which nothing may fail that may not fail later.
const ATTEMPTS_MAX: u16 = 10;
