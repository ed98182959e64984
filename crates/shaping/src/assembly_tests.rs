//! Tests of documents put together: order, replace_base, sites, and what is reported at which severity.

use super::*;
use serde_json::{Value, json};

fn assembly(documents: &[Value], options: LoadOptions) -> Assembly {
    let parsed = (0..).zip(documents).map(|(n, document)| Document::parse(&format!("{n}.json"), &document.to_string()));
    Assembly::new(parsed.collect::<Result<_, _>>().expect("sound"), options).expect("within bounds")
}

/// `x.test` has the site `mx.x.test.`, except for some.
fn resolve(domain: &str) -> Resolved {
    match domain {
        "null.test" => Resolved::NullMx,
        "gone.test" => Resolved::Failed("NXDOMAIN".to_owned()),
        "root.test" => Resolved::Site(".".to_owned()),
        "alias.test" => Resolved::Site("MX.a.test".to_owned()),
        "big.test" => Resolved::Site("(a|b).big.example".to_owned()),
        other => Resolved::Site(format!("mx.{other}.")),
    }
}

fn build(documents: &[Value]) -> Shaping {
    assembly(documents, LoadOptions::default()).build(&resolve)
}

fn max_ready(shaping: &Shaping, domain: &str, site: &str) -> Value {
    shaping.path_config(domain, "s", site).get("max_ready").cloned().unwrap_or_default()
}

fn lines(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(Problem::to_string).collect()
}

#[test]
fn only_domains_with_a_site_are_resolved_and_each_once() {
    let documents = [
        json!({"b.test": {}, "Alone.test": {"mx_rollup": false}, "a.test": {"mx_rollup": true}, "default": {}}),
        json!({"B.test.": {}, "alone.test": {}, "provider": {"c.test": {}}}),
    ];
    let assembly = assembly(&documents, LoadOptions::default());
    assert_eq!(assembly.domains().collect::<Vec<_>>(), ["a.test", "b.test"]);
}

#[test]
fn later_documents_go_over_earlier_ones() {
    let shaping = build(&[
        json!({"default": {"max_ready": 1, "smtp_port": 26}, "a.test": {"max_ready": 2}, "provider": {
            "P": {"match": [{"DomainSuffix": ".p.test"}], "max_ready": 3}
        }}),
        json!({"default": {"max_ready": 11}, "a.test": {"max_ready": 12}, "provider": {"P": {"max_ready": 13}}}),
    ]);
    assert_eq!(max_ready(&shaping, "other.test", ""), 11);
    assert_eq!(shaping.path_config("other.test", "s", "")["smtp_port"], 26);
    assert_eq!(max_ready(&shaping, "a.test", "mx.a.test."), 12);
    assert_eq!(max_ready(&shaping, "x.p.test", ""), 13);
}

/// Of the domain or provider of that name, in that document's place.
#[test]
fn replace_base_discards_what_earlier_documents_said() {
    let blocks = |replace_base: bool, port: u16| {
        let rule = json!({"regex": "a", "action": "Bounce", "duration": port});
        let block = json!({"smtp_port": port, "automation": [rule], "sources": {port.to_string(): {}}});
        let with = |key: &str, value: Value| {
            let mut block = block.clone();
            block[key] = value;
            block["replace_base"] = json!(replace_base);
            block
        };
        json!({
            "default": with("max_ready", json!(1)),
            "a.test": with("max_ready", json!(2)),
            "alone.test": with("mx_rollup", json!(false)),
            "provider": {"P": with("match", json!([{"HostName": port.to_string()}])), "Q": {"max_ready": 5}},
            "b.test": {"max_ready": 3},
        })
    };
    let (base, other) = (blocks(false, 1), blocks(false, 2));
    let replaced = build(&[base.clone(), blocks(true, 2)]);
    assert_eq!(replaced.hash(), build(&[json!({"provider": {"P": {}}}), other.clone()]).hash());
    assert_ne!(replaced.hash(), build(&[base.clone(), other]).hash());
    let late = build(&[blocks(true, 1), blocks(false, 2)]);
    assert_eq!(late.hash(), build(&[base, blocks(false, 2)]).hash(), "what comes later is not discarded");
    assert_eq!(max_ready(&replaced, "b.test", "mx.b.test"), 3, "other names stay");
}

