//! An error says where in its table it is.

use config::{EgressPath, EgressSource, EsmtpListener, FromTable, LocalLogs, QueueConfig};
use serde_json::{Value, json};

fn place<T: FromTable + std::fmt::Debug>(table: Value) -> String {
    let shown = table.to_string();
    T::from_table("kumo.tried", table).expect_err(&shown).path
}

#[test]
fn places_are_named_from_the_outside_in() {
    for (table, expected) in [
        (json!(7), ""),
        (json!({"max_age": "soon"}), "max_age"),
        (json!({"max_agee": "1h"}), ""),
        (json!({"protocol": {"smtp": {"mx_list": [7]}}}), "protocol.smtp.mx_list[0]"),
        (
            json!({"protocol": {"smtp": {"mx_list": ["a.test", {"name": "b.test", "addr": "x"}]}}}),
            "protocol.smtp.mx_list[1]",
        ),
        (json!({"protocol": {"smtp": {"mx_lost": []}}}), "protocol.smtp"),
        (json!({"protocol": {"smpt": {}}}), "protocol"),
        (json!({"protocol": {"custom_lua": {}}}), "protocol.custom_lua"),
        (json!({"protocol": {"smtp": []}, "shrink_policy": [{"interval": []}]}), "shrink_policy[0].interval"),
    ] {
        assert_eq!(place::<QueueConfig>(table.clone()), expected, "{table}");
    }
    let path = json!({"additional_message_rate_throttles": {"a.b": "1/s", "c": "often"}});
    assert_eq!(place::<EgressPath>(path), "additional_message_rate_throttles.c");
    let listener = json!({"listen": "127.0.0.1:25", "peer": {"192.0.2.0/33": {"max_messages_per_connection": 1}}});
    assert_eq!(place::<EsmtpListener>(listener), "peer");
    let listener = json!({"listen": "127.0.0.1:25", "peer": {"192.0.2.0/24": {"max_messages_per_connection": []}}});
    assert_eq!(place::<EsmtpListener>(listener), "peer.192.0.2.0/24.max_messages_per_connection");
}

#[test]
fn what_lies_too_deep_is_named_with_its_place() {
    let deep = (0..40).fold(json!(1), |inner, _| json!([inner]));
    let table = json!({"listen": "127.0.0.1:25", "meta": {"x": deep}});
    let error = EsmtpListener::from_table("kumo.tried", table).expect_err("it is too deep");
    assert_eq!(error.path, format!("meta.x{}", "[0]".repeat(30)));
    assert_eq!(error.fault.to_string(), "tables are nested deeper than 32 levels");
}

#[test]
fn words_that_are_keys_are_named() {
    let logs = |per_record: Value| place::<LocalLogs>(json!({"log_dir": "/l", "per_record": per_record}));
    assert_eq!(logs(json!({"Bounce": {"enable": 7}})), "per_record.Bounce.enable");
    assert_eq!(logs(json!({"Bounces": {}})), "per_record.Bounces");
    let source = |trigger: Value| {
        place::<EgressSource>(json!({"name": "a", "suspend_when_unplumbed": {"trigger": trigger, "duration": "1h"}}))
    };
    assert_eq!(source(json!({"Treshold": "1/s"})), "suspend_when_unplumbed.trigger");
    assert_eq!(source(json!({"Threshold": "often"})), "suspend_when_unplumbed.trigger.Threshold");
    assert_eq!(source(json!("Threshold")), "suspend_when_unplumbed.trigger");
}
