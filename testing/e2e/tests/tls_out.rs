//! TLS towards other servers: OpenSSL on their side, by way of Python, in all the states we have to cope with.

use e2e::certificate::Certificate;
use e2e::http;
use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::logs::Logs;
use e2e::scratch::Scratch;
use e2e::tls_server::TlsServer;
use e2e::until::{SOON, until};
use e2e::wire::Client;
use serde_json::{Value, json};
use std::path::Path;

/// Our server, delivering to a server with TLS.
struct Setup {
    scratch: Scratch,
    server: Kumod,
}

#[test]
fn a_client_certificate_is_shown_to_a_server_that_demands_one() {
    let own = Scratch::new();
    let client = Certificate::make(&own, "client.test");
    let peer = TlsServer::start(&["--demand", text(&client.certificate)]);
    let with = [("TLS_CERT", text(&client.certificate)), ("TLS_KEY", text(&client.key))];
    let setup = Setup::new(&peer, "RequiredInsecure", &with);
    setup.submit();
    assert_eq!(peer.await_events("mail", 1)[0]["tls"], true);
    assert_eq!(peer.events("tls")[0]["subject"], "client.test");
    let delivery = &setup.records("Delivery", 1)[0];
    assert_eq!(delivery["tls_protocol_version"], "TLSv1_3", "{delivery}");
    assert_eq!(delivery["tls_cipher"], "TLS13_AES_256_GCM_SHA384", "{delivery}");
    assert_eq!(delivery["tls_peer_subject_name"], serde_json::json!(["CN=tls.test"]), "{delivery}");
    // Without one the same server lets nobody in.
    let setup = Setup::new(&peer, "RequiredInsecure", &[]);
    setup.submit();
    let failure = &setup.records("TransientFailure", 1)[0];
    // With TLS 1.3 the client hears of it only when it waits for its first answer.
    assert!(content(failure).contains("waiting for the reply to EHLO"), "{failure}");
    let refused = &peer.await_events("failed", 1)[0];
    assert!(refused["why"].as_str().is_some_and(|why| why.contains("did not return a certificate")), "{refused}");
    assert_eq!(peer.events("mail").len(), 1);
}

/// A header in UTF-8 asks for SMTPUTF8 (RFC 6531) where its client said so, and goes on as it came where not.
#[test]
fn a_header_in_utf8_is_announced_as_its_client_announced_it() {
    let [able, unable] = [&["--smtputf8"][..], &[]].map(|options| {
        let peer = TlsServer::start(options);
        (Setup::new(&peer, "OpportunisticInsecure", &[]), peer)
    });
    let submit = |setup: &Setup, said: &str, subject: &str| {
        let mut client = Client::connect(setup.server.smtp());
        client.expect("EHLO client.test", 250);
        client.expect(&format!("MAIL FROM:<a@source.test>{said}"), 250);
        client.expect("RCPT TO:<one@target.test>", 250);
        client.expect("DATA", 354);
        client.expect(&format!("Subject: {subject}\r\n\r\nHello.\r\n."), 250);
    };
    let words = [("", "caf\u{e9}"), (" SMTPUTF8", "cafe"), (" SMTPUTF8", "caf\u{e9}")];
    for (number, (said, subject)) in words.into_iter().enumerate() {
        submit(&able.0, said, subject);
        let mail = &able.1.await_events("mail", number + 1)[number];
        let command = mail["from"].as_str().expect("text");
        assert_eq!(command.contains(" SMTPUTF8"), number == 2, "{command}");
        submit(&unable.0, said, subject);
    }
    let bounce = &unable.0.records("Bounce", 1)[0];
    assert!(content(bounce).contains("header is not ASCII and the server does not offer SMTPUTF8"), "{bounce}");
    assert_eq!(unable.1.await_events("mail", 2).len(), 2);
}

