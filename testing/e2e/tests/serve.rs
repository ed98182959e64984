//! `postrider serve`: mail without a policy, for a newcomer's first five minutes.

use e2e::kumod::Launch;
use e2e::process::Process;
use e2e::scratch::Scratch;
use e2e::until::SOON;
use e2e::wire::Client;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

#[test]
fn it_says_where_things_are_and_takes_mail_from_this_machine() {
    let scratch = Scratch::new();
    let state = scratch.join("state");
    let launch = serve(&state);
    let server = launch.start();
    assert!(server.process.stderr().contains(&state.display().to_string()), "{}", server.process.stderr());
    assert!(server.smtp().ip().is_loopback() && server.http().ip().is_loopback());
    assert_eq!(Client::connect(server.smtp()).submit("a@source.test", "one@target.test", "first").code, 250);
    assert_eq!(server.metric("message_count"), 1.0);
    let mode = std::fs::metadata(state.join("spool")).expect("a spool").permissions().mode() & 0o777;
    assert_eq!(mode, 0o700, "mail is nobody else's to read");
    server.stop();
    let server = launch.start();
    // It comes back while the server serves already.
    server.await_metric("message_count", 1.0, SOON);
    server.stop();
}

#[test]
fn it_starts_at_once_and_stays_small() {
    let scratch = Scratch::new();
    let server = serve(&scratch.join("state")).start();
    println!("started in {:?}, {} KiB resident", server.started_in, resident_kib(server.process.pid()));
    assert!(server.started_in < START_MAX, "took {:?} to listen", server.started_in);
    Client::connect(server.smtp()).expect("NOOP", 250);
    let resident = resident_kib(server.process.pid());
    assert!(resident <= RESIDENT_KIB_MAX, "{resident} KiB resident when idle");
    server.stop();
}

#[test]
fn without_root_it_keeps_state_where_xdg_says() {
    // A folder any user may pass: the build's may be root's own.
    let folder = tempfile::tempdir().expect("scratch folder");
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).expect("chmod");
    let home = folder.path().join("home");
    std::fs::create_dir(&home).expect("mkdir");
    let program = folder.path().join("postrider");
    let built = e2e::kumod::program().get_program().to_owned();
    std::fs::hard_link(&built, &program).or_else(|_| std::fs::copy(&built, &program).map(|_| ())).expect("a copy");
    let mut command = Command::new(&program);
    command.env_clear().env("XDG_STATE_HOME", &home).env("POSTRIDER_RESOLVERS", "127.0.0.1:1");
    command.args(["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]).current_dir(folder.path());
    if nix::unistd::geteuid().is_root() {
        let nobody = nix::unistd::User::from_name("nobody").ok().flatten().expect("a user nobody");
        chown(&home, Some(nobody.uid.as_raw()), None).expect("chown");
        command.uid(nobody.uid.as_raw()).gid(nobody.gid.as_raw());
    }
    let server = Process::spawn("postrider serve", command);
    server
        .await_stderr("`initialization complete`", SOON, |line| line.contains("initialization complete").then_some(()));
    assert!(server.stderr().contains(&home.join("postrider").display().to_string()), "{}", server.stderr());
    assert!(home.join("postrider").is_dir());
}

#[test]
fn what_it_settles_by_itself_is_said_with_its_reason() {
    let scratch = Scratch::new();
    let server = serve(&scratch.join("state")).env("KUMO_AVAILABLE_PARALLELISM", "1").start();
    let said = server.process.stderr();
    for words in [
        "1 worker threads: ",
        "a commit waits up to ",
        " ms here",
        "spool files of ",
        " of memory, ",
        " open files: ",
        " connections at once to an HTTP listener: ",
    ] {
        assert!(said.contains(words), "no {words:?} in {said}");
    }
    server.stop();
}

/// Where files are few, listeners leave some to the spool and to deliveries: whoever is let in is served.
#[test]
fn with_few_open_files_some_connections_are_refused_and_no_mail() {
    let scratch = Scratch::new();
    let words = ["prlimit", "--nofile=400:400"];
    let server = serve(&scratch.join("state")).under(words.map(Into::into).into()).start();
    let said = server.process.stderr();
    assert!(
        said.contains("WARN") && said.contains("144 SMTP connections in at most: of 400 open files 256 are kept"),
        "{said}"
    );
    let mut clients: Vec<Client> = (0..144).map(|_| Client::connect(server.smtp())).collect();
    let mut one_too_many = Client::connect_mute(server.smtp());
    let refusal = one_too_many.reply();
    assert_eq!(refusal.code, 421, "{refusal:?}");
    for (number, client) in clients.iter_mut().enumerate().step_by(24) {
        assert_eq!(client.submit("a@source.test", "one@target.test", &format!("{number}")).code, 250);
    }
    assert_eq!(server.metric("message_count"), 6.0);
    server.stop();
}

/// Its own ports, its own state, and a name server that is none: nothing leaves this machine.
fn serve(state: &Path) -> Launch {
    let launch = Launch::verb("serve").arg("--listen").arg("127.0.0.1:0").arg("--http").arg("127.0.0.1:0");
    launch.arg("--state").arg(state).env("POSTRIDER_RESOLVERS", "127.0.0.1:1")
}

fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a running process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
    line.trim().trim_end_matches("kB").trim().parse().expect("a number")
}

/// The target is 0.5 s; a machine busy with other tests gets some air.
const START_MAX: Duration = Duration::from_secs(2);
const RESIDENT_KIB_MAX: u64 = 60 * 1024;
