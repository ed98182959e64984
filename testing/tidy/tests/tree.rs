//! Runs every rule over the checkout. A failure lists each offence as `path:line: what; instead`.
//!
//! What each rule means stands in its file under `src/`; what may break it, in `src/exceptions.rs`.

use tidy::exceptions::{EXCEPTIONS, remaining};
use tidy::{Offence, Rule, Source, Tree, ambient, layers, leftovers, manifest, panics, shape, text};

#[test]
fn crates_name_only_lower_layers() {
    let crates = tree().crates().expect("cargo metadata");
    judge(&[Rule::Edge], layers::edges(&crates));
}

#[test]
fn deciders_know_no_clock_file_socket_thread_chance_or_lua() {
    judge(&[Rule::Ambient], over_sources(ambient::check));
}

#[test]
fn files_open_with_their_page_and_functions_fit_a_screen() {
    judge(&[Rule::Page, Rule::FunctionLength], over_sources(shape::check));
}

#[test]
fn files_are_not_too_long() {
    let tree = tree();
    judge(&[Rule::FileLength], tree.code_files().filter_map(|(path, text)| shape::file_length(path, text)).collect());
}

#[test]
fn nothing_unsafe_unfinished_silenced_or_printed() {
    judge(&[Rule::Leftover], over_sources(leftovers::check));
}

#[test]
fn deciders_do_not_panic_on_values() {
    judge(&[Rule::Panic], over_sources(panics::check));
}

#[test]
fn dependencies_are_pinned_with_a_reason_and_crates_are_under_the_lints() {
    let tree = tree();
    let mut found = Vec::new();
    for (path, text) in tree.files.iter().filter(|(path, _)| path.ends_with("Cargo.toml")) {
        found.extend(match path.as_str() {
            "Cargo.toml" | "testing/fuzz/Cargo.toml" => manifest::pins(path, text),
            _ => manifest::member(path, text),
        });
    }
    for file in crate_folders(&tree).iter().map(|folder| format!("{folder}/Cargo.toml")) {
        if !tree.files.contains_key(&file) {
            found.extend(manifest::member(&file, ""));
        }
    }
    judge(&[Rule::Manifest], found);
}

#[test]
fn no_paths_of_one_machine_and_both_licences() {
    let tree = tree();
    let paths = tree.files.iter().flat_map(|(path, text)| text::machine_paths(path, text));
    let licences = text::licences(|file| tree.files.get(file).cloned());
    judge(&[Rule::Text], paths.chain(licences).collect());
}

fn tree() -> Tree {
    Tree::read().expect("the checkout reads")
}

fn over_sources(check: fn(&Source) -> Vec<Offence>) -> Vec<Offence> {
    let sources = tree().sources();
    assert!(sources.len() >= SOURCES_MIN, "only {} Rust files found: the walk is broken", sources.len());
    sources.iter().flat_map(check).collect()
}

/// `crates/NAME` and `testing/NAME` for every folder that has a `src`.
fn crate_folders(tree: &Tree) -> Vec<String> {
    let folder = |path: &String| path.split_once("/src/").map(|(folder, _)| folder.to_string());
    let mut folders: Vec<String> = tree.files.keys().filter_map(folder).collect();
    folders.retain(|folder| folder.starts_with("crates/") || folder.starts_with("testing/"));
    folders.dedup();
    folders
}

fn judge(rules: &[Rule], offences: Vec<Offence>) {
    let mut left = remaining(rules, offences, &EXCEPTIONS);
    left.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    let list: Vec<String> = left.iter().map(ToString::to_string).collect();
    assert!(list.is_empty(), "{} offences:\n{}", list.len(), list.join("\n"));
}

/// The tree has more; a walk that misses it must not pass for a tidy tree.
const SOURCES_MIN: usize = 200;