#[test]
fn a_domain_has_a_site_unless_a_document_says_otherwise() {
    let of_site = |documents: &[Value]| max_ready(&build(documents), "other.test", "mx.a.test.") == 1;
    let alone = |documents: &[Value]| max_ready(&build(documents), "a.test", "") == 1;
    let says = |mx_rollup: Value| json!({"a.test": {"max_ready": 1, "mx_rollup": mx_rollup}});
    let before = |mx_rollup: bool| json!({"a.test": {"mx_rollup": mx_rollup}});
    for (documents, site, domain) in [
        (vec![says(Value::Null)], true, false),
        (vec![says(json!(true))], true, false),
        (vec![says(json!(false))], false, true),
        (vec![before(false), says(Value::Null)], false, true),
        (vec![before(false), says(json!(true))], true, false),
        (vec![before(true), says(Value::Null)], true, false),
        (vec![before(true), says(json!(false))], false, true),
        (vec![before(false), before(true), says(Value::Null)], true, false),
    ] {
        assert_eq!((of_site(&documents), alone(&documents)), (site, domain), "{documents:?}");
    }
    let replaced = json!({"a.test": {"max_ready": 1, "replace_base": true}});
    assert!(of_site(&[before(false), replaced]), "mx_rollup is discarded, too");
}

#[test]
fn domains_of_one_site_share_a_block_later_ones_over_earlier_ones() {
    let documents = [
        json!({"a.test": {"max_ready": 1, "smtp_port": 26}, "alias.test": {"max_ready": 2, "use_lmtp": true}}),
        json!({"A.test": {"max_ready": 3}}),
    ];
    for (severity, errors, warnings) in [(Severity::Ignore, 0, 0), (Severity::Warn, 0, 1), (Severity::Error, 1, 0)] {
        let options = LoadOptions { aliased_site: severity, ..LoadOptions::default() };
        let shaping = assembly(&documents, options).build(&resolve);
        assert_eq!(
            Value::Object(shaping.path_config("x", "s", "mx.A.test.")),
            json!({"max_ready": 3, "smtp_port": 26, "use_lmtp": true})
        );
        assert_eq!((shaping.errors().len(), shaping.warnings().len()), (errors, warnings), "{severity:?}");
        let want = "domains \"a.test\", \"alias.test\" have the same site \"mx.a.test.\": their blocks are one, later ones \
                    over earlier ones";
        for problem in shaping.errors().iter().chain(shaping.warnings()) {
            assert_eq!(problem.to_string(), want);
        }
    }
    let reversed = build(&[json!({"alias.test": {"max_ready": 2}, "a.test": {"max_ready": 1}})]);
    assert_eq!(max_ready(&reversed, "x", "mx.a.test"), 1, "not in the order of the alphabet");
    let alone = json!({"a.test": {}, "alias.test": {"mx_rollup": false}});
    let options = LoadOptions { aliased_site: Severity::Error, ..LoadOptions::default() };
    assert!(assembly(&[alone], options).build(&resolve).errors().is_empty());
}

#[test]
fn what_dns_does_not_tell_counts_for_the_domain_alone_and_is_told_at_its_severity() {
    let documents = [json!({
        "default": {"max_ready": 1}, "gone.test": {"max_ready": 2}, "null.test": {"max_ready": 3},
        "root.test": {"max_ready": 4}, "a.test": {"max_ready": 5},
    })];
    let gone = "domain \"gone.test\": its site cannot be found out: NXDOMAIN; its block counts for this domain alone";
    let root = "domain \"root.test\": its site cannot be found out: \".\" is no name of a site; its block counts for this domain alone";
    let null = "domain \"null.test\" takes no mail (null MX); its block is left out";
    for (dns_fail, null_mx, errors, warnings) in [
        (Severity::Ignore, Severity::Ignore, vec![], vec![]),
        (Severity::Warn, Severity::Error, vec![null], vec![gone, root]),
        (Severity::Error, Severity::Warn, vec![gone, root], vec![null]),
    ] {
        let options = LoadOptions { dns_fail, null_mx, ..LoadOptions::default() };
        let shaping = assembly(&documents, options).build(&resolve);
        assert_eq!((lines(shaping.errors()), lines(shaping.warnings())), {
            let own = |list: Vec<&str>| list.into_iter().map(str::to_owned).collect::<Vec<_>>();
            (own(errors), own(warnings))
        });
        // Mail goes there once names are found again, and then it may not go without what is demanded.
        for (domain, site, want) in [("gone.test", "mx.gone.test.", 2), ("null.test", ".", 1), ("root.test", ".", 4)] {
            assert_eq!(max_ready(&shaping, domain, site), want, "{domain}");
        }
        assert_eq!(max_ready(&shaping, "a.test", "mx.a.test."), 5);
    }
}

