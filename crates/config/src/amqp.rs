//! The options of `kumo.amqp.basic_publish` and of the older client's `publish`.
//!
//! Owns [`AmqpPublish`], [`AmqpConnection`] and [`AmqpMessage`]. `payload` may be any octets, so it is read beside them. Talking
//! AMQP is the brokers crate's.

use crate::duration::Duration;
use crate::key_source::KeySource;
use crate::options::options;
use core::fmt;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

options! {
    /// `kumo.amqp.basic_publish`
    pub struct AmqpPublish {
        /// Where it is published to: the name of a queue when `exchange` is empty.
        routing_key: String;
        /// What takes it and decides which queues get it; empty for the one that knows queues by their names.
        exchange: String = String::new();
        /// The server.
        connection: AmqpConnection;
        /// Says what made it.
        app_id: Option<String> = None;
        /// Of AMQP 0-8; servers do not look at it.
        cluster_id: Option<String> = None;
        /// `gzip`, ...
        content_encoding: Option<String> = None;
        /// `application/json`, ...
        content_type: Option<String> = None;
        /// Tells an answer which question it is to.
        correlation_id: Option<String> = None;
        /// 2 for a message that outlives a restart of the server, in a queue that does; 1 for one that does not.
        delivery_mode: Option<u8> = None;
        /// How long it may wait in a queue, in milliseconds.
        expiration: Option<NumberOrText> = None;
        /// Header fields by name: texts, numbers, booleans, lists and tables of such.
        headers: Map<String, Value> = Map::new();
        /// Says which message it is.
        message_id: Option<String> = None;
        /// Says what kind of message it is.
        message_type: Option<String> = None;
        /// 0 to 255, for queues that have priorities.
        priority: Option<u8> = None;
        /// Where an answer goes to.
        reply_to: Option<String> = None;
        /// When it was made, in seconds since 1970.
        timestamp: Option<u64> = None;
        /// Who made it; the server demands that it is who logged in.
        user_id: Option<String> = None;
        /// It is an error when no queue gets it.
        mandatory: bool = false;
        /// It is an error when nobody takes it at once. RabbitMQ has no such thing, and refuses it.
        immediate: bool = false;
    }
}

options! {
    /// `connection` of `kumo.amqp.basic_publish`
    pub struct AmqpConnection check check_connection {
        /// The server's name or address.
        host: String;
        /// Its port; 5672 when absent, 5671 for TLS.
        port: Option<u16> = None, min 1;
        /// User to log in as; `guest` when absent.
        username: Option<TextOrSource> = None;
        /// Password to log in with; `guest` when absent. A text is the password itself; a table is a KeySource.
        password: Option<TextOrSource> = None;
        /// The server's virtual host.
        vhost: String = "/".to_owned();
        /// What the connection is called in the server's own lists.
        connection_name: Option<String> = None;
        /// How often both sides show that they are there; as the server likes when absent. At most 65535 s.
        heartbeat: Option<Duration> = None;
        /// TLS.
        enable_tls: bool = false;
        /// Certificates of who may vouch for the server, in PEM, as a KeySource; the system's when absent.
        root_ca_cert: Option<KeySource> = None;
        /// A certificate of our own, in PEM, as a KeySource.
        client_cert: Option<KeySource> = None;
        /// Its key, in PEM, as a KeySource.
        client_private_key: Option<KeySource> = None;
        /// Connections at once; 4 for each processor when absent.
        pool_size: Option<usize> = None, min 1;
        /// Time limit for making a connection; 30 s when absent.
        connect_timeout: Option<Duration> = None;
        /// Accepted: whether a connection is still there is known at once.
        recycle_timeout: Option<Duration> = None;
        /// Time limit for the wait until one of the connections is free; 30 s when absent.
        wait_timeout: Option<Duration> = None;
        /// Time limit for publishing a message, with the server's confirmation; 30 s when absent.
        publish_timeout: Option<Duration> = None;
    }
}

options! {
    /// `amqp_client:publish`
    pub struct AmqpMessage {
        /// Where it is published to: the name of a queue when `exchange` is empty.
        routing_key: String;
        /// What takes it and decides which queues get it; empty for the one that knows queues by their names.
        exchange: String = String::new();
    }
}

/// A text as it is, or a table that says where it is kept.
#[derive(Clone, PartialEq)]
pub enum TextOrSource {
    /// The text itself.
    Text(String),
    /// Where it is kept.
    Source(KeySource),
}

