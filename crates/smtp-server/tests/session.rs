//! What transcripts cannot show: times around the banner and questions, the seam's bugs, bounds
//! on memory, and random input.

mod support;

use clock::{Duration, Instant};
use message::MessageId;
use proptest::prelude::*;
use smtp_server::{Answer, Disconnect, Interest, Question, Session, Settings, Step, TlsInfo};
use smtp_wire::Reply;
use smtp_wire::body::Lines;
use smtp_wire::data::InvalidLineEndings;
use spool::Receipt;
use spool::Volatile;
use std::sync::Arc;
use support::script::Script;
use support::{Pieces, run};

const START: Instant = Instant::from_micros(1);
const NONE: Interest =
    Interest { connection_accepted: false, ehlo: false, auth: true, mail_from: false, rcpt_to: false };

fn session(interest: Interest) -> Session {
    let settings = Settings { hostname: "mx".into(), interest, ..Settings::default() };
    let address = "127.0.0.1:25".parse().expect("address");
    Session::new(START, address, address, Arc::new(settings))
}

/// A session whose banner is out.
fn greeted() -> Session {
    let mut session = session(NONE);
    assert!(matches!(session.next(START), Step::NeedInput));
    session.output().clear();
    session
}

fn said(session: &mut Session) -> String {
    String::from_utf8(std::mem::take(session.output())).expect("text")
}

fn receipt() -> Receipt {
    Receipt::Volatile(Volatile::by_operator_choice(MessageId::from_bytes([7; 16])))
}

/// What was said, reply by reply, with the commands it answers.
fn apart(session: &mut Session) -> Vec<(String, Option<String>)> {
    let (marks, text) = (session.take_said(), said(session));
    let mut start = 0;
    let parts = marks.into_iter().map(|mark| {
        let reply = text[start..mark.end].to_owned();
        start = mark.end;
        (reply, mark.command)
    });
    let parts = parts.collect();
    assert_eq!(start, text.len(), "something was said between replies");
    parts
}

#[test]
fn replies_can_be_told_apart() {
    let settings = Settings { hostname: "mx".into(), interest: NONE, replies_apart: true, ..Settings::default() };
    let address = "127.0.0.1:25".parse().expect("address");
    let mut session = Session::new(START, address, address, Arc::new(settings));
    assert_eq!(apart(&mut session), [("220 mx KumoMTA\r\n".to_owned(), None)]);
    session.feed(START, b"EHLO c\r\nMAIL FROM:<a@b>\r\nXYZZY\r\nAUTH PLAIN secret\r\nDATA\r\n");
    let commands: Vec<_> = apart(&mut session)
        .into_iter()
        .map(|(reply, command)| (reply[..4].to_owned(), reply.lines().count(), command.unwrap_or_default()))
        .collect();
    let of = |code: &str, lines, command: &str| (code.to_owned(), lines, command.to_owned());
    let auth = of("524 ", 1, "AUTH PLAIN");
    let expected = [
        of("250-", 9, "EHLO c"),
        of("250 ", 1, "MAIL FROM:<a@b>"),
        of("502 ", 1, "XYZZY"),
        auth,
        of("503 ", 1, "DATA"),
    ];
    assert_eq!(commands, expected);
    session.expire(START + Duration::from_secs(3600));
    assert_eq!(apart(&mut session), [("421 4.3.2 mx idle too long\r\n".to_owned(), None)]);
}

#[test]
fn talk_before_the_banner_is_refused() {
    let mut early = session(Interest { connection_accepted: true, ..NONE });
    assert!(matches!(early.next(START), Step::Ask(Question::ConnectionAccepted)));
    early.early_talk(START);
    early.answer(START, Answer::Continue);
    assert!(matches!(early.next(START), Step::Close));
    assert_eq!(said(&mut early), "554 5.5.0 SMTP protocol synchronization error\r\n");
    assert_eq!(early.take_rejections().len(), 1);

    let mut unwritten = session(NONE);
    unwritten.feed(START, b"EHLO a\r\n");
    assert!(matches!(unwritten.next(START), Step::Close));
    assert_eq!(said(&mut unwritten), "554 5.5.0 SMTP protocol synchronization error\r\n");

    let mut late = greeted();
    late.early_talk(START);
    assert_eq!(late.feed(START, b"NOOP\r\n"), 6);
    late.early_talk(START);
    assert_eq!(said(&mut late), "250 the goggles do nothing\r\n");
}

