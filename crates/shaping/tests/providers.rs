//! The shaping file that ships: it reads without a warning, hosts belong to the provider they should
//! (`provider_hosts.tsv`), and replies of providers (`provider_replies.tsv`) set off what is meant and nothing else.
//!
//! Every reply is shown to its own provider and to all others: a rule that is too wide shows at once. So does a rule
//! that no reply of the table sets off.

use record::Response;
use shaping::{Action, Assembly, Document, LoadOptions, LogRecordView, Resolved, Severity, Shaping};
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn reads_without_warnings() {
    let shaping = shipped();
    assert!(shaping.errors().is_empty(), "{:?}", shaping.errors());
    assert!(shaping.warnings().is_empty(), "{:?}", shaping.warnings());
}

/// No block for a domain: nobody's DNS is asked about, and no provider overlaps one.
#[test]
fn names_no_domain() {
    let assembly = assembly();
    assert_eq!(assembly.domains().collect::<Vec<_>>(), Vec::<&str>::new());
}

#[test]
fn hosts_are_of_their_provider() {
    let shaping = shipped();
    for (provider, host) in hosts() {
        let expected = (provider != NOBODY).then(|| provider.to_owned());
        assert_eq!(provider_of(&shaping, host), expected, "{host}");
    }
    assert_eq!(provider_of(&shaping, "(mx1|mx2).qq.com.").as_deref(), Some("qq"));
    assert_eq!(provider_of(&shaping, "(mx|mx1).(qq|zoho).com."), None, "every host has to match");
}

/// The end of a host's name that is one provider's is not within another's, and every provider has a host in the table.
#[test]
fn providers_do_not_overlap() {
    let matches = matches();
    let in_table: Vec<&str> = sites().into_keys().collect();
    assert_eq!(matches.keys().map(String::as_str).collect::<Vec<_>>(), in_table);
    for (one, ends) in &matches {
        for (other, others) in matches.iter().filter(|(other, _)| *other != one) {
            for end in ends {
                let is_within = others.iter().any(|longer| longer.ends_with(end.as_str()));
                assert!(!is_within, "{end} of {one} takes hosts of {other}");
            }
        }
    }
}

