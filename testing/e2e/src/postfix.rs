//! Postfix on both sides of us: its relay as a private instance, its `smtp-source` and its `smtp-sink`.

use crate::peers;
use crate::port::free_port;
use crate::process::{self, Process};
use crate::scratch::Scratch;
use crate::until::{LATER, SOON, until};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A running Postfix; stopped when dropped.
#[derive(Debug)]
pub struct Postfix {
    /// Where it listens.
    pub address: SocketAddr,
    instance: PathBuf,
}

impl Postfix {
    /// A Postfix that hands every message to `relay_to`.
    pub fn start(scratch: &Scratch, relay_to: SocketAddr) -> Postfix {
        assert!(nix::unistd::geteuid().is_root(), "Postfix starts only as root: run the end-to-end tests as root");
        peers::file("stamp", "fetch.sh");
        let (port, instance) = (free_port(), scratch.join("postfix"));
        let mut command = control("start", &instance);
        command.args([port.to_string(), relay_to.port().to_string()]);
        process::run("postfix.sh start", command, LATER).success();
        Postfix { address: SocketAddr::from(([127, 0, 0, 1], port)), instance }
    }

    /// Messages in its queue.
    pub fn queued(&self) -> usize {
        let counted = process::run("postfix.sh queued", control("queued", &self.instance), SOON).success();
        counted.stdout.trim().parse().expect("a number of messages")
    }
}

impl Drop for Postfix {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.instance.join("log/maillog")).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            lines.iter().skip(lines.len().saturating_sub(LOG_LINES)).for_each(|line| eprintln!("postfix: {line}"));
        }
        if let Err(error) = control("stop", &self.instance).status() {
            eprintln!("postfix.sh stop: {error}");
        }
    }
}

/// Sends `count` messages with `smtp-source`, each to a recipient of its own (`1rcpt@...`, `2rcpt@...`).
pub fn smtp_source(to: SocketAddr, count: usize, options: &[&str]) {
    let mut command = peers::command("smtp-source");
    command.args(["-N", "-f", "sender@source.test", "-t", "rcpt@target.test", "-m", &count.to_string()]);
    command.args(options).arg(to.to_string());
    process::run("smtp-source", command, LATER).success();
}

/// Postfix's `smtp-sink`, writing a file for each message.
#[derive(Debug)]
pub struct PostfixSink {
    /// Where it listens.
    pub address: SocketAddr,
    folder: PathBuf,
    _process: Process,
}

impl PostfixSink {
    /// Starts one and waits until it accepts connections.
    pub fn start(scratch: &Scratch) -> PostfixSink {
        let (port, folder) = (free_port(), scratch.folder("postfix-sink"));
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut command = peers::command("smtp-sink");
        if nix::unistd::geteuid().is_root() {
            // It becomes `nobody`, who may not pass our folders: the sink's root is moved into its own.
            let nobody = nix::unistd::User::from_name("nobody").ok().flatten().expect("a user nobody");
            std::os::unix::fs::chown(&folder, Some(nobody.uid.as_raw()), None).expect("root may chown");
            command.arg("-R").arg(&folder).args(["-d", "m."]);
        } else {
            command.arg("-d").arg(folder.join("m."));
        }
        command.arg(address.to_string()).arg("1024");
        let process = Process::spawn("Postfix's smtp-sink", command);
        until(SOON, "Postfix's smtp-sink to listen", || TcpStream::connect(address).ok());
        PostfixSink { address, folder, _process: process }
    }

    /// Waits until `count` messages were received; returns their recipients.
    pub fn await_recipients(&self, count: usize, within: Duration) -> Vec<String> {
        until(within, &format!("{count} messages at Postfix's smtp-sink"), || {
            let recipients = recipients(&self.folder);
            (recipients.len() >= count).then_some(recipients)
        })
    }
}

/// The recipients in the files of complete messages.
fn recipients(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let texts = entries.filter_map(|entry| std::fs::read(entry.ok()?.path()).ok());
    let recipient = |octets: Vec<u8>| {
        let text = String::from_utf8_lossy(&octets).into_owned();
        let line = text.lines().find_map(|line| line.strip_prefix("X-Rcpt-Args: "))?;
        let address = line.split(['<', '>']).nth(1)?;
        text.ends_with("\n\n").then(|| address.to_owned())
    };
    texts.filter_map(recipient).collect()
}

fn control(verb: &str, instance: &Path) -> Command {
    let mut command = Command::new(peers::own("postfix.sh"));
    command.arg(verb).arg(peers::folder()).arg(instance);
    command
}

/// Lines of Postfix's log shown when a test fails.
const LOG_LINES: usize = 30;
