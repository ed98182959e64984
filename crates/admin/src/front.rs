//! What every HTTP listener has in front of its endpoints: TLS, who may ask, and compressed bodies.
//!
//! In: the options of a listener, and the gate, which knows who may do what. Out: routes behind a guard.

use crate::AdminError;
use crate::access::{Access, Guard, Via};
use crate::answer::Failed;
use crate::browser::{self, Document};
use crate::endpoint::Endpoint;
use crate::inject::Listener;
use crate::socket::Peer;
use crate::{pack, unpack};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::Method;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use config::HttpListener;
use engine::Gate;
use net::identity::Identity;

/// TLS and guards of a listener.
pub struct Front {
    pub(crate) identity: Option<Identity>,
    access: Access,
    pub(crate) said: Listener,
}

impl Front {
    /// As the options say; a made-up certificate names `hostname` where they name nobody.
    ///
    /// # Errors
    /// The certificate or its key cannot be had or used.
    pub fn new(gate: Gate, options: &HttpListener, hostname: &str) -> Result<Front, AdminError> {
        let hostname = options.hostname.as_deref().unwrap_or(hostname);
        let pair = (options.tls_certificate.as_ref(), options.tls_private_key.as_ref());
        let identity = options.use_tls.then(|| Identity::new(pair, None, hostname)).transpose()?;
        let access = Access::new(gate, options, hostname);
        let said = Listener {
            hostname: options.hostname.clone(),
            window: options.idempotency_window.into(),
            body_octets_max: usize::try_from(options.request_body_bytes_max()).unwrap_or(usize::MAX),
        };
        Ok(Front { identity, access, said })
    }

    /// Routes for those whom the rules let, and what describes them; `title` is what the program calls itself. A method that a path
    /// does not have is 405 for everybody.
    pub fn guarded<S>(&self, title: &str, mut endpoints: Vec<Endpoint<S>>) -> Router<S>
    where
        S: Clone + Send + Sync + 'static,
    {
        endpoints.extend(browser::endpoints());
        let document = Document::of(title, &endpoints);
        let with_guard = |router: Router<S>, endpoint: Endpoint<S>| {
            let guard = Guard::new(self.access.clone(), endpoint.path);
            let methods = match endpoint.path == browser::DOCUMENT {
                true => endpoint.methods.layer(Extension(document.clone())),
                false => endpoint.methods,
            };
            router.route(endpoint.path, methods.route_layer(middleware::from_fn_with_state(guard, guarded)))
        };
        let routes = endpoints.into_iter().fold(Router::new(), with_guard);
        routes.fallback(no_such_path).method_not_allowed_fallback(no_such_method)
    }
}

/// For everybody, as which paths there are is in the documentation.
async fn no_such_path() -> Failed {
    Failed::not_found(format!("no such path: GET {} lists all there are", browser::DOCUMENT))
}

async fn no_such_method(method: Method) -> Failed {
    Failed::not_allowed(format!("{method} is not for this path: expected what the field Allow lists"))
}

/// In front of every handler, all in one for the same reason: who may ask, then codings of bodies.
async fn guarded(
    State(guard): State<Guard>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    Extension(via): Extension<Via>,
    mut request: Request,
    next: Next,
) -> Response {
    if let Err(failed) = guard.check(peer, via, &mut request).await {
        return failed.into_response();
    }
    let is_taken = pack::is_taken(&request);
    let answer = match unpack::request(&mut request) {
        Ok(()) => next.run(request).await,
        Err(failed) => unpack::refused(failed),
    };
    pack::answer(answer, is_taken)
}
