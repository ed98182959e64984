//! Mail by requests over HTTP, and by scripts: `POST /api/inject/v1` and `kumo.api`.

use e2e::certificate::{Authority, Certificate};
use e2e::http;
use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::logs::Logs;
use e2e::peers;
use e2e::process::run;
use e2e::scratch::Scratch;
use e2e::until::{LATER, SOON, until};
use e2e::wire::Client;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const INJECT: &str = "/api/inject/v1";

fn launch(scratch: &Scratch) -> Launch {
    Launch::policy(policy_file("injection.lua")).env("INJECT_DIR", scratch.path())
}

fn request(recipients: Value) -> Value {
    json!({
        "envelope_sender": "s@from.test",
        "recipients": recipients,
        "content": {"subject": "Hello {{ name }}", "text_body": "For {{ email }}.", "from": {"email": "a@from.test"}},
    })
}

fn many(count: usize) -> Value {
    (0..count).map(|n| json!({"email": format!("r{n}@to.test"), "name": format!("N{n}")})).collect()
}

fn inject(node: &Kumod, request: &Value) -> Value {
    http::json(node.http(), "POST", INJECT, request)
}

fn attempt(node: &Kumod, fields: &[(&str, &str)], body: &str) -> (u16, String) {
    let fields = [&[("Content-Type", "application/json")], fields].concat();
    http::send_with(node.http(), "POST", INJECT, &fields, body.as_bytes())
}

/// The messages in somebody's Maildir.
fn mail(scratch: &Scratch, user: &str) -> Vec<String> {
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(entry.expect("an entry").path()).expect("a message")
    };
    let folder = scratch.join("mail").join(user).join("new");
    std::fs::read_dir(folder).map(|entries| entries.map(read).collect()).unwrap_or_default()
}

fn await_mail(scratch: &Scratch, user: &str) -> String {
    until(LATER, &format!("mail for {user}"), || mail(scratch, user).pop())
}

