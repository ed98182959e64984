//! Reports to other domains: real messages are checked and real TLS sessions succeed and fail; what arrives is read by parsedmarc.

use e2e::certificate::{Authority, DkimKey};
use e2e::dump::Dump;
use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::names::{Names, submit};
use e2e::peers;
use e2e::process::run;
use e2e::scratch::Scratch;
use e2e::sts_server::StsServer;
use e2e::until::{LATER, SOON, until};
use e2e::web_server::WebServer;
use e2e::wire::Client;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Messages of a domain that asks for reports pass and fail; the program dies while they are counted. Each message is reported to each address that may hear of it.
#[test]
fn dmarc_reports_go_to_those_who_asked_and_say_what_was_seen() {
    let scratch = Scratch::new();
    let dump = Dump::start(&scratch);
    scratch.write(
        "zone",
        "$ORIGIN test.\n\
         _dmarc.own 60 TXT \"v=DMARC1; p=quarantine; sp=reject; adkim=s; rua=mailto:agg@own.test!1m,mailto:agg@yes.test,\
         mailto:agg@no.test,mailto:small@own.test!1; ruf=mailto:fail@own.test,mailto:fail@no.test; fo=1\"\n\
         own 60 TXT \"v=spf1 ip4:127.0.0.1 -all\"\n\
         _dmarc.quiet 60 TXT \"v=DMARC1; p=none\"\n\
         other 60 TXT \"v=spf1 -all\"\n\
         own.test._report._dmarc.yes 60 TXT \"v=DMARC1\"\n",
    );
    let launch = launch(&scratch, &scratch.join("zone"), &dump, "8s");
    let mut kumod = launch.start();
    for number in 0..3 {
        // SPF passes and is aligned.
        check(&kumod, "a@own.test", "own.test", number);
    }
    for number in 3..5 {
        // Nothing is: the policy of subdomains counts.
        check(&kumod, "b@other.test", "sub.own.test", number);
    }
    check(&kumod, "c@quiet.test", "quiet.test", 5);
    // Failure reports wait in memory only.
    kumod.await_metric("postrider_reports_total{kind=\"dmarc_failure\",outcome=\"sent\"}", 5.0, SOON);
    // On disk, and then it dies.
    until(SOON, "five messages in the journal, or reported", || {
        (journaled(&scratch) + messages(&about_own(&dump, "agg@own.test")) >= 5).then_some(())
    });
    kumod.process.signal(Signal::SIGKILL);
    kumod.process.finish(SOON);
    let kumod = launch.start();
    check(&kumod, "a@own.test", "own.test", 6);
    for to in ["agg@own.test", "agg@yes.test"] {
        let reports = until(LATER, &format!("all messages in reports to {to}"), || {
            let reports = about_own(&dump, to);
            (messages(&reports) >= 6).then_some(reports)
        });
        assert_eq!(messages(&reports), 6, "{reports:#?}");
        look_at(&reports);
        // Who was being told when the program died hears it again, and nobody else.
        let again = aggregates(&dump, to).len() - about_own(&dump, to).len();
        assert!(again <= DEATHS, "{again} reports to {to} came twice");
    }
    let failures = counts_of_failures(&dump);
    assert_eq!(failures.len(), 6, "each message that failed is reported once: {failures:#?}");
    assert!(failures.iter().all(|failure| failure["to"] == "fail@own.test"), "{failures:#?}");
    assert!(about_own(&dump, "agg@no.test").is_empty() && about_own(&dump, "small@own.test").is_empty());
    assert!(read(&dump.messages()).iter().all(|report| !report.to_string().contains("quiet.test")), "nobody asked");
    kumod.await_metric("postrider_reports_total{kind=\"dmarc\",outcome=\"unverified\"}", 1.0, SOON);
    kumod.await_metric("postrider_reports_total{kind=\"dmarc\",outcome=\"too_large\"}", 1.0, SOON);
    assert!(dump.senders().iter().all(|sender| sender == "<>"), "nobody hears of reports that cannot be delivered");
    until(SOON, "no journal of what was reported", || (journaled(&scratch) == 0).then_some(()));
    kumod.stop();
}

