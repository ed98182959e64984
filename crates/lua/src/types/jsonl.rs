//! `Writer`, `Tailer` and `LogBatch` of `kumo.jsonl`. Writing and tailing are the jsonl crate's; filters are asked here.

use crate::convert;
use crate::turns::{Turn, Turns};
use crate::waiting::{FOREVER, wait};
use jsonl::{Batch, Closer, JsonlError, Step, Tailer, Writer};
use mlua::{Function, IntoLua, Lua, LuaString, MetaMethod, MultiValue, UserData, UserDataMethods, Value};

/// The userdata.
pub(crate) struct LuaWriter(pub Writer);

impl UserData for LuaWriter {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_async_method("write_line", |lua, this, line: LuaString| async move {
            let line = line.as_bytes().to_vec();
            wait(&lua, "writer:write_line", FOREVER, this.0.write_line(line)).await?.map_err(failed)
        });
        methods.add_async_method("write_record", |lua, this, record: Value| async move {
            let record = convert::to_json(&lua, &record)?;
            wait(&lua, "writer:write_record", FOREVER, this.0.write_record(&record)).await?.map_err(failed)
        });
        methods.add_async_method("close", |lua, this, ()| async move { close(&lua, &this.0).await });
        methods
            .add_async_meta_method(MetaMethod::Close, |lua, this, _: Value| async move { close(&lua, &this.0).await });
    }
}

async fn close(lua: &Lua, writer: &Writer) -> mlua::Result<()> {
    wait(lua, "writer:close", FOREVER, writer.close()).await?.map_err(failed)
}

/// The userdata.
pub(crate) struct LuaTailer {
    tailing: Turns<Tailing>,
    closer: Closer,
}

/// A tailer and who keeps what.
struct Tailing {
    tailer: Tailer,
    /// Of each consumer, where it has one.
    filters: Vec<Option<Function>>,
    /// Steps give lists of batches.
    is_multi: bool,
}

impl LuaTailer {
    /// A tailer whose consumers have these filters.
    pub fn new(tailer: Tailer, filters: Vec<Option<Function>>, is_multi: bool) -> LuaTailer {
        let closer = tailer.closer();
        LuaTailer { tailing: Turns::new(Tailing { tailer, filters, is_multi }), closer }
    }
}

impl UserData for LuaTailer {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("batches", |lua, this, ()| {
            let tailing = this.tailing.clone();
            lua.create_async_function(move |lua, _: MultiValue| {
                let tailing = tailing.clone();
                async move {
                    let turn = tailing.take();
                    turn.ok_or_else(|| mlua::Error::runtime("another one waits for batches"))?.next(&lua).await
                }
            })
        });
        methods.add_method("close", |_, this, ()| {
            this.closer.close();
            Ok(())
        });
    }
}

impl Tailing {
    /// The batch or batches that are ready next; nil once it was closed.
    async fn next(&mut self, lua: &Lua) -> mlua::Result<Value> {
        loop {
            let step = wait(lua, "tailer:batches", FOREVER, self.tailer.step()).await?;
            let batches = match step.map_err(failed)? {
                Step::Closed => return Ok(Value::Nil),
                Step::Record(offered) => {
                    let kept = kept(lua, &self.filters, &offered.record, offered.consumers).await?;
                    self.tailer.decide(&kept);
                    continue;
                }
                Step::Batches(batches) => batches,
            };
            let mut batches = batches.into_iter().map(|batch| LuaBatch(Turns::new(batch)));
            return match (self.is_multi, batches.next()) {
                (false, Some(only)) => only.into_lua(lua),
                (_, first) => first.into_iter().chain(batches).collect::<Vec<_>>().into_lua(lua),
            };
        }
    }
}

/// The consumers that keep a record.
async fn kept(
    lua: &Lua,
    filters: &[Option<Function>],
    record: &serde_json::Value,
    consumers: Vec<usize>,
) -> mlua::Result<Vec<usize>> {
    let mut kept = Vec::with_capacity(consumers.len());
    for consumer in consumers {
        let keeps = match filters.get(consumer).and_then(Option::as_ref) {
            None => true,
            Some(filter) => filter.call_async(convert::to_lua(lua, record)?).await?,
        };
        if keeps {
            kept.push(consumer);
        }
    }
    Ok(kept)
}

/// The userdata.
struct LuaBatch(Turns<Batch>);

impl LuaBatch {
    fn batch(&self) -> mlua::Result<Turn<Batch>> {
        self.0.take().ok_or_else(|| mlua::Error::runtime("batch: it is being committed"))
    }
}

impl UserData for LuaBatch {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("records", |lua, this, ()| {
            let batch = this.batch()?;
            batch.records().iter().map(|record| convert::to_lua(lua, record)).collect::<mlua::Result<Vec<_>>>()
        });
        methods.add_method("iter_records", |lua, this, ()| {
            let mut records = this.batch()?.records().to_vec().into_iter();
            lua.create_function_mut(move |lua, _: MultiValue| {
                records.next().map_or(Ok(Value::Nil), |record| convert::to_lua(lua, &record))
            })
        });
        methods.add_method("consumer_name", |_, this, ()| Ok(this.batch()?.consumer_name().to_owned()));
        methods.add_async_method("commit", |lua, this, ()| async move {
            let mut batch = this.batch()?;
            drop(this);
            wait(&lua, "batch:commit", FOREVER, batch.commit()).await?.map_err(failed)
        });
    }
}

fn failed(error: JsonlError) -> mlua::Error {
    mlua::Error::runtime(error)
}
