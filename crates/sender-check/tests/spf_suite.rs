//! The test suite of RFC 7208, as pyspf's source package has it: every scenario of it, through a table in place of DNS.

mod common;

use common::{Record, Table, now, peer};
use sender_check::spf::{SpfCheck, SpfQuery, check_host};
use serde::Deserialize;
use serde_yaml_ng::{Deserializer, Mapping, Value};

#[test]
fn every_case_of_the_suite() {
    let Some(path) = peer("sender-check/rfc7208-tests.yml", "sender_check.sh") else { return };
    let text = std::fs::read_to_string(&path).expect("the suite");
    let (mut checked, mut wrong) = (0, Vec::new());
    for document in Deserializer::from_str(&text) {
        let Ok(Value::Mapping(scenario)) = Value::deserialize(document) else { continue };
        let table = table(scenario["zonedata"].as_mapping().expect("zonedata"));
        for (name, case) in scenario["tests"].as_mapping().expect("tests") {
            checked += 1;
            let found = check(&table, case);
            if let Err(why) = judge(&found, case) {
                wrong.push(format!("{}: {why}; {:?}", text_of(name), found.result.reason));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {checked} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(checked, CASES, "cases of the suite");
}

fn check(table: &Table, case: &Value) -> SpfCheck {
    let [helo, host, sender] = ["helo", "host", "mailfrom"].map(|key| text_of(&case[key]));
    let domain = match sender.rsplit_once('@') {
        Some((_, domain)) => domain,
        None if sender.is_empty() => &helo,
        None => &sender,
    };
    let query = SpfQuery {
        ip: host.parse().expect("an address"),
        domain,
        sender: Some(&sender),
        helo: &helo,
        receiver: "receiver.example",
        now_unix_secs: 1_700_000_000,
    };
    now(check_host(table, &query))
}

/// The result is one of those the suite allows, the explanation the one it expects.
fn judge(found: &SpfCheck, case: &Value) -> Result<(), String> {
    let allowed: Vec<String> = match &case["result"] {
        Value::Sequence(several) => several.iter().map(text_of).collect(),
        one => vec![text_of(one)],
    };
    if !allowed.iter().any(|result| result == found.disposition.word()) {
        return Err(format!("{}, expected {allowed:?}", found.disposition.word()));
    }
    let expected = match &case["explanation"] {
        Value::Null => return Ok(()),
        // The suite's word for none.
        text => Some(text_of(text)).filter(|text| text != "DEFAULT"),
    };
    let same = found.explanation == expected;
    if same { Ok(()) } else { Err(format!("explanation {:?}, expected {expected:?}", found.explanation)) }
}

/// The conventions of the suite: `SPF` stands for `TXT` unless there is one, `TXT: NONE` is none, `TIMEOUT` no answer for what
/// is not there, lists are the strings of one record.
fn table(zones: &Mapping) -> Table {
    let mut table = Table::new();
    for (name, records) in zones {
        let name = text_of(name);
        table.add_name(&name);
        let records: Vec<&Value> = records.as_sequence().expect("records").iter().collect();
        let pairs = || records.iter().filter_map(|r| r.as_mapping()).flatten().map(|(kind, v)| (text_of(kind), v));
        let has_txt = pairs().any(|(kind, _)| kind == "TXT");
        if records.iter().any(|record| record.as_str() == Some("TIMEOUT")) {
            table.add_silence(&name);
        }
        for (kind, value) in pairs() {
            match (kind.as_str(), value) {
                (_, Value::String(text)) if text == "TIMEOUT" => table.add_silence(&name),
                ("TXT", Value::String(text)) if text == "NONE" => {}
                ("TXT", text) => table.add(&name, Record::Txt(joined(text))),
                ("SPF", text) if !has_txt => table.add(&name, Record::Txt(joined(text))),
                ("SPF", _) => {}
                ("A" | "AAAA", ip) => table.add(&name, Record::Ip(text_of(ip).parse().expect("an address"))),
                ("MX", Value::Sequence(mx)) => {
                    let preference = mx[0].as_u64().and_then(|n| u16::try_from(n).ok()).expect("a preference");
                    table.add(&name, Record::Mx(preference, text_of(&mx[1])));
                }
                ("PTR", host) => table.add(&name, Record::Ptr(text_of(host))),
                ("CNAME", host) => table.add(&name, Record::Alias(text_of(host))),
                (kind, value) => panic!("{name}: {kind} {value:?}"),
            }
        }
    }
    table
}

/// Octets: in the suite, `\x80` is one.
fn joined(text: &Value) -> Vec<u8> {
    let whole: String = match text {
        Value::Sequence(strings) => strings.iter().map(text_of).collect(),
        one => text_of(one),
    };
    whole.chars().map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?')).collect()
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Null => String::new(),
        other => panic!("no text: {other:?}"),
    }
}

/// So many there are in release 2014.04.
const CASES: usize = 203;
