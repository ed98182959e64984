//! A child process: its lines as they come, its end, and its end with ours.
//!
//! In: a command. Out: lines of stderr and stdout, awaited with a deadline; the exit status. When a test fails, the
//! last lines of every process it held are printed. A dropped process is killed and waited for.

use crate::until::until;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A running (or ended) child.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    stdout: Arc<Lines>,
    stderr: Arc<Lines>,
}

/// What a child left when it ended.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// All it wrote to stdout.
    pub stdout: String,
    /// All it wrote to stderr.
    pub stderr: String,
}

impl Process {
    /// Starts `command` with nothing on stdin; `name` is what failures call it.
    pub fn spawn(name: &str, mut command: Command) -> Process {
        command.stdin(Stdio::null());
        Process::start(name, command)
    }

    /// Starts `command` with a pipe on stdin, and its other end.
    pub fn spawn_listening(name: &str, mut command: Command) -> (Process, ChildStdin) {
        command.stdin(Stdio::piped());
        let mut process = Process::start(name, command);
        let input = process.child.stdin.take().expect("stdin is piped");
        (process, input)
    }

    fn start(name: &str, mut command: Command) -> Process {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|e| panic!("cannot run {name}: {command:?}: {e}"));
        let stdout = Lines::follow(child.stdout.take().expect("stdout is piped"));
        let stderr = Lines::follow(child.stderr.take().expect("stderr is piped"));
        Process { name: name.to_owned(), child, stdout, stderr }
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line of stderr in which `find` finds something, among those already there too.
    pub fn await_stderr<T>(&self, what: &str, within: Duration, find: impl FnMut(&str) -> Option<T>) -> T {
        match self.stderr.find(within, find) {
            Some(found) => found,
            None => panic!("{}: no line on stderr with {what} within {within:?}", self.name),
        }
    }

    /// What it wrote to stderr so far.
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// What it wrote to stdout so far.
    pub fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill(self.nix_pid(), signal).unwrap_or_else(|e| panic!("{}: {signal}: {e}", self.name));
    }

    /// Stops it with SIGSTOP, and waits until it stands still: it answers nobody any more, until SIGCONT.
    pub fn freeze(&self) {
        self.signal(Signal::SIGSTOP);
        let flags = WaitPidFlag::WSTOPPED | WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
        let status = waitid(Id::Pid(self.nix_pid()), flags).unwrap_or_else(|e| panic!("{}: wait: {e}", self.name));
        assert!(matches!(status, WaitStatus::Stopped(..)), "{}: {status:?}", self.name);
    }

    /// Ends it with SIGKILL, as a power cut would, and waits for the end.
    pub fn kill(&mut self) {
        // One that has ended by itself cannot be killed; the wait tells either way.
        let _ = self.child.kill();
        self.child.wait().unwrap_or_else(|e| panic!("{}: wait: {e}", self.name));
    }

    /// True while it runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap_or_else(|e| panic!("{}: wait: {e}", self.name)).is_none()
    }

    /// Waits for its end and for all its output.
    pub fn finish(&mut self, within: Duration) -> Finished {
        let deadline = Instant::now() + within;
        let name = self.name.clone();
        let status = until(within, &format!("the end of {name}"), || {
            self.child.try_wait().unwrap_or_else(|e| panic!("{name}: wait: {e}"))
        });
        for lines in [&self.stdout, &self.stderr] {
            assert!(lines.await_end(deadline + OUTPUT_GRACE), "{name} ended, but somebody holds its output open");
        }
        Finished { status, stdout: self.stdout.text(), stderr: self.stderr.text() }
    }

    fn nix_pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).expect("a process id"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let status = self.child.try_wait().ok().flatten();
        if status.is_none() {
            // Nobody is left to tell when this fails; the wait below makes sure of the end.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        if std::thread::panicking() {
            let end = status.map_or_else(|| "still running".to_owned(), |s| s.to_string());
            eprintln!("--- {} (pid {}, {end}), last lines:", self.name, self.child.id());
            for (stream, lines) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
                lines.tail(TAIL_LINES).iter().for_each(|line| eprintln!("{stream}: {line}"));
            }
        }
    }
}

impl Finished {
    /// Panics unless it ended with exit code 0. Returns itself.
    pub fn success(self) -> Finished {
        assert!(self.status.success(), "{}\nstdout: {}\nstderr: {}", self.status, self.stdout, self.stderr);
        self
    }
}

/// Runs `command` to its end.
pub fn run(name: &str, command: Command, within: Duration) -> Finished {
    Process::spawn(name, command).finish(within)
}

/// The lines of one stream.
#[derive(Debug, Default)]
struct Lines {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    lines: VecDeque<String>,
    /// Lines thrown away at the front: nobody needs the beginning of a flood.
    dropped: usize,
    ended: bool,
}

impl Lines {
    fn follow(stream: impl Read + Send + 'static) -> Arc<Lines> {
        let lines = Arc::new(Lines::default());
        let ours = lines.clone();
        std::thread::spawn(move || {
            let mut reader = BufReader::new(stream);
            let mut line = Vec::new();
            while reader.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
                ours.push(String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(&line)).into_owned());
                line.clear();
            }
            ours.lock().ended = true;
            ours.changed.notify_all();
        });
        lines
    }

    fn push(&self, line: String) {
        let mut state = self.lock();
        if state.lines.len() == LINES_MAX {
            state.lines.pop_front();
            state.dropped += 1;
        }
        state.lines.push_back(line);
        drop(state);
        self.changed.notify_all();
    }

    fn find<T>(&self, within: Duration, mut find: impl FnMut(&str) -> Option<T>) -> Option<T> {
        let deadline = Instant::now() + within;
        let mut state = self.lock();
        let mut seen = 0;
        loop {
            let from = seen.max(state.dropped) - state.dropped;
            if let Some(found) = state.lines.iter().skip(from).find_map(|line| find(line)) {
                return Some(found);
            }
            seen = state.dropped + state.lines.len();
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || state.ended {
                return None;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn await_end(&self, deadline: Instant) -> bool {
        let mut state = self.lock();
        while !state.ended {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn text(&self) -> String {
        self.tail(LINES_MAX).join("\n")
    }

    fn tail(&self, count: usize) -> Vec<String> {
        let state = self.lock();
        state.lines.iter().skip(state.lines.len().saturating_sub(count)).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lines kept of one stream.
const LINES_MAX: usize = 20_000;
/// Lines of each stream shown when a test fails.
const TAIL_LINES: usize = 40;
/// How much longer than its process a pipe may live.
const OUTPUT_GRACE: Duration = Duration::from_secs(5);
