//! The OpenAPI document against the server that serves it, by Schemathesis; who gets nothing whatever he says; what is said of
//! a malformed request.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use e2e::http;
use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::peers;
use e2e::process::run;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::{SOON, until};
use e2e::wire::Client;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

const DOCUMENT: &str = "/api-docs/openapi.json";
const PAGE: &str = "/rapidoc";
const LIVENESS: &str = "/api/check-liveness/v1";
const READINESS: &str = "/api/check-readiness/v1";
/// What anybody may ask.
const PUBLIC: [&str; 4] = [DOCUMENT, PAGE, LIVENESS, READINESS];

fn start(scratch: &Scratch) -> Kumod {
    recovered(Launch::policy(policy_file("openapi.lua")).env("OPENAPI_DIR", scratch.path()))
}

/// Until then it answers 503 to who asks for a message that is not there.
fn recovered(launch: Launch) -> Kumod {
    let node = launch.start();
    node.await_recovered(SOON);
    node
}

/// The listener that trusts nobody.
fn closed(node: &Kumod) -> SocketAddr {
    node.http[1]
}

/// Everything the document allows and much that it does not; a panic of the server is an answer too few, and an error.
fn schemathesis(server: SocketAddr, checks: &str, open: &[&str], more: &[&str]) {
    run_schemathesis(server, checks, &[("OPENAPI_OPEN", open.join(" "))], more);
}

fn run_schemathesis(server: SocketAddr, checks: &str, env: &[(&str, String)], more: &[&str]) {
    let mut command = Command::new(peers::file("schemathesis/bin/st", "schemathesis.sh"));
    command.env("SCHEMATHESIS_HOOKS", peers::own("schemathesis_hooks.py")).envs(env.iter().cloned());
    command.args(["run", &format!("http://{server}{DOCUMENT}"), "--checks", checks, "--seed", "1", "--no-color"]);
    command.args(["--phases", "examples,coverage,fuzzing", "--generation-database", "none", "--request-timeout", "10"]);
    command.args(["--continue-on-failure", "--warnings", "off"]).args(more);
    // Where it would look for settings, there are none.
    let scratch = Scratch::new();
    command.current_dir(scratch.path());
    let finished = run("schemathesis", command, RUN_MAX);
    assert!(finished.status.success(), "{}\n{}", finished.stdout, finished.stderr);
}

#[test]
fn who_is_trusted_is_answered_as_the_document_says() {
    let scratch = Scratch::new();
    let node = start(&scratch);
    schemathesis(node.http(), CONFORMANCE, &[], &["--max-examples", "8"]);
    assert_eq!(http::get(node.http(), LIVENESS), (200, "OK".to_owned()));
    node.stop();
}

