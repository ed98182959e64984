//! Every case of `corpus/` goes as it tells: one policy, one behaviour.

use e2e::corpus;
use std::fmt::Write;
use std::time::Instant;

/// `CORPUS_CASE=NAME` plays the cases whose names begin so, and no others.
#[test]
fn every_case_goes_as_it_tells() {
    let begun = Instant::now();
    let (mut cases, mut failures) = corpus::load();
    let count = cases.len() + failures.len();
    assert!(count >= CASES_MIN, "{count} cases: where are the others?");
    if let Ok(wanted) = std::env::var("CORPUS_CASE") {
        cases.retain(|case| case.name.starts_with(&wanted));
        assert!(!cases.is_empty(), "no case begins with {wanted}");
    }
    let played = cases.len() + failures.len();
    failures.extend(corpus::run(&cases, AT_ONCE));
    let mut report = String::new();
    for failure in &failures {
        writeln!(report, "\n=== {}\n{}", failure.name, failure.why).expect("a string takes everything");
    }
    println!("{} cases in {:?}", cases.len(), begun.elapsed());
    assert!(failures.is_empty(), "{report}\n{} of {played} cases failed", failures.len());
}

/// Fewer would mean that some were not found.
const CASES_MIN: usize = 230;
/// Most of a case is waiting.
const AT_ONCE: usize = 6;
