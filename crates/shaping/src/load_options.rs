//! The options of `kumo.shaping.load`: how bad what is wrong is.
//!
//! Owns [`LoadOptions`] and [`Severity`]. In: a table, through `config::parse`, strict. Out: values. Whoever loads files
//! acts on `remote_load`, `local_load`, `skip_remote` and `http_timeout`; the rest is this crate's.

use config::Duration;
use serde::{Deserialize, Serialize};

/// The second argument of `kumo.shaping.load`, with KumoMTA's defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LoadOptions {
    /// Two domains have blocks for the same site.
    pub aliased_site: Severity,
    /// The site of a domain cannot be found out.
    pub dns_fail: Severity,
    /// A domain that takes no mail has a block.
    pub null_mx: Severity,
    /// A domain with a block belongs to a provider as well.
    pub provider_overlap: Severity,
    /// A URL cannot be fetched or read.
    pub remote_load: Severity,
    /// A file cannot be read.
    pub local_load: Severity,
    /// URLs are passed over.
    pub skip_remote: bool,
    /// How long a URL may take.
    pub http_timeout: Duration,
}

/// What becomes of something wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Severity {
    /// Nothing.
    #[default]
    Ignore,
    /// A line in the warnings.
    Warn,
    /// A line in the errors.
    Error,
}

impl Default for LoadOptions {
    fn default() -> Self {
        LoadOptions {
            aliased_site: Severity::Ignore,
            dns_fail: Severity::Ignore,
            null_mx: Severity::Ignore,
            provider_overlap: Severity::Ignore,
            remote_load: Severity::Ignore,
            local_load: Severity::Error,
            skip_remote: false,
            http_timeout: HTTP_TIMEOUT,
        }
    }
}

/// KumoMTA's.
const HTTP_TIMEOUT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(value: Value) -> Result<LoadOptions, String> {
        config::parse("kumo.shaping.load", value).map_err(|e| e.to_string())
    }

    #[test]
    fn every_option_has_its_default_and_can_be_set() {
        let defaults = json!({
            "aliased_site": "Ignore", "dns_fail": "Ignore", "null_mx": "Ignore", "provider_overlap": "Ignore",
            "remote_load": "Ignore", "local_load": "Error", "skip_remote": false, "http_timeout": "5s",
        });
        assert_eq!(read(json!({})), Ok(LoadOptions::default()));
        assert_eq!(serde_json::to_value(LoadOptions::default()).unwrap(), defaults);
        let given = json!({
            "aliased_site": "Warn", "dns_fail": "Error", "null_mx": "Warn", "provider_overlap": "Error",
            "remote_load": "Error", "local_load": "Ignore", "skip_remote": true, "http_timeout": "1m",
        });
        assert_eq!(serde_json::to_value(read(given.clone()).unwrap()).unwrap(), given);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (value, part) in [
            (json!({"dns_fial": "Warn"}), "unknown field `dns_fial` (did you mean `dns_fail`?)"),
            (json!({"dns_fail": "warn"}), "dns_fail: deserialize error: unknown variant `warn` (did you mean `Warn`?)"),
            (json!({"null_mx": true}), "null_mx: deserialize error: invalid value true: expected one of Ignore, Warn"),
            (
                json!({"skip_remote": "no"}),
                "skip_remote: deserialize error: invalid type: string \"no\", expected a boo",
            ),
            (json!({"http_timeout": "soon"}), "http_timeout: deserialize error: invalid duration \"soon\": expected"),
        ] {
            let error = read(value).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
