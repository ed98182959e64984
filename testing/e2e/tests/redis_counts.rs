//! What the scripts of the cluster's rates and limits count in a real Redis, exactly.

use config::{RedisThrottles, ThrottleSpec};
use e2e::redis::RunningRedis;
use e2e::scratch::Scratch;
use e2e::until::{LATER, SOON, until};
use nix::sys::signal::Signal;
use std::sync::Arc;
use std::time::{Duration, Instant};
use throttle::{Holder, LeaseAnswer, Throttles};
use tokio::runtime::{Builder, Runtime};

async fn shared_by(redis: &RunningRedis) -> Throttles {
    shared(serde_json::json!({"node": redis.url(), "response_timeout": "2s"})).await
}

async fn shared(options: serde_json::Value) -> Throttles {
    let options: RedisThrottles = config::parse("kumo.configure_redis_throttles", options).expect("sound");
    let throttles = Throttles::default();
    throttles.share(&options).await.expect("Redis is there");
    throttles
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn rate(name: &str, spec: &str) -> (Arc<str>, ThrottleSpec) {
    (name.into(), spec.parse().expect("a throttle"))
}

#[test]
fn a_rate_gives_its_burst_and_not_one_more_and_of_several_the_least() {
    let scratch = Scratch::new();
    let redis = RunningRedis::start(&scratch);
    runtime().block_on(async {
        let throttles = shared_by(&redis).await;
        // Ten an hour: no other comes while this runs.
        let hourly = rate("hourly", "10/h");
        let (count, wait) = throttles.grants(std::slice::from_ref(&hourly), 256).await.expect("an answer");
        assert_eq!(count, 9, "the burst, lowered by what a grant may be late");
        assert!(wait <= queue::GRANT_LIFE, "{wait:?}");
        // This wait is what is tested: behind it, and by no event, there is one more.
        tokio::time::sleep(wait).await;
        let (count, wait) = throttles.grants(std::slice::from_ref(&hourly), 256).await.expect("an answer");
        assert_eq!(count, 1, "the last of the burst");
        assert!(wait > Duration::from_secs(300), "{wait:?}");
        assert_eq!(throttles.grants(&[hourly], 256).await.expect("an answer").0, 0);
        let (few, many) = (rate("few", "3/h"), rate("many", "100/h"));
        assert_eq!(throttles.grants(&[many.clone(), few], 256).await.expect("an answer").0, 2);
        assert_eq!(throttles.grants(&[many], 256).await.expect("an answer").0, 97, "what was refused is not counted");
    });
}

#[test]
fn questions_that_fail_are_counted_for_as_long_as_redis_is_away() {
    let scratch = Scratch::new();
    let redis = RunningRedis::start(&scratch);
    let runtime = runtime();
    let throttles = runtime.block_on(shared_by(&redis));
    let spec: ThrottleSpec = "100/h".parse().expect("a throttle");
    let hit = || runtime.block_on(throttles.hit("some", &spec));
    let counts = || throttles.question_times().expect("shared").map(|times| times.count());
    hit();
    assert_eq!(counts(), [1, 0]);
    drop(redis);
    hit();
    assert_eq!(counts(), [1, 1], "the one that finds out");
    (0..10).for_each(|_| _ = hit());
    assert_eq!(counts(), [1, 1], "the next ones go on by themselves");
    // Now and then somebody tries again.
    until(LATER, "two attempts to connect that failed", || {
        hit();
        (counts() == [1, 3]).then_some(())
    });
}

#[test]
fn redis_cell_counts_hits_where_the_server_has_it() {
    let scratch = Scratch::new();
    let redis = RunningRedis::start_with_cell(&scratch);
    runtime().block_on(async {
        let (one, other) = (shared_by(&redis).await, shared_by(&redis).await);
        let spec: ThrottleSpec = "4/h,max_burst=3".parse().expect("a throttle");
        let mut verdicts = Vec::new();
        for node in [&one, &other, &one, &other] {
            verdicts.push(node.hit("some", &spec).await);
        }
        let of = |number: usize| (verdicts[number].throttled, verdicts[number].limit, verdicts[number].remaining);
        assert_eq!((of(0), of(1), of(2), of(3)), ((false, 3, 2), (false, 3, 1), (false, 3, 0), (true, 3, 0)));
        let wait = verdicts[3].retry_after.expect("refused");
        assert!(wait > Duration::from_secs(880) && wait <= Duration::from_secs(900), "{wait:?}");
        // The limits are counted by scripts of ours all the same.
        assert_eq!(one.grants(&[rate("few", "3/h")], 256).await.expect("an answer").0, 2);
    });
    // KumoMTA's key, in redis-cell's form, not in that of our script.
    assert_eq!(redis.ask(&["EXISTS", "lua-user-throttle-some:4:3:3600"]).trim(), "1");
    assert_eq!(redis.ask(&["EXISTS", "postrider:lua-user-throttle-some:4:3:3600"]).trim(), "0");
}

#[test]
fn a_cluster_counts_like_one_server() {
    let scratch = Scratch::new();
    let servers = RunningRedis::start_cluster(&scratch);
    let urls: Vec<String> = servers.iter().map(RunningRedis::url).collect();
    let (first, last) = (servers[0].url(), &urls[1..]);
    runtime().block_on(async {
        // One names one server, the other two others: they find the rest.
        let one = shared(serde_json::json!({"node": first, "cluster": true, "response_timeout": "1s"})).await;
        let other = shared(serde_json::json!({"node": last, "response_timeout": "1s"})).await;
        let spec: ThrottleSpec = "2/h".parse().expect("a throttle");
        for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
            let hits = [&one, &other, &one].map(|node| node.hit(name, &spec));
            let mut admitted = 0;
            for hit in hits {
                admitted += u32::from(!hit.await.throttled);
            }
            assert_eq!(admitted, 2, "{name}");
        }
        let rates = [rate("many", "100/h"), rate("few", "4/h"), rate("some", "50/h")];
        assert_eq!(one.grants(&rates, 256).await.expect("an answer").0, 3);
        assert_eq!(other.grants(&rates, 256).await.expect("an answer").0, 0);
        assert_eq!(other.grants(&rates[..1], 256).await.expect("an answer").0, 96);
        until_old(&one).await;
        let holder = |id: &str| -> Holder {
            (id.to_owned(), [("x".into(), 1), ("y".into(), 2), ("z".into(), 3)].into_iter().collect())
        };
        let (a, b) = (holder("a"), holder("b"));
        assert_eq!(one.lease(&a, None, &[]).await, Some(LeaseAnswer::Had));
        assert_eq!(other.lease(&b, None, &[]).await, Some(LeaseAnswer::NoLease), "the narrowest is taken");
        assert_eq!(one.renew(std::slice::from_ref(&a)).await, Some(vec![true]));
        one.give_back(&a).await;
        let few = [rate("one", "2/h,max_burst=1")];
        assert_eq!(other.lease(&b, None, &few).await, Some(LeaseAnswer::Had));
        let of_rate = one.lease(&holder("c"), None, &few).await;
        assert!(matches!(of_rate, Some(LeaseAnswer::NoRate(wait)) if wait > SOON), "{of_rate:?}");
    });
    // Single throttles are spread, what is taken together is together.
    let keys: Vec<Vec<String>> =
        servers.iter().map(|server| server.ask(&["KEYS", "*"]).lines().map(str::to_owned).collect()).collect();
    let on = |part: &str| keys.iter().filter(|keys| keys.iter().any(|key| key.contains(part))).count();
    assert!(on("lua-user-throttle-") > 1, "{keys:?}");
    assert_eq!((on("{postrider}:few"), on("{postrider}:many"), on("{postrider}:lease:x")), (1, 1, 1), "{keys:?}");
    assert_eq!(on("{postrider}:"), 1, "{keys:?}");
}

