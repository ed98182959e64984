//! The pieces of a message's way through the server, each by itself and as often as asked: what `instructions` counts.
//!
//! The real parts run in this process, without sockets, threads and clocks, on a disk that forgets; what surrounds a piece (the
//! making of its input) is counted with it, so it is kept small. In: a piece and a number. Out: nothing; an error when a
//! piece did not do its work.

use std::hint::black_box;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use anyhow::{Context as _, bail, ensure};
use bytes::{Buf as _, Bytes};
use clock::{Instant, Now, WallTime};
use config::QueueConfig;
use injection::{Generator, Injection};
use lua::LuaPolicy;
use message::{Draft, Envelope, IdGenerator, Message, Meta, TlsDemand};
use mime::HeaderBlock;
use policy::{ConnMeta, Policy as _};
use queue::settle::{Settlement, settle as decide};
use queue::{Next, Outcome, Verdict};
use record::{EnhancedCode, LogRecord, Recipients, RecordType, Response, Timestamp};
use sender_auth::{BodyHashes, Scratch, Signer, SignerParams, SigningKey};
use smtp_client::Job;
use smtp_server::{Answer, Question, Step, Transaction};
use smtp_wire::body::Lines;
use smtp_wire::data::lines_of;
use smtp_wire::{Body, Mailbox, Reply, ReversePath};
use spool::{Batch, Discarded, Mark, Receipt, SegmentLog};

use crate::forgetful::Forgetful;
use crate::queue_pass::QueuePass;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Piece {
    /// A transaction from its octets to the 250
    Receive,
    /// The same with a dot at the head of one line in 42
    ReceiveDotted,
    /// The same with text in which a character a line has two octets
    ReceiveEightBit,
    /// The same with ten times the content
    ReceiveLarge,
    /// A request over HTTP for one recipient, from its JSON to a message that is sealed
    Inject,
    /// A message sealed, appended to the log and removed again, each with a commit of its own
    Append,
    /// In and out of the queues: admit, promote, hand out, forget
    Queue,
    /// A transaction with the next server, from MAIL to its 250
    Send,
    /// The same with dots to be doubled, of which it is known where they are
    SendDotted,
    /// The same with ten times the content
    SendLarge,
    /// What two attempts mean to a message with two recipients, one of whom was put off at first
    Settle,
    /// A Delivery record
    Log,
    /// `smtp_server_message_received` with a handler of four calls
    Policy,
    /// The same with a handler of ten calls
    Calls,
    /// A new Lua state with all helpers set up, and the message it is made for
    State,
    /// An Ed25519 signature, the body's hash with it; RSA is counted nowhere, as valgrind has no AVX-512 and so another path
    Sign,
}

impl Piece {
    /// Does it `count` times, with a message of [`CONTENT_OCTETS`] where its name says nothing else.
    ///
    /// # Errors
    /// It did not do its work.
    pub fn run(self, count: u32) -> anyhow::Result<()> {
        match self {
            Piece::Receive => receive(count, Text::Plain),
            Piece::ReceiveDotted => receive(count, Text::Dotted),
            Piece::ReceiveEightBit => receive(count, Text::EightBit),
            Piece::ReceiveLarge => receive(count, Text::Large),
            Piece::Inject => inject(count),
            Piece::Append => append(count),
            Piece::Queue => queue(count),
            Piece::Send => send(count, Text::Plain),
            Piece::SendDotted => send(count, Text::Dotted),
            Piece::SendLarge => send(count, Text::Large),
            Piece::Settle => settle(count),
            Piece::Log => log(count),
            Piece::Policy => policy(count, POLICY),
            Piece::Calls => policy(count, CALLS),
            Piece::State => policy(count, STATE),
            Piece::Sign => sign(count),
        }
    }
}

fn receive(count: u32, text: Text) -> anyhow::Result<()> {
    let mut ids = IdGenerator::new([1; 6], 1);
    let settings = Arc::new(smtp_server::Settings::default());
    let mut session =
        smtp_server::Session::new(Instant::ZERO, ([192, 0, 2, 1], 4000).into(), ([192, 0, 2, 2], 25).into(), settings);
    let transaction =
        [b"MAIL FROM:<a@from.test>\r\nRCPT TO:<b@to.test>\r\nDATA\r\n", &text.content()[..], b".\r\n"].concat();
    let mut accepted = 0;
    for number in 0..count + 2 {
        let input: &[u8] = match number {
            // The banner first.
            0 => b"",
            1 => b"EHLO client.test\r\n",
            _ => &transaction,
        };
        let mut at = 0;
        loop {
            at += session.feed(Instant::ZERO, &input[at..]);
            match session.next(Instant::ZERO) {
                Step::Ask(Question::Data(transaction)) => {
                    let Transaction { envelope, content, lines, is_ascii, .. } = *transaction;
                    let content = Body::known(content.into(), lines, is_ascii);
                    let sealed = Draft::new(ids.next(NOW), envelope, Meta::new(), content, NOW).seal();
                    accepted += 1;
                    let receipt = Receipt::Discarded(Discarded::by_policy(black_box(sealed).id));
                    session.answer(Instant::ZERO, Answer::Accepted(vec![receipt]));
                }
                Step::Ask(_) => session.answer(Instant::ZERO, Answer::Continue),
                Step::Flush => session.output().clear(),
                Step::NeedInput if at == input.len() => break,
                Step::NeedInput => {}
                step => bail!("the session wants {step:?}: {:?}", String::from_utf8_lossy(session.output())),
            }
        }
        session.output().clear();
    }
    ensure!(accepted == count, "{accepted} of {count} transactions were accepted");
    Ok(())
}

