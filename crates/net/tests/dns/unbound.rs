//! A real DNS server on loopback for the tests: unbound with the zones of testing/e2e/peers/dns.sh.
//!
//! Used when POSTRIDER_PEERS names the folder that script was given. A variable that is set and a server that is not there
//! is a failure, never a skipped test.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};

/// A running unbound; it is killed when dropped.
pub struct Unbound {
    pub address: SocketAddr,
    child: Child,
    /// Held open: a later line of its log must not meet a closed pipe.
    _stderr: BufReader<ChildStderr>,
}

impl Unbound {
    /// `None` when POSTRIDER_PEERS is not set.
    pub fn start() -> Option<Self> {
        let peers = PathBuf::from(std::env::var_os("POSTRIDER_PEERS")?);
        let program = peers.join("dns/bin/dns-server");
        assert!(
            program.is_file(),
            "POSTRIDER_PEERS is {} but {} is missing: run testing/e2e/peers/dns.sh {}",
            peers.display(),
            program.display(),
            peers.display()
        );
        // unbound cannot say which port it got, so one is picked for it; somebody may snatch it in between
        for _ in 0..STARTS_MAX {
            if let Some(server) = Self::try_start(&program) {
                return Some(server);
            }
        }
        panic!("{} did not start in {STARTS_MAX} tries", program.display());
    }

    fn try_start(program: &PathBuf) -> Option<Self> {
        let address = TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?;
        let mut child = Command::new(program)
            .env("PORT", address.port().to_string())
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run {}: {error}", program.display()));
        let mut stderr = BufReader::new(child.stderr.take().expect("stderr is piped"));
        let mut line = String::new();
        while stderr.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
            if line.contains("start of service") {
                return Some(Self { address, child, _stderr: stderr });
            }
            eprint!("unbound: {line}");
            line.clear();
        }
        let _ = child.kill();
        let _ = child.wait();
        None
    }
}

impl Drop for Unbound {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const STARTS_MAX: usize = 5;
