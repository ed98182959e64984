//! A daemon with several lives: started, stopped or killed, and started again on the same ports with what it left. In: a
//! policy and its environment. Out: how long a start took until the first 220, readings.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::metrics::Metrics;
use crate::proc_file;
use crate::process::Program;
use crate::relay::{ANY_PORT, daemon_command, launch};
use crate::sink::await_listeners;
use crate::stage::{Programs, Stage};

/// One daemon through its lives.
pub struct Daemon {
    name: String,
    kumod: PathBuf,
    policy: PathBuf,
    environment: Vec<(&'static str, OsString)>,
    lives: u32,
    program: Program,
    /// Where it takes mail.
    pub smtp: SocketAddr,
    /// Where it answers HTTP.
    pub http: SocketAddr,
}

impl Daemon {
    /// The first life: with `BACKLOG_PORT` and `BACKLOG_HTTP` of its own choice.
    ///
    /// # Errors
    /// It does not come up.
    pub fn start(
        stage: &Stage,
        programs: &Programs,
        name: &str,
        policy: &str,
        environment: Vec<(&'static str, OsString)>,
    ) -> anyhow::Result<Daemon> {
        let (kumod, policy) = (programs.kumod.clone(), stage.policy(policy));
        let mut command = daemon_command(&kumod, &policy)?;
        command.envs(environment.iter().cloned()).env(PORT, "0").env(HTTP, ANY_PORT);
        let (program, smtp, http) = launch(stage, name, &mut command)?;
        Ok(Daemon { name: name.to_owned(), kumod, policy, environment, lives: 1, program, smtp, http })
    }

    /// Changes a variable for the lives to come.
    pub fn set(&mut self, name: &'static str, value: impl Into<OsString>) {
        self.environment.retain(|(is, _)| *is != name);
        self.environment.push((name, value.into()));
    }

    /// Asks it to end; how long that took.
    ///
    /// # Errors
    /// It does not end in order.
    pub fn stop(&mut self) -> anyhow::Result<Duration> {
        let started = Instant::now();
        self.program.terminate(STOP_LIMIT)?;
        Ok(started.elapsed())
    }

    /// Ends it as a crash would.
    pub fn kill(&mut self) {
        self.program.kill();
    }

    /// The next life; when it was begun, and how long it took from there until a client had read `220`.
    ///
    /// # Errors
    /// It does not come up.
    pub fn again(&mut self, stage: &Stage) -> anyhow::Result<(Instant, Duration)> {
        self.lives += 1;
        let mut command = daemon_command(&self.kumod, &self.policy)?;
        command.envs(self.environment.iter().cloned());
        command.env(PORT, self.smtp.port().to_string()).env(HTTP, self.http.to_string());
        let name = format!("{}-life{}", self.name, self.lives);
        let begun = Instant::now();
        self.program = Program::start(&stage.herd, &stage.logs(), &name, &mut command)?;
        while !greeted(self.smtp)? {
            self.program.ensure_alive()?;
            if begun.elapsed() > START_LIMIT {
                bail!("{name}: no 220 within {} s{}", START_LIMIT.as_secs(), self.program.last_words());
            }
            std::thread::sleep(LOOK_REST);
        }
        let first_220 = begun.elapsed();
        await_listeners(&mut self.program, "the restarted daemon's listeners")?;
        Ok((begun, first_220))
    }

    /// Its metrics.
    ///
    /// # Errors
    /// It has ended, or does not answer.
    pub fn metrics(&mut self) -> anyhow::Result<Metrics> {
        self.program.ensure_alive()?;
        Metrics::scrape(self.http).with_context(|| format!("{}{}", self.name, self.program.last_words()))
    }

    /// Messages in its scheduled and ready queues.
    ///
    /// # Errors
    /// As of [`Daemon::metrics`].
    pub fn queued(&mut self) -> anyhow::Result<f64> {
        let metrics = self.metrics()?;
        Ok(metrics.value("scheduled_count_total").unwrap_or_default() + metrics.sum("ready_count"))
    }

    /// Its resident set now, in octets.
    ///
    /// # Errors
    /// It has ended.
    pub fn rss_octets(&self) -> anyhow::Result<f64> {
        Ok(proc_file::rss_kib(self.program.pid())? as f64 * 1024.0)
    }

    /// The largest resident set of this life, in octets.
    ///
    /// # Errors
    /// It has ended.
    pub fn peak_rss_octets(&self) -> anyhow::Result<f64> {
        Ok(proc_file::peak_rss_kib(self.program.pid())? as f64 * 1024.0)
    }

    /// Fails with its last words if it has ended.
    ///
    /// # Errors
    /// It has.
    pub fn ensure_alive(&mut self) -> anyhow::Result<()> {
        self.program.ensure_alive()
    }
}

/// Whether a client that connects now is greeted; false while nobody listens.
fn greeted(address: SocketAddr) -> anyhow::Result<bool> {
    let Ok(stream) = TcpStream::connect(address) else { return Ok(false) };
    stream.set_read_timeout(Some(START_LIMIT))?;
    let mut line = String::new();
    // A reset is as good as a refusal: the listener is not there yet.
    let read = BufReader::new(stream).read_line(&mut line);
    Ok(read.is_ok() && line.starts_with("220"))
}

const PORT: &str = "BACKLOG_PORT";
const HTTP: &str = "BACKLOG_HTTP";
/// Rest between two tries to connect: well below what is measured.
const LOOK_REST: Duration = Duration::from_millis(1);
/// Longest time until the first 220.
const START_LIMIT: Duration = Duration::from_secs(300);
/// Longest time a daemon with a large backlog may take to end.
const STOP_LIMIT: Duration = Duration::from_secs(120);
