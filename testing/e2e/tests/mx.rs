//! Delivery by DNS: a real name server with zones of every kind, sinks on several addresses of loopback.
//!
//! All exchangers are asked on one port, which the policy names, because a test may not listen on 25.

use e2e::dns::NameServer;
use e2e::http;
use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::logs::Logs;
use e2e::port::free_port;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::{LATER, SOON};
use e2e::wire::Client;
use serde_json::{Value, json};

/// A server that asks our name server, before any sink.
struct Setup {
    scratch: Scratch,
    port: u16,
    server: Kumod,
    _dns: NameServer,
}

#[test]
fn exchangers_are_tried_by_preference_and_dead_ones_passed_over() {
    let setup = Setup::new();
    // two-prefs: at preference 10 nobody listens on 127.0.0.2 and ::1, somebody on 127.0.0.3; 127.0.0.4 has 20.
    let preferred = setup.sink("preferred", "127.0.0.3");
    let second = setup.sink("second", "127.0.0.4");
    // failover: the only host at preference 10 is dead, at 20 there is 127.0.0.1.
    let fallback = setup.sink("fallback", "127.0.0.1");
    for number in 0..ROUNDS {
        setup.submit(&format!("{number}@two-prefs.test"));
        setup.submit(&format!("{number}@failover.test"));
    }
    preferred.await_arrivals(ROUNDS, SOON);
    let arrived = fallback.await_arrivals(ROUNDS, SOON);
    assert!(arrived.iter().all(|a| a.recipients[0].ends_with("@failover.test")), "{arrived:?}");
    setup.server.await_empty(SOON);
    assert_eq!((preferred.arrivals().len(), second.arrivals().len()), (ROUNDS, 0), "preferred and second host");
    let delivered = setup.records("Delivery", 2 * ROUNDS);
    let to = |domain: &str| delivered.iter().find(|r| r["recipient"].as_str().is_some_and(|t| t.ends_with(domain)));
    let (two, over) = (to("two-prefs.test").expect("delivered"), to("failover.test").expect("delivered"));
    assert_eq!(two["peer_address"]["addr"], "127.0.0.3");
    assert_eq!(two["site"], "unspecified->(a|b|c).mx.two-prefs.test@smtp_client", "as KumoMTA rolls up names");
    assert_eq!(over["peer_address"]["addr"], "127.0.0.1");
    assert_eq!(over["peer_address"]["name"].as_str().map(|n| n.trim_end_matches('.')), Some("mx.loopback.test"));
}

#[test]
fn a_domain_without_mx_is_its_own_exchanger() {
    let setup = Setup::new();
    let sink = setup.sink("implicit", "127.0.0.5");
    setup.submit("one@implicit.test");
    // A CNAME chain is followed to what stands at its end.
    let aliased = setup.sink("aliased", "127.0.0.3");
    setup.submit("one@chain.test");
    sink.await_arrivals(1, SOON);
    aliased.await_arrivals(1, SOON);
}

#[test]
fn an_address_literal_needs_no_dns() {
    let setup = Setup::new();
    let sink = setup.sink("literal", "127.0.0.1");
    setup.submit("one@[127.0.0.1]");
    assert_eq!(sink.await_arrivals(1, SOON)[0].recipients, ["one@[127.0.0.1]"]);
}

#[test]
fn a_wildcard_and_an_answer_too_long_for_udp() {
    let setup = Setup::new();
    let sink = setup.sink("wildcard", "127.0.0.1");
    setup.submit("one@anything.sink.test");
    setup.submit("one@something.sink.test");
    let big = setup.sink("big", "127.0.2.7");
    setup.submit("one@big.test");
    sink.await_arrivals(2, SOON);
    // 50 hosts of one preference, one of which is alive: found in the end, whatever the order.
    big.await_arrivals(1, LATER);
}

#[test]
fn null_mx_bounces_at_once() {
    let setup = Setup::new();
    setup.submit("one@null.test");
    let bounce = &setup.records("Bounce", 1)[0];
    assert_eq!(bounce["response"]["code"], 556, "{bounce}");
    assert_eq!(enhanced(bounce), "5.1.10", "{bounce}");
    assert_eq!(bounce["recipient"], "one@null.test");
    setup.server.await_empty(SOON);
}

#[test]
fn what_cannot_be_resolved_is_tried_again_later() {
    let setup = Setup::new();
    let domains = ["nx.test", "no-address.test", "servfail.test", "loop.test", "dangling.test"];
    for domain in domains {
        setup.submit(&format!("one@{domain}"));
    }
    let failures = setup.records("TransientFailure", domains.len());
    for domain in domains {
        let of_domain = |r: &&Value| r["recipient"] == format!("one@{domain}");
        let record = failures.iter().find(of_domain).unwrap_or_else(|| panic!("no record for {domain}"));
        assert_eq!(record["response"]["code"], 451, "{record}");
        assert_eq!(enhanced(record), "4.4.4", "{record}");
    }
    assert_eq!(setup.server.metric("message_count"), domains.len() as f64, "all of them wait");

    // A failure is believed for five minutes, but not by who has the mail tried now.
    let asked = || setup.server.metric("dns_mx_resolve_cache_miss");
    let asked_before = asked();
    let flush = json!({"domain": "servfail.test", "reason": "their name server works again"});
    http::json(setup.server.http(), "POST", "/api/admin/flush/v1", &flush);
    setup.records("TransientFailure", domains.len() + 1);
    assert_eq!(asked() - asked_before, 1.0, "of one domain");
}

#[test]
fn prohibited_hosts_bounce() {
    let setup = Setup::new();
    setup.submit("one@many.test");
    let bounce = &setup.records("Bounce", 1)[0];
    assert_eq!(bounce["response"]["code"], 550, "{bounce}");
    assert_eq!(enhanced(bounce), "5.4.4", "{bounce}");
}

impl Setup {
    fn new() -> Setup {
        let (scratch, dns, port) = (Scratch::new(), NameServer::start(), free_port());
        let launch = Launch::policy(policy_file("mx.lua"))
            .env("MX_DIR", scratch.join("mx"))
            .env("MX_PORT", port.to_string())
            .env("POSTRIDER_RESOLVERS", dns.address.to_string());
        Setup { server: launch.start(), scratch, port, _dns: dns }
    }

    /// A sink on one address of loopback and the port exchangers are asked on.
    fn sink(&self, name: &str, address: &str) -> Sink {
        Sink::start_on(&self.scratch, name, &format!("{address}:{}", self.port), &[])
    }

    fn submit(&self, to: &str) {
        let reply = Client::connect(self.server.smtp()).submit("sender@source.test", to, "by MX");
        assert_eq!(reply.code, 250, "{to}: {reply:?}");
    }

    fn records(&self, kind: &str, count: usize) -> Vec<Value> {
        let logs = Logs::new(self.scratch.join("mx/logs"));
        logs.await_type(kind, count, LATER)
    }
}

fn enhanced(record: &Value) -> String {
    let code = &record["response"]["enhanced_code"];
    format!("{}.{}.{}", code["class"], code["subject"], code["detail"])
}

/// Messages to each domain of the preference test.
const ROUNDS: usize = 5;
