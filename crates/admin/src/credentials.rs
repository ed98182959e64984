//! What clients send to prove who they are, and what policy said of it lately.
//!
//! Policy is asked once a minute for the same credentials (KumoMTA behaviour); what was remembered of others is forgotten when
//! there is too much of it.

use crate::answer::Failed;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine::Gate;
use policy::AuthInfo;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The content of an Authorization header (RFC 7617, RFC 6750).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Credentials {
    Basic(String, Option<String>),
    Bearer(String),
}

/// What policy said, for as long as that holds.
#[derive(Default)]
pub(crate) struct Remembered(Mutex<HashMap<Credentials, (Instant, Option<AuthInfo>)>>);

impl Credentials {
    /// What a header says; an error tells what was expected, and never what was sent.
    pub fn parse(header: &str) -> Result<Credentials, String> {
        let (scheme, rest) = header.split_once(' ').unwrap_or((header, ""));
        let rest = rest.trim();
        if scheme.eq_ignore_ascii_case("Bearer") && !rest.is_empty() {
            return Ok(Credentials::Bearer(rest.to_owned()));
        }
        if !scheme.eq_ignore_ascii_case("Basic") {
            return Err("Authorization: expected Basic and base64, or Bearer and a token".to_owned());
        }
        let decoded = STANDARD.decode(rest).ok().and_then(|octets| String::from_utf8(octets).ok());
        let text = decoded
            .filter(|text| !text.is_empty())
            .ok_or("Authorization: expected base64 of user:password in UTF-8")?;
        Ok(match text.split_once(':') {
            Some((user, password)) => Credentials::Basic(user.to_owned(), Some(password.to_owned())),
            None => Credentials::Basic(text, None),
        })
    }

    /// Asks policy, and has it noted what came of it.
    async fn verify(self, gate: &Gate, peer: IpAddr) -> Result<Option<AuthInfo>, Failed> {
        let policy = gate.policy();
        let (tried, answer) = match self {
            Credentials::Basic(user, password) => {
                // Without a colon it may be a secret.
                let tried = AuthInfo::by_password(password.as_ref().map_or("", |_| user.as_str()));
                (tried, policy.http_server_validate_auth_basic(user, password).await)
            }
            Credentials::Bearer(token) => (AuthInfo::by_token(), policy.http_server_validate_auth_bearer(token).await),
        };
        let is_proven = matches!(answer, Ok(Some(_)));
        let mut who = answer.as_ref().ok().cloned().flatten().unwrap_or_default();
        who.peer_address = Some(peer);
        for tried in &tried.identities {
            gate.accounts().authentication(tried, is_proven, &who);
        }
        let found = answer.map_err(|error| {
            tracing::error!("{error}");
            Failed::internal("policy could not tell whether these credentials are right".to_owned())
        })?;
        Ok(found)
    }
}

impl Remembered {
    /// Who that is.
    pub async fn ask(&self, gate: &Gate, credentials: Credentials, peer: IpAddr) -> Result<AuthInfo, Failed> {
        let found = match self.recall(&credentials) {
            Some(found) => found,
            None => {
                let found = credentials.clone().verify(gate, peer).await?;
                self.note(credentials, found.clone());
                found
            }
        };
        found.ok_or_else(|| Failed::unauthorized("these credentials are wrong".to_owned()))
    }

    fn recall(&self, credentials: &Credentials) -> Option<Option<AuthInfo>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, found) = known.get(credentials)?;
        (at.elapsed() < LASTING).then(|| found.clone())
    }

    fn note(&self, credentials: Credentials, found: Option<AuthInfo>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN_MAX {
            known.retain(|_, (at, _)| at.elapsed() < LASTING);
        }
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(credentials, (Instant::now(), found));
    }
}

/// How long what policy said holds (KumoMTA behaviour).
const LASTING: Duration = Duration::from_secs(60);
/// Most credentials that are remembered.
const KNOWN_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_the_standards_write_them() {
        let basic =
            |user: &str, password: Option<&str>| Credentials::Basic(user.to_owned(), password.map(str::to_owned));
        for (header, expected) in [
            ("Basic dXNlcjpwYTpzcw==", basic("user", Some("pa:ss"))),
            ("basic dXNlcg==", basic("user", None)),
            ("BEARER  abc", Credentials::Bearer("abc".to_owned())),
        ] {
            assert_eq!(Credentials::parse(header), Ok(expected), "{header}");
        }
        for header in ["", "Basic", "Basic *", "Basic /w==", "Bearer", "Bearer ", "Digest abc", "secret"] {
            assert!(Credentials::parse(header).is_err_and(|why| !why.contains("secret")), "{header}");
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let remembered = Remembered::default();
        for n in 0..=KNOWN_MAX {
            remembered.note(Credentials::Bearer(n.to_string()), None);
        }
        assert_eq!(remembered.0.lock().expect("one thread").len(), 1);
        assert_eq!(remembered.recall(&Credentials::Bearer(KNOWN_MAX.to_string())), Some(None));
        assert_eq!(remembered.recall(&Credentials::Bearer("0".to_owned())), None);
    }
}
