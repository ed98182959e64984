//! `EventSource` of `kumo.http`.

use crate::api::{Member, Proof::Test, Type};
use crate::turns::Turns;
use crate::waiting::{FOREVER, wait};
use mlua::{Lua, Table, UserData, UserDataMethods};
use web::{EventSource, ServerEvent};

/// The userdata.
pub(crate) struct LuaEventSource(Turns<EventSource>);

impl LuaEventSource {
    /// One that is open.
    pub fn new(source: EventSource) -> LuaEventSource {
        LuaEventSource(Turns::new(source))
    }
}

impl UserData for LuaEventSource {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_async_method("recv", |lua, this, ()| async move {
            let taken = this.0.take();
            drop(this);
            let mut source = taken.ok_or_else(|| mlua::Error::runtime("another one receives these events"))?;
            let event = wait(&lua, "events:recv", FOREVER, source.recv()).await?.map_err(mlua::Error::runtime)?;
            event.map(|event| table(&lua, event)).transpose()
        });
    }
}

fn table(lua: &Lua, event: ServerEvent) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(0, 4)?;
    table.raw_set("event", event.event)?;
    table.raw_set("data", event.data)?;
    table.raw_set("id", event.id)?;
    table.raw_set("retry", event.retry_ms)?;
    Ok(table)
}

/// What the manual says of it.
pub(crate) const TYPE: Type = Type {
    name: "EventSource",
    prefix: "events",
    doc: "What `request:events` returns first: server-sent events.",
    members: &[Member {
        name: "events:recv",
        signature: "() -> {event, data, id, retry} or nil",
        doc: "Waits for the next event, at most 16 MiB; nil when the server is done. `event` is `message` where the server names \
              none, `id` the last one it gave, `retry` the milliseconds after which it wants to be asked again. Nobody asks \
              again by itself.",
        proof: Test("testing/e2e/tests/http_scripts.rs::scripts_read_server_sent_events"),
    }],
};
