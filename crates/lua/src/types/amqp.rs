//! The older client of `kumo.amqp`, and what it is told of a message.

use crate::api::{Member, Proof::Test, Type, within};
use crate::convert;
use crate::modules::payload::beside_payload;
use crate::turns::Turns;
use crate::types::nats::GRACE;
use crate::waiting::wait;
use brokers::{AmqpClient, CONFIRM_TIMEOUT, Confirm, Verdict};
use config::AmqpMessage;
use mlua::{Lua, MetaMethod, Table, UserData, UserDataMethods, Value};
use std::sync::Arc;
use std::time::Duration;

/// The userdata; `None` once it was closed.
pub(crate) struct LuaAmqpClient(Option<Arc<AmqpClient>>);

impl LuaAmqpClient {
    /// One that is connected.
    pub fn new(client: AmqpClient) -> LuaAmqpClient {
        LuaAmqpClient(Some(Arc::new(client)))
    }

    fn client(&self, method: &str) -> mlua::Result<Arc<AmqpClient>> {
        self.0.clone().ok_or_else(|| mlua::Error::runtime(format!("{method}: the client was closed")))
    }
}

impl UserData for LuaAmqpClient {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_async_method("publish", |lua, this, given: Table| async move {
            let client = this.client(PUBLISH)?;
            drop(this);
            let confirm = publish(&lua, &client, PUBLISH, &given, CONFIRM_TIMEOUT).await?;
            Ok(LuaConfirm(Turns::new(confirm)))
        });
        methods.add_async_method("publish_with_timeout", |lua, this, (given, limit): (Table, Value)| async move {
            let client = this.client(WITH_TIMEOUT)?;
            drop(this);
            let limit: config::Duration = convert::options(WITH_TIMEOUT, &limit)?;
            let limit = limit.get();
            let mut confirm = publish(&lua, &client, WITH_TIMEOUT, &given, limit).await?;
            told(&lua, WITH_TIMEOUT, &mut confirm, limit).await
        });
        methods.add_async_method_mut("close", |lua, mut this, ()| async move {
            let client = this.client(CLOSE)?;
            this.0 = None;
            drop(this);
            close(&lua, &client).await
        });
        methods.add_async_meta_method_mut(MetaMethod::Close, |lua, mut this, _: Value| async move {
            let client = this.0.take();
            drop(this);
            match client {
                Some(client) => close(&lua, &client).await,
                None => Ok(()),
            }
        });
    }
}

async fn publish(
    lua: &Lua,
    client: &AmqpClient,
    method: &'static str,
    given: &Table,
    limit: Duration,
) -> mlua::Result<Confirm> {
    let (options, payload) = beside_payload(lua, given).map_err(|e| within(method, e))?;
    let message: AmqpMessage = convert::options(method, &options)?;
    let sent = wait(lua, method, limit.saturating_add(GRACE), client.publish(&message, &payload, limit)).await?;
    sent.map_err(|e| mlua::Error::runtime(format!("{method}: {e}")))
}

/// What became of a message, as a table.
async fn told(lua: &Lua, method: &str, confirm: &mut Confirm, limit: Duration) -> mlua::Result<Table> {
    let verdict = wait(lua, method, limit.saturating_add(GRACE), confirm.wait(limit)).await?;
    verdict_table(lua, verdict.map_err(|e| mlua::Error::runtime(format!("{method}: {e}")))?)
}

/// What became of a message, as scripts see it.
pub(crate) fn verdict_table(lua: &Lua, verdict: Verdict) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("status", verdict.status.name())?;
    if let Some((code, text)) = verdict.returned {
        table.raw_set("reply_code", code)?;
        table.raw_set("reply_text", text)?;
    }
    Ok(table)
}

async fn close(lua: &Lua, client: &AmqpClient) -> mlua::Result<()> {
    let closed = wait(lua, CLOSE, CONFIRM_TIMEOUT, client.close()).await?;
    closed.map_err(|e| mlua::Error::runtime(format!("{CLOSE}: {e}")))
}

/// The userdata.
struct LuaConfirm(Turns<Confirm>);

impl UserData for LuaConfirm {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_async_method("wait", |lua, this, ()| async move {
            let another = || mlua::Error::runtime("amqp_confirm:wait: another one waits for it");
            let mut confirm = this.0.take().ok_or_else(another)?;
            drop(this);
            told(&lua, "amqp_confirm:wait", &mut confirm, CONFIRM_TIMEOUT).await
        });
    }
}

const PUBLISH: &str = "amqp_client:publish";
const WITH_TIMEOUT: &str = "amqp_client:publish_with_timeout";
const CLOSE: &str = "amqp_client:close";
const TESTED: &str = "testing/e2e/tests/amqp.rs::an_older_client_publishes";

/// What the manual says of the client.
pub(crate) const CLIENT: Type = Type {
    name: "AmqpClient",
    prefix: "amqp_client",
    doc: "What `kumo.amqp.build_client` returns: one connection, which is made again when it broke. With `<close>` it is closed at \
          the end of its block.",
    members: &[
        Member {
            name: "amqp_client:publish",
            signature: "{ routing_key, payload, exchange = '' } -> confirm",
            doc: "Sends a message; what becomes of it is to be waited for.",
            proof: Test(TESTED),
        },
        Member {
            name: "amqp_client:publish_with_timeout",
            signature: "({ routing_key, payload, exchange = '' }, duration) -> { status, reply_code, reply_text }",
            doc: "Sends a message and waits for what becomes of it, so long: seconds, or a text such as `5s`.",
            proof: Test(TESTED),
        },
        Member {
            name: "amqp_client:close",
            signature: "()",
            doc: "Disconnects. A second time it is an error, and so is publishing after.",
            proof: Test(TESTED),
        },
    ],
};

/// What the manual says of a confirmation.
pub(crate) const CONFIRM: Type = Type {
    name: "AmqpConfirm",
    prefix: "amqp_confirm",
    doc: "What `amqp_client:publish` returns.",
    members: &[Member {
        name: "amqp_confirm:wait",
        signature: "() -> { status, reply_code, reply_text }",
        doc: "Waits until the server says what became of the message, 60 seconds at most: `status` is `Ack` when it has it, `Nack` \
              when it did not take it, `NotRequested` where it says nothing of the kind. With `reply_code` and `reply_text` it gave \
              it back. Waiting again gives the same.",
        proof: Test(TESTED),
    }],
};
