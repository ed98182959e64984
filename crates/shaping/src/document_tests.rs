//! Tests of documents: both formats, every key of every kind of block, and what is wrong with each, by file and place.

use super::*;
use crate::rule::PATTERNS_MAX;
use serde_json::json;

fn json(value: Value) -> Result<Document, String> {
    Document::parse("dir.d/a.json", &value.to_string()).map_err(|e| e.to_string())
}

const TOML: &str = r#"
["default"]
connection_limit = 10
max_connection_rate = "100/min"

[[default.automation]]
regex = "too many"
action = [ {SetConfig={name="connection_limit", value=2}}, "Suspend" ]
trigger = {Threshold="3/hr"}
duration = "90m"

["Example.COM."]
mx_rollup = false
replace_base = true
prohibited_hosts = []
sources."ip-1".max_ready = 7

[provider."big one"]
match = [{MXSuffix=".Big.example."}, {DomainSuffix=".big.test"}, {HostName="mx.big.test"}]
provider_connection_limit = "local:10"
provider_max_message_rate = "5/s"
provider_source_selection_rate = "1/h"
replace_base = true
enable_tls = "Required"
[provider."big one".sources."ip-1"]
max_ready = 8
[[provider."big one".automation]]
regex = ["a", "b"]
action = "Bounce"
duration = 60
"#;

#[test]
fn both_formats_say_the_same() {
    let same = json!({
        "default": {
            "connection_limit": 10, "max_connection_rate": "100/min", "max_ready": null,
            "automation": [{
                "regex": "too many", "trigger": {"Threshold": "3/hr"}, "duration": "90m",
                "action": [{"SetConfig": {"name": "connection_limit", "value": 2}}, "Suspend"],
            }],
        },
        "Example.COM.": {
            "mx_rollup": false, "replace_base": true, "prohibited_hosts": [], "sources": {"ip-1": {"max_ready": 7}},
        },
        "provider": {"big one": {
            "match": [{"MXSuffix": ".Big.example."}, {"DomainSuffix": ".big.test"}, {"HostName": "mx.big.test"}],
            "provider_connection_limit": "local:10", "provider_max_message_rate": "5/s",
            "provider_source_selection_rate": "1/h", "replace_base": true, "enable_tls": "Required",
            "sources": {"ip-1": {"max_ready": 8}},
            "automation": [{"regex": ["a", "b"], "action": "Bounce", "duration": 60}],
        }},
    });
    let toml = Document::parse("a.toml", TOML).unwrap();
    assert_eq!(Document { name: toml.name.clone(), ..json(same).unwrap() }, toml);
    assert_eq!((toml.name(), toml.blocks(), toml.patterns()), ("a.toml", 5, 3));
    let (name, domain) = &toml.domains[0];
    assert_eq!((name.as_str(), domain.replace_base, domain.mx_rollup), ("example.com", true, Some(false)));
    assert!(toml.providers[0].1.replace_base);
    let default = toml.default.unwrap();
    assert_eq!((default.replace_base, default.mx_rollup, default.block.options.len()), (false, None, 2));
    assert!(Document::parse("http://tsa/shaping.toml", "# empty\n").is_ok());
}

#[test]
fn the_name_tells_the_format() {
    for (name, text, want) in [
        ("a.toml", "[default]\n\nmax_ready = ", "a.toml: line 3: "),
        ("a.toml", "[default]\nmax_ready = 1\nmax_ready = 2\n", "a.toml: line 3: duplicate key"),
        ("a.toml", "{}", "a.toml: line 1: "),
        (
            "a.json",
            "{\"default\": {\n}",
            "a.json: line 2: EOF while parsing an object at line 2 column 1; expected JSON",
        ),
        ("a.yaml", "default:", "a.yaml: line 1: expected value at line 1 column 1; expected JSON"),
        ("a.json", "[1]", "a.json: the document: invalid type: a list, expected a table"),
        ("a.toml", "[default]\nsmtp_auth_plain_password.key_data = hunter2", "a.toml: line 2: "),
    ] {
        let error = Document::parse(name, text).unwrap_err().to_string();
        assert!(error.starts_with(want), "{error}");
        assert!(!error.contains('\n') && !error.contains("key_data"), "{error}");
    }
}

#[test]
fn toml_has_no_nothing() {
    for (text, want) in [
        ("[default]\nmax_ready = nan", "default.max_ready: invalid value \"nan or inf\": expected a finite number"),
        ("['a.b']\nsources.s.skip_hosts = [1, -inf]", "\"a.b\".sources.s.skip_hosts[1]: invalid value \"nan or inf\""),
        (
            "[default]\nmax_ready = 2026-01-01",
            "default.max_ready: invalid type: a table with named keys, expected usize",
        ),
    ] {
        let error = Document::parse("a.toml", text).unwrap_err().to_string();
        assert!(error.starts_with(&format!("a.toml: {want}")), "{error}");
    }
}