fn inject(count: u32) -> anyhow::Result<()> {
    let request = serde_json::json!({
        "envelope_sender": "a@from.test",
        "recipients": [{"email": "b@to.test"}],
        "content": String::from_utf8(content())?,
    });
    let request = request.to_string();
    let mut ids = IdGenerator::new([1; 6], 1);
    let mut octets = 0;
    for number in 0..count {
        let injection: Injection = serde_json::from_str(&request)?;
        let generator = Generator::new(&injection, u64::from(number))?;
        let sealed = generator.draft(0, ids.next(NOW), Meta::new(), NOW)?.seal();
        octets += black_box(sealed).body.len();
    }
    ensure!(octets == count as usize * (content().len() - HEAD.len()), "{octets} octets of content were made");
    Ok(())
}

fn append(count: u32) -> anyhow::Result<()> {
    let mut last = 7_u64;
    let nonces = Box::new(move || {
        last = last.wrapping_mul(NONCES).wrapping_add(1);
        last
    });
    let (mut log, _) = SegmentLog::open(Forgetful::default(), spool::Settings::default(), nonces)?;
    let mut ids = IdGenerator::new([1; 6], 1);
    let (envelope, content) = (envelope()?, Bytes::from(content()));
    for _ in 0..count {
        let draft = Draft::new(ids.next(NOW), envelope.clone(), Meta::new(), content.clone().into(), NOW);
        let durable = log.commit(&Batch { appends: vec![vec![draft.seal()]], marks: Vec::new() })?;
        let id = durable.first().context("one message, no receipt")?.id();
        log.commit(&Batch { appends: Vec::new(), marks: vec![Mark::Removed { id }] })?;
    }
    let appended = log.stats().commits;
    ensure!(appended >= u64::from(count), "{appended} commits for {count} messages");
    Ok(())
}

fn settle(count: u32) -> anyhow::Result<()> {
    let (now, config) = (Now { mono: Instant::ZERO, wall: NOW }, QueueConfig::default());
    let mut ids = IdGenerator::new([1; 6], 1);
    let outcome = |recipient, verdict, reply: &str| Outcome {
        recipient,
        verdict,
        reply: Reply::new(if verdict == Verdict::Delivered { 250 } else { 451 }, reply),
        command: None,
    };
    for number in 0..count {
        let mut message = Message { recipients: 2, size: 10_240, ..Message::bare(ids.next(NOW), NOW) };
        let first = vec![outcome(0, Verdict::Delivered, "2.0.0 Ok"), outcome(1, Verdict::Transient, "4.2.0 try later")];
        let Settlement { next, newly_settled, .. } = decide(&mut message, first, &config, now, u64::from(number));
        ensure!(matches!(next, Next::Retry(_)) && newly_settled == [0], "a recipient who was put off waits: {next:?}");
        let second = decide(&mut message, vec![outcome(1, Verdict::Delivered, "2.0.0 Ok")], &config, now, 1);
        ensure!(second.next == Next::Done && second.entries.len() == 1, "the last is delivered: {second:?}");
        black_box(second);
    }
    Ok(())
}

fn queue(count: u32) -> anyhow::Result<()> {
    let (mut queues, mut ids) = (QueuePass::new(NOW), IdGenerator::new([1; 6], 1));
    for _ in 0..count {
        queues.admit(&mut ids);
        queues.hand_out()?;
    }
    Ok(())
}

