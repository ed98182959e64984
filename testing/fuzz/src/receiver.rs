//! A driver for the receiving session, which checks what every driver may rely on.
//!
//! It feeds, does what `next` says and lets a closure answer. Checked on the way: the session
//! takes no more than it was given, makes progress, stays within its buffers, and writes nothing
//! but whole, well-formed replies.

use clock::Instant;
use smtp_server::{Answer, Question, RECEIVE_BUFFER_MIN, Session, Settings, Step, TlsInfo};
use smtp_wire::reply_reader::ReplyReader;
use smtp_wire::{Reply, ReversePath};
use std::sync::Arc;

/// A session and the client's end of its connection.
pub struct Receiver {
    /// The session.
    pub session: Session,
    /// The time given to it.
    pub now: Instant,
    /// The session said so.
    pub is_closed: bool,
    /// Every reply so far.
    pub replies: Vec<Reply>,
    /// Answers `Accepted` so far.
    pub accepted: usize,
    unread: Vec<u8>,
}

/// Why [`Receiver::pump`] came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// More input.
    Input,
    /// A handshake.
    Tls,
    /// Nothing more.
    Nothing,
}

impl Receiver {
    /// A client that just connected.
    pub fn new(settings: Settings) -> Receiver {
        let now = Instant::from_micros(1_000_000);
        let (peer, local) = (([192, 0, 2, 1], 4000).into(), ([192, 0, 2, 2], 25).into());
        let session = Session::new(now, peer, local, Arc::new(settings));
        Receiver { session, now, is_closed: false, replies: Vec::new(), accepted: 0, unread: Vec::new() }
    }

    /// The client sends.
    pub fn send(&mut self, octets: &[u8], answer: &mut dyn FnMut(&mut Session, Question) -> Answer) -> Wants {
        self.unread.extend_from_slice(octets);
        self.pump(answer)
    }

    /// A TLS handshake that succeeded; only when it is wanted.
    pub fn handshake(&mut self) {
        let octets = std::mem::take(&mut self.unread);
        assert!(octets.is_empty(), "octets in clear were kept over STARTTLS");
        self.session.tls_started(self.now, TlsInfo::default());
    }

    /// Goes on until the session waits for the client.
    pub fn pump(&mut self, answer: &mut dyn FnMut(&mut Session, Question) -> Answer) -> Wants {
        // Each round consumes input, asks a question or flushes; a flush needs 32 KiB of replies.
        let rounds_max = 64 + 2 * self.unread.len();
        for _ in 0..rounds_max {
            let used = self.session.feed(self.now, &self.unread);
            assert!(used <= self.unread.len(), "more octets taken than given");
            self.unread.drain(..used);
            match self.session.next(self.now) {
                Step::Ask(question) => {
                    check(&question, self.session.settings());
                    assert_eq!(self.session.feed(self.now, &self.unread), 0, "input taken with a question outstanding");
                    let answer = answer(&mut self.session, question);
                    self.accepted += usize::from(matches!(answer, Answer::Accepted(_)));
                    self.session.answer(self.now, answer);
                }
                Step::Flush => self.flush(),
                Step::NeedInput => {
                    self.flush();
                    assert!(self.unread.len() < RECEIVE_BUFFER_MIN, "a full receive buffer is not read");
                    return Wants::Input;
                }
                Step::StartTls => {
                    self.flush();
                    return Wants::Tls;
                }
                Step::Close => {
                    self.flush();
                    self.is_closed = true;
                    self.unread.clear();
                    return Wants::Nothing;
                }
            }
        }
        panic!("no progress in {rounds_max} rounds");
    }

    fn flush(&mut self) {
        let said = self.session.take_said();
        let output = std::mem::take(self.session.output());
        assert!(output.len() < OUTPUT_OCTETS_MAX, "{} octets of output held", output.len());
        assert!(
            !smtp_wire::data::has_bare_line_ending(&output),
            "a bare CR or LF in {:?}",
            String::from_utf8_lossy(&output)
        );
        let (mut rest, before) = (&output[..], self.replies.len());
        let mut reader = ReplyReader::new();
        while !rest.is_empty() {
            let reply = reader.read(&mut rest).expect("a whole reply").expect("a reply");
            self.replies.push(reply);
        }
        if self.session.settings().replies_apart {
            assert_eq!(said.len(), self.replies.len() - before, "each reply is told apart");
            assert!(said.is_sorted_by(|one, next| one.end < next.end), "{said:?}");
            assert_eq!(said.last().map_or(0, |last| last.end), output.len(), "{said:?}");
            assert!(
                said.iter().all(|said| said.command.as_ref().is_none_or(|line| !line.starts_with("AUTH PLAIN AGE"))),
                "{said:?}"
            );
        }
        for rejection in self.session.take_rejections() {
            assert!(matches!(rejection.reply.code, 400..=599), "{rejection:?}");
            assert!(rejection.sender.as_ref().is_none_or(reads_back), "{rejection:?}");
        }
    }
}

/// What a question may be relied on for.
fn check(question: &Question, settings: &Settings) {
    match question {
        Question::MailFrom { sender, .. } => assert!(reads_back(sender)),
        Question::AuthPlain { authz, .. } => assert!(!authz.is_empty()),
        Question::Data(transaction) => {
            let content = &transaction.content;
            assert!(content.is_empty() || content.ends_with(b"\r\n"), "content ends within a line");
            let recipients = transaction.envelope.recipients.len();
            assert!((1..=settings.max_recipients_per_message).contains(&recipients));
            let options = transaction.envelope.dsn.as_ref().map(|dsn| dsn.recipients.len());
            assert!(options.is_none_or(|count| count == recipients));
            if settings.invalid_line_endings != smtp_wire::data::InvalidLineEndings::Allow {
                assert!(!smtp_wire::data::has_bare_line_ending(content));
            }
            for line in content.split(|octet| *octet == b'\n') {
                let line = line.strip_suffix(b"\r").unwrap_or(line);
                assert!(line.len() <= settings.line_length_hard_limit);
            }
        }
        _ => {}
    }
}

fn reads_back(sender: &ReversePath) -> bool {
    ReversePath::parse(sender.as_str()).as_ref() == Ok(sender)
}

/// The session's bound on unwritten output, and room for the reply that reaches it.
const OUTPUT_OCTETS_MAX: usize = 64 * 1024;
