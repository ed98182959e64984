//! Proxies mail goes out through: Debian's haproxy, dante and microsocks, and our own server for KumoMTA's use of SOCKS5 BIND.
//!
//! Each listens on a free port of 127.0.0.1 and writes down on stderr whom it connected with whom.

use crate::peers;
use crate::port::free_port;
use crate::process::Process;
use crate::scratch::Scratch;
use crate::until::{SOON, until};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

/// A running proxy.
#[derive(Debug)]
pub struct RunningProxy {
    /// The process itself.
    pub process: Process,
    /// Where it listens.
    pub address: SocketAddr,
}

impl RunningProxy {
    /// haproxy: takes the PROXY protocol and nothing else, connects to the destination the header names, and says
    /// `from SOURCE to DESTINATION` as it read them there.
    pub fn haproxy(scratch: &Scratch) -> RunningProxy {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let config = HAPROXY_CONFIG.replace("@LISTEN@", &address.to_string());
        let mut command = peers::command("haproxy");
        command.arg("-db").arg("-f").arg(scratch.write("haproxy.cfg", config));
        RunningProxy::announced_by_itself("haproxy", command, address)
    }

    /// haproxy in front of a server, to which it says by that version of the PROXY protocol whom it connects.
    pub fn haproxy_before(scratch: &Scratch, server: SocketAddr, version: u8) -> RunningProxy {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let option = if version == 1 { "send-proxy" } else { "send-proxy-v2" };
        let config = format!(
            "defaults\n  mode tcp\n  timeout connect 10s\n  timeout client 60s\n  timeout server 60s\n\
             listen mail\n  bind {address}\n  server one {server} {option}\n"
        );
        let mut command = peers::command("haproxy");
        command.arg("-db").arg("-f").arg(scratch.write("before.cfg", config));
        RunningProxy::announced_by_itself("haproxy", command, address)
    }

    /// dante: SOCKS5 for everybody. It connects from 127.0.0.8, tells its client so, and says
    /// `... -> OURS DESTINATION`, with a dot before the ports.
    pub fn dante(scratch: &Scratch) -> RunningProxy {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let config = DANTE_CONFIG.replace("@PORT@", &address.port().to_string());
        let mut command = peers::command("danted");
        command.arg("-f").arg(scratch.write("danted.conf", config)).arg("-p").arg(scratch.join("danted.pid"));
        let process = Process::spawn("danted", command);
        process.await_stderr("`running`", SOON, |line| line.ends_with(" running").then_some(()));
        RunningProxy { process, address }
    }

    /// microsocks: SOCKS5, for everybody or for one user with a password.
    pub fn microsocks(login: Option<(&str, &str)>) -> RunningProxy {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let mut command = peers::command("microsocks");
        command.args(["-i", "127.0.0.1", "-p", &address.port().to_string()]);
        if let Some((user, password)) = login {
            command.args(["-u", user, "-P", password]);
        }
        RunningProxy::announced_by_itself("microsocks", command, address)
    }

    /// `peers/socks5_bind.py`: BIND, then CONNECT, for one user with a password.
    pub fn socks5_bind(user: &str, password: &str) -> RunningProxy {
        let mut command = peers::script("socks5_bind.py");
        command.args(["--user", user, "--password", password]);
        let process = Process::spawn("socks5_bind.py", command);
        let address = process
            .await_stderr("its address", SOON, |line| line.strip_prefix("listening on ").and_then(|a| a.parse().ok()));
        RunningProxy { process, address }
    }

    /// Waits for a line in which it tells of a connection: all of `words` are in it.
    pub fn await_line(&self, words: &[&str]) -> String {
        let told = |line: &str| words.iter().all(|word| line.contains(word)).then(|| line.to_owned());
        self.process.await_stderr(&words.join(" "), SOON, told)
    }

    /// One that says nothing when it is ready: it is when it takes connections.
    fn announced_by_itself(name: &str, command: Command, address: SocketAddr) -> RunningProxy {
        let process = Process::spawn(name, command);
        until(SOON, &format!("{name} on {address}"), || TcpStream::connect(address).ok());
        RunningProxy { process, address }
    }
}

/// The server 0.0.0.0:0 is the destination of the header.
const HAPROXY_CONFIG: &str = r#"
global
    log stderr format raw local0
defaults
    mode tcp
    timeout connect 10s
    timeout client 60s
    timeout server 60s
listen mail
    bind @LISTEN@ accept-proxy
    log global
    option logasap
    log-format "from %ci:%cp to %[dst]:%[dst_port]"
    server destination 0.0.0.0:0
"#;

const DANTE_CONFIG: &str = r"
logoutput: stderr
internal: 127.0.0.1 port = @PORT@
external: 127.0.0.8
socksmethod: none
clientmethod: none
client pass {
    from: 127.0.0.0/8 to: 0.0.0.0/0
}
socks pass {
    from: 0.0.0.0/0 to: 0.0.0.0/0
    log: connect
}
";
