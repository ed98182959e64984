//! Who somebody is, as policy knows it.

use config::{ConfigError, FromTable};
use core::net::IpAddr;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// KumoMTA's AuthInfo.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuthInfo {
    /// Where from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_address: Option<IpAddr>,
    /// Who was proven.
    pub identities: Vec<Identity>,
    /// What these belong to.
    pub groups: Vec<String>,
}

/// Somebody, and what proves it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// A name.
    pub identity: String,
    /// What it was proven by: `HttpBasicAuth`, `BearerToken`, `SmtpAuthPlainAuthentication`, ...
    #[serde(default = "generic")]
    pub context: String,
}

impl FromTable for AuthInfo {
    fn from_table(what: &'static str, value: Value) -> Result<AuthInfo, ConfigError> {
        config::parse(what, value)
    }
}

/// Where nobody says what proved it.
fn generic() -> String {
    "GenericAuth".to_owned()
}

impl AuthInfo {
    /// Somebody whom a user name and a password prove.
    pub fn by_password(user: &str) -> AuthInfo {
        AuthInfo::proven(user, "HttpBasicAuth")
    }

    /// Somebody whom a token proves; it is not kept.
    pub fn by_token() -> AuthInfo {
        AuthInfo::proven("", "BearerToken")
    }

    /// Somebody whom SMTP's AUTH proves: who they may act as, and who they are.
    pub fn by_smtp(authz: &str, authc: &str) -> AuthInfo {
        let mut auth = AuthInfo::proven(authz, "SmtpAuthPlainAuthorization");
        auth.identities.extend(AuthInfo::proven(authc, "SmtpAuthPlainAuthentication").identities);
        auth
    }

    fn proven(identity: &str, context: &str) -> AuthInfo {
        let identity = Identity { identity: identity.to_owned(), context: context.to_owned() };
        AuthInfo { identities: vec![identity], ..AuthInfo::default() }
    }

    /// The first name, or else the address: `http_auth` of messages (KumoMTA behaviour).
    pub fn summary(&self) -> String {
        let name = self.identities.iter().map(|one| one.identity.as_str()).find(|name| !name.is_empty());
        name.map(str::to_owned).or_else(|| self.peer_address.map(|address| address.to_string())).unwrap_or_default()
    }
}
