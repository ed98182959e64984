//! Mail asked for by requests: over HTTP, by `kumo.api.inject`, and what of it is made later.
//!
//! In: a request, and who asks. Out: how many messages are queued and who has none. Each goes through
//! `http_message_generated` and the one door for new mail; those of a request are committed together, some hundred at a time,
//! so that what is held does not grow with the request. A request that cannot be taken now leaves nothing behind.

mod batch;
mod bulk;
mod carriers;
mod keyed;
mod keys;
mod messages;
mod rate;

pub use bulk::{BulkAnswer, BulkError, BulkInput, ReadLine};
pub(crate) use bulk::{STREAMS_MAX, slots};
pub(crate) use carriers::GENERATOR;
pub(crate) use keyed::Claimed;
pub use keyed::KeyedOutcome;
pub use keys::{Door, RequestKey};
pub(crate) use keys::{Hand, Keys};
pub(crate) use rate::InjectionRate;

use crate::engine::Engine;
use crate::injection::messages::Commits;
use crate::pressure::Room;
use crate::recovery::RecoveryState;
use injection::{Injection, InjectionError, Outcome};
use message::Meta;
use policy::AuthInfo;
use std::net::IpAddr;
use thiserror::Error;
use tokio::sync::oneshot;

/// Where a request came from.
#[derive(Clone, Debug, Default)]
pub struct Requester {
    /// Who it is.
    pub auth: AuthInfo,
    /// The listener's address, if it came over one; none where policy asks.
    pub via: Option<IpAddr>,
    /// The listener's name; this machine's when absent.
    pub hostname: Option<String>,
}

/// Why nothing of a request was taken.
#[derive(Debug, Error)]
pub enum NotInjected {
    /// It cannot be carried out for anybody.
    #[error("{0}")]
    Wrong(#[from] InjectionError),
    /// Not now.
    #[error("{0}")]
    Later(String),
    /// It was cut short.
    #[error("the request was cut short: some of its messages may be queued")]
    CutShort,
    /// Its key belongs to another request.
    #[error("the idempotency key was used for another request: expected the same request, or another key")]
    Conflict,
    /// It was carried out before.
    #[error(
        "the request of this idempotency key was carried out, and its answer does not read any more: do not send it again"
    )]
    AnswerLost,
}

impl Engine {
    /// Makes the messages of a request and takes responsibility for them. Runs to its end, whether or not who asked still
    /// listens.
    ///
    /// # Errors
    /// [`NotInjected`]; nothing was taken then, but of what was cut short.
    pub async fn inject_request(&self, injection: Injection, from: Requester) -> Result<Outcome, NotInjected> {
        self.takes_requests().map_err(NotInjected::Later)?;
        self.wait_for_turn(&injection).await?;
        self.metrics.received_over_http.inc_by(injection.recipients.len() as u64);
        self.carry_out_request(injection, from).await
    }

    /// The same for policy, which has limits of its own.
    pub(crate) async fn carry_out_request(
        &self,
        injection: Injection,
        from: Requester,
    ) -> Result<Outcome, NotInjected> {
        self.takes_requests().map_err(NotInjected::Later)?;
        let (engine, (tell, told)) = (self.clone(), oneshot::channel());
        self.sessions.spawn(async move {
            let outcome = match injection.deferred_generation {
                true => engine.inject_later(injection, &from).await,
                false => engine.inject_now(&injection, &from, Commits::Chunks).await,
            };
            // Nobody listens any more: what was done stays done.
            let _: Result<(), _> = tell.send(outcome);
        });
        told.await.unwrap_or(Err(NotInjected::CutShort))
    }

    /// Room in memory for a request of so many octets; asked for before it is read, and kept until it is there.
    ///
    /// # Errors
    /// Why requests are not taken now.
    pub fn room_for_request(&self, octets: u64) -> Result<Room, NotInjected> {
        self.takes_requests().and_then(|()| self.pressure.room_or_reason(octets)).map_err(NotInjected::Later)
    }

    /// Waits as mail does that comes by requests, or as that of policy's making does where it is.
    async fn wait_for_logs_of(&self, from: &Requester) {
        match from.via {
            Some(_) => self.wait_for_logs().await,
            None => self.wait_for_records().await,
        }
    }

    /// Why requests are not taken now.
    pub(crate) fn takes_requests(&self) -> Result<(), String> {
        if !self.is_serving() {
            return Err("shutting down".to_owned());
        }
        if let RecoveryState::Failed(why) = self.recovery_state() {
            return Err(format!("spool unhealthy: {why}"));
        }
        self.pressure.reason().map_or(Ok(()), Err)
    }

    /// What every message of a request remembers of it (KumoMTA behaviour).
    fn request_meta(&self, from: &Requester) -> Meta {
        let mut meta = Meta::new();
        meta.set("http_auth", from.auth.summary());
        meta.set("reception_protocol", "HTTP");
        if let Some(peer) = from.auth.peer_address {
            meta.set("received_from", peer.to_string());
        }
        if let Some(via) = from.via {
            meta.set("received_via", via.to_string());
        }
        meta.set("hostname", from.hostname.as_deref().unwrap_or(&self.settings.hostname));
        meta
    }
}