#[test]
fn a_word_near_a_key_of_the_format_is_no_domain() {
    let expected = "expected `default`, `provider`, the name of a domain or `site:NAME`";
    for (key, want) in [
        ("providers", format!("unknown key \"providers\" (did you mean `provider`?), {expected}")),
        ("Default", format!("unknown key \"Default\" (did you mean `default`?), {expected}")),
        ("", format!("unknown key \"\", {expected}")),
        (".", format!("unknown key \".\", {expected}")),
    ] {
        assert_eq!(json(json!({key: {}})).unwrap_err(), format!("dir.d/a.json: the document: {want}"));
    }
    for domain in ["localhost", "default.test", "example.com", "hook.log_hook", "[10.0.0.1]"] {
        assert!(json(json!({domain: {}})).is_ok(), "{domain}");
    }
}

/// Each wrong thing in each kind of block where it can stand.
#[test]
fn what_is_wrong_is_named_in_every_kind_of_block() {
    let path_option = "an option of kumo.make_egress_path";
    let domain_keys = format!("`mx_rollup`, `replace_base`, `sources`, `automation`, {path_option}");
    let provider_keys = format!(
        "`match`, `provider_connection_limit`, `provider_max_message_rate`, `provider_source_selection_rate`, \
         `sources`, `replace_base`, `automation`, {path_option}"
    );
    let default = |block: Value| json!({"default": block});
    let domain = |block: Value| json!({"a.test": block});
    let provider = |block: Value| json!({"provider": {"P": block}});
    type Kind<'a> = (&'a str, &'a str, &'a dyn Fn(Value) -> Value);
    let kinds: [Kind<'_>; 6] = [
        ("default", &domain_keys, &default),
        ("\"a.test\"", &domain_keys, &domain),
        ("provider.\"P\"", &provider_keys, &provider),
        ("default.sources.\"s\"", path_option, &|block| default(json!({"sources": {"s": block}}))),
        ("\"a.test\".sources.\"s\"", path_option, &|block| domain(json!({"sources": {"s": block}}))),
        ("provider.\"P\".sources.\"s\"", path_option, &|block| provider(json!({"sources": {"s": block}}))),
    ];
    for (place, keys, wrap) in kinds {
        let is_source = place.contains("sources");
        let mut cases = vec![
            (json!(1), String::new(), "invalid type: integer `1`, expected a table".to_owned()),
            (json!([1]), String::new(), "invalid type: a list, expected a table".to_owned()),
            (
                json!({"conection_limit": 1}),
                String::new(),
                format!("unknown key \"conection_limit\" (did you mean `connection_limit`?), expected {keys}"),
            ),
            (json!({"colour": 1}), String::new(), format!("unknown key \"colour\", expected {keys}")),
            (json!({"max_ready": 0}), ".max_ready".to_owned(), "invalid value 0: expected an integer >= 1".to_owned()),
            (
                json!({"max_ready": "x"}),
                ".max_ready".to_owned(),
                "invalid type: string \"x\", expected usize".to_owned(),
            ),
            (
                json!({"enable_tls": "Maybe"}),
                ".enable_tls".to_owned(),
                "unknown variant `Maybe`, expected one of `".to_owned(),
            ),
            (
                json!({"additional_connection_limits": {"x": 0}}),
                ".additional_connection_limits.x".to_owned(),
                "invalid limit \"0\": expected an integer >= 1".to_owned(),
            ),
        ];
        if is_source {
            for own in ["automation", "sources", "mx_rollup", "replace_base", "provider_connection_limit"] {
                cases.push((json!({own: 1}), String::new(), format!("unknown key \"{own}\"")));
            }
        } else {
            for (own, near) in [("replace_bas", "replace_base"), ("source", "sources"), ("Automation", "automation")] {
                let want = format!("unknown key \"{own}\" (did you mean `{near}`?), expected {keys}");
                cases.push((json!({own: 1}), String::new(), want));
            }
            for (own, expected) in [("replace_base", "a boolean"), ("sources", "a table"), ("automation", "a list")] {
                let want = format!("invalid type: string \"x\", expected {expected}");
                cases.push((json!({own: "x"}), format!(".{own}"), want));
            }
            let want = "unknown field `x`, expected one of `regex`".to_owned();
            cases.push((json!({"automation": [{"x": 1}]}), ".automation[0].x".to_owned(), want));
        }
        for (block, below, want) in cases {
            let error = json(wrap(block.clone())).expect_err(&format!("{place}: {block}"));
            let want = format!("dir.d/a.json: {place}{below}: {want}");
            assert!(error.starts_with(&want), "{block}\n got {error}\nwant {want}");
        }
    }
}