#[test]
fn a_request_becomes_a_message_for_each_recipient() {
    let scratch = Scratch::new();
    let node = launch(&scratch).start();
    let recipients = json!([
        {"email": "ann@to.test", "name": "Ann", "metadata": {"order": 7}},
        {"email": "bob@to.test", "substitutions": {"name": "Bobby"}},
        {"email": "refused@to.test"}, {"email": "broken@to.test"}, {"email": "no address"}, {"email": "nowhere@to.test"},
    ]);
    let mut body = request(recipients);
    body["trace_headers"] = json!({"received_header": true, "include_meta_names": ["extra"], "header_name": "X-Trace"});
    let outcome = inject(&node, &body);
    assert_eq!((&outcome["success_count"], &outcome["fail_count"]), (&json!(3), &json!(3)), "{outcome}");
    assert_eq!(outcome["failed_recipients"], json!(["refused@to.test", "broken@to.test", "no address"]));
    let errors: Vec<&str> = outcome["errors"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    assert_eq!(errors[0], "refused@to.test: 550 5.7.1 not you");
    assert!(
        errors[1].starts_with("broken@to.test: ") && errors[1].contains("a bug") && !errors[1].contains("traceback")
    );
    assert!(errors[2].starts_with("no address: "), "{errors:?}");

    let ann = await_mail(&scratch, "ann");
    for line in
        ["From: a@from.test", "To: Ann <ann@to.test>", "Subject: Hello Ann", "For ann@to.test.", "MIME-Version: 1.0"]
    {
        assert!(ann.lines().any(|found| found == line), "{line}: {ann}");
    }
    let received = ann.split("\nReceived: ").nth(1).or(ann.strip_prefix("Received: ")).expect("Received");
    assert!(received.starts_with("from from.test (127.0.0.1)"), "{received}");
    assert!(received.contains("with HTTP id ") && received.contains("for <ann@to.test>;"), "{received}");
    assert!(ann.contains("X-Trace: ") && await_mail(&scratch, "bob").contains("Subject: Hello Bobby"));

    let logs = Logs::new(scratch.join("logs"));
    let records = logs.await_type("Reception", 2, LATER);
    let of_ann = records.iter().find(|r| r["recipient"] == "ann@to.test").expect("a record");
    let meta = &of_ann["meta"];
    assert_eq!((&meta["extra"], &meta["http_auth"]), (&json!({"order": 7}), &json!("127.0.0.1")));
    assert_eq!((&meta["received_from"], &meta["received_via"]), (&json!("127.0.0.1"), &json!("127.0.0.1")));
    assert_eq!((&meta["hostname"], &of_ann["reception_protocol"]), (&json!("inject.test"), &json!("HTTP")));
    assert_eq!(meta["auth"]["groups"], json!(["kumomta:http-listener-trusted-ip"]));
    assert_eq!(meta["auth"]["peer_address"], "127.0.0.1");
    assert_eq!(node.metric("total_messages_received{service=\"http_listener\"}"), 6.0);
    node.stop();
}

#[test]
fn who_may_inject_is_for_policy_to_say() {
    let scratch = Scratch::new();
    let node = launch(&scratch).env("INJECT_HTTP", "trusted_hosts = { '192.0.2.1' }").start();
    let body = request(json!([{"email": "ann@to.test", "name": "Ann"}])).to_string();
    let basic = |text: &str| [("Authorization", format!("Basic {text}"))];
    let status = |field: &[(&str, String)]| {
        let fields: Vec<(&str, &str)> = field.iter().map(|(name, value)| (*name, value.as_str())).collect();
        attempt(&node, &fields, &body)
    };
    assert_eq!(status(&[]).0, 401);
    for (credentials, expected) in [
        ("YW5uOnNlY3JldA==", 200), // ann:secret
        ("YW5uOnNlY3JldA==", 200),
        ("aW5mbzo=", 200),     // info:
        ("YW5uOndyb25n", 401), // ann:wrong
        ("YW5u", 401),         // ann
        ("ZGVhZDp4", 500),     // dead:x
        ("***", 400),
    ] {
        let (found, text) = status(&basic(credentials));
        assert_eq!(found, expected, "{credentials}: {text}");
        assert!(!text.contains("no such luck"), "{text}");
    }
    for (token, expected) in [("key", 200), ("other", 401)] {
        assert_eq!(status(&[("Authorization", format!("Bearer {token}"))]).0, expected, "{token}");
    }
    let twice = [basic("YW5uOnNlY3JldA==")[0].clone(), basic("YW5uOndyb25n")[0].clone()];
    assert_eq!(status(&twice).0, 400, "of two, somebody may have looked at the other");
    assert_eq!(status(&[("Authorization", format!("Bearer {}", "x".repeat(9000)))]).0, 400);
    // Forwarding headers open nothing, and who may inject may not administer.
    assert_eq!(status(&[("X-Forwarded-For", "192.0.2.1".to_owned())]).0, 401);
    let fields = [("Authorization", "Basic YW5uOnNlY3JldA==")];
    assert_eq!(http::send_with(node.http(), "GET", "/metrics", &fields, b"").0, 401);
    let asked = std::fs::read_to_string(scratch.join("asked")).expect("what was asked");
    assert_eq!(asked.lines().filter(|line| *line == "ann").count(), 3, "the right ones once: {asked}");

    until(LATER, "all of them", || (mail(&scratch, "ann").len() == 4).then_some(()));
    let records = Logs::new(scratch.join("logs")).await_type("Reception", 4, LATER);
    let mut names: Vec<&str> = records.iter().filter_map(|r| r["meta"]["http_auth"].as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["127.0.0.1", "ann", "ann", "somebody"]);
    node.stop();
}

#[test]
fn requests_come_under_tls() {
    let scratch = Scratch::new();
    let authority = Authority::make(&scratch);
    let issued = authority.issue(&scratch, &["api.test"]);
    let options = format!(
        "use_tls = true, tls_certificate = '{}', tls_private_key = '{}'",
        issued.certificate.display(),
        issued.key.display()
    );
    let node = launch(&scratch).env("INJECT_HTTP", options).start();
    let body = request(json!([{"email": "ann@to.test"}])).to_string();
    let mute = TcpStream::connect(node.http()).expect("a client that says nothing");
    let ask = |name: &str| {
        let mut command = peers::script("https_post.py");
        command.arg(node.http().to_string()).arg(name).arg(&authority.own.certificate).args([INJECT, &body]);
        run("https_post.py", command, SOON)
    };
    let answer = ask("api.test");
    assert!(answer.stdout.starts_with("200 {") && answer.stdout.contains("\"success_count\":1"), "{answer:?}");
    assert!(ask("other.test").stderr.contains("CERTIFICATE_VERIFY_FAILED"), "the certificate is for one name");
    assert!(http::try_get(node.http(), "/api/check-liveness/v1").is_none(), "nothing is said in clear");
    await_mail(&scratch, "ann");
    drop(mute);
    node.stop();
}

/// The server goes on with it, as those do who do not look; but nobody need find out by refused clients.
#[test]
fn a_certificate_that_has_expired_is_said_at_the_start() {
    let scratch = Scratch::new();
    let expired = Certificate::make_for_days(&scratch, "api.test", -1);
    let (certificate, key) = (expired.certificate.display(), expired.key.display());
    let options = format!("use_tls = true, tls_certificate = '{certificate}', tls_private_key = '{key}'");
    let node = launch(&scratch).env("INJECT_HTTP", options).start();
    let said = node.process.stderr();
    let warned = said.lines().any(|line| {
        line.contains("WARN") && line.contains(&format!("({certificate}) expired ")) && line.ends_with(" hours ago")
    });
    assert!(warned, "{said}");
    node.stop();
}

#[test]
fn what_is_wrong_with_a_request_has_its_place_and_leaves_nothing() {
    let scratch = Scratch::new();
    let node = launch(&scratch).env("INJECT_HTTP", "request_body_limit = 5000").start();
    let sound = request(json!([{"email": "ann@to.test"}]));
    let with = |pointer: &str, value: Value| {
        let mut wrong = sound.clone();
        *wrong.pointer_mut(pointer).expect("a place") = value;
        wrong.to_string()
    };
    let long = with("/content/text_body", json!("x".repeat(5000)));
    for (body, status, told) in [
        ("{".to_owned(), 400, "the body is not JSON"),
        (long, 413, ""),
        (with("/recipients/0", json!({"mail": "x"})), 422, "/recipients/0"),
        (with("/recipients/0/email", json!(7)), 422, "/recipients/0/email"),
        (with("/content", json!(7)), 422, "/content: "),
        (with("/content", json!({"subject": "x"})), 422, "/content: "),
        (with("/content/text_body", json!("{{ open")), 422, "/content/text_body: "),
        (with("/envelope_sender", json!("nobody")), 422, "/envelope_sender: "),
        (with("", json!({"envelope_sender": ""})), 422, "recipients"),
    ] {
        let (found, text) = attempt(&node, &[], &body);
        assert!(found == status && text.contains(told), "{body}: {found} {text}");
    }
    assert_eq!(http::send(node.http(), "POST", INJECT, "text/plain", &sound.to_string()).0, 415);
    assert_eq!(http::send(node.http(), "POST", INJECT, "Application/JSON; charset=utf-8", "{}").0, 422);
    let (status, told) = attempt(&node, &[("Content-Encoding", "br")], &sound.to_string());
    assert!(status == 415 && told.contains("expected one of gzip, deflate, identity"), "{status} {told}");
    let (status, told) = attempt(&node, &[("Content-Encoding", "gzip")], &sound.to_string());
    assert!(status == 400 && told.contains("no sound gzip"), "{status} {told}");
    assert_eq!(node.metric("message_count"), 0.0);
    assert_eq!(inject(&node, &with("/envelope_sender", json!("")).parse().expect("JSON"))["success_count"], 1);
    assert!(await_mail(&scratch, "ann").contains("For ann@to.test."));
    node.stop();
}

/// By the gzip and the curl of others.
#[test]
fn clients_compress_requests_and_have_answers_compressed() {
    let scratch = Scratch::new();
    let node = launch(&scratch).env("INJECT_HTTP", "request_body_limit = 20000").start();
    let zipped = |name: &str, body: &str| {
        let file = scratch.join(name);
        std::fs::write(&file, body).expect("writes");
        let mut gzip = Command::new("gzip");
        gzip.arg(&file);
        run("gzip", gzip, SOON).success();
        file.with_extension("gz")
    };
    let inject = |file: &Path| {
        let mut curl = Command::new("curl");
        curl.args([
            "-sS",
            "-H",
            "Content-Type: application/json",
            "-H",
            "Content-Encoding: gzip",
            "-w",
            " %{http_code}",
        ]);
        curl.arg("--data-binary").arg(format!("@{}", file.display())).arg(format!("http://{}{INJECT}", node.http()));
        run("curl", curl, LATER).success().stdout
    };
    let mut body = request(json!([{"email": "ann@to.test"}]));
    let told = inject(&zipped("sound", &body.to_string()));
    assert!(told.contains("\"success_count\":1") && told.ends_with(" 200"), "{told}");
    assert!(await_mail(&scratch, "ann").contains("For ann@to.test."));
    body["content"]["text_body"] = json!("x".repeat(1 << 20));
    let bomb = zipped("bomb", &body.to_string());
    assert!(std::fs::metadata(&bomb).expect("a file").len() < 20_000, "compressed it would pass");
    let told = inject(&bomb);
    assert!(told.ends_with(" 413"), "{told}");

    let asked = |more: &[&str]| {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "-o"]).arg(scratch.join("page")).args(["-w", "%{size_download}"]).args(more);
        curl.arg(format!("http://{}/metrics", node.http()));
        let size: u64 = run("curl", curl, LATER).success().stdout.trim().parse().expect("a size");
        (size, std::fs::read_to_string(scratch.join("page")).expect("a page"))
    };
    let ((plain, _), (packed, page)) = (asked(&[]), asked(&["--compressed"]));
    assert!(page.contains("# TYPE message_count gauge") && packed * 3 < plain, "{packed} of {plain} octets");
    node.stop();
}

