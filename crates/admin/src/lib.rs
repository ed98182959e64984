//! The HTTP face: metrics and liveness now, the administrative API as it grows.
//!
//! In: a bound socket and an engine; out: answers. Closed by default: an endpoint answers whom a rule lets ask, and by the
//! built-in rules what tells or changes anything is for peers in the listener's `trusted_hosts`, injection also for who proves who he is. Forwarding headers are not looked at: only the
//! socket's peer counts.

mod access;
mod answer;
mod browser;
mod bulk;
mod ceilings;
mod coding;
mod config_changes;
mod console;
mod credentials;
mod current;
mod daemon;
mod describe;
mod document;
mod endpoint;
mod epoch;
mod events;
mod forms;
mod front;
mod inject;
mod inspect;
mod instead_of;
mod lines;
mod liveness;
mod local;
mod machine;
mod metrics;
mod orders;
mod overview;
mod own_names;
mod pack;
mod placed;
mod pointer;
mod query;
mod queues;
mod ready;
mod request;
mod search;
mod secrets;
mod serve;
mod socket;
mod state_of_program;
mod trace;
mod unpack;
mod upkeep;
mod xfer;

pub use answer::{Failed, read as read_json, value as json_body};
use axum::middleware;
use config::HttpListener;
pub use current::{Answers, Change, Current};
pub use daemon::{Daemon, InHand, InMemory, daemon_endpoints, probe_endpoints};
pub use describe::{Input, Operation, Output, Takes};
pub use endpoint::Endpoint;
use engine::Engine;
pub use forms::{Content, JsonOf, Schemas, Way};
pub use front::Front;
pub use local::Local;
use net::tls::TlsError;
use socket::TIME_TO_ASK;
pub use socket::connections_max;
use std::time::Duration;
use thiserror::Error;
use tokio::net::TcpListener;

/// Why an HTTP listener cannot serve.
#[derive(Debug, Error)]
pub enum AdminError {
    /// Its certificate and key cannot be had or used.
    #[error("start_http_listener: {0}")]
    Tls(#[from] TlsError),
}

/// A listener ready to serve.
pub struct HttpService {
    current: Current,
    engine: Engine,
}

impl HttpService {
    /// Checks the options.
    ///
    /// # Errors
    /// As [`Front::new`].
    pub fn new(engine: Engine, options: &HttpListener) -> Result<HttpService, AdminError> {
        let front = Front::new(engine.gate().clone(), options, engine.hostname())?;
        let routes = front.guarded(TITLE, endpoints()).with_state(engine.clone());
        Ok(HttpService { current: Current::new(front, routes), engine })
    }

    /// What it is.
    pub fn current(&self) -> &Current {
        &self.current
    }

