//! Configuration epochs: what ages by epoch is asked for after one begins and not before, and the rest as ever.

mod support;

use clock::Duration;
use queue::{Effect, Why};
use serde_json::json;
use support::{Rig, config, failure, path, route};

const LONG: u64 = 1_000_000;

/// What policy is asked since the last call: (configurations, routes).
fn asked(rig: &mut Rig) -> (usize, usize) {
    let effects = rig.drain();
    let configurations = effects.iter().filter(|e| matches!(e, Effect::Configure { .. })).count();
    (configurations, effects.iter().filter(|e| matches!(e, Effect::Route { .. })).count())
}

/// A queue with 100 messages of which 10 are ready: the rest keeps asking.
fn busy(queue: serde_json::Value, of_path: serde_json::Value, fresh_secs: u64) -> Rig {
    let mut rig = Rig::new();
    let mut of_path = path(of_path);
    of_path.max_ready = 10;
    let config: config::QueueConfig = config::parse("kumo.make_queue_config", queue).expect("sound");
    rig.routed("x.test", config, route(&[("a", 1)], &of_path, fresh_secs));
    rig.admit("x.test", 100);
    rig.drain();
    rig
}

#[test]
fn what_ages_by_epoch_is_asked_for_once_in_each() {
    let by_epoch = json!({"refresh_strategy": "Epoch", "refresh_interval": "1s"});
    let mut rig = busy(by_epoch.clone(), json!({"refresh_strategy": "Epoch"}), LONG);
    rig.pass(Duration::from_secs(600));
    assert_eq!(asked(&mut rig), (0, 0), "time alone changes nothing");
    rig.core.begin_epoch();
    rig.core.tick(rig.now);
    assert_eq!(asked(&mut rig), (1, 0));
    rig.pass(Duration::from_secs(600));
    assert_eq!(asked(&mut rig), (0, 0), "not again before there is an answer");
    let key = rig.core.queue(rig.now.mono, "x.test");
    let config = config::parse("kumo.make_queue_config", by_epoch).expect("sound");
    rig.core.configured(rig.now, key, std::sync::Arc::new(config));
    assert_eq!(asked(&mut rig), (0, 1), "the way by the configuration that came");
    rig.core.routed(rig.now, key, route(&[("a", 1)], &path(json!({"refresh_strategy": "Epoch"})), LONG));
    rig.pass(Duration::from_secs(600));
    assert_eq!(asked(&mut rig), (0, 0), "nor after it");
}

#[test]
fn an_epoch_that_begins_while_policy_answers_asks_once_more() {
    let mut rig = busy(json!({"refresh_strategy": "Epoch"}), json!({}), LONG);
    rig.core.begin_epoch();
    rig.core.tick(rig.now);
    assert_eq!(asked(&mut rig), (1, 0), "the path ages by time");
    rig.core.begin_epoch();
    let key = rig.core.queue(rig.now.mono, "x.test");
    let old = config::parse("kumo.make_queue_config", json!({"refresh_strategy": "Epoch"})).expect("sound");
    rig.core.configured(rig.now, key, std::sync::Arc::new(old));
    rig.core.tick(rig.now);
    assert_eq!(asked(&mut rig), (1, 0), "that answer was of the epoch before");
}

/// The pool of the configuration before is gone, say.
#[test]
fn what_becomes_of_a_way_by_an_old_configuration_fails_nothing_and_holds_nothing_back() {
    for finds_one in [false, true] {
        let mut rig = busy(json!({"egress_pool": "old", "refresh_interval": "200s"}), json!({}), 100);
        let key = rig.core.queue(rig.now.mono, "x.test");
        rig.pass(Duration::from_secs(130));
        assert_eq!(asked(&mut rig), (0, 1), "a way by the pool of then");
        rig.pass(Duration::from_secs(130));
        assert_eq!(asked(&mut rig), (1, 0));
        rig.core.configured(rig.now, key, std::sync::Arc::new(config(json!({"egress_pool": "new"}))));
        assert_eq!(asked(&mut rig), (0, 0), "that question has no answer yet");
        let of_path = path(json!({"max_ready": 10}));
        match finds_one {
            true => rig.core.routed(rig.now, key, route(&[("a", 1)], &of_path, LONG)),
            false => rig.core.unroutable(rig.now, key, failure(451)),
        }
        let effects = rig.drain();
        assert_eq!(rig.ready().iter().map(|(_, count)| count).sum::<usize>(), 10);
        let pools = effects.iter().filter_map(|effect| match effect {
            Effect::Route { config, .. } => Some(config.egress_pool().to_owned()),
            _ => None,
        });
        assert_eq!(pools.collect::<Vec<_>>(), ["new"], "at once");
        assert!(!effects.iter().any(|effect| matches!(effect, Effect::Settle(_))), "{effects:?}");
        rig.core.routed(rig.now, key, route(&[("b", 1)], &of_path, LONG));
        assert!(rig.ready().iter().any(|(name, count)| name.starts_with('b') && *count > 0), "{:?}", rig.ready());
    }
}

