//! Mail out through proxies: haproxy, dante, microsocks, and KumoMTA's BIND before CONNECT.
//!
//! In each test the sink stands for the mail server; that the mail went through the proxy is told by the proxy itself,
//! and what the log says of our address is compared with that.

use e2e::dns::NameServer;
use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::logs::Logs;
use e2e::port::free_port;
use e2e::proxy::RunningProxy;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::{LATER, SOON};
use e2e::wire::Client;
use serde_json::{Value, json};

/// A server whose only source has the given options.
struct Setup<'a> {
    scratch: &'a Scratch,
    server: Kumod,
}

#[test]
fn haproxy_is_told_both_addresses() {
    let scratch = Scratch::new();
    let (sink, proxy) = (Sink::start(&scratch, "sink", &[]), RunningProxy::haproxy(&scratch));
    let source = format!("ha_proxy_server = '{}', ha_proxy_source_address = '127.0.0.9'", proxy.address);
    let setup = Setup::new(&scratch, &sink.address.to_string(), &source, &[]);
    let delivery = setup.deliver();
    sink.await_arrivals(1, SOON);
    proxy.await_line(&[&format!("from 127.0.0.9:0 to {}", sink.address)]);
    assert_eq!(
        delivery["source_address"],
        json!({"address": "127.0.0.9:0", "server": proxy.address.to_string(), "protocol": "haproxy"})
    );
    assert_eq!(delivery["peer_address"]["addr"], "127.0.0.1", "the mail server is the peer, not the proxy");
    assert_eq!(delivery["egress_source"], "ip-1");
}

#[test]
fn the_address_a_socks5_server_tells_is_logged() {
    let scratch = Scratch::new();
    let (sink, proxy) = (Sink::start(&scratch, "sink", &[]), RunningProxy::dante(&scratch));
    let source = format!("socks5_proxy_server = '{}'", proxy.address);
    let setup = Setup::new(&scratch, &sink.address.to_string(), &source, &[]);
    let delivery = setup.deliver();
    sink.await_arrivals(1, SOON);
    let line = proxy.await_line(&["tcp/connect", " -> 127.0.0.8.", &dotted(&sink.address.to_string())]);
    let seen = delivery["source_address"]["address"].as_str().expect("an address");
    assert!(line.contains(&format!(" -> {} ", dotted(seen))), "{seen}: {line}");
    assert_eq!(
        delivery["source_address"],
        json!({"address": seen, "server": proxy.address.to_string(), "protocol": "socks5"})
    );
}

#[test]
fn socks5_with_a_login_by_a_proxy_known_by_name() {
    let scratch = Scratch::new();
    let dns = NameServer::start();
    let (sink, proxy) = (Sink::start(&scratch, "sink", &[]), RunningProxy::microsocks(Some((USER, PASSWORD))));
    let name = format!("mx.sink.test:{}", proxy.address.port());
    let file = scratch.write("password", format!("{PASSWORD}\n"));
    let source = format!(
        "socks5_proxy_server = '{name}', socks5_proxy_username = '{USER}', socks5_proxy_password = '{}'",
        file.display()
    );
    let resolvers = ("POSTRIDER_RESOLVERS", dns.address.to_string());
    let setup = Setup::new(&scratch, &sink.address.to_string(), &source, &[resolvers]);
    let delivery = setup.deliver();
    sink.await_arrivals(1, SOON);
    proxy.await_line(&["connected to", &sink.address.port().to_string()]);
    // microsocks does not tell its own address: it says 0.0.0.0:0.
    assert_eq!(delivery["source_address"], json!({"address": "0.0.0.0:0", "server": name, "protocol": "socks5"}));
    setup.assert_no_password(&delivery);
}

#[test]
fn refused_logins_and_destinations_are_told_in_words() {
    let nobody = format!("127.0.0.1:{}", free_port());
    let login = |proxy: &RunningProxy, password: &str| {
        format!(
            "socks5_proxy_server = '{}', socks5_proxy_username = '{USER}', socks5_proxy_password = {{ key_data = '{password}' }}",
            proxy.address
        )
    };
    let proxy = RunningProxy::microsocks(Some((USER, PASSWORD)));
    let refusal = |source: &str| {
        let scratch = Scratch::new();
        let setup = Setup::new(&scratch, &nobody, source, &[]);
        let failure = setup.fail();
        setup.assert_no_password(&failure);
        failure["response"]["content"].as_str().expect("a text").to_owned()
    };
    let before = format!("KumoMTA internal: failed to connect to any candidate hosts: sink.test ({nobody}): ");
    let at = format!("{before}SOCKS5 proxy {}: ", proxy.address);

    let wrong = refusal(&login(&proxy, &format!("not {PASSWORD}")));
    assert!(wrong.starts_with(&format!("{at}log in: user name or password refused (status ")), "{wrong}");
    let without = refusal(&format!("socks5_proxy_server = '{}'", proxy.address));
    let expected = "greet: no acceptable method of authentication (code 255); offered: none";
    assert_eq!(without, format!("{at}{expected}"));
    let dead = refusal(&login(&proxy, PASSWORD));
    assert_eq!(dead, format!("{at}CONNECT {nobody}: connection refused (code 5)"));
}

