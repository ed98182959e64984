//! What the daemon's policy may ask of the program: to be counted, and to change the diagnostic log. There is no mail here.

use crate::shared::Facts;
use engine::Scripts;
use injection::Injection;
use message::{Draft, MessageId};
use policy::{Administered, AuthInfo, Injected, Observer, Program, Requested};
use serde_json::Value;
use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// The daemon, as its policy knows it: the policy does not keep it alive.
pub struct Around {
    facts: Weak<Facts>,
    scripts: Scripts,
    /// What was asked for last: a policy asks for each of its states.
    filter: Mutex<String>,
}

impl Around {
    /// The daemon of which these are the facts.
    pub fn new(facts: &Arc<Facts>) -> Around {
        let scripts = facts.vitals.scripts();
        Around { facts: Arc::downgrade(facts), scripts, filter: Mutex::default() }
    }
}

impl Program for Around {
    /// Nothing: rules are asked for again every 30 s, and there is nothing else that a script could have changed.
    fn bump_config_epoch(&self) {}

    fn filter_diagnostics(&self, filter: &str) -> Result<(), String> {
        let Some(facts) = self.facts.upgrade() else { return Ok(()) };
        let mut last = self.filter.lock().unwrap_or_else(PoisonError::into_inner);
        if *last != filter {
            (facts.diagnostics)(filter)?;
            filter.clone_into(&mut last);
        }
        Ok(())
    }

    fn script_took(&self, label: &str, took: Duration) {
        self.scripts.took(label, took);
    }

    fn observer(&self) -> Option<Arc<dyn Observer>> {
        Some(self.scripts.observer())
    }

    fn message_id(&self) -> Option<MessageId> {
        None
    }

    fn inject(&self, _: Draft, _: bool) -> Injected<'_> {
        Box::pin(ready(Err(NO_MAIL.to_owned())))
    }

    fn inject_request(&self, _: Injection, _: AuthInfo) -> Requested<'_> {
        Box::pin(ready(Err(NO_MAIL.to_owned())))
    }

    fn administer(&self, _: &'static str, _: &'static str, _: Value) -> Administered<'_> {
        Box::pin(ready(Err(NO_MAIL.to_owned())))
    }
}

const NO_MAIL: &str = "tsa-daemon has no mail";
