//! Reports that come in: bounces of a real Postfix, complaints, and mail that is neither; and those that go out.

use e2e::dump::Dump;
use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::logs::Logs;
use e2e::postfix::Postfix;
use e2e::preload::{Faults, How, Op};
use e2e::process::run;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::{LATER, SOON};
use e2e::wire::{Client, Reply};
use nix::errno::Errno;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Postfix is refused a recipient by us, and bounces to a domain of ours that logs bounces and relays nothing.
#[test]
fn a_bounce_of_postfix_is_logged_and_not_relayed() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let kumod = launch(&scratch, sink.address, "log_oob = true").start();
    let postfix = Postfix::start(&scratch, kumod.smtp[1]);
    let reply = Client::connect(postfix.address).submit("user@report.test", "lost@target.test", "bounces");
    assert_eq!(reply.code, 250, "{reply:?}");
    let logs = Logs::new(scratch.join("bounces/logs"));
    let oob = &logs.await_type("OOB", 1, LATER)[0];
    assert_eq!(
        (oob["sender"].as_str(), oob["recipient"].as_str()),
        (Some("user@report.test"), Some("lost@target.test"))
    );
    assert_eq!(oob["response"]["code"], 550, "{oob}");
    assert_eq!(oob["response"]["enhanced_code"], serde_json::json!({"class": 5, "subject": 7, "detail": 1}));
    assert!(oob["response"]["content"].as_str().is_some_and(|text| text.contains("relaying not permitted")), "{oob}");
    assert_eq!(oob["peer_address"]["name"], "postfix.test", "{oob}");
    assert_eq!(
        (oob["size"].as_u64(), oob["num_attempts"].as_u64(), oob["site"].as_str()),
        (Some(0), Some(0), Some(""))
    );
    let reception = &logs.await_type("Reception", 1, SOON)[0];
    assert_eq!((&reception["id"], &reception["sender"]), (&oob["id"], &"".into()), "{reception}");
    kumod.await_empty(SOON);
    assert!(sink.arrivals().is_empty(), "a report was relayed from a stranger");
    kumod.stop();
}

#[test]
fn a_complaint_is_logged_in_place_of_its_reception_and_relayed_where_that_is_permitted() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let kumod = launch(&scratch, sink.address, "log_arf = 'LogThenRelay'").start();
    assert_eq!(send(kumod.smtp(), "fbl@report.test", ARF).code, 250);
    assert_eq!(sink.await_arrivals(1, SOON)[0].recipients, ["fbl@report.test"]);
    kumod.await_empty(SOON);
    let logs = Logs::new(scratch.join("bounces/logs"));
    kumod.stop();
    let feedback = &logs.of_type("Feedback")[..];
    assert_eq!(feedback.len(), 1);
    let report = &feedback[0]["feedback_report"];
    assert_eq!((&report["feedback_type"], &report["version"]), (&"abuse".into(), &"1".into()), "{report}");
    assert_eq!(report["original_rcpto_to"], serde_json::json!(["<one@example.net>"]));
    assert_eq!(report["arrival_date"], "2026-11-21T10:00:00Z");
    assert_eq!((&feedback[0]["response"]["code"], &feedback[0]["recipient"]), (&250.into(), &"fbl@report.test".into()));
    assert!(logs.of_type("Reception").is_empty(), "a complaint has no Reception");
    assert_eq!(logs.of_type("Delivery").len(), 1);
}

#[test]
fn what_is_dropped_and_what_is_no_report() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let kumod = launch(&scratch, sink.address, "log_arf = 'LogThenDrop', log_oob = 'LogThenDrop'").start();
    assert_eq!(send(kumod.smtp(), "fbl@report.test", ARF).code, 250);
    // A stranger may say RCPT, because it might be a report; mail that is none is refused.
    let stranger = kumod.smtp[1];
    let refused = send(stranger, "fbl@report.test", "Subject: spam\r\n\r\nBuy.\r\n");
    assert_eq!(
        (refused.code, refused.lines[0].starts_with("5.7.1 relaying not permitted")),
        (550, true),
        "{refused:?}"
    );
    let broken = send(stranger, "fbl@report.test", &ARF.replace("Version: 1", "Versions: 1"));
    assert_eq!(broken.code, 550, "{broken:?}");
    assert_eq!(send(stranger, "fbl@report.test", ARF).code, 250);
    // Other domains are still closed to strangers, and mail from inside that is no report goes its way.
    Client::connect(stranger).expect("MAIL FROM:<>", 250);
    assert_eq!(send(kumod.smtp(), "fbl@report.test", "Subject: hello\r\n\r\nHello.\r\n").code, 250);
    let arrivals = sink.await_arrivals(1, SOON);
    kumod.await_empty(SOON);
    assert_eq!((arrivals.len(), sink.arrivals().len()), (1, 1), "dropped reports went out");
    let logs = Logs::new(scratch.join("bounces/logs"));
    kumod.stop();
    assert_eq!((logs.of_type("Feedback").len(), logs.of_type("Reception").len()), (2, 1));
}

