//! `kumo.jsonl`: segments of JSON lines, written and tailed. In: options, records, filters. Out: batches of records. What
//! happens on disk is the jsonl crate's.

use crate::api::{Function, Member, Module, Proof::Example, Type, function};
use crate::convert;
use crate::files::beside;
use crate::types::jsonl::{LuaTailer, LuaWriter};
use config::{JsonlMultiTailerOptions, JsonlTailerOptions, JsonlWriterOptions};
use jsonl::{Tailer, Writer};
use mlua::{FromLua, Function as Filter, IntoLua, Lua, Table, Value};
use std::io;

/// The module.
pub(crate) const JSONL: Module = Module {
    name: "kumo.jsonl",
    doc: "Segments of JSON lines, compressed with zstd as log segments are: written, and followed while they are written.",
    functions: &[FUNCTIONS],
    types: &[WRITER, TAILER, BATCH],
};

const FUNCTIONS: &[Function] = &[
    function!(
        waits
        "kumo.jsonl",
        "new_writer",
        "{options} -> Writer",
        "Writes segments into a folder, which is made if it is missing.",
        Example(
            "local w <close> = kumo.jsonl.new_writer { log_dir = folder .. '/w', suffix = '.jsonl' } w:write_line '{}' \
             assert(kumo.fs.uncached_glob(folder .. '/w/*.jsonl')[1]) \
             assert(not pcall(kumo.jsonl.new_writer, { log_dri = folder }))"
        ),
        |lua: Lua, options: Value| async move {
            let options: JsonlWriterOptions = convert::options("kumo.jsonl.new_writer", &options)?;
            let writer = beside(&lua, move || Writer::open(options).map_err(io::Error::other)).await;
            writer.map(LuaWriter).map_err(mlua::Error::runtime)
        }
    ),
    function!(
        waits
        "kumo.jsonl",
        "new_tailer",
        "({options}, filter or nil) -> Tailer",
        "Follows the segments of a folder. With a filter, a function of a record, only those are given for which it returns true.",
        Example(
            "local w = kumo.jsonl.new_writer { log_dir = folder .. '/t' } for i = 1, 6 do w:write_record { n = i } end w:close() \
             local t = kumo.jsonl.new_tailer({ directory = folder .. '/t', max_batch_size = 3, max_batch_latency = '60s' }, \
               function(record) return record.n % 2 == 0 end) \
             for batch in t:batches() do local sum = 0 for _, r in ipairs(batch:records()) do sum = sum + r.n end assert(sum == 12) t:close() end \
             assert(not pcall(kumo.jsonl.new_tailer, { directory = folder .. '/none' }))"
        ),
        |lua: Lua, (options, filter): (Value, Option<Filter>)| async move {
            let options: JsonlTailerOptions = convert::options("kumo.jsonl.new_tailer", &options)?;
            open(&lua, vec![filter], false, move || Tailer::open(options)).await
        }
    ),
    function!(
        waits
        "kumo.jsonl",
        "new_multi_tailer",
        "{options} -> Tailer",
        "Follows the segments of a folder for several consumers, each with a `name`, bounds of its batches, a checkpoint and a \
         `filter` of its own. Every step gives a list of batches.",
        Example(
            "local w = kumo.jsonl.new_writer { log_dir = folder .. '/m' } for i = 1, 4 do w:write_record { n = i } end w:close() \
             local t = kumo.jsonl.new_multi_tailer { directory = folder .. '/m', consumers = { \
               { name = 'all', max_batch_size = 4, max_batch_latency = '60s' }, \
               { name = 'even', max_batch_size = 2, max_batch_latency = '60s', filter = function(r) return r.n % 2 == 0 end } } } \
             local seen = {} for batches in t:batches() do for _, batch in ipairs(batches) do seen[batch:consumer_name()] = #batch:records() end \
             if seen.all and seen.even then t:close() end end assert(seen.all == 4 and seen.even == 2)"
        ),
        new_multi_tailer
    ),
];

async fn new_multi_tailer(lua: Lua, given: Table) -> mlua::Result<LuaTailer> {
    let mut filters = Vec::new();
    let consumers = lua.create_table()?;
    for consumer in given.get::<Table>("consumers")?.sequence_values::<Table>() {
        let (consumer, filter) = convert::without(&lua, &consumer?, "filter")?;
        filters.push(Option::<Filter>::from_lua(filter, &lua)?);
        consumers.raw_push(consumer)?;
    }
    let (options, _) = convert::without(&lua, &given, "consumers")?;
    options.raw_set("consumers", consumers)?;
    let options: JsonlMultiTailerOptions = convert::options("kumo.jsonl.new_multi_tailer", &options.into_lua(&lua)?)?;
    open(&lua, filters, true, move || Tailer::open_multi(options)).await
}

async fn open(
    lua: &Lua,
    filters: Vec<Option<Filter>>,
    is_multi: bool,
    make: impl FnOnce() -> Result<Tailer, jsonl::JsonlError> + Send + 'static,
) -> mlua::Result<LuaTailer> {
    let tailer = beside(lua, move || make().map_err(io::Error::other)).await.map_err(mlua::Error::runtime)?;
    Ok(LuaTailer::new(tailer, filters, is_multi))
}

