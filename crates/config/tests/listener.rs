//! Which options rule a session: the listener's own, by client address, by local address, dynamic ones.

use config::{EsmtpListener, InvalidLineEndings, ListenerOverlay, parse};
use serde_json::json;
use std::net::IpAddr;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn sample() -> EsmtpListener {
    let table = json!({
        "listen": "0.0.0.0:25",
        "banner": "base",
        "meta": {"a": 1, "b": 1},
        "peer": {
            "10.0.0.0/8": {"banner": "ten", "meta": {"b": 2}, "max_message_size": 1000},
            "10.1.0.0/16": {
                "banner": "ten-one",
                "via": {"192.0.2.1": {"meta": {"c": 3}, "invalid_line_endings": "Fix"}},
            },
        },
        "via": {"192.0.2.1": {"banner": "via", "relay_hosts": {}}},
    });
    parse("kumo.start_esmtp_listener", table).unwrap()
}

#[test]
fn base_then_peer_then_via() {
    let listener = sample();
    for (peer, via, banner, meta, size) in [
        ("192.0.2.9", "192.0.2.2", "base", json!({"a": 1, "b": 1}), 20_971_520),
        ("10.9.9.9", "192.0.2.2", "ten", json!({"a": 1, "b": 2}), 1000),
        ("::ffff:10.9.9.9", "192.0.2.2", "ten", json!({"a": 1, "b": 2}), 1000),
        // The longest block alone counts: nothing comes from 10.0.0.0/8.
        ("10.1.9.9", "192.0.2.2", "ten-one", json!({"a": 1, "b": 1}), 20_971_520),
        // A via block inside the peer block, then the listener's own via block on top.
        ("10.1.9.9", "192.0.2.1", "via", json!({"a": 1, "b": 1, "c": 3}), 20_971_520),
        ("192.0.2.9", "192.0.2.1", "via", json!({"a": 1, "b": 1}), 20_971_520),
    ] {
        let params = listener.effective(ip(peer), ip(via));
        assert_eq!(params.banner, banner, "{peer} {via}");
        assert_eq!(serde_json::to_value(&params.meta).unwrap(), meta, "{peer} {via}");
        assert_eq!(params.max_message_size, size, "{peer} {via}");
    }
    let nested = listener.effective(ip("10.1.9.9"), ip("192.0.2.1"));
    assert_eq!(nested.invalid_line_endings, InvalidLineEndings::Fix);
    assert!(nested.relay_hosts.is_empty(), "an empty list given in a block replaces the list below");
    assert!(listener.effective(ip("10.1.9.9"), ip("192.0.2.2")).relay_hosts.contains(ip("127.0.0.1")));
}

#[test]
fn dynamic_parameters_come_last() {
    let mut params = sample().effective(ip("10.9.9.9"), ip("192.0.2.1"));
    let dynamic: ListenerOverlay = parse(
        "smtp_server_get_dynamic_parameters",
        json!({"hostname": "mx1", "meta": {"d": 4}, "peer": {"10.9.9.9": {"banner": "dyn"}}}),
    )
    .unwrap();
    params.apply(&dynamic, ip("10.9.9.9"), ip("192.0.2.1"));
    assert_eq!(params.banner, "dyn");
    assert_eq!(params.hostname, Some("mx1".into()));
    assert_eq!(serde_json::to_value(&params.meta).unwrap(), json!({"a": 1, "b": 2, "d": 4}));
}

#[test]
fn shown_and_read_again() {
    let listener = sample();
    let again: EsmtpListener = parse("f", serde_json::to_value(&listener).unwrap()).unwrap();
    assert_eq!(again, listener);
    assert_eq!(listener.listen.socket_addr(), Some("0.0.0.0:25".parse().unwrap()));
}

#[test]
fn endless_nesting_is_refused() {
    let nested = (0..40).fold(json!({}), |inner, _| json!({"peer": {"::1": inner}}));
    let error = parse::<EsmtpListener>("f", nested).unwrap_err().to_string();
    assert!(error.contains("nested deeper than 32 levels"), "{error}");
}
