//! Shaping files as scripts load and ask them.

use crate::support::{assert_has, draft, file};
use lua::LuaPolicy;
use policy::{ConnMeta, Policy};
use std::path::Path;

/// Runs `body` as handler with `folder` at hand, in a program without DNS.
fn run(folder: &Path, body: &str) -> Result<(), String> {
    let text = format!(
        "local kumo = require 'kumo' local folder = [[{}]] \
         kumo.on('smtp_server_message_received', function(msg) {body}\nend)",
        folder.display()
    );
    let (_own, path) = file(&text);
    let (policy, _) = LuaPolicy::load(&path).map_err(|e| e.to_string())?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    runtime
        .block_on(policy.smtp_server_message_received(draft(), ConnMeta::new()))
        .map(|_| ())
        .map_err(|e| e.to_string())
}

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("scratch folder");
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).expect("a file");
    }
    folder
}

const BASE: &str = "[\"default\"]\nconnection_limit = 10\nmax_message_rate = \"100/s\"\n\
    [\"one.test\"]\nmx_rollup = false\nconnection_limit = 3\n[\"one.test\".sources.\"ip-1\"]\nconnection_limit = 1\n";
const OVER: &str = "{\"one.test\": {\"mx_rollup\": false, \"idle_timeout\": \"9s\"} /* more */ }";

#[test]
fn files_are_merged_and_wrong_ones_are_named() {
    let folder = folder(&[("a.toml", BASE), ("b.json", OVER), ("bad.toml", "[\"default\"]\nconection_limit = 1\n")]);
    run(
        folder.path(),
        "local s = kumo.shaping.load { folder .. '/a.toml', folder .. '/b.json' } \
         local p = s:get_egress_path_config('one.test', 'ip-2', 'mx.one.test') \
         assert(p.connection_limit == 3 and p.idle_timeout == '9s' and p.max_message_rate == '100/s' and p.mx_rollup == nil) \
         assert(s:get_egress_path_config('one.test', 'ip-1', 'x').connection_limit == 1) \
         assert(s:get_egress_path_config('two.test', 'ip-1', 'x').connection_limit == 10) \
         assert(kumo.make_egress_path(p).connection_limit == 3) \
         assert(s:get_referenced_sources()['ip-1'][1] == 'domain:one.test') \
         assert(#s:hash() == 32 and s:hash() ~= kumo.shaping.load({ folder .. '/a.toml' }):hash()) \
         local memo = kumo.memoize(function() return s end, { name = 's', ttl = 60, capacity = 1 }) \
         assert(memo():hash() == s:hash() and memo():hash() == s:hash())",
    )
    .expect("sound");
    let error = run(folder.path(), "kumo.shaping.load { folder .. '/bad.toml' }").expect_err("a wrong option");
    assert_has(&error, &["bad.toml", "conection_limit", "connection_limit"]);
    let error = run(folder.path(), "kumo.shaping.load { folder .. '/none.toml' }").expect_err("no file");
    assert_has(&error, &["kumo.shaping.load", "none.toml"]);
}

/// Policies of KumoMTA name the files that it installs; here they are not there.
#[test]
fn who_names_the_files_of_kumomta_has_the_built_in_rules() {
    let folder = folder(&[]);
    run(
        folder.path(),
        "local share = '/opt/kumomta/share/'
         local one = kumo.shaping.load { 'postrider:shaping.toml' }
         local other = kumo.shaping.load { share .. 'policy-extras/shaping.toml', share .. 'community/shaping.toml' }
         assert(one:hash() == other:hash() and #one:get_warnings() == 0)
         local said = other:get_warnings()
         assert(#said == 1 and tostring(said[1]):find('community/shaping.toml: it is not there', 1, true), tostring(said[1]))
         local ok, why = pcall(kumo.shaping.load, { share .. 'policy-extras/other.toml' })
         assert(not ok and tostring(why):find('other.toml', 1, true), why)",
    )
    .expect("sound");
}

#[test]
fn what_is_wrong_is_listed_by_severity() {
    let folder = folder(&[("a.toml", "[\"rolled.test\"]\nconnection_limit = 1\n")]);
    run(
        folder.path(),
        "local a = folder .. '/a.toml' \
         local s = kumo.shaping.load({ a, folder .. '/none.toml' }, { dns_fail = 'Error', local_load = 'Warn' }) \
         assert(#s:get_errors() == 1 and s:get_errors()[1]:find('rolled.test', 1, true)) \
         assert(#s:get_warnings() == 1 and s:get_warnings()[1]:find('none.toml', 1, true)) \
         assert(#kumo.shaping.load({ a, 'http://127.0.0.1:1/shaping.toml' }, { skip_remote = true }):get_warnings() == 0) \
         local ok, why = pcall(kumo.shaping.load, { a }, { dns_fale = 'Warn' }) \
         assert(not ok and tostring(why):find('dns_fail', 1, true))",
    )
    .expect("sound");
}

/// Those of one block; what stands in two may never meet.
#[test]
fn options_that_contradict_one_another_are_told() {
    let text = "[\"default\"]\nconnection_limit = 20\nmax_ready = 10\n\
        [provider.\"Big\"]\nmatch = [{DomainSuffix = \".big.test\"}]\nmax_ready = 15\n\
        [\"a.test\"]\nmx_rollup = false\nconnection_limit = 50\n\
        [\"a.test\".sources.\"ip-1\"]\nconnection_limit = 9\nmax_ready = 8\n";
    let folder = folder(&[("a.toml", text)]);
    run(
        folder.path(),
        "local shaping = kumo.shaping.load { folder .. '/a.toml' } \
         local told = shaping:get_contradictions() \
         local expected = { \
           'default: connection_limit 20 is more than max_ready 10: no more than 10 connections get a message', \
           'domain \"a.test\", source \"ip-1\": connection_limit 9 is more than max_ready 8: no more than 8 connections get a message' } \
         assert(#told == 2 and #shaping:get_warnings() == 0, table.concat(told, '\\n')) \
         for i, line in ipairs(expected) do assert(told[i] == line, told[i]) end",
    )
    .expect("sound");
}

#[test]
fn rules_are_found_by_the_response() {
    let folder = folder(&[(
        "a.toml",
        "[[\"default\".automation]]\nregex = \"too many (?!friends)\"\naction = \"Suspend\"\nduration = \"90m\"\n",
    )]);
    run(
        folder.path(),
        "local s = kumo.shaping.load { folder .. '/a.toml' } \
         local function record(text) return { queue = 'c:t@d.test', site = 'src->mx.d.test@smtp_client', \
            response = { code = 451, enhanced_code = { class = 4, subject = 7, detail = 1 }, content = text, command = nil } } end \
         local rules = s:match_rules(record 'too many connections') \
         assert(#rules == 1 and rules[1].action[1] == 'Suspend' and rules[1].duration == '1h 30m') \
         assert(#s:match_rules(record 'too many friends') == 0 and not pcall(s.match_rules, s, {}))",
    )
    .expect("sound");
}
