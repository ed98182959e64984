//! What an operator gets wrong: one clear line on stderr that names the thing, the value and what was expected, exit 1.

use e2e::kumod::{Launch, program};
use e2e::process::{Finished, run};
use e2e::scratch::Scratch;
use e2e::until::SOON;
use std::net::TcpListener;

#[test]
fn a_port_in_use() {
    let scratch = Scratch::new();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address");
    for (name, value) in [("RELAY_PORT", address.port().to_string()), ("RELAY_HTTP", address.to_string())] {
        let finished = relay(&scratch).env(name, value).run();
        one_line(&finished, &[&address.to_string(), "in use"]);
    }
}

#[test]
fn an_address_that_is_not_ours() {
    let scratch = Scratch::new();
    // TEST-NET-1 (RFC 5737): nobody's address.
    let finished = relay(&scratch).env("RELAY_HTTP", "192.0.2.1:8000").run();
    one_line(&finished, &["192.0.2.1:8000"]);
    let finished = relay(&scratch).env("RELAY_HTTP", "nonsense").run();
    first_line(&finished, &["kumo.start_http_listener", "listen", "nonsense", "expected"]);
}

#[test]
fn a_policy_that_cannot_be_read() {
    let scratch = Scratch::new();
    let missing = scratch.join("missing.lua");
    one_line(&Launch::policy(&missing).run(), &["policy", &missing.to_string_lossy(), "No such file"]);
    let folder = scratch.folder("folder.lua");
    one_line(&Launch::policy(&folder).run(), &["policy", &folder.to_string_lossy(), "directory"]);
}

#[test]
fn a_policy_that_is_not_lua() {
    let scratch = Scratch::new();
    let path = scratch.write("broken.lua", "local kumo = require 'kumo'\nkumo.on('init', function(\n  local\n");
    one_line(&Launch::policy(&path).run(), &["broken.lua:3", "expected", "'local'"]);
    let path = scratch.write("binary.lua", b"\x1bLua\x54\x00\x19\x93");
    one_line(&Launch::policy(&path).run(), &["binary.lua", "binary"]);
}

#[test]
fn a_policy_that_fails() {
    let scratch = Scratch::new();
    let finished = policy(&scratch, "local x = nil\nx.field = 1");
    first_line(&finished, &["policy.lua:2", "index a nil value"]);
    let finished = policy(&scratch, "require 'kumo'.on('init', function()\n  error 'on purpose'\nend)");
    first_line(&finished, &["policy.lua:2", "on purpose"]);
    let finished = policy(&scratch, "local kumo = require 'kumo'\nkumo.no_such_function()");
    first_line(&finished, &["policy.lua:2", "no_such_function"]);
    let twice = "local kumo = require 'kumo'\nkumo.on('init', function() end)\nkumo.on('init', function() end)";
    first_line(&policy(&scratch, twice), &["init event already has a handler", "policy.lua:2"]);
}

#[test]
fn listener_options_that_are_wrong() {
    let scratch = Scratch::new();
    for (options, words) in [
        ("relay_host = { '127.0.0.1' }", &["relay_host", "unknown field", "did you mean `relay_hosts`"][..]),
        ("relay_hosts = { '10.0.0.1/8' }", &["relay_hosts", "10.0.0.1/8", "10.0.0.0/8"]),
        ("relay_hosts = { 'localhost' }", &["relay_hosts", "localhost", "expected"]),
        ("max_message_size = 'big'", &["max_message_size", "big", "expected"]),
        ("max_message_size = -1", &["max_message_size", "-1", "expected"]),
        ("client_timeout = '5 parsecs'", &["client_timeout", "5 parsecs", "expected"]),
        ("invalid_line_endings = 'Ignore'", &["invalid_line_endings", "Ignore", "`Deny`", "`Allow`", "`Fix`"]),
        ("trace_headers = { received = true }", &["trace_headers", "received", "received_header"]),
        ("listen = '127.0.0.1'", &["listen", "127.0.0.1", "expected"]),
    ] {
        let finished = init(&scratch, &format!("kumo.start_esmtp_listener {{ {options} }}"));
        let mut all = vec!["kumo.start_esmtp_listener"];
        all.extend(words);
        first_line(&finished, &all);
    }
}

