//! Debian's Redis on ports of its own, in memory only: one server that can be killed and come back on the same port, one that
//! speaks TLS, one with redis-cell, or a cluster of three; and one that comes back with what it knew.

use crate::certificate::Certificate;
use crate::peers;
use crate::port::free_port;
use crate::process::{Process, run};
use crate::scratch::Scratch;
use crate::until::{SOON, until};
use std::net::SocketAddr;
use std::process::Command;

/// A running server.
#[derive(Debug)]
pub struct RunningRedis {
    /// The process itself.
    pub process: Process,
    /// Where it listens.
    pub address: SocketAddr,
    scheme: &'static str,
}

impl RunningRedis {
    /// On a free port.
    pub fn start(scratch: &Scratch) -> RunningRedis {
        RunningRedis::start_on(scratch, free_address())
    }

    /// Where another was before; it knows nothing of what that one knew.
    pub fn start_on(scratch: &Scratch, address: SocketAddr) -> RunningRedis {
        RunningRedis::with(scratch, address, &["--port", &address.port().to_string()])
    }

    /// Where another was before, with all that one had answered for.
    pub fn start_kept(scratch: &Scratch, address: SocketAddr) -> RunningRedis {
        RunningRedis::with(
            scratch,
            address,
            &["--port", &address.port().to_string(), "--appendonly", "yes", "--appendfsync", "always"],
        )
    }

    /// With redis-cell.
    pub fn start_with_cell(scratch: &Scratch) -> RunningRedis {
        let address = free_address();
        let module = peers::file("cell/libredis_cell.so", "cell.sh");
        let module = module.to_str().expect("a path of text");
        RunningRedis::with(scratch, address, &["--port", &address.port().to_string(), "--loadmodule", module])
    }

    /// Over TLS only.
    pub fn start_tls(scratch: &Scratch, certificate: &Certificate) -> RunningRedis {
        let address = free_address();
        let text = |path: &std::path::Path| path.to_str().expect("a path of text").to_owned();
        let (file, key) = (text(&certificate.certificate), text(&certificate.key));
        let port = address.port().to_string();
        let mut options = vec!["--port", "0", "--tls-port", &port, "--tls-auth-clients", "no"];
        options.extend(["--tls-cert-file", &file, "--tls-key-file", &key, "--tls-ca-cert-file", &file]);
        RunningRedis { scheme: "rediss", ..RunningRedis::with(scratch, address, &options) }
    }

    /// Three servers that share all keys.
    pub fn start_cluster(scratch: &Scratch) -> Vec<RunningRedis> {
        let servers: Vec<RunningRedis> = (0..3)
            .map(|number| {
                let (address, bus) = (free_address(), free_port().to_string());
                let (port, nodes) = (address.port().to_string(), format!("nodes-{number}.conf"));
                let mut options = vec!["--port", &port, "--cluster-port", &bus, "--cluster-enabled", "yes"];
                options.extend(["--cluster-config-file", &nodes]);
                RunningRedis::with(scratch, address, &options)
            })
            .collect();
        let addresses: Vec<String> = servers.iter().map(|server| server.address.to_string()).collect();
        let mut create = peers::command("redis-cli");
        create.args(["--cluster", "create"]).args(&addresses).arg("--cluster-yes");
        run("redis-cli --cluster create", create, SOON).success();
        for server in &servers {
            until(SOON, "a cluster", || server.ask(&["CLUSTER", "INFO"]).contains("cluster_state:ok").then_some(()));
        }
        servers
    }

    /// As policies name it.
    pub fn url(&self) -> String {
        match self.scheme {
            // Certificates are for names.
            "rediss" => format!("rediss://localhost:{}/", self.address.port()),
            scheme => format!("{scheme}://{}/", self.address),
        }
    }

    /// What it answers to a command.
    pub fn ask(&self, command: &[&str]) -> String {
        let mut cli = peers::command("redis-cli");
        cli.args(["-p", &self.address.port().to_string()]).args(command);
        run("redis-cli", cli, SOON).success().stdout
    }

    fn with(scratch: &Scratch, address: SocketAddr, options: &[&str]) -> RunningRedis {
        let mut command: Command = peers::command("redis-server");
        command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir"]).arg(scratch.path());
        command.args(options);
        let process = Process::spawn("redis-server", command);
        // By its own word: for a moment somebody else may listen there, who looks for a free port.
        until(SOON, &format!("redis-server on {address}"), || process.stdout().contains(READY).then_some(()));
        RunningRedis { process, address, scheme: "redis" }
    }
}

/// What it says when it listens.
const READY: &str = "Ready to accept connections";

fn free_address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}
