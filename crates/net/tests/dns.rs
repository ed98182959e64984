//! The resolver and its cache against servers that speak the wire protocol.
//!
//! The same table of expectations is run against a small responder in this process (always) and against a real unbound
//! (when POSTRIDER_PEERS is set, see dns/unbound.rs). What needs a real server, TCP after a cut answer and CNAME loops as a
//! recursive server reports them, is tested with unbound only.

mod dns {
    pub mod responder;
    pub mod unbound;
}

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use config::{HostsFile, ResolverOptions};
use dns::responder::{Data, Responder};
use dns::unbound::Unbound;
use net::dns::{HickoryResolver, MxCache, MxCacheLimits};
use route::{ConnectionPlan, DnsError, IpStrategy, PlanOptions, Resolver, RouteError, RouteKind, RoutingDomain};

/// The part of the zones of testing/e2e/peers/dns.sh that the responder knows too.
const ZONE: &[(&str, Data)] = &[
    ("two-prefs.test", Data::Mx(20, "C.mx.Two-Prefs.test")),
    ("two-prefs.test", Data::Mx(10, "B.mx.two-prefs.test")),
    ("two-prefs.test", Data::Mx(10, "a.mx.two-prefs.test")),
    ("a.mx.two-prefs.test", Data::A([127, 0, 0, 2])),
    ("a.mx.two-prefs.test", Data::Aaaa("::1")),
    ("b.mx.two-prefs.test", Data::A([127, 0, 0, 3])),
    ("c.mx.two-prefs.test", Data::A([127, 0, 0, 4])),
    ("implicit.test", Data::A([127, 0, 0, 5])),
    ("null.test", Data::Mx(0, ".")),
    ("mx-to-cname.test", Data::Mx(10, "alias.mx-to-cname.test")),
    ("alias.mx-to-cname.test", Data::Cname("a.mx.two-prefs.test")),
    ("chain.test", Data::Cname("chain2.test")),
    ("chain2.test", Data::Cname("chain3.test")),
    ("chain3.test", Data::Cname("two-prefs.test")),
    ("dangling.test", Data::Cname("nowhere.test")),
    ("no-address.test", Data::Mx(10, "mx.no-address.test")),
    ("mx.no-address.test", Data::Mx(1, "something.else.test")),
    ("v6.test", Data::Mx(10, "mx.v6.test")),
    ("mx.v6.test", Data::Aaaa("2001:db8::25")),
    ("mapped.test", Data::Mx(10, "mx.mapped.test")),
    ("mx.mapped.test", Data::Aaaa("::ffff:127.0.0.1")),
    ("servfail.test", Data::ServFail),
    ("refused.test", Data::Refused),
    ("timeout.test", Data::Silence),
    ("mx-to-timeout.test", Data::Mx(10, "mx.timeout.test")),
    ("mx-to-timeout.test", Data::Mx(20, "mx.loopback.test")),
    ("mx.timeout.test", Data::Silence),
    ("mx.loopback.test", Data::A([127, 0, 0, 1])),
    // a loop as an authoritative server shows it; unbound answers SERVFAIL
    ("loop.test", Data::Cname("loop2.test")),
    ("loop2.test", Data::Cname("loop.test")),
];

/// Long enough for a loaded machine to answer, short enough for the tests of silence.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);
/// Where nobody answers.
const SHORT_TIMEOUT: Duration = Duration::from_millis(700);

struct Peer {
    resolver: Arc<HickoryResolver>,
    cache: MxCache,
}

impl Peer {
    fn of(server: SocketAddr) -> Self {
        Self::waiting(server, LOOKUP_TIMEOUT)
    }

    fn waiting(server: SocketAddr, lookup_timeout: Duration) -> Self {
        let mut options = ResolverOptions::asking(&[server]);
        options.options.use_hosts_file = HostsFile::Never;
        let resolver = Arc::new(HickoryResolver::from_options(&options).unwrap());
        let limits = MxCacheLimits { lookup_timeout, ..MxCacheLimits::default() };
        Self { cache: MxCache::new(Arc::clone(&resolver) as Arc<dyn Resolver>, limits), resolver }
    }

    /// How a domain resolves, in one line: kind, site, hosts; or the error.
    async fn site(&self, domain: &str) -> String {
        match self.cache.resolve_site(&RoutingDomain::parse(domain).unwrap()).await {
            Ok(mx) => format!("{:?} {}", mx.kind(), mx.site_name()),
            Err(RouteError::NxDomain { .. }) => "NXDOMAIN".to_string(),
            Err(error @ RouteError::MtaSts { .. }) => panic!("there is no MTA-STS here: {error}"),
            Err(RouteError::Dns { cause, .. }) => match cause {
                DnsError::Other(text) => format!("other: {text}"),
                cause => format!("{cause:?}"),
            },
        }
    }