/// Of content that was put together here only addresses can be beyond ASCII.
#[test]
fn an_address_beyond_ascii_in_a_header_that_was_made_here_is_announced() {
    let peer = TlsServer::start(&["--smtputf8"]);
    let setup = Setup::new(&peer, "OpportunisticInsecure", &[]);
    let structured = |email: &str| json!({"text_body": "x", "subject": "gr\u{fc}n", "from": {"email": email}});
    let contents =
        [structured("j\u{fc}rgen@source.test"), structured("a@source.test"), json!("Subject: gr\u{fc}n\r\n\r\n")];
    for (number, content) in contents.into_iter().enumerate() {
        let request = json!({"envelope_sender": "a@source.test", "recipients": [{"email": "one@target.test"}], "content": content});
        http::json(setup.server.http(), "POST", "/api/inject/v1", &request);
        let mail = &peer.await_events("mail", number + 1)[number];
        let command = mail["from"].as_str().expect("text");
        assert_eq!(command.contains(" SMTPUTF8"), number == 0, "{command}");
    }
}

#[test]
fn a_certificate_that_is_never_read_holds_no_connection() {
    let own = Scratch::new();
    let (pipe, client) = (own.join("pipe"), Certificate::make(&own, "client.test"));
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe that nobody writes to");
    let peer = TlsServer::start(&[]);
    let options = [("TLS_CERT", text(&pipe)), ("TLS_KEY", text(&client.key)), ("TLS_TIMEOUT", "1s")];
    let setup = Setup::new(&peer, "RequiredInsecure", &options);
    setup.submit();
    for failure in setup.records("TransientFailure", 2) {
        assert!(content(&failure).contains("certificate and key are not read within 1s"), "{failure}");
    }
    // What waits in the system for the pipe keeps the program from nothing.
    setup.server.stop();
}

#[test]
fn a_certificate_that_cannot_be_read_is_named_and_nothing_goes_in_clear() {
    let own = Scratch::new();
    let client = Certificate::make(&own, "client.test");
    let peer = TlsServer::start(&["--demand", text(&client.certificate)]);
    let missing = own.join("missing.pem");
    // Everything that could lead into the clear is on.
    let options = [("TLS_CERT", text(&missing)), ("TLS_KEY", text(&client.key)), ("TLS_RECONNECT", "1")];
    let setup = Setup::new(&peer, "OpportunisticInsecure", &options);
    setup.submit();
    for failure in setup.records("TransientFailure", 2) {
        let expected = format!("tls_certificate: cannot read `{}`: No such file", missing.display());
        assert!(content(&failure).contains(&expected), "{failure}");
    }
    assert!(setup.server.process.stderr().contains("tls_certificate: cannot read"), "the log says it too");
    assert_eq!(peer.events("mail").len(), 0);
    // Once it is there it is used; the fault of ours was not held against the site.
    std::fs::copy(&client.certificate, &missing).expect("copied");
    assert_eq!(peer.await_events("mail", 1)[0]["tls"], true);
}

#[test]
fn only_the_suites_named_are_offered() {
    let peer = TlsServer::start(&[]);
    for (number, (suite, version, openssl)) in [
        ("TLS13_CHACHA20_POLY1305_SHA256", "TLSv1_3", "TLS_CHACHA20_POLY1305_SHA256"),
        ("tls_ecdhe_rsa_with_aes_128_gcm_sha256", "TLSv1_2", "ECDHE-RSA-AES128-GCM-SHA256"),
    ]
    .into_iter()
    .enumerate()
    {
        let setup = Setup::new(&peer, "RequiredInsecure", &[("TLS_SUITES", suite)]);
        setup.submit();
        peer.await_events("mail", number + 1);
        let met = &peer.events("tls")[number];
        assert_eq!((&met["cipher"], &met["offered"]), (&openssl.into(), &serde_json::json!([openssl])), "{met}");
        let delivery = &setup.records("Delivery", 1)[0];
        assert_eq!(delivery["tls_cipher"], suite.to_uppercase(), "{delivery}");
        assert_eq!(delivery["tls_protocol_version"], version, "{delivery}");
    }
}

