//! Who may ask what: KumoMTA's built-in rules.
//!
//! A peer in `trusted_hosts` may ask everything. Who proves who he is, by a password or a token that policy accepts, may inject
//! mail and nothing else. Credentials that are wrong are refused from whomever they come.

use crate::answer::Failed;
use crate::credentials::{Credentials, Remembered};
use crate::socket::Peer;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::Response;
use config::{CidrSet, HttpListener};
use policy::{AuthInfo, Policy};
use std::net::SocketAddr;
use std::sync::Arc;

/// The rules of a listener, and who was proven lately.
#[derive(Clone)]
pub(crate) struct Access(Arc<Inner>);

struct Inner {
    policy: Arc<dyn Policy>,
    trusted: CidrSet,
    remembered: Remembered,
}

/// Who may ask.
#[derive(Clone, Copy)]
pub(crate) enum Who {
    /// Peers in `trusted_hosts`.
    Trusted,
    /// These, and who proves who he is.
    Proven,
}

/// Who asks.
#[derive(Clone)]
pub(crate) struct Proven(pub AuthInfo);

impl Access {
    pub fn new(policy: Arc<dyn Policy>, options: &HttpListener) -> Access {
        let trusted = options.trusted_hosts.clone();
        Access(Arc::new(Inner { policy, trusted, remembered: Remembered::default() }))
    }

    /// Who asks, if it is somebody who may.
    async fn proven(&self, who: Who, peer: SocketAddr, header: Option<&str>) -> Result<AuthInfo, Failed> {
        let Inner { policy, trusted, remembered } = &*self.0;
        let mut auth = match header.map(Credentials::parse).transpose().map_err(Failed::bad)? {
            Some(credentials) => remembered.ask(&**policy, credentials).await?,
            None => AuthInfo::default(),
        };
        auth.peer_address = Some(peer.ip());
        let is_trusted = trusted.contains(peer.ip());
        if is_trusted {
            auth.groups.push(TRUSTED.to_owned());
        }
        match who {
            _ if is_trusted => Ok(auth),
            Who::Proven if !auth.identities.is_empty() => Ok(auth),
            Who::Proven => {
                Err(Failed::unauthorized(format!("{} is not in trusted_hosts: expected credentials", peer.ip())))
            }
            Who::Trusted => Err(Failed::unauthorized(format!("{} is not in trusted_hosts", peer.ip()))),
        }
    }
}

pub(crate) async fn check(
    State((access, who)): State<(Access, Who)>,
    ConnectInfo(Peer(peer)): ConnectInfo<Peer>,
    mut request: Request,
    next: Next,
) -> Result<Response, Failed> {
    let auth = access.proven(who, peer, authorization(request.headers())?).await?;
    request.extensions_mut().insert(Proven(auth));
    Ok(next.run(request).await)
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

/// Octets of a header that are looked at, and remembered.
const HEADER_OCTETS_MAX: usize = 8192;
/// The group of trusted peers (KumoMTA's name).
const TRUSTED: &str = "kumomta:http-listener-trusted-ip";
