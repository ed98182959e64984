//! What the queue asks of the world. Each effect is carried out once, in order, outside the
//! queue's lock; its answer comes back through the method named here.

use crate::core::{ConnKey, QueueKey};
use crate::ending::EndingKind;
use crate::explain::Wait;
use crate::grants::ClusterRates;
use crate::ready::Leg;
use crate::shared::LeaseSet;
use clock::Instant;
use config::QueueConfig;
use message::TlsDemand;
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
        /// What the senders of its messages demand.
        tls: TlsDemand,
        /// Its configuration.
        config: Arc<QueueConfig>,
    },
    /// Open a connection; it then calls `QueueCore::take` and ends with
    /// `QueueCore::connection_ended`. One with leases begins with `QueueCore::leased`, `QueueCore::lease_refused` or
    /// `QueueCore::rate_refused`.
    Open(Opening),
    /// Ask whoever counts for the cluster for admissions; answer with `QueueCore::granted`, or `QueueCore::set_away` when
    /// nobody does.
    Grant {
        /// Of all these rates at once.
        of: ClusterRates,
        /// At most so many.
        count: u64,
        /// Who is refused comes again, and wants a place in line; else a refusal is all he needs.
        waits: bool,
        /// Names the question.
        asked_at: Instant,
    },
    /// An idle connection may take again.
    Wake(ConnKey),
    /// Messages end without a connection: one more settler takes those of this kind with `QueueCore::take_ending`, settling
    /// each, until there is none.
    Settle(EndingKind),
    /// Messages stand before their ready queues and policy wants to be asked about them: one more asker takes them with
    /// `QueueCore::take_asking`, asking about each, until there is none.
    Ask,
    /// Messages must be spooled that are in memory only: the spooler takes them with `QueueCore::take_unspooled`, until
    /// there is none.
    Spool,
    /// Messages waited for something that nobody would have ended; the look at everything, once a minute, went on with
    /// them. A fault of this program: tell the operator.
    Stalled {
        /// The scheduled or ready queue.
        name: Arc<str>,
        /// What they seemed to wait for.
        wait: Wait,
    },
    /// Orders ended by themselves: what is remembered of them for the next start may go.
    OrdersEnded,
    /// A ready queue of this name is forgotten; so may be what is counted for it.
    Forgotten(Arc<str>),
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
    /// Leases of the cluster that it holds while it lives.
    pub leases: LeaseSet,
    /// They are to be asked for first. Else they are of this node's share: whoever counts for the cluster is told if he is there.
    pub asks: bool,
    /// Rates of the cluster that are asked for with the leases: all of it is had, or nothing.
    pub rates: Option<ClusterRates>,
    /// Its ready queue has no other connection.
    pub is_first: bool,
}
