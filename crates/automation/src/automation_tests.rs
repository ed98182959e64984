//! Tests of what rules come to: which effects, when they are told and until when they hold, the shaping file of options, and the bounds.

use super::*;
use crate::{Sites, matching, overlay};
use record::{RecordType, Response};
use serde_json::{Value, json};
use shaping::{Assembly, Document, LoadOptions, LogRecordView, Resolved, Shaping};

fn shaping(text: &str) -> Shaping {
    let documents = vec![Document::parse("rules.toml", text).expect("a sound file")];
    let assembly = Assembly::new(documents, LoadOptions::default()).expect("sound files");
    assembly.build(&|domain| Resolved::Site(domain.to_owned()))
}

/// What rules make of records, the shaping file being one of rules for `d.test`.
struct Play {
    shaping: Shaping,
    automation: Automation,
}

impl Play {
    fn new(rules: &str) -> Play {
        Play { shaping: shaping(rules), automation: Automation::default() }
    }

    fn hear(&mut self, seconds: i64, queue: &str, source: &str, text: &str) -> Observed {
        self.hear_all(seconds, queue, source, "mx.d.test", text)
    }

    fn hear_of_site(&mut self, seconds: i64, queue: &str, site: &str, text: &str) -> Observed {
        self.hear_all(seconds, queue, "s", site, text)
    }

    fn hear_all(&mut self, seconds: i64, queue: &str, source: &str, site: &str, text: &str) -> Observed {
        let at = at(seconds);
        let mut record = LogRecord::new(RecordType::TransientFailure, at, at, Response::new(451, None, text));
        (record.queue, record.site) = (queue.into(), format!("{source}->{site}@smtp_client").into());
        record.egress_source = Some(source.into());
        let found = matching(&self.shaping, &record);
        self.automation.observe(&record, &found.rules, at)
    }

    fn in_force(&self, seconds: i64) -> Vec<Value> {
        self.automation.effects(at(seconds)).map(|effect| serde_json::to_value(effect).expect("JSON")).collect()
    }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix_seconds(1_000_000 + seconds)
}

#[test]
fn actions_become_effects_about_what_the_record_names() {
    let mut play = Play::new(
        "[['default'.automation]]\nregex = 'busy'\nduration = '1h'\naction = ['Suspend', 'SuspendTenant', 'SuspendCampaign', 'Bounce', \
         'BounceTenant', 'BounceCampaign']",
    );
    let told = play.hear(0, "c:t@d.test!relay.test", "ip-1", "4.7.1 busy").told;
    let hash = play.shaping_rule_hash();
    let common = json!({"rule_hash": hash, "reason": "automation rule: busy", "expires": "1970-01-12T14:46:40Z"});
    let with = |more: Value| {
        let mut all = common.clone();
        let more = more.as_object().expect("an object").clone();
        all.as_object_mut().expect("an object").extend(more);
        all
    };
    let expected = [
        json!({"ReadyQSuspension": with(json!({"site_name": "ip-1->mx.d.test@smtp_client", "source": "ip-1"}))}),
        json!({"SchedQSuspension": with(json!({"tenant": "t", "domain": "d.test"}))}),
        json!({"SchedQSuspension": with(json!({"tenant": "t", "domain": "d.test", "campaign": "c"}))}),
        json!({"SchedQBounce": with(json!({"domain": "d.test"}))}),
        json!({"SchedQBounce": with(json!({"domain": "d.test", "tenant": "t"}))}),
        json!({"SchedQBounce": with(json!({"domain": "d.test", "tenant": "t", "campaign": "c"}))}),
    ];
    let told: Vec<Value> = told.iter().map(|effect| serde_json::to_value(effect).expect("JSON")).collect();
    assert_eq!(told, expected);
    let said: Vec<String> = play.automation.effects(at(0)).map(ToString::to_string).collect();
    assert_eq!(
        said[0],
        "ready queue ip-1->mx.d.test@smtp_client is suspended until 1970-01-12T14:46:40Z: automation rule: busy"
    );
    assert!(
        said[1].starts_with("mail of tenant t to d.test is suspended") || said[1].starts_with("mail of campaign c"),
        "{said:?}"
    );
    assert_eq!(play.in_force(3599).len(), 6);
    assert_eq!(play.in_force(3600), Vec::<Value>::new());

    // What a queue does not name cannot be acted on.
    let undone = play.hear(0, "d.test", "ip-1", "busy").undone;
    assert_eq!(undone.len(), 4, "{undone:?}");
    assert!(undone[0].contains("has no tenant"), "{undone:?}");
    assert!(play.hear(0, "d.test", "ip-1", "welcome").told.is_empty());
}

