//! Children: every program the harness starts, and the promise that none outlives it.
//!
//! A [`Program`] is a child in a process group of its own with its stderr in a file; dropping it kills the group, so
//! an error or a panic leaves nothing behind. The [`Herd`] knows all groups alive: a thread waits for SIGINT, SIGTERM
//! and SIGHUP, kills them and ends the harness. In: commands. Out: exit codes, and the last lines a child wrote when
//! something goes wrong. What cannot be caught is a SIGKILL of the harness itself.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use crate::wait::until;

/// The process groups alive, shared by all that start or end one.
#[derive(Clone, Default)]
pub struct Herd(Arc<Mutex<Vec<Pid>>>);

impl Herd {
    /// A herd that a signal to the harness ends; `scratch` is removed then.
    ///
    /// # Errors
    /// The signals cannot be caught.
    pub fn watched(scratch: PathBuf) -> anyhow::Result<Herd> {
        let herd = Herd::default();
        let watched = herd.clone();
        // Handlers, not a blocked mask and a thread that waits: a mask would be inherited by every child.
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let mut streams = {
            let _inside = runtime.enter();
            [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal)
        };
        for stream in &streams {
            stream.as_ref().map_err(|error| anyhow!("cannot catch signals: {error}"))?;
        }
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            runtime.block_on(first_of(&mut streams));
            // Kept to the end: nobody starts another child now, and whoever asks after one waits here.
            let groups = watched.lock();
            for pid in groups.iter() {
                // Already gone is as good.
                let _ = killpg(*pid, Signal::SIGKILL);
            }
            // Gigabytes of spool nobody will look at; if it cannot be removed there is nobody to tell.
            let _ = std::fs::remove_dir_all(&scratch);
            std::process::exit(EXIT_INTERRUPTED);
        })?;
        Ok(herd)
    }

    /// Takes in the group of a program that something else started.
    pub fn adopt(&self, leader: Pid) {
        self.lock().push(leader);
    }

    /// Forgets a group that has ended.
    pub fn release(&self, leader: Pid) {
        self.lock().retain(|pid| *pid != leader);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Pid>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running child.
pub struct Program {
    name: String,
    child: Child,
    pid: Pid,
    stderr: PathBuf,
    herd: Herd,
    ended: Option<ExitStatus>,
}

impl Program {
    /// Starts `command` with its output in `logs`, in files named after `name`.
    ///
    /// # Errors
    /// The program or its files cannot be opened.
    pub fn start(herd: &Herd, logs: &Path, name: &str, command: &mut Command) -> anyhow::Result<Program> {
        let stderr = logs.join(format!("{name}.stderr"));
        let create = |path: &Path| File::create(path).with_context(|| format!("cannot create {}", path.display()));
        command.stdin(Stdio::null()).process_group(0);
        command.stdout(create(&logs.join(format!("{name}.stdout")))?).stderr(create(&stderr)?);
        // Under the lock, so that a signal finds either no child or one it can kill.
        let mut groups = herd.lock();
        let child = command.spawn();
        let child = child.with_context(|| format!("{name}: cannot start {}", command.get_program().display()))?;
        let pid = Pid::from_raw(i32::try_from(child.id()).context("a process id out of range")?);
        groups.push(pid);
        Ok(Program { name: name.to_owned(), child, pid, stderr, herd: herd.clone(), ended: None })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// The kernel does not know the child.
    pub fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        if self.ended.is_none() {
            // Under the herd's lock, so that a signal does not kill whoever gets the freed process id next.
            let mut groups = self.herd.lock();
            self.ended = self.child.try_wait().with_context(|| format!("{}: cannot wait", self.name))?;
            if self.ended.is_some() {
                groups.retain(|pid| *pid != self.pid);
            }
        }
        Ok(self.ended)
    }

    /// Fails with the child's own words if it has ended.
    ///
    /// # Errors
    /// It has.
    pub fn ensure_alive(&mut self) -> anyhow::Result<()> {
        match self.ended()? {
            None => Ok(()),
            Some(status) => bail!("{} ended unasked with {status}{}", self.name, self.last_words()),
        }
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// It does not end within `limit`, or not with exit code 0.
    pub fn finish(&mut self, limit: Duration) -> anyhow::Result<()> {
        let what = format!("the end of {}", self.name);
        let status = match until(&what, limit, || self.ended()) {
            Ok(status) => status,
            Err(error) => bail!("{error}{}", self.last_words()),
        };
        if !status.success() {
            bail!("{} ended with {status}{}", self.name, self.last_words());
        }
        Ok(())
    }

    /// Asks it to end in order (SIGTERM) and waits.
    ///
    /// # Errors
    /// As of [`Program::finish`].
    pub fn terminate(&mut self, limit: Duration) -> anyhow::Result<()> {
        if self.ended()?.is_none() {
            kill(self.pid, Signal::SIGTERM).with_context(|| format!("{}: cannot send SIGTERM", self.name))?;
        }
        self.finish(limit)
    }

    /// Ends it at once (SIGKILL), as a crash would.
    pub fn kill(&mut self) {
        if let Ok(None) = self.ended() {
            let mut groups = self.herd.lock();
            // Its group holds what it started itself; both may be gone already.
            let _ = killpg(self.pid, Signal::SIGKILL);
            self.ended = self.child.wait().ok();
            groups.retain(|pid| *pid != self.pid);
        }
    }

    /// What it has written to stderr so far; empty if that cannot be read.
    pub fn stderr(&self) -> String {
        std::fs::read(&self.stderr).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// The last lines of its stderr, fit to be put behind an error.
    pub fn last_words(&self) -> String {
        let text = self.stderr();
        let lines: Vec<&str> = text.lines().collect();
        if lines.is_empty() {
            return format!("; {} wrote nothing to stderr", self.name);
        }
        let from = lines.len().saturating_sub(LAST_LINES);
        format!("; {} said last:\n    {}", self.name, lines[from..].join("\n    "))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Completes when the first of the signals comes.
async fn first_of(streams: &mut [std::io::Result<tokio::signal::unix::Signal>]) {
    std::future::poll_fn(|context| {
        let came = |stream: &mut std::io::Result<tokio::signal::unix::Signal>| {
            stream.as_mut().is_ok_and(|stream| stream.poll_recv(context).is_ready())
        };
        // Every stream is polled, so that each knows whom to wake.
        if streams.iter_mut().map(came).fold(false, |any, one| any | one) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// As a shell reports a program ended by SIGINT.
const EXIT_INTERRUPTED: i32 = 130;
/// Lines of stderr shown when a child fails.
const LAST_LINES: usize = 15;

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    fn shell(herd: &Herd, folder: &Path, script: &str) -> Program {
        Program::start(herd, folder, "shell", Command::new("sh").args(["-c", script])).expect("sh starts")
    }

    #[test]
    fn a_failure_carries_the_last_words() {
        let folder = tempfile::tempdir().expect("scratch folder");
        let mut program = shell(&Herd::default(), folder.path(), "echo the reason >&2; exit 3");
        let error = program.finish(LIMIT).expect_err("exit code 3").to_string();
        assert!(error.contains("shell ended with exit status: 3") && error.contains("the reason"), "{error}");
        assert!(program.ensure_alive().expect_err("gone").to_string().contains("ended unasked"));
    }

    #[test]
    fn a_dropped_program_takes_its_children_along() {
        let folder = tempfile::tempdir().expect("scratch folder");
        let herd = Herd::default();
        let program = shell(&herd, folder.path(), "sleep 1000 & echo $! >&2; wait");
        let grandchild = until("its word", LIMIT, || Ok(program.stderr().trim().parse::<i32>().ok())).expect("a pid");
        drop(program);
        assert!(herd.lock().is_empty());
        // A zombie waiting for whoever adopted it counts as gone.
        let gone = || {
            let stat = std::fs::read_to_string(format!("/proc/{grandchild}/stat")).unwrap_or_default();
            Ok((stat.is_empty() || stat.contains(") Z ")).then_some(()))
        };
        until("the grandchild's end", LIMIT, gone).expect("killed with its group");
    }

    #[test]
    fn a_child_hears_the_signals_the_harness_catches() {
        let folder = tempfile::tempdir().expect("scratch folder");
        let herd = Herd::watched(folder.path().join("none")).expect("signals");
        let mut program =
            Program::start(&herd, folder.path(), "sleeper", Command::new("sleep").arg("1000")).expect("sleep starts");
        let error = program.terminate(LIMIT).expect_err("it has no handler").to_string();
        assert!(error.contains("sleeper ended with signal: 15"), "{error}");
    }
}
