//! Names of scheduled queues: `campaign:tenant@domain!routing_domain` (KumoMTA behaviour).
//!
//! Parsed once, when a message is sealed; inside, a queue is its [`QueueKey`](crate::QueueKey).

use core::fmt;
use message::{Envelope, Meta};
use thiserror::Error;

/// The parsed name; `Display` gives the text back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QueueName {
    /// `c` of `c:t@d`.
    pub campaign: Option<String>,
    /// `t` of `t@d`; `Some("")` for a campaign without tenant, as KumoMTA has it.
    pub tenant: Option<String>,
    /// Recipient domain, lower case, possibly with `:port` or an address literal.
    pub domain: String,
    /// Where to route instead of `domain`.
    pub routing_domain: Option<String>,
}

/// The same as it stands in the text: nothing is copied, and the domain is in the case in which it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameParts<'a> {
    /// `c` of `c:t@d`.
    pub campaign: Option<&'a str>,
    /// `t` of `t@d`.
    pub tenant: Option<&'a str>,
    /// Recipient domain.
    pub domain: &'a str,
    /// Where to route instead.
    pub routing_domain: Option<&'a str>,
}

/// Metadata that should name a queue but cannot.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum QueueNameError {
    /// `queue`, `tenant`, `campaign` or `routing_domain` holds something else than a string.
    #[error("meta `{name}` is {value}: expected a string")]
    NotAString {
        /// Which of the four.
        name: &'static str,
        /// What it holds, as JSON.
        value: String,
    },
    /// No recipient and no `queue`.
    #[error("a message without recipients has no queue")]
    NoRecipient,
    /// A recipient without a domain and nothing else that names a queue, or a `queue` without a name: a start would not find it.
    #[error(
        "a message to {recipient} has a queue without a name: expected a recipient with a domain, or a meta `queue`"
    )]
    NoName {
        /// The first recipient.
        recipient: String,
    },
}

/// The queue whose messages are dropped at reception (KumoMTA behaviour).
pub const NULL_QUEUE: &str = "null";

impl QueueName {
    /// Reads a name.
    pub fn parse(text: &str) -> QueueName {
        let NameParts { campaign, tenant, domain, routing_domain } = QueueName::split(text);
        let owned = |part: Option<&str>| part.map(str::to_owned);
        QueueName {
            campaign: owned(campaign),
            tenant: owned(tenant),
            domain: domain.to_ascii_lowercase(),
            routing_domain: owned(routing_domain),
        }
    }

    /// Splits at the first `@`, then the first `:`, then the first `!`.
    pub fn split(text: &str) -> NameParts<'_> {
        let (prefix, rest) = match text.split_once('@') {
            Some((prefix, rest)) => (Some(prefix), rest),
            None => (None, text),
        };
        let (campaign, tenant) = match prefix.map(|p| p.split_once(':')) {
            None => (None, None),
            Some(None) => (None, prefix),
            Some(Some((campaign, tenant))) => (Some(campaign), Some(tenant)),
        };
        let (domain, routing_domain) = match rest.split_once('!') {
            Some((domain, routing)) => (domain, Some(routing)),
            None => (rest, None),
        };
        NameParts { campaign, tenant, domain, routing_domain }
    }

    /// The text of the queue a message belongs to: meta `queue` verbatim, else built from
    /// campaign, tenant, domain of the first recipient and routing domain.
    pub fn text_for(envelope: &Envelope, meta: &Meta) -> Result<String, QueueNameError> {
        if let Some(queue) = string(meta, "queue")? {
            return named(queue.to_owned(), envelope);
        }
        let campaign = string(meta, "campaign")?;
        let tenant = string(meta, "tenant")?;
        let routing_domain = string(meta, "routing_domain")?;
        let first = envelope.recipients.first().ok_or(QueueNameError::NoRecipient)?;
        let mut text = String::with_capacity(48);
        if let Some(campaign) = campaign {
            text.extend([campaign, ":"]);
        }
        if campaign.is_some() || tenant.is_some() {
            text.extend([tenant.unwrap_or(""), "@"]);
        }
        match first.domain().is_ascii() {
            true => {
                let start = text.len();
                text.push_str(first.domain());
                text[start..].make_ascii_lowercase();
            }
            false => text.extend(first.domain().chars().flat_map(char::to_lowercase)),
        }
        if let Some(routing_domain) = routing_domain {
            text.extend(["!", routing_domain]);
        }
        named(text, envelope)
    }

    /// Where the mail is routed: the routing domain, else the domain.
    pub fn effective_domain(&self) -> &str {
        self.routing_domain.as_deref().unwrap_or(&self.domain)
    }
}

