//! Configuration that is read again while the program runs: on SIGHUP, when a watched file changes, and by the API. A policy that
//! is wrong leaves the one in force, and says why.

use e2e::http;
use e2e::kumod::{Kumod, Launch};
use e2e::logs::Logs;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::{LATER, SOON, until};
use e2e::wire::Client;
use nix::sys::signal::Signal;
use std::fs;
use std::time::Duration;

const RULES: &str = "[rules]\nBadMailbox = [\"no such\"]\n";

struct Setup {
    node: Kumod,
    scratch: Scratch,
    _refusing: Sink,
}

impl Setup {
    /// A server whose policy file is in the scratch folder, where it may be changed.
    fn new() -> Setup {
        let scratch = Scratch::new();
        let refusing = Sink::start(&scratch, "refusing", &["--fail-rate", "100", "--fail-code", "550"]);
        fs::write(scratch.join("rules.toml"), RULES).expect("rules");
        write(&scratch, "first", &refusing.address.to_string(), "");
        let node = Launch::policy(scratch.join("policy.lua")).start();
        Setup { node, scratch, _refusing: refusing }
    }

    fn banner(&self) -> String {
        Client::connect_mute(self.node.smtp()).reply().text()
    }

    fn write(&self, banner: &str, more: &str) {
        write(&self.scratch, banner, "127.0.0.1:1", more);
    }

    fn hang_up(&self) {
        self.node.process.signal(Signal::SIGHUP);
    }

    fn await_line(&self, what: &str) {
        self.node.process.await_stderr(what, LATER, |line| line.contains(what).then_some(()));
    }
}

fn write(scratch: &Scratch, banner: &str, to: &str, more: &str) {
    let dir = scratch.path().display();
    let policy = format!(
        "local kumo = require 'kumo'
         kumo.set_config_monitor_globs {{ '{dir}/*.{{toml,json}}' }}
         kumo.on('init', function()
           for _, name in ipairs {{ 'data', 'meta' }} do
             kumo.define_spool {{ name = name, path = '{dir}/spool/' .. name }}
           end
           kumo.configure_local_logs {{ log_dir = '{dir}/logs', max_segment_duration = '1s' }}
           kumo.configure_bounce_classifier {{ files = {{ '{dir}/rules.toml' }} }}
           kumo.start_http_listener {{ listen = '127.0.0.1:0' }}
           kumo.start_esmtp_listener {{ listen = '127.0.0.1:0', banner = '{banner}', relay_hosts = {{ '127.0.0.1' }} }}
         end)
         kumo.on('get_queue_config', function()
           local hosts = {{ {{ name = 'sink.test', addr = '{to}' }} }}
           return kumo.make_queue_config {{ protocol = {{ smtp = {{ mx_list = hosts }} }} }}
         end)
         kumo.on('get_egress_path_config', function()
           return kumo.make_egress_path {{ enable_tls = 'Disabled', prohibited_hosts = {{}} }}
         end)
         {more}"
    );
    // In one step: a look in between must not see half of it.
    fs::write(scratch.join("policy.new"), policy).expect("a policy");
    fs::rename(scratch.join("policy.new"), scratch.join("policy.lua")).expect("a policy");
}

/// Listeners have their new options, and handlers that come are called.
#[test]
fn sighup_reads_the_policy_again() {
    let setup = Setup::new();
    assert!(setup.banner().contains("first"));
    let kept = Client::connect(setup.node.smtp());
    setup.write("second", "kumo.on('smtp_server_mail_from', function() kumo.reject(450, 'closed for today') end)");
    assert!(setup.banner().contains("first"), "not by itself");
    setup.hang_up();
    setup.await_line("configuration was read again: SIGHUP");
    assert!(setup.banner().contains("second"));
    let mut client = Client::connect(setup.node.smtp());
    client.expect("EHLO client.test", 250);
    client.expect("MAIL FROM:<a@source.test>", 450);
    drop(kept);
    // And go again.
    setup.write("third", "");
    setup.hang_up();
    until(LATER, "the third banner", || setup.banner().contains("third").then_some(()));
    let mut client = Client::connect(setup.node.smtp());
    client.expect("EHLO client.test", 250);
    client.expect("MAIL FROM:<a@source.test>", 250);
    setup.node.stop();
}

#[test]
fn what_is_wrong_changes_nothing_and_is_said() {
    let setup = Setup::new();
    setup.write("second", "this is no Lua");
    setup.hang_up();
    setup.await_line("configuration stays as it was (SIGHUP)");
    let (status, why) = http::send(setup.node.http(), "POST", "/api/admin/bump-config-epoch", "application/json", "");
    assert!(status == 500 && why.contains("policy.lua"), "{status} {why}");
    setup.write("second", "kumo.on('init', 7)");
    setup.hang_up();
    setup.await_line("configuration stays as it was");
    setup.write("second", "kumo.on('pre_init', function() kumo.configure_log_hook { nam = 'x' } end)");
    setup.hang_up();
    setup.await_line("unknown field `nam`");
    fs::write(setup.scratch.join("rules.toml"), "[rules]\nBadMailbox = [\"(\"]\n").expect("rules");
    setup.write("second", "");
    setup.hang_up();
    setup.await_line("rules.toml");
    assert!(setup.banner().contains("first"));
    // What a running program cannot take over is said, and the rest is taken.
    fs::write(setup.scratch.join("rules.toml"), RULES).expect("rules");
    setup.write("third", "kumo.on('pre_init', function() kumo.set_memory_soft_limit(1 << 40) end)");
    setup.hang_up();
    setup.await_line(
        "kumo.set_memory_hard_limit and its sisters differs from what the program began with: that takes a restart",
    );
    until(SOON, "the third banner", || setup.banner().contains("third").then_some(()));
    setup.node.stop();
}

/// Within 10 s, and also what is not the policy itself: here the rules of the classifier.
#[test]
fn a_changed_file_begins_an_epoch() {
    let setup = Setup::new();
    let class = |count: usize| {
        let reply = Client::connect(setup.node.smtp()).submit("a@source.test", "b@target.test", "x");
        assert_eq!(reply.code, 250);
        let bounces = Logs::new(setup.scratch.join("logs")).await_type("Bounce", count, LATER);
        bounces[count - 1]["bounce_classification"].clone()
    };
    assert_eq!(class(1), "Uncategorized");
    fs::write(setup.scratch.join("rules.toml"), "[rules]\nMine = [\"^550\"]\n").expect("rules");
    setup.node.process.await_stderr("an epoch", Duration::from_secs(30), |line| {
        line.contains("configuration was read again: a file changed").then_some(())
    });
    assert_eq!(class(2), "Mine");
    setup.node.stop();
}