    /// The plan for a domain, in one line: candidates sorted inside a preference; or the reply.
    async fn plan(&self, domain: &str, strategy: IpStrategy) -> String {
        let domain = RoutingDomain::parse(domain).unwrap();
        let mx = match self.cache.resolve_site(&domain).await {
            Ok(mx) => mx,
            Err(error) => return error.reply().to_string(),
        };
        let hosts = self.cache.resolve_addresses(&mx, strategy).await;
        let options = PlanOptions {
            remote_port: None,
            smtp_port: 25,
            shuffle_seed: 1,
            prohibited: &|ip| ip == std::net::IpAddr::from([127, 0, 0, 1]),
            skip: &|_| false,
        };
        match ConnectionPlan::new(&mx, &hosts, &options) {
            ConnectionPlan::Candidates(mut list) => {
                list.sort_by_key(|c| (c.preference, c.addr));
                let texts: Vec<String> = list.iter().map(|c| format!("{} {}", c.preference, c.addr)).collect();
                texts.join(", ")
            }
            verdict => verdict.reply().unwrap().to_string(),
        }
    }
}

async fn sites_are_as_expected(peer: &Peer) {
    for (domain, expected) in [
        ("two-prefs.test", "Mx (a|b|c).mx.two-prefs.test"),
        ("Two-Prefs.TEST.", "Mx (a|b|c).mx.two-prefs.test"),
        ("two-prefs.test:2025", "Mx (a|b|c).mx.two-prefs.test:2025"),
        ("implicit.test", "ImplicitMx implicit.test."),
        ("null.test", "NullMx ."),
        ("nx.test", "NXDOMAIN"),
        ("mx-to-cname.test", "Mx alias.mx-to-cname.test."),
        ("chain.test", "Mx (a|b|c).mx.two-prefs.test"),
        ("dangling.test", "NXDOMAIN"),
        ("servfail.test", "ServFail"),
        ("timeout.test", "Timeout"),
        ("[127.0.0.9]:26", "Literal 127.0.0.9:26"),
    ] {
        assert_eq!(peer.site(domain).await, expected, "{domain}");
    }
    let refused = peer.site("refused.test").await;
    assert!(refused.starts_with("other: ") && refused.to_lowercase().contains("refused"), "{refused}");
}

async fn plans_are_as_expected(peer: &Peer) {
    let both = IpStrategy::Ipv4AndIpv6;
    for (domain, strategy, expected) in [
        ("two-prefs.test", both, "10 127.0.0.2:25, 10 127.0.0.3:25, 10 [::1]:25, 20 127.0.0.4:25"),
        ("two-prefs.test", IpStrategy::Ipv4Only, "10 127.0.0.2:25, 10 127.0.0.3:25, 20 127.0.0.4:25"),
        ("two-prefs.test", IpStrategy::Ipv6Only, "10 [::1]:25"),
        ("two-prefs.test", IpStrategy::Ipv6ThenIpv4, "10 127.0.0.3:25, 10 [::1]:25, 20 127.0.0.4:25"),
        ("two-prefs.test", IpStrategy::Ipv4ThenIpv6, "10 127.0.0.2:25, 10 127.0.0.3:25, 20 127.0.0.4:25"),
        ("implicit.test", both, "1 127.0.0.5:25"),
        ("mx-to-cname.test", both, "10 127.0.0.2:25, 10 [::1]:25"),
        ("v6.test", both, "10 [2001:db8::25]:25"),
        ("v6.test", IpStrategy::Ipv4ThenIpv6, "10 [2001:db8::25]:25"),
        ("[127.0.0.9]:26", both, "1 127.0.0.9:26"),
    ] {
        assert_eq!(peer.plan(domain, strategy).await, expected, "{domain} {strategy:?}");
    }
    for (domain, strategy, start) in [
        ("null.test", both, "556 5.1.10 "),
        ("mapped.test", both, "550 5.4.4 "),
        ("no-address.test", both, "451 4.4.4 "),
        ("v6.test", IpStrategy::Ipv4Only, "451 4.4.4 "),
        ("nx.test", both, "451 4.4.4 "),
        ("servfail.test", both, "451 4.4.4 "),
        // one host is silent, the other is the prohibited 127.0.0.1: it was found all the same
        ("mx-to-timeout.test", both, "550 5.4.4 "),
    ] {
        let plan = peer.plan(domain, strategy).await;
        assert!(plan.starts_with(start), "{domain} {strategy:?}: {plan}");
    }
}

