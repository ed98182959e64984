//! Signatures as an independent verifier (dkimpy) sees them after delivery to an independent server (aiosmtpd).

use e2e::certificate::DkimKey;
use e2e::dump::Dump;
use e2e::kumod::Launch;
use e2e::peers;
use e2e::process::run;
use e2e::scratch::Scratch;
use e2e::traffic::Traffic;
use e2e::until::LATER;

#[test]
fn rsa() {
    signed_mail_verifies(DkimKey::Rsa);
}

#[test]
fn rsa_in_pkcs8() {
    signed_mail_verifies(DkimKey::RsaPkcs8);
}

#[test]
fn ed25519() {
    signed_mail_verifies(DkimKey::Ed25519);
}

fn signed_mail_verifies(kind: DkimKey) {
    let scratch = Scratch::new();
    let (key, record) = kind.make(&scratch);
    let dump = Dump::start(&scratch);
    let relay = Launch::relay(&scratch, dump.address).env("RELAY_DKIM_KEY", key).env("RELAY_SELF_CHECK", "1").start();
    // Shapes that make canonical forms hard: no body, dots, 8-bit, long lines, no line end to speak of.
    let mut command = peers::script("smtp_client.py");
    command.args(["127.0.0.1", &relay.smtp().port().to_string(), "send", "--sizes", "1024,102400"]);
    command.args(["--shapes", "plain,nobody,dots,eightbit,longlines,loneterm"]);
    run("smtp_client.py", command, LATER).success();
    Traffic::send(&scratch, "made", relay.smtp(), GENERATED, &["--body-size", "10k", "--concurrency", "4"]);
    let files = dump.await_messages(SHAPES_AND_SIZES + GENERATED, LATER);
    relay.stop();

    let verify = |record: &str, name: &str| {
        let mut command = peers::script("dkim_verify.py");
        command.arg("--key").arg(format!("s1._domainkey.bench.test={record}")).args(&files);
        run(name, command, LATER)
    };
    let finished = verify(&record, "dkim_verify.py").success();
    let passed = finished.stdout.lines().filter(|line| line.starts_with("pass ")).count();
    assert_eq!(passed, SHAPES_AND_SIZES + GENERATED, "{}", finished.stdout);
    // The verifier must be able to say no: with somebody else's key nothing passes.
    let other = Scratch::new();
    let (_, wrong) = kind.make(&other);
    let finished = verify(&wrong, "dkim_verify.py with another key");
    assert!(!finished.status.success() && !finished.stdout.contains("pass "), "{}", finished.stdout);
}

/// Six shapes and two sizes.
const SHAPES_AND_SIZES: usize = 8;
const GENERATED: usize = 20;
