//! `tailer`: prints the records of a log directory, and goes on with those that come.
//!
//! In: a directory of segments (zstd streams of JSON lines), and which records are wanted ([`crate::record_filter`]). Out: a
//! line of JSON a record on stdout. A batch is printed, then the checkpoint is moved behind it: whoever kills the tailer gets
//! at most that batch again. What cannot be read is said on stderr and passed over, as a consumer must not stop at one damaged
//! line; a directory or checkpoint that cannot be used ends it. Which segment is over, and what a line is, jsonl knows.

use crate::record_filter::Filter;
use crate::verb::{is_broken_pipe, parsed};
use anyhow::Result;
use clap::Parser;
use config::{Duration, JsonlTailerOptions};
use jsonl::{Batch, JsonlError, Step, Tailer};
use serde_json::json;
use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Prints the records of a log directory, and goes on with those that come.
#[derive(Debug, Parser)]
#[command(name = "tailer", bin_name = "tailer", version)]
pub struct Options {
    /// Which file names are segments: those with a time, unless given.
    #[arg(long, value_name = "GLOB")]
    pattern: Option<String>,
    /// Remember in the file .NAME of the directory what was printed, and begin behind that. Without --tail, --no-follow and
    /// filters the name is tailer-checkpoint unless given; with any of them nothing is remembered unless it is given.
    #[arg(long, value_name = "NAME")]
    checkpoint: Option<String>,
    /// Records printed at a time.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    batch_size: usize,
    /// How long a record waits for others to be printed with.
    #[arg(long, value_name = "TIME", default_value = "1s")]
    batch_latency: Duration,
    /// Begin with the newest segment, and remember nothing.
    #[arg(long, conflicts_with = "checkpoint")]
    tail: bool,
    /// Wait for further records (the default).
    #[arg(long, conflicts_with = "no_follow")]
    follow: bool,
    /// End once everything that is there was printed.
    #[arg(long)]
    no_follow: bool,
    #[command(flatten)]
    filter: Filter,
    /// Where the segments are.
    directory: PathBuf,
}

/// `tailer` on this process's stdout and stderr.
///
/// # Errors
/// What kept it from going on; the caller prints it.
pub fn tailer(arguments: Vec<OsString>) -> Result<ExitCode> {
    let mut out = BufWriter::new(io::stdout().lock());
    match tailer_to(arguments, &mut out, &mut io::stderr()) {
        // Whoever read our output has seen enough.
        Err(error) if is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
        done => done.map(ExitCode::from),
    }
}

/// `tailer` with other streams. Returns the exit code.
///
/// # Errors
/// As [`tailer`].
pub fn tailer_to(arguments: Vec<OsString>, out: &mut dyn Write, notes: &mut dyn Write) -> Result<u8> {
    let options: Options = match parsed(arguments, out, notes)? {
        Ok(options) => options,
        Err(code) => return Ok(code),
    };
    let filter = options.filter.compiled()?;
    let tail = options.tail;
    let is_followed = options.follow || !options.no_follow;
    let jsonl = options.for_jsonl(is_followed && filter.is_empty())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(async {
        let mut tailer = if tail { Tailer::open_at_newest(jsonl)? } else { Tailer::open(jsonl)? };
        while let Some(step) = next(&mut tailer, is_followed).await {
            match step {
                Ok(Step::Closed) => break,
                Ok(Step::Record(offered)) => {
                    let kept = if filter.wants(&offered.record) { offered.consumers } else { Vec::new() };
                    tailer.decide(&kept);
                }
                Ok(Step::Batches(batches)) => {
                    for batch in batches {
                        print(batch, out).await?;
                    }
                }
                Err(fault) if is_passed_over(&fault) => writeln!(notes, "tailer: {fault}")?,
                Err(fault) => return Err(fault.into()),
            }
        }
        Ok(0)
    });
    // A thread of the runtime may still wait for the disk.
    runtime.shutdown_background();
    done
}

impl Options {
    /// What jsonl is asked for; `whole`: all there is and all that comes.
    fn for_jsonl(self, whole: bool) -> Result<JsonlTailerOptions> {
        let remembers = whole && !self.tail;
        let checkpoint = self.checkpoint.or_else(|| remembers.then(|| CHECKPOINT.to_owned()));
        let options = json!({
            "directory": self.directory,
            "pattern": self.pattern.as_deref().unwrap_or(SEGMENTS),
            "max_batch_size": self.batch_size,
            "max_batch_latency": self.batch_latency,
            "checkpoint_name": checkpoint,
        });
        Ok(config::parse("tailer", options)?)
    }
}

async fn next(tailer: &mut Tailer, is_followed: bool) -> Option<Result<Step, JsonlError>> {
    match is_followed {
        true => Some(tailer.step().await),
        false => tailer.step_now().await.transpose(),
    }
}

async fn print(mut batch: Batch, out: &mut dyn Write) -> Result<()> {
    for record in batch.records() {
        serde_json::to_writer(&mut *out, &**record).map_err(io::Error::from)?;
        out.write_all(b"\n")?;
    }
    out.flush()?;
    Ok(batch.commit().await?)
}

