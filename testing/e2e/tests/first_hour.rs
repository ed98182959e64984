//! A newcomer's first hour: `postrider try` shows what becomes of mail, `postrider doctor` what keeps it from moving.

use e2e::certificate::Certificate;
use e2e::kumod::Launch;
use e2e::port::free_port;
use e2e::process::{Finished, Process, run};
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::{LATER, until};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

/// Everything it promises, within its minute; and nothing is left.
#[test]
fn a_trial_shows_what_becomes_of_mail_and_leaves_nothing() {
    let scratch = Scratch::new();
    let temp = scratch.folder("t");
    let began = Instant::now();
    let mut command = e2e::kumod::program();
    command.arg("try").env("TMPDIR", &temp);
    let shown = run("postrider try", command, LATER).success().stdout;
    assert!(began.elapsed() < Duration::from_secs(60));
    for (to, step, words) in [
        ("accepts", "received", "on disk here before the sender had his 250"),
        ("accepts", "signed", "the receiver verified the DKIM signature of yours.test"),
        ("accepts", "delivered", "250 2.0.0 thank you"),
        ("busy", "deferred", "451 4.7.1 busy, or greylisted: come back later"),
        ("busy", "delivered", "250 2.0.0 thank you"),
        ("refuses", "bounced", "550 5.1.1 no such mailbox here"),
        ("hangs-up", "deferred", ""),
        ("hangs-up", "delivered", ""),
        ("silent", "deferred", ""),
        ("silent", "expired", ""),
    ] {
        let is_it =
            |line: &str| line.contains(&format!(" you@{to}.test ")) && line.contains(step) && line.contains(words);
        assert!(shown.lines().any(is_it), "{to} {step} {words}: {shown}");
    }
    assert!(shown.contains("Each as it had to be."), "{shown}");
    assert_eq!(std::fs::read_dir(&temp).expect("a folder").count(), 0, "something is left");
}

/// Who is ended by a service manager, or by a terminal that closes, leaves nothing either.
#[test]
fn a_trial_that_is_ended_leaves_nothing() {
    for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT] {
        let scratch = Scratch::new();
        let temp = scratch.folder("t");
        let mut command = e2e::kumod::program();
        command.arg("try").env("TMPDIR", &temp);
        let mut trial = Process::spawn("postrider try", command);
        let server = until(LATER, "its server listens", || {
            let shown = trial.stdout();
            Some(shown.split_once("A server listens on ")?.1.split_once(';')?.0.to_owned())
        });
        trial.signal(signal);
        assert!(!trial.finish(LATER).status.success(), "{signal}: it did not come to its end");
        assert_eq!(std::fs::read_dir(&temp).expect("a folder").count(), 0, "{signal}: something is left");
        assert!(std::net::TcpStream::connect(&server).is_err(), "{signal}: {server} still serves");
    }
}

/// A policy is a program, and may be anybody's: root lets it run as the server's user alone.
#[test]
fn tools_run_a_policy_as_the_servers_user() {
    let folder = tempfile::tempdir().expect("a folder that everybody may enter");
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).expect("ours");
    let policy = folder.path().join("init.lua");
    let seen = folder.path().join("seen");
    let text = format!(
        "local id = io.popen('id -u; id -G'):read('a')\nlocal f = assert(io.open('{}', 'w'))\nf:write(id)\nf:close()\n",
        seen.display()
    );
    std::fs::write(&policy, text).expect("written");
    let (name, id) = match nix::unistd::geteuid().is_root() {
        true => ("nobody".to_owned(), nix::unistd::User::from_name("nobody").ok().flatten().expect("nobody").uid),
        false => (user(), nix::unistd::geteuid()),
    };
    for tool in
        [Launch::verb("check").arg(&policy), Launch::verb("doctor").arg("--offline").arg("--policy").arg(&policy)]
    {
        // What a doctor finds of this machine is not the question here.
        let told = tool.arg("--user").arg(&name).run();
        let ids = std::fs::read_to_string(&seen).unwrap_or_else(|e| panic!("{e}: {} {}", told.stdout, told.stderr));
        let ids: Vec<&str> = ids.split_whitespace().collect();
        assert_eq!(ids[0], id.to_string(), "the user");
        assert!(!id.is_root() && !ids[1..].contains(&"0") || name == user(), "no group of root's: {ids:?}");
        std::fs::remove_file(&seen).expect("it was written");
    }
}

