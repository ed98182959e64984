//! What a script says of a message, as AMQP has it: properties, header fields, texts of at most 255 octets.

use crate::error::BrokerError;
use config::AmqpPublish;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldArray, FieldTable, ShortString};
use serde_json::{Map, Value};

/// A message on its way.
pub(crate) struct Message<'a> {
    pub exchange: &'a str,
    pub routing_key: &'a str,
    pub payload: &'a [u8],
    pub properties: BasicProperties,
    pub is_mandatory: bool,
    pub is_immediate: bool,
}

impl<'a> Message<'a> {
    /// One with all that can be said of it.
    pub fn new(options: &'a AmqpPublish, payload: &'a [u8]) -> Result<Message<'a>, BrokerError> {
        let plain = Message::plain(&options.exchange, &options.routing_key, payload)?;
        Ok(Message {
            properties: properties(options)?,
            is_mandatory: options.mandatory,
            is_immediate: options.immediate,
            ..plain
        })
    }

    /// One of which nothing is said but where it goes.
    pub fn plain(exchange: &'a str, routing_key: &'a str, payload: &'a [u8]) -> Result<Message<'a>, BrokerError> {
        short("exchange", exchange)?;
        short("routing_key", routing_key)?;
        if payload.len() > PAYLOAD_OCTETS_MAX {
            return Err(BrokerError::TooLong { place: format!("{routing_key:?}"), octets_max: PAYLOAD_OCTETS_MAX });
        }
        let properties = BasicProperties::default();
        Ok(Message { exchange, routing_key, payload, properties, is_mandatory: false, is_immediate: false })
    }
}

fn properties(options: &AmqpPublish) -> Result<BasicProperties, BrokerError> {
    type Set = fn(BasicProperties, ShortString) -> BasicProperties;
    let expiration = options.expiration.as_ref().map(|milliseconds| milliseconds.0.clone());
    let texts: [(&'static str, &Option<String>, Set); 10] = [
        ("app_id", &options.app_id, BasicProperties::with_app_id),
        ("cluster_id", &options.cluster_id, BasicProperties::with_cluster_id),
        ("content_encoding", &options.content_encoding, BasicProperties::with_content_encoding),
        ("content_type", &options.content_type, BasicProperties::with_content_type),
        ("correlation_id", &options.correlation_id, BasicProperties::with_correlation_id),
        ("expiration", &expiration, BasicProperties::with_expiration),
        ("message_id", &options.message_id, BasicProperties::with_message_id),
        ("message_type", &options.message_type, BasicProperties::with_type),
        ("reply_to", &options.reply_to, BasicProperties::with_reply_to),
        ("user_id", &options.user_id, BasicProperties::with_user_id),
    ];
    let mut properties = BasicProperties::default();
    for (name, text, set) in texts {
        if let Some(text) = text {
            properties = set(properties, short(name, text)?);
        }
    }
    if let Some(mode) = options.delivery_mode {
        properties = properties.with_delivery_mode(mode);
    }
    if let Some(priority) = options.priority {
        properties = properties.with_priority(priority);
    }
    if let Some(seconds) = options.timestamp {
        properties = properties.with_timestamp(seconds);
    }
    match options.headers.is_empty() {
        true => Ok(properties),
        false => Ok(properties.with_headers(table(&options.headers)?)),
    }
}

fn table(members: &Map<String, Value>) -> Result<FieldTable, BrokerError> {
    let mut table = FieldTable::default();
    for (name, member) in members {
        table.insert(short("headers", name)?, value(member)?);
    }
    Ok(table)
}

fn value(given: &Value) -> Result<AMQPValue, BrokerError> {
    Ok(match given {
        Value::Null => AMQPValue::Void,
        Value::Bool(flag) => AMQPValue::Boolean(*flag),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => AMQPValue::LongLongInt(whole),
            None => AMQPValue::Double(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => AMQPValue::LongString(text.as_str().into()),
        Value::Array(items) => {
            let items = items.iter().map(value).collect::<Result<Vec<_>, _>>()?;
            AMQPValue::FieldArray(FieldArray::from(items))
        }
        Value::Object(members) => AMQPValue::FieldTable(table(members)?),
    })
}

/// AMQP counts the octets of most texts in one octet.
fn short(what: &str, text: &str) -> Result<ShortString, BrokerError> {
    if text.len() > SHORT_OCTETS_MAX {
        let why = format!("{} octets: expected at most {SHORT_OCTETS_MAX}", text.len());
        return Err(BrokerError::Bad { what: what.to_owned(), why });
    }
    Ok(text.into())
}

/// The longest text of AMQP but header fields' values, in octets.
pub const SHORT_OCTETS_MAX: usize = 255;
/// The longest payload, in octets. Servers have bounds of their own.
pub const PAYLOAD_OCTETS_MAX: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn options(more: Value) -> AmqpPublish {
        let mut options = json!({"routing_key": "q", "connection": {"host": "h"}});
        options.as_object_mut().expect("a table").extend(more.as_object().expect("a table").clone());
        config::parse("kumo.amqp.basic_publish", options).expect("sound")
    }

    #[test]
    fn texts_are_bounded() {
        let of = |octets: usize| "x".repeat(octets);
        for name in ["routing_key", "exchange", "app_id", "message_type", "reply_to"] {
            let with = |octets: usize| options(json!({ name: of(octets) }));
            assert!(Message::new(&with(SHORT_OCTETS_MAX), b"").is_ok(), "{name}");
            let error = Message::new(&with(SHORT_OCTETS_MAX + 1), b"").err().expect("refused").to_string();
            assert_eq!(error, format!("{name}: 256 octets: expected at most 255"));
        }
        let error = Message::new(&options(json!({"headers": {of(256): 1}})), b"").err().expect("refused");
        assert!(error.to_string().starts_with("headers: 256 octets"));
    }

    #[test]
    fn a_payload_is_bounded() {
        let payload = vec![0; PAYLOAD_OCTETS_MAX + 1];
        assert!(Message::plain("", "q", &payload[1..]).is_ok());
        assert!(matches!(Message::plain("", "q", &payload), Err(BrokerError::TooLong { .. })));
    }

    #[test]
    fn header_fields_keep_their_types() {
        let table = table(json!({"a": 1, "b": "x", "c": true, "d": [1.5], "e": {"f": null}}).as_object().expect("one"));
        let table = table.expect("sound");
        let at = |name: &str| table.inner().get(name).cloned().expect("there");
        assert_eq!(at("a"), AMQPValue::LongLongInt(1));
        assert_eq!(at("b"), AMQPValue::LongString("x".into()));
        assert_eq!(at("c"), AMQPValue::Boolean(true));
        assert_eq!(at("d"), AMQPValue::FieldArray(FieldArray::from(vec![AMQPValue::Double(1.5)])));
        assert!(matches!(at("e"), AMQPValue::FieldTable(inner) if inner.inner()["f"] == AMQPValue::Void));
    }
}
