//! Policy as a trait: every decision that belongs to the operator, one method an event.
//!
//! The engine asks; `lua` answers from a KumoMTA policy script, [`StaticPolicy`] from the
//! embedded defaults, tests from what they like. Plain values in and out: a [`Draft`] is lent
//! by value and comes back. [`Interest`] tells which events a policy handles at all, so that
//! an unhandled event costs a bit test.
//!
//! Deliberately absent: Lua, sockets, and any decision of the program's own.

mod conn_meta;
mod counts;
mod courier;
mod error;
mod interest;
mod program;
mod startup;
mod static_policy;

pub use access::{AccessControlList, AuthInfo, Disposition, Identity};
pub use conn_meta::ConnMeta;
pub use counts::{CacheCounts, PolicyCounts, SigningTimes, StateCounts};
pub use courier::Courier;
pub use error::{Disconnect, PolicyError};
pub use interest::{Event, Interest, Interests};
pub use program::{Administered, Injected, Judged, Observer, Program, Reported, Requested};
pub use startup::Startup;
pub use static_policy::StaticPolicy;

use config::{EgressPath, EgressPool, EgressSource, ListenerDomain, ListenerOverlay, QueueConfig};
use core::future::Future;
use core::net::SocketAddr;
use core::pin::Pin;
use core::time::Duration;
use message::Draft;
use shaping::Shaping;
use smtp_wire::{Mailbox, ReversePath};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An answer that may have to wait for something outside.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, PolicyError>> + Send + 'a>>;

/// The parts of a scheduled queue's name, as KumoMTA hands them to events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueParts {
    /// Recipient domain.
    pub domain: String,
    /// `tenant`.
    pub tenant: Option<String>,
    /// `campaign`.
    pub campaign: Option<String>,
    /// `routing_domain`.
    pub routing_domain: Option<String>,
}

/// Identities that AUTH established; `None` from an event means "invalid credentials".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthIdentity {
    /// Whom the client may act as.
    pub authz_id: String,
    /// Who it is.
    pub authn_id: String,
    /// All that is known of it.
    pub info: AuthInfo,
}

/// A transaction's message, and whom of its recipients the messages that are made of it go to: `None` leaves that to the listener's
/// `batch_handling`.
pub type Split = (Draft, Option<Vec<Vec<Mailbox>>>);

/// A reply as policy wants it; what is `None` stays as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rewritten {
    /// The status, from 200 to 599.
    pub status: Option<u16>,
    /// The text, its lines parted by `\n`.
    pub response: Option<String>,
}

/// How a message comes to wait again (`requeue_message`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requeue {
    /// The reply that made it so, in one line.
    pub response: String,
    /// Why it waits, by KumoMTA's names of insert contexts.
    pub context: Vec<&'static str>,
    /// The attempt counts.
    pub increment_attempts: bool,
    /// How long it is to wait.
    pub delay: Option<Duration>,
}

/// The operator's decisions. Every method's default is what KumoMTA does without a handler.
pub trait Policy: Send + Sync {
    /// Which events are handled; may change with [`Policy::reload`] only.
    fn interest(&self) -> Interest;

    /// Ends what nobody has used for long; memory is short.
    fn end_idle(&self) {}

    /// Reads again what it reads from files, as a new configuration epoch begins. What is read is tried out first, and `check` may
    /// refuse what is to be started and which events are handled. On an error nothing has changed.
    fn reload(&self, _check: &mut Check<'_>) -> Result<(), PolicyError> {
        Ok(())
    }

    /// This policy as it stands, whatever is read again later: for what was begun under it. `None` when it never changes.
    fn as_it_stands(&self) -> Option<Arc<dyn Policy>> {
        None
    }

    /// Takes what scripts may ask of the program; the first counts.
    fn serves_in(&self, _program: Box<dyn Program>) {}

    /// How often a handler found the store of spare interpreters locked.
    fn waits_for_states(&self) -> u64 {
        0
    }

    /// What it counts of itself.
    fn counts(&self) -> PolicyCounts {
        PolicyCounts::default()
    }

