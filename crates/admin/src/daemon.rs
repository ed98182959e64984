//! What the endpoints that all daemons have ask of the program they are in (KumoMTA's `kumod` and `tsa-daemon` share these).
//!
//! A program that is a [`Daemon`] has them for a line: [`daemon_endpoints`].

use crate::endpoint::Endpoint;
use crate::{STATE, UPKEEP, access, epoch, liveness, machine, metrics, state_of_program, upkeep};
use engine::{Engine, RecoveryState};
use std::future::Future;
use std::time::Duration;

/// A program, as these endpoints know it.
pub trait Daemon: Clone + Send + Sync + 'static {
    /// KumoMTA's word for such programs.
    const KIND: &'static str;

    /// What this machine is called.
    fn hostname(&self) -> &str;

    /// The UUID of this node.
    fn node_id(&self) -> &str;

    /// How long the program has been there.
    fn uptime(&self) -> Duration;

    /// Reads policy and configuration again; `origin` says who wants that.
    ///
    /// # Errors
    /// What is there now is wrong: nothing has changed.
    fn read_again(&self, origin: &'static str) -> impl Future<Output = Result<(), String>> + Send;

    /// Changes what of the diagnostic log is written.
    ///
    /// # Errors
    /// It is no filter.
    fn filter_diagnostics(&self, filter: &str) -> Result<(), String>;

    /// False once it has begun to end.
    fn is_serving(&self) -> bool;

    /// Why it does not do what it is there for, as those hear who want that of it; `None` while it does. That it ends need not be said.
    fn fault(&self) -> Option<String>;

    /// All that stands in the way of what it is there for, that it ends too; nothing while it does that at once.
    fn reasons_not_ready(&self) -> Vec<String>;

    /// What is not as it should be though it does what it is there for; nothing as a rule.
    fn degradations(&self) -> Vec<String> {
        Vec::new()
    }

    /// The text of `/metrics`, limited to names that begin with `prefix`.
    ///
    /// # Errors
    /// It cannot be written.
    fn metrics_text(&self, prefix: &str) -> impl Future<Output = Result<String, String>> + Send;

    /// A turn to be told what it has in hand; none while somebody else has it.
    fn look(&self) -> Option<impl InHand + '_>;
}

/// What a program has in hand, told in turn.
pub trait InHand: Send + Sync {
    /// What is in memory.
    fn in_memory(&self) -> impl Future<Output = InMemory> + Send;

    /// What its tasks do, in lines.
    fn tasks(&self) -> impl Future<Output = String> + Send;
}

/// What is in memory, for people.
#[derive(Debug, Default)]
pub struct InMemory {
    /// Memory itself: names, and octets or words.
    pub memory: Vec<(&'static str, String)>,
    /// How much there is of what.
    pub held: Vec<(&'static str, usize)>,
}

/// Rows of the table of endpoints that every daemon has, for whoever watches over it.
pub fn probe_endpoints<D: Daemon>() -> Vec<Endpoint<D>> {
    vec![
        Endpoint::at(access::LIVENESS, STATE).get(liveness::check::<D>, "Whether it does what it is there for.", &[]),
        Endpoint::at(access::READINESS, STATE).get(
            liveness::check_readiness::<D>,
            "Whether it does that at once, and all reasons why not.",
            &[],
        ),
    ]
}

/// Rows of the table of endpoints that every daemon has, for operators.
pub fn daemon_endpoints<D: Daemon>() -> Vec<Endpoint<D>> {
    vec![
        Endpoint::at("/metrics", STATE).get(metrics::text::<D>, "Metrics, as Prometheus reads them.", &[]),
        Endpoint::at("/metrics.json", STATE).get(metrics::json::<D>, "Metrics as JSON.", &[]),
        Endpoint::at("/api/admin/memory/stats", STATE).get(
            state_of_program::memory::<D>,
            "What is in memory, for people.",
            &[],
        ),
        Endpoint::at("/api/admin/task-dump", STATE).get(
            state_of_program::tasks::<D>,
            "What threads and tasks do, for people.",
            &[],
        ),
        Endpoint::at("/api/machine-info", STATE).get(machine::info::<D>, "What this server runs on.", &[]),
        Endpoint::at("/api/admin/bump-config-epoch", UPKEEP).post(
            epoch::bump::<D>,
            "Has the configuration read again.",
            &[],
        ),
        Endpoint::at("/api/admin/set_diagnostic_log_filter/v1", UPKEEP).post(
            upkeep::filter::<D>,
            "Sets what of the diagnostic log is written.",
            &[],
        ),
    ]
}

impl Daemon for Engine {
    const KIND: &'static str = "kumod";

    fn hostname(&self) -> &str {
        Engine::hostname(self)
    }

    fn node_id(&self) -> &str {
        Engine::node_id(self)
    }

    fn uptime(&self) -> Duration {
        Engine::uptime(self)
    }

    async fn read_again(&self, origin: &'static str) -> Result<(), String> {
        self.bump_config_epoch(origin).await.map_err(|error| error.to_string())
    }

    fn filter_diagnostics(&self, filter: &str) -> Result<(), String> {
        Engine::filter_diagnostics(self, filter)
    }

    fn is_serving(&self) -> bool {
        Engine::is_serving(self)
    }

    fn fault(&self) -> Option<String> {
        let of_recovery = match self.recovery_state() {
            RecoveryState::Failed(why) => Some(format!("spool unhealthy: {why}")),
            RecoveryState::Pending | RecoveryState::Done => None,
        };
        self.pressure().reason().or(of_recovery)
    }

    fn reasons_not_ready(&self) -> Vec<String> {
        Engine::reasons_not_ready(self)
    }

    fn degradations(&self) -> Vec<String> {
        Engine::degradations(self)
    }

    async fn metrics_text(&self, prefix: &str) -> Result<String, String> {
        Engine::metrics_text(self, prefix).await.map_err(|error| error.to_string())
    }

    fn look(&self) -> Option<impl InHand + '_> {
        Engine::look(self)
    }
}