impl Play {
    fn shaping_rule_hash(&self) -> String {
        let response = Response::new(451, None, "busy");
        let view = LogRecordView { domain: "d.test", site: "", response: &response };
        self.shaping.match_rules(&view).rules[0].rule.hash().to_owned()
    }
}

#[test]
fn a_threshold_counts_for_each_ready_queue_within_the_duration() {
    let rule = "[['default'.automation]]\nregex = 'slow'\nduration = '64s'\naction = 'Suspend'\ntrigger = { Threshold = '3/hr' }";
    let mut play = Play::new(rule);
    let hear = |play: &mut Play, seconds, source| play.hear(seconds, "d.test", source, "slow").told.len();
    assert_eq!([hear(&mut play, 0, "a"), hear(&mut play, 1, "a"), hear(&mut play, 2, "b")], [0, 0, 0]);
    assert_eq!(hear(&mut play, 63, "a"), 1, "the third within 64 s");
    assert_eq!(hear(&mut play, 70, "b"), 0, "its first is too long ago");
    play.automation.expire(at(100));
    assert_eq!(play.automation.counts.len(), 2);
    play.automation.expire(at(1000));
    assert!(play.automation.counts.is_empty() && play.automation.effects.is_empty());
}

#[test]
fn a_rule_that_stands_in_two_blocks_counts_each_response_once() {
    let rule = "regex = 'busy'\nduration = '1h'\naction = 'Suspend'\ntrigger = { Threshold = '3/hr' }\n";
    let mut play = Play::new(&format!("[['default'.automation]]\n{rule}[['d.test'.automation]]\n{rule}"));
    let told: Vec<usize> = (0..4).map(|second| play.hear(second, "d.test", "ip-1", "busy").told.len()).collect();
    assert!(told[..2].iter().all(|count| *count == 0) && told[2] > 0, "{told:?}");
}

#[test]
fn what_goes_on_is_told_again_now_and_then_and_never_ends_early() {
    let mut play = Play::new("[['default'.automation]]\nregex = 'no'\nduration = '100s'\naction = 'Suspend'");
    let told: Vec<usize> = (0..=40).map(|second| play.hear(second, "d.test", "a", "no").told.len()).collect();
    let again: Vec<usize> = (0..=40).filter(|second| told[*second] > 0).collect();
    assert_eq!(again, [0, 10, 20, 30, 40]);
    assert!(play.hear(5, "d.test", "a", "no").told.is_empty(), "one that comes late");
    assert_eq!(play.in_force(139).len(), 1);
    assert!(play.in_force(140).is_empty());
    // A record from before the duration has nothing to say.
    let mut old = Play::new("[['default'.automation]]\nregex = 'no'\nduration = '100s'\naction = 'Suspend'");
    let (then, now) = (at(0), at(100));
    let record = LogRecord::new(RecordType::Bounce, then, then, Response::new(550, None, "no"));
    let found = matching(&old.shaping, &record);
    assert_eq!(found.rules.len(), 1);
    assert!(old.automation.observe(&record, &found.rules, now).told.is_empty() && old.in_force(0).is_empty());
}

