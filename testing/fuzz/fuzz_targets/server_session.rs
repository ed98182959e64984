//! The receiving session under a client and a policy that do anything, in any order.
//!
//! Input: settings and a list of operations. The client sends octets of its own or well-formed
//! commands in pieces, shakes hands or not, falls silent; policy answers anything that fits; the program may stop
//! at any moment. Checked, besides what [`fuzz::receiver`] checks: an answer `Accepted` and a `250 OK ids=`
//! come in pairs; a closed session stays closed; nothing is received in clear that policy would take for
//! received under TLS.

#![no_main]

use clock::Duration;
use fuzz::pieces;
use fuzz::receiver::{Receiver, Wants};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use message::MessageId;
use smtp_server::{Answer, Disconnect, Identity, Interest, Question, Session, Settings, Step};
use smtp_wire::Reply;
use smtp_wire::data::InvalidLineEndings;
use spool::{Receipt, Volatile};
use std::sync::Arc;

#[derive(Arbitrary, Debug)]
struct Input {
    settings: Choices,
    /// One octet a question.
    answers: Vec<u8>,
    operations: Vec<Operation>,
}

#[derive(Arbitrary, Debug)]
struct Choices {
    interest: [bool; 5],
    line_endings: u8,
    small_limits: bool,
    tls: bool,
    hello_required: bool,
    refuse_early_talk: bool,
    xclient: bool,
    apart: bool,
}

#[derive(Arbitrary, Debug)]
enum Operation {
    /// Any octets.
    Raw(u8, Vec<u8>),
    /// A line of [`LINES`].
    Line(u8),
    /// Some of them at once, cut anywhere.
    Lines(u8, Vec<u8>),
    /// Content behind DATA with its end.
    Content(u8, Vec<u8>),
    /// A chunk that is as long as it says.
    Chunk(bool, Vec<u8>),
    /// Time passes; the deadline is looked at or not.
    Wait(u16, bool),
    EarlyTalk,
    Shutdown,
    Recycle(u16),
}

fuzz_target!(|input: Input| {
    let mut receiver = Receiver::new(settings(&input.settings));
    let mut answers = input.answers.iter().copied();
    let mut answer = |session: &mut Session, question: Question| {
        let choice = answers.next().unwrap_or(0);
        if choice & 0x80 != 0 {
            session.shutdown(clock::Instant::from_micros(2_000_000));
        }
        answer_to(session, &question, choice & 0x7f)
    };
    let mut wants = receiver.pump(&mut answer);
    for operation in input.operations.iter().take(OPERATIONS_MAX) {
        if wants == Wants::Tls {
            receiver.handshake();
            wants = receiver.pump(&mut answer);
        }
        if wants == Wants::Nothing {
            break;
        }
        wants = run(&mut receiver, operation, &mut answer);
    }
    let promised = receiver.replies.iter().filter(|r| r.code == 250 && r.text.starts_with("OK ids=")).count();
    assert!(promised <= receiver.accepted, "a 250 nobody took responsibility for");
    assert!(promised == receiver.accepted || receiver.is_closed, "an accepted message without its 250");
    if receiver.is_closed {
        assert_eq!(receiver.session.feed(receiver.now, b"NOOP\r\n"), 6);
        assert!(matches!(receiver.session.next(receiver.now), Step::Close));
        assert!(receiver.session.output().is_empty(), "a closed session speaks");
    }
});

type Policy<'a> = &'a mut dyn FnMut(&mut Session, Question) -> Answer;

fn run(receiver: &mut Receiver, operation: &Operation, answer: Policy<'_>) -> Wants {
    let mut cuts = 0;
    let octets = match operation {
        Operation::Raw(by, octets) => {
            cuts = *by;
            octets.clone()
        }
        Operation::Line(number) => line(*number),
        Operation::Lines(by, numbers) => {
            cuts = *by;
            numbers.iter().take(OPERATIONS_MAX).flat_map(|number| line(*number)).collect()
        }
        Operation::Content(by, octets) => {
            cuts = *by;
            [&b"DATA\r\n"[..], octets, b"\r\n.\r\n"].concat()
        }
        Operation::Chunk(last, octets) => {
            let last = if *last { " LAST" } else { "" };
            [format!("BDAT {}{last}\r\n", octets.len()).as_bytes(), octets].concat()
        }
        Operation::Wait(seconds, looks) => {
            receiver.now = receiver.now + Duration::from_secs(u64::from(*seconds));
            if *looks {
                receiver.session.expire(receiver.now);
                assert!(receiver.session.deadline() > receiver.now, "a deadline that was not met");
            }
            Vec::new()
        }
        Operation::EarlyTalk => {
            receiver.session.early_talk(receiver.now);
            Vec::new()
        }
        Operation::Shutdown => {
            receiver.session.shutdown(receiver.now);
            Vec::new()
        }
        Operation::Recycle(octets) => {
            receiver.session.recycle(Vec::with_capacity(usize::from(*octets)));
            Vec::new()
        }
    };
    let mut wants = receiver.pump(answer);
    for piece in pieces(cuts, &octets) {
        if wants == Wants::Input {
            wants = receiver.send(piece, answer);
        }
    }
    wants
}

