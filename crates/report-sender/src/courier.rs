//! Whom a report may go to, and how it gets there: DNS, the outbox, POST.
//!
//! In: a domain, an address, a report. Out: what became of it, or that it is to be tried later. Nothing here is an error to
//! anybody: strangers' DNS and strangers' servers do what they like.

use crate::outbox::{Outbox, Outgoing};
use crate::poster::Poster;
use net::tls::Connectors;
use public_suffix::organisation;
use reports::permission;
use reports::{ReportUri, TlsWants};
use route::{DnsError, Resolver};
use std::sync::Arc;

/// Carries reports.
pub(crate) struct Courier {
    pub(crate) resolver: Arc<dyn Resolver>,
    pub(crate) outbox: Arc<dyn Outbox>,
    poster: Poster,
}

/// What became of a report for one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Nothing more is to be done: the word that metrics count.
    Done(&'static str),
    /// Another time may do better, and why.
    Later(String),
}

/// It was handed over.
pub(crate) const SENT: &str = "sent";
/// Who was named does not want reports about others.
pub(crate) const UNVERIFIED: &str = "unverified";
/// It has more octets than are wanted.
pub(crate) const TOO_LARGE: &str = "too_large";
/// The receiver's server does not want it.
pub(crate) const REFUSED: &str = "refused";
/// The receiver's server is said to be where nobody's reports are to go.
pub(crate) const PRIVATE: &str = "private";

impl Courier {
    /// Asks nobody yet. Posts go to private addresses only where that `is_allowed`.
    pub(crate) fn new(
        resolver: Arc<dyn Resolver>,
        outbox: Arc<dyn Outbox>,
        connectors: &Connectors,
        is_allowed: bool,
    ) -> Courier {
        Courier { resolver, outbox, poster: Poster::new(connectors, is_allowed) }
    }

    /// Whether the owner of an address wants DMARC reports about `domain`; an error when DNS does not say.
    pub(crate) async fn is_permitted(&self, domain: &str, uri: &ReportUri) -> Result<bool, String> {
        let Some(receiver) = uri.mail_domain() else { return Ok(false) };
        if permission::is_needless(organisation(domain), organisation(receiver)) {
            return Ok(true);
        }
        let texts = self.texts(&permission::name(domain, receiver)).await?;
        Ok(permission::is_given(&texts))
    }

    /// Where a domain wants its TLS reports; an error when DNS does not say.
    pub(crate) async fn tls_wants(&self, domain: &str) -> Result<Vec<ReportUri>, String> {
        let texts = self.texts(&TlsWants::name(domain)).await?;
        Ok(TlsWants::find(&texts).unwrap_or_default().reports_to)
    }

    /// Hands a message over.
    pub(crate) async fn mail(&self, uri: &ReportUri, message: Outgoing) -> Fate {
        if uri.octets_max.is_some_and(|limit| message.octets.len() as u64 > limit) {
            return Fate::Done(TOO_LARGE);
        }
        match self.outbox.take(message).await {
            Ok(()) => Fate::Done(SENT),
            Err(why) => Fate::Later(why),
        }
    }

    /// Posts a TLS report, compressed (RFC 8460 section 5.4).
    pub(crate) async fn post(&self, uri: &ReportUri, gzip: Vec<u8>) -> Fate {
        self.poster.post(&*self.resolver, uri, gzip).await
    }

    /// The TXT records of a name; that there are none is an answer.
    async fn texts(&self, name: &str) -> Result<Vec<Vec<u8>>, String> {
        match self.resolver.txt(name).await {
            Ok(answer) => Ok(answer.texts),
            Err(error) if error.is_permanent() => Ok(Vec::new()),
            // Too long to be asked for: nobody's. Any other is an answer that was damaged on its way.
            Err(DnsError::Malformed(_)) if name.trim_end_matches('.').len() > NAME_OCTETS_MAX => Ok(Vec::new()),
            Err(error) => Err(format!("{name}: {error}")),
        }
    }
}

