//! An HTTPS server of MTA-STS policies: `peers/sts_server.py`.

use crate::certificate::Certificate;
use crate::peers;
use crate::process::Process;
use crate::scratch::Scratch;
use crate::until::SOON;
use std::net::SocketAddr;

/// A running server.
#[derive(Debug)]
pub struct StsServer {
    /// Where it listens.
    pub address: SocketAddr,
    scratch: Scratch,
    _process: Process,
}

impl StsServer {
    /// Starts one.
    pub fn start(own: &Certificate) -> StsServer {
        let scratch = Scratch::new();
        let mut command = peers::script("sts_server.py");
        command.arg("--certificate").arg(&own.certificate).arg("--key").arg(&own.key);
        command.arg("--policies").arg(scratch.join("")).arg("--ledger").arg(scratch.join("ledger"));
        let process = Process::spawn("sts_server.py", command);
        let address = process.await_stderr("its address", SOON, |line| {
            line.split_once("https listener on ").and_then(|(_, address)| address.trim().parse().ok())
        });
        StsServer { address, scratch, _process: process }
    }

    /// What it serves for a domain from now on.
    pub fn serve(&self, domain: &str, content: &str) {
        std::fs::write(self.scratch.join(&format!("mta-sts.{domain}")), content).expect("the policy");
    }

    /// Requests so far, `HOST PATH`.
    pub fn requests(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.scratch.join("ledger")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}
