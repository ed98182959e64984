//! The children: this program as server and as `tailer`, their lines, and their end. And a client that brings the server mail.
//!
//! In: a policy, or a folder of logs. Out: lines as they come. Fails by what cannot be started, or does not speak in time, with
//! what it said instead. A child is ended by whoever has it, and at the latest with it.

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, geteuid};
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::timeout;

/// A child of ours.
pub(super) struct Child {
    process: std::process::Child,
    /// What it prints: the server on stderr, `tailer` on stdout. They end when it has.
    pub lines: Receiver<String>,
}

impl Child {
    /// The server.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn server(policy: &Path) -> anyhow::Result<Child> {
        let user = User::from_uid(geteuid())?.context("whoever asks has no name")?.name;
        let mut command = own("kumod")?;
        command.arg("--policy").arg(policy).args(["--user", &user]).env("KUMOD_LOG", "error");
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = command.spawn().context("starting the server")?;
        let lines = follow(process.stderr.take().context("stderr")?);
        Ok(Child { process, lines })
    }

    /// `tailer` of a log folder.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn tailer(logs: &Path) -> anyhow::Result<Child> {
        let mut command = own("tailer")?;
        command.args(["--batch-latency", "100ms"]).arg(logs).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().context("starting tailer")?;
        let lines = follow(process.stdout.take().context("stdout")?);
        Ok(Child { process, lines })
    }

    /// Where the server listens, once it serves.
    ///
    /// # Errors
    /// It does not, in time.
    pub async fn listener(&mut self, within: Duration) -> anyhow::Result<SocketAddr> {
        let mut said = Vec::new();
        let mut address = None;
        let serving = async {
            while let Some(line) = self.lines.recv().await {
                if let Some((_, at)) = line.split_once("smtp listener on ") {
                    address = at.trim().parse().ok();
                }
                if line.contains("initialization complete") {
                    return;
                }
                said.push(line);
            }
        };
        // What counts is whether it said where.
        _ = timeout(within, serving).await;
        address.with_context(|| format!("the server did not start: {}", said.join("; ")))
    }

    /// Ends it: politely, and soon without politeness.
    pub async fn stop(mut self) {
        let pid = i32::try_from(self.process.id()).map(Pid::from_raw);
        // One that has ended by itself cannot be told.
        _ = pid.map(|pid| kill(pid, Signal::SIGTERM));
        // Its lines end with it.
        _ = timeout(STOP_MAX, async { while self.lines.recv().await.is_some() {} }).await;
        self.end();
    }

    fn end(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

/// For those who go without a word: a server must not outlive whoever tried it out.
impl Drop for Child {
    fn drop(&mut self) {
        self.end();
    }
}

/// This program under another name, told nothing by the environment that is meant for the one who asks.
fn own(verb: &str) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("where this program is")?);
    command.arg(verb).stdin(Stdio::null());
    for name in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "POSTRIDER_RESOLVERS", "SSL_CERT_FILE"] {
        command.env_remove(name);
    }
    Ok(command)
}

/// Reads lines on a thread that ends with the stream, or with who listens.
fn follow(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = mpsc::channel(LINES_MAX);
    let read = move |sender: Sender<String>| {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    };
    std::thread::spawn(move || read(sender));
    lines
}

/// Sends a message to `you@` each of the domains.
///
/// # Errors
/// The server does not take one.
pub(super) async fn submit(to: SocketAddr, domains: &[&str]) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(to).await?;
    let (reader, mut writer) = stream.split();
    let mut reader = tokio::io::BufReader::new(reader);
    let mut replies = async |expected: u8| -> anyhow::Result<()> {
        loop {
            let mut line = String::new();
            timeout(REPLY_MAX, reader.read_line(&mut line)).await.context("no reply")??;
            if line.as_bytes().first() != Some(&expected) {
                bail!("it says {}", line.trim_end());
            }
            if line.as_bytes().get(3) != Some(&b'-') {
                return Ok(());
            }
        }
    };
    replies(b'2').await?;
    writer.write_all(b"EHLO shop.yours.test\r\n").await?;
    replies(b'2').await?;
    for domain in domains {
        writer.write_all(b"MAIL FROM:<you@yours.test>\r\n").await?;
        replies(b'2').await?;
        writer.write_all(format!("RCPT TO:<you@{domain}>\r\n").as_bytes()).await?;
        replies(b'2').await?;
        writer.write_all(b"DATA\r\n").await?;
        replies(b'3').await?;
        let text = format!("From: you@yours.test\r\nTo: you@{domain}\r\nSubject: a trial\r\n\r\nHello.\r\n.\r\n");
        writer.write_all(text.as_bytes()).await?;
        replies(b'2').await?;
    }
    writer.write_all(b"QUIT\r\n").await?;
    Ok(())
}

/// Lines that wait to be read.
const LINES_MAX: usize = 1000;
/// How long a child has to end.
const STOP_MAX: Duration = Duration::from_secs(5);
/// How long the server has for a reply.
const REPLY_MAX: Duration = Duration::from_secs(10);
