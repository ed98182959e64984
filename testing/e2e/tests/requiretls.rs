//! REQUIRETLS and `TLS-Required: No` (RFC 8689): from relay to relay under TLS, towards servers that cannot, over restarts,
//! and against MTA-STS policies that are enforced. Real TLS servers, policies from a real HTTPS server.

use e2e::kumod::{Kumod, Launch};
use e2e::logs::Logs;
use e2e::names::{Names, submit};
use e2e::peers;
use e2e::port::free_port;
use e2e::process::run;
use e2e::sts_server::StsServer;
use e2e::tls_server::TlsServer;
use e2e::until::LATER;
use e2e::wire::Client;

/// `strict.test` and `nobody.test` have a policy, `free.test` has none. `mx.test` is 127.0.0.1, `evil.test` 127.0.0.2.
const ZONE: &str = "$ORIGIN test.\nfree 60 MX 10 mx\nmx 60 A 127.0.0.1\nevil 60 A 127.0.0.2\n\
    strict 60 MX 5 evil\nstrict 60 MX 10 mx\nmta-sts.strict 60 A 127.0.0.1\n_mta-sts.strict 60 TXT \"v=STSv1; id=1;\"\n\
    nobody 60 MX 10 mx\nmta-sts.nobody 60 A 127.0.0.1\n_mta-sts.nobody 60 TXT \"v=STSv1; id=1;\"\n";

struct Setup {
    names: Names,
    sts: StsServer,
}

impl Setup {
    fn new(mx: &str) -> Setup {
        let names = Names::new();
        let hosts = ["mta-sts.strict.test", "mta-sts.nobody.test"];
        let sts = StsServer::start(&names.authority.issue(&names.scratch, &hosts));
        let policy = |mx: &str| format!("version: STSv1\r\nmode: enforce\r\nmx: {mx}\r\nmax_age: 86400\r\n");
        sts.serve("strict.test", &policy(mx));
        sts.serve("nobody.test", &policy("other.test"));
        names.write_zone(ZONE);
        Setup { names, sts }
    }

    fn launch(&self, name: &str, mode: &str) -> Launch {
        self.names.with_sts(name, mode, &self.sts).env("NAMES_REPORTS", "yes")
    }

    fn start(&self, mode: &str) -> Kumod {
        self.launch("names", mode).start()
    }

    fn assert_bounced(&self, domain: &str, status: [u16; 3], text: &str) {
        let bounce = self.names.record("Bounce", domain);
        let enhanced = &bounce["response"]["enhanced_code"];
        let found = ["class", "subject", "detail"].map(|field| enhanced[field].as_u64().unwrap_or_default() as u16);
        assert_eq!((bounce["response"]["code"].as_u64(), found), (Some(550), status), "{bounce}");
        assert!(bounce["response"]["content"].as_str().is_some_and(|content| content.contains(text)), "{bounce}");
    }
}

#[test]
fn from_relay_to_relay_the_demand_goes_along() {
    let setup = Setup::new("mx.test");
    let behind = free_port();
    let certificate = setup.names.authority.issue(&setup.names.scratch, &["mx.test"]);
    let listen = format!("127.0.0.1:{behind}");
    let last = TlsServer::start_with(&certificate, &["--listen", &listen, "--requiretls"]);
    let certificate = setup.names.authority.issue(&setup.names.scratch, &["mx.test"]);
    let _second = setup
        .launch("second", "Disabled")
        .env("NAMES_PORT", behind.to_string())
        .env("NAMES_LISTEN", format!("127.0.0.1:{}", setup.names.port))
        .env("NAMES_CERT", &certificate.certificate)
        .env("NAMES_KEY", &certificate.key)
        .start();
    let first = setup.start("OpportunisticInsecure");
    submit_requiring(&first, "strict.test", &["REQUIRETLS"], &[]);
    let mail = &last.await_events("mail", 1)[0];
    assert_eq!(mail["tls"], true, "{mail}");
    assert!(mail["from"].as_str().is_some_and(|from| from.ends_with(" REQUIRETLS")), "{mail}");
    let delivery = setup.names.record("Delivery", "strict.test");
    assert_eq!(delivery["tls_protocol_version"], "TLSv1_3", "{delivery}");
    // The same way without it: nothing is added.
    submit_requiring(&first, "strict.test", &[], &[]);
    let mail = &last.await_events("mail", 2)[1];
    assert!(mail["from"].as_str().is_some_and(|from| !from.contains("REQUIRETLS")), "{mail}");
}

#[test]
fn a_restart_forgets_no_demand() {
    let setup = Setup::new("mx.test");
    let server = setup.start("OpportunisticInsecure");
    submit_requiring(&server, "strict.test", &["REQUIRETLS"], &[]);
    // Nobody listens: that may be another at the next attempt.
    setup.names.record("TransientFailure", "strict.test");
    server.stop();
    let host = setup.names.host("127.0.0.1", "mx.test", &["--requiretls"]);
    let _server = setup.start("OpportunisticInsecure");
    let mail = &host.await_events("mail", 1)[0];
    assert!(mail["from"].as_str().is_some_and(|from| from.ends_with(" REQUIRETLS")), "{mail}");
}

