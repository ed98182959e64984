//! MTA-STS (RFC 8461): the record that announces a policy, the policy, and which hosts it allows.
//!
//! In:  the TXT records of `_mta-sts.DOMAIN`, the octets of a policy file, names of mail exchangers.
//! Out: [`StsRecord`], [`StsPolicy`], and whether a name matches. Fails with [`StsError`], which says what is wrong with
//! the policy.
//!
//! Deliberately not here: fetching, remembering (`net::mta_sts`), and what a policy does to TLS (the engine).

use thiserror::Error;

/// Largest policy file read, in octets.
pub const STS_POLICY_BYTES_MAX: usize = 64 * 1024;
/// Patterns kept of one policy. A domain has no more than [`crate::MX_HOSTS_MAX`] hosts that are used.
pub const STS_PATTERNS_MAX: usize = 256;
/// Longest life of a policy: one year (RFC 8461 section 3.2), in seconds.
pub const STS_MAX_AGE_SECS: u64 = 31_557_600;

/// What a domain's TXT records say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StsRecord {
    /// Changes with each policy.
    pub id: String,
}

/// What a sender is to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum StsMode {
    /// Nothing.
    #[default]
    None,
    /// Deliver in any case, and report.
    Testing,
    /// Deliver only to hosts of the policy, only under TLS with a valid certificate.
    Enforce,
}

/// Why a policy cannot be had that is or may be announced, as reports about TLS call it (RFC 8460 section 4.3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StsFault {
    /// Its server does not give it.
    Fetch,
    /// What its server gives is none.
    Invalid,
    /// Its server is not who it should be.
    WebPki,
    /// Whether there is one cannot be found out: DNS fails. No report speaks of it.
    Unknown,
}

/// A domain's policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StsPolicy {
    /// What to do.
    pub mode: StsMode,
    /// How long the policy may be used, in seconds.
    pub max_age_secs: u64,
    /// Names and `*.` patterns, in lower case without a final dot.
    pub mx: Vec<String>,
}

/// Why a policy is none.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StsError {
    /// Too large.
    #[error("the policy has more than {STS_POLICY_BYTES_MAX} octets")]
    TooLarge,
    /// Not text.
    #[error("the policy is not UTF-8 text")]
    NotText,
    /// A line without a colon.
    #[error("line {line} of the policy has no `name: value`")]
    Line {
        /// Counted from 1.
        line: usize,
    },
    /// A field that must be there.
    #[error("the policy has no `{field}`")]
    Missing {
        /// Its name.
        field: &'static str,
    },
    /// A field that says something else than it may.
    #[error("the policy says `{field}: {value}`")]
    Value {
        /// Its name.
        field: &'static str,
        /// Its value.
        value: String,
    },
    /// More patterns than are kept.
    #[error("the policy names more than {STS_PATTERNS_MAX} hosts")]
    TooManyHosts,
}

impl StsRecord {
    /// The one record among the TXT records of `_mta-sts.DOMAIN`; several, or none, or a faulty one mean that there is no
    /// policy (RFC 8461 section 3.1).
    pub fn find<T: AsRef<[u8]>>(texts: &[T]) -> Option<StsRecord> {
        let mut announced =
            texts.iter().filter_map(|text| text.as_ref().strip_prefix(b"v=STSv1").and_then(after_version));
        let fields = announced.next()?;
        match announced.next() {
            None => StsRecord::read(std::str::from_utf8(fields).ok()?),
            Some(_) => None,
        }
    }

    fn read(fields: &str) -> Option<StsRecord> {
        let field = |field: &str| {
            field
                .trim()
                .strip_prefix("id")
                .and_then(|rest| rest.trim_start().strip_prefix('='))
                .map(|v| v.trim().to_owned())
        };
        let id = fields.split(';').find_map(field)?;
        let is_sound = (1..=ID_CHARS_MAX).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric());
        is_sound.then_some(StsRecord { id })
    }
}

