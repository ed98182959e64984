//! `GET /api/admin/config-changes/v1`: the last configuration epochs, and how the files of each differ from those before.
//!
//! Secrets are taken out by who compares them.

use crate::answer::{Json, civil};
use crate::forms::Moment;
use axum::extract::State;
use engine::{Change, ChangedLine, Engine, EpochNote, FileChange};
use schemars::JsonSchema;
use serde::Serialize;
use time::OffsetDateTime;

/// The answer, the latest first.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ConfigChanges")]
pub(crate) struct Answer {
    epochs: Vec<Epoch>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChangedEpoch")]
struct Epoch {
    /// Tells it from others; a failure that is met again keeps its own.
    serial: u64,
    /// Null where none began.
    number: Option<u64>,
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "Moment")]
    at: OffsetDateTime,
    origin: String,
    needs_restart: Vec<String>,
    /// Why it did not begin.
    error: Option<String>,
    files: Vec<File>,
}

/// A watched file that differs from the one of the epoch that was in force.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChangedFile")]
struct File {
    file: String,
    change: What,
    lines: Vec<Line>,
    /// Why no lines are shown, or not all.
    withheld: Option<&'static str>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChangedLine")]
struct Line {
    change: What,
    /// In the file as it was for one that was removed, else as it is now.
    number: usize,
    text: String,
}

/// `gap` stands for lines that are as they were.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Change")]
#[serde(rename_all = "lowercase")]
enum What {
    Added,
    Removed,
    Changed,
    Same,
    Gap,
}

pub(crate) async fn changes(State(engine): State<Engine>) -> Json<Answer> {
    Json(Answer { epochs: engine.epoch_notes().into_iter().map(Epoch::from).collect() })
}

impl From<EpochNote> for Epoch {
    fn from(EpochNote { serial, number, at, origin, needs_restart, error, files }: EpochNote) -> Epoch {
        let files = files.iter().cloned().map(File::from).collect();
        Epoch { serial, number, at: civil(at), origin, needs_restart, error, files }
    }
}

impl From<FileChange> for File {
    fn from(FileChange { file, change, lines, withheld }: FileChange) -> File {
        File { file, change: change.into(), lines: lines.into_iter().map(Line::from).collect(), withheld }
    }
}

impl From<ChangedLine> for Line {
    fn from(ChangedLine { change, number, text }: ChangedLine) -> Line {
        Line { change: change.into(), number, text }
    }
}

impl From<Change> for What {
    fn from(change: Change) -> What {
        match change {
            Change::Added => What::Added,
            Change::Removed => What::Removed,
            Change::Changed => What::Changed,
            Change::Same => What::Same,
            Change::Gap => What::Gap,
        }
    }
}
