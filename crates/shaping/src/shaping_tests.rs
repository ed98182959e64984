//! Tests of answers: who wins at each step, which rules match in which order, sources, and the content's name.

use super::*;
use crate::{Assembly, Document, LoadOptions, Resolved};
use record::EnhancedCode;

fn shaping(document: &Value) -> Shaping {
    let document = Document::parse("a.json", &document.to_string()).expect("sound");
    let resolve = |domain: &str| match domain {
        "big.test" | "alias.test" => Resolved::Site(SITE.to_owned()),
        other => Resolved::Site(format!("mx.{other}.")),
    };
    Assembly::new(vec![document], LoadOptions::default()).expect("within bounds").build(&resolve)
}

const SITE: &str = "(a|b).big.example";

/// From the weakest to the strongest, where each step writes its options.
const STEPS: [(&str, &str); 11] = [
    ("default", "/default"),
    ("default, source", "/default/sources/s"),
    ("first provider", "/provider/P"),
    ("second provider", "/provider/Q"),
    ("first provider, source", "/provider/P/sources/s"),
    ("second provider, source", "/provider/Q/sources/s"),
    ("site, earlier domain", "/big.test"),
    ("site, later domain", "/alias.test"),
    ("domain", "/x.test"),
    ("site, source", "/big.test/sources/s"),
    ("domain, source", "/x.test/sources/s"),
];

fn empty() -> Value {
    json!({
        "default": {"sources": {"s": {}}},
        "provider": {
            "P": {"match": [{"MXSuffix": ".big.example"}], "sources": {"s": {}}},
            "Q": {"match": [{"DomainSuffix": "x.test"}], "sources": {"s": {}}},
            "Other": {"match": [{"MXSuffix": "a.big.example"}], "max_ready": 99, "sources": {"s": {"max_ready": 99}}},
        },
        "big.test": {"sources": {"s": {}}},
        "alias.test": {},
        "x.test": {"mx_rollup": false, "sources": {"s": {}}},
        "other.test": {"max_ready": 99},
        "alone.test": {"max_ready": 99, "mx_rollup": false},
    })
}

fn set(document: &mut Value, step: usize, key: &str, value: Value) {
    document.pointer_mut(STEPS[step].1).expect("a block")[key] = value;
}

#[test]
fn each_step_wins_over_the_one_before() {
    for (top, (name, _)) in STEPS.iter().enumerate() {
        let mut document = empty();
        for step in 0..=top {
            set(&mut document, step, "max_ready", json!(step + 1));
        }
        let options = shaping(&document).path_config("x.test", "s", SITE);
        assert_eq!(options["max_ready"], top + 1, "{name}");
    }
}

#[test]
fn each_step_is_there_without_the_others() {
    for (step, (name, _)) in STEPS.iter().enumerate() {
        let mut document = empty();
        set(&mut document, step, "smtp_port", json!(26));
        let shaping = shaping(&document);
        assert_eq!(shaping.path_config("x.test", "s", SITE)["smtp_port"], 26, "{name}");
        let other_source = shaping.path_config("x.test", "t", SITE);
        assert_eq!(other_source.contains_key("smtp_port"), !name.contains("source"), "{name}");
        let elsewhere = shaping.path_config("y.test.example", "s", "mx.elsewhere.");
        assert_eq!(elsewhere.contains_key("smtp_port"), name.starts_with("default"), "{name}");
    }
}

#[test]
fn the_three_maps_gather_names_from_every_step() {
    for map in
        ["additional_connection_limits", "additional_message_rate_throttles", "additional_source_selection_rates"]
    {
        let mut document = empty();
        for (step, (name, _)) in STEPS.iter().enumerate() {
            set(&mut document, step, map, json!({*name: "1/s", "same": format!("{}/s", step + 1)}));
            if map == "additional_connection_limits" {
                set(&mut document, step, map, json!({*name: 1, "same": step + 1}));
            }
        }
        let options = shaping(&document).path_config("x.test", "s", SITE);
        let names: Vec<&str> = options[map].as_object().expect("a map").keys().map(String::as_str).collect();
        for (name, _) in STEPS {
            assert!(names.contains(&name), "{map}: {name}");
        }
        assert_eq!(names.len(), STEPS.len() + 1);
        let same = options[map]["same"].to_string();
        assert_eq!(same.trim_matches('"').trim_end_matches("/s"), STEPS.len().to_string(), "{map}");
    }
}

