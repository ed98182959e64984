//! The reference manual and the list of compatible names are what the program says of itself.

use config::{CONSTRUCTORS, option_names};
use lua::api::Proof;
use lua::helper_names::HELPERS;
use lua::names_of;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// KumoMTA's names: area, name, kind, tier.
const NAMES: &str = include_str!("names.tsv");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A name and what shows that it does what it should.
fn described() -> BTreeMap<String, Proof> {
    let mut names = BTreeMap::new();
    for module in lua::modules() {
        for function in module.functions() {
            names.insert(function.full_name.to_owned(), function.proof);
        }
        for member in module.types.iter().flat_map(|object| object.members) {
            names.insert(member.name.split([' ', ',']).next().unwrap_or_default().to_owned(), member.proof);
        }
    }
    for event in lua::event_names::EVENTS {
        names.insert(event.name.to_owned(), event.proof);
    }
    names.extend(names_of::names().filter_map(|name| Some((name.name.to_owned(), name.proof?))));
    let moved: Vec<(String, Proof)> = lua::moved_names()
        .iter()
        .filter_map(|(alias, module, function)| {
            Some((format!("kumo.{alias}"), *names.get(&format!("kumo.{module}.{function}"))?))
        })
        .collect();
    names.extend(moved);
    names
}

/// KumoMTA's modules, which count when something in them does.
fn modules(names: &BTreeMap<String, Proof>) -> BTreeSet<String> {
    let mut found: BTreeSet<String> = BTreeSet::new();
    for name in names.keys() {
        let mut name = name.as_str();
        while let Some((module, _)) = name.rsplit_once('.') {
            found.insert(module.to_owned());
            name = module;
        }
    }
    let proven = HELPERS.iter().filter(|helper| helper.functions.iter().any(|function| function.proof.is_some()));
    found.extend(proven.map(|helper| helper.name.to_owned()));
    found
}

/// Which options table an area of KumoMTA's names is about.
const OPTIONS: &[(&str, &str)] = &[
    ("egress_path", "make_egress_path"),
    ("egress_source", "make_egress_source"),
    ("queue_config", "make_queue_config"),
    ("listener_domain", "make_listener_domain"),
    ("esmtp_listener", "start_esmtp_listener"),
    ("http_listener", "start_http_listener"),
    ("local_logs", "configure_local_logs"),
    ("log_hook", "configure_log_hook"),
    ("bounce_classifier", "configure_bounce_classifier"),
    ("egress_pool", "make_egress_pool"),
    ("spool", "define_spool"),
    ("log_disposition_hook", "configure_log_disposition_hook"),
    ("kumo.dkim", "dkim.rsa_sha256_signer"),
    ("kumo.dns.resolver", "dns.configure_resolver"),
    ("queue_protocol", "make_queue_config.protocol"),
];

#[test]
fn the_manual_is_what_the_program_says() {
    let folder = root().join("docs/reference");
    let mut pages = lua::manual::pages();
    pages.push(("names.md".to_owned(), checklist()));
    if std::env::var_os("POSTRIDER_WRITE_REFERENCE").is_some() {
        std::fs::create_dir_all(&folder).expect("the folder of the manual");
        for (name, text) in &pages {
            std::fs::write(folder.join(name), text).expect("a page");
        }
    }
    for (name, text) in &pages {
        let there = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        assert!(
            there == *text,
            "docs/reference/{name} is old: POSTRIDER_WRITE_REFERENCE=1 cargo test -p lua --test reference"
        );
    }
    let known: BTreeSet<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
    for entry in std::fs::read_dir(&folder).expect("the manual") {
        let name = entry.expect("an entry").file_name().into_string().expect("a name");
        assert!(known.contains(name.as_str()), "docs/reference/{name}: nothing makes this page");
    }
}

