//! `WebSocket` of `kumo.http`.

use crate::api::{Member, Proof::Test, Type};
use crate::waiting::{FOREVER, wait};
use mlua::{Lua, LuaString, UserData, UserDataMethods};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use web::WebSocket;

/// The userdata.
pub(crate) struct LuaWebSocket(Arc<Mutex<WebSocket>>);

impl LuaWebSocket {
    /// One that is open.
    pub fn new(socket: WebSocket) -> LuaWebSocket {
        LuaWebSocket(Arc::new(Mutex::new(socket)))
    }
}

impl UserData for LuaWebSocket {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_async_method("recv", |lua, this, ()| async move {
            let socket = this.0.clone();
            drop(this);
            let received = async { socket.lock().await.recv().await };
            let message = wait(&lua, "websocket:recv", FOREVER, received).await?.map_err(mlua::Error::runtime)?;
            message.map(|message| lua.create_string(message)).transpose()
        });
        methods.add_async_method("recv_batch", |lua, this, time: mlua::Value| async move {
            let socket = this.0.clone();
            drop(this);
            let time: config::Duration = crate::convert::options("websocket:recv_batch", &time)?;
            recv_batch(&lua, &socket, time.get()).await
        });
    }
}

async fn recv_batch(lua: &Lua, socket: &Mutex<WebSocket>, time: Duration) -> mlua::Result<Vec<LuaString>> {
    let received = async { socket.lock().await.recv_batch(time).await };
    let batch = wait(lua, "websocket:recv_batch", FOREVER, received).await?.map_err(mlua::Error::runtime)?;
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
