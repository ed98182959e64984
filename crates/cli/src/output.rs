//! What both tools print with: a buffered stdout, words that cannot be mistaken for structure, exit codes.

use clock::WallTime;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// All is well.
pub(crate) const WELL: u8 = 0;
/// What was looked at is not well.
pub(crate) const WRONG: u8 = 1;
/// It could not be looked at.
pub(crate) const COULD_NOT: u8 = 2;

/// Runs a tool on stdout; every failure is a line on stderr and exit 2.
pub(crate) fn on_stdout(run: impl FnOnce(&mut dyn Write) -> anyhow::Result<u8>) -> ExitCode {
    let mut out = io::BufWriter::new(io::stdout().lock());
    match run(&mut out).and_then(|code| Ok(out.flush().map(|()| code)?)) {
        Ok(code) => ExitCode::from(code),
        // Whoever read our output has seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", causes(&error));
            ExitCode::from(COULD_NOT)
        }
    }
}

/// An error and what it came of, each said once: some name their cause themselves.
#[must_use]
pub fn causes(error: &anyhow::Error) -> String {
    let mut said = String::new();
    for cause in error.chain().map(ToString::to_string).filter(|cause| !cause.is_empty()) {
        match said.contains(&cause) {
            true => {}
            false if said.is_empty() => said = cause,
            false => said = format!("{said}: {cause}"),
        }
    }
    said
}

/// Parses a command line; `Err` is the exit code after help or a usage error was printed.
pub(crate) fn parsed<O: clap::Parser>(arguments: Vec<OsString>) -> anyhow::Result<Result<O, u8>> {
    match O::try_parse_from(arguments) {
        Ok(options) => Ok(Ok(options)),
        Err(error) => {
            error.print()?;
            Ok(Err(error.exit_code() as u8))
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.root_cause().downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}

/// Text that a peer or a policy chose, on one line and without control characters.
pub(crate) fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_bidi(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

/// The queue in what a spool keeps beside a message. What stands behind a NUL there is for the server.
pub(crate) fn queue_name(label: &str) -> &str {
    label.split_once('\u{0}').map_or(label, |(queue, _)| queue)
}

/// Characters that turn the direction of what follows.
fn is_bidi(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// RFC 3339, in UTC.
pub(crate) fn time(at: WallTime) -> String {
    let nanos = i128::from(at.unix_micros()) * 1000;
    let text = OffsetDateTime::from_unix_timestamp_nanos(nanos).ok().and_then(|t| t.format(&Rfc3339).ok());
    text.unwrap_or_else(|| format!("{} us", at.unix_micros()))
}

/// Now.
pub(crate) fn now() -> WallTime {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    WallTime::from_unix_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// How long from `now` until `at`: `now`, `in 5m`, `2h ago`.
pub(crate) fn until(at: WallTime, now: WallTime) -> String {
    let (ahead, behind) = (at.saturating_since(now).as_secs(), now.saturating_since(at).as_secs());
    match (ahead, behind) {
        (0, 0) => "now".to_owned(),
        (0, _) => format!("{} ago", span(behind)),
        _ => format!("in {}", span(ahead)),
    }
}

/// Seconds in the largest unit that fits.
fn span(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_that_was_named_is_not_named_again() {
        let error = anyhow::anyhow!("no such file").context("cannot list /nope: no such file").context("spool");
        assert_eq!(causes(&error), "spool: cannot list /nope: no such file");
    }

    #[test]
    fn what_others_chose_stays_on_its_line() {
        assert_eq!(shown("plain ü"), "plain ü");
        assert_eq!(shown("a\r\nb\u{1b}[31m\u{202e}x"), "a\\r\\nb\\u{1b}[31m\\u{202e}x");
    }

    #[test]
    fn times_are_told_as_people_say_them() {
        let now = WallTime::from_unix_secs(1_790_000_000);
        assert_eq!(time(now), "2026-09-21T14:13:20Z");
        let at = |seconds: i64| until(WallTime::from_unix_secs(1_790_000_000 + seconds), now);
        assert_eq!([at(0), at(119), at(-120), at(7200), at(-172_800)], ["now", "in 119s", "2m ago", "in 2h", "2d ago"]);
    }
}