#[test]
fn options_are_a_shaping_file_and_the_latest_counts() {
    let mut play = Play::new(
        "[['default'.automation]]\nregex = 'much'\nduration = '100s'\naction = [{ SetConfig = { name = 'max_message_rate', value = '1/s' } }, \
         { SetConfig = { name = 'connection_limit', value = 3 } }]\n\
         [['default'.automation]]\nregex = 'far too'\nduration = '10s'\naction = { SetConfig = { name = 'max_message_rate', value = '1/min' } }\n\
         [['only.test'.automation]]\nregex = 'x'\nduration = '1s'\naction = 'Suspend'\n",
    );
    let observed = play.hear(0, "d.test", "ip-1", "too much");
    assert!(observed.told.is_empty() && observed.has_changed);
    assert!(!play.hear(0, "d.test", "ip-1", "too much").has_changed);
    assert!(play.hear(1, "d.test", "ip-1", "too much").has_changed, "it lasts longer, which is to be kept");
    assert!(play.hear(2, "d.test", "ip-1", "far too little").has_changed);
    let text = |play: &Play, seconds| overlay(play.automation.effects(at(seconds)), Sites::OfDomains);
    let read = |text: &str| -> Value { toml::from_str(text).expect("TOML") };
    let file = text(&play, 3);
    assert!(file.starts_with("# Generated by tsa-daemon\n# Number of entries: 3\n"), "{file}");
    let sources = |rate| json!({"ip-1": {"max_message_rate": rate, "connection_limit": 3}});
    assert_eq!(read(&file), json!({"d.test": {"mx_rollup": true, "sources": sources("1/min")}}));
    assert_eq!(read(&text(&play, 50)), json!({"d.test": {"mx_rollup": true, "sources": sources("1/s")}}));
    assert_eq!(text(&play, 200), "# Generated by tsa-daemon\n# Number of entries: 0\n");
    // What comes out goes in again.
    let shaped = shaping(&file).path_config("d.test", "ip-1", "d.test");
    assert_eq!((&shaped["max_message_rate"], &shaped["connection_limit"]), (&json!("1/min"), &json!(3)));
}

#[test]
fn rules_of_a_domain_alone_are_about_it_alone() {
    let mut play = Play::new(
        "['d.test']\nmx_rollup = false\n[['d.test'.automation]]\nregex = 'a'\nduration = '1h'\naction = { SetConfig = { name = 'connection_limit', value = 1 } }\n\
         [['default'.automation]]\nregex = 'b'\nduration = '1h'\naction = { SetDomainConfig = { name = 'max_ready', value = 9 } }",
    );
    play.hear(0, "d.test", "s", "a");
    let read = |play: &Play| -> Value {
        toml::from_str(&overlay(play.automation.effects(at(1)), Sites::OfDomains)).expect("TOML")
    };
    assert_eq!(read(&play), json!({"d.test": {"mx_rollup": false, "sources": {"s": {"connection_limit": 1}}}}));
    play.hear(0, "other.test", "s", "b");
    assert_eq!(read(&play)["other.test"]["mx_rollup"], false);
}

#[test]
fn rules_are_those_of_where_mail_went() {
    let mut play = Play::new(
        "['relay.test']\nmx_rollup = false\n[['relay.test'.automation]]\nregex = 'no'\nduration = '1h'\naction = 'Bounce'",
    );
    let told = |play: &mut Play, queue: &str| play.hear(0, queue, "a", "no").told.len();
    assert_eq!(told(&mut play, "d.test"), 0);
    assert_eq!((told(&mut play, "t@d.test!Relay.test"), told(&mut play, "relay.test")), (1, 1));
    let mut record = LogRecord::new(RecordType::OOB, at(0), at(0), Response::new(550, None, "no"));
    record.recipient.0.push("somebody@relay.test".to_owned());
    assert_eq!(matching(&play.shaping, &record).rules.len(), 1, "a record without a queue");
}

#[test]
fn effects_outlive_a_restart_until_they_expire() {
    let mut play =
        Play::new("[['default'.automation]]\nregex = 'no'\nduration = '100s'\naction = ['Suspend', 'Bounce']");
    play.hear(0, "d.test", "a", "no");
    let kept = serde_json::to_string(&play.automation.effects(at(0)).collect::<Vec<_>>()).expect("JSON");
    let mut next = Automation::default();
    next.restore(serde_json::from_str(&kept).expect("effects"), at(50));
    assert!(next.effects(at(50)).eq(play.automation.effects(at(50))));
    let mut late = Automation::default();
    late.restore(serde_json::from_str(&kept).expect("effects"), at(100));
    assert_eq!(late.effects(at(0)).count(), 0);
}

