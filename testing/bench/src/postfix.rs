//! An opponent: the Postfix that testing/e2e/peers unpacks, with its own defaults, as a relay to the same sink.
//!
//! It is started and stopped by the scripts of that folder, which know how. In: the folder, a port to deliver to. Out:
//! a [`Subject`]. Needs root, as Postfix does.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use nix::unistd::Pid;

use crate::process::Herd;
use crate::round::{Reading, Subject};
use crate::stage::Stage;
use crate::workload::Over;

/// The unpacked programs.
pub struct Peers {
    scripts: PathBuf,
    unpacked: PathBuf,
}

impl Peers {
    /// Fetches and unpacks them, if that was not done before; it may take a minute.
    ///
    /// # Errors
    /// The scripts are not there or fail, or we are not root.
    fn fetch() -> anyhow::Result<Peers> {
        let scripts = PathBuf::from(SCRIPTS);
        if !scripts.join("fetch.sh").is_file() {
            bail!("--peers: no {SCRIPTS}/fetch.sh here: expected to run at the top of the source tree");
        }
        if !nix::unistd::geteuid().is_root() {
            bail!("--peers postfix: Postfix starts only as root");
        }
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
        let unpacked = cache.or_else(home).context("HOME is not set")?.join("postrider/peers");
        let status = Command::new(scripts.join("fetch.sh")).arg(&unpacked).stdin(Stdio::null()).status();
        if !status.context("cannot run fetch.sh")?.success() {
            bail!("fetch.sh failed (its own words are above)");
        }
        Ok(Peers { scripts, unpacked })
    }

    fn script(&self, name: &str, arguments: &[&Path]) -> anyhow::Result<String> {
        run(&self.scripts.join(name), arguments)
    }
}

/// The option of those that can measure one.
#[derive(clap::Args)]
pub struct Wanted {
    /// Also measure these servers at the unsigned work; known: postfix [default: $PEERS]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = ["postfix"])]
    peers: Vec<String>,
}

impl Wanted {
    /// Postfix, if it was asked for, by `--peers` or else by `$PEERS`.
    ///
    /// # Errors
    /// Somebody else was, or it is not to be had.
    pub fn fetch(&self) -> anyhow::Result<Option<Peers>> {
        let wanted = match std::env::var("PEERS").as_deref() {
            _ if !self.peers.is_empty() => true,
            Err(_) | Ok("" | "none") => false,
            Ok("postfix") => true,
            Ok(other) => bail!("PEERS={other}: expected postfix or none"),
        };
        wanted.then(Peers::fetch).transpose()
    }
}

/// A running Postfix.
pub struct Postfix<'a> {
    peers: &'a Peers,
    instance: PathBuf,
    address: SocketAddr,
    master: Pid,
    herd: Herd,
}

impl<'a> Postfix<'a> {
    /// Starts one that delivers to `to`, if anywhere by SMTP; `settings` are lines of its main.cf, `name=value`.
    ///
    /// # Errors
    /// It does not come up.
    pub fn start(
        stage: &Stage,
        peers: &'a Peers,
        name: &str,
        to: Option<SocketAddr>,
        settings: &[&str],
    ) -> anyhow::Result<Postfix<'a>> {
        let instance = stage.spool(name)?;
        // It cannot be asked to take a free port; one that was free a moment ago will do.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let (port, to_port) = (address.port().to_string(), to.map_or(UNUSED_PORT, |to| to.port()).to_string());
        let mut arguments = vec![Path::new("start"), &peers.unpacked, &instance, Path::new(&port), Path::new(&to_port)];
        arguments.extend(settings.iter().map(Path::new));
        let ready = peers.script("postfix.sh", &arguments)?;
        let master = ready.split_whitespace().nth(2).and_then(|pid| pid.parse().ok());
        let master = Pid::from_raw(master.with_context(|| format!("expected `ready PORT PID`, got {ready:?}"))?);
        let herd = stage.herd.clone();
        herd.adopt(master);
        Ok(Postfix { peers, instance, address, master, herd })
    }

    /// Where its files are.
    pub fn folder(&self) -> &Path {
        &self.instance
    }

    /// Stops it and removes its files.
    ///
    /// # Errors
    /// It does not stop.
    pub fn stop(self, stage: &Stage) -> anyhow::Result<()> {
        self.halt()?;
        stage.sweep(&self.instance);
        Ok(())
    }

    fn halt(&self) -> anyhow::Result<()> {
        self.peers.script("postfix.sh", &[Path::new("stop"), &self.peers.unpacked, &self.instance])?;
        self.herd.release(self.master);
        Ok(())
    }
}

impl Drop for Postfix<'_> {
    fn drop(&mut self) {
        // After an orderly stop there is nothing left to do, and the script says so.
        if self.instance.is_dir() {
            let _ = self.halt();
        }
    }
}

impl Subject for Postfix<'_> {
    fn address(&self, _: Over) -> SocketAddr {
        self.address
    }

    fn reading(&self) -> anyhow::Result<Reading> {
        let pid = self.master.to_string();
        let text = self.peers.script("postfix_cpu.sh", &[Path::new(&pid)])?;
        let ms: f64 = text.trim().parse().with_context(|| format!("expected milliseconds, got {text:?}"))?;
        Ok(Reading { cpu_us: ms * 1000.0, commits: None, spool_octets: None, writer_us: None, received: None })
    }

    fn delivered(&self) -> anyhow::Result<Option<f64>> {
        Ok(None)
    }

    fn held(&self) -> anyhow::Result<Option<f64>> {
        let text = self.peers.script("postfix.sh", &[Path::new("queued"), &self.peers.unpacked, &self.instance])?;
        Ok(text.trim().parse().ok())
    }

    fn ensure_alive(&mut self) -> anyhow::Result<()> {
        if !Path::new(&format!("/proc/{}", self.master)).exists() {
            bail!("Postfix ended unasked{}", self.last_words());
        }
        Ok(())
    }

    fn last_words(&self) -> String {
        let log = self.instance.join("log/maillog");
        let text = std::fs::read(&log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let from = lines.len().saturating_sub(LAST_LINES);
        format!("; Postfix logged last:\n    {}", lines[from..].join("\n    "))
    }
}

fn run(script: &Path, arguments: &[&Path]) -> anyhow::Result<String> {
    let output = Command::new(script).args(arguments).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot run {}", script.display()))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        bail!("{} ended with {}: {}", script.display(), output.status, words.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The port of nobody.
const UNUSED_PORT: u16 = 9;
const SCRIPTS: &str = "testing/e2e/peers";
/// Lines of its log shown when it fails.
const LAST_LINES: usize = 15;
