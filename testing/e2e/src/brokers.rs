//! A server whose script publishes to message brokers (`policies/brokers.lua`): how it is started and asked.

use crate::kumod::{Kumod, Launch, policy_file};
use crate::port::free_port;
use crate::scratch::Scratch;
use crate::wire::Client;
use std::net::{SocketAddr, TcpListener};

/// Two places where no broker answers.
#[derive(Debug)]
pub struct Away {
    /// Takes connections, and says nothing.
    silent: TcpListener,
    /// Nobody listens here.
    closed: SocketAddr,
}

impl Away {
    /// On ports of their own.
    #[expect(clippy::new_without_default, reason = "it opens a socket")]
    pub fn new() -> Away {
        let silent = TcpListener::bind("127.0.0.1:0").expect("loopback");
        Away { silent, closed: SocketAddr::from(([127, 0, 0, 1], free_port())) }
    }
}

/// The program with the script.
pub fn launch(scratch: &Scratch, away: &Away) -> Launch {
    let silent = away.silent.local_addr().expect("bound");
    Launch::policy(policy_file("brokers.lua"))
        .env("BROKERS_DIR", scratch.folder("brokers"))
        .env("SILENT", silent.to_string())
        .env("CLOSED", away.closed.to_string())
}

/// What an act of the script says.
pub fn ask(server: &Kumod, act: &str) -> String {
    let mut client = Client::connect(server.smtp());
    client.expect("EHLO client.test", 250);
    let reply = client.say(&format!("MAIL FROM:<{act}@a.test>"));
    assert_eq!(reply.code, 450, "{act}: {}", reply.text());
    reply.text()
}

/// An act of the script finds all as it should be.
pub fn holds(server: &Kumod, act: &str) {
    assert_eq!(ask(server, act), "as it should be", "{act}");
}
