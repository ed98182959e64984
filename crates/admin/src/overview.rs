//! `GET /api/admin/overview/v1`: the server at one look. Costs the same however much is queued; rates are the difference of two answers.

use crate::answer::{Json, civil};
use crate::forms::Moment;
use axum::extract::State;
use engine::{Engine, EpochNote, Latency, Overview, Refusal};
use schemars::JsonSchema;
use serde::Serialize;
use time::OffsetDateTime;

/// The answer.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Overview")]
pub(crate) struct Answer {
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "Moment")]
    now: OffsetDateTime,
    hostname: String,
    node_id: String,
    version: &'static str,
    uptime_seconds: u64,
    /// Null while mail is taken; else the reason, as `check-liveness` words it.
    trouble: Option<String>,
    totals: Totals,
    messages: usize,
    scheduled_queues: usize,
    ready_queues: usize,
    orders: usize,
    connections: Connections,
    latency: Latencies,
    memory: Memory,
    spool: Spool,
    epochs: Vec<Epoch>,
    last_replies: Vec<Reply>,
}

/// Since the start: messages received; recipients otherwise.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "OverviewTotals")]
struct Totals {
    received: u64,
    delivered: u64,
    transient: u64,
    failed: u64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "OverviewConnections")]
struct Connections {
    inbound: u64,
    outbound: u64,
}

/// Seconds.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "OverviewLatencies")]
struct Latencies {
    reception: Histogram,
    delivery: Histogram,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "OverviewHistogram")]
struct Histogram {
    count: u64,
    /// Upper bound, and how many took at most so long.
    buckets: Vec<(f64, u64)>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "OverviewMemory")]
struct Memory {
    used_bytes: u64,
    /// Null where there is none.
    limit_bytes: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "OverviewSpool")]
struct Spool {
    messages: u64,
    bytes_on_disk: u64,
    recovering: bool,
    refuses: bool,
    volumes: Vec<Volume>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "OverviewVolume")]
struct Volume {
    name: String,
    free_bytes: u64,
    free_percent: u64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "OverviewEpoch")]
struct Epoch {
    /// Null where none began.
    number: Option<u64>,
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "Moment")]
    at: OffsetDateTime,
    origin: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    needs_restart: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// What a destination refused.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LastReply")]
pub(crate) struct Reply {
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "Moment")]
    at: OffsetDateTime,
    permanent: bool,
    queue: String,
    ready_queue: String,
    code: u16,
    text: String,
    /// How often this queue got it, as far as that is remembered.
    times: u64,
}

pub(crate) async fn overview(State(engine): State<Engine>) -> Json<Answer> {
    let seen = engine.overview();
    let trouble = match engine.is_serving() {
        true => engine.pressure().reason().map(|reason| reason.to_string()),
        false => Some("shutting down".to_owned()),
    };
    let Overview { sizes, outcomes: [delivered, transient, failed], memory: [used_bytes, limit_bytes], spool, .. } =
        seen;
    let volumes = seen.volumes.into_iter();
    let volumes = volumes.map(|(name, free_bytes, free_percent)| Volume { name, free_bytes, free_percent });
    Json(Answer {
        now: civil(seen.now.wall),
        hostname: engine.hostname().to_owned(),
        node_id: engine.node_id().to_owned(),
        version: env!("CARGO_PKG_VERSION"),
        uptime_seconds: engine.uptime().as_secs(),
        trouble,
        totals: Totals { received: seen.received, delivered, transient, failed },
        messages: sizes.messages,
        scheduled_queues: sizes.scheduled_queues,
        ready_queues: sizes.ready_queues,
        orders: sizes.orders,
        connections: Connections { inbound: seen.sessions, outbound: seen.connections },
        latency: Latencies { reception: seen.reception.into(), delivery: seen.delivery.into() },
        memory: Memory { used_bytes, limit_bytes: (limit_bytes > 0).then_some(limit_bytes) },
        spool: Spool {
            messages: spool.log.live_messages,
            bytes_on_disk: spool.log.disk_octets,
            recovering: spool.log.is_recovering,
            refuses: spool.stopped,
            volumes: volumes.collect(),
        },
        epochs: seen.epochs.into_iter().map(Epoch::from).collect(),
        last_replies: seen.refusals.iter().map(|refusal| Reply::of(refusal)).collect(),
    })
}

impl Reply {
    pub fn of(refusal: &Refusal) -> Reply {
        Reply {
            at: civil(refusal.at),
            permanent: refusal.is_permanent,
            queue: refusal.queue.to_string(),
            ready_queue: refusal.ready.to_string(),
            code: refusal.code,
            text: refusal.text.to_string(),
            times: refusal.times,
        }
    }
}

impl From<Latency> for Histogram {
    fn from(Latency { buckets, count }: Latency) -> Histogram {
        Histogram { count, buckets }
    }
}

impl From<EpochNote> for Epoch {
    fn from(EpochNote { number, at, origin, needs_restart, error, .. }: EpochNote) -> Epoch {
        Epoch { number, at: civil(at), origin, needs_restart, error }
    }
}