#[test]
fn early_talk_may_be_allowed() {
    let settings = Settings { refuse_early_talk: false, interest: NONE, ..Settings::default() };
    let address = "127.0.0.1:25".parse().expect("address");
    let mut session = Session::new(START, address, address, Arc::new(settings));
    assert_eq!(session.feed(START, b"NOOP\r\n"), 6);
    assert_eq!(said(&mut session), "220 localhost KumoMTA\r\n250 the goggles do nothing\r\n");
}

#[test]
fn shedding_gives_memory_back_but_never_a_message_handed_over() {
    let mut session = greeted();
    session.feed(START, b"MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nDATA\r\nabc\r\n");
    let (octets, memory) = session.content_held();
    assert!(octets == 5 && memory >= 5, "{octets} octets in {memory}");
    session.feed(START, b".\r\n");
    assert!(matches!(session.next(START), Step::Ask(Question::Data(_))));
    assert!(!session.shed(), "what became of the message only policy and spool know");
    session.answer(START, Answer::Accepted(vec![receipt()]));
    assert!(!session.shed(), "nothing is being received");
    session.feed(START, b"MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nDATA\r\nabc\r\n");
    said(&mut session);
    assert!(session.shed());
    assert_eq!(session.content_held(), (0, 0));
    assert_eq!(said(&mut session), "421 4.3.2 mx load shedding. Try later\r\n");
    assert!(matches!(session.next(START), Step::Close));
    assert!(!session.shed(), "it is over already");
    assert_eq!(session.take_rejections(), []);
}

/// Recipients are memory, too: thousands of sessions with a thousand each are gigabytes.
#[test]
fn shedding_ends_who_holds_recipients() {
    let mut session = greeted();
    session.feed(START, b"MAIL FROM:<a@b>\r\n");
    assert!(!session.is_receiving() && !session.shed(), "one address is nothing");
    session.feed(START, b"RCPT TO:<c@d>\r\n");
    said(&mut session);
    assert!(session.is_receiving() && session.shed());
    assert_eq!(said(&mut session), "421 4.3.2 mx load shedding. Try later\r\n");
}

#[test]
fn shedding_waits_for_the_answer_to_a_question() {
    let mut session = session(Interest { ehlo: true, ..NONE });
    assert!(matches!(session.next(START), Step::NeedInput));
    session.output().clear();
    session.feed(START, b"MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nBDAT 3\r\nx\r\nEHLO again\r\n");
    assert!(matches!(session.next(START), Step::Ask(Question::Ehlo { .. })));
    assert!(session.content_held().1 > 0 && !session.shed());
    session.answer(START, Answer::Reject { reply: Reply::new(450, "4.7.1 no"), disconnect: Disconnect::If421 });
    assert!(session.shed());
}

#[test]
fn a_message_handed_over_gets_its_true_reply_before_a_shutdown() {
    let mut session = greeted();
    let input = b"MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nBDAT 3 LAST\r\nx\r\nNOOP\r\n";
    let used = session.feed(START, input);
    assert_eq!(used, input.len() - 6, "nothing is read behind a question");
    assert!(matches!(session.next(START), Step::Ask(Question::Data(_))));
    assert_eq!(session.deadline(), Instant::NEVER);
    session.expire(START + Duration::from_secs(86_400));
    session.shutdown(START);
    assert_eq!(session.feed(START, b"NOOP\r\n"), 0);
    session.answer(START, Answer::Accepted(vec![receipt()]));
    assert!(matches!(session.next(START), Step::Close));
    let text = said(&mut session);
    let last: Vec<&str> = text.lines().rev().take(2).collect();
    assert_eq!(last, ["421 4.3.2 mx shutting down", "250 OK ids=07070707070707070707070707070707"]);
}

#[test]
fn the_processing_deadline_counts_from_the_end_of_the_content() {
    let mut session = greeted();
    session.feed(START, b"MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nDATA\r\n");
    let later = START + Duration::from_secs(30);
    session.feed(later, b"x\r\n.\r\n");
    let Step::Ask(Question::Data(transaction)) = session.next(later) else { panic!("no message") };
    assert_eq!(transaction.processing_deadline, later + Duration::from_secs(300));
}