#[test]
fn overlaps_with_providers_are_told_at_their_severity() {
    let documents = [json!({
        "big.test": {}, "a.test": {}, "x.dom.test": {"mx_rollup": false}, "y.dom.test": {}, "alone.test": {"mx_rollup": false},
        "provider": {
            "Hosts": {"match": [{"MXSuffix": ".big.example"}]},
            "Domains": {"match": [{"DomainSuffix": ".dom.test"}]},
            "Both": {"match": [{"HostName": "a.big.example"}, {"HostName": "b.big.example"}, {"DomainSuffix": "x.dom.test"}]},
            "Half": {"match": [{"HostName": "a.big.example"}]},
        },
    })];
    let want = [
        "domain \"big.test\" (site \"(a|b).big.example\") has a block and is of provider \"Hosts\", \"Both\" as well",
        "domain \"x.dom.test\" has a block and is of provider \"Domains\", \"Both\" as well",
        "domain \"y.dom.test\" (site \"mx.y.dom.test.\") has a block and is of provider \"Domains\" as well",
    ];
    for severity in [Severity::Ignore, Severity::Warn, Severity::Error] {
        let options = LoadOptions { provider_overlap: severity, ..LoadOptions::default() };
        let shaping = assembly(&documents, options).build(&resolve);
        let (told, other) = match severity {
            Severity::Error => (shaping.errors(), shaping.warnings()),
            _ => (shaping.warnings(), shaping.errors()),
        };
        assert!(other.is_empty());
        match severity {
            Severity::Ignore => assert!(told.is_empty()),
            _ => assert_eq!(lines(told), want),
        }
    }
}

#[test]
fn problems_of_loading_and_providers_without_match_are_listed() {
    let mut assembly = assembly(&[json!({"provider": {"P": {"max_ready": 1}}})], LoadOptions::default());
    let missing = |file: &str| Problem::NotLoaded { file: file.to_owned(), what: "no such file".to_owned() };
    assembly.report(Severity::Error, missing("a"));
    assembly.report(Severity::Warn, missing("b"));
    assembly.report(Severity::Ignore, missing("c"));
    let shaping = assembly.build(&resolve);
    assert_eq!(lines(shaping.errors()), ["a: no such file"]);
    assert_eq!(
        lines(shaping.warnings()),
        ["b: no such file", "provider \"P\" has no `match`: its block has no effect"]
    );
}

#[test]
fn documents_fit_at_the_bound_and_not_beyond() {
    let new = |documents: Vec<Document>| Assembly::new(documents, LoadOptions::default()).map(drop);
    let document = |value: Value| Document::parse("a.json", &value.to_string()).expect("sound");
    let empty = document(json!({}));
    assert_eq!(new(vec![empty.clone(); DOCUMENTS_MAX]), Ok(()));
    let error = new(vec![empty; DOCUMENTS_MAX + 1]).unwrap_err().to_string();
    assert_eq!(error, "a.json: 257 documents: expected at most 256 in all documents together");

    let sources: serde_json::Map<String, Value> = (1..BLOCKS_MAX / 2).map(|n| (n.to_string(), json!({}))).collect();
    let half = document(json!({"a.test": {"sources": sources}}));
    let one = document(json!({"b.test": {}}));
    assert_eq!(new(vec![half.clone(), half.clone()]), Ok(()));
    let error = new(vec![half.clone(), half, one]).unwrap_err();
    assert!(matches!(error, ShapingError::TooMany { what: "blocks", count, .. } if count == BLOCKS_MAX + 1));

    let rule = |count: usize| json!([{"regex": vec!["a"; count], "action": "Bounce", "duration": 1}]);
    let half = document(json!({"a.test": {"automation": rule(PATTERNS_MAX / 2)}}));
    let one = document(json!({"a.test": {"automation": rule(1)}}));
    assert_eq!(new(vec![half.clone(), half.clone()]), Ok(()));
    let error = new(vec![half.clone(), half, one]).unwrap_err();
    assert!(
        matches!(error, ShapingError::TooMany { what: "regular expressions", count, .. } if count == PATTERNS_MAX + 1)
    );
}

#[test]
fn a_site_that_is_named_is_not_looked_up_and_goes_by_rank() {
    let options = LoadOptions { aliased_site: Severity::Warn, ..LoadOptions::default() };
    let file = json!({
        "a.test": {"max_ready": 1}, "site:MX.a.test.": {"max_ready": 2, "sources": {"s": {"smtp_port": 26}}}, "site:x": {"max_ready": 3},
    });
    let assembly = assembly(&[file], options);
    assert_eq!(assembly.domains().collect::<Vec<_>>(), ["a.test"]);
    let shaping = assembly.build(&resolve);
    assert_eq!((max_ready(&shaping, "a.test", "mx.a.test."), max_ready(&shaping, "b.test", "X")), (json!(2), json!(3)));
    assert_eq!(shaping.warnings(), []);
    assert_eq!(shaping.referenced_sources()["s"], ["site:mx.a.test."]);
}