#[test]
fn certificates_that_are_wrong() {
    let scratch = Scratch::new();
    let missing = scratch.join("missing.pem").display().to_string();
    let garbage = scratch.write("garbage.pem", "not a certificate").display().to_string();
    let listen = |options: &str| {
        let options = format!("kumo.start_esmtp_listener {{ listen = '127.0.0.1:0', {options} }}");
        init(&scratch, &(spools(&scratch) + &options))
    };
    let finished = listen(&format!("tls_certificate = '{missing}', tls_private_key = '{missing}'"));
    last_line(&finished, &["tls_certificate", &missing]);
    let finished = listen(&format!("tls_certificate = '{garbage}', tls_private_key = '{garbage}'"));
    last_line(&finished, &["start_esmtp_listener", "certificate"]);
    let finished = listen(&format!("tls_certificate = '{garbage}'"));
    last_line(&finished, &["tls_certificate", "tls_private_key", "both"]);
}

#[test]
fn constructor_options_that_are_wrong() {
    let scratch = Scratch::new();
    for (call, words) in [
        ("make_egress_path { conection_limit = 5 }", &["conection_limit", "did you mean `connection_limit`"][..]),
        ("make_egress_path { connection_limit = 'many' }", &["connection_limit", "many", "expected"]),
        ("make_egress_path { enable_tls = 'Maybe' }", &["enable_tls", "Maybe", "`Opportunistic`"]),
        ("make_egress_path { smtp_port = 70000 }", &["smtp_port", "70000", "expected"]),
        ("make_egress_path { prohibited_hosts = 'none' }", &["prohibited_hosts", "none", "expected"]),
        ("make_queue_config { max_age = {} }", &["max_age", "expected"]),
        ("make_queue_config { protocol = { smtp = { mx_lists = {} } } }", &["mx_lists", "mx_list"]),
        ("make_egress_source { source_address = '10.0.0.0.1', name = 'a' }", &["source_address", "10.0.0.0.1"]),
        ("make_egress_pool { name = 'p', entries = { { weight = 1 } } }", &["entries", "name", "missing"]),
        ("make_listener_domain { relay_too = true }", &["relay_too", "did you mean `relay_to`"]),
    ] {
        let finished = policy(&scratch, &format!("local kumo = require 'kumo'\nkumo.{call}"));
        let constructor = call.split(' ').next().unwrap_or_default();
        let mut all = vec![constructor];
        all.extend(words);
        first_line(&finished, &all);
    }
}

#[test]
fn a_spool_that_cannot_be_opened() {
    let scratch = Scratch::new();
    scratch.write("relay", "a file where a folder should be");
    one_line(&relay(&scratch).run(), &["spool", &scratch.join("relay/data").to_string_lossy(), "Not a directory"]);

    let scratch = Scratch::new();
    let running = relay(&scratch).start();
    let holder = format!("pid {}", running.process.pid());
    one_line(&relay(&scratch).run(), &["spool", &scratch.join("relay/data").to_string_lossy(), "in use", &holder]);
    running.stop();
    // The lock went with its holder.
    relay(&scratch).start().stop();
}

#[test]
fn spools_that_are_not_defined() {
    let scratch = Scratch::new();
    let finished = init(&scratch, "");
    one_line(&finished, &["kumo.define_spool", "data"]);
    let finished = init(&scratch, "kumo.define_spool { name = 'data' }");
    first_line(&finished, &["kumo.define_spool", "path", "missing"]);
}

