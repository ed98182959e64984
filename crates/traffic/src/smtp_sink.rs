//! `smtp-sink`: an SMTP server that swallows mail at the least cost, and says what it swallowed.
//!
//! It owns the listener and the life of the connections; [`session`](self) decides what to answer. In: a command line
//! or [`Options`]. Out: counts, and a ledger of every message accepted. It keeps no mail, relays nothing, speaks no
//! TLS and asks nobody's name; it is a tool for tests on a trusted network.
//!
//! A read buffer belongs to a read, not to a connection: thousands of idle connections cost a few hundred bytes each.

mod check;
mod connection;
mod faults;
mod options;
mod scanner;
mod session;

use std::ffi::OsString;
use std::future::Future;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser as _;
use memchr::memmem::Finder;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::ledger::Ledger;
use crate::process::{self, Termination};
use connection::{BufferPool, Connection};
use faults::EveryKth;
pub use options::Options;
use scanner::DataScanner;

/// Runs the tool with the given command line (the program's name first) until SIGTERM or SIGINT.
///
/// # Errors
/// The listener or the ledger cannot be opened, or the ledger could not be written to its end.
pub fn run(args: impl IntoIterator<Item = OsString>) -> anyhow::Result<ExitCode> {
    let options = match Options::try_parse_from(args) {
        Ok(options) => options,
        Err(refusal) => {
            // With nobody to read it, the exit code still says it.
            let _ = refusal.print();
            return Ok(ExitCode::from(u8::try_from(refusal.exit_code()).unwrap_or(2)));
        }
    };
    process::make_room_for_sockets(CONNECTIONS_WANTED);
    let runtime = process::runtime(options.threads.unwrap_or_else(process::cores))?;
    let count = runtime.block_on(async {
        let mut termination = Termination::listen()?;
        let listener =
            bind(options.listen).with_context(|| format!("smtp-sink cannot listen on {}", options.listen))?;
        let mut stderr = io::stderr();
        // Whoever started us may have stopped listening: no reason not to serve.
        let _ = writeln!(stderr, "smtp listener on {}", listener.local_addr()?);
        let _ = writeln!(stderr, "initialization complete");
        serve(listener, options, termination.next()).await
    })?;
    writeln!(io::stdout(), "received {} messages ({} damaged)", count.received, count.damaged)?;
    Ok(ExitCode::SUCCESS)
}

/// Opens the listener; port 0 takes a free one. Must be called inside a runtime.
///
/// # Errors
/// The address is not ours or is in use.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    // Accepted sockets inherit it: a message of 100 KB then fits the window and arrives in one read.
    socket.set_recv_buffer_size(SOCKET_RECEIVE_BYTES)?;
    socket.bind(&address.into())?;
    socket.listen(LISTEN_BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Serves connections until `shutdown` completes, then drops them, writes out the ledger and returns the counts.
///
/// # Errors
/// The ledger cannot be created or written.
pub async fn serve(
    listener: TcpListener,
    options: Options,
    shutdown: impl Future<Output = ()>,
) -> anyhow::Result<Count> {
    let sink = Arc::new(Sink::new(options)?);
    let mut connections = JoinSet::new();
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let connection = Connection::new(stream, Arc::clone(&sink));
                    connections.spawn(connection.run());
                }
                // Out of file handles, mostly: connections wait in the backlog until some are closed.
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
    }
    connections.shutdown().await;
    if let Some(ledger) = &sink.ledger {
        ledger.close().context("smtp-sink cannot write its ledger")?;
    }
    Ok(sink.count())
}

/// What arrived during a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// Messages answered 250.
    pub received: u64,
    /// Those whose body did not match its checksum; only known when a ledger is written.
    pub damaged: u64,
}

/// What all sessions share.
struct Sink {
    options: Options,
    ledger: Option<Ledger>,
    finder: Finder<'static>,
    buffers: BufferPool,
    refuse: EveryKth,
    drop: EveryKth,
    received: AtomicU64,
    damaged: AtomicU64,
}

impl Sink {
    fn new(options: Options) -> anyhow::Result<Self> {
        let ledger = match &options.ledger {
            Some(path) => Some(
                Ledger::create(path, LEDGER_INTERVAL)
                    .with_context(|| format!("smtp-sink cannot create the ledger {}", path.display()))?,
            ),
            None => None,
        };
        Ok(Self {
            ledger,
            finder: DataScanner::finder(),
            buffers: BufferPool::default(),
            refuse: EveryKth::new(options.fail_rate),
            drop: EveryKth::new(options.drop_after_dot),
            received: AtomicU64::new(0),
            damaged: AtomicU64::new(0),
            options,
        })
    }

    fn count(&self) -> Count {
        Count { received: self.received.load(Ordering::Relaxed), damaged: self.damaged.load(Ordering::Relaxed) }
    }
}

/// Connections waiting to be accepted; a relay may open thousands at once.
const LISTEN_BACKLOG: i32 = 4096;
/// Kernel receive buffer of a connection (the kernel doubles it, and caps it at its own maximum).
const SOCKET_RECEIVE_BYTES: usize = 512 * 1024;
/// Longest time a ledger line stays unwritten.
const LEDGER_INTERVAL: Duration = Duration::from_millis(200);
/// Rest after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// Connections to have file handles for, where the system allows.
const CONNECTIONS_WANTED: u64 = 50_000;
