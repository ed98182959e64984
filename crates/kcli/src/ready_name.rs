//! Names of ready queues, and the label that metrics have for them.
//!
//! A ready queue is `SOURCE->SITE@PROTOCOL`; its metrics have the label `KIND:` and that name, and the sums of a kind have the
//! kind alone. Pure.

/// The parts of a ready queue's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReadyName {
    /// The destination.
    pub site: String,
    /// From where.
    pub source: String,
    /// How.
    pub protocol: String,
}

impl ReadyName {
    /// Takes a name apart; nothing when it is none.
    pub fn parse(name: &str) -> Option<ReadyName> {
        let (source, rest) = name.split_once("->")?;
        // A Maildir's path may hold an @; a site holds none.
        let (site, protocol) = rest.split_once('@')?;
        Some(ReadyName { site: site.to_owned(), source: source.to_owned(), protocol: protocol.to_owned() })
    }

    /// The name in a `service` label; nothing for the sum of a kind, or a listener.
    pub fn of_service(service: &str) -> Option<&str> {
        let (_, name) = service.split_once(':')?;
        name.contains("->").then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_a_ready_queue_or_a_sum() {
        let name = ReadyName::of_service("smtp_client:ip-1->(a|b).example@smtp_client").expect("a queue");
        let parts = ReadyName::parse(name).expect("a name");
        assert_eq!((&*parts.site, &*parts.source, &*parts.protocol), ("(a|b).example", "ip-1", "smtp_client"));
        let maildir = ReadyName::parse("ip-1->example.com@maildir:/var/{{ email }}@x").expect("a name");
        assert_eq!((&*maildir.site, &*maildir.protocol), ("example.com", "maildir:/var/{{ email }}@x"));
        for other in ["smtp_client", "esmtp_listener", "esmtp_listener:127.0.0.1:25", "127.0.0.1:25"] {
            assert_eq!(ReadyName::of_service(other), None, "{other}");
        }
        assert_eq!(ReadyName::parse("example.com"), None);
    }
}
