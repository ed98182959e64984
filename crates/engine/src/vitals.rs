//! How a program that is no mail server fares: its memory, its processors, its scripts, under the names the mail server has for them.
//!
//! Owns [`Vitals`]. In: limits, who measures memory, and a policy. Out: text of `/metrics`, words for people. Memory that is short
//! is logged and counted, no more: such a program has no mail to refuse. Looked at every second until `watch` is dropped.

use crate::event_watch::EventWatch;
use crate::pressure::{Level, Memory, Pressure, PressureSettings, processors};
use crate::scrape_counts;
use config::MemoryLimits;
use policy::{Observer, Policy};
use std::sync::Arc;
use std::time::Duration;
use telemetry::metrics::Error;
use telemetry::{Exposition, ProcessMetrics};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::MissedTickBehavior;

/// What is known of a program; clones share it.
#[derive(Clone)]
pub struct Vitals(Arc<Inner>);

struct Inner {
    metrics: Arc<ProcessMetrics>,
    pressure: Pressure,
    policy: Arc<dyn Policy>,
    /// Whose turn it is to be told what is in memory: one at a time.
    turn: Semaphore,
}

impl Vitals {
    /// Of the program whose policy this is.
    ///
    /// # Errors
    /// Two metrics have one name.
    pub fn new(policy: Arc<dyn Policy>, limits: MemoryLimits, memory: Arc<dyn Memory>) -> Result<Vitals, Error> {
        let settings = PressureSettings { limits, memory, volumes: Vec::new(), delivers_when_spool_unhealthy: false };
        let (metrics, pressure) = (Arc::new(ProcessMetrics::new()?), Pressure::new(settings));
        pressure.show_limits(&metrics.counts);
        Ok(Vitals(Arc::new(Inner { metrics, pressure, policy, turn: Semaphore::new(1) })))
    }

    /// Looks at memory and processors for as long as it is polled.
    pub async fn watch(&self) {
        let memory = async {
            let mut ticks = tokio::time::interval(MEMORY_INTERVAL);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                self.look_at_memory();
            }
        };
        tokio::join!(memory, processors::watch(&self.0.metrics.counts.machine_use));
    }

    fn look_at_memory(&self) {
        let Some(sample) = self.0.pressure.sample_memory(&self.0.metrics.counts) else { return };
        let (used, counts) = (sample.used, &self.0.metrics.counts);
        match sample.after {
            Level::Stop => tracing::warn!("{used} bytes of memory in use, the limit is {}", counts.memory_limit.get()),
            Level::Low => {
                tracing::info!(
                    "{used} bytes of memory in use, the low threshold is {}",
                    counts.memory_low_thresh.get()
                );
            }
            Level::Fine => tracing::info!("{used} bytes of memory in use: there is enough again"),
        }
    }

    /// The text of `/metrics`, limited to names that begin with `prefix`; `add` adds what the program counts besides.
    ///
    /// # Errors
    /// A metric cannot be written.
    pub fn metrics_text(&self, prefix: &str, add: impl FnOnce(&mut Exposition)) -> Result<String, Error> {
        self.look_at_memory();
        let mut text = Exposition::after(self.0.metrics.text(prefix)?, prefix);
        scrape_counts::policy(&mut text, self.0.policy.counts(), None);
        add(&mut text);
        Ok(text.into_text())
    }

    /// Limits and measurements of memory, for people.
    pub fn memory_words(&self) -> Vec<(&'static str, String)> {
        self.0.pressure.measured_words()
    }

    /// A turn to be told what is in memory; none while somebody else has it.
    pub fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.0.turn.try_acquire().ok()
    }

    /// Where its scripts are counted.
    pub fn scripts(&self) -> Scripts {
        Scripts(self.0.metrics.clone())
    }
}

/// Counts what scripts do; the policy may keep it, and is not kept by it.
#[derive(Clone)]
pub struct Scripts(Arc<ProcessMetrics>);

impl Scripts {
    /// Who counts the policy's events.
    pub fn observer(&self) -> Arc<dyn Observer> {
        let metrics = self.0.clone();
        Arc::new(EventWatch::new(Box::new(move |event| metrics.counts.event_times.of(event))))
    }

    /// A part of a script that it calls `label` took so long.
    pub fn took(&self, label: &str, took: Duration) {
        self.0.counts.script_times.observe(label, took);
    }
}

/// Pause between two looks at memory.
const MEMORY_INTERVAL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use policy::{Event, StaticPolicy};
    use std::sync::atomic::{AtomicU64, Ordering};

    struct Told(AtomicU64);

    impl Memory for Told {
        fn used(&self) -> Option<u64> {
            Some(self.0.load(Ordering::Relaxed))
        }

        fn purge(&self) {}
    }

    #[test]
    fn a_page_has_memory_scripts_and_what_is_added_and_nothing_of_mail() {
        let memory = Arc::new(Told(AtomicU64::new(10)));
        let limits = MemoryLimits { hard: Some(1000), soft: Some(800), low: Some(500) };
        let vitals = Vitals::new(Arc::new(StaticPolicy), limits, memory.clone()).expect("sound");
        let scripts = vitals.scripts();
        scripts.observer().started(Event::TsaLoadShapingData);
        scripts.took("part", Duration::from_millis(1));
        let page = |prefix: &str| {
            let add = |text: &mut Exposition| text.number(("postrider_x", "x", telemetry::Kind::Gauge), 3);
            vitals.metrics_text(prefix, add).expect("encodes")
        };
        let first = page("");
        for line in [
            "memory_usage 10",
            "memory_limit 800",
            "memory_low_thresh 500",
            "memory_low_count 0",
            "lua_event_started{event=\"tsa_load_shaping_data\"} 1",
            "user_lua_latency_count{label=\"part\"} 1",
            "postrider_x 3",
        ] {
            assert!(first.lines().any(|other| other == line), "{line} in {first}");
        }
        assert!(!first.contains("messages") && !first.contains("dns_mx"), "{first}");
        memory.0.store(900, Ordering::Relaxed);
        let short = page("memory_");
        assert!(short.contains("memory_usage 900\n") && short.contains("memory_low_count 1\n"), "{short}");
        assert!(short.contains("memory_over_limit_count 1\n") && !short.contains("postrider_x"), "{short}");
        assert!(vitals.memory_words().contains(&("used_bytes", "900".to_owned())));
        let turn = vitals.turn();
        assert!(turn.is_some() && vitals.turn().is_none(), "one at a time");
    }
}
