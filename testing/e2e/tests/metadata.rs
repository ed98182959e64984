//! What is known of a message from the beginning, and how it names its queue. The client is Python's smtplib.

use e2e::kumod::{Launch, policy_file};
use e2e::logs::Logs;
use e2e::process::run;
use e2e::proxy::RunningProxy;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::{LATER, SOON};
use e2e::wire::Client;
use std::process::Command;

#[test]
fn a_message_knows_where_it_came_from_and_where_it_goes() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let server = Launch::policy(policy_file("metadata.lua"))
        .env("METADATA_DIR", scratch.join("server"))
        .env("METADATA_TO", sink.address.to_string())
        .start();
    let mut python = Command::new("python3");
    python.args(["-c", PYTHON]).arg(server.smtp().ip().to_string()).arg(server.smtp().port().to_string());
    let local = run("python3", python, SOON).success().stdout;
    let records = Logs::new(scratch.join("server/logs")).await_type("Delivery", 2, LATER);
    let of = |who: &str| records.iter().find(|r| r["recipient"] == format!("{who}@to.test")).expect("delivered");
    assert_eq!(of("parts")["queue"], "news:some@to.test!other.test");
    assert_eq!(of("whole")["queue"], "named.test");
    let meta = &of("parts")["meta"];
    for (name, value) in [
        ("reception_protocol", "ESMTP"),
        ("received_via", &*server.smtp().to_string()),
        ("received_from", local.trim()),
        ("ehlo_domain", "client.test"),
        ("authn_id", "ann"),
        ("authz_id", "ann"),
        ("tls_protocol_version", "TLSv1_3"),
        ("x_own", "yes"),
    ] {
        assert_eq!(meta[name], value, "{name}: {meta}");
    }
    for name in ["hostname", "tls_cipher"] {
        assert!(meta[name].as_str().is_some_and(|value| !value.is_empty()), "{name}: {meta}");
    }
    server.stop();
}

#[test]
fn behind_a_proxy_it_is_the_client_that_counts() {
    for version in [1, 2] {
        let scratch = Scratch::new();
        let sink = Sink::start(&scratch, "sink", &[]);
        let server = Launch::policy(policy_file("metadata.lua"))
            .env("METADATA_DIR", scratch.join("server"))
            .env("METADATA_TO", sink.address.to_string())
            .env("METADATA_LISTENER", "require_proxy_protocol = true")
            .start();
        let proxy = RunningProxy::haproxy_before(&scratch, server.smtp(), version);
        let mut client = Client::connect(proxy.address);
        let own = client.local();
        assert_eq!(client.submit("a@from.test", "parts@to.test", "by a proxy").code, 250);
        let records = Logs::new(scratch.join("server/logs")).await_type("Reception", 1, LATER);
        let meta = &records[0]["meta"];
        assert_eq!(
            (&meta["received_from"], &meta["received_via"]),
            (&own.to_string().into(), &proxy.address.to_string().into())
        );
        assert_eq!(meta["orig_received_via"], server.smtp().to_string());
        assert_ne!(meta["orig_received_from"], own.to_string());
        server.stop();
    }
}

#[test]
fn what_a_proxy_says_decides_who_may_relay() {
    let scratch = Scratch::new();
    let server = Launch::policy(policy_file("metadata.lua"))
        .env("METADATA_DIR", scratch.join("server"))
        .env("METADATA_TO", "127.0.0.1:1")
        .env("METADATA_LISTENER", "require_proxy_protocol = true")
        .start();
    for (said, code) in [("127.0.0.1 127.0.0.1", 250), ("192.0.2.7 198.51.100.1", 550)] {
        let mut client = Client::connect_mute(server.smtp());
        client.send(format!("PROXY TCP4 {said} 1234 25\r\n").as_bytes());
        assert_eq!(client.reply().code, 220, "the greeting comes behind the header");
        client.say("EHLO client.test");
        client.say("MAIL FROM:<a@from.test>");
        let reply = client.say("RCPT TO:<b@to.test>");
        assert_eq!(reply.code, code, "{said}: {reply:?}");
    }
    let mut client = Client::connect_mute(server.smtp());
    client.send(b"EHLO client.test\r\n");
    assert!(client.is_closed_silently(), "without a header nothing is said");
    server
        .process
        .await_stderr("the reason", SOON, |line| line.contains("no header of the PROXY protocol").then_some(()));
    server.stop();
}

const PYTHON: &str = r"
import smtplib, ssl, sys
client = smtplib.SMTP(sys.argv[1], int(sys.argv[2]), local_hostname='client.test')
client.starttls(context=ssl._create_unverified_context())
client.login('ann', 'secret ann')
print('%s:%d' % client.sock.getsockname())
for who in ('parts', 'whole'):
    client.sendmail('a@from.test', [who + '@to.test'], 'X-Own: yes\r\n\r\nbody\r\n')
client.quit()
";
