//! Tests of `mx_cache` against a resolver whose answers are held back at will: one question per domain, cancellation, the
//! bounds on questions, entries and time, and how long results live.

use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use route::{IpAnswer, MxAnswer, MxRecord};

use super::*;

/// Answers `held*` names when told to, `silent*` never, `gone*` with NXDOMAIN, `null*` with a null MX, others at once.
struct Table {
    questions: AtomicUsize,
    in_flight: AtomicUsize,
    in_flight_most: AtomicUsize,
    /// One permit for each question that has come in and was not yet waited for.
    asked: Semaphore,
    /// One permit for each answer that may go out.
    gate: Semaphore,
}

impl Resolver for Table {
    fn mx<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<MxAnswer, DnsError>> {
        Box::pin(async move {
            self.questions.fetch_add(1, Ordering::SeqCst);
            let now = self.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
            self.in_flight_most.fetch_max(now, Ordering::SeqCst);
            self.asked.add_permits(1);
            let _leaving = Leaving(&self.in_flight);
            let host = match name {
                held if held.starts_with("held") => {
                    take(&self.gate).await;
                    format!("mx.{held}")
                }
                silent if silent.starts_with("silent") => std::future::pending().await,
                gone if gone.starts_with("gone") => return Err(DnsError::NxDomain),
                null if null.starts_with("null") => ".".to_string(),
                other => format!("mx.{other}"),
            };
            Ok(MxAnswer { records: vec![MxRecord { preference: 10, host }], ttl_secs: 60, ..Default::default() })
        })
    }

    fn ip<'a>(&'a self, host: &'a str, _: IpStrategy) -> BoxFuture<'a, Result<IpAnswer, DnsError>> {
        Box::pin(async move {
            if host.starts_with("silent") {
                return std::future::pending().await;
            }
            Ok(IpAnswer { addresses: vec![IpAddr::from([10, 0, 0, 1])], ttl_secs: 60, ..Default::default() })
        })
    }
}

struct Leaving<'a>(&'a AtomicUsize);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn cache(limits: MxCacheLimits) -> (Arc<Table>, MxCache) {
    let table = Arc::new(Table {
        questions: AtomicUsize::new(0),
        in_flight: AtomicUsize::new(0),
        in_flight_most: AtomicUsize::new(0),
        asked: Semaphore::new(0),
        gate: Semaphore::new(0),
    });
    (Arc::clone(&table), MxCache::new(table, limits))
}

fn domain(text: &str) -> RoutingDomain {
    RoutingDomain::parse(text).unwrap()
}

async fn take(permits: &Semaphore) {
    permits.acquire().await.expect("never closed").forget();
}

impl Table {
    fn open(&self, answers: usize) {
        self.gate.add_permits(answers);
    }

