//! Whom a report may go to, and how it gets there: DNS, the outbox, POST.
//!
//! In: a domain, an address, a report. Out: what became of it, or that it is to be tried later. Nothing here is an error to
//! anybody: strangers' DNS and strangers' servers do what they like.

use crate::outbox::{Outbox, Outgoing};
use config::HttpClientOptions;
use net::tls::Connectors;
use reports::{ReportUri, TLS_MEDIA_TYPE, TlsWants, permission};
use route::{DnsError, Resolver};
use std::sync::Arc;
use std::time::Duration;
use web::{Client, Content, Method, Request, WebError};

/// Carries reports.
pub(crate) struct Courier {
    pub(crate) resolver: Arc<dyn Resolver>,
    pub(crate) outbox: Arc<dyn Outbox>,
    client: Client,
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

impl Courier {
    /// Asks nobody yet.
    ///
    /// # Errors
    /// No TLS can be had.
    pub(crate) fn new(
        resolver: Arc<dyn Resolver>,
        outbox: Arc<dyn Outbox>,
        connectors: &Connectors,
    ) -> Result<Courier, WebError> {
        let options = HttpClientOptions {
            user_agent: Some("postrider".to_owned()),
            timeout: config::Duration::from_secs(POST_MAX.as_secs()),
            ..HttpClientOptions::default()
        };
        Ok(Courier { resolver, outbox, client: Client::without_redirections(&options, connectors)? })
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
        let request = Request::new(Method::POST, &uri.target).and_then(|mut request| {
            request.add_header("content-type", TLS_MEDIA_TYPE.as_bytes())?;
            request.content = Content::Octets(gzip);
            Ok(request)
        });
        let Ok(request) = request else { return Fate::Done(REFUSED) };
        let answer = match self.client.send(request).await {
            Ok(answer) => answer,
            Err(error) => return Fate::Later(error.to_string()),
        };
        let status = answer.status;
        match status.as_u16() {
            200..=299 => Fate::Done(SENT),
            // Who sends too many, or is too early, may try again; what else is said of our request stays true.
            300..=407 | 409..=424 | 426..=428 | 430..=499 => Fate::Done(REFUSED),
            _ => Fate::Later(format!("it answered {status}")),
        }
    }

    /// The TXT records of a name; that there are none is an answer.
    async fn texts(&self, name: &str) -> Result<Vec<Vec<u8>>, String> {
        match self.resolver.txt(name).await {
            Ok(answer) => Ok(answer.texts),
            Err(error) if error.is_permanent() => Ok(Vec::new()),
            Err(DnsError::Malformed(_)) => Ok(Vec::new()),
            Err(error) => Err(format!("{name}: {error}")),
        }
    }
}

/// The organisational domain of a name; itself when it has none.
fn organisation(name: &str) -> &str {
    psl::domain_str(name).unwrap_or(name)
}

/// How long an answer to a POST is waited for.
const POST_MAX: Duration = Duration::from_secs(30);

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use route::{BoxFuture, IpAnswer, IpStrategy, MxAnswer, TxtAnswer};
    use std::collections::HashMap;
    use std::sync::{Mutex, PoisonError};

    /// DNS and queues of a test.
    #[derive(Default)]
    pub(crate) struct World {
        /// TXT records by name; `None` when there is no answer.
        pub(crate) texts: Mutex<HashMap<String, Option<Vec<&'static str>>>>,
        pub(crate) taken: Mutex<Vec<Outgoing>>,
        pub(crate) is_full: std::sync::atomic::AtomicBool,
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

        fn ip<'a>(&'a self, _: &'a str, _: IpStrategy) -> BoxFuture<'a, Result<IpAnswer, DnsError>> {
            Box::pin(std::future::ready(Err(DnsError::NoData)))
        }

        fn txt<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<TxtAnswer, DnsError>> {
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
            let is_full = self.is_full.load(std::sync::atomic::Ordering::Relaxed);
            if !is_full {
                self.taken.lock().unwrap_or_else(PoisonError::into_inner).push(message);
            }
            Box::pin(std::future::ready(if is_full { Err("full".to_owned()) } else { Ok(()) }))
        }
    }

    pub(crate) fn courier(world: &Arc<World>) -> Courier {
        Courier::new(world.clone(), world.clone(), &Connectors::new(None).expect("TLS")).expect("a client")
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
        world.is_full.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(courier.mail(&uri, message(1)).await, Fate::Later("full".to_owned()));
    }
}
