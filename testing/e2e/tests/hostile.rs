//! Clients that mean harm or know no better, octet by octet over a bare socket.

use e2e::dump::Dump;
use e2e::kumod::{Kumod, Launch};
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::SOON;
use e2e::wire::Client;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use std::fs::File;

#[test]
fn no_line_end_but_crlf_ends_a_message() {
    let (scratch, sink, front) = setup();
    for end in
        ["\n.\n", "\n.\r\n", "\r\n.\n", "\r.\r", "\r.\r\n", "\r\n.\r", "\n.\r", "\r.\n", "\r\n.\r\r\n", "\n\n.\n\n"]
    {
        let mut client = Client::connect(front.smtp());
        client.begin("a@source.test", "one@target.test");
        let smuggled =
            "MAIL FROM:<evil@target.test>\r\nRCPT TO:<victim@target.test>\r\nDATA\r\nSubject: evil\r\n\r\nevil";
        client.send(format!("Subject: one\r\n\r\none{end}{smuggled}\r\n.\r\n"));
        let reply = client.reply();
        assert_eq!((reply.code, reply.lines[0].starts_with("5.6.0")), (552, true), "after {end:?}: {reply:?}");
        // One refusal, and the session goes on as if nothing else had been said.
        assert_eq!(client.expect("NOOP", 250).code, 250, "after {end:?}");
        client.expect("QUIT", 221);
    }
    only_the_next_arrives(&front, &sink);
    front.stop();
    drop(scratch);
}

#[test]
fn what_looks_like_an_end_but_is_none_is_content() {
    let (_scratch, sink, front) = setup();
    let ends = [
        "\r\n..\r\n",
        "\r\n. \r\n",
        "\r\n.\t\r\n",
        "\r\n.\0\r\n",
        "\r\n\0.\r\n",
        "\x0b.\x0b",
        "\u{85}.\u{85}",
        "\u{2028}.\u{2028}",
    ];
    for end in ends {
        let mut client = Client::connect(front.smtp());
        client.begin("a@source.test", "one@target.test");
        client.send(format!("Subject: one\r\n\r\none{end}MAIL FROM:<evil@target.test>\r\n.\r\n"));
        assert_eq!(client.reply().code, 250, "after {end:?}");
        client.expect("NOOP", 250);
    }
    sink.await_arrivals(ends.len(), SOON);
    front.await_empty(SOON);
    assert_eq!(sink.arrivals().len(), ends.len());
    front.stop();
}

#[test]
fn chunks_cannot_smuggle_past_the_next_hop() {
    let scratch = Scratch::new();
    let dump = Dump::start(&scratch);
    let front = Launch::front(&scratch, dump.address).start();
    let mut client = Client::connect(front.smtp());
    client.expect("EHLO client.test", 250);
    client.expect("MAIL FROM:<a@source.test>", 250);
    client.expect("RCPT TO:<one@target.test>", 250);
    let content = "Subject: one\r\n\r\none\r\n.\r\nMAIL FROM:<evil@target.test>\r\n.\r\n..\r\n";
    let (first, second) = content.split_at(content.find(".\r\nMAIL").expect("it is there") + 1);
    client.send(format!("BDAT {}\r\n{first}", first.len()));
    assert_eq!(client.reply().code, 250);
    client.send(format!("BDAT {} LAST\r\n{second}", second.len()));
    assert_eq!(client.reply().code, 250);
    let arrived = dump.await_messages(1, SOON);
    front.await_empty(SOON);
    assert_eq!(dump.messages().len(), 1);
    let octets = std::fs::read_to_string(&arrived[0]).expect("the message");
    assert!(octets.ends_with(content), "{octets:?}");
    // A bare line end in a chunk is as bad as in DATA.
    client.expect("MAIL FROM:<a@source.test>", 250);
    client.expect("RCPT TO:<one@target.test>", 250);
    client.send("BDAT 5 LAST\r\na\n.\nb");
    assert_eq!(client.reply().code, 552);
    front.stop();
}

