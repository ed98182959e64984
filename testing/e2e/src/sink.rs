//! `postrider smtp-sink`: swallows mail and writes down what arrived.

use crate::kumod::program;
use crate::ledger::{self, Arrival};
use crate::process::Process;
use crate::scratch::Scratch;
use crate::until::{SOON, until};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A running sink.
#[derive(Debug)]
pub struct Sink {
    /// The process itself.
    pub process: Process,
    /// Where it listens.
    pub address: SocketAddr,
    ledger: PathBuf,
}

impl Sink {
    /// A sink on a free port of 127.0.0.1; `name` tells several of one test apart.
    pub fn start(scratch: &Scratch, name: &str, options: &[&str]) -> Sink {
        Sink::start_on(scratch, name, "127.0.0.1:0", options)
    }

    /// A sink on the given address.
    pub fn start_on(scratch: &Scratch, name: &str, listen: &str, options: &[&str]) -> Sink {
        let ledger = scratch.join(&format!("{name}.ledger"));
        let mut command = program();
        command.args(["smtp-sink", "--listen", listen, "--ledger"]).arg(&ledger).args(options);
        let process = Process::spawn(&format!("smtp-sink {name}"), command);
        let address = process.await_stderr("its address", SOON, |line| {
            line.split_once("smtp listener on ").and_then(|(_, address)| address.trim().parse().ok())
        });
        Sink { process, address, ledger }
    }

    /// What arrived so far; up to a fifth of a second behind.
    pub fn arrivals(&self) -> Vec<Arrival> {
        ledger::arrivals(&self.ledger)
    }

    /// Waits until at least `count` messages have arrived; returns all that have.
    pub fn await_arrivals(&self, count: usize, within: Duration) -> Vec<Arrival> {
        until(within, &format!("{count} messages at the sink"), || {
            let arrivals = self.arrivals();
            (arrivals.len() >= count).then_some(arrivals)
        })
    }
}