#[test]
fn sessions_are_resumed_across_connections() {
    let own = Scratch::new();
    let client = Certificate::make(&own, "client.test");
    let certificate = [("TLS_CERT", text(&client.certificate)), ("TLS_KEY", text(&client.key))];
    // With our own options and without: each has its own configuration, and keeps it.
    for options in [&[][..], &certificate, &[("TLS_SUITES", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384")]] {
        let peer = TlsServer::start(&[]);
        let setup = Setup::new(&peer, "RequiredInsecure", options);
        for number in 1..=3 {
            setup.submit();
            peer.await_events("mail", number);
        }
        let reused: Vec<Value> = peer.events("tls").into_iter().map(|mut tls| tls["reused"].take()).collect();
        assert_eq!(reused, [false, true, true], "{options:?}");
    }
}

#[test]
fn broken_tls_is_met_once_and_then_passed_over() {
    for fault in ["handshake", "ehlo"] {
        for (mode, options) in [
            ("Opportunistic", [("TLS_REMEMBER", "1h")]),
            ("Opportunistic", [("TLS_RECONNECT", "1")]),
            ("OpportunisticInsecure", [("TLS_REMEMBER", "1h")]),
        ] {
            // A certificate nobody vouches for fails the verifying mode by itself, whatever else is broken.
            let peer = TlsServer::start(&["--break", fault]);
            let setup = Setup::new(&peer, mode, &options);
            for number in 1..=3 {
                setup.submit();
                assert_eq!(peer.await_events("mail", number)[number - 1]["tls"], false);
            }
            let what = format!("{fault} {mode} {options:?}");
            assert_eq!(peer.events("starttls").len(), 1, "{what}");
            // Once the deliveries are in the log, so is what came before them.
            setup.records("Delivery", 3);
            let failed = setup.log().of_type("TransientFailure").len();
            // Only a mode that neither reconnects nor goes on in clear costs the first message an attempt.
            assert_eq!(failed, usize::from(mode == "Opportunistic" && options[0].0 == "TLS_REMEMBER"), "{what}");
        }
    }
}

#[test]
fn what_is_remembered_ends() {
    let peer = TlsServer::start(&["--break", "handshake"]);
    let setup = Setup::new(&peer, "OpportunisticInsecure", &[("TLS_REMEMBER", "8s")]);
    let mut sent = 0;
    until(SOON, "STARTTLS is tried again", || {
        setup.submit();
        sent += 1;
        peer.await_events("mail", sent);
        (peer.events("starttls").len() > 1).then_some(())
    });
    assert!(sent > 2, "the second message came within eight seconds: it went in clear at once");
}

#[test]
fn required_tls_never_goes_in_clear_and_says_what_is_known() {
    for (fault, mode) in [("handshake", "Required"), ("ehlo", "RequiredInsecure")] {
        let peer = TlsServer::start(&["--break", fault]);
        let setup = Setup::new(&peer, mode, &[("TLS_REMEMBER", "1h"), ("TLS_RECONNECT", "1")]);
        setup.submit();
        let failures = setup.records("TransientFailure", 3);
        let known: Vec<bool> =
            failures.iter().map(|f| content(f).contains("TLS with this site is known to be broken")).collect();
        assert_eq!(known[..3], [false, true, true], "{failures:?}");
        assert!(peer.events("starttls").len() >= 3, "it is tried each time: the site may have been mended");
        assert_eq!(peer.events("mail").len(), 0);
    }
}

impl Setup {
    fn new(peer: &TlsServer, mode: &str, options: &[(&str, &str)]) -> Setup {
        let scratch = Scratch::new();
        let mut launch = Launch::policy(policy_file("tls.lua"))
            .env("TLS_DIR", scratch.join("tls"))
            .env("TLS_TO", peer.address.to_string())
            .env("TLS_MODE", mode);
        for (name, value) in options {
            launch = launch.env(name, *value);
        }
        Setup { server: launch.start(), scratch }
    }

    fn submit(&self) {
        let reply = Client::connect(self.server.smtp()).submit("sender@source.test", "one@sink.test", "under TLS");
        assert_eq!(reply.code, 250, "{reply:?}");
    }

    fn log(&self) -> Logs {
        Logs::new(self.scratch.join("tls/logs"))
    }

    fn records(&self, kind: &str, count: usize) -> Vec<Value> {
        self.log().await_type(kind, count, SOON)
    }
}

fn content(record: &Value) -> String {
    record["response"]["content"].as_str().unwrap_or_default().to_owned()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of ours")
}
