//! The client of `kumo.nats`.

use crate::api::{Member, Proof::Test, Type, within};
use crate::convert;
use crate::modules::payload::beside_payload;
use crate::waiting::wait;
use brokers::{Ack, Nats};
use config::NatsMessage;
use mlua::{Lua, MetaMethod, Table, UserData, UserDataMethods, Value};
use std::sync::Arc;
use std::time::Duration;

/// The userdata; `None` once it was closed.
pub(crate) struct LuaNats(Option<Arc<Nats>>);

impl LuaNats {
    /// One that is connected.
    pub fn new(client: Nats) -> LuaNats {
        LuaNats(Some(Arc::new(client)))
    }
}

impl UserData for LuaNats {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_async_method("publish", |lua, this, given: Table| async move {
            let client = this.0.clone().ok_or_else(|| mlua::Error::runtime("nats:publish: the client was closed"))?;
            drop(this);
            let (options, payload) = beside_payload(&lua, &given).map_err(|e| within("nats:publish", e))?;
            let message: NatsMessage = convert::options("nats:publish", &options)?;
            publish(&lua, &client, message, payload).await
        });
        methods.add_async_method_mut("close", |lua, mut this, ()| async move {
            let client = this.0.take();
            drop(this);
            close(&lua, client).await
        });
        methods.add_async_meta_method_mut(MetaMethod::Close, |lua, mut this, _: Value| async move {
            let client = this.0.take();
            drop(this);
            close(&lua, client).await
        });
    }
}

async fn publish(lua: &Lua, client: &Nats, message: NatsMessage, payload: Vec<u8>) -> mlua::Result<Option<Table>> {
    let headers: Vec<(String, String)> = message.headers.into_iter().collect();
    let publishing = client.publish(&message.subject, payload, &headers, message.await_ack);
    let ack = wait(lua, "nats:publish", client.patience().saturating_add(GRACE), publishing).await?;
    let ack = ack.map_err(|e| mlua::Error::runtime(format!("nats:publish: {e}")))?;
    ack.map(|ack| table(lua, ack)).transpose()
}

fn table(lua: &Lua, ack: Ack) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("stream", ack.stream)?;
    table.raw_set("sequence", ack.sequence)?;
    table.raw_set("domain", ack.domain)?;
    table.raw_set("duplicate", ack.duplicate)?;
    table.raw_set("value", ack.value)?;
    Ok(table)
}

async fn close(lua: &Lua, client: Option<Arc<Nats>>) -> mlua::Result<()> {
    let Some(client) = client else { return Ok(()) };
    let closed = wait(lua, "nats:close", client.patience().saturating_add(GRACE), client.close()).await?;
    closed.map_err(|e| mlua::Error::runtime(format!("nats:close: {e}")))
}

/// Time beyond a limit of the brokers crate, so that its error is the one that is seen.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// What the manual says of it.
pub(crate) const TYPE: Type = Type {
    name: "NatsClient",
    prefix: "nats",
    doc: "What `kumo.nats.connect` returns. With `<close>` it is closed at the end of its block.",
    members: &[
        Member {
            name: "nats:publish",
            signature: "{ subject, payload, headers = {}, await_ack = true } -> { stream, sequence, domain, duplicate, value } or nil",
            doc: "Publishes a message. It waits until a stream has it, and tells which, and the place in there; that no stream takes \
                  the subject is an error, and so is no answer within `request_timeout`, though the message may still arrive then. \
                  With `await_ack = false` it goes to whoever has subscribed, and nothing is heard of it.",
            proof: Test("testing/e2e/tests/nats.rs::scripts_publish_to_streams"),
        },
        Member {
            name: "nats:close",
            signature: "()",
            doc: "Waits until all that was published is on its way, and disconnects; nothing can be published after. A second time \
                  does nothing.",
            proof: Test("testing/e2e/tests/nats.rs::scripts_publish_to_streams"),
        },
    ],
};
