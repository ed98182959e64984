//! What the endpoints that all daemons have ask of the program they are in (KumoMTA's `kumod` and `tsa-daemon` share these).
//!
//! A program that is a [`Daemon`] has them for a line: [`daemon_endpoints`].

use crate::endpoint::Endpoint;
use crate::{STATE, UPKEEP, epoch, machine, upkeep};
use engine::Engine;
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
}

/// Rows of the table of endpoints that every daemon has.
pub fn daemon_endpoints<D: Daemon>() -> Vec<Endpoint<D>> {
    vec![
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
}
