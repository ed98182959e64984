//! `kumo.mpsc`: queues of values between scripts. Many send, one receives.

use crate::api::{Member, Module, Proof::Example, Type, function};
use crate::error::of_method;
use crate::modules::memoize::commons;
use crate::mpsc::Channel;
use crate::stored::Stored;
use crate::turns::Turn;
use crate::waiting::{FOREVER, wait};
use mlua::{Lua, UserData, UserDataMethods, UserDataRef, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::Receiver;
use tokio::sync::mpsc::error::TrySendError;

/// The module.
pub(crate) const MPSC: Module = Module {
    name: "kumo.mpsc",
    doc: "Queues of values between scripts, in this process. Many send, one receives.",
    functions: &[&[function!(
        "kumo.mpsc",
        "define",
        "(name, limit or nil) -> Queue",
        "The queue of that name, which all states share. The first call says how many values it holds; without a limit it \
         holds a million.",
        Example(
            "local q = kumo.mpsc.define('doc', 1) assert(q:try_send { a = 1 } and not q:try_send(2)) \
             assert(kumo.mpsc.define('doc', 99):recv().a == 1)"
        ),
        define
    )]],
    types: &[TYPE],
};

fn define(lua: &Lua, (name, limit): (String, Option<usize>)) -> mlua::Result<Queue> {
    if limit == Some(0) {
        return Err(mlua::Error::runtime("limit 0: expected 1 or more, or nil"));
    }
    commons(lua)?.channels.define(name, limit).map(Queue).map_err(mlua::Error::runtime)
}

/// The userdata.
struct Queue(Arc<Channel>);

impl UserData for Queue {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_async_method("send", |lua, this, value: Value| send(lua, this, value, FOREVER));
        methods.add_async_method("send_timeout", |lua, this, (value, seconds): (Value, f64)| async move {
            let wrong = |_| mlua::Error::runtime(format!("queue:send_timeout {seconds}: expected seconds, 0 or more"));
            let longest = Duration::try_from_secs_f64(seconds).map_err(wrong)?;
            send(lua, this, value, longest).await
        });
        methods.add_method("try_send", |_, this, value: Value| {
            let sender = this.0.sender().ok_or_else(closed)?;
            let value = Stored::take(&value).map_err(|error| of_method("queue:try_send", error))?;
            match sender.try_send(value) {
                Ok(()) => Ok(true),
                Err(TrySendError::Full(_)) => Ok(false),
                Err(TrySendError::Closed(_)) => Err(closed()),
            }
        });
        methods.add_async_method("recv", |lua, this, ()| async move {
            let mut turn = turn(&this)?;
            let value = wait(&lua, "queue:recv", FOREVER, turn.recv()).await?;
            value.unwrap_or(Stored::Nil).give(&lua)
        });
        methods.add_method("try_recv", |lua, this, ()| turn(this)?.try_recv().unwrap_or(Stored::Nil).give(lua));
        methods.add_async_method("recv_many", |lua, this, limit: usize| async move {
            let mut turn = turn(&this)?;
            let mut values = Vec::new();
            wait(&lua, "queue:recv_many", FOREVER, turn.recv_many(&mut values, limit.max(1))).await?;
            let values = values.iter().map(|value| value.give(&lua)).collect::<mlua::Result<Vec<_>>>()?;
            Ok((!values.is_empty()).then_some(values))
        });
        methods.add_method("close", |_, this, ()| {
            this.0.close();
            Ok(())
        });
        methods.add_method("is_closed", |_, this, ()| Ok(this.0.sender().is_none()));
        methods.add_method("is_empty", |_, this, ()| Ok(turn(this)?.is_empty()));
        methods.add_method("len", |_, this, ()| Ok(turn(this)?.len()));
    }
}

fn turn(queue: &Queue) -> mlua::Result<Turn<Receiver<Stored>>> {
    queue.0.turn().map_err(mlua::Error::runtime)
}

