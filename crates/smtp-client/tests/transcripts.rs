//! Plays the transcripts of `tests/transcripts/*.txt` against a session, each one whole, at
//! every split of the server's bytes, and octet by octet: all must agree with the transcript.
//!
//! A file holds transcripts headed by `=== name`. Lines:
//! `use key=value..` settings · `with a=b c=d` play once per pair, `{a}` and `{b}` replaced ·
//! `job N key=value..` · `C:` a line the client must send · `S:` a line of the server ·
//! `S~` raw server bytes with `\r \n \xNN` · `DROP why`, `TIMEOUT`, `TLS verified|unverified|failed` ·
//! `IDLE` do not QUIT when there is nothing to do · `= N: Verdict code [!]command | ..` outcome of
//! job N, recipient by recipient, `!` for a reply made by us · `= close: Reason Phase [clear]`.

mod player;

use player::{Feeding, Transcript};
use std::path::Path;

#[test]
fn all_transcripts_at_every_split() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let mut played = 0;
    for entry in std::fs::read_dir(folder).expect("the folder of transcripts") {
        let path = entry.expect("a folder entry").path();
        let text = std::fs::read_to_string(&path).expect("a transcript");
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for transcript in Transcript::parse_all(&file, &text) {
            play_every_way(&transcript);
            played += 1;
        }
    }
    assert!(played > 150, "only {played} transcripts were found");
}

fn play_every_way(transcript: &Transcript) {
    transcript.play(Feeding::Whole);
    transcript.play(Feeding::Octets);
    for cut in 1..transcript.server_bytes() {
        transcript.play(Feeding::CutAt(cut));
    }
}
