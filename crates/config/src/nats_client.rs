//! The options of `kumo.nats.connect` and of what its client publishes.
//!
//! Owns [`NatsOptions`] and [`NatsMessage`], whose `payload` may be any octets, so it is read beside it. Talking to NATS is the brokers crate's.

use crate::duration::Duration;
use crate::key_source::KeySource;
use crate::options::options;
use std::collections::BTreeMap;

options! {
    /// `kumo.nats.connect`
    pub struct NatsOptions check check_client {
        /// The servers, as `nats://HOST:PORT`, `tls://HOST:PORT` or `HOST:PORT`: a text or a list. Any of them is as good.
        servers: BrokerServers;
        /// What the connection is called in the server's own lists.
        name: Option<String> = None;
        /// Who connects: `{ username, password }` or `{ token }`.
        auth: Option<NatsAuth> = None;
        /// The server sends nothing back that was published over the same connection.
        no_echo: bool = false;
        /// Attempts to connect again after a connection was lost, before it is given up; absent or 0 is without end.
        max_reconnects: Option<usize> = None;
        /// Time limit for making a connection to one server.
        connection_timeout: Duration = Duration::from_secs(5);
        /// No connection without TLS. Where the server demands it, TLS is used in any case.
        tls_required: bool = false;
        /// TLS from the first octet on, before the server has said anything; it must be set up so too.
        tls_first: bool = false;
        /// Certificates of who may vouch for the server, in PEM, as a KeySource; the system's when absent.
        certificate: Option<KeySource> = None;
        /// A certificate of our own, in PEM, as a KeySource.
        client_cert: Option<KeySource> = None;
        /// Its key, in PEM, as a KeySource.
        client_key: Option<KeySource> = None;
        /// How often the server is asked whether it is still there.
        ping_interval: Duration = Duration::from_secs(60);
        /// Messages on their way to the connection; who publishes more waits.
        sender_capacity: usize = 128, min 1;
        /// KumoMTA's other name of `sender_capacity`, which it goes before.
        client_capacity: Option<usize> = None, min 1;
        /// How subjects begin on which answers are awaited; `_INBOX` when absent.
        inbox_prefix: Option<String> = None;
        /// Time limit for the acknowledgement of a message.
        request_timeout: Duration = Duration::from_secs(10);
        /// Servers that cannot be reached at first are no error: they are tried again, and what is published meanwhile waits.
        retry_on_initial_connect: bool = false;
        /// Servers that others of the cluster tell of are not used.
        ignore_discovered_servers: bool = false;
        /// Servers are tried in the order given, not in any.
        retain_servers_order: bool = false;
    }
}

options! {
    /// `auth` of `kumo.nats.connect`
    pub struct NatsAuth check check_auth {
        /// User to log in as, as a KeySource.
        username: Option<KeySource> = None;
        /// Password to log in with, as a KeySource.
        password: Option<KeySource> = None;
        /// Token to log in with, as a KeySource.
        token: Option<KeySource> = None;
    }
}

options! {
    /// `nats:publish`
    pub struct NatsMessage {
        /// What it is about.
        subject: String;
        /// Header fields by name.
        headers: BTreeMap<String, String> = BTreeMap::new();
        /// Wait until a stream has it; if false, it is sent and nothing more is heard of it.
        await_ack: bool = true;
    }
}

/// Where brokers are: one address, or a list.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(untagged, expecting = "expected the address of a server or a list of such")]
pub enum BrokerServers {
    /// One server.
    One(String),
    /// Some of a cluster, or one.
    Several(Vec<String>),
}

impl Default for BrokerServers {
    fn default() -> BrokerServers {
        BrokerServers::Several(Vec::new())
    }
}

impl NatsOptions {
    /// The addresses given, at least one.
    pub fn servers(&self) -> &[String] {
        match &self.servers {
            BrokerServers::One(server) => std::slice::from_ref(server),
            BrokerServers::Several(servers) => servers,
        }
    }

    /// Messages that may be on their way to the connection.
    pub fn capacity(&self) -> usize {
        self.client_capacity.unwrap_or(self.sender_capacity)
    }
}

fn check_client(options: &NatsOptions) -> Result<(), String> {
    if options.servers().is_empty() {
        return Err("servers: an empty list: expected at least one server".to_owned());
    }
    if options.client_cert.is_some() != options.client_key.is_some() {
        return Err("client_cert and client_key: expected both or neither".to_owned());
    }
    Ok(())
}

fn check_auth(auth: &NatsAuth) -> Result<(), String> {
    match (&auth.username, &auth.password, &auth.token) {
        (Some(_), Some(_), None) | (None, None, Some(_)) => Ok(()),
        _ => Err("auth: expected { username, password } or { token }".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(options: serde_json::Value) -> Result<NatsOptions, String> {
        crate::parse::<NatsOptions>("kumo.nats.connect", options).map_err(|e| e.to_string())
    }

    #[test]
    fn servers_are_named_in_either_form() {
        assert_eq!(read(json!({"servers": "a:1"})).expect("sound").servers(), ["a:1"]);
        let options = read(json!({"servers": ["a:1", "b:2"], "client_capacity": 7})).expect("sound");
        assert_eq!((options.servers().len(), options.capacity()), (2, 7));
        assert_eq!(read(json!({"servers": "a", "sender_capacity": 9})).expect("sound").capacity(), 9);
    }

    #[test]
    fn what_is_half_or_nothing_is_refused() {
        let secret = || json!({"key_data": "x"});
        for (options, why) in [
            (json!({}), "servers"),
            (json!({"servers": []}), "at least one server"),
            (json!({"servers": 5}), "the address of a server"),
            (json!({"servers": "a", "client_cert": "c.pem"}), "expected both or neither"),
            (json!({"servers": "a", "auth": {"username": secret()}}), "expected { username, password } or { token }"),
            (json!({"servers": "a", "auth": {"token": secret(), "username": secret(), "password": secret()}}), "auth"),
            (json!({"servers": "a", "auth": {"tokn": secret()}}), "token"),
            (json!({"servers": "a", "sender_capacity": 0}), "sender_capacity"),
            (json!({"servers": "a", "conection_timeout": 1}), "connection_timeout"),
        ] {
            let error = read(options.clone()).expect_err("refused");
            assert!(error.contains(why), "{options}: {error}");
        }
    }
}
