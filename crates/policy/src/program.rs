//! The program around a policy: what scripts may ask of it while it serves.

use crate::{AuthInfo, Disposition, Event};
use core::future::Future;
use core::pin::Pin;
use core::time::Duration;
use injection::{Injection, Outcome};
use message::{Draft, MessageId};
use reports::{DmarcSeen, FailureSeen};
use serde_json::Value as Json;
use std::sync::Arc;

/// Handed to the policy once, before the first event ([`Policy::serves_in`](crate::Policy::serves_in)).
pub trait Program: Send + Sync {
    /// A new configuration epoch is to begin.
    fn bump_config_epoch(&self);

    /// Changes what of the diagnostic log is written (`kumo.set_diagnostic_log_filter`).
    ///
    /// # Errors
    /// It is no filter, or there is no such log.
    fn filter_diagnostics(&self, _filter: &str) -> Result<(), String> {
        Err("this program has no diagnostic log that can be filtered".to_owned())
    }

    /// A part of a script that it calls `label` took so long (`kumo.time.start_timer`).
    fn script_took(&self, _label: &str, _took: Duration) {}

    /// A message of a tenant was held against the rules of large providers; it broke these, and may have been refused for it.
    fn held_to_rules(&self, _tenant: &str, _broken: &[&'static str], _is_refused: bool) {}

    /// A signature that was just made does not hold; its message was not signed.
    fn signature_failed(&self) {}

    /// Who counts its events, if anybody does.
    fn observer(&self) -> Option<Arc<dyn Observer>> {
        None
    }

    /// What of DMARC checks is reported to other domains.
    fn reported(&self) -> Reported {
        Reported::default()
    }

    /// A message was checked (`kumo.dmarc.check_msg`). Does not wait.
    fn saw_dmarc(&self, _seen: DmarcSeen) {}

    /// A message failed a check, and its author's domain wants to know. Does not wait.
    fn saw_failure(&self, _failure: FailureSeen) {}

    /// A fresh identity for a message that policy makes; `None` once the program has ended.
    fn message_id(&self) -> Option<MessageId>;

    /// Takes responsibility for a message that policy made (`kumo.inject_message`): it is synced to disk and queued when this
    /// returns, or in memory only if `deferred`. An error tells why not; nothing is kept then.
    fn inject(&self, draft: Draft, deferred: bool) -> Injected<'_>;

    /// Makes the messages of a request and takes responsibility for them (`kumo.api.inject.inject_v1`).
    fn inject_request(&self, injection: Injection, auth: AuthInfo) -> Requested<'_>;

    /// Whether somebody may do something with what these resources stand for, the narrowest first; the accounting log says so too
    /// (`kumo.aaa.query_resource_access`).
    fn may(&self, _resources: Vec<String>, _auth: AuthInfo, _privilege: String) -> Judged<'_> {
        Box::pin(core::future::ready(Err("this program has no resources".to_owned())))
    }

    /// Asks the administrative API (`kumo.api.admin`), as an operator would: its answer, or in an error what it says.
    fn administer(&self, method: &'static str, path: &'static str, request: Json) -> Administered<'_>;
}

/// What of DMARC checks is reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reported {
    /// All of them, once a day.
    pub dmarc: bool,
    /// Single messages that failed.
    pub failures: bool,
}

/// Counts what handlers of events do (KumoMTA's `lua_event_started` and `lua_event_latency`).
pub trait Observer: Send + Sync {
    /// A handler is about to be called.
    fn started(&self, event: Event);

    /// Its handlers took so long.
    fn took(&self, event: Event, took: Duration);

    /// It took so long to make a state in which handlers can be called.
    fn made_state(&self, took: Duration);
}

/// What the administrative API answers.
pub type Administered<'a> = Pin<Box<dyn Future<Output = Result<Json, String>> + Send + 'a>>;

/// What somebody may do.
pub type Judged<'a> = Pin<Box<dyn Future<Output = Result<Disposition, String>> + Send + 'a>>;

/// What becomes of a request.
pub type Requested<'a> = Pin<Box<dyn Future<Output = Result<Outcome, String>> + Send + 'a>>;

/// What becomes of an injected message.
pub type Injected<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;