#[test]
fn validate_says_ok_or_why_not() {
    let scratch = Scratch::new();
    let finished = relay(&scratch).arg("--validate").run().success();
    let lines: Vec<&str> = finished.stdout.lines().collect();
    assert_eq!(lines.last(), Some(&"OK"));
    let spool = scratch.join("relay/data").display().to_string();
    assert!(lines.contains(&format!("  path = {spool:?}: The directory.").as_str()), "{}", finished.stdout);
    assert!(!scratch.join("relay").exists(), "--validate made a spool");
    let path = scratch.write("policy.lua", "local kumo = require 'kumo'\nkumo.make_egress_path { max_redy = 1 }");
    let finished = Launch::policy(path).arg("--validate").run();
    first_line(&finished, &["max_redy", "did you mean `max_ready`"]);
    assert!(!finished.stdout.contains("OK"));
}

#[test]
fn command_lines_that_are_wrong() {
    let scratch = Scratch::new();
    let fails = |arguments: &[&str], words: &[&str]| {
        let mut command = program();
        command.args(arguments);
        let finished = run(&arguments.join(" "), command, SOON);
        assert!(finished.status.code().is_some_and(|code| code != 0), "{arguments:?}: {}", finished.status);
        words.iter().for_each(|word| assert!(finished.stderr.contains(word), "{arguments:?}: {}", finished.stderr));
    };
    fails(&["kumod", "--polcy", "x"], &["--polcy", "--policy"]);
    fails(&["kumod", "stray"], &["stray"]);
    fails(&["serve", "--listen"], &["--listen"]);
    fails(&["serve", "--listen", "nowhere", "--state", &scratch.path().to_string_lossy()], &["nowhere"]);
    fails(&["no-such-verb"], &["no-such-verb", "usage"]);
    fails(&[], &["usage"]);
    fails(&["smtp-sink", "--fail-rate", "200"], &["fail-rate", "200"]);
    fails(&["traffic-gen", "--concurrency", "none"], &["concurrency", "none"]);
    let finished = relay(&scratch).arg("--user").arg("no-such-user-here").run();
    assert!(!finished.status.success() && finished.stderr.contains("--user"), "{}", finished.stderr);
}

fn relay(scratch: &Scratch) -> Launch {
    Launch::relay(scratch, "127.0.0.1:1".parse().expect("an address"))
}

fn policy(scratch: &Scratch, text: &str) -> Finished {
    Launch::policy(scratch.write("policy.lua", text)).run()
}

fn init(scratch: &Scratch, body: &str) -> Finished {
    policy(scratch, &format!("local kumo = require 'kumo'\nkumo.on('init', function()\n{body}\nend)"))
}

fn spools(scratch: &Scratch) -> String {
    let spool = |name| format!("kumo.define_spool {{ name = '{name}', path = '{}' }}\n", scratch.join(name).display());
    spool("data") + &spool("meta")
}

/// Exit 1 and a single line on stderr that has all the words.
fn one_line(finished: &Finished, words: &[&str]) {
    assert_eq!(finished.stderr.lines().count(), 1, "not one line: {}", finished.stderr);
    first_line(finished, words);
}

/// Exit 1 and all the words in the first line on stderr; a traceback may follow.
fn first_line(finished: &Finished, words: &[&str]) {
    expect_words(finished, finished.stderr.lines().next(), words);
}

/// Exit 1 and all the words in the last line on stderr; listeners may have been announced before.
fn last_line(finished: &Finished, words: &[&str]) {
    expect_words(finished, finished.stderr.lines().last(), words);
}

fn expect_words(finished: &Finished, line: Option<&str>, words: &[&str]) {
    assert_eq!(finished.status.code(), Some(1), "{}: {}", finished.status, finished.stderr);
    let line = line.unwrap_or_default();
    assert!(line.starts_with("error: "), "{}", finished.stderr);
    let missing: Vec<&&str> = words.iter().filter(|word| !line.contains(**word)).collect();
    assert!(missing.is_empty(), "{missing:?} not in the line: {}", finished.stderr);
}
