//! What policy may ask of the engine it serves in: epochs, identities, and to take messages of its own making.

use crate::engine::{Engine, Shared};
use crate::event_watch::EventWatch;
use crate::injection::Requester;
use injection::Injection;
use message::{Draft, MessageId};
use policy::{Administered, AuthInfo, Injected, Judged, Observer, Program, Reported, Requested};
use reports::{DmarcSeen, FailureSeen};
use serde_json::Value as Json;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The administrative API, for who is within the program: one that has no listener, and asks nobody who he is.
pub trait Administration: Send + Sync {
    /// Answers a request; in an error what is wrong with it.
    fn answer(&self, engine: Engine, method: &'static str, path: &'static str, request: Json) -> Asked;
}

/// What it comes to.
pub type Asked = Pin<Box<dyn Future<Output = Result<Json, String>> + Send>>;

/// An engine, as its policy knows it: the policy does not keep it alive.
struct Around(Weak<Shared>);

impl Engine {
    /// Lets the policy ask.
    pub(crate) fn serve_policy(&self) {
        self.policy.serves_in(Box::new(Around(Arc::downgrade(&self.0))));
    }

    /// From now on policy may ask the administrative API; the first counts.
    pub fn set_administration(&self, administration: Box<dyn Administration>) {
        let _: Result<(), _> = self.administration.set(administration);
    }

    /// Takes responsibility for a message that policy made: the same limits as for any other, and the same way in.
    async fn inject(&self, mut draft: Draft, deferred: bool) -> Result<(), String> {
        let _room = self.pressure.room_or_reason(draft.size() as u64)?;
        self.wait_for_records().await;
        self.accept_own(draft, deferred).await.map_err(|refusal| refusal.reply.to_single_line())
    }
}

impl Program for Around {
    fn bump_config_epoch(&self) {
        self.0.upgrade().into_iter().for_each(|shared| Engine(shared).bump_later());
    }

    fn observer(&self) -> Option<Arc<dyn Observer>> {
        let metrics = self.0.upgrade()?.metrics.clone();
        Some(Arc::new(EventWatch::new(Box::new(move |event| metrics.process.event_times.of(event)))))
    }

    fn filter_diagnostics(&self, filter: &str) -> Result<(), String> {
        self.0.upgrade().map_or(Ok(()), |shared| Engine(shared).filter_diagnostics(filter))
    }

    fn script_took(&self, label: &str, took: Duration) {
        self.0.upgrade().into_iter().for_each(|shared| shared.metrics.process.script_times.observe(label, took));
    }

    fn reported(&self) -> Reported {
        let reports = self.0.upgrade();
        Reported {
            dmarc: reports.as_ref().is_some_and(|shared| shared.domain_reports.counts_dmarc()),
            failures: reports.as_ref().is_some_and(|shared| shared.domain_reports.reports_failures()),
        }
    }

    fn saw_dmarc(&self, seen: DmarcSeen) {
        if let Some(shared) = self.0.upgrade() {
            shared.domain_reports.saw_dmarc(seen);
        }
    }

    fn saw_failure(&self, failure: FailureSeen) {
        if let Some(shared) = self.0.upgrade() {
            shared.domain_reports.saw_failure(failure);
        }
    }

    fn held_to_rules(&self, tenant: &str, broken: &[&'static str], is_refused: bool) {
        let shared = self.0.upgrade().into_iter();
        shared.for_each(|shared| shared.metrics.compliance.held(tenant, broken, is_refused));
    }

    fn signature_failed(&self) {
        self.0.upgrade().into_iter().for_each(|shared| shared.metrics.compliance.faulty_signatures.inc());
    }

    fn message_id(&self) -> Option<MessageId> {
        self.0.upgrade().map(|shared| Engine(shared).next_id())
    }

    fn inject(&self, draft: Draft, deferred: bool) -> Injected<'_> {
        let engine = self.0.upgrade().map(Engine);
        Box::pin(async move {
            let engine = engine.ok_or("the program ends")?;
            engine.inject(draft, deferred).await
        })
    }

    fn inject_request(&self, injection: Injection, auth: AuthInfo) -> Requested<'_> {
        let engine = self.0.upgrade().map(Engine);
        Box::pin(async move {
            let engine = engine.ok_or("the program ends")?;
            let from = Requester { auth, ..Requester::default() };
            engine.carry_out_request(injection, from).await.map_err(|error| error.to_string())
        })
    }

    fn may(&self, resources: Vec<String>, auth: AuthInfo, privilege: String) -> Judged<'_> {
        let engine = self.0.upgrade().map(Engine);
        Box::pin(async move {
            let engine = engine.ok_or("the program ends")?;
            engine.gate.may(&resources, &auth, &privilege).await.map_err(|error| error.to_string())
        })
    }

    fn administer(&self, method: &'static str, path: &'static str, request: Json) -> Administered<'_> {
        let engine = self.0.upgrade().map(Engine);
        Box::pin(async move {
            let engine = engine.ok_or("the program ends")?;
            let administration = engine.administration.get().ok_or("this program has no administrative API")?;
            administration.answer(engine.clone(), method, path, request).await
        })
    }
}
