//! What the scripts of the cluster's rates and limits count in a real Redis, exactly.

use config::{RedisThrottles, ThrottleSpec};
use e2e::redis::RunningRedis;
use e2e::scratch::Scratch;
use e2e::until::{SOON, until};
use std::sync::Arc;
use std::time::{Duration, Instant};
use throttle::{Holder, Throttles};
use tokio::runtime::{Builder, Runtime};

async fn shared_by(redis: &RunningRedis) -> Throttles {
    let options = serde_json::json!({"node": redis.url(), "response_timeout": "500ms"});
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
fn a_limit_is_never_exceeded_a_lease_is_given_back_and_that_of_a_lost_holder_ends() {
    let scratch = Scratch::new();
    let redis = RunningRedis::start(&scratch);
    let holder = |id: &str| -> Holder { (id.to_owned(), [("limit".into(), 2)].into_iter().collect()) };
    let runtime = runtime();
    let throttles = runtime.block_on(shared_by(&redis));
    let (a, b, c) = (holder("a"), holder("b"), holder("c"));
    let lease = |of: &Holder| runtime.block_on(throttles.lease(of, None));
    let renew = |of: &Holder| runtime.block_on(throttles.renew(std::slice::from_ref(of)));
    // A server that was just started gives none for some seconds.
    until(SOON, "a lease of a server that is not young any more", || (lease(&a) == Some(true)).then_some(()));
    let first_at = Instant::now();
    assert_eq!(lease(&b), Some(true));
    assert_eq!(lease(&c), Some(false), "two, and no third");
    runtime.block_on(throttles.give_back(&b));
    assert_eq!(lease(&c), Some(true), "at once: it was given back");
    assert_eq!(lease(&b), Some(false));
    // Nobody renews that of `a`.
    until(SOON, "the end of the lease of a holder that is gone", || {
        assert_eq!(renew(&c), Some(vec![true]), "that of `c` is renewed");
        (lease(&b) != Some(false)).then_some(())
    });
    assert!(first_at.elapsed() > Duration::from_secs(14), "{:?}", first_at.elapsed());
    assert_eq!(renew(&a), Some(vec![false]), "it has gone to another");
}