async fn send(lua: Lua, this: UserDataRef<Queue>, value: Value, longest: Duration) -> mlua::Result<()> {
    let channel = this.0.clone();
    drop(this);
    let sender = channel.sender().ok_or_else(closed)?;
    let value = Stored::take(&value).map_err(|error| of_method("queue:send", error))?;
    // Most often there is room, and nobody has to wait.
    let value = match sender.try_send(value) {
        Ok(()) => return Ok(()),
        Err(TrySendError::Closed(_)) => return Err(closed()),
        Err(TrySendError::Full(value)) => value,
    };
    let room = async {
        tokio::select! {
            sent = sender.send(value) => sent.map_err(|_| closed()),
            () = channel.closed() => Err(closed()),
        }
    };
    wait(&lua, "queue:send", longest, room).await?
}

fn closed() -> mlua::Error {
    mlua::Error::runtime("the queue was closed")
}

const TYPE: Type = Type {
    name: "Queue",
    prefix: "queue",
    doc: "What `kumo.mpsc.define` returns. Who calls a method that receives while another does gets an error.",
    members: &[
        Member {
            name: "queue:send",
            signature: "(value)",
            doc: "Puts a value in, and waits while there is no room; an error once the queue is closed, also while it waits.",
            proof: Example(
                "local q = kumo.mpsc.define('send', 2) q:send('a') q:send { 'b' } assert(q:recv() == 'a' and q:recv()[1] == 'b') \
                 q:close() assert(not pcall(q.send, q, 'c'))",
            ),
        },
        Member {
            name: "queue:send_timeout",
            signature: "(value, seconds)",
            doc: "As `send`; an error when there is no room within that time.",
            proof: Example(
                "local q = kumo.mpsc.define('timeout', 1) q:send_timeout('a', 1) \
                 assert(not pcall(q.send_timeout, q, 'b', 0.01) and q:len() == 1)",
            ),
        },
        Member {
            name: "queue:try_send",
            signature: "(value) -> boolean",
            doc: "Puts a value in if there is room.",
            proof: Example("local q = kumo.mpsc.define('try', 1) assert(q:try_send(1) and not q:try_send(2))"),
        },
        Member {
            name: "queue:recv",
            signature: "() -> value or nil",
            doc: "Takes the next value out, and waits for one; nil once the queue is closed and empty.",
            proof: Example(
                "local q = kumo.mpsc.define('recv', 2) q:send(1) q:close() assert(q:recv() == 1 and q:recv() == nil)",
            ),
        },
        Member {
            name: "queue:try_recv",
            signature: "() -> value or nil",
            doc: "Takes the next value out if there is one.",
            proof: Example(
                "local q = kumo.mpsc.define('tryr', 1) assert(q:try_recv() == nil) q:send(1) assert(q:try_recv() == 1)",
            ),
        },
        Member {
            name: "queue:recv_many",
            signature: "(limit) -> list or nil",
            doc: "Takes up to `limit` values out, and waits for the first; nil once the queue is closed and empty.",
            proof: Example(
                "local q = kumo.mpsc.define('many', 3) q:send(1) q:send(2) q:send(3) \
                 assert(#q:recv_many(2) == 2 and q:recv_many(2)[1] == 3) q:close() assert(q:recv_many(1) == nil)",
            ),
        },
        Member {
            name: "queue:close",
            signature: "()",
            doc: "Nothing goes in any more; what is in there still comes out.",
            proof: Example(
                "local q = kumo.mpsc.define('close', 1) q:close() q:close() assert(not pcall(q.try_send, q, 1))",
            ),
        },
        Member {
            name: "queue:is_closed",
            signature: "() -> boolean",
            doc: "True once it was closed.",
            proof: Example(
                "local q = kumo.mpsc.define('isc', 1) assert(not q:is_closed()) q:close() assert(q:is_closed())",
            ),
        },
        Member {
            name: "queue:is_empty",
            signature: "() -> boolean",
            doc: "True when no value is in there.",
            proof: Example(
                "local q = kumo.mpsc.define('ise', 1) assert(q:is_empty()) q:send(1) assert(not q:is_empty())",
            ),
        },
        Member {
            name: "queue:len",
            signature: "() -> integer",
            doc: "How many values are in there.",
            proof: Example("local q = kumo.mpsc.define('len', 2) q:send(1) q:send(1) assert(q:len() == 2)"),
        },
    ],
};