/// The report's own failure ends in silence.
#[test]
fn a_sender_is_told_of_a_failure_and_nobody_of_the_report() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &["--fail-rate", "100", "--fail-code", "550"]);
    let kumod = launch(&scratch, sink.address, "log_oob = true")
        .env("BOUNCES_QUEUE", "delivery_reports = { failure = true, reporting_mta = 'mta.test' }")
        .start();
    let mut client = Client::connect(kumod.smtp());
    client.expect("EHLO client.test", 250);
    client.expect("MAIL FROM:<user@report.test> RET=FULL ENVID=q+2B1", 250);
    client.expect("RCPT TO:<lost@target.test> ORCPT=rfc822;old@target.test", 250);
    client.expect("RCPT TO:<never@target.test> NOTIFY=NEVER", 250);
    client.expect("DATA", 354);
    assert_eq!(client.say("Subject: gr\u{fc}n\r\n\r\nThe body.\r\n.").code, 250);
    let logs = Logs::new(scratch.join("bounces/logs"));
    // The message for two, and the report, which the sink refuses too.
    let bounces = logs.await_type("Bounce", 2, LATER);
    kumod.await_empty(SOON);
    let report = bounces.iter().find(|r| r["sender"] == "").expect("the report was tried");
    assert_eq!(report["recipient"], "user@report.test");
    let receptions = logs.of_type("Reception");
    assert_eq!(receptions.len(), 2, "a report on a report: {receptions:?}");
    kumod.stop();
}

/// The spool forgets a message behind its report, not before: a report that the disk does not take keeps it, over a restart too.
#[test]
fn a_message_stays_until_its_report_is_on_disk() {
    let scratch = Scratch::new();
    let faults = Arc::new(Faults::new(&scratch));
    let (picky, _) = picky(faults.clone());
    let dump = Dump::start(&scratch);
    let launch = launch(&scratch, picky, "")
        .env("BOUNCES_SOURCE", dump.address.to_string())
        .env("BOUNCES_QUEUE", "delivery_reports = { failure = true }");
    let faulty = on_disk_of(&scratch, launch.clone(), &faults).start();
    let reply = Client::connect(faulty.smtp()).submit("user@source.test", "lost@target.test", "kept");
    assert_eq!(reply.code, 250);
    await_waiting_report(&faulty);
    assert_eq!(faulty.metric("message_count"), 1.0);
    faulty.stop();
    assert!(dump.messages().is_empty() && faults.hits(Op::Sync) > 0);

    let mended = launch.start();
    let report = std::fs::read_to_string(&dump.await_messages(1, LATER)[0]).expect("a report");
    assert!(
        report.contains("Final-Recipient: rfc822; lost@target.test") && report.contains("Action: failed"),
        "{report}"
    );
    mended.await_empty(SOON);
    mended.stop();
}

/// The spool of this launch is on a disk that fails when that is wished for.
fn on_disk_of(scratch: &Scratch, launch: Launch, faults: &Faults) -> Launch {
    let launch = launch.env("LD_PRELOAD", &faults.library).env("FAULTS_FILE", &faults.switches);
    launch.env("FAULTS_FOLDER", scratch.join("bounces/data"))
}

fn await_waiting_report(node: &Kumod) {
    node.process.await_stderr("the report that waits", LATER, |line| line.contains("is not accepted").then_some(()));
}

