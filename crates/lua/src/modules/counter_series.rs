//! `kumo.counter_series`: sums over the last stretches of time, shared by all states.

use crate::api::{Member, Module, Proof::Example, Type, function};
use crate::convert;
use crate::modules::memoize::commons;
use crate::series::Series;
use config::{CounterSeriesOptions, Duration};
use mlua::{Lua, UserData, UserDataMethods, Value};
use std::sync::Arc;
use std::time::Instant;

/// The module.
pub(crate) const COUNTER_SERIES: Module = Module {
    name: "kumo.counter_series",
    doc: "Counters that forget: sums over the last stretches of time.",
    functions: &[&[function!(
        "kumo.counter_series",
        "define",
        "{name, num_buckets, bucket_size, initial_value = 0} -> Series",
        "The series of that name, which all states share; another shape makes a new one. `bucket_size` is rounded up to whole \
         seconds.",
        Example(
            "local s = kumo.counter_series.define { name = 'doc', num_buckets = 5, bucket_size = '1m', initial_value = 2 } \
             local same = kumo.counter_series.define { name = 'doc', num_buckets = 5, bucket_size = '1m', initial_value = 2 } \
             same:increment(3) assert(s:sum() == 5) \
             assert(not pcall(kumo.counter_series.define, { name = 'doc', num_buckets = 0, bucket_size = 1 }))"
        ),
        define
    )]],
    types: &[TYPE],
};

fn define(lua: &Lua, options: Value) -> mlua::Result<LuaSeries> {
    let options: CounterSeriesOptions = convert::options("kumo.counter_series.define", &options)?;
    commons(lua)?.series.define(options).map(LuaSeries).map_err(mlua::Error::runtime)
}

/// The userdata.
struct LuaSeries(Arc<Series>);

impl UserData for LuaSeries {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("increment", |_, this, by: u64| {
            this.0.change(Instant::now(), |value| value.saturating_add(by));
            Ok(())
        });
        methods.add_method("delta", |_, this, by: i64| {
            this.0.change(Instant::now(), |value| value.saturating_add_signed(by));
            Ok(())
        });
        methods.add_method("observe", |_, this, seen: u64| {
            this.0.change(Instant::now(), |_| seen);
            Ok(())
        });
        methods.add_method("sum", |_, this, ()| Ok(this.0.sum(Instant::now(), None)));
        methods.add_method("sum_over", |_, this, span: Value| {
            let span: Duration = convert::options("series:sum_over", &span)?;
            Ok(this.0.sum(Instant::now(), Some(span.get())))
        });
    }
}

const TYPE: Type = Type {
    name: "Series",
    prefix: "series",
    doc: "What `kumo.counter_series.define` returns.",
    members: &[
        Member {
            name: "series:increment",
            signature: "(n)",
            doc: "Adds to the current bucket, which stays at the largest number once it is there.",
            proof: Example(
                "local s = kumo.counter_series.define { name = 'i', num_buckets = 2, bucket_size = 60 } \
                 s:increment(2) s:increment(3) assert(s:sum() == 5)",
            ),
        },
        Member {
            name: "series:delta",
            signature: "(n)",
            doc: "Adds to the current bucket what may be negative; it stays at 0 once it is there.",
            proof: Example(
                "local s = kumo.counter_series.define { name = 'd', num_buckets = 2, bucket_size = 60 } \
                 s:delta(3) s:delta(-1) assert(s:sum() == 2) s:delta(-9) assert(s:sum() == 0)",
            ),
        },
        Member {
            name: "series:observe",
            signature: "(n)",
            doc: "Sets the current bucket.",
            proof: Example(
                "local s = kumo.counter_series.define { name = 'o', num_buckets = 2, bucket_size = 60 } \
                 s:increment(9) s:observe(4) assert(s:sum() == 4)",
            ),
        },
        Member {
            name: "series:sum",
            signature: "() -> integer",
            doc: "The sum of all buckets.",
            proof: Example(
                "local s = kumo.counter_series.define { name = 's', num_buckets = 2, bucket_size = 60, initial_value = 7 } \
                 assert(s:sum() == 7)",
            ),
        },
        Member {
            name: "series:sum_over",
            signature: "(duration) -> integer",
            doc: "The sum of the buckets that reach into the last `duration`.",
            proof: Example(
                "local s = kumo.counter_series.define { name = 'so', num_buckets = 2, bucket_size = 60 } \
                 s:increment(1) assert(s:sum_over('30s') == 1 and s:sum_over(3600) == 1)",
            ),
        },
    ],
};
