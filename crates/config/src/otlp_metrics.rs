//! The options of `kumo.configure_otlp_metrics`.
//!
//! Owns [`OtlpMetrics`]. In: a table. Out: which collector hears of which metrics, and how often. Fails with the option, its value and
//! what was expected. Sending is the metrics-export crate's.

use crate::duration::Duration;
use crate::options::options;
use crate::shown_url::shown_url;
use std::collections::BTreeMap;

options! {
    /// `kumo.configure_otlp_metrics`
    pub struct OtlpMetrics check check_options {
        /// Where the collector takes metrics, path and all: `http://127.0.0.1:4318/v1/metrics`.
        endpoint: String;
        /// Header fields of each request.
        headers: BTreeMap<String, String> = BTreeMap::new();
        /// How often metrics are sent.
        interval: Duration = Duration::from_secs(60);
        /// How long an answer is waited for.
        timeout: Duration = Duration::from_secs(10);
        /// Metrics whose names begin so; all when empty.
        prefix: String = String::new();
        /// Attributes of the resource, besides and before `service.name` (`postrider`), `service.version`, `service.instance.id` (the
        /// node's) and `host.name`.
        attributes: BTreeMap<String, String> = BTreeMap::new();
    }
}

fn check_options(options: &OtlpMetrics) -> Result<(), String> {
    let OtlpMetrics { endpoint, headers, interval, timeout, prefix, attributes } = options;
    check_endpoint(endpoint)?;
    if !(INTERVAL_MIN..=INTERVAL_MAX).contains(&interval.get()) {
        return Err(format!("invalid interval {interval}: expected from 1s to 1h"));
    }
    if timeout.get().is_zero() || timeout.get() > TIMEOUT_MAX {
        return Err(format!("invalid timeout {timeout}: expected more than 0 and at most 5m"));
    }
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
    if !prefix.chars().all(is_of_name) {
        return Err(format!("invalid prefix {prefix:?}: expected the begin of a metric's name"));
    }
    if headers.len() > ENTRIES_MAX || attributes.len() > ENTRIES_MAX {
        return Err(format!("invalid headers or attributes: expected at most {ENTRIES_MAX} of either"));
    }
    if let Some(name) = attributes.keys().find(|name| name.is_empty() || name.chars().any(char::is_whitespace)) {
        return Err(format!("invalid attributes: the name {name:?}: expected one without white space"));
    }
    Ok(())
}

/// The library that asks reads the rest.
fn check_endpoint(endpoint: &str) -> Result<(), String> {
    let expected = "expected http://HOST or https://HOST, and a path as /v1/metrics";
    let rest = ["http://", "https://"].iter().find_map(|scheme| endpoint.strip_prefix(scheme));
    let Some((host, path)) = rest.and_then(|rest| rest.split_once('/')) else {
        return Err(format!("invalid endpoint {:?}: {expected}", shown_url(endpoint)));
    };
    // Not shown, for what stands there is secret.
    if host.contains('@') {
        return Err("invalid endpoint: expected no user and password in it; `headers` can say who sends".to_owned());
    }
    if host.is_empty() || host.starts_with(':') || path.is_empty() || path.starts_with(['?', '#']) {
        return Err(format!("invalid endpoint {:?}: {expected}", shown_url(endpoint)));
    }
    Ok(())
}

const INTERVAL_MIN: core::time::Duration = core::time::Duration::from_secs(1);
const INTERVAL_MAX: core::time::Duration = core::time::Duration::from_secs(3600);
const TIMEOUT_MAX: core::time::Duration = core::time::Duration::from_secs(300);
/// Header fields, and attributes.
const ENTRIES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn parse(more: Value) -> Result<OtlpMetrics, String> {
        let mut options = json!({"endpoint": "https://a.test/v1/metrics"});
        options.as_object_mut().expect("a table").extend(more.as_object().expect("a table").clone());
        crate::parse("kumo.configure_otlp_metrics", options).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_refused_is_named_at_bound_plus_one() {
        let many: Value =
            (0..=ENTRIES_MAX).map(|number| (number.to_string(), json!("x"))).collect::<serde_json::Map<_, _>>().into();
        for (more, why) in [
            (json!({"endpoint": ""}), "invalid endpoint \"\""),
            (json!({"endpoint": "ftp://a.test/x"}), "expected http://HOST"),
            (json!({"endpoint": "http://a.test:4318"}), "and a path as /v1/metrics"),
            (json!({"endpoint": "http://a.test:4318/"}), "and a path as /v1/metrics"),
            (json!({"endpoint": "http://:4318/v1/metrics"}), "invalid endpoint"),
            (json!({"endpoint": "https://joe:s3cret@a.test/v1/metrics"}), "expected no user and password"),
            (json!({"endpoint": "joe:s3cret@a.test"}), "invalid endpoint \"***@a.test\": expected"),
            (json!({"endpoint": "http://joe:s3cret@a.test"}), "invalid endpoint \"http://***@a.test\": expected"),
            (json!({"endpoint": "http://a.test?token=s3cret"}), "invalid endpoint \"http://a.test?***\": expected"),
            (json!({"endpoint": "http://a.test/?token=s3cret"}), "invalid endpoint \"http://a.test/?***\": expected"),
            (json!({"endpoint": "http:///v1?token=s3cret"}), "invalid endpoint \"http:///v1?***\": expected"),
            (json!({"endpoint": "a.test/v1?token=s3cret"}), "invalid endpoint \"a.test/v1?***\": expected"),
            // What is wrong stands elsewhere.
            (json!({"endpoint": "http://a.test/v1?token=s3cret", "interval": 0}), "invalid interval"),
            (json!({"headers": {"Authorization": "Bearer s3cret"}, "interval": 0}), "invalid interval"),
            (json!({"interval": "999ms"}), "invalid interval 999ms: expected from 1s to 1h"),
            (json!({"interval": "3601s"}), "invalid interval"),
            (json!({"timeout": 0}), "invalid timeout"),
            (json!({"timeout": "301s"}), "at most 5m"),
            (json!({"prefix": "a b"}), "invalid prefix \"a b\""),
            (json!({"headers": many}), "at most 64"),
            (json!({"attributes": many}), "at most 64"),
            (json!({"attributes": {"a b": "x"}}), "the name \"a b\""),
            (json!({"header": {}}), "header"),
        ] {
            let error = parse(more.clone()).expect_err("refused");
            assert!(error.contains(why) && !error.contains("s3cret"), "{more}: {error}");
        }
        let most = parse(json!({"interval": "1h", "timeout": "5m", "prefix": "total_", "attributes": {"team": "a b"}}));
        assert_eq!(most.expect("at the bounds").interval.to_string(), "1h");
        assert_eq!(parse(json!({"interval": "1s"})).expect("at the bound").timeout.to_string(), "10s");
    }
}
