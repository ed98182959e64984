//! What happens when a host that serves breaks: who gets the message, and who the next.

use e2e::http;
use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::logs::Logs;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::{LATER, SOON, until};
use e2e::wire::Client;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A host that breaks in the middle of each session.
struct Breaker {
    address: SocketAddr,
    /// Connections it had.
    connections: Arc<AtomicUsize>,
}

/// When a session breaks.
#[derive(Clone, Copy)]
enum Break {
    /// At DATA: the connection is closed.
    AtData,
    /// At DATA: 421.
    SaysGoodbye,
    /// At the second MAIL: 421.
    AfterOne,
    /// At the final dot, which is read: the connection is closed.
    AfterDot,
    /// At the first line of content: 552, and the connection is reset under the rest.
    TooBig,
}

impl Breaker {
    fn start(when: Break) -> Breaker {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("bound");
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                count.fetch_add(1, Ordering::SeqCst);
                // A relay that hangs up first ends the session too.
                let _ = serve(stream, when);
            }
        });
        Breaker { address, connections }
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

fn serve(mut stream: TcpStream, when: Break) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    stream.write_all(b"220 first.test\r\n")?;
    let (mut is_content, mut mails) = (false, 0);
    while let Some(line) = lines.next().transpose()? {
        let verb = line.get(..4).unwrap_or(&line).to_ascii_uppercase();
        let reply: &[u8] = match (is_content, verb.as_str(), when) {
            (true, ".", Break::AfterDot) => return Ok(()),
            (true, _, Break::TooBig) => return stream.write_all(b"552 5.3.4 too big for us\r\n"),
            (true, ".", _) => {
                is_content = false;
                b"250 taken\r\n"
            }
            (true, ..) => continue,
            (_, "EHLO", _) => b"250 first.test\r\n",
            (_, "MAIL", Break::AfterOne) if mails > 0 => return stream.write_all(b"421 4.3.2 enough\r\n"),
            (_, "MAIL", _) => {
                mails += 1;
                b"250 ok\r\n"
            }
            (_, "DATA", Break::AtData) => return Ok(()),
            (_, "DATA", Break::SaysGoodbye) => return stream.write_all(b"421 4.3.2 going down\r\n"),
            (_, "DATA", _) => {
                is_content = true;
                b"354 go on\r\n"
            }
            _ => b"250 ok\r\n",
        };
        stream.write_all(reply)?;
    }
    Ok(())
}

struct Setup {
    scratch: Scratch,
    first: Breaker,
    second: Sink,
    relay: Kumod,
}

impl Setup {
    fn new(when: Break, strategy: &str, try_next: bool) -> Setup {
        Setup::with(when, strategy, try_next, |launch, _| launch)
    }

    fn with(when: Break, strategy: &str, try_next: bool, more: impl FnOnce(Launch, &Breaker) -> Launch) -> Setup {
        let scratch = Scratch::new();
        let (first, second) = (Breaker::start(when), Sink::start(&scratch, "second", &[]));
        let launch = Launch::policy(policy_file("hosts.lua"))
            .env("HOSTS_DIR", scratch.join("hosts"))
            .env("HOSTS_FIRST", first.address.to_string())
            .env("HOSTS_SECOND", second.address.to_string())
            .env("HOSTS_STRATEGY", strategy)
            .env("HOSTS_TRY_NEXT", if try_next { "yes" } else { "no" });
        Setup { relay: more(launch, &first).start(), scratch, first, second }
    }

    fn submit(&self, count: usize) {
        self.submit_content(count, "Subject: hosts\r\n\r\nhosts\r\n");
    }

    /// Hands so many messages over at once: one transaction, a message for each recipient.
    fn submit_content(&self, count: usize, content: &str) {
        let mut client = Client::connect(self.relay.smtp());
        client.expect("EHLO client.test", 250);
        client.expect("MAIL FROM:<sender@source.test>", 250);
        for number in 0..count {
            client.expect(&format!("RCPT TO:<{number}@target.test>"), 250);
        }
        client.expect("DATA", 354);
        client.send(format!("{content}.\r\n"));
        assert_eq!(client.reply().code, 250);
    }

    /// Waits until so many records of a type are in the log.
    fn logged(&self, kind: &str, count: usize) -> Vec<serde_json::Value> {
        Logs::new(self.scratch.join("hosts/logs")).await_type(kind, count, LATER)
    }
}

