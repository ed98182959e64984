//! What the endpoints know of the program, and what it answers to those that all daemons have.
//!
//! Owns [`Facts`], which all listeners share, and [`Shared`], which is what a handler is given. Ready is a daemon that has rules and may
//! note in its accounting log who asks for what; it is alive until it ends: rules that do not load are not mended by another start.

use crate::Keeper;
use admin::{Daemon, InHand, InMemory};
use engine::{Diagnostics, Gate, Vitals};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use telemetry::{Exposition, Kind};
use tokio::sync::{Semaphore, SemaphorePermit, watch};

/// What the program is asked besides, by the endpoints that all daemons have.
pub struct Facts {
    /// What this machine is called.
    pub hostname: String,
    /// The UUID of this node.
    pub node_id: String,
    /// When it began.
    pub began: Instant,
    /// Reads policy and rules again.
    pub read_again: ReadAgain,
    /// Changes the diagnostic log.
    pub diagnostics: Diagnostics,
    /// Its memory, processors and scripts.
    pub vitals: Vitals,
    /// Who notes who asks for what.
    pub gate: Gate,
    /// Places of those who follow.
    pub subscribers: Arc<Semaphore>,
}

/// Reads policy and rules again; in an error, why they stay as they were.
pub type ReadAgain = Box<dyn Fn() -> Pin<Box<dyn Future<Output = Result<(), String>> + Send>> + Send + Sync>;

/// What handlers are given.
#[derive(Clone)]
pub(crate) struct Shared {
    pub keeper: Keeper,
    pub facts: Arc<Facts>,
    pub stop: watch::Receiver<bool>,
}

/// A turn to be told what is in memory.
struct Turn<'a> {
    shared: &'a Shared,
    _turn: SemaphorePermit<'a>,
}

impl Facts {
    /// Places for those who follow, none of them taken.
    pub fn places() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(SUBSCRIBERS_MAX))
    }
}

impl Shared {
    fn subscribers(&self) -> usize {
        SUBSCRIBERS_MAX.saturating_sub(self.facts.subscribers.available_permits())
    }

    /// What the daemon counts of its own work; ours.
    fn expose(&self, text: &mut Exposition) {
        let (effects, counts) = self.keeper.sizes();
        for (name, help, kind, number) in [
            ("postrider_tsa_records_total", "log records taken", Kind::Counter, self.keeper.records()),
            ("postrider_tsa_effects", "effects of rules that are held", Kind::Gauge, effects as u64),
            ("postrider_tsa_counts", "counts of rules that wait for more", Kind::Gauge, counts as u64),
            ("postrider_tsa_subscribers", "nodes that follow", Kind::Gauge, self.subscribers() as u64),
        ] {
            text.number((name, help, kind), number);
        }
    }
}

impl Daemon for Shared {
    const KIND: &'static str = "tsa-daemon";

    fn hostname(&self) -> &str {
        &self.facts.hostname
    }

    fn node_id(&self) -> &str {
        &self.facts.node_id
    }

    fn uptime(&self) -> Duration {
        self.facts.began.elapsed()
    }

    async fn read_again(&self, origin: &'static str) -> Result<(), String> {
        tracing::info!("{origin}: policy and rules are read again");
        (self.facts.read_again)().await
    }

    fn filter_diagnostics(&self, filter: &str) -> Result<(), String> {
        (self.facts.diagnostics)(filter)
    }

    fn is_serving(&self) -> bool {
        !*self.stop.borrow()
    }

    fn fault(&self) -> Option<String> {
        None
    }

    fn reasons_not_ready(&self) -> Vec<String> {
        let found = [
            (!self.is_serving()).then_some("shutting down"),
            (!self.keeper.has_rules()).then_some("shaping data could not be loaded yet"),
            self.facts.gate.accounts().is_full().then_some("the accounting log has no room for more records"),
        ];
        found.into_iter().flatten().map(str::to_owned).collect()
    }

    async fn metrics_text(&self, prefix: &str) -> Result<String, String> {
        self.facts.vitals.metrics_text(prefix, |text| self.expose(text)).map_err(|error| error.to_string())
    }

    fn look(&self) -> Option<impl InHand + '_> {
        self.facts.vitals.turn().map(|turn| Turn { shared: self, _turn: turn })
    }
}

