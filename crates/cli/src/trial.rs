//! `postrider try`: within a minute, what becomes of mail; on loopback alone, and nothing of it is left.
//!
//! In: a command line. Out: on stdout a line for each thing that happened to five messages, as the server's own log records tell
//! it. Exit code 0, 1 when a message took another way than it had to, 2 when something could not be started.
//!
//! The program starts itself as server and as `tailer`, with a policy and a key made for it, in a folder of its own; the servers
//! it sends to are in this process ([`remote`]) and misbehave, each in its manner. What records mean is [`story`]'s.

mod remote;
mod server;
mod story;

use crate::output::{WELL, WRONG, now, on_stdout, parsed};
use anyhow::{Context, anyhow};
use clap::Parser;
use config::{ResolverForm, Short, TestZone, TestZones, Zones};
use mime::HeaderBlock;
use remote::Manner;
use route::Resolver;
use sender_auth::{SigningKey, new_rsa_key};
use sender_check::Mail;
use server::{Child, submit};
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use story::Stories;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Shows within a minute what becomes of mail: received, signed, delivered, deferred, bounced. On loopback, and nothing is left.
#[derive(Debug, Parser)]
#[command(name = "postrider try", version)]
pub struct Options {}

/// `postrider try` on stdout.
///
/// # Errors
/// None: they are told on stderr. The shape is that of the program's other tools.
pub fn run(arguments: Vec<OsString>) -> anyhow::Result<ExitCode> {
    let Options {} = match parsed(arguments)? {
        Ok(options) => options,
        Err(code) => return Ok(ExitCode::from(code)),
    };
    let folder = nix::unistd::mkdtemp(&std::env::temp_dir().join("postrider-try-XXXXXX")).context("a folder")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let code = on_stdout(|out| {
        let played = runtime.block_on(async {
            tokio::select! {
                played = play(&folder, out) => played,
                stopped = told_to_stop() => Err(stopped),
            }
        });
        // Whatever happened, nothing is left.
        fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
        played
    });
    runtime.shutdown_background();
    Ok(code)
}

/// Waits until somebody, a service manager or a closed terminal ends this.
async fn told_to_stop() -> anyhow::Error {
    let signals = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal);
    let [Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)] = signals else {
        return anyhow!("signals cannot be heard, so nothing is begun");
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hangup.recv() => {}
    }
    anyhow!("stopped")
}

/// What the receivers need to verify signatures, and the server to make them.
struct Key {
    pem: String,
    resolver: Arc<dyn Resolver>,
}

impl Key {
    fn new() -> anyhow::Result<Key> {
        let pem = new_rsa_key().context("making a key")?;
        let record = SigningKey::from_pem_or_der(pem.as_bytes())?.dns_record().context("a key without a record")?;
        // A TXT record's strings have 255 octets at most.
        let strings = record.as_bytes().chunks(255).map(|part| format!("\"{}\"", String::from_utf8_lossy(part)));
        let zone = format!("s1._domainkey.yours.test. 60 TXT {}\n", strings.collect::<Vec<_>>().join(" "));
        let zones = TestZones { zones: vec![Short(TestZone { zone, secure: false })], servfail: Vec::new() };
        Ok(Key { pem, resolver: net::dns::build(&ResolverForm::Test(Zones(zones)))? })
    }

    /// DKIM's word for the signature of a message.
    async fn verify(&self, message: &[u8]) -> String {
        let block = HeaderBlock::parse(message);
        let mail = Mail::new(block.view(message), &message[block.body_start()..]);
        let seconds = u64::try_from(now().unix_secs()).unwrap_or_default();
        let results = sender_check::dkim::verify(&*self.resolver, &mail, seconds).await;
        results.first().map_or_else(|| "none".to_owned(), |result| result.result.clone())
    }
}

async fn play(folder: &Path, out: &mut dyn Write) -> anyhow::Result<u8> {
    let began = Instant::now();
    let key = Key::new()?;
    let (taken, mut messages) = mpsc::unbounded_channel();
    let mut remotes = JoinSet::new();
    let mut addresses = Vec::new();
    for manner in Manner::ALL {
        let socket = TcpListener::bind("127.0.0.1:0").await.context("a port on loopback")?;
        addresses.push((manner, socket.local_addr()?));
        remotes.spawn(remote::serve(socket, manner, taken.clone()));
    }
    let policy = write_policy(folder, &key.pem, &addresses)?;
    let mut server = Child::server(&policy)?;
    let listener = server.listener(START_MAX).await?;
    writeln!(out, "A server listens on {listener}; five others, which it sends to, are on loopback too:")?;
    Manner::ALL.iter().try_for_each(|manner| writeln!(out, "  {:<16} {}", manner.domain(), manner.words()))?;
    writeln!(out, "\nFive messages from you@yours.test, and what its log says of them:")?;
    let mut tailer = Child::tailer(&folder.join("log"))?;
    let mut stories = Stories::default();
    submit(listener, &Manner::ALL.map(Manner::domain)).await.context("sending to the server")?;
    let deadline = tokio::time::Instant::now() + STORIES_MAX;
    while !stories.are_over() {
        let lines = tokio::select! {
            Some(line) = tailer.lines.recv() => serde_json::from_str(&line).map(|record| stories.hear(&record)).unwrap_or_default(),
            Some((manner, message)) = messages.recv() => stories.verified(manner, &key.verify(&message).await),
            _ = tokio::time::sleep_until(deadline) => break,
        };
        for line in lines {
            writeln!(out, "{:>6.1} s  {line}", began.elapsed().as_secs_f64())?;
            out.flush()?;
        }
    }
    server.stop().await;
    tailer.stop().await;
    remotes.shutdown().await;
    told(&stories, out)
}

/// The end.
fn told(stories: &Stories, out: &mut dyn Write) -> anyhow::Result<u8> {
    let unexpected = stories.unexpected();
    if unexpected.is_empty() {
        writeln!(out, "\nEach as it had to be. Nothing has left this machine, and nothing is left on it.")?;
        writeln!(
            out,
            "Next: `postrider init` writes a policy for this server, `postrider doctor` says what is amiss."
        )?;
        return Ok(WELL);
    }
    writeln!(out, "\nNot as it had to be:")?;
    unexpected.iter().try_for_each(|line| writeln!(out, "  {line}"))?;
    Ok(WRONG)
}

/// The policy with its key; its path.
fn write_policy(folder: &Path, pem: &str, addresses: &[(Manner, SocketAddr)]) -> anyhow::Result<PathBuf> {
    let dir = folder.to_str().context("a folder whose name is UTF-8")?;
    let remotes: Vec<String> =
        addresses.iter().map(|(manner, address)| format!("['{}'] = '{address}'", manner.domain())).collect();
    let text = POLICY.replace("@DIR@", dir).replace("@REMOTES@", &remotes.join(", "));
    let path = folder.join("init.lua");
    fs::write(&path, text).with_context(|| path.display().to_string())?;
    let key = folder.join("yours.key");
    fs::write(&key, pem).with_context(|| key.display().to_string())?;
    Ok(path)
}

const POLICY: &str = include_str!("../../../share/try/init.lua");
/// Until the server listens.
const START_MAX: Duration = Duration::from_secs(15);
/// Until every message has come to its end; all of it is done within a minute.
const STORIES_MAX: Duration = Duration::from_secs(35);
