//! The daemon under measurement: started, read, crashed, restarted, stopped. In: a duty. Out: addresses and readings.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;

use crate::metrics::Metrics;
use crate::proc_file;
use crate::process::Program;
use crate::round::{Reading, Subject};
use crate::sink::await_listeners;
use crate::stage::{Programs, Stage};
use crate::workload::{Duty, Over, Signing};

/// A running daemon.
pub struct Relay {
    name: String,
    kumod: PathBuf,
    policy: PathBuf,
    folder: PathBuf,
    environment: Vec<(&'static str, OsString)>,
    /// The variable that names its SMTP port.
    port_variable: &'static str,
    lives: u32,
    program: Program,
    smtp: SocketAddr,
    http: SocketAddr,
}

impl Relay {
    /// Starts one with an empty spool that delivers to `to` (or discards).
    ///
    /// # Errors
    /// It does not come up.
    pub fn start(
        stage: &Stage,
        programs: &Programs,
        name: &str,
        duty: Duty,
        to: Option<SocketAddr>,
    ) -> anyhow::Result<Relay> {
        Relay::start_with(stage, programs, name, duty, to, Vec::new())
    }

    /// As [`Relay::start`], with more in its environment.
    ///
    /// # Errors
    /// It does not come up.
    pub fn start_with(
        stage: &Stage,
        programs: &Programs,
        name: &str,
        duty: Duty,
        to: Option<SocketAddr>,
        more: Vec<(&'static str, OsString)>,
    ) -> anyhow::Result<Relay> {
        let folder = stage.spool(name)?;
        let (policy, port_variable, mut environment) = match duty {
            Duty::Discard => {
                let environment = vec![("SINK_DIR", folder.clone().into()), ("SINK_HTTP", ANY_PORT.into())];
                ("sink.lua", "SINK_PORT", environment)
            }
            Duty::Local => {
                let environment = vec![("RELAY_DIR", folder.clone().into()), ("RELAY_HTTP", ANY_PORT.into())];
                ("local.lua", "RELAY_PORT", environment)
            }
            Duty::Relay(signing) | Duty::Production(signing) => {
                let to = to.context("a relay needs a sink")?;
                let policy = if matches!(duty, Duty::Relay(_)) { "relay.lua" } else { "production.lua" };
                (policy, "RELAY_PORT", relay_environment(stage, &folder, to, signing))
            }
        };
        environment.extend(more);
        let policy = stage.policy(policy);
        let mut command = daemon_command(&programs.kumod, &policy)?;
        command.envs(environment.iter().cloned()).env(port_variable, "0");
        let (program, smtp, http) = launch(stage, name, &mut command)?;
        let kumod = programs.kumod.clone();
        let name = name.to_owned();
        Ok(Relay { name, kumod, policy, folder, environment, port_variable, lives: 1, program, smtp, http })
    }

    /// Kills it as a crash would, and starts it again on the same port with the spool it left.
    ///
    /// # Errors
    /// It does not come up again.
    pub fn crash_and_restart(&mut self, stage: &Stage) -> anyhow::Result<()> {
        self.program.kill();
        self.lives += 1;
        let mut command = daemon_command(&self.kumod, &self.policy)?;
        command.envs(self.environment.iter().cloned()).env(self.port_variable, self.smtp.port().to_string());
        let name = format!("{}-life{}", self.name, self.lives);
        (self.program, self.smtp, self.http) = launch(stage, &name, &mut command).context("restart after a kill")?;
        Ok(())
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.program.pid()
    }

    /// The largest resident set it ever had, in MiB.
    ///
    /// # Errors
    /// It has ended.
    pub fn peak_rss_mib(&self) -> anyhow::Result<f64> {
        Ok(proc_file::peak_rss_kib(self.program.pid())? as f64 / 1024.0)
    }

    /// Stops it in order and removes its spool.
    ///
    /// # Errors
    /// It does not end in order.
    pub fn stop(mut self, stage: &Stage) -> anyhow::Result<()> {
        self.program.terminate(STOP_LIMIT)?;
        stage.sweep(&self.folder);
        Ok(())
    }
}

/// Of all listeners; each SMTP listener has a series of its own besides.
fn received(metrics: &Metrics) -> f64 {
    let of = |listeners| metrics.of_service("total_messages_received", listeners).unwrap_or_default();
    of("esmtp_listener") + of("http_listener")
}

impl Subject for Relay {
    fn address(&self, over: Over) -> SocketAddr {
        match over {
            Over::Smtp => self.smtp,
            Over::Http(_) | Over::Bulk => self.http,
        }
    }

