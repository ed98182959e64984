//! Names from the policy: a resolver made of zone text decides where mail goes.

use e2e::dns::NameServer;
use e2e::kumod::{Launch, policy_file};
use e2e::logs::Logs;
use e2e::names::submit;
use e2e::port::free_port;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::{LATER, SOON};

const ZONE: &str = "
$ORIGIN one.test.
@        60 MX 10 dead
@        60 MX 20 mx
dead     60 A  127.0.0.254
mx       60 A  127.0.0.7
implicit 60 A  127.0.0.7
null     60 MX 0 .
loop     60 CNAME loop
gone     60 MX 10 nowhere
";

#[test]
fn a_test_resolver_of_the_policy_decides() {
    let (scratch, port) = (Scratch::new(), free_port());
    let sink = Sink::start_on(&scratch, "sink", &format!("127.0.0.7:{port}"), &[]);
    std::fs::write(scratch.join("zone"), ZONE).expect("the zone");
    let server = Launch::policy(policy_file("names.lua"))
        .env("NAMES_DIR", scratch.join("names"))
        .env("NAMES_ZONE", scratch.join("zone"))
        .env("NAMES_SERVFAIL", "broken.test")
        .env("NAMES_PORT", port.to_string())
        .start();
    let logs = Logs::new(scratch.join("names/logs"));
    for domain in ["one.test", "implicit.one.test"] {
        submit(&server, domain);
    }
    let arrived = sink.await_arrivals(2, SOON);
    assert_eq!(arrived.len(), 2, "{arrived:?}");
    submit(&server, "null.one.test");
    let bounce = &logs.await_type("Bounce", 1, LATER)[0];
    assert_eq!(bounce["response"]["code"], 556, "{bounce}");
    for (domain, why) in [
        ("two.test", "NXDOMAIN"),
        ("loop.one.test", "SERVFAIL"),
        ("gone.one.test", "no host of the domain has an address"),
        ("broken.test", "SERVFAIL"),
    ] {
        submit(&server, domain);
        let recipient = format!("one@{domain}");
        let of_domain = |r: &serde_json::Value| r["type"] == "TransientFailure" && r["recipient"] == recipient;
        let failure = &logs.await_records(domain, 1, LATER, of_domain)[0];
        assert_eq!(failure["response"]["code"], 451, "{failure}");
        assert!(failure["response"]["content"].as_str().is_some_and(|text| text.contains(why)), "{failure}");
    }
}

#[test]
fn a_resolver_that_cannot_be_made_stops_the_start() {
    let scratch = Scratch::new();
    std::fs::write(scratch.join("zone"), "one.test. 60 MX none\n").expect("the zone");
    let finished = Launch::policy(policy_file("names.lua"))
        .env("NAMES_DIR", scratch.join("names"))
        .env("NAMES_ZONE", scratch.join("zone"))
        .env("NAMES_PORT", "25")
        .run();
    assert!(finished.stderr.contains("zone 1 of the test resolver"), "{finished:?}");
    assert!(!finished.status.success());
}

#[test]
fn a_domain_without_an_answer_holds_up_nobody_else() {
    let (scratch, port, dns) = (Scratch::new(), free_port(), NameServer::start());
    let sink = Sink::start_on(&scratch, "sink", &format!("127.0.0.1:{port}"), &[]);
    let server = Launch::policy(policy_file("names.lua"))
        .env("NAMES_DIR", scratch.join("names"))
        .env("NAMES_SERVER", dns.address.to_string())
        .env("NAMES_PORT", port.to_string())
        .start();
    let silent = ["timeout.test", "a.timeout.test", "b.timeout.test", "mx-to-timeout.test"];
    for domain in silent {
        submit(&server, domain);
    }
    submit(&server, "any.sink.test");
    // And one of two hosts whose address nobody tells: the other gets the mail.
    let arrived = sink.await_arrivals(2, SOON);
    assert_eq!(arrived[0].recipients, ["one@any.sink.test"], "the silent ones take six seconds");
    assert_eq!(arrived[1].recipients, ["one@mx-to-timeout.test"]);
    let logs = Logs::new(scratch.join("names/logs"));
    let failures = logs.await_type("TransientFailure", 3, LATER);
    for failure in failures {
        assert!(failure["response"]["content"].as_str().is_some_and(|t| t.contains("no answer from DNS in time")));
    }
}
