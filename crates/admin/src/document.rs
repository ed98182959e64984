//! The OpenAPI 3.1 document of a listener, made of its table of endpoints.
//!
//! In: rows. Out: JSON. Who may ask is read from the built-in rules; a policy may have others, which the document does not know.

use crate::describe::Operation;
use crate::endpoint::{Endpoint, Row};
use crate::forms::Schemas;
use access::{IdentityKind, TRUSTED_PEERS};
use axum::http::StatusCode;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};

/// Whom the built-in rules let.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// Whoever asks.
    Anybody,
    /// Peers in `trusted_hosts`, and who proves who he is.
    Proven,
    /// Peers in `trusted_hosts`.
    Trusted,
    /// Nobody: no rule is about it.
    Nobody,
}

/// The document; `title` is what the program calls itself.
pub(crate) fn document<S>(title: &str, endpoints: &[Endpoint<S>]) -> Value {
    let (mut schemas, mut paths, mut statuses) = (Schemas::default(), Map::new(), BTreeSet::new());
    for endpoint in endpoints {
        // Another row of the same path adds to it, as in the router.
        let methods = paths.entry(endpoint.path).or_insert_with(|| json!({}));
        for row in &endpoint.rows {
            let described = described(endpoint.path, endpoint.group, row, &mut schemas, &mut statuses);
            methods[row.method.to_ascii_lowercase()] = described;
        }
    }
    let refusals = statuses.into_iter().map(|status| (status.to_string(), refusal(status)));
    json!({
        "openapi": "3.1.0",
        "info": {"title": title, "version": env!("CARGO_PKG_VERSION"), "description": ABOUT},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": schemas.finish(),
            "responses": refusals.collect::<Map<_, _>>(),
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
    })
}

fn described(path: &str, group: &str, row: &Row, schemas: &mut Schemas, statuses: &mut BTreeSet<u16>) -> Value {
    let mut operation = Operation::default();
    (row.describe)(&mut operation, schemas);
    let Operation { parameters, body, answers, refusals, upgrades } = operation;
    let who = who_may(path, row.method);
    // Whatever is asked: an Authorization that is none, one that policy does not know, a browser that calls us by another's name,
    // no room in the accounting log; of what changes anything, a page of another site, or a Content-Encoding that nobody knows.
    let of_changes = (row.method != "GET").then_some([403, 415]).into_iter().flatten();
    let refusals =
        refusals.into_iter().chain(row.refusals.iter().copied()).chain([400, 401, 421, 500, 503]).chain(of_changes);
    let mut said: BTreeMap<u16, Value> = BTreeMap::new();
    for status in refusals {
        statuses.insert(status);
        said.insert(status, json!({"$ref": format!("#/components/responses/{status}")}));
    }
    for (status, content) in answers {
        let content = content.map(|(media, schema)| json!({(media): {"schema": schema}}));
        let mut answer = json!({"description": reason(status)});
        content.into_iter().for_each(|content| answer["content"] = content);
        said.insert(status, answer);
    }
    let said: Map<String, Value> = said.into_iter().map(|(status, answer)| (status.to_string(), answer)).collect();
    let mut described = json!({
        "operationId": operation_id(row.method, path),
        "summary": row.about,
        "tags": [group],
        "security": who.security(),
        "x-who": who.words(),
        "responses": said,
    });
    if upgrades {
        described["x-websocket"] = Value::Bool(true);
    }
    if !parameters.is_empty() {
        described["parameters"] = parameters.into();
    }
    if let Some((media, schema)) = body {
        described["requestBody"] = json!({"required": true, "content": {(media): {"schema": schema}}});
    }
    described
}

/// Whom the built-in rules let ask.
pub(crate) fn who_may(path: &str, method: &str) -> Who {
    let resources = access::http_resources(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), path);
    let Some(list) = resources.iter().find_map(|resource| access::built_in(resource)) else { return Who::Nobody };
    let rules = list.rules.iter().filter(|rule| rule.privilege == method);
    let kinds: Vec<_> = rules.map(|rule| &rule.criteria).collect();
    let is = |kind: IdentityKind| kinds.contains(&&access::Criteria::Identity(kind));
    match () {
        () if is(IdentityKind::Any) => Who::Anybody,
        () if is(IdentityKind::Authenticated) => Who::Proven,
        () if is(IdentityKind::Group(TRUSTED_PEERS.to_owned())) => Who::Trusted,
        () => Who::Nobody,
    }
}