/// Lists that are not empty, a queue with messages in it, a connection that delivers.
#[test]
fn what_is_there_is_told_as_the_document_says() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.join("ready")).expect("a directory");
    std::fs::write(scratch.join("ready/path"), "connection_limit = 1, max_message_rate = '600/m'").expect("options");
    let sink = Sink::start(&scratch, "slow", &["--delay-ms", "60000"]);
    let launch = Launch::policy(policy_file("ready.lua")).env("READY_DIR", scratch.join("ready"));
    let node = recovered(launch.env("READY_TO", sink.address.to_string()));
    for kind in ["suspend", "bounce", "hold", "suspend-ready-q", "rebind", "flush"] {
        let criteria = match kind {
            "suspend-ready-q" => json!({"name": "a->b@smtp_client", "reason": "r"}),
            "rebind" => json!({"domain": "none.test", "reason": "r", "data": {}}),
            _ => json!({"domain": "held.test", "reason": "r", "duration": "1h"}),
        };
        // Nobody's mail is bounced.
        let criteria = if kind == "bounce" { json!({"domain": "none.test", "reason": "r"}) } else { criteria };
        http::json(node.http(), "POST", &format!("/api/admin/{kind}/v1"), &criteria);
    }
    for to in ["one@a.test", "two@a.test", "one@held.test"] {
        assert_eq!(Client::connect(node.smtp()).submit("s@source.test", to, "x").code, 250);
    }
    let ready = "unspecified->mx_list:mx.a.test@smtp_client";
    let path = format!("/api/admin/inspect-ready-q/v1?queue_name={}", ready.replace('>', "%3E"));
    until(SOON, "a delivery", || http::get(node.http(), &path).1.contains("DeliveringMessage").then_some(()));
    let held = http::get(node.http(), "/api/admin/inspect-sched-q/v1?queue_name=held.test").1;
    let held: Value = serde_json::from_str(&held).expect("JSON");
    let id = held["messages"][0]["id"].as_str().expect("a message");
    let known = json!({
        "/api/admin/inspect-ready-q/v1": {"queue_name": ready},
        "/api/admin/inspect-sched-q/v1": {"queue_name": "held.test"},
        "/api/admin/inspect-message/v1": {"id": id},
        "/api/admin/resolve-egress-path/v1": {"domain": "a.test", "source": "unspecified"},
        "/api/admin/events/v1": {"from": "start", "cursor": null, "types": null, "log_dir": null, "suffix": null},
    });
    let only = ["--mode", "positive", "--include-method", "GET", "--max-examples", "5"];
    run_schemathesis(node.http(), &format!("found,{CONFORMANCE}"), &[("OPENAPI_KNOWN", known.to_string())], &only);
}

#[test]
fn who_proves_who_he_is_may_inject_and_nothing_else() {
    let scratch = Scratch::new();
    let node = start(&scratch);
    let open = [&PUBLIC[..], &["/api/inject/v1", "/api/inject/bulk/v1"]].concat();
    let checks = "closed,not_a_server_error,status_code_conformance,content_type_conformance";
    schemathesis(closed(&node), checks, &open, &["--auth", "ann:secret", "--max-examples", "5"]);
    node.stop();
}

#[test]
fn who_has_a_token_may_do_what_policy_says_and_nothing_else() {
    let scratch = Scratch::new();
    let node = start(&scratch);
    let open = [&PUBLIC[..], &["/api/inject/v1", "/api/inject/bulk/v1", "/metrics"]].concat();
    let checks = "closed,not_a_server_error,status_code_conformance,content_type_conformance";
    schemathesis(closed(&node), checks, &open, &["--header", "Authorization: Bearer key", "--max-examples", "5"]);
    let looks = |token: &str| {
        let field = format!("Authorization: Bearer {token}\r\n");
        status(&raw(closed(&node), &request("GET", "/metrics", &field)))
    };
    assert_eq!((looks("key"), looks("other")), (Some(200), Some(401)), "the rule is at work");
    node.stop();
}

#[test]
fn a_trusted_peer_that_proves_who_he_is_may_do_all() {
    let scratch = Scratch::new();
    let node = start(&scratch);
    let only = ["--auth", "ann:secret", "--max-examples", "3"];
    schemathesis(node.http(), CONFORMANCE, &[], &only);
    node.stop();
}

#[test]
fn a_stranger_gets_nothing() {
    let scratch = Scratch::new();
    let node = start(&scratch);
    let checks = "closed,not_a_server_error,status_code_conformance,content_type_conformance";
    schemathesis(closed(&node), checks, &PUBLIC, &["--max-examples", "5"]);
    node.stop();
}

#[test]
fn the_traffic_shaping_daemon_is_described_too() {
    let scratch = Scratch::new();
    let launch = |trusted: &str| {
        Launch::verb("tsa-daemon")
            .arg("--policy")
            .arg(policy_file("tsa.lua"))
            .env("TSA_LISTEN", "127.0.0.1:0")
            .env("TSA_DB", scratch.join(trusted))
            .env("TSA_RULES", policy_file("automation.toml"))
            .env("TSA_TRUSTED", trusted)
    };
    let daemon = launch("127.0.0.1").start();
    schemathesis(daemon.http(), CONFORMANCE, &[], &["--max-examples", "4"]);
    daemon.stop();
    let daemon = launch("192.0.2.1").start();
    schemathesis(
        daemon.http(),
        "closed,not_a_server_error",
        &[DOCUMENT, PAGE, LIVENESS, READINESS, "/tsa/status"],
        &["--max-examples", "5"],
    );
    daemon.stop();
}

