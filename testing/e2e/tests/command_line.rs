//! Options of `kumod`'s command line that have no file of tests of their own.

use e2e::http;
use e2e::kumod::Launch;
use e2e::scratch::Scratch;
use e2e::until::{SOON, until};
use serde_json::Value;
use std::fs;
use std::net::SocketAddr;

/// Nobody is sent anything.
fn nobody() -> SocketAddr {
    "127.0.0.1:1".parse().expect("an address")
}

#[test]
fn the_description_that_is_printed_is_the_one_that_is_served() {
    let scratch = Scratch::new();
    let printed = Launch::relay(&scratch, nobody()).arg("--dump-openapi-spec").run().success();
    assert!(!scratch.join("relay").exists(), "nothing was started");
    let relay = Launch::relay(&scratch, nobody()).start();
    let (status, served) = http::get(relay.http(), "/api-docs/openapi.json");
    let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!((status, parse(&printed.stdout)), (200, parse(&served)));
    relay.stop();
}

#[test]
fn the_diagnostic_log_goes_to_files_of_a_directory() {
    let scratch = Scratch::new();
    let (dir, filter) = (scratch.join("diagnostics"), ("KUMOD_LOG", "info"));
    let relay = Launch::relay(&scratch, nobody()).env(filter.0, filter.1).arg("--diag-log-dir").arg(&dir).start();
    let (name, text) = until(SOON, "a file with lines", || {
        let file = fs::read_dir(&dir).ok()?.next()?.expect("an entry");
        let text = fs::read_to_string(file.path()).expect("readable");
        text.contains("synced before 250").then(|| (file.file_name().into_string().expect("text"), text))
    });
    assert!(
        name.starts_with("kumod-diagnostics.20") && text.contains(" INFO ") && !text.contains('\u{1b}'),
        "{name}: {text}"
    );
    let said = relay.stop().stderr;
    assert!(said.contains("initialization complete") && !said.contains(" INFO "), "{said}");

    fs::write(scratch.join("file"), "").expect("writes");
    let refused = Launch::relay(&scratch, nobody()).arg("--diag-log-dir").arg(scratch.join("file")).run();
    assert!(!refused.status.success() && refused.stderr.contains("--diag-log-dir"), "{refused:?}");
}
