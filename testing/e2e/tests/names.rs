//! Names from the policy: a resolver made of zone text decides where mail goes.

use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::logs::Logs;
use e2e::port::free_port;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::{LATER, SOON};
use e2e::wire::Client;

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
    let bounce = &logs.await_records("Bounce", 1, LATER, |record| record["type"] == "Bounce")[0];
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

fn submit(server: &Kumod, domain: &str) {
    let reply = Client::connect(server.smtp()).submit("sender@source.test", &format!("one@{domain}"), "by name");
    assert_eq!(reply.code, 250, "{domain}: {reply:?}");
}
