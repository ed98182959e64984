//! `kumo.kafka`: messages to Kafka. In: settings of librdkafka, messages. Out: where the broker put them. What happens on the wire is
//! the brokers crate's.

use crate::api::{Module, Proof::Test, function};
use crate::types::kafka::{self, LuaProducer};
use brokers::KafkaProducer;
use mlua::{Lua, Table, Value};
use std::collections::BTreeMap;

/// The module.
pub(crate) const KAFKA: Module = Module {
    name: "kumo.kafka",
    doc: "Messages to Kafka. What the library has to say goes to the log, target `kafka`.",
    functions: &[&[function!(
        "kumo.kafka",
        "build_producer",
        "{settings} -> Producer",
        "A producer, by the settings of librdkafka and their names, such as `['bootstrap.servers'] = 'HOST:PORT'`; values are texts, \
         numbers or booleans. It connects on its own, and again when a connection broke. Kerberos (GSSAPI) is not built.",
        Test("testing/e2e/tests/kafka.rs::scripts_produce"),
        build_producer
    )]],
    types: &[kafka::TYPE],
};

fn build_producer(_: &Lua, given: Table) -> mlua::Result<LuaProducer> {
    let mut settings = BTreeMap::new();
    for pair in given.pairs::<Value, Value>() {
        let (name, value) = pair?;
        let Value::String(name) = &name else {
            return Err(mlua::Error::runtime(format!("a {} as key: expected the name of a setting", name.type_name())));
        };
        let name = name.to_str()?.to_owned();
        settings.insert(name.clone(), setting(&name, &value)?);
    }
    KafkaProducer::new(&settings).map(LuaProducer::new).map_err(mlua::Error::runtime)
}

fn setting(name: &str, value: &Value) -> mlua::Result<String> {
    match value {
        Value::String(_) | Value::Integer(_) | Value::Number(_) | Value::Boolean(_) => value.to_string(),
        other => {
            let expected = "expected a string, a number or a boolean";
            Err(mlua::Error::runtime(format!("`{name}`: a {}: {expected}", other.type_name())))
        }
    }
}
