//! Tests of `mta_sts`: what is remembered, for how long, and what a failure leaves.

use super::*;
use route::BoxFuture;
use route::StsMode;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Serves what the test put in; `None` is a failure.
#[derive(Default)]
struct Server {
    policy: Mutex<Option<StsPolicy>>,
    fetches: AtomicUsize,
}

impl PolicyFetch for Arc<Server> {
    fn fetch<'a>(&'a self, _domain: &'a str) -> BoxFuture<'a, Result<StsPolicy, FetchError>> {
        self.fetches.fetch_add(1, Ordering::SeqCst);
        let policy = self.policy.lock().unwrap().clone();
        Box::pin(std::future::ready(policy.ok_or(FetchError::Name)))
    }
}

fn policy(host: &str, max_age_secs: u64) -> StsPolicy {
    StsPolicy { mode: StsMode::Enforce, max_age_secs, mx: vec![host.to_owned()] }
}

fn announced(id: &str) -> Result<TxtAnswer, DnsError> {
    Ok(TxtAnswer { texts: vec![format!("v=STSv1; id={id};").into_bytes()], ttl_secs: 120 })
}

fn stage(first: Option<StsPolicy>) -> (Arc<Server>, StsPolicies) {
    let server = Arc::new(Server { policy: Mutex::new(first), ..Server::default() });
    (Arc::clone(&server), StsPolicies::new(Box::new(server)))
}

impl Server {
    fn serve(&self, policy: Option<StsPolicy>) {
        *self.policy.lock().unwrap() = policy;
    }

    fn fetches(&self) -> usize {
        self.fetches.load(Ordering::SeqCst)
    }
}

/// Waits for the fetches that are under way.
async fn refreshed(policies: &StsPolicies) {
    let mut refreshing = std::mem::take(&mut *policies.refreshing.lock().unwrap());
    while refreshing.join_next().await.is_some() {}
}

async fn host(policies: &StsPolicies, records: Result<TxtAnswer, DnsError>) -> Option<String> {
    policies.of("A.test.", records).await.policy.map(|policy| policy.mx[0].clone())
}

#[tokio::test]
async fn a_policy_is_fetched_once_and_anew_when_its_id_changes() {
    let (server, policies) = stage(Some(policy("one", 1000)));
    assert_eq!(host(&policies, Err(DnsError::NoData)).await, None);
    assert_eq!(server.fetches(), 0, "nothing was announced");
    for _ in 0..3 {
        assert_eq!(host(&policies, announced("1")).await.as_deref(), Some("one"));
    }
    assert_eq!(server.fetches(), 1);
    server.serve(Some(policy("two", 1000)));
    assert_eq!(host(&policies, announced("2")).await.as_deref(), Some("two"));
    assert_eq!(server.fetches(), 2);
    let answer = policies.of("a.test", announced("2")).await;
    assert_eq!(answer.good_for, Duration::from_secs(120), "as the TXT record says");
}

#[tokio::test]
async fn what_is_known_outlives_failures_of_dns_and_of_the_server() {
    let (server, policies) = stage(Some(policy("one", 1000)));
    assert!(host(&policies, announced("1")).await.is_some());
    for gone in [Err(DnsError::NxDomain), Err(DnsError::Timeout), Ok(TxtAnswer::default())] {
        assert_eq!(host(&policies, gone).await.as_deref(), Some("one"));
    }
    server.serve(None);
    for _ in 0..2 {
        assert_eq!(host(&policies, announced("2")).await.as_deref(), Some("one"));
    }
    assert_eq!(server.fetches(), 2, "the failure is remembered");
}

#[tokio::test]
async fn without_anything_known_a_failure_means_no_policy_for_a_while() {
    let (server, policies) = stage(None);
    assert_eq!(host(&policies, announced("1")).await, None);
    server.serve(Some(policy("one", 1000)));
    let answer = policies.of("a.test", announced("1")).await;
    assert_eq!((answer.policy, server.fetches()), (None, 1));
    assert!(answer.good_for <= REST);
}