/// Where policy has no queue for the sender, it is the report that waits, as other mail does, and not the message.
#[test]
fn a_report_waits_in_its_queue_until_policy_has_one() {
    let scratch = Scratch::new();
    let refusing = Sink::start(&scratch, "refusing", &["--fail-rate", "100", "--fail-code", "550"]);
    let dump = Dump::start(&scratch);
    let launch = launch(&scratch, refusing.address, "")
        .env("BOUNCES_SOURCE", dump.address.to_string())
        .env("BOUNCES_QUEUE", "delivery_reports = { failure = true }");
    let broken = launch.clone().env("BOUNCES_BROKEN", "1").start();
    let reply = Client::connect(broken.smtp()).submit("user@source.test", "lost@target.test", "ends");
    assert_eq!(reply.code, 250);
    broken.await_metric("scheduled_count{queue=\"source.test\"}", 1.0, LATER);
    broken.await_metric("message_count", 1.0, SOON);
    let logs = Logs::new(scratch.join("bounces/logs"));
    assert_eq!(logs.await_type("Bounce", 1, SOON)[0]["recipient"], "lost@target.test");
    broken.stop();
    assert!(dump.messages().is_empty());

    let mended = launch.start();
    let report = std::fs::read_to_string(&dump.await_messages(1, LATER)[0]).expect("a report");
    assert!(report.contains("lost@target.test"), "{report}");
    mended.await_empty(SOON);
    mended.stop();
    assert_eq!(logs.of_type("Bounce").len(), 1, "it ended once");
}

/// A server that refuses recipients whose name begins with `lost`, and counts contents. From such a refusal on no sync succeeds.
fn picky(faults: Arc<Faults>) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (address, contents) = (listener.local_addr().expect("an address"), Arc::new(AtomicUsize::new(0)));
    let counted = contents.clone();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let (counted, faults) = (counted.clone(), faults.clone());
            std::thread::spawn(move || pick(&client, &counted, &faults));
        }
    });
    (address, contents)
}

fn pick(mut client: &TcpStream, contents: &AtomicUsize, faults: &Faults) -> io::Result<()> {
    client.write_all(b"220 picky.test\r\n")?;
    let mut in_content = false;
    for line in BufReader::new(client).lines() {
        let line = line?;
        let reply = match (in_content, line.as_str()) {
            (true, ".") => {
                contents.fetch_add(1, Ordering::SeqCst);
                in_content = false;
                "250 taken"
            }
            (true, _) => continue,
            (_, line) if line.starts_with("RCPT TO:<lost") => {
                faults.arm(Op::Sync, How::Error(Errno::EIO), 0, None);
                "550 5.1.1 nobody"
            }
            (_, "DATA") => {
                in_content = true;
                "354 go"
            }
            (_, "QUIT") => "221 bye",
            _ => "250 picky.test",
        };
        client.write_all(format!("{reply}\r\n").as_bytes())?;
    }
    Ok(())
}

/// Who has the message does not get it again because the report on others waits: neither after a stop nor after a kill.
#[test]
fn while_a_report_waits_nobody_has_the_message_twice() {
    for kills in [false, true] {
        has_it_once(kills);
    }
}

fn has_it_once(kills: bool) {
    let scratch = Scratch::new();
    let faults = Arc::new(Faults::new(&scratch));
    let (picky, contents) = picky(faults.clone());
    let dump = Dump::start(&scratch);
    let launch = launch(&scratch, picky, "")
        .env("BOUNCES_SOURCE", dump.address.to_string())
        .env("BOUNCES_QUEUE", "delivery_reports = { failure = true }");
    let mut faulty = on_disk_of(&scratch, launch.clone(), &faults).start();
    let mut client = Client::connect(faulty.smtp());
    client.expect("EHLO client.test", 250);
    client.expect("MAIL FROM:<user@source.test>", 250);
    client.expect("RCPT TO:<good@target.test>", 250);
    client.expect("RCPT TO:<lost@target.test>", 250);
    client.expect("DATA", 354);
    assert_eq!(client.say("Subject: half\r\n\r\nThe body.\r\n.").code, 250);
    await_waiting_report(&faulty);
    match kills {
        true => faulty.process.kill(),
        false => _ = faulty.stop(),
    }
    let mended = launch.start();
    let report = std::fs::read_to_string(&dump.await_messages(1, LATER)[0]).expect("a report");
    assert!(report.contains("lost@target.test") && !report.contains("good@target.test"), "{report}");
    mended.await_empty(SOON);
    mended.stop();
    assert_eq!(contents.load(Ordering::SeqCst), 1, "kills: {kills}");
    let delivered = Logs::new(scratch.join("bounces/logs")).of_type("Delivery");
    let of_good = delivered.iter().filter(|record| record["recipient"] == "good@target.test").count();
    // A kill takes what was to be told once the report was accepted.
    assert!(of_good == 1 || (kills && of_good == 0), "{delivered:?}");
}

