//! An operator's order about queued mail: suspend, bounce, flush, and whose mail it is about.
//!
//! A noun and its questions; what carries it out is in `orders`. An order concerns the messages that were accepted
//! before it was given, and until it expires those accepted later too. Knows nothing of how it is stored.

use crate::name::QueueName;
use clock::WallTime;
use message::MessageId;
use std::collections::{BTreeMap, BTreeSet};

/// One order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Its identity: the 16 octets of a UUID.
    pub id: OrderId,
    /// What to do, and to what.
    pub action: Action,
    /// In the operator's words; part of what is logged for a bounced message.
    pub reason: String,
    /// When it was given.
    pub given: WallTime,
    /// When it is over. A bounce or flush of what was there when it was given is carried out to its end all the same.
    pub expires: WallTime,
    /// Bounces write no log records.
    pub suppress_logging: bool,
    /// It holds after a restart too.
    pub survives_restart: bool,
}

/// An order's identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OrderId(pub [u8; 16]);

/// What an order does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Messages of these scheduled queues wait (`Why::ReadyQueueWasSuspended`); no attempt is counted.
    Suspend(Criteria),
    /// Messages of these scheduled queues end with 551 5.7.1 and an `AdminBounce` record.
    Bounce(Criteria),
    /// Messages leave these scheduled queues and stand aside until the order ends (Postfix's hold). They do not expire, and other
    /// orders leave them alone unless they name them.
    Hold(Criteria),
    /// Messages that wait for their time in these scheduled queues are due now.
    Flush(Criteria),
    /// Messages of these scheduled queues are changed, and with that go to another queue perhaps. Only what is there when
    /// the order is given; what a connection has in hand stays as it is, but for [`Change::CancelXfer`].
    Rebind(Rebinding),
    /// The ready queue of this name sends nothing; its messages go to other sources of their pools, or wait.
    SuspendReady(String),
}

/// What is done to messages that are moved by order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rebinding {
    /// Which.
    pub criteria: Criteria,
    /// What is done to them.
    pub change: Change,
    /// They are due now even when their queue stays the same.
    pub always_flush: bool,
}

/// How an order changes a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It gets this metadata, by name.
    Set(BTreeMap<String, String>),
    /// Policy changes it (`rebind_message`), and is told this.
    Ask(BTreeMap<String, String>),
    /// It goes to the node at this URL ([`crate::xfer`]).
    Xfer(String),
    /// It does not go to another node after all; one that a connection has in hand, when it comes back within 15 minutes.
    CancelXfer {
        /// Nor does one that the other node was handed: that node is gone for good.
        node_is_gone: bool,
    },
}

/// Which scheduled queues. What is `None` says nothing, so a criteria of nothing is everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Criteria {
    /// Campaign of the queue's name.
    pub campaign: Option<String>,
    /// Tenant of the queue's name.
    pub tenant: Option<String>,
    /// Domain of the queue's name, in any case.
    pub domain: Option<String>,
    /// Routing domain of the queue's name, in any case.
    pub routing_domain: Option<String>,
    /// Queues by their whole names; when there are any, none of the above counts (KumoMTA behaviour).
    pub queue_names: BTreeSet<String>,
    /// Of these queues, only messages with one of these ids.
    pub messages: BTreeSet<MessageId>,
}

impl Order {
    /// Whether it is about this message of a queue it names, accepted at `accepted`, now.
    pub fn concerns(&self, id: MessageId, accepted: WallTime, now: WallTime) -> bool {
        let in_time = now < self.expires || (self.is_about_messages() && accepted <= self.given);
        in_time && self.criteria().is_some_and(|c| c.messages.is_empty() || c.messages.contains(&id))
    }

    /// The scheduled queues it is about; `None` when it is about a ready queue.
    pub fn criteria(&self) -> Option<&Criteria> {
        self.action.criteria()
    }

    /// True when it is carried out on the messages that are there although it has expired.
    pub fn is_about_messages(&self) -> bool {
        matches!(self.action, Action::Bounce(_) | Action::Flush(_) | Action::Rebind(_))
    }

    /// True when messages leave their queues for its sake.
    pub fn takes_messages(&self) -> bool {
        self.ends_messages() || matches!(self.action, Action::Hold(_))
    }

    /// True when they leave for good.
    pub fn ends_messages(&self) -> bool {
        matches!(self.action, Action::Bounce(_) | Action::Rebind(_))
    }