/// Faults of single lines and segments.
fn is_passed_over(fault: &JsonlError) -> bool {
    matches!(fault, JsonlError::NotJson { .. } | JsonlError::ReadTooLong { .. } | JsonlError::Damaged { .. })
}

/// The checkpoint of KumoMTA's tailer.
const CHECKPOINT: &str = "tailer-checkpoint";

/// Names with the time of a segment: what else lies in the directory, a diagnostic log for instance, is none.
const SEGMENTS: &str = "*[0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9]-[0-9][0-9][0-9][0-9][0-9][0-9]*";

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn segment(dir: &Path, name: &str, lines: &[&str]) {
        let text: String = lines.iter().flat_map(|line| [*line, "\n"]).collect();
        let path = dir.join(name);
        std::fs::write(&path, zstd::encode_all(text.as_bytes(), 1).expect("encodes")).expect("writes");
        let mut rights = std::fs::metadata(&path).expect("there").permissions();
        rights.set_readonly(true);
        std::fs::set_permissions(&path, rights).expect("read-only");
    }

    fn run(dir: &Path, words: &[&str]) -> (String, String) {
        let mut arguments: Vec<OsString> =
            core::iter::once("tailer").chain(words.iter().copied()).map(Into::into).collect();
        arguments.push(dir.into());
        let (mut out, mut notes) = (Vec::new(), Vec::new());
        let code = tailer_to(arguments, &mut out, &mut notes).expect("runs");
        let [out, notes] = [out, notes].map(|text| String::from_utf8(text).expect("text"));
        assert_eq!(code, if notes.contains("--help") { 2 } else { 0 }, "{notes}");
        (out, notes)
    }

    #[test]
    fn everything_is_printed_in_order_and_remembered_when_asked() {
        let dir = tempfile::tempdir().expect("scratch");
        segment(dir.path(), "20261125-033000.000000001", &[r#"{"id":"a","n":1}"#, "no json", r#"{"id":"b"}"#]);
        segment(dir.path(), "20261125-033000.000000002", &[r#"{"id":"c"}"#]);
        // No segment, and behind them by its name.
        std::fs::write(dir.path().join("kumod-diagnostics.2026-11-25"), "for people").expect("writes");
        let all = "{\"id\":\"a\",\"n\":1}\n{\"id\":\"b\"}\n{\"id\":\"c\"}\n";
        for _ in 0..2 {
            let (out, notes) = run(dir.path(), &["--no-follow"]);
            assert_eq!(out, all);
            assert!(notes.contains("tailer: ") && notes.contains("line 2"), "{notes}");
        }
        assert_eq!(run(dir.path(), &["--no-follow", "--checkpoint", "mine"]).0, all);
        assert_eq!(run(dir.path(), &["--no-follow", "--checkpoint", "mine"]).0, "");
        segment(dir.path(), "20261125-033000.000000003", &[r#"{"id":"d"}"#]);
        assert_eq!(run(dir.path(), &["--no-follow", "--checkpoint", "mine"]).0, "{\"id\":\"d\"}\n");
        assert_eq!(run(dir.path(), &["--no-follow", "--tail"]).0, "{\"id\":\"d\"}\n", "the newest segment");
        assert_eq!(run(dir.path(), &["--no-follow", "--pattern", "*[12]", "--tail"]).0, "{\"id\":\"c\"}\n");
        assert_eq!(run(dir.path(), &["--no-follow", "--id", "b", "--id", "D"]).0, "{\"id\":\"b\"}\n{\"id\":\"d\"}\n");
    }

    #[test]
    fn only_the_whole_stream_has_a_checkpoint_by_itself() {
        let named = |words: &[&str], whole| {
            let words = ["tailer", "/var/log/kumomta"].iter().chain(words);
            Options::try_parse_from(words).expect("sound").for_jsonl(whole).expect("sound").checkpoint_name
        };
        assert_eq!(named(&[], true).as_deref(), Some("tailer-checkpoint"));
        assert_eq!(named(&["--checkpoint", "x"], false).as_deref(), Some("x"));
        assert_eq!((named(&[], false), named(&["--tail"], true)), (None, None));
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let dir = tempfile::tempdir().expect("scratch");
        for (words, says) in [
            (&["--tail", "--checkpoint", "x"][..], "--tail"),
            (&["--follow", "--no-follow"], "--no-follow"),
            (&["--batch-latency", "soon"], "soon"),
        ] {
            let (_, notes) = run(dir.path(), words);
            assert!(notes.contains(says), "{notes}");
        }
        let error = |words: &[&str]| {
            let words = core::iter::once("tailer").chain(words.iter().copied()).map(Into::into).collect();
            format!("{:#}", tailer_to(words, &mut Vec::new(), &mut Vec::new()).expect_err("refused"))
        };
        assert!(error(&["/nowhere/at/all"]).contains("/nowhere/at/all"));
        assert!(
            error(&["--batch-size", "0", "/"]).contains("max_batch_size"),
            "{}",
            error(&["--batch-size", "0", "/"])
        );
        assert!(error(&["--type", "Deliverie", "/"]).contains("Deliverie"));
    }
}