/// A server whose names are as they should be.
#[test]
fn a_doctor_finds_a_sound_server_sound() {
    let scratch = Scratch::new();
    let port = free_port();
    let record = written(&scratch, port);
    let zone = format!(
        "mta1.from.test. 60 A 192.0.2.1\n1.2.0.192.in-addr.arpa. 60 PTR mta1.from.test.\n\
         from.test. 60 MX 10 mta1.from.test.\nfrom.test. 60 TXT \"v=spf1 ip4:192.0.2.1 -all\"\n\
         _dmarc.from.test. 60 TXT \"v=DMARC1; p=none\"\ns1._domainkey.from.test. 60 TXT {record}\n"
    );
    name_by(&scratch, &zone);
    let server = Launch::policy(scratch.join("policy/init.lua")).start();
    let sink = Sink::start(&scratch, "out", &["--hostname", "out.test"]);
    let json = json_of(&doctor(&scratch, &["--source", "192.0.2.1", "--reach", &sink.address.to_string()]));
    for (check, subject, words) in [
        ("policy", "init.lua", "sound"),
        ("port in", &format!("127.0.0.1:{port}"), "answers: 220 mta1.from.test"),
        ("name", "mta1.from.test", "192.0.2.1"),
        ("ptr", "192.0.2.1", "mta1.from.test. leads back, and is what EHLO says"),
        ("spf", "from.test", "pass for 192.0.2.1"),
        ("dkim", "s1._domainkey.from.test", "the published key fits the private one"),
        ("dmarc", "from.test", "p=none"),
        ("mx", "from.test", "mta1.from.test."),
        ("rights", "spool", "may write into it"),
        ("rights", "from.test.s1.key", "may read it"),
    ] {
        let finding = finding(&json, check, subject);
        let what = finding["what"].as_str().unwrap_or_default();
        assert!(finding["verdict"] == "ok" && finding["fix"].is_null() && what.contains(words), "{finding}");
    }
    // Reached, though without TLS, which the sink does not have.
    let out = finding(&json, "port out", &sink.address.to_string());
    assert!(
        out["verdict"] == "warning" && out["what"].as_str().is_some_and(|what| what.contains("offers no TLS")),
        "{out}"
    );
    // What this machine's disk, clock and limits are like, the machine knows.
    for check in ["clock", "limits", "disk"] {
        let known = json["findings"].as_array().is_some_and(|all| all.iter().any(|finding| finding["check"] == check));
        assert!(known, "{check}: {json}");
    }
    server.stop();
}

/// Everything wrong at once: each has its fix, and the exit code says so.
#[test]
fn a_doctor_names_what_is_wrong_and_what_helps() {
    let scratch = Scratch::new();
    let taken = Sink::start(&scratch, "another", &["--hostname", "another.test"]);
    written(&scratch, taken.address.port());
    let zone = "mta1.from.test. 60 A 192.0.2.1\n1.2.0.192.in-addr.arpa. 60 PTR lost.from.test.\n\
                from.test. 60 TXT \"v=spf1 ip4:192.0.2.7 -all\"\n\
                s1._domainkey.from.test. 60 TXT \"v=DKIM1; k=ed25519; p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\"\n";
    name_by(&scratch, zone);
    let path = scratch.join("policy/sources.toml");
    let sources = std::fs::read_to_string(&path).expect("the sources");
    let further =
        "[source.\"here\"]\nsource_address = \"127.0.0.1\"\n[source.\"gone\"]\nsource_address = \"192.0.2.1\"\n";
    std::fs::write(&path, format!("{sources}\n{further}")).expect("written");
    let reach = format!("127.0.0.1:{}", free_port());
    let options = ["--source", "192.0.2.1", "--reach", reach.as_str()];
    let found = doctor(&scratch, &options);
    assert_eq!(found.status.code(), Some(1), "{}", found.stdout);
    let json = json_of(&found);
    for (check, subject, fix) in [
        ("port in", "127.0.0.1", "systemctl disable --now postfix exim4"),
        ("port out", reach.as_str(), "many providers close port 25"),
        ("ptr", "192.0.2.1", "publish lost.from.test. A 192.0.2.1"),
        ("source", "192.0.2.1", "give it to an interface (ip address add)"),
        ("spf", "from.test", "put ip4:192.0.2.1 into the record of from.test"),
        ("dkim", "s1._domainkey.from.test", "publish s1._domainkey.from.test. TXT \"v=DKIM1; k=rsa; p="),
        ("dmarc", "from.test", "publish _dmarc.from.test. TXT \"v=DMARC1; p=none\""),
        ("mx", "from.test", "publish from.test. MX"),
    ] {
        let finding = finding(&json, check, subject);
        let helps = finding["fix"].as_str().unwrap_or_default();
        assert!(finding["verdict"] == "problem" && helps.contains(fix), "{finding}");
    }
    assert!(json["problems"].as_u64().is_some_and(|count| count >= 7), "{json}");
    // For people: the same, a fix below each.
    let text = Launch::verb("doctor").arg("--offline").arg("--policy").arg(scratch.join("policy/init.lua")).run();
    assert!(
        text.stdout.contains("\nproblem  port in   127.0.0.1:")
            && text.stdout.contains("\n                   -> `ss -ltnp`"),
        "{}",
        text.stdout
    );

    scratch.write("policy/init.lua", "this is no Lua");
    let broken = json_of(&doctor(&scratch, &["--offline"]));
    assert_eq!(finding(&broken, "policy", "init.lua")["verdict"], "problem");
}

