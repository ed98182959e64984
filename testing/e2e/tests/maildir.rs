//! `maildir_path` against the whole program, and Python's `mailbox` as the reader.

use e2e::http;
use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::logs::Logs;
use e2e::process;
use e2e::scratch::Scratch;
use e2e::until::{LATER, SOON, until};
use e2e::wire::Client;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

struct Setup {
    scratch: Scratch,
    launch: Launch,
}

impl Setup {
    fn new(template: &str, modes: &str) -> Setup {
        let scratch = Scratch::new();
        scratch.folder("received");
        let path = format!("{}/mail/{template}", scratch.path().display());
        let launch = Launch::policy(policy_file("carry.lua"))
            .env("CARRY_DIR", scratch.path())
            .env("CARRY_PROTOCOL", format!("maildir_path = '{path}'{modes}"));
        Setup { scratch, launch }
    }

    fn await_records(&self, kind: &str, count: usize) -> Vec<Value> {
        let logs = Logs::new(self.scratch.join("logs"));
        logs.await_type(kind, count, LATER)
    }

    /// What the listener accepted, as it is on its way, with LF.
    fn received(&self, id: &Value) -> Vec<u8> {
        let file = self.scratch.join(&format!("received/{}", id.as_str().expect("an id")));
        let octets = std::fs::read(file).expect("it was received");
        let text: Vec<u8> = octets.iter().copied().filter(|octet| *octet != b'\r').collect();
        text
    }
}

/// The messages of a Maildir as Python's `mailbox` reads them.
fn read(folder: &Path) -> Vec<Vec<u8>> {
    let mut command = Command::new("python3");
    command.args(["-c", READER]).arg(folder);
    let finished = process::run("python3", command, SOON).success();
    let octets = |line: &str| -> Vec<u8> {
        (0..line.len()).step_by(2).map(|at| u8::from_str_radix(&line[at..at + 2], 16).expect("hex")).collect()
    };
    finished.stdout.lines().map(octets).collect()
}

fn submit(node: &Kumod, recipients: &[&str], content: &[u8]) {
    let mut client = Client::connect(node.smtp());
    client.expect("EHLO client.test", 250);
    client.expect("MAIL FROM:<from@source.test>", 250);
    for recipient in recipients {
        client.expect(&format!("RCPT TO:<{recipient}>"), 250);
    }
    client.expect("DATA", 354);
    client.send(content);
    assert_eq!(client.say(".").code, 250);
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).map(|entries| entries.flatten().collect()).unwrap_or_else(|_| Vec::new());
    entries.into_iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("it is there").permissions().mode() & 0o7777
}

#[test]
fn each_recipient_has_the_message_octet_for_octet() {
    let setup = Setup::new(
        "{{ domain_part }}/{{ local_part }}",
        ", dir_mode = tonumber('750', 8), file_mode = tonumber('640', 8)",
    );
    let node = setup.launch.start();
    let content = b"From: <from@source.test>\r\nSubject: =?utf-8?q?x?=\r\n folded\r\n\r\n\
                    ..dot\r\nFrom here \xff\xc3\xa4\x01 on\r\n\r\n \r\nend\r\n";
    submit(&node, &["one@a.test", "two@a.test"], content);
    submit(&node, &["one@a.test"], b"Subject: empty\r\n\r\n");
    let records = setup.await_records("Delivery", 3);
    let site = format!(
        "unspecified->a.test@maildir:{}/mail/{{{{ domain_part }}}}/{{{{ local_part }}}}",
        setup.scratch.path().display()
    );
    for record in &records {
        assert_eq!((&record["response"]["code"], &record["delivery_protocol"]), (&json!(200), &json!("Maildir")));
        assert_eq!((&record["site"], &record["peer_address"]), (&json!(site), &Value::Null));
    }
    let of = |recipient: &str| -> BTreeSet<Vec<u8>> {
        let theirs = records.iter().filter(|record| record["recipient"] == recipient);
        theirs.map(|record| setup.received(&record["id"])).collect()
    };
    for (recipient, count) in [("one", 2), ("two", 1)] {
        let folder = setup.scratch.join(&format!("mail/a.test/{recipient}"));
        let found: BTreeSet<Vec<u8>> = read(&folder).into_iter().collect();
        assert_eq!(found.len(), count);
        assert_eq!(found, of(&format!("{recipient}@a.test")));
        assert_eq!(names(&folder.join("tmp")), BTreeSet::new());
        for part in ["", "new", "cur", "tmp"] {
            assert_eq!(mode(&folder.join(part)), 0o750, "{part}");
        }
        let new = folder.join("new");
        names(&new).iter().for_each(|name| assert_eq!(mode(&new.join(name)), 0o640, "{name}"));
    }
    assert_eq!(node.metric("total_messages_delivered{service=\"maildir\"}"), 3.0);
    node.stop();
}