impl InHand for Turn<'_> {
    async fn in_memory(&self) -> InMemory {
        let (effects, counts) = self.shared.keeper.sizes();
        let held = vec![("effects", effects), ("counts", counts), ("subscribers", self.shared.subscribers())];
        InMemory { memory: self.shared.facts.vitals.memory_words(), held }
    }

    async fn tasks(&self) -> String {
        format!("tasks of the daemon\n  {:>6} nodes that follow\n", self.shared.subscribers())
    }
}

/// Subscribers at once.
pub(crate) const SUBSCRIBERS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use config::MemoryLimits;
    use engine::pressure::Memory;
    use policy::{Answer, Policy, StaticPolicy};
    use shaping::{Assembly, LoadOptions, Resolved, Shaping};
    use telemetry::Accounts;

    struct Told;

    impl Memory for Told {
        fn used(&self) -> Option<u64> {
            Some(7)
        }

        fn purge(&self) {}
    }

    /// Has rules, none of them.
    struct Rules;

    impl Policy for Rules {
        fn interest(&self) -> policy::Interest {
            policy::Interest::NONE
        }

        fn tsa_load_shaping_data(&self) -> Answer<'_, Arc<Shaping>> {
            let none = Assembly::new(Vec::new(), LoadOptions::default()).expect("within bounds");
            policy::ready(Arc::new(none.build(&|_| Resolved::NullMx)))
        }
    }

    fn shared(policy: Arc<dyn Policy>) -> (Shared, watch::Sender<bool>) {
        let (stopping, stop) = watch::channel(false);
        let facts = Facts {
            hostname: "host".to_owned(),
            node_id: "node".to_owned(),
            began: Instant::now(),
            read_again: Box::new(|| Box::pin(std::future::ready(Ok(())))),
            diagnostics: Box::new(|_| Ok(())),
            vitals: Vitals::new(policy.clone(), MemoryLimits::default(), Arc::new(Told)).expect("sound"),
            gate: Gate::new(policy.clone(), Accounts::open(None).expect("none")),
            subscribers: Facts::places(),
        };
        let keeper = Keeper::open(policy, None).expect("kept nowhere");
        (Shared { keeper, facts: Arc::new(facts), stop }, stopping)
    }

    #[tokio::test]
    async fn ready_is_who_has_rules_and_does_not_end() {
        let (without, stopping) = shared(Arc::new(StaticPolicy));
        assert!(without.keeper.load_rules().await.is_err(), "nobody gives any");
        assert_eq!(without.reasons_not_ready(), ["shaping data could not be loaded yet"]);
        assert!(without.is_serving() && without.fault().is_none(), "another start would not help");
        stopping.send_replace(true);
        assert_eq!(without.reasons_not_ready(), ["shutting down", "shaping data could not be loaded yet"]);
        assert!(!without.is_serving());
        let (with, _stopping) = shared(Arc::new(Rules));
        with.keeper.load_rules().await.expect("given");
        assert!(with.reasons_not_ready().is_empty());
    }

    #[tokio::test]
    async fn what_it_has_in_hand_is_told_to_one_at_a_time() {
        let (shared, _stopping) = shared(Arc::new(StaticPolicy));
        let _place = shared.facts.subscribers.clone().try_acquire_owned().expect("room");
        let turn = shared.look().expect("nobody else asks");
        assert!(shared.look().is_none());
        let told = turn.in_memory().await;
        assert_eq!(told.held, [("effects", 0), ("counts", 0), ("subscribers", 1)]);
        assert!(told.memory.contains(&("used_bytes", "7".to_owned())), "{told:?}");
        assert_eq!(turn.tasks().await, "tasks of the daemon\n       1 nodes that follow\n");
        let page = shared.metrics_text("").await.expect("text");
        for line in ["memory_usage 7", "postrider_tsa_subscribers 1", "postrider_tsa_records_total 0"] {
            assert!(page.lines().any(|other| other == line), "{line} in {page}");
        }
        let limited = shared.metrics_text("postrider_tsa_e").await.expect("text");
        assert_eq!(
            limited.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>(),
            ["postrider_tsa_effects 0"]
        );
    }
}
