//! Segments made by hand, and numbers read back from records `{"n": NUMBER}`.

use config::{JsonlTailerOptions, JsonlWriterOptions};
use jsonl::{JsonlError, Tailer};
use serde_json::Value;
use std::fs;
use std::io::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

pub fn scratch() -> TempDir {
    tempfile::tempdir().expect("scratch")
}

pub fn writer_options(dir: &Path) -> JsonlWriterOptions {
    JsonlWriterOptions { log_dir: dir.to_owned(), ..Default::default() }
}

/// Batches of `size` records; those that are not full come soon.
pub fn tailer_options(dir: &Path, size: usize) -> JsonlTailerOptions {
    let max_batch_latency = std::time::Duration::from_millis(20).into();
    JsonlTailerOptions { directory: dir.to_owned(), max_batch_size: size, max_batch_latency, ..Default::default() }
}

/// When a test that waits in vain fails; nothing takes so long.
pub const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

/// A filter that keeps everything.
pub fn all(_: usize, _: &Value) -> Result<bool, JsonlError> {
    Ok(true)
}

/// The numbers of batches, until there are so many.
pub async fn batches(tailer: &mut Tailer, count: usize) -> Vec<Vec<u64>> {
    let mut found: Vec<Vec<u64>> = Vec::new();
    while found.iter().map(Vec::len).sum::<usize>() < count {
        let next = tokio::time::timeout(PATIENCE, tailer.next(all)).await;
        let batches = next.expect("more comes").expect("sound").expect("open");
        found.extend(batches.iter().map(numbers));
    }
    found
}

pub fn numbers(batch: &jsonl::Batch) -> Vec<u64> {
    batch.records().iter().map(|record| record["n"].as_u64().expect("a number")).collect()
}

/// A finished stream of records.
pub fn packed(numbers: Range<u64>) -> Vec<u8> {
    let text: String = numbers.map(|n| format!("{{\"n\":{n}}}\n")).collect();
    zstd::encode_all(text.as_bytes(), 3).expect("zstd")
}

/// A stream that is not finished, flushed behind each text.
pub fn flushed(texts: &[&str]) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 3).expect("zstd");
    for text in texts {
        encoder.write_all(text.as_bytes()).expect("writes");
        encoder.flush().expect("flushes");
    }
    encoder.get_ref().clone()
}

/// Marks a segment complete.
pub fn finish(path: &Path) {
    let mut permissions = fs::metadata(path).expect("is there").permissions();
    permissions.set_readonly(true);
    fs::set_permissions(path, permissions).expect("mine");
}

/// What is not hidden, oldest first.
pub fn segments(dir: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path());
    let is_hidden = |path: &PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    let mut paths: Vec<_> = paths.filter(|path| !is_hidden(path)).collect();
    paths.sort();
    paths
}

/// The text of a segment, by the tool of that name if the machine has it.
pub fn zstdcat(path: &Path) -> String {
    let octets = match Command::new("zstdcat").arg(path).output() {
        Ok(said) => {
            assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
            said.stdout
        }
        Err(_) => zstd::decode_all(&fs::read(path).expect("readable")[..]).expect("a whole stream"),
    };
    String::from_utf8(octets).expect("text")
}