    fn questions(&self) -> usize {
        self.questions.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn a_domain_is_asked_for_once_however_many_wait() {
    let (table, cache) = cache(MxCacheLimits::default());
    let held = domain("held.example");
    let callers: Vec<BoxFuture<'_, _>> = (0..50)
        .map(|_| -> BoxFuture<'_, _> { Box::pin(cache.resolve_site(&held)) })
        .chain([Box::pin(async {
            take(&table.asked).await;
            table.open(1);
            cache.resolve_site(&held).await
        }) as BoxFuture<'_, _>])
        .collect();
    let answers = join_all(callers).await;
    assert_eq!(answers.len(), 51);
    assert!(answers.iter().all(|a| a.as_ref().unwrap().site_name() == "mx.held.example."));
    assert_eq!(table.questions(), 1);
}

#[tokio::test]
async fn what_was_asked_and_what_it_came_to_is_counted() {
    let (table, cache) = cache(MxCacheLimits::default());
    assert_eq!(cache.counts(), MxCounts::default());
    for (name, is_found) in [("a.example", true), ("a.example", true), ("gone.example", false), ("null.example", true)]
    {
        assert_eq!(cache.resolve_site(&domain(name)).await.is_ok(), is_found, "{name}");
    }
    let so_far = MxCounts { hits: 1, misses: 3, found: 2, failed: 1, in_progress: 0 };
    assert_eq!(cache.counts(), so_far);
    let held = domain("held.example");
    let mut asking: BoxFuture<'_, _> = Box::pin(cache.resolve_site(&held));
    let until_asked = async {
        while table.questions() < 4 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        _ = &mut asking => panic!("nobody has answered"),
        () = until_asked => {}
    }
    assert_eq!(cache.counts(), MxCounts { misses: 4, in_progress: 1, ..so_far });
    drop(asking);
    assert_eq!(cache.counts(), MxCounts { misses: 4, ..so_far }, "whoever asked has gone");
}

#[tokio::test]
async fn when_the_one_who_asks_goes_away_the_next_one_asks() {
    let (table, cache) = cache(MxCacheLimits::default());
    let held = domain("held.example");
    let mut first: BoxFuture<'_, _> = Box::pin(cache.resolve_site(&held));
    tokio::select! {
        biased;
        _ = &mut first => panic!("nobody has answered"),
        () = take(&table.asked) => {}
    }
    let second = cache.resolve_site(&held);
    drop(first);
    table.open(1);
    assert_eq!(second.await.unwrap().site_name(), "mx.held.example.");
    assert_eq!(table.questions(), 2);
}

#[tokio::test]
async fn a_slow_domain_does_not_stall_another() {
    let (table, cache) = cache(MxCacheLimits::default());
    let held = domain("held.example");
    let mut slow: BoxFuture<'_, _> = Box::pin(cache.resolve_site(&held));
    tokio::select! {
        biased;
        _ = &mut slow => panic!("nobody has answered"),
        quick = async { cache.resolve_site(&domain("quick.example")).await } => {
            assert_eq!(quick.unwrap().site_name(), "mx.quick.example.");
        }
    }
    table.open(1);
    assert!(slow.await.is_ok());
}

#[tokio::test]
async fn questions_at_a_time_are_bounded() {
    let lookups_max = 3;
    let (table, cache) = cache(MxCacheLimits { lookups_max, ..MxCacheLimits::default() });
    let domains: Vec<RoutingDomain> = (0..10).map(|i| domain(&format!("held{i}.example"))).collect();
    let mut callers: Vec<BoxFuture<'_, bool>> = Vec::new();
    for domain in &domains {
        callers.push(Box::pin(async { cache.resolve_site(domain).await.is_ok() }));
    }
    callers.push(Box::pin(async {
        for _ in 0..domains.len() {
            take(&table.asked).await;
            table.open(1);
        }
        true
    }));
    assert!(join_all(callers).await.into_iter().all(|is_ok| is_ok));
    assert_eq!(table.in_flight_most.load(Ordering::SeqCst), lookups_max);
}

#[tokio::test]
async fn silence_ends_at_the_time_limit_and_is_remembered() {
    let lookup_timeout = Duration::from_millis(20);
    let (table, cache) = cache(MxCacheLimits { lookup_timeout, ..MxCacheLimits::default() });
    for _ in 0..2 {
        let error = cache.resolve_site(&domain("silent.example")).await.unwrap_err();
        assert!(matches!(error, RouteError::Dns { cause: DnsError::Timeout, .. }), "{error}");
    }
    assert_eq!(table.questions(), 1);
}

#[tokio::test]
async fn failures_live_as_long_as_told() {
    for (negative_ttl, questions) in [(Duration::from_secs(300), 1), (Duration::ZERO, 3)] {
        let (table, cache) = cache(MxCacheLimits { negative_ttl, ..MxCacheLimits::default() });
        for _ in 0..3 {
            let error = cache.resolve_site(&domain("gone.example")).await.unwrap_err();
            assert!(matches!(error, RouteError::NxDomain { .. }));
        }
        assert_eq!(table.questions(), questions, "{negative_ttl:?}");
    }
}

#[tokio::test]
async fn failures_can_be_forgotten_without_the_rest() {
    let (table, cache) = cache(MxCacheLimits::default());
    for (forgets, questions) in [(false, 2), (false, 2), (true, 3), (false, 3)] {
        if forgets {
            cache.forget_failures();
        }
        cache.resolve_site(&domain("gone.example")).await.expect_err("it is not there");
        cache.resolve_site(&domain("a.example")).await.expect("it is");
        assert_eq!(table.questions(), questions);
    }
}

#[tokio::test]
async fn with_the_failures_a_question_under_way_is_forgotten_and_still_answers_who_waits() {
    let (table, cache) = cache(MxCacheLimits::default());
    let held = domain("held.example");
    let mut first: BoxFuture<'_, _> = Box::pin(cache.resolve_site(&held));
    tokio::select! {
        biased;
        _ = &mut first => panic!("nobody has answered"),
        () = take(&table.asked) => {}
    }
    cache.forget_failures();
    table.open(2);
    for answer in join_all(vec![first, Box::pin(cache.resolve_site(&held))]).await {
        assert_eq!(answer.unwrap().site_name(), "mx.held.example.");
    }
    assert_eq!(table.questions(), 2, "it may yet fail");
}

#[tokio::test]
async fn results_live_for_their_time_to_live() {
    let (_, cache) = cache(MxCacheLimits::default());
    let name = domain("a.example");
    let asked_at = Instant::now();
    cache.resolve_site(&name).await.unwrap();
    let is_kept = |after: u64| cache.slot(&name, asked_at + Duration::from_secs(after)).initialized();
    assert!(is_kept(59));
    assert!(!is_kept(62));
}

#[tokio::test]
async fn ports_are_kept_apart_and_literals_are_not_kept() {
    let (table, cache) = cache(MxCacheLimits::default());
    for (text, site) in [
        ("a.example", "mx.a.example."),
        ("a.example:26", "mx.a.example:26"),
        ("A.example.", "mx.a.example."),
        ("[10.0.0.1]:26", "10.0.0.1:26"),
    ] {
        assert_eq!(cache.resolve_site(&domain(text)).await.unwrap().site_name(), site);
    }
    assert_eq!((table.questions(), cache.len()), (2, 2));
    cache.clear();
    assert!(cache.is_empty());
}

#[tokio::test]
async fn entries_are_bounded() {
    let (_, cache) = cache(MxCacheLimits { entries_max: 8, ..MxCacheLimits::default() });
    for i in 0..8 {
        cache.resolve_site(&domain(&format!("d{i}.example"))).await.unwrap();
    }
    assert_eq!(cache.len(), 8);
    for i in 8..100 {
        cache.resolve_site(&domain(&format!("d{i}.example"))).await.unwrap();
        assert!(cache.len() <= 8);
    }
}

#[tokio::test]
async fn addresses_come_in_order_and_a_silent_host_keeps_nobody_waiting() {
    let lookup_timeout = Duration::from_millis(20);
    let (_, cache) = cache(MxCacheLimits { lookup_timeout, ..MxCacheLimits::default() });
    let list: Vec<route::MxListEntry> = ["silent.example", "a.example", "[10.9.9.9]:26"]
        .iter()
        .map(|text| route::MxListEntry::parse(text).unwrap())
        .collect();
    let exchangers = MailExchangers::from_mx_list(&domain("x.example"), &list).unwrap();
    let hosts = cache.resolve_addresses(&exchangers, IpStrategy::default()).await;
    let told: Vec<_> = hosts.iter().map(|h| (h.exchanger.name.as_str(), h.addresses.clone())).collect();
    assert_eq!(
        told,
        [
            ("silent.example.", Err(DnsError::Timeout)),
            ("a.example.", Ok(vec![IpAddr::from([10, 0, 0, 1])])),
            ("10.9.9.9", Ok(vec![IpAddr::from([10, 9, 9, 9])])),
        ]
    );
    let null = cache.resolve_site(&domain("null.example")).await.unwrap();
    assert!(cache.resolve_addresses(&null, IpStrategy::default()).await.is_empty());
}
