//! `kumo.aaa`: who may ask what of the HTTP listener, and the accounting log.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use e2e::http;
use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::logs::Logs;
use e2e::peers;
use e2e::process::run;
use e2e::scratch::Scratch;
use e2e::until::{LATER, SOON, until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// `eve` may not inject, whoever else proves who he is may; who is on the staff may see metrics.
const LISTS: &str = "[[acl.\"http_listener/*/api/inject\"]]\nallow = false\nprivileges = ['POST']\nidentity.Individual = 'eve'\n\
                     [[acl.\"http_listener/*/api/inject\"]]\nallow = true\nprivileges = ['POST']\nidentity = 'Authenticated'\n\
                     [[acl.\"http_listener/*/metrics\"]]\nallow = true\nprivileges = ['GET']\nidentity.Group = 'staff'\n";
const METRICS: &str = "/metrics?prefix=total_messages";
const QUEUE: &str = "/api/admin/inspect-sched-q/v1?queue_name=none.test";
const NOBODY_IS_TRUSTED: &str = "trusted_hosts = { '192.0.2.1' }";

fn launch(scratch: &Scratch) -> Launch {
    std::fs::write(scratch.join("acls.toml"), LISTS).expect("lists");
    Launch::policy(policy_file("acls.lua")).env("ACL_DIR", scratch.path()).env("ACL_HTTP", NOBODY_IS_TRUSTED)
}

/// The status, and what is said; `user` proves who he is unless there is none.
fn ask(node: &Kumod, user: &str, method: &str, path: &str) -> (u16, String) {
    let credentials = format!("Basic {}", STANDARD.encode(format!("{user}:secret")));
    let fields = [("Content-Type", "application/json"), ("Authorization", credentials.as_str())];
    let count = if user.is_empty() { 1 } else { 2 };
    http::send_with(node.http(), method, path, &fields[..count], b"{}")
}

fn accounts(scratch: &Scratch, kind: &str) -> Vec<Value> {
    let folder = scratch.join("acct");
    let logs = Logs::new(&folder);
    assert!(
        logs.segments().iter().all(|path| path.starts_with(&folder) && path.display().to_string().contains("/acct-"))
    );
    logs.records().into_iter().filter_map(|record| record.get(kind).cloned()).collect()
}

#[test]
fn rules_of_policy_decide_who_may_ask_what() {
    let scratch = Scratch::new();
    let node = launch(&scratch).start();
    let status = |user, method, path| ask(&node, user, method, path).0;
    // A list in a file, before the built-in ones.
    assert_eq!(status("ann", "GET", METRICS), 200);
    assert_eq!((status("bob", "GET", METRICS), status("", "GET", METRICS)), (401, 401));
    assert_eq!(status("ann", "HEAD", METRICS), 200, "who may see may look for it");
    assert_eq!(status("bob", "HEAD", METRICS), 401);
    assert_eq!(status("eve", "POST", "/api/inject/v1"), 401);
    // What follows is about the request itself.
    assert_eq!(status("bob", "POST", "/api/inject/v1"), 422);
    assert_eq!(status("", "GET", "/api/check-liveness/v1"), 200);
    // A list made by the script.
    let (of_staff, of_guests, of_eve, of_nobody) = (
        status("ann", "GET", QUEUE),
        status("bob", "GET", QUEUE),
        status("eve", "GET", QUEUE),
        status("", "GET", QUEUE),
    );
    assert_eq!((of_staff, of_guests, of_eve, of_nobody), (404, 401, 401, 404), "there is no such queue");
    let (_, why) = ask(&node, "bob", "DELETE", "/api/admin/bounce/v1");
    let resource = format!("http_listener/{}/api/admin/bounce/v1", node.http());
    assert_eq!(why, format!("Error: DELETE of {resource} is not allowed: 127.0.0.1 is not in trusted_hosts\n"));
    node.stop();
}

#[test]
fn who_is_trusted_is_only_a_group() {
    let scratch = Scratch::new();
    let node = launch(&scratch).env("ACL_HTTP", "").start();
    // By the list, the staff; by the built-in one behind it, nobody else, since it is not asked.
    assert_eq!(ask(&node, "", "GET", METRICS).0, 401, "the list of metrics is the policy's");
    assert_eq!(ask(&node, "", "GET", "/api/admin/bounce/v1").0, 200);
    assert_eq!(ask(&node, "eve", "POST", "/api/inject/v1").0, 401, "a rule forbids it, whoever may otherwise");
    node.stop();
}

#[test]
fn what_was_said_of_a_resource_holds_for_a_while() {
    let asked = |ttl: &str| {
        let scratch = Scratch::new();
        let node = launch(&scratch).env("ACL_TTL", ttl).start();
        for _ in 0..3 {
            assert_eq!(ask(&node, "ann", "GET", METRICS).0, 200);
        }
        let text = std::fs::read_to_string(scratch.join("asked")).expect("what was asked");
        let count = text.lines().filter(|line| *line == "http_listener/*/metrics").count();
        // Another list, and a new epoch by who may begin one.
        std::fs::write(scratch.join("acls.toml"), LISTS.replace("'staff'", "'guests'")).expect("lists");
        node.process.signal(Signal::SIGHUP);
        until(LATER, "the new list", || (ask(&node, "ann", "GET", METRICS).0 == 401).then_some(()));
        assert_eq!(ask(&node, "bob", "GET", METRICS).0, 200);
        node.stop();
        count
    };
    assert_eq!((asked("5m"), asked("0s")), (1, 3));
}

#[test]
fn without_the_built_in_lists_only_policy_allows() {
    let scratch = Scratch::new();
    let node = launch(&scratch).env("ACL_ALONE", "yes").env("ACL_HTTP", "").start();
    assert_eq!(ask(&node, "ann", "GET", METRICS).0, 200);
    assert_eq!(ask(&node, "", "GET", "/api/admin/bounce/v1").0, 401);
    assert_eq!(ask(&node, "", "GET", "/api/check-liveness/v1").0, 401);
    node.stop();
}

#[test]
fn scripts_ask_what_somebody_may_do() {
    let scratch = Scratch::new();
    let node = launch(&scratch).start();
    let said = reply_of_script(&node);
    let rule = json!({"criteria": {"Identity": "Authenticated"}, "privilege": "POST", "access": "Allow"});
    assert_eq!(said["allowed"], json!({"Allow": {"rule": rule, "resource": "http_listener/*/api/inject"}}));
    let rule = json!({"criteria": {"Identity": {"Individual": "eve"}}, "privilege": "POST", "access": "Deny"});
    assert_eq!(said["forbidden"], json!({"Deny": {"rule": rule, "resource": "http_listener/*/api/inject"}}));
    assert_eq!(said["unknown"], "DenyByDefault");
    // AUTH told policy who the client is, and policy told us.
    assert_eq!(said["client"]["identities"], json!([{"identity": "scott", "context": "GenericAuth"}]));
    assert_eq!(
        (&said["client"]["peer_address"], &said["client"]["groups"][0]),
        (&json!("127.0.0.1"), &json!("clients"))
    );
    node.stop();
    let of_script: Vec<Value> = accounts(&scratch, "Authorization");
    let access: Vec<&Value> = of_script.iter().map(|entry| &entry["access"]).collect();
    assert_eq!(access, ["Allow", "Deny", "Deny"]);
    assert_eq!(of_script[0]["target_resource"], "http_listener/127.0.0.1:8000/api/inject/v1");
    assert_eq!(of_script[0]["considered_resources"].as_array().map(Vec::len), Some(8));
}

/// What the script answers a message with; the client proves who it is.
fn reply_of_script(node: &Kumod) -> Value {
    let mut swaks = peers::command("swaks");
    swaks.args(["--server", "127.0.0.1", "--port", &node.smtp().port().to_string(), "--tls", "--to", "a@b.test"]);
    swaks.args(["--auth", "PLAIN", "--auth-user", "scott", "--auth-password", "secret"]);
    let finished = run("swaks", swaks, SOON);
    let line = finished.stdout.lines().find_map(|line| line.strip_prefix("<~* 550 ")).expect("the reply");
    serde_json::from_str(line).expect("JSON")
}

#[test]
fn the_accounting_log_says_who_did_what() {
    let scratch = Scratch::new();
    let node = launch(&scratch).env("ACL_QUIET", "yes").start();
    assert_eq!(ask(&node, "ann", "GET", METRICS).0, 200);
    assert_eq!(ask(&node, "bob", "GET", METRICS).0, 401);
    let wrong = [("Authorization", "Basic YW5uOndyb25n")];
    assert_eq!(http::send_with(node.http(), "GET", METRICS, &wrong, b"").0, 401);
    reply_of_script(&node);
    node.stop();

    let entries = accounts(&scratch, "Authentication");
    let told = |entry: &Value| {
        let who = &entry["attempted_identity"];
        (
            who["identity"].clone(),
            who["context"].clone(),
            entry["success"].clone(),
            entry["auth_info"]["groups"].clone(),
        )
    };
    let told: Vec<_> = entries.iter().map(told).collect();
    let http = |name: &str, success: bool, groups: &[&str]| {
        (json!(name), json!("HttpBasicAuth"), json!(success), json!(groups))
    };
    let client = (json!("scott"), json!("SmtpAuthPlainAuthentication"), json!(true), json!(["clients"]));
    assert_eq!(
        told,
        [http("ann", true, &["staff"]), http("bob", true, &["guests"]), http("ann", false, &[]), client],
        "{entries:?}"
    );
    assert!(entries.iter().all(|entry| entry["auth_info"]["peer_address"] == "127.0.0.1"));
    assert!(!entries.iter().any(|entry| entry.to_string().contains("secret") || entry.to_string().contains("wrong")));
    let denied: Vec<Value> = accounts(&scratch, "Authorization");
    assert!(denied.iter().all(|entry| entry["access"] == "Deny"), "what is allowed is not logged: {denied:?}");
    let of_bob = &denied[0];
    assert_eq!(of_bob["auth_info"]["identities"][0]["identity"], "bob");
    assert_eq!(
        (&of_bob["privilege"], &of_bob["rule"], &of_bob["matching_resource"]),
        (&json!("GET"), &Value::Null, &Value::Null)
    );
}
