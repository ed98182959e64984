//! `kumo.amqp`: messages to RabbitMQ and other servers that speak AMQP 0-9-1. In: options, messages. Out: what the server says of
//! them. Pools of connections are shared by all states; their number is bounded. What happens on the wire is the brokers crate's.

use crate::api::{Function, Module, Proof::Test, function};
use crate::convert;
use crate::modules::memoize::commons;
use crate::modules::payload::beside_payload;
use crate::modules::secrets::{certificates, text};
use crate::types::amqp::{self, LuaAmqpClient, verdict_table};
use crate::types::nats::GRACE;
use crate::waiting::wait;
use brokers::{AmqpClient, AmqpPool, BrokerError, CONFIRM_TIMEOUT, Login, Slot};
use config::{AmqpConnection, AmqpPublish, TextOrSource};
use mlua::{Lua, Table};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The module.
pub(crate) const AMQP: Module = Module {
    name: "kumo.amqp",
    doc: "Messages to RabbitMQ and other servers that speak AMQP 0-9-1. Certificates are verified as for `kumo.http`, unless \
          `root_ca_cert` says by whom.",
    functions: &[FUNCTIONS],
    types: &[amqp::CLIENT, amqp::CONFIRM],
};

const FUNCTIONS: &[Function] = &[
    function!(
        waits
        "kumo.amqp",
        "basic_publish",
        "{ routing_key, payload, exchange = '', connection = {...}, ... } -> { status }",
        "Publishes a message over one of a pool of connections, and waits until the server has confirmed it: `status` is `Ack`. \
         That the server does not take it, or that it is `mandatory` and comes back since no queue gets it, is an error. Scripts \
         with equal `connection` share a pool. A connection that broke while nobody used it is made again, and the message is sent \
         once more.",
        Test("testing/e2e/tests/amqp.rs::scripts_publish_to_queues"),
        basic_publish
    ),
    function!(
        waits
        "kumo.amqp",
        "build_client",
        "(uri) -> client",
        "Connects to `amqp://USER:PASSWORD@HOST:PORT/VHOST` or, over TLS, `amqps://...`; what such a URI leaves out is as RabbitMQ \
         has it. Deprecated by KumoMTA in favour of `basic_publish`.",
        Test("testing/e2e/tests/amqp.rs::an_older_client_publishes"),
        build_client
    ),
];

/// Pools by their options.
#[derive(Default)]
pub(crate) struct AmqpPools(Mutex<Vec<Arc<AmqpPool>>>);

impl AmqpPools {
    /// The pool with these options; the last used stands last, and the first goes when there are too many.
    fn get(&self, options: &AmqpConnection) -> Arc<AmqpPool> {
        let mut pools = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = pools.iter().position(|pool| pool.options() == options);
        let pool = place.map_or_else(|| AmqpPool::new(options), |place| pools.remove(place));
        if pools.len() >= POOLS_MAX {
            pools.remove(0);
        }
        pools.push(pool.clone());
        pool
    }
}

async fn basic_publish(lua: Lua, given: Table) -> mlua::Result<Table> {
    let (options, payload) = beside_payload(&lua, &given)?;
    let options: AmqpPublish = convert::options(PUBLISH, &options)?;
    let pool = commons(&lua)?.amqp.get(&options.connection);
    let patience = pool.patience().saturating_add(GRACE);
    let mut slot = wait(&lua, PUBLISH, patience, pool.slot()).await?.map_err(mlua::Error::runtime)?;
    loop {
        let was_kept = slot.is_connected();
        if !was_kept {
            connect(&lua, &mut slot, &options.connection, patience).await?;
        }
        match wait(&lua, PUBLISH, patience, slot.publish(&options, &payload)).await? {
            // It broke while nobody used it.
            Err(BrokerError::Lost { .. }) if was_kept => {}
            outcome => {
                slot.give_back();
                return verdict_table(&lua, outcome.map_err(mlua::Error::runtime)?);
            }
        }
    }
}

async fn connect(lua: &Lua, slot: &mut Slot, options: &AmqpConnection, patience: Duration) -> mlua::Result<()> {
    let login = Login {
        user: text_or_guest(lua, "connection.username", options.username.as_ref()).await?,
        password: text_or_guest(lua, "connection.password", options.password.as_ref()).await?,
    };
    let (ours, key) = (&options.client_cert, &options.client_private_key);
    let certificates = certificates(lua, &options.root_ca_cert, ours, key).await?;
    let commons = commons(lua)?;
    let connectors = commons.web.connectors().map_err(mlua::Error::runtime)?;
    let connecting = slot.connect(login, &certificates, connectors);
    wait(lua, PUBLISH, patience, connecting).await?.map_err(mlua::Error::runtime)
}

async fn text_or_guest(lua: &Lua, field: &str, given: Option<&TextOrSource>) -> mlua::Result<String> {
    match given {
        None => Ok("guest".to_owned()),
        Some(TextOrSource::Text(given)) => Ok(given.clone()),
        Some(TextOrSource::Source(source)) => text(lua, field, source).await,
    }
}

async fn build_client(lua: Lua, uri: String) -> mlua::Result<LuaAmqpClient> {
    let commons = commons(&lua)?;
    let connectors = commons.web.connectors().map_err(mlua::Error::runtime)?;
    let connecting = AmqpClient::connect(&uri, connectors);
    let client = wait(&lua, "kumo.amqp.build_client", CONFIRM_TIMEOUT, connecting).await?;
    client.map(LuaAmqpClient::new).map_err(mlua::Error::runtime)
}

const PUBLISH: &str = "kumo.amqp.basic_publish";
/// Pools kept at once.
const POOLS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn options(number: usize) -> AmqpConnection {
        let port = 1 + u16::try_from(number).expect("a port");
        AmqpConnection { host: "h".to_owned(), port: Some(port), ..AmqpConnection::default() }
    }

    #[test]
    fn pools_are_bounded_and_the_last_used_stay() {
        let pools = AmqpPools::default();
        let first = pools.get(&options(0));
        (1..POOLS_MAX).for_each(|number| _ = pools.get(&options(number)));
        assert!(Arc::ptr_eq(&first, &pools.get(&options(0))), "at the bound all are kept");
        pools.get(&options(POOLS_MAX));
        assert_eq!(pools.0.lock().expect("unpoisoned").len(), POOLS_MAX);
        assert!(Arc::ptr_eq(&first, &pools.get(&options(0))), "it was used since");
        let other = AmqpConnection { password: Some(TextOrSource::Text("x".to_owned())), ..options(0) };
        assert!(!Arc::ptr_eq(&first, &pools.get(&other)), "another login is another pool");
    }
}