#[test]
fn keys_of_one_kind_are_judged_there_and_unknown_elsewhere() {
    for (document, want) in [
        (json!({"a.test": {"mx_rollup": 1}}), "\"a.test\".mx_rollup: invalid type: integer `1`, expected a boolean"),
        (json!({"default": {"mx_rollup": "x"}}), "default.mx_rollup: invalid type: string \"x\", expected a boolean"),
        (json!({"a.test": {"match": []}}), "\"a.test\": unknown key \"match\", expected `mx_rollup`"),
        (json!({"provider": 1}), "provider: invalid type: integer `1`, expected a table"),
        (json!({"provider": {"P": {"mx_rollup": true}}}), "provider.\"P\": unknown key \"mx_rollup\""),
        (
            json!({"provider": {"P": {"match": [{"HostName": "a"}, {"MxSuffix": "b"}]}}}),
            "provider.\"P\".match[1]: unknown variant `MxSuffix` (did you mean `MXSuffix`?), expected one of `MXSuffix`, \
             `DomainSuffix`, `HostName`",
        ),
        (json!({"provider": {"P": {"match": "a"}}}), "provider.\"P\".match: invalid type: string \"a\", expected a "),
        (json!({"provider": {"P": {"match": ["a"]}}}), "provider.\"P\".match[0]: unknown variant `a`, expected one of"),
        (
            json!({"provider": {"P": {"match": [{"HostName": 1}]}}}),
            "provider.\"P\".match[0].HostName: invalid type: integer `1`, expected a string",
        ),
        (
            json!({"provider": {"P": {"match": [{"MXSuffix": "."}]}}}),
            "provider.\"P\".match[0]: invalid value \"\": expected a name of a host or domain, or its end",
        ),
        (
            json!({"provider": {"P": {"provider_connection_limit": "10/s"}}}),
            "provider.\"P\".provider_connection_limit: invalid limit \"10/s\": expected an integer >= 1",
        ),
        (
            json!({"provider": {"P": {"provider_max_message_rate": 10}}}),
            "provider.\"P\".provider_max_message_rate: invalid type: integer `10`, expected a throttle",
        ),
        (
            json!({"provider": {"P": {"provider_source_selection_rate": "10"}}}),
            "provider.\"P\".provider_source_selection_rate: invalid throttle \"10\": expected",
        ),
        (
            json!({"provider": {"P": {"provider_conection_limit": 1}}}),
            "provider.\"P\": unknown key \"provider_conection_limit\" (did you mean `provider_connection_limit`?)",
        ),
        (
            json!({"provider": {"google": {"automation": [
                {"regex": "a", "action": "Bounce", "duration": 1}, {"regex": "a", "action": "Bounce", "duration": 1},
                {"regex": "(", "action": "Bounce", "duration": 1},
            ]}}}),
            "provider.\"google\".automation[2].regex: \"(\" is no regular expression: ",
        ),
    ] {
        let error = json(document.clone()).unwrap_err();
        assert!(error.starts_with(&format!("dir.d/a.json: {want}")), "{document}\n got {error}\nwant {want}");
    }
}

#[test]
fn blocks_and_expressions_fit_at_the_bound_and_not_beyond() {
    let with_sources = |count: usize| {
        let sources: Map<String, Value> = (1..count).map(|n| (n.to_string(), json!({}))).collect();
        json(json!({"a.test": {"sources": sources}}))
    };
    assert!(with_sources(BLOCKS_MAX).is_ok());
    let error = with_sources(BLOCKS_MAX + 1).unwrap_err();
    assert_eq!(error, "dir.d/a.json: 65537 blocks: expected at most 65536 in all documents together");
    let with_rules = |count: usize| {
        let rule = json!({"regex": vec!["a"; count], "action": "Bounce", "duration": 1});
        json(json!({"a.test": {"automation": [rule]}}))
    };
    assert!(with_rules(PATTERNS_MAX).is_ok());
    let error = with_rules(PATTERNS_MAX + 1).unwrap_err();
    assert_eq!(error, "dir.d/a.json: 4097 regular expressions: expected at most 4096 in all documents together");
}

#[test]
fn a_block_may_name_a_site() {
    let file = |text: &str| Document::parse("a.toml", text);
    assert_eq!(file("['site:(a|b).X.test.']\nmax_ready = 1").unwrap().domains[0].0, "site:(a|b).x.test");
    let refused = file("['site:x.test']\nmx_rollup = false").unwrap_err().to_string();
    assert!(refused.contains("invalid value \"false\": expected true, as it is about a site"), "{refused}");
    let refused = file("['site:.']").unwrap_err().to_string();
    assert!(refused.contains("`site:NAME`"), "{refused}");
}
