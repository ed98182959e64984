//! Cargo.toml files: every dependency pinned once, with its reason; every crate under the lints.
//!
//! Read line by line, not as TOML: a dependency takes one line, so that its reason stands beside
//! it. In the root's `[workspace.dependencies]` a foreign crate has an exact version (`=1.2.3`) and
//! a trailing comment; ours have a path. Elsewhere a dependency is `name.workspace = true`. The
//! fuzz crate stands outside the workspace and pins like the root.

use crate::{Offence, Rule};

/// Faults of the root's Cargo.toml, or of a crate's outside the workspace.
pub fn pins(path: &str, text: &str) -> Vec<Offence> {
    let mut found = Vec::new();
    for (line, name, value) in dependencies(text) {
        let (value, comment) = split_comment(value);
        if value.contains("path =") || value.contains("workspace = true") {
            continue;
        }
        let is_whole = value.matches(['{', '[']).count() == value.matches(['}', ']']).count();
        let fault = if !is_whole {
            Some(("is not on one line", "write it on one line"))
        } else if !version(value).is_some_and(is_exact) {
            Some(("is not pinned", "give an exact version: \"=1.2.3\""))
        } else if comment.trim().is_empty() {
            Some(("has no reason", "say behind it, in a comment, why it is here"))
        } else {
            None
        };
        found.extend(
            fault.map(|(what, instead)| offence(path, line, name, format!("dependency {name} {what}"), instead)),
        );
    }
    found
}

/// Faults of a crate's Cargo.toml inside the workspace.
pub fn member(path: &str, text: &str) -> Vec<Offence> {
    let mut found = Vec::new();
    for (line, name, value) in dependencies(text) {
        if !split_comment(value).0.contains("workspace = true") && !name.ends_with(".workspace") {
            let what = format!("dependency {name} is not the workspace's");
            found.push(offence(
                path,
                line,
                name,
                what,
                "pin it in the root's Cargo.toml; here `name.workspace = true`",
            ));
        }
    }
    let lints = text.lines().skip_while(|line| line.trim() != "[lints]").nth(1);
    if lints.map(str::trim) != Some("workspace = true") {
        let what = "the crate is not under the workspace's lints".into();
        found.push(offence(path, 1, "", what, "add `[lints]` and on the next line `workspace = true`"));
    }
    found
}

fn offence(path: &str, line: usize, name: &str, what: String, instead: &'static str) -> Offence {
    Offence { rule: Rule::Manifest, path: path.into(), line, name: name.into(), what, instead }
}

/// Line, name and value of each entry of each table of dependencies.
fn dependencies(text: &str) -> Vec<(usize, &str, &str)> {
    let mut inside = false;
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(table) = line.strip_prefix('[') {
            inside = table.split(']').next().is_some_and(|table| table.ends_with("dependencies"));
        } else if inside && !line.starts_with('#') && !line.is_empty() {
            let (name, value) = line.split_once('=').unwrap_or((line, ""));
            found.push((index + 1, name.trim(), value.trim()));
        }
    }
    found
}

/// A value and the comment behind it; `#` inside quotes is neither.
fn split_comment(value: &str) -> (&str, &str) {
    let mut quoted = false;
    for (at, octet) in value.bytes().enumerate() {
        match octet {
            b'"' => quoted = !quoted,
            b'#' if !quoted => return (&value[..at], &value[at + 1..]),
            _ => {}
        }
    }
    (value, "")
}

/// The version in `"=1.2.3"` or `{ version = "=1.2.3", ... }`.
fn version(value: &str) -> Option<&str> {
    let rest = match value.strip_prefix('"') {
        Some(rest) => rest,
        None => value.split_once("version = \"")?.1,
    };
    rest.split('"').next()
}

/// `=` and three numbers; what follows them (a pre-release) belongs to the version.
fn is_exact(version: &str) -> bool {
    let numbers =
        version.strip_prefix('=').map(|v| v.split('.').take_while(|n| n.starts_with(|c: char| c.is_ascii_digit())));
    numbers.is_some_and(|numbers| numbers.count() >= 3) && !version.contains(',')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pinned(line: &str) -> Vec<String> {
        let text =
            format!("[workspace]\nmembers = [\"a\"]\n[workspace.dependencies]\n{line}\n[profile.dev]\nopt-level = 1\n");
        pins("Cargo.toml", &text).iter().map(Offence::to_string).collect()
    }

    #[test]
    fn loose_versions_and_missing_reasons_are_flagged() {
        assert_eq!(
            pinned("a = \"1.2.3\" # why"),
            ["Cargo.toml:4: dependency a is not pinned; give an exact version: \"=1.2.3\""]
        );
        for loose in ["\"=1.2\"", "\"*\"", "{ git = \"x\" }", "\"=1.2.3, <2\"", "{ version = \"^1.2.3\" }"] {
            assert_eq!(pinned(&format!("a = {loose} # why")).len(), 1, "{loose}");
        }
        assert_eq!(
            pinned("a = \"=1.2.3\""),
            ["Cargo.toml:4: dependency a has no reason; say behind it, in a comment, why it is here"]
        );
        assert_eq!(pinned("a = { version = \"=1.2.3\", features = [").len(), 1);
    }

    #[test]
    fn pinned_and_explained_passes() {
        for sound in [
            "a = \"=1.2.3\" # why",
            "a = { version = \"=1.2.3\", features = [\"x#y\"] } # why",
            "a = { path = \"crates/a\" }",
            "# -- a heading",
            "a = \"=1.2.3-rc.1\" # why",
        ] {
            assert_eq!(pinned(sound), Vec::<String>::new(), "{sound}");
        }
    }

    #[test]
    fn members_inherit_dependencies_and_lints() {
        let sound = "[package]\nname = \"a\"\n[lints]\nworkspace = true\n[dependencies]\nb.workspace = true\n\
            c = { workspace = true, features = [\"x\"] }\n[dev-dependencies]\nd.workspace = true\n";
        assert_eq!(member("crates/a/Cargo.toml", sound), []);
        let own = sound.replace("b.workspace = true", "b = \"=1.0.0\"");
        assert_eq!(member("crates/a/Cargo.toml", &own)[0].line, 6);
        let free = sound.replace("[lints]\nworkspace = true\n", "");
        assert_eq!(member("crates/a/Cargo.toml", &free)[0].what, "the crate is not under the workspace's lints");
    }
}