fn send(count: u32, text: Text) -> anyhow::Result<()> {
    let mut session = smtp_client::Session::new(Instant::ZERO, Arc::new(smtp_client::Settings::default()));
    let content = Bytes::from(text.content());
    // As they are when they were received by DATA.
    let lines = lines_of(&content[HEAD.len()..]);
    let is_dotted = matches!(lines, Lines::Dotted(Some(_)));
    ensure!(is_dotted == matches!(text, Text::Dotted), "dots are not where they should be: {lines:?}");
    let mut sent = 0;
    let mut begun = 0;
    session.feed(Instant::ZERO, b"220 peer.test\r\n");
    loop {
        match session.next(Instant::ZERO) {
            smtp_client::Step::Send => answer(&mut session),
            smtp_client::Step::Ready if begun == count => break,
            smtp_client::Step::Ready => {
                begun += 1;
                session.begin(Instant::ZERO, job(u64::from(begun), &content, lines.clone())?);
            }
            smtp_client::Step::Outcome(outcome) => {
                sent += u32::from(outcome.results.iter().all(|r| r.verdict == smtp_client::Verdict::Delivered));
            }
            step => bail!("the session wants {step:?} in {:?}", session.phase()),
        }
    }
    ensure!(sent == count, "{sent} of {count} messages were delivered");
    Ok(())
}

/// A peer that takes everything: replies to the command lines, and one to the content.
fn answer(session: &mut smtp_client::Session) {
    let mut replies: Vec<u8> = Vec::new();
    let mut last = [0; 5];
    let output = session.output();
    while output.has_remaining() {
        let chunk = output.chunk();
        // The content's own lines are none of these.
        for line in chunk.split_inclusive(|octet| *octet == b'\n').take(COMMANDS_MAX) {
            replies.extend_from_slice(match line {
                [b'E', b'H', ..] => b"250-peer.test\r\n250-PIPELINING\r\n250 8BITMIME\r\n",
                b"DATA\r\n" => b"354 go on\r\n",
                [b'M', b'A', b'I', b'L', ..] | [b'R', b'C', b'P', b'T', ..] | b"RSET\r\n" => b"250 ok\r\n",
                _ => b"",
            });
        }
        for octet in &chunk[chunk.len().saturating_sub(5)..] {
            last.rotate_left(1);
            last[4] = *octet;
        }
        let length = chunk.len();
        output.advance(length);
    }
    if &last == b"\r\n.\r\n" {
        replies.extend_from_slice(b"250 taken\r\n");
    }
    session.feed(Instant::ZERO, &replies);
}

fn job(ticket: u64, content: &Bytes, lines: Lines) -> anyhow::Result<Job> {
    Ok(Job {
        ticket,
        sender: ReversePath(Some(Mailbox::parse("a@from.test")?)),
        recipients: vec![Mailbox::parse("b@to.test")?],
        dsn: None,
        requiretls: false,
        head: content.slice(..HEAD.len()),
        body: Body::known(content.slice(HEAD.len()..), lines, true),
        needs_8bit: false,
        needs_smtputf8: false,
    })
}

fn log(count: u32) -> anyhow::Result<()> {
    let at = Timestamp::from_unix_seconds(NOW.unix_secs());
    let reply = Response::new(250, Some(EnhancedCode::new(2, 0, 0)), "ok, queued as 123456789");
    let mut record = LogRecord::new(RecordType::Delivery, at, at, reply);
    record.id = "0123456789abcdef0123456789abcdef".to_owned();
    record.sender = "a@from.test".to_owned();
    record.recipient = Recipients(vec!["b@to.test".to_owned()]);
    record.queue = "tenant@to.test".into();
    record.site = "unspecified->mx.to.test@smtp_client".into();
    let mut line = Vec::new();
    for _ in 0..count {
        line.clear();
        black_box(&record).write_json_line(&mut line);
    }
    ensure!(count == 0 || line.ends_with(b"}\n"), "no line was written");
    Ok(())
}

