//! An error says where in its table it is.

use config::{EgressPath, EsmtpListener, FromTable, QueueConfig};
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
    assert_eq!(place::<EgressPath>(json!({"connection_limit": deep})), "connection_limit");
}
