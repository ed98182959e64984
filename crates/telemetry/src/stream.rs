//! One stream of segments: takes finished lines, writes them on a thread of its own.
//!
//! Records cross as finished lines in a bounded buffer that both sides swap, so a producer pays
//! a copy and a short lock, and the thread compresses many records per wake-up. Logging never
//! waits: when `back_pressure` records wait already, [`Stream::is_full`] says so and whoever
//! takes up work holds back, so that the buffer can only grow by what is in hand; refusals, which nobody holds back,
//! are dropped then, or, by choice (`when_full = 'Drop'`), all that comes, and that is said. A segment ends at its size, at its age, and when the writer is closed. A full disk is first met with the
//! [`Reserve`]; then, as after any disk error, the batch is kept and tried again each second,
//! saying so; only closing gives such records up, saying so. A frame of the segment ends when it is large enough to be worth
//! a block of the index; then whoever searches reads it alone. Where that is wanted, what waits is in a [journal](crate::journal) too, so
//! that a kill takes none of it.

use crate::index::Key;
use crate::index_file::{IndexFile, remove_orphans};
use crate::journal::{self, Owner};
use crate::reserve::{Reserve, share_of};
use crate::retention::Retention;
use crate::ring::{self, Note, Notes, Ring, text_of};
use crate::segment::Segment;
use config::{LocalLogs, WhenFull};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use time::OffsetDateTime;
use watched::Watched;

/// A stream and its thread.
pub(crate) struct Stream {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What a stream's segments are like.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    /// The logger's options, with the directory of this stream.
    pub options: LocalLogs,
    /// In front of the time in names of segments.
    pub prefix: &'static str,
    /// Behind it.
    pub suffix: String,
    /// At the head of each segment: nothing, or whole lines.
    pub header: Vec<u8>,
}

struct Shared {
    state: Watched<State>,
    /// Signals the thread that lines wait or that it is to end.
    filled: Condvar,
    form: Form,
}

#[derive(Default)]
struct State {
    lines: Vec<u8>,
    /// By which those lines are found.
    keys: Vec<Key>,
    records: usize,
    /// Records that were dropped since there was room.
    dropped: u64,
    /// Why the disk takes none, from when it did not until it does.
    refused: Option<String>,
    /// Of all lines there ever were.
    octets: u64,
    journal: Option<Ring>,
    /// Of the records, those that the journal had no room for.
    unjournaled: usize,
    ending: Ending,
    sleeping: bool,
}

/// What became of a record that was to be logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// It is queued.
    Queued,
    /// It is queued, though as many waited as may.
    Full,
    /// As many waited as may: it is nowhere.
    Dropped,
    /// It is longer than `max_record_size`: it is nowhere.
    TooLarge,
}

/// Whether a stream is to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Ending {
    /// Not yet.
    #[default]
    No,
    /// Once all is written, however long the disk takes.
    WhenWritten,
    /// Now; what the disk does not take is lost.
    Now,
}

impl Stream {
    /// Starts a stream in a directory that is there.
    pub fn open(form: Form) -> io::Result<Stream> {
        let is_wanted = form.options.journal == Some(true);
        let journal = is_wanted.then(|| journal_of(&form)).transpose().unwrap_or_else(|error| {
            let dir = form.options.log_dir.display();
            tracing::warn!("log_dir {dir}: no journal ({error}): a kill may lose the last records");
            None
        });
        let (journal, notes) = journal.unzip();
        let state = State { journal, ..State::default() };
        let shared = Arc::new(Shared { state: Watched::new(state), filled: Condvar::new(), form });
        let writer = Writer::new(shared.clone(), notes);
        let run = move || writer.run();
        let thread = std::thread::Builder::new().name("logs".to_owned()).spawn(run)?;
        Ok(Stream { shared, thread: Mutex::new(Some(thread)) })
    }

    /// True while `back_pressure` records wait: new work should wait too.
    pub fn is_full(&self) -> bool {
        let options = &self.shared.form.options;
        options.when_full == WhenFull::Wait && self.shared.lock().records >= options.back_pressure
    }

    /// True while records are dropped for want of room.
    pub fn is_dropping(&self) -> bool {
        self.shared.form.options.when_full == WhenFull::Drop && self.shared.lock().dropped > 0
    }

