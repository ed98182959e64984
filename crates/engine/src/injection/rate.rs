//! How fast recipients of requests over HTTP are taken (`kumo.set_httpinject_recipient_rate_limit`).

use crate::engine::Engine;
use crate::injection::NotInjected;
use arc_swap::ArcSwapOption;
use config::ThrottleSpec;
use injection::{Generator, Injection};
use std::sync::Arc;
use throttle::Throttles;

/// The rate of this process, or of the cluster where it counts together.
pub(crate) struct InjectionRate {
    here: Throttles,
    spec: ArcSwapOption<ThrottleSpec>,
}

impl InjectionRate {
    /// That one, or none.
    pub fn new(spec: Option<ThrottleSpec>) -> InjectionRate {
        InjectionRate { here: Throttles::default(), spec: ArcSwapOption::new(spec.map(Arc::new)) }
    }

    /// From now on that one, or none.
    pub fn set(&self, spec: Option<ThrottleSpec>) {
        self.spec.store(spec.map(Arc::new));
    }
}

impl Engine {
    /// Waits until the recipients of a request may be taken. One that cannot be carried out does not wait.
    pub(super) async fn wait_for_turn(&self, injection: &Injection) -> Result<(), NotInjected> {
        let Some(spec) = self.injection_rate.spec.load_full() else { return Ok(()) };
        Generator::new(injection, 0)?;
        let turn = async {
            for _ in &injection.recipients {
                self.wait_for_one(&spec).await;
            }
        };
        let came = self.stop.unless_requested(turn).await;
        came.ok_or_else(|| NotInjected::Later("shutting down".to_owned()))
    }

    async fn wait_for_one(&self, spec: &ThrottleSpec) {
        loop {
            let throttles = self.cluster.get().map_or(&self.injection_rate.here, |shared| &**shared);
            let Some(wait) = throttles.hit(KEY, spec).await.retry_after else { return };
            tokio::time::sleep(wait).await;
        }
    }
}

/// KumoMTA's name of it.
const KEY: &str = "kumomta.httpinject.ratelimit";
