//! The shape of a file: its page, its length, the length of its functions.
//!
//! A reader decides on the first screen whether to stay, so the first line of every Rust file is
//! the first line of its `//!` page. Length is counted in lines as laid out by rustfmt.toml, comments
//! and blank lines included; a function from the line of `fn` to that of its closing brace.

use crate::{Offence, Rule, Source};

/// Lines of a file of code.
pub const FILE_LINES_MAX: usize = 800;
/// Lines of a function.
pub const FUNCTION_LINES_MAX: usize = 70;
/// Lines of a function that is one `#[test]`: a story told in order may be longer.
pub const TEST_LINES_MAX: usize = 120;

/// The missing page, and functions over the limit.
pub fn check(source: &Source) -> Vec<Offence> {
    let offence = |rule, line, name: &str, what, instead| Offence {
        rule,
        path: source.path.clone(),
        line,
        name: name.into(),
        what,
        instead,
    };
    let mut found = Vec::new();
    let first = source.text.lines().next().unwrap_or("");
    if first.strip_prefix("//! ").is_none_or(|page| page.trim().is_empty()) {
        let what = "the first line is not the file's `//!` page".into();
        let instead = "say what this room is, what comes in and goes out, what can fail, what it does not do";
        found.push(offence(Rule::Page, 1, "", what, instead));
    }
    for function in source.functions() {
        let lines_max = if function.is_test { TEST_LINES_MAX } else { FUNCTION_LINES_MAX };
        if function.lines > lines_max {
            let what = format!("function {} has {} lines, {lines_max} are allowed", function.name, function.lines);
            let instead = "take out the leaves and leave the branches; or except it with a reason";
            found.push(offence(Rule::FunctionLength, function.line, &function.name, what, instead));
        }
    }
    found
}

/// A file of code (any language) over the limit.
pub fn file_length(path: &str, text: &str) -> Option<Offence> {
    let lines = text.lines().count();
    (lines > FILE_LINES_MAX).then(|| Offence {
        rule: Rule::FileLength,
        path: path.into(),
        line: FILE_LINES_MAX + 1,
        name: String::new(),
        what: format!("{lines} lines, {FILE_LINES_MAX} are allowed"),
        instead: "split it by noun or verb",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Vec<Rule> {
        check(&Source::new("crates/queue/src/gate.rs", text)).into_iter().map(|o| o.rule).collect()
    }

    #[test]
    fn a_file_without_a_page_is_flagged() {
        for text in ["", "use a::b;", "// Not a page.", "//!", "//!  \nuse a::b;", "\n//! Too late."] {
            assert_eq!(rules(text), [Rule::Page], "{text:?}");
        }
        assert_eq!(rules("//! The gate: why a message waits.\nuse a::b;"), []);
    }

    #[test]
    fn functions_are_flagged_at_bound_plus_one() {
        let function = |attribute: &str, lines: usize| {
            let body = "    g();\n".repeat(lines - 2);
            format!("//! Page.\n{attribute}fn long_one() {{\n{body}}}\n")
        };
        assert_eq!(rules(&function("", 70)), []);
        assert_eq!(rules(&function("", 71)), [Rule::FunctionLength]);
        assert_eq!(rules(&function("#[test]\n", 120)), []);
        assert_eq!(rules(&function("#[test]\n", 121)), [Rule::FunctionLength]);
        let offence = &check(&Source::new("a.rs", &function("", 71)))[0];
        assert!(
            offence.to_string().starts_with("a.rs:2: function long_one has 71 lines, 70 are allowed; "),
            "{offence}"
        );
    }

    #[test]
    fn files_are_flagged_at_bound_plus_one() {
        assert_eq!(file_length("a.rs", &"x\n".repeat(800)), None);
        let offence = file_length("a.rs", &"x\n".repeat(801)).expect("too long");
        assert_eq!(offence.to_string(), "a.rs:801: 801 lines, 800 are allowed; split it by noun or verb");
    }
}
