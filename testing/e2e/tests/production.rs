//! The shape most production policies have: everything through the helpers under `policy-extras`, in KumoMTA's dialect.
//!
//! `production.lua` and its TOML files are as they run on KumoMTA. Only names and port of the mail server are the test's.

use e2e::certificate::DkimKey;
use e2e::dump::Dump;
use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::logs::Logs;
use e2e::peers;
use e2e::process::run;
use e2e::scratch::Scratch;
use e2e::until::{LATER, SOON};
use e2e::wire::{Client, Reply};
use serde_json::Value;
use std::path::Path;

/// A server with that policy before a receiver that keeps what it gets.
struct Setup {
    scratch: Scratch,
    dump: Dump,
    server: Kumod,
    /// The public key of its signatures.
    key: String,
}

impl Setup {
    fn new() -> Setup {
        let scratch = Scratch::new();
        let (file, key) = DkimKey::Rsa.make(&scratch);
        std::fs::copy(file, scratch.join("dkim-bench.test.pem")).expect("where dkim.toml looks for it");
        let dump = Dump::start(&scratch);
        let server = launch(scratch.path(), dump.address.port()).start();
        Setup { scratch, dump, server, key }
    }

    fn send(&self, to: &str, header: &str) -> Reply {
        let mut client = Client::connect(self.server.smtp());
        client.begin("bounce@bounce.sender.test", to);
        client.say(&format!("From: A <a@bench.test>\r\nTo: <{to}>\r\nSubject: x\r\n{header}\r\nHello.\r\n."))
    }
}

fn launch(folder: &Path, port: u16) -> Launch {
    Launch::policy(policy_file("production_here.lua"))
        .env("RELAY_PORT", "0")
        .env("RELAY_HTTP", "127.0.0.1:0")
        .env("RELAY_DIR", folder.join("relay"))
        .env("POLICY_DIR", policy_file("production"))
        .env("SINK_PORT", port.to_string())
        .in_folder(folder)
}

#[test]
fn helpers_choose_tenant_campaign_queue_source_and_signature() {
    let setup = Setup::new();
    let told = setup.send("one@sink.test", "X-Tenant: bulk\r\nX-Campaign: news\r\n");
    assert_eq!(told.code, 250, "{told:?}");
    let told = setup.send("two@sink.test", "");
    assert_eq!(told.code, 250, "{told:?}");
    let unknown = setup.send("three@sink.test", "X-Tenant: nobody\r\n");
    let text = "tenant 'nobody' specified by 'X-Tenant' header is not defined in your queue config";
    assert_eq!((unknown.code, unknown.text().as_str()), (500, text));
    let files = setup.dump.await_messages(2, SOON);
    setup.server.await_empty(SOON);
    setup.server.stop();

    let mut command = peers::script("dkim_verify.py");
    command.arg("--key").arg(format!("s1._domainkey.bench.test={}", setup.key)).args(&files);
    run("dkim_verify.py", command, LATER).success();
    for file in &files {
        let text = std::fs::read_to_string(file).expect("a message");
        assert!(text.contains("d=bench.test; s=s1") && !text.contains("X-Tenant:"), "{text}");
    }

    let logs = Logs::new(setup.scratch.join("relay/logs"));
    let delivered = logs.of_type("Delivery");
    assert_eq!((delivered.len(), logs.of_type("Rejection").len()), (2, 1));
    let to = |who: &str| delivered.iter().find(|r| r["recipient"] == who).expect("delivered");
    let (one, two) = (to("one@sink.test"), to("two@sink.test"));
    assert_eq!((&one["queue"], &two["queue"]), (&Value::from("news:bulk@sink.test"), &Value::from("acme@sink.test")));
    for record in [one, two] {
        assert_eq!(record["egress_pool"], "shared");
        assert!(["ip-1", "ip-2"].contains(&record["egress_source"].as_str().expect("a source")), "{record}");
    }
}

#[test]
fn the_policy_passes_validation_and_a_wrong_file_does_not() {
    let scratch = Scratch::new();
    let (file, _) = DkimKey::Rsa.make(&scratch);
    std::fs::copy(file, scratch.join("dkim-bench.test.pem")).expect("where dkim.toml looks for it");
    let judge = |folder: &Path| launch(scratch.path(), 25).env("POLICY_DIR", folder).arg("--validate").run();
    judge(&policy_file("production")).success();
    let wrong = scratch.folder("wrong");
    for name in ["production.lua", "dkim.toml", "listener_domains.toml", "queues.toml", "shaping.toml", "sources.toml"]
    {
        let text = std::fs::read_to_string(policy_file("production").join(name)).expect("a file");
        let text =
            text.replace("egress_pool = \"shared\"", "egress_pool = \"sharde\"").replace("weight = 3", "wieght = 3");
        std::fs::write(wrong.join(name), text).expect("a file");
    }
    let told = judge(&wrong);
    assert!(!told.status.success(), "{told:?}");
    for line in ["queue: tenant.\"acme\": egress_pool `sharde`", "sources: pool `shared`: "] {
        assert!(told.stdout.contains(line), "no {line:?} in {}", told.stdout);
    }
}

/// What comes by HTTP goes the same way.
#[test]
fn requests_are_prepared_like_sessions() {
    let setup = Setup::new();
    let request = serde_json::json!({
        "envelope_sender": "bounce@bounce.sender.test",
        "content": "From: A <a@bench.test>\r\nTo: <one@sink.test>\r\nSubject: x\r\nX-Tenant: bulk\r\n\r\nHello.\r\n",
        "recipients": [{"email": "one@sink.test"}],
    });
    let told = e2e::http::json(setup.server.http(), "POST", "/api/inject/v1", &request);
    assert_eq!(told["success_count"], 1, "{told}");
    let files = setup.dump.await_messages(1, SOON);
    setup.server.await_empty(SOON);
    setup.server.stop();
    let text = std::fs::read_to_string(&files[0]).expect("a message");
    assert!(text.contains("d=bench.test; s=s1") && !text.contains("X-Tenant:"), "{text}");
    let delivered = Logs::new(setup.scratch.join("relay/logs")).of_type("Delivery");
    assert_eq!(delivered[0]["queue"], "bulk@sink.test", "{delivered:?}");
}
