//! A real DNS server on loopback: unbound with the zones of `peers/dns.sh`, or with zones that a test signed.

use crate::peers;
use crate::port::free_port;
use crate::process::{Process, run};
use crate::scratch::Scratch;
use crate::until::SOON;
use std::net::SocketAddr;
use std::path::PathBuf;
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
        NameServer::run(command, port)
    }

    /// Starts one that serves these zones and no other name. It validates nothing: that is left to whoever asks.
    pub fn with_zones(scratch: &Scratch, zones: &[(&str, PathBuf)]) -> NameServer {
        let port = free_port();
        let folder = scratch.join("").display().to_string();
        let mut text = format!(
            "server:\n interface: 127.0.0.1@{port}\n access-control: 127.0.0.0/8 allow\n do-ip6: no\n do-daemonize: no\n \
             chroot: \"\"\n username: \"\"\n directory: \"{folder}\"\n use-syslog: no\n pidfile: \"\"\n num-threads: 1\n \
             module-config: \"iterator\"\n local-zone: \".\" static\n do-not-query-localhost: no\n"
        );
        for (name, _) in zones {
            text += &format!(" local-zone: \"{name}\" transparent\n");
        }
        text += "remote-control:\n control-enable: no\n";
        for (name, file) in zones {
            text += &format!("auth-zone:\n name: \"{name}\"\n zonefile: \"{}\"\n", file.display());
            text += " for-downstream: no\n for-upstream: yes\n fallback-enabled: no\n";
        }
        let configuration = scratch.join("unbound.conf");
        std::fs::write(&configuration, text).expect("the configuration");
        let mut command = Command::new(peers::file("dns/bin/dns-server", "dns.sh"));
        command.env("PORT", port.to_string()).args(["-d", "-p", "-c"]).arg(configuration);
        NameServer::run(command, port)
    }

    fn run(command: Command, port: u16) -> NameServer {
        let process = Process::spawn("unbound", command);
        process.await_stderr("`start of service`", SOON, |line| line.contains("start of service").then_some(()));
        NameServer { address: SocketAddr::from(([127, 0, 0, 1], port)), _process: process }
    }
}

/// A signed zone.
#[derive(Clone, Debug)]
pub struct SignedZone {
    /// The zone file.
    pub file: PathBuf,
    /// A file with the key to trust, a DNSKEY record.
    pub anchor: PathBuf,
}

impl SignedZone {
    /// Signs `text`, the zone `origin`, with a key made for it.
    pub fn sign(scratch: &Scratch, origin: &str, text: &str) -> SignedZone {
        let plain = scratch.join("zone.plain");
        std::fs::write(&plain, text).expect("the zone");
        let tool = |name: &str| {
            let mut command = Command::new(peers::file(&format!("dns/bin/{name}"), "dns.sh"));
            command.current_dir(scratch.join(""));
            command
        };
        let mut keygen = tool("ldns-keygen");
        keygen.args(["-a", "ECDSAP256SHA256", "-k", origin]);
        let key = run("ldns-keygen", keygen, SOON).success().stdout.trim().to_owned();
        let mut sign = tool("ldns-signzone");
        sign.args(["-o", origin, "-f"]).arg(scratch.join("zone.signed")).arg(&plain).arg(&key);
        run("ldns-signzone", sign, SOON).success();
        SignedZone { file: scratch.join("zone.signed"), anchor: scratch.join(&format!("{key}.key")) }
    }
}
