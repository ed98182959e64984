//! What the queue asks of the world. Each effect is carried out once, in order, outside the
//! queue's lock; its answer comes back through the method named here.

use crate::core::{ConnKey, QueueKey, Queued};
use crate::ready::Leg;
use crate::settle::Verdict;
use config::QueueConfig;
use message::Message;
use smtp_wire::Reply;
use std::sync::Arc;

/// One thing to do.
#[derive(Debug)]
pub enum Effect {
    /// Ask policy for the queue's configuration; answer with `QueueCore::configured` or
    /// `QueueCore::unroutable`.
    Configure {
        /// Which queue.
        queue: QueueKey,
        /// Its full name.
        name: Arc<str>,
    },
    /// Find sources, site and path; answer with `QueueCore::routed` or `QueueCore::unroutable`.
    Route {
        /// Which queue.
        queue: QueueKey,
        /// Its full name.
        name: Arc<str>,
        /// Its configuration.
        config: Arc<QueueConfig>,
    },
    /// Open a connection; it then calls `QueueCore::take` and ends with
    /// `QueueCore::connection_ended`.
    Open(Opening),
    /// An idle connection may take again.
    Wake(ConnKey),
    /// A message that could not even be tried: settle all its pending recipients so.
    Undeliverable {
        /// The message, owned again by whoever carries this out.
        queued: Box<Queued>,
        /// Permanent: bounce. Transient: a counted retry.
        verdict: Verdict,
        /// What to log.
        reply: Reply,
        /// Ready queue and leg it was to take; `None` when it never had a route.
        route: Option<(Arc<str>, Leg)>,
    },
    /// A ready queue of this name is forgotten; so may be what is counted for it.
    Forgotten(Arc<str>),
    /// A message older than its queue's `max_age`.
    Expired(Box<Queued>),
}

impl Effect {
    /// The message it carries, if it carries one.
    pub fn message(&self) -> Option<&Message> {
        match self {
            Effect::Undeliverable { queued, .. } | Effect::Expired(queued) => Some(&queued.message),
            Effect::Configure { .. } | Effect::Route { .. } => None,
            Effect::Open(_) | Effect::Wake(_) | Effect::Forgotten(_) => None,
        }
    }
}

/// A connection to be opened.
#[derive(Clone, Debug)]
pub struct Opening {
    /// How the connection names itself to the queue.
    pub conn: ConnKey,
    /// Name of the ready queue: `source->site@protocol`.
    pub ready_name: Arc<str>,
    /// Source, path and destination as configured now.
    pub leg: Leg,
}