#[test]
fn a_message_goes_on_to_the_next_host_at_once_when_asked_to() {
    for when in [Break::AtData, Break::SaysGoodbye] {
        let setup = Setup::new(when, "ConnectNextHost", true);
        setup.submit(1);
        setup.second.await_arrivals(1, SOON);
        let failures = setup.logged("TransientFailure", 1);
        assert_eq!(failures[0]["peer_address"]["name"], "first.test", "{failures:?}");
        let delivered = setup.logged("Delivery", 1);
        assert_eq!(delivered[0]["peer_address"]["name"], "second.test");
        assert_eq!(delivered[0]["num_attempts"], 0, "all hosts together are one attempt: {delivered:?}");
        setup.relay.await_empty(SOON);
        assert_eq!((setup.first.connections(), setup.second.arrivals().len()), (1, 1));
        setup.relay.stop();
    }
}

#[test]
fn a_refusal_is_heard_that_came_before_the_rest_could_not_be_written() {
    let to_first = |launch: Launch, first: &Breaker| launch.env("HOSTS_SECOND", first.address.to_string());
    let setup = Setup::with(Break::TooBig, "ConnectNextHost", false, to_first);
    let content = format!("Subject: big\r\n\r\n{}", "a line of many\r\n".repeat(100_000));
    setup.submit_content(20, &content);
    for bounce in setup.logged("Bounce", 20) {
        assert_eq!((&bounce["response"]["code"], &bounce["num_attempts"]), (&552.into(), &0.into()), "{bounce}");
    }
    setup.relay.stop();
}

#[test]
fn policy_hears_of_a_message_that_no_host_took() {
    let to_first = |launch: Launch, first: &Breaker| launch.env("HOSTS_SECOND", first.address.to_string());
    let setup = Setup::with(Break::SaysGoodbye, "ConnectNextHost", true, to_first);
    setup.submit(1);
    let file = setup.scratch.join("hosts/requeued");
    let read = || std::fs::read_to_string(&file).ok().filter(|text| text.ends_with('\n'));
    let heard = until(SOON, "what policy hears", read);
    assert!(heard.contains("4.3.2 going down") && heard.lines().count() == 1, "{heard}");
    assert_eq!((setup.logged("TransientFailure", 2).len(), setup.first.connections()), (2, 2));
    setup.relay.stop();
}

#[test]
fn a_server_that_breaks_is_not_called_more_often_than_it_may_be() {
    for strategy in ["ReconnectSameHost", "ConnectNextHost"] {
        let both = |launch: Launch, first: &Breaker| {
            launch.env("HOSTS_SECOND", first.address.to_string()).env("HOSTS_RATE", "2/h")
        };
        let setup = Setup::with(Break::AfterOne, strategy, false, both);
        setup.submit(6);
        until(SOON, "that it waits for its rate", || {
            let states = http::get(setup.relay.http(), "/api/admin/ready-q-states/v1").1;
            states.contains("connection_rate_throttled").then_some(())
        });
        assert_eq!((setup.logged("Delivery", 2).len(), setup.first.connections()), (2, 2), "{strategy}");
        setup.relay.stop();
    }
}

#[test]
fn without_being_asked_to_it_waits_for_its_retry() {
    let setup = Setup::new(Break::AtData, "ConnectNextHost", false);
    setup.submit(1);
    setup.logged("TransientFailure", 1);
    setup.relay.await_metric("scheduled_count_total", 1.0, SOON);
    assert!(setup.second.arrivals().is_empty());
    setup.relay.stop();
}

#[test]
fn a_message_that_may_have_arrived_waits_even_when_asked_to_go_on() {
    let setup = Setup::new(Break::AfterDot, "ConnectNextHost", true);
    setup.submit(1);
    setup.logged("TransientFailure", 1);
    setup.relay.await_metric("scheduled_count_total", 1.0, SOON);
    assert!(setup.second.arrivals().is_empty(), "it would be there twice");
    setup.relay.stop();
}

#[test]
fn the_strategy_says_who_gets_the_next_message() {
    // The first host takes one message a session.
    for (strategy, of_second) in [("ConnectNextHost", true), ("ReconnectSameHost", false), ("TerminateSession", false)]
    {
        let setup = Setup::new(Break::AfterOne, strategy, false);
        setup.submit(12);
        let delivered = setup.logged("Delivery", 6);
        let names = delivered.iter().filter(|record| record["peer_address"]["name"] == "second.test").count();
        assert_eq!(names > 0, of_second, "{strategy}: {names} of {} at the second host", delivered.len());
        setup.relay.stop();
    }
}
