//! Connection objects of `custom_lua`: what they are handed, what they answer, and the state they keep.

use crate::support::{Loaded, draft, load, now};
use policy::{Courier, Disconnect, Policy, PolicyError, QueueParts};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

fn parts() -> QueueParts {
    let tenant = Some("shop".to_owned());
    QueueParts { domain: "to.test".to_owned(), tenant, campaign: None, routing_domain: Some("elsewhere".to_owned()) }
}

fn construct(loaded: &Loaded) -> Result<Box<dyn Courier>, PolicyError> {
    now(loaded.policy.construct_courier("make".to_owned(), parts()))
}

fn courier(object: &str) -> (Loaded, Box<dyn Courier>) {
    let loaded = load(&format!("kumo.on('make', function(domain, tenant, campaign) return {object} end)"));
    let courier = construct(&loaded).unwrap_or_else(|e| panic!("{e}"));
    (loaded, courier)
}

/// The text of a script's error that is none of a verdict.
fn fault<T>(result: Result<T, PolicyError>) -> String {
    match result {
        Err(PolicyError::Script { event: "custom_lua", text }) => text,
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("no error"),
    }
}

#[test]
fn the_object_keeps_its_state_and_has_the_message() {
    let (_loaded, mut courier) = courier(
        "setmetatable({ count = 0, args = domain .. ' ' .. tenant .. ' ' .. tostring(campaign) }, { __index = {
            send = function(self, msg)
                self.count = self.count + 1
                kept = kept or msg
                if kept ~= msg then assert(not pcall(kept.id, kept), 'a message of an earlier call') end
                return self.args .. ' ' .. self.count .. ' ' .. msg:recipient().user .. ' ' .. #msg:get_data()
            end } })",
    );
    let octets = draft().data().len();
    for count in 1..3 {
        let answer = now(courier.send(draft())).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(answer, format!("to.test shop nil {count} user {octets}"));
    }
    now(courier.close()).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn a_batch_is_one_list() {
    let (_loaded, mut courier) = courier(
        "{ send_batch = function(self, messages, rest)
            assert(rest == nil)
            local ids = {}
            for i, msg in ipairs(messages) do ids[i] = msg:id() end
            return #messages .. ' ' .. #ids
        end }",
    );
    for count in [1, 3] {
        let answer = now(courier.send_batch(vec![draft(); count])).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(answer, format!("{count} {count}"));
    }
}

#[test]
fn what_is_no_answer_is_said() {
    for (object, text) in [
        ("{}", "the connection object has no function `send`"),
        ("{ send = 1 }", "`send` is a integer: expected a function"),
        ("{ send = function() end }", "send returned a nil: expected a string"),
        ("{ send = function() return {} end }", "send returned a table: expected a string"),
        ("{ send = function() error 'oops' end }", "oops"),
    ] {
        let (_loaded, mut courier) = courier(object);
        let said = fault(now(courier.send(draft())));
        assert!(said.contains(text), "{object}: {said}");
    }
    for (script, text) in [
        ("", "constructor `make`: runtime error: event make has not been registered"),
        ("kumo.on('make', function() end)", "returned a nil: expected a table"),
        ("kumo.on('make', function() error 'nobody' end)", "nobody"),
    ] {
        let said = fault(construct(&load(script)));
        assert!(said.contains(text), "{script}: {said}");
    }
}

#[test]
fn rejections_are_told_apart_from_faults() {
    let (_loaded, mut courier) = courier(
        "{ send = function() kumo.reject(421, '4.3.2 bye') end,
           send_batch = function() kumo.disconnect(550, 'no') end,
           close = function() error 'closing is hard' end }",
    );
    let rejected = now(courier.send(draft()));
    assert!(
        matches!(&rejected, Err(PolicyError::Reject { reply, disconnect: Disconnect::If421 }) if reply.code == 421),
        "{rejected:?}"
    );
    let rejected = now(courier.send_batch(vec![draft()]));
    assert!(
        matches!(&rejected, Err(PolicyError::Reject { reply, disconnect: Disconnect::Force }) if reply.code == 550),
        "{rejected:?}"
    );
    assert!(fault(now(courier.close())).contains("closing is hard"));
}

#[test]
fn a_state_serves_others_only_when_all_went_well() {
    // The top level runs once a state: the value tells states apart.
    let script = "loads = (loads or 0) + 1 kumo.on('make', function()
        used = (used or 0) + 1
        return { used = used,
            send = function(self, msg)
                if msg:recipient().user == 'user' and fail then error 'oops' end
                return tostring(self.used)
            end,
            send_batch = function() fail = true return 'from now on' end } end)";
    let loaded = load(script);
    let mut courier = construct(&loaded).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(now(courier.send(draft())).as_deref(), Ok("1"));
    now(courier.close()).unwrap_or_else(|e| panic!("{e}"));
    let mut courier = construct(&loaded).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(now(courier.send(draft())).as_deref(), Ok("2"), "the same state again");
    now(courier.send_batch(vec![draft()])).unwrap_or_else(|e| panic!("{e}"));
    assert!(fault(now(courier.send(draft()))).contains("oops"));
    now(courier.close()).unwrap_or_else(|e| panic!("{e}"));
    let mut courier = construct(&loaded).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(now(courier.send(draft())).as_deref(), Ok("1"), "a fresh state");
}

#[test]
fn a_call_that_is_dropped_ends_its_state() {
    let script = "kumo.on('make', function()
        used = (used or 0) + 1
        return { send = function() kumo.sleep(600) end, send_batch = function() return tostring(used) end } end)";
    let loaded = load(script);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let mut courier = construct(&loaded).unwrap_or_else(|e| panic!("{e}"));
        let sent = tokio::time::timeout(Duration::from_millis(20), courier.send(draft())).await;
        assert!(sent.is_err(), "it sleeps");
        assert_eq!(courier.send_batch(vec![draft()]).await.as_deref(), Ok("1"), "it can still be spoken to");
        courier.close().await.unwrap_or_else(|e| panic!("{e}"));
        let mut courier = construct(&loaded).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(courier.send_batch(vec![draft()]).await.as_deref(), Ok("1"), "a fresh state");
    });
}

#[test]
fn sessions_hold_a_bounded_number_of_states_and_leave_those_of_other_events_alone() {
    let loaded = load("kumo.on('make', function() return {} end) kumo.on('get_queue_config', function() end)");
    let mut couriers: Vec<_> = (0..STATES_MAX).map(|_| construct(&loaded).unwrap_or_else(|e| panic!("{e}"))).collect();
    let mut one_more = pin!(loaded.policy.construct_courier("make".to_owned(), parts()));
    let mut context = Context::from_waker(Waker::noop());
    assert!(one_more.as_mut().poll(&mut context).is_pending());
    now(loaded.policy.get_queue_config(parts())).unwrap_or_else(|e| panic!("{e}"));
    drop(couriers.pop());
    assert!(matches!(one_more.as_mut().poll(&mut context), Poll::Ready(Ok(_))));
}

#[test]
fn sleep_sleeps_and_wants_a_number() {
    for (seconds, wrong) in [("0.05", false), ("0", false), ("-1", true), ("0/0", true), ("'soon'", true)] {
        let (_loaded, mut courier) = courier(&format!("{{ send = function() kumo.sleep({seconds}) return '' end }}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let began = Instant::now();
        let slept = runtime.block_on(courier.send(draft()));
        assert_eq!(slept.is_err(), wrong, "{seconds}: {slept:?}");
        assert!(seconds != "0.05" || began.elapsed() >= Duration::from_millis(50));
    }
}

/// As in the crate.
const STATES_MAX: usize = 512;