/// Octets of the longest name, without its final dot (RFC 1035 section 3.1).
const NAME_OCTETS_MAX: usize = 253;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use route::{BoxFuture, HostTrust, IpAnswer, IpStrategy, MxAnswer, TxtAnswer};
    use std::collections::{HashMap, HashSet};
    use std::net::IpAddr;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::{Mutex, PoisonError};
    use std::time::Duration;

    /// DNS and queues of a test.
    #[derive(Default)]
    pub(crate) struct World {
        /// TXT records by name; `None` when there is no answer.
        pub(crate) texts: Mutex<HashMap<String, Option<Vec<&'static str>>>>,
        pub(crate) taken: Mutex<Vec<Outgoing>>,
        pub(crate) is_full: AtomicBool,
        /// Names about which nobody ever says anything, not even that he does not.
        pub(crate) silent: Mutex<HashSet<String>>,
        /// Addresses of hosts.
        pub(crate) hosts: Mutex<HashMap<String, Vec<IpAddr>>>,
        /// How long the outbox takes for a message, how many it has in hand, and how many it had at most.
        pub(crate) takes: Mutex<Duration>,
        pub(crate) in_hand: AtomicUsize,
        pub(crate) in_hand_max: AtomicUsize,
    }

    impl World {
        pub(crate) fn says(&self, name: &str, text: Option<&'static str>) {
            let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
            texts.insert(name.to_owned(), text.map(|text| vec![text]));
        }

        pub(crate) fn taken(&self) -> Vec<Outgoing> {
            std::mem::take(&mut self.taken.lock().unwrap_or_else(PoisonError::into_inner))
        }
    }

    impl Resolver for World {
        fn mx<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<MxAnswer, DnsError>> {
            Box::pin(std::future::ready(Err(DnsError::NoData)))
        }

        fn ip<'a>(&'a self, name: &'a str, _: IpStrategy) -> BoxFuture<'a, Result<IpAnswer, DnsError>> {
            let addresses = self.hosts.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
            let answer = addresses.map(|addresses| IpAnswer { addresses, ttl_secs: 60, trust: HostTrust::default() });
            Box::pin(std::future::ready(answer.ok_or(DnsError::NoData)))
        }

        fn txt<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<TxtAnswer, DnsError>> {
            if self.silent.lock().unwrap_or_else(PoisonError::into_inner).contains(name) {
                return Box::pin(std::future::pending());
            }
            let texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
            let answer = match texts.get(name) {
                None => Err(DnsError::NxDomain),
                Some(None) => Err(DnsError::Timeout),
                Some(Some(texts)) => {
                    let texts = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
                    Ok(TxtAnswer { texts, ttl_secs: 60 })
                }
            };
            Box::pin(std::future::ready(answer))
        }
    }

    impl Outbox for World {
        fn take(&self, message: Outgoing) -> BoxFuture<'_, Result<(), String>> {
            let takes = *self.takes.lock().unwrap_or_else(PoisonError::into_inner);
            Box::pin(async move {
                let in_hand = self.in_hand.fetch_add(1, Ordering::Relaxed) + 1;
                self.in_hand_max.fetch_max(in_hand, Ordering::Relaxed);
                if !takes.is_zero() {
                    tokio::time::sleep(takes).await;
                }
                self.in_hand.fetch_sub(1, Ordering::Relaxed);
                if self.is_full.load(Ordering::Relaxed) {
                    return Err("full".to_owned());
                }
                self.taken.lock().unwrap_or_else(PoisonError::into_inner).push(message);
                Ok(())
            })
        }
    }

    pub(crate) fn courier(world: &Arc<World>) -> Courier {
        Courier::new(world.clone(), world.clone(), &Connectors::new(None).expect("TLS"), false)
    }

    #[tokio::test]
    async fn strangers_are_asked_whether_they_want_reports() {
        let world = Arc::new(World::default());
        world.says("a.test._report._dmarc.yes.test", Some("v=DMARC1"));
        world.says("a.test._report._dmarc.odd.test", Some("v=spf1 -all"));
        world.says("a.test._report._dmarc.silent.test", None);
        let courier = courier(&world);
        let may = async |uri: &str| courier.is_permitted("a.test", &ReportUri::parse(uri).expect("a URI")).await;
        for uri in ["mailto:r@a.test", "mailto:r@sub.a.test", "mailto:r@yes.test"] {
            assert_eq!(may(uri).await, Ok(true), "{uri}");
        }
        for uri in ["mailto:r@no.test", "mailto:r@odd.test", "https://a.test/"] {
            assert_eq!(may(uri).await, Ok(false), "{uri}");
        }
        assert!(may("mailto:r@silent.test").await.is_err(), "nobody knows: later");
    }

    #[tokio::test]
    async fn what_is_too_large_is_not_sent() {
        let world = Arc::new(World::default());
        let courier = courier(&world);
        let message = |octets: usize| Outgoing {
            sender: None,
            recipient: "r@a.test".to_owned(),
            kind: "dmarc",
            domain: "a.test".to_owned(),
            octets: vec![b'x'; octets],
        };
        let uri = ReportUri::parse("mailto:r@a.test!1k").expect("a URI");
        assert_eq!(courier.mail(&uri, message(1024)).await, Fate::Done(SENT));
        assert_eq!(courier.mail(&uri, message(1025)).await, Fate::Done(TOO_LARGE));
        assert_eq!(world.taken().len(), 1);
        world.is_full.store(true, Ordering::Relaxed);
        assert_eq!(courier.mail(&uri, message(1)).await, Fate::Later("full".to_owned()));
    }
}