#[test]
fn of_rules_that_match_at_once_the_nearer_one_counts_and_later_blocks_of_a_site_are_later() {
    let rule = |block: &str, value: u32| {
        format!(
            "[[{block}.automation]]\nregex = 'no'\nduration = '1h'\naction = {{ SetConfig = {{ name = 'max_ready', value = {value} }} }}\n"
        )
    };
    // Whatever the hashes of the rules are.
    for (far, near) in [(1, 2), (2, 1), (7, 8)] {
        let text = format!(
            "{}{}['provider'.'p']\nmatch = [{{ DomainSuffix = 'd.test' }}]\n",
            rule("'default'", far),
            rule("'provider'.'p'", near)
        );
        let mut play = Play::new(&text);
        for (seconds, domain) in (0..).zip(["z.d.test", "a.d.test", "m.d.test"]) {
            play.hear_of_site(seconds, domain, &format!("mx.{domain}"), "no");
        }
        let file = overlay(play.automation.effects(at(3)), Sites::OfDomains);
        let read: Value = toml::from_str(&file).expect("TOML");
        assert_eq!(read["z.d.test"]["sources"]["s"]["max_ready"], near, "{file}");
        let places = ["z.d.test", "a.d.test", "m.d.test"].map(|domain| file.find(domain).expect("there"));
        assert!(places.is_sorted(), "{file}");
    }
}

/// Whoever makes a rule act about his own site must not be able to move it to another by changing his MX records.
#[test]
fn an_option_of_a_site_is_held_once_and_stays_with_it() {
    let rules = |more: &str| {
        let rule = |regex: &str, action: &str, value: u32| {
            format!(
                "[['default'.automation]]\nregex = '{regex}'\nduration = '1h'\naction = {{ {action} = {{ name = 'max_ready', value = {value} }} }}\n"
            )
        };
        rule("no", "SetConfig", 3) + &rule("alone", "SetDomainConfig", 4) + more
    };
    let mut play = Play::new(&rules(""));
    for n in 0..100 {
        play.hear_of_site(n, &format!("d{n}.test"), "(a|b).Evil.test.", "no");
    }
    let expected = json!({"site:(a|b).Evil.test.": {"mx_rollup": true, "sources": {"s": {"max_ready": 3}}}});
    let read = |play: &Play, sites| -> Value {
        toml::from_str(&overlay(play.automation.effects(at(100)), sites)).expect("TOML")
    };
    assert_eq!(read(&play, Sites::Named), expected);
    let of_first = json!({"d0.test": {"mx_rollup": true, "sources": {"s": {"max_ready": 3}}}});
    assert_eq!(read(&play, Sites::OfDomains), of_first, "who asks DNS has one domain to ask for, always the same");

    // A domain may have options of its own beside those of its site.
    play.hear_of_site(50, "d0.test", "(a|b).Evil.test.", "alone");
    let mut both = expected;
    both["d0.test"] = json!({"mx_rollup": false, "sources": {"s": {"max_ready": 4}}});
    assert_eq!(read(&play, Sites::Named), both);

    // A node puts it where it belongs without asking DNS.
    let file = overlay(play.automation.effects(at(100)), Sites::Named);
    let assembly = Assembly::new(vec![Document::parse("o.toml", &file).expect("sound")], LoadOptions::default());
    let assembly = assembly.expect("sound");
    assert_eq!(assembly.domains().count(), 0);
    let shaped = assembly.build(&|domain| unreachable!("{domain}"));
    let max_ready = |domain: &str, site: &str| shaped.path_config(domain, "s", site).get("max_ready").cloned();
    assert_eq!(max_ready("d1.test", "(a|b).evil.test"), Some(json!(3)));
    assert_eq!(max_ready("d0.test", "(a|b).evil.test"), Some(json!(4)));
    assert_eq!(max_ready("d1.test", "mx.big.test"), None);
}