#[tokio::test]
async fn where_dns_fails_it_is_not_known_whether_there_is_one_and_asked_again_soon() {
    let (server, policies) = stage(Some(policy("one", 1000)));
    for failure in [DnsError::Timeout, DnsError::ServFail, DnsError::Bogus] {
        let answer = policies.of("a.test", Err(failure)).await;
        assert_eq!((answer.policy, answer.fault, answer.good_for), (None, Some(StsFault::Unknown), REST));
    }
    for none in [DnsError::NxDomain, DnsError::NoData] {
        let answer = policies.of("a.test", Err(none)).await;
        assert_eq!((answer.policy, answer.fault, answer.good_for), (None, None, RECORD_TTL_MAX));
    }
    assert_eq!(server.fetches(), 0);
    assert!(host(&policies, announced("1")).await.is_some());
    let answer = policies.of("a.test", Err(DnsError::Timeout)).await;
    assert!(answer.policy.is_some() && answer.fault.is_none(), "what is known is used");
    assert_eq!(answer.good_for, REST);
}

#[tokio::test]
async fn a_policy_ends_with_its_max_age() {
    let (server, policies) = stage(Some(policy("one", 0)));
    assert_eq!(host(&policies, announced("1")).await.as_deref(), Some("one"), "used when it was fetched for");
    assert_eq!(host(&policies, Err(DnsError::Timeout)).await, None);
    server.serve(Some(policy("two", 1000)));
    assert_eq!(host(&policies, announced("1")).await.as_deref(), Some("two"));
}

#[tokio::test]
async fn an_old_policy_is_fetched_again_beside_the_mail() {
    let (server, policies) = stage(Some(policy("one", 1000)));
    assert!(host(&policies, announced("1")).await.is_some());
    let age = |by: u64| {
        let mut known = policies.shared.known();
        let mut entry = known.get(&"a.test".to_owned()).cloned().expect("known");
        if let Some((_, _, since, until)) = &mut entry.policy {
            let by = Duration::from_secs(by);
            (*since, *until) = (*since - by, *until - by);
        }
        known.insert("a.test".to_owned(), entry);
    };
    age(499);
    assert_eq!((host(&policies, announced("1")).await.as_deref(), server.fetches()), (Some("one"), 1));
    server.serve(None);
    age(2);
    for _ in 0..2 {
        assert_eq!(host(&policies, announced("1")).await.as_deref(), Some("one"), "used meanwhile");
        refreshed(&policies).await;
    }
    assert_eq!(server.fetches(), 2, "once, and it failed");
    assert_eq!(host(&policies, announced("1")).await.as_deref(), Some("one"), "used when it fails");
    policies.shared.known().clear();
    server.serve(Some(policy("two", 1000)));
    assert!(host(&policies, announced("1")).await.is_some());
    age(600);
    server.serve(Some(policy("three", 1000)));
    assert_eq!(host(&policies, announced("1")).await.as_deref(), Some("two"));
    refreshed(&policies).await;
    assert_eq!(host(&policies, announced("1")).await.as_deref(), Some("three"));
}

#[tokio::test]
async fn policies_of_a_script_need_no_record() {
    let text = "version: STSv1\nmode: testing\nmx: mx.test\nmax_age: 1";
    let texts = [("A.test".to_owned(), text.to_owned())].into();
    let policies = StsPolicies::new(Box::new(TestPolicies::new(&texts).expect("sound")));
    assert!(policies.is_fixed());
    assert_eq!(host(&policies, Err(DnsError::NoData)).await.as_deref(), Some("mx.test"));
    assert_eq!(policies.of("b.test", announced("1")).await.policy, None);
    let faulty = [("b.test".to_owned(), "version: 2".to_owned())].into();
    assert!(TestPolicies::new(&faulty).is_err_and(|(domain, _)| domain == "b.test"));
}