#[test]
fn methods_are_those_of_the_document() {
    let scratch = Scratch::new();
    let node = start(&scratch);
    let document = document(node.http());
    for (path, methods) in document["paths"].as_object().expect("paths") {
        let described: BTreeSet<String> =
            methods.as_object().expect("methods").keys().map(|method| method.to_ascii_uppercase()).collect();
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "OPTIONS"] {
            let answer = raw(node.http(), &request(method, path, ""));
            let status = status(&answer);
            assert_eq!(status == Some(405), !described.contains(method), "{method} {path}: {answer}");
            if status == Some(405) {
                let allow = answer.lines().find_map(|line| line.strip_prefix("allow: ")).expect("Allow");
                let allowed = allow.split(',').filter(|method| *method != "HEAD").map(str::to_owned).collect();
                assert_eq!(described, allowed, "{path}");
            }
        }
    }
    node.stop();
}

#[test]
fn nothing_a_stranger_says_of_himself_or_of_the_path_opens_it() {
    let scratch = Scratch::new();
    let node = start(&scratch);
    let closed = closed(&node);
    let headers = [
        "X-Forwarded-For: 127.0.0.1",
        "X-Forwarded-For: 127.0.0.1, 192.0.2.1",
        "Forwarded: for=192.0.2.1;by=127.0.0.1",
        "X-Real-IP: 192.0.2.1",
        "X-Client-IP: 192.0.2.1",
        "True-Client-IP: 192.0.2.1",
        "CF-Connecting-IP: 192.0.2.1",
        "X-Originating-IP: 192.0.2.1",
        "X-Forwarded-Host: 192.0.2.1",
        "X-Original-URL: /api/check-liveness/v1",
        "X-Rewrite-URL: /api/check-liveness/v1",
        "X-HTTP-Method-Override: GET",
        "Via: 1.1 192.0.2.1",
        "Host: 192.0.2.1",
        "Origin: http://127.0.0.1",
        "Connection: close, authorization",
        "Authorization: Basic YW5uOnNlY3JldA==\r\nX-Forwarded-For: 192.0.2.1",
    ];
    for path in ["/metrics", "/api/admin/bounce/v1", "/api/machine-info", "/api/xfer/arrivals/v1"] {
        for header in headers {
            let answer = raw(closed, &request("GET", path, &format!("{header}\r\n")));
            assert!(matches!(status(&answer), Some(400 | 401 | 421)), "{path} {header}: {answer}");
        }
    }
    for path in tricks("/api/admin/bounce/v1").into_iter().chain(tricks("/metrics")) {
        for method in ["GET", "HEAD", "POST", "DELETE"] {
            let answer = raw(closed, &request(method, &path, ""));
            assert!(!matches!(status(&answer), Some(200..=399)), "{method} {path}: {answer}");
        }
    }
    // One request in another: what comes second is judged by itself.
    let two = format!("GET {LIVENESS} HTTP/1.1\r\nHost: x\r\n\r\n{}", request("GET", "/metrics", ""));
    let answer = raw(closed, &two);
    assert!(answer.contains("HTTP/1.1 401") && !answer.contains("# HELP"), "{answer}");
    let smuggled = format!(
        "POST {LIVENESS} HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{}",
        request("GET", "/metrics", "")
    );
    assert!(!raw(closed, &smuggled).contains("# HELP"));
    node.stop();
}