/// Whatever we report is received and checked like any mail, here by ourselves, and so is a report of somebody else. Every domain
/// asks to be told of everything; none of these reports is told of.
#[test]
fn reports_make_no_reports() {
    let scratch = Scratch::new();
    let dump = Dump::start(&scratch);
    let asks = |domain: &str| {
        format!(
            "_dmarc.{domain} 60 TXT \"v=DMARC1; p=none; rua=mailto:agg@{domain}.test; ruf=mailto:fail@{domain}.test; fo=1\"\n"
        )
    };
    let spf = "peer 60 TXT \"v=spf1 ip4:127.0.0.1 -all\"\nother 60 TXT \"v=spf1 -all\"\n";
    let zone = format!("$ORIGIN test.\n{}{}{}{spf}", asks("own"), asks("reporter"), asks("peer"));
    scratch.write("zone", &zone);
    let kumod = launch(&scratch, &scratch.join("zone"), &dump, "4s").start();
    check(&kumod, "b@other.test", "own.test", 0);
    let ours = until(LATER, "a report of both kinds", || {
        let files = dump.messages();
        let kinds: Vec<String> = read(&files).iter().map(|report| report["type"].to_string()).collect();
        let has = |kind: &str| kinds.iter().any(|found| found.contains(kind));
        (has("aggregate") && has("failure")).then_some(files)
    });
    for file in &ours {
        let report = std::fs::read_to_string(file).expect("a report");
        // As it was sent, and as a list or another hop would send it on.
        for sender in ["", "reports@reporter.test"] {
            receive(&kumod, sender, &report);
        }
    }
    let foreign = "From: dmarc@peer.test\r\nTo: agg@own.test\r\nSubject: Report Domain: own.test Submitter: peer.test Report-ID: <1>\r\n";
    receive(&kumod, "dmarc@peer.test", &format!("{foreign}\r\nreport\r\n"));
    // Two more, one after the other's report: whatever was to be said of those before has been said then.
    for number in 1..=2 {
        check(&kumod, "b@other.test", "own.test", number);
        until(LATER, "the next aggregate report", || {
            (messages(&about_own(&dump, "agg@own.test")) > u64::from(number)).then_some(())
        });
    }
    kumod.await_metric("postrider_reports_total{kind=\"dmarc_failure\",outcome=\"sent\"}", 3.0, SOON);
    kumod.stop();
    let reports = read(&dump.messages());
    let wrong: Vec<&Value> = reports
        .iter()
        .filter(|report| !["agg@own.test", "fail@own.test"].iter().any(|to| report["to"] == *to))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(reports.iter().filter(|report| report["type"] == "failure").count(), 3, "{reports:#?}");
}

