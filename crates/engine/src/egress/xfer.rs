//! Xfer: one message at a time to another node of the cluster, in two steps.
//!
//! In: the message in hand. The other node keeps it durably (`inject`); then the spool here has it as handed over, under its
//! id there; then the other node is told to deliver it (`release`), and only then this node forgets it. Each step may be repeated
//! after a crash on either side, a lost answer or a stop, and has the answer of the first time: so one copy is delivered, whatever
//! happens. From the second step on a message may end here only when the other node has forgotten it; when that says
//! that it does not have it (its disk was lost, or the message there), it is this node's again.

use crate::egress::carrier::{Answers, Carried, Lent};
use crate::egress::connection::InHand;
use crate::engine::Engine;
use crate::ingress::accept::by_body;
use crate::rebind::Before;
use crate::settle::{AttemptFacts, Handover};
use bytes::Bytes;
use message::{Draft, Message, MessageId, Meta, Parcel};
use net::http_client::{HttpAnswer, HttpClient};
use queue::settle::all_pending;
use queue::xfer::{self, ArrivalState, Kept, hand_over, handed_over, take_back};
use queue::{OrderId, Queued, Verdict};
use serde::Deserialize;
use serde_json::{Value, json};
use smtp_wire::{EnhancedCode, Reply};
use spool::{Durable, Mark};
use std::time::Duration;
use tokio::sync::oneshot;

/// A connection to one node.
pub(crate) struct XferCarrier {
    target: String,
    client: HttpClient,
}

impl XferCarrier {
    /// Connects.
    pub async fn open(engine: &Engine, target: &str) -> Result<XferCarrier, Reply> {
        let failed = |error: String| Reply::new(400, &format!("KumoMTA internal: no session with {target}: {error}"));
        let connector = engine.connectors.https().map_err(|e| failed(e.to_string()))?;
        let mut client = HttpClient::new(target, connector).map_err(|e| failed(e.to_string()))?;
        client.connect().await.map_err(|e| failed(e.to_string()))?;
        Ok(XferCarrier { target: target.to_owned(), client })
    }

    /// Transfers the message in hand, of which `lent` is the copy.
    pub async fn carry(&mut self, engine: &Engine, in_hand: &InHand, lent: Vec<Lent>) -> Carried {
        let Some(Lent { draft, .. }) = lent.into_iter().next() else {
            return Carried::broken(self.failed("nothing is in hand"));
        };
        match self.transfer(engine, in_hand, draft).await {
            Ok(id) => Carried { answers: Answers::Same(Verdict::Delivered, transferred(&id)), is_over: false },
            Err(error) => Carried::broken(self.failed(&error)),
        }
    }

    /// Ends the session. What is forgotten here may be forgotten there.
    pub async fn close(mut self, engine: &Engine) {
        self.tell_partings(engine).await;
    }

    /// The message's id there.
    async fn transfer(&mut self, engine: &Engine, in_hand: &InHand, draft: Draft) -> Result<String, String> {
        if engine.other_nodes.partings.count(&self.target) >= PARTINGS_ENOUGH {
            self.tell_partings(engine).await;
        }
        let local = draft.id;
        let kept = match handed_over(&draft.meta) {
            Some(kept) => {
                // It was read from the spool perhaps, which may know it before the disk does.
                engine.spool.flush().await.map_err(|error| error.to_string())?;
                kept
            }
            None => {
                keep(engine, in_hand, local).await?;
                let kept = self.inject(engine, draft).await?;
                note(engine, in_hand, local, |meta| hand_over(meta, &kept)).await?;
                kept
            }
        };
        match self.ask_state(RELEASE, &kept).await? {
            ArrivalState::Released => Ok(kept.id),
            state @ (ArrivalState::Dropped | ArrivalState::Unknown) => {
                note(engine, in_hand, local, take_back).await?;
                Err(format!("node {} does not have {} any more ({state:?}): it is sent again", kept.node, kept.id))
            }
        }
    }