#[test]
fn nobody_else_may_relay() {
    let (_scratch, sink, front) = setup();
    let mut client = Client::connect(front.smtp[1]);
    client.expect("EHLO stranger.test", 250);
    client.expect("MAIL FROM:<postmaster@front.test>", 250);
    for to in ["victim@elsewhere.test", "victim%elsewhere.test@front.test", "\"victim@elsewhere.test\"@front.test"] {
        let reply = client.expect(&format!("RCPT TO:<{to}>"), 550);
        assert_eq!(reply.text(), "5.7.1 relaying not permitted for 127.0.0.1", "{to}");
    }
    // A source route is refused or ignored, but never followed.
    let routed = client.say("RCPT TO:<@friend.test:victim@elsewhere.test>").code;
    assert!((500..560).contains(&routed), "source route: {routed}");
    let refused = client.say("DATA").code;
    assert!([503, 554].contains(&refused), "DATA without recipients: {refused}");
    // This one it is responsible for.
    client.expect("RCPT TO:<one@friend.test>", 250);
    client.expect("DATA", 354);
    assert_eq!(client.say("Subject: one\r\n\r\nHello.\r\n.").code, 250);
    assert_eq!(sink.await_arrivals(1, SOON)[0].recipients, ["one@friend.test"]);
    front.await_empty(SOON);
    assert_eq!(sink.arrivals().len(), 1);
    front.stop();
}

#[test]
fn a_client_that_talks_first_is_cut() {
    let scratch = Scratch::new();
    // Policy waits before the greeting, until somebody holds the other end of a pipe: talking first does not depend on who is faster.
    let pipe = scratch.join("pipe");
    mkfifo(&pipe, Mode::S_IRWXU).expect("a pipe");
    let text = format!(
        "local kumo = require 'kumo'\nkumo.on('init', function()\n\
         kumo.define_spool {{ name = 'data', path = '{0}/data' }}\nkumo.define_spool {{ name = 'meta', path = '{0}/meta' }}\n\
         kumo.start_esmtp_listener {{ listen = '127.0.0.1:0' }}\nend)\n\
         kumo.on('smtp_server_connection_accepted', function()\nkumo.log_warn 'thinking'\n\
         io.open('{1}')\nend)\n",
        scratch.path().display(),
        pipe.display()
    );
    let server = Launch::policy(scratch.write("policy.lua", text)).start();
    let mut client = Client::connect_mute(server.smtp());
    server.process.await_stderr("`thinking`", SOON, |line| line.contains("thinking").then_some(()));
    client.send("EHLO client.test\r\nMAIL FROM:<a@source.test>\r\n");
    let _held = File::options().read(true).write(true).open(&pipe).expect("the pipe");
    let reply = client.reply();
    assert_eq!(reply.code, 554, "{reply:?}");
    assert!(client.is_closed_silently());
    // Waiting is all it takes.
    let mut client = Client::connect(server.smtp());
    client.expect("EHLO client.test", 250);
    server.stop();
}

#[test]
fn plaintext_behind_starttls_is_never_read() {
    let (_scratch, sink, front) = setup();
    for injected in ["RSET\r\n", "MAIL FROM:<evil@target.test>\r\nRCPT TO:<victim@target.test>\r\n", "x"] {
        let mut client = Client::connect(front.smtp());
        client.expect("EHLO client.test", 250);
        client.send(format!("STARTTLS\r\n{injected}"));
        assert_eq!(client.reply().code, 554, "{injected:?}");
        assert!(client.is_closed_silently(), "{injected:?}");
    }
    only_the_next_arrives(&front, &sink);
    front.stop();
}

#[test]
fn a_flood_of_junk_ends_in_421() {
    let (_scratch, sink, front) = setup();
    for junk in ["NOOP", "RSET", "VRFY someone", "XYZZY", "MAIL FROM:nonsense", "EHLO client.test", "\x16\x03\x01"] {
        let mut client = Client::connect(front.smtp());
        // All in one go: a client that never reads must not pile up replies without end either.
        client.send(format!("{junk}\r\n").repeat(JUNK));
        let mut answers = 0;
        loop {
            let reply =
                client.try_reply().unwrap_or_else(|| panic!("{junk:?}: closed without a 421 after {answers} answers"));
            if reply.code == 421 {
                break;
            }
            answers += 1;
            assert!(answers < JUNK, "{junk:?}: {JUNK} answers and no end");
        }
        assert!(client.is_closed_silently(), "{junk:?}");
    }
    only_the_next_arrives(&front, &sink);
    front.stop();
}

#[test]
fn what_goes_round_and_round_is_stopped() {
    let (_scratch, sink, front) = setup();
    for (hops, code) in [(101, 554), (100, 250)] {
        let mut client = Client::connect(front.smtp());
        client.begin("a@from.test", "b@to.test");
        let fields = "received: from a by b;\r\n\tFri, 20 Nov 2026 22:36:29 +0000\r\n".repeat(hops);
        let reply = client.say(&format!("{fields}Subject: round\r\n\r\nReceived: x\r\n."));
        assert_eq!(reply.code, code, "{reply:?}");
        assert_eq!(reply.lines[0].contains("5.4.6 too many hops: 101 Received fields"), code == 554, "{reply:?}");
    }
    assert_eq!(sink.await_arrivals(1, SOON).len(), 1);
    front.stop();
}

