//! The streams a policy configured: started, changed when it is read again, stopped.
//!
//! Owns [`EventStreams`]. In: options, and those of loggers, whose folders may be asked for. Out: a thread a stream, with a runtime
//! of its own, so that neither reading nor sending takes anything from the threads that carry mail. A stream that is wanted
//! as it was goes on undisturbed; its successor begins when it has ended, for both have one checkpoint. What can fail is
//! prepared before anything changes.

use crate::checkpoint::Checkpoint;
use crate::error::EventError;
use crate::poster::Poster;
use crate::pull::{Asked, Pulled, Pulls};
use crate::push::{Push, STOP_GRACE};
use config::{EventStream, LocalLogs};
use net::tls::Connectors;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use telemetry::Metrics;
use tokio::sync::watch;

/// All streams.
pub struct EventStreams {
    metrics: Metrics,
    connectors: Connectors,
    running: Mutex<Running>,
    pulls: Pulls,
}

/// Segments of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// Where they are.
    pub log_dir: PathBuf,
    /// What their names end in.
    pub suffix: String,
}

/// What is to take the place of what runs.
pub struct Change {
    wanted: Vec<EventStream>,
    new: Vec<(EventStream, Poster)>,
    folders: Vec<Folder>,
}

struct Running {
    streams: Vec<Stream>,
    /// Those that nobody wants any more and that have not ended yet.
    leaving: Vec<Stream>,
    /// Each thread has one; `ended` is over when all are gone.
    alive: Option<Sender<()>>,
    ended: Receiver<()>,
}

struct Stream {
    options: EventStream,
    stop: watch::Sender<bool>,
    thread: JoinHandle<()>,
}

impl EventStreams {
    /// None yet.
    pub fn new(metrics: Metrics, connectors: Connectors) -> EventStreams {
        let (alive, ended) = channel();
        let running = Running { streams: Vec::new(), leaving: Vec::new(), alive: Some(alive), ended };
        EventStreams { metrics, connectors, running: Mutex::new(running), pulls: Pulls::default() }
    }

    /// What a policy wants, made ready. Nothing changes yet.
    ///
    /// # Errors
    /// A stream cannot work: its URL, header fields, key, checkpoint or directory; the text names it.
    pub fn prepare(&self, streams: &[EventStream], logs: &[LocalLogs]) -> Result<Change, String> {
        let folders = folders(logs);
        let mut new = Vec::new();
        let mut running = self.running();
        running.leaving.extract_if(.., |stream| stream.thread.is_finished()).for_each(Stream::end);
        if running.leaving.len() > LEAVING_MAX {
            return Err("event streams of earlier policies have not ended yet".to_owned());
        }
        for options in streams.iter().filter(|options| !running.has(options)) {
            let failed = |error: String| format!("kumo.configure_event_stream `{}`: {error}", options.name);
            let EventStream { name, log_dir, checkpoint_dir, .. } = options;
            // That of a logger is made when the logger begins.
            let is_logged = folders.iter().any(|folder| folder.log_dir == *log_dir);
            let given =
                [("log_dir", Some(log_dir).filter(|_| !is_logged)), ("checkpoint_dir", checkpoint_dir.as_ref())];
            for (option, dir) in given.iter().filter_map(|(option, dir)| Some((option, (*dir)?))) {
                if !dir.is_dir() {
                    return Err(failed(format!("{option} `{}`: expected a directory that is there", dir.display())));
                }
            }
            let checkpoint = Checkpoint::of(checkpoint_dir.as_ref().unwrap_or(log_dir), name);
            checkpoint.read().map_err(|error| failed(error.to_string()))?;
            let poster = Poster::new(options, &self.connectors).map_err(|error| failed(error.to_string()))?;
            new.push((options.clone(), poster));
        }
        Ok(Change { wanted: streams.to_vec(), new, folders })
    }

    /// Begins and ends streams. Waits for nothing.
    pub fn change(&self, change: Change) {
        let Change { wanted, new, folders } = change;
        self.pulls.set_folders(folders);
        let mut running = self.running();
        let Some(alive) = running.alive.clone() else { return };
        let is_over = |stream: &mut Stream| {
            !wanted.contains(&stream.options) || new.iter().any(|(options, _)| *options == stream.options)
        };
        let mut leaving: Vec<Stream> = running.streams.extract_if(.., is_over).collect();
        leaving.iter().for_each(|stream| _ = stream.stop.send_replace(true));
        for (options, poster) in new {
            // That of an earlier policy may not have ended yet.
            let is_it = |stream: &Stream| stream.options.name == options.name;
            let former = leaving.iter().position(is_it).map(|at| leaving.swap_remove(at));
            let before = || running.leaving.iter().rposition(is_it).map(|at| running.leaving.swap_remove(at));
            let former = former.or_else(before).map(|stream| stream.thread);
            let (stop, stopped) = watch::channel(false);
            let push = Push { options: options.clone(), poster, metrics: self.metrics.clone(), stop: stopped };
            let alive = alive.clone();
            let run = move || {
                run(push, former);
                drop(alive);
            };
            match std::thread::Builder::new().name(THREAD.to_owned()).spawn(run) {
                Ok(thread) => running.streams.push(Stream { options, stop, thread }),
                Err(error) => tracing::error!("event stream `{}` cannot be started: {error}", options.name),
            }
        }
        running.leaving.extend(leaving);
    }