#[test]
fn every_name_is_proven_by_a_test_that_is_there_and_uses_it() {
    let mut wrong = Vec::new();
    for (name, proof) in described() {
        let Proof::Test(place) = proof else { continue };
        let (file, test) = place.split_once("::").unwrap_or((place, ""));
        let text = text_of(file);
        // A case of the corpus has no name within its file.
        let is_there = test.is_empty() || text.contains(&format!("fn {test}("));
        // What whoever writes a policy makes up is nowhere, and a type is what its functions return.
        // Events of a helper's own are said by the helper.
        let is_word = !name.starts_with("type.")
            && !name.starts_with("kumo.tsa.")
            && !name.ends_with("_EVENT")
            && !name.ends_with('*');
        let word = word_of(&name).trim_end_matches("NAME");
        let is_there = is_there && (!is_word || words(&text).iter().any(|one| *one == word || is_begun(one, word)));
        if !is_there {
            wrong.push(format!("{name}: {place}"));
        }
    }
    assert!(wrong.is_empty(), "these tests are not there, or do not touch the name they prove:\n{}", wrong.join("\n"));
}

/// Whether a word is one of a family of names that begin so, as `log_disposition_` does.
fn is_begun(word: &str, name: &str) -> bool {
    name.ends_with('_') && word.starts_with(name)
}

/// A file of tests with what it leans on: modules of `e2e`, and policies that either names, by file or by folder.
fn text_of(file: &str) -> String {
    let test = read(&root().join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
    let modules: Vec<&str> = test.split("e2e::").skip(1).filter_map(|rest| rest.split([':', ';']).next()).collect();
    let modules = modules.iter().map(|module| root().join(format!("testing/e2e/src/{module}.rs")));
    let text = modules.filter_map(|module| read(&module).ok()).fold(test.clone(), |text, module| text + &module);
    let folder = root().join("testing/e2e/policies");
    let policies: Vec<PathBuf> = text.split('"').map(|name| folder.join(name)).collect();
    let within = |folder: &PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let all = policies.iter().filter(|path| path.file_name().is_some()).flat_map(|path| match path.is_dir() {
        // An empty text names the folder of all of them, which nobody leans on.
        true if path.starts_with(&folder) && path.components().count() > folder.components().count() => {
            within(path).collect()
        }
        true => Vec::new(),
        false => vec![path.clone()],
    });
    all.filter_map(|file| read(&file).ok()).fold(text.clone(), |text, policy| text + &policy)
}

/// A text; line ends within its strings are no letters.
fn read(file: &Path) -> std::io::Result<String> {
    Ok(std::fs::read_to_string(file)?.replace("\\n", " "))
}

/// The last word of a name that is not made up by whoever writes a policy, as `NAME` in `tenant.NAME` is.
fn word_of(name: &str) -> &str {
    let mut words = name.rsplit(['.', ':', '=']);
    words.find(|word| word.chars().any(|c| c.is_lowercase())).unwrap_or(name).trim_end_matches(['_', '*'])
}

/// The words of a text, as programs have them.
fn words(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').collect()
}

/// What tests of behaviour say: those of the program as a whole, of policy, and of the crates that act on options. Not those of
/// `config`, which reads them.
fn tested_words() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![root().join("testing/e2e"), root().join("testing/sim"), root().join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of the tree") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() && name != "config" {
                folders.push(path);
            } else if name.ends_with(".lua") || (name.ends_with(".rs") && name != "reference.rs") {
                let text = std::fs::read_to_string(&path).expect("a source file");
                let is_test =
                    path.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "testing");
                let from = if is_test || name.contains("test") { Some(0) } else { text.find("#[cfg(test)]\nmod") };
                found.extend(from.into_iter().flat_map(|from| words(&text[from..])).map(str::to_owned));
            }
        }
    }
    found
}

#[test]
fn what_is_missing_has_its_reason_in_compat() {
    let compat = std::fs::read_to_string(root().join("docs/compat.md")).expect("docs/compat.md");
    let list = checklist();
    let rows = list.split("## Not there yet").nth(1).expect("the list").lines().filter(|row| row.starts_with("| "));
    let names = rows.skip(1).filter_map(|row| row.split('|').nth(2)).flat_map(|names| names.split(", "));
    let without: Vec<&str> = names.map(str::trim).filter(|name| !compat.contains(&format!("`{name}`"))).collect();
    assert!(without.is_empty(), "docs/compat.md says of these neither that they are missing nor why: {without:?}");
}

/// True when the constructor, or a table within its options, has the option.
fn has_option(constructor: &str, name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    let tables = CONSTRUCTORS.iter().filter(|table| table.starts_with(constructor));
    tables.flat_map(|table| option_names(table)).any(|option| *option == last)
}