/// One domain is in order, one has no TLS, two have a certificate for somebody else: where that is only tested, and where it counts.
#[test]
fn tls_reports_say_which_sessions_failed_and_how() {
    let stage = Names::new();
    let dump = Dump::start(&stage.scratch);
    let web = WebServer::start(Some(&stage.authority.issue(&stage.scratch, &["localhost"])));
    let sts = StsServer::start(&stage.authority.issue(&stage.scratch, &["mta-sts.tested.test", "mta-sts.strict.test"]));
    sts.serve("tested.test", &sts_policy("testing"));
    sts.serve("strict.test", &sts_policy("enforce"));
    let mut zone = "$ORIGIN test.\n".to_owned();
    for (number, domain) in DOMAINS.iter().enumerate() {
        zone += &format!("{domain} 60 MX 10 mx.{domain}\nmx.{domain} 60 A 127.0.0.{}\n", number + 2);
        let post = |path: &str| format!(",https://localhost:{}/{path}", web.http.port());
        let post = match *domain {
            "good" => post("hook"),
            "clear" => post("move"),
            _ => String::new(),
        };
        zone += &format!("_smtp._tls.{domain} 60 TXT \"v=TLSRPTv1; rua=mailto:tls@{domain}.test{post}\"\n");
        zone += &format!("mta-sts.{domain} 60 A 127.0.0.1\n");
    }
    zone += "_mta-sts.tested 60 TXT \"v=STSv1; id=1;\"\n_mta-sts.strict 60 TXT \"v=STSv1; id=1;\"\n";
    stage.write_zone(zone);
    let (key, _) = DkimKey::Rsa.make(&stage.scratch);
    let launch = launch(&stage.scratch, &stage.scratch.join("zone"), &dump, "6s")
        .env("REPORTS_PORT", stage.port.to_string())
        .env("REPORTS_STS_PORT", sts.address.port().to_string())
        .env("REPORTS_KEY", key)
        .env("REPORTS_PRIVATE", "1")
        .env("SSL_CERT_FILE", &stage.authority.own.certificate);
    let good = stage.host("127.0.0.2", "mx.good.test", &[]);
    let clear = stage.host("127.0.0.3", "mx.clear.test", &["--break", "offer"]);
    let tested = stage.host("127.0.0.4", "somebody.test", &[]);
    let _strict = stage.host("127.0.0.5", "somebody.test", &[]);
    let kumod = launch.start();
    DOMAINS.iter().for_each(|domain| submit(&kumod, &format!("{domain}.test")));
    for host in [&good, &clear, &tested] {
        host.await_events("mail", 1);
    }
    let about = |domain: &str| -> Value {
        until(LATER, &format!("a report about {domain}"), || {
            let to = format!("tls@{domain}.test");
            read(&dump.messages()).into_iter().find(|report| report["to"] == to.as_str())
        })
    };
    let report = about("good");
    assert_eq!((&report["signed"], &report["from"]), (&true.into(), &"reports@reporter.test".into()), "{report}");
    let subject = report["subject"].as_str().unwrap_or_default();
    assert!(subject.starts_with("Report Domain: good.test Submitter: mx.reporter.test Report-ID: <"), "{subject}");
    assert!(report["content_type"].as_str().is_some_and(|kind| kind.contains("report-type=\"tlsrpt\"")), "{report}");
    assert_eq!(report["report"]["organization_name"], "Reporter & Sons");
    assert_eq!(summary(&report), ("no-policy-found".to_owned(), 1, 0), "{report}");
    let report = about("clear");
    assert_eq!(summary(&report), ("no-policy-found".to_owned(), 0, 1), "{report}");
    let detail = &failure(&report);
    assert_eq!(detail["result_type"], "starttls-not-supported", "{report}");
    assert_eq!(
        [&detail["sending_mta_ip"], &detail["receiving_mx_hostname"], &detail["receiving_ip"]],
        ["127.0.0.1", "mx.clear.test", "127.0.0.3"],
        "{report}"
    );
    for (domain, mode) in [("tested", "mode: testing"), ("strict", "mode: enforce")] {
        let report = about(domain);
        let (kind, successes, failures) = summary(&report);
        assert_eq!((kind.as_str(), successes), ("sts", 0), "{report}");
        assert!(failures >= 1, "{report}");
        let policy = &report["report"]["policies"][0];
        assert!(policy["policy_strings"].to_string().contains(mode), "{policy}");
        assert_eq!(failure(&report)["result_type"], "certificate-host-mismatch", "{report}");
    }
    // Where it is sent on to it would be taken.
    kumod.await_metric("postrider_reports_total{kind=\"tls\",outcome=\"refused\"}", 1.0, LATER);
    let posted = until(SOON, "a report that was posted", || {
        let listed = fetch(&stage.authority, &web, "/hook");
        listed.as_array().filter(|listed| !listed.is_empty()).cloned()
    });
    assert_eq!(posted[0][0], "application/tlsrpt+gzip");
    let file = stage.scratch.join("posted.gz");
    let content = posted[0][1].as_str().expect("base64");
    std::fs::write(&file, base64::Engine::decode(&base64::engine::general_purpose::STANDARD, content).expect("base64"))
        .expect("written");
    let read_back = parsed(&[Path::new("--json").to_owned(), file]);
    assert_eq!(summary(&read_back[0]), ("no-policy-found".to_owned(), 1, 0), "{read_back:?}");
    kumod.stop();
}

