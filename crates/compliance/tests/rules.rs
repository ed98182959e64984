//! Every rule: a sound message keeps all of them, and what breaks one is found as that one.

#[path = "../../sender-check/tests/common/mod.rs"]
mod common;

use common::{Table, now};
use compliance::{Demands, Provider, Report, Rule, SOURCES_MAX, Subject, check};
use mime::HeaderBlock;
use proptest::prelude::*;

/// 2023-11-14.
const NOW: u64 = 1_700_000_000;
const SIGNATURE: &str = "DKIM-Signature: v=1; a=ed25519-sha256; c=relaxed/relaxed; d=mail.ex.example; s=s;\r\n \
    h=From:To:Subject:Date:Message-ID:List-Unsubscribe:List-Unsubscribe-Post; bh=AAAA; b=AAAA\r\n";
const HEADER: &str = "From: A <a@ex.example>\r\nTo: b@there.example\r\nSubject: x\r\n\
    Date: Tue, 14 Nov 2023 22:13:20 +0000\r\nMessage-ID: <1@ex.example>\r\n\
    List-Unsubscribe: <mailto:u@ex.example>,\r\n <https://ex.example/u?1>\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n";
const SENDER: &str = "bounce@ex.example";
const KEY: &str = "v=DKIM1; k=ed25519; p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";

fn table() -> Table {
    Table::new()
        .with_txt("s._domainkey.mail.ex.example", KEY)
        .with_txt("_dmarc.ex.example", "v=DMARC1; p=none")
        .with_txt("ex.example", "v=spf1 ip4:192.0.2.0/31 -all")
        .with_txt("other.example", "v=spf1 ip4:192.0.2.0/31 -all")
        .with_txt("s._domainkey.other.example", KEY)
        .with_ptr("1.2.0.192.in-addr.arpa", "mx.ex.example.")
        .with_ip("mx.ex.example", "192.0.2.1")
        .with_ptr("9.2.0.192.in-addr.arpa", "mx.ex.example.")
}

fn demands() -> Demands {
    Demands { sources: vec!["192.0.2.1".parse().expect("an address")], ..Demands::default() }
}

fn held(table: &Table, raw: &[u8], sender: &str, demands: &Demands) -> Report {
    let block = HeaderBlock::parse(raw);
    let subject = Subject { headers: block.view(raw), body: &raw[block.body_start()..], sender, now_unix_secs: NOW };
    now(check(table, &subject, demands))
}

fn sound() -> String {
    format!("{SIGNATURE}{HEADER}\r\nline\r\n")
}

/// The names of what is found, `?` behind those that are advice.
fn names(report: &Report) -> Vec<String> {
    let name = |finding: &compliance::Finding| {
        format!("{}{}", finding.rule.name(), if finding.is_demanded { "" } else { "?" })
    };
    report.findings.iter().map(name).collect()
}

fn found(raw: &str) -> Vec<String> {
    names(&held(&table(), raw.as_bytes(), SENDER, &demands()))
}

#[test]
fn a_sound_message_keeps_all_rules() {
    let report = held(&table(), sound().as_bytes(), SENDER, &demands());
    assert_eq!(report, Report::default());
    assert_eq!(report.worst(), None);
}