/// Each message of a transaction has header fields of its own: a large head for many recipients is not what it weighs on the wire.
#[test]
fn large_header_fields_for_many_recipients_are_refused() {
    let (_scratch, sink, front) = setup();
    let mut client = Client::connect(front.smtp());
    client.expect("EHLO client.test", 250);
    client.expect("MAIL FROM:<a@source.test>", 250);
    for number in 0..400 {
        client.expect(&format!("RCPT TO:<r{number}@target.test>"), 250);
    }
    client.expect("DATA", 354);
    let field = format!("X-Large: {}\r\n", "x".repeat(900));
    client.send(format!("Subject: x\r\n{}\r\nHello.\r\n.\r\n", field.repeat(220)));
    let reply = client.reply();
    assert_eq!((reply.code, reply.text().as_str()), (552, "5.3.4 header fields are too large for so many recipients"));
    only_the_next_arrives(&front, &sink);
    front.stop();
}

#[test]
fn an_endless_line_is_given_up() {
    let (_scratch, sink, front) = setup();
    let mut client = Client::connect(front.smtp());
    for _ in 0..64 {
        client.send(vec![b'a'; 64 * 1024]);
    }
    let reply = client.reply();
    assert!([421, 500].contains(&reply.code), "{reply:?}");
    let mut client = Client::connect(front.smtp());
    client.begin("a@source.test", "one@target.test");
    client.send(format!("Subject: {}\r\n\r\n.\r\n", "x".repeat(2_000)));
    assert_eq!(client.reply().code, 500, "a content line of 2009 octets");
    client.expect("NOOP", 250);
    only_the_next_arrives(&front, &sink);
    front.stop();
}

#[test]
fn a_message_too_big_is_refused_by_announcement_and_by_weight() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let front = Launch::front(&scratch, sink.address).env("FRONT_MAX_SIZE", SIZE_MAX.to_string()).start();
    let mut client = Client::connect(front.smtp());
    let offered = client.expect("EHLO client.test", 250);
    assert!(offered.lines.contains(&format!("SIZE {SIZE_MAX}")), "{offered:?}");
    let announced = client.expect(&format!("MAIL FROM:<a@source.test> SIZE={}", SIZE_MAX + 1), 552);
    assert!(announced.text().starts_with("5.3.4"), "{announced:?}");
    for (size, code) in [(SIZE_MAX, 250), (SIZE_MAX + 1, 552), (50 * SIZE_MAX, 552)] {
        client.begin("a@source.test", &format!("{size}@target.test"));
        client.send(content(size));
        client.send(".\r\n");
        let reply = client.reply();
        assert_eq!(reply.code, code, "{size} octets: {reply:?}");
    }
    client.expect("MAIL FROM:<a@source.test>", 250);
    client.expect("RCPT TO:<chunk@target.test>", 250);
    client.send(format!("BDAT {} LAST\r\n{}", SIZE_MAX + 1, content(SIZE_MAX + 1)));
    assert_eq!(client.reply().code, 552, "as one chunk");
    client.expect("RSET", 250);
    let arrivals = sink.await_arrivals(1, SOON);
    front.await_empty(SOON);
    assert_eq!(sink.arrivals().len(), 1, "{arrivals:?}");
    assert_eq!(arrivals[0].recipients, [format!("{SIZE_MAX}@target.test")]);
    front.stop();
}

fn setup() -> (Scratch, Sink, Kumod) {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let front = Launch::front(&scratch, sink.address).start();
    (scratch, sink, front)
}

/// The server is well, and nothing that was refused comes out of it.
fn only_the_next_arrives(front: &Kumod, sink: &Sink) {
    assert_eq!(Client::connect(front.smtp()).submit("a@source.test", "next@target.test", "next").code, 250);
    let arrivals = sink.await_arrivals(1, SOON);
    front.await_empty(SOON);
    assert_eq!(arrivals[0].recipients, ["next@target.test"]);
    assert_eq!(sink.arrivals().len(), 1, "something refused was delivered: {:?}", sink.arrivals());
}

/// A message of exactly so many octets, without lines that begin with a dot.
fn content(size: usize) -> String {
    let mut text = String::from("Subject: weight\r\n\r\n");
    while text.len() + 80 + 3 <= size {
        text.push_str(&"x".repeat(78));
        text.push_str("\r\n");
    }
    text.push_str(&"y".repeat(size - text.len() - 2));
    text.push_str("\r\n");
    text
}

const SIZE_MAX: usize = 20_000;
const JUNK: usize = 2_000;
