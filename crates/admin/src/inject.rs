//! `POST /api/inject/v1`: one text for many recipients.
//!
//! 200 with what became of each recipient, also when there is a message for none of them (KumoMTA behaviour); 422 and a JSON
//! pointer when the request can be carried out for nobody; 503 when new mail is not taken now. What is answered with success is
//! queued, and synced to disk unless `deferred_spool` is asked for.

use crate::access::{Proven, Via};
use crate::answer::{self, Failed, Json};

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::header;
use engine::{Engine, NotInjected, Requester};
use injection::{Injection, Outcome};

/// What the listener calls this machine, where it says so.
#[derive(Clone)]
pub(crate) struct Name(pub Option<String>);

pub(crate) async fn inject(
    State(engine): State<Engine>,
    Extension(Proven(auth)): Extension<Proven>,
    Extension(Via(via)): Extension<Via>,
    Extension(Name(hostname)): Extension<Name>,
    request: Request,
) -> Result<Json<Outcome>, Failed> {
    if let Some(encoding) = request.headers().get(header::CONTENT_ENCODING) {
        return Err(Failed::bad(format!("Content-Encoding is {encoding:?}: expected none")));
    }
    let value = answer::value(request, &engine).await?;
    let injection: Injection = config::parse("request", value).map_err(|error| {
        let pointer = pointer(&error.path);
        Failed::unprocessable(format!("{pointer}: {}", error.fault))
    })?;
    let from = Requester { auth, via: Some(via.ip()), hostname };
    engine.inject_request(injection, from).await.map(Json).map_err(|error| match error {
        NotInjected::Wrong(error) => Failed::unprocessable(error.to_string()),
        NotInjected::Later(why) => Failed::unavailable(why),
        error @ NotInjected::CutShort => Failed::internal(error.to_string()),
    })
}

/// A path as the reader of options has it, `recipients[0].email`, as a JSON pointer (RFC 6901).
fn pointer(path: &str) -> String {
    let steps = path.split(['.', '[']).map(|step| step.trim_end_matches(']')).filter(|step| !step.is_empty());
    steps.map(|step| format!("/{}", step.replace('~', "~0").replace('/', "~1"))).collect()
}

#[cfg(test)]
mod tests {
    use super::pointer;

    #[test]
    fn paths_become_pointers() {
        assert_eq!(pointer("recipients[0].email"), "/recipients/0/email");
        assert_eq!(pointer("content.headers.a/b"), "/content/headers/a~1b");
        assert_eq!(pointer(""), "");
    }
}