#[test]
fn an_option_reaches_no_site_that_dns_does_not_know_and_no_name_that_is_no_domain() {
    let mut play = Play::new(
        "[['default'.automation]]\nregex = 'no'\nduration = '1h'\naction = { SetConfig = { name = 'max_ready', value = 1 } }",
    );
    for name in ["default", "provider", "defaults", "providers", "site:mx.d.test"] {
        let observed = play.hear(0, name, "s", "no");
        assert!(observed.undone.len() == 1 && !observed.has_changed, "{name}: {observed:?}");
    }
    play.hear_of_site(0, "null.test", ".", "no");
    let file = overlay(play.automation.effects(at(1)), Sites::Named);
    assert!(Document::parse("o.toml", &file).is_ok() && file.contains("null.test"), "{file}");
    play.automation.expire(at(10_000));
    let mut record = LogRecord::new(RecordType::TransientFailure, at(0), at(0), Response::new(451, None, "no"));
    (record.queue, record.site) = ("hosted.test".into(), "s->mx_list:relay.test@smtp_client".into());
    let found = matching(&play.shaping, &record);
    play.automation.observe(&record, &found.rules, at(0));
    let read: Value = toml::from_str(&overlay(play.automation.effects(at(1)), Sites::OfDomains)).expect("TOML");
    assert_eq!(read, json!({"hosted.test": {"mx_rollup": false, "sources": {"unspecified": {"max_ready": 1}}}}));
}

#[test]
fn what_a_rule_has_done_does_not_set_it_off_again() {
    let mut play = Play::new("[['default'.automation]]\nregex = 'blocked'\nduration = '1h'\naction = 'Bounce'");
    for kind in [RecordType::AdminBounce, RecordType::Expiration, RecordType::Bounce] {
        let text = "Administrator bounced with reason: automation rule: blocked";
        let mut record = LogRecord::new(kind, at(0), at(0), Response::new(551, None, text));
        record.queue = "d.test".into();
        let found = matching(&play.shaping, &record);
        assert_eq!(found.rules.len(), 1);
        let told = play.automation.observe(&record, &found.rules, at(0)).told.len();
        assert_eq!(told, usize::from(kind == RecordType::Bounce), "{kind:?}");
    }
}

#[test]
fn a_clock_that_is_ahead_prolongs_nothing_and_a_record_without_a_domain_bounces_nothing() {
    let mut play = Play::new("[['default'.automation]]\nregex = 'no'\nduration = '100s'\naction = 'Bounce'");
    let mut record = LogRecord::new(RecordType::OOB, at(5000), at(0), Response::new(550, None, "no"));
    let found = matching(&play.shaping, &record);
    let observed = play.automation.observe(&record, &found.rules, at(0));
    assert!(observed.told.is_empty() && observed.undone[0].contains("no domain"), "{observed:?}");
    record.queue = "d.test".into();
    assert_eq!(play.automation.observe(&record, &found.rules, at(0)).told[0].expires(), at(100));
}

#[test]
fn there_is_an_end_to_how_much_is_counted_and_held() {
    let rule = |action: &str| format!("[['default'.automation]]\nregex = 'no'\nduration = '100s'\n{action}");
    let counted = rule("action = 'Suspend'\ntrigger = { Threshold = '2/s' }");
    let option = rule("action = { SetConfig = { name = 'max_ready', value = 1 } }");
    for (rule, max) in [(counted, COUNTS_MAX), (rule("action = 'Suspend'"), EFFECTS_MAX), (option, OPTIONS_MAX)] {
        let mut play = Play::new(&rule);
        for n in 0..max {
            assert!(play.hear(0, "d.test", &n.to_string(), "no").undone.is_empty());
        }
        let undone = play.hear(0, "d.test", "one more", "no").undone;
        assert!(undone.len() == 1 && undone[0].contains("one more"), "{undone:?}");
        assert_eq!(play.hear(1, "d.test", "5", "no").undone, Vec::<String>::new(), "one that is held goes on");
    }
}