#[test]
fn a_transaction_tells_when_it_began_and_when_its_content_came() {
    let at = |secs| START + Duration::from_secs(secs);
    for (first, last) in [("DATA\r\n", "x\r\n.\r\n"), ("BDAT 3\r\nx\r\n", "BDAT 3 LAST\r\ny\r\n")] {
        let mut session = greeted();
        session.feed(at(1), b"MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\n");
        session.feed(at(3), first.as_bytes());
        session.feed(at(7), last.as_bytes());
        let Step::Ask(Question::Data(transaction)) = session.next(at(7)) else { panic!("no message after {first}") };
        let times = [transaction.begun_at, transaction.content_at, transaction.received_at];
        assert_eq!(times, [1, 3, 7].map(at), "{first}");
    }
}

#[test]
fn what_is_known_of_content_is_true() {
    let lines = |policy, command: &str, content: &[u8]| {
        let settings = Settings { invalid_line_endings: policy, interest: NONE, ..Settings::default() };
        let address = "127.0.0.1:25".parse().expect("address");
        let mut session = Session::new(START, address, address, Arc::new(settings));
        assert!(matches!(session.next(START), Step::NeedInput));
        session.output().clear();
        let start = format!("MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\n{command}\r\n");
        session.feed(START, &[start.as_bytes(), content].concat());
        match session.next(START) {
            Step::Ask(Question::Data(transaction)) => {
                let has_8_bits = transaction.content.iter().any(|octet| *octet > 127);
                assert_eq!(transaction.is_ascii, !has_8_bits);
                transaction.lines
            }
            step => panic!("{step:?}: {}", said(&mut session)),
        }
    };
    let (deny, fix, allow) = (InvalidLineEndings::Deny, InvalidLineEndings::Fix, InvalidLineEndings::Allow);
    for policy in [deny, fix] {
        assert_eq!(lines(policy, "DATA", b"A: b.\r\n\r\n c\x7f\r\n.\r\n"), Lines::Plain);
        let Lines::Dotted(Some(dots)) = lines(policy, "DATA", b"A: b\r\n\r\n..c\r\n.\r\n") else { panic!("dotted") };
        assert_eq!((dots.count(), dots.place(0)), (1, Some(8)));
        assert_eq!(lines(policy, "DATA", b"A: b\r\n\r\nc\x80\r\n.\r\n"), Lines::Plain, "8 bits");
        assert_eq!(
            lines(policy, "BDAT 11 LAST", b"A: b\r\n\r\nc\x80."),
            Lines::Plain,
            "chunks, no dot at the start of a line"
        );
        let Lines::Dotted(Some(dots)) = lines(policy, "BDAT 5 LAST", b".c\r\n.") else { panic!("chunks") };
        assert_eq!((dots.count(), dots.place(0), dots.place(1)), (2, Some(0), Some(4)));
    }
    assert_eq!(lines(fix, "DATA", b"A: b\n.c\r\n.\r\n"), Lines::Unknown, "repaired");
    assert_eq!(lines(allow, "DATA", b"A: b\n.c\r\n.\r\n"), Lines::Unknown, "nobody looked");
    assert_eq!(lines(fix, "BDAT 3 LAST", b".c\n"), Lines::Unknown, "repaired chunks");
    assert_eq!(lines(allow, "BDAT 4 LAST", b".c\r\n"), Lines::Unknown, "nobody looked at chunks");
}

#[test]
fn a_failing_handshake_and_a_stop_in_it_say_nothing_in_clear() {
    let mut session = greeted();
    session.feed(START, b"STARTTLS\r\n");
    assert!(matches!(session.next(START), Step::StartTls));
    assert_eq!(said(&mut session), "220 Ready to Start TLS\r\n");
    assert_eq!(session.feed(START, b"NOOP\r\n"), 0);
    session.shutdown(START);
    assert!(matches!(session.next(START), Step::StartTls));
    session.tls_started(START, TlsInfo::default());
    assert_eq!(said(&mut session), "421 4.3.2 mx shutting down\r\n");

    let mut silent = greeted();
    silent.feed(START, b"STARTTLS\r\n");
    silent.output().clear();
    silent.expire(silent.deadline());
    assert!(matches!(silent.next(START), Step::Close));
    assert_eq!(said(&mut silent), "");
}

#[test]
fn a_stop_while_greeting_is_the_greeting() {
    let mut session = session(Interest { connection_accepted: true, ..NONE });
    assert!(matches!(session.next(START), Step::Ask(_)));
    session.shutdown(START);
    session.answer(START, Answer::Continue);
    assert_eq!(said(&mut session), "421 4.3.2 mx shutting down\r\n");
    assert!(session.take_rejections().is_empty(), "421 4.3.2 is nobody's rejection");
}

