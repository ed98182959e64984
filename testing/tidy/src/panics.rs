//! `.unwrap()` and `.expect(` in deciders: input must not be able to stop the server.
//!
//! Covers `src/` of the crates below the driver layer, tests apart. A place that cannot fail whatever comes in
//! is excepted in [`crate::exceptions`] by the function's name, with the proof in the reason.
//! Indexing, slicing and arithmetic can stop it too; those are the fuzzers' and the tests' to find.

use crate::layers::is_decider;
use crate::{Offence, Rule, Source};

/// Calls of `source` that panic on a value.
pub fn check(source: &Source) -> Vec<Offence> {
    if !source.crate_name().is_some_and(is_decider) {
        return Vec::new();
    }
    let functions = source.functions();
    let mut found = Vec::new();
    for call in [".unwrap()", ".expect("] {
        for (at, _) in source.code.match_indices(call).filter(|(at, _)| !source.in_test(*at)) {
            // Functions may be nested: the last one that began is the inner one.
            let within = functions.iter().rfind(|f| f.span.contains(&at));
            found.push(Offence {
                rule: Rule::Panic,
                path: source.path.clone(),
                line: source.line(at),
                name: within.map_or(String::new(), |f| f.name.clone()),
                what: format!("`{call}` in a decider"),
                instead: "return an error or a default; if it cannot fail, prove it in testing/tidy/src/exceptions.rs",
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &str, text: &str) -> Vec<String> {
        check(&Source::new(path, text)).into_iter().map(|o| o.name).collect()
    }

    #[test]
    fn panicking_calls_are_flagged_with_their_function() {
        let text = "fn a(x: Option<u8>) -> u8 {\n    x.unwrap()\n}\nfn b(x: Option<u8>) -> u8 { fn c() {} x.expect(\"some\") }";
        assert_eq!(names("crates/spool/src/log.rs", text), ["a", "b"]);
        assert_eq!(check(&Source::new("crates/spool/src/log.rs", text))[0].line, 2);
    }

    #[test]
    fn sound_code_tests_and_drivers_pass() {
        let sound = "fn a(x: Option<u8>) -> u8 { x.unwrap_or(0) + x.unwrap_or_default() } // .unwrap()\n\
            #[cfg(test)]\nmod tests { fn t() { None::<u8>.unwrap(); } }";
        assert_eq!(names("crates/spool/src/log.rs", sound), Vec::<String>::new());
        let text = "fn a(x: Option<u8>) { x.unwrap(); }";
        assert_eq!(names("crates/spool/tests/log.rs", text), Vec::<String>::new());
        assert_eq!(names("crates/store/src/writer.rs", text), Vec::<String>::new());
    }
}
