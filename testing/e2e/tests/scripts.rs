//! What scripts share across states and connections, and what is counted of them.

use e2e::kumod::{Launch, policy_file};
use e2e::scratch::Scratch;
use e2e::until::{LATER, until};
use e2e::wire::Client;
use std::collections::BTreeSet;
use std::thread;

#[test]
fn a_memoized_answer_is_computed_once_while_others_wait_for_it() {
    let scratch = Scratch::new();
    let server = Launch::policy(policy_file("scripts.lua")).env("SCRIPTS_DIR", scratch.join("scripts")).start();
    let address = server.smtp();
    let ask = move |user: &str| {
        let mut client = Client::connect(address);
        client.expect("EHLO client.test", 250);
        let reply = client.say(&format!("MAIL FROM:<{user}@a.test>"));
        assert_eq!(reply.code, 450, "{reply:?}");
        reply.text()
    };
    let askers: Vec<_> = (0..ASKERS).map(|_| thread::spawn(move || ask("ann"))).collect();
    // That these are served shows that those who wait hold no threads.
    until(LATER, "all askers", || (ask("count") == ASKERS.to_string()).then_some(()));
    assert_eq!(ask("open"), "open");
    let answers: BTreeSet<String> = askers.into_iter().map(|asker| asker.join().expect("an answer")).collect();
    assert_eq!(answers.len(), 1, "one answer for all: {answers:?}");
    let answer = answers.first().expect("an answer");
    assert!(answer.starts_with("ann ") && answer.ends_with(" 1"), "computed once: {answer}");
    assert_eq!(ask("open"), "open");
    assert!(ask("bob").ends_with(" 2"), "another question is another answer");
    let timed = server.metric("user_lua_latency_count{label=\"mail from\"}");
    assert_eq!(timed, f64::from(ASKERS + 1));
    server.stop();
}

#[test]
fn a_policy_file_may_be_a_command() {
    let run = |arguments: &[&str]| {
        let launch = Launch::policy(policy_file("command.lua")).arg("--script");
        arguments.iter().fold(launch, |launch, argument| launch.arg(*argument)).run()
    };
    let finished = run(&["--", "add", "20", "22"]).success();
    assert_eq!(finished.stdout, "add of 2 arguments: 42");
    assert_eq!(run(&["--script-args", "add", "--script-args", "7"]).success().stdout, "add of 1 arguments: 7");
    let failed = run(&["--", "divide"]);
    assert_eq!((failed.status.code(), failed.stdout.as_str()), (Some(1), ""));
    assert!(failed.stderr.contains("main: ") && failed.stderr.contains("cannot divide"), "{}", failed.stderr);
    let without = Launch::policy(policy_file("scripts.lua")).arg("--script").run();
    assert_eq!(without.status.code(), Some(1));
    assert!(without.stderr.contains("no handler"), "{}", without.stderr);
    let stray = Launch::policy(policy_file("command.lua")).arg("--").arg("add").run();
    assert_eq!(stray.status.code(), Some(2), "arguments are for --script: {}", stray.stderr);
}

/// More than the program has threads: those who wait must not hold them.
const ASKERS: u32 = 16;