    /// A client connected; an error refuses it before the banner.
    fn smtp_server_connection_accepted(&self, _conn: ConnMeta) -> Answer<'_, ()> {
        ready(())
    }

    /// EHLO or HELO; a list replaces the extensions announced.
    fn smtp_server_ehlo(
        &self,
        _domain: String,
        _conn: ConnMeta,
        _extensions: Option<Vec<String>>,
    ) -> Answer<'_, Option<Vec<String>>> {
        ready(None)
    }

    /// AUTH PLAIN or LOGIN; `None` is "invalid".
    fn smtp_server_auth_plain(
        &self,
        _authz: String,
        _authc: String,
        _password: String,
        _conn: ConnMeta,
    ) -> Answer<'_, Option<AuthIdentity>> {
        ready(None)
    }

    /// MAIL FROM.
    fn smtp_server_mail_from(&self, _sender: ReversePath, _conn: ConnMeta) -> Answer<'_, ()> {
        ready(())
    }

    /// RCPT TO, once relaying is allowed.
    fn smtp_server_rcpt_to(&self, _recipient: Mailbox, _conn: ConnMeta) -> Answer<'_, ()> {
        ready(())
    }

    /// The whole transaction before it is split.
    fn smtp_server_data(&self, draft: Draft, _conn: ConnMeta) -> Answer<'_, Draft> {
        ready(draft)
    }

    /// One message of the transaction, with its Received header.
    fn smtp_server_message_received(&self, draft: Draft, _conn: ConnMeta) -> Answer<'_, Draft> {
        ready(draft)
    }

    /// What a session runs by instead of what its listener says, in parts. Asked before the banner, and again when a proxy says for
    /// whom it speaks; an error ends the session.
    fn smtp_server_get_dynamic_parameters(
        &self,
        _listener: SocketAddr,
        _conn: ConnMeta,
    ) -> Answer<'_, Option<ListenerOverlay>> {
        ready(None)
    }

    /// Whom of a transaction's recipients its messages go to.
    fn smtp_server_split_transaction(&self, draft: Draft, _conn: ConnMeta) -> Answer<'_, Split> {
        ready((draft, None))
    }

    /// One message of a listener with `deferred_queue`, some time after its 250: in place of
    /// [`Policy::smtp_server_message_received`].
    fn smtp_server_message_deferred_inject(&self, draft: Draft, _conn: ConnMeta) -> Answer<'_, Draft> {
        ready(draft)
    }

    /// A reply is about to be written; `command` is the line it answers.
    fn smtp_server_rewrite_response(
        &self,
        _status: u16,
        _response: String,
        _command: Option<String>,
        _conn: ConnMeta,
    ) -> Answer<'_, Rewritten> {
        ready(Rewritten::default())
    }

    /// What the listener does for this domain; `None`: nothing special.
    fn get_listener_domain(
        &self,
        _domain: String,
        _listener: SocketAddr,
        _conn: ConnMeta,
    ) -> Answer<'_, Option<ListenerDomain>> {
        ready(None)
    }

    /// Configuration of a scheduled queue.
    fn get_queue_config(&self, _parts: QueueParts) -> Answer<'_, QueueConfig> {
        ready(QueueConfig::default())
    }

    /// Sources of a pool. Never asked for `unspecified`.
    fn get_egress_pool(&self, name: String) -> Answer<'_, EgressPool> {
        unhandled("get_egress_pool", name)
    }

    /// One source. Never asked for `unspecified`.
    fn get_egress_source(&self, name: String) -> Answer<'_, EgressSource> {
        unhandled("get_egress_source", name)
    }

    /// Limits and options of a path.
    fn get_egress_path_config(
        &self,
        _routing_domain: String,
        _egress_source: String,
        _site_name: String,
    ) -> Answer<'_, EgressPath> {
        ready(EgressPath::default())
    }

    /// A message is about to move from its scheduled to a ready queue; a due time ahead sends it back. Nothing else that is
    /// done to it counts.
    fn throttle_insert_ready_queue(&self, draft: Draft) -> Answer<'_, Draft> {
        ready(draft)
    }

    /// A message is about to wait for another attempt. Metadata that name another queue move it there at once; a rejection
    /// bounces it.
    fn requeue_message(&self, draft: Draft, _about: Requeue) -> Answer<'_, Draft> {
        ready(draft)
    }

    /// An operator moves a message and left the how to policy; `data` is his.
    fn rebind_message(&self, draft: Draft, _data: BTreeMap<String, String>) -> Answer<'_, Draft> {
        ready(draft)
    }

    /// Another node hands a message over.
    fn xfer_message_received(&self, draft: Draft, _auth: AuthInfo) -> Answer<'_, Draft> {
        ready(draft)
    }

    /// A message that a request over HTTP, or `kumo.api.inject`, asked for; an error fails its recipient.
    fn http_message_generated(&self, draft: Draft, _auth: AuthInfo) -> Answer<'_, Draft> {
        ready(draft)
    }

    /// A client of an HTTP listener says who it is; `None` is "wrong".
    fn http_server_validate_auth_basic(
        &self,
        _user: String,
        _password: Option<String>,
    ) -> Answer<'_, Option<AuthInfo>> {
        ready(None)
    }

    /// The same by a token.
    fn http_server_validate_auth_bearer(&self, _token: String) -> Answer<'_, Option<AuthInfo>> {
        ready(None)
    }

    /// The rules of a resource, which may have none.
    fn get_acl_definition(&self, resource: String) -> Answer<'_, Option<Arc<AccessControlList>>> {
        ready(access::built_in(&resource).map(Arc::new))
    }

    /// A server refused; another status takes the place of its own. `response` is its reply in one line.
    fn smtp_client_rewrite_delivery_status(&self, _response: String, _parts: QueueParts) -> Answer<'_, Option<u16>> {
        ready(None)
    }

    /// A task of the policy's own, from its beginning to its end: the handler of `event`, with a list of arguments.
    fn run_task(&self, event: String, _arguments: Vec<serde_json::Value>) -> Answer<'_, ()> {
        unhandled("kumo.spawn_task", event)
    }

    /// A message ends because it was not delivered by its deadline; nothing that is done to it counts.
    fn deliver_by_missed(&self, _draft: Draft) -> Answer<'_, ()> {
        ready(())
    }

    /// A record was logged, and is to become a message for the hook of that name: the message as it is to be sent on its way, or
    /// nothing: `should_enqueue_log_record`.
    fn should_enqueue_log_record(&self, _draft: Draft, _hook: String) -> Answer<'_, Option<Draft>> {
        ready(None)
    }

    /// Whether a record about a message is to be logged: the event that `filter_event` of a logger names.
    fn filter_log_record(&self, event: String, _draft: Draft) -> Answer<'_, bool> {
        unhandled("filter_event", event)
    }

    /// A message of an earlier run is about to go back to its queue: the message as it is to be. `spool_message_enumerated`.
    fn spool_message_enumerated(&self, draft: Draft) -> Answer<'_, Draft> {
        ready(draft)
    }

    /// The program ends, and its loggers are about to: `shutdown_logging`.
    fn shutdown_logging(&self) -> Answer<'_, ()> {
        ready(())
    }

    /// A message was logged, and is still at hand: `log_disposition_NAME` of `kumo.configure_log_disposition_hook`. The
    /// record is as the log has it.
    fn log_disposition(&self, hook: &str, _draft: Draft, _record: serde_json::Value) -> Answer<'_, ()> {
        unhandled("log_disposition", hook.to_owned())
    }

    /// The rules that the traffic shaping daemon goes by: `tsa_load_shaping_data`.
    fn tsa_load_shaping_data(&self) -> Answer<'_, Arc<Shaping>> {
        unhandled("tsa_load_shaping_data", "shaping data".to_owned())
    }

    /// A session of a queue whose protocol is `custom_lua` begins: what its constructor makes of one of the queues that
    /// feed it.
    fn construct_courier(&self, constructor: String, _parts: QueueParts) -> Answer<'_, Box<dyn Courier>> {
        unhandled("custom_lua", constructor)
    }
}

/// Looks at a policy that was read again, before it counts: what it asks to be started, and which events it handles.
pub type Check<'a> = dyn FnMut(Startup, Interest) -> Result<(), String> + Send + 'a;

/// An answer that is known at once.
pub fn ready<'a, T: Send + 'a>(value: T) -> Answer<'a, T> {
    Box::pin(core::future::ready(Ok(value)))
}

fn unhandled<'a, T: Send + 'a>(event: &'static str, name: String) -> Answer<'a, T> {
    let error =
        PolicyError::Script { event, text: format!("event {event} has not been registered (asked for `{name}`)") };
    Box::pin(core::future::ready(Err(error)))
}
