//! What options of one table say against each other: each is sound, and together one of them does nothing or not what it says.
//!
//! In: a table of options. Out: a sentence for each two that contradict, with both values and what comes of them; nothing is refused.
//! Only of options that the table itself gives: what it leaves out may stand in another table with which it is put together.

use crate::duration::Duration;
use crate::egress_path::EgressPath;
use crate::parse::FromTable;
use crate::queue_config::QueueConfig;
use serde_json::{Map, Value};

/// Two options that say something against each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    between: [&'static str; 2],
    what: String,
}

/// Options that may contradict one another.
pub trait Contradictions: FromTable {
    /// All that there are, of defaults too.
    fn contradictions(&self) -> Vec<Contradiction>;
}

/// A sentence for each two of a table of options that contradict. One that does not read has none: that is said elsewhere.
pub fn contradictions<T: Contradictions>(options: &Map<String, Value>) -> Vec<String> {
    let read = T::from_table("options", Value::Object(options.clone()));
    let all = read.map(|read| read.contradictions()).unwrap_or_default();
    all.into_iter()
        .filter(|one| one.between.iter().all(|name| options.contains_key(*name)))
        .map(|one| one.what)
        .collect()
}

impl Contradictions for QueueConfig {
    fn contradictions(&self) -> Vec<Contradiction> {
        let QueueConfig { retry_interval, max_age, .. } = self;
        let mut found = Vec::new();
        let mut say = |between, what| found.push(Contradiction { between, what });
        if let Some(longest) = self.max_retry_interval.filter(|longest| longest < retry_interval) {
            let what = format!(
                "retry_interval {retry_interval} is longer than max_retry_interval {longest}: each wait is {longest}"
            );
            say(["retry_interval", "max_retry_interval"], what);
        }
        if self.first_wait() > *max_age {
            let what = format!(
                "retry_interval {retry_interval} is longer than max_age {max_age}: messages without an end of their own have one attempt"
            );
            say(["retry_interval", "max_age"], what);
        }
        let delayed = self.delivery_reports.as_ref().and_then(|reports| reports.delay);
        if let Some(delay) = delayed.filter(|delay| delay > max_age) {
            let what = format!(
                "delivery_reports.delay {delay} is longer than max_age {max_age}: of messages without an end of their own nobody hears a delay"
            );
            say(["delivery_reports", "max_age"], what);
        }
        found
    }
}

impl QueueConfig {
    fn first_wait(&self) -> Duration {
        self.max_retry_interval.map_or(self.retry_interval, |longest| longest.min(self.retry_interval))
    }
}

impl Contradictions for EgressPath {
    fn contradictions(&self) -> Vec<Contradiction> {
        let mut found = Vec::new();
        let mut say = |between, what| found.push(Contradiction { between, what });
        let (connections, room) = (self.connection_limit.limit, self.max_ready);
        if connections > room as u64 {
            let what = format!(
                "connection_limit {connections} is more than max_ready {room}: no more than {room} connections get a message"
            );
            say(["connection_limit", "max_ready"], what);
        }
        let watchdog = "dispatcher_progress_watchdog_timeout";
        if let Some(patience) = self.dispatcher_progress_watchdog_timeout {
            for (name, wait) in self.commands().into_iter().filter(|(_, wait)| *wait > patience) {
                let what =
                    format!("{watchdog} {patience} is shorter than {name} {wait}: connections end that wait so long");
                say([watchdog, name], what);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of<T: Contradictions>(options: &Value) -> Vec<String> {
        contradictions::<T>(options.as_object().expect("a table"))
    }

    #[test]
    fn usual_values_and_single_ones_do_not_contradict() {
        for options in [
            json!({}),
            json!({"retry_interval": "1m", "max_retry_interval": "10m", "max_age": "1 day"}),
            json!({"max_retry_interval": "10m"}),
            json!({"max_age": "10m"}),
            json!({"retry_interval": "1h", "max_retry_interval": "10m", "max_age": "15m", "max_agee": 1}),
        ] {
            assert!(of::<QueueConfig>(&options).is_empty(), "{options}");
        }
        for options in [json!({}), json!({"max_ready": 5}), json!({"dispatcher_progress_watchdog_timeout": "1s"})] {
            assert!(of::<EgressPath>(&options).is_empty(), "{options}");
        }
    }

    #[test]
    fn what_two_say_against_each_other_is_told() {
        for (options, said) in [
            (json!({"retry_interval": "1h", "max_retry_interval": "20m"}), "each wait is 20m"),
            (json!({"retry_interval": "1h", "max_age": "10m"}), "have one attempt"),
            (json!({"max_age": "1h", "delivery_reports": {"delay": "4h"}}), "nobody hears a delay"),
        ] {
            let found = of::<QueueConfig>(&options);
            assert!(found.len() == 1 && found[0].ends_with(said), "{said}: {found:?}");
        }
        for (options, said) in [
            (json!({"connection_limit": 100, "max_ready": 10}), "no more than 10 connections get a message"),
            (
                json!({"dispatcher_progress_watchdog_timeout": "1m", "data_timeout": "2m", "rcpt_to_timeout": "30s"}),
                "shorter than data_timeout 2m: connections end that wait so long",
            ),
        ] {
            let found = of::<EgressPath>(&options);
            assert!(found.len() == 1 && found[0].ends_with(said), "{said}: {found:?}");
        }
    }
}