/// Certificates of listeners: each verdict, and what helps.
#[test]
fn a_doctor_looks_at_certificates() {
    let scratch = Scratch::new();
    written(&scratch, free_port());
    let path = scratch.join("policy/init.lua");
    let policy = std::fs::read_to_string(&path).expect("the policy");
    let own = Certificate::make_for_days(&scratch, "mta1.from.test", 60);
    let keys =
        format!("tls_certificate = [[{}]], tls_private_key = [[{}]],", own.certificate.display(), own.key.display());
    let with =
        policy.replacen("-- tls_certificate = '/path/to/chain.pem', tls_private_key = '/path/to/key.pem',", &keys, 1);
    assert_ne!(with, policy);
    std::fs::write(&path, with).expect("written");
    for (name, days, verdict, words, fix) in [
        ("mta1.from.test", 60, "ok", "the certificate of mta1.from.test has ", None),
        ("*.from.test", 60, "ok", "the certificate of *.from.test has ", None),
        ("mta1.from.test", 2, "warning", "the certificate of mta1.from.test ends in ", Some("renew it")),
        (
            "mta2.from.test",
            60,
            "warning",
            "the certificate is for mta2.from.test, not for mta1.from.test",
            Some("have one made for the name"),
        ),
        ("mta1.from.test", -1, "problem", "the certificate of mta1.from.test has expired", Some("renew it")),
    ] {
        Certificate::make_for_days(&scratch, name, days);
        tls_is(&scratch, verdict, words, fix);
    }
    scratch.write("certificate.pem", "no certificate");
    tls_is(&scratch, "problem", "no certificate: ", Some("renew it"));
    std::fs::remove_file(&own.certificate).expect("it is there");
    tls_is(&scratch, "problem", "certificate.pem: No such file", Some("renew it"));

    std::fs::write(&path, policy).expect("written");
    let json = json_of(&doctor(&scratch, &["--offline"]));
    let of_tls = json["findings"].as_array().expect("findings").iter().find(|finding| finding["check"] == "tls");
    assert_eq!(of_tls, None, "no certificate, nothing to be said of it");
}

/// What a doctor says of the one listener's certificate.
fn tls_is(scratch: &Scratch, verdict: &str, words: &str, fix: Option<&str>) {
    let json = json_of(&doctor(scratch, &["--offline"]));
    let finding = finding(&json, "tls", "127.0.0.1:");
    let (what, helps) = (finding["what"].as_str().unwrap_or_default(), finding["fix"].as_str());
    assert!(finding["verdict"] == verdict && what.contains(words), "expected {verdict} {words}: {finding}");
    assert_eq!(helps.is_some(), fix.is_some(), "{finding}");
    assert!(helps.unwrap_or_default().contains(fix.unwrap_or_default()), "{finding}");
}

/// Makes a policy for a server on that port; the record of its key, in strings as zone files have them.
fn written(scratch: &Scratch, port: u16) -> String {
    let user = user();
    let mut launch = Launch::verb("init").arg("--yes").arg("--user").arg(user);
    for (flag, value) in [("--hostname", "mta1.from.test"), ("--domains", "from.test"), ("--http", "127.0.0.1:0")] {
        launch = launch.arg(flag).arg(value);
    }
    for (flag, name) in [("--dir", "policy"), ("--spool", "spool"), ("--logs", "logs")] {
        launch = launch.arg(flag).arg(scratch.join(name));
    }
    let said = launch.arg("--listen").arg(format!("127.0.0.1:{port}")).run().success().stdout;
    let record = said.lines().find_map(|line| line.split_once("s1._domainkey.from.test. TXT "));
    record.unwrap_or_else(|| panic!("no record: {said}")).1.to_owned()
}

/// Has the policy know these names and no others.
fn name_by(scratch: &Scratch, zone: &str) {
    let path = scratch.join("policy/init.lua");
    let policy = std::fs::read_to_string(&path).expect("the policy");
    let asks = format!("kumo.on('init', function()\n  kumo.dns.configure_test_resolver {{ [[{zone}]] }}\n");
    let named = policy.replacen("kumo.on('init', function()\n", &asks, 1);
    assert_ne!(named, policy);
    std::fs::write(&path, named).expect("written");
}

fn doctor(scratch: &Scratch, options: &[&str]) -> Finished {
    let launch = Launch::verb("doctor").arg("--json").arg("--user").arg(user());
    let launch = launch.arg("--policy").arg(scratch.join("policy/init.lua"));
    options.iter().fold(launch, |launch, option| launch.arg(*option)).run()
}

fn json_of(finished: &Finished) -> Value {
    let context = || panic!("{}\n{}", finished.stdout, finished.stderr);
    serde_json::from_str(&finished.stdout).unwrap_or_else(|_| context())
}

/// The finding of a check about a subject that has these words.
fn finding<'a>(json: &'a Value, check: &str, subject: &str) -> &'a Value {
    let is_it = |finding: &&Value| {
        finding["check"] == check && finding["subject"].as_str().is_some_and(|s| s.contains(subject))
    };
    let found = json["findings"].as_array().and_then(|all| all.iter().find(is_it));
    found.unwrap_or_else(|| panic!("{check} of {subject}: {json}"))
}

fn user() -> String {
    nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten().expect("a user with a name").name
}