    /// Tells all to stop: nothing more is begun. Does not wait.
    pub fn stop(&self) {
        self.pulls.stop();
        self.running().streams.iter().for_each(|stream| _ = stream.stop.send_replace(true));
    }

    /// Waits until all have stopped; what does not within [`CLOSE_MAX`] is left, and its last batch comes again. Blocks.
    pub fn close(&self) {
        self.stop();
        let mut running = self.running();
        running.alive = None;
        match running.ended.recv_timeout(CLOSE_MAX) {
            Ok(()) | Err(RecvTimeoutError::Disconnected) => {}
            Err(RecvTimeoutError::Timeout) => {
                tracing::warn!("event streams did not end within {CLOSE_MAX:?}; what they sent last comes again");
                return;
            }
        }
        let Running { streams, leaving, .. } = &mut *running;
        streams.drain(..).chain(leaving.drain(..)).for_each(Stream::end);
    }

    /// Records for who keeps the cursor himself; waits for the first, as long as he asked for.
    ///
    /// # Errors
    /// No such log, a gap, too many who ask, or the log cannot be read.
    pub async fn pull(&self, asked: Asked) -> Result<Pulled, EventError> {
        self.pulls.pull(asked).await
    }

    /// The logs that are written.
    pub fn folders(&self) -> Vec<Folder> {
        self.pulls.folders()
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    /// Whether a stream runs as it is wanted. One whose thread has ended does not.
    fn has(&self, options: &EventStream) -> bool {
        self.streams.iter().any(|stream| stream.options == *options && !stream.thread.is_finished())
    }
}

impl Stream {
    /// It has ended: says so when it panicked.
    fn end(self) {
        if self.thread.join().is_err() {
            tracing::error!("event stream `{}` has panicked", self.options.name);
        }
    }
}

impl Folder {
    /// What the names of its segments look like.
    pub fn pattern(&self) -> String {
        let digits = |count: usize| "[0-9]".repeat(count);
        format!("{}-{}.{}{}", digits(8), digits(6), digits(9), escaped(&self.suffix))
    }
}

/// A text that a pattern takes for itself.
fn escaped(text: &str) -> String {
    let one = |c: char| if matches!(c, '?' | '*' | '[' | ']') { format!("[{c}]") } else { c.to_string() };
    text.chars().map(one).collect()
}

/// Where loggers write, each once.
fn folders(logs: &[LocalLogs]) -> Vec<Folder> {
    let mut found: Vec<Folder> = Vec::new();
    for log in logs {
        let of_types = log.per_record.values().map(|entry| {
            let log_dir = entry.log_dir.clone().unwrap_or_else(|| log.log_dir.clone());
            Folder { log_dir, suffix: entry.suffix.clone().unwrap_or_default() }
        });
        let own = Folder { log_dir: log.log_dir.clone(), suffix: String::new() };
        for folder in std::iter::once(own).chain(of_types) {
            if !found.contains(&folder) {
                found.push(folder);
            }
        }
    }
    found
}

/// The thread of a stream.
fn run(push: Push, former: Option<JoinHandle<()>>) {
    let name = push.options.name.clone();
    if former.is_some_and(|former| former.join().is_err()) {
        tracing::error!("event stream `{name}` had panicked; it begins where its checkpoint is");
    }
    match tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build() {
        Ok(runtime) => {
            runtime.block_on(push.run());
            // A look-up of a name may still be waited for.
            runtime.shutdown_background();
        }
        Err(error) => tracing::error!("event stream `{name}` cannot be started: {error}"),
    }
}

/// As the system shows the threads of streams.
const THREAD: &str = "event stream";
/// Streams of earlier policies that may be ending when another policy comes.
const LEAVING_MAX: usize = 64;
/// How long all streams have to end: a request in flight, and a checkpoint.
const CLOSE_MAX: Duration = STOP_GRACE.saturating_add(Duration::from_secs(1));

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn patterns_are_of_one_kind_of_segment() {
        for (suffix, matches, others) in [
            ("", "20261125-030000.123456789", "20261125-030000.123456789-bounces"),
            ("-bounces", "20261125-030000.123456789-bounces", "20261125-030000.123456789"),
            (".[x]*", "20261125-030000.123456789.[x]*", "20261125-030000.123456789.x1"),
        ] {
            let pattern = Folder { log_dir: "/l".into(), suffix: suffix.to_owned() }.pattern();
            let dir = tempfile::tempdir().expect("scratch");
            crate::tests::segment(dir.path(), matches, "{}\n");
            crate::tests::segment(dir.path(), others, "{}\n");
            let lines = jsonl::Lines::open(dir.path(), &pattern, jsonl::Begin::End).expect("a pattern");
            assert_eq!(&*lines.at().file, matches);
        }
    }

    #[test]
    fn folders_are_those_of_loggers_each_once() {
        let logs: LocalLogs = config::parse(
            "kumo.configure_local_logs",
            json!({"log_dir": "/l", "per_record": {
                "Bounce": {"suffix": "-b"}, "OOB": {"suffix": "-b"}, "Delivery": {"log_dir": "/d"}, "Any": {},
            }}),
        )
        .expect("sound");
        let mut found: Vec<String> =
            folders(&[logs]).iter().map(|folder| format!("{}{}", folder.log_dir.display(), folder.suffix)).collect();
        found.sort();
        assert_eq!(found, ["/d", "/l", "/l-b"]);
    }
}