#[test]
fn what_was_answered_survives_a_kill() {
    let scratch = Scratch::new();
    let launch = launch(&scratch);
    for (deferred, users) in [(false, 0..300), (true, 300..550)] {
        let mut node = launch.start();
        let recipients: Value = users.clone().map(|n| json!({"email": format!("r{n}@to.test")})).collect();
        let mut body = request(recipients);
        body["deferred_generation"] = json!(deferred);
        let outcome = inject(&node, &body);
        let expected = if deferred { 0 } else { users.len() };
        assert_eq!((&outcome["success_count"], &outcome["fail_count"]), (&json!(expected), &json!(0)), "{outcome}");
        node.process.kill();
        let node = launch.start();
        for n in users {
            await_mail(&scratch, &format!("r{n}"));
        }
        node.await_empty(LATER);
        node.stop();
    }
}

#[test]
fn what_is_generated_later_says_who_has_no_message() {
    let scratch = Scratch::new();
    let node = launch(&scratch).start();
    let mut body =
        request(json!([{"email": "ann@to.test", "name": "Ann"}, {"email": "refused@to.test"}, {"email": "x"}]));
    body["deferred_generation"] = json!(true);
    inject(&node, &body);
    assert!(await_mail(&scratch, "ann").contains("Subject: Hello Ann"));
    let logs = Logs::new(scratch.join("logs"));
    let bounces = logs.await_type("Bounce", 2, LATER);
    assert_eq!((&bounces[0]["recipient"], &bounces[1]["recipient"]), (&json!("refused@to.test"), &json!("x")));
    assert_eq!(bounces[0]["response"]["content"], "refused@to.test: 550 5.7.1 not you");
    assert_eq!(
        (&bounces[0]["queue"], &bounces[0]["sender"]),
        (&json!("generator.kumomta.internal"), &json!("s@from.test"))
    );
    // What waits to be generated remembers who asked.
    let auth = json!({"peer_address": "127.0.0.1", "identities": [], "groups": ["kumomta:http-listener-trusted-ip"]});
    assert_eq!(bounces[0]["meta"]["auth_info"], auth);
    node.await_empty(SOON);
    let receptions = logs.await_type("Reception", 2, LATER);
    let of = |queue: &str| receptions.iter().filter(|r| r["queue"] == queue).count();
    assert_eq!((of("generator.kumomta.internal"), of("to.test")), (1, 1));
    assert_eq!(receptions[1]["meta"]["http_auth"], "127.0.0.1");
    // Templates are looked at before.
    body["content"]["subject"] = json!("{% if %}");
    assert_eq!(attempt(&node, &[], &body.to_string()).0, 422);
    node.stop();
}