/// What there is of KumoMTA's names.
fn checklist() -> String {
    let names = described();
    let modules = modules(&names);
    let mut text = String::from(
        "<!-- Made by `POSTRIDER_WRITE_REFERENCE=1 cargo test -p lua --test reference`; not to be edited. -->\n\
         # KumoMTA's names\n\nA function, method, field or event counts when a test exercises what it does. Options count on a line \
         of their own when they are read and checked and a test of policies or of the whole program sets them; why the others are \
         not there, or not counted, is in [compat.md](../compat.md).\n",
    );
    let mut missing: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    // By kind and tier: how many are there, of how many.
    let mut counts: BTreeMap<[&str; 2], (usize, usize)> = BTreeMap::new();
    let tested = tested_words();
    let is_tested = |name: &str| tested.contains(name.rsplit('.').next().unwrap_or(name));
    for line in NAMES.lines().skip(1) {
        let [area, name, kind, tier] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("names.tsv: {line}") };
        let is_option = kind == "option" && !names.contains_key(name);
        let there = match kind {
            "module" => modules.contains(name) || name == "kumo",
            _ if is_option => {
                is_tested(name) && OPTIONS.iter().any(|(of, constructor)| *of == area && has_option(constructor, name))
            }
            _ => names.contains_key(name),
        };
        let count = counts.entry([if is_option { "options" } else { "names" }, tier]).or_default();
        count.0 += usize::from(there);
        count.1 += 1;
        if !there {
            missing.entry(area).or_default().push(name);
        }
    }
    text.push_str("\n| | tier | there | of |\n|---|---|---|---|\n");
    for ([kind, tier], (there, all)) in &counts {
        let _ = writeln!(text, "| {kind} | {tier} | {there} | {all} |");
    }
    text.push_str("\n## Not there yet, or not counted\n\n| area | names |\n|---|---|\n");
    for (area, names) in missing {
        let _ = writeln!(text, "| {area} | {} |", names.join(", ").replace('|', "\\|"));
    }
    text
}

#[test]
fn names_of_helpers_and_values_are_kumomtas_where_they_say_so() {
    let known: BTreeSet<&str> = NAMES.lines().filter_map(|line| line.split('\t').nth(1)).collect();
    let mut seen = BTreeSet::new();
    for names_of::Name { name, doc, is_kumomtas, .. } in names_of::names() {
        assert_eq!(known.contains(name), *is_kumomtas, "{name}: names.tsv has it, or has it not");
        assert!(seen.insert(*name), "{name} is described twice");
        assert!(doc.ends_with('.') && !doc.contains('\n'), "{name}: {doc}: sentences are expected, in one line");
    }
    let is_described_here = |area: &str| {
        area.starts_with("policy-extras.") || ["shaping_toml", "metadata", "types", "template"].contains(&area)
    };
    let rows = NAMES.lines().filter_map(|line| line.split_once('\t'));
    let wanted = rows.filter(|(area, _)| is_described_here(area)).filter_map(|(_, rest)| rest.split('\t').next());
    let without: Vec<&str> = wanted.filter(|name| !seen.contains(name)).collect();
    assert!(without.is_empty(), "these have no row in names_of: {without:?}");
}

#[test]
fn every_function_of_a_helper_has_a_row() {
    let named: BTreeSet<&str> = names_of::names().map(|name| name.name).collect();
    let mut without = Vec::new();
    for helper in HELPERS {
        let file = helper.name.replace("policy-extras.", "");
        let text = read(&root().join(format!("share/policy-extras/{file}.lua"))).expect("a helper");
        let defined = text.lines().filter_map(|line| line.strip_prefix("function mod").or(line.strip_prefix("mod")));
        for rest in defined.filter(|rest| rest.starts_with(['.', ':'])) {
            let end = rest[1..].find(|c: char| !c.is_alphanumeric() && c != '_').map_or(rest.len(), |end| end + 1);
            let name = format!("{file}{}", &rest[..end]);
            // What is in capitals is for the parts of the helper.
            if rest[..end].contains(char::is_lowercase) && !named.contains(name.as_str()) {
                without.push(name);
            }
        }
    }
    assert!(without.is_empty(), "these have no row in names_of: {without:?}");
}

#[test]
fn every_options_table_is_in_the_catalog() {
    for (area, constructor) in OPTIONS {
        assert!(CONSTRUCTORS.iter().any(|table| table.starts_with(constructor)), "{area}: {constructor}");
    }
}