const WRITER: Type = Type {
    name: "Writer",
    prefix: "writer",
    doc: "What `kumo.jsonl.new_writer` returns. What was written can be tailed at once.",
    members: &[
        Member {
            name: "writer:write_line",
            signature: "(text)",
            doc: "Writes a line; its end is added where it is missing. One longer than `max_record_size` is an error.",
            proof: Example(
                "local w = kumo.jsonl.new_writer { log_dir = folder .. '/l' } w:write_line '{\"a\":1}' w:write_line '{\"a\":2}\\n' w:close() \
                 local t = kumo.jsonl.new_tailer { directory = folder .. '/l', max_batch_size = 2, max_batch_latency = '60s' } \
                 for batch in t:batches() do assert(batch:records()[2].a == 2) t:close() end",
            ),
        },
        Member {
            name: "writer:write_record",
            signature: "(value)",
            doc: "Writes a value as JSON on a line of its own.",
            proof: Example(
                "local w = kumo.jsonl.new_writer { log_dir = folder .. '/r' } w:write_record { a = { 1, 'x' } } w:close() \
                 local t = kumo.jsonl.new_tailer { directory = folder .. '/r', max_batch_size = 1 } \
                 for batch in t:batches() do assert(batch:records()[1].a[2] == 'x') t:close() end \
                 assert(not pcall(w.write_record, w, print))",
            ),
        },
        Member {
            name: "writer:close",
            signature: "()",
            doc: "Finishes the segment, which is made read-only. Nothing can be written after.",
            proof: Example(
                "local w = kumo.jsonl.new_writer { log_dir = folder .. '/c' } w:write_line '{}' w:close() \
                 local name = kumo.fs.uncached_glob(folder .. '/c/*')[1] assert(kumo.fs.metadata_for_path(name).readonly) \
                 assert(not pcall(w.write_line, w, '{}'))",
            ),
        },
    ],
};

const TAILER: Type = Type {
    name: "Tailer",
    prefix: "tailer",
    doc: "What `kumo.jsonl.new_tailer` and `new_multi_tailer` return.",
    members: &[
        Member {
            name: "tailer:batches",
            signature: "() -> iterator",
            doc: "Goes through the batches as they come, of a multi tailer through lists of them, and waits for more; ends once the tailer \
                  is closed.",
            proof: Example(
                "local w = kumo.jsonl.new_writer { log_dir = folder .. '/b' } for i = 1, 5 do w:write_record { n = i } end w:close() \
                 local t, sizes = kumo.jsonl.new_tailer { directory = folder .. '/b', max_batch_size = 2, max_batch_latency = '10ms' }, {} \
                 for batch in t:batches() do sizes[#sizes + 1] = #batch:records() if sizes[3] then t:close() end end \
                 assert(table.concat(sizes, ',') == '2,2,1')",
            ),
        },
        Member {
            name: "tailer:close",
            signature: "()",
            doc: "Ends it; who waits for a batch gets none. What was not committed is given again another time.",
            proof: Example(
                "kumo.jsonl.new_writer({ log_dir = folder .. '/x' }):close() local t = kumo.jsonl.new_tailer { directory = folder .. '/x' } t:close() \
                 for batch in t:batches() do error 'a batch' end",
            ),
        },
    ],
};

const BATCH: Type = Type {
    name: "LogBatch",
    prefix: "batch",
    doc: "What the batches of a tailer are.",
    members: &[
        Member {
            name: "batch:records",
            signature: "() -> list",
            doc: "Its records; empty once it was committed.",
            proof: Example(BATCHES),
        },
        Member {
            name: "batch:iter_records",
            signature: "() -> iterator",
            doc: "Goes through its records, each made when it is its turn.",
            proof: Example(BATCHES),
        },
        Member {
            name: "batch:consumer_name",
            signature: "() -> string",
            doc: "Whose it is: `default` where there is one consumer; empty once it was committed.",
            proof: Example(BATCHES),
        },
        Member {
            name: "batch:commit",
            signature: "()",
            doc: "Remembers, where the tailer has a `checkpoint_name`, that its records need not be given again. A second time it is an \
                  error.",
            proof: Example(BATCHES),
        },
    ],
};

const BATCHES: &str = "local w = kumo.jsonl.new_writer { log_dir = folder .. '/k' } for i = 1, 3 do w:write_record { n = i } end w:close() \
    local function tail(size) \
      return kumo.jsonl.new_tailer { directory = folder .. '/k', max_batch_size = size, max_batch_latency = '60s', checkpoint_name = 'me' } \
    end \
    local t = tail(2) \
    for batch in t:batches() do \
      local sum = 0 for record in batch:iter_records() do sum = sum + record.n end assert(sum == 3 and #batch:records() == 2) \
      assert(batch:consumer_name() == 'default') batch:commit() \
      assert(#batch:records() == 0 and batch:consumer_name() == '' and not pcall(batch.commit, batch)) t:close() \
    end \
    t = tail(1) for batch in t:batches() do assert(batch:records()[1].n == 3) t:close() end";
