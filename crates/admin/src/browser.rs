//! `GET /api-docs/openapi.json` and `GET /rapidoc`: what a listener answers, for programs and for people.
//!
//! KumoMTA's paths; the page is our own. It is one file without anything from elsewhere, so that it works where there is no network,
//! and its policy says so: the browser runs this script alone and asks this server alone.

use crate::describe::{Operation, Output};
use crate::document::document;
use crate::endpoint::Endpoint;
use crate::forms::Schemas;
use crate::pack::AsItIs;
use axum::Extension;
use axum::body::Bytes;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use uuid::Uuid;

/// The OpenAPI document of a listener.
#[derive(Clone)]
pub(crate) struct Document(Bytes);

/// The page.
struct Page;

impl Document {
    pub fn of<S>(title: &str, endpoints: &[Endpoint<S>]) -> Document {
        Document(document(title, endpoints).to_string().into())
    }
}

/// Where the document is.
pub(crate) const DOCUMENT: &str = "/api-docs/openapi.json";

/// What every listener has.
pub(crate) fn endpoints<S: Clone + Send + Sync + 'static>() -> [Endpoint<S>; 2] {
    [
        Endpoint::at(DOCUMENT, "About").get(openapi, "This description, as OpenAPI 3.1.", &[]),
        Endpoint::at("/rapidoc", "About").get(page, "This description, to read and to try.", &[]),
    ]
}

async fn openapi(Extension(document): Extension<Document>) -> Document {
    document
}

async fn page() -> Page {
    Page
}

impl IntoResponse for Document {
    fn into_response(self) -> Response {
        (Extension(AsItIs), [(header::CONTENT_TYPE, "application/json")], self.0).into_response()
    }
}

impl Output for Document {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        operation.answers(200, "application/json", json!({"type": "object"}));
    }
}

impl IntoResponse for Page {
    fn into_response(self) -> Response {
        // Known to nobody before it is sent, so that nothing that gets into the page runs with it.
        let nonce = Uuid::new_v4().simple().to_string();
        let policy = format!(
            "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; base-uri 'none'; \
             form-action 'none'; frame-ancestors 'none'"
        );
        let headers = [
            (header::CONTENT_TYPE, "text/html; charset=utf-8"),
            (header::CONTENT_SECURITY_POLICY, &*policy),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::REFERRER_POLICY, "no-referrer"),
            (header::CACHE_CONTROL, "no-store"),
        ];
        (headers, PAGE.replace("{nonce}", &nonce)).into_response()
    }
}

impl Output for Page {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        operation.answers(200, "text/html; charset=utf-8", json!({"type": "string"}));
    }
}

/// The file; `{nonce}` stands where a script or a style begins.
const PAGE: &str = include_str!("browser.html");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small_and_needs_nothing_from_elsewhere() {
        assert!(PAGE.len() < 30_000);
        for word in ["http://", "https://", "src=", "@import", "url(", "innerHTML", "eval(", "style="] {
            assert!(!PAGE.contains(word), "{word}");
        }
        assert_eq!(PAGE.matches("{nonce}").count(), 2, "one script and one style");
    }

    #[test]
    fn what_runs_is_what_was_sent() {
        let policy = || {
            let answer = Page.into_response();
            let policy = answer.headers()[header::CONTENT_SECURITY_POLICY].to_str().expect("text").to_owned();
            let nonce = policy.split("script-src 'nonce-").nth(1).and_then(|rest| rest.split('\'').next());
            (nonce.expect("a nonce").to_owned(), policy)
        };
        let ((first, policy), (second, _)) = (policy(), policy());
        assert!(first.len() == 32 && first != second);
        assert!(policy.starts_with("default-src 'none'; ") && !policy.contains("unsafe"), "{policy}");
    }
}
