//! Where mail of a run arrives, with the audit of it: `smtp-sink` as a child, or a Maildir. In: a stage. Out: an address to
//! deliver to, a verdict.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;

use crate::audit::{Audit, Verdict};
use crate::ledger::Tail;
use crate::listeners::Listeners;
use crate::mailbox::Mailbox;
use crate::proc_file;
use crate::process::Program;
use crate::stage::{Programs, Stage};
use crate::wait::until;

/// A running sink.
pub struct Sink {
    end: End,
    /// Where it listens, if it does.
    pub address: SocketAddr,
    /// What is known about the messages meant for it.
    pub audit: Audit,
}

/// What tells of arrivals.
enum End {
    Program(Program, Tail),
    Files(Mailbox),
}

impl Sink {
    /// The Maildir at `folder`, which need not be there yet.
    pub fn files(folder: &Path) -> Sink {
        Sink { end: End::Files(Mailbox::of(folder)), address: NOWHERE, audit: Audit::default() }
    }

    /// Starts one; `name` names its files.
    ///
    /// # Errors
    /// It does not come up.
    pub fn start(stage: &Stage, programs: &Programs, name: &str) -> anyhow::Result<Sink> {
        let ledger = stage.file(&format!("{name}.received"));
        let mut command = programs.yielding_tool();
        command.args(["smtp-sink", "--listen", "127.0.0.1:0", "--ledger"]).arg(&ledger);
        let mut program = Program::start(&stage.herd, &stage.logs(), &format!("{name}-sink"), &mut command)?;
        let listeners = await_listeners(&mut program, "the sink's listener")?;
        let address = listeners.smtp.with_context(|| format!("no smtp listener{}", program.last_words()))?;
        // It listens a moment before it opens its ledger.
        until("the sink's ledger", START_LIMIT, || Ok(ledger.exists().then_some(())))?;
        Ok(Sink { end: End::Program(program, Tail::open(&ledger)?), address, audit: Audit::default() })
    }

    /// User and system time it has used, in microseconds.
    ///
    /// # Errors
    /// It has ended.
    pub fn cpu_us(&self) -> anyhow::Result<f64> {
        match &self.end {
            End::Program(program, _) => proc_file::cpu_us(program.pid()),
            End::Files(_) => Ok(0.0),
        }
    }

    /// Takes in the arrivals written down since the last call.
    ///
    /// # Errors
    /// The sink has ended, or its ledger cannot be read.
    pub fn read(&mut self) -> anyhow::Result<()> {
        let audit = &mut self.audit;
        match &mut self.end {
            End::Program(program, tail) => {
                program.ensure_alive()?;
                tail.read(|arrival| audit.arrive(arrival))
            }
            End::Files(mailbox) => mailbox.read(|arrival| audit.arrive(arrival)),
        }
    }

    /// Ends it and judges everything it ever got.
    ///
    /// # Errors
    /// It does not end in order.
    pub fn stop(mut self) -> anyhow::Result<Verdict> {
        match &mut self.end {
            End::Program(program, tail) => {
                program.terminate(STOP_LIMIT)?;
                tail.read(|arrival| self.audit.arrive(arrival))?;
            }
            End::Files(mailbox) => mailbox.read(|arrival| self.audit.arrive(arrival))?,
        }
        Ok(self.audit.verdict())
    }
}

/// The port of nobody, for who delivers into files.
const NOWHERE: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9));

/// Waits until a daemon says that it listens.
///
/// # Errors
/// It ends instead, or does not say so in time.
pub fn await_listeners(program: &mut Program, what: &str) -> anyhow::Result<Listeners> {
    let outcome = until(what, START_LIMIT, || {
        let listeners = Listeners::find(&program.stderr());
        if listeners.is_none() {
            program.ensure_alive()?;
        }
        Ok(listeners)
    });
    outcome.map_err(|error| anyhow::anyhow!("{error}{}", program.last_words()))
}

/// A daemon that recovers a spool may take a while.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Only a ledger has to be written out.
const STOP_LIMIT: Duration = Duration::from_secs(20);
