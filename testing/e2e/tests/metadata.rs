//! What is known of a message from the beginning, and how it names its queue. The client is Python's smtplib.

use e2e::kumod::{Launch, policy_file};
use e2e::logs::Logs;
use e2e::process::run;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::{LATER, SOON};
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