#[test]
fn replies_set_off_what_is_meant() {
    let (shaping, sites) = (shipped(), sites());
    let mut wrong = Vec::new();
    for (provider, expected, reply) in replies() {
        let (actions, _) = set_off(&shaping, sites[provider], reply);
        if actions.join(" ") != expected.trim_start_matches('-') {
            wrong.push(format!("{provider}: {reply}\n  does {actions:?}, expected {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What one provider says means nothing from another, but for those that share a reply.
#[test]
fn replies_set_off_nothing_of_others() {
    let (shaping, sites) = (shipped(), sites());
    let mut wrong = Vec::new();
    for (provider, _, reply) in replies() {
        for (other, site) in sites.iter().filter(|(other, _)| **other != provider) {
            let is_shared = SHARED.iter().any(|group| group.contains(&provider) && group.contains(other));
            let (actions, _) = set_off(&shaping, site, reply);
            if !actions.is_empty() && !is_shared {
                wrong.push(format!("{provider}: {reply}\n  does {actions:?} with {other}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// No rule stands in the file that the table does not prove.
#[test]
fn every_rule_is_set_off() {
    let (shaping, sites) = (shipped(), sites());
    let mut seen: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (provider, _, reply) in replies() {
        let (_, rules) = set_off(&shaping, sites[provider], reply);
        seen.entry(provider).or_default().extend(rules);
    }
    for (provider, block) in providers() {
        let written = block.get("automation").and_then(toml::Value::as_array).map_or(0, Vec::len);
        let proved = seen.get(provider.as_str()).map_or(0, BTreeSet::len);
        assert_eq!(proved, written, "rules of {provider}");
    }
}

/// Figures that a provider gives, over those of the default block.
#[test]
fn limits_are_the_providers() {
    let (shaping, sites) = (shipped(), sites());
    for (provider, option, expected) in LIMITS {
        let options = shaping.path_config(DOMAIN, SOURCE, sites[provider]);
        let found = options.get(option).map(ToString::to_string);
        assert_eq!(found.as_deref(), Some(expected), "{option} of {provider}");
    }
}

fn assembly() -> Assembly {
    let document = Document::parse("shaping.toml", SHIPPED).expect("the shipped file is sound");
    let options = LoadOptions {
        aliased_site: Severity::Warn,
        dns_fail: Severity::Warn,
        null_mx: Severity::Warn,
        provider_overlap: Severity::Warn,
        ..LoadOptions::default()
    };
    Assembly::new(vec![document], options).expect("one document")
}

fn shipped() -> Shaping {
    assembly().build(&|_: &str| Resolved::Failed("no name server here".to_owned()))
}

/// The provider that has the last word on a site.
fn provider_of(shaping: &Shaping, site: &str) -> Option<String> {
    let options = shaping.path_config(DOMAIN, SOURCE, site);
    options.get("provider_name").and_then(|name| name.as_str()).map(str::to_owned)
}

/// What a reply sets off at a site: the actions in their order, and which rules.
fn set_off(shaping: &Shaping, site: &str, reply: &str) -> (Vec<String>, Vec<String>) {
    let (code, text) = reply.split_once(' ').expect(reply);
    let response = Response::from_text(code.parse().expect(reply), text);
    let found = shaping.match_rules(&LogRecordView { domain: DOMAIN, site, response: &response });
    assert!(found.failures.is_empty(), "{reply}: {:?}", found.failures);
    let actions = found.rules.iter().flat_map(|matched| matched.rule.action()).map(named).collect();
    (actions, found.rules.iter().map(|matched| matched.rule.hash().to_owned()).collect())
}

/// `Suspend`, or `connection_limit=2` of an option.
fn named(action: &Action) -> String {
    match action {
        Action::SetConfig(option) => format!("{}={}", option.name, option.value),
        other => format!("{other:?}"),
    }
}

/// Provider and host.
fn hosts() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = include_str!("provider_hosts.tsv").lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split_once('\t').expect(line))
}

/// A host of each provider, which is a site by itself.
fn sites() -> BTreeMap<&'static str, &'static str> {
    hosts().filter(|(provider, _)| *provider != NOBODY).collect()
}

/// Provider, what it does, reply.
fn replies() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let lines = include_str!("provider_replies.tsv").lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| {
        let (provider, rest) = line.split_once('\t').expect(line);
        let (expected, reply) = rest.split_once('\t').expect(line);
        (provider, expected, reply)
    })
}

/// The blocks as written.
fn providers() -> toml::Table {
    let mut file: toml::Table = toml::from_str(SHIPPED).expect("TOML");
    match file.remove("provider") {
        Some(toml::Value::Table(providers)) => providers,
        other => panic!("no providers: {other:?}"),
    }
}

/// What each provider matches: the ends and names of hosts.
fn matches() -> BTreeMap<String, Vec<String>> {
    let texts = |rule: &toml::Value| -> Vec<String> {
        let rule = rule.as_table().expect("a table");
        rule.iter().map(|(_, text)| text.as_str().expect("a text").to_owned()).collect()
    };
    let ends = |block: &toml::Value| -> Vec<String> {
        block.get("match").and_then(toml::Value::as_array).into_iter().flatten().flat_map(texts).collect()
    };
    providers().iter().map(|(name, block)| (name.clone(), ends(block))).collect()
}

const SHIPPED: &str = include_str!("../../../share/policy-extras/shaping.toml");
/// In the table of hosts: of no provider.
const NOBODY: &str = "-";
/// Names nothing, so that only hosts count.
const DOMAIN: &str = "destination.test";
const SOURCE: &str = "ip-1";
/// Providers of which one sends the other's replies: Microsoft's, and Apple, which asks Proofpoint.
const SHARED: [&[&str]; 2] = [&["outlook", "office365", "office365-dane"], &["apple", "proofpoint"]];
/// Provider, option, value as JSON.
const LIMITS: [(&str, &str, &str); 14] = [
    ("google", "connection_limit", "10"),
    ("google", "max_deliveries_per_connection", "100"),
    ("yahoo", "max_deliveries_per_connection", "20"),
    ("office365-dane", "enable_dane", "true"),
    ("comcast", "max_recipients_per_batch", "100"),
    ("cox", "connection_limit", "5"),
    ("cox", "max_deliveries_per_connection", "100"),
    ("orange", "connection_limit", "2"),
    ("orange", "max_recipients_per_batch", "100"),
    ("laposte", "connection_limit", "2"),
    ("laposte", "max_deliveries_per_connection", "100"),
    ("sfr", "connection_limit", "2"),
    ("mimecast", "max_recipients_per_batch", "100"),
    ("trendmicro", "additional_message_rate_throttles", r#"{"shaping-provider-trendmicro-ip-1-rate":"2000/min"}"#),
];