#[test]
fn a_configuration_that_is_stale_at_once_keeps_nobody_from_going() {
    let mut rig = Rig::new();
    rig.admit("x.test", 1);
    let key = rig.core.queue(rig.now.mono, "x.test");
    assert_eq!(asked(&mut rig), (1, 0));
    rig.core.configured(rig.now, key, std::sync::Arc::new(config(json!({"refresh_interval": "0s"}))));
    assert_eq!(asked(&mut rig), (0, 1));
    rig.core.routed(rig.now, key, route(&[("a", 1)], &path(json!({})), LONG));
    assert_eq!(rig.ready().len(), 1);
}

#[test]
fn a_configuration_that_fails_while_an_old_way_is_looked_for_is_asked_for_again() {
    let of_pool = |pool: &str| json!({"egress_pool": pool, "refresh_strategy": "Epoch"});
    let mut rig = busy(of_pool("old"), json!({}), 100);
    let key = rig.core.queue(rig.now.mono, "x.test");
    rig.pass(Duration::from_secs(130));
    assert_eq!(asked(&mut rig), (0, 1));
    rig.core.begin_epoch();
    rig.core.tick(rig.now);
    assert_eq!(asked(&mut rig), (1, 0));
    rig.core.configured(rig.now, key, std::sync::Arc::new(config(of_pool("new"))));
    rig.core.begin_epoch();
    rig.core.tick(rig.now);
    assert_eq!(asked(&mut rig), (1, 0), "the way is still being looked for");
    rig.core.unconfigured(rig.now, key, failure(451));
    rig.core.routed(rig.now, key, route(&[("a", 1)], &path(json!({"max_ready": 10})), LONG));
    rig.admit("x.test", 1);
    rig.pass(Duration::from_secs(121));
    assert_eq!(asked(&mut rig).0, 1);
}

#[test]
fn what_ages_by_time_takes_no_notice_of_epochs() {
    let mut rig = busy(json!({"refresh_interval": "100s"}), json!({}), 200);
    rig.core.begin_epoch();
    rig.core.tick(rig.now);
    assert_eq!(asked(&mut rig), (0, 0));
    rig.pass(Duration::from_secs(130));
    assert_eq!(asked(&mut rig), (1, 0));
    let key = rig.core.queue(rig.now.mono, "x.test");
    rig.core.configured(rig.now, key, std::sync::Arc::new(config(json!({"refresh_interval": "1000s"}))));
    rig.pass(Duration::from_secs(130));
    assert_eq!(asked(&mut rig), (0, 1));
}

#[test]
fn an_answer_that_did_not_come_is_asked_for_again_in_the_same_epoch() {
    let mut rig = busy(json!({"refresh_strategy": "Epoch"}), json!({}), LONG);
    rig.core.begin_epoch();
    rig.core.tick(rig.now);
    assert_eq!(asked(&mut rig), (1, 0));
    let key = rig.core.queue(rig.now.mono, "x.test");
    let failure = failure(451);
    assert_eq!(failure.why, Why::FailedToInsertIntoReadyQueue);
    rig.core.unroutable(rig.now, key, failure);
    rig.admit("x.test", 1);
    rig.pass(Duration::from_secs(121));
    assert_eq!(asked(&mut rig).0, 1);
}

#[test]
fn a_path_of_this_epoch_is_kept_and_one_of_an_earlier_or_of_time_is_not() {
    for (strategy, expected) in [("Epoch", true), ("Ttl", false)] {
        let mut rig = busy(json!({}), json!({"refresh_strategy": strategy}), LONG);
        let kept = |rig: &Rig| rig.core.kept_path(&"a".into(), &"site".into()).is_some();
        assert_eq!(kept(&rig), expected, "{strategy}");
        rig.core.begin_epoch();
        assert!(!kept(&rig), "{strategy}");
    }
}

#[test]
fn a_crowd_of_queues_is_asked_about_bit_by_bit() {
    let mut rig = Rig::new();
    let path = path(json!({"refresh_strategy": "Epoch"}));
    for number in 0..200 {
        let name = format!("d{number}.test");
        let config = config(json!({"refresh_strategy": "Epoch"}));
        rig.routed(&name, config, route(&[("a", 1)], &path, LONG));
        rig.admit(&name, usize::from(number >= 50));
    }
    rig.drain();
    rig.core.begin_epoch();
    rig.core.tick(rig.now);
    assert_eq!(asked(&mut rig), (64, 0));
    assert_eq!(rig.core.deadline(), clock::Instant::ZERO, "there is more to do at once");
    (0..9).for_each(|_| rig.core.tick(rig.now));
    assert_eq!(asked(&mut rig), (86, 0), "those without messages are asked about with their next one");
    assert!(rig.core.deadline() > rig.now.mono);
}