#[test]
fn what_breaks_a_rule_is_found_as_that_rule() {
    for (from, to, expected) in [
        ("From: A <a@ex.example>", "From: a@ex.example, b@ex.example", "from_single"),
        ("From: A <a@ex.example>", "From: g: a@ex.example;", "from_single"),
        ("Subject: x", "Subject: x\r\nSubject: y", "field_repeated"),
        ("Subject: x", "Subject: x\r\nto: c@there.example", "field_repeated"),
        ("<1@ex.example>", "1@ex.example", "message_id"),
        ("Message-ID: <1@ex.example>\r\n", "", "message_id"),
        ("Message-ID: <1", "Message-ID: <2@ex.example>\r\nMessage-ID: <1", "message_id"),
        ("Date: Tue, 14 Nov 2023 22:13:20 +0000\r\n", "", "date"),
        ("22:13:20 +0000", "later", "date"),
        ("14 Nov 2023", "16 Nov 2023", "date"),
        ("14 Nov 2023", "01 Nov 2023", "date"),
        ("https:", "http:", "unsubscribe"),
        ("https://ex", "https:///ex", "unsubscribe"),
        ("=One-Click", "=Two-Click", "unsubscribe_post"),
        ("List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n", "", "unsubscribe_post"),
        (":List-Unsubscribe-Post;", ";", "unsubscribe_signed"),
        ("d=mail.ex.example; s=s", "d=mail.ex.example; s=none", "dkim"),
        ("v=1; a=ed25519", "v=2; a=ed25519", "dkim unsubscribe_signed"),
        ("bh=AAAA", "t=1; x=2; bh=AAAA", "dkim unsubscribe_signed"),
        ("d=mail.ex.example", "d=other.example", "dkim_alignment?"),
    ] {
        let raw = sound();
        assert!(raw.contains(from), "{from}");
        assert_eq!(found(&raw.replace(from, to)).join(" "), expected, "{from} -> {to}");
    }
    let long = sound().replace("line", &"x".repeat(999));
    assert_eq!(found(&long), ["line_length"]);
    assert!(found(&sound().replace("line", &"x".repeat(998))).is_empty());
    assert_eq!(found(&sound().replace("Subject: x", &format!("Subject: {}", "x".repeat(990)))), ["line_length"]);
    let unsigned = sound().replace(SIGNATURE, "");
    assert_eq!(found(&unsigned), ["dkim", "unsubscribe_signed"]);
}

#[test]
fn dates_at_the_bounds() {
    for (date, is_found) in [
        ("Wed, 15 Nov 2023 22:13:20 +0000", false),
        ("Wed, 15 Nov 2023 22:13:21 +0000", true),
        ("Tue, 07 Nov 2023 22:13:20 +0000", false),
        ("Tue, 07 Nov 2023 22:13:19 +0000", true),
        ("14 Nov 2023 22:13 GMT (now)", false),
    ] {
        let raw = sound().replace("Tue, 14 Nov 2023 22:13:20 +0000", date);
        assert_eq!(!found(&raw).is_empty(), is_found, "{date}");
    }
}

#[test]
fn sizes_at_the_bound() {
    let raw = sound();
    let octets = raw.len() - 2;
    for (bytes_max, is_found) in [(octets, false), (octets - 1, true)] {
        let report = held(&table(), raw.as_bytes(), SENDER, &Demands { bytes_max, ..demands() });
        assert_eq!(names(&report).contains(&"size".to_owned()), is_found, "{bytes_max}");
    }
}

#[test]
fn senders_are_asked_about() {
    let raw = sound();
    let of = |table: &Table, sender: &str, sources: &[&str]| {
        let sources = sources.iter().map(|ip| ip.parse().expect("an address")).collect();
        names(&held(table, raw.as_bytes(), sender, &Demands { sources, ..Demands::default() })).join(" ")
    };
    let table = table();
    assert_eq!(of(&table, "a@none.example", &["192.0.2.1"]), "spf spf_alignment?");
    assert_eq!(of(&table, "a@other.example", &["192.0.2.1"]), "spf_alignment?");
    assert_eq!(of(&table, SENDER, &["192.0.2.1", "192.0.2.9"]), "spf_source ptr");
    assert_eq!(of(&table, SENDER, &["192.0.2.0"]), "ptr");
    // Where mail will leave from is not known: then there has to be a record, whatever it says of anybody.
    assert_eq!(of(&table, SENDER, &[]), "");
    assert_eq!(of(&table, "a@none.example", &[]), "spf spf_alignment?");
    assert_eq!(of(&table, "", &[]), "");
    let many: Vec<String> = (0..=SOURCES_MAX).map(|number| format!("192.0.2.{}", number % 2)).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let ptr = |sources: &[&str]| of(&table, SENDER, sources).matches("ptr").count();
    assert_eq!((ptr(&many[..SOURCES_MAX]), ptr(&many)), (SOURCES_MAX / 2, SOURCES_MAX / 2));
}