#[test]
fn a_folder_that_cannot_be_written_is_tried_again_after_about_a_minute() {
    let setup = Setup::new("{{ local_part }}", "");
    let node = setup.launch.start();
    setup.scratch.folder("mail");
    let obstacle = setup.scratch.write("mail/one", "no folder");
    submit(&node, &["one@a.test", "two@a.test"], b"Subject: x\r\n\r\nHello.\r\n");
    let failed = setup.await_records("TransientFailure", 1).remove(0);
    assert_eq!((&failed["response"]["code"], &failed["recipient"]), (&json!(451), &json!("one@a.test")));
    let text = failed["response"]["content"].as_str().expect("a text");
    assert!(text.contains("cannot make ") && text.contains("/mail/one"), "{text}");
    let delivered = setup.await_records("Delivery", 1).remove(0);
    assert_eq!(delivered["recipient"], "two@a.test");
    let message = until(SOON, "the message that waits", || {
        let url = "/api/admin/inspect-sched-q/v1?queue_name=shop@a.test";
        let found: Value = serde_json::from_str(&http::get(node.http(), url).1).ok()?;
        found["messages"].get(0).filter(|message| message["until"].is_string()).cloned()
    });
    let until_second = |text: &Value| -> i64 {
        // The time of day will do: the two are a minute apart.
        let text = text.as_str().expect("a time");
        let part = |from: usize| text[from..from + 2].parse::<i64>().expect("two digits");
        (part(11) * 60 + part(14)) * 60 + part(17)
    };
    let wait = (until_second(&message["until"]) - until_second(&failed["event_time"])).rem_euclid(86_400);
    assert!((40..=80).contains(&wait), "{wait} s: {message}");

    std::fs::remove_file(obstacle).expect("it goes");
    http::json(node.http(), "POST", "/api/admin/flush/v1", &json!({ "reason": "it is mended" }));
    setup.await_records("Delivery", 2);
    assert_eq!(read(&setup.scratch.join("mail/one")).len(), 1);
    assert_eq!(read(&setup.scratch.join("mail/two")).len(), 1, "nobody has it twice");
    node.stop();
}

#[test]
fn no_address_leads_out_of_its_folder() {
    let setup = Setup::new("{{ local_part }}", "");
    let node = setup.launch.start();
    let hostile = ["\"../../out\"@a.test", "\"..\"@a.test", "a/b@a.test", "/abs@a.test", "\".\"@a.test"];
    for recipient in hostile {
        submit(&node, &[recipient], b"Subject: x\r\n\r\nHello.\r\n");
    }
    submit(&node, &["good@a.test"], b"Subject: x\r\n\r\nHello.\r\n");
    let bounced = setup.await_records("Bounce", hostile.len());
    for record in &bounced {
        assert_eq!(record["response"]["code"], 550, "{record}");
        assert_eq!(record["response"]["enhanced_code"], json!({"class": 5, "subject": 1, "detail": 3}));
    }
    setup.await_records("Delivery", 1);
    assert_eq!(names(&setup.scratch.join("mail")), BTreeSet::from(["good".to_owned()]));
    let beside = names(setup.scratch.path());
    assert!(!beside.contains("out") && !beside.contains("new") && !beside.contains("tmp"), "{beside:?}");
    node.stop();
}

#[test]
fn a_template_that_cannot_be_read_keeps_its_mail() {
    let setup = Setup::new("{{ local_part", "");
    let node = setup.launch.start();
    submit(&node, &["one@a.test"], b"Subject: x\r\n\r\nHello.\r\n");
    let failed = setup.await_records("TransientFailure", 1).remove(0);
    assert_eq!(failed["response"]["enhanced_code"], json!({"class": 4, "subject": 3, "detail": 5}), "{failed}");
    node.stop();
}

#[test]
fn a_kill_loses_nothing() {
    let setup = Setup::new("{{ local_part }}", "");
    let mut node = setup.launch.start();
    let subjects: BTreeSet<String> = (0..200).map(|n| format!("k{n}.")).collect();
    for (n, subject) in subjects.iter().enumerate() {
        submit(&node, &[&format!("u{}@a.test", n % 5)], format!("Subject: {subject}\r\n\r\nHello.\r\n").as_bytes());
        if n == subjects.len() / 2 {
            node.process.kill();
            node = setup.launch.start();
        }
    }
    // An empty server is no sign: so it is too, while it still reads its spool.
    until(LATER, "all of them", || {
        let found: Vec<Vec<u8>> = (0..5).flat_map(|n| read(&setup.scratch.join(&format!("mail/u{n}")))).collect();
        let is_there = |subject: &String| {
            let line = format!("Subject: {subject}\n");
            found.iter().any(|message| message.windows(line.len()).any(|window| window == line.as_bytes()))
        };
        subjects.iter().all(is_there).then_some(())
    });
    node.await_empty(LATER);
    node.stop();
}

const READER: &str = "
import mailbox, sys
box = mailbox.Maildir(sys.argv[1], create=False)
for key in box.keys():
    print(box.get_bytes(key).hex())
";