impl Who {
    /// As OpenAPI has it, which knows nothing of addresses: policy may let in by credentials whom an address does not.
    fn security(self) -> Value {
        match self {
            Who::Anybody => json!([]),
            Who::Proven | Who::Trusted | Who::Nobody => json!([{}, {"basic": []}, {"bearer": []}]),
        }
    }

    fn words(self) -> &'static str {
        match self {
            Who::Anybody => "anybody",
            Who::Proven => "trusted hosts, and with credentials",
            Who::Trusted => "trusted hosts",
            Who::Nobody => "whom policy lets",
        }
    }
}

fn operation_id(method: &str, path: &str) -> String {
    let words = path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    std::iter::once(method.to_ascii_lowercase()).chain(words.map(str::to_owned)).collect::<Vec<_>>().join("_")
}

fn refusal(status: u16) -> Value {
    let about = match status {
        400 => "The request is malformed: which part, what it says and what was expected.",
        401 => "No rule lets you ask that, or the credentials are wrong.",
        404 => "There is nothing of that name.",
        409 => "It is at odds with what is there.",
        413 => "The body is longer than `request_body_limit`.",
        415 => "The body has another media type, or another Content-Encoding, than is taken.",
        422 => "The body is not what is taken: a JSON pointer to the place, what stands there and what was expected.",
        500 => "Policy failed, or the server itself.",
        503 => "Not now: the text says why.",
        other => reason(other),
    };
    json!({"description": about, "content": {"text/plain; charset=utf-8": {"schema": {"type": "string"}}}})
}

fn reason(status: u16) -> &'static str {
    StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or_default()
}

/// What holds for all.
const ABOUT: &str = "Bodies are JSON where nothing else is said. A refusal is text: `Error:` and what is wrong; of a body, a JSON \
                     pointer (RFC 6901) to the place comes first. Who may ask is what the built-in rules say; policy may say otherwise.";

#[cfg(test)]
mod tests {
    use super::*;
    use axum::Router;

    /// Paths and methods as axum's router has them.
    fn routed(endpoints: Vec<Endpoint<()>>) -> BTreeSet<(String, String)> {
        let add = |router: Router<()>, row: Endpoint<()>| router.route(row.path, row.methods);
        let text = format!("{:?}", endpoints.into_iter().fold(Router::new(), add));
        let (routes, _) = text.split_once("fallback_router").expect("axum's form");
        let (routes, paths) = routes.split_once("node: Node").expect("axum's form");
        let ids = paths.split("RouteId(").skip(1).map(|part| {
            let (id, path) = part.split_once("): \"").expect("axum's form");
            (id, path.split('"').next().unwrap_or_default())
        });
        let path_of: BTreeMap<&str, &str> = ids.collect();
        let mut found = BTreeSet::new();
        for part in routes.split("RouteId(").skip(1) {
            let (id, part) = part.split_once(')').expect("axum's form");
            let allowed = part.split("allow_header: Bytes(b\"").nth(1).and_then(|part| part.split('"').next());
            for method in allowed.expect("axum's form").split(',').filter(|method| *method != "HEAD") {
                found.insert((path_of[id].to_owned(), method.to_owned()));
            }
        }
        found
    }

    /// There is no other way to make a row.
    #[test]
    fn what_is_routed_is_described_and_nothing_else() {
        let handler = async || "text";
        let rows = vec![
            Endpoint::at("/metrics", "G").get(handler, "One.", &[]),
            Endpoint::at("/api/admin/bounce/v1", "G").get(handler, "One.", &[]).post(handler, "Two.", &[409]),
            Endpoint::at("/metrics", "G").post(handler, "Five.", &[]),
            Endpoint::at("/api/admin/bounces/v1", "G").delete(handler, "Three.", &[404]).get(handler, "Four.", &[]),
        ];
        let document = document("t", &rows);
        let mut described = BTreeSet::new();
        for (path, methods) in document["paths"].as_object().expect("paths") {
            let methods = methods.as_object().expect("methods").keys();
            described.extend(methods.map(|method| (path.clone(), method.to_ascii_uppercase())));
        }
        assert_eq!(described, routed(rows));
        assert!(
            described.len() == 6 && described.contains(&("/metrics".to_owned(), "GET".to_owned())),
            "{described:?}"
        );
    }
}
