//! The ledgers of generator and sink. In: files being written by another process. Out: ids, and lines as they come.
//!
//! A generator's ledger holds the id of each message answered 250, one a line. A sink's ledger holds a line for each
//! arrival: id, tab, `ok` or `damaged` or `unmarked`, tab, recipients, tab, microseconds since 1970.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// Reads a ledger of ids to its end; one that was never made is empty.
///
/// # Errors
/// The file is there and cannot be read.
pub fn ids(path: &Path) -> anyhow::Result<Vec<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// A sink's ledger that is read while it grows.
pub struct Tail {
    path: PathBuf,
    file: File,
    /// What was read and does not form a line yet.
    pending: Vec<u8>,
}

/// One arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival<'a> {
    /// The message's own id.
    pub id: &'a str,
    /// Whether its body matches its checksum.
    pub intact: bool,
    /// With commas between.
    pub recipients: &'a str,
    /// When it was complete, in microseconds since 1970.
    pub at_us: u64,
}

impl Tail {
    /// Opens a ledger that the sink has created.
    ///
    /// # Errors
    /// There is none.
    pub fn open(path: &Path) -> anyhow::Result<Tail> {
        let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        Ok(Tail { path: path.to_owned(), file, pending: Vec::new() })
    }

    /// Hands out every line that was completed since the last call.
    ///
    /// # Errors
    /// The file cannot be read, or a line is none of a sink's.
    pub fn read(&mut self, mut take: impl FnMut(Arrival)) -> anyhow::Result<()> {
        self.file.read_to_end(&mut self.pending).with_context(|| format!("cannot read {}", self.path.display()))?;
        let Some(last) = self.pending.iter().rposition(|&byte| byte == b'\n') else { return Ok(()) };
        let complete = std::str::from_utf8(&self.pending[..last]).context("a ledger that is not text")?;
        for line in complete.split('\n') {
            take(arrival(line).with_context(|| self.not_a_line(line))?);
        }
        self.pending.drain(..=last);
        Ok(())
    }

    fn not_a_line(&self, line: &str) -> String {
        format!("{}: {line:?} is not `id, tab, state, tab, recipients, tab, microseconds`", self.path.display())
    }
}

fn arrival(line: &str) -> Option<Arrival<'_>> {
    let mut columns = line.split('\t');
    let (id, word, recipients) = (columns.next()?, columns.next()?, columns.next()?);
    Some(Arrival { id, intact: word == "ok", recipients, at_us: columns.next()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn a_growing_ledger_is_read_line_by_line() {
        let folder = tempfile::tempdir().expect("scratch folder");
        let path = folder.path().join("sink");
        let mut file = File::create(&path).expect("create");
        let mut tail = Tail::open(&path).expect("open");
        let mut seen = Vec::new();
        for piece in ["r-1\tok\ta@b\t7\nr-2\tdam", "aged\ta@b\t8\nr-1\to", "k\tc@d,e@f\t9\n", ""] {
            file.write_all(piece.as_bytes()).expect("write");
            let mut take =
                |arrival: Arrival| seen.push(format!("{} {} {}", arrival.id, arrival.intact, arrival.recipients));
            tail.read(&mut take).expect("sound lines");
        }
        assert_eq!(seen, ["r-1 true a@b", "r-2 false a@b", "r-1 true c@d,e@f"]);
    }

    #[test]
    fn a_foreign_file_is_refused_and_a_missing_one_is_empty() {
        let folder = tempfile::tempdir().expect("scratch folder");
        let path = folder.path().join("sink");
        std::fs::write(&path, "hello\n").expect("write");
        let error = Tail::open(&path).expect("open").read(|_| {}).expect_err("no tabs").to_string();
        assert!(error.contains("hello"), "{error}");
        assert!(ids(&folder.path().join("none")).expect("empty").is_empty());
        assert_eq!(ids(&path).expect("one"), ["hello"]);
    }
}