#[test]
fn a_proxy_that_is_not_there_is_a_host_that_cannot_be_reached() {
    let sink_scratch = Scratch::new();
    let sink = Sink::start(&sink_scratch, "sink", &[]);
    let dead = format!("127.0.0.1:{}", free_port());
    let before = format!("KumoMTA internal: failed to connect to any candidate hosts: sink.test ({}): ", sink.address);
    for (source, text) in [
        (
            format!("socks5_proxy_server = '{dead}'"),
            format!("SOCKS5 proxy {dead}: connect: Connection refused (os error 111)"),
        ),
        (
            format!("ha_proxy_server = '{dead}', ha_proxy_source_address = '127.0.0.9'"),
            format!("HAProxy proxy {dead}: connect: Connection refused (os error 111)"),
        ),
        (
            format!("ha_proxy_server = '{dead}', ha_proxy_source_address = '2001:db8::9'"),
            format!(
                "HAProxy proxy {dead}: cannot connect from 2001:db8::9 to {}: the one is IPv4, the other IPv6",
                sink.address
            ),
        ),
    ] {
        let scratch = Scratch::new();
        let failure = Setup::new(&scratch, &sink.address.to_string(), &source, &[]).fail();
        assert_eq!(failure["response"]["content"], format!("{before}{text}"), "{failure}");
        assert_eq!(failure["response"]["code"], 400, "{failure}");
    }
    assert!(sink.arrivals().is_empty(), "went past its proxy");
}

#[test]
fn with_a_source_address_socks5_binds_before_it_connects() {
    let scratch = Scratch::new();
    let (sink, proxy) = (Sink::start(&scratch, "sink", &[]), RunningProxy::socks5_bind(USER, PASSWORD));
    let source = |address: &str| {
        format!(
            "socks5_proxy_server = '{}', socks5_proxy_source_address = '{address}', socks5_proxy_username = '{USER}', \
             socks5_proxy_password = {{ key_data = '{PASSWORD}' }}",
            proxy.address
        )
    };
    let setup = Setup::new(&scratch, &sink.address.to_string(), &source("127.0.0.9"), &[]);
    let delivery = setup.deliver();
    sink.await_arrivals(1, SOON);
    proxy.await_line(&["BIND 127.0.0.9:0 -> "]);
    let connect = format!("CONNECT {} from ", sink.address);
    let line = proxy.await_line(&[&connect]);
    let seen = line.strip_prefix(&connect).expect("the address the sink sees");
    assert!(seen.starts_with("127.0.0.9:"), "{line}");
    assert_eq!(
        delivery["source_address"],
        json!({"address": seen, "server": proxy.address.to_string(), "protocol": "socks5"})
    );

    // An address that no host has (RFC 5737).
    let scratch = Scratch::new();
    let failure = Setup::new(&scratch, &sink.address.to_string(), &source("192.0.2.1"), &[]).fail();
    let text = failure["response"]["content"].as_str().expect("a text");
    let expected = format!("SOCKS5 proxy {}: BIND 192.0.2.1: general SOCKS server failure (code 1)", proxy.address);
    assert!(text.ends_with(&expected), "{text}");
}

impl Setup<'_> {
    fn new<'a>(scratch: &'a Scratch, to: &str, source: &str, env: &[(&str, String)]) -> Setup<'a> {
        let launch = Launch::policy(policy_file("proxies.lua"))
            .env("PROXIES_DIR", scratch.join("proxies"))
            .env("PROXIES_TO", to)
            .env("PROXIES_SOURCE", source);
        let launch = env.iter().fold(launch, |launch, (name, value)| launch.env(name, value));
        Setup { scratch, server: launch.start() }
    }

    /// Sends one message; the record of its delivery.
    fn deliver(&self) -> Value {
        self.record_of("Delivery")
    }

    /// Sends one message; the record of its first failure.
    fn fail(&self) -> Value {
        self.record_of("TransientFailure")
    }

    fn record_of(&self, kind: &str) -> Value {
        let reply = Client::connect(self.server.smtp()).submit("a@source.test", "b@target.test", "by proxy");
        assert_eq!(reply.code, 250, "{reply:?}");
        let logs = Logs::new(self.scratch.join("proxies/logs"));
        let of_attempt = |r: &Value| r["type"] == "Delivery" || r["type"] == "TransientFailure";
        let record = logs.await_records("an attempt", 1, LATER, of_attempt).remove(0);
        assert_eq!(record["type"], kind, "{record}");
        record
    }

    fn assert_no_password(&self, record: &Value) {
        assert!(!record.to_string().contains(PASSWORD), "{record}");
        let stderr = self.server.process.stderr();
        assert!(!stderr.contains(PASSWORD), "{stderr}");
    }
}

/// An address as dante writes it.
fn dotted(address: &str) -> String {
    address.replace(':', ".")
}

const USER: &str = "scott";
const PASSWORD: &str = "tiger-in-the-tank";
