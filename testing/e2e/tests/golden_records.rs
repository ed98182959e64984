//! Records of every type that the program writes, from two running servers, each held against its file in `golden/`.
//!
//! A file is named after the type, and after what is special where a type has several. Times, ids, ports and sizes stand there as
//! words and are held to their form; all else is as it is in the log, field for field and in order. After a change that is wanted
//! `POSTRIDER_WRITE_REFERENCE=1 cargo test -p e2e --test golden_records` writes the files anew: what changed is then to be read.

use e2e::golden::{Run, difference};
use e2e::http;
use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::logs::Logs;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::tls_server::TlsServer;
use e2e::until::{LATER, SOON, until};
use e2e::wire::{Client, Reply};
use record::RecordType;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A record that is looked for.
struct Row {
    /// Its file: the type, and behind a full stop what is special.
    name: &'static str,
    /// The first of its recipients.
    to: &'static str,
    /// Whose log has it.
    node: &'static str,
    /// The recipient of the message that a client was told the id of.
    told: Option<&'static str>,
}

impl Row {
    /// A record about a message by SMTP.
    const fn of(name: &'static str, to: &'static str) -> Row {
        Row { name, to, node: ONE, told: Some(to) }
    }

    fn kind(&self) -> &'static str {
        self.name.split_once('.').map_or(self.name, |(kind, _)| kind)
    }

    fn is(&self, record: &Value) -> bool {
        let to = &record["recipient"];
        record["type"] == self.kind() && *to.get(0).unwrap_or(to) == self.to
    }

    fn file(&self) -> PathBuf {
        folder().join(format!("{}.json", self.name))
    }
}

const ROWS: [Row; 27] = [
    Row::of("Reception", "a@takes.test"),
    Row { told: None, ..Row::of("Reception.http", "http@takes.test") },
    Row::of("Delivery", "a@takes.test"),
    Row { told: None, ..Row::of("Delivery.http", "http@takes.test") },
    Row::of("Delivery.many", "one@many.test"),
    Row::of("Delivery.tls", "a@tls.test"),
    Row::of("Delivery.maildir", "a@maildir.test"),
    Row::of("Delivery.lua", "a@lua.test"),
    Row { told: None, ..Row::of("Delivery.generator", "http-injection@generator.kumomta.internal") },
    Row::of("Bounce", "a@bounce.test"),
    Row { told: None, ..Row::of("Bounce.generator", "nobody") },
    Row::of("TransientFailure", "a@later.test"),
    Row::of("TransientFailure.unreached", "a@away.test"),
    Row::of("Expiration", "a@expires.test"),
    Row::of("AdminBounce", "a@admin.test"),
    Row { told: Some("bounces@report.test"), ..Row::of("OOB", "lost@elsewhere.test") },
    Row::of("Reception.bounce", "bounces@report.test"),
    Row::of("Feedback", "complaints@report.test"),
    Row { told: None, ..Row::of("Rejection", "victim@takes.test") },
    Row { told: None, ..Row::of("Rejection.command", "") },
    Row::of("AdminRebind", "a@rebind.test"),
    Row::of("Reception.deferred", "deferred@takes.test"),
    Row::of("DeferredInjectionRebind", "deferred@takes.test"),
    Row::of("Delayed", "a@delayed.test"),
    Row { told: None, ..Row::of("AdminRebind.xfer", "a@xfer.test") },
    Row::of("XferOut", "a@xfer.test"),
    Row { node: OTHER, told: None, ..Row::of("XferIn", "a@xfer.test") },
];

/// Two servers, and what mail meets.
struct Stage {
    scratch: Scratch,
    run: Run,
    one: Kumod,
    other: Kumod,
    /// Ids that clients were told, by the first recipient.
    told: BTreeMap<&'static str, String>,
    _sinks: [Sink; 3],
    _tls: TlsServer,
}

