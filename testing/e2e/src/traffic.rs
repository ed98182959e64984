//! `postrider traffic-gen`: sends mail that can be told apart, and writes down what was answered 250.

use crate::kumod::program;
use crate::ledger;
use crate::process::Process;
use crate::scratch::Scratch;
use crate::until::LATER;
use nix::sys::signal::Signal;
use std::net::SocketAddr;
use std::path::PathBuf;

/// A running generator.
#[derive(Debug)]
pub struct Traffic {
    process: Process,
    ledger: PathBuf,
}

impl Traffic {
    /// Starts sending to `target`; `name` tells several of one test apart.
    pub fn start(scratch: &Scratch, name: &str, target: SocketAddr, options: &[&str]) -> Traffic {
        let ledger = scratch.join(&format!("{name}.ledger"));
        let mut command = program();
        command
            .args(["traffic-gen", "--quiet", "--target", &target.to_string(), "--ledger"])
            .arg(&ledger)
            .args(options);
        Traffic { process: Process::spawn(&format!("traffic-gen {name}"), command), ledger }
    }

    /// Sends `count` messages, all of which must be answered 250; returns their ids.
    pub fn send(scratch: &Scratch, name: &str, target: SocketAddr, count: usize, options: &[&str]) -> Vec<String> {
        let count_text = count.to_string();
        let mut all = vec!["--message-count", &count_text];
        all.extend(options);
        let ids = Traffic::start(scratch, name, target, &all).finish();
        assert_eq!(ids.len(), count, "traffic-gen {name}: not every message was answered 250");
        ids
    }

    /// Waits for the end of its work; returns the ids answered 250.
    pub fn finish(mut self) -> Vec<String> {
        self.process.finish(LATER).success();
        ledger::acknowledged(&self.ledger)
    }

    /// Ends its work in order; returns the ids answered 250.
    pub fn stop(self) -> Vec<String> {
        self.process.signal(Signal::SIGTERM);
        self.finish()
    }
}
