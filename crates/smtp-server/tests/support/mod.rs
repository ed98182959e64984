//! Runs a transcript against a session, its input cut in any way.
//!
//! The runner is the driver the session expects: it feeds, does what `next` says, answers
//! questions from the transcript's `P:` lines in order, and compares what the server said.

pub mod script;

use clock::{Duration, Instant};
use message::{MessageId, TlsDemand};
use script::{Event, Script, escape, unescape};
use smtp_server::{Answer, Disconnect, Identity, Question, Rejection, Session, Step, TlsInfo};
use smtp_wire::Reply;
use spool::Receipt;
use spool::Volatile;
use std::collections::VecDeque;
use std::sync::Arc;

/// How the client's octets arrive.
#[derive(Clone, Copy, Debug)]
pub enum Pieces {
    /// Every group of `C:` lines at once.
    Whole,
    /// In two pieces at this octet, counted over the whole transcript.
    CutAt(usize),
    /// Octet by octet.
    Single,
}

/// Runs the transcript; the error tells what differed.
pub fn run(script: &Script, pieces: Pieces) -> Result<(), String> {
    let mut runner = Runner::new(script);
    runner.pump()?;
    let mut sent = 0;
    for event in &script.events {
        match event {
            Event::Client(octets) => {
                runner.deliver(octets, pieces, sent)?;
                sent += octets.len();
            }
            Event::Server(line) => runner.expect_server(line)?,
            Event::Wait(seconds) => runner.wait(*seconds)?,
            Event::Tls => runner.handshake()?,
            Event::Admit(admission) => runner.session.set_admission(*admission),
            Event::Shed(expected) => {
                if runner.session.shed() != *expected {
                    return Err(format!("shed was expected to say {expected}"));
                }
                runner.pump()?;
            }
            Event::Stop => {
                runner.session.shutdown(runner.now);
                runner.pump()?;
            }
            Event::EarlyTalk => {
                runner.session.early_talk(runner.now);
                runner.pump()?;
            }
            Event::Closed if runner.closed => {}
            Event::Closed => return Err("the session is still open".to_owned()),
        }
    }
    runner.finish(script)
}

struct Runner {
    session: Session,
    now: Instant,
    unread: Vec<u8>,
    said: Vec<u8>,
    policy: VecDeque<(Vec<u8>, String)>,
    rejections: Vec<Rejection>,
    ids: u8,
    tls_due: bool,
    closed: bool,
}

impl Runner {
    fn new(script: &Script) -> Runner {
        let now = Instant::from_micros(1_000_000);
        let peer = "192.0.2.1:4000".parse().expect("address");
        let local = "192.0.2.2:25".parse().expect("address");
        Runner {
            session: Session::new(now, peer, local, Arc::new(script.settings.clone())),
            now,
            unread: Vec::new(),
            said: Vec::new(),
            policy: script.policy.iter().cloned().collect(),
            rejections: Vec::new(),
            ids: 0,
            tls_due: false,
            closed: false,
        }
    }

    fn deliver(&mut self, octets: &[u8], pieces: Pieces, sent: usize) -> Result<(), String> {
        let cut = match pieces {
            Pieces::Whole => 0,
            Pieces::CutAt(at) => at.saturating_sub(sent).min(octets.len()),
            Pieces::Single => {
                return octets.chunks(1).try_for_each(|octet| self.deliver(octet, Pieces::Whole, 0));
            }
        };
        for piece in [&octets[..cut], &octets[cut..]] {
            self.unread.extend_from_slice(piece);
            self.pump()?;
        }
        Ok(())
    }

    fn pump(&mut self) -> Result<(), String> {
        while !self.closed && !self.tls_due {
            let used = self.session.feed(self.now, &self.unread);
            self.unread.drain(..used);
            match self.session.next(self.now) {
                Step::Ask(question) => {
                    let answer = self.answer_to(question)?;
                    self.session.answer(self.now, answer);
                }
                Step::Flush => self.flush(),
                Step::NeedInput => {
                    self.flush();
                    return Ok(());
                }
                Step::StartTls => {
                    self.flush();
                    self.tls_due = true;
                }
                Step::Close => {
                    self.flush();
                    self.closed = true;
                }
            }
        }
        Ok(())
    }

    fn flush(&mut self) {
        self.said.append(self.session.output());
        self.rejections.append(&mut self.session.take_rejections());
    }

    fn wait(&mut self, seconds: u64) -> Result<(), String> {
        self.now = self.now + Duration::from_secs(seconds);
        self.session.expire(self.now);
        self.pump()
    }

    fn handshake(&mut self) -> Result<(), String> {
        if !self.tls_due || !self.unread.is_empty() {
            return Err(format!("no handshake is due, unread: {}", escape(&self.unread)));
        }
        self.tls_due = false;
        self.session.tls_started(self.now, TlsInfo::default());
        self.pump()
    }

