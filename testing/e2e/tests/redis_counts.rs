//! What the scripts of the cluster's rates and limits count in a real Redis, exactly.

use config::{RedisThrottles, ThrottleSpec};
use e2e::redis::RunningRedis;
use e2e::scratch::Scratch;
use e2e::until::{LATER, SOON, until};
use nix::sys::signal::Signal;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use throttle::{Asker, Holder, LeaseAnswer, NamedRates, Throttles};
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

/// Plays a test with a Redis of its own, and with throttles that are shared there.
fn on_redis(test: impl AsyncFnOnce(&RunningRedis, &Throttles)) {
    let scratch = Scratch::new();
    let redis = RunningRedis::start(&scratch);
    runtime().block_on(async {
        let throttles = shared_by(&redis).await;
        test(&redis, &throttles).await;
    });
}

fn rate(name: &str, spec: &str) -> (Arc<str>, ThrottleSpec) {
    (name.into(), spec.parse().expect("a throttle"))
}

/// Somebody who has leases already.
fn by(name: &str) -> Asker<'_> {
    Asker { name, has_none: false }
}

#[test]
fn a_rate_gives_its_burst_and_not_one_more_and_of_several_the_least() {
    on_redis(async |_, throttles| {
        // Ten an hour: no other comes while this runs.
        let hourly = rate("hourly", "10/h");
        let (count, wait) = throttles.grants(std::slice::from_ref(&hourly), 256, None).await.expect("an answer");
        assert_eq!(count, 9, "the burst, lowered by what a grant may be late");
        assert!(wait <= queue::GRANT_LIFE, "{wait:?}");
        // This wait is what is tested: behind it, and by no event, there is one more.
        tokio::time::sleep(wait).await;
        let (count, wait) = throttles.grants(std::slice::from_ref(&hourly), 256, None).await.expect("an answer");
        assert_eq!(count, 1, "the last of the burst");
        assert!(wait > Duration::from_secs(300), "{wait:?}");
        assert_eq!(throttles.grants(&[hourly], 256, None).await.expect("an answer").0, 0);
        let (few, many) = (rate("few", "3/h"), rate("many", "100/h"));
        assert_eq!(throttles.grants(&[many.clone(), few], 256, None).await.expect("an answer").0, 2);
        assert_eq!(
            throttles.grants(&[many], 256, None).await.expect("an answer").0,
            97,
            "what was refused is not counted"
        );
    });
}

