//! DANE: a zone signed by ldns, served by unbound, validated by us, and what follows for TLS with real servers.

use e2e::certificate::Certificate;
use e2e::dns::{NameServer, SignedZone};
use e2e::kumod::Launch;
use e2e::names::{Names, submit};
use e2e::sts_server::StsServer;
use serde_json::Value;

/// Our server, which follows DANE; TLS is otherwise a matter of taste.
fn launch(names: &Names) -> Launch {
    names.launch("names", "OpportunisticInsecure").env("NAMES_DANE", "1")
}

fn failure(names: &Names, domain: &str) -> String {
    names.record("TransientFailure", domain)["response"]["content"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_signed_zone_decides_whom_to_believe() {
    let setup = Names::new();
    let named = setup.authority.issue(&setup.scratch, &["ta.test"]);
    let other = setup.authority.issue(&setup.scratch, &["elsewhere.test"]);
    let (ee, ta) = (other.tlsa_sha256(&setup.scratch, true), setup.authority.own.tlsa_sha256(&setup.scratch, false));
    let (zero, tcp) = ("00".repeat(32), format!("_{}._tcp", setup.port));
    let mut zone =
        "$ORIGIN test.\n$TTL 60\n@ SOA ns hostmaster 1 3600 600 86400 60\n@ NS ns\nns A 127.0.0.1\n".to_owned();
    // Without a DS record: what is below is not signed.
    zone += "plain NS ns.plain\nns.plain A 127.0.0.1\n";
    for (host, address, tlsa) in [
        ("ee", 11, format!("3 1 1 {ee}")),
        ("ta", 12, format!("2 0 1 {ta}")),
        ("ta-name", 11, format!("2 0 1 {ta}")),
        ("wrong", 11, format!("3 1 1 {zero}")),
        ("unusable", 11, format!("1 0 1 {zero}")),
        ("unusable-clear", 13, format!("1 0 1 {zero}")),
        ("usable-clear", 13, format!("3 1 1 {ee}")),
        ("bogus", 11, format!("3 1 1 {ee}")),
    ] {
        zone += &format!("to-{host} MX 10 {host}\n{host} A 127.0.0.{address}\n{tcp}.{host} TLSA {tlsa}\n");
    }
    zone += "bogus-mx MX 10 ee\n";
    zone += "to-alias MX 10 alias\nalias CNAME ee\nto-none MX 10 none\nnone A 127.0.0.13\n";
    let signed = SignedZone::sign(&setup.scratch, "test.", &zone);
    forge(&signed, &format!("{tcp}.bogus.test."), &ee, &zero);
    forge(&signed, "bogus-mx.test.", "ee.test.", "ta.test.");
    let plain = setup.scratch.join("zone.unsigned");
    let unsigned = format!(
        "$ORIGIN plain.test.\n$TTL 60\n@ SOA ns h 1 2 3 4 60\n@ NS ns\nns A 127.0.0.1\n@ MX 10 mx\nmx A 127.0.0.13\n{tcp}.mx TLSA 3 1 1 {zero}\n"
    );
    std::fs::write(&plain, unsigned).expect("the zone");
    let names = NameServer::with_zones(&setup.scratch, &[("test.", signed.file.clone()), ("plain.test.", plain)]);
    let hosts = [
        setup.host_with("127.0.0.11", &other, &[]),
        setup.host_with("127.0.0.12", &named, &[]),
        setup.host_with("127.0.0.13", &other, &["--break", "offer"]),
    ];
    let server =
        launch(&setup).env("NAMES_SERVER", names.address.to_string()).env("NAMES_ANCHOR", &signed.anchor).start();
    for (domain, is_under_tls, is_secure) in [
        ("to-ee.test", true, true),
        ("to-ta.test", true, true),
        ("to-unusable.test", true, true),
        ("to-alias.test", true, true),
        ("to-none.test", false, true),
        ("plain.test", false, false),
        // Without MX, and unsigned: that there is no MX is as true as anything else there.
        ("mx.plain.test", false, false),
    ] {
        submit(&server, domain);
        let delivery = setup.record("Delivery", domain);
        assert_eq!(delivery["tls_cipher"].is_string(), is_under_tls, "{delivery}");
        assert_eq!(delivery["peer_address"]["is_secure"] == true, is_secure, "{delivery}");
    }
    let sent: Vec<Value> = hosts[0].events("tls").into_iter().map(|mut tls| tls["sni"].take()).collect();
    assert_eq!(sent, ["ee.test", "unusable.test", "ee.test"], "the alias goes by the name its records stand below");
    for (domain, why) in [
        ("to-ta-name.test", "DANE: the certificate is not for ta-name.test"),
        ("to-wrong.test", "DANE: the certificate matches none of 1 TLSA records"),
        ("to-unusable-clear.test", "TLS is demanded by DANE (unusable TLSA records of unusable-clear.test)"),
        ("to-usable-clear.test", "TLS is demanded by DANE (TLSA records of usable-clear.test)"),
        ("nowhere.test", "domain nowhere.test does not exist (NXDOMAIN)"),
        ("nowhere.plain.test", "domain nowhere.plain.test does not exist (NXDOMAIN)"),
        ("bogus-mx.test", "cannot resolve the MX of bogus-mx.test: the DNS answer fails DNSSEC validation"),
        ("to-bogus.test", "the DNS answer fails DNSSEC validation"),
    ] {
        submit(&server, domain);
        let text = failure(&setup, domain);
        assert!(text.contains(why), "{domain}: {text}");
    }
    for (result, at_least) in
        [("ok", 5.0), ("unusable", 2.0), ("not_applicable", 1.0), ("insecure_chain", 1.0), ("tempfail", 1.0)]
    {
        let counted = server.metric(&format!("dane_result_count{{result=\"{result}\"}}"));
        assert!(counted >= at_least, "{result}: {counted}");
    }
}

#[test]
fn dane_comes_before_mta_sts() {
    let setup = Names::new();
    let (valid, invalid) =
        (setup.authority.issue(&setup.scratch, &["valid.test"]), Certificate::make(&setup.scratch, "x.test"));
    let policies = setup.authority.issue(&setup.scratch, &["mta-sts.good.test", "mta-sts.bad.test"]);
    let sts = StsServer::start(&policies);
    let (mut zone, tcp) = ("$ORIGIN test.\n".to_owned(), format!("_{}._tcp", setup.port));
    let of_invalid = invalid.tlsa_sha256(&setup.scratch, true);
    // good: TLSA fits and the certificate is worth nothing; bad: the other way round.
    for (domain, host, address) in [("good", "invalid", 11), ("bad", "valid", 12)] {
        sts.serve(&format!("{domain}.test"), "version: STSv1\nmode: enforce\nmx: *.test\nmax_age: 86400\n");
        zone += &format!("{domain} 60 MX 10 {host}\n{host} 60 A 127.0.0.{address}\nmta-sts.{domain} 60 A 127.0.0.1\n");
        zone += &format!("_mta-sts.{domain} 60 TXT \"v=STSv1; id=1;\"\n{tcp}.{host} 60 TLSA 3 1 1 {of_invalid}\n");
    }
    setup.write_zone(zone);
    let hosts = [setup.host_with("127.0.0.11", &invalid, &[]), setup.host_with("127.0.0.12", &valid, &[])];
    let launch = setup.with_sts("names", "OpportunisticInsecure", &sts).env("NAMES_DANE", "1");
    let server = launch.env("NAMES_SECURE", "1").start();
    submit(&server, "good.test");
    assert_eq!(hosts[0].await_events("mail", 1)[0]["tls"], true);
    submit(&server, "bad.test");
    let text = failure(&setup, "bad.test");
    assert!(text.contains("DANE: the certificate matches none of 1 TLSA records"), "{text}");
    assert_eq!((hosts[1].events("mail").len(), sts.requests().len()), (0, 2));
}

#[test]
fn a_list_of_hosts_counts_as_secure_only_when_the_policy_says_so() {
    for (trusts, is_delivered) in [(false, true), (true, false)] {
        let setup = Names::new();
        let own = Certificate::make(&setup.scratch, "mx.test");
        let zone =
            format!("mx.test. 60 A 127.0.0.11\n_{}._tcp.mx.test. 60 TLSA 3 1 1 {}\n", setup.port, "00".repeat(32));
        setup.write_zone(zone);
        let _host = setup.host_with("127.0.0.11", &own, &[]);
        let mut launched = launch(&setup).env("NAMES_ZONE", setup.scratch.join("zone")).env("NAMES_SECURE", "1");
        launched = launched.env("NAMES_MX_LIST", "mx.test");
        if trusts {
            launched = launched.env("NAMES_TRUST_LIST", "1");
        }
        let server = launched.start();
        submit(&server, "any.test");
        match is_delivered {
            true => assert_eq!(setup.record("Delivery", "any.test")["peer_address"]["is_secure"], Value::Null),
            false => assert!(failure(&setup, "any.test").contains("matches none of 1 TLSA records")),
        }
    }
}

/// Changes the data of one record behind its signature.
fn forge(zone: &SignedZone, owner: &str, from: &str, to: &str) {
    let text = std::fs::read_to_string(&zone.file).expect("the signed zone");
    let forged = |line: &str| match line.starts_with(owner) && !line.contains("RRSIG") && !line.contains("NSEC") {
        true => line.replace(from, to),
        false => line.to_owned(),
    };
    let lines: Vec<String> = text.lines().map(forged).collect();
    assert_ne!(lines.join("\n"), text.trim_end(), "a record of {owner} was changed");
    std::fs::write(&zone.file, lines.join("\n") + "\n").expect("the forged zone");
}
