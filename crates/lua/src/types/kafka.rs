//! `Producer` of `kumo.kafka`.

use crate::api::{Member, Proof::Test, Type, within};
use crate::convert;
use crate::modules::payload::{beside, beside_payload, octets};
use crate::types::nats::GRACE;
use crate::waiting::wait;
use brokers::{KafkaMessage, KafkaProducer};
use config::KafkaRecord;
use mlua::{Lua, MetaMethod, Table, UserData, UserDataMethods, Value};
use std::time::Duration;

/// The userdata; `None` once it was closed.
pub(crate) struct LuaProducer(Option<KafkaProducer>);

impl LuaProducer {
    /// A new one.
    pub fn new(producer: KafkaProducer) -> LuaProducer {
        LuaProducer(Some(producer))
    }

    fn producer(&self, method: &str) -> mlua::Result<KafkaProducer> {
        self.0.clone().ok_or_else(|| mlua::Error::runtime(format!("{method}: the producer was closed")))
    }
}

impl UserData for LuaProducer {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_async_method("send", |lua, this, given: Table| async move {
            let producer = this.producer(SEND)?;
            drop(this);
            let message = message(&lua, SEND, &given).map_err(|e| within(SEND, e))?;
            let sent = wait(&lua, SEND, message.timeout.saturating_add(GRACE), producer.send(&message)).await?;
            let delivered = sent.map_err(|e| mlua::Error::runtime(format!("{SEND}: {e}")))?;
            Ok((delivered.partition, delivered.offset))
        });
        methods.add_async_method("send_batch", |lua, this, given: Vec<Table>| async move {
            let producer = this.producer(SEND_BATCH)?;
            drop(this);
            send_batch(&lua, &producer, given).await
        });
        methods.add_async_method_mut("close", |lua, mut this, ()| async move {
            let producer = this.0.take();
            drop(this);
            close(&lua, producer).await
        });
        methods.add_async_meta_method_mut(MetaMethod::Close, |lua, mut this, _: Value| async move {
            let producer = this.0.take();
            drop(this);
            close(&lua, producer).await
        });
    }
}

/// A message as a script wrote it. Content, key and header fields may be any octets.
fn message(lua: &Lua, method: &'static str, given: &Table) -> mlua::Result<KafkaMessage> {
    let (rest, key) = beside(lua, given, "key")?;
    let (rest, headers) = convert::without(lua, &rest, "headers")?;
    let (options, payload) = beside_payload(lua, &rest)?;
    let record: KafkaRecord = convert::options(method, &options)?;
    Ok(KafkaMessage {
        topic: record.topic,
        payload,
        key,
        partition: record.partition,
        headers: header_fields(&headers)?,
        timeout: record.timeout.get(),
    })
}

/// By name, in the order of their names.
fn header_fields(given: &Value) -> mlua::Result<Vec<(String, Vec<u8>)>> {
    let table = match given {
        Value::Nil => return Ok(Vec::new()),
        Value::Table(table) => table,
        other => {
            return Err(mlua::Error::runtime(format!("headers: a {}: expected a table", other.type_name())));
        }
    };
    let mut fields = Vec::new();
    for pair in table.pairs::<String, Value>() {
        let (name, value) = pair?;
        let value = octets(&format!("headers.{name}"), &value)?;
        fields.push((name, value));
    }
    fields.sort();
    Ok(fields)
}

async fn send_batch(lua: &Lua, producer: &KafkaProducer, given: Vec<Table>) -> mlua::Result<(Vec<usize>, Vec<String>)> {
    let read = |(place, given): (usize, &Table)| {
        let named = |e| within(SEND_BATCH, within(&format!("message {}", place + 1), e));
        message(lua, SEND_BATCH, given).map_err(named)
    };
    let messages = given.iter().enumerate().map(read).collect::<mlua::Result<Vec<_>>>()?;
    let longest = messages.iter().map(|message| message.timeout).max().unwrap_or_default();
    let sent = wait(lua, SEND_BATCH, longest.saturating_add(GRACE), producer.send_batch(&messages)).await?;
    let sent = sent.map_err(|e| mlua::Error::runtime(format!("{SEND_BATCH}: {e}")))?;
    let failed =
        sent.iter().enumerate().filter_map(|(place, sent)| Some((place + 1, sent.as_ref().err()?.to_string())));
    Ok(failed.unzip())
}

async fn close(lua: &Lua, producer: Option<KafkaProducer>) -> mlua::Result<()> {
    let Some(producer) = producer else { return Ok(()) };
    let closed = wait(lua, CLOSE, CLOSE_TIMEOUT.saturating_add(GRACE), producer.close(CLOSE_TIMEOUT)).await?;
    closed.map_err(|e| mlua::Error::runtime(format!("{CLOSE}: {e}")))
}

const SEND: &str = "producer:send";
const SEND_BATCH: &str = "producer:send_batch";
const CLOSE: &str = "producer:close";
/// How long is waited for what is still on its way.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(60);
const TESTED: &str = "testing/e2e/tests/kafka.rs::scripts_produce";

/// What the manual says of it.
pub(crate) const TYPE: Type = Type {
    name: "Producer",
    prefix: "producer",
    doc: "What `kumo.kafka.build_producer` returns. With `<close>` it is closed at the end of its block.",
    members: &[
        Member {
            name: "producer:send",
            signature: "{ topic, payload, key = nil, partition = nil, headers = {}, timeout = '1m' } -> partition, offset",
            doc: "Sends a message and waits until the broker has it. No answer in time is an error; the message may still arrive then, \
                  for as long as `message.timeout.ms` says.",
            proof: Test(TESTED),
        },
        Member {
            name: "producer:send_batch",
            signature: "(list) -> list of places, list of errors",
            doc: "Sends messages, each as `send` takes it, all at once, and waits for what becomes of each. The first list holds the \
                  places of those that failed, counted from 1, the second the error of each; both are empty when all is well. At \
                  most 10000.",
            proof: Test(TESTED),
        },
        Member {
            name: "producer:close",
            signature: "()",
            doc: "Waits until it is known what became of everything, 60 seconds at most; nothing can be sent after. A second time \
                  does nothing.",
            proof: Test(TESTED),
        },
    ],
};