#[test]
fn providers_name_the_path_and_share_limits_by_source() {
    let mut document = empty();
    for (step, limit) in [(2, 5), (3, 6)] {
        set(&mut document, step, "provider_connection_limit", json!(limit));
    }
    set(&mut document, 3, "provider_max_message_rate", json!("7/s"));
    let from_both = shaping(&document).path_config("x.test", "s", SITE);
    let want = json!({
        "provider_name": "Q",
        "additional_connection_limits": {"shaping-provider-P-s-limit": 5, "shaping-provider-Q-s-limit": 6},
        "additional_message_rate_throttles": {"shaping-provider-Q-s-rate": "7/s"},
    });
    assert_eq!(Value::Object(from_both), want);
    let one = shaping(&document).path_config("elsewhere.test", "ip 2", "A.Big.Example.");
    assert_eq!(one["provider_name"], "Other", "the last that matches");
    assert_eq!(one["additional_connection_limits"], json!({"shaping-provider-P-ip 2-limit": 5}));
    set(&mut document, 3, "provider_name", json!("q"));
    assert_eq!(shaping(&document).path_config("x.test", "s", SITE)["provider_name"], "q", "what is written wins");
    set(&mut document, 8, "provider_name", json!("x"));
    assert_eq!(shaping(&document).path_config("x.test", "s", SITE)["provider_name"], "x");
}

#[test]
fn names_are_compared_in_lower_case_without_final_dots() {
    let document = json!({
        "X.Test.": {"mx_rollup": false, "max_ready": 1}, "a.test": {"smtp_port": 26},
        "provider": {"P": {"match": [{"DomainSuffix": "Y.Test."}, {"HostName": "Mx.P.test."}], "use_lmtp": true}},
    });
    let shaping = shaping(&document);
    for domain in ["x.test", "X.TEST", "x.test."] {
        assert_eq!(shaping.path_config(domain, "s", "").get("max_ready"), Some(&json!(1)), "{domain}");
    }
    for site in ["mx.a.test.", "mx.a.test", "MX.A.test."] {
        assert_eq!(shaping.path_config("x", "s", site).get("smtp_port"), Some(&json!(26)), "{site}");
    }
    for (domain, site) in [("sub.y.TEST.", ""), ("a", "mx.P.TEST."), ("a", "mx.p.test:2025")] {
        assert_eq!(shaping.path_config(domain, "s", site).get("use_lmtp"), Some(&json!(true)), "{domain} {site}");
    }
    assert!(shaping.path_config("x.testing", "s", "x.test").is_empty());
}

#[test]
fn rules_come_in_the_order_of_their_blocks_and_only_those_that_match() {
    let mut document = empty();
    for (step, duration) in [(0, 1), (2, 2), (3, 3), (6, 4), (7, 5), (8, 6)] {
        let rule = |regex: &str| json!({"regex": ["never", regex], "action": "Bounce", "duration": duration});
        set(&mut document, step, "automation", json!([rule("^550 5\\.7\\.1 go away$"), rule("come in")]));
    }
    for other in ["other.test", "alone.test"] {
        document[other]["automation"] = json!([{"regex": "", "action": "Bounce", "duration": 9}]);
    }
    let shaping = shaping(&document);
    let response = Response::new(550, Some(EnhancedCode::new(5, 7, 1)), "go\r\naway");
    let seconds = |domain: &str, site: &str| {
        let found = shaping.match_rules(&LogRecordView { domain, site, response: &response });
        assert_eq!(found.failures, []);
        found.rules.iter().map(|matched| matched.rule.duration().as_secs()).collect::<Vec<_>>()
    };
    assert_eq!(seconds("x.test", SITE), [1, 2, 3, 4, 5, 6]);
    assert_eq!(seconds("X.test.", ""), [1, 3, 6]);
    assert_eq!(seconds("big.test", SITE), [1, 2, 4, 5]);
    assert_eq!(seconds("elsewhere.example", "mx.elsewhere.example."), [1]);
    assert_eq!(seconds("", ""), [1]);
}

