//! `GET /console` and what lies below it: the console, a page for browsers.
//!
//! It is in the program and asks nobody but it; what it shows and does are the endpoints beside this one. In: nothing. Out: a page,
//! its style and its scripts, which nothing else may be loaded into.

use crate::answer::Failed;
use crate::describe::{Input, Operation, Output};
use crate::forms::Schemas;
use axum::extract::Path;
use axum::http::{HeaderName, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// The page.
pub(crate) struct Page;

/// Its style.
pub(crate) struct Style;

/// A script.
pub(crate) struct File(&'static str);

pub(crate) async fn page() -> Page {
    Page
}

pub(crate) async fn file(Path(name): Path<String>) -> Result<File, Failed> {
    let found = FILES.iter().find(|(known, _)| *known == name);
    let (_, text) = found.ok_or_else(|| Failed::not_found(format!("the console has no {name:?}")))?;
    Ok(File(text))
}

pub(crate) async fn style() -> Style {
    Style
}

impl Input for Path<String> {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        operation.parameter(
            "path",
            "file",
            true,
            json!({"type": "string", "enum": FILES.map(|(name, _)| name), "description": "Its name."}),
        );
    }
}

impl IntoResponse for Page {
    fn into_response(self) -> Response {
        answer("text/html; charset=utf-8", include_str!("../console/index.html")).into_response()
    }
}

impl Output for Page {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        operation.answers(200, "text/html; charset=utf-8", json!({"type": "string"}));
    }
}

impl IntoResponse for File {
    fn into_response(self) -> Response {
        answer("text/javascript; charset=utf-8", self.0).into_response()
    }
}

impl IntoResponse for Style {
    fn into_response(self) -> Response {
        answer("text/css; charset=utf-8", STYLE).into_response()
    }
}

impl Output for Style {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        operation.answers(200, "text/css; charset=utf-8", json!({"type": "string"}));
    }
}

impl Output for File {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        operation.answers(200, "text/javascript; charset=utf-8", json!({"type": "string"}));
    }
}

fn answer(kind: &'static str, text: &'static str) -> impl IntoResponse {
    let fields: [(HeaderName, &str); 6] = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        // Another version of the program has another page.
        (header::CACHE_CONTROL, "no-store"),
    ];
    (fields, text)
}

const STYLE: &str = include_str!("../console/style.css");
/// The scripts that the page is made of.
const FILES: [(&str, &str); 9] = [
    ("app.js", include_str!("../console/app.js")),
    ("api.js", include_str!("../console/api.js")),
    ("dom.js", include_str!("../console/dom.js")),
    ("words.js", include_str!("../console/words.js")),
    ("overview.js", include_str!("../console/overview.js")),
    ("queues.js", include_str!("../console/queues.js")),
    ("orders.js", include_str!("../console/orders.js")),
    ("search.js", include_str!("../console/search.js")),
    ("config.js", include_str!("../console/config.js")),
];
/// Only its own files, no markup made of text, no frames, no forms that go anywhere.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
    base-uri 'none'; frame-ancestors 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const PAGE: &str = include_str!("../console/index.html");

    #[test]
    fn the_page_is_small_and_whole() {
        let files = FILES.into_iter().chain([("style.css", STYLE)]);
        let octets: usize = files.clone().map(|(_, text)| text.len()).sum::<usize>() + PAGE.len();
        assert!(octets < 100_000, "{octets} octets");
        let named = |text: &str| -> BTreeSet<String> {
            let quoted = text.split(['"', '\'']).filter(|part| part.ends_with(".js") || part.ends_with(".css"));
            quoted.filter_map(|path| path.rsplit('/').next()).map(str::to_owned).collect()
        };
        let asked_for: BTreeSet<String> = files.clone().flat_map(|(_, text)| named(text)).chain(named(PAGE)).collect();
        let there: BTreeSet<String> = files.clone().map(|(name, _)| name.to_owned()).collect();
        assert_eq!(asked_for, there);
        for (name, text) in files {
            for unsafe_word in
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "http://", "https://"]
            {
                let text = text.replace("http://www.w3.org/2000/svg", "");
                assert!(!text.contains(unsafe_word), "{name}: {unsafe_word}");
            }
        }
        assert!(!PAGE.contains("<script>") && !PAGE.contains("style=") && !PAGE.contains("onclick"), "nothing inline");
    }

    #[test]
    fn every_reason_to_wait_has_words() {
        let words = include_str!("../console/words.js");
        let manual = include_str!("../../../docs/queue.md");
        let section = manual.split("## Why a message waits").nth(1).expect("the section");
        let section = section.split("\n## ").next().expect("its text");
        let codes: Vec<&str> = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
        assert!(codes.len() > 10, "{codes:?}");
        for code in codes {
            assert!(words.contains(&format!("  {code}: ")), "{code}");
        }
    }
}
