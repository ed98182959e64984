//! `/api/xfer/...`: what another node of the cluster asks, and what operators see of it.
//!
//! `inject/v1` keeps a message of another node, `release/v1` has it delivered from here, `drop/v1` forgets it; each may be said
//! twice. `arrivals/v1` lists those whose senders said nothing more: an operator whose other node is gone for good decides with
//! the same two. KumoMTA knows `inject/v1` alone, in a form of its own.

use crate::answer::{Failed, Json};
use axum::Extension;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, header};
use engine::{Arrival, Came, Engine, XferError};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The listener's own address.
#[derive(Clone, Copy)]
pub(crate) struct Via(pub SocketAddr);

/// A message that is kept.
#[derive(Serialize)]
pub(crate) struct Kept {
    /// Its id here.
    id: String,
}

/// Which message.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Which {
    /// The other node's id, a slash, and the message's id there.
    origin: String,
}

/// What became of it.
#[derive(Serialize)]
pub(crate) struct Answer {
    /// False when there was nothing to do any more.
    done: bool,
}

/// A message that waits for its sender.
#[derive(Serialize)]
pub(crate) struct Entry {
    origin: String,
    id: String,
    size: u32,
}

pub(crate) async fn inject(
    State(engine): State<Engine>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    Extension(Via(via)): Extension<Via>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Kept>, Failed> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let length = length.ok_or_else(|| Failed::bad("no Content-Length: expected the number of octets".to_owned()))?;
    if length > PARCEL_OCTETS_MAX {
        return Err(Failed::bad(format!("Content-Length is {length}: expected at most {PARCEL_OCTETS_MAX}")));
    }
    let room = engine.room_for_arrival(length)?;
    let octets: Bytes = to_bytes(body, PARCEL_OCTETS_MAX as usize).await.map_err(|e| Failed::bad(e.to_string()))?;
    let id = engine.keep_arrival(octets, from, via).await?;
    drop(room);
    Ok(Json(Kept { id: id.to_string() }))
}

pub(crate) async fn release(State(engine): State<Engine>, Json(which): Json<Which>) -> Result<Json<Answer>, Failed> {
    let came = engine.release_arrival(which.origin).await?;
    Ok(Json(Answer { done: came == Came::Done }))
}

pub(crate) async fn forget(State(engine): State<Engine>, Json(which): Json<Which>) -> Result<Json<Answer>, Failed> {
    let came = engine.drop_arrival(&which.origin)?;
    Ok(Json(Answer { done: came == Came::Done }))
}

pub(crate) async fn arrivals(State(engine): State<Engine>) -> Json<Vec<Entry>> {
    let entry = |Arrival { origin, id, size }| Entry { origin, id: id.to_string(), size };
    Json(engine.arrivals().into_iter().map(entry).collect())
}

impl From<XferError> for Failed {
    fn from(error: XferError) -> Failed {
        let text = error.to_string();
        match error {
            XferError::FromHere | XferError::Parcel(_) | XferError::Queue(_) => Failed::bad(text),
            XferError::Policy(_) => Failed::internal(text),
            XferError::Later(_) | XferError::Spool(_) => Failed::unavailable(text),
        }
    }
}

/// Largest message with all that belongs to it.
const PARCEL_OCTETS_MAX: u64 = 512 << 20;
