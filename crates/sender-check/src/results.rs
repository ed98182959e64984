//! What all checks give: an `AuthenticationResult` (RFC 8601 section 2.2), made from words of strangers.
//!
//! In: method, result, reason, properties. Out: a result that can be written into a header field: nothing in it breaks a line
//! or is longer than [`PROP_BYTES_MAX`]; a property that is, is left out. Cannot fail.

use mimepart::AuthenticationResult;

/// Why a signature or a chain is not believed, and whose fault that is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) kind: Kind,
    pub(crate) reason: String,
}

/// The words of RFC 8601 section 2.7.1 for what is not a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It does not fit the message, or its time is over.
    Fail,
    /// It may fit, but is made in a way that proves nothing (RFC 8301).
    Policy,
    /// DNS did not answer; later it may.
    TempError,
    /// It cannot be understood, or has no key.
    PermError,
}

impl Kind {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Kind::Fail => "fail",
            Kind::Policy => "policy",
            Kind::TempError => "temperror",
            Kind::PermError => "permerror",
        }
    }
}

impl Refusal {
    pub(crate) fn fail(reason: impl Into<String>) -> Refusal {
        Refusal { kind: Kind::Fail, reason: reason.into() }
    }

    pub(crate) fn policy(reason: impl Into<String>) -> Refusal {
        Refusal { kind: Kind::Policy, reason: reason.into() }
    }

    pub(crate) fn temporary(reason: impl Into<String>) -> Refusal {
        Refusal { kind: Kind::TempError, reason: reason.into() }
    }

    pub(crate) fn permanent(reason: impl Into<String>) -> Refusal {
        Refusal { kind: Kind::PermError, reason: reason.into() }
    }
}

/// A result without properties.
pub(crate) fn result(method: &str, word: &str, reason: Option<String>) -> AuthenticationResult {
    AuthenticationResult {
        method: method.to_owned(),
        result: word.to_owned(),
        reason,
        ..AuthenticationResult::default()
    }
}

/// Adds a property, when it can be written.
pub(crate) fn add_prop(result: &mut AuthenticationResult, name: &str, value: &str) {
    if !value.is_empty() && value.len() <= PROP_BYTES_MAX && !value.contains(char::is_control) {
        result.props.insert(name.to_owned(), value.to_owned());
    }
}

/// Longest value of a property, in octets: a local part and a domain of greatest length.
pub const PROP_BYTES_MAX: usize = 320;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_bounded() {
        let mut made = result("dkim", "pass", None);
        add_prop(&mut made, "a", &"x".repeat(PROP_BYTES_MAX));
        for (name, value) in [("b", "x".repeat(PROP_BYTES_MAX + 1)), ("c", "a\r\nb".to_owned()), ("d", String::new())] {
            add_prop(&mut made, name, &value);
        }
        assert_eq!(made.props.keys().collect::<Vec<_>>(), ["a"]);
    }
}
