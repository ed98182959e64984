//! Whoever takes messages by calls instead of a session of commands: one variant a protocol.
//!
//! In: an opening; then batches of lent messages. Out: one answer for each recipient, or one for all. An answer is never
//! an error to the caller: what failed says whether the message, or the session too, is over. Blocks nothing and waits
//! for nobody on its own account: the deadline of every call is the caller's, who may drop it half-way.

use crate::egress::carriage::Carriage;
use crate::egress::connection::InHand;
use crate::egress::courier::CourierCarrier;
use crate::egress::deferred::DeferredCarrier;
use crate::egress::generator::GeneratorCarrier;
use crate::egress::maildir::MaildirCarrier;
use crate::egress::xfer::XferCarrier;
use crate::engine::Engine;
use crate::settle::Handover;
use message::Draft;
use queue::Verdict;
use smtp_wire::Reply;
use std::sync::Arc;
use std::time::Duration;

/// One session's other end.
pub(crate) enum Carrier {
    /// A connection object of the policy.
    Courier(CourierCarrier),
    /// Folders on this machine.
    Maildir(MaildirCarrier),
    /// Another node.
    Xfer(XferCarrier),
    /// Messages of a request.
    Generator(GeneratorCarrier),
    /// Policy, about messages it has not seen.
    Deferred(DeferredCarrier),
}

/// A message on loan, and the scheduled queue it is from.
pub(crate) struct Lent {
    pub draft: Draft,
    pub queue: Arc<str>,
}

/// How many messages a call takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batches {
    /// At most.
    pub most: usize,
    /// So many are not kept waiting for more.
    pub enough: usize,
    /// How long fewer are.
    pub latency: Duration,
}

/// What a call came to.
pub(crate) struct Carried {
    pub answers: Answers,
    /// The session cannot go on.
    pub is_over: bool,
}

/// What became of the recipients.
pub(crate) enum Answers {
    /// The same of all of them.
    Same(Verdict, Reply),
    /// In the order of messages and of their recipients.
    Each(Vec<Vec<(Verdict, Reply)>>),
    /// All messages go to the queue of this label, and the spool has them so.
    Moved(String),
}

impl Carrier {
    /// Begins a session of calls that may take so long; the reply is why there is none. SMTP has sessions of its own.
    pub async fn open(engine: &Engine, carriage: &Carriage, call_max: Duration) -> Result<Carrier, Reply> {
        match carriage {
            Carriage::Smtp { .. } => Err(Reply::new(451, "4.3.5 KumoMTA internal: SMTP takes no messages by calls")),
            Carriage::CustomLua { protocol, parts } => {
                CourierCarrier::open(engine, protocol, (**parts).clone()).await.map(Carrier::Courier)
            }
            Carriage::Maildir(template) => {
                Ok(Carrier::Maildir(MaildirCarrier::new(engine, template.clone(), call_max)))
            }
            Carriage::Generator => Ok(Carrier::Generator(GeneratorCarrier)),
            Carriage::Deferred => Ok(Carrier::Deferred(DeferredCarrier)),
            Carriage::Xfer(target) => XferCarrier::open(engine, target).await.map(Carrier::Xfer),
        }
    }

    /// What records call it.
    pub fn delivery_protocol(&self) -> &'static str {
        match self {
            Carrier::Courier(_) => "Lua",
            Carrier::Maildir(_) => "Maildir",
            Carrier::Xfer(_) => "xfer",
            Carrier::Generator(_) => "HttpInjectionGenerator",
            Carrier::Deferred(_) => "DeferredSmtpInjection",
        }
    }

    /// What a delivery by it means to the sender.
    pub fn handover(&self) -> Handover {
        match self {
            Carrier::Courier(_) | Carrier::Generator(_) | Carrier::Deferred(_) => Handover::Relay,
            Carrier::Maildir(_) => Handover::Final,
            Carrier::Xfer(_) => Handover::Xfer,
        }
    }

    /// How many messages it wants at once.
    pub fn batches(&self) -> Batches {
        match self {
            Carrier::Courier(courier) => courier.batches(),
            Carrier::Maildir(_) | Carrier::Xfer(_) | Carrier::Generator(_) | Carrier::Deferred(_) => {
                Batches { most: 1, enough: 1, latency: Duration::ZERO }
            }
        }
    }

    /// Between attempts, where that is not what the queue says.
    pub fn retry_interval(&self) -> Option<Duration> {
        match self {
            Carrier::Courier(_) | Carrier::Xfer(_) | Carrier::Generator(_) | Carrier::Deferred(_) => None,
            Carrier::Maildir(_) => Some(MaildirCarrier::RETRY_INTERVAL),
        }
    }

    /// Hands messages over that stand in hand, at least one and no more than it wants.
    pub async fn carry(&mut self, engine: &Engine, in_hand: &InHand, messages: Vec<Lent>) -> Carried {
        match self {
            Carrier::Courier(courier) => courier.carry(messages).await,
            Carrier::Maildir(maildir) => maildir.carry(messages).await,
            Carrier::Xfer(xfer) => xfer.carry(engine, in_hand, messages).await,
            Carrier::Generator(generator) => generator.carry(engine, messages).await,
            Carrier::Deferred(deferred) => deferred.carry(engine, in_hand, messages).await,
        }
    }

    /// Ends the session.
    pub async fn close(self, engine: &Engine) {
        match self {
            Carrier::Courier(courier) => courier.close().await,
            Carrier::Xfer(node) => node.close(engine).await,
            Carrier::Maildir(_) | Carrier::Generator(_) | Carrier::Deferred(_) => {}
        }
    }
}

impl Answers {
    /// What became of one recipient of one message.
    pub fn of(&self, message: usize, recipient: usize) -> Option<(Verdict, &Reply)> {
        match self {
            Answers::Same(verdict, reply) => Some((*verdict, reply)),
            Answers::Moved(_) => None,
            Answers::Each(all) => all.get(message)?.get(recipient).map(|(verdict, reply)| (*verdict, reply)),
        }
    }

    /// True when somebody was told yes, or no for good: then the destination takes mail.
    pub fn show_life(&self) -> bool {
        match self {
            Answers::Same(verdict, _) => *verdict != Verdict::Transient,
            Answers::Moved(_) => true,
            Answers::Each(all) => all.iter().flatten().any(|(verdict, _)| *verdict != Verdict::Transient),
        }
    }
}

impl Carried {
    /// The session broke: everything in hand waits for its retry.
    pub fn broken(reply: Reply) -> Carried {
        Carried { answers: Answers::Same(Verdict::Transient, reply), is_over: true }
    }
}
