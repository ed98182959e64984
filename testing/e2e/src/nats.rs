//! Debian's NATS server with JetStream, on a port of its own, and what is in its streams.

use crate::certificate::Certificate;
use crate::peers;
use crate::port::free_port;
use crate::process::{Process, run};
use crate::scratch::Scratch;
use crate::until::SOON;
use serde_json::Value;
use std::net::SocketAddr;

/// A running server.
#[derive(Debug)]
pub struct RunningNats {
    /// The process itself.
    pub process: Process,
    /// Where it listens.
    pub address: SocketAddr,
    /// Who logs in, as it stands in a URL: empty, or `USER:PASSWORD@`.
    login: String,
}

impl RunningNats {
    /// On a free port, for everybody.
    pub fn start(scratch: &Scratch) -> RunningNats {
        RunningNats::start_on(scratch, SocketAddr::from(([127, 0, 0, 1], free_port())))
    }

    /// Where another was before, with the streams that one had.
    pub fn start_on(scratch: &Scratch, address: SocketAddr) -> RunningNats {
        RunningNats::with(scratch, address, &[], String::new())
    }

    /// For one user.
    pub fn start_for(scratch: &Scratch, user: &str, password: &str) -> RunningNats {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        RunningNats::with(scratch, address, &["--user", user, "--pass", password], format!("{user}:{password}@"))
    }

    /// Over TLS only.
    pub fn start_tls(scratch: &Scratch, own: &Certificate) -> RunningNats {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let (certificate, key) = (own.certificate.to_str().expect("text"), own.key.to_str().expect("text"));
        RunningNats::with(scratch, address, &["--tls", "--tlscert", certificate, "--tlskey", key], String::new())
    }

    /// Makes a stream that keeps what is published to `subject`.
    pub fn stream(&self, name: &str, subject: &str) {
        let mut peer = peers::script("nats_peer.py");
        peer.args(["stream", &self.url(), name, subject]);
        run("nats_peer.py stream", peer, SOON).success();
    }

    /// What is in a stream.
    pub fn read(&self, name: &str) -> Vec<Value> {
        let mut peer = peers::script("nats_peer.py");
        peer.args(["read", &self.url(), name]);
        lines(&run("nats_peer.py read", peer, SOON).success().stdout)
    }

    /// Somebody who has subscribed, and ends with the first message.
    pub fn listen(&self, subject: &str) -> Process {
        let mut peer = peers::script("nats_peer.py");
        peer.args(["listen", &self.url(), subject]);
        let process = Process::spawn("nats_peer.py listen", peer);
        process.await_stderr("`listening`", SOON, |line| (line == "listening").then_some(()));
        process
    }

    fn url(&self) -> String {
        format!("nats://{}{}", self.login, self.address)
    }

    fn with(scratch: &Scratch, address: SocketAddr, options: &[&str], login: String) -> RunningNats {
        let mut command = peers::command("nats-server");
        command.args(["--addr", "127.0.0.1", "--port", &address.port().to_string(), "--jetstream", "--store_dir"]);
        command.arg(scratch.join("nats")).args(options);
        let process = Process::spawn("nats-server", command);
        process.await_stderr("`Server is ready`", SOON, |line| line.contains("Server is ready").then_some(()));
        RunningNats { process, address, login }
    }
}

/// JSON values, one a line.
pub fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"))).collect()
}
