//! The options of `kumo.jsonl.new_writer`, `new_tailer` and `new_multi_tailer`.
//!
//! Owns [`JsonlWriterOptions`], [`JsonlTailerOptions`], [`JsonlMultiTailerOptions`] and [`JsonlConsumerOptions`]. In: the
//! table a script gives, without its `filter` functions: whoever binds a script takes those out before. Writing and
//! tailing are the jsonl crate's.

use crate::duration::Duration;
use crate::logs::{check_compression_level, check_log_dir};
use crate::options::options;
use crate::zone::Zone;
use std::path::PathBuf;

options! {
    /// `kumo.jsonl.new_writer`
    pub struct JsonlWriterOptions check check_writer {
        /// The directory of segments; made when missing.
        log_dir: PathBuf;
        /// Close a segment at this size (uncompressed bytes).
        max_file_size: u64 = 134_217_728, min 1;
        /// Longest record, in octets with its newline; a longer one is an error.
        max_record_size: usize = LINE_OCTETS_MAX, min 1;
        /// zstd level 1-21; 0 is the library's default.
        compression_level: i32 = 3;
        /// Close a segment when a stretch of this length ends, counted from midnight in `tz`; never by time when absent.
        max_segment_duration: Option<Duration> = None;
        /// Appended to the segment's file name.
        suffix: Option<String> = None;
        /// Time zone in which the stretches of `max_segment_duration` begin.
        tz: Zone = Zone::utc();
    }
}

options! {
    /// `kumo.jsonl.new_tailer`
    pub struct JsonlTailerOptions check check_tailer {
        /// The directory of segments.
        directory: PathBuf;
        /// Which file names are segments: a glob.
        pattern: String = ANY_NAME.to_owned();
        /// Most records in a batch.
        max_batch_size: usize = 100, min 1;
        /// A batch is given out so long after its first record came, full or not.
        max_batch_latency: Duration = Duration::from_secs(1);
        /// Remember what was committed in the file `.NAME` of the directory; nothing is remembered when absent.
        checkpoint_name: Option<String> = None;
        /// Look for news this often instead of being told by the file system, which not all of them do.
        poll_watcher: Option<Duration> = None;
        /// Without a checkpoint, begin behind what is there already.
        tail: bool = false;
        /// Longest line that is read, in octets with its newline; a longer one is an error and is passed over.
        max_line_size: usize = LINE_OCTETS_MAX, min 1;
    }
}

options! {
    /// `kumo.jsonl.new_multi_tailer`
    pub struct JsonlMultiTailerOptions check check_multi_tailer {
        /// The directory of segments.
        directory: PathBuf;
        /// Which file names are segments: a glob.
        pattern: String = ANY_NAME.to_owned();
        /// Look for news this often instead of being told by the file system, which not all of them do.
        poll_watcher: Option<Duration> = None;
        /// Consumers without a checkpoint begin behind what is there already.
        tail: bool = false;
        /// Longest line that is read, in octets with its newline; a longer one is an error and is passed over.
        max_line_size: usize = LINE_OCTETS_MAX, min 1;
        /// Who gets the records, one at least.
        consumers: Vec<JsonlConsumerOptions>;
    }
}

options! {
    /// An entry of `consumers`
    pub struct JsonlConsumerOptions check check_consumer {
        /// What its batches are called; no two of a tailer have the same name.
        name: String;
        /// Most records in a batch.
        max_batch_size: usize = 100, min 1;
        /// A batch is given out so long after its first record came, full or not.
        max_batch_latency: Duration = Duration::from_secs(1);
        /// Remember what was committed in the file `.NAME` of the directory; nothing is remembered when absent.
        checkpoint_name: Option<String> = None;
    }
}

impl From<JsonlTailerOptions> for JsonlMultiTailerOptions {
    /// The tailer with one consumer, who is called "default" (KumoMTA behaviour).
    fn from(single: JsonlTailerOptions) -> JsonlMultiTailerOptions {
        let JsonlTailerOptions { directory, pattern, poll_watcher, tail, max_line_size, .. } = single;
        let JsonlTailerOptions { max_batch_size, max_batch_latency, checkpoint_name, .. } = single;
        let name = "default".to_owned();
        let consumers = vec![JsonlConsumerOptions { name, max_batch_size, max_batch_latency, checkpoint_name }];
        JsonlMultiTailerOptions { directory, pattern, poll_watcher, tail, max_line_size, consumers }
    }
}