    /// Why records wait that the disk does not take; nothing while it does.
    pub fn refused(&self) -> Option<String> {
        self.shared.lock().refused.clone()
    }

    /// Whether it wants keys.
    pub fn is_indexed(&self) -> bool {
        self.shared.form.options.index
    }

    /// Queues the line of one record, behind its [`room_for_head`](crate::ring::room_for_head), and what it is found by;
    /// waits for nothing but the page cache, and that with a journal only: then a kill does not lose it from here on. One that
    /// `gives_way` is dropped where too many wait, whatever else is to become of what comes then.
    pub fn push(&self, line: &mut [u8], keys: &[Key], gives_way: bool) -> Offered {
        if self.shared.form.options.journal == Some(true) {
            ring::seal(line);
        }
        let mut state = self.shared.lock();
        let options = &self.shared.form.options;
        let offered = if state.records < options.back_pressure { Offered::Queued } else { Offered::Full };
        let drops_all = options.when_full == WhenFull::Drop;
        if offered == Offered::Full && (drops_all || gives_way) {
            state.dropped += 1;
            if state.dropped == 1 {
                drop(state);
                let (dir, count) = (options.log_dir.display(), options.back_pressure);
                let which = if drops_all { "those" } else { "refusals" };
                tracing::warn!("log_dir {dir}: {count} records wait to be written: {which} that come are dropped");
            }
            return Offered::Dropped;
        }
        let at = state.octets;
        state.octets += text_of(line).len() as u64;
        // Under the lock: one that was written late would hit a line of the next round.
        let is_left_out = state.journal.as_mut().is_some_and(|journal| !journal.put(at, line));
        state.unjournaled += usize::from(is_left_out);
        state.lines.extend_from_slice(text_of(line));
        state.keys.extend_from_slice(keys);
        state.records += 1;
        let is_half_full = state.records == (self.shared.form.options.back_pressure / 2).max(1);
        if state.sleeping && (state.lines.len() >= WAKE_BYTES || state.records == 1 || is_half_full) {
            self.shared.filled.notify_one();
        }
        offered
    }

    /// How often somebody found it locked.
    pub fn lock_waits(&self) -> u64 {
        self.shared.state.waits()
    }

    /// Nothing more will come: the segment and the thread end once all is written. Does not wait for that.
    pub fn retire(&self) {
        self.shared.end(Ending::WhenWritten);
    }

    /// True once the thread has ended.
    pub fn is_over(&self) -> bool {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Writes everything, ends the segment and the thread.
    pub fn close(&self) {
        self.shared.end(Ending::Now);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Err(_)) = thread.map(JoinHandle::join) {
            tracing::error!("the log thread panicked; its last records may be missing");
        }
    }
}