    /// What became of a message there, now or before.
    async fn ask_state(&mut self, path: &str, kept: &Kept) -> Result<ArrivalState, String> {
        let body = json!({"origin": kept.origin, "node": kept.node}).to_string();
        let answer = self.ask(path, "application/json", body.into()).await?;
        // A node of a version before this says only whether there was anything to do. That there was nothing, or a word of a version
        // behind this, says nothing about where the message is.
        let state = match (answer.get("state"), answer["done"] == json!(true)) {
            (Some(state), _) => ArrivalState::deserialize(state).ok(),
            (None, true) if path == DROP => Some(ArrivalState::Dropped),
            (None, true) => Some(ArrivalState::Released),
            (None, false) => None,
        };
        state.ok_or_else(|| format!("{path} answered {answer}"))
    }

    /// Tells of which messages this node will not ask again, once it has durably forgotten them. Another time, if it cannot.
    async fn tell_partings(&mut self, engine: &Engine) {
        let target = self.target.clone();
        while let Some(telling) = engine.other_nodes.partings.tell(&target) {
            let told = async {
                engine.spool.flush().await.map_err(|error| error.to_string())?;
                let body = json!({"origins": telling.origins()}).to_string();
                self.ask(FORGET, "application/json", body.into()).await
            };
            match told.await {
                Ok(_) => telling.done(),
                Err(error) => return tracing::debug!("{target}: {error}"),
            }
        }
    }

    async fn inject(&mut self, engine: &Engine, mut draft: Draft) -> Result<Kept, String> {
        let (head, body) = (draft.head().into(), draft.body().into_bytes());
        let Draft { id, envelope, meta, .. } = draft;
        let node = *engine.settings.node_id.as_bytes();
        let parcel = Parcel { node, id, envelope, meta, head, body }.encode();
        let answer = self.ask(INJECT, "application/octet-stream", parcel.into()).await?;
        Kept::deserialize(&answer).map_err(|error| format!("{INJECT} answered {answer}: {error}"))
    }

    async fn ask(&mut self, path: &str, content_type: &str, content: Bytes) -> Result<Value, String> {
        let answer = self.client.post(path, content_type, content).await;
        let HttpAnswer { status, content } = answer.map_err(|error| format!("{path}: {error}"))?;
        let text = String::from_utf8_lossy(&content);
        if !status.is_success() {
            let shown: String = text.chars().take(SHOWN_CHARS_MAX).collect();
            return Err(format!("{path} answered {status}: {}", shown.trim_end()));
        }
        serde_json::from_str(&text).map_err(|error| format!("{path} answered something else than JSON: {error}"))
    }

    fn failed(&self, error: &str) -> Reply {
        let text = format!("KumoMTA internal: transfer to {}: {error}", self.target);
        Reply::enhanced(451, EnhancedCode::new(4, 4, 1), text)
    }
}

impl Engine {
    /// Whether a message that is to end here may: one that another node has been handed is taken back from there first. One that
    /// cannot be taken back ends as transferred, and one whose node does not answer waits; `None` then.
    /// Then `order` has it, should that be what ends it.
    pub(crate) async fn recalled(&self, queued: Queued, order: Option<OrderId>) -> Option<Queued> {
        let meta = queued.message.resident.as_ref().map(|resident| &resident.meta);
        let Some((kept, target)) = meta.and_then(|meta| handed_over(meta).zip(xfer::target(meta))) else {
            return Some(queued);
        };
        match self.recall(&kept, target).await {
            Ok(ArrivalState::Dropped | ArrivalState::Unknown) => Some(queued),
            Ok(ArrivalState::Released) => {
                let reply = transferred(&kept.id);
                let outcomes = all_pending(&queued.message, Verdict::Delivered, &reply);
                let facts = AttemptFacts {
                    handover: Handover::Xfer,
                    delivery_protocol: Some("xfer"),
                    ..AttemptFacts::default()
                };
                self.settle_attempt(queued, outcomes, &facts);
                None
            }
            Err(unanswered) => {
                let id = queued.message.id;
                if let Unanswered::Asked(why) = unanswered {
                    tracing::warn!(
                        "message {id} cannot end while {target} may be told to deliver it as {}: {why}",
                        kept.id
                    );
                }
                self.not_ended(queued, order);
                None
            }
        }
    }

