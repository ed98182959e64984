//! The options of `kumo.configure_event_stream`.
//!
//! Owns [`EventStream`], [`StreamFrom`] and [`EventFormat`]. In: a table. Out: what is read, to whom it is sent, in what portions. Fails with the
//! option, its value and what was expected. Reading and sending are the event-stream crate's.

use crate::choices::RecordKey;
use crate::duration::Duration;
use crate::key_source::KeySource;
use crate::logs::check_log_dir;
use crate::options::options;
use crate::shown_url::shown_url;
use crate::text::{BadText, text_form};
use core::fmt;
use core::str::FromStr;
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::path::PathBuf;

options! {
    /// `kumo.configure_event_stream`
    pub struct EventStream check check_stream {
        /// Names the stream: its checkpoint is the file `.event-stream-NAME`.
        name: String;
        /// The directory of the log's segments.
        log_dir: PathBuf;
        /// What their names end in: the `suffix` of a `per_record` entry.
        suffix: String = String::new();
        /// Where batches are posted to.
        url: String;
        /// The key of the signatures; without one nothing is signed.
        secret: Option<KeySource> = None;
        /// Types of records that are sent; all when empty, or with `Any`.
        types: Vec<RecordKey> = Vec::new();
        /// Most records in a batch.
        batch_size: usize = 1000, min 1;
        /// A batch is full at this many octets of records; one record may be longer.
        max_batch_bytes: usize = 4_194_304, min 1;
        /// How long a record waits for others to be sent with.
        max_batch_latency: Duration = Duration::from_secs(1);
        /// How long an answer is waited for.
        timeout: Duration = Duration::from_secs(30);
        /// Where a stream without a checkpoint begins: `start`, `end`, or a time as `2026-11-25T03:00:00Z`.
        from: StreamFrom = StreamFrom::End;
        /// Header fields of each request.
        headers: BTreeMap<String, String> = BTreeMap::new();
        /// How a body is written: `json`, an array of records, or `ndjson`, a record a line.
        format: EventFormat = EventFormat::Json;
        /// The directory of the checkpoint; that of the log when absent.
        checkpoint_dir: Option<PathBuf> = None;
    }
}

/// Where a consumer begins that has no cursor yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamFrom {
    /// With the first record there is.
    Start,
    /// Behind the last.
    #[default]
    End,
    /// With the first record of this time or later, in seconds since 1970.
    Time(i64),
}

impl FromStr for StreamFrom {
    type Err = BadText;

    fn from_str(text: &str) -> Result<Self, BadText> {
        match text {
            "start" => Ok(StreamFrom::Start),
            "end" => Ok(StreamFrom::End),
            time => time
                .parse::<Timestamp>()
                .map(|time| StreamFrom::Time(time.as_second()))
                .map_err(|_| BadText::new("from", text, "start, end, or a time as 2026-11-25T03:00:00Z")),
        }
    }
}

impl fmt::Display for StreamFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StreamFrom::Start => f.write_str("start"),
            StreamFrom::End => f.write_str("end"),
            StreamFrom::Time(seconds) => match Timestamp::from_second(*seconds) {
                Ok(time) => time.fmt(f),
                Err(_) => write!(f, "{seconds}"),
            },
        }
    }
}

text_form!(StreamFrom, "start, end, or a time as 2026-11-25T03:00:00Z");

/// How the body of a batch is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventFormat {
    /// An array of records.
    #[default]
    Json,
    /// A record a line.
    Ndjson,
}

impl FromStr for EventFormat {
    type Err = BadText;

    fn from_str(text: &str) -> Result<Self, BadText> {
        match text {
            "json" => Ok(EventFormat::Json),
            "ndjson" => Ok(EventFormat::Ndjson),
            _ => Err(BadText::new("format", text, "json or ndjson")),
        }
    }
}

impl fmt::Display for EventFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EventFormat::Json => "json",
            EventFormat::Ndjson => "ndjson",
        })
    }
}

text_form!(EventFormat, "json or ndjson");

fn check_stream(stream: &EventStream) -> Result<(), String> {
    check_log_dir(&stream.log_dir)?;
    let EventStream { name, suffix, batch_size, max_batch_bytes, max_batch_latency, timeout, .. } = stream;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > NAME_OCTETS_MAX || !name.chars().all(is_plain) || name.ends_with(".new") {
        return Err(format!(
            "invalid name {name:?}: expected 1 to {NAME_OCTETS_MAX} letters, digits, `-`, `_` and `.`, not ending in `.new`"
        ));
    }
    if suffix.contains(['/', '\0']) {
        return Err(format!("invalid suffix {suffix:?}: expected the end of a file's name, without `/`"));
    }
    if *batch_size > BATCH_RECORDS_MAX {
        return Err(format!("invalid batch_size {batch_size}: expected an integer from 1 to {BATCH_RECORDS_MAX}"));
    }
    if *max_batch_bytes > BATCH_OCTETS_MAX {
        return Err(format!(
            "invalid max_batch_bytes {max_batch_bytes}: expected an integer from 1 to {BATCH_OCTETS_MAX}"
        ));
    }
    if max_batch_latency.get() > LATENCY_MAX {
        return Err(format!("invalid max_batch_latency {max_batch_latency}: expected at most 1h"));
    }
    if timeout.get().is_zero() || timeout.get() > TIMEOUT_MAX {
        return Err(format!("invalid timeout {timeout}: expected more than 0s and at most 10m"));
    }
    if stream.checkpoint_dir.as_ref().is_some_and(|dir| dir.as_os_str().is_empty()) {
        return Err("invalid checkpoint_dir \"\": expected a directory".to_owned());
    }
    check_url(&stream.url)
}

