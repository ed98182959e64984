//! What refusals mean is up to policy: `smtp_client_rewrite_delivery_status`.

use e2e::kumod::{Launch, policy_file};
use e2e::logs::Logs;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::{LATER, SOON};
use e2e::wire::Client;

#[test]
fn policy_decides_what_a_refusal_means() {
    let scratch = Scratch::new();
    let [hard, soft] =
        ["550", "451"].map(|code| Sink::start(&scratch, code, &["--fail-rate", "100", "--fail-code", code]));
    let relay = Launch::policy(policy_file("status.lua"))
        .env("STATUS_DIR", scratch.join("relay"))
        .env("STATUS_HARD", hard.address.to_string())
        .env("STATUS_SOFT", soft.address.to_string())
        .start();
    // Domain, type of the record that follows, its code, and the code that the server had given where that is another.
    let table = [
        ("later.hard.test", "TransientFailure", 450, Some(550)),
        ("never.soft.test", "Bounce", 554, Some(451)),
        ("taken.hard.test", "Delivery", 250, Some(550)),
        ("nothing.hard.test", "Bounce", 550, None),
        ("same.soft.test", "TransientFailure", 451, None),
        ("odd.hard.test", "Bounce", 550, None),
        ("fault.soft.test", "TransientFailure", 451, None),
    ];
    for (domain, ..) in table {
        assert_eq!(Client::connect(relay.smtp()).submit("a@source.test", &format!("b@{domain}"), "x").code, 250);
    }
    let logs = Logs::new(scratch.join("relay/logs"));
    logs.await_records("outcomes", table.len(), LATER, |record| record["type"] != "Reception");
    for (domain, kind, code, before) in table {
        let recipient = format!("b@{domain}");
        let records: Vec<_> = logs.records().into_iter().filter(|r| r["recipient"] == *recipient).collect();
        let [_, outcome] = &records[..] else { panic!("{domain}: {records:?}") };
        assert_eq!((&outcome["type"], &outcome["response"]["code"]), (&kind.into(), &code.into()), "{outcome}");
        let content = outcome["response"]["content"].as_str().expect("text");
        match before {
            Some(before) => {
                let said = format!(" (kumomta: status was rewritten from {before} -> {code})");
                assert!(content.ends_with(&said), "{content}");
            }
            None => assert!(!content.contains("rewritten"), "{content}"),
        }
    }
    for fault in ["a fault of the script", "returned 700: expected a status from 200 to 599"] {
        relay.process.await_stderr(fault, SOON, |line| line.contains(fault).then_some(()));
    }
    let asked = std::fs::read_to_string(scratch.join("relay/asked")).expect("questions");
    let first = asked.lines().find(|line| line.contains("later.hard")).expect("asked");
    assert!(first.starts_with("550 ") && first.ends_with("|later.hard.test|some|nil|later.hard.test"), "{first}");
    relay.stop();
}
