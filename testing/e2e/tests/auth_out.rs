//! AUTH towards another server: the mechanism follows what aiosmtpd offers, and a wrong password gets nothing through.

use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::logs::Logs;
use e2e::scratch::Scratch;
use e2e::tls_server::TlsServer;
use e2e::until::SOON;
use e2e::wire::Client;

#[test]
fn the_mechanism_is_one_that_is_offered() {
    for (options, mechanism) in
        [(&[][..], "PLAIN"), (&["--without", "LOGIN"], "PLAIN"), (&["--without", "PLAIN"], "LOGIN")]
    {
        let (scratch, peer) = (Scratch::new(), TlsServer::start_auth("scott", "tiger", options));
        let _server = relay(&scratch, &peer, "tiger");
        peer.await_events("mail", 1);
        let auth = &peer.events("auth")[0];
        assert_eq!((&auth["mechanism"], &auth["valid"]), (&mechanism.into(), &true.into()), "{options:?}");
    }
}

#[test]
fn a_wrong_password_is_a_failure_that_does_not_show_it() {
    for options in [&[][..], &["--without", "PLAIN"]] {
        let (scratch, peer) = (Scratch::new(), TlsServer::start_auth("scott", "tiger", options));
        let server = relay(&scratch, &peer, "lion-of-the-hills");
        let logs = Logs::new(scratch.join("tls/logs"));
        let failures = logs.await_type("TransientFailure", 1, SOON);
        let text = failures[0].to_string();
        assert!(text.contains("535"), "{text}");
        // As text, and as PLAIN and LOGIN would write it.
        for secret in ["lion-of-the-hills", "bGlvbi1vZi10aGUtaGlsbHM", "c2NvdHQAbGlvbi1vZi10aGUtaGlsbHM"] {
            assert!(!text.contains(secret) && !server.process.stderr().contains(secret), "{text}");
        }
        assert_eq!((peer.events("mail").len(), &peer.events("auth")[0]["valid"]), (0, &false.into()));
    }
}

fn relay(scratch: &Scratch, peer: &TlsServer, password: &str) -> Kumod {
    let server = Launch::policy(policy_file("tls.lua"))
        .env("TLS_DIR", scratch.join("tls"))
        .env("TLS_TO", peer.address.to_string())
        .env("TLS_MODE", "RequiredInsecure")
        .env("TLS_USER", "scott")
        .env("TLS_PASSWORD", password)
        .start();
    let reply = Client::connect(server.smtp()).submit("sender@source.test", "one@sink.test", "after AUTH");
    assert_eq!(reply.code, 250, "{reply:?}");
    server
}
