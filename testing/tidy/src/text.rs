//! What no file of the tree may hold, and what the tree must: no machine's paths, both licences.
//!
//! A path of the machine something was written on works nowhere else and tells what is nobody's
//! business. It is one that begins at the root; what follows a variable, or a URL's path, is none.

use crate::{Offence, Rule};

/// Folders at the root in which people and machines keep their own things.
pub const MACHINE_FOLDERS: [&str; 3] = ["work", "root", "home"];

/// The licence files and a sentence each must hold.
pub const LICENCES: [(&str, &str); 2] =
    [("LICENSE-APACHE", "Apache License"), ("LICENSE-MIT", "Permission is hereby granted, free of charge")];

/// Paths of one machine in `text`.
pub fn machine_paths(path: &str, text: &str) -> Vec<Offence> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for name in MACHINE_FOLDERS {
            let folder = format!("/{name}/");
            let starts = line.match_indices(&folder).filter(|(at, _)| begins_at_root(&line[..*at]));
            found.extend(starts.map(|_| Offence {
                rule: Rule::Text,
                path: path.into(),
                line: index + 1,
                name: name.into(),
                what: format!("a path of one machine ({folder})"),
                instead: "write it relative to the checkout, or from a variable",
            }));
        }
    }
    found
}

/// True when a slash behind `before` is the root: nothing it could be a part of stands before it.
fn begins_at_root(before: &str) -> bool {
    let joins = |c: char| c.is_alphanumeric() || "._-~}$)%*/".contains(c);
    // `"$DIR"/x`: a quote that closes something joins as well.
    let unquoted = before.strip_suffix(['"', '\'']).unwrap_or(before);
    !unquoted.ends_with(joins)
}

/// Licence files that are not there; `read` gives a file's text.
pub fn licences(read: impl Fn(&str) -> Option<String>) -> Vec<Offence> {
    let missing = LICENCES.iter().filter(|(file, phrase)| !read(file).is_some_and(|text| text.contains(phrase)));
    missing
        .map(|(file, phrase)| Offence {
            rule: Rule::Text,
            path: (*file).into(),
            line: 1,
            name: String::new(),
            what: format!("no such file, or not a licence (`{phrase}` is not in it)"),
            instead: "put the licence's standard text there",
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_paths_are_flagged() {
        for line in
            ["cd {/}work/x", "\"{/}root/.cargo\"", "x={/}home/me/y", "({/}home/me)", "file:{/}work/x", "a:{/}root/b"]
        {
            // Written with a mark, or this file would be flagged itself.
            let line = line.replace("{/}", "/");
            let found = machine_paths("a.sh", &format!("first\n{line}\n"));
            assert_eq!(found.len(), 1, "{line}");
            assert!(found[0].to_string().starts_with("a.sh:2: a path of one machine ("), "{}", found[0]);
        }
    }

    #[test]
    fn other_paths_pass() {
        for line in [
            "$HOME{/}work/x",
            "~{/}work/y",
            "target{/}work/z",
            "${DIR}{/}root/a",
            "https://example.com/home/",
            "/var/spool",
            "/rooted/",
        ] {
            assert_eq!(machine_paths("a.sh", &line.replace("{/}", "/")), [], "{line}");
        }
    }

    #[test]
    fn missing_licences_are_flagged() {
        assert_eq!(licences(|_| None).len(), 2);
        assert_eq!(licences(|_| Some("Apache License".into())).len(), 1);
        let both = "Apache License ... Permission is hereby granted, free of charge, to any person";
        assert_eq!(licences(|_| Some(both.into())), []);
    }
}
