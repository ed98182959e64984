//! `kumo.make_throttle` and its methods.

use crate::support::{Loaded, draft, load, load_error, now, received_with};
use policy::{ConnMeta, Policy, PolicyError};
use std::time::{Duration, Instant};

fn at_connection(body: &str) -> Loaded {
    load(&format!("kumo.on('smtp_server_connection_accepted', function(conn) {body} end)"))
}

fn connect(loaded: &Loaded) -> Result<(), PolicyError> {
    now(loaded.policy.smtp_server_connection_accepted(ConnMeta::new()))
}

#[test]
fn a_hit_tells_what_kumomta_tells() {
    let body = "local t = kumo.make_throttle('a', '2/hour')
        local r = t:throttle()
        assert(not r.throttled and r.limit == 2 and r.remaining == 1 and r.retry_after == nil)
        assert(r.reset_after.secs == 1800 and r.reset_after.nanos == 0)
        assert(t:throttle().remaining == 0)
        r = t:throttle()
        assert(r.throttled and r.remaining == 0 and r.limit == 2)
        assert(r.retry_after.secs == 1799 and r.retry_after.nanos > 0, r.retry_after.secs)
        assert(r.reset_after.secs == 3599)
        assert(not kumo.make_throttle('b', '2/hour'):throttle().throttled, 'another name')
        assert(not kumo.make_throttle('a', '3/hour'):throttle().throttled, 'a spec that changed')
        assert(kumo.make_throttle('a', '2/3600s'):throttle().throttled, 'the same spec in other words')
        assert(t:explain():find('^2 in 3600s, at most 2 at once, one every 1800s'), t:explain())";
    connect(&at_connection(body)).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn all_states_share_a_throttle() {
    let body = "if kumo.make_throttle('shared', '3/day'):throttle().throttled then error('throttled') end";
    let loaded = load(&format!(
        "kumo.set_max_lua_context_use_count(1)
         kumo.on('smtp_server_connection_accepted', function(conn) {body} end)"
    ));
    (0..3).for_each(|_| connect(&loaded).unwrap_or_else(|e| panic!("{e}")));
    assert!(connect(&loaded).expect_err("the fourth").to_string().contains("throttled"));
}

#[test]
fn a_message_is_delayed_by_what_is_left_to_wait() {
    let body = "local t = kumo.make_throttle('m', '1/hour')
        assert(not t:delay_message_if_throttled(msg))
        assert(t:delay_message_if_throttled(msg))";
    let before = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let due = received_with(body, draft(), ConnMeta::new()).unwrap_or_else(|e| panic!("{e}")).due;
    let wait = Duration::from_micros(due.unix_micros().unsigned_abs()) - before;
    assert!((3599..=3601).contains(&wait.as_secs()), "{wait:?}");
    let body = "assert(not kumo.make_throttle('m', '1/hour'):delay_message_if_throttled(msg))";
    let due = received_with(body, draft(), ConnMeta::new()).unwrap_or_else(|e| panic!("{e}")).due;
    assert_eq!(due, draft().due, "not delayed");
}

#[test]
fn what_is_wrong_is_said() {
    for (call, why) in [
        ("kumo.make_throttle('a', '1/week')", "kumo.make_throttle `a`: "),
        ("kumo.make_throttle('a', '0/s')", "QTY must be an integer >= 1"),
        ("kumo.make_throttle(('n'):rep(1025), '1/s')", "a name of 1025 octets: expected at most 1024"),
    ] {
        let error = load_error(call);
        assert!(error.contains(why), "{call}: {error}");
    }
    load("kumo.make_throttle(('n'):rep(1024), '1/s')");
}

const SLEEPS: &str = "if kumo.make_throttle('s', '5/s,max_burst=1'):sleep_if_throttled() then error('slept') end";

#[test]
fn the_first_handler_that_sleeps_holds_its_thread() {
    let loaded = at_connection(&format!("kumo.make_throttle('s', '5/s,max_burst=1'):throttle() {SLEEPS}"));
    let began = Instant::now();
    assert!(connect(&loaded).expect_err("it had to wait").to_string().contains("slept"));
    assert!(began.elapsed() >= Duration::from_millis(190), "{:?}", began.elapsed());
}

#[test]
fn later_handlers_sleep_beside_others_on_one_thread() {
    let loaded = at_connection(SLEEPS);
    connect(&loaded).unwrap_or_else(|e| panic!("the first needs not wait: {e}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("runtime");
    runtime.block_on(async {
        let one = loaded.policy.smtp_server_connection_accepted(ConnMeta::new());
        let other = loaded.policy.smtp_server_connection_accepted(ConnMeta::new());
        let mut turns = 0;
        let watch = async {
            loop {
                turns += 1;
                tokio::task::yield_now().await;
            }
        };
        let both = async { tokio::join!(one, other) };
        let (one, other) = tokio::select! { done = both => done, () = watch => unreachable!() };
        assert!(one.is_err() && other.is_err(), "both slept");
        assert!(turns > 2, "the thread was held");
    });
}

#[test]
fn a_handler_that_is_given_up_while_it_sleeps_takes_its_state_with_it() {
    let loaded = at_connection("kumo.make_throttle('s', '1/h'):sleep_if_throttled()");
    connect(&loaded).unwrap_or_else(|e| panic!("{e}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("runtime");
    runtime.block_on(async {
        let asleep = loaded.policy.smtp_server_connection_accepted(ConnMeta::new());
        let given_up = tokio::time::timeout(Duration::from_millis(20), asleep).await;
        assert!(given_up.is_err(), "an hour's wait");
    });
}
