//! `/api/xfer/...`: what another node of the cluster asks, and what operators see of it.
//!
//! `inject/v1` keeps a message of another node, `release/v1` has it delivered from here, `drop/v1` gives it up; each may be said
//! twice, until `forget/v1`. `arrivals/v1` lists those whose senders said nothing more: an operator whose other node is gone for good decides with
//! the same two. KumoMTA knows `inject/v1` alone, in a form of its own.

use crate::access::{Proven, Via};
use crate::answer::{BODY_TIME_MAX, Failed, Json, civil};
use crate::describe::Takes;
use crate::forms::{Moment, Octets};
use crate::socket::Peer;
use axum::Extension;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, header};
use engine::{Arrival, Engine, OtherNode, XferError};
use queue::fate::ArrivalFate;
use queue::xfer::{ArrivalState, Kept};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// Which message.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Arrival")]
pub(crate) struct Which {
    /// As `inject/v1` and `arrivals/v1` name it.
    origin: String,
    /// The node that is meant; any when it is absent.
    node: Option<String>,
}

/// What became of it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ArrivalSettled")]
pub(crate) struct Answer {
    /// Now or before: `released` and delivered from here, `dropped` and forgotten here, or `unknown`.
    #[schemars(with = "String")]
    state: ArrivalState,
    /// It is as was asked.
    done: bool,
}

/// Which messages.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Arrivals")]
pub(crate) struct WhichOnes {
    /// As `inject/v1` and `arrivals/v1` named them. Those that wait for their sender yet stay.
    origins: Vec<String>,
}

/// They are forgotten.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ArrivalsForgotten")]
pub(crate) struct Forgotten {}

/// A message that waits for its sender.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "WaitingArrival")]
pub(crate) struct Entry {
    origin: String,
    id: String,
    /// When it came.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "Moment")]
    since: OffsetDateTime,
    size: u32,
}

/// How this node knows a message that it keeps.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "KeptArrival")]
pub(crate) struct Held {
    /// Its id here.
    id: String,
    /// This node.
    node: String,
    /// The origin under which it is kept.
    origin: String,
}

pub(crate) async fn inject(
    _: Takes<Octets>,
    State(engine): State<Engine>,
    ConnectInfo(Peer { address: from, .. }): ConnectInfo<Peer>,
    Extension(Via(via)): Extension<Via>,
    Extension(Proven(auth)): Extension<Proven>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Held>, Failed> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let length = length.ok_or_else(|| {
        Failed::bad(
            "no Content-Length, or a Content-Encoding: expected the number of octets, not compressed".to_owned(),
        )
    })?;
    if length > PARCEL_OCTETS_MAX {
        return Err(Failed::bad(format!("Content-Length is {length}: expected at most {PARCEL_OCTETS_MAX}")));
    }
    let room = engine.room_for_arrival(length)?;
    let reading = tokio::time::timeout(BODY_TIME_MAX, to_bytes(body, PARCEL_OCTETS_MAX as usize)).await;
    let octets = reading.map_err(|_| Failed::bad(format!("the content did not come within {BODY_TIME_MAX:?}")))?;
    let octets: Bytes = octets.map_err(|error| Failed::bad(error.to_string()))?;
    let Kept { id, node, origin } = engine.keep_arrival(octets, room, OtherNode { address: from, via, auth }).await?;
    Ok(Json(Held { id, node, origin }))
}

pub(crate) async fn release(State(engine): State<Engine>, Json(which): Json<Which>) -> Result<Json<Answer>, Failed> {
    let state = state(engine.release_arrival(which.origin, which.node.as_deref()).await?);
    Ok(Json(Answer { state, done: state == ArrivalState::Released }))
}

pub(crate) async fn withdraw(State(engine): State<Engine>, Json(which): Json<Which>) -> Result<Json<Answer>, Failed> {
    let state = state(engine.drop_arrival(which.origin, which.node.as_deref()).await?);
    Ok(Json(Answer { state, done: state != ArrivalState::Released }))
}

pub(crate) async fn forget(
    State(engine): State<Engine>,
    Json(WhichOnes { origins }): Json<WhichOnes>,
) -> Result<Json<Forgotten>, Failed> {
    engine.forget_arrivals(&origins)?;
    Ok(Json(Forgotten {}))
}

fn state(fate: Option<ArrivalFate>) -> ArrivalState {
    match fate {
        Some(ArrivalFate::Released(_)) => ArrivalState::Released,
        Some(ArrivalFate::Dropped) => ArrivalState::Dropped,
        None => ArrivalState::Unknown,
    }
}

pub(crate) async fn arrivals(State(engine): State<Engine>) -> Json<Vec<Entry>> {
    let entry = |Arrival { origin, id, since, size }| Entry { origin, id: id.to_string(), since: civil(since), size };
    Json(engine.arrivals().into_iter().map(entry).collect())
}

impl From<XferError> for Failed {
    fn from(error: XferError) -> Failed {
        let text = error.to_string();
        match error {
            XferError::FromHere | XferError::Parcel(_) | XferError::Queue(_) => Failed::bad(text),
            XferError::Policy(_) => Failed::internal(text),
            XferError::OtherNode(_) => Failed::conflict(text),
            XferError::Later(_) | XferError::Spool(_) => Failed::unavailable(text),
        }
    }
}

/// Largest message with all that belongs to it.
const PARCEL_OCTETS_MAX: u64 = 512 << 20;
