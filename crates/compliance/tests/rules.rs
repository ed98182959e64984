//! Every rule: a sound message keeps all of them, and what breaks one is found as that one.

#[path = "../../sender-check/tests/common/mod.rs"]
mod common;

use common::{Record, Table, now};
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
    table_without("")
}

/// All but the records of one name.
fn table_without(left_out: &str) -> Table {
    let mut table = Table::new();
    let txt = |text: &str| Record::Txt(text.as_bytes().to_vec());
    let ptr = || Record::Ptr("mx.ex.example.".to_owned());
    for (name, record) in [
        ("s._domainkey.mail.ex.example", txt(KEY)),
        ("_dmarc.ex.example", txt("v=DMARC1; p=none")),
        ("ex.example", txt("v=spf1 ip4:192.0.2.0/31 -all")),
        ("other.example", txt("v=spf1 ip4:192.0.2.0/31 -all")),
        ("s._domainkey.other.example", txt(KEY)),
        ("1.2.0.192.in-addr.arpa", ptr()),
        ("mx.ex.example", Record::Ip("192.0.2.1".parse().expect("an address"))),
        ("9.2.0.192.in-addr.arpa", ptr()),
    ] {
        if name != left_out {
            table.add(name, record);
        }
    }
    table
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
        ("Subject: x", "Subject: x\r\nList-Unsubscribe: <https://x.example/u>", "field_repeated"),
        ("Subject: x", "Subject: x\r\nlist-unsubscribe-post: List-Unsubscribe=One-Click", "field_repeated"),
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
        ("d=mail.ex.example; s=s", "d=mail.ex.example; s=none", "dkim unsubscribe_signed"),
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
        ("Tue, 14 Nov 2023 22:13:20 UTC", false),
        ("Tue, 14 Nov 2023 22:13:20 CEST (summer)", false),
        ("Tue, 14 Nov 2023 22:13:20 Z (now)", false),
        ("Tue, 07 Nov 2023 22:13:19 UTC", true),
        ("Tue, 14 Nov 2023 22:13:20 abcdef", true),
        ("Tue, 14 Nov 2023 UTC", true),
        ("UTC", true),
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
fn signatures_without_a_key_prove_nothing() {
    // The customer forgot his key; that of who sends for him is there.
    let forgotten = SIGNATURE.replace("s=s;", "s=new;");
    let others = SIGNATURE.replace("d=mail.ex.example", "d=other.example");
    let of = |table: &Table, signatures: &str, sender: &str| {
        held(table, sound().replace(SIGNATURE, signatures).as_bytes(), sender, &demands())
    };
    for signatures in [format!("{forgotten}{others}"), format!("{others}{forgotten}")] {
        let report = of(&table(), &signatures, "a@other.example");
        assert_eq!(names(&report), ["dkim_alignment", "spf_alignment"]);
        let what = &report.findings[0].what;
        assert!(what.starts_with("d= is other.example, From is of ex.example; of no use is new of mail.ex"), "{what}");
        // It is there, or may be.
        let found = of(&table().with_txt("new._domainkey.mail.ex.example", KEY), &signatures, "a@other.example");
        assert_eq!(names(&found), ["spf_alignment?"]);
        let found = of(&table().with_silence("new._domainkey.mail.ex.example"), &signatures, "a@other.example");
        assert_eq!((names(&found), found.undecided.len()), (vec!["spf_alignment?".to_owned()], 0));
    }
    // Unsubscribing is signed by one whose key is there.
    let plain = SIGNATURE.replace(":List-Unsubscribe-Post;", ";");
    assert_eq!(names(&of(&table(), &format!("{forgotten}{plain}"), SENDER)), ["unsubscribe_signed"]);
}

#[test]
fn sound_spf_is_not_refused_for_an_address_that_nobody_has() {
    let record =
        "v=spf1 ip4:198.51.100.1 exists:%{i}._a.ex.example exists:%{i}._b.ex.example exists:%{i}._c.ex.example -all";
    let table = Table::new()
        .with_txt("s._domainkey.mail.ex.example", KEY)
        .with_txt("_dmarc.ex.example", "v=DMARC1; p=none")
        .with_txt("ex.example", record);
    let of = |sources: &[&str]| {
        let sources = sources.iter().map(|ip| ip.parse().expect("an address")).collect();
        let demands = Demands { sources, ignored: vec![Rule::Ptr], ..Demands::default() };
        names(&held(&table, sound().as_bytes(), SENDER, &demands)).join(" ")
    };
    assert_eq!([of(&["198.51.100.1"]), of(&[]), of(&["198.51.100.2"])], ["", "spf?", "spf"]);
}

#[test]
fn a_rule_is_broken_once() {
    let sources = ["192.0.2.9", "192.0.2.10", "192.0.2.11"].map(|ip| ip.parse().expect("an address")).to_vec();
    let report = held(&table(), sound().as_bytes(), SENDER, &Demands { sources, ..Demands::default() });
    assert_eq!(names(&report).len(), 6);
    assert_eq!(report.broken(), [Rule::SpfSource, Rule::Ptr]);
    assert_eq!(Report::default().broken(), []);
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
        let silent = table_without(name).with_silence(name);
        let report = held(&silent, sound().as_bytes(), SENDER, &demands());
        assert_eq!(report.findings, [], "{name}");
        let undecided: Vec<Rule> = report.undecided.iter().map(|undecided| undecided.rule).collect();
        assert_eq!(undecided, [rule]);
        let ignored = held(&silent, sound().as_bytes(), SENDER, &Demands { ignored: vec![rule], ..demands() });
        assert_eq!(ignored, Report::default(), "{name}");
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
