//! What options of one table say against each other: each is sound, and together one of them does nothing or not what it says.
//!
//! In: options as read. Out: a sentence for each pair, with both values and what comes of them; nothing is refused.

use crate::choices::EnableTls;
use crate::egress_path::EgressPath;
use crate::queue_config::QueueConfig;

/// Options that may contradict one another.
pub trait Contradictions {
    /// A sentence each, without the name of the constructor.
    fn contradictions(&self) -> Vec<String>;
}

impl Contradictions for QueueConfig {
    fn contradictions(&self) -> Vec<String> {
        let QueueConfig { retry_interval, max_age, .. } = self;
        let mut found = Vec::new();
        if let Some(longest) = self.max_retry_interval.filter(|longest| longest < retry_interval) {
            found.push(format!(
                "retry_interval {retry_interval} is longer than max_retry_interval {longest}: each wait is {longest}"
            ));
        }
        let first = self.max_retry_interval.map_or(*retry_interval, |longest| longest.min(*retry_interval));
        if first > *max_age {
            found.push(format!(
                "the first retry, after {first}, comes later than max_age {max_age}: messages have one attempt"
            ));
        }
        let delayed = self.delivery_reports.as_ref().and_then(|reports| reports.delay);
        if let Some(delay) = delayed.filter(|delay| delay >= max_age) {
            found.push(format!(
                "delivery_reports.delay {delay} is not shorter than max_age {max_age}: nobody hears of a delay"
            ));
        }
        found
    }
}

impl Contradictions for EgressPath {
    fn contradictions(&self) -> Vec<String> {
        let mut found = Vec::new();
        let (connections, room) = (self.connection_limit.limit, self.max_ready);
        if connections > room as u64 {
            found.push(format!(
                "connection_limit {connections} is more than max_ready {room}: no more than {room} connections get a message"
            ));
        }
        self.of_sign_in(&mut found);
        let is_required = matches!(self.enable_tls, EnableTls::Required | EnableTls::RequiredInsecure);
        if is_required && self.opportunistic_tls_reconnect_on_failed_handshake {
            found.push(format!(
                "enable_tls {} never goes on without TLS: opportunistic_tls_reconnect_on_failed_handshake does nothing",
                self.enable_tls
            ));
        }
        let is_off = self.enable_tls == EnableTls::Disabled;
        if is_off && self.tls_certificate.is_some() {
            found.push("enable_tls Disabled: tls_certificate and tls_private_key are never shown".to_owned());
        }
        let longest = self.commands().into_iter().max().unwrap_or_default();
        if let Some(patience) = self.dispatcher_progress_watchdog_timeout.filter(|patience| *patience < longest) {
            found.push(format!(
                "dispatcher_progress_watchdog_timeout {patience} is shorter than a wait of {longest} that a command is \
                 allowed: connections end that wait for a reply"
            ));
        }
        found
    }
}

impl EgressPath {
    fn of_sign_in(&self, found: &mut Vec<String>) {
        let (name, password) = (&self.smtp_auth_plain_username, &self.smtp_auth_plain_password);
        if name.is_some() != password.is_some() {
            let there = if name.is_some() { ["username", "password"] } else { ["password", "username"] };
            found.push(format!("smtp_auth_plain_{} without smtp_auth_plain_{}: nobody signs in", there[0], there[1]));
        } else if name.is_some() && self.enable_tls == EnableTls::Disabled && !self.allow_smtp_auth_plain_without_tls {
            found.push(
                "enable_tls Disabled, and allow_smtp_auth_plain_without_tls is false: smtp_auth_plain_username is never used"
                    .to_owned(),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of<T: Contradictions + serde::de::DeserializeOwned>(options: serde_json::Value) -> Vec<String> {
        crate::parse::<T>("make", options).expect("sound").contradictions()
    }

    #[test]
    fn defaults_and_usual_values_do_not_contradict() {
        for options in [json!({}), json!({"retry_interval": "5m", "max_retry_interval": "1h", "max_age": "1 day"})] {
            assert!(of::<QueueConfig>(options.clone()).is_empty(), "{options}");
        }
        let signs_in = json!({"smtp_auth_plain_username": "a", "smtp_auth_plain_password": {"key_data": "b"}});
        for options in [json!({}), signs_in, json!({"enable_tls": "Disabled"})] {
            assert!(of::<EgressPath>(options.clone()).is_empty(), "{options}");
        }
    }

    #[test]
    fn queues() {
        for (options, said) in [
            (json!({"retry_interval": "1h", "max_retry_interval": "20m"}), "each wait is 20m"),
            (json!({"retry_interval": "1h", "max_age": "10m"}), "have one attempt"),
            (json!({"max_age": "1h", "delivery_reports": {"delay": "4h"}}), "nobody hears of a delay"),
        ] {
            let found = of::<QueueConfig>(options);
            assert!(found.len() == 1 && found[0].ends_with(said), "{said}: {found:?}");
        }
    }

    #[test]
    fn paths() {
        let signs_in = |more: serde_json::Value| {
            let mut options = json!({"smtp_auth_plain_username": "a", "smtp_auth_plain_password": {"key_data": "b"}});
            options.as_object_mut().expect("a table").extend(more.as_object().expect("a table").clone());
            options
        };
        let certificate = json!({"key_data": "x"});
        for (options, said) in [
            (json!({"connection_limit": 100, "max_ready": 10}), "no more than 10 connections get a message"),
            (json!({"smtp_auth_plain_username": "a"}), "without smtp_auth_plain_password: nobody signs in"),
            (
                json!({"smtp_auth_plain_password": {"key_data": "b"}}),
                "without smtp_auth_plain_username: nobody signs in",
            ),
            (signs_in(json!({"enable_tls": "Disabled"})), "smtp_auth_plain_username is never used"),
            (
                json!({"enable_tls": "Required", "opportunistic_tls_reconnect_on_failed_handshake": true}),
                "opportunistic_tls_reconnect_on_failed_handshake does nothing",
            ),
            (
                json!({"enable_tls": "Disabled", "tls_certificate": certificate, "tls_private_key": certificate}),
                "are never shown",
            ),
            (json!({"dispatcher_progress_watchdog_timeout": "1m"}), "connections end that wait for a reply"),
        ] {
            let found = of::<EgressPath>(options);
            assert!(found.len() == 1 && found[0].ends_with(said), "{said}: {found:?}");
        }
        let may = signs_in(json!({"enable_tls": "Disabled", "allow_smtp_auth_plain_without_tls": true}));
        assert!(of::<EgressPath>(may).is_empty());
    }
}
