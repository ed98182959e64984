//! MTA-STS: policies of a real HTTPS server, followed towards real TLS servers. Trust begins at an authority of the test.

use e2e::kumod::Kumod;
use e2e::names::{Names, submit};
use e2e::sts_server::StsServer;
use e2e::until::SOON;

/// `strict.test` and its like announce a policy, `free.test` has the same host and does not. `mx.test` is 127.0.0.1,
/// `evil.test` 127.0.0.2.
fn zone() -> String {
    let mut zone = "$ORIGIN test.\nfree 60 MX 10 mx\nmx 60 A 127.0.0.1\nevil 60 A 127.0.0.2\n".to_owned();
    for domain in DOMAINS {
        zone += &format!("{domain} 60 MX 5 evil\n{domain} 60 MX 10 mx\nmta-sts.{domain} 60 A 127.0.0.1\n");
        zone += &format!("_mta-sts.{domain} 60 TXT \"v=STSv1; id=1;\"\n");
    }
    zone
}

const DOMAINS: [&str; 8] = ["strict", "testing", "nobody", "redirect", "html", "huge", "missing", "foreign"];

struct Setup {
    names: Names,
    sts: StsServer,
}

impl Setup {
    fn new() -> Setup {
        let names = Names::new();
        // Of all policy hosts but that of foreign.test.
        let hosts: Vec<String> = DOMAINS[..7].iter().map(|domain| format!("mta-sts.{domain}.test")).collect();
        let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
        let sts = StsServer::start(&names.authority.issue(&names.scratch, &hosts));
        names.write_zone(zone());
        Setup { names, sts }
    }

    fn start(&self, mode: &str) -> Kumod {
        self.names.with_sts("names", mode, &self.sts).start()
    }
}

#[test]
fn an_enforced_policy_chooses_the_host_and_demands_a_valid_certificate() {
    let setup = Setup::new();
    setup.sts.serve("strict.test", &policy("enforce", "mx.test"));
    let good = setup.names.host("127.0.0.1", "mx.test", &[]);
    let evil = setup.names.host("127.0.0.2", "evil.test", &[]);
    // The path itself would do without TLS.
    let server = setup.start("Disabled");
    submit(&server, "strict.test");
    assert_eq!(good.await_events("mail", 1)[0]["tls"], true);
    assert_eq!(good.events("tls")[0]["sni"], "mx.test");
    let delivery = &setup.names.record("Delivery", "strict.test");
    assert_eq!(delivery["site"], "unspecified->mx.test.@smtp_client", "{delivery}");
    assert_eq!(delivery["tls_protocol_version"], "TLSv1_3", "{delivery}");
    assert_eq!((evil.events("mail").len(), evil.events("starttls").len()), (0, 0), "a host beside the policy");
    assert_eq!(setup.sts.requests(), ["mta-sts.strict.test /.well-known/mta-sts.txt"]);
}

#[test]
fn a_server_that_does_not_satisfy_gets_only_the_mail_of_domains_without_a_policy() {
    for (name, options) in [("mx.test", &["--break", "offer"][..]), ("other.test", &[])] {
        let setup = Setup::new();
        setup.sts.serve("strict.test", &policy("enforce", "*.test"));
        setup.sts.serve("testing.test", &policy("testing", "nobody.test"));
        setup.sts.serve("nobody.test", &policy("enforce", "nobody.test"));
        let host = setup.names.host("127.0.0.1", name, options);
        let server = setup.start("OpportunisticInsecure");
        // Both domains have the same site, and a connection would do for both.
        submit(&server, "strict.test");
        submit(&server, "free.test");
        submit(&server, "testing.test");
        submit(&server, "nobody.test");
        host.await_events("mail", 2);
        let failure = &setup.names.record("TransientFailure", "strict.test");
        let text = failure["response"]["content"].as_str().unwrap_or_default();
        assert!(text.contains("TLS is demanded by MTA-STS (enforce)"), "{failure}");
        let nowhere = &setup.names.record("TransientFailure", "nobody.test");
        assert_eq!(nowhere["response"]["code"], 451, "{nowhere}");
        let text = nowhere["response"]["content"].as_str().unwrap_or_default();
        assert!(text.contains("no MX host of nobody.test is allowed by its MTA-STS policy"), "{nowhere}");
        setup.names.record("Delivery", "free.test");
        setup.names.record("Delivery", "testing.test");
        let to: Vec<String> = host.events("mail").iter().map(|mail| mail["to"].to_string()).collect();
        assert!(to.iter().all(|to| !to.contains("strict.test")), "{to:?}");
    }
}

#[test]
fn what_is_no_policy_has_no_effect() {
    let setup = Setup::new();
    for domain in ["redirect", "html", "huge", "missing"] {
        setup.sts.serve(&format!("{domain}.test"), &format!("!{domain}"));
    }
    setup.sts.serve("foreign.test", &policy("enforce", "nobody.test"));
    let evil = setup.names.host("127.0.0.2", "evil.test", &["--break", "offer"]);
    let server = setup.start("OpportunisticInsecure");
    for (number, (domain, why)) in [
        ("redirect", "the server answered 301 Moved Permanently"),
        ("html", "the server sent `text/html`"),
        ("huge", "length limit exceeded"),
        ("missing", "the server answered 404 Not Found"),
        ("foreign", "certificate not valid for name \"mta-sts.foreign.test\""),
    ]
    .into_iter()
    .enumerate()
    {
        submit(&server, &format!("{domain}.test"));
        evil.await_events("mail", number + 1);
        let what = format!("MTA-STS policy of {domain}.test (id 1)");
        let line = server.process.await_stderr(&what, SOON, |line| line.contains(&what).then(|| line.to_owned()));
        assert!(line.contains(why), "{domain}: {line}");
    }
    // A redirect is not followed, and what a foreign certificate would have led to is not asked for.
    let mut asked = setup.sts.requests();
    asked.sort();
    asked.dedup();
    assert_eq!(asked.len(), 4, "{asked:?}");
    assert_eq!(setup.sts.requests().len(), 4);
}

fn policy(mode: &str, mx: &str) -> String {
    format!("version: STSv1\r\nmode: {mode}\r\nmx: {mx}\r\nmax_age: 86400\r\n")
}
