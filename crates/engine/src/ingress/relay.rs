//! May this client send to this recipient? The relay decision (KumoMTA behaviour).

use config::{CidrSet, ListenerDomain, LogReport};
use std::net::IpAddr;

/// What the decision rests on; each question is asked only when the ones before said no.
#[derive(Debug)]
pub(crate) struct RelayFacts<'a> {
    /// The client.
    pub peer: IpAddr,
    /// `relay_hosts` of the listener.
    pub relay_hosts: &'a CidrSet,
    /// Entry of the sender's domain.
    pub sender_domain: Option<&'a ListenerDomain>,
    /// Entry of the recipient's domain.
    pub recipient_domain: Option<&'a ListenerDomain>,
}

impl RelayFacts<'_> {
    /// True when the recipient may be accepted from this client.
    pub fn may_relay(&self) -> bool {
        self.relay_hosts.contains(self.peer)
            || self.sender_domain.is_some_and(|d| d.relay_from.contains(self.peer))
            || self.recipient_domain.is_some_and(|d| d.relay_to)
    }

    /// True when the recipient's domain logs reports: then mail for it is let in from anybody, and kept if it is one.
    pub fn takes_reports(&self) -> bool {
        let logs = |d: &ListenerDomain| d.log_arf != LogReport::Ignore || d.log_oob != LogReport::Ignore;
        self.recipient_domain.is_some_and(logs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_named_hosts_senders_and_recipients_relay() {
        let hosts = CidrSet::parse(["192.0.2.0/24"]).expect("sound");
        let domain = |json| config::parse::<ListenerDomain>("kumo.make_listener_domain", json).expect("sound");
        let from = domain(json!({"relay_from": ["198.51.100.7"]}));
        let to = domain(json!({"relay_to": true}));
        let may = |peer: &str, sender, recipient| {
            let peer = peer.parse().expect("an address");
            RelayFacts { peer, relay_hosts: &hosts, sender_domain: sender, recipient_domain: recipient }.may_relay()
        };
        assert!(may("192.0.2.9", None, None));
        assert!(!may("198.51.100.7", None, None));
        assert!(may("198.51.100.7", Some(&from), None));
        assert!(!may("198.51.100.8", Some(&from), None));
        assert!(!may("198.51.100.7", None, Some(&from)), "relay_from is about the sender's domain");
        assert!(may("203.0.113.1", None, Some(&to)));
        assert!(!may("203.0.113.1", Some(&to), None), "relay_to is about the recipient's domain");
    }
}