impl Stage {
    fn new() -> Stage {
        let (scratch, mut run) = (Scratch::new(), Run::begin());
        let sink = |name: &str, code: &str, rate: &str| {
            Sink::start(&scratch, name, &["--hostname", name, "--fail-rate", rate, "--fail-code", code])
        };
        let sinks =
            [sink("takes.test", "451", "0"), sink("refuses.test", "550", "100"), sink("defers.test", "451", "100")];
        let tls = TlsServer::start(&[]);
        let rules = scratch.write("rules.toml", RULES);
        let node = |name: &str, number: u8| {
            let addresses = sinks.iter().map(|sink| sink.address).chain([tls.address]);
            let launch = ["TAKES", "REFUSES", "DEFERS", "TLS"]
                .into_iter()
                .zip(addresses)
                .fold(Launch::policy(policy_file("golden.lua")), |launch, (what, address)| {
                    launch.env(&format!("GOLDEN_{what}"), address.to_string())
                });
            let launch = launch.env("GOLDEN_DIR", scratch.join(name)).env("GOLDEN_RULES", &rules);
            launch.env("KUMO_NODE_ID", format!("00000000-0000-4000-8000-00000000000{number}")).start()
        };
        let (one, other) = (node(ONE, 1), node(OTHER, 2));
        // Until then it takes nothing of the other, which would be an attempt more.
        other.await_recovered(SOON);
        run.knows(format!("http://{}", other.http()), "<the other node>");
        run.knows(scratch.path().display(), "<folder>");
        Stage { scratch, run, one, other, told: BTreeMap::new(), _sinks: sinks, _tls: tls }
    }

    fn client(&mut self, listener: usize) -> Client {
        let client = Client::connect(self.one.smtp[listener]);
        self.run.knows(client.local(), "<client>");
        client
    }