impl fmt::Debug for TextOrSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TextOrSource::Text(text) => write!(f, "Text({} bytes)", text.len()),
            TextOrSource::Source(source) => source.fmt(f),
        }
    }
}

impl Serialize for TextOrSource {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            TextOrSource::Text(text) => serializer.serialize_str(text),
            TextOrSource::Source(source) => source.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for TextOrSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(TextOrSource::Text(text)),
            table @ Value::Object(_) => {
                KeySource::deserialize(table).map(TextOrSource::Source).map_err(D::Error::custom)
            }
            // It may be a password that looks like a number.
            _ => Err(D::Error::custom("neither a text nor a table: expected a text or the table of a KeySource")),
        }
    }
}

/// AMQP has it as text; people write a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NumberOrText(pub String);

impl<'de> Deserialize<'de> for NumberOrText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Number(number) if number.is_u64() => Ok(NumberOrText(number.to_string())),
            Value::String(text) if text.parse::<u64>().is_ok() => Ok(NumberOrText(text)),
            other => Err(D::Error::custom(format!("invalid value {other}: expected a whole number of milliseconds"))),
        }
    }
}

fn check_connection(connection: &AmqpConnection) -> Result<(), String> {
    if connection.host.is_empty() {
        return Err("host: an empty text: expected a name or an address".to_owned());
    }
    if connection.client_cert.is_some() != connection.client_private_key.is_some() {
        return Err("client_cert and client_private_key: expected both or neither".to_owned());
    }
    if connection.heartbeat.is_some_and(|every| every.as_secs() > u64::from(u16::MAX)) {
        return Err(format!("heartbeat: expected at most {} s", u16::MAX));
    }
    if !connection.enable_tls && (connection.client_cert.is_some() || connection.root_ca_cert.is_some()) {
        return Err("enable_tls: false with certificates: expected true".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(options: Value) -> Result<AmqpPublish, String> {
        crate::parse::<AmqpPublish>("kumo.amqp.basic_publish", options).map_err(|e| e.to_string())
    }

    #[test]
    fn a_password_is_text_or_kept_somewhere() {
        let read = |password: Value| {
            let connection = json!({"host": "h", "password": password});
            read(json!({"routing_key": "q", "connection": connection})).map(|publish| publish.connection.password)
        };
        assert_eq!(read(json!("s3cret")), Ok(Some(TextOrSource::Text("s3cret".into()))));
        let kept = TextOrSource::Source(KeySource::Data(b"x".to_vec()));
        assert_eq!(read(json!({"key_data": "x"})), Ok(Some(kept)));
        let error = read(json!(5)).expect_err("refused");
        assert!(error.contains("connection.password: ") && error.contains("neither a text nor a table"), "{error}");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let with = |connection: Value| json!({"routing_key": "q", "connection": connection});
        for (options, why) in [
            (json!({"connection": {"host": "h"}}), "missing field `routing_key`"),
            (json!({"routing_key": "q"}), "missing field `connection`"),
            (with(json!({})), "missing field `host`"),
            (with(json!({"host": ""})), "an empty text"),
            (with(json!({"host": "h", "pasword": "x"})), "did you mean `password`"),
            (with(json!({"host": "h", "port": "x"})), "connection.port"),
            (with(json!({"host": "h", "enable_tls": true, "client_cert": "c"})), "expected both or neither"),
            (with(json!({"host": "h", "root_ca_cert": "c"})), "enable_tls"),
            (with(json!({"host": "h", "pool_size": 0})), "connection.pool_size"),
            (json!({"routing_key": "q", "connection": {"host": "h"}, "expiration": "1m"}), "milliseconds"),
            (json!({"routing_key": "q", "connection": {"host": "h"}, "priority": 256}), "priority"),
        ] {
            let error = read(options.clone()).expect_err("refused");
            assert!(error.contains(why), "{options}: {error}");
        }
    }

    #[test]
    fn a_heartbeat_has_sixteen_bits() {
        let read = |seconds: u64| {
            read(json!({"routing_key": "q", "connection": {"host": "h", "heartbeat": seconds}})).map(|_| ())
        };
        assert_eq!(read(65_535), Ok(()));
        assert!(read(65_536).expect_err("one more").contains("at most 65535 s"));
    }
}
