//! Words that must not stay in the tree: `unsafe`, unfinished work, silenced warnings, printing.
//!
//! `unsafe` is nowhere allowed, tests included ([`crate::exceptions`] has no module for it).
//! `todo!`, `unimplemented!`, `dbg!` and `#[ignore]` are work not done. `#[allow(dead_code)]` hides
//! code nobody calls; a support module of integration tests may carry it with a `reason`, because
//! each test program uses another part of it. Code in documentation is a test that nothing runs.
//! Printing is for the faces with a command line; a library says what happened through its return value,
//! a record or `tracing`.

use crate::lexer::words;
use crate::{Offence, Rule, Source};

/// Tags of a fence whose content is Rust.
const RUST_FENCES: [&str; 6] = ["", "rust", "no_run", "should_panic", "compile_fail", "ignore"];

/// Crates whose library prints: they are command lines.
pub const PRINTING_CRATES: [&str; 3] = ["traffic", "cli", "postrider"];

/// Offending words of `source`.
pub fn check(source: &Source) -> Vec<Offence> {
    let offence = |at, name: &str, instead| Offence {
        rule: Rule::Leftover,
        path: source.path.clone(),
        line: source.line(at),
        name: name.into(),
        what: format!("`{name}`"),
        instead,
    };
    let mut found = Vec::new();
    for at in words(&source.code, "unsafe") {
        found.push(offence(at, "unsafe", "use a safe call, or a library that wraps this one"));
    }
    for name in ["todo!", "unimplemented!", "dbg!"] {
        found.extend(macros(source, name).map(|at| offence(at, name, "finish it or take it out")));
    }
    for attribute in source.attributes() {
        let text: String = attribute.text.split_whitespace().collect();
        if text == "ignore" || text.starts_with("ignore=") {
            found.push(offence(attribute.at, "#[ignore]", "make the test run everywhere, or delete it"));
        }
        for lint in ["dead_code", "unused"] {
            let silences = text.starts_with("allow(") && words(attribute.text, lint).next().is_some();
            let explained = source.is_test && text.contains("reason=");
            if silences && !explained {
                found.push(offence(attribute.at, &format!("#[allow({lint})]"), "delete what nothing uses"));
            }
        }
    }
    found.extend(
        doc_tests(source).map(|at| offence(at, "doc test", "write a test: `make test` runs no code of comments")),
    );
    if !may_print(source) {
        for name in ["println!", "print!", "eprintln!", "eprint!"] {
            let printed = macros(source, name).filter(|at| !source.in_test(*at));
            found.extend(printed.map(|at| offence(at, name, "return it, or use tracing")));
        }
    }
    found
}

fn may_print(source: &Source) -> bool {
    let in_crates = source.path.starts_with("crates/");
    !in_crates || source.crate_name().is_some_and(|name| PRINTING_CRATES.contains(&name))
}

/// Offsets of fences in documentation that open code without a language, or in Rust.
fn doc_tests(source: &Source) -> impl Iterator<Item = usize> + '_ {
    let mut open = false;
    let mut at = 0;
    source.text.split_inclusive('\n').filter_map(move |line| {
        let begin = at;
        at += line.len();
        let comment = line.trim_start();
        let documented = comment.strip_prefix("///").or_else(|| comment.strip_prefix("//!"))?;
        let language = documented.trim().strip_prefix("```")?;
        open = !open;
        (open && language.split(',').all(|tag| RUST_FENCES.contains(&tag.trim()))).then_some(begin)
    })
}

/// Offsets at which a macro is called. `name` ends in `!`.
fn macros<'a>(source: &'a Source, name: &'a str) -> impl Iterator<Item = usize> + 'a {
    let word = name.trim_end_matches('!');
    words(&source.code, word).filter(move |at| source.code[*at..].starts_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &str, text: &str) -> Vec<String> {
        check(&Source::new(path, text)).into_iter().map(|o| o.name).collect()
    }

    #[test]
    fn leftovers_are_flagged() {
        let text = "#![allow(dead_code)]\nfn f() { unsafe { g() } }\nfn h() { todo!() }\nfn i() { dbg!(1); }\n\
            fn j() { unimplemented!(\"x\") }\n#[test]\n#[ignore = \"slow\"]\nfn k() {}\n#[allow(unused, reason = \"soon\")]\nfn l() {}";
        assert_eq!(
            names("crates/queue/src/gate.rs", text),
            ["unsafe", "todo!", "unimplemented!", "dbg!", "#[allow(dead_code)]", "#[ignore]", "#[allow(unused)]"]
        );
        let offence = &check(&Source::new("crates/queue/src/gate.rs", "\n\nfn f() { todo!() }"))[0];
        assert_eq!(offence.to_string(), "crates/queue/src/gate.rs:3: `todo!`; finish it or take it out");
    }

    #[test]
    fn sound_code_passes() {
        let sound = "#![forbid(unsafe_code)]\n// unsafe todo!()\nfn f() -> &'static str { \"dbg!\" }\n\
            #[allow(clippy::too_many_arguments)]\nfn ignore() {}\nmod todo { fn unimplemented() {} }";
        assert_eq!(names("crates/queue/src/gate.rs", sound), Vec::<String>::new());
        let support = "#![allow(dead_code, reason = \"each test program uses its part\")]";
        assert_eq!(names("crates/spool/tests/common/mod.rs", support), Vec::<String>::new());
        assert_eq!(names("crates/spool/src/log.rs", support), ["#[allow(dead_code)]"]);
    }

    #[test]
    fn code_in_documentation_is_flagged_unless_it_is_text() {
        let text = "//! ```text\n//! a\n//! ```\n\n/// ```\n/// b\n/// ```\nfn f() {}\n    /// ```rust,no_run\n    /// ```\nfn g() {}";
        let found = check(&Source::new("crates/queue/src/gate.rs", text));
        assert_eq!(
            found.iter().map(|o| (o.line, o.name.as_str())).collect::<Vec<_>>(),
            [(5, "doc test"), (9, "doc test")]
        );
    }

    #[test]
    fn only_command_lines_print() {
        let text = "fn f() { println!(\"x\"); eprint!(\"y\"); }\n#[test]\nfn g() { println!(\"x\"); }";
        assert_eq!(names("crates/queue/src/gate.rs", text), ["println!", "eprint!"]);
        for path in
            ["crates/traffic/src/a.rs", "crates/queue/examples/a.rs", "crates/queue/tests/a.rs", "testing/sim/src/a.rs"]
        {
            assert_eq!(names(path, text), Vec::<String>::new(), "{path}");
        }
    }
}
