//! Who may ask what: the lists that policy gives, or KumoMTA's built-in ones.
//!
//! By the built-in lists a peer in `trusted_hosts` may ask everything, who proves who he is, by a password or a token that policy
//! accepts, may inject mail and nothing else, and anybody may see whether the server is alive. Credentials that are wrong are
//! refused from whomever they come.

use crate::answer::Failed;
use crate::credentials::{Credentials, Remembered};
use crate::own_names::{Called, OwnNames};
use crate::socket::Peer;
use access::{TRUSTED_PEERS, http_resources};
use axum::extract::Request;
use axum::http::{HeaderMap, Method, header};
use config::{CidrSet, HttpListener};
use engine::Gate;
use policy::AuthInfo;
use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

/// The rules of a listener, and who was proven lately.
#[derive(Clone)]
pub(crate) struct Access(Arc<Inner>);

struct Inner {
    gate: Gate,
    trusted: CidrSet,
    remembered: Remembered,
    names: OwnNames,
}

/// What stands in front of a path.
#[derive(Clone)]
pub(crate) struct Guard {
    access: Access,
    path: &'static str,
    /// Those of a request to just this path, which are always the same.
    resources: Arc<OnceLock<Vec<String>>>,
}

/// Who asks.
#[derive(Clone)]
pub(crate) struct Proven(pub AuthInfo);

/// The listener's own address.
#[derive(Clone, Copy)]
pub(crate) struct Via(pub SocketAddr);

impl Access {
    /// `hostname` is what the listener is called where its options name nothing.
    pub fn new(gate: Gate, options: &HttpListener, hostname: &str) -> Access {
        let trusted = options.trusted_hosts.clone();
        let names = OwnNames::new(options, hostname);
        Access(Arc::new(Inner { gate, trusted, remembered: Remembered::default(), names }))
    }

    /// Who asks; of wrong credentials, an error. Of who calls this server by another's name only these count: it may be the browser of
    /// somebody who is trusted.
    async fn proven(&self, peer: SocketAddr, header: Option<&str>, called: Called) -> Result<AuthInfo, Failed> {
        let Inner { gate, trusted, remembered, .. } = &*self.0;
        let mut auth = match header.map(Credentials::parse).transpose().map_err(Failed::bad)? {
            Some(credentials) => remembered.ask(gate, credentials, peer.ip()).await?,
            None => AuthInfo::default(),
        };
        auth.peer_address = Some(peer.ip());
        if called == Called::ByAnOwnName && trusted.contains(peer.ip()) {
            auth.groups.push(TRUSTED_PEERS.to_owned());
        }
        Ok(auth)
    }

    /// Refuses what no rule allows of these resources.
    async fn allow(&self, auth: &AuthInfo, resources: &[String], method: &Method) -> Result<(), Failed> {
        // What one may see, one may look for.
        let privilege = if *method == Method::HEAD { Method::GET.as_str() } else { method.as_str() };
        let found = self.0.gate.may(resources, auth, privilege).await.map_err(|error| {
            tracing::error!("{error}");
            Failed::internal("policy could not tell who may ask that".to_owned())
        })?;
        if found.is_allowed() {
            return Ok(());
        }
        let what = resources.first().map_or("", String::as_str);
        let mut text = format!("{method} of {what} is not allowed");
        if !auth.groups.iter().any(|group| group == TRUSTED_PEERS) {
            let peer = auth.peer_address.map(|peer| peer.to_string()).unwrap_or_default();
            let hint = if auth.identities.is_empty() { ", and no credentials were sent" } else { "" };
            text += &match auth.peer_address.is_some_and(|peer| self.0.trusted.contains(peer)) {
                true => format!(
                    ": of a browser the address {peer} counts only where it calls the server by its own name or one in browser_hosts"
                ),
                false => format!(": {peer} is not in trusted_hosts{hint}"),
            };
        }
        Err(Failed::unauthorized(text))
    }
}

impl Guard {
    /// Of a path of a listener.
    pub fn new(access: Access, path: &'static str) -> Guard {
        Guard { access, path, resources: Arc::default() }
    }

    /// Notes in a request who asks.
    ///
    /// # Errors
    /// They may not ask that.
    pub async fn check(
        &self,
        Peer { address: peer, .. }: Peer,
        Via(via): Via,
        request: &mut Request,
    ) -> Result<(), Failed> {
        let access = &self.access;
        let path = request.uri().path();
        let is_probe = is_probe(path);
        if access.0.gate.accounts().is_full() && !is_probe {
            return Err(Failed::unavailable("the accounting log has no room for more records".to_owned()));
        }
        let called = match is_probe {
            true => Called::ByAnOwnName,
            false => access.0.names.check(request.method(), request.headers())?,
        };
        let auth = access.proven(peer, authorization(request.headers())?, called).await?;
        let resources = match path == self.path {
            true => Cow::Borrowed(self.resources.get_or_init(|| http_resources(via, path))),
            false => Cow::Owned(http_resources(via, path)),
        };
        access.allow(&auth, &resources, request.method()).await?;
        request.extensions_mut().insert(Proven(auth));
        Ok(())
    }
}

/// The one header that says who asks; of two, somebody before us may have looked at the other.
fn authorization(headers: &HeaderMap) -> Result<Option<&str>, Failed> {
    let mut found = headers.get_all(header::AUTHORIZATION).iter();
    let (first, second) = (found.next(), found.next());
    let wrong = |what: &str| {
        Failed::bad(format!("Authorization {what}: expected one, in ASCII, of at most {HEADER_OCTETS_MAX} octets"))
    };
    match (first, second) {
        (None, _) => Ok(None),
        (Some(_), Some(_)) => Err(wrong("is there twice")),
        (Some(one), None) if one.len() > HEADER_OCTETS_MAX => Err(wrong("is too long")),
        (Some(one), None) => one.to_str().map(Some).map_err(|_| wrong("is not ASCII")),
    }
}

/// What is answered, and not logged, while the accounting log has no room; and what is answered to the end.
pub(crate) fn is_probe(path: &str) -> bool {
    [LIVENESS, READINESS].contains(&path)
}

/// KumoMTA's probe.
pub(crate) const LIVENESS: &str = "/api/check-liveness/v1";
/// Ours.
pub(crate) const READINESS: &str = "/api/check-readiness/v1";
/// Octets of a header that are looked at, and remembered.
const HEADER_OCTETS_MAX: usize = 8192;
