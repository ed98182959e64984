//! Memory limits and the spool's health, as a script sets and reads them.

use crate::support::{assert_has, file, load, load_error, now};
use config::MemoryLimits;
use lua::LuaPolicy;
use policy::Policy;

#[test]
fn limits_set_before_or_in_init_are_what_is_started_with() {
    let startup = load(
        "kumo.set_memory_hard_limit(1000)
         kumo.on('pre_init', function() kumo.set_memory_low_thresh(300) end)
         kumo.on('init', function() kumo.set_memory_soft_limit(500.0) end)",
    )
    .startup;
    assert_eq!(startup.memory, MemoryLimits { hard: Some(1000), soft: Some(500), low: Some(300) });
    assert_eq!(load("").startup.memory, MemoryLimits::default());
}

#[test]
fn getters_tell_what_holds() {
    let (_folder, path) = file(
        "local kumo = require 'kumo'
         local function is(hard, soft, low)
           assert(kumo.get_memory_hard_limit() == hard, kumo.get_memory_hard_limit())
           assert(kumo.get_memory_soft_limit() == soft, kumo.get_memory_soft_limit())
           assert(kumo.get_memory_low_thresh() == low, kumo.get_memory_low_thresh())
         end
         kumo.on('init', function()
           is(4000, 3000, 2400)
           kumo.set_memory_hard_limit(2000)
           is(2000, 1500, 1200)
           kumo.set_memory_soft_limit(1000)
           is(2000, 1000, 800)
           kumo.set_memory_low_thresh(1)
           is(2000, 1000, 1)
         end)",
    );
    let found = MemoryLimits { hard: Some(4000), ..MemoryLimits::default() };
    LuaPolicy::load_on(&path, found).map(|_| ()).unwrap_or_else(|e| panic!("{e}"));
    load("assert(kumo.get_memory_hard_limit() == nil and kumo.get_memory_low_thresh() == nil)");
}

#[test]
fn nonsense_is_refused_and_so_is_what_comes_too_late() {
    let late = load("kumo.on('get_egress_pool', function() kumo.set_memory_low_thresh(1) end)");
    let error = now(late.policy.get_egress_pool("p".into())).map(|_| ()).expect_err("too late").to_string();
    assert_has(&error, &["kumo.set_memory_low_thresh can only be called before or in the init event"]);
    assert_has(
        &load_error("kumo.set_memory_soft_limit(0)"),
        &["kumo.set_memory_soft_limit: 0:", "whole number from 1"],
    );
    assert_has(&load_error("kumo.set_memory_hard_limit('1G')"), &["kumo.set_memory_hard_limit: \"1G\":"]);
}

#[test]
fn delivery_is_suspended_when_the_spool_is_unhealthy_unless_the_script_says_otherwise() {
    let delivers =
        |body: &str| load(&format!("kumo.on('init', function() {body} end)")).startup.delivers_when_spool_unhealthy;
    assert!(!delivers(""));
    assert!(!delivers("kumo.suspend_delivery_when_spool_unhealthy()"));
    assert!(!delivers("kumo.suspend_delivery_when_spool_unhealthy(true)"));
    assert!(delivers("kumo.suspend_delivery_when_spool_unhealthy(false)"));
    assert_has(
        &load_error("kumo.suspend_delivery_when_spool_unhealthy(false)"),
        &["only be called from the init event"],
    );
}
