//! `WebSocket` of `kumo.http`.

use crate::api::{Member, Proof::Test, Type};
use crate::turns::{Turn, Turns};
use crate::waiting::{FOREVER, wait};
use mlua::{Lua, LuaString, UserData, UserDataMethods};
use std::time::Duration;
use web::WebSocket;

/// The userdata.
pub(crate) struct LuaWebSocket(Turns<WebSocket>);

impl LuaWebSocket {
    /// One that is open.
    pub fn new(socket: WebSocket) -> LuaWebSocket {
        LuaWebSocket(Turns::new(socket))
    }
}

impl UserData for LuaWebSocket {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_async_method("recv", |lua, this, ()| async move {
            let mut socket = turn(&this)?;
            drop(this);
            let message = wait(&lua, "websocket:recv", FOREVER, socket.recv()).await?.map_err(mlua::Error::runtime)?;
            message.map(|message| lua.create_string(message)).transpose()
        });
        methods.add_async_method("recv_batch", |lua, this, time: mlua::Value| async move {
            let socket = turn(&this)?;
            drop(this);
            let time: config::Duration = crate::convert::options("websocket:recv_batch", &time)?;
            recv_batch(&lua, socket, time.get()).await
        });
    }
}

fn turn(socket: &LuaWebSocket) -> mlua::Result<Turn<WebSocket>> {
    socket.0.take().ok_or_else(|| mlua::Error::runtime("another one receives from this websocket"))
}

async fn recv_batch(lua: &Lua, mut socket: Turn<WebSocket>, time: Duration) -> mlua::Result<Vec<LuaString>> {
    let batch =
        wait(lua, "websocket:recv_batch", FOREVER, socket.recv_batch(time)).await?.map_err(mlua::Error::runtime)?;
    let batch = batch.ok_or_else(|| mlua::Error::runtime("websocket closed"))?;
    batch.into_iter().map(|message| lua.create_string(message)).collect()
}

const READ: &str = "testing/e2e/tests/http_scripts.rs::scripts_read_websockets";

/// What the manual says of it.
pub(crate) const TYPE: Type = Type {
    name: "WebSocket",
    prefix: "websocket",
    doc: "What `kumo.http.connect_websocket` returns first.",
    members: &[
        Member {
            name: "websocket:recv",
            signature: "() -> string or nil",
            doc: "Waits for the next message, text or binary, at most 16 MiB; nil when the server is done.",
            proof: Test(READ),
        },
        Member {
            name: "websocket:recv_batch",
            signature: "(duration) -> list of strings",
            doc: "The messages that come within that time, at most 1000; `websocket closed` is the error when none came and the \
                  server is done.",
            proof: Test(READ),
        },
    ],
};