impl StsPolicy {
    /// Reads a policy file (RFC 8461 section 3.2). Of a field that stands twice the first counts; unknown fields do not.
    pub fn parse(octets: &[u8]) -> Result<StsPolicy, StsError> {
        if octets.len() > STS_POLICY_BYTES_MAX {
            return Err(StsError::TooLarge);
        }
        let text = std::str::from_utf8(octets).map_err(|_| StsError::NotText)?;
        let (mut version, mut mode, mut max_age) = (None, None, None);
        let mut mx = Vec::new();
        for (place, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let (name, value) = line.split_once(':').ok_or(StsError::Line { line: place + 1 })?;
            let value = value.trim();
            match name.trim() {
                "version" => _ = version.get_or_insert(value),
                "mode" => _ = mode.get_or_insert(value),
                "max_age" => _ = max_age.get_or_insert(value),
                "mx" if mx.len() == STS_PATTERNS_MAX => return Err(StsError::TooManyHosts),
                "mx" => mx.push(pattern(value)?),
                _ => {}
            }
        }
        if version.ok_or(StsError::Missing { field: "version" })? != "STSv1" {
            return Err(refused("version", version));
        }
        let mode = match mode.ok_or(StsError::Missing { field: "mode" })? {
            "enforce" => StsMode::Enforce,
            "testing" => StsMode::Testing,
            "none" => StsMode::None,
            other => return Err(refused("mode", Some(other))),
        };
        let max_age = max_age.ok_or(StsError::Missing { field: "max_age" })?;
        let is_number = (1..=10).contains(&max_age.len()) && max_age.bytes().all(|b| b.is_ascii_digit());
        let seconds = max_age.parse::<u64>().ok().filter(|_| is_number);
        let max_age_secs = seconds.ok_or_else(|| refused("max_age", Some(max_age)))?.min(STS_MAX_AGE_SECS);
        match mx.is_empty() && mode != StsMode::None {
            true => Err(StsError::Missing { field: "mx" }),
            false => Ok(StsPolicy { mode, max_age_secs, mx }),
        }
    }

    /// Its lines, as reports about TLS show them (RFC 8460 section 4.4).
    pub fn lines(&self) -> Vec<String> {
        let mode = self.mode.as_str().to_ascii_lowercase();
        let mut lines = vec!["version: STSv1".to_owned(), format!("mode: {mode}")];
        lines.extend(self.mx.iter().map(|pattern| format!("mx: {pattern}")));
        lines.push(format!("max_age: {}", self.max_age_secs));
        lines
    }

    /// True when `host` may take mail: it is one of the names, or one label below a `*.` pattern (section 4.1).
    pub fn allows(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host);
        let parent = host.split_once('.').map(|(_, parent)| parent);
        self.mx.iter().any(|pattern| match pattern.strip_prefix("*.") {
            Some(domain) => parent.is_some_and(|parent| parent.eq_ignore_ascii_case(domain)),
            None => host.eq_ignore_ascii_case(pattern),
        })
    }
}

impl StsMode {
    /// As KumoMTA's `lookup_mx` spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            StsMode::None => "None",
            StsMode::Testing => "Testing",
            StsMode::Enforce => "Enforce",
        }
    }
}

/// What follows `v=STSv1` when that is all of the version.
fn after_version(rest: &[u8]) -> Option<&[u8]> {
    let rest = rest.trim_ascii_start();
    rest.strip_prefix(b";")
}

fn pattern(value: &str) -> Result<String, StsError> {
    let name = value.strip_prefix("*.").unwrap_or(value);
    let is_label =
        |label: &str| !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    let name = name.strip_suffix('.').unwrap_or(name);
    match name.len() <= NAME_BYTES_MAX && name.split('.').all(is_label) {
        true => Ok(value.strip_suffix('.').unwrap_or(value).to_ascii_lowercase()),
        false => Err(refused("mx", Some(value))),
    }
}

fn refused(field: &'static str, value: Option<&str>) -> StsError {
    let value = value.unwrap_or_default().chars().take(SHOWN_CHARS_MAX).map(|c| if c.is_control() { '?' } else { c });
    StsError::Value { field, value: value.collect() }
}

/// Longest id (RFC 8461 section 3.1).
const ID_CHARS_MAX: usize = 32;
/// Longest domain name in text.
const NAME_BYTES_MAX: usize = 253;
/// How much of a refused value an error shows.
const SHOWN_CHARS_MAX: usize = 64;

#[cfg(test)]
#[path = "mta_sts_tests.rs"]
mod tests;