impl Shared {
    fn end(&self, how: Ending) {
        let mut state = self.lock();
        state.ending = state.ending.max(how);
        drop(state);
        self.filled.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// The thread's side.
struct Writer {
    shared: Arc<Shared>,
    segment: Option<Segment>,
    /// Its index.
    index: Option<IndexFile>,
    notes: Option<Notes>,
    /// Where in the stream the next line to be written begins.
    at: u64,
    /// What of the journal was used when the lines being written were taken.
    journal_used: u64,
    /// Of the lines being written, those that the journal does not have.
    unjournaled: usize,
    /// Lines that no segment has were given up.
    gave_up: bool,
    /// With what became of the segment then: it stays locked, so that nobody takes it for complete before the journal is free too.
    given_up: Option<Segment>,
    /// Lines that neither a segment nor the journal has.
    lost: usize,
    /// Of the lines being written.
    keys: Vec<Key>,
    /// A frame ends with the lines that bring it to so many octets.
    frame_bytes_max: u64,
    /// The open segment has its header.
    headed: bool,
    opened: Instant,
    /// What the last segment was named after.
    named: Option<OffsetDateTime>,
    reserve: Reserve,
    retention: Retention,
    complained: bool,
    /// When it was seen last whether the segment is still there.
    looked: Instant,
}

impl Writer {
    fn new(shared: Arc<Shared>, notes: Option<Notes>) -> Writer {
        let now = Instant::now();
        let reserve = Reserve::of(&shared.form.options.log_dir, now);
        let retention = Retention::of(&shared.form.options, now);
        Writer {
            shared,
            segment: None,
            index: None,
            notes,
            at: 0,
            journal_used: 0,
            unjournaled: 0,
            gave_up: false,
            given_up: None,
            lost: 0,
            keys: Vec::new(),
            frame_bytes_max: FRAME_BYTES,
            headed: false,
            named: None,
            opened: now,
            looked: now,
            reserve,
            retention,
            complained: false,
        }
    }

    fn run(mut self) {
        let mut lines = Vec::new();
        loop {
            let mut ending = self.gather(&mut lines);
            self.tend();
            if self.is_left_to_journal() {
                self.lost += std::mem::take(&mut self.unjournaled);
                lines.clear();
            }
            while !lines.is_empty() {
                let part = self.part(&lines);
                match self.write(&lines[..part]) {
                    Ok(()) => {
                        lines.drain(..part);
                        self.at += part as u64;
                        self.rejoice();
                        self.end_frame();
                        if self.is_over() {
                            self.finish();
                        }
                    }
                    Err(error) if self.makes_room(&error) => {}
                    Err(error) if ending == Ending::Now => {
                        tracing::error!("log records lost at shutdown, but for those in the journal: {error}");
                        self.give_up();
                        lines.clear();
                    }
                    Err(error) => {
                        ending = self.complain(&error);
                        // What has been kept long enough may be what is in the way.
                        self.tend();
                    }
                }
            }
            // What came while the disk took nothing is still to be written.
            let is_end = ending > Ending::No && self.shared.lock().records == 0;
            if is_end || self.is_over() {
                self.finish();
            }
            if is_end && self.segment.is_none() {
                return self.end_journal();
            }
        }
    }

    /// The disk takes no more. With a journal its last note says what of it the segment has, and what is not there is found
    /// again: neither is touched any more.
    fn give_up(&mut self) {
        self.gave_up = true;
        if self.notes.is_some() {
            self.lost += std::mem::take(&mut self.unjournaled);
            (self.given_up, self.index) = (self.segment.take(), None);
        }
    }

    /// Whether lines that come are to stay in the journal: in a segment they would be noted in front of those that were given up.
    fn is_left_to_journal(&self) -> bool {
        self.gave_up && self.notes.is_some()
    }

    /// The journal of a stream that is over goes, unless it has lines that no segment has.
    fn end_journal(&self) {
        if self.lost > 0 {
            let dir = self.shared.form.options.log_dir.display();
            tracing::error!(
                "log_dir {dir}: up to {} records are lost: the journal had no room for them either",
                self.lost
            );
        }
        if let (Some(notes), false) = (&self.notes, self.gave_up)
            && let Err(error) = notes.remove()
        {
            tracing::warn!("log_dir {}: its journal stays: {error}", self.shared.form.options.log_dir.display());
        }
    }

    /// Looks after the disk, as often as is needed.
    fn tend(&mut self) {
        let now = Instant::now();
        self.reserve.tend(now);
        let Form { options, prefix, suffix, .. } = &self.shared.form;
        self.retention.tend(&options.log_dir, (prefix, suffix), now);
        if now.saturating_duration_since(self.looked) >= LOOK_INTERVAL {
            self.looked = now;
            self.look_after_segment();
        }
    }

    /// A segment that somebody removed takes no more records, which nobody would find: they go to another.
    fn look_after_segment(&mut self) {
        if let Some(segment) = self.segment.take_if(|segment| segment.is_gone()) {
            tracing::error!(
                "the segment {} was removed while it was written, and so were its records",
                segment.path().display()
            );
            self.index = None;
        }
    }

    /// Waits for lines, the end of the segment's time, or that of the stream; tells the latter.
    fn gather(&mut self, lines: &mut Vec<u8>) -> Ending {
        let mut state = self.shared.lock();
        if !self.gave_up {
            // What was taken the last time is in segments by now.
            state.journal.iter_mut().for_each(|journal| journal.free(self.journal_used));
        }
        while state.records == 0 && state.ending == Ending::No && !self.is_over() {
            state.sleeping = true;
            let wait = self.time_left().unwrap_or(IDLE_WAIT);
            let now = Instant::now();
            let others = [self.reserve.time_left(now), self.retention.time_left(now)];
            let wait = others.into_iter().flatten().fold(wait, Duration::min);
            state = self.shared.filled.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
            state.sleeping = false;
            let now = Instant::now();
            if self.is_over() || self.reserve.is_due(now) || self.retention.time_left(now) == Some(Duration::ZERO) {
                break;
            }
        }
        if state.ending == Ending::No && state.records > 0 && state.lines.len() < WAKE_BYTES {
            // Let a batch gather: compressing many records at once costs far less than one by one.
            state.sleeping = true;
            state = self.shared.filled.wait_timeout(state, BATCH_WAIT).unwrap_or_else(PoisonError::into_inner).0;
            state.sleeping = false;
        }
        std::mem::swap(&mut state.lines, lines);
        self.journal_used = state.journal.as_ref().map_or(0, Ring::used);
        self.unjournaled = std::mem::take(&mut state.unjournaled);
        self.keys.clear();
        std::mem::swap(&mut state.keys, &mut self.keys);
        state.records = 0;
        let (ending, dropped) = (state.ending, std::mem::take(&mut state.dropped));
        drop(state);
        if dropped > 0 {
            let dir = self.shared.form.options.log_dir.display();
            match ending {
                Ending::No => tracing::warn!("log_dir {dir}: there is room for records again; {dropped} were dropped"),
                _ => tracing::warn!("log_dir {dir}: {dropped} records were dropped"),
            }
        }
        ending
    }

    /// Octets of whole lines that fill the segment to its size, one line at least.
    fn part(&self, lines: &[u8]) -> usize {
        let used = self.segment.as_ref().map_or(0, |s| s.uncompressed_bytes);
        let room = usize::try_from(self.shared.form.options.max_file_size.saturating_sub(used)).unwrap_or(usize::MAX);
        if lines.len() <= room {
            return lines.len();
        }
        let from = room.saturating_sub(1).min(lines.len());
        lines[from..].iter().position(|b| *b == b'\n').map_or(lines.len(), |at| from + at + 1)
    }

    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.segment.is_none() {
            let Form { options, prefix, suffix, .. } = &self.shared.form;
            let now = OffsetDateTime::now_utc();
            let (dir, level) = (&options.log_dir, options.compression_level);
            // It may have been removed, or is to be made anew on another disk.
            std::fs::create_dir_all(dir)?;
            let segment = Segment::create(dir, (prefix, suffix), level, now, &mut self.named)?;
            self.index = options.index.then(|| IndexFile::beside(segment.path()));
            (self.segment, self.opened, self.headed) = (Some(segment), Instant::now(), false);
        }
        let Some(segment) = &mut self.segment else { return Ok(()) };
        if segment.is_ending() {
            let frame = segment.end_frame()?;
            self.index.iter_mut().for_each(|index| index.end_frame(&frame));
        }
        if !self.headed && !self.shared.form.header.is_empty() {
            segment.write(&self.shared.form.header)?;
        }
        self.headed = true;
        if let Some(notes) = &self.notes {
            let name = segment.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
            let (frame_start, frame_octets) = (segment.frame_start(), segment.frame_bytes());
            notes.note(&Note { at: self.at, segment: name, frame_start, frame_octets });
        }
        segment.write(lines)?;
        // Of lines that a segment has no room for too: who finds one there reads a frame for nothing.
        self.index.iter_mut().for_each(|index| index.note(&self.keys));
        Ok(())
    }

    /// Ends the frame if it is large enough. What of its end cannot be written now is written before the next lines.
    fn end_frame(&mut self) {
        while let (Some(segment), Some(index)) = (&mut self.segment, &mut self.index) {
            if segment.frame_bytes() < self.frame_bytes_max {
                return;
            }
            match segment.end_frame() {
                Ok(frame) => index.end_frame(&frame),
                Err(error) if self.makes_room(&error) => {}
                Err(_) => return,
            }
        }
    }

    fn time_left(&self) -> Option<Duration> {
        let max = self.shared.form.options.max_segment_duration?.get();
        self.segment.as_ref().map(|_| max.saturating_sub(self.opened.elapsed()))
    }

    fn is_over(&self) -> bool {
        let size_max = self.shared.form.options.max_file_size;
        self.segment.as_ref().is_some_and(|s| s.uncompressed_bytes >= size_max)
            || self.time_left().is_some_and(|left| left.is_zero())
    }

    fn finish(&mut self) {
        let Some(mut segment) = self.segment.take() else { return };
        let mut index = self.index.take();
        let log_dir = self.shared.form.options.log_dir.clone();
        let frame = loop {
            let ended = segment.end_frame().and_then(|frame| {
                // Before whoever ships it may remove it.
                let note = Note { at: self.at, ..Note::default() };
                self.notes.iter().for_each(|notes| notes.note(&note));
                segment.finish().map(|()| frame)
            });
            match ended {
                Ok(frame) => break frame,
                Err(error) if self.makes_room(&error) => {}
                Err(error) if is_full(&error) && self.shared.lock().ending != Ending::Now => {
                    // Its end is still to come.
                    (self.segment, self.index) = (Some(segment), index.take());
                    self.complain(&error);
                    return;
                }
                Err(error) => {
                    tracing::error!("log_dir {}: cannot finish a segment: {error}", log_dir.display());
                    return;
                }
            }
        };
        self.rejoice();
        if let Some(mut index) = index {
            index.end_frame(&frame);
            if let Err(error) = remove_orphans(&log_dir) {
                tracing::warn!("log_dir {}: indexes of removed segments stay: {error}", log_dir.display());
            }
        }
    }

    /// True when the disk was full and the reserve has made room: the same call may be made again.
    fn makes_room(&mut self, error: &io::Error) -> bool {
        is_full(error) && self.reserve.release(Instant::now())
    }

    /// A segment on a full disk waits, to go on behind its last octet. One that failed otherwise
    /// is abandoned: its frame may be cut anywhere. Waits a moment; tells whether the stream is to end.
    fn complain(&mut self, error: &io::Error) -> Ending {
        if !std::mem::replace(&mut self.complained, true) {
            let dir = self.shared.form.options.log_dir.display();
            tracing::error!("log_dir {dir}: {error}; records wait, trying again each second");
        }
        if !is_full(error)
            && let Some(segment) = self.segment.take()
        {
            segment.discard_if_empty();
        }
        let mut state = self.shared.lock();
        state.refused = Some(error.to_string());
        let waited = self.shared.filled.wait_timeout(state, RETRY_WAIT).unwrap_or_else(PoisonError::into_inner);
        waited.0.ending
    }

    /// The opposite of a complaint, when there was one.
    fn rejoice(&mut self) {
        if std::mem::replace(&mut self.complained, false) {
            self.shared.lock().refused = None;
            tracing::info!("log_dir {}: records are written again", self.shared.form.options.log_dir.display());
        }
    }
}

/// The journal that a stream begins with.
fn journal_of(form: &Form) -> io::Result<(Ring, Notes)> {
    let Form { options, prefix, suffix, header } = form;
    let (prefix, suffix, header) = ((*prefix).to_owned(), suffix.clone(), header.clone());
    let owner = Owner { prefix, suffix, header, level: options.compression_level };
    let octets = share_of(&options.log_dir, JOURNAL_OCTETS)? / JOURNAL_UNIT * JOURNAL_UNIT;
    match octets {
        0 => Err(io::Error::other("its disk is too small")),
        octets => journal::create(&options.log_dir, &owner, octets),
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// How often it is seen whether the segment is still there, while there are records.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Lines that wake the thread at once, in octets.
const WAKE_BYTES: usize = 256 * 1024;
/// A frame ends behind the batch with which it reaches so many octets of text: some thousand records, which are read in some
/// milliseconds.
const FRAME_BYTES: u64 = 2 * 1024 * 1024;
/// Octets of a journal's ring, on a disk that is large enough: the lines of two batches, and some more.
const JOURNAL_OCTETS: u64 = 1 << 20;
/// It is a multiple of so many.
const JOURNAL_UNIT: u64 = 64 << 10;
/// How long a batch may gather.
const BATCH_WAIT: Duration = Duration::from_millis(20);
/// How long the thread sleeps when nothing is to be timed.
const IDLE_WAIT: Duration = Duration::from_secs(3600);
/// Pause after a disk error.
const RETRY_WAIT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
