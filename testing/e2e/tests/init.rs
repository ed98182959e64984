//! `postrider init` and `postrider check`: a newcomer's policy is there, sound, and serves.

use e2e::kumod::Launch;
use e2e::logs::Logs;
use e2e::process::Finished;
use e2e::scratch::Scratch;
use e2e::wire::Client;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

#[test]
fn a_policy_made_of_flags_is_sound_and_signs() {
    let scratch = Scratch::new();
    let written = init(&scratch, &["--domains", "from.test"]).success();
    assert!(written.stdout.contains("s1._domainkey.from.test. TXT \"v=DKIM1; k=rsa; p="), "{}", written.stdout);
    let key = scratch.join("policy/dkim/from.test.s1.key");
    let mode = std::fs::metadata(key).expect("the key").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "nobody else reads the key");
    let policy = scratch.join("policy/init.lua");
    let checked = Launch::verb("check").arg(&policy).arg("--user").arg(user()).run().success();
    assert!(checked.stdout.contains("\n  hostname = \"mta1.test\": Name in the greeting"), "{}", checked.stdout);
    assert_eq!(checked.stdout.lines().last(), Some("OK"));
    assert!(!checked.stdout.contains("warning"), "{}", checked.stdout);

    let server = Launch::policy(&policy).start();
    let mut client = Client::connect(server.smtp());
    assert!(client.say("EHLO client.test").lines[0].starts_with("mta1.test "), "it has the name it was given");
    assert_eq!(client.submit("a@from.test", "b@to.invalid", "first").code, 250);
    server.stop();
    let record = &Logs::new(scratch.join("logs")).of_type("Reception")[0];
    assert_eq!(record["recipient"], "b@to.invalid");
    let spool = scratch.join("spool/data");
    let id = record["id"].as_str().expect("an id");
    let kept = Launch::verb("spool").arg("cat").arg("--spool").arg(spool).arg(id).run().success();
    assert!(kept.stdout.contains("DKIM-Signature: ") && kept.stdout.contains("d=from.test; s=s1;"), "{}", kept.stdout);
}

/// As a newcomer does it: four questions, of which two are answered with what is proposed.
#[test]
fn questions_are_asked_and_answered() {
    let scratch = Scratch::new();
    let mut command = e2e::kumod::program();
    command.args(["init", "--user", &user(), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
    for (flag, name) in [("--dir", "policy"), ("--spool", "spool"), ("--logs", "logs")] {
        command.arg(flag).arg(scratch.join(name));
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut asking = command.spawn().expect("the program starts");
    let mut answers = asking.stdin.take().expect("a pipe");
    answers.write_all(b"mta9.test\n\n\nfrom.test\n").expect("it listens");
    drop(answers);
    let told = asking.wait_with_output().expect("it ends");
    let asked = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(told.status.success(), "{asked}");
    assert_eq!(asked.matches('[').count(), 4, "four questions, each with what is proposed: {asked}");
    let policy = std::fs::read_to_string(scratch.join("policy/init.lua")).expect("the policy");
    assert!(policy.contains("mta9.test"), "{policy}");
    assert!(scratch.join("policy/dkim/from.test.s1.key").exists());
    Launch::verb("check").arg(scratch.join("policy/init.lua")).arg("--user").arg(user()).run().success();
}

#[test]
fn nothing_is_overwritten_and_what_is_wrong_is_named() {
    let scratch = Scratch::new();
    init(&scratch, &[]).success();
    let again = init(&scratch, &[]);
    assert_eq!(again.status.code(), Some(2));
    assert!(again.stderr.contains("init.lua is there: nothing was written"), "{}", again.stderr);
    let other = Scratch::new();
    let wrong = init(&other, &["--clients", "10.0.0.1/8"]);
    assert!(!wrong.status.success() && wrong.stderr.contains("--clients: "), "{}", wrong.stderr);
    assert!(!other.join("policy").exists(), "nothing was written");
    let open = Scratch::new();
    init(&open, &["--clients", "0.0.0.0/0"]).success();
    let checked = Launch::verb("check").arg(open.join("policy/init.lua")).arg("--user").arg(user()).run().success();
    assert!(checked.stdout.contains("warning: start_esmtp_listener 127.0.0.1:0: relay_hosts has everybody"));
}

/// `postrider init --yes` with places of this test; what is given later counts.
fn init(scratch: &Scratch, options: &[&str]) -> Finished {
    let path = |name: &str| scratch.join(name).into_os_string();
    let user = user();
    let mut launch = Launch::verb("init").arg("--user").arg(user).arg("--yes").arg("--hostname").arg("mta1.test");
    for (flag, name) in [("--dir", "policy"), ("--spool", "spool"), ("--logs", "logs")] {
        launch = launch.arg(flag).arg(path(name));
    }
    launch = launch.arg("--listen").arg("127.0.0.1:0").arg("--http").arg("127.0.0.1:0");
    options.iter().fold(launch, |launch, option| launch.arg(*option)).run()
}

/// Whoever runs this test: the policy is his.
fn user() -> String {
    nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten().expect("a user with a name").name
}