#[test]
fn what_may_not_fail_later_is_tried_again_as_a_whole() {
    let scratch = Scratch::new();
    let node = launch(&scratch).start();
    let mut body = request(json!([{"email": "ann@to.test"}, {"email": "later@to.test"}]));
    body["deferred_generation"] = json!(true);
    inject(&node, &body);
    let logs = Logs::new(scratch.join("logs"));
    let failed = logs.await_type("TransientFailure", 1, LATER);
    assert_eq!(failed[0]["response"]["content"], "later@to.test: 451 4.7.1 not yet");
    assert!(mail(&scratch, "ann").is_empty(), "nobody is served before");
    scratch.write("now", "");
    let flush = json!({"queue_names": ["generator.kumomta.internal"], "reason": "go"});
    http::json(node.http(), "POST", "/api/admin/flush/v1", &flush);
    await_mail(&scratch, "later");
    node.await_empty(LATER);
    assert_eq!((mail(&scratch, "ann").len(), mail(&scratch, "later").len()), (1, 1));
    assert_eq!(logs.of_type("Bounce").len(), 0);
    node.stop();
}

#[test]
fn mail_to_the_queue_of_requests_is_no_request() {
    let scratch = Scratch::new();
    let node = launch(&scratch).start();
    let mut client = Client::connect(node.smtp());
    client.begin("a@from.test", "x@generator.kumomta.internal");
    let request = request(json!([{"email": "ann@to.test"}])).to_string();
    assert_eq!(client.say(&format!("Subject: x\r\n\r\n{request}\r\n.")).code, 250);
    let bounces = Logs::new(scratch.join("logs")).await_type("Bounce", 1, LATER);
    let text = bounces[0]["response"]["content"].as_str().expect("text");
    assert!(text.contains("no request that was queued: it came as mail"), "{text}");
    assert!(mail(&scratch, "ann").is_empty());
    node.stop();
}