    /// Has another node forget a message, unless it let others wait in vain just now.
    async fn recall(&self, kept: &Kept, target: &str) -> Result<ArrivalState, Unanswered> {
        let silences = &self.other_nodes.silences;
        if !silences.may_ask(target, self.clock.mono()) {
            return Err(Unanswered::NotAsked);
        }
        let begun = self.clock.mono();
        let asked = tokio::time::timeout(RECALL_MAX, recall(self, kept, target)).await;
        let answer = asked.unwrap_or_else(|_| Err(format!("no answer within {RECALL_MAX:?}")));
        match answer.is_ok() || self.clock.mono().saturating_since(begun) < QUICK {
            true => silences.answered(target),
            false => silences.did_not_answer(target, self.clock.mono()),
        }
        answer.map_err(Unanswered::Asked)
    }
}

/// Why it is not known what became of a message on another node.
enum Unanswered {
    /// That node says nothing these days.
    NotAsked,
    /// Why there was no answer.
    Asked(String),
}

/// Has another node forget a message; what became of it there.
async fn recall(engine: &Engine, kept: &Kept, target: &str) -> Result<ArrivalState, String> {
    let mut carrier = XferCarrier::open(engine, target).await.map_err(|reply| reply.text)?;
    carrier.ask_state(DROP, kept).await
}

fn transferred(id: &str) -> Reply {
    Reply { code: 250, enhanced: None, text: format!("new id is {id}") }
}

/// Has the spool keep the message in hand that it does not have yet: another node may have it for a while, but not instead of this one.
/// Goes on to its end when this is dropped; until then nobody takes the message out of the hand, for the spool must not be given it twice.
async fn keep(engine: &Engine, in_hand: &InHand, local: MessageId) -> Result<(), String> {
    let keeping = in_hand.keep().await;
    let (tell, told) = oneshot::channel();
    let (owner, in_hand) = (engine.clone(), in_hand.clone());
    engine.keepers.spawn(async move {
        let kept = keep_to_the_end(&owner, &in_hand, local).await;
        drop(keeping);
        // Nobody may be left who asked.
        let _: Result<(), _> = tell.send(kept);
    });
    told.await.unwrap_or_else(|_| Err(GONE.to_owned()))
}

async fn keep_to_the_end(engine: &Engine, in_hand: &InHand, local: MessageId) -> Result<(), String> {
    let gone = || GONE.to_owned();
    let mut message = in_hand.copy_of(local).ok_or_else(gone)?;
    if !message.is_volatile() {
        return Ok(());
    }
    let sealed = queue::seal(&mut message).ok_or_else(gone)?;
    let appended = engine.spool.append_accepted(by_body(vec![sealed])).await.map_err(|error| error.to_string())?;
    message.place = appended.durable.first().map(Durable::place);
    let Message { id, attempts, due, .. } = message;
    if attempts > 0 {
        engine.spool.mark(Mark::Attempt { id, attempts, due });
    }
    in_hand.replace(message).then_some(()).ok_or_else(gone)
}

/// Notes on disk, then in memory, where the message in hand is. When this is dropped half-way the disk may know and memory not; then
/// the step before is repeated, with the same answer.
async fn note(
    engine: &Engine,
    in_hand: &InHand,
    local: MessageId,
    change: impl FnOnce(&mut Meta),
) -> Result<(), String> {
    let gone = || GONE.to_owned();
    let mut message = in_hand.copy_of(local).ok_or_else(gone)?;
    let before = Before::of(&message).ok_or_else(gone)?;
    if let Some(resident) = &mut message.resident {
        change(&mut resident.meta);
    }
    engine.write_anew(&mut message, &before).await.map_err(|error| error.to_string())?;
    match in_hand.replace(message) {
        true => Ok(()),
        false => Err(gone()),
    }
}

const GONE: &str = "the message is not in hand any more";
const INJECT: &str = "/api/xfer/inject/v1";
const RELEASE: &str = "/api/xfer/release/v1";
const DROP: &str = "/api/xfer/drop/v1";
const FORGET: &str = "/api/xfer/forget/v1";
/// So many messages are told of while there is mail; all the others when a session ends.
const PARTINGS_ENOUGH: usize = 64;
/// How long another node may take to forget a message.
const RECALL_MAX: Duration = Duration::from_secs(10);
/// Who fails so soon takes nobody's time.
const QUICK: Duration = Duration::from_secs(1);
/// How much of a refusal a record shows.
const SHOWN_CHARS_MAX: usize = 512;