#[test]
fn after_a_step_back_of_its_clock_nobody_waits_longer_than_for_the_next_event() {
    on_redis(async |redis, throttles| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        // As it stands there when the clock was a month ahead.
        let arrival = (now + Duration::from_secs(30 * 86_400)).as_micros().to_string();
        for key in ["postrider:few", "postrider:lua-user-throttle-some:4:3:3600"] {
            assert_eq!(redis.ask(&["SET", key, &arrival]).trim(), "OK");
        }
        let few = throttles.grants(&[rate("few", "4/h")], 1, None).await.expect("an answer");
        let next = Duration::from_secs(850)..=Duration::from_secs(900);
        assert!(few.0 == 0 && next.contains(&few.1), "{few:?}");
        let spec: ThrottleSpec = "4/h,max_burst=3".parse().expect("a throttle");
        let verdict = throttles.hit("some", &spec).await;
        assert!(verdict.retry_after.is_some_and(|wait| next.contains(&wait)), "{verdict:?}");
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
        assert_eq!(one.grants(&[rate("few", "3/h")], 256, None).await.expect("an answer").0, 2);
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
        assert_eq!(one.grants(&rates, 256, None).await.expect("an answer").0, 3);
        assert_eq!(other.grants(&rates, 256, None).await.expect("an answer").0, 0);
        assert_eq!(other.grants(&rates[..1], 256, None).await.expect("an answer").0, 96);
        // Each goes by the server that it named, and those do not begin at the same moment.
        until_old(&one).await;
        until_old(&other).await;
        let holder = |id: &str| -> Holder {
            (id.to_owned(), [("x".into(), 1), ("y".into(), 2), ("z".into(), 3)].into_iter().collect())
        };
        let (a, b) = (holder("a"), holder("b"));
        assert_eq!(one.lease(&a, by("any"), &[]).await, Some(LeaseAnswer::Had));
        assert_eq!(other.lease(&b, by("any"), &[]).await, Some(LeaseAnswer::NoLease), "the narrowest is taken");
        assert_eq!(one.renew(std::slice::from_ref(&a)).await, Some(vec![true]));
        one.give_back(&a).await;
        let few = [rate("one", "2/h,max_burst=1")];
        assert_eq!(other.lease(&b, by("any"), &few).await, Some(LeaseAnswer::Had));
        let of_rate = one.lease(&holder("c"), by("any"), &few).await;
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
    let lease = |of: &Holder| runtime.block_on(throttles.lease(of, by("any"), &[]));
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
    on_redis(async |redis, throttles| {
        until_old(throttles).await;
        let holder = |id: &str, limit| -> Holder { (id.to_owned(), [("limit".into(), limit)].into_iter().collect()) };
        // No other comes while this runs.
        let (few, many) = (rate("few", "4/h,max_burst=1"), rate("many", "100/h,max_burst=1"));
        let both = [many.clone(), few];
        assert_eq!(throttles.lease(&holder("a", 2), by("any"), &both).await, Some(LeaseAnswer::Had));
        assert_eq!(throttles.lease(&holder("a", 2), by("any"), &both).await, Some(LeaseAnswer::Had), "it has it");
        let refused = throttles.lease(&holder("b", 2), by("any"), &both).await;
        let Some(LeaseAnswer::NoRate(wait)) = refused else { panic!("{refused:?}") };
        assert!(wait > Duration::from_secs(800) && wait <= Duration::from_secs(900), "by the slowest: {wait:?}");
        assert_eq!(redis.ask(&["ZCARD", "postrider:lease:limit"]).trim(), "1", "no lease without a rate");
        assert_eq!(throttles.renew(&[holder("a", 2)]).await, Some(vec![true]), "to renew one needs no rate");
        let fresh = rate("fresh", "1/h");
        let refused = throttles.lease(&holder("b", 1), by("any"), std::slice::from_ref(&fresh)).await;
        assert_eq!(refused, Some(LeaseAnswer::NoLease));
        assert_eq!(throttles.grants(&[fresh], 9, None).await.expect("an answer").0, 1, "no rate without a lease");
        let left = throttles.grants(&[many], 9, None).await.expect("an answer");
        // Behind who was refused just now.
        assert!(left.0 == 0 && left.1 <= Duration::from_secs(38), "counted once: {left:?}");
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
    // It knows the script from then on.
    let known: Holder = ("z".to_owned(), [("other".into(), 1)].into_iter().collect());
    assert_eq!(runtime.block_on(throttles.lease(&known, by("any"), &[])), Some(LeaseAnswer::Had));
    redis.process.freeze();
    assert_eq!(runtime.block_on(throttles.lease(&holder, by("any"), &[])), None, "no answer in time");
    redis.process.signal(Signal::SIGCONT);
    until(SOON, "the lease of nobody", || (redis.ask(&["ZCARD", "postrider:lease:limit"]).trim() == "1").then_some(()));
    let begun = Instant::now();
    until(SOON, "that Redis is there again", || runtime.block_on(throttles.renew(&[])).map(|_| ()));
    assert_eq!(redis.ask(&["ZCARD", "postrider:lease:limit"]).trim(), "0");
    assert!(begun.elapsed() < Duration::from_secs(10), "it would end by itself");
    let other: Holder = ("b".to_owned(), holder.1.clone());
    assert_eq!(runtime.block_on(watcher.lease(&other, by("any"), &[])), Some(LeaseAnswer::Had));
}

/// Asks for as many as there are; how many were had.
async fn take(throttles: &Throttles, rates: NamedRates<'_>, who: Option<&str>) -> u64 {
    throttles.grants(rates, 256, who).await.expect("an answer").0
}

/// As if the time had come for all of its burst.
fn fill(redis: &RunningRedis, name: &str) {
    assert_eq!(redis.ask(&["DEL", &format!("postrider:{name}")]).trim(), "1");
}

#[test]
fn whoever_waits_for_a_rate_has_it_in_his_turn_whoever_asks_first() {
    on_redis(async |redis, throttles| {
        // No other comes by itself while this runs.
        let slow = [rate("slow", "1/h,max_burst=1")];
        assert_eq!(take(throttles, &slow, Some("a")).await, 1);
        for who in ["b", "c", "a"] {
            assert_eq!(take(throttles, &slow, Some(who)).await, 0);
        }
        let mut turns = Vec::new();
        for _ in 0..6 {
            fill(redis, "slow");
            assert_eq!(take(throttles, &slow, None).await, 0, "who is not in line comes last");
            for who in ["a", "c", "b", "a", "c", "b"] {
                if take(throttles, &slow, Some(who)).await == 1 {
                    turns.push(who);
                }
            }
        }
        assert_eq!(turns, ["b", "c", "a", "b", "c", "a"]);
        for part in ["line", "line-ends"] {
            assert_eq!(redis.ask(&["ZCARD", &format!("postrider:slow:{part}")]).trim(), "3");
            let lasts: u64 = redis.ask(&["TTL", &format!("postrider:slow:{part}")]).trim().parse().expect("it ends");
            assert!(lasts <= 3 * 3600, "{lasts}");
        }
    });
}

#[test]
fn a_rate_of_more_than_a_hundred_a_second_has_no_line() {
    on_redis(async |redis, throttles| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_micros();
        for (spec, places) in [("101/s,max_burst=1", "0"), ("100/s,max_burst=1", "1")] {
            // Used up for a minute to come.
            let used = (now + 60_000_000).to_string();
            assert_eq!(redis.ask(&["SET", &format!("postrider:{spec}"), &used]).trim(), "OK");
            assert_eq!(take(throttles, &[rate(spec, spec)], Some("a")).await, 0);
            assert_eq!(redis.ask(&["ZCARD", &format!("postrider:{spec}:line")]).trim(), places, "{spec}");
        }
    });
}

#[test]
fn who_does_not_come_in_his_turn_has_lost_it() {
    on_redis(async |redis, throttles| {
        let slow = [rate("slow", "1/h,max_burst=1")];
        let wait_of = async |who| throttles.grants(&slow, 1, Some(who)).await.expect("an answer");
        assert_eq!(wait_of("a").await.0, 1);
        let waits = [wait_of("b").await, wait_of("c").await].map(|(_, wait)| wait);
        // Who is second looks whether the first was there, not an hour later.
        assert!(waits.iter().all(|wait| wait.as_secs().abs_diff(3600) < 60), "{waits:?}");
        fill(redis, "slow");
        let ends = |at: u128| {
            let at = at.to_string();
            assert_eq!(redis.ask(&["ZADD", "postrider:slow:line-ends", "XX", "CH", &at, "b"]).trim(), "1");
        };
        // As if that time had come, and then as if it had passed.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis();
        ends(now + 60_000);
        let (count, wait) = wait_of("c").await;
        assert!(count == 0 && wait <= Duration::from_millis(60_001), "{wait:?}");
        ends(1);
        assert_eq!(wait_of("c").await.0, 1);
        assert_eq!((wait_of("d").await.0, wait_of("b").await.0), (0, 0));
        fill(redis, "slow");
        assert_eq!((wait_of("b").await.0, wait_of("d").await.0), (0, 1), "behind all who are there");
        fill(redis, "slow");
        assert_eq!(wait_of("d").await.0, 0, "b is before it");
        // A server that is short of memory may have forgotten half of the line.
        assert_eq!(redis.ask(&["DEL", "postrider:slow:line-ends"]).trim(), "1");
        assert_eq!(wait_of("d").await.0, 1);
    });
}

#[test]
fn who_needs_several_rates_stands_in_line_with_those_who_need_the_same_and_keeps_nobody_else() {
    on_redis(async |redis, throttles| {
        let both = [rate("slow", "1/h,max_burst=1"), rate("slower", "1/d,max_burst=1")];
        assert_eq!(take(throttles, &both, Some("a")).await, 1);
        for who in ["b", "c"] {
            assert_eq!(take(throttles, &both, Some(who)).await, 0);
        }
        fill(redis, "slow");
        assert_eq!(take(throttles, &both[..1], Some("d")).await, 1, "they wait for the other");
        fill(redis, "slow");
        fill(redis, "slower");
        assert_eq!(take(throttles, &both, Some("c")).await, 0);
        assert_eq!(take(throttles, &both, Some("b")).await, 1);
    });
}

#[test]
fn what_has_gathered_is_for_all_in_line() {
    on_redis(async |redis, throttles| {
        let some = [rate("some", "7/h")];
        assert_eq!(take(throttles, &some, Some("a")).await, 6);
        for who in ["b", "c"] {
            assert_eq!(take(throttles, &some, Some(who)).await, 0);
        }
        fill(redis, "some");
        assert_eq!(
            take(throttles, &some, None).await,
            1,
            "of six two are those of the line, and the rest is for three"
        );
        assert_eq!(take(throttles, &some, Some("c")).await, 2, "of five one is b's, and the rest is for two");
        for had in [1, 1, 0] {
            assert_eq!(take(throttles, &some, Some("c")).await, had);
        }
        assert_eq!(take(throttles, &some, Some("b")).await, 1, "what was left for it");
        assert_eq!(take(throttles, &some, Some("b")).await, 0);
        fill(redis, "some");
        let (count, _) = throttles.grants(&some, 2, Some("c")).await.expect("an answer");
        assert_eq!(count, 2, "of half of it, with one behind, what is wanted");
        assert_eq!(take(throttles, &some, Some("b")).await, 4);
    });
}

#[test]
fn connections_have_their_rate_in_turn_and_who_has_no_lease_by_then_makes_room() {
    on_redis(async |redis, throttles| {
        until_old(throttles).await;
        let holder = |id: &str, limit: &str| -> Holder { (id.to_owned(), [(limit.into(), 1)].into_iter().collect()) };
        let slow = [rate("slow", "1/h,max_burst=1")];
        let lease = async |who, limit| throttles.lease(&holder(who, limit), by(who), &slow).await.expect("an answer");
        assert_eq!(throttles.lease(&holder("a", "busy"), by("a"), &[]).await, Some(LeaseAnswer::Had));
        assert_eq!(take(throttles, &slow, None).await, 1);
        for (who, limit) in [("b", "busy"), ("c", "free"), ("d", "other")] {
            assert!(matches!(lease(who, limit).await, LeaseAnswer::NoRate(_)), "{who}");
        }
        fill(redis, "slow");
        assert!(matches!(lease("c", "free").await, LeaseAnswer::NoRate(_)), "b is before it");
        assert_eq!(lease("b", "busy").await, LeaseAnswer::NoLease);
        assert!(matches!(lease("d", "other").await, LeaseAnswer::NoRate(_)), "c is before it");
        assert_eq!(lease("c", "free").await, LeaseAnswer::Had);
        fill(redis, "slow");
        assert_eq!(lease("d", "other").await, LeaseAnswer::Had);
        assert_eq!(redis.ask(&["EXISTS", "postrider:slow:line", "postrider:slow:line-ends"]).trim(), "0");
    });
}

#[test]
fn who_has_his_turn_at_the_rate_has_it_at_the_limit_as_well() {
    on_redis(async |redis, throttles| {
        until_old(throttles).await;
        let holder = |id: &str| -> Holder { (id.to_owned(), [("limit".into(), 1)].into_iter().collect()) };
        let none = |name| Asker { name, has_none: true };
        let slow = [rate("slow", "1/h,max_burst=1")];
        assert_eq!(take(throttles, &slow, None).await, 1);
        assert_eq!(throttles.lease(&holder("a"), none("a"), &[]).await, Some(LeaseAnswer::Had));
        assert_eq!(throttles.lease(&holder("b"), none("b"), &[]).await, Some(LeaseAnswer::NoLease));
        let refused = throttles.lease(&holder("c"), none("c"), &slow).await;
        assert!(matches!(refused, Some(LeaseAnswer::NoRate(_))), "{refused:?}");
        throttles.give_back(&holder("a")).await;
        fill(redis, "slow");
        // Else b could wait for the rate behind c, and c for the limit behind b.
        assert_eq!(throttles.lease(&holder("c"), none("c"), &slow).await, Some(LeaseAnswer::Had));
    });
}

#[test]
fn a_login_that_may_not_name_scripts_by_their_hash_says_them() {
    let scratch = Scratch::new();
    let redis = RunningRedis::start(&scratch);
    assert_eq!(redis.ask(&["ACL", "SETUSER", "few", "on", ">secret", "~*", "+@all", "-evalsha"]).trim(), "OK");
    let options = serde_json::json!({"node": redis.url(), "username": "few", "password": "secret"});
    runtime().block_on(async {
        let throttles = shared(options).await;
        assert_eq!(take(&throttles, &[rate("some", "7/h")], None).await, 6);
    });
}
