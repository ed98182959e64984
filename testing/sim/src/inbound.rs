//! The driver of an inbound session, after the engine's `ingress/session.rs`: feeds, asks
//! policy, writes one batch of replies per batch of commands.

use crate::accept::reject;
use crate::event::{Chunk, ServerEvent};
use crate::plan::SECOND;
use crate::wire;
use crate::world::{Pipe, World};
use clock::Duration;
use message::{MessageId, Sealed};
use smtp_server::{Answer, Question, Session, Settings, Step};
use smtp_wire::Reply;
use std::sync::Arc;

/// A session and its socket.
pub(crate) struct Inbound {
    session: Session,
    unread: Vec<u8>,
    /// The client closed.
    ended: bool,
    /// A question is with policy or the spool.
    asked: bool,
    /// What policy will say.
    answer: Option<Answer>,
    pub accepting: Option<Accepting>,
    /// When a deadline event is due; others are void.
    deadline_at: Option<u64>,
}

/// A transaction on its way through the spool.
pub(crate) struct Accepting {
    /// Queue of each message, in order.
    pub queues: Vec<String>,
    /// Messages of it that are not to be written, and their queues.
    pub deferred: Vec<(Sealed, String)>,
    /// The client was answered already (sabotage).
    pub answered: bool,
}

impl World {
    /// A client connected.
    pub fn begin_inbound(&mut self, session: u64) {
        let mono = self.mono();
        let settings = Settings {
            tls_available: false,
            client_timeout: Duration::from_secs(30),
            data_processing_timeout: Duration::from_secs(20),
            ..Settings::default()
        };
        let peer = ([192, 0, 2, 1], 4000).into();
        let local = ([192, 0, 2, 2], 25).into();
        let session_state = Session::new(mono, peer, local, Arc::new(settings));
        let inbound = Inbound {
            session: session_state,
            unread: Vec::new(),
            ended: false,
            asked: false,
            answer: None,
            accepting: None,
            deadline_at: None,
        };
        let Some(process) = &mut self.process else { return };
        process.inbound.insert(session, inbound);
        self.pump_inbound(session);
    }

    /// Octets, or the end, from the client.
    pub fn inbound_receives(&mut self, session: u64, chunk: Chunk) {
        let Some(inbound) = self.inbound(session) else { return };
        match chunk {
            Chunk::Octets(octets) => inbound.unread.extend(octets),
            Chunk::End => inbound.ended = true,
        }
        self.pump_inbound(session);
    }

    pub fn inbound_deadline(&mut self, session: u64) {
        let mono = self.mono();
        let now = self.now;
        let Some(inbound) = self.inbound(session) else { return };
        if inbound.deadline_at != Some(now) {
            return;
        }
        inbound.deadline_at = None;
        if !inbound.asked {
            let due = inbound.session.deadline() <= mono;
            inbound.session.expire(mono);
            self.report.timeouts += u64::from(due);
            self.pump_inbound(session);
        }
    }

    /// The server is stopping.
    pub fn inbound_stops(&mut self, session: u64) {
        let mono = self.mono();
        let Some(inbound) = self.inbound(session) else { return };
        inbound.session.shutdown(mono);
        self.pump_inbound(session);
    }

    /// Policy has answered.
    pub fn inbound_answered(&mut self, session: u64) {
        let answer = self.inbound(session).and_then(|i| i.answer.take());
        if let Some(answer) = answer {
            self.answer_inbound(session, answer);
        }
    }

    /// The question in hand is answered; the session goes on.
    pub fn answer_inbound(&mut self, session: u64, answer: Answer) {
        let mono = self.mono();
        let ids: Vec<MessageId> = match &answer {
            Answer::Accepted(receipts) => receipts.iter().map(|r| r.id()).collect(),
            _ => Vec::new(),
        };
        let Some(inbound) = self.inbound(session) else { return };
        inbound.asked = false;
        inbound.session.answer(mono, answer);
        // The reply is in the next write, which is in this very event.
        ids.into_iter().for_each(|id| self.ledger.promised(id));
        self.pump_inbound(session);
    }

    fn pump_inbound(&mut self, session: u64) {
        loop {
            let mono = self.mono();
            let Some(inbound) = self.inbound(session).filter(|i| !i.asked) else { return };
            let used = inbound.session.feed(mono, &inbound.unread);
            inbound.unread.drain(..used);
            match inbound.session.next(mono) {
                Step::Ask(question) => {
                    inbound.asked = true;
                    if let Some(answer) = self.ask(session, question) {
                        self.answer_inbound(session, answer);
                        return;
                    }
                }
                Step::Flush => self.flush_inbound(session),
                Step::NeedInput => {
                    let ended = inbound.ended;
                    self.flush_inbound(session);
                    if ended {
                        return self.end_inbound(session);
                    }
                    return self.arm_inbound(session);
                }
                Step::StartTls => return self.ledger.violate("STARTTLS was not offered"),
                Step::Close => {
                    self.flush_inbound(session);
                    return self.end_inbound(session);
                }
            }
        }
    }

    fn flush_inbound(&mut self, session: u64) {
        let Some(inbound) = self.inbound(session) else { return };
        inbound.session.take_rejections();
        let octets = std::mem::take(inbound.session.output());
        self.transmit(Pipe::ToClient, session, octets);
    }

    fn end_inbound(&mut self, session: u64) {
        if let Some(process) = &mut self.process {
            process.inbound.remove(&session);
            self.hang_up(Pipe::ToClient, session);
        }
    }

    fn arm_inbound(&mut self, session: u64) {
        let Some(process) = &mut self.process else { return };
        let Some(inbound) = process.inbound.get(&session) else { return };
        let Some(at) = process.world_time(inbound.session.deadline()) else { return };
        let at = at.max(self.now);
        let Some(inbound) = process.inbound.get_mut(&session) else { return };
        if inbound.deadline_at.is_none_or(|planned| planned > at) {
            inbound.deadline_at = Some(at);
            self.server_soon(at - self.now, ServerEvent::InboundDeadline(session));
        }
    }

    /// Policy's word, at once or later.
    fn ask(&mut self, session: u64, question: Question) -> Option<Answer> {
        let trouble = self.plan.policy_trouble / 2;
        let refused = self.trouble(trouble);
        let answer = match question {
            Question::ConnectionAccepted if refused => reject(Reply::new(451, "4.3.2 not now")),
            Question::MailFrom { .. } if refused => reject(Reply::new(550, "5.7.1 not you")),
            Question::RcptTo { .. } if refused => reject(Reply::new(450, "4.2.1 not them, now")),
            Question::Data(transaction) => {
                let Some(submission) = wire::number_in(&transaction.content) else {
                    self.ledger.violate("a transaction came that no client sent");
                    return None;
                };
                return self.accept(session, submission, *transaction);
            }
            _ => Answer::Continue,
        };
        if self.dice.chance(800) {
            return Some(answer);
        }
        let delay = self.dice.within(0, SECOND);
        self.inbound(session)?.answer = Some(answer);
        self.server_soon(delay, ServerEvent::Answered(session));
        None
    }

    fn inbound(&mut self, session: u64) -> Option<&mut Inbound> {
        self.process.as_mut().and_then(|p| p.inbound.get_mut(&session))
    }
}
