//! Listeners: for whom a proxy speaks (XCLIENT, by swaks), client certificates (Python's smtplib), and the events by which policy
//! shapes a session and its messages.

use e2e::certificate::Authority;
use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::logs::Logs;
use e2e::peers;
use e2e::process::run;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::{LATER, SOON};
use e2e::wire::{Client, Reply};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

/// A server whose listener has those options, and the sink it delivers to.
struct Setup {
    scratch: Scratch,
    _sink: Sink,
    server: Kumod,
}

impl Setup {
    fn new(options: &str, events: &str) -> Setup {
        Setup::in_folder(Scratch::new(), options, events)
    }

    fn in_folder(scratch: Scratch, options: &str, events: &str) -> Setup {
        let sink = Sink::start(&scratch, "sink", &[]);
        let server = Launch::policy(policy_file("listeners.lua"))
            .env("LISTENERS_DIR", scratch.join("server"))
            .env("LISTENERS_TO", sink.address.to_string())
            .env("LISTENERS_ESMTP", options)
            .env("LISTENERS_EVENTS", events)
            .start();
        Setup { scratch, _sink: sink, server }
    }

    fn client(&self) -> Client {
        Client::connect(self.server.smtp())
    }

    fn logs(&self) -> Logs {
        Logs::new(self.scratch.join("server/logs"))
    }

    /// The records of one kind, once there are so many, by recipient.
    fn records(&self, kind: &str, count: usize) -> Vec<Value> {
        let mut records = self.logs().await_type(kind, count, LATER);
        records.sort_by_key(|record| record["recipient"].to_string());
        records
    }

    /// swaks, with `options` besides.
    fn swaks(&self, options: &[&str]) -> String {
        let mut command = peers::command("swaks");
        let port = self.server.smtp().port().to_string();
        command.args(["--server", "127.0.0.1", "--port", &port, "--from", "a@from.test", "--to", "b@to.test"]);
        command.args(options);
        run("swaks", command, SOON).stdout
    }
}

#[test]
fn a_proxy_says_for_whom_it_speaks() {
    let options = "allow_xclient = true, relay_hosts = { '127.0.0.1', '10.0.0.0/24' }, \
                   peer = { ['10.0.0.7'] = { banner = 'seven' } }";
    let setup = Setup::new(options, "");
    let xclient = ["--xclient-addr", "10.0.0.7", "--xclient-port", "777", "--xclient-destport", "587"];
    let dialogue = setup.swaks(&xclient);
    assert!(dialogue.contains("-> XCLIENT "), "{dialogue}");
    assert!(dialogue.lines().any(|line| line.starts_with("<-  220") && line.ends_with("seven")), "{dialogue}");
    assert!(dialogue.contains("250 OK ids="), "{dialogue}");
    let record = &setup.records("Reception", 1)[0];
    assert_eq!(record["meta"]["received_from"], "10.0.0.7:777");
    assert_eq!(record["meta"]["received_via"], "127.0.0.1:587");
    assert_eq!(record["meta"]["orig_received_via"], setup.server.smtp().to_string());
    assert!(record["meta"]["orig_received_from"].as_str().is_some_and(|from| from.starts_with("127.0.0.1:")));
    // Who may not relay may not by a proxy either.
    let dialogue = setup.swaks(&["--xclient-addr", "192.0.2.7"]);
    assert!(dialogue.contains("550 5.7.1 relaying not permitted for 192.0.2.7"), "{dialogue}");
    setup.server.stop();
}

#[test]
fn a_listener_that_trusts_nobody_believes_no_proxy() {
    let setup = Setup::new("", "");
    let mut client = setup.client();
    assert!(!client.say("EHLO a.test").text().contains("XCLIENT"));
    client.expect("XCLIENT ADDR=10.0.0.7", 550);
    client.expect("MAIL FROM:<a@from.test>", 250);
    setup.server.stop();
}

#[test]
fn a_client_certificate_is_believed_when_its_authority_is_known() {
    let scratch = Scratch::new();
    let known = Authority::make(&scratch);
    let certificate = known.issue(&scratch, &["client.test"]);
    let strangers = Scratch::new();
    let unknown = Authority::make(&strangers).issue(&strangers, &["stranger.test"]);
    let options = format!("tls_required_client_ca = '{}'", known.own.certificate.display());
    let setup = Setup::in_folder(scratch, &options, "");
    let send = |certificate: &[&std::path::Path]| {
        let mut python = Command::new("python3");
        python.args(["-c", PYTHON]).arg(setup.server.smtp().port().to_string()).args(certificate);
        run("python3", python, SOON)
    };
    send(&[&certificate.certificate, &certificate.key]).success();
    send(&[]).success();
    assert!(!send(&[&unknown.certificate, &unknown.key]).status.success(), "nobody vouches for it");
    let records = setup.records("Reception", 2);
    let subjects: Vec<&Value> = records.iter().map(|record| &record["meta"]["tls_peer_subject_name"]).collect();
    assert!(subjects.contains(&&serde_json::json!(["CN=client.test"])), "{subjects:?}");
    assert!(subjects.contains(&&Value::Null), "{subjects:?}");
    setup.server.stop();
}