#[test]
fn recipients_are_taken_no_faster_than_they_may() {
    let scratch = Scratch::new();
    let node = launch(&scratch).env("INJECT_RATE", "10/s,max_burst=1").start();
    let began = Instant::now();
    assert_eq!(inject(&node, &request(many(6)))["success_count"], 6);
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(480), "five waits of a tenth of a second took {took:?}");
    node.stop();
}

fn told(node: &Kumod, what: &str) {
    let reply = Client::connect(node.smtp()).submit("a@from.test", &format!("{what}@here.test"), "do");
    assert_eq!((reply.code, &*reply.lines[0]), (550, "5.0.0 done"), "the script says what is wrong otherwise");
}

#[test]
fn scripts_inject_what_requests_do() {
    let scratch = Scratch::new();
    let node = launch(&scratch).env("INJECT_RATE", "1/h,max_burst=1").start();
    told(&node, "inject");
    assert!(await_mail(&scratch, "one").contains("Hello One"), "no rate holds it up");
    let two = await_mail(&scratch, "two");
    assert!(two.contains("Hello Two") && two.contains("X-Built: yes"), "{two}");
    node.stop();
}

#[test]
fn metrics_come_as_json_to_scripts_and_to_others() {
    let scratch = Scratch::new();
    let node = launch(&scratch).start();
    told(&node, "measure");
    let (text, json) = (node.metrics(), http::get(node.http(), "/metrics.json").1);
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["total_messages_received"]["value"]["service"]["esmtp_listener"], 1);
    let took = &json["smtpsrv_process_data_duration"];
    assert_eq!((&took["type"], &took["value"]["count"]), (&json!("histogram"), &json!(1)));
    assert!(took["value"]["bucket"].as_array().is_some_and(|buckets| buckets.len() > 5), "{took}");
    for line in text.lines().filter(|line| line.starts_with("# TYPE ")) {
        let words: Vec<&str> = line.split(' ').collect();
        let shown = &json[words[2]];
        assert!(shown["type"] == words[3] && !shown["value"].is_null() && shown["help"].is_string(), "{line}: {shown}");
    }
    let (_, few) = http::get(node.http(), "/metrics.json?prefix=message_count");
    assert_eq!(
        serde_json::from_str::<Value>(&few).expect("JSON").as_object().map(serde_json::Map::len),
        Some(1),
        "{few}"
    );
    assert_eq!(http::get(node.http(), "/metrics.json?prefx=x").0, 400);
    node.stop();
}