/// Ways to write a path that somebody in front of us may read as another.
fn tricks(path: &str) -> Vec<String> {
    let (first, rest) = path[1..].split_once('/').unwrap_or((&path[1..], ""));
    let hex = |text: &str| text.bytes().map(|octet| format!("%{octet:02x}")).collect::<String>();
    vec![
        format!("/{path}"),
        format!("{path}/"),
        format!("/.{path}"),
        format!("/x/..{path}"),
        format!("/%2e{path}"),
        format!("{LIVENESS}/../../..{path}"),
        format!("{LIVENESS}/%2e%2e/%2e%2e/%2e%2e{path}"),
        format!("{LIVENESS}/..;{path}"),
        format!("{LIVENESS}%2f..%2f..%2f..{}", path.replace('/', "%2f")),
        format!("{PAGE}/..{path}"),
        format!("{path};{LIVENESS}"),
        format!("{path}%00"),
        format!("{path}%20"),
        format!("{path}?x={LIVENESS}"),
        format!("{path}#{LIVENESS}"),
        format!("{path}\\..\\{LIVENESS}"),
        path.to_ascii_uppercase(),
        format!("/{}{}", hex(first), if rest.is_empty() { String::new() } else { format!("/{rest}") }),
        format!("http://127.0.0.1{path}"),
        format!("http://user@trusted{path}"),
        format!("//127.0.0.1{path}"),
        format!("/{}/{}", "x/".repeat(12), path),
        format!("{path}/{}", "y".repeat(300)),
    ]
}

#[test]
fn a_malformed_body_is_answered_with_a_pointer_to_the_fault() {
    let scratch = Scratch::new();
    let node = start(&scratch);
    let says = |method: &str, path: &str, body: &Value| {
        http::send(node.http(), method, path, "application/json", &body.to_string())
    };
    let bounce = "/api/admin/bounce/v1";
    for (path, body, says_what) in [
        (bounce, json!({"reason": 7}), "/reason: invalid type: integer `7`, expected a string"),
        (bounce, json!({}), "the body: missing field `reason`"),
        (
            bounce,
            json!({"reason": "x", "queue_names": ["a", 1]}),
            "/queue_names/1: invalid type: integer `1`, expected a string",
        ),
        (bounce, json!({"reason": "x", "messages": ["zz"]}), "/messages/0: \"zz\": expected a message id"),
        (bounce, json!({"reason": "x", "duration": "soon"}), "/duration: invalid duration \"soon\": expected"),
        (bounce, json!({"reason": "x", "messages": []}), "/messages: no ids: expected one at least"),
        (bounce, json!({"reason": "x", "messages": null}), "/messages: null: expected a value"),
        (
            bounce,
            json!({"reason": "x", "domian": "y"}),
            "/domian: unknown field `domian` (did you mean `domain`?), expected one of `campaign`, `tenant`, `domain`, ",
        ),
        (bounce, json!({"reason": "x", "resaon": "y"}), "unknown field `resaon` (did you mean `reason`?)"),
        (bounce, json!(7), "the body: invalid type: integer `7`, expected struct"),
        ("/api/admin/rebind/v1", json!({"reason": "x", "data": {"a/b": 5}}), "/data/a~1b: invalid type: integer `5`"),
        ("/api/admin/xfer/v1", json!({"reason": "x", "target": "ftp://b"}), "/target: "),
        (
            "/api/admin/xfer/cancel/v1",
            json!({"reason": "x", "queue_name": "a.test"}),
            "/queue_name: \"a.test\": expected a queue",
        ),
        (
            "/api/inject/v1",
            json!({"envelope_sender": "a@b.test", "content": "x", "recipients": [{"email": "c@d.test"}, {"email": 1}]}),
            "/recipients/1/email: invalid type: integer `1`, expected a string",
        ),
        ("/api/inject/v1", json!({"envelope_sender": "", "recipients": []}), "the body: missing field `content`"),
    ] {
        let (status, text) = says("POST", path, &body);
        assert!((400..=422).contains(&status), "{path} {body}: {status}");
        assert!(text.starts_with("Error: ") && text.contains(says_what), "{path} {body}: {text}");
    }
    for (method, path, body, expected) in [
        ("POST", bounce, "{\"reason\": ", (400, "the body is not JSON: EOF while parsing a value at line 1 column 11")),
        ("POST", bounce, "", (400, "the body is not JSON")),
        ("DELETE", bounce, "{\"id\": \"x\"}", (422, "/id: ")),
        ("GET", "/api/admin/inspect-message/v1?id=xyz", "", (400, "id: \"xyz\": expected a message id")),
        ("GET", "/api/admin/inspect-message/v1", "", (400, "missing field `id`")),
        (
            "GET",
            "/api/admin/inspect-sched-q/v1?queue_name=a&limit=x",
            "",
            (400, "limit: invalid value \"x\": expected a whole"),
        ),
        (
            "GET",
            "/api/admin/inspect-sched-q/v1?queue_name=a&queue_name=b",
            "",
            (400, "queue_name: it is there 2 times"),
        ),
        ("GET", "/api/admin/inspect-ready-q/v1?queue=a", "", (400, "unknown field `queue`, expected `queue_name`")),
        ("GET", "/metrics?prefx=a", "", (400, "unknown field `prefx`, expected `prefix`")),
    ] {
        let (status, text) = http::send(node.http(), method, path, "application/json", body);
        assert_eq!(status, expected.0, "{method} {path} {body}: {text}");
        assert!(text.contains(expected.1), "{method} {path} {body}: {text}");
    }
    let (status, text) = http::send(node.http(), "POST", bounce, "text/plain", "{}");
    assert_eq!((status, text.as_str()), (415, "Error: Content-Type is \"text/plain\": expected application/json\n"));
    node.stop();
}

