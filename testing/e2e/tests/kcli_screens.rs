//! `kcli top` on a terminal: it shows what the server says, follows it and its keys, and leaves the terminal as it was.

use e2e::http;
use e2e::kumod::{Kumod, Launch, program};
use e2e::process::{Finished, run};
use e2e::scratch::Scratch;
use e2e::terminal::{Left, Terminal};
use e2e::until::{LATER, SOON};
use e2e::wire::Client;
use nix::sys::signal::Signal;
use serde_json::json;
use std::net::SocketAddr;
use std::process::Command;

/// `kcli WORDS`.
fn kcli(words: &[&str]) -> Command {
    let mut command = program();
    command.arg("kcli").args(words);
    command
}

/// A server whose mail waits an hour for its second attempt: so many messages for each domain.
fn stuck(scratch: &Scratch, mail: &[(&str, usize)]) -> Kumod {
    let nobody = SocketAddr::from(([127, 0, 0, 1], 1));
    let relay = Launch::relay(scratch, nobody).env("RELAY_RETRY", "1h").start();
    mail.iter().for_each(|(domain, count)| submit(&relay, domain, *count));
    let all = mail.iter().map(|(_, count)| count).sum::<usize>();
    relay.await_metric(TRIED, all as f64, LATER);
    relay
}

fn submit(relay: &Kumod, domain: &str, count: usize) {
    for number in 0..count {
        let reply = Client::connect(relay.smtp()).submit("a@source.test", &format!("r{number}@{domain}"), "looked at");
        assert_eq!(reply.code, 250, "{reply:?}");
    }
}

/// `kcli top` on a terminal, which it has taken: what is typed before that would be shown.
fn top(scratch: &Scratch, relay: &Kumod, size: [usize; 2]) -> Terminal {
    let terminal = Terminal::run(scratch, size, &kcli(&["--endpoint", &format!("http://{}", relay.http()), "top"]));
    terminal.await_picture("top", |lines| lines.last()?.starts_with("q quit   f filter").then_some(()));
    terminal
}

/// The words of the line that begins with this one.
fn row<'a>(lines: &'a [String], first: &str) -> Option<Vec<&'a str>> {
    let mut rows = lines.iter().map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.find(|words| words.first() == Some(&first))
}

/// It ended by itself, and the terminal is as it was.
fn assert_restored(left: &Left) {
    assert_eq!(left.status, 0, "{left:?}");
    assert!(left.was_raw && left.is_restored, "{left:?}");
    assert!(!left.picture.is_other && left.picture.has_cursor, "{left:?}");
    assert!(
        left.picture.lines.iter().all(String::is_empty),
        "nothing stays on the screen that was there before: {left:?}"
    );
}

/// Of the server's metrics, as numbers are shown.
fn metric(relay: &Kumod, series: &str) -> String {
    relay.metric(series).to_string()
}

const TRIED: &str = "total_messages_transfail{service=\"smtp_client\"}";
const READY: &str = "unspecified->mx_list:sink.test@smtp_client";

#[test]
fn top_shows_what_the_server_says_and_follows_it() {
    let scratch = Scratch::new();
    let relay = stuck(&scratch, &[("a.test", 3), ("b.test", 2)]);
    let mut terminal = top(&scratch, &relay, [24, 120]);
    let head =
        |lines: &[String]| -> Option<String> { lines[0].split_once("   memory ").map(|(head, _)| head.to_owned()) };
    let told = |relay: &Kumod| {
        let of = |series| metric(relay, series);
        let [all, waiting, queues] = ["message_count", "scheduled_count_total", "scheduled_queue_count"].map(of);
        format!("messages {all}   scheduled {waiting} in {queues} queues")
    };
    let first = terminal.await_picture("the first look", head);
    assert_eq!(first, "messages 5   scheduled 5 in 2 queues");
    assert_eq!(first, told(&relay));
    let lines = terminal.picture().lines;
    assert!(lines[2].starts_with("[ready queues]") && lines[23].starts_with("q quit   f filter"), "{lines:?}");
    let of = |name: &str| metric(&relay, &format!("{name}{{service=\"smtp_client:{READY}\"}}"));
    let counted = ["total_messages_delivered", "total_messages_transfail", "connection_count", "ready_count"];
    let expected = || {
        let named = ["mx_list:sink.test", "unspecified", "smtp_client"].map(str::to_owned);
        named.into_iter().chain(counted.map(of)).collect::<Vec<String>>()
    };
    terminal.await_picture("the ready queue", |lines| (row(lines, "mx_list:sink.test")? == expected()).then_some(()));

    terminal.press("\t");
    let count = |lines: &[String], queue: &str| Some(row(lines, queue)?[1].to_owned());
    let both =
        terminal.await_picture("scheduled queues", |lines| Some([count(lines, "a.test")?, count(lines, "b.test")?]));
    assert_eq!(
        both,
        ["a.test", "b.test"].map(|queue| metric(&relay, &format!("scheduled_count{{queue=\"{queue}\"}}")))
    );
    submit(&relay, "a.test", 4);
    submit(&relay, "c.test", 1);
    relay.await_metric(TRIED, 10.0, LATER);
    terminal.await_picture("what came since", |lines| {
        (head(lines)? == told(&relay) && count(lines, "a.test")? == "7" && count(lines, "c.test")? == "1").then_some(())
    });
    let order = json!({"domain": "b.test", "reason": "they asked us to wait", "duration": "1h"});
    http::json(relay.http(), "POST", "/api/admin/suspend/v1", &order);
    terminal.await_picture("an order", |lines| {
        (row(lines, "b.test")?[2..] == ["suspended:", "they", "asked", "us", "to", "wait"]).then_some(())
    });
    terminal.press("\t");
    terminal.await_picture("providers", |lines| {
        (lines[2].contains("[providers]") && row(lines, "mx_list:sink.test")?[2] == "10").then_some(())
    });
    terminal.press("q");
    let left = terminal.end();
    assert_restored(&left);
    let rates = left.written.split("received ").skip(1).filter_map(|rest| rest.split_once("/s")?.0.parse::<f64>().ok());
    assert!(rates.fold(0.0, f64::max) > 0.0, "mail came while it looked");
    relay.stop();
}

