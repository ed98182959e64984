//! How soon the console is there for somebody whose browser has never seen it.
//!
//! Alone in its program: tests that run beside it would be timed too.

use e2e::stage::Stage;

#[test]
fn the_first_paint_of_the_first_visit_comes_within_a_second() {
    let mut stage = Stage::set();
    stage.go("");
    let first_ms = painted_ms(&mut stage);
    // What is kept from now on: for comparison.
    stage.go("");
    let second_ms = painted_ms(&mut stage);
    println!("first paint after {first_ms:.0} ms, at the second visit after {second_ms:.0} ms");
    let loaded = stage.browser.loaded();
    assert!(loaded.iter().any(|one| one.url.ends_with("/console/overview.js")), "the whole page: {loaded:?}");
    assert!(first_ms < PAINT_MAX_MS, "first paint after {first_ms} ms");
}

/// From the begin of a visit to the first text.
fn painted_ms(stage: &mut Stage) -> f64 {
    let paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime";
    stage.browser.until(paint).as_f64().expect("milliseconds")
}

const PAINT_MAX_MS: f64 = 1000.0;
