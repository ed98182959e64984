//! A real DNS server on loopback: unbound with the zones of `peers/dns.sh`.

use crate::peers;
use crate::port::free_port;
use crate::process::Process;
use crate::until::SOON;
use std::net::SocketAddr;
use std::process::Command;

/// A running name server.
#[derive(Debug)]
pub struct NameServer {
    /// Where it answers, over UDP and TCP.
    pub address: SocketAddr,
    _process: Process,
}

impl NameServer {
    /// Starts one and waits until it answers.
    pub fn start() -> NameServer {
        let port = free_port();
        let mut command = Command::new(peers::file("dns/bin/dns-server", "dns.sh"));
        command.env("PORT", port.to_string());
        let process = Process::spawn("unbound", command);
        process.await_stderr("`start of service`", SOON, |line| line.contains("start of service").then_some(()));
        NameServer { address: SocketAddr::from(([127, 0, 0, 1], port)), _process: process }
    }
}
