//! `smtp-sink` as a child, with the audit of what arrived there. In: a stage. Out: an address to deliver to, a verdict.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;

use crate::audit::{Audit, Verdict};
use crate::ledger::Tail;
use crate::listeners::Listeners;
use crate::proc_file;
use crate::process::Program;
use crate::stage::{Programs, Stage};
use crate::wait::until;

/// A running sink.
pub struct Sink {
    program: Program,
    tail: Tail,
    /// Where it listens.
    pub address: SocketAddr,
    /// What is known about the messages meant for it.
    pub audit: Audit,
}

impl Sink {
    /// Starts one; `name` names its files.
    ///
    /// # Errors
    /// It does not come up.
    pub fn start(stage: &Stage, programs: &Programs, name: &str) -> anyhow::Result<Sink> {
        let ledger = stage.file(&format!("{name}.received"));
        let mut command = Command::new(&programs.tools);
        command.args(["smtp-sink", "--listen", "127.0.0.1:0", "--ledger"]).arg(&ledger);
        let mut program = Program::start(&stage.herd, &stage.logs(), &format!("{name}-sink"), &mut command)?;
        let listeners = await_listeners(&mut program, "the sink's listener")?;
        let address = listeners.smtp.with_context(|| format!("no smtp listener{}", program.last_words()))?;
        // It listens a moment before it opens its ledger.
        until("the sink's ledger", START_LIMIT, || Ok(ledger.exists().then_some(())))?;
        Ok(Sink { program, tail: Tail::open(&ledger)?, address, audit: Audit::default() })
    }

    /// User and system time it has used, in microseconds.
    ///
    /// # Errors
    /// It has ended.
    pub fn cpu_us(&self) -> anyhow::Result<f64> {
        proc_file::cpu_us(self.program.pid())
    }

    /// Takes in the arrivals written down since the last call.
    ///
    /// # Errors
    /// The sink has ended, or its ledger cannot be read.
    pub fn read(&mut self) -> anyhow::Result<()> {
        self.program.ensure_alive()?;
        let audit = &mut self.audit;
        self.tail.read(|arrival| audit.arrive(arrival))
    }

    /// Ends it and judges everything it ever got.
    ///
    /// # Errors
    /// It does not end in order.
    pub fn stop(mut self) -> anyhow::Result<Verdict> {
        self.program.terminate(STOP_LIMIT)?;
        self.tail.read(|arrival| self.audit.arrive(arrival))?;
        Ok(self.audit.verdict())
    }
}

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