/// How often the program dies.
const DEATHS: usize = 1;
/// What TLS reports are about, at 127.0.0.2 and on.
const DOMAINS: [&str; 4] = ["good", "clear", "tested", "strict"];

fn sts_policy(mode: &str) -> String {
    format!("version: STSv1\r\nmode: {mode}\r\nmx: *.tested.test\r\nmx: *.strict.test\r\nmax_age: 86400\r\n")
}

fn launch(scratch: &Scratch, zone: &Path, dump: &Dump, interval: &str) -> Launch {
    Launch::policy(policy_file("domain_reports.lua"))
        .env("REPORTS_DIR", scratch.join("server"))
        .env("REPORTS_ZONE", zone)
        .env("REPORTS_TO", dump.address.to_string())
        .env("REPORTS_INTERVAL", interval)
}

/// A message to be checked.
fn check(server: &Kumod, sender: &str, author: &str, number: u32) {
    let head = format!("From: x@{author}\r\nTo: someone@here.test\r\nSubject: {number}\r\n");
    receive(server, sender, &format!("{head}\r\nHello.\r\n"));
}

/// Any message, with CRLF line ends.
fn receive(server: &Kumod, sender: &str, message: &str) {
    let mut client = Client::connect(server.smtp());
    client.begin(sender, "someone@here.test");
    let reply = client.say(&format!("{}.", message.replace("\r\n.", "\r\n..")));
    assert_eq!(reply.code, 250, "{reply:?}");
}

/// The aggregate reports that came to an address.
fn aggregates(dump: &Dump, to: &str) -> Vec<Value> {
    let reports = read(&dump.messages()).into_iter();
    reports.filter(|report| report["type"] == "aggregate" && report["to"] == to).collect()
}

/// The same without those that came before: such a one has the same id, and says the same.
fn about_own(dump: &Dump, to: &str) -> Vec<Value> {
    let mut by_id: BTreeMap<String, Value> = BTreeMap::new();
    for report in aggregates(dump, to) {
        let id = report["report"]["report_metadata"]["report_id"].to_string();
        let first = by_id.entry(id).or_insert_with(|| report.clone());
        assert_eq!(first["report"], report["report"], "one id, two reports");
    }
    by_id.into_values().collect()
}

/// Messages about own.test that wait in journals to be reported.
fn journaled(scratch: &Scratch) -> u64 {
    let Ok(files) = std::fs::read_dir(scratch.join("server/reports")) else { return 0 };
    let paths = files.flatten().map(|file| file.path());
    let journals = paths.filter(|path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("dmarc-") && name.ends_with(".jsonl")
    });
    let text: String = journals.filter_map(|path| std::fs::read_to_string(path).ok()).collect();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["d"] == "own.test").filter_map(|line| line["n"].as_u64()).sum()
}

/// All messages in the reports about own.test.
fn messages(reports: &[Value]) -> u64 {
    let records = reports.iter().filter_map(|report| report["report"]["records"].as_array()).flatten();
    records.filter_map(|record| record["count"].as_u64()).sum()
}