#[test]
#[should_panic(expected = "accepted without a receipt")]
fn nobody_answers_250_without_a_receipt() {
    let mut session = greeted();
    session.feed(START, b"MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nBDAT 0 LAST\r\n");
    let _ = session.next(START);
    session.answer(START, Answer::Accepted(Vec::new()));
}

#[test]
#[should_panic(expected = "does not fit")]
fn a_message_cannot_be_waved_through() {
    let mut session = greeted();
    session.feed(START, b"MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nBDAT 0 LAST\r\n");
    let _ = session.next(START);
    session.answer(START, Answer::Continue);
}

#[test]
fn a_client_that_never_reads_replies_is_held_to_the_output_bound() {
    let mut session = greeted();
    let input = b"MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\n".to_vec();
    session.feed(START, &input);
    let flood = b"RCPT TO:<c@d>\r\n".repeat(20_000);
    let mut used = 0;
    let mut flushes = 0;
    while used < flood.len() {
        used += session.feed(START, &flood[used..]);
        assert!(session.output().len() < 40 * 1024, "{}", session.output().len());
        assert!(session.take_rejections().len() <= 256);
        if matches!(session.next(START), Step::Flush) {
            flushes += 1;
        }
        session.output().clear();
    }
    assert!(flushes >= 1, "the bound was reached");
}

#[test]
fn announced_sizes_set_no_memory_aside() {
    let mut session = greeted();
    session.feed(START, b"MAIL FROM:<a@b> SIZE=20971520\r\nRCPT TO:<c@d>\r\nDATA\r\nx\r\n.\r\n");
    let Step::Ask(Question::Data(transaction)) = session.next(START) else { panic!("no message") };
    assert!(transaction.content.capacity() <= 256 * 1024, "{}", transaction.content.capacity());
}

#[test]
fn content_without_end_is_given_up() {
    let mut session = greeted();
    session.feed(START, b"MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nDATA\r\n");
    session.output().clear();
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..1024 {
        assert_eq!(session.feed(START, &piece), piece.len());
        assert!(matches!(session.next(START), Step::NeedInput));
        assert_eq!(said(&mut session), "", "in order it is refused at its end");
    }
    session.feed(START, &piece);
    assert!(matches!(session.next(START), Step::Close));
    assert_eq!(said(&mut session), "552 5.3.4 message too big\r\n");
}

#[test]
fn a_buffer_given_back_holds_the_next_content() {
    let mut session = greeted();
    session.recycle(Vec::with_capacity(100_000));
    session.recycle(Vec::with_capacity(10_000_000));
    session.feed(START, b"MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nDATA\r\nx\r\n.\r\n");
    let Step::Ask(Question::Data(transaction)) = session.next(START) else { panic!("no message") };
    assert_eq!(transaction.content.capacity(), 100_000);
}

#[test]
fn content_is_expected_to_be_as_large_as_the_last_and_keeps_no_room_if_it_is_not() {
    let mut session = greeted();
    let capacities = [1500, 1500, 1].map(|lines| {
        let content = "x".repeat(70) + "\r\n";
        session.feed(START, b"MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nDATA\r\n");
        (0..lines).for_each(|_| _ = session.feed(START, content.as_bytes()));
        session.feed(START, b".\r\n");
        let Step::Ask(Question::Data(transaction)) = session.next(START) else { panic!("no message") };
        session.answer(START, Answer::Accepted(vec![receipt()]));
        assert!(said(&mut session).ends_with(&format!("{}\r\n", receipt().id())));
        transaction.content.capacity()
    });
    assert!(capacities[0] > 120_000, "grown by doubling: {capacities:?}");
    assert_eq!(capacities[1..], [108_002, 72], "as large as the last, and no larger than it has to be");
}

#[test]
fn a_busy_client_cannot_outlast_its_transaction() {
    let mut session = greeted();
    session.feed(START, b"MAIL FROM:<a@b>\r\n");
    let late = START + Duration::from_secs(3600);
    session.feed(late, b"RSE");
    session.feed(late, b"NOOP\r\n");
    assert!(matches!(session.next(late), Step::Close));
    assert!(said(&mut session).ends_with("421 4.4.2 mx transaction took too long\r\n"));
}

