//! A logger (`kumo.configure_local_logs`): records become lines, and lines go to streams of segments.
//!
//! In: records. Out: segments in the logger's directory, or where `per_record` sends a type. A stream ([`crate::stream`]) is one
//! directory and one suffix of names; types that share both share it, and its header is that of the first of them. Logging never
//! waits; new work may have to, or a full logger drops records (`when_full`; refusals always).

use crate::index::Key;
use crate::journal;
use crate::lines::{Lines, TemplateError, entry};
use crate::ring::{room_for_head, text_of};
use crate::segment::mark_leftovers_done;
use crate::stream::{Form, Offered, Stream};
use crate::too_large::TooLarge;
use config::{LocalLogs, PerRecord};
use record::{LogRecord, RecordType};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use thiserror::Error;

/// Why logs cannot be written.
#[derive(Debug, Error)]
pub enum LogError {
    /// The directory cannot be made or read.
    #[error("log_dir `{}`: {cause}", dir.display())]
    Directory {
        /// Which.
        dir: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// The thread cannot be started.
    #[error("cannot start the log thread: {0}")]
    Thread(io::Error),
    /// A template does not read.
    #[error("configure_local_logs: {0}")]
    Template(#[from] TemplateError),
}

/// A handle to one logger; clones share it.
#[derive(Clone)]
pub struct LogWriter(Arc<Logger>);

struct Logger {
    options: LocalLogs,
    lines: Lines,
    too_large: TooLarge,
    streams: Vec<Stream>,
    /// The stream of each type, in the order of [`RecordType::ALL`].
    stream_of: Vec<usize>,
}

impl LogWriter {
    /// Opens a logger; what an earlier process left open is marked complete, what it had in a journal is written. Others may write to the same directories.
    pub fn open(options: LocalLogs) -> Result<LogWriter, LogError> {
        let lines = Lines::of(&options.per_record)?;
        let (forms, stream_of) = forms(&options);
        // All of them before the first begins: its segment must not be taken for a leftover.
        for dir in forms.iter().map(|form| &form.options.log_dir).chain([&options.log_dir]) {
            let directory = |cause| LogError::Directory { dir: dir.clone(), cause };
            std::fs::create_dir_all(dir).map_err(directory)?;
            // While no shipper takes the segments they tell of.
            recover_journals(dir);
            mark_leftovers_done(dir).map_err(directory)?;
        }
        let mut streams = Vec::with_capacity(forms.len());
        for form in forms {
            match Stream::open(form) {
                Ok(stream) => streams.push(stream),
                Err(cause) => {
                    streams.iter().for_each(Stream::retire);
                    return Err(LogError::Thread(cause));
                }
            }
        }
        Ok(LogWriter(Arc::new(Logger { options, lines, too_large: TooLarge::default(), streams, stream_of })))
    }

    /// True for another handle to the same logger.
    pub fn is(&self, other: &LogWriter) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The options it was opened with.
    pub fn options(&self) -> &LocalLogs {
        &self.0.options
    }

    /// True while `back_pressure` records wait in a stream: new work should wait too.
    pub fn is_full(&self) -> bool {
        self.0.streams.iter().any(Stream::is_full)
    }

    /// True while it drops records, as `back_pressure` of them wait in a stream and that is what it is to do then.
    pub fn is_dropping(&self) -> bool {
        self.0.streams.iter().any(Stream::is_dropping)
    }

    /// Why records wait that a disk does not take; nothing while all disks do.
    pub fn refused(&self) -> Option<String> {
        self.0.streams.iter().find_map(Stream::refused)
    }

    /// How often somebody found one of its streams locked.
    pub fn lock_waits(&self) -> u64 {
        self.0.streams.iter().map(Stream::lock_waits).sum()
    }

    /// Queues one record; never waits.
    pub fn log(&self, record: &LogRecord) {
        // Whoever asks `is_full` knows.
        let _offered = self.offer(record);
    }

    /// The same, and says what became of it.
    pub fn offer(&self, record: &LogRecord) -> Offered {
        // Written before the stream's lock is taken, which all who log share.
        let mut line = Vec::with_capacity(LINE_BYTES);
        room_for_head(&mut line);
        let is_json = self.0.lines.write(record, &mut line);
        let stream = self.0.stream_of.get(record.kind as usize).and_then(|stream| self.0.streams.get(*stream));
        let Some(stream) = stream else { return Offered::Queued };
        let LocalLogs { log_dir, max_record_size, .. } = &self.0.options;
        let octets = text_of(&line).len();
        if octets > *max_record_size {
            if let Some(news) = self.0.too_large.note(Instant::now(), record, octets, (log_dir, *max_record_size)) {
                tracing::error!("{news}");
            }
            return Offered::TooLarge;
        }
        let mut keys = Vec::new();
        if is_json && stream.is_indexed() {
            Key::all_of(record, &mut keys);
        }
        // Refusals are made as fast as clients ask for them, and nobody waits for room for them.
        stream.push(&mut line, &keys, record.kind == RecordType::Rejection)
    }

    /// Nothing more will come: segments and threads end once all is written, and nobody waits for that.
    pub fn retire(&self) {
        self.0.streams.iter().for_each(Stream::retire);
    }

    /// True once all was written after [`LogWriter::retire`].
    pub fn is_over(&self) -> bool {
        self.0.streams.iter().all(Stream::is_over)
    }

    /// Writes everything, ends segments and threads.
    pub fn close(&self) {
        self.0.streams.iter().for_each(Stream::close);
    }
}

/// Writes what earlier processes had no time for. What cannot be read stays, and no logger waits for it.
pub(crate) fn recover_journals(dir: &Path) {
    match journal::recover(dir) {
        Ok(0) => {}
        Ok(lines) => tracing::info!("log_dir {}: {lines} records of a killed process are written now", dir.display()),
        Err(error) => tracing::error!("log_dir {}: a journal cannot be worked off: {error}", dir.display()),
    }
}

/// The streams of a logger, and which of them each type goes to.
fn forms(options: &LocalLogs) -> (Vec<Form>, Vec<usize>) {
    let of = |entry: Option<&PerRecord>| {
        let log_dir = entry.and_then(|entry| entry.log_dir.clone()).unwrap_or_else(|| options.log_dir.clone());
        let mut header = entry.map(|entry| entry.segment_header.clone().into_bytes()).unwrap_or_default();
        if header.last().is_some_and(|last| *last != b'\n') {
            header.push(b'\n');
        }
        let suffix = entry.and_then(|entry| entry.suffix.clone()).unwrap_or_default();
        Form { options: LocalLogs { log_dir, ..options.clone() }, prefix: "", suffix, header }
    };
    let mut forms: Vec<Form> = Vec::new();
    let mut stream_of = Vec::with_capacity(RecordType::ALL.len());
    for kind in RecordType::ALL {
        let form = of(entry(&options.per_record, kind));
        let is_it = |f: &Form| f.options.log_dir == form.options.log_dir && f.suffix == form.suffix;
        let stream = forms.iter().position(is_it).unwrap_or_else(|| {
            forms.push(form.clone());
            forms.len() - 1
        });
        stream_of.push(stream);
    }
    (forms, stream_of)
}

/// What a record is expected to take.
const LINE_BYTES: usize = 1536;