/// Waits until leases are given again: the servers were just started.
async fn until_old(throttles: &Throttles) {
    let end = Instant::now() + LATER;
    while throttles.is_young() {
        assert!(Instant::now() < end, "never: servers that have run for a while");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[test]
fn a_limit_is_never_exceeded_a_lease_is_given_back_and_that_of_a_lost_holder_ends() {
    let scratch = Scratch::new();
    let redis = RunningRedis::start(&scratch);
    let holder = |id: &str| -> Holder { (id.to_owned(), [("limit".into(), 2)].into_iter().collect()) };
    let runtime = runtime();
    let throttles = runtime.block_on(shared_by(&redis));
    let (a, b, c) = (holder("a"), holder("b"), holder("c"));
    let lease = |of: &Holder| runtime.block_on(throttles.lease(of, None, &[]));
    let renew = |of: &Holder| runtime.block_on(throttles.renew(std::slice::from_ref(of)));
    // A server that was just started gives none for some seconds.
    until(SOON, "a lease of a server that is not young any more", || {
        (lease(&a) == Some(LeaseAnswer::Had)).then_some(())
    });
    let first_at = Instant::now();
    assert_eq!(lease(&b), Some(LeaseAnswer::Had));
    assert_eq!(lease(&c), Some(LeaseAnswer::NoLease), "two, and no third");
    runtime.block_on(throttles.give_back(&b));
    assert_eq!(lease(&c), Some(LeaseAnswer::Had), "at once: it was given back");
    assert_eq!(lease(&b), Some(LeaseAnswer::NoLease));
    // Nobody renews that of `a`.
    until(SOON, "the end of the lease of a holder that is gone", || {
        assert_eq!(renew(&c), Some(vec![true]), "that of `c` is renewed");
        (lease(&b) == Some(LeaseAnswer::Had)).then_some(())
    });
    assert!(first_at.elapsed() > Duration::from_secs(14), "{:?}", first_at.elapsed());
    assert_eq!(renew(&a), Some(vec![false]), "it has gone to another");
}

#[test]
fn a_lease_and_the_rates_of_its_connection_are_had_together_or_not_at_all() {
    let scratch = Scratch::new();
    let redis = RunningRedis::start(&scratch);
    runtime().block_on(async {
        let throttles = shared_by(&redis).await;
        until_old(&throttles).await;
        let holder = |id: &str, limit| -> Holder { (id.to_owned(), [("limit".into(), limit)].into_iter().collect()) };
        // No other comes while this runs.
        let (few, many) = (rate("few", "4/h,max_burst=1"), rate("many", "100/h,max_burst=1"));
        let both = [many.clone(), few];
        assert_eq!(throttles.lease(&holder("a", 2), None, &both).await, Some(LeaseAnswer::Had));
        assert_eq!(throttles.lease(&holder("a", 2), None, &both).await, Some(LeaseAnswer::Had), "it has it");
        let refused = throttles.lease(&holder("b", 2), None, &both).await;
        let Some(LeaseAnswer::NoRate(wait)) = refused else { panic!("{refused:?}") };
        assert!(wait > Duration::from_secs(800) && wait <= Duration::from_secs(900), "by the slowest: {wait:?}");
        assert_eq!(redis.ask(&["ZCARD", "postrider:lease:limit"]).trim(), "1", "no lease without a rate");
        assert_eq!(throttles.renew(&[holder("a", 2)]).await, Some(vec![true]), "to renew one needs no rate");
        let fresh = rate("fresh", "1/h");
        let refused = throttles.lease(&holder("b", 1), None, std::slice::from_ref(&fresh)).await;
        assert_eq!(refused, Some(LeaseAnswer::NoLease));
        assert_eq!(throttles.grants(&[fresh], 9).await.expect("an answer").0, 1, "no rate without a lease");
        let left = throttles.grants(&[many], 9).await.expect("an answer");
        assert!(left.0 == 0 && left.1 <= Duration::from_secs(36), "counted once: {left:?}");
    });
}

#[test]
fn a_lease_whose_answer_is_lost_is_given_back_when_redis_is_there_again() {
    let scratch = Scratch::new();
    let redis = RunningRedis::start(&scratch);
    let runtime = runtime();
    // A short time, so that the server is old before what it granted may be forgotten.
    let quick = || runtime.block_on(shared(serde_json::json!({"node": redis.url(), "response_timeout": "500ms"})));
    let throttles = quick();
    runtime.block_on(until_old(&throttles));
    let holder: Holder = ("a".to_owned(), [("limit".into(), 1)].into_iter().collect());
    let watcher = quick();
    redis.process.signal(Signal::SIGSTOP);
    assert_eq!(runtime.block_on(throttles.lease(&holder, None, &[])), None, "no answer in time");
    redis.process.signal(Signal::SIGCONT);
    until(SOON, "the lease of nobody", || (redis.ask(&["ZCARD", "postrider:lease:limit"]).trim() == "1").then_some(()));
    let begun = Instant::now();
    until(SOON, "that Redis is there again", || runtime.block_on(throttles.renew(&[])).map(|_| ()));
    assert_eq!(redis.ask(&["ZCARD", "postrider:lease:limit"]).trim(), "0");
    assert!(begun.elapsed() < Duration::from_secs(10), "it would end by itself");
    let other: Holder = ("b".to_owned(), holder.1.clone());
    assert_eq!(runtime.block_on(watcher.lease(&other, None, &[])), Some(LeaseAnswer::Had));
}
