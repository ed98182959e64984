//! The mail path at work: drives sessions, queues, spool and policy.
//!
//! [`Engine`] wires what the deciders below need to the world: `ingress` takes mail in (one
//! door, `accept`, for every kind of reception), `egress` takes it out, `settle` ends every
//! attempt, `drain` stops all of it without losing a step. In: bound sockets, a policy, an open
//! spool. Out: mail, log records, metrics. All decisions are made by the sans-IO crates; what
//! is here awaits, locks for a moment, and carries out.

mod backlog;
mod clock;
mod deferred;
mod diagnostic;
mod dispositions;
mod domain_reports;
mod drain;
mod egress;
mod endings;
mod engine;
mod enumerated;
mod epoch;
mod epoch_notes;
mod event_watch;
mod gate;
mod held_records;
mod hook_backlog;
mod ingress;
mod injection;
mod inspect;
mod inspect_ready;
mod load;
mod log_filters;
mod log_hooks;
mod memory;
mod orders;
mod otlp;
mod overview;
pub mod pressure;
mod program;
mod queue_census;
mod readiness;
mod rebind;
mod recorders;
mod records;
mod recovery;
mod refusals;
mod reports;
mod requeue;
mod rewrite_status;
mod scrape;
mod scrape_counts;
mod search;
mod selection;
mod settle;
mod sockets;
mod standing;
mod survey;
mod tasks;
mod threads;
mod underway;
mod vitals;
mod watching;
mod workload;
mod xfer;

pub use crate::clock::Clock;
pub use crate::drain::Phase;
pub use crate::egress::dispatcher::{DispatcherPhase, DispatcherView};
pub use crate::egress::resolve::ResolvedPath;
pub use crate::egress::service::protocol_of;
pub use crate::engine::{Engine, EngineParts, EngineSettings, RulesReader};
pub use crate::epoch_notes::{Change, ChangedLine, EpochNote, FileChange};
pub use crate::gate::Gate;
pub use crate::ingress::listener::{EsmtpService, ServiceError};
pub use crate::injection::{
    BulkAnswer, BulkError, BulkInput, Door, KeyedOutcome, NotInjected, ReadLine, RequestKey, Requester,
};
pub use crate::inspect::{Inspected, State};
pub use crate::inspect_ready::{InspectedReady, NotEnded};
pub use crate::log_hooks::RecordHook;
pub use crate::orders::{GivenOrder, InsteadOf, Lasts, NewOrder, OrderError};
pub use crate::overview::{Latency, Overview};
pub use crate::program::{Administration, Asked};
pub use crate::recovery::RecoveryState;
pub use crate::refusals::Refusal;
pub use crate::scrape::metric_metadata;
pub use crate::search::{Among, FoundMessage, InQueues, Page, SearchCursor, SearchError, Sought};
pub use crate::sockets::{Sockets, SocketsChange};
pub use crate::survey::{By, Group, Sums, Survey, SurveyPlace, SurveyQuestion};
pub use crate::threads::Threads;
pub use crate::vitals::{Scripts, Vitals};
pub use crate::watching::{Side, WATCHERS_MAX, Watch, Watching};
pub use crate::workload::{LONGEST_MAX, Looking, Workload};
pub use crate::xfer::{Arrival, OtherNode, XferError};
pub use diagnostic::Diagnostics;