#[test]
fn reports_say_what_happened() {
    let scratch = Scratch::new();
    let refusing = Sink::start(&scratch, "refusing", &["--fail-rate", "100", "--fail-code", "451"]);
    let dump = Dump::start(&scratch);
    let reports = "failure = true, delay = '1s', relayed = true, success = true, reporting_mta = 'mta.test'";
    let kumod = launch(&scratch, refusing.address, "")
        .env("BOUNCES_SOURCE", dump.address.to_string())
        .env("BOUNCES_QUEUE", format!("max_age = '10s', retry_interval = '1s', delivery_reports = {{ {reports} }}"))
        .start();
    let mut client = Client::connect(kumod.smtp());
    client.expect("EHLO client.test", 250);
    client.expect("MAIL FROM:<user@source.test> RET=FULL ENVID=q+2B1", 250);
    client.expect("RCPT TO:<late@target.test> ORCPT=rfc822;old@target.test", 250);
    client.expect("RCPT TO:<never@target.test> NOTIFY=NEVER", 250);
    client.expect("RCPT TO:<good@source.test> NOTIFY=SUCCESS", 250);
    client.expect("RCPT TO:<quiet@source.test>", 250);
    client.expect("DATA", 354);
    assert_eq!(client.say("Subject: gr\u{fc}n\r\n\r\nThe body.\r\n.").code, 250);
    // The message itself, then relayed, delayed and failed.
    let files = dump.await_messages(4, LATER);
    kumod.await_empty(LATER);
    assert_eq!(dump.messages().len(), 4);
    kumod.stop();
    let mut python = Command::new("python3");
    python.args(["-c", PYTHON]).args(files);
    run("python3", python, SOON).success();
}

fn send(to: SocketAddr, recipient: &str, content: &str) -> Reply {
    let mut client = Client::connect(to);
    client.begin("", recipient);
    client.say(&format!("{content}."))
}

fn launch(scratch: &Scratch, to: SocketAddr, domain: &str) -> Launch {
    let launch = Launch::policy(policy_file("bounces.lua"));
    launch.env("BOUNCES_DIR", scratch.join("bounces")).env("BOUNCES_TO", to.to_string()).env("BOUNCES_DOMAIN", domain)
}

const ARF: &str = "From: <fbl@provider.test>\r\nMIME-Version: 1.0\r\n\
Content-Type: multipart/report; report-type=feedback-report; boundary=\"b\"\r\n\r\n\
--b\r\n\r\nA complaint.\r\n\
--b\r\nContent-Type: message/feedback-report\r\n\r\nFeedback-Type: abuse\r\nUser-Agent: Test/1\r\nVersion: 1\r\n\
Original-Rcpt-To: <one@example.net>\r\nArrival-Date: Sat, 21 Nov 2026 10:00:00 +0000\r\n\r\n\
--b\r\nContent-Type: message/rfc822\r\n\r\nSubject: news\r\n\r\nNews.\r\n\r\n--b--\r\n";

/// The four messages, in any order.
const PYTHON: &str = r#"
import email, email.policy, sys
found = {}
for file in sys.argv[1:]:
    m = email.message_from_bytes(open(file, 'rb').read(), policy=email.policy.default)
    assert not m.defects, (file, m.defects)
    if m.get_content_type() != 'multipart/report':
        found['mail'] = m
        continue
    assert m['To'] == 'user@source.test' and m['From'].endswith('<mailer-daemon@mta.test>') and m['Auto-Submitted'] == 'auto-replied'
    text, status, original = m.get_payload()
    message, *recipients = status.get_payload()
    assert message['Reporting-MTA'] == 'dns; mta.test' and message['Original-Envelope-Id'] == 'q+1', message
    assert len(recipients) == 1, recipients
    found[recipients[0]['Action']] = recipients[0], original
assert set(found) == {'mail', 'relayed', 'delayed', 'failed'}, found.keys()
relayed, header = found['relayed']
assert relayed['Final-Recipient'] == 'rfc822; good@source.test' and relayed['Status'].startswith('2.')
assert header.get_content_type() == 'text/rfc822-headers'
delayed, header = found['delayed']
assert delayed['Final-Recipient'] == 'rfc822; late@target.test' and delayed['Original-Recipient'] == 'rfc822; old@target.test'
assert delayed['Status'].startswith('4.') and delayed['Will-Retry-Until'] and '451' in delayed['Diagnostic-Code']
assert delayed['Remote-MTA'] and header.get_content_type() == 'text/rfc822-headers'
failed, original = found['failed']
assert failed['Final-Recipient'] == 'rfc822; late@target.test' and failed['Status'] == '5.4.7', failed
assert original.get_content_type() == 'message/rfc822' and 'The body.' in original.get_payload()[0].get_payload()
"#;
