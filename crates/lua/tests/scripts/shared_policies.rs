//! The two policies used for measuring, unchanged: they run on KumoMTA too.

use crate::support::{draft, file, now};
use config::QueueProtocol;
use lua::LuaPolicy;
use policy::{ConnMeta, Event, Policy, QueueParts, Startup};

const SINK: &str = include_str!("../../../../bench/policies/sink.lua");
const RELAY: &str = include_str!("../../../../testing/e2e/policies/measured/relay.lua");

/// Loads a policy whose `os.getenv` knows these names only.
fn load(text: &str, environment: &str) -> (LuaPolicy, Startup) {
    let (_folder, path) =
        file(&format!("local env = {{ {environment} }} os.getenv = function(n) return env[n] end {text}"));
    LuaPolicy::load(&path).unwrap_or_else(|e| panic!("{e}"))
}

fn queue_config(policy: &LuaPolicy) -> config::QueueConfig {
    let parts = QueueParts { domain: "d.test".into(), tenant: None, campaign: None, routing_domain: None };
    now(policy.get_queue_config(parts)).expect("sound")
}

#[test]
fn sink() {
    let (policy, startup) = load(SINK, "SINK_PORT = '2999'");
    assert_eq!(startup.esmtp_listeners[0].listen.to_string(), "127.0.0.1:2999");
    assert_eq!(startup.http_listeners[0].listen.to_string(), "127.0.0.1:8002");
    assert_eq!(startup.spools.len(), 2);
    let draft = now(policy.smtp_server_message_received(draft(), ConnMeta::new())).expect("sound");
    assert_eq!(draft.meta.string("queue"), Ok(Some("null")));
}

#[test]
fn relay() {
    let (policy, startup) = load(RELAY, "");
    assert_eq!(startup.esmtp_listeners[0].listen.to_string(), "127.0.0.1:2025");
    assert_eq!(startup.local_logs.len(), 1);
    assert!(policy.interest().has(Event::MessageReceived) && !policy.interest().has(Event::RcptTo));
    let mut draft = now(policy.smtp_server_message_received(draft(), ConnMeta::new())).expect("sound");
    assert_eq!(draft.headers().all_values("DKIM-Signature").len(), 0);
    let config = queue_config(&policy);
    assert!(matches!(&config.protocol, QueueProtocol::Smtp(smtp) if smtp.mx_list.len() == 1));
    assert_eq!(config.retry_interval, config::QueueConfig::default().retry_interval, "nil is the default");
    assert!(now(policy.get_egress_path_config("d".into(), "s".into(), "site".into())).is_ok());
}

#[test]
fn relay_signs_and_retries_as_told() {
    let folder = tempfile::tempdir().expect("scratch folder");
    let key = folder.path().join("key.pem");
    std::fs::write(&key, KEY).expect("key file");
    let (policy, _) = load(RELAY, &format!("RELAY_DKIM_KEY = '{}', RELAY_RETRY = '7s'", key.display()));
    let mut draft = now(policy.smtp_server_message_received(draft(), ConnMeta::new())).expect("sound");
    assert_eq!(draft.headers().all_values("DKIM-Signature").len(), 1);
    assert_eq!(queue_config(&policy).retry_interval.get(), std::time::Duration::from_secs(7));
}

/// A test key, used nowhere else.
const KEY: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEILCJGDWOhHS6clpcNd64BBD7jmJ9gx16f7gzxdf39dWG\n-----END PRIVATE KEY-----\n";
