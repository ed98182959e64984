//! Xfer: one message at a time to another node of the cluster, in two steps.
//!
//! In: the message in hand. The other node keeps it durably (`inject`); then the spool here has it as handed over, under its
//! id there; then the other node is told to deliver it (`release`), and only then this node forgets it. Each step may be repeated
//! after a crash on either side, a lost answer or a stop, and has the answer of the first time: so one copy is delivered, whatever
//! happens. From the second step on nothing but the third can be done with the message.

use crate::egress::carrier::{Answers, Carried, Lent};
use crate::egress::connection::InHand;
use crate::engine::Engine;
use crate::rebind::Before;
use bytes::Bytes;
use message::{Draft, MessageId, Parcel};
use net::http_client::{HttpAnswer, HttpClient};
use queue::Verdict;
use queue::xfer::{self, hand_over, handed_over};
use serde_json::{Value, json};
use smtp_wire::{EnhancedCode, Reply};

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
            Ok(id) => {
                let reply = Reply { code: 250, enhanced: None, text: format!("new id is {id}") };
                Carried { answers: Answers::Same(Verdict::Delivered, reply), is_over: false }
            }
            Err(error) => Carried::broken(self.failed(&error)),
        }
    }

    /// The message's id there.
    async fn transfer(&mut self, engine: &Engine, in_hand: &InHand, draft: Draft) -> Result<String, String> {
        let local = draft.id;
        let origin = xfer::origin(&engine.node_id_text, local);
        let id = match handed_over(&draft.meta) {
            Some(id) => id.to_owned(),
            None => {
                let id = self.inject(engine, draft).await?;
                note(engine, in_hand, local, &id).await?;
                id
            }
        };
        let body = json!({"origin": origin}).to_string();
        self.ask(RELEASE, "application/json", body.into()).await?;
        Ok(id)
    }

    async fn inject(&mut self, engine: &Engine, mut draft: Draft) -> Result<String, String> {
        let (head, body) = (draft.head().into(), draft.body());
        let Draft { id, envelope, meta, .. } = draft;
        let node = *engine.settings.node_id.as_bytes();
        let parcel = Parcel { node, id, envelope, meta, head, body }.encode();
        let answer = self.ask(INJECT, "application/octet-stream", parcel.into()).await?;
        let id = answer["id"].as_str().and_then(|id| id.parse::<MessageId>().ok());
        id.map(|id| id.to_string()).ok_or_else(|| format!("{INJECT} answered {answer}: expected an id"))
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

/// Notes on disk, then in memory, that another node has the message in hand. When this is dropped half-way the disk may know and memory
/// not; then the first step is repeated and gives the same id.
async fn note(engine: &Engine, in_hand: &InHand, local: MessageId, id: &str) -> Result<(), String> {
    let gone = || "the message is not in hand any more".to_owned();
    let mut message = in_hand.copy_of(local).ok_or_else(gone)?;
    let before = Before::of(&message).ok_or_else(gone)?;
    if let Some(resident) = &mut message.resident {
        hand_over(&mut resident.meta, id);
    }
    engine.write_anew(&mut message, &before).await.map_err(|error| error.to_string())?;
    match in_hand.replace(message) {
        true => Ok(()),
        false => Err(gone()),
    }
}

const INJECT: &str = "/api/xfer/inject/v1";
const RELEASE: &str = "/api/xfer/release/v1";
/// How much of a refusal a record shows.
const SHOWN_CHARS_MAX: usize = 512;