#[test]
fn scripts_give_orders() {
    let scratch = Scratch::new();
    let node = launch(&scratch).start();
    told(&node, "order");
    let listed = http::get(node.http(), "/api/admin/suspend/v1").1;
    assert!(listed.contains("held.test") && listed.contains("a script"), "{listed}");
    inject(&node, &request(json!([{"email": "ann@held.test"}])));
    node.await_metric("scheduled_count_total", 1.0, SOON);
    assert!(!Path::new(&scratch.join("mail")).exists());
    node.stop();
}

/// Who may inject cannot end the program with a template, at once or at every start.
#[test]
fn templates_without_end_are_errors_of_their_requests() {
    let scratch = Scratch::new();
    let mut node = launch(&scratch).start();
    let deep = |step: &str, count: usize| step.repeat(count);
    let nested = "{% set ns=namespace(x=[]) %}{% for i in range(9000) %}{% set ns.x=[ns.x] %}{% endfor %}{{ ns.x }}";
    let sources = [
        ("Jinja", "{% set ns=namespace() %}{% set ns.x=ns %}{{ ns }}".to_owned()),
        ("Jinja", nested.to_owned()),
        ("Jinja", format!("{{{{ {}1 }}}}", deep("not ", 12_000))),
        ("Jinja", format!("{{{{ 1{} }}}}", deep("|e", 100_000))),
        ("Jinja", format!("{{% if 0 %}}{}{{% endif %}}", deep("{% elif 0 %}", 50_000))),
        ("Jinja", "{{ range(10)|slice(1000000000)|list|length }}".to_owned()),
        ("Handlebars", format!("{{{{#if x}}}}{}{{{{/if}}}}", deep("{{else if x}}", 12_000))),
    ];
    for deferred in [false, true] {
        for (dialect, source) in &sources {
            let mut body = request(json!([{"email": "ann@to.test"}]));
            body["content"]["text_body"] = json!(source);
            body["template_dialect"] = json!(dialect);
            body["deferred_generation"] = json!(deferred);
            let (status, text) = attempt(&node, &[], &body.to_string());
            let is_refused = status >= 400 || text.contains("\"fail_count\":1");
            assert!(is_refused || deferred, "{status} {text} of {}", &source[..source.len().min(60)]);
        }
    }
    node.process.kill();
    node = launch(&scratch).start();
    node.await_recovered(LATER);
    assert_eq!(inject(&node, &request(json!([{"email": "bob@to.test", "name": "Bob"}])))["success_count"], 1);
    assert!(await_mail(&scratch, "bob").contains("Hello Bob"));
    assert!(mail(&scratch, "ann").is_empty());
    node.process.kill();
}

/// Who is not told that his mail was taken gives it again.
#[test]
fn who_asked_before_the_end_is_answered() {
    let scratch = Scratch::new();
    let mut node = launch(&scratch).start();
    let server = node.http();
    let asks = std::thread::spawn(move || {
        let body = request(json!([{"email": "slow@to.test"}])).to_string();
        http::send(server, "POST", INJECT, "application/json", &body)
    });
    until(SOON, "the request", || scratch.join("begun").exists().then_some(()));
    node.process.signal(Signal::SIGTERM);
    let waits = |line: &str| line.contains("stopping: finishing what is in hand").then_some(());
    node.process.await_stderr("that it waits", SOON, waits);
    std::fs::write(scratch.join("now"), "").expect("written");
    let (status, text) = asks.join().expect("no panic");
    assert!(status == 200 && text.contains("\"success_count\":1"), "{status} {text}");
    node.process.finish(SOON).success();
    let next = launch(&scratch).start();
    await_mail(&scratch, "slow");
    next.stop();
}
