//! How a ready queue delivers: its protocol, settled with the route.
//!
//! One variant a protocol. Made by `routing`, kept in the ready queue's `Destination`, looked at when a connection opens:
//! `connection` drives SMTP, `round` everything that takes messages by calls. A new protocol of that kind is a variant
//! here, its line in [`Carriage::of`] and a variant of `Carrier`; queues, limits, orders and records need not know of it.

use crate::egress::maildir::place::{PlaceError, Template};
use config::{CustomLuaProtocol, QueueProtocol};
use message::TlsDemand;
use policy::QueueParts;
use queue::{Destination, QueueName};
use route::MailExchangers;
use std::sync::Arc;

/// What connections of a ready queue do.
#[derive(Debug)]
pub(crate) enum Carriage {
    /// ESMTP or LMTP.
    Smtp {
        /// Where to.
        hosts: Arc<MailExchangers>,
        /// What the senders of all messages on this way demand.
        tls: TlsDemand,
    },
    /// To a connection object of the policy.
    CustomLua {
        /// Its constructor and its batches.
        protocol: Box<CustomLuaProtocol>,
        /// The constructor's arguments: of the queue for which the route was found (KumoMTA behaviour: one of them).
        parts: Box<QueueParts>,
    },
    /// Into Maildirs.
    Maildir(Arc<Template>),
    /// To the node at this URL.
    Xfer(String),
    /// Into the messages that a request asks for.
    Generator,
    /// Past policy, into the queue that it names.
    Deferred,
}

impl Carriage {
    /// The way of a queue whose protocol needs no look-up of hosts; `None` for SMTP and what is not built yet.
    pub fn of(protocol: &QueueProtocol, queue: QueueName) -> Result<Option<Carriage>, PlaceError> {
        match protocol {
            QueueProtocol::CustomLua(lua) => {
                Ok(Some(Carriage::CustomLua { protocol: Box::new(lua.clone()), parts: Box::new(parts_of(queue)) }))
            }
            QueueProtocol::Maildir(maildir) => Ok(Some(Carriage::Maildir(Arc::new(Template::new(maildir)?)))),
            QueueProtocol::Xfer(xfer) => Ok(Some(Carriage::Xfer(xfer.target.clone()))),
            QueueProtocol::HttpInjectionGenerator => Ok(Some(Carriage::Generator)),
            QueueProtocol::DeferredSmtpInjection => Ok(Some(Carriage::Deferred)),
            QueueProtocol::Smtp(_) | QueueProtocol::Null => Ok(None),
        }
    }

    /// The hosts of an SMTP destination.
    pub fn exchangers(destination: &Destination) -> Option<Arc<MailExchangers>> {
        match &*destination.hosts::<Carriage>()? {
            Carriage::Smtp { hosts, .. } => Some(hosts.clone()),
            Carriage::CustomLua { .. }
            | Carriage::Maildir(_)
            | Carriage::Xfer(_)
            | Carriage::Generator
            | Carriage::Deferred => None,
        }
    }

    /// What the senders of its messages demand. Where no server follows there is nothing to demand of it.
    pub fn tls_demand(destination: &Destination) -> TlsDemand {
        match destination.hosts::<Carriage>().as_deref() {
            Some(Carriage::Smtp { tls, .. }) => *tls,
            _ => TlsDemand::Usual,
        }
    }
}

/// A queue's name, taken apart as policy sees it.
pub(crate) fn parts_of(name: QueueName) -> QueueParts {
    let QueueName { campaign, tenant, domain, routing_domain } = name;
    QueueParts { domain, tenant, campaign, routing_domain }
}
