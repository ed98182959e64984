//! What tests of names and the TLS that follows from them share: a server with the policy `names.lua`, mail servers on
//! addresses of loopback that all listen on one port, and an authority for their certificates.
//!
//! In: zones, options of the policy's environment. Out: the server's records of one message to one domain.

use crate::certificate::{Authority, Certificate};
use crate::kumod::{Kumod, Launch, policy_file};
use crate::logs::Logs;
use crate::port::free_port;
use crate::scratch::Scratch;
use crate::sts_server::StsServer;
use crate::tls_server::TlsServer;
use crate::until::LATER;
use crate::wire::Client;
use serde_json::Value;

/// The stage of one test.
#[derive(Debug)]
pub struct Names {
    /// Where the zone, the certificates, and `names`, the server's folder, are.
    pub scratch: Scratch,
    /// Issues certificates; trusted by those servers that are told so.
    pub authority: Authority,
    /// Where all mail servers listen.
    pub port: u16,
}

impl Names {
    /// A stage without servers.
    pub fn new() -> Names {
        let scratch = Scratch::new();
        Names { authority: Authority::make(&scratch), scratch, port: free_port() }
    }

    /// Writes the zone that [`Names::with_zone`] speaks of.
    pub fn write_zone(&self, text: impl AsRef<[u8]>) {
        self.scratch.write("zone", text);
    }

    /// A mail server on an address of loopback, with a certificate of the authority for `name`.
    pub fn host(&self, address: &str, name: &str, options: &[&str]) -> TlsServer {
        self.host_with(address, &self.authority.issue(&self.scratch, &[name]), options)
    }

    /// The same with a certificate of the test's.
    pub fn host_with(&self, address: &str, certificate: &Certificate, options: &[&str]) -> TlsServer {
        let listen = format!("{address}:{}", self.port);
        TlsServer::start_with(certificate, &[&["--listen", listen.as_str()], options].concat())
    }

    /// Our server, its spool and logs in `DIR/name`, with a mode of TLS (`enable_tls`).
    pub fn launch(&self, name: &str, mode: &str) -> Launch {
        Launch::policy(policy_file("names.lua"))
            .env("NAMES_DIR", self.scratch.join(name))
            .env("NAMES_PORT", self.port.to_string())
            .env("NAMES_TLS", mode)
    }

    /// The same, with names from the zone.
    pub fn with_zone(&self, name: &str, mode: &str) -> Launch {
        self.launch(name, mode).env("NAMES_ZONE", self.scratch.join("zone"))
    }

    /// The same, with policies of MTA-STS from `sts`, whose certificate the authority vouches for.
    pub fn with_sts(&self, name: &str, mode: &str, sts: &StsServer) -> Launch {
        self.with_zone(name, mode)
            .env("NAMES_STS_PORT", sts.address.port().to_string())
            .env("SSL_CERT_FILE", &self.authority.own.certificate)
    }

    /// The first record of a type about mail to `one@DOMAIN`, by the server called `names`.
    pub fn record(&self, kind: &str, domain: &str) -> Value {
        let recipient = format!("one@{domain}");
        let wanted = |record: &Value| record["type"] == kind && record["recipient"] == recipient;
        let logs = Logs::new(self.scratch.join("names/logs"));
        logs.await_records(&format!("{kind} {domain}"), 1, LATER, wanted).swap_remove(0)
    }
}

impl Default for Names {
    fn default() -> Names {
        Names::new()
    }
}

/// Mail to `one@DOMAIN` from a domain that is nobody's.
pub fn submit(server: &Kumod, domain: &str) {
    let reply = Client::connect(server.smtp()).submit("sender@source.test", &format!("one@{domain}"), "by name");
    assert_eq!(reply.code, 250, "{domain}: {reply:?}");
}
