//! The sending session under a server and a network that do anything, in any order.
//!
//! Input: settings and a list of operations. The server sends octets of its own or well-formed
//! replies, early, late or twice; writes go out in parts; handshakes fail; time passes; the connection breaks.
//! Checked: every job comes back as exactly one outcome with one result a recipient; `Delivered`
//! needs a 2xx of the server and `Permanent` a 5xx or a reason of ours; no bare CR or LF is ever
//! written; the session makes progress and stays closed once it is.

#![no_main]

use bytes::{Buf as _, Bytes};
use clock::{Duration, Instant};
use fuzz::pieces;
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use smtp_client::{AuthPlain, Job, Mailbox, Outcome, ReversePath, Session, Settings, Step, TlsMode, Verdict};
use smtp_wire::data::has_bare_line_ending;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Arbitrary, Debug)]
struct Input {
    settings: Choices,
    operations: Vec<Operation>,
}

#[derive(Arbitrary, Debug)]
struct Choices {
    tls: u8,
    pipelining: bool,
    rset: bool,
    lmtp: bool,
    ignore_8bit: bool,
    batch: u8,
    auth: Option<[bool; 2]>,
}

#[derive(Arbitrary, Debug)]
enum Operation {
    /// Any octets of the server.
    Raw(u8, Vec<u8>),
    /// A reply of [`REPLIES`].
    Reply(u8),
    /// Some of them at once.
    Replies(u8, Vec<u8>),
    /// A job, if one may begin: recipients, flags, content.
    Job(u8, u8, Vec<u8>),
    /// Some of the output leaves.
    Write(u16),
    Wait(u16),
    Handshake(u8),
    Finish,
    Lost,
}

fuzz_target!(|input: Input| {
    let now = Instant::from_micros(1_000_000);
    let session = Session::new(now, Arc::new(settings(&input.settings)));
    let mut sender = Sender { session, now, jobs: BTreeMap::new(), begun: 0, wire: Vec::new(), wants_tls: false };
    sender.pump();
    for operation in input.operations.iter().take(OPERATIONS_MAX) {
        sender.run(operation);
        sender.pump();
    }
    sender.session.connection_lost(sender.now, "the end of the test");
    sender.pump();
    assert!(sender.jobs.is_empty(), "jobs without an outcome: {:?}", sender.jobs);
    assert!(sender.session.is_closed() && matches!(sender.session.next(sender.now), Step::Close(_)));
    // What was cut off may end in half a line end.
    let whole = sender.wire.strip_suffix(b"\r").unwrap_or(&sender.wire);
    assert!(!has_bare_line_ending(whole), "{:?}", String::from_utf8_lossy(whole));
});

struct Sender {
    session: Session,
    now: Instant,
    /// Recipients of each job in hand.
    jobs: BTreeMap<u64, usize>,
    begun: u64,
    wire: Vec<u8>,
    wants_tls: bool,
}

impl Sender {
    /// Takes every step that needs nothing from outside.
    fn pump(&mut self) {
        self.wants_tls = false;
        for _ in 0..STEPS_MAX {
            match self.session.next(self.now) {
                Step::Outcome(outcome) => self.settle(&outcome),
                Step::StartTls => {
                    self.wants_tls = true;
                    return;
                }
                Step::Send => {
                    assert!(self.session.output().has_remaining());
                    return;
                }
                Step::Ready | Step::NeedInput | Step::Close(_) => {
                    assert!(!self.session.output().has_remaining() || self.session.is_closed());
                    return;
                }
            }
        }
        panic!("no progress in {STEPS_MAX} steps");
    }

    fn settle(&mut self, outcome: &Outcome) {
        let recipients = self.jobs.remove(&outcome.ticket);
        assert_eq!(recipients, Some(outcome.results.len()), "{outcome:?}");
        for result in &outcome.results {
            match result.verdict {
                Verdict::Delivered => assert!(result.reply.is_success() && !result.local, "{result:?}"),
                Verdict::Permanent => assert!(result.reply.is_permanent(), "{result:?}"),
                Verdict::Transient | Verdict::Unknown | Verdict::NotAttempted => {}
            }
        }
    }

