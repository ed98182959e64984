//! Debian's RabbitMQ on a port of its own, and what is in its queues. Its user is `guest`.

use crate::certificate::Certificate;
use crate::nats::lines;
use crate::peers;
use crate::port::free_port;
use crate::process::{Process, run};
use crate::scratch::Scratch;
use crate::until::LATER;
use serde_json::Value;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A running server.
#[derive(Debug)]
pub struct RunningRabbit {
    /// The process itself.
    pub process: Process,
    /// Where it listens.
    pub address: SocketAddr,
    /// Where it listens for TLS, if it does.
    pub tls: Option<SocketAddr>,
    folder: PathBuf,
    node_port: u16,
}

impl RunningRabbit {
    /// On free ports; for TLS as well where there is a certificate.
    pub fn start(scratch: &Scratch, own: Option<&Certificate>) -> RunningRabbit {
        let folder = scratch.folder("rabbitmq");
        let here = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let (address, tls) = (here(free_port()), own.map(|_| here(free_port())));
        let mut conf = format!("listeners.tcp.1 = {address}\nlog.console.level = info\n");
        if let (Some(own), Some(tls)) = (own, tls) {
            let (certificate, key) = (own.certificate.display(), own.key.display());
            conf += &format!("listeners.ssl.1 = {tls}\nssl_options.cacertfile = {certificate}\n");
            conf += &format!(
                "ssl_options.certfile = {certificate}\nssl_options.keyfile = {key}\nssl_options.verify = verify_none\n"
            );
        }
        std::fs::write(folder.join("rabbitmq.conf"), conf).expect("a configuration");
        let node_port = free_port();
        RunningRabbit { process: spawn(&folder, node_port), address, tls, folder, node_port }
    }

    /// Starts it again after it was killed; durable queues are still there.
    pub fn start_again(&mut self) {
        self.process = spawn(&self.folder, self.node_port);
    }

    /// Makes a queue that outlives a restart; with a bound, one that takes no more than that.
    pub fn declare(&self, queue: &str, length_max: Option<usize>) {
        let mut peer = peers::script("amqp_peer.py");
        peer.args(["declare", &self.url(), queue]).args(length_max.map(|bound| bound.to_string()));
        run("amqp_peer.py declare", peer, LATER).success();
    }

    /// Takes what is in a queue.
    pub fn take(&self, queue: &str) -> Vec<Value> {
        let mut peer = peers::script("amqp_peer.py");
        peer.args(["take", &self.url(), queue]);
        lines(&run("amqp_peer.py take", peer, LATER).success().stdout)
    }

    /// As the older client names it.
    pub fn url(&self) -> String {
        format!("amqp://guest:guest@{}/%2F", self.address)
    }
}

fn spawn(folder: &std::path::Path, node_port: u16) -> Process {
    let mut command = peers::command("rabbitmq-server");
    command.arg(folder).arg(node_port.to_string());
    let process = Process::spawn("rabbitmq-server", command);
    let ready = |line: &str| line.contains("Server startup complete").then_some(());
    process.await_stderr("`Server startup complete`", START_MAX, ready);
    process
}

/// Its start takes seconds of CPU time; other tests run beside it.
const START_MAX: Duration = Duration::from_secs(180);
