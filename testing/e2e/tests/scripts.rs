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

/// More than the program has threads: those who wait must not hold them.
const ASKERS: u32 = 16;
