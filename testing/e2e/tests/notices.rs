//! Reports that policy makes of failures: `kumo.configure_log_disposition_hook`, `kumo.generate_rfc3464_message` and
//! `kumo.inject_message`.

use e2e::dump::Dump;
use e2e::kumod::{Launch, policy_file};
use e2e::logs::Logs;
use e2e::process::run;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::{LATER, SOON};
use e2e::wire::Client;
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn a_hook_reports_failures_and_nothing_else() {
    let scratch = Scratch::new();
    let refusing = Sink::start(&scratch, "refusing", &["--fail-rate", "100", "--fail-code", "550"]);
    let dump = Dump::start(&scratch);
    let kumod = launch(&scratch, refusing.address, dump.address).start();
    let mut client = Client::connect(kumod.smtp());
    client.expect("EHLO client.test", 250);
    client.expect("MAIL FROM:<user@source.test> ENVID=q+2B1", 250);
    client.expect("RCPT TO:<lost@target.test> ORCPT=rfc822;old@target.test", 250);
    client.expect("RCPT TO:<never@target.test> NOTIFY=NEVER", 250);
    client.expect("RCPT TO:<good@source.test>", 250);
    client.expect("DATA", 354);
    assert_eq!(client.say("Subject: gr\u{fc}n\r\n\r\nThe body.\r\n.").code, 250);
    // Nobody is told of this one.
    assert_eq!(Client::connect(kumod.smtp()).submit("", "lost@target.test", "unsent").code, 250);
    let files = dump.await_messages(2, LATER);
    for refusal in ["the message was injected already", "the message is in a queue"] {
        kumod.process.await_stderr(refusal, SOON, |line| line.contains(refusal).then_some(()));
    }
    kumod.await_empty(LATER);
    assert_eq!(dump.messages().len(), 2, "the message to its good recipient, and the report");
    let logs = Logs::new(scratch.join("bounces/logs"));
    kumod.stop();
    assert_eq!(logs.of_type("Bounce").len(), 2);
    let report = logs.of_type("Reception").into_iter().find(|r| r["meta"]["seen"] == "Bounce").expect("a reception");
    assert_eq!((&report["sender"], &report["recipient"]), (&"".into(), &"user@source.test".into()));
    let mut python = Command::new("python3");
    python.args(["-c", PYTHON]).args(files);
    run("python3", python, SOON).success();
}

/// The spool forgets behind the hook: a hook that has not answered is asked again after a crash, and after a stop, which does
/// not wait for it.
#[test]
fn a_message_stays_until_the_hook_has_answered() {
    for crashes in [true, false] {
        stays_until_answered(crashes);
    }
}

fn stays_until_answered(crashes: bool) {
    let scratch = Scratch::new();
    let refusing = Sink::start(&scratch, "refusing", &["--fail-rate", "100", "--fail-code", "451"]);
    let dump = Dump::start(&scratch);
    let launch =
        launch(&scratch, refusing.address, dump.address).env("BOUNCES_QUEUE", "max_age = '2s', retry_interval = '1s'");
    let mut hanging = launch.clone().env("NOTICES_HANG", "1").start();
    let reply = Client::connect(hanging.smtp()).submit("user@source.test", "lost@target.test", "kept");
    assert_eq!(reply.code, 250);
    hanging.process.await_stderr("the question", LATER, |line| line.contains("asked about").then_some(()));
    if crashes {
        hanging.process.kill();
        drop(hanging);
    } else {
        let began = Instant::now();
        hanging.stop();
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    }
    assert!(dump.messages().is_empty());

    let answering = launch.start();
    let report = std::fs::read_to_string(&dump.await_messages(1, LATER)[0]).expect("a report");
    assert!(
        report.contains("Final-Recipient: rfc822; lost@target.test") && report.contains("Status: 5.4.7"),
        "{report}"
    );
    answering.await_empty(SOON);
    assert_eq!(dump.messages().len(), 1);
    answering.stop();
}

#[test]
fn no_message_has_more_recipients_than_can_be_counted() {
    let scratch = Scratch::new();
    let dump = Dump::start(&scratch);
    let kumod = launch(&scratch, dump.address, dump.address).start();
    let mut client = Client::connect(kumod.smtp());
    client.begin("user@source.test", "one@target.test");
    let reply = client.say("Subject: crowd\r\n\r\nHello.\r\n.");
    assert_eq!((reply.code, reply.text().contains("70000 recipients: expected at most")), (452, true), "{reply:?}");
    let refusal = "kumo.inject_message: 452 4.5.3 70000 recipients: expected at most";
    kumod.process.await_stderr(refusal, SOON, |line| line.contains(refusal).then_some(()));
    assert_eq!(kumod.metric("message_count"), 0.0);
    kumod.stop();
    assert!(dump.messages().is_empty());
}

fn launch(scratch: &Scratch, refusing: SocketAddr, senders: SocketAddr) -> Launch {
    Launch::policy(policy_file("notices.lua"))
        .env("BOUNCES_DIR", scratch.join("bounces"))
        .env("BOUNCES_TO", refusing.to_string())
        .env("BOUNCES_SOURCE", senders.to_string())
}

/// The message and the report, in any order.
const PYTHON: &str = r#"
import email, email.policy, sys
found = {}
for file in sys.argv[1:]:
    m = email.message_from_bytes(open(file, 'rb').read(), policy=email.policy.default)
    assert not m.defects, (file, m.defects)
    found[m.get_content_type() == 'multipart/report'] = m
assert set(found) == {True, False}, found.keys()
m = found[True]
assert m['To'] == 'user@source.test' and m['From'].endswith('<mailer-daemon@mta.test>') and m['Auto-Submitted'] == 'auto-replied'
text, status, original = m.get_payload()
message, *recipients = status.get_payload()
assert message['Reporting-MTA'] == 'dns; mta.test' and message['Original-Envelope-Id'] == 'q+1', message
assert len(recipients) == 1, recipients
failed = recipients[0]
assert failed['Final-Recipient'] == 'rfc822; lost@target.test' and failed['Original-Recipient'] == 'rfc822; old@target.test'
assert failed['Action'] == 'failed' and failed['Status'].startswith('5.') and '550' in failed['Diagnostic-Code']
assert failed['Remote-MTA'] == 'dns; target.test-mx.test', failed['Remote-MTA']
assert original.get_content_type() == 'message/rfc822' and 'The body.' in original.get_payload()[0].get_payload()
"#;
