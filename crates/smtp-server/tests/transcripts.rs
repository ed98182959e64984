//! Every transcript under `tests/transcripts`, its input whole, cut at every octet, and octet by
//! octet: the server must say the same each time.

mod support;

use std::path::Path;
use support::script::{Event, Script};
use support::{Pieces, run};

#[test]
fn every_transcript_holds_however_its_input_is_cut() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let mut names: Vec<_> = std::fs::read_dir(&folder).expect("folder").map(|e| e.expect("entry").path()).collect();
    names.sort();
    let mut failures = Vec::new();
    for name in &names {
        let text = std::fs::read_to_string(name).expect("transcript");
        for (i, script) in Script::parse_all(&text).iter().enumerate() {
            if let Err((pieces, why)) = every_way(script) {
                let short = name.file_name().unwrap_or_default().display();
                failures.push(format!("{short} (variant {i}), {pieces:?}:\n{why}"));
            }
        }
    }
    assert!(names.len() >= 25, "transcripts are missing: {names:?}");
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

fn every_way(script: &Script) -> Result<(), (Pieces, String)> {
    let octets: usize = script.events.iter().map(|e| if let Event::Client(c) = e { c.len() } else { 0 }).sum();
    let mut ways = vec![Pieces::Whole];
    if script.may_be_cut {
        ways.push(Pieces::Single);
        ways.extend((1..octets).map(Pieces::CutAt));
    }
    ways.into_iter().try_for_each(|pieces| run(script, pieces).map_err(|why| (pieces, why)))
}
