//! swaks, an SMTP test client in Perl: clear, STARTTLS and AUTH as an independent program understands them.

use e2e::certificate::Certificate;
use e2e::kumod::{Kumod, Launch};
use e2e::logs::Logs;
use e2e::peers;
use e2e::process::{Finished, run};
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::SOON;
use e2e::wire::Client;
use std::net::SocketAddr;

/// A front door before a sink.
struct Setup {
    scratch: Scratch,
    sink: Sink,
    front: Kumod,
}

#[test]
fn in_clear() {
    let setup = setup(|_, launch| launch);
    let finished = setup.swaks(&["--from", "a@source.test", "--to", "one@x.test,two@y.test"]).success();
    assert!(finished.stdout.contains("220 front.test"), "{}", finished.stdout);
    let arrivals = setup.sink.await_arrivals(2, SOON);
    let mut recipients: Vec<String> = arrivals.into_iter().flat_map(|a| a.recipients).collect();
    recipients.sort();
    assert_eq!(recipients, ["one@x.test", "two@y.test"]);
    setup.front.stop();
}

#[test]
fn starttls_with_a_certificate_made_up() {
    let setup = setup(|_, launch| launch);
    let finished = setup.swaks(&["--tls", "--from", "a@source.test", "--to", "one@x.test"]).success();
    assert!(finished.stdout.contains("TLS started with cipher TLSv1.3"), "{}", finished.stdout);
    let finished =
        setup.swaks(&["--tls", "--tls-protocol", "tlsv1_2", "--from", "a@source.test", "--to", "two@x.test"]);
    assert!(finished.success().stdout.contains("TLS started with cipher TLSv1.2"));
    setup.sink.await_arrivals(2, SOON);
    let logs = setup.logs();
    setup.front.stop();
    let versions: Vec<String> =
        logs.of_type("Reception").iter().map(|r| r["meta"]["tls_protocol_version"].to_string()).collect();
    assert_eq!(versions, ["\"TLSv1_3\"", "\"TLSv1_2\""]);
}

#[test]
fn starttls_with_the_certificate_configured() {
    let mut configured = None;
    let setup = setup(|scratch, launch| {
        let certificate = Certificate::make(scratch, "front.test");
        let launch = launch.env("FRONT_CERT", &certificate.certificate).env("FRONT_KEY", &certificate.key);
        configured = Some(certificate);
        launch
    });
    let expected = configured.expect("made above").certificate;
    let shown = setup.scratch.join("shown.pem");
    let ca = expected.to_string_lossy().into_owned();
    let shown_text = shown.to_string_lossy().into_owned();
    let options =
        ["--tls", "--tls-verify", "--tls-ca-path", &ca, "--tls-get-peer-cert", &shown_text, "--to", "one@x.test"];
    setup.swaks(&options).success();
    let read = |path| std::fs::read_to_string(path).expect("a certificate").trim().to_owned();
    assert_eq!(read(&shown), read(&expected), "the certificate shown is not the one configured");
    setup.sink.await_arrivals(1, SOON);
    setup.front.stop();
}

#[test]
fn auth_plain_and_login() {
    let setup = setup(|_, launch| launch);
    for mechanism in ["PLAIN", "LOGIN"] {
        let to = format!("{mechanism}@x.test");
        let good = ["--tls", "--auth", mechanism, "--auth-user", "scott", "--auth-password", "tiger", "--to", &to];
        let finished = setup.swaks(&good).success();
        assert!(finished.stdout.contains("<~  235 "), "{mechanism}: {}", finished.stdout);
        let bad = ["--tls", "--auth", mechanism, "--auth-user", "scott", "--auth-password", "lion", "--to", &to];
        let finished = setup.swaks(&bad);
        assert_eq!(finished.status.code(), Some(SWAKS_AUTH_FAILED), "{mechanism}: {}", finished.stdout);
        assert!(finished.stdout.contains("535 5.7.8"), "{mechanism}: {}", finished.stdout);
    }
    setup.sink.await_arrivals(2, SOON);
    let logs = setup.logs();
    setup.front.stop();
    let ids: Vec<String> = logs.of_type("Reception").iter().map(|r| r["meta"]["authn_id"].to_string()).collect();
    assert_eq!(ids, ["\"scott\"", "\"scott\""]);
    let refused = logs.of_type("Rejection");
    assert_eq!(refused.len(), 2, "a Rejection for each wrong password: {refused:?}");
    for record in refused {
        assert_eq!(record["response"]["code"], 535);
        // A log is read by more people than may know passwords.
        assert!(!record.to_string().contains("lion") && !record.to_string().contains("bGlvb"), "{record}");
    }
}

#[test]
fn auth_in_clear_is_neither_offered_nor_taken() {
    let setup = setup(|_, launch| launch);
    let options = ["--auth", "PLAIN", "--auth-user", "scott", "--auth-password", "tiger", "--to", "one@x.test"];
    let finished = setup.swaks(&options);
    assert_eq!(finished.status.code(), Some(SWAKS_AUTH_FAILED), "{}{}", finished.stdout, finished.stderr);
    let mut client = Client::connect(setup.front.smtp());
    let offered = client.expect("EHLO client.test", 250);
    assert!(!offered.lines.iter().any(|line| line.starts_with("AUTH")), "{offered:?}");
    assert!(offered.lines.iter().any(|line| line == "STARTTLS"), "{offered:?}");
    client.expect("AUTH PLAIN AHNjb3R0AHRpZ2Vy", 524);
    client.expect("AUTH LOGIN", 524);
    client.expect("NOOP", 250);
    setup.front.stop();
}

fn setup(configure: impl FnOnce(&Scratch, Launch) -> Launch) -> Setup {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let front = configure(&scratch, Launch::front(&scratch, sink.address)).start();
    Setup { scratch, sink, front }
}

impl Setup {
    fn swaks(&self, options: &[&str]) -> Finished {
        swaks(self.front.smtp(), options)
    }

    fn logs(&self) -> Logs {
        Logs::new(self.scratch.join("front/logs"))
    }
}

fn swaks(server: SocketAddr, options: &[&str]) -> Finished {
    let mut command = peers::command("swaks");
    let port = server.port().to_string();
    command.args(["--server", "127.0.0.1", "--port", &port, "--helo", "client.test"]).args(options);
    run("swaks", command, SOON)
}

/// Exit code of swaks when no login succeeded.
const SWAKS_AUTH_FAILED: i32 = 28;
