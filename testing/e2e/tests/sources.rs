//! Sources whose own address or proxy does not work: mail goes out by another source of the pool.

use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::logs::Logs;
use e2e::port::free_port;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::{LATER, SOON};
use e2e::wire::Client;
use serde_json::Value;
use std::net::TcpListener;

struct Setup {
    scratch: Scratch,
    sink: Sink,
    relay: Kumod,
}

impl Setup {
    /// `sick`: options of the first of two sources.
    fn new(sick: &str) -> Setup {
        Setup::with_path(sick, "")
    }

    /// `path`: options of all paths.
    fn with_path(sick: &str, path: &str) -> Setup {
        let scratch = Scratch::new();
        let sink = Sink::start(&scratch, "sink", &[]);
        let launch = Launch::policy(policy_file("sources.lua"))
            .env("SOURCES_DIR", scratch.join("sources"))
            .env("SOURCES_TO", sink.address.to_string())
            .env("SOURCES_SICK", sick)
            .env("SOURCES_PATH", path);
        Setup { relay: launch.start(), scratch, sink }
    }

    fn submit(&self, count: usize) {
        let mut client = Client::connect(self.relay.smtp());
        for number in 0..count {
            let reply = client.submit("sender@source.test", &format!("{number}@target.test"), "sources");
            assert_eq!(reply.code, 250, "{reply:?}");
        }
    }

    /// Waits until so many records of a type are in the log.
    fn logged(&self, kind: &str, count: usize) -> Vec<Value> {
        Logs::new(self.scratch.join("sources/logs")).await_type(kind, count, LATER)
    }

    /// All mail goes out by the other source, and no attempt was counted.
    fn check(self) {
        self.submit(20);
        self.sink.await_arrivals(20, SOON);
        self.relay.await_empty(SOON);
        let page = self.relay.metrics();
        let failures = ["bind_failures", "proxy_connection_failures"].map(|name| self.relay.metric(name));
        assert!(failures.iter().sum::<f64>() >= 1.0, "{page}");
        for family in ["egress_source_health_suspensions_total{", "egress_source_connection_failures_total{"] {
            let counted = |line: &&str| line.starts_with(family) && line.contains("\"sick\"");
            assert_eq!(page.lines().filter(counted).count(), 1, "{family} {page}");
        }
        assert_eq!(page.matches("\negress_source_health_suspended{source=\"sick\",").count(), 1, "{page}");
        let delivered = self.logged("Delivery", 20);
        assert!(delivered.iter().all(|r| r["egress_source"] == "well" && r["num_attempts"] == 0), "{delivered:?}");
        let logs = Logs::new(self.scratch.join("sources/logs"));
        self.relay.stop();
        assert!(logs.of_type("TransientFailure").is_empty());
    }
}

#[test]
fn an_address_that_is_not_plumbed_rests() {
    // TEST-NET-1 (RFC 5737) is nobody's.
    Setup::new(
        "source_address = '192.0.2.7', suspend_when_unplumbed = { trigger = 'Immediate', duration = '10 minutes' }",
    )
    .check();
}

#[test]
fn a_proxy_that_is_down_rests() {
    let nobody = free_port();
    let options = format!(
        "ha_proxy_server = '127.0.0.1:{nobody}', ha_proxy_source_address = '127.0.0.9', \
         suspend_when_proxy_unhealthy = {{ trigger = 'Immediate', duration = '10 minutes' }}"
    );
    Setup::new(&options).check();
}

#[test]
fn a_proxy_that_never_answers_rests() {
    // The kernel takes the connection; nobody greets.
    let mute = TcpListener::bind("127.0.0.1:0").expect("a port");
    let options = format!(
        "socks5_proxy_server = '{}', suspend_when_proxy_unhealthy = {{ trigger = 'Immediate', duration = '10 minutes' }}",
        mute.local_addr().expect("bound")
    );
    Setup::with_path(&options, "connect_timeout = '1s'").check();
}

#[test]
fn without_the_option_it_is_a_failure_like_any_other() {
    let setup = Setup::new("source_address = '192.0.2.7'");
    setup.submit(2);
    let failed = setup.logged("TransientFailure", 1);
    let text = failed[0]["response"]["content"].as_str().unwrap_or_default();
    assert!(text.contains("failed to connect to any candidate hosts"), "{text}");
    setup.sink.await_arrivals(1, SOON);
    setup.relay.stop();
}

/// The sources of a domain's pool are told before any mail goes.
#[test]
fn who_asks_why_is_told_the_sources_of_the_pool() {
    let setup = Setup::new("");
    let server = format!("http://{}", setup.relay.http());
    let kcli = |verb: &str| {
        let launch = Launch::verb("kcli").env("KUMO_KCLI_ENDPOINT", &server).arg(verb).arg("target.test");
        launch.run().success().stdout
    };
    let why = kcli("why");
    for source in ["sick", "well"] {
        let way = format!("  way         {source}->mx_list:");
        assert!(why.contains(&way) && !why.contains("unspecified"), "{why}");
    }
    let way = kcli("resolve-egress-path");
    assert!(way.contains("unspecified->mx_list:") && way.contains("sick, well\n"), "{way}");
    setup.relay.stop();
}
