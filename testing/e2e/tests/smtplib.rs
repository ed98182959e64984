//! Python's smtplib in front, aiosmtpd behind: what goes in comes out, octet for octet.

use e2e::certificate::Certificate;
use e2e::dump::Dump;
use e2e::kumod::{Kumod, Launch};
use e2e::peers;
use e2e::process::run;
use e2e::scratch::Scratch;
use e2e::until::{LATER, SOON};
use std::path::Path;

#[test]
fn every_shape_of_message_arrives_octet_for_octet() {
    let scratch = Scratch::new();
    let dump = Dump::start(&scratch);
    let relay = Launch::relay(&scratch, dump.address).start();
    let ledger = scratch.join("sent.jsonl");
    let offers = "pipelining,8bitmime,smtputf8,size,chunking,enhancedstatuscodes,starttls";
    // Sizes around the buffers of both ends, and one far above them.
    let sizes = "300,1024,4095,4096,4097,10240,65535,65536,131072,131073,102400,2000000";
    client(&relay, &["send", "--offers", offers, "--sizes", sizes, "--ledger"], &ledger);
    client(&relay, &["send", "--tls", "--sizes", sizes, "--per-connection", "1", "--ledger"], &ledger);
    let sent = std::fs::read_to_string(&ledger).expect("the ledger").lines().count();
    dump.await_messages(sent, LATER);
    relay.await_empty(SOON);
    dump.compare(&ledger);
    relay.stop();
}

#[test]
fn dots_that_begin_lines_arrive_as_they_were_by_data_and_in_chunks_in_clear_and_behind_tls() {
    let own = Scratch::new();
    let certificate = Certificate::make(&own, "dump.test");
    for tls in ["Disabled", "RequiredInsecure"] {
        let scratch = Scratch::new();
        let dump = match tls {
            "Disabled" => Dump::start(&scratch),
            _ => Dump::start_tls(&scratch, &certificate),
        };
        let relay = Launch::relay(&scratch, dump.address).env("RELAY_TLS", tls).start();
        let ledger = scratch.join("sent.jsonl");
        let shapes = ["send", "--shapes", "dots,eightbit,loneterm,sheet,sheet8", "--sizes", "1024", "--count", "5"];
        for chunks in ["0", "777", "1000000"] {
            client(&relay, &[&shapes[..], &["--chunks", chunks, "--ledger"]].concat(), &ledger);
        }
        let sent = std::fs::read_to_string(&ledger).expect("the ledger").lines().count();
        dump.await_messages(sent, LATER);
        relay.await_empty(SOON);
        dump.compare(&ledger);
        relay.stop();
    }
}

#[test]
fn a_list_gets_an_answer_that_its_client_can_read() {
    let scratch = Scratch::new();
    let dump = Dump::start(&scratch);
    let relay = Launch::relay(&scratch, dump.address).start();
    // Each becomes a message of its own; smtplib takes a reply line beyond 8 192 octets for an error.
    let recipients: Vec<String> = (0..300).map(|number| format!("--to=member{number}@list.test")).collect();
    let mut send = command(&relay, &["send", "--shapes", "plain", "--sizes", "300"]);
    send.args(&recipients);
    run("smtp_client.py", send, LATER).success();
    dump.await_messages(600, LATER);
    relay.await_empty(SOON);
    relay.stop();
}

#[test]
fn a_message_read_back_from_the_spool_is_the_same() {
    let scratch = Scratch::new();
    let dump = Dump::start(&scratch);
    // Nobody listens where the mail is to go at first: it stays in the spool.
    let away = "127.0.0.1:1".parse().expect("an address");
    let relay = Launch::relay(&scratch, away).env("RELAY_RETRY", "1s").start();
    let ledger = scratch.join("sent.jsonl");
    client(&relay, &["send", "--sizes", "1024,102400", "--ledger"], &ledger);
    let sent = std::fs::read_to_string(&ledger).expect("the ledger").lines().count();
    assert_eq!(relay.metric("message_count"), sent as f64);
    relay.stop();
    let relay = Launch::relay(&scratch, dump.address).env("RELAY_RETRY", "1s").start();
    dump.await_messages(sent, LATER);
    relay.await_empty(SOON);
    dump.compare(&ledger);
    relay.stop();
}

#[test]
fn commands_in_wrong_and_right_order() {
    let scratch = Scratch::new();
    let dump = Dump::start(&scratch);
    let front = Launch::front(&scratch, dump.address).start();
    run("smtp_client.py session", command(&front, &["session"]), SOON).success();
    for mechanism in ["plain", "login"] {
        for initial in [&[][..], &["--no-initial-response"]] {
            let login = |password: &str, expect: &str| {
                let mut command = command(&front, &["auth", "--mechanism", mechanism, "--user", "scott"]);
                command.args(["--password", password, "--expect", expect]).args(initial);
                run("smtp_client.py auth", command, SOON).success();
            };
            login("tiger", "auth=235");
            login("lion", "auth=535");
        }
    }
    front.stop();
}

fn client(server: &Kumod, arguments: &[&str], ledger: &Path) {
    let mut command = command(server, arguments);
    command.arg(ledger);
    run("smtp_client.py", command, LATER).success();
}

fn command(server: &Kumod, arguments: &[&str]) -> std::process::Command {
    let mut command = peers::script("smtp_client.py");
    command.args(["127.0.0.1", &server.smtp().port().to_string()]).args(arguments);
    command
}
