//! A Rust file of the tree: its text, its code, its functions, and which parts are tests.
//!
//! In: path and text. A part is a test when it stands under `#[cfg(test)]`, `#[test]` or
//! `#[...::test]`, when the whole file is a module declared under one ([`crate::Tree`] finds
//! these), or when it lies in a crate's `tests/`, `examples/` or `benches/`.

use crate::lexer::{behind_closing, code, is_word, words};
use core::ops::Range;

/// A Rust file.
#[derive(Clone, Debug)]
pub struct Source {
    /// Relative to the root, with `/`.
    pub path: String,
    /// As it is.
    pub text: String,
    /// With comments and literals blanked, offsets kept.
    pub code: String,
    /// The whole file is a test.
    pub is_test: bool,
    lines: Vec<usize>,
    tests: Vec<TestItem>,
}

/// A function with a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name alone.
    pub name: String,
    /// Line of `fn`, from 1.
    pub line: usize,
    /// Lines from `fn` to the closing brace.
    pub lines: usize,
    /// From `fn` to the closing brace, in octets.
    pub span: Range<usize>,
    /// Carries `#[test]` or the like.
    pub is_test: bool,
}

/// An attribute, `#[...]` or `#![...]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// Offset of `#`.
    pub at: usize,
    /// Between the brackets.
    pub text: &'a str,
    /// Offset behind the bracket.
    pub end: usize,
}

#[derive(Clone, Debug)]
struct TestItem {
    span: Range<usize>,
    is_function: bool,
}

impl Source {
    /// Reads `text`, the file at `path`.
    pub fn new(path: &str, text: &str) -> Source {
        let code = code(text);
        let line_starts = text.bytes().enumerate().filter(|(_, o)| *o == b'\n').map(|(at, _)| at + 1);
        let lines = core::iter::once(0).chain(line_starts).collect();
        let tests = test_items(&code);
        let is_test = OUTSIDE_SRC.iter().any(|folder| path.contains(folder));
        Source { path: path.into(), text: text.into(), is_test, lines, tests, code }
    }

    /// Line of an offset, from 1.
    pub fn line(&self, at: usize) -> usize {
        self.lines.partition_point(|start| *start <= at)
    }

    /// True when the offset lies in a test.
    pub fn in_test(&self, at: usize) -> bool {
        self.is_test || self.tests.iter().any(|item| item.span.contains(&at))
    }

    /// The folder under `crates/` or `testing/` the file belongs to.
    pub fn crate_name(&self) -> Option<&str> {
        let mut parts = self.path.split('/');
        match parts.next() {
            Some("crates" | "testing") => parts.next().filter(|_| parts.next().is_some()),
            _ => None,
        }
    }

    /// Every function that has a body, in the order of the file.
    pub fn functions(&self) -> Vec<Function> {
        words(&self.code, "fn").filter_map(|at| self.function(at)).collect()
    }

    /// Every attribute.
    pub fn attributes(&self) -> Vec<Attribute<'_>> {
        attributes(&self.code)
    }

    /// Files that `mod name;` under a test attribute stands for, as far as they may exist.
    pub fn test_module_files(&self) -> Vec<String> {
        let (folder, stem) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        let stem = stem.strip_suffix(".rs").unwrap_or(stem);
        let below = if matches!(stem, "lib" | "main" | "mod") { folder.into() } else { format!("{folder}/{stem}") };
        let mut files = Vec::new();
        for item in self.tests.iter().filter(|item| !item.is_function) {
            let code = &self.code[item.span.clone()];
            let Some(name) = code.strip_suffix(';').and_then(|c| c.rsplit_once("mod ")).map(|(_, name)| name.trim())
            else {
                continue;
            };
            files.extend([format!("{below}/{name}.rs"), format!("{below}/{name}/mod.rs")]);
            // The attribute's string is blank in the code; it stands in the text at the same place.
            let text = &self.text[item.span.clone()];
            let given = text.split_once("path = \"").and_then(|(_, rest)| rest.split_once('"'));
            files.extend(given.map(|(given, _)| format!("{folder}/{given}")));
        }
        files
    }

    fn function(&self, at: usize) -> Option<Function> {
        let octets = self.code.as_bytes();
        let rest = self.code[at + 2..].trim_start();
        let name: String = rest.chars().take_while(|c| *c == '_' || c.is_alphanumeric()).collect();
        if name.is_empty() {
            return None;
        }
        let end = item_end(octets, at);
        if octets[end - 1] != b'}' {
            return None;
        }
        let is_test = self.tests.iter().any(|item| {
            let first = words(&self.code[item.span.clone()], "fn").next();
            item.is_function && first.is_some_and(|first| item.span.start + first == at)
        });
        let line = self.line(at);
        Some(Function { name, line, lines: self.line(end - 1) - line + 1, span: at..end, is_test })
    }
}