/// A queue's text, unless it is empty. What is behind a NUL in a label of the spool is no part of a name: one that a sender could put
/// there, in a header that says what campaign it is, stands for what cannot be read.
fn named(text: String, envelope: &Envelope) -> Result<String, QueueNameError> {
    match text.is_empty() {
        false if text.as_bytes().contains(&0) => Ok(text.replace('\0', "\u{fffd}")),
        false => Ok(text),
        true => Err(QueueNameError::NoName {
            recipient: envelope.recipients.first().map_or("nobody", |first| first.as_str()).to_owned(),
        }),
    }
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(campaign) = &self.campaign {
            write!(f, "{campaign}:")?;
        }
        if let Some(tenant) = &self.tenant {
            write!(f, "{tenant}@")?;
        }
        f.write_str(&self.domain)?;
        match &self.routing_domain {
            Some(routing) => write!(f, "!{routing}"),
            None => Ok(()),
        }
    }
}

fn string<'m>(meta: &'m Meta, name: &'static str) -> Result<Option<&'m str>, QueueNameError> {
    meta.string(name).map_err(|value| QueueNameError::NotAString { name, value: value.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use smtp_wire::{Mailbox, ReversePath};

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn parses_as_kumomta_does() {
        for (text, campaign, tenant, domain, routing) in [
            ("d.example", None, None, "d.example", None),
            ("t@D.example", None, some("t"), "d.example", None),
            ("c:t@d", some("c"), some("t"), "d", None),
            ("c:@d", some("c"), some(""), "d", None),
            ("c:t@d!r.example:25", some("c"), some("t"), "d", some("r.example:25")),
            ("foo.com:2025", None, None, "foo.com:2025", None),
            ("d!r", None, None, "d", some("r")),
        ] {
            let name = QueueName::parse(text);
            let expected = QueueName { campaign, tenant, domain: domain.to_owned(), routing_domain: routing };
            assert_eq!(name, expected, "{text}");
            assert_eq!(name.to_string().to_lowercase(), text.to_lowercase());
        }
    }

    #[test]
    fn names_come_from_meta_or_the_first_recipient() {
        let rcpt = |t: &str| Mailbox::parse(t).expect("sound");
        let envelope = Envelope {
            sender: ReversePath(None),
            recipients: vec![rcpt("a@One.Example"), rcpt("b@two.example")],
            dsn: None,
            tls: message::TlsDemand::Usual,
        };
        let name = |pairs: &[(&str, serde_json::Value)]| {
            let mut meta = Meta::new();
            pairs.iter().for_each(|(k, v)| meta.set(*k, v.clone()));
            QueueName::text_for(&envelope, &meta)
        };
        assert_eq!(name(&[]).as_deref(), Ok("one.example"));
        let odd = name(&[("campaign", "null\0-1".into())]).expect("a name");
        assert_eq!(odd, "null\u{fffd}-1:@one.example", "nothing that a label of the spool would be split at");
        assert_eq!(name(&[("tenant", "t".into())]).as_deref(), Ok("t@one.example"));
        assert_eq!(name(&[("campaign", "c".into())]).as_deref(), Ok("c:@one.example"));
        assert_eq!(name(&[("queue", "my.Sink".into()), ("tenant", "t".into())]).as_deref(), Ok("my.Sink"));
        assert_eq!(name(&[("routing_domain", "r".into())]).as_deref(), Ok("one.example!r"));
        assert_eq!(name(&[("tenant", serde_json::Value::Null)]).as_deref(), Ok("one.example"));
        let error = name(&[("queue", 5.into())]).expect_err("a number is no queue");
        assert_eq!(error.to_string(), "meta `queue` is 5: expected a string");
    }
}
