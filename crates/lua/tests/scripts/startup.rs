//! Loading: the state's libraries and paths, `pre_init`, `init`, validation, unreadable files.

use crate::support::{assert_has, file, load, load_error};
use lua::{LoadError, LuaPolicy};

#[test]
fn the_state_is_kumomtas() {
    load(
        "assert(_VERSION == 'Lua 5.4' and debug == nil and _G.kumo == nil and package.loaded.kumo == kumo)
         assert(io and os and coroutine and utf8 and math and table and collectgarbage and print)
         assert(_VALIDATING_CONFIG == nil)
         local first = '/opt/kumomta/share/?.lua;/opt/kumomta/share/?/init.lua;/opt/kumomta/etc/policy/?.lua;/opt/kumomta/etc/policy/?/init.lua;'
         assert(package.path:sub(1, #first) == first)
         assert(not pcall(require, 'kumo.nonsense'))",
    );
}

#[test]
fn init_collects_what_is_to_be_started() {
    let loaded = load(
        "local order = {}
         kumo.on('pre_init', function() order[1] = 'a' assert(_KUMO_CURRENT_EVENT == 'pre_init') end)
         kumo.on('pre_init', function() order[2] = 'b' end)
         kumo.on('init', function()
           assert(order[1] == 'a' and order[2] == 'b' and _KUMO_CURRENT_EVENT == 'init')
           kumo.define_spool { name = 'data', path = '/d' } kumo.define_spool { name = 'meta', path = '/m' }
           kumo.start_esmtp_listener { listen = '0:25' } kumo.start_http_listener { listen = '127.0.0.1:8000' }
           kumo.configure_local_logs { log_dir = '/l' } end)",
    );
    assert_eq!(loaded.startup.spools.len(), 2);
    assert_eq!(loaded.startup.esmtp_listeners[0].listen.to_string(), "0:25");
    assert_eq!((loaded.startup.http_listeners.len(), loaded.startup.local_logs.len()), (1, 1));
    assert!(loaded.folder.path().exists());
}

#[test]
fn starting_is_for_init() {
    assert_has(
        &load_error("kumo.start_esmtp_listener { listen = '0:25' }"),
        &["can only be called from the init event"],
    );
    let listener = load_error("kumo.on('init', function() kumo.start_esmtp_listener { lisen = '0:25' } end)");
    assert_has(
        &listener,
        &["kumo.start_esmtp_listener:", "unknown field `lisen`", "did you mean `listen`", "stack traceback"],
    );
}

#[test]
fn broken_policies_say_where() {
    assert_has(&load_error("\n\nlocal = 5"), &["policy.lua:3:", "syntax error"]);
    assert_has(&load_error("\nerror 'at the top'"), &["policy.lua:2: at the top", "stack traceback:"]);
    assert_has(&load_error("kumo.on('init', function() nonsense() end)"), &["global 'nonsense'", "policy.lua:1: in"]);
    assert_has(&load_error("kumo.reject(550, 'x')"), &["550 x"]);
    let (folder, _) = file("");
    match LuaPolicy::load(&folder.path().join("absent.lua")) {
        Err(error @ LoadError::Read { .. }) => {
            assert_has(&error.to_string(), &["cannot read policy", "absent.lua", "No such file"])
        }
        other => panic!("{:?}", other.map(|(_, startup)| startup)),
    }
    let (_folder, path) = file("\x1bLua bytecode");
    assert!(matches!(LuaPolicy::load(&path), Err(LoadError::Script { .. })), "bytecode is refused");
    let (_folder, path) = file("");
    std::fs::write(&path, b"-- latin-1: \xfc\nlocal x = '\xfc'").expect("policy file");
    assert!(LuaPolicy::load(&path).is_ok(), "Lua text is bytes");
}

#[test]
fn validation_runs_the_handlers_that_judge() {
    let judged = |body: &str| {
        let (_folder, path) = file(&format!(
            "local kumo = require 'kumo' assert(_VALIDATING_CONFIG == true) kumo.on('validate_config', function() {body} end)"
        ));
        LuaPolicy::validate(&path).map(|_| ()).map_err(|e| e.to_string())
    };
    assert_eq!(judged(""), Ok(()));
    assert_has(&judged("kumo.validation_failed()").expect_err("failed"), &["its own validation failed"]);
    assert_has(&judged("error 'broken'").expect_err("failed"), &["broken"]);
    load("kumo.on('validate_config', function() error 'not run when serving' end)");
}

#[test]
fn a_policy_can_be_checked_again() {
    let (folder, path) = file("require 'part'");
    std::fs::write(folder.path().join("part.lua"), "").expect("module");
    let (policy, _) = LuaPolicy::load(&path).expect("sound");
    assert!(policy.check().is_ok());
    std::fs::remove_file(folder.path().join("part.lua")).expect("removed");
    assert_has(&policy.check().expect_err("a module is gone").to_string(), &["module 'part' not found"]);
}
