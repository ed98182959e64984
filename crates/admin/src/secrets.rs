//! Configurations as JSON without what must not be read over somebody's shoulder.
//!
//! In: options that can be written. Out: JSON in which keys, passwords and tokens given in the policy itself are replaced, those in
//! URLs too; where they come from (files, vaults, events) stays.

use crate::answer::Failed;
use config::shown_url;
use serde::Serialize;
use serde_json::Value;

/// `options` as JSON with its secrets replaced.
pub(crate) fn without_secrets(options: &impl Serialize) -> Result<Value, Failed> {
    let mut value = serde_json::to_value(options).map_err(|error| Failed::internal(error.to_string()))?;
    hide(&mut value);
    Ok(value)
}

fn hide(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match SECRETS.contains(&name.as_str()) && !member.is_null() {
                    true => *member = Value::from(HIDDEN),
                    false => hide(member),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(hide),
        Value::String(text) if text.contains("://") => *text = shown_url(text),
        _ => {}
    }
}

/// Members of a key source that are secrets themselves.
const SECRETS: [&str; 2] = ["key_data", "vault_token"];
/// What stands in their place.
const HIDDEN: &str = "(not shown)";

#[cfg(test)]
mod tests {
    use super::*;
    use config::{EgressPath, QueueConfig};
    use serde_json::json;

    #[test]
    fn secrets_are_replaced_and_their_sources_stay() {
        let path: EgressPath = config::parse(
            "kumo.make_egress_path",
            json!({
                "smtp_auth_plain_username": "joe",
                "smtp_auth_plain_password": {"key_data": "hunter2"},
                "tls_certificate": "/etc/cert.pem",
                "tls_private_key": {"vault_token": "t0ken", "vault_mount": "m", "vault_path": "p"},
            }),
        )
        .expect("sound");
        let shown = without_secrets(&path).expect("writes");
        assert_eq!(shown["smtp_auth_plain_password"], json!({"key_data": "(not shown)"}));
        assert_eq!(
            (&shown["smtp_auth_plain_username"], &shown["tls_certificate"]),
            (&json!("joe"), &json!("/etc/cert.pem"))
        );
        assert_eq!(shown["tls_private_key"]["vault_path"], "p");
        let text = shown.to_string();
        assert!(!text.contains("hunter2") && !text.contains("t0ken"), "{text}");
    }

    #[test]
    fn who_logs_in_at_a_url_is_not_told() {
        let target = "https://joe:hunter2@b.test:8000";
        let queue: QueueConfig =
            config::parse("kumo.make_queue_config", json!({"protocol": {"xfer": {"target": target}}})).expect("sound");
        let shown = without_secrets(&queue).expect("writes");
        assert_eq!(shown["protocol"]["xfer"]["target"], "https://***@b.test:8000");
        assert!(!shown.to_string().contains("hunter2"), "{shown}");
    }
}
