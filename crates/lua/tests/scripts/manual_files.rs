//! The files that the reference manual shows are files that the helpers take, and one policy may take them all.

use crate::support::file;
use lua::LuaPolicy;
use lua::helper_names::HELPERS;

/// What reads the file of a helper, FILE. Keys of signatures are nowhere, so signers are not made.
const READ_BY: &[(&str, &str)] = &[
    ("policy-extras.queue", "require('policy-extras.queue'):setup { FILE }"),
    ("policy-extras.sources", "require('policy-extras.sources'):setup { FILE }"),
    ("policy-extras.listener_domains", "require('policy-extras.listener_domains'):setup { FILE }"),
    (
        "policy-extras.shaping",
        "require('policy-extras.shaping'):setup_with_automation { no_default_files = true, extra_files = { FILE } }",
    ),
    ("policy-extras.dkim_sign", "require('policy-extras.dkim_files').load { FILE }"),
    ("policy-extras.compliance", "require('policy-extras.compliance'):setup { FILE }"),
];

#[test]
fn files_of_the_manual_are_what_helpers_take() {
    let folder = tempfile::tempdir().expect("scratch folder");
    // Nobody's network is asked.
    let mut script =
        String::from("local kumo = require 'kumo'\nkumo.dns.configure_test_resolver { '$ORIGIN nobody.test.' }\n");
    let examples =
        HELPERS.iter().flat_map(|helper| helper.groups.iter().map(move |group| (helper.name, group.example)));
    let mut count = 0;
    for (helper, example) in examples.filter_map(|(helper, example)| Some((helper, example?))) {
        let path = folder.path().join(format!("{helper}.toml"));
        std::fs::write(&path, example).expect("a file");
        let (_, call) =
            READ_BY.iter().find(|(name, _)| *name == helper).unwrap_or_else(|| panic!("{helper}: no reader"));
        script += &call.replace("FILE", &format!("[[{}]]", path.display()));
        script.push('\n');
        count += 1;
    }
    assert_eq!(count, READ_BY.len(), "a file for each helper that reads some");
    let (_own, path) = file(&script);
    if let Err(error) = LuaPolicy::validate(&path) {
        panic!("{error}\n{script}");
    }
}
