//! Tests of rules: both forms of their keys, what is wrong with them, bounds, and the form they are written in.

use super::*;
use serde_json::json;

fn read(value: Value) -> Result<Rule, String> {
    Rule::read(&Place::top("a.toml").key("default").key("automation").index(2), value).map_err(|e| e.to_string())
}

fn with(key: &str, value: Value) -> Value {
    let mut rule = json!({"regex": "a", "action": "Suspend", "duration": "1h"});
    rule[key] = value;
    rule
}

#[test]
fn a_rule_is_written_as_it_may_be_read() {
    let short = json!({"regex": "too\\s+many", "action": "Suspend", "duration": "90m"});
    let full = json!({
        "regex": ["too\\s+many"], "action": ["Suspend"], "trigger": "Immediate", "duration": "1h 30m",
        "match_internal": false,
    });
    assert_eq!(serde_json::to_value(read(short).unwrap()).unwrap(), full);
    let all = json!({
        "regex": ["a", "(?<!b)c"],
        "action": [
            "Suspend", "SuspendTenant", "SuspendCampaign", "Bounce", "BounceTenant", "BounceCampaign",
            {"SetConfig": {"name": "connection_limit", "value": 2}},
            {"SetDomainConfig": {"name": "max_message_rate", "value": "1/s"}},
        ],
        "trigger": {"Threshold": "3/h"}, "duration": "1day", "match_internal": true,
    });
    let rule = read(all.clone()).unwrap();
    assert_eq!(serde_json::to_value(&rule).unwrap(), all);
    assert_eq!(rule.regex().collect::<Vec<_>>(), ["a", "(?<!b)c"]);
    assert_eq!((rule.action().len(), rule.duration().as_secs(), rule.match_internal()), (8, 86_400, true));
    assert!(matches!(rule.trigger(), Trigger::Threshold(spec) if spec.limit == 3 && spec.period_s == 3600));
    let single = read(with("action", json!({"SetConfig": {"name": "max_ready", "value": 1}}))).unwrap();
    let option = SetOption { name: "max_ready".to_owned(), value: json!(1) };
    assert_eq!(single.action(), [Action::SetConfig(option)]);
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let set = |name: &str, value: Value| json!({"SetConfig": {"name": name, "value": value}});
    for (rule, want) in [
        (json!("a"), ": invalid type: string \"a\", expected a table"),
        (json!({"action": "Suspend", "duration": 1}), ": missing field `regex`"),
        (json!({"regex": "a", "duration": 1}), ": missing field `action`"),
        (json!({"regex": "a", "action": "Suspend"}), ": missing field `duration`"),
        (
            with("regexp", json!("a")),
            ".regexp: unknown field `regexp` (did you mean `regex`?), expected one of `regex`, ",
        ),
        (with("regex", json!(1)), ".regex: invalid type: integer `1`, expected a string"),
        (with("regex", json!(["a", 1])), ".regex[1]: invalid type: integer `1`, expected a string"),
        (with("regex", json!([])), ".regex: invalid value \"\": expected at least one"),
        (with("regex", json!("a(b")), ".regex: \"a(b\" is no regular expression: Parsing error at position "),
        (with("regex", json!(["a", "[z-a]"])), ".regex[1]: \"[z-a]\" is no regular expression: "),
        (
            with("action", json!("suspend")),
            ".action: unknown variant `suspend` (did you mean `Suspend`?), expected one",
        ),
        (
            with("action", json!(["Bounce", "Pause"])),
            ".action[1]: unknown variant `Pause`, expected one of `Suspend`, ",
        ),
        (with("action", json!([])), ".action: invalid value \"\": expected at least one"),
        (with("action", json!(true)), ".action: invalid value true: expected one of Suspend, "),
        (
            with("action", json!({"SetConfig": {"name": "max_ready", "value": 1}, "Bounce": 1})),
            ".action: invalid value {\"SetConfig\":",
        ),
        (with("action", json!({"SetConfig": {"name": "max_ready"}})), ".action.SetConfig: missing field `value`"),
        (
            with("action", json!({"SetConfig": {"name": "max_ready", "value": 1, "for": 2}})),
            ".action.SetConfig.for: unknown field `for`, expected one of `name`, `value`",
        ),
        (
            with("action", set("conection_limit", json!(1))),
            ".action.SetConfig.name: unknown key \"conection_limit\" (did you mean `connection_limit`?), expected an \
             option of kumo.make_egress_path",
        ),
        (
            with("action", json!(["Bounce", set("connection_limit", json!("many"))])),
            ".action[1].SetConfig.value: invalid limit \"many\": expected an integer >= 1",
        ),
        (
            with("action", json!({"SetDomainConfig": {"name": "additional_connection_limits", "value": {"x": 0}}})),
            ".action.SetDomainConfig.value.x: invalid limit \"0\": expected an integer >= 1",
        ),
        (with("trigger", json!("Sometimes")), ".trigger: unknown variant `Sometimes`, expected one of `Immediate`, "),
        (with("trigger", json!({"Threshold": "3"})), ".trigger.Threshold: invalid throttle \"3\": expected"),
        (with("duration", json!("soon")), ".duration: invalid duration \"soon\": expected a number of seconds"),
        (with("duration", json!(-1)), ".duration: invalid duration \"-1\": expected a number of seconds"),
        (with("match_internal", json!("no")), ".match_internal: invalid type: string \"no\", expected a boolean"),
    ] {
        let error = read(rule.clone()).unwrap_err();
        let want = format!("a.toml: default.automation[2]{want}");
        assert!(error.starts_with(&want), "{rule}\n got {error}\nwant {want}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn expressions_match_anywhere_and_look_around() {
    let rule = read(with("regex", json!(["(?<!not )blocked$", "^4\\d\\d .*(?i:BUSY)"]))).unwrap();
    for (text, want) in [
        ("550 5.7.1 you are blocked", true),
        ("550 5.7.1 you are not blocked", false),
        ("451 line busy", true),
        ("551 line busy", false),
        ("", false),
    ] {
        let mut failures = Vec::new();
        assert_eq!((rule.matches(text, &mut failures), failures), (want, vec![]), "{text}");
    }
}

#[test]
fn an_expression_that_goes_on_and_on_is_given_up_and_told() {
    let rule = read(with("regex", json!(["(?:(a|aa)+)(?=\\1z)", "^451"]))).unwrap();
    let mut failures = Vec::new();
    assert!(rule.matches(&format!("451 {}", "a".repeat(60)), &mut failures), "the next one is tried");
    assert_eq!(failures.len(), 1);
    let told = failures[0].to_string();
    assert!(
        told.starts_with("automation rule \"(?:(a|aa)+)(?=\\\\1z)\" was given up on a response of 64 octets: "),
        "{told}"
    );
    assert!(!rule.matches(&format!("551 {}", "a".repeat(60)), &mut failures));
    assert_eq!(failures.len(), 2);
}

#[test]
fn the_beginning_of_a_response_is_looked_at() {
    let rule = read(with("regex", json!("z$"))).unwrap();
    let text = |octets: usize| "x".repeat(octets - 1) + "z";
    assert!(rule.matches(&text(MATCHED_OCTETS_MAX), &mut Vec::new()));
    assert!(!rule.matches(&text(MATCHED_OCTETS_MAX + 1), &mut Vec::new()));
    let split = "x".repeat(MATCHED_OCTETS_MAX - 1) + "\u{fc}";
    assert!(!rule.matches(&split, &mut Vec::new()), "cut inside a character");
}

#[test]
fn expressions_have_a_longest_length_and_a_largest_size() {
    let pattern = |octets: usize| json!(["a", "x".repeat(octets)]);
    assert!(read(with("regex", pattern(PATTERN_OCTETS_MAX))).is_ok());
    let error = read(with("regex", pattern(PATTERN_OCTETS_MAX + 1))).unwrap_err();
    assert_eq!(error, "a.toml: default.automation[2].regex[1]: an expression of 4097 octets: expected at most 4096");
    let error = read(with("regex", json!("(?:\\w{1000}){1000}"))).unwrap_err();
    assert!(error.starts_with("a.toml: default.automation[2].regex: \"(?:"), "{error}");
}
