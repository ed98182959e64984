//! A session against a server that answers at random, drops, stays silent and talks garbage.
//!
//! Whatever it does: every job begun gets exactly one outcome with one result per recipient; a
//! recipient is `Delivered` only if the server took its whole content; one whose content the
//! server took is `Delivered` or `Unknown`; the session never gets stuck and stays bounded.

use bytes::{Buf, Bytes};
use clock::{Duration, Instant};
use proptest::prelude::*;
use smtp_client::{JOBS_IN_HAND_MAX, Job, Mailbox, Outcome, ReversePath, Session, Settings, Step, Verdict};
use std::collections::HashMap;
use std::sync::Arc;

/// Steps after which a conversation counts as stuck.
const STEPS_MAX: usize = 20_000;

/// The random source: the script's octets one by one, then zeros (which mean good behaviour).
struct Dice(std::vec::IntoIter<u8>);

impl Dice {
    fn roll(&mut self) -> u8 {
        self.0.next().unwrap_or(0)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Line {
    Alive,
    Silent,
    Dropped,
}

struct Peer {
    dice: Dice,
    lmtp: bool,
    pipelining: bool,
    input: Vec<u8>,
    replies: Vec<u8>,
    in_data: bool,
    recipients: Vec<String>,
    /// What it took responsibility for: recipient and content.
    taken: Vec<(String, Vec<u8>)>,
    line: Line,
}

impl Peer {
    fn new(script: Vec<u8>, lmtp: bool, pipelining: bool) -> Peer {
        let mut peer = Peer {
            dice: Dice(script.into_iter()),
            lmtp,
            pipelining,
            input: Vec::new(),
            replies: Vec::new(),
            in_data: false,
            recipients: Vec::new(),
            taken: Vec::new(),
            line: Line::Alive,
        };
        peer.answer(220);
        peer
    }

    fn receive(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        while self.line == Line::Alive {
            if self.in_data {
                let Some(end) = end_of_data(&self.input) else { return };
                let wire: Vec<u8> = self.input.drain(..end).collect();
                self.end_of_content(&wire);
            } else {
                let Some(end) = self.input.windows(2).position(|w| w == b"\r\n") else { return };
                let line: Vec<u8> = self.input.drain(..end + 2).collect();
                self.command(&String::from_utf8_lossy(&line[..end]));
            }
        }
    }

    fn command(&mut self, line: &str) {
        let verb = line.split([' ', ':']).next().unwrap_or_default();
        match verb {
            "EHLO" | "LHLO" => {
                let extensions = if self.pipelining { "250-hi\r\n250 PIPELINING\r\n" } else { "250 hi\r\n" };
                self.replies.extend_from_slice(extensions.as_bytes());
            }
            "MAIL" => {
                self.recipients.clear();
                self.answer(250);
            }
            "RCPT" => {
                if self.answer(250) {
                    self.recipients.push(line.replace("RCPT TO:<", "").replace('>', ""));
                }
            }
            "DATA" => self.in_data = self.answer(354),
            "RSET" => {
                self.recipients.clear();
                self.answer(250);
            }
            "QUIT" => {
                self.answer(221);
            }
            _ => panic!("the client sent `{line}` as a command"),
        }
    }

    fn end_of_content(&mut self, wire: &[u8]) {
        self.in_data = false;
        let content = undo_dots(wire);
        let recipients = std::mem::take(&mut self.recipients);
        if self.lmtp {
            for recipient in recipients {
                if self.answer(250) {
                    self.taken.push((recipient, content.clone()));
                }
            }
        } else if self.answer(250) {
            self.taken.extend(recipients.into_iter().map(|r| (r, content.clone())));
        }
    }

    /// Answers with the good code or something else; true when it means success to the peer.
    fn answer(&mut self, good: u16) -> bool {
        if self.line != Line::Alive {
            return false;
        }
        let (text, success) = match self.dice.roll() {
            0..=199 => (format!("{good} fine\r\n"), true),
            200..=204 => (format!("{good}-2.0.0 fine\r\n{good}-2.0.0 \x1b really\r\n{good} 2.0.0 fine\n"), true),
            205..=209 => ("450 later\r\n".into(), false),
            210..=214 => ("452 4.5.3 enough\r\n".into(), false),
            215..=219 => ("550-5.1.1 no\r\n550 never\r\n".into(), false),
            220..=224 => ("552 enough\r\n".into(), false),
            225..=228 => ("503 order\r\n".into(), false),
            229..=231 => ("334 what\r\n".into(), false),
            232..=235 => {
                self.line = Line::Dropped;
                ("421 bye\r\n".into(), false)
            }
            // Took it, but nobody hears of it.
            236..=239 => ("\x00\u{ff}garbage\r\n".into(), true),
            240..=243 => {
                self.line = Line::Dropped;
                (format!("{good} f"), true)
            }
            244..=247 => {
                self.line = Line::Silent;
                (String::new(), true)
            }
            248..=251 => {
                self.line = Line::Dropped;
                (String::new(), false)
            }
            252..=255 => ("250-a\r\n251 b\r\n".into(), true),
        };
        self.replies.extend_from_slice(text.as_bytes());
        success
    }
}

struct Conversation {
    session: Session,
    peer: Peer,
    now: Instant,
    jobs: Vec<Job>,
    begun: Vec<Job>,
    outcomes: Vec<Outcome>,
    chunks: Dice,
}

impl Conversation {
    fn run(&mut self) {
        for _ in 0..STEPS_MAX {
            assert!(self.session.jobs_in_hand() <= JOBS_IN_HAND_MAX);
            match self.session.next(self.now) {
                Step::Outcome(outcome) => self.outcomes.push(outcome),
                Step::Send => {
                    while self.session.can_begin() && !self.jobs.is_empty() {
                        self.begin();
                    }
                    self.write();
                }
                Step::Ready if self.jobs.is_empty() => self.session.finish(self.now),
                Step::Ready => self.begin(),
                Step::NeedInput => self.read(),
                Step::StartTls => panic!("TLS was not offered"),
                Step::Close(_) => return,
            }
        }
        panic!("stuck in {}", self.session.phase());
    }

    fn begin(&mut self) {
        let job = self.jobs.remove(0);
        self.begun.push(job.clone());
        self.session.begin(self.now, job);
    }

    fn write(&mut self) {
        let most = usize::from(self.chunks.roll()) * 8 + 1;
        let output = self.session.output();
        let take = output.chunk().len().min(most);
        self.peer.receive(&output.chunk()[..take]);
        output.advance(take);
    }

    fn read(&mut self) {
        self.now = self.now + Duration::from_millis(1);
        let take = (usize::from(self.chunks.roll()) + 1).min(self.peer.replies.len());
        let bytes: Vec<u8> = self.peer.replies.drain(..take).collect();
        match (bytes.is_empty(), self.peer.line) {
            (false, _) => self.session.feed(self.now, &bytes),
            (true, Line::Dropped) => self.session.connection_lost(self.now, "peer closed the connection"),
            (true, _) => {
                self.now = self.session.deadline().expect("a deadline while input is needed");
                self.session.expire(self.now);
            }
        }
    }

    fn check(&self) {
        let mut tickets: Vec<u64> = self.outcomes.iter().map(|o| o.ticket).collect();
        tickets.sort_unstable();
        let begun: Vec<u64> = self.begun.iter().map(|j| j.ticket).collect();
        assert_eq!(tickets, begun, "one outcome per job begun");
        let outcomes: HashMap<u64, &Outcome> = self.outcomes.iter().map(|o| (o.ticket, o)).collect();
        for job in &self.begun {
            let results = &outcomes[&job.ticket].results;
            assert_eq!(results.len(), job.recipients.len());
            let content = [&job.head[..], &job.body[..]].concat();
            for (recipient, result) in job.recipients.iter().zip(results) {
                let taken = self.peer.taken.iter().filter(|t| t.0 == recipient.as_str() && t.1 == content).count();
                match result.verdict {
                    Verdict::Delivered => assert_eq!(taken, 1, "{recipient}: {result:?}"),
                    Verdict::Unknown => assert!(taken <= 1),
                    _ => assert_eq!(taken, 0, "{recipient}: {result:?}"),
                }
            }
        }
        let first = self.begun.first().map(|job| outcomes[&job.ticket]);
        let counted = first.is_none_or(|o| o.results.iter().all(|r| r.verdict != Verdict::NotAttempted));
        assert!(counted, "the first job of a connection counts as tried");
    }
}

fn job(ticket: u64, recipients: usize, body: &str) -> Job {
    let address = |i| Mailbox::parse(&format!("r{i}@j{ticket}.example")).expect("sound");
    Job {
        ticket,
        sender: ReversePath(None),
        recipients: (0..recipients).map(address).collect(),
        head: Bytes::from(format!("Subject: {ticket}\r\n\r\n")),
        body: Bytes::from(format!("{body}\r\n")).into(),
        dsn: None,
        needs_8bit: false,
        requiretls: false,
        needs_smtputf8: false,
    }
}

/// Where CRLF.CRLF ends; a dot right at the start counts.
fn end_of_data(input: &[u8]) -> Option<usize> {
    match input.starts_with(b".\r\n") {
        true => Some(3),
        false => input.windows(5).position(|w| w == b"\r\n.\r\n").map(|at| at + 5),
    }
}

fn undo_dots(wire: &[u8]) -> Vec<u8> {
    let content = &wire[..wire.len() - 3];
    let mut out = Vec::new();
    let mut before = b'\n';
    for &octet in content {
        if !(before == b'\n' && octet == b'.') {
            out.push(octet);
        }
        // A dot taken away no longer stands at the head of a line.
        before = octet;
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn nothing_is_lost_stuck_or_falsely_delivered(
        script in proptest::collection::vec(any::<u8>(), 0..120),
        calm in 0usize..40,
        chunks in proptest::collection::vec(any::<u8>(), 0..200),
        sizes in proptest::collection::vec((0usize..7, "[.a]{0,3}(\r\n[.a]{0,3}){0,3}"), 0..6),
        (lmtp, pipelining, rset, batch) in (any::<bool>(), any::<bool>(), any::<bool>(), 1usize..5),
    ) {
        // Good behaviour for a while, or few conversations would get past EHLO.
        let script: Vec<u8> = std::iter::repeat_n(0, calm).chain(script).collect();
        let settings = Settings {
            use_lmtp: lmtp,
            enable_rset: rset,
            max_recipients_per_batch: batch,
            ..Settings::default()
        };
        let jobs = (0u64..).zip(&sizes).map(|(ticket, (recipients, body))| job(ticket, *recipients, body)).collect();
        let mut conversation = Conversation {
            session: Session::new(Instant::ZERO, Arc::new(settings)),
            peer: Peer::new(script, lmtp, pipelining),
            now: Instant::ZERO,
            jobs,
            begun: Vec::new(),
            outcomes: Vec::new(),
            chunks: Dice(chunks.into_iter()),
        };
        conversation.run();
        conversation.check();
    }
}
