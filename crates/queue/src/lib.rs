//! Queues and their scheduling: where a message waits, for what, and what becomes of it.
//!
//! A message is admitted to a [`ScheduledQueue`](scheduled) by name, waits there for its due
//! time, is promoted to a [`ReadyQueue`](ready) of one source and site, is taken from there by
//! a connection, and comes back with outcomes to [`settle`]. [`QueueCore`] owns all of it and
//! decides everything; it does nothing: what must be done outside (ask policy, resolve, open a
//! connection, log) leaves as [`Effect`]s, in order. `now` is an argument and randomness a
//! seed, so a week of retries runs in milliseconds under test.
//!
//! Deliberately absent: DNS and MX (route), SMTP (smtp-client), disk (spool), I/O of any kind.

mod asking;
mod binding;
mod census;
mod cluster;
mod connections;
mod core;
mod domains;
mod effect;
mod ending;
mod ends;
mod epoch;
mod explain;
pub mod fate;
mod feedback;
mod grants;
mod inspect;
pub mod keyed;
mod line;
mod marks;
mod messages;
pub mod name;
mod order;
mod orders;
pub mod pool;
mod promote;
pub mod ready;
mod refused;
pub mod retry;
pub mod schedule;
pub mod scheduled;
mod search;
pub mod settle;
mod shared;
mod sources;
mod survey;
mod suspensions;
mod sweep;
pub mod throttle;
mod volatile;
mod walk;
mod why;
pub mod xfer;

pub use crate::census::{Counted, Footprint, FullOf, Place};
pub use crate::core::{ConnKey, Counts, QueueCore, QueueKey, QueueSettings, Queued, ReadyKey, Take};
pub use binding::{Binding, SHARERS_MAX, Sharers};
pub use effect::{Effect, Opening};
pub use ending::{Ending, EndingKind, Failure};
pub use epoch::Epoch;
pub use explain::{EndOf, Listed, Wait};
pub use feedback::Bearing;
pub use grants::{BATCH_MAX, ClusterRates, GRANT_LIFE};
pub use inspect::{Limited, Limits, ReadyView, ScheduledView};
pub use name::{NULL_QUEUE, NameParts, QueueName, QueueNameError};
pub use order::{Action, Change, Criteria, Order, OrderId, Rebinding};
pub use orders::{OrderCounts, OrderState};
pub use ready::{Destination, Leg, Route, RouteFailure};
pub use search::{Search, Sighting, Sightings};
pub use settle::{Entry, Next, Outcome, Settlement, Verdict};
pub use shared::LeaseSet;
pub use sources::SourceFault;
pub use survey::{Sizes, SurveyedQueue, SurveyedReady};
pub use volatile::seal;
pub use why::Why;