fn answer_to(session: &Session, question: &Question, choice: u8) -> Answer {
    let reject = |code, disconnect| Answer::Reject { reply: Reply::new(code, "5.7.1 no\r\n250 injected"), disconnect };
    match (question, choice % 8) {
        (_, 1) => reject(550, Disconnect::If421),
        (_, 2) => reject(451, Disconnect::FollowWith421),
        (_, 3) => reject(421, Disconnect::If421),
        (_, 4) => reject(250, Disconnect::ForceDisconnect),
        (Question::XClient { .. }, _) => Answer::Anew(Arc::new(session.settings().clone())),
        (Question::AuthPlain { .. }, 5) => Answer::NotAuthenticated,
        (Question::AuthPlain { authz, authc, .. }, _) => {
            Answer::Authenticated(Identity { authz: authz.clone(), authc: authc.clone() })
        }
        (Question::Data(_), other) => {
            let receipt = |n| Receipt::Volatile(Volatile::by_operator_choice(MessageId::from_bytes([n; 16])));
            Answer::Accepted((0..=other).map(receipt).collect())
        }
        (Question::Ehlo { .. }, 5) => Answer::Extensions(vec!["PIPELINING".into(), "X-ODD".into()]),
        _ => Answer::Continue,
    }
}

fn settings(choices: &Choices) -> Settings {
    let [connection_accepted, ehlo, auth, mail_from, rcpt_to] = choices.interest;
    let mut settings = Settings {
        interest: Interest { connection_accepted, ehlo, auth, mail_from, rcpt_to },
        invalid_line_endings: [InvalidLineEndings::Deny, InvalidLineEndings::Allow, InvalidLineEndings::Fix]
            [usize::from(choices.line_endings % 3)],
        tls_available: choices.tls,
        hello_required: choices.hello_required,
        refuse_early_talk: choices.refuse_early_talk,
        allow_xclient: choices.xclient,
        replies_apart: choices.apart,
        ..Settings::default()
    };
    if choices.small_limits {
        settings.max_message_size = 100;
        settings.max_recipients_per_message = 3;
        settings.max_messages_per_connection = 6;
        settings.line_length_hard_limit = 20;
        settings.junk_commands_max = 8;
        settings.auth_failures_max = 2;
    }
    settings
}

fn line(number: u8) -> Vec<u8> {
    LINES[usize::from(number) % LINES.len()].to_vec()
}

const LINES: [&[u8]; 26] = [
    b"EHLO client.example\r\n",
    b"HELO client.example\r\n",
    b"MAIL FROM:<a@b.example>\r\n",
    b"MAIL FROM:<> SIZE=50 BODY=8BITMIME\r\n",
    b"MAIL FROM:<\xc3\xa9@b.example> SMTPUTF8\r\n",
    b"MAIL FROM:<a@b.example> SIZE=99999999999999999999\r\n",
    b"RCPT TO:<c@d.example>\r\n",
    b"RCPT TO:<postmaster>\r\n",
    b"RCPT TO:<c@d.example> NOTIFY=NEVER ORCPT=rfc822;c@d.example\r\n",
    b"DATA\r\n",
    b"x\r\n.\r\n",
    b".\r\n",
    b"BDAT 3\r\nx\r\n",
    b"BDAT 0 LAST\r\n",
    b"BDAT 18446744073709551615 LAST\r\n",
    b"RSET\r\n",
    b"NOOP\r\n",
    b"QUIT\r\n",
    b"STARTTLS\r\n",
    b"AUTH PLAIN AGEAYg==\r\n",
    b"AUTH LOGIN\r\n",
    b"XCLIENT ADDR=192.0.2.9 PORT=9\r\n",
    b"XCLIENT DESTADDR=IPV6:::1 NAME=x\r\n",
    b"YQ==\r\n",
    b"*\r\n",
    b"\n",
];
const OPERATIONS_MAX: usize = 64;