    /// True when it does so also to what another order holds: it names the messages themselves, or brings them home, where who holds
    /// them may go on. Of what was held for a reason nothing is to be lost, or sent, because somebody spoke of a whole queue.
    pub fn ends_held(&self) -> bool {
        let is_named = self.criteria().is_some_and(|criteria| !criteria.messages.is_empty());
        let brings_home = matches!(&self.action, Action::Rebind(Rebinding { change: Change::CancelXfer { .. }, .. }));
        self.ends_messages() && (is_named || brings_home)
    }
}

impl Action {
    /// The scheduled queues it is done to; `None` when it is done to a ready queue.
    pub fn criteria(&self) -> Option<&Criteria> {
        match self {
            Action::Suspend(criteria) | Action::Bounce(criteria) | Action::Hold(criteria) | Action::Flush(criteria) => {
                Some(criteria)
            }
            Action::Rebind(rebinding) => Some(&rebinding.criteria),
            Action::SuspendReady(_) => None,
        }
    }
}

impl Criteria {
    /// Whether the queue of that name is meant.
    pub fn matches(&self, queue: &str) -> bool {
        // Asked of each of a million queues.
        if !self.queue_names.is_empty() {
            return self.queue_names.contains(queue);
        }
        let name = QueueName::split(queue);
        let is = |wanted: &Option<String>, has: Option<&str>| wanted.as_deref().is_none_or(|w| Some(w) == has);
        let is_domain = |wanted: &Option<String>, has: Option<&str>| {
            wanted.as_deref().is_none_or(|w| has.is_some_and(|has| has.eq_ignore_ascii_case(w)))
        };
        is(&self.campaign, name.campaign)
            && is(&self.tenant, name.tenant)
            && is_domain(&self.domain, Some(name.domain))
            && is_domain(&self.routing_domain, name.routing_domain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clock::Duration;

    fn criteria(set: impl FnOnce(&mut Criteria)) -> Criteria {
        let mut criteria = Criteria::default();
        set(&mut criteria);
        criteria
    }

    #[test]
    fn criteria_name_queues() {
        let text = |text: &str| Some(text.to_owned());
        let queue = "spring:shop@Example.com!out.net";
        let rows = [
            (Criteria::default(), true),
            (criteria(|c| c.tenant = text("shop")), true),
            (criteria(|c| c.tenant = text("Shop")), false),
            (criteria(|c| c.domain = text("EXAMPLE.com")), true),
            (criteria(|c| c.domain = text("ample.com")), false),
            (criteria(|c| c.routing_domain = text("OUT.net")), true),
            (criteria(|c| (c.campaign, c.domain) = (text("spring"), text("example.com"))), true),
            (criteria(|c| (c.campaign, c.domain) = (text("autumn"), text("example.com"))), false),
            (criteria(|c| c.queue_names = ["other".into(), queue.into()].into()), true),
            (criteria(|c| (c.queue_names, c.tenant) = (["other".into()].into(), text("shop"))), false),
        ];
        for (criteria, expected) in rows {
            assert_eq!(criteria.matches(queue), expected, "{criteria:?}");
        }
        assert!(!criteria(|c| c.tenant = text("shop")).matches("example.com"), "no tenant is not any tenant");
    }

    #[test]
    fn an_order_is_about_what_was_there_and_what_comes_until_it_expires() {
        let at = WallTime::from_unix_secs;
        let (one, other) = (MessageId::from_bytes([1; 16]), MessageId::from_bytes([2; 16]));
        let mut order = Order {
            id: OrderId([1; 16]),
            action: Action::Bounce(Criteria::default()),
            reason: "test".into(),
            given: at(100),
            expires: at(100) + Duration::from_secs(50),
            suppress_logging: false,
            survives_restart: true,
        };
        assert!(order.concerns(one, at(100), at(1000)) && order.concerns(one, at(149), at(149)));
        assert!(!order.concerns(one, at(149), at(150)));
        order.action = Action::Bounce(criteria(|c| c.messages = [one].into()));
        assert!(order.concerns(one, at(100), at(1000)) && !order.concerns(other, at(100), at(120)));
        order.action = Action::Hold(Criteria::default());
        assert!(order.concerns(one, at(100), at(149)) && !order.concerns(one, at(100), at(150)), "over is over");
    }
}
