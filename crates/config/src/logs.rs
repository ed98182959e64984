//! The options of logs, log hooks and the bounce classifier.
//!
//! Owns [`LocalLogs`], [`LogHook`], [`LogDispositionHook`] and [`BounceClassifier`], the arguments of the `configure_*`
//! functions of those names, and the choice of a `per_record` entry. Writing and classifying are the telemetry
//! crate's.

use crate::choices::{RecordKey, WhenFull};
use crate::duration::Duration;
use crate::jsonl::LINE_OCTETS_MAX;
use crate::min_free::MinFree;
use crate::options::options;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

options! {
    /// `kumo.configure_local_logs`
    pub struct LocalLogs check check_local_logs {
        /// The directory of segments.
        log_dir: PathBuf;
        /// Close a segment after this time; never by time when absent.
        max_segment_duration: Option<Duration> = None;
        /// Close a segment at this size (uncompressed bytes).
        max_file_size: u64 = 1_000_000_000, min 1;
        /// Drop and count records that are longer with their newline, in octets: who reads may not take longer ones.
        max_record_size: usize = LINE_OCTETS_MAX, min 1;
        /// Remove finished segments after this time; never when absent.
        retain_for: Option<Duration> = None;
        /// Remove the oldest finished segments while those of one kind have more octets than this; never when absent.
        retain_bytes: Option<u64> = None;
        /// Write an index beside each segment, by which a message, a recipient or a sender is found.
        index: bool = true;
        /// Keep records that are in no segment yet where a kill of the program does not reach them, for 1 to 2 us each. Absent:
        /// where an event stream of the policy reads this log.
        journal: Option<bool> = None;
        /// zstd level 1-21; 0 is the library's default.
        compression_level: i32 = 0;
        /// Records waiting before those who log must wait too.
        back_pressure: usize = 128_000, min 1;
        /// What becomes of new work while so many wait: it waits too, or goes on and its records are dropped and counted.
        when_full: WhenFull = WhenFull::Wait;
        /// Message metadata copied to the record; a trailing `*` matches a prefix, case counts.
        meta: Vec<String> = Vec::new();
        /// Header fields copied to the record, likewise by name or prefix; case does not count.
        headers: Vec<String> = Vec::new();
        /// Changes by record type; `Any` covers the types not listed.
        per_record: BTreeMap<RecordKey, PerRecord> = BTreeMap::new();
        /// Event `(message) -> bool` that decides for each record.
        filter_event: Option<String> = None;
        /// Below it reception is refused: `"N%"` or bytes.
        min_free_space: MinFree = MinFree::Percent(10);
        /// The same for inodes: `"N%"` or a count.
        min_free_inodes: MinFree = MinFree::Percent(10);
    }
}

options! {
    /// An entry of `per_record`
    pub struct PerRecord {
        /// Log this type.
        enable: bool = true;
        /// Appended to the segment's file name.
        suffix: Option<String> = None;
        /// Another directory than the log's own.
        log_dir: Option<PathBuf> = None;
        /// Template of a line; the record as JSON when absent.
        template: Option<String> = None;
        /// Written at the head of each segment.
        segment_header: String = String::new();
    }
}

options! {
    /// `kumo.configure_log_hook`
    pub struct LogHook check check_log_hook {
        /// The hook_name argument of should_enqueue_log_record.
        name: String;
        /// Records waiting before those who log must wait too.
        back_pressure: usize = 128_000, min 1;
        /// Message metadata copied to the record and to the hook's message.
        meta: Vec<String> = Vec::new();
        /// Header fields copied to the record.
        headers: Vec<String> = Vec::new();
        /// Changes by record type: enable and template count.
        per_record: BTreeMap<RecordKey, PerRecord> = BTreeMap::new();
        /// Do not save the hook's message before it is first delayed.
        deferred_spool: bool = false;
    }
}

options! {
    /// `kumo.configure_log_disposition_hook`
    pub struct LogDispositionHook check check_disposition_hook {
        /// The event is `log_disposition_NAME`.
        name: String;
        /// Changes by record type: enable counts.
        per_record: BTreeMap<RecordKey, PerRecord> = BTreeMap::new();
    }
}

options! {
    /// `kumo.configure_bounce_classifier`
    pub struct BounceClassifier check check_classifier {
        /// Rule files, `.toml` or `.json`: `[rules]` with a list of regular expressions a class.
        files: Vec<PathBuf>;
        /// Responses being classified at once.
        back_pressure: usize = 131_072, min 1;
        /// Threads; a quarter of the processors, at least 1, when absent.
        pool_size: Option<usize> = None, min 1;
        /// Remembered answers.
        cache_size: usize = 1024;
        /// Remembered responses no rule matched.
        uncategorized_cache_size: usize = 1024;
    }
}

/// The entry that rules records of `kind`: its own, else `Any`.
///
/// KumoMTA behaviour: a type with an entry of its own inherits nothing from `Any`.
pub fn per_record(entries: &BTreeMap<RecordKey, PerRecord>, kind: RecordKey) -> Option<&PerRecord> {
    entries.get(&kind).or_else(|| entries.get(&RecordKey::Any))
}

/// A directory must be named.
pub(crate) fn check_log_dir(dir: &Path) -> Result<(), String> {
    match dir.as_os_str().is_empty() {
        true => Err("invalid log_dir \"\": expected a directory".to_owned()),
        false => Ok(()),
    }
}

/// The levels zstd has.
pub(crate) fn check_compression_level(level: i32) -> Result<(), String> {
    match (0..=ZSTD_LEVEL_MAX).contains(&level) {
        true => Ok(()),
        false => Err(format!("invalid compression_level {level}: expected an integer from 0 to {ZSTD_LEVEL_MAX}")),
    }
}

fn check_local_logs(logs: &LocalLogs) -> Result<(), String> {
    check_log_dir(&logs.log_dir)?;
    check_compression_level(logs.compression_level)?;
    for (kind, entry) in &logs.per_record {
        if let Some(suffix) = entry.suffix.as_deref().filter(|suffix| suffix.contains('/')) {
            let kind = kind.as_str();
            return Err(format!(
                "per_record.{kind}: invalid suffix {suffix:?}: expected the end of a file's name, without `/`"
            ));
        }
    }
    Ok(())
}

fn check_log_hook(hook: &LogHook) -> Result<(), String> {
    named(&hook.name)
}

fn check_disposition_hook(hook: &LogDispositionHook) -> Result<(), String> {
    named(&hook.name)
}

fn named(name: &str) -> Result<(), String> {
    match name.is_empty() {
        true => Err("invalid name \"\": expected the name of the hook".to_owned()),
        false => Ok(()),
    }
}

fn check_classifier(classifier: &BounceClassifier) -> Result<(), String> {
    let is_known = |path: &PathBuf| path.extension().is_some_and(|e| e == "toml" || e == "json");
    match classifier.files.iter().find(|path| !is_known(path)) {
        Some(path) => Err(format!("files: invalid file {path:?}: expected a name ending in .toml or .json")),
        None => Ok(()),
    }
}

const ZSTD_LEVEL_MAX: i32 = 21;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_entry_then_any_then_none() {
        let off = PerRecord { enable: false, ..Default::default() };
        let entries = BTreeMap::from([(RecordKey::Any, off), (RecordKey::Bounce, PerRecord::default())]);
        assert!(per_record(&entries, RecordKey::Bounce).is_some_and(|e| e.enable));
        assert!(per_record(&entries, RecordKey::Delivery).is_some_and(|e| !e.enable));
        assert_eq!(per_record(&BTreeMap::new(), RecordKey::Delivery), None);
    }
}
