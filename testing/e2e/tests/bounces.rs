//! Bounces: the class of a reply, and the rule that says so; DSN options on their way.

use e2e::dump::Dump;
use e2e::kumod::{Launch, policy_file, program};
use e2e::logs::Logs;
use e2e::port::free_port;
use e2e::postfix::Postfix;
use e2e::process;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::{LATER, SOON};
use e2e::wire::Client;
use serde_json::Value;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

#[test]
fn records_tell_the_class_of_a_reply() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &["--fail-rate", "100", "--fail-code", "550"]);
    let own = scratch.write("own.json", r#"{"rules": {"Mine": ["^550 .*(?i)ON PURPOSE", "never"]}}"#);
    let rules = format!("{}:{}", own.display(), shared("bounce_classifier/iana.toml").display());
    let kumod = launch(&scratch, sink.address).env("BOUNCES_RULES", rules).start();
    Client::connect(kumod.smtp()).submit("a@source.test", "b@target.test", "class");
    let mut stranger = Client::connect(kumod.smtp[1]);
    stranger.expect("EHLO stranger.test", 250);
    stranger.expect("MAIL FROM:<spam@source.test>", 250);
    stranger.expect("RCPT TO:<victim@target.test>", 550);
    let logs = Logs::new(scratch.join("bounces/logs"));
    let bounce = &logs.await_type("Bounce", 1, SOON)[0];
    let rejection = &logs.await_type("Rejection", 1, SOON)[0];
    assert_eq!(bounce["bounce_classification"], "Mine", "{bounce}");
    assert_eq!(rejection["bounce_classification"], "PolicyRelated", "{rejection}");
    assert_eq!(logs.of_type("Reception")[0]["bounce_classification"], "Uncategorized");
    assert!(kumod.metric("bounce_classify_latency_count") >= 2.0);
    kumod.stop();
}

#[test]
fn rules_that_do_not_read_keep_the_server_from_starting() {
    let scratch = Scratch::new();
    let bad = scratch.write("bad.toml", "[rules]\nMine = ['fine', 'a(b']\n");
    let end = launch(&scratch, SocketAddr::from(([127, 0, 0, 1], 25))).env("BOUNCES_RULES", &bad).run();
    let wanted = format!("{}: class Mine, rule \"a(b\": unclosed group", bad.display());
    assert!(!end.status.success() && end.stderr.contains(&wanted), "{}", end.stderr);
    let validated = postrider("validate-bounces", &[bad.as_ref()]);
    assert!(!validated.status.success() && validated.stderr.contains(&wanted), "{}", validated.stderr);
}

#[test]
fn the_tool_tells_which_rule_decides() {
    let (community, iana) = (shared("community/bounces.toml"), shared("bounce_classifier/iana.toml"));
    let text = Path::new("550 5.1.1 <a@b.test>: Recipient address rejected: User unknown");
    let told = postrider("classify", &["--rules".as_ref(), &community, &iana, text]).success().stdout;
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines[0], "InvalidRecipient");
    assert!(lines[1].starts_with("  decided by ") && lines[1].contains("community/bounces.toml InvalidRecipient: "));
    assert!(told.contains(r"iana.toml InvalidRecipient: ^[245]\d\d [45]\.1\.[0134]\b"), "{told}");
    let none = postrider("classify", &["--rules".as_ref(), &iana, "250 OK".as_ref()]);
    assert_eq!((none.status.code(), none.stdout.as_str()), (Some(1), "Uncategorized"));
    let sound = postrider("validate-bounces", &[&community, &iana]).success();
    assert_eq!(sound.stdout, "OK");
}

