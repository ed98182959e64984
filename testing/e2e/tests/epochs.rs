//! Configuration epochs against the whole program: what has `refresh_strategy = 'Epoch'` changes after a bump and not
//! before, and what is wrong with a policy is said by the bump.

use e2e::http;
use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::scratch::Scratch;
use e2e::until::{SOON, until};
use e2e::wire::Client;
use serde_json::Value;
use std::fs;

const BUMP: &str = "/api/admin/bump-config-epoch";
const INSPECT: &str = "/api/admin/inspect-ready-q/v1?queue_name=unspecified-%3Emx_list:mx.a.test@smtp_client";

struct Setup {
    scratch: Scratch,
    relay: Kumod,
}

impl Setup {
    fn new(strategy: &str) -> Setup {
        let scratch = Scratch::new();
        fs::create_dir_all(scratch.join("ready")).expect("a directory");
        for (from, to) in [("ready.lua", "policy.lua"), ("base.lua", "base.lua")] {
            fs::copy(policy_file(from), scratch.join(to)).expect("a policy");
        }
        let launch = Launch::policy(scratch.join("policy.lua"))
            .env("READY_DIR", scratch.join("ready"))
            .env("READY_TO", "127.0.0.1:1");
        let setup = Setup { relay: launch.start(), scratch };
        setup.write(strategy, 11);
        setup
    }

    fn write(&self, strategy: &str, limit: u32) {
        let ages = format!("refresh_strategy = '{strategy}', refresh_interval = '1s', ");
        fs::write(self.scratch.join("ready/queue"), &ages).expect("options");
        fs::write(self.scratch.join("ready/path"), format!("{ages} connection_limit = {limit}")).expect("options");
    }

    /// Sends a message, which fails at once; the limit that its path has then.
    fn limit_after_mail(&self, failures: u32) -> u64 {
        let reply = Client::connect(self.relay.smtp()).submit("a@source.test", "one@a.test", "epochs");
        assert_eq!(reply.code, 250, "{reply:?}");
        self.relay.await_metric("total_messages_transfail{service=\"smtp_client\"}", f64::from(failures), SOON);
        self.limit()
    }

    fn limit(&self) -> u64 {
        let (_, text) = http::get(self.relay.http(), INSPECT);
        let ready: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
        ready["path_config"]["connection_limit"].as_u64().expect("a number")
    }

    fn bump(&self) -> (u16, String) {
        http::send(self.relay.http(), "POST", BUMP, "application/json", "")
    }

    /// How often policy was asked: for configurations, for paths.
    fn asked(&self) -> (usize, usize) {
        let asked = fs::read_to_string(self.scratch.join("ready/asked")).unwrap_or_default();
        let count = |what: &str| asked.lines().filter(|line| line.starts_with(what)).count();
        (count("queue "), count("path "))
    }
}

#[test]
fn what_ages_by_epoch_changes_after_a_bump_and_not_before() {
    let setup = Setup::new("Epoch");
    assert_eq!(setup.limit_after_mail(1), 11);
    assert_eq!(setup.asked(), (1, 1));
    setup.write("Epoch", 22);
    // The refresh_interval is over when it is over for one that began later and ages by it.
    let other = Setup::new("Ttl");
    assert_eq!(other.limit_after_mail(1), 11);
    other.write("Ttl", 22);
    let mut failures = 1;
    until(SOON, "an interval", || {
        failures += 1;
        (other.limit_after_mail(failures) == 22).then_some(())
    });
    other.relay.stop();
    assert_eq!(setup.limit_after_mail(2), 11);
    assert_eq!(setup.asked(), (1, 1));
    assert_eq!(setup.bump(), (200, String::new()));
    until(SOON, "the new limit", || (setup.limit() == 22).then_some(()));
    // Path and configuration are asked about side by side; without new mail.
    until(SOON, "both asked about again", || (setup.asked() == (2, 2)).then_some(()));
    assert_eq!(setup.limit_after_mail(3), 22);
    assert_eq!(setup.asked(), (2, 2));

    setup.write("Epoch", 33);
    let mut client = Client::connect(setup.relay.smtp());
    client.expect("EHLO client.test", 250);
    client.expect("MAIL FROM:<a@source.test>", 250);
    client.expect("RCPT TO:<postmaster@bump.test>", 550);
    until(SOON, "what kumo.bump_config_epoch does", || (setup.limit() == 33).then_some(()));
    setup.relay.stop();
}

#[test]
fn what_ages_by_time_changes_by_itself_and_takes_no_notice_of_a_bump() {
    let setup = Setup::new("Ttl");
    assert_eq!(setup.limit_after_mail(1), 11);
    let before = setup.asked();
    assert_eq!(setup.bump().0, 200);
    // What a bump begins goes through the queue's clockwork, as this does.
    assert_eq!(setup.limit_after_mail(2), 11);
    assert!(setup.asked().0 <= before.0 + 1, "{:?} after {before:?}", setup.asked());
    setup.write("Ttl", 22);
    let mut failures = 2;
    until(SOON, "the new limit", || {
        failures += 1;
        (setup.limit_after_mail(failures) == 22).then_some(())
    });
    setup.relay.stop();
}

#[test]
fn a_policy_that_does_not_load_is_refused_and_a_new_one_comes_into_force() {
    let setup = Setup::new("Epoch");
    assert_eq!(setup.limit_after_mail(1), 11);
    let sound = fs::read_to_string(policy_file("ready.lua")).expect("the policy");
    fs::write(setup.scratch.join("policy.lua"), "this is no Lua").expect("writes");
    let (status, text) = setup.bump();
    assert!(status == 500 && text.contains("policy.lua"), "{status} {text}");
    assert_eq!(setup.limit_after_mail(2), 11, "the one in force stays");
    let other = sound.replace("return base.path(config)", "config.connection_limit = 5\n  return base.path(config)");
    fs::write(setup.scratch.join("policy.lua"), other).expect("writes");
    assert_eq!(setup.bump(), (200, String::new()));
    until(SOON, "the new policy", || (setup.limit() == 5).then_some(()));
    setup.relay.stop();
}
