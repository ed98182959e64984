//! What the scripts of the cluster's rates and limits count in a real Redis, exactly.

use config::{RedisThrottles, ThrottleSpec};
use e2e::redis::RunningRedis;
use e2e::scratch::Scratch;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};
use throttle::{Holder, Throttles};

async fn shared_by(redis: &RunningRedis) -> Throttles {
    let options = serde_json::json!({"node": redis.url(), "response_timeout": "500ms"});
    let options: RedisThrottles = config::parse("kumo.configure_redis_throttles", options).expect("sound");
    let throttles = Throttles::default();
    throttles.share(&options).await.expect("Redis is there");
    throttles
}

fn now<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
}

fn rate(name: &str, spec: &str) -> (Arc<str>, ThrottleSpec) {
    (name.into(), spec.parse().expect("a throttle"))
}

#[test]
fn a_rate_gives_its_burst_and_not_one_more_and_of_several_the_least() {
    let scratch = Scratch::new();
    let redis = RunningRedis::start(&scratch);
    now(async {
        let throttles = shared_by(&redis).await;
        // Ten an hour: no other comes while this runs.
        let hourly = rate("hourly", "10/h");
        let (count, wait) = throttles.grants(std::slice::from_ref(&hourly), 256).await.expect("an answer");
        assert_eq!(count, 9, "the burst, lowered by what a grant may be late");
        assert!(wait <= queue::GRANT_LIFE, "{wait:?}");
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
fn a_limit_is_never_exceeded_a_lease_is_given_back_and_that_of_a_lost_holder_ends() {
    let scratch = Scratch::new();
    let redis = RunningRedis::start(&scratch);
    let holder = |id: &str| -> Holder { (id.to_owned(), [("limit".into(), 2)].into_iter().collect()) };
    now(async {
        let throttles = shared_by(&redis).await;
        let (a, b, c) = (holder("a"), holder("b"), holder("c"));
        // A server that was just started gives none for some seconds.
        let first_at = await_lease(&throttles, &a).await;
        assert_eq!(throttles.lease(&b, None).await, Some(true));
        assert_eq!(throttles.lease(&c, None).await, Some(false), "two, and no third");
        throttles.give_back(&b).await;
        assert_eq!(throttles.lease(&c, None).await, Some(true), "at once: it was given back");
        assert_eq!(throttles.lease(&b, None).await, Some(false));
        // Nobody renews that of `a`.
        while throttles.lease(&b, None).await == Some(false) {
            assert_eq!(throttles.renew(std::slice::from_ref(&c)).await, Some(vec![true]), "that of `c` is renewed");
            assert!(first_at.elapsed() < Duration::from_secs(20), "the lease of a holder that is gone goes on");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(first_at.elapsed() > Duration::from_secs(14), "{:?}", first_at.elapsed());
        assert_eq!(throttles.renew(&[a]).await, Some(vec![false]), "it has gone to another");
    });
}

async fn await_lease(throttles: &Throttles, of: &Holder) -> Instant {
    let began = Instant::now();
    while throttles.lease(of, None).await != Some(true) {
        assert!(began.elapsed() < Duration::from_secs(20), "no lease of a server that is not young any more");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Instant::now()
}