/// Lines a hostile or broken client may send, and noise between them.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    let words: Vec<&'static [u8]> = vec![
        b"EHLO a\r\n",
        b"MAIL FROM:<a@b>\r\n",
        b"RCPT TO:<c@d>\r\n",
        b"DATA\r\n",
        b"\r\n.\r\n",
        b".\r\n",
        b"\n.\n",
        b"BDAT 3\r\n",
        b"BDAT 7 LAST\r\n",
        b"BDAT x\r\n",
        b"BDAT 99999999999999999999\r\n",
        b"RSET\r\n",
        b"QUIT\r\n",
        b"AUTH PLAIN AGEAYg==\r\n",
        b"AUTH LOGIN\r\n",
        b"*\r\n",
        b"STARTTLS\r\n",
        b"\r",
        b"\n",
        b"\0",
        b".",
        b"x",
        b"\xff\xfe",
        b"NOOP\n",
        b" ",
        b"MAIL FROM:<a@b> SIZE=99999999999\r\n",
    ];
    let piece = prop_oneof![
        6 => proptest::sample::select(words).prop_map(<[u8]>::to_vec),
        1 => proptest::collection::vec(any::<u8>(), 0..20),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// Everything said to `input` in pieces ending at `cuts`, questions answered by `choices` in turn.
fn converse(input: &[u8], cuts: &[usize], choices: &[u8]) -> Vec<u8> {
    let interest = Interest { connection_accepted: false, ..Interest::default() };
    let mut session = session(interest);
    let mut choices = choices.iter().copied().cycle();
    let (mut all, mut unread) = (Vec::new(), Vec::new());
    let mut start = 0;
    for end in [0].iter().chain(cuts).copied().chain([input.len()]) {
        unread.extend_from_slice(&input[start..end]);
        start = end;
        loop {
            let used = session.feed(START, &unread);
            unread.drain(..used);
            let step = session.next(START);
            match step {
                Step::Ask(question) => {
                    let refuse = choices.next() == Some(0);
                    let answer = match question {
                        _ if refuse => {
                            let reply = Reply::new(550, "5.7.1 no");
                            Answer::Reject { reply, disconnect: Disconnect::If421 }
                        }
                        Question::AuthPlain { .. } => Answer::NotAuthenticated,
                        Question::Data(_) => Answer::Accepted(vec![receipt()]),
                        _ => Answer::Continue,
                    };
                    session.answer(START, answer);
                    continue;
                }
                Step::StartTls => {
                    // What follows depends on what came with it; the converse ends here.
                    return all;
                }
                _ => {}
            }
            let output = session.output();
            assert!(output.len() < 40 * 1024);
            all.append(output);
            assert!(session.take_rejections().len() <= 256 + 2);
            match step {
                Step::NeedInput => break,
                Step::Close => return all,
                _ => {}
            }
        }
        assert!(unread.len() < smtp_server::RECEIVE_BUFFER_MIN, "a line is left unread only while it is short");
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn noise_never_panics_and_cuts_do_not_matter(
        input in noise(),
        cut in 0usize..2000,
        choices in proptest::collection::vec(0u8..4, 1..8),
    ) {
        let ends_in_tls = input.windows(8).any(|w| w.eq_ignore_ascii_case(b"STARTTLS"));
        let whole = converse(&input, &[], &choices);
        let single: Vec<usize> = (0..input.len()).collect();
        let parts = converse(&input, &single, &choices);
        let two = converse(&input, &[cut.min(input.len())], &choices);
        // Behind STARTTLS it matters what came in one piece with it.
        if !ends_in_tls {
            prop_assert_eq!(whole.escape_ascii().to_string(), parts.escape_ascii().to_string());
            prop_assert_eq!(&whole, &two);
        }
    }
}

#[test]
fn the_runner_notices_wrong_transcripts() {
    for wrong in [
        "S: 221 mx.example KumoMTA",
        "S: 220 mx.example KumoMTA\nC: NOOP",
        "S: 220 mx.example KumoMTA\nC: QUIT\nS: 221 So long, and thanks for all the fish!",
        "S: 220 mx.example KumoMTA\nP: connection => continue",
        "S: 220 mx.example KumoMTA\nR: 550 x | y | - | -",
        "S: 220 mx.example KumoMTA\nCLOSED",
    ] {
        for script in Script::parse_all(wrong) {
            assert!(run(&script, Pieces::Whole).is_err(), "{wrong}");
            assert!(run(&script, Pieces::Single).is_err(), "{wrong}");
            assert!(run(&script, Pieces::CutAt(1)).is_err(), "{wrong}");
        }
    }
}