/// As on port 465, by Python's own client.
#[test]
fn a_listener_may_speak_nothing_but_tls() {
    let setup = Setup::new("implicit_tls = true", "");
    let mut python = Command::new("python3");
    python.args(["-c", SUBMISSIONS]).arg(setup.server.smtp().port().to_string());
    let said = run("python3", python, SOON).success().stdout;
    assert!(!said.contains("starttls") && said.contains("requiretls"), "{said}");
    let record = &setup.records("Reception", 1)[0];
    assert_eq!(record["meta"]["tls_protocol_version"], "TLSv1_3", "{record}");
    // A client in clear hears no greeting: all there is for it is TLS's own word that this is none.
    let mut plain = TcpStream::connect(setup.server.smtp()).expect("connects");
    plain.write_all(b"EHLO a.test\r\n").expect("sends");
    let mut heard = Vec::new();
    plain.read_to_end(&mut heard).expect("reads");
    assert!(!String::from_utf8_lossy(&heard).contains("220"), "{heard:?}");
    setup.server.stop();
}

#[test]
fn what_a_session_runs_by_is_for_policy_to_say() {
    let esmtp = "allow_xclient = true, relay_hosts = { '0.0.0.0/0' }, meta = { seen_later = 'of the listener' }";
    let setup = Setup::new(esmtp, "parameters");
    let mut client = setup.client();
    assert!(client.say("EHLO a.test").text().contains("SIZE 20971520"), "nothing was said of this one");
    let banner = client.say("XCLIENT ADDR=10.0.0.9 PORT=99");
    assert_eq!((banner.code, banner.text().as_str()), (220, "nine.test for 10.0.0.9:99"));
    assert!(client.say("EHLO a.test").lines.contains(&"SIZE 100".to_owned()));
    client.expect("MAIL FROM:<a@from.test> SIZE=101", 552);
    assert_eq!(client.submit("a@from.test", "b@to.test", "x").code, 250);
    let record = &setup.records("Reception", 1)[0];
    assert_eq!(record["meta"]["seen"], "at once", "the message's own word is the last");
    assert_eq!(record["meta"]["seen_later"], "by policy", "and policy's is behind the listener's");
    // A rejection, and an option that does not exist, end the session.
    let mut client = setup.client();
    let reply = client.say("XCLIENT ADDR=10.0.0.66");
    assert_eq!((reply.code, reply.text().as_str()), (554, "5.7.1 not you"));
    assert!(client.try_reply().is_none(), "the connection is closed");
    let mut client = setup.client();
    assert_eq!(client.say("XCLIENT ADDR=10.0.0.77").code, 421);
    let names_it = |line: &str| line.contains("max_mesage_size").then_some(());
    setup.server.process.await_stderr("the unknown option", SOON, names_it);
    setup.server.stop();
}