    /// Serves until it is `closed`; what was asked by then is answered. Once draining begins, that is "shutting down", and who has asked
    /// nothing when it is closed then is not waited for.
    pub async fn serve(self, socket: TcpListener, closed: impl Future<Output = ()> + Send + 'static) {
        let HttpService { current, engine } = self;
        let layer = middleware::from_fn_with_state(engine.clone(), liveness::while_serving);
        let patience = move || if engine.is_serving() { TIME_TO_ASK } else { Duration::ZERO };
        current.serve_patiently(socket, layer, closed, patience).await;
    }
}

/// What a listener answers, as OpenAPI 3.1.
pub fn openapi() -> serde_json::Value {
    let all: Vec<_> = endpoints().into_iter().chain(browser::endpoints()).collect();
    document::document(TITLE, &all)
}

/// All that a listener answers, but for what every listener has.
pub(crate) fn endpoints() -> Vec<Endpoint<Engine>> {
    let mut all = vec![
        Endpoint::at("/api/inject/v1", INJECTION).post(inject::inject, "Queues one text for many recipients.", &[409]),
        Endpoint::at("/api/inject/bulk/v1", INJECTION).post(
            bulk::inject,
            "Queues a stream of such requests, one a line.",
            &[],
        ),
    ];
    all.extend(probe_endpoints());
    all.extend(administration());
    all
}

/// What operators ask, and other nodes: the table of endpoints. A row has the path and its heading, and for each method the
/// handler, what it is for, and the refusals that do not follow from what it takes.
pub(crate) fn administration() -> Vec<Endpoint<Engine>> {
    let own = [orders_endpoints(), queue_endpoints(), transfer_endpoints(), state_endpoints()];
    own.into_iter().flatten().chain(daemon_endpoints()).collect()
}

fn orders_endpoints() -> Vec<Endpoint<Engine>> {
    vec![
        Endpoint::at("/api/admin/bounce/v1", ORDERS)
            .get(orders::bounces, "Bounces in force, and what they have done.", &[])
            .post(orders::bounce, "Ends messages as bounced, now and while it is in force.", &[409])
            .delete(orders::end_bounce, "Takes a bounce back.", &[404]),
        Endpoint::at("/api/admin/suspend/v1", ORDERS)
            .get(orders::suspensions, "Suspensions of scheduled queues in force.", &[])
            .post(orders::suspend, "Holds up scheduled queues.", &[409])
            .delete(orders::end_suspension, "Takes a suspension back.", &[404]),
        Endpoint::at("/api/admin/suspend-ready-q/v1", ORDERS)
            .get(orders::ready_suspensions, "Suspensions of ready queues in force.", &[])
            .post(orders::suspend_ready, "Holds up a ready queue.", &[409])
            .delete(orders::end_ready_suspension, "Takes a suspension of a ready queue back.", &[404]),
        Endpoint::at("/api/admin/hold/v1", ORDERS)
            .get(orders::holds, "Messages that are held.", &[])
            .post(orders::hold, "Holds messages until they are let go.", &[409])
            .delete(orders::end_hold, "Lets held messages go.", &[404]),
        Endpoint::at("/api/admin/flush/v1", ORDERS)
            .get(orders::flushes, "Flushes that are under way.", &[])
            .post(orders::flush, "Makes messages due at once.", &[409])
            .delete(orders::end_flush, "Ends a flush that is under way.", &[404]),
        Endpoint::at("/api/admin/rebind/v1", ORDERS)
            .get(orders::rebindings, "Rebindings that are under way.", &[])
            .post(orders::rebind, "Changes metadata of messages, and so their queues.", &[409])
            .delete(orders::end_rebinding, "Ends a rebinding that is under way.", &[404]),
        Endpoint::at("/api/admin/xfer/v1", ORDERS)
            .get(orders::xfers, "Transfers that are under way.", &[])
            .post(orders::xfer, "Transfers messages to another node.", &[409])
            .delete(orders::end_xfer, "Ends an order to transfer that is under way.", &[404]),
        Endpoint::at("/api/admin/xfer/cancel/v1", ORDERS).post(
            orders::cancel_xfer,
            "Takes messages back that are queued for another node.",
            &[404, 409],
        ),
    ]
}

fn queue_endpoints() -> Vec<Endpoint<Engine>> {
    vec![
        Endpoint::at("/api/admin/inspect-message/v1", QUEUES).get(
            inspect::message,
            "A message: where it is, and why it waits.",
            &[404],
        ),
        Endpoint::at("/api/admin/queues/v1", QUEUES).get(queues::queues, "Sums of queues, the largest first.", &[422]),
        Endpoint::at("/api/admin/search/v1", QUEUES).get(
            search::search,
            "Messages by what is known of them, those that have ended too.",
            &[422],
        ),
        Endpoint::at("/api/admin/timeline/v1", QUEUES).get(search::timeline, "All that happened to a message.", &[404]),
        Endpoint::at("/api/admin/inspect-sched-q/v1", QUEUES).get(
            inspect::scheduled,
            "The messages of a scheduled queue.",
            &[404],
        ),
        Endpoint::at("/api/admin/inspect-ready-q/v1", QUEUES).get(
            ready::inspect,
            "A ready queue: its state, its options, its connections.",
            &[404],
        ),
        Endpoint::at("/api/admin/ready-q-states/v1", QUEUES).get(
            ready::states,
            "What ready queues wait for with connections that they want.",
            &[],
        ),
        Endpoint::at("/api/admin/resolve-egress-path/v1", QUEUES).get(
            ready::resolve,
            "How mail to a domain would go out.",
            &[],
        ),
        Endpoint::at("/api/admin/abort-ready-q-conn/v1", QUEUES).post(
            ready::abort,
            "Ends a connection of a ready queue.",
            &[404],
        ),
    ]
}

fn transfer_endpoints() -> Vec<Endpoint<Engine>> {
    vec![
        Endpoint::at("/api/xfer/inject/v1", TRANSFERS).post(xfer::inject, "Keeps a message of another node.", &[409]),
        Endpoint::at("/api/xfer/release/v1", TRANSFERS).post(
            xfer::release,
            "Delivers a message that was kept.",
            &[409],
        ),
        Endpoint::at("/api/xfer/drop/v1", TRANSFERS).post(xfer::withdraw, "Gives up a message that was kept.", &[409]),
        Endpoint::at("/api/xfer/forget/v1", TRANSFERS).post(
            xfer::forget,
            "Forgets what became of messages: nobody will ask again.",
            &[],
        ),
        Endpoint::at("/api/xfer/arrivals/v1", TRANSFERS).get(
            xfer::arrivals,
            "Messages that are kept and whose nodes said nothing more.",
            &[],
        ),
    ]
}

fn state_endpoints() -> Vec<Endpoint<Engine>> {
    vec![
        Endpoint::at("/console", CONSOLE).get(console::page, "A page for browsers.", &[]),
        Endpoint::at("/console/style.css", CONSOLE).get(console::style, "Its style.", &[]),
        Endpoint::at("/console/{file}", CONSOLE).get(console::file, "What it is made of.", &[404]),
        Endpoint::at("/api/admin/overview/v1", STATE).get(overview::overview, "Rates, counts and times in short.", &[]),
        Endpoint::at("/api/admin/config-changes/v1", STATE).get(
            config_changes::changes,
            "Configuration epochs, and how files differ.",
            &[],
        ),
        Endpoint::at("/api/admin/events/v1", STATE).get(events::events, "Log records as they come.", &[422]),
        Endpoint::at("/api/admin/trace-smtp-server/v1", STATE).get(
            trace::server,
            "A websocket: sessions of clients as they happen.",
            &[403],
        ),
        Endpoint::at("/api/admin/trace-smtp-client/v1", STATE).get(
            trace::client,
            "A websocket: sessions with other servers as they happen.",
            &[403],
        ),
        Endpoint::at("/api/admin/spool-compact/v1", UPKEEP).post(
            upkeep::compact,
            "Does nothing: spools compact themselves.",
            &[404],
        ),
    ]
}

/// Headings of the document.
const INJECTION: &str = "Injection";
const ORDERS: &str = "Orders";
const QUEUES: &str = "Queues and messages";
const TRANSFERS: &str = "Transfers between nodes";
const STATE: &str = "State";
const UPKEEP: &str = "Upkeep";
const CONSOLE: &str = "Console";

/// What the program calls itself.
const TITLE: &str = "Postrider";