fn check_writer(writer: &JsonlWriterOptions) -> Result<(), String> {
    check_log_dir(&writer.log_dir)?;
    check_compression_level(writer.compression_level)?;
    if writer.suffix.as_ref().is_some_and(|suffix| suffix.contains(['/', '\0'])) {
        return Err("invalid suffix: expected the end of a file name, without `/`".to_owned());
    }
    match writer.max_segment_duration {
        Some(duration) if duration.get() < SEGMENT_MIN => {
            Err(format!("invalid max_segment_duration {duration}: expected 1s or more"))
        }
        _ => Ok(()),
    }
}

fn check_tailer(tailer: &JsonlTailerOptions) -> Result<(), String> {
    check_source(&tailer.directory, tailer.poll_watcher)?;
    check_batches(tailer.max_batch_size, tailer.checkpoint_name.as_deref())
}

fn check_multi_tailer(tailer: &JsonlMultiTailerOptions) -> Result<(), String> {
    check_source(&tailer.directory, tailer.poll_watcher)?;
    if !(1..=CONSUMERS_MAX).contains(&tailer.consumers.len()) {
        let count = tailer.consumers.len();
        return Err(format!("consumers: {count} of them: expected 1 to {CONSUMERS_MAX}"));
    }
    for (at, consumer) in tailer.consumers.iter().enumerate() {
        let before = &tailer.consumers[..at];
        if before.iter().any(|other| other.name == consumer.name) {
            return Err(format!("consumers: two are called {:?}: expected different names", consumer.name));
        }
        let checkpoint = consumer.checkpoint_name.as_ref();
        if checkpoint.is_some() && before.iter().any(|other| other.checkpoint_name.as_ref() == checkpoint) {
            let name = checkpoint.map_or("", String::as_str);
            return Err(format!("consumers: two have the checkpoint_name {name:?}: expected one each"));
        }
    }
    Ok(())
}

fn check_consumer(consumer: &JsonlConsumerOptions) -> Result<(), String> {
    if consumer.name.is_empty() {
        return Err("invalid name \"\": expected the name of the consumer".to_owned());
    }
    check_batches(consumer.max_batch_size, consumer.checkpoint_name.as_deref())
}

fn check_source(directory: &std::path::Path, poll: Option<Duration>) -> Result<(), String> {
    if directory.as_os_str().is_empty() {
        return Err("invalid directory \"\": expected a directory".to_owned());
    }
    match poll {
        Some(duration) if duration.get().is_zero() => {
            Err("invalid poll_watcher 0s: expected some time between two looks".to_owned())
        }
        _ => Ok(()),
    }
}

fn check_batches(size_max: usize, checkpoint: Option<&str>) -> Result<(), String> {
    if size_max > BATCH_RECORDS_MAX {
        return Err(format!("invalid max_batch_size {size_max}: expected an integer from 1 to {BATCH_RECORDS_MAX}"));
    }
    match checkpoint {
        Some(name)
            if name.is_empty()
                || name.contains(['/', '\0'])
                || name.ends_with(".new")
                || name.len() > CHECKPOINT_NAME_OCTETS_MAX =>
        {
            Err(format!("invalid checkpoint_name {name:?}: expected a file name, not one that ends in `.new`"))
        }
        _ => Ok(()),
    }
}