#[tokio::test]
async fn responder_sites() {
    let server = Responder::start(ZONE).await;
    sites_are_as_expected(&Peer::of(server.address)).await;
}

#[tokio::test]
async fn responder_plans() {
    let server = Responder::start(ZONE).await;
    plans_are_as_expected(&Peer::of(server.address)).await;
}

#[tokio::test]
async fn responder_cname_loop_ends_without_candidates() {
    let server = Responder::start(ZONE).await;
    let peer = Peer::of(server.address);
    let plan = peer.plan("loop.test", IpStrategy::Ipv4AndIpv6).await;
    assert!(plan.starts_with("451 4.4.4 "), "{plan}");
}

#[tokio::test]
async fn both_caches_spare_the_server() {
    let server = Responder::start(ZONE).await;
    let peer = Peer::of(server.address);
    let first = peer.plan("two-prefs.test", IpStrategy::Ipv4Only).await;
    peer.site("nx.test").await;
    let asked = server.questions();
    assert_eq!(peer.plan("two-prefs.test", IpStrategy::Ipv4Only).await, first);
    peer.site("nx.test").await;
    peer.site("two-prefs.test:26").await;
    assert_eq!(server.questions(), asked, "MX, addresses and NXDOMAIN came from the caches");
    peer.cache.clear();
    peer.resolver.clear_cache();
    peer.site("two-prefs.test").await;
    assert!(server.questions() > asked, "and without the caches the server is asked");
}

#[tokio::test]
async fn with_the_failures_what_the_resolver_knows_not_to_exist_is_forgotten() {
    let server = Responder::start(ZONE).await;
    let peer = Peer::of(server.address);
    let ask = async || {
        let before = server.questions();
        peer.site("nx.test").await;
        peer.site("no-address.test").await;
        server.questions() - before
    };
    let first = ask().await;
    assert_eq!(ask().await, 0, "both are believed");
    peer.cache.forget_failures();
    assert_eq!(ask().await, first - 1, "the exchanger of one of them was found, and stays");
}

#[tokio::test]
async fn nobody_listening_is_an_error_in_time() {
    let closed = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let started = Instant::now();
    let site = Peer::waiting(closed, SHORT_TIMEOUT).site("two-prefs.test").await;
    assert!(site == "Timeout" || site.starts_with("other: "), "{site}");
    assert!(started.elapsed() < SHORT_TIMEOUT * 4);
}

#[tokio::test]
async fn unbound_sites_and_plans() {
    let Some(server) = Unbound::start() else {
        return;
    };
    let peer = Peer::of(server.address);
    sites_are_as_expected(&peer).await;
    plans_are_as_expected(&peer).await;
    for (domain, expected) in
        [("loop.test", "ServFail"), ("anything.sink.test", "Mx mx.sink.test."), ("example.com", "NXDOMAIN")]
    {
        assert_eq!(peer.site(domain).await, expected, "{domain}");
    }
    let looped = peer.plan("mx-to-loop.test", IpStrategy::Ipv4AndIpv6).await;
    assert!(looped.starts_with("451 4.4.4 ") && looped.contains("SERVFAIL"), "{looped}");
}

#[tokio::test]
async fn unbound_many_hosts_and_long_answers() {
    let Some(server) = Unbound::start() else {
        return;
    };
    let peer = Peer::of(server.address);
    let resolve = async |name: &str| peer.cache.resolve_site(&RoutingDomain::parse(name).unwrap()).await.unwrap();
    let many = resolve("many.test").await;
    assert_eq!((many.kind(), many.hosts().len()), (RouteKind::Mx, 20));
    assert_eq!((many.hosts()[0].preference, many.hosts()[0].name.as_str()), (10, "mx01.many.test."));
    assert_eq!(many.hosts()[19].name, "mx20.many.test.");
    let hosts = peer.cache.resolve_addresses(&many, IpStrategy::Ipv4AndIpv6).await;
    assert!(hosts.iter().all(|h| h.addresses.as_ref().is_ok_and(|a| a.len() == 1)), "{hosts:?}");
    // more than fits into a UDP answer: the client must ask again over TCP
    assert_eq!(resolve("big.test").await.hosts().len(), 50);
}