fn attributes(code: &str) -> Vec<Attribute<'_>> {
    let octets = code.as_bytes();
    let mut found = Vec::new();
    for (at, _) in code.match_indices('#') {
        let open = at + 1 + usize::from(octets.get(at + 1) == Some(&b'!'));
        if octets.get(open) == Some(&b'[') {
            let end = behind_closing(octets, open);
            let text = code.get(open + 1..end - 1).unwrap_or("").trim();
            found.push(Attribute { at, text, end });
        }
    }
    found
}

/// The items under a test attribute, attribute included.
fn test_items(code: &str) -> Vec<TestItem> {
    let is_function = |text: &str| {
        let path = text.split(['(', ' ']).next().unwrap_or("");
        path == "test" || path.ends_with("::test")
    };
    let found = attributes(code).into_iter().filter_map(|attribute| {
        let text: String = attribute.text.split_whitespace().collect();
        let is_function = is_function(attribute.text);
        let is_module = text.starts_with("cfg(test)") || text.starts_with("cfg(all(test");
        (is_function || is_module)
            .then(|| TestItem { span: attribute.at..item_end(code.as_bytes(), attribute.end), is_function })
    });
    found.collect()
}

/// The offset behind the item at `at`: behind its body, or behind its semicolon.
fn item_end(code: &[u8], mut at: usize) -> usize {
    while at < code.len() {
        match code[at] {
            b'{' => return behind_closing(code, at),
            b';' => return at + 1,
            b'(' | b'[' => at = behind_closing(code, at),
            octet if is_word(octet) => at += code[at..].iter().take_while(|o| is_word(**o)).count(),
            _ => at += 1,
        }
    }
    code.len()
}

const OUTSIDE_SRC: [&str; 3] = ["/tests/", "/examples/", "/benches/"];

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "//! Page.\n\
        fn one(x: [u8; 2]) -> Option<fn(u8)> {\n    let s = \"}\";\n    // }\n    if x[0] == b'}' { loop {} }\n}\n\
        trait T {\n    fn no_body(&self);\n    fn body(&self) {}\n}\n\
        #[cfg(test)]\nmod tests {\n    #[test]\n    #[should_panic]\n    fn first() {\n        fn inner() {}\n    }\n    fn helper() {}\n}\n";

    #[test]
    fn functions_are_measured_from_fn_to_brace() {
        let source = Source::new("crates/x/src/lib.rs", SAMPLE);
        let found: Vec<_> = source.functions().into_iter().map(|f| (f.name, f.line, f.lines, f.is_test)).collect();
        let expected = [
            ("one", 2, 5, false),
            ("body", 9, 1, false),
            ("first", 15, 3, true),
            ("inner", 16, 1, false),
            ("helper", 18, 1, false),
        ];
        assert_eq!(found, expected.map(|(name, line, lines, test)| (name.to_string(), line, lines, test)));
    }

    #[test]
    fn test_code_is_known_by_its_attribute_and_its_folder() {
        let source = Source::new("crates/x/src/lib.rs", SAMPLE);
        assert!(!source.in_test(SAMPLE.find("no_body").unwrap()));
        assert!(source.in_test(SAMPLE.find("helper").unwrap()));
        assert!(Source::new("crates/x/tests/a.rs", "fn f() {}").in_test(0));
        assert!(!Source::new("crates/x/src/a.rs", "#[cfg(not(test))] fn f() {}").in_test(20));
        assert!(Source::new("crates/x/src/a.rs", "#[tokio::test(start_paused = true)] async fn f() {}").in_test(40));
    }

    #[test]
    fn modules_declared_under_test_are_followed() {
        let source =
            Source::new("crates/x/src/dns/a.rs", "#[cfg(test)]\n#[path = \"a_tests.rs\"]\nmod tests;\nmod other;");
        let expected = ["dns/a/tests.rs", "dns/a/tests/mod.rs", "dns/a_tests.rs"].map(|f| format!("crates/x/src/{f}"));
        assert_eq!(source.test_module_files(), expected);
        let root = Source::new("crates/x/src/lib.rs", "#[cfg(test)] mod t;");
        assert_eq!(root.test_module_files()[0], "crates/x/src/t.rs");
    }

    #[test]
    fn the_crate_is_the_folder() {
        assert_eq!(Source::new("crates/x/src/lib.rs", "").crate_name(), Some("x"));
        assert_eq!(Source::new("testing/sim/src/lib.rs", "").crate_name(), Some("sim"));
        assert_eq!(Source::new("bench/run.rs", "").crate_name(), None);
    }
}
