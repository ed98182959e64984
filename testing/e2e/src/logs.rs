//! Log segments as a consumer reads them: zstd streams of JSON lines, complete once they are read-only.

use crate::until::until;
use serde_json::Value;
use std::fs;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// One log folder.
#[derive(Clone, Debug)]
pub struct Logs(PathBuf);

impl Logs {
    /// The logs in `folder`, which need not be there yet.
    pub fn new(folder: impl Into<PathBuf>) -> Logs {
        Logs(folder.into())
    }

    /// The segments, oldest first.
    pub fn segments(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(&self.0) else { return Vec::new() };
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let mut segments: Vec<PathBuf> = paths.filter(|path| path.is_file() && !is_hidden(path)).collect();
        segments.sort();
        segments
    }

    /// The records of all complete segments, oldest first.
    pub fn records(&self) -> Vec<Value> {
        let complete = self.segments().into_iter().filter(|path| is_complete(path));
        // One that was removed meanwhile has none.
        complete.filter_map(|path| read_if_there(&path)).flatten().collect()
    }

    /// The records of one type.
    pub fn of_type(&self, kind: &str) -> Vec<Value> {
        self.records().into_iter().filter(|record| record["type"] == kind).collect()
    }

    /// Waits until there are `count` records of one type; returns all of those.
    pub fn await_type(&self, kind: &str, count: usize, within: Duration) -> Vec<Value> {
        self.await_records(kind, count, within, |record| record["type"] == kind)
    }

    /// Waits until there are `count` records for which `wanted` is true; returns all of those.
    pub fn await_records(
        &self,
        what: &str,
        count: usize,
        within: Duration,
        wanted: impl Fn(&Value) -> bool,
    ) -> Vec<Value> {
        until(within, &format!("{count} records: {what}"), || {
            let found: Vec<Value> = self.records().into_iter().filter(|record| wanted(record)).collect();
            (found.len() >= count).then_some(found)
        })
    }
}

/// True when nobody may write to it any more.
pub fn is_complete(segment: &Path) -> bool {
    fs::metadata(segment).is_ok_and(|m| m.permissions().mode() & 0o222 == 0)
}

/// The records of a segment. One cut off by a crash gives what can be read of it.
pub fn read(segment: &Path) -> Vec<Value> {
    read_if_there(segment).unwrap_or_else(|| panic!("{}: there is no such file", segment.display()))
}

fn read_if_there(segment: &Path) -> Option<Vec<Value>> {
    let file = match fs::File::open(segment) {
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        opened => opened.unwrap_or_else(|e| panic!("{}: {e}", segment.display())),
    };
    let mut decoder = zstd::stream::read::Decoder::new(file).unwrap_or_else(|e| panic!("{}: {e}", segment.display()));
    let (mut text, mut chunk) = (Vec::new(), vec![0; CHUNK_BYTES]);
    // An unfinished frame ends in an error: what came before it stands.
    while let Ok(count @ 1..) = decoder.read(&mut chunk) {
        text.extend_from_slice(&chunk[..count]);
    }
    let end = text.iter().rposition(|octet| *octet == b'\n').map_or(0, |at| at + 1);
    let lines = text[..end].split(|octet| *octet == b'\n').filter(|line| !line.is_empty());
    let record = |line| serde_json::from_slice(line).unwrap_or_else(|e| panic!("{}: {e}", segment.display()));
    Some(lines.map(record).collect())
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

const CHUNK_BYTES: usize = 64 * 1024;
