//! Signatures as an independent verifier (dkimpy) sees them after delivery to an independent server (aiosmtpd).

use e2e::certificate::DkimKey;
use e2e::dump::Dump;
use e2e::kumod::{Launch, policy_file};
use e2e::peers;
use e2e::process::run;
use e2e::scratch::Scratch;
use e2e::traffic::Traffic;
use e2e::until::LATER;
use e2e::web_server::WebServer;
use e2e::wire::Client;

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

/// Wherever a key comes from: what is signed with it verifies; without it the mail is not taken.
#[test]
fn keys_from_files_scripts_events_and_vault_sign() {
    let scratch = Scratch::new();
    let (key, record) = DkimKey::Ed25519.make(&scratch);
    let (dump, vault) = (Dump::start(&scratch), WebServer::start(None));
    let relay = Launch::policy(policy_file("dkim_keys.lua"))
        .env("KEYS_DIR", scratch.join("relay"))
        .env("KEYS_TO", dump.address.to_string())
        .env("KEYS_FILE", key)
        .env("VAULT_ADDR", format!("http://{}", vault.http))
        .env("VAULT_TOKEN", "t0ken")
        .start();
    let send = |domain: &str| {
        let mut client = Client::connect(relay.smtp());
        client.begin(&format!("x@{domain}"), "someone@here.test");
        client.say(&format!("From: x@{domain}\r\nTo: someone@here.test\r\nSubject: key\r\n\r\nHello.\r\n.")).code
    };
    let domains = ["file.test", "inline.test", "event.test", "a.test"];
    assert_eq!(domains.map(send), [250; 4]);
    assert_eq!(send("none.test"), 421, "Vault has no such key, and nothing leaves unsigned");
    let files = dump.await_messages(domains.len(), LATER);
    relay.stop();
    let verify = |of_vault: &str| {
        let mut command = peers::script("dkim_verify.py");
        for domain in &domains[..3] {
            command.arg("--key").arg(format!("s1._domainkey.{domain}={record}"));
        }
        command.arg("--key").arg(format!("s1._domainkey.a.test=v=DKIM1; k=ed25519; p={of_vault}"));
        command.args(&files);
        run("dkim_verify.py", command, LATER)
    };
    let finished = verify(KEY_OF_VAULT).success();
    assert_eq!(finished.stdout.lines().filter(|line| line.starts_with("pass ")).count(), 4, "{}", finished.stdout);
    let other = record.rsplit_once("p=").expect("a key").1;
    let finished = verify(other);
    assert_eq!(finished.stdout.lines().filter(|line| line.starts_with("pass ")).count(), 3, "{}", finished.stdout);
}

/// The public half of what `web_server.py` keeps as Vault does (RFC 8463 appendix A.2).
const KEY_OF_VAULT: &str = "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
/// Six shapes and two sizes.
const SHAPES_AND_SIZES: usize = 8;
const GENERATED: usize = 20;