/// Two recipients of one message: the sink is told a sender for each, the log names the message's own.
#[test]
fn with_verp_the_sender_names_the_recipient() {
    let scratch = Scratch::new();
    let dump = Dump::start(&scratch);
    let kumod = launch(&scratch, dump.address).env("BOUNCES_PATH", "verp_delimiters = '+='").start();
    let mut client = Client::connect(kumod.smtp());
    client.expect("EHLO client.test", 250);
    client.expect("MAIL FROM:<news@source.test>", 250);
    client.expect("RCPT TO:<ann@target.test>", 250);
    client.expect("RCPT TO:<bob@target.test>", 250);
    client.expect("DATA", 354);
    assert_eq!(client.say("Subject: verp\r\n\r\nHello.\r\n.").code, 250);
    dump.await_messages(2, SOON);
    kumod.await_empty(SOON);
    let logs = Logs::new(scratch.join("bounces/logs"));
    kumod.stop();
    let deliveries = logs.of_type("Delivery");
    assert!(!deliveries.is_empty() && deliveries.iter().all(|r| r["sender"] == "news@source.test"), "{deliveries:?}");
    let mut senders = dump.senders();
    senders.sort();
    assert_eq!(senders, ["news+ann=target.test@source.test", "news+bob=target.test@source.test"]);
}

/// From a client through us and a Postfix to us again, whose spool then has what it said: Postfix offers DSN to the
/// first, and passes on to the second.
#[test]
fn dsn_options_go_through_a_postfix_and_are_durable() {
    let (scratch, last_scratch) = (Scratch::new(), Scratch::new());
    let nowhere = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let last = launch(&last_scratch, nowhere).start();
    let postfix = Postfix::start(&scratch, last.smtp());
    let first = launch(&scratch, postfix.address).start();
    let ehlo = Client::connect(first.smtp()).expect("EHLO client.test", 250);
    assert!(ehlo.lines.iter().any(|line| line == "DSN"), "{ehlo:?}");
    let mut client = Client::connect(first.smtp());
    client.expect("EHLO client.test", 250);
    client.expect("MAIL FROM:<a@source.test> RET=HDRS ENVID=q+2B1", 250);
    let refused = client.expect("RCPT TO:<b@target.test> NOTIFY=OFTEN", 501);
    assert!(refused.lines[0].starts_with("5.5.4 ") && refused.lines[0].contains("OFTEN"), "{refused:?}");
    client.expect("RCPT TO:<b@target.test> NOTIFY=SUCCESS,DELAY ORCPT=rfc822;old+2B@target.test", 250);
    client.expect("RCPT TO:<c@target.test> NOTIFY=NEVER", 250);
    client.expect("DATA", 354);
    client.say("Subject: dsn\r\n\r\nHello.\r\n.");
    first.await_empty(LATER);
    let logs = Logs::new(last_scratch.join("bounces/logs"));
    let waiting = logs.await_type("TransientFailure", 1, LATER);
    first.stop();
    drop(postfix);
    last.stop();
    let id = waiting[0]["id"].as_str().expect("an id").to_owned();
    let spool = last_scratch.join("bounces/data");
    let cat = ["cat".as_ref(), "--envelope".as_ref(), "--spool".as_ref(), spool.as_path(), Path::new(&id)];
    let text = postrider("spool", &cat).success().stdout;
    let told = serde_json::Deserializer::from_str(&text).into_iter::<Value>().next().expect("JSON").expect("JSON");
    assert_eq!(told["dsn"], "RET=HDRS ENVID=q+2B1", "{told}");
    assert_eq!(told["recipients"][0]["dsn"], "NOTIFY=SUCCESS,DELAY ORCPT=rfc822;old+2B@target.test", "{told}");
    assert_eq!(told["recipients"][1]["dsn"].as_str().map(|d| d.starts_with("NOTIFY=NEVER")), Some(true), "{told}");
}

fn launch(scratch: &Scratch, to: SocketAddr) -> Launch {
    let launch = Launch::policy(policy_file("bounces.lua"));
    launch.env("BOUNCES_DIR", scratch.join("bounces")).env("BOUNCES_TO", to.to_string())
}

fn postrider(verb: &str, arguments: &[&Path]) -> process::Finished {
    let mut command = program();
    command.arg(verb).args(arguments);
    process::run(verb, command, SOON)
}

/// A file of the tree's `share/`.
fn shared(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../share").join(name);
    path.canonicalize().unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}