/// The reports about own.test, all together, say what was seen of it.
fn look_at(reports: &[Value]) {
    let (mut passed, mut failed) = (0, 0);
    for report in reports {
        let meta = &report["report"]["report_metadata"];
        assert_eq!(
            (&meta["org_name"], &meta["org_email"]),
            (&"Reporter & Sons".into(), &"reports@reporter.test".into())
        );
        let published = &report["report"]["policy_published"];
        let said = ["domain", "adkim", "aspf", "p", "sp", "pct", "fo"]
            .map(|name| published[name].as_str().unwrap_or_default());
        assert_eq!(said, ["own.test", "s", "r", "quarantine", "reject", "100", "1"], "{published}");
        for record in report["report"]["records"].as_array().expect("records") {
            assert_eq!(record["source"]["ip_address"], "127.0.0.1", "{record}");
            let count = record["count"].as_u64().unwrap_or_default();
            let from = record["identifiers"]["header_from"].as_str().unwrap_or_default();
            let evaluated = &record["policy_evaluated"];
            let evaluated = ["disposition", "dkim", "spf"].map(|name| evaluated[name].as_str().unwrap_or_default());
            let spf = &record["auth_results"]["spf"][0];
            let spf = ["domain", "scope", "result"].map(|name| spf[name].as_str().unwrap_or_default());
            match from {
                "own.test" => {
                    passed += count;
                    assert_eq!((evaluated, spf), (["none", "fail", "pass"], ["own.test", "mfrom", "pass"]), "{record}");
                }
                "sub.own.test" => {
                    failed += count;
                    assert_eq!(
                        (evaluated, spf),
                        (["reject", "fail", "fail"], ["other.test", "mfrom", "fail"]),
                        "{record}"
                    );
                }
                other => panic!("{other}: {record}"),
            }
        }
    }
    assert_eq!((passed, failed), (4, 2));
}

/// Failure reports, which say nothing about recipients. With `fo=1` that no signature passed is a failure.
fn counts_of_failures(dump: &Dump) -> Vec<Value> {
    let failures = until(SOON, "failure reports", || {
        let reports = read(&dump.messages()).into_iter().filter(|report| report["type"] == "failure");
        let failures: Vec<Value> = reports.collect();
        (failures.len() >= 6).then_some(failures)
    });
    for failure in &failures {
        let report = &failure["report"];
        assert_eq!(
            (&report["feedback_type"], &report["reported_domain"]),
            (&"auth-failure".into(), &"own.test".into()),
            "{report}"
        );
        assert_eq!(
            (&report["source"]["ip_address"], &report["auth_failure"][0]),
            (&"127.0.0.1".into(), &"dmarc".into()),
            "{report}"
        );
        assert!(!report.to_string().contains("someone@here.test"), "{report}");
    }
    failures
}

/// Kind of policy, successes and failures of the one policy of a TLS report.
fn summary(report: &Value) -> (String, u64, u64) {
    let policies = report["report"]["policies"].as_array().expect("policies");
    assert_eq!(policies.len(), 1, "{report}");
    let count = |name: &str| policies[0][name].as_u64().unwrap_or_default();
    let kind = policies[0]["policy_type"].as_str().unwrap_or_default().to_owned();
    (kind, count("successful_session_count"), count("failed_session_count"))
}

fn failure(report: &Value) -> Value {
    report["report"]["policies"][0]["failure_details"][0].clone()
}

/// Every report that arrived.
fn read(files: &[PathBuf]) -> Vec<Value> {
    if files.is_empty() { Vec::new() } else { parsed(files) }
}

fn parsed(arguments: &[PathBuf]) -> Vec<Value> {
    let mut command = Command::new(peers::file("reports/venv/bin/python", "report_parsers.sh"));
    command.arg(peers::own("read_reports.py")).args(arguments);
    let output = run("read_reports.py", command, SOON).success().stdout;
    serde_json::from_str(output.lines().last().unwrap_or_default()).expect("JSON")
}

/// What the web server says over TLS.
fn fetch(authority: &Authority, web: &WebServer, path: &str) -> Value {
    let mut command = peers::script("https_get.py");
    command.arg(&authority.own.certificate).arg(format!("https://localhost:{}{path}", web.http.port()));
    serde_json::from_str(&run("https_get.py", command, SOON).success().stdout).expect("JSON")
}