#[test]
fn whom_messages_go_to_is_for_policy_to_say() {
    let setup = Setup::new("batch_handling = 'BatchByDomain'", "split");
    let send = |recipients: &[&str]| {
        let mut client = setup.client();
        client.expect("EHLO a.test", 250);
        client.expect("MAIL FROM:<a@from.test>", 250);
        recipients.iter().for_each(|recipient| _ = client.expect(&format!("RCPT TO:<{recipient}>"), 250));
        client.expect("DATA", 354);
        client.send("Subject: x\r\n\r\nbody\r\n.\r\n");
        client.reply()
    };
    let ids = |reply: &Reply| reply.text().split("ids=").nth(1).map_or(0, |ids| ids.split(' ').count());
    let reply = send(&["ann@to.test", "bob@to.test", "amy@other.test", "ben@to.test"]);
    assert_eq!((reply.code, ids(&reply)), (250, 2), "{reply:?}");
    let of = |record: &Value| record["recipient"].to_string();
    let together: Vec<String> = setup.records("Reception", 2).iter().map(of).collect();
    assert_eq!(together, [r#"["ann@to.test","amy@other.test"]"#, r#"["bob@to.test","ben@to.test"]"#]);
    assert_eq!(ids(&send(&["whatever@to.test", "so@to.test"])), 1, "nil: as the listener says");
    // Nobody is lost.
    assert_eq!(send(&["ann@to.test", "lost@to.test"]).code, 421);
    setup
        .server
        .process
        .await_stderr("who was left out", SOON, |line| line.contains("left out <lost@to.test>").then_some(()));
    setup.server.stop();
}

#[test]
fn messages_that_wait_for_their_policy() {
    let setup = Setup::new("deferred_queue = true", "deferred");
    let mut client = setup.client();
    for who in ["sent", "moved", "refused", "later"] {
        assert_eq!(client.submit("a@from.test", &format!("{who}@to.test"), who).code, 250);
    }
    let received = setup.records("Reception", 4);
    assert!(received.iter().all(|record| record["queue"] == "deferred_smtp_inject.kumomta.internal"), "{received:?}");
    let left = setup.records("DeferredInjectionRebind", 2);
    let said =
        |record: &Value| [&record["recipient"], &record["queue"], &record["response"]["content"]].map(Value::to_string);
    let says = |to: &str, queue: &str| {
        let why = "smtp_server_message_deferred_inject";
        let content = format!("Rebound from deferred_smtp_inject.kumomta.internal to {queue}: {why}");
        [to, queue, &content].map(|word| format!("{word:?}"))
    };
    assert_eq!(said(&left[0]), says("moved@to.test", "elsewhere.test"));
    assert_eq!(said(&left[1]), says("sent@to.test", "to.test"));
    let delivered = setup.records("Delivery", 2);
    let shown =
        |record: &Value| [&record["recipient"], &record["queue"], &record["headers"]["X-Seen"]].map(Value::to_string);
    let quoted = |words: [&str; 3]| words.map(|word| format!("{word:?}"));
    assert_eq!(shown(&delivered[0]), quoted(["moved@to.test", "elsewhere.test", "yes"]));
    assert_eq!(shown(&delivered[1]), quoted(["sent@to.test", "to.test", "yes"]));
    let seen = delivered[1]["meta"]["seen_later"].as_str().unwrap_or_default();
    assert!(seen.starts_with("from 127.0.0.1:"), "{seen}");
    assert_eq!(delivered[1]["meta"]["seen"], Value::Null, "smtp_server_message_received is not raised");
    let bounced = &setup.records("Bounce", 1)[0];
    assert_eq!((&bounced["recipient"], &bounced["response"]["code"]), (&"refused@to.test".into(), &550.into()));
    let delayed = &setup.records("TransientFailure", 1)[0];
    assert_eq!((&delayed["recipient"], &delayed["response"]["code"]), (&"later@to.test".into(), &451.into()));
    // What waits survives a stop, and goes once policy lets it.
    let Setup { scratch, _sink, server } = setup;
    server.stop();
    std::fs::write(scratch.join("server/now"), "").expect("a mark for policy");
    let setup = Setup::in_folder(scratch, "deferred_queue = true", "deferred");
    let delivered = setup.records("Delivery", 3);
    assert!(delivered.iter().any(|record| record["recipient"] == "later@to.test" && record["queue"] == "to.test"));
    // Other recipients are another message.
    assert_eq!(setup.client().submit("a@from.test", "list@to.test", "list").code, 250);
    let delivered = setup.records("Delivery", 5);
    let to: Vec<String> = delivered.iter().map(|record| record["recipient"].to_string()).collect();
    let expected = [
        r#""later@to.test""#,
        r#""list@to.test""#,
        r#""moved@to.test""#,
        r#""sent@to.test""#,
        r#"["one@to.test","two@to.test"]"#,
    ];
    assert_eq!(to, expected);
    let logs = setup.logs();
    setup.server.stop();
    assert_eq!(logs.of_type("Delivery").len(), 5, "nothing twice");
}

#[test]
fn replies_are_for_policy_to_word() {
    let setup = Setup::new("", "wording");
    let mut client = Client::connect_mute(setup.server.smtp());
    assert_eq!(client.reply().text(), "nothing to see");
    let hello = client.say("EHLO a.test");
    assert!(hello.text().ends_with("Aloha a.test ONE TWO"), "{hello:?}");
    assert_eq!(client.say("MAIL FROM:<error@from.test>").code, 250, "a handler that fails changes nothing");
    let ended = client.say("RSET");
    assert_eq!((ended.code, ended.text().as_str()), (421, "enough of 127.0.0.1"));
    assert!(client.try_reply().is_none(), "the connection is closed");
    setup.server.process.await_stderr("the error", SOON, |line| line.contains("no words").then_some(()));
    setup.server.stop();
}

const PYTHON: &str = r"
import smtplib, ssl, sys
context = ssl._create_unverified_context()
if sys.argv[2:]:
    context.load_cert_chain(sys.argv[2], sys.argv[3])
client = smtplib.SMTP('127.0.0.1', int(sys.argv[1]), local_hostname='client.test')
client.starttls(context=context)
client.sendmail('a@from.test', ['b@to.test'], 'Subject: x\r\n\r\nbody\r\n')
client.quit()
";

/// Sends a message, and prints what the server offers.
const SUBMISSIONS: &str = r"
import smtplib, ssl, sys
context = ssl._create_unverified_context()
client = smtplib.SMTP_SSL('127.0.0.1', int(sys.argv[1]), local_hostname='client.test', context=context)
client.sendmail('a@from.test', ['b@to.test'], 'Subject: x\r\n\r\nbody\r\n')
print(sorted(client.esmtp_features))
client.quit()
";