fn policy(count: u32, text: &str) -> anyhow::Result<()> {
    let folder = std::env::temp_dir().join(format!("postrider-pieces-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let file = folder.join("policy.lua");
    let loaded = std::fs::write(&file, text).map_err(anyhow::Error::from).and_then(|()| Ok(LuaPolicy::load(&file)?));
    std::fs::remove_dir_all(&folder)?;
    let (policy, _) = loaded?;
    let content = Bytes::from(content());
    let mut ids = IdGenerator::new([1; 6], 1);
    for _ in 0..count {
        let draft = Draft::new(ids.next(NOW), envelope()?, Meta::new(), content.clone().into(), NOW);
        let answer = pin!(policy.smtp_server_message_received(draft, ConnMeta::new()));
        let mut answer = answer;
        let Poll::Ready(answer) = answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
            bail!("the handler waits");
        };
        ensure!(answer?.meta.get("tenant").is_some(), "the handler did nothing");
    }
    Ok(())
}

fn sign(count: u32) -> anyhow::Result<()> {
    let key = Arc::new(SigningKey::from_pem_or_der(include_bytes!(
        "../../../crates/sender-auth/tests/keys/ed25519-pkcs8.pem"
    ))?);
    let signer =
        Signer::new(SignerParams::new("from.test", "s1", &["From", "To", "Subject", "Date", "Message-ID"], key))?;
    let content = content();
    let mut scratch = Scratch::new();
    for _ in 0..count {
        let block = HeaderBlock::parse(&content);
        let body = &content[block.body_start()..];
        black_box(signer.sign(1_790_000_000, block.view(&content), body, &BodyHashes::new(), &mut scratch)?);
    }
    Ok(())
}

fn envelope() -> anyhow::Result<Envelope> {
    Ok(Envelope {
        sender: ReversePath(Some(Mailbox::parse("a@from.test")?)),
        recipients: vec![Mailbox::parse("b@to.test")?],
        dsn: None,
        tls: TlsDemand::Usual,
    })
}

/// What a message's content is like; its lines end with CRLF.
#[derive(Clone, Copy)]
enum Text {
    Plain,
    Dotted,
    EightBit,
    Large,
}

impl Text {
    fn content(self) -> Vec<u8> {
        let octets = if let Text::Large = self { 10 * CONTENT_OCTETS } else { CONTENT_OCTETS };
        let mut content = HEAD.as_bytes().to_vec();
        for number in 0.. {
            if content.len() >= octets {
                break;
            }
            content.extend_from_slice(match self {
                // As who sends by DATA doubles it; what is received has one.
                Text::Dotted if number % DOTTED == 0 => {
                    b"..The quick brown fox jumps over the lazy dog and runs far away from her\r\n"
                }
                Text::EightBit => {
                    "The quick brown fox jumps over the l\u{e4}zy dog and runs far away from her.\r\n".as_bytes()
                }
                _ => b"The quick brown fox jumps over the lazy dog and runs far away from here.\r\n",
            });
        }
        content
    }
}

/// Ten kilobytes of mail.
fn content() -> Vec<u8> {
    Text::Plain.content()
}

const HEAD: &str = "From: Sender <a@from.test>\r\nTo: Recipient <b@to.test>\r\nSubject: a message\r\n\
    Date: Sun, 22 Nov 2026 10:00:00 +0000\r\nMessage-ID: <0123456789@from.test>\r\nMIME-Version: 1.0\r\n\
    Content-Type: text/plain; charset=utf-8\r\nX-Tenant: news\r\n\r\n";
const POLICY: &str = "local kumo = require 'kumo'\n\
    kumo.on('smtp_server_message_received', function(msg)\n\
      msg:set_meta('tenant', msg:get_first_named_header_value 'X-Tenant')\n\
      msg:set_meta('queue', msg:recipient().domain)\n\
    end)\n";
const CALLS: &str = "local kumo = require 'kumo'\n\
    kumo.on('smtp_server_message_received', function(msg)\n\
      local sender, recipient = msg:sender(), msg:recipient()\n\
      msg:set_meta('tenant', msg:get_first_named_header_value 'X-Tenant')\n\
      msg:set_meta('campaign', msg:get_first_named_header_value 'Subject')\n\
      msg:prepend_header('X-Way', sender.domain .. ' ' .. recipient.domain)\n\
      msg:remove_x_headers { 'x-tenant' }\n\
      msg:set_meta('id', msg:id())\n\
    end)\n";
/// A state serves one event.
const STATE: &str = "local kumo = require 'kumo'\n\
    kumo.on('pre_init', function() kumo.set_max_lua_context_use_count(1) end)\n\
    require('policy-extras.sources'):setup { { source = { s = { source_address = '127.0.0.1' } }, pool = { p = { s = {} } } } }\n\
    local sign = require('policy-extras.dkim_sign'):setup {\n\
      { base = { selector = 's', headers = { 'From' } }, domain = { ['other.test'] = {} } } }\n\
    local shaper = require('policy-extras.shaping'):setup_with_automation { no_default_files = true, extra_files = {} }\n\
    local queues = require('policy-extras.queue'):setup { { tenant_header = 'X-Tenant', tenant = { news = {} } } }\n\
    kumo.on('get_listener_domain', require('policy-extras.listener_domains'):setup { { ['*'] = { relay_to = false } } })\n\
    kumo.on('get_egress_path_config', shaper.get_egress_path_config)\n\
    kumo.on('smtp_server_message_received', function(msg) queues:apply(msg) sign(msg) end)\n";
/// Multiplier of the generator of nonces.
const NONCES: u64 = 6_364_136_223_846_793_005;
/// Commands in one write, at most.
const COMMANDS_MAX: usize = 8;
/// One line of so many begins with a dot.
const DOTTED: usize = 42;
/// Octets of the message, about.
const CONTENT_OCTETS: usize = 10_240;
const NOW: WallTime = WallTime::from_unix_secs(1_790_000_000);