    fn expect_server(&mut self, line: &[u8]) -> Result<(), String> {
        if !self.said.starts_with(line) {
            return Err(format!("expected S: {}but the server said {}", escape(line), escape(&self.said)));
        }
        self.said.drain(..line.len());
        Ok(())
    }

    fn finish(self, script: &Script) -> Result<(), String> {
        let closed_expected = script.events.iter().any(|event| matches!(event, Event::Closed));
        if self.closed != closed_expected {
            return Err("the session closed and no CLOSED line says so".to_owned());
        }
        if !self.said.is_empty() {
            return Err(format!("the server said too much: {}", escape(&self.said)));
        }
        if let Some((question, _)) = self.policy.front() {
            return Err(format!("never asked: {}", escape(question)));
        }
        let rejections: Vec<String> = self.rejections.iter().map(show_rejection).collect();
        match script.rejections.is_empty() || script.rejections == rejections {
            true => Ok(()),
            false => Err(format!("rejections {rejections:#?}, expected {:#?}", script.rejections)),
        }
    }

    fn answer_to(&mut self, question: Question) -> Result<Answer, String> {
        let asked = show_question(&question);
        let Some((expected, answer)) = self.policy.pop_front() else {
            return Err(format!("unexpected question: {}", escape(&asked)));
        };
        if asked != expected {
            return Err(format!("asked {} instead of {}", escape(&asked), escape(&expected)));
        }
        let (word, rest) = answer.split_once(' ').unwrap_or((&answer, ""));
        let reject = |disconnect| {
            let (code, text) = rest.split_once(' ').unwrap_or((rest, ""));
            let text = String::from_utf8_lossy(&unescape(text)).into_owned();
            Answer::Reject { reply: Reply::new(code.parse().expect("code"), &text), disconnect }
        };
        Ok(match word {
            "continue" => Answer::Continue,
            "extensions" => Answer::Extensions(
                rest.split(',').map(|e| String::from_utf8_lossy(&unescape(e.trim())).into_owned()).collect(),
            ),
            "anew" => Answer::Anew(Arc::new(self.session.settings().clone())),
            "yes" => Answer::Authenticated(Identity { authz: "z".into(), authc: "c".into() }),
            "no" => Answer::NotAuthenticated,
            "accept" => Answer::Accepted((0..rest.parse().unwrap_or(1)).map(|_| self.receipt()).collect()),
            "reject" => reject(Disconnect::If421),
            "reject+421" => reject(Disconnect::FollowWith421),
            "reject+close" => reject(Disconnect::ForceDisconnect),
            other => return Err(format!("transcript error: unknown answer {other}")),
        })
    }

    fn receipt(&mut self) -> Receipt {
        self.ids = self.ids.wrapping_add(1);
        Receipt::Volatile(Volatile::by_operator_choice(MessageId::from_bytes([self.ids; 16])))
    }
}

fn show_question(question: &Question) -> Vec<u8> {
    let text = match question {
        Question::ConnectionAccepted => "connection".to_owned(),
        Question::Ehlo { domain, extended: false, .. } => format!("helo {domain}"),
        Question::Ehlo { domain, extensions, .. } => format!("ehlo {domain} [{}]", extensions.join(", ")),
        Question::AuthPlain { authz, authc, password } => format!("auth {authz}/{authc}/{password}"),
        Question::XClient { peer, local } => format!("xclient {peer} {local}"),
        Question::MailFrom { sender, params } => {
            let size = params.size.map_or(String::new(), |octets| format!(" size={octets}"));
            format!("mail <{sender}>{size}{}", if params.smtputf8 { " smtputf8" } else { "" })
        }
        Question::RcptTo { sender, recipient, .. } => format!("rcpt <{sender}> <{recipient}>"),
        Question::Data(transaction) => {
            let envelope = &transaction.envelope;
            let dsn = envelope.dsn.as_deref();
            let of_mail = dsn.map(|dsn| dsn.mail_text()).unwrap_or_default();
            let of_rcpt = |r: usize| dsn.map(|dsn| dsn.rcpt_text(r)).unwrap_or_default();
            let recipients = envelope.recipients.iter().enumerate();
            let recipients: Vec<String> = recipients.map(|(i, r)| format!("<{r}>{}", of_rcpt(i))).collect();
            let tls = if envelope.tls == TlsDemand::Required { " REQUIRETLS" } else { "" };
            let head = format!("data <{}>{of_mail}{tls} {} ", envelope.sender, recipients.join(","));
            return [head.as_bytes(), &transaction.content].concat();
        }
    };
    text.into_bytes()
}

fn show_rejection(rejection: &Rejection) -> String {
    let sender = rejection.sender.as_ref().map_or("-".to_owned(), |sender| format!("<{sender}>"));
    let recipients: Vec<String> = rejection.recipients.iter().map(|r| format!("<{r}>")).collect();
    let recipients = if recipients.is_empty() { "-".to_owned() } else { recipients.join(",") };
    format!("{} | {} | {sender} | {recipients}", rejection.reply.to_single_line(), rejection.command)
}