/// Longest line of segments that is written or read unless told otherwise, in octets with its newline (KumoMTA: 128 MiB).
pub const LINE_OCTETS_MAX: usize = 134_217_728;
const ANY_NAME: &str = "*";
/// Shorter segments would be mostly file names.
const SEGMENT_MIN: core::time::Duration = core::time::Duration::from_secs(1);
/// Most records in a batch, which is in memory at once.
const BATCH_RECORDS_MAX: usize = 100_000;
/// Most consumers of one tailer.
const CONSUMERS_MAX: usize = 64;
/// A file name of 255 octets less the dot before and the `.new` behind it.
const CHECKPOINT_NAME_OCTETS_MAX: usize = 250;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn refused<T: serde::de::DeserializeOwned + core::fmt::Debug>(options: Value, why: &str) {
        let error = crate::parse::<T>("kumo.jsonl", options.clone()).expect_err("refused").to_string();
        assert!(error.contains(why), "{options}: {error}");
    }

    #[test]
    fn absent_options_are_as_in_kumomta() {
        let writer: JsonlWriterOptions = crate::parse("w", json!({"log_dir": "/l"})).expect("sound");
        assert_eq!((writer.max_file_size, writer.compression_level), (134_217_728, 3));
        assert_eq!(writer.max_record_size, 128 << 20);
        assert_eq!((writer.max_segment_duration, writer.suffix, writer.tz), (None, None, Zone::utc()));
        let tailer: JsonlTailerOptions = crate::parse("t", json!({"directory": "/l"})).expect("sound");
        assert_eq!((tailer.pattern.as_str(), tailer.max_batch_size), ("*", 100));
        assert_eq!((tailer.max_batch_latency, tailer.tail), (Duration::from_secs(1), false));
        let multi = JsonlMultiTailerOptions::from(JsonlTailerOptions { max_line_size: 7, ..tailer });
        assert_eq!((JsonlMultiTailerOptions::default().max_line_size, multi.max_line_size), (128 << 20, 7));
        assert_eq!((multi.consumers.len(), multi.consumers[0].name.as_str()), (1, "default"));
    }

    #[test]
    fn writers_are_refused_with_the_reason() {
        for (options, why) in [
            (json!({}), "log_dir"),
            (json!({"log_dir": ""}), "expected a directory"),
            (json!({"log_dir": "/l", "max_file_size": 0}), ">= 1"),
            (json!({"log_dir": "/l", "max_record_size": 0}), ">= 1"),
            (json!({"log_dir": "/l", "compression_level": 22}), "from 0 to 21"),
            (json!({"log_dir": "/l", "suffix": "/x"}), "without `/`"),
            (json!({"log_dir": "/l", "max_segment_duration": "999ms"}), "1s or more"),
            (json!({"log_dir": "/l", "tz": "Mars/Base"}), "Mars/Base"),
            (json!({"log_dir": "/l", "sufix": ".x"}), "sufix"),
        ] {
            refused::<JsonlWriterOptions>(options, why);
        }
        let sound = json!({"log_dir": "/l", "compression_level": 21, "max_segment_duration": 1, "tz": "Europe/Berlin"});
        assert!(crate::parse::<JsonlWriterOptions>("w", sound).is_ok());
    }

    #[test]
    fn tailers_are_refused_with_the_reason_at_bound_plus_one() {
        for (more, why) in [
            (json!({"max_batch_size": 0}), ">= 1"),
            (json!({"max_batch_size": BATCH_RECORDS_MAX + 1}), "from 1 to 100000"),
            (json!({"checkpoint_name": ""}), "expected a file name"),
            (json!({"checkpoint_name": "a/b"}), "expected a file name"),
            // The checkpoint `a` is written as that.
            (json!({"checkpoint_name": "a.new"}), "expected a file name"),
            (json!({"checkpoint_name": "x".repeat(CHECKPOINT_NAME_OCTETS_MAX + 1)}), "expected a file name"),
            (json!({"poll_watcher": 0}), "poll_watcher"),
            (json!({"directory": ""}), "expected a directory"),
        ] {
            let mut options = json!({"directory": "/l"});
            options.as_object_mut().expect("a table").extend(more.as_object().expect("a table").clone());
            refused::<JsonlTailerOptions>(options, why);
        }
        let name = "x".repeat(CHECKPOINT_NAME_OCTETS_MAX);
        let sound = json!({"directory": "/l", "max_batch_size": BATCH_RECORDS_MAX, "checkpoint_name": name});
        assert!(crate::parse::<JsonlTailerOptions>("t", sound).is_ok());
    }

    #[test]
    fn consumers_are_told_apart() {
        let of = |consumers: Value| json!({"directory": "/l", "consumers": consumers});
        let many = |count: usize| (0..count).map(|n| json!({"name": n.to_string()})).collect::<Vec<_>>();
        for (consumers, why) in [
            (json!([]), "expected 1 to 64"),
            (json!(many(CONSUMERS_MAX + 1)), "expected 1 to 64"),
            (json!([{"name": ""}]), "name of the consumer"),
            (json!([{"name": "a"}, {"name": "a"}]), "two are called \"a\""),
            (json!([{"name": "a", "checkpoint_name": "c"}, {"name": "b", "checkpoint_name": "c"}]), "one each"),
        ] {
            refused::<JsonlMultiTailerOptions>(of(consumers), why);
        }
        assert!(crate::parse::<JsonlMultiTailerOptions>("m", of(json!(many(CONSUMERS_MAX)))).is_ok());
    }
}