/// The library that asks reads the rest.
fn check_url(url: &str) -> Result<(), String> {
    let rest = ["http://", "https://"].iter().find_map(|scheme| url.strip_prefix(scheme));
    let host = rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    match host.filter(|host| !host.is_empty() && !host.starts_with(':')) {
        // Not shown, for what stands there is secret.
        Some(host) if host.contains('@') => {
            Err("invalid url: expected no user and password in it; `headers` can say who asks".to_owned())
        }
        Some(_) => Ok(()),
        None => Err(format!("invalid url {:?}: expected http://HOST or https://HOST, and a path", shown_url(url))),
    }
}

/// Octets of a stream's name: a file's name less what stands around it.
const NAME_OCTETS_MAX: usize = 200;
/// Most records in a batch, which is in memory at once.
const BATCH_RECORDS_MAX: usize = 100_000;
/// Most octets in a batch.
const BATCH_OCTETS_MAX: usize = 64 << 20;
/// Longest time a record waits for others.
const LATENCY_MAX: core::time::Duration = core::time::Duration::from_secs(3600);
/// Longest time an answer is waited for.
const TIMEOUT_MAX: core::time::Duration = core::time::Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn parse(more: Value) -> Result<EventStream, String> {
        let mut options = json!({"name": "n", "log_dir": "/l", "url": "https://a.test/in"});
        options.as_object_mut().expect("a table").extend(more.as_object().expect("a table").clone());
        crate::parse("kumo.configure_event_stream", options).map_err(|error| error.to_string())
    }

    #[test]
    fn absent_options_are_as_documented() {
        let stream = parse(json!({})).expect("sound");
        assert_eq!((stream.batch_size, stream.max_batch_bytes), (1000, 4 << 20));
        assert_eq!(
            (stream.from, stream.format, stream.timeout.to_string()),
            (StreamFrom::End, EventFormat::Json, "30s".to_owned())
        );
        assert!(stream.types.is_empty() && stream.secret.is_none() && stream.suffix.is_empty());
    }

    #[test]
    fn what_is_refused_is_named_at_bound_plus_one() {
        for (more, why) in [
            (json!({"name": ""}), "invalid name \"\""),
            (json!({"name": "a/b"}), "invalid name \"a/b\""),
            (json!({"name": "a.new"}), "invalid name"),
            (json!({"name": "x".repeat(NAME_OCTETS_MAX + 1)}), "expected 1 to 200"),
            (json!({"log_dir": ""}), "invalid log_dir"),
            (json!({"suffix": "/x"}), "invalid suffix \"/x\""),
            (json!({"url": "ftp://a.test"}), "invalid url \"ftp://a.test\": expected http://HOST"),
            (json!({"url": "https:///path"}), "invalid url"),
            (json!({"url": "https://user:secret@a.test/"}), "expected no user and password"),
            (json!({"batch_size": 0}), ">= 1"),
            (json!({"batch_size": BATCH_RECORDS_MAX + 1}), "from 1 to 100000"),
            (json!({"max_batch_bytes": BATCH_OCTETS_MAX + 1}), "from 1 to 67108864"),
            (json!({"max_batch_latency": "3601s"}), "invalid max_batch_latency"),
            (json!({"timeout": 0}), "invalid timeout 0s"),
            (json!({"timeout": "601s"}), "at most 10m"),
            (json!({"from": "yesterday"}), "invalid from \"yesterday\": expected start, end, or a time"),
            (json!({"types": ["Deliverie"]}), "Deliverie"),
            (json!({"format": "xml"}), "xml"),
            (json!({"checkpoint_dir": ""}), "invalid checkpoint_dir"),
            (json!({"sufix": ".x"}), "sufix"),
        ] {
            let error = parse(more.clone()).expect_err("refused");
            assert!(error.contains(why), "{more}: {error}");
        }
        let most = json!({
            "name": "x".repeat(NAME_OCTETS_MAX), "batch_size": BATCH_RECORDS_MAX, "max_batch_bytes": BATCH_OCTETS_MAX,
            "max_batch_latency": "1h", "timeout": "10m",
        });
        parse(most).expect("at the bounds");
    }

    #[test]
    fn times_are_read_to_the_second_and_written_so_that_they_can_be_read_again() {
        for text in ["2026-11-25T03:00:00Z", "2026-11-25T04:00:00.9+01:00"] {
            let from: StreamFrom = text.parse().expect("a time");
            assert_eq!(from, StreamFrom::Time(1_795_575_600));
            assert_eq!(from.to_string().parse::<StreamFrom>(), Ok(from));
        }
        for from in [StreamFrom::Start, StreamFrom::End] {
            assert_eq!(from.to_string().parse::<StreamFrom>(), Ok(from));
        }
    }
}
