//! Debian's Redis on a port of its own, in memory only; it can be killed and come back on the same port.

use crate::peers;
use crate::port::free_port;
use crate::process::Process;
use crate::scratch::Scratch;
use crate::until::{SOON, until};
use std::net::{SocketAddr, TcpStream};

/// A running server.
#[derive(Debug)]
pub struct RunningRedis {
    /// The process itself.
    pub process: Process,
    /// Where it listens.
    pub address: SocketAddr,
}

impl RunningRedis {
    /// On a free port.
    pub fn start(scratch: &Scratch) -> RunningRedis {
        RunningRedis::start_on(scratch, SocketAddr::from(([127, 0, 0, 1], free_port())))
    }

    /// Where another was before; it knows nothing of what that one knew.
    pub fn start_on(scratch: &Scratch, address: SocketAddr) -> RunningRedis {
        let mut command = peers::command("redis-server");
        command.args([
            "--bind",
            "127.0.0.1",
            "--port",
            &address.port().to_string(),
            "--save",
            "",
            "--appendonly",
            "no",
        ]);
        command.arg("--dir").arg(scratch.path());
        let process = Process::spawn("redis-server", command);
        until(SOON, &format!("redis-server on {address}"), || TcpStream::connect(address).ok());
        RunningRedis { process, address }
    }

    /// As policies name it.
    pub fn url(&self) -> String {
        format!("redis://{}/", self.address)
    }
}