    fn reading(&self) -> anyhow::Result<Reading> {
        let metrics = Metrics::scrape(self.http)?;
        Ok(Reading {
            cpu_us: proc_file::cpu_us(self.program.pid())?,
            commits: metrics.value("postrider_spool_commits"),
            spool_octets: metrics.value("postrider_spool_bytes_written"),
            writer_us: Some(writer_us(self.program.pid())?),
            received: Some(received(&metrics)),
        })
    }

    fn delivered(&self) -> anyhow::Result<Option<f64>> {
        Ok(Metrics::scrape(self.http)?.of_service("total_messages_delivered", "smtp_client"))
    }

    fn held(&self) -> anyhow::Result<Option<f64>> {
        Ok(Metrics::scrape(self.http)?.value("message_count"))
    }

    fn ensure_alive(&mut self) -> anyhow::Result<()> {
        self.program.ensure_alive()
    }

    fn last_words(&self) -> String {
        self.program.last_words()
    }
}

/// CPU of the thread that writes the spool.
fn writer_us(pid: u32) -> anyhow::Result<f64> {
    let threads = proc_file::thread_cpu_us(pid)?;
    Ok(threads.iter().filter(|(name, _)| name == WRITER).map(|(_, us)| us).sum())
}

fn relay_environment(
    stage: &Stage,
    folder: &std::path::Path,
    to: SocketAddr,
    signing: Signing,
) -> Vec<(&'static str, OsString)> {
    let mut environment: Vec<(&'static str, OsString)> = vec![
        ("RELAY_DIR", folder.into()),
        ("RELAY_HTTP", ANY_PORT.into()),
        ("RELAY_TO", to.to_string().into()),
        ("RELAY_RETRY", RETRY.into()),
        ("RELAY_SHAPING", stage.policy("production-shaping.toml").into()),
    ];
    if let Some(key) = signing.key(stage) {
        environment.push(("RELAY_DKIM_KEY", key.into()));
        environment.push(("RELAY_DKIM_KIND", signing.word().to_ascii_lowercase().into()));
    }
    environment
}

/// The command that starts a daemon on a policy, with nothing of the caller's environment that policies look at.
///
/// # Errors
/// The current user has no name.
pub fn daemon_command(kumod: &std::path::Path, policy: &std::path::Path) -> anyhow::Result<Command> {
    let mut command = Command::new(kumod);
    command.arg("--policy").arg(policy);
    if nix::unistd::geteuid().is_root() {
        // A daemon started as root wants to be told whom to become; staying root is fine for a test.
        let user = nix::unistd::User::from_uid(nix::unistd::geteuid())?.context("the current user has no name")?;
        command.args(["--user", &user.name]);
    }
    // The caller's environment must not change what is measured.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if OWN_PREFIXES.iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
    command.env("NO_COLOR", "1");
    Ok(command)
}

/// Starts a daemon and waits until it listens; its SMTP and HTTP addresses.
///
/// # Errors
/// It does not come up.
pub fn launch(stage: &Stage, name: &str, command: &mut Command) -> anyhow::Result<(Program, SocketAddr, SocketAddr)> {
    let mut program = Program::start(&stage.herd, &stage.logs(), &format!("{name}-relay"), command)?;
    let listeners = await_listeners(&mut program, "the relay's listeners")?;
    let smtp = listeners.smtp.with_context(|| format!("no smtp listener{}", program.last_words()))?;
    let http = listeners.http.with_context(|| format!("no http listener{}", program.last_words()))?;
    Ok((program, smtp, http))
}

/// The thread's name.
pub const WRITER: &str = "spool-writer";
/// Environment variables that policies and daemon look at.
const OWN_PREFIXES: [&str; 6] = ["RELAY_", "SINK_", "LOCAL_", "BACKLOG_", "KUMOD_", "KUMO_"];
/// A listener's address when any port will do.
pub const ANY_PORT: &str = "127.0.0.1:0";
/// Should a delivery fail, a run is not held up for the default of 20 minutes; that it failed shows in the time.
const RETRY: &str = "5s";
/// With an empty queue a drain has nothing to wait for but log files.
const STOP_LIMIT: Duration = Duration::from_secs(30);