#[test]
fn top_finds_its_way_among_more_than_fits() {
    let scratch = Scratch::new();
    let domains: Vec<String> = (1..=9).map(|number| format!("d{number}.test")).collect();
    let mail: Vec<(&str, usize)> = domains.iter().zip(1..).map(|(domain, count)| (domain.as_str(), count)).collect();
    let relay = stuck(&scratch, &mail);
    let mut terminal = top(&scratch, &relay, [9, 100]);
    let await_rows = |terminal: &Terminal, expected: &[usize]| {
        let expected: Vec<String> = expected.iter().map(|number| format!("d{number}.test")).collect();
        terminal.await_picture(&format!("{expected:?}"), |lines| {
            let names = lines.iter().filter_map(|line| line.split(' ').next());
            (names.filter(|name| name.ends_with(".test")).collect::<Vec<_>>() == expected).then_some(())
        });
    };
    terminal.press("\t");
    await_rows(&terminal, &[9, 8, 7, 6]);
    for (key, rows) in [
        ("\u{1b}[B", [8, 7, 6, 5]),
        ("\u{1b}[6~", [4, 3, 2, 1]),
        ("\u{1b}[A", [5, 4, 3, 2]),
        ("\u{1b}[H", [9, 8, 7, 6]),
        ("\u{1b}[F", [4, 3, 2, 1]),
        ("\u{1b}[5~", [8, 7, 6, 5]),
    ] {
        terminal.press(key);
        await_rows(&terminal, &rows);
    }
    terminal.resize([20, 60]);
    await_rows(&terminal, &[9, 8, 7, 6, 5, 4, 3, 2, 1]);
    terminal.resize([7, 60]);
    await_rows(&terminal, &[9, 8]);
    terminal.press("fD3q\u{7f}");
    await_rows(&terminal, &[3]);
    terminal.await_picture("what is typed", |lines| lines[2].ends_with("filter: D3_").then_some(()));
    terminal.press("\r+");
    terminal.await_picture("another interval", |lines| lines[2].ends_with("filter: D3").then_some(()));
    terminal.resize([7, 110]);
    terminal.await_picture("another interval", |lines| lines[6].ends_with("every 2 s").then_some(()));
    terminal.press("\u{3}");
    assert_restored(&terminal.end());
    relay.stop();
}

#[test]
fn top_says_when_nobody_answers() {
    let scratch = Scratch::new();
    let mut relay = stuck(&scratch, &[("a.test", 1)]);
    let mut terminal = top(&scratch, &relay, [10, 100]);
    terminal.await_picture("the first look", |lines| lines[0].starts_with("messages 1 ").then_some(()));
    relay.process.kill();
    terminal.await_picture("who is gone", |lines| lines[9].starts_with("NO ANSWER: ").then_some(()));
    let lines = terminal.picture().lines;
    assert!(lines[0].starts_with("messages 1 "), "what was known stays: {lines:?}");
    terminal.press("q");
    assert_restored(&terminal.end());
}

#[test]
fn whoever_ends_top_finds_the_terminal_as_it_was() {
    let scratch = Scratch::new();
    let relay = stuck(&scratch, &[("a.test", 1)]);
    let mut terminal = top(&scratch, &relay, [10, 100]);
    terminal.press("+");
    terminal.await_picture("the first look", |lines| lines[0].starts_with("messages 1 ").then_some(()));
    terminal.signal(Signal::SIGTERM);
    let left = terminal.end();
    assert!(left.was_raw && left.is_restored, "{left:?}");
    assert!(!left.picture.is_other && left.picture.has_cursor, "{left:?}");
    relay.stop();
}

/// Whose terminal is gone has nobody to show anything to.
#[test]
fn top_ends_with_its_terminal() {
    let scratch = Scratch::new();
    let relay = stuck(&scratch, &[("a.test", 1)]);
    let status = top(&scratch, &relay, [10, 100]).hang_up();
    assert!(status == -i64::from(Signal::SIGHUP as i32) || status == 0 || status == 1, "{status}");
    relay.stop();
}

#[test]
fn without_a_terminal_there_is_queue_summary() {
    let scratch = Scratch::new();
    let relay = stuck(&scratch, &[("a.test", 3)]);
    let endpoint = format!("http://{}", relay.http());
    let top = |more: &[&str]| run("kcli top", kcli(&[&["--endpoint", &endpoint, "top"], more].concat()), SOON);
    for (given, says) in [
        (&[][..], "error: top needs a terminal on stdout: queue-summary prints the same once"),
        (
            &["--json"],
            "error: top is for people: queue-summary --json and provider-summary --json say the same to machines",
        ),
    ] {
        let Finished { status, stdout, stderr } = top(given);
        assert_eq!((status.code(), stdout.as_str(), stderr.as_str()), (Some(1), "", says));
    }
    let summary = run("kcli", kcli(&["--endpoint", &endpoint, "queue-summary"]), SOON).success().stdout;
    assert!(summary.contains("\na.test") && !summary.contains('\u{1b}'), "{summary}");
    relay.stop();
}