#[test]
fn the_page_and_the_document_are_for_everybody() {
    let scratch = Scratch::new();
    let node = start(&scratch);
    let answer = raw(closed(&node), &request("GET", PAGE, ""));
    assert_eq!(status(&answer), Some(200));
    let policy = answer.lines().find_map(|line| line.strip_prefix("content-security-policy: ")).expect("a policy");
    let nonce = policy.split("script-src 'nonce-").nth(1).and_then(|rest| rest.split('\'').next()).expect("a nonce");
    assert!(policy.contains("default-src 'none'") && policy.contains("connect-src 'self'"), "{policy}");
    assert!(
        answer.contains(&format!("<script nonce=\"{nonce}\">"))
            && answer.contains(&format!("<style nonce=\"{nonce}\">"))
    );
    assert!(answer.contains("content-type: text/html; charset=utf-8"));
    let document = document(closed(&node));
    assert_eq!(document["openapi"], "3.1.0");
    let bounce = &document["paths"]["/api/admin/bounce/v1"]["post"];
    assert_eq!(bounce["x-who"], "trusted hosts");
    assert_eq!(document["paths"]["/api/inject/v1"]["post"]["x-who"], "trusted hosts, and with credentials");
    let credentials = format!("Authorization: Basic {}\r\n", STANDARD.encode("ann:wrong"));
    let answer = raw(closed(&node), &request("GET", DOCUMENT, &credentials));
    assert_eq!(status(&answer), Some(401), "wrong credentials are refused everywhere");
    node.stop();
}

fn document(server: SocketAddr) -> Value {
    let (status, text) = http::get(server, DOCUMENT);
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).expect("JSON")
}

fn request(method: &str, path: &str, headers: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: x\r\n{headers}Connection: close\r\nContent-Length: 0\r\n\r\n")
}

/// All that is answered until the server ends the connection.
fn raw(server: SocketAddr, octets: &str) -> String {
    let mut stream = TcpStream::connect(server).expect("listening");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    stream.write_all(octets.as_bytes()).expect("it takes that");
    let mut answer = Vec::new();
    // One that is cut off after its answer has answered too.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn status(answer: &str) -> Option<u16> {
    answer.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()
}

const CONFORMANCE: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,\
                           response_schema_conformance,unsupported_method,allow_header_conformance,negative_data_rejection,\
                           positive_data_acceptance,pointed";
/// A run takes a tenth of that.
const RUN_MAX: Duration = Duration::from_secs(180);