#[test]
fn a_server_that_cannot_gets_other_mail_and_the_next_one_is_tried() {
    let setup = Setup::new("*.test");
    let evil = setup.names.host("127.0.0.2", "evil.test", &[]);
    let server = setup.start("OpportunisticInsecure");
    {
        let mx = setup.names.host("127.0.0.1", "mx.test", &["--requiretls"]);
        submit_requiring(&server, "strict.test", &["REQUIRETLS"], &[]);
        let mail = &mx.await_events("mail", 1)[0];
        assert!(mail["from"].as_str().is_some_and(|from| from.ends_with(" REQUIRETLS")), "{mail}");
        submit_requiring(&server, "strict.test", &[], &[]);
        assert_eq!(evil.await_events("mail", 1)[0]["tls"], true);
    }
    let mx = setup.names.host("127.0.0.1", "mx.test", &[]);
    let own = "X-Own: here";
    submit_requiring(&server, "strict.test", &["REQUIRETLS", "RET=FULL"], &[own]);
    setup.assert_bounced("strict.test", [5, 7, 30], "the server does not offer REQUIRETLS");
    // The report goes without, as no report may be lost, and has no more than the header (RFC 8689 section 5).
    let report = &mx.await_events("mail", 1)[0];
    assert_eq!(report["from"], "MAIL FROM:<>", "{report}");
    let content = report["content"].as_str().unwrap_or_default();
    assert!(content.contains("Status: 5.7.30") && content.contains(own), "{content}");
    assert!(!content.contains("Hello."), "{content}");
}

/// What one message demands and a server cannot is no reason to send others' mail in clear.
#[test]
fn a_demand_that_fails_teaches_nothing_about_the_site() {
    let setup = Setup::new("mx.test");
    let host = setup.names.host("127.0.0.1", "mx.test", &[]);
    let launch = setup.launch("names", "OpportunisticInsecure");
    let server = launch.env("NAMES_MX_LIST", "mx.test").env("NAMES_REMEMBER", "3 days").start();
    submit_requiring(&server, "free.test", &["REQUIRETLS"], &[]);
    setup.assert_bounced("free.test", [5, 7, 30], "the server does not offer REQUIRETLS");
    submit(&server, "free.test");
    // The report of the failure is one of them.
    let mail = host.await_events("mail", 2);
    assert!(mail.iter().all(|mail| mail["tls"] == true), "{mail:?}");
}

#[test]
fn without_tls_or_a_known_name_nothing_is_sent() {
    let setup = Setup::new("mx.test");
    let host = setup.names.host("127.0.0.1", "mx.test", &["--break", "offer"]);
    let server = setup.start("OpportunisticInsecure");
    submit_requiring(&server, "strict.test", &["REQUIRETLS"], &["TLS-Required: No"]);
    setup.assert_bounced("strict.test", [5, 7, 10], "TLS is demanded by");
    submit_requiring(&server, "free.test", &["REQUIRETLS"], &[]);
    setup.assert_bounced("free.test", [5, 7, 30], "vouches for the MX hosts of free.test");
    assert_eq!(host.events("mail").iter().filter(|mail| mail["from"] != "MAIL FROM:<>").count(), 0);
    let refused = Client::connect(server.smtp()).say("MAIL FROM:<a@b.test> REQUIRETLS");
    assert_eq!(refused.code, 530, "{refused:?}");
}

#[test]
fn tls_required_no_goes_where_a_policy_forbids_and_not_where_the_operator_does() {
    let setup = Setup::new("mx.test");
    let host = setup.names.host("127.0.0.1", "mx.test", &["--break", "offer"]);
    let server = setup.start("Opportunistic");
    for domain in ["strict.test", "nobody.test"] {
        submit_waiving(&server, domain);
        let delivery = setup.names.record("Delivery", domain);
        assert!(delivery["tls_cipher"].is_null(), "{delivery}");
    }
    assert_eq!(host.await_events("mail", 2)[0]["tls"], false);
    // Mail that says nothing is kept back as ever.
    submit(&server, "strict.test");
    let failure = setup.names.record("TransientFailure", "strict.test");
    assert!(failure["response"]["content"].as_str().is_some_and(|text| text.contains("MTA-STS")), "{failure}");
    server.stop();
    let server = setup.launch("strict-operator", "Required").start();
    submit_waiving(&server, "free.test");
    Logs::new(setup.names.scratch.join("strict-operator/logs")).await_type("TransientFailure", 1, LATER);
    assert_eq!(host.events("mail").len(), 2);
}

#[test]
fn tls_required_no_takes_any_certificate() {
    let setup = Setup::new("mx.test");
    let host = setup.names.host("127.0.0.1", "other.test", &[]);
    let server = setup.start("Opportunistic");
    submit_waiving(&server, "strict.test");
    assert_eq!(host.await_events("mail", 1)[0]["tls"], true);
}

fn submit_waiving(server: &Kumod, domain: &str) {
    let subject = "rather at all\r\nTLS-Required: No";
    let reply = Client::connect(server.smtp()).submit("sender@free.test", &format!("one@{domain}"), subject);
    assert_eq!(reply.code, 250, "{domain}: {reply:?}");
}

/// By smtplib, under TLS.
fn submit_requiring(server: &Kumod, domain: &str, options: &[&str], headers: &[&str]) {
    let mut command = peers::script("smtp_client.py");
    command.args(["127.0.0.1", &server.smtp().port().to_string(), "submit", "--from", "sender@free.test"]);
    command.args(["--to", &format!("one@{domain}")]);
    options.iter().for_each(|option| _ = command.args(["--mail-option", option]));
    headers.iter().for_each(|header| _ = command.args(["--header", header]));
    run("smtp_client.py", command, LATER).success();
}