    /// Sends a message that is taken.
    fn send(&mut self, listener: usize, from: &str, to: &[&'static str], content: &str) {
        let mut client = self.client(listener);
        client.expect("EHLO client.test", 250);
        client.expect(&format!("MAIL FROM:<{from}>"), 250);
        to.iter().for_each(|to| _ = client.expect(&format!("RCPT TO:<{to}>"), 250));
        client.expect("DATA", 354);
        let reply: Reply = client.say(&format!("{content}."));
        let id = reply.text().split_once("ids=").map(|(_, id)| id.trim().to_owned());
        self.told.insert(to[0], id.unwrap_or_else(|| panic!("{to:?}: {reply:?}")));
        assert_eq!(reply.code, 250, "{reply:?}");
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        http::json(self.one.http(), "POST", path, body)
    }

    /// Mail that nothing is done about but what its domain says.
    fn send_mail(&mut self) {
        for row in ROWS.iter().filter(|row| row.told == Some(row.to) && row.to.starts_with("a@")) {
            if !self.told.contains_key(row.to) {
                self.send(0, "s@source.test", &[row.to], MAIL);
            }
        }
        self.send(0, "s@source.test", &["one@many.test", "two@many.test"], MAIL);
        self.send(2, "s@source.test", &["deferred@takes.test"], MAIL);
        self.send(0, "", &["bounces@report.test"], BOUNCE);
        self.send(0, "", &["complaints@report.test"], COMPLAINT);
        let mut stranger = self.client(1);
        stranger.expect("EHLO stranger.test", 250);
        stranger.expect("MAIL FROM:<spam@source.test>", 250);
        stranger.expect("RCPT TO:<victim@takes.test>", 550);
        let mut odd = self.client(0);
        odd.expect("EHLO odd.test", 250);
        odd.expect("XYZZY \"now\"", 502);
        for (deferred, to) in [(false, "http@takes.test"), (true, "nobody")] {
            let content = json!({"subject": "golden", "text_body": "Hello.", "from": {"email": "s@source.test"}, "headers": {"X-One": "1"}});
            let recipients = json!([{"email": to}]);
            self.post(
                "/api/inject/v1",
                &json!({"envelope_sender": "s@source.test", "recipients": recipients, "content": content, "deferred_generation": deferred}),
            );
        }
    }

    /// What operators do to mail that waits.
    fn order(&self) {
        let is_waiting = |domain: &str| {
            let (status, text) = http::get(self.one.http(), &format!("{SCHED}?queue_name=shop@{domain}"));
            let queue: Value = serde_json::from_str(&text).unwrap_or_default();
            (status == 200 && queue["messages"][0]["why"] == "LoggedTransientFailure").then_some(())
        };
        for domain in ["admin.test", "rebind.test", "xfer.test"] {
            until(SOON, domain, || is_waiting(domain));
        }
        let reason = "a test";
        self.post("/api/admin/bounce/v1", &json!({"domain": "admin.test", "reason": reason}));
        let data = json!({"queue": "moved.test"});
        self.post("/api/admin/rebind/v1", &json!({"domain": "rebind.test", "reason": reason, "data": data}));
        let target = format!("http://{}", self.other.http());
        self.post("/api/admin/xfer/v1", &json!({"domain": "xfer.test", "reason": reason, "target": target}));
    }

    /// The record of each row, once it is there, and all there are at the end.
    fn records(self) -> (Scratch, Run, Vec<Value>, Vec<Value>) {
        let logs = |node: &str| Logs::new(self.scratch.join(node).join("logs"));
        for row in &ROWS {
            logs(row.node).await_records(row.name, 1, LATER, |record| row.is(record));
        }
        self.one.stop();
        self.other.stop();
        let all = [ONE, OTHER].map(|node| (node, logs(node).records()));
        let of = |row: &Row| {
            let records = all.iter().filter(|(node, _)| *node == row.node).flat_map(|(_, records)| records);
            let found: Vec<&Value> = records.filter(|record| row.is(record)).collect();
            assert_eq!(found.len(), 1, "{}: records of {} about {}: {found:?}", row.name, row.kind(), row.to);
            let told = row.told.map(|to| Value::from(self.told[to].as_str()));
            assert!(told.is_none_or(|told| told == found[0]["id"]), "{}: id: another than the client heard", row.name);
            found[0].clone()
        };
        let found = ROWS.iter().map(of).collect();
        (self.scratch, self.run, found, all.into_iter().flat_map(|(_, records)| records).collect())
    }
}

#[test]
fn each_type_of_record_is_as_its_file_says() {
    let mut stage = Stage::new();
    stage.send_mail();
    stage.order();
    let (_scratch, run, found, all) = stage.records();
    let mut wrong = Vec::new();
    for (row, record) in ROWS.iter().zip(&found) {
        let path = row.file();
        let masked = match run.masked(record) {
            Ok(masked) => masked,
            Err(why) => {
                wrong.push(format!("{}: {why}", row.name));
                continue;
            }
        };
        if is_to_write() {
            let text = serde_json::to_string_pretty(&masked).expect("JSON") + "\n";
            fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
        let golden = fs::read_to_string(&path).map_err(|error| error.to_string());
        let golden = golden.and_then(|text| serde_json::from_str::<Value>(&text).map_err(|error| error.to_string()));
        match golden {
            Ok(golden) => wrong.extend(difference(&golden, &masked).map(|what| format!("{}: {what}", row.name))),
            Err(error) => wrong.push(format!("{}: {error}", path.display())),
        }
    }
    assert!(wrong.is_empty(), "{ANEW}:\n{}", wrong.join("\n"));
    ids_agree(&found);
    let types: BTreeSet<&str> = all.iter().filter_map(|record| record["type"].as_str()).collect();
    assert_eq!(types, RecordType::ALL.map(RecordType::as_str).into(), "types that were written");
}

/// What two records say of each other.
fn ids_agree(found: &[Value]) {
    let of = |name: &str| &found[ROWS.iter().position(|row| row.name == name).expect("a row")];
    let said = of("XferOut")["response"]["content"].as_str().unwrap_or_default();
    assert_eq!(said, format!("new id is {}", of("XferIn")["id"].as_str().unwrap_or_default()), "of XferOut and XferIn");
    for [one, other] in [
        ["XferOut", "AdminRebind.xfer"],
        ["Bounce.generator", "Delivery.generator"],
        ["Reception.http", "Delivery.http"],
    ] {
        assert_eq!(of(one)["id"], of(other)["id"], "{one} and {other} are about one message");
    }
    assert_ne!(of("XferOut")["id"], of("XferIn")["id"]);
}

/// None is forgotten, and none is left over.
#[test]
fn each_type_of_record_has_its_file() {
    if is_to_write() {
        return println!("not while they are written");
    }
    let rows: BTreeSet<String> = ROWS.iter().map(|row| format!("{}.json", row.name)).collect();
    for kind in RecordType::ALL.map(RecordType::as_str) {
        assert!(rows.contains(&format!("{kind}.json")), "{kind}: no file, and no row that makes such a record");
    }
    let files = fs::read_dir(folder()).expect("the files").map(|file| file.expect("a file").file_name());
    let files: BTreeSet<String> = files.map(|name| name.to_string_lossy().into_owned()).collect();
    assert_eq!(files, rows, "on the left the files, on the right the rows: {ANEW}");
    for row in &ROWS {
        let text = fs::read_to_string(row.file()).expect("a file");
        let record: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(record["type"], row.kind(), "{}", row.name);
    }
}

fn is_to_write() -> bool {
    std::env::var_os("POSTRIDER_WRITE_REFERENCE").is_some()
}

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/golden"))
}

const ANEW: &str = "if that is wanted: POSTRIDER_WRITE_REFERENCE=1 cargo test -p e2e --test golden_records";
const ONE: &str = "one";
const OTHER: &str = "other";
const SCHED: &str = "/api/admin/inspect-sched-q/v1";
const RULES: &str = "[rules]\nPolicyRelated = ['relaying not permitted', 'Administrator']\nMessageExpired = ['^551 5.4.7 ']\n\
InvalidRecipient = ['^550 ']\nQuotaIssues = ['^451 ']\nBadConnection = ['^400 ']\nSpamRelated = ['^250']\n";
const MAIL: &str =
    "From: <s@source.test>\r\nSubject: golden \"mail\"\r\nX-One: 1\r\nX-Many: 1\r\nX-Many: 2\r\n\r\nHello.\r\n";
/// RFC 3464; its date is the record's.
const BOUNCE: &str = "From: <mailer-daemon@mx.elsewhere.test>\r\nSubject: undelivered\r\nMIME-Version: 1.0\r\n\
Content-Type: multipart/report; report-type=delivery-status; boundary=\"b\"\r\n\r\n\
--b\r\n\r\nSorry.\r\n\
--b\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; mx.elsewhere.test\r\n\r\n\
Final-Recipient: rfc822; lost@elsewhere.test\r\nAction: failed\r\nStatus: 5.1.1\r\n\
Diagnostic-Code: smtp; 550 5.1.1 no such user\r\nLast-Attempt-Date: Sat, 21 Nov 2026 10:00:00 +0000\r\n\r\n\
--b\r\nContent-Type: text/rfc822-headers\r\n\r\nSubject: golden\r\n\r\n--b--\r\n";
/// RFC 5965, with all fields that a record has a place for.
const COMPLAINT: &str = "From: <fbl@provider.test>\r\nSubject: complaint\r\nMIME-Version: 1.0\r\n\
Content-Type: multipart/report; report-type=feedback-report; boundary=\"b\"\r\n\r\n\
--b\r\n\r\nA complaint.\r\n\
--b\r\nContent-Type: message/feedback-report\r\n\r\nFeedback-Type: abuse\r\nUser-Agent: Test/1\r\nVersion: 1\r\n\
Original-Envelope-Id: e-1\r\nOriginal-Mail-From: <s@source.test>\r\nArrival-Date: Sat, 21 Nov 2026 10:00:00 +0000\r\n\
Reporting-MTA: dns; mx.provider.test\r\nSource-IP: 192.0.2.1\r\nIncidents: 3\r\nAuthentication-Results: mx.provider.test; spf=fail\r\n\
Original-Rcpt-To: <one@provider.test>\r\nReported-Domain: source.test\r\nReported-URI: http://source.test/\r\n\
Removal-Recipient: one@provider.test\r\n\r\n\
--b\r\nContent-Type: message/rfc822\r\n\r\nX-Trace: eyJfQF8iOiJcXF8vIiwicmVjaXBpZW50Ijoib25lQHByb3ZpZGVyLnRlc3QifQ==\r\nSubject: news\r\n\r\nNews.\r\n\r\n--b--\r\n";
