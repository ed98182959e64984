//! An SMTP server with STARTTLS that writes down what each client did: `peers/tls_server.py`.

use crate::certificate::Certificate;
use crate::peers;
use crate::process::Process;
use crate::scratch::Scratch;
use crate::until::{SOON, until};
use serde_json::Value;
use std::net::SocketAddr;
use std::path::PathBuf;

/// A running server, its certificate for `tls.test` unless the test brought one.
#[derive(Debug)]
pub struct TlsServer {
    /// Where it listens.
    pub address: SocketAddr,
    ledger: PathBuf,
    _process: Process,
    _scratch: Scratch,
}

impl TlsServer {
    /// Starts one; `options` are those of the script beyond certificate, key and ledger.
    pub fn start(options: &[&str]) -> TlsServer {
        let scratch = Scratch::new();
        let own = Certificate::make(&scratch, "tls.test");
        TlsServer::start_as(scratch, &own, options)
    }

    /// Starts one with a certificate of the test's.
    pub fn start_with(own: &Certificate, options: &[&str]) -> TlsServer {
        TlsServer::start_as(Scratch::new(), own, options)
    }

    /// Starts `peers/auth_server.py` instead, which takes mail after AUTH; its ledger knows `auth` and `mail`.
    pub fn start_auth(user: &str, password: &str, options: &[&str]) -> TlsServer {
        let scratch = Scratch::new();
        let own = Certificate::make(&scratch, "tls.test");
        let options = [&["--user", user, "--password", password], options].concat();
        TlsServer::start_script("auth_server.py", scratch, &own, &options)
    }

    fn start_as(scratch: Scratch, own: &Certificate, options: &[&str]) -> TlsServer {
        TlsServer::start_script("tls_server.py", scratch, own, options)
    }

    fn start_script(script: &str, scratch: Scratch, own: &Certificate, options: &[&str]) -> TlsServer {
        let ledger = scratch.join("ledger");
        let mut command = peers::script(script);
        command.arg("--certificate").arg(&own.certificate).arg("--key").arg(&own.key);
        command.arg("--ledger").arg(&ledger).args(options);
        let process = Process::spawn(script, command);
        let address = process.await_stderr("its address", SOON, |line| {
            line.split_once("smtp listener on ").and_then(|(_, address)| address.trim().parse().ok())
        });
        TlsServer { address, ledger, _process: process, _scratch: scratch }
    }

    /// The events of one kind so far: `starttls`, `failed`, `tls`, `mail`.
    pub fn events(&self, kind: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.ledger).unwrap_or_default();
        let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
        let events = whole.lines().map(|line| serde_json::from_str(line).expect("a JSON line"));
        events.filter(|event: &Value| event["event"] == kind).collect()
    }

    /// Waits until there are `count` events of one kind; returns all there are.
    pub fn await_events(&self, kind: &str, count: usize) -> Vec<Value> {
        until(SOON, &format!("{count} times `{kind}` at the server"), || {
            let events = self.events(kind);
            (events.len() >= count).then_some(events)
        })
    }
}