    fn run(&mut self, operation: &Operation) {
        match operation {
            Operation::Raw(cuts, octets) => self.feed(*cuts, octets),
            Operation::Reply(number) => self.feed(0, reply(*number)),
            Operation::Replies(cuts, numbers) => {
                let octets: Vec<u8> = numbers.iter().take(OPERATIONS_MAX).flat_map(|n| reply(*n)).copied().collect();
                self.feed(*cuts, &octets);
            }
            Operation::Job(recipients, flags, content) => self.begin(*recipients, *flags, content),
            Operation::Write(octets) => self.write(usize::from(*octets)),
            Operation::Wait(seconds) => {
                self.now = self.now + Duration::from_secs(u64::from(*seconds));
                self.session.expire(self.now);
                assert!(self.session.deadline().is_none_or(|deadline| deadline > self.now));
            }
            Operation::Handshake(how) if self.wants_tls => match how % 3 {
                0 => self.session.tls_failed(self.now, "bad certificate"),
                how => self.session.tls_started(self.now, how == 1),
            },
            Operation::Handshake(_) => {}
            Operation::Finish => self.session.finish(self.now),
            Operation::Lost => self.session.connection_lost(self.now, "reset by peer"),
        }
    }

    fn feed(&mut self, cuts: u8, octets: &[u8]) {
        for piece in pieces(cuts, octets) {
            self.session.feed(self.now, piece);
            self.pump();
        }
    }

    fn write(&mut self, octets_max: usize) {
        for _ in 0..8 {
            let output = self.session.output();
            let count = output.chunk().len().min(octets_max);
            self.wire.extend_from_slice(&output.chunk()[..count]);
            output.advance(count);
        }
    }

    fn begin(&mut self, recipients: u8, flags: u8, content: &[u8]) {
        if !self.session.can_begin() {
            return;
        }
        let mailbox = |n: u8| Mailbox::parse(if n % 5 == 4 { "\u{e9}@example.com" } else { "a@example.com" });
        let recipients: Vec<Mailbox> =
            (0..=recipients % 8).filter_map(|n| mailbox(n.wrapping_add(flags)).ok()).collect();
        let (head, body) = content.split_at(content.len() / 3);
        self.begun += 1;
        self.jobs.insert(self.begun, recipients.len());
        let job = Job {
            ticket: self.begun,
            sender: ReversePath(Mailbox::parse("s@example.com").ok().filter(|_| flags & 1 == 0)),
            recipients,
            head: Bytes::copy_from_slice(head),
            body: Bytes::copy_from_slice(body).into(),
            dsn: None,
            needs_8bit: flags & 2 != 0,
            requiretls: false,
            needs_smtputf8: flags & 4 != 0,
        };
        self.session.begin(self.now, job);
    }
}

fn settings(choices: &Choices) -> Settings {
    let modes = [
        TlsMode::Opportunistic,
        TlsMode::OpportunisticInsecure,
        TlsMode::Required,
        TlsMode::RequiredInsecure,
        TlsMode::Disabled,
    ];
    let auth = |[in_clear, unverified]: [bool; 2]| AuthPlain {
        username: "me".into(),
        password: "secret".into(),
        allow_without_tls: in_clear,
        allow_without_valid_certificate: unverified,
    };
    Settings {
        tls: modes[usize::from(choices.tls) % modes.len()],
        enable_pipelining: choices.pipelining,
        enable_rset: choices.rset,
        use_lmtp: choices.lmtp,
        ignore_8bit_checks: choices.ignore_8bit,
        max_recipients_per_batch: usize::from(choices.batch % 8),
        auth: choices.auth.map(auth),
        ..Settings::default()
    }
}

fn reply(number: u8) -> &'static [u8] {
    REPLIES[usize::from(number) % REPLIES.len()]
}

const REPLIES: [&[u8]; 16] = [
    b"220 ready\r\n",
    b"250-me\r\n250-PIPELINING\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250-STARTTLS\r\n250-AUTH PLAIN\r\n250 SIZE 500\r\n",
    b"250-me\r\n250 PIPELINING\r\n",
    b"250 ok\r\n",
    b"235 in\r\n",
    b"354 go\r\n",
    b"450 4.2.1 later\r\n",
    b"452 4.5.3 too many recipients\r\n",
    b"550 5.1.1 who\r\n",
    b"554 5.7.1 no\r\n",
    b"421 4.3.2 closing\r\n",
    b"221 bye\r\n",
    b"500 what\r\n",
    b"250-part of a reply\r\n",
    b"25",
    b"\n",
];
const OPERATIONS_MAX: usize = 128;
/// Outcomes and replies that one call can set free.
const STEPS_MAX: usize = 64;