#[test]
fn responses_of_our_own_are_for_rules_that_ask_for_them() {
    let rule = |match_internal: bool| {
        let duration = u8::from(match_internal);
        json!({"regex": "null MX", "action": "Bounce", "duration": duration, "match_internal": match_internal})
    };
    let shaping = shaping(&json!({"default": {"automation": [rule(false), rule(true)]}}));
    for (content, want) in [
        ("KumoMTA internal: null MX", &[1][..]),
        ("null MX", &[0, 1]),
        ("see KumoMTA internal: null MX", &[0, 1]),
        ("KumoMTA internal: other", &[]),
    ] {
        let response = Response::new(556, Some(EnhancedCode::new(5, 1, 10)), content);
        let found = shaping.match_rules(&LogRecordView { domain: "a.test", site: "", response: &response });
        let seconds: Vec<u64> = found.rules.iter().map(|matched| matched.rule.duration().as_secs()).collect();
        assert_eq!(seconds, want, "{content}");
    }
}

#[test]
fn an_expression_that_is_given_up_is_told() {
    let rule = json!({"regex": "(?:(a|aa)+)(?=\\1z)", "action": "Bounce", "duration": 1});
    let shaping = shaping(&json!({"default": {"automation": [rule]}}));
    let response = Response::new(451, None, "a".repeat(60));
    let found = shaping.match_rules(&LogRecordView { domain: "a.test", site: "", response: &response });
    assert_eq!((found.rules.len(), found.failures.len()), (0, 1));
}

#[test]
fn sources_are_told_with_the_blocks_that_name_them() {
    let found = shaping(&json!({
        "default": {"sources": {"d": {}}},
        "provider": {"P": {"match": [{"HostName": "a"}], "sources": {"p": {}}}},
        "big.test": {"sources": {"s": {}, "t": {}}},
        "alias.test": {"sources": {"s": {}}},
        "a.test": {"sources": {"s": {}}},
        "X.test": {"mx_rollup": false, "sources": {"s": {}}},
    }))
    .referenced_sources();
    let want = json!({
        "s": ["domain:x.test", "site:(a|b).big.example", "site:mx.a.test."],
        "t": ["site:(a|b).big.example"],
    });
    assert_eq!(serde_json::to_value(found).expect("a map of lists"), want);
}

#[test]
fn the_contents_name_changes_with_every_part_and_with_nothing_else() {
    let mut document = empty();
    document["default"]["automation"] = json!([{"regex": "a", "action": "Bounce", "duration": 1}]);
    document["provider"]["P"]["provider_connection_limit"] = json!(1);
    let name = |document: &Value| shaping(document).hash().to_owned();
    let base = name(&document);
    assert_eq!(base.len(), 32);
    assert_eq!(base, name(&document));
    let mut seen = vec![base.clone()];
    for (pointer, value) in [
        ("/default/max_ready", json!(1)),
        ("/default/sources/s/max_ready", json!(1)),
        ("/default/automation/0/regex", json!("b")),
        ("/default/automation/0/action", json!("Suspend")),
        ("/default/automation/0/duration", json!(2)),
        ("/default/automation/0/trigger", json!({"Threshold": "1/s"})),
        ("/default/automation/0/match_internal", json!(true)),
        ("/provider/P/max_ready", json!(1)),
        ("/provider/P/provider_connection_limit", json!(2)),
        ("/provider/P/match", json!([{"HostName": ".big.example"}])),
        ("/provider/New", json!({})),
        ("/big.test/max_ready", json!(1)),
        ("/x.test/max_ready", json!(1)),
        ("/x.test/mx_rollup", json!(true)),
    ] {
        let mut changed = document.clone();
        let (table, key) = pointer.rsplit_once('/').expect("a path");
        changed.pointer_mut(table).expect("a table")[key] = value;
        let hash = name(&changed);
        assert!(!seen.contains(&hash), "{pointer}");
        seen.push(hash);
    }
    let text = r#"{"a.test": {"smtp_port": 26, "max_ready": 1}, "b.test": {}}"#;
    let turned = r#"{"b.test": {}, "a.test": {"max_ready": 1, "smtp_port": 26}}"#;
    let of = |text: &str| name(&serde_json::from_str(text).expect("JSON"));
    assert_eq!(of(text), of(turned), "the order of keys says nothing");
    let parsed = Document::parse("a.json", text).expect("sound");
    let assembly = Assembly::new(vec![parsed], LoadOptions::default()).expect("within bounds");
    let failing = assembly.build(&|_: &str| Resolved::Failed("timed out".to_owned()));
    assert_ne!(failing.hash(), of(text), "a site that is not known makes a difference");
}