#[test]
fn one_of_the_two_has_to_be_aligned() {
    let raw = sound().replace("d=mail.ex.example", "d=other.example");
    let of = |sender: &str| names(&held(&table(), raw.as_bytes(), sender, &demands()));
    assert_eq!(of(SENDER), ["dkim_alignment?"]);
    assert_eq!(of("a@other.example"), ["dkim_alignment", "spf_alignment"]);
    assert_eq!(of(""), ["dkim_alignment"]);
    let strict = Table::new()
        .with_txt("_dmarc.ex.example", "v=DMARC1; p=none; adkim=s; aspf=s")
        .with_txt("s._domainkey.mail.ex.example", KEY)
        .with_txt("mail.ex.example", "v=spf1 +all");
    let report = held(&strict, sound().as_bytes(), "a@mail.ex.example", &Demands::default());
    assert_eq!(names(&report), ["dkim_alignment", "spf_alignment"]);
    let worst = report.worst().expect("refused");
    assert_eq!((worst.rule, worst.rule.code()), (Rule::DkimAlignment, "5.7.26"));
    assert!(worst.what.contains("d= is mail.ex.example, From is of ex.example"), "{}", worst.what);
}

#[test]
fn domains_without_a_policy_are_found() {
    let table = Table::new().with_txt("s._domainkey.mail.ex.example", KEY).with_txt("ex.example", "v=spf1 +all");
    let report = held(&table, sound().as_bytes(), SENDER, &Demands::default());
    assert_eq!(names(&report), ["dmarc"]);
    assert_eq!(report.findings[0].rule.providers(), [Provider::Gmail, Provider::Yahoo, Provider::Microsoft]);
}

#[test]
fn who_sends_to_one_need_not_offer_unsubscribing() {
    let plain = sound()
        .replace("List-Unsubscribe: <mailto:u@ex.example>,\r\n <https://ex.example/u?1>\r\n", "")
        .replace("List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n", "");
    let of = |raw: &str, is_bulk| {
        names(&held(&table(), raw.as_bytes(), SENDER, &Demands { is_bulk, ..demands() })).join(" ")
    };
    assert_eq!(of(&plain, None), "");
    assert_eq!(of(&plain, Some(true)), "unsubscribe unsubscribe_post");
    for more in ["List-Id: <l.ex.example>", "Precedence: Bulk", "precedence: list"] {
        let raw = format!("{more}\r\n{plain}");
        assert_eq!(of(&raw, None), "unsubscribe unsubscribe_post", "{more}");
        assert_eq!(of(&raw, Some(false)), "", "{more}");
    }
    assert_eq!(of(&format!("Precedence: normal\r\n{plain}"), None), "");
}

#[test]
fn silence_of_dns_is_no_finding() {
    for (name, rule) in [
        ("s._domainkey.mail.ex.example", Rule::Dkim),
        ("_dmarc.ex.example", Rule::Dmarc),
        ("ex.example", Rule::Spf),
        ("1.2.0.192.in-addr.arpa", Rule::Ptr),
    ] {
        let all = Table::new()
            .with_silence("s._domainkey.mail.ex.example")
            .with_silence("_dmarc.ex.example")
            .with_silence("ex.example")
            .with_silence("1.2.0.192.in-addr.arpa");
        let report = held(&all, sound().as_bytes(), SENDER, &demands());
        assert_eq!(report.findings, [], "{name}");
        assert!(report.undecided.iter().any(|undecided| undecided.rule == rule), "{name}");
        let ignored = held(&all, sound().as_bytes(), SENDER, &Demands { ignored: vec![rule], ..demands() });
        assert!(ignored.undecided.iter().all(|undecided| undecided.rule != rule), "{name}");
    }
}

#[test]
fn rules_can_be_left_out() {
    let raw = sound().replace("Subject: x", "Subject: x\r\nSubject: y").replace("<1@ex.example>", "1");
    let ignored = vec![Rule::MessageId];
    let report = held(&table(), raw.as_bytes(), SENDER, &Demands { ignored, ..demands() });
    assert_eq!(names(&report), ["field_repeated"]);
}

proptest! {
    /// Any octets are held against the rules, and what is said of them fits on the line of a reply.
    #[test]
    fn any_octets_can_be_held_against_the_rules(
        start in proptest::sample::select(vec!["", SIGNATURE, HEADER, "From: ", "Message-ID: <", "DKIM-Signature: v=1; d="]),
        octets in proptest::collection::vec(any::<u8>(), 0..200),
        sender in "[ -~]{0,20}",
    ) {
        let raw = [start.as_bytes(), &octets].concat();
        let report = held(&table(), &raw, &sender, &demands());
        for finding in &report.findings {
            prop_assert!(finding.what.len() < 700 && !finding.what.contains(char::is_control), "{finding:?}");
        }
    }
}
